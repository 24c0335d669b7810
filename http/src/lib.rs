//! Serving HTTP within bounds, for the operator and for tasks.
//!
//! Whoever can reach a port may open connections and be silent on them. So a
//! request's head must be whole within the idle time, between two requests too,
//! and connections are bounded: one more takes the place of the one that has
//! waited longest, so a probe is answered however many are idle. Answers under
//! way, event streams among them, may last. A body is bounded in bytes and time
//! by whoever reads it, with [`read_body`]. One task a connection.

mod answering;
mod places;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use answering::Answering;
use places::{Place, Places};

/// Pause after a connection could not be accepted, mostly for want of files.
const PAUSE: Duration = Duration::from_millis(100);
/// Most bytes of a request's head, and of an answer that its client does not take.
const BUFFER_BYTES: usize = 16 * 1024;

/// What clients may take of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest silence of a client that is owed no answer, and longest time for a request's head.
    pub idle: Duration,
    /// Connections at once, at least one.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(30), connections: 128 }
    }
}

/// Who has a place; a connection learns by the end of its sender that it has lost its own.
type Table = Arc<Mutex<Places<oneshot::Sender<()>>>>;

/// Serves connections for ever.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits) {
    let table: Table = Arc::new(Mutex::new(Places::new(limits.connections)));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (held, lost) = oneshot::channel();
        let place = table.lock().take(held);
        tokio::spawn(connection(stream, router.clone(), limits.idle, Arc::clone(&table), place, lost));
    }
}

/// One connection, until it ends or loses its place.
async fn connection(stream: TcpStream, router: Router, idle: Duration, table: Table, place: Place, lost: oneshot::Receiver<()>) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        let answering = Answering::begin(&table, place);
        let answer = router.call(request);
        async move { answer.await.map(|response| response.map(|body| answering.with(body))) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(BUFFER_BYTES);
    tokio::select! {
        ended = builder.serve_connection(TokioIo::new(stream), service) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        }
        _ = lost => tracing::debug!("a connection made room for another"),
    }
    table.lock().leave(place);
}

/// A request's body, or the answer to one that is too large or comes too slowly.
pub async fn read_body(body: Body, most: usize, within: Duration) -> Result<Bytes, Box<Response>> {
    let refused = |code: StatusCode, text: String| Err(Box::new((code, text).into_response()));
    match tokio::time::timeout(within, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => refused(StatusCode::PAYLOAD_TOO_LARGE, format!("a body of at most {most} bytes is read")),
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {within:?}")),
    }
}
