//! Asking a task how it is, and handing it live settings.
//!
//! The task's HTTP interface is asked with a short timeout and a bound on
//! concurrent questions; an answer must echo the epoch of its pod. Silence is
//! an answer too. Nothing here is retried: the next pass asks again.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use tokio::sync::Semaphore;
use weir_supervisor::answer::{self, Answer};

use crate::names::TASK_PORT;

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Questions under way at one time.
const CONCURRENT: usize = 64;
/// The longest answer that is read.
const ANSWER_BYTES: usize = 1 << 20;

/// Settings that reach a running task.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveSettings {
    /// The generation that they come from.
    pub generation: i64,
    /// `spec.stopTimeout`, ms.
    pub stop_timeout_ms: u64,
}

/// Why a task gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Silence {
    /// It has no address yet.
    #[error("the pod has no address")]
    NoAddress,
    /// Nothing came back, or no HTTP.
    #[error(transparent)]
    Unreachable(#[from] reqwest::Error),
    /// What came back is not an answer.
    #[error("{0}")]
    Unreadable(String),
}

/// Asks tasks.
#[derive(Clone)]
pub struct Poller {
    client: reqwest::Client,
    turns: Arc<Semaphore>,
}

impl Poller {
    /// A poller; never through a proxy, since pods are near.
    pub fn new() -> Result<Poller, reqwest::Error> {
        let client = reqwest::Client::builder().timeout(ANSWER_TIMEOUT).no_proxy().pool_max_idle_per_host(0).build()?;
        Ok(Poller { client, turns: Arc::new(Semaphore::new(CONCURRENT)) })
    }

    /// What the task of a pod says.
    pub async fn ask(&self, pod: &Pod) -> Result<Answer, Silence> {
        let url = url(pod, "v1/queries")?;
        let _turn = self.turns.acquire().await.map_err(|closed| Silence::Unreadable(closed.to_string()))?;
        let mut response = self.client.get(url).send().await?.error_for_status()?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > ANSWER_BYTES {
                return Err(Silence::Unreadable(format!("the answer is longer than {ANSWER_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        answer::parse(&body).map_err(|error| Silence::Unreadable(error.to_string()))
    }

    /// Hands live settings to the task of a pod.
    pub async fn configure(&self, pod: &Pod, token: &str, settings: &LiveSettings) -> Result<(), Silence> {
        let url = url(pod, "v1/config")?;
        let _turn = self.turns.acquire().await.map_err(|closed| Silence::Unreadable(closed.to_string()))?;
        self.client.put(url).bearer_auth(token).json(settings).send().await?.error_for_status()?;
        Ok(())
    }
}

fn url(pod: &Pod, path: &str) -> Result<String, Silence> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).filter(|ip| !ip.is_empty());
    let address = address.ok_or(Silence::NoAddress)?;
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    Ok(format!("http://{host}:{TASK_PORT}/{path}"))
}
