//! An S3 store: SeaweedFS, all of it in one process, which knows conditional puts and checks signatures.
//!
//! [`Store::start`] serves clients when it returns. [`Store::shared`] is one for all tests of a test binary; each test takes a place of its
//! own in the one bucket. [`faults`] is a proxy that stands before it and fails on purpose.

pub mod faults;
mod http;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::Guarded;
use crate::wait::GENEROUS;
use crate::{eventually, ports, scratch, setup};

pub const BUCKET: &str = "lake";
const KEY: &str = "weir-test-key";
const SECRET: &str = "weir-test-secret";

/// A store of this test, or of the whole test binary.
pub struct Store {
    port: u16,
    _folder: TempDir,
    process: Mutex<Option<Guarded>>,
}

impl Store {
    /// An empty store with a bucket.
    pub fn start() -> Result<Store> {
        let folder = scratch::folder("seaweedfs")?;
        let port = ports::reserve()?;
        let filer = ports::reserve()?;
        std::fs::write(folder.path().join("s3.json"), credentials()).context("writing s3.json")?;
        let mut command = Command::new(setup::seaweedfs_program()?.join("weed"));
        command.current_dir(folder.path()).args(["-logtostderr", "server", "-ip=127.0.0.1", "-dir=.", "-s3", "-s3.config=s3.json"]);
        command.args(["-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=100"]);
        // Other services that it would offer, and sockets in a shared folder.
        command.args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"]);
        command.arg(format!("-s3.port={port}")).arg(format!("-filer.port={filer}"));
        for other in ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port.grpc", "s3.port.grpc"] {
            command.arg(format!("-{other}={}", ports::reserve()?));
        }
        let process = Guarded::spawn("seaweedfs", command)?;
        let ready = eventually("SeaweedFS to store an object and to answer S3 clients", GENEROUS, || {
            let stored = http::ask(filer, "PUT", &format!("/buckets/{BUCKET}/ready"), b"yes").ok()?;
            let answered = http::ask(port, "GET", "/", b"").ok()?;
            (stored.status < 300 && answered.status == 403).then_some(())
        });
        if let Err(error) = ready {
            scratch::keep_log("seaweedfs", &process.output.lines());
            return Err(error);
        }
        Ok(Store { port, _folder: folder, process: Mutex::new(Some(process)) })
    }

    /// The one store of this test binary, started by the first test that asks and ended when the process exits.
    pub fn shared() -> &'static Store {
        static SHARED: OnceLock<Result<Store, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let store = Store::start().map_err(|error| format!("{error:#}"))?;
            scratch::at_exit(|| {
                if let Some(process) = SHARED.get().and_then(|shared| shared.as_ref().ok()?.process().take()) {
                    if scratch::a_thread_panicked() {
                        scratch::keep_log(process.name(), &process.output.lines());
                    }
                    drop(process);
                }
            });
            Ok(store)
        });
        shared.as_ref().unwrap_or_else(|error| panic!("the shared S3 store did not start: {error}"))
    }

    /// Where S3 clients reach it.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn process(&self) -> MutexGuard<'_, Option<Guarded>> {
        self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The environment of a client that reaches a store, or a proxy before it, at this port.
pub fn environment(port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
    ]
}

fn credentials() -> String {
    let identity = serde_json::json!({
        "name": "weir",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    });
    serde_json::json!({"identities": [identity]}).to_string()
}

/// No request of a test takes longer.
const REQUEST: Duration = Duration::from_secs(60);
