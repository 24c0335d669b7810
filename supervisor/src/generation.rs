//! Accepted generations of a manifest, and what each needs to begin anew.
//!
//! A hash here is a mark: the generation of the last change that needs a new
//! run, and of the last one that restarts each task. Marks only move when the
//! field table says that an edit disrupts, so a default that a later version
//! adds, another order or another spelling never restarts anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_crds::resource::{Disruption, StreamingJobSpec, disruption};

use crate::memory::SpecMark;

/// An accepted generation with its marks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The generation.
    pub generation: i64,
    /// Its spec.
    pub spec: StreamingJobSpec,
    /// Mark of the last change that needs a new run.
    pub run_hash: String,
    /// By task: mark of the last change that restarts it.
    pub task_hashes: BTreeMap<String, String>,
}

impl Accepted {
    /// The first one of a job.
    pub fn first(generation: i64, spec: StreamingJobSpec) -> Accepted {
        let task_hashes = spec.tasks.iter().map(|task| (task.name.clone(), mark(generation))).collect();
        Accepted { generation, spec, run_hash: mark(generation), task_hashes }
    }

    /// The one that the supervisor's memory knows, with the spec of its generation.
    pub fn remembered(spec: StreamingJobSpec, known: &SpecMark) -> Accepted {
        let task_hashes = known.tasks.iter().map(|(task, hash)| (task.clone(), without_references(hash).to_owned())).collect();
        Accepted { generation: known.generation, spec, run_hash: known.run_hash.clone(), task_hashes }
    }

    /// The next one.
    pub fn next(&self, generation: i64, spec: StreamingJobSpec) -> Accepted {
        let found: Disruption = disruption(&self.spec, &spec);
        let run_hash = if found.run { mark(generation) } else { self.run_hash.clone() };
        let hash_of = |task: &str| match self.task_hashes.get(task) {
            Some(kept) if !found.tasks.contains(task) => kept.clone(),
            _ => mark(generation),
        };
        let task_hashes = spec.tasks.iter().map(|task| (task.name.clone(), hash_of(&task.name))).collect();
        Accepted { generation, spec, run_hash, task_hashes }
    }
}

/// A task's hash with a digest of what it refers to, where a change of that restarts it.
pub fn with_references(hash: &str, digest: &str) -> String {
    format!("{hash}+{digest}")
}

/// The digest of [`with_references`]; none where nothing is watched.
pub fn references_of(hash: &str) -> Option<&str> {
    hash.split_once('+').map(|(_, digest)| digest)
}

fn without_references(hash: &str) -> &str {
    hash.split_once('+').map_or(hash, |(mark, _)| mark)
}

fn mark(generation: i64) -> String {
    format!("generation-{generation}")
}
