//! The part of a job's status that metrics show: small, since there is one per job.

use std::sync::Arc;

use weir_crds::StreamingJob;
use weir_crds::resource::{CONDITION_TYPES, StreamingJobStatus};

/// Status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    /// Not written yet.
    #[default]
    Absent,
    True,
    False,
    Unknown,
}

/// Starts by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restarts {
    /// After a failure of the application.
    pub application: i64,
    /// After a start that did not become ready.
    pub start_up: i64,
    /// After a drain, a preemption or the like.
    pub disruption: i64,
    /// After an edit.
    pub spec: i64,
}

/// What metrics show of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobView {
    /// In the order of [`CONDITION_TYPES`].
    pub(super) conditions: [Held; CONDITION_TYPES.len()],
    /// Image of the run.
    pub image: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: Option<i64>,
    /// Starts by cause.
    pub restarts: Restarts,
    /// Failed runs in a row.
    pub consecutive_failures: i64,
    /// The newest epoch.
    pub epoch: Option<i64>,
    /// Number of the run that is alive.
    pub run_number: Option<i64>,
    /// When that run was started, in Unix seconds.
    pub run_started: Option<i64>,
    /// When all its tasks were first ready.
    pub run_ready: Option<i64>,
    /// When the run before it ended.
    pub last_run_finished: Option<i64>,
    /// Last commit of the running query that is furthest back.
    pub last_commit: Option<i64>,
    /// When the next run begins, while it is waited for.
    pub next_restart: Option<i64>,
    /// Latest minus processed offsets.
    pub backlog_records: Option<i64>,
    /// What that is in bytes.
    pub backlog_bytes: Option<i64>,
    /// Age of the oldest unread record.
    pub backlog_seconds: Option<f64>,
    /// Files that are outstanding.
    pub backlog_files: Option<i64>,
}

impl JobView {
    /// Of a job as the API server has it.
    pub fn of(job: &StreamingJob) -> Self {
        let nothing = StreamingJobStatus::default();
        let status = job.status.as_ref().unwrap_or(&nothing);
        let run = status.run.as_ref();
        let restarts = status.total_restarts.clone().unwrap_or_default();
        let seconds = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| time.map(|time| time.0.as_second());
        let backlog = status.backlog.clone().unwrap_or_default();
        let image = run.and_then(|run| run.image.as_deref()).or(job.spec.image.as_deref()).unwrap_or_default();
        Self {
            conditions: CONDITION_TYPES.map(|kind| held(status, kind)),
            image: image.into(),
            generation: job.metadata.generation.unwrap_or(0),
            observed_generation: status.observed_generation.filter(|generation| *generation >= 0),
            restarts: Restarts {
                application: restarts.application,
                start_up: restarts.start_up,
                disruption: restarts.disruption,
                spec: restarts.spec,
            },
            consecutive_failures: status.consecutive_failures,
            epoch: status.epoch,
            run_number: run.map(|run| run.number),
            run_started: seconds(run.and_then(|run| run.started_at.as_ref())),
            run_ready: seconds(run.and_then(|run| run.ready_at.as_ref())),
            last_run_finished: seconds(status.last_run.as_ref().and_then(|run| run.finished_at.as_ref())),
            last_commit: seconds(status.summary.as_ref().and_then(|summary| summary.last_commit_time.as_ref())),
            next_restart: seconds(status.next_restart_time.as_ref()),
            backlog_records: backlog.records,
            backlog_bytes: backlog.bytes,
            backlog_seconds: backlog.seconds,
            backlog_files: backlog.files,
        }
    }
}

fn held(status: &StreamingJobStatus, kind: &str) -> Held {
    match status.conditions.iter().find(|condition| condition.type_ == kind).map(|condition| condition.status.as_str()) {
        None => Held::Absent,
        Some("True") => Held::True,
        Some("False") => Held::False,
        Some(_) => Held::Unknown,
    }
}
