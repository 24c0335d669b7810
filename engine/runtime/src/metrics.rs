//! The task's Prometheus metrics, taken from snapshots at scrape time.
//!
//! Labels are the query and closed sets only. Counters of a query start at the
//! first scrape's value of its run; gauges vanish with the query's process.
//! Nothing here is on a batch's path.

use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{CounterVec, Encoder, Gauge, GaugeVec, Opts, Registry, TextEncoder};
use weir_core::{Error, Result};

use crate::memory::MemoryBudget;
use crate::query::{QuerySnapshot, QueryState};

/// Name, help and value of each gauge of a query.
type QueryGauge = (&'static str, &'static str, fn(&QuerySnapshot) -> Option<f64>);

/// Name, help and value of each counter of a query.
type QueryCounter = (&'static str, &'static str, fn(&QuerySnapshot) -> f64);

const QUERY_COUNTERS: &[QueryCounter] = &[
    ("weir_query_triggers_total", "Triggers of this run, idle ones too", |s| s.triggers as f64),
    ("weir_query_trigger_seconds_total", "Time spent in triggers", |s| s.trigger_time.as_secs_f64()),
    ("weir_query_malformed_records_total", "Records of this run that did not fit their schema", |s| s.malformed_records as f64),
    ("weir_query_bad_records_total", "Records of this run that went to the place for bad records", |s| s.bad_records as f64),
];

const QUERY_GAUGES: &[QueryGauge] = &[
    ("weir_query_active", "1 while the query runs", |s| Some(f64::from(u8::from(s.is_active)))),
    ("weir_query_batch_id", "Newest committed batch", |s| s.batch_id.map(|v| v as f64)),
    ("weir_query_last_commit_timestamp_seconds", "When a batch was last committed", |s| s.last_commit_ms.map(|v| v as f64 / 1000.0)),
    ("weir_query_input_rows_per_second", "Input rate of the last trigger", |s| {
        s.last_progress.as_ref().map(|p| p.rates.input).filter(|v| v.is_finite())
    }),
    ("weir_query_processed_rows_per_second", "Processed rate of the last trigger", |s| {
        s.last_progress.as_ref().map(|p| p.rates.processed).filter(|v| v.is_finite())
    }),
    ("weir_query_batch_duration_seconds", "Duration of the last trigger", |s| {
        s.last_progress.as_ref().map(|p| p.batch_duration as f64 / 1000.0)
    }),
    ("weir_query_backlog_records", "Records not read yet", |s| s.backlog.records.map(|v| v as f64)),
    ("weir_query_backlog_bytes", "Bytes not read yet", |s| s.backlog.bytes.map(|v| v as f64)),
    ("weir_query_backlog_files", "Files not read yet", |s| s.backlog.files.map(|v| v as f64)),
    ("weir_query_backlog_seconds", "Age of the oldest unread record", |s| s.backlog.seconds),
    ("weir_query_watermark_timestamp_seconds", "Watermark in force", |s| s.watermark_ms.map(|v| v as f64 / 1000.0)),
];

/// The metrics of a task.
#[derive(Debug)]
pub struct Metrics {
    budget: Arc<MemoryBudget>,
}

impl Metrics {
    /// Metrics over a memory budget.
    pub fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget }
    }

    /// The exposition text.
    pub fn render(&self, states: &[Arc<QueryState>]) -> Result<String> {
        let registry = Registry::new();
        let snapshots: Vec<QuerySnapshot> = states.iter().map(|state| state.snapshot()).collect();
        for (name, help, value) in QUERY_GAUGES {
            let family = gauges(name, help, &["query"])?;
            for snapshot in &snapshots {
                if let Some(value) = value(snapshot) {
                    family.with_label_values(&[&snapshot.name]).set(value);
                }
            }
            register(&registry, family)?;
        }
        for (name, help, value) in QUERY_COUNTERS {
            let family = CounterVec::new(Opts::new(*name, *help), &["query"]).map_err(failed)?;
            for snapshot in &snapshots {
                family.with_label_values(&[&snapshot.name]).inc_by(value(snapshot));
            }
            register(&registry, family)?;
        }
        let limits = gauges("weir_memory_limit_bytes", "Limit of each bounded part of memory", &["part"])?;
        for part in self.budget.parts() {
            limits.with_label_values(&[part.name]).set(part.bytes as f64);
        }
        register(&registry, limits)?;
        let used = gauges("weir_memory_used_bytes", "Memory that a bounded part holds now", &["part"])?;
        used.with_label_values(&["sink_writers"]).set(weir_connect::delta::memory::buffered_bytes() as f64);
        register(&registry, used)?;
        if let Some(bytes) = crate::memory::resident_bytes() {
            let resident = Gauge::new("weir_process_resident_bytes", "Resident memory of the task").map_err(failed)?;
            resident.set(bytes as f64);
            register(&registry, resident)?;
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut text).map_err(failed)?;
        String::from_utf8(text).map_err(|e| Error::retryable("METRICS_NOT_RENDERED", e.to_string()))
    }
}

fn gauges(name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec> {
    GaugeVec::new(Opts::new(name, help), labels).map_err(failed)
}

fn register(registry: &Registry, family: impl Collector + 'static) -> Result<()> {
    registry.register(Box::new(family)).map_err(failed)
}

fn failed(error: prometheus::Error) -> Error {
    Error::retryable("METRICS_NOT_RENDERED", error.to_string())
}
