//! The task's HTTP interface: probes, metrics, queries, events, live settings.
//!
//! Read-only but for two calls: `PUT /v1/config` needs the bearer token that
//! the supervisor derived for this epoch, and `POST /v1/stop` exists only when
//! the listener is on loopback and is refused to web pages. Every answer about queries carries the epoch,
//! so that a poller can tell a predecessor's answer from its own task's.
//! Serving never touches a query's thread: it reads shared snapshots.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio_stream::wrappers::BroadcastStream;
use weir_core::progress::QueryEvent;
use weir_core::{Error, Result};
use weir_http::{Limits, read_body};

use crate::metrics::Metrics;
use crate::query::QueryState;
use crate::query::driver::StopRequest;

/// Largest body of `PUT /v1/config`, and how long it may take to come.
const CONFIG_BYTES: usize = 64 * 1024;
const CONFIG_TIME: Duration = Duration::from_secs(10);

/// What the interface serves.
#[derive(Clone)]
pub struct TaskView {
    /// The task's epoch.
    pub epoch: u64,
    /// The states of its queries.
    pub states: Vec<Arc<QueryState>>,
    /// The source of events.
    pub events: broadcast::Sender<QueryEvent>,
    /// Ends the task at batch boundaries.
    pub stop: watch::Sender<StopRequest>,
    /// The stop timeout, a live setting.
    pub stop_timeout: watch::Sender<Duration>,
    /// The live settings as last put.
    pub live: Arc<parking_lot::RwLock<LiveConfig>>,
    /// The token of `PUT /v1/config`.
    pub token: Option<String>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

/// Settings that reach a running task: those whose edit disrupts nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveConfig {
    /// The generation that the settings come from.
    pub generation: i64,
    /// `spec.stopTimeout`, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_timeout_ms: Option<u64>,
}

/// Serves until the process ends; returns the address once it listens.
pub async fn serve(address: SocketAddr, view: TaskView) -> Result<SocketAddr> {
    let failed = |e: std::io::Error| Error::retryable("HTTP_NOT_LISTENING", format!("could not listen on {address}")).with_source(e);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let router = router(view, bound.ip().is_loopback());
    tokio::spawn(weir_http::serve(listener, router, Limits::default()));
    Ok(bound)
}

fn router(view: TaskView, is_loopback: bool) -> Router {
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/queries", get(queries))
        .route("/v1/queries/{query}", get(query))
        .route("/v1/queries/{query}/progress", get(progress))
        .route("/v1/events", get(events))
        .route("/v1/config", put(configure));
    let router = if is_loopback { router.route("/v1/stop", post(stop)) } else { router };
    router.with_state(view)
}

async fn ready(State(view): State<TaskView>) -> Response {
    let waiting: Vec<String> = view.states.iter().map(|s| s.snapshot()).filter(|s| !s.is_started).map(|s| s.name).collect();
    if waiting.is_empty() {
        (StatusCode::OK, "ok").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("starting: {}", waiting.join(", "))).into_response()
    }
}

async fn metrics(State(view): State<TaskView>) -> Response {
    match view.metrics.render(&view.states) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn queries(State(view): State<TaskView>) -> Json<Value> {
    let queries: Vec<_> = view.states.iter().map(|state| state.snapshot()).collect();
    let generation = view.live.read().generation;
    Json(json!({"epoch": view.epoch, "generation": generation, "queries": queries}))
}

async fn query(State(view): State<TaskView>, Path(name): Path<String>) -> Response {
    found(&view, &name, |state| json!({"epoch": view.epoch, "query": state.snapshot()}))
}

async fn progress(State(view): State<TaskView>, Path(name): Path<String>) -> Response {
    found(&view, &name, |state| json!({"epoch": view.epoch, "recentProgress": state.recent()}))
}

fn found(view: &TaskView, name: &str, answer: impl FnOnce(&QueryState) -> Value) -> Response {
    let names: Vec<String> = view.states.iter().map(|state| state.snapshot().name).collect();
    match names.iter().position(|known| known == name) {
        Some(at) => Json(answer(&view.states[at])).into_response(),
        None => {
            let text = format!("there is no query {name}; the queries are {}", names.join(", "));
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

async fn events(State(view): State<TaskView>) -> Sse<impl Stream<Item = std::result::Result<Event, Infallible>>> {
    let stream = BroadcastStream::new(view.events.subscribe()).map(|received| {
        Ok(match received {
            Ok(event) => match Event::default().json_data(&event) {
                Ok(data) => data,
                Err(error) => Event::default().event("error").data(error.to_string()),
            },
            Err(lagged) => Event::default().event("dropped").data(lagged.to_string()),
        })
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn configure(State(view): State<TaskView>, headers: HeaderMap, body: Body) -> Response {
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).and_then(|v| v.strip_prefix("Bearer "));
    let is_allowed = match (&view.token, given) {
        (Some(token), Some(given)) => constant_time_equal(token.as_bytes(), given.as_bytes()),
        _ => false,
    };
    if !is_allowed {
        return (StatusCode::UNAUTHORIZED, "the bearer token of this task's epoch is needed").into_response();
    }
    let body = match read_body(body, CONFIG_BYTES, CONFIG_TIME).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    match serde_json::from_slice::<LiveConfig>(&body) {
        Ok(config) => {
            if let Some(ms) = config.stop_timeout_ms {
                view.stop_timeout.send_replace(Duration::from_millis(ms));
            }
            *view.live.write() = config;
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("not a live configuration: {error}")).into_response(),
    }
}

async fn stop(State(view): State<TaskView>, headers: HeaderMap) -> Response {
    if !is_from_this_machine(&headers) {
        let text = "only a program on this machine may stop the task: no Origin header, and the Host is a loopback address or localhost";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    view.stop.send_replace(StopRequest::AtBoundary);
    StatusCode::ACCEPTED.into_response()
}

/// Whether a request to a loopback address is no browser's on behalf of a web
/// page: a page of another origin sends `Origin`, one whose name was pointed at
/// this machine sends that name as its `Host`.
fn is_from_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    !headers.contains_key(header::ORIGIN) && host.is_some_and(is_loopback_host)
}

fn is_loopback_host(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() && !name.contains(':') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Compares without telling by its time how much was right.
fn constant_time_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (x, y)| differs | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_web_page_may_not_stop_a_task() {
        for host in ["127.0.0.1:4040", "127.0.0.1", "localhost:80", "LOCALHOST", "[::1]:4040", "[::1]", "127.9.9.9"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:4040", "10.0.0.1:80", "127.0.0.1.evil.example", "localhost.evil:1", "localhost:x"] {
            assert!(!is_loopback_host(host), "{host}");
        }
        let mut headers = HeaderMap::new();
        assert!(!is_from_this_machine(&headers));
        headers.insert(header::HOST, "127.0.0.1:4040".parse().unwrap());
        assert!(is_from_this_machine(&headers));
        headers.insert(header::ORIGIN, "null".parse().unwrap());
        assert!(!is_from_this_machine(&headers));
    }
}
