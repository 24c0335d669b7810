//! `weir task`: one attempt of one task under a given epoch.
//!
//! The entry point of a pod and of the local runner's child processes. Loads
//! the manifest, resolves the task's queries, runs them with the HTTP
//! interface beside, and leaves the exit report as a small JSON file.
//! Decides nothing about retries.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use uuid::Uuid;
use weir_connect::delta::memory::MERGED_ROW_BYTES;
use weir_core::progress::QueryEvent;
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, Result};
use weir_crds::exit::ExitReport;
use weir_runtime::http::{self, LiveConfig, TaskView};
use weir_runtime::lanes::STACK_BYTES;
use weir_runtime::memory::{self, MemoryBudget, TaskShape};
use weir_runtime::metrics::Metrics;
use weir_runtime::places::{self, Written};
use weir_runtime::query::driver::StopRequest;
use weir_runtime::query::{InputDefinition, QueryDefinition};
use weir_runtime::resolve::{self, AvailableNowRun, Surroundings};
use weir_runtime::task::failed;
use weir_runtime::{SystemClock, Task, TaskEnvironment};

use crate::arguments::{TaskArguments, triggers};
use crate::manifests::{self, Manifests};
use crate::outcome::{Code, Ended};
use crate::signals::Signals;

/// The token of `PUT /v1/config`; in the environment, since arguments are
/// visible to everybody on the machine.
pub const TOKEN_VARIABLE: &str = "WEIR_TASK_TOKEN";

/// Starts an event in the stream on stdout (RFC 7464).
pub const RECORD_SEPARATOR: char = '\u{1e}';

/// The runtime of commands that do I/O.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|e| Error::retryable("RUNTIME_NOT_STARTED", "could not start the async runtime").with_source(e))
}

/// Runs the attempt; the exit code is the report's.
pub fn run(arguments: TaskArguments) -> Ended {
    if let Some(parent) = arguments.die_with {
        crate::parent::die_with(parent)?;
    }
    let report = match prepare(&arguments) {
        Ok(prepared) => {
            let runtime = runtime()?;
            let report = runtime.block_on(attempt(&arguments, prepared));
            // A question to a broker that does not answer may still sit on a thread.
            runtime.shutdown_background();
            report
        }
        Err(error) => not_started(&error, arguments.epoch),
    };
    write_report(&arguments.termination_log, &report)?;
    Ok(Code(u8::try_from(report.class.code()).unwrap_or(1)))
}

/// The report of a task whose queries were not begun. What ends a query is told where it happens.
fn not_started(error: &Error, epoch: u64) -> ExitReport {
    tracing::error!(%error, "the task could not start");
    failed(error, epoch)
}

/// What an attempt runs with.
struct Prepared {
    environment: TaskEnvironment,
    definitions: Vec<QueryDefinition>,
    stop_timeout: Duration,
}

fn prepare(arguments: &TaskArguments) -> Result<Prepared> {
    let manifests = Manifests::load(&arguments.files, &arguments.parameters, triggers(arguments.available_now))?;
    let job = manifests.job(&arguments.namespace, &arguments.job)?;
    let temporary_root = std::env::temp_dir().join(format!("weir-{}", Uuid::new_v4()));
    let temporary_root = temporary_root.to_string_lossy();
    let lookup = |kind, name: &str| manifests.lookup(&arguments.namespace, kind, name, arguments.secrets_dir.as_deref());
    let around = Surroundings {
        namespace: &arguments.namespace,
        job: &arguments.job,
        lookup: &lookup,
        temporary_root: &temporary_root,
        available_now: if arguments.available_now { AvailableNowRun::EveryQuery } else { AvailableNowRun::AsWritten },
    };
    let definitions = resolve::task_queries(&job.spec, &arguments.task, around)?;
    let disk = Storage::new(Durability::PageCache);
    let written: Vec<_> = definitions.iter().map(|query| Written::by(format!("query {}", query.name), query, &disk)).collect();
    if let Some((at, error)) = places::conflicts(&written).into_iter().next() {
        return Err(error.context(format!("query {}", definitions[at].name)));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let environment = TaskEnvironment {
        job_uid: arguments.job_uid.clone(),
        namespace: arguments.namespace.clone(),
        job: arguments.job.clone(),
        task: arguments.task.clone(),
        epoch: arguments.epoch,
        instance: Uuid::new_v4(),
        pod_uid: arguments.pod_uid.clone(),
        adopt_checkpoint: arguments.adopt_checkpoint.or_else(|| manifests::adopted_epoch(job)),
        lanes: arguments.lanes.unwrap_or(processors),
        clock: Arc::new(SystemClock),
    };
    log_limits(&definitions, environment.lanes);
    Ok(Prepared { environment, definitions, stop_timeout: job.spec.stop_timeout.as_duration() })
}

async fn attempt(arguments: &TaskArguments, prepared: Prepared) -> ExitReport {
    let Prepared { environment, definitions, stop_timeout } = prepared;
    let epoch = environment.epoch;
    let budget = Arc::new(budget(&definitions, environment.lanes));
    let task = Task::new(environment, definitions);
    let (stop_timeout, stop_timeout_seen) = watch::channel(stop_timeout);
    let view = TaskView {
        epoch,
        states: task.states(),
        events: task.event_source(),
        stop: task.stopper(),
        stop_timeout,
        live: Arc::new(parking_lot::RwLock::new(LiveConfig::default())),
        token: std::env::var(TOKEN_VARIABLE).ok(),
        metrics: Arc::new(Metrics::new(budget)),
    };
    let over = Arc::new(Notify::new());
    let events = arguments.events.then(|| tokio::spawn(write_events(task.events(), Arc::clone(&over))));
    let stopper = task.stopper();
    match Signals::listen() {
        Ok(signals) => drop(tokio::spawn(obey(signals, stopper))),
        Err(error) => return not_started(&error, epoch),
    }
    match http::serve(arguments.listen, view).await {
        Ok(address) if arguments.events => write_event(&serde_json::json!({"event": "listening", "address": address})),
        Ok(address) => tracing::info!(%address, "the HTTP interface listens"),
        Err(error) => return not_started(&error, epoch),
    }
    let report = task.run(stop_timeout_seen).await;
    over.notify_one();
    if let Some(events) = events {
        // The writer ends once what is queued is written.
        let _ = events.await;
    }
    report
}

async fn obey(mut signals: Signals, stop: watch::Sender<StopRequest>) {
    signals.next().await;
    tracing::info!("stopping at the next batch boundary; a second signal ends at once");
    stop.send_replace(StopRequest::AtBoundary);
    signals.next().await;
    std::process::exit(i32::from(Code::INTERRUPTED.0));
}

/// Writes events until the task is over and all that is queued is written.
async fn write_events(mut events: broadcast::Receiver<QueryEvent>, over: Arc<Notify>) {
    let mut is_over = false;
    loop {
        let received = tokio::select! {
            biased;
            received = events.recv() => received,
            () = over.notified(), if !is_over => {
                is_over = true;
                continue;
            }
            () = std::future::ready(()), if is_over => return,
        };
        match received.map(|event| serde_json::to_value(&event)) {
            Ok(Ok(value)) => write_event(&value),
            Ok(Err(error)) => tracing::warn!(%error, "an event could not be written"),
            Err(broadcast::error::RecvError::Lagged(lost)) => {
                tracing::warn!(lost, "the reader of events lags; the oldest were dropped");
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

fn write_event(event: &serde_json::Value) {
    let mut out = std::io::stdout().lock();
    // A reader that is gone ends this process by the parent-death signal.
    let _ = writeln!(out, "{RECORD_SEPARATOR}{event}");
    let _ = out.flush();
}

fn write_report(path: &Path, report: &ExitReport) -> Result<()> {
    let text = serde_json::to_string(report).expect("a report is strings and numbers");
    fs::write(path, text).or_else(|error| {
        // Outside a pod nobody mounts the default file, and the log has it all.
        if path == Path::new("/dev/termination-log") {
            return Ok(());
        }
        Err(Error::retryable("EXIT_REPORT_NOT_WRITTEN", format!("could not write {}", path.display())).with_source(error))
    })
}

/// The rows of the greatest batch of a query, where the options bound it.
fn most_rows(definition: &QueryDefinition) -> Option<u64> {
    let limit = |source: &InputDefinition| {
        let named = source.options.iter().find(|(name, _)| name.eq_ignore_ascii_case("maxOffsetsPerTrigger"));
        named.filter(|_| source.format == "kafka").and_then(|(_, text)| text.trim().parse::<u64>().ok())
    };
    definition.sources.iter().try_fold(0_u64, |sum, source| Some(sum.saturating_add(limit(source)?)))
}

fn budget(definitions: &[QueryDefinition], lanes: usize) -> MemoryBudget {
    let merging = definitions.iter().filter(|definition| definition.sink.upsert.is_some());
    MemoryBudget::new(TaskShape {
        queries: definitions.len(),
        with_tables: definitions.iter().filter(|definition| !definition.tables.is_empty()).count(),
        with_bad_records: definitions.iter().filter(|definition| definition.bad_records.is_some()).count(),
        merged_rows: merging.filter_map(most_rows).fold(0, u64::saturating_add),
        kafka_sources: definitions.iter().flat_map(|d| d.sources.iter().chain(&d.tables)).filter(|source| source.format == "kafka").count(),
        lanes,
    })
}

fn log_limits(definitions: &[QueryDefinition], lanes: usize) {
    let budget = budget(definitions, lanes);
    let parts: BTreeMap<&str, u64> = budget.parts().iter().map(|part| (part.name, part.bytes)).collect();
    let limit = definitions.first().and_then(|definition| definition.session.memory_limit).or_else(memory::container_limit);
    const MIB: u64 = 1 << 20;
    let against = limit.map_or_else(String::new, |limit| format!(", the limit is {} MiB", limit / MIB));
    tracing::info!("memory is bounded to {} MiB{against}", budget.total().div_ceil(MIB));
    tracing::debug!(total_bytes = budget.total(), ?limit, ?parts, "the bounds of memory, part by part");
    for definition in definitions.iter().filter(|definition| definition.sink.upsert.is_some() && most_rows(definition).is_none()) {
        tracing::info!(
            query = definition.name,
            "the sum does not count the keys of the batches that are merged, some {MERGED_ROW_BYTES} bytes for each row of a batch, since no maxOffsetsPerTrigger bounds its rows"
        );
    }
    if limit.is_some_and(|limit| limit < budget.total()) {
        tracing::warn!(
            total_bytes = budget.total(),
            ?limit,
            "the bounds add up to more than the container's memory limit; raise the limit or lower weir.batch.maxRows"
        );
    }
}
