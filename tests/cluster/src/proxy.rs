//! The fault layer for a process: an HTTP server between an operator's binary and the API server.
//!
//! What the process asks goes out through a client of the proxy's own, with its
//! credentials, under the rules of [`Faults`]. A request that a rule holds is
//! held here, also while the process stands still or after it has ended. Where
//! the layer says that a connection was reset, the process sees a 502.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, StatusCode, header};
use kube::Client;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use weir_testkit::scratch;

use crate::faults::Faults;

/// Headers that belong to one connection, or that each client sets itself.
const OWN_HEADERS: [HeaderName; 6] =
    [header::AUTHORIZATION, header::CONNECTION, header::CONTENT_LENGTH, header::HOST, header::TRANSFER_ENCODING, header::UPGRADE];

/// A proxy; it ends with its handle.
pub struct Proxy {
    /// What it does to calls.
    pub faults: Faults,
    folder: TempDir,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Listens on a port of its own and passes everything on with this configuration.
    pub async fn start(config: kube::Config) -> Result<Proxy> {
        let faults = Faults::new();
        let client = faults.client(config)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening for the proxy")?;
        let address = listener.local_addr()?;
        let folder = scratch::folder("proxy")?;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
            "current-context": "proxy",
        });
        std::fs::write(kubeconfig_in(folder.path()), kubeconfig.to_string()).context("writing the proxy's kubeconfig")?;
        let router = Router::new().fallback(forward).with_state(client);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the proxy ended");
            }
        });
        Ok(Proxy { faults, folder, task })
    }

    /// The kubeconfig that leads to it.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(self.folder.path())
    }
}

fn kubeconfig_in(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

async fn forward(State(client): State<Client>, request: Request) -> Response {
    match passed_on(client, request).await {
        Ok(answer) => answer,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

async fn passed_on(client: Client, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.context("reading the request")?;
    let address = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut sent = http::Request::builder().method(parts.method).uri(address).body(kube::client::Body::from(body.to_vec()))?;
    copy(&parts.headers, sent.headers_mut());
    let (parts, body) = client.send(sent).await?.into_parts();
    let mut answer = Response::builder().status(parts.status).body(Body::new(body))?;
    copy(&parts.headers, answer.headers_mut());
    Ok(answer)
}

fn copy(from: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in from.iter().filter(|(name, _)| !OWN_HEADERS.contains(name)) {
        to.append(name, value.clone());
    }
}
