//! Generations of a local job: the manifest as a counter and what edits disrupt.
//!
//! A generation is a spec that passed the check. Its number grows with every
//! accepted change; marks say in which generation the run and each task last
//! changed disruptively, which is all that the supervisor needs. Accepted
//! manifests are kept in the state directory, so that a bad edit never stops
//! the last good one from being restarted. The comparison itself belongs to
//! `weir_crds::resource::disruption`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_crds::StreamingJobSpec;
use weir_crds::resource::disruption;

/// The accepted generation and its marks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// Counts accepted changes, from 1.
    pub generation: i64,
    /// The spec.
    pub spec: StreamingJobSpec,
    /// Generation of the last change that needs a new run.
    run_mark: i64,
    /// Per task, generation of the last change that restarts it.
    task_marks: BTreeMap<String, i64>,
}

impl Accepted {
    /// The first generation of a job.
    pub fn first(spec: StreamingJobSpec) -> Self {
        let task_marks = spec.tasks.iter().map(|task| (task.name.clone(), 1)).collect();
        Self { generation: 1, spec, run_mark: 1, task_marks }
    }

    /// What a spec that passed the check makes of this one; `None` when
    /// nothing changed.
    pub fn next(&self, spec: StreamingJobSpec) -> Option<Self> {
        if spec == self.spec {
            return None;
        }
        let found = disruption(&self.spec, &spec);
        let generation = self.generation + 1;
        let run_mark = if found.run { generation } else { self.run_mark };
        let mark = |task: &str| {
            let kept = self.task_marks.get(task).copied().unwrap_or(generation);
            if found.tasks.contains(task) { generation } else { kept }
        };
        let task_marks = spec.tasks.iter().map(|task| (task.name.clone(), mark(&task.name))).collect();
        Some(Self { generation, spec, run_mark, task_marks })
    }

    /// The supervisor's mark of the run.
    pub fn run_hash(&self) -> String {
        format!("generation-{}", self.run_mark)
    }

    /// The supervisor's marks of the tasks.
    pub fn task_hashes(&self) -> BTreeMap<String, String> {
        self.task_marks.iter().map(|(task, mark)| (task.clone(), format!("generation-{mark}"))).collect()
    }
}
