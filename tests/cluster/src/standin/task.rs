//! `weir task` of the stand-in: claims, then commits batch after batch until told otherwise.
//!
//! The order of a batch is the protocol's: look at the fence, plan, look again,
//! commit; what was planned by another is taken as it is. SIGTERM stops at a
//! batch boundary. All decisions of a batch are made from the control file read
//! just before it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use uuid::Uuid;
use weir_crds::exit::{ExitClass, ExitReport};

use super::arguments::TaskArguments;
use super::control::{End, Ending, Hang};
use super::http::{self, View};
use super::store::{Claim, Commit, Created, STORE_VARIABLE, Store};

/// How a process ends.
enum Outcome {
    Report(ExitReport, i32),
    Text(String, i32),
    Silent(i32),
    Panic,
}

/// Runs to the end; the exit code.
pub fn run(arguments: &TaskArguments) -> i32 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return 10;
        }
    };
    let outcome = runtime.block_on(attempt(arguments)).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        Outcome::Report(report(arguments, ExitClass::Retryable, "StandinFailed", &format!("{error:#}")), ExitClass::Retryable.code())
    });
    match outcome {
        Outcome::Report(report, code) => {
            eprintln!("{:?}: {}", report.class, report.reason);
            leave(&arguments.termination_log, &serde_json::to_string(&report).expect("a report is strings and numbers"), code)
        }
        Outcome::Text(text, code) => leave(&arguments.termination_log, &text, code),
        Outcome::Silent(code) => code,
        Outcome::Panic => panic!("the test asked for a panic"),
    }
}

fn leave(path: &Path, text: &str, code: i32) -> i32 {
    if let Err(error) = fs::write(path, text) {
        eprintln!("could not write {}: {error}", path.display());
    }
    code
}

fn report(arguments: &TaskArguments, class: ExitClass, reason: &str, message: &str) -> ExitReport {
    ExitReport { reason: reason.to_owned(), message: message.to_owned(), ..ExitReport::new(class, arguments.epoch) }
}

async fn attempt(arguments: &TaskArguments) -> Result<Outcome> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let manifest = Manifest::read(&arguments.files, &arguments.job, &arguments.task)?;
    let store = match std::env::var_os(STORE_VARIABLE) {
        Some(root) => Store::of_task(Path::new(&root), &arguments.namespace, &arguments.job, &arguments.task),
        None => Store::at(manifest.location(arguments)?),
    };
    store.prepare()?;
    let view = Arc::new(View::new(arguments.epoch, &manifest.queries));
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| format!("listening on {}", arguments.listen))?;
    tokio::spawn(http::serve(listener, Arc::clone(&view)));
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        stop.send_replace(true);
        // Kept, so that waiting for a change never ends by itself.
        std::future::pending::<()>().await;
    });
    let mut process = Process { arguments, store, view, stopped, instance: Uuid::new_v4(), batches: 0, last: None };
    process.live(&manifest.queries).await
}

struct Process<'a> {
    arguments: &'a TaskArguments,
    store: Store,
    view: Arc<View>,
    stopped: watch::Receiver<bool>,
    instance: Uuid,
    batches: u64,
    last: Option<u64>,
}

impl Process<'_> {
    async fn live(&mut self, queries: &[String]) -> Result<Outcome> {
        let epoch = self.arguments.epoch;
        let claim = Claim { job_uid: self.arguments.job_uid.clone(), instance: self.instance, pod_uid: self.arguments.pod_uid.clone() };
        if self.store.claim(epoch, &claim)? != Created::New || self.is_fenced()? {
            return self.fenced();
        }
        for (at, query) in queries.iter().enumerate() {
            self.view.identified(at, self.store.query_id(query)?);
        }
        let mut next = self.store.next_batch()?;
        self.last = next.checked_sub(1);
        loop {
            let control = self.store.read_control()?.of_epoch(epoch);
            self.view.follow(&control);
            if matches!(control.hang, Hang::Batches | Hang::Everything) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            if *self.stopped.borrow() {
                tokio::time::sleep(Duration::from_millis(control.stop_takes_ms)).await;
                return Ok(self.ended(ExitClass::Stopped, "Stopped", "stopped at a batch boundary"));
            }
            if let Some(End { after_batches, how }) = &control.end
                && self.batches >= *after_batches
            {
                return Ok(self.asked(how.clone()));
            }
            if control.input_available && control.commits {
                if !self.batch(next)? {
                    return self.fenced();
                }
                next += 1;
                self.view.committed(next - 1, now_ms(), &control);
            }
            let pause = tokio::time::sleep(Duration::from_millis(control.batch_interval_ms));
            tokio::select! {
                () = pause => {}
                _ = self.stopped.wait_for(|stopped| *stopped) => {}
            }
        }
    }

    /// One batch; false when a higher epoch owns the store.
    fn batch(&mut self, batch: u64) -> Result<bool> {
        let commit = Commit { batch, epoch: self.arguments.epoch, instance: self.instance, at_ms: now_ms() };
        if self.is_fenced()? {
            return Ok(false);
        }
        // What an earlier process planned is taken as it is, once the fence was looked at.
        self.store.plan(&commit)?;
        if self.is_fenced()? {
            return Ok(false);
        }
        if let Created::Existed(other) = self.store.commit(&commit)?
            && self.is_fenced()?
        {
            eprintln!("batch {batch} was committed under epoch {}", other.epoch);
            return Ok(false);
        }
        self.batches += 1;
        self.last = Some(batch);
        Ok(true)
    }

    fn is_fenced(&self) -> Result<bool> {
        Ok(self.store.highest_epoch()? > self.arguments.epoch)
    }

    fn fenced(&self) -> Result<Outcome> {
        let highest = self.store.highest_epoch()?;
        let text = format!("epoch {highest} owns the checkpoint");
        let base = report(self.arguments, ExitClass::Fenced, "Fenced", &text);
        Ok(Outcome::Report(ExitReport { highest_epoch_seen: Some(highest), batch: self.last, ..base }, ExitClass::Fenced.code()))
    }

    fn ended(&self, class: ExitClass, reason: &str, message: &str) -> Outcome {
        Outcome::Report(ExitReport { batch: self.last, ..report(self.arguments, class, reason, message) }, class.code())
    }

    fn asked(&self, how: Ending) -> Outcome {
        match how {
            Ending::Complete => self.ended(ExitClass::Completed, "Completed", "all queries ended"),
            Ending::Text { text, exit_code } => Outcome::Text(text, exit_code),
            Ending::Silent { exit_code } => Outcome::Silent(exit_code),
            Ending::Panic => Outcome::Panic,
            Ending::Report { class, reason, message, exit_code, query, source_version, highest_epoch_seen } => {
                let base = report(self.arguments, class, &reason, &message);
                let report = ExitReport { batch: self.last, query, source_version, highest_epoch_seen, ..base };
                Outcome::Report(report, exit_code.unwrap_or(class.code()))
            }
        }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The little that the stand-in reads of a job.
struct Manifest {
    queries: Vec<String>,
    explicit: Option<String>,
    root: Option<String>,
}

impl Manifest {
    fn read(files: &[PathBuf], job: &str, task: &str) -> Result<Self> {
        for file in files {
            let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            for document in serde_yaml_ng::Deserializer::from_str(&text) {
                let document: Value = serde::Deserialize::deserialize(document).with_context(|| format!("reading {}", file.display()))?;
                if document["kind"] == "StreamingJob" && document["metadata"]["name"] == job {
                    return Self::of(&document["spec"], task);
                }
            }
        }
        bail!("no file holds the job {job}")
    }

    fn of(spec: &Value, task: &str) -> Result<Self> {
        let tasks = spec["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = tasks.iter().find(|known| known["name"] == task).with_context(|| format!("the job has no task {task}"))?;
        let queries = found["queries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            queries: queries.iter().filter_map(|query| text(&query["name"])).collect(),
            explicit: queries.first().and_then(|query| text(&query["checkpointLocation"])),
            root: text(&spec["checkpointRoot"]),
        })
    }

    /// Folder of the first query's checkpoint.
    fn location(&self, arguments: &TaskArguments) -> Result<PathBuf> {
        let query = self.queries.first().context("the task has no queries")?;
        let derived = self
            .root
            .as_ref()
            .map(|root| [root, &arguments.namespace, &arguments.job, &arguments.task, query].map(String::as_str).join("/"));
        let location = self.explicit.clone().or(derived).context("the manifest names no checkpoint location")?;
        let path = location.strip_prefix("file://").unwrap_or(&location);
        if !path.starts_with('/') {
            bail!("{location} is no folder of this machine; set {STORE_VARIABLE}");
        }
        Ok(PathBuf::from(path))
    }
}
