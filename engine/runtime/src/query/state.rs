//! What the outside may see of a running query: status, progress, events.
//!
//! One writer, the driver; many readers, the HTTP interface and the supervisor.
//! `recent` is bounded by `spark.sql.streaming.numRecentProgressUpdates` with
//! Spark's own trim rule, so one less than the setting is kept. Publishing
//! never waits: listeners that lag lose the oldest events, not the query time.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use uuid::Uuid;
use weir_connect::Backlog;
use weir_core::progress::{QueryEvent, StreamingQueryProgress};

/// `StreamingQueryStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryStatus {
    /// What the query is doing, in Spark's words.
    pub message: String,
    /// Whether there is data to process.
    pub is_data_available: bool,
    /// Whether a trigger is being worked on.
    pub is_trigger_active: bool,
}

/// Everything about a query that `/v1/queries` and `.status` show.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuerySnapshot {
    /// The query's name.
    pub name: String,
    /// Query id; absent until the checkpoint is claimed.
    pub id: Option<Uuid>,
    /// Run id.
    pub run_id: Uuid,
    /// Whether the query is running.
    pub is_active: bool,
    /// Whether the query has claimed and recovered its checkpoint.
    pub is_started: bool,
    /// Status.
    pub status: QueryStatus,
    /// Newest committed batch.
    pub batch_id: Option<u64>,
    /// When a batch was last committed, ms since the epoch.
    pub last_commit_ms: Option<i64>,
    /// The watermark, ms; absent without one.
    pub watermark_ms: Option<i64>,
    /// Malformed records of all batches of this run.
    pub malformed_records: u64,
    /// Those of them that went to the place for bad records.
    pub bad_records: u64,
    /// What is unread, summed over sources (seconds: the maximum).
    pub backlog: Backlog,
    /// The failure that ended the query.
    pub exception: Option<String>,
    /// The newest batches, oldest first, as health rules judge them.
    pub recent_batches: VecDeque<BatchSummary>,
    /// The latest record.
    pub last_progress: Option<StreamingQueryProgress>,
    /// Triggers of this run, idle ones too; for the metrics.
    #[serde(skip)]
    pub triggers: u64,
    /// The time that they took, without the waiting between them.
    #[serde(skip)]
    pub trigger_time: Duration,
}

/// One batch as far as health is concerned.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchSummary {
    /// The batch.
    pub batch_id: u64,
    /// `durationMs.triggerExecution`.
    pub duration_ms: u64,
    /// The trigger's interval; 0 for the default trigger.
    pub trigger_interval_ms: u64,
    /// Whether the trigger before had data.
    pub previous_had_data: bool,
    /// Rows per second in; 0 where not finite.
    pub input_rows_per_second: f64,
    /// Rows per second out.
    pub processed_rows_per_second: f64,
    /// The costliest phase of the trigger.
    pub costliest_stage: String,
}

/// Batches kept for health rules.
pub const RECENT_BATCHES: usize = 32;

/// The shared state of one query.
#[derive(Debug)]
pub struct QueryState {
    snapshot: RwLock<QuerySnapshot>,
    recent: RwLock<VecDeque<StreamingQueryProgress>>,
    keep: usize,
    events: broadcast::Sender<QueryEvent>,
}

impl QueryState {
    /// The state of a query that is about to start.
    pub fn new(name: &str, run_id: Uuid, recent_setting: usize, events: broadcast::Sender<QueryEvent>) -> Self {
        let snapshot = QuerySnapshot {
            name: name.to_owned(),
            id: None,
            run_id,
            is_active: true,
            is_started: false,
            status: QueryStatus { message: "Initializing StreamExecution".into(), is_data_available: false, is_trigger_active: false },
            batch_id: None,
            last_commit_ms: None,
            watermark_ms: None,
            malformed_records: 0,
            bad_records: 0,
            backlog: Backlog::default(),
            exception: None,
            recent_batches: VecDeque::new(),
            last_progress: None,
            triggers: 0,
            trigger_time: Duration::ZERO,
        };
        Self {
            snapshot: RwLock::new(snapshot),
            recent: RwLock::new(VecDeque::new()),
            keep: recent_setting.saturating_sub(1).max(1),
            events,
        }
    }

    /// A copy of all that is visible.
    pub fn snapshot(&self) -> QuerySnapshot {
        self.snapshot.read().clone()
    }

    /// Changes what is visible.
    pub fn update(&self, change: impl FnOnce(&mut QuerySnapshot)) {
        change(&mut self.snapshot.write());
    }

    /// Sets the status message.
    pub fn message(&self, message: &str) {
        self.update(|snapshot| {
            if snapshot.status.message != message {
                message.clone_into(&mut snapshot.status.message);
            }
        });
    }

    /// `recentProgress`, newest last.
    pub fn recent(&self) -> Vec<StreamingQueryProgress> {
        self.recent.read().iter().cloned().collect()
    }

    /// Appends a record; without an event for idle entries.
    pub fn record(&self, progress: StreamingQueryProgress) {
        let mut recent = self.recent.write();
        while recent.len() >= self.keep {
            recent.pop_front();
        }
        recent.push_back(progress.clone());
        drop(recent);
        self.update(|snapshot| snapshot.last_progress = Some(progress));
    }

    /// Tells the listeners.
    pub fn publish(&self, event: QueryEvent) {
        // No listener is a normal state.
        let _ = self.events.send(event);
    }
}
