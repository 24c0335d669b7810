//! A StreamingJob as it is stored, read once into what a pass needs.
//!
//! The stored object is kept whole, so that fields and conditions which this
//! version does not know, or cannot read, survive its writes. Nothing in it is
//! trusted: a spec that cannot be read, a status that somebody wiped or edited,
//! times that are no times are all answers, never a panic and never the end of a
//! pass.

use std::collections::BTreeSet;

use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use weir_crds::annotations;
use weir_crds::resource::StreamingJobSpec;
use weir_supervisor::Memory;
use weir_supervisor::conditions::{Condition, ConditionStatus, Reason};
use weir_supervisor::observed::{Confirmation, Shutdown, Unreadable};
use weir_supervisor::status::contradiction;

use crate::names::{FINALIZER, INSTALLATION, JobId, annotation};
use crate::stored::{Manager, StoredJob, Unread};

/// The longest run-now token that is kept as it is.
const RUN_NOW_BYTES: usize = 128;

/// One read of a job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The object.
    pub object: DynamicObject,
    /// Whose it is.
    pub id: JobId,
    /// `metadata.generation`.
    pub generation: i64,
    /// The spec, or why it cannot be read.
    pub spec: Result<Box<StreamingJobSpec>, String>,
    /// What the supervisor remembers.
    pub memory: Remembered,
    /// Who wrote which fields.
    pub managers: Vec<Manager>,
    unread: Unread,
}

/// What `.status.memory` holds.
#[derive(Clone, Debug)]
pub enum Remembered {
    /// Nothing: a new job, or a wiped status.
    Nothing,
    /// The memory.
    Known(Box<Memory>),
    /// Something that this version cannot read, or that contradicts the status beside it: as good as nothing, where a memory was.
    Damaged(String),
    /// The memory of a later version: nothing may be decided without it.
    Newer(String),
    /// Something that no reader takes, and that is left as it is: nothing may be decided without it either.
    Unreadable(String),
}

impl Job {
    /// Reads the stored object.
    pub fn read(stored: StoredJob) -> Job {
        let StoredJob { object, unread, managers } = stored;
        let metadata = &object.metadata;
        let id = JobId {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        };
        let spec = match &unread.spec {
            Some(field) => Err(field.why.clone()),
            None => StreamingJobSpec::deserialize(&object.data["spec"]).map(Box::new).map_err(|error| error.to_string()),
        };
        let memory = match unread.status.get("memory") {
            Some(field) => Remembered::Unreadable(field.why.clone()),
            None => remembered(&object.data["status"]),
        };
        Job { id, generation: metadata.generation.unwrap_or_default(), spec, memory, object, managers, unread }
    }

    /// The object with another status. What cannot be read of the stored one stays, unless the new one says something else.
    pub fn with_status(&self, status: Value) -> StoredJob {
        let mut object = self.object.clone();
        object.data["status"] = status;
        StoredJob { object, unread: self.unread.clone(), managers: Vec::new() }
    }

    /// `.status` as it is stored; null when there is none.
    pub fn status(&self) -> &Value {
        &self.object.data["status"]
    }

    /// The highest epoch of the status beside the memory, for a memory that is lost or was changed.
    pub fn status_epoch(&self) -> u64 {
        weir_supervisor::status::highest_epoch(self.status())
    }

    /// Whether the status beside the memory shows that a run was begun; a field that cannot be read counts as one that does.
    pub fn shows_a_run(&self) -> bool {
        const TRACES: [&str; 7] = ["epoch", "run", "lastRun", "tasks", "tasksCollapsed", "history", "consecutiveFailures"];
        let is_filled = |name: &&str| match &self.status()[*name] {
            Value::Null => self.unread.status.contains_key(*name),
            Value::Array(rows) => !rows.is_empty(),
            Value::Number(number) => number.as_u64() != Some(0),
            Value::Bool(_) | Value::String(_) | Value::Object(_) => true,
        };
        let tells = |condition: &Condition| {
            condition.kind == "PreviousRunTerminated"
                && condition.status != ConditionStatus::Unknown
                && condition.reason != Reason::NoPreviousRun.as_str()
        };
        TRACES.iter().any(is_filled) || self.conditions().iter().any(tells)
    }

    /// The generations that the status beside the memory names as begun.
    pub fn shown_generations(&self) -> BTreeSet<i64> {
        let status = self.status();
        let rows = status["tasks"].as_array().into_iter().flatten();
        rows.chain([&status["run"]]).filter_map(|place| place["generation"].as_i64()).collect()
    }

    /// Our conditions as the status shows them; what cannot be read is left out.
    pub fn conditions(&self) -> Vec<Condition> {
        let stored = self.status()["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        stored.iter().filter_map(|condition| Condition::deserialize(condition).ok()).collect()
    }

    /// Whether the job is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether our finalizer holds it.
    pub fn has_finalizer(&self) -> bool {
        self.object.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
    }

    /// The installation that looks after it, once there is one. An empty annotation is as if absent.
    pub fn installation(&self) -> Option<&str> {
        self.annotation(INSTALLATION).map(str::trim).filter(|name| !name.is_empty())
    }

    /// `weir.dev/paused`.
    pub fn is_paused(&self) -> bool {
        self.annotation(annotations::PAUSED) == Some("true")
    }

    /// `weir.dev/skip-graceful-stop`.
    pub fn skips_graceful_stop(&self) -> bool {
        self.annotation(annotations::SKIP_GRACEFUL_STOP) == Some("true")
    }

    /// `weir.dev/run-now`.
    pub fn run_now(&self) -> Option<String> {
        self.annotation(annotations::RUN_NOW).map(|token| crate::token::short(token, RUN_NOW_BYTES))
    }

    /// `weir.dev/confirm-terminated`.
    pub fn confirmed_terminated(&self) -> Option<Confirmation> {
        self.annotation(annotations::CONFIRM_TERMINATED).map(Confirmation::read)
    }

    /// Annotations of ours whose value means nothing. A confirmation is answered by its own event.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        let is_switch = |text: &str| matches!(text, "true" | "false");
        let is_epoch = |text: &str| text.trim().parse::<u64>().is_ok();
        let switch = "write \"true\", or remove it";
        let readings: [(&str, &dyn Fn(&str) -> bool, &'static str); 3] = [
            (annotations::ADOPT_CHECKPOINT, &is_epoch, "write the epoch of the highest claim, as the task's exit names it"),
            (annotations::PAUSED, &is_switch, switch),
            (annotations::SKIP_GRACEFUL_STOP, &is_switch, switch),
        ];
        let given = readings.into_iter().filter_map(|(name, is_read, expected)| Some((name, self.annotation(name)?, is_read, expected)));
        given
            .filter(|(_, text, is_read, _)| !is_read(text))
            .map(|(name, text, _, expected)| Unreadable::new(name, text, expected))
            .collect()
    }

    /// `weir.dev/adopt-checkpoint`.
    pub fn adopted_checkpoint(&self) -> Option<u64> {
        self.annotation(annotations::ADOPT_CHECKPOINT)?.trim().parse().ok()
    }

    /// `weir.dev/discard-memory`.
    pub fn discards_memory(&self) -> Option<Confirmation> {
        self.annotation(annotations::DISCARD_MEMORY).map(Confirmation::read)
    }

    /// What a deletion asks of the supervisor.
    pub fn shutdown(&self) -> Shutdown {
        match (self.is_deleting(), self.skips_graceful_stop()) {
            (false, _) => Shutdown::None,
            (true, false) => Shutdown::Graceful,
            (true, true) => Shutdown::Immediate,
        }
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        annotation(&self.object.metadata, name)
    }
}

/// What a status remembers. A memory that cannot be the one which the status was written with is damaged.
fn remembered(status: &Value) -> Remembered {
    let memory = &status["memory"];
    if memory.is_null() {
        return Remembered::Nothing;
    }
    match Memory::from_json(&memory.to_string()) {
        Ok(memory) => match contradiction(status, &memory) {
            Some(why) => Remembered::Damaged(why),
            None => Remembered::Known(Box::new(memory)),
        },
        Err(error @ weir_supervisor::memory::MemoryError::Newer { .. }) => Remembered::Newer(error.to_string()),
        Err(error) => Remembered::Damaged(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_installation_without_a_name_is_none() {
        for (given, expected) in [("", None), (" ", None), ("weir-system/weir-operator", Some("weir-system/weir-operator"))] {
            let metadata = json!({"name": "j", "namespace": "n", "uid": "u", "annotations": {INSTALLATION: given}});
            let object = json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": metadata, "spec": {}});
            let job = Job::read(serde_json::from_value(object).expect("an object"));
            assert_eq!(job.installation(), expected, "{given:?}");
        }
    }
    #[test]
    fn a_status_beside_a_memory_shows_that_a_run_was_begun() {
        let job = |status: &str| {
            let metadata = json!({"name": "j", "namespace": "n", "uid": "u"});
            let text = format!(
                r#"{{"apiVersion":"weir.dev/v1alpha1","kind":"StreamingJob","metadata":{metadata},"spec":{{}},"status":{status}}}"#
            );
            Job::read(serde_json::from_str(&text).expect("an object"))
        };
        let condition = |status: &str, reason: &str| {
            json!({"conditions": [{"type": "PreviousRunTerminated", "status": status, "reason": reason,
                                   "lastTransitionTime": "2026-11-30T00:00:00Z"}]})
            .to_string()
        };
        let never = [
            json!({"observedGeneration": -1}).to_string(),
            json!({"epoch": 0, "run": null, "tasks": [], "history": [], "consecutiveFailures": 0, "summary": {"tasksReady": "0/1"}})
                .to_string(),
            condition("True", "NoPreviousRun"),
            condition("Unknown", "StatusNotKept"),
        ];
        for status in never {
            assert!(!job(&status).shows_a_run(), "{status}");
        }
        let deep = format!("{}1{}", r#"{"a":"#.repeat(300), "}".repeat(300));
        let begun = [
            json!({"epoch": 7}).to_string(),
            json!({"run": {"number": 1}}).to_string(),
            json!({"lastRun": {"number": 1}}).to_string(),
            json!({"tasks": [{"name": "t"}]}).to_string(),
            json!({"tasksCollapsed": 3}).to_string(),
            json!({"history": [{"number": 1}]}).to_string(),
            json!({"consecutiveFailures": 2}).to_string(),
            condition("False", "PodVanished"),
            condition("True", "TerminalPhaseObserved"),
            format!(r#"{{"run":{deep}}}"#),
        ];
        for status in begun {
            assert!(job(&status).shows_a_run(), "{status}");
        }
        let named =
            json!({"run": {"generation": 3}, "tasks": [{"name": "a", "generation": 2}, {"name": "b", "generation": 3}, {"name": "c"}]});
        assert_eq!(job(&named.to_string()).shown_generations(), [2, 3].into());
    }
}
