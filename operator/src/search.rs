//! How a pass finds its job's pods: by their fixed names, or by a list over the label.
//!
//! Both ask for what is stored now. A list costs more: an API server answers it
//! from its watch cache once etcd has told that the cache is up to date, for
//! which it asks every 100 ms, while a read by name goes to etcd at once. Names
//! suffice inside a run, whose tasks the memory names, also those that the
//! manifest no longer has. Where a run begins, a job comes to rest or goes, or
//! the memory is lost, all that carries the label is asked for first. Pure.

use std::collections::BTreeSet;

use weir_supervisor::{Action, Memory, Plan};

use crate::job::{Job, Remembered};

/// More names than this are asked for by one list.
const MOST_NAMES: usize = 8;

/// How pods are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// All that carry the job's label.
    All,
    /// Those of these tasks.
    Named(BTreeSet<String>),
}

impl Search {
    /// The first search of a pass.
    pub fn of(job: &Job, memory: &Memory) -> Search {
        let (Remembered::Known(_), false) = (&job.memory, job.is_deleting()) else { return Search::All };
        let in_run = memory.run.iter().flat_map(|run| run.tasks.keys());
        let in_force = memory.spec.iter().flat_map(|spec| spec.tasks.keys());
        let wanted = job.spec.iter().flat_map(|spec| &spec.tasks).map(|task| &task.name);
        let waited_for = memory.strangers.keys().chain(memory.left_behind.keys());
        let names: BTreeSet<String> = in_run.chain(in_force).chain(waited_for).chain(wanted).cloned().collect();
        if names.len() > MOST_NAMES { Search::All } else { Search::Named(names) }
    }

    /// Whether what was found carries the plan; if not, all is asked for and decided anew.
    pub fn suffices(&self, memory: &Memory, plan: &Plan) -> bool {
        let Search::Named(names) = self else { return true };
        let after = &plan.memory;
        let begins = after.run_number != memory.run_number;
        let rests = memory.run.is_some() && after.run.is_none() && after.next_start.is_none();
        let suspends = after.suspended && !memory.suspended;
        let unseen = |action: &Action| matches!(action, Action::StartTask { task, .. } if !names.contains(task));
        !(begins || rests || suspends || plan.finished.is_some() || plan.actions.iter().any(unseen))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weir_supervisor::memory::{NextStart, SpecMark, StartReason};
    use weir_supervisor::time::Timestamp;

    use super::*;

    fn job(memory: Value, deletion: Value) -> Job {
        let task = |name: &str| {
            let source = json!({"name": "s", "format": "rate"});
            json!({"name": name, "queries": [{"name": "q", "sources": [source], "sql": "SELECT * FROM s", "sink": {"format": "noop"}}]})
        };
        let object = json!({
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamingJob",
            "metadata": {"name": "j", "namespace": "n", "uid": "u", "generation": 2, "deletionTimestamp": deletion},
            "spec": {"trigger": {"continuous": {}}, "checkpointRoot": "s3://lake/checkpoints", "tasks": [task("a"), task("new")]},
            "status": {"memory": memory},
        });
        Job::read(serde_json::from_value(object).unwrap())
    }

    fn names(names: &[&str]) -> Search {
        Search::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn marked(tasks: &[&str]) -> Memory {
        let tasks = tasks.iter().map(|task| ((*task).to_owned(), "h".to_owned())).collect();
        Memory {
            spec: Some(SpecMark { generation: 1, run_hash: "r".to_owned(), tasks, places: String::new() }),
            run_number: 3,
            ..Memory::default()
        }
    }

    #[test]
    fn names_come_from_the_memory_and_the_manifest_and_a_list_where_either_cannot_be_trusted() {
        let known = serde_json::to_value(Memory::default()).unwrap();
        let memory = marked(&["a", "removed"]);
        assert_eq!(Search::of(&job(known.clone(), Value::Null), &memory), names(&["a", "new", "removed"]));
        assert_eq!(Search::of(&job(Value::Null, Value::Null), &memory), Search::All, "a wiped status");
        assert_eq!(Search::of(&job(json!({"version": "x"}), Value::Null), &memory), Search::All, "a damaged one");
        assert_eq!(Search::of(&job(known.clone(), json!("2026-11-30T12:00:00Z")), &memory), Search::All, "a job that goes");
        let many = marked(&["1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(Search::of(&job(known, Value::Null), &many), Search::All, "too many");
    }

    #[test]
    fn a_run_begins_and_a_job_rests_only_after_a_list() {
        let memory = marked(&["a"]);
        let plan = |change: &dyn Fn(&mut Plan)| {
            let mut plan = Plan { memory: memory.clone(), actions: Vec::new(), events: Vec::new(), wake_at: None, finished: None };
            change(&mut plan);
            plan
        };
        let start = |task: &str| Action::StartTask { task: task.to_owned(), epoch: 4, attempt: 2, run: 3, generation: 1 };
        let suffices = |plan: &Plan| names(&["a"]).suffices(&memory, plan);
        assert!(suffices(&plan(&|_| {})));
        assert!(suffices(&plan(&|plan| plan.actions = vec![start("a")])), "a retry inside the run");
        assert!(!suffices(&plan(&|plan| plan.actions = vec![start("b")])), "a task that was not looked for");
        let begun = plan(&|plan| plan.memory.run_number = 4);
        assert!(!suffices(&begun) && Search::All.suffices(&memory, &begun));
        assert!(!suffices(&plan(&|plan| plan.memory.suspended = true)));

        let mut running = memory.clone();
        let run = json!({"number": 3, "generation": 1, "runHash": "r", "startedAt": "2026-11-30T12:00:00Z", "tasks": {}});
        running.run = Some(serde_json::from_value(run).unwrap());
        assert!(!names(&["a"]).suffices(&running, &plan(&|_| {})), "the run is over and none follows");
        let next = NextStart { at: Timestamp::UNIX_EPOCH, reason: StartReason::Backoff };
        assert!(names(&["a"]).suffices(&running, &plan(&|plan| plan.memory.next_start = Some(next))), "the next run lists");
    }
}
