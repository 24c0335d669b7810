//! Figures of the operator itself.

use prometheus::{GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};

/// A label with a closed set of values.
macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The label's value.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

closed_set! {
    /// How a pass over a job ended.
    ReconcileResult {
        /// As planned.
        Ok = "ok",
        /// Somebody else was faster; the next pass sees it.
        Conflict = "conflict",
        /// A call failed.
        Error = "error",
        /// It panicked; the process and the other jobs go on.
        Panic = "panic",
    }
}

closed_set! {
    /// What is watched.
    WatchKind {
        /// StreamingJobs.
        StreamingJob = "StreamingJob",
        /// Pods of jobs.
        Pod = "Pod",
        /// Nodes.
        Node = "Node",
        /// ConfigMaps that jobs refer to.
        ConfigMap = "ConfigMap",
        /// Secrets that jobs refer to.
        Secret = "Secret",
    }
}

closed_set! {
    /// What stood in the way of a pod's creation.
    CreateConflict {
        /// The very pod: the answer to its creation was lost.
        Adopted = "adopted",
        /// The job's pod of a lower epoch.
        Terminating = "terminating",
        /// Another owner's.
        Foreign = "foreign",
    }
}

closed_set! {
    /// What a write of status was for.
    StatusWrite {
        /// To be stored before actions.
        WriteAhead = "write-ahead",
        /// A condition flipped.
        Condition = "condition",
        /// Nothing but progress.
        Progress = "progress",
    }
}

/// Counters and gauges of this process.
pub struct OperatorMetrics {
    registry: Registry,
    reconciles: IntCounterVec,
    reconcile_seconds: Histogram,
    watch_errors: IntCounterVec,
    watch_last_event: GaugeVec,
    leader: IntGauge,
    create_conflicts: IntCounterVec,
    status_writes: IntCounterVec,
    scope_conflicts: IntGauge,
    missing_fields: IntGauge,
    events_dropped: IntCounter,
    events_failed: IntCounter,
}

impl Default for OperatorMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl OperatorMetrics {
    /// All at zero, each known label value present.
    pub fn new() -> Self {
        let counters = |name: &str, help: &str, label: &str, values: Vec<&'static str>| {
            let counters = IntCounterVec::new(Opts::new(name, help), &[label]).expect("names and labels are valid");
            values.into_iter().for_each(|value| counters.with_label_values(&[value]).reset());
            counters
        };
        fn texts<T: Copy>(all: &[T], text: fn(T) -> &'static str) -> Vec<&'static str> {
            all.iter().map(|one| text(*one)).collect()
        }
        let kinds = || texts(WatchKind::ALL, WatchKind::as_str);
        let seconds = HistogramOpts::new("weir_reconcile_seconds", "Time of a pass over a job")
            .buckets(vec![0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
        let metrics = Self {
            registry: Registry::new(),
            reconciles: counters(
                "weir_reconcile_total",
                "Passes over jobs",
                "result",
                texts(ReconcileResult::ALL, ReconcileResult::as_str),
            ),
            reconcile_seconds: Histogram::with_opts(seconds).expect("the name is valid"),
            watch_errors: counters("weir_watch_errors_total", "Errors of watches", "kind", kinds()),
            watch_last_event: GaugeVec::new(
                Opts::new("weir_watch_last_event_timestamp_seconds", "When a watch was last heard of"),
                &["kind"],
            )
            .expect("names and labels are valid"),
            leader: gauge("weir_leader", "1 while this process leads"),
            create_conflicts: counters(
                "weir_create_conflicts_total",
                "Creations of pods that found one there",
                "class",
                texts(CreateConflict::ALL, CreateConflict::as_str),
            ),
            status_writes: counters("weir_status_writes_total", "Writes of status", "kind", texts(StatusWrite::ALL, StatusWrite::as_str)),
            scope_conflicts: gauge("weir_scope_conflicts", "Jobs in scope that another installation looks after"),
            missing_fields: gauge("weir_crd_missing_fields", "Fields of this version that the served CRD drops"),
            events_dropped: IntCounter::new("weir_events_dropped_total", "Events that were left out").expect("the name is valid"),
            events_failed: IntCounter::new("weir_events_failed_total", "Events that the API server did not take")
                .expect("the name is valid"),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let all: [Box<dyn prometheus::core::Collector>; 11] = [
            Box::new(self.reconciles.clone()),
            Box::new(self.reconcile_seconds.clone()),
            Box::new(self.watch_errors.clone()),
            Box::new(self.watch_last_event.clone()),
            Box::new(self.leader.clone()),
            Box::new(self.create_conflicts.clone()),
            Box::new(self.status_writes.clone()),
            Box::new(self.scope_conflicts.clone()),
            Box::new(self.missing_fields.clone()),
            Box::new(self.events_dropped.clone()),
            Box::new(self.events_failed.clone()),
        ];
        all.into_iter().for_each(|collector| self.registry.register(collector).expect("names are unique"));
    }

    /// A pass over a job has ended.
    pub fn reconciled(&self, result: ReconcileResult, took: std::time::Duration) {
        self.reconciles.with_label_values(&[result.as_str()]).inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// A watch failed.
    pub fn watch_failed(&self, kind: WatchKind) {
        self.watch_errors.with_label_values(&[kind.as_str()]).inc();
    }

    /// A watch was heard of, in Unix seconds.
    pub fn watch_heard(&self, kind: WatchKind, at: f64) {
        self.watch_last_event.with_label_values(&[kind.as_str()]).set(at);
    }

    /// Whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// A pod could not be created because one is there.
    pub fn create_conflicted(&self, class: CreateConflict) {
        self.create_conflicts.with_label_values(&[class.as_str()]).inc();
    }

    /// A status was written.
    pub fn status_written(&self, kind: StatusWrite) {
        self.status_writes.with_label_values(&[kind.as_str()]).inc();
    }

    /// How many jobs in scope another installation looks after.
    pub fn scope_conflicts(&self, jobs: usize) {
        self.scope_conflicts.set(i64::try_from(jobs).unwrap_or(i64::MAX));
    }

    /// How many fields of this version the served CRD drops.
    pub fn missing_fields(&self, fields: usize) {
        self.missing_fields.set(i64::try_from(fields).unwrap_or(i64::MAX));
    }

    /// No watch is under way any more, and no job is known to be another installation's.
    pub(super) fn forget_jobs(&self) {
        self.watch_last_event.reset();
        self.scope_conflicts.set(0);
    }

    /// Takes over the totals of the event sink.
    pub fn events(&self, dropped: u64, failed: u64) {
        self.events_dropped.inc_by(dropped.saturating_sub(self.events_dropped.get()));
        self.events_failed.inc_by(failed.saturating_sub(self.events_failed.get()));
    }

    pub(super) fn text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).expect("a buffer takes every byte")
    }
}

fn gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).expect("the name is valid")
}
