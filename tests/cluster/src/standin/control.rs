//! The control file: what a stand-in is to do, read anew before each batch.
//!
//! Absent fields mean a healthy engine with endless input. The test writes the
//! file whole (temporary file, rename), so a half-written one is never read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_crds::exit::ExitClass;

/// How one store's stand-ins behave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Control {
    /// Time between batches, ms.
    pub batch_interval_ms: u64,
    /// How a process ends by itself.
    pub end: Option<End>,
    /// Whether it ever gets ready.
    pub gets_ready: bool,
    /// Whether it hangs.
    pub hang: Hang,
    /// Whether input is there.
    pub input_available: bool,
    /// Whether batches are committed while input is there.
    pub commits: bool,
    /// What is unread.
    pub backlog: BacklogFigures,
    /// Rows per second in, as batches report it.
    pub input_rows_per_second: f64,
    /// Rows per second out.
    pub processed_rows_per_second: f64,
    /// Duration that batches report, ms.
    pub reported_duration_ms: u64,
    /// How long a stop takes after SIGTERM, ms.
    pub stop_takes_ms: u64,
    /// Other settings for single epochs, for example a failure of only the first one.
    pub epochs: BTreeMap<u64, Box<Control>>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            batch_interval_ms: 50,
            end: None,
            gets_ready: true,
            hang: Hang::No,
            input_available: true,
            commits: true,
            backlog: BacklogFigures::default(),
            input_rows_per_second: 100.0,
            processed_rows_per_second: 1000.0,
            reported_duration_ms: 10,
            stop_takes_ms: 0,
            epochs: BTreeMap::new(),
        }
    }
}

impl Control {
    /// Ends by itself in this way after so many batches.
    pub fn ends(after_batches: u64, how: Ending) -> Self {
        Self { end: Some(End { after_batches, how }), ..Self::default() }
    }

    /// Fails at once with this class, and a reason and message that name it.
    pub fn fails(class: ExitClass) -> Self {
        Self::ends(0, Ending::fails(class))
    }

    /// The same but for one epoch.
    pub fn for_epoch(mut self, epoch: u64, control: Control) -> Self {
        self.epochs.insert(epoch, Box::new(control));
        self
    }

    pub(super) fn of_epoch(self, epoch: u64) -> Control {
        let own = self.epochs.get(&epoch).map(|control| (**control).clone());
        own.unwrap_or(self)
    }
}

/// How it hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hang {
    /// Not at all.
    No,
    /// Batches stop, SIGTERM is ignored, HTTP goes on.
    Batches,
    /// Batches go on and HTTP does not answer, as of a process beyond a partition.
    Http,
    /// Nothing moves and HTTP does not answer.
    Everything,
}

/// An end by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct End {
    /// Batches that this process commits before.
    pub after_batches: u64,
    /// The end.
    pub how: Ending,
}

/// Ways to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Ending {
    /// All queries have ended: class completed, exit 0.
    Complete,
    /// An exit report, with the exit code of its class unless another is given.
    Report {
        /// The class.
        class: ExitClass,
        /// CamelCase word.
        reason: String,
        /// For people; may be a mebibyte long.
        message: String,
        /// Another exit code than the class has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The query that is blamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        /// The source's version of a `SchemaChanged`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_version: Option<String>,
        /// The epoch that a fenced process names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        highest_epoch_seen: Option<u64>,
    },
    /// This text instead of a report.
    Text {
        /// The termination message.
        text: String,
        /// The exit code.
        exit_code: i32,
    },
    /// No report at all.
    Silent {
        /// The exit code.
        exit_code: i32,
    },
    /// A panic: exit 101, its message on stderr.
    Panic,
}

impl Ending {
    /// A failure of this class.
    pub fn fails(class: ExitClass) -> Self {
        Ending::Report {
            class,
            reason: "AskedByTest".to_owned(),
            message: format!("the test asked for {class:?}"),
            exit_code: None,
            query: None,
            source_version: None,
            highest_epoch_seen: None,
        }
    }
}

/// What is unread, as the engine reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BacklogFigures {
    /// Records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Age of the oldest, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}
