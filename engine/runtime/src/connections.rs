//! Accepting connections of the HTTP interface.
//!
//! One task a connection. A connection on which no whole request head arrives
//! within the idle time is closed, between two requests too, so that forgotten
//! clients cannot use up the process's files. Answers under way, event streams
//! among them, may last.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

/// Longest silence of a client that is owed no answer.
pub const IDLE: Duration = Duration::from_secs(30);
/// Pause after a connection could not be accepted, mostly for want of files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections for ever.
pub async fn serve(listener: TcpListener, router: Router, idle: Duration) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(idle);
        tokio::spawn(async move {
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn idle_connections_are_closed_and_do_not_keep_others_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/livez", get(|| async { "ok" }));
        tokio::spawn(serve(listener, router, Duration::from_millis(300)));
        let mut idle = Vec::new();
        for _ in 0..200 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        // The server ends the connection once it has been silent: only then is all read.
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("ok"), "{answer}");
        for mut silent in idle {
            let mut rest = Vec::new();
            silent.read_to_end(&mut rest).await.unwrap();
        }
    }
}
