//! The operator's real binary as a process, as a Deployment would run it.
//!
//! It listens on a port of its own choosing, which its first log line names.
//! The process ends with its handle. Which rights it has is the kubeconfig's
//! matter. Knows nothing of the operator's library.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_testkit::process::{self, Guarded};

use crate::wait::{GENEROUS, eventually};

/// Longest wait for one answer of its HTTP interface.
const ANSWER: Duration = Duration::from_secs(20);

/// A running operator.
pub struct OperatorProcess {
    process: Guarded,
    address: String,
    http: reqwest::Client,
}

impl OperatorProcess {
    /// Starts `<binary> run` with these arguments; it listens when this returns, and may not have asked the API server anything yet.
    pub async fn start(binary: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<OperatorProcess> {
        let mut command = Command::new(binary);
        command.args(["run", "--metrics-address", "127.0.0.1:0", "--log-format", "json"]).args(arguments);
        command.env("KUBECONFIG", kubeconfig).env_remove("KUBERNETES_SERVICE_HOST");
        let process = Guarded::spawn("weir-operator", command)?;
        let stderr = process.stderr.clone();
        let told = tokio::task::spawn_blocking(move || {
            stderr.wait_for("the line with its address", GENEROUS, |line| line.contains("metrics and health"))
        });
        let line: Value = serde_json::from_str(&told.await.context("waiting for the operator")??).context("a log line is JSON")?;
        let address = line["address"].as_str().context("the line names no address")?.to_owned();
        Ok(OperatorProcess { process, address, http: reqwest::Client::builder().timeout(ANSWER).no_proxy().build()? })
    }

    /// What it says at a path, with the status code.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let answer = self.http.get(format!("http://{}{path}", self.address)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// The metrics of the operator itself, without those of jobs: the first piece of the text.
    pub async fn own_metrics(&self) -> Result<String> {
        let mut answer = self.http.get(format!("http://{}/metrics", self.address)).send().await?;
        let mut text = Vec::new();
        while !contains(&text, b"weir_streamingjob_") {
            let Some(piece) = answer.chunk().await? else { break };
            text.extend_from_slice(&piece);
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Waits until `/readyz` says so.
    pub async fn until_ready(&self) -> Result<()> {
        eventually("the operator to be ready", GENEROUS, || async {
            let (code, text) = self.get("/readyz").await?;
            ensure!(code == 200, "/readyz says {code}: {text}");
            Ok(())
        })
        .await
    }

    /// Its log lines so far.
    pub fn log(&self) -> Vec<Value> {
        self.process.stderr.lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Bytes of memory that it holds now.
    pub fn resident_bytes(&self) -> Option<u64> {
        process::resident_bytes(self.process.id())
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// SIGSTOP: it stands still, and what it has sent is on its way.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Whether it leads, as its metrics say.
    pub async fn leads(&self) -> Result<bool> {
        let text = self.own_metrics().await?;
        Ok(sample(&text, "weir_leader").context("the metrics do not say who leads")? == 1.0)
    }

    /// Waits until it leads.
    pub async fn until_leading(&self) -> Result<()> {
        eventually("the operator to lead", GENEROUS, || async {
            ensure!(self.leads().await?, "it does not lead");
            Ok(())
        })
        .await
    }

    /// SIGTERM, and how it ended.
    pub async fn stop(self) -> Result<ExitStatus> {
        self.process.terminate()?;
        tokio::task::spawn_blocking(move || self.process.wait(GENEROUS)).await.context("waiting for the operator's end")?
    }
}

/// The value of a metric's line, whose name and labels are given as they are printed.
pub fn sample(text: &str, line: &str) -> Option<f64> {
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

/// Runs the binary to its end; what it printed on stdout.
pub async fn printed(binary: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(arguments);
    let finished = tokio::task::spawn_blocking(move || process::run("weir-operator", command, GENEROUS)).await??;
    ensure!(finished.status.success(), "weir-operator {arguments:?} ended with {}: {}", finished.status, finished.stderr);
    Ok(finished.stdout)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
