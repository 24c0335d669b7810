//! The operator's HTTP interface: `/metrics`, `/livez`, `/readyz`.
//!
//! Live means that the process answers. Ready means that it does its part:
//! a leader has its caches and hears from its watches, a follower has looked at
//! the lease lately. Others tell [`Health`] what they see; nothing is asked of
//! the API server here. What clients may take of the port is bounded by `weir_http`.

mod health;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::Instant;
use weir_http::Limits;

pub use health::{Health, LEASE_STALE_AFTER};

use crate::metrics::{CONTENT_TYPE, Metrics};

/// Where it listens by default.
pub const DEFAULT_ADDRESS: &str = "0.0.0.0:8081";

/// Why it does not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for metrics and health; choose another --metrics-address")]
pub struct ListenError {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

/// Something that is asked for its newest figures before each scrape.
pub type BeforeScrape = Arc<dyn Fn(&Metrics) + Send + Sync>;

struct Shared {
    metrics: Metrics,
    health: Arc<Health>,
    before_scrape: BeforeScrape,
}

/// Listens; the address tells the port where 0 was asked for.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let actual = listener.local_addr().map_err(failed)?;
    Ok((listener, actual))
}

/// Answers until dropped.
pub async fn serve(listener: TcpListener, metrics: Metrics, health: Arc<Health>, before_scrape: BeforeScrape) {
    weir_http::serve(listener, router(metrics, health, before_scrape), Limits::default()).await;
}

fn router(metrics: Metrics, health: Arc<Health>, before_scrape: BeforeScrape) -> Router {
    let shared = Arc::new(Shared { metrics, health, before_scrape });
    Router::new().route("/metrics", get(scrape)).route("/livez", get(async || "ok\n")).route("/readyz", get(ready)).with_state(shared)
}

async fn scrape(State(shared): State<Arc<Shared>>) -> Response {
    (shared.before_scrape)(&shared.metrics);
    let pieces = futures::stream::iter(shared.metrics.pieces().map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::from_stream(pieces)).into_response()
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match shared.health.ready(Instant::now()) {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}
