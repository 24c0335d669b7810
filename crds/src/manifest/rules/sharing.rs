//! No two queries share a checkpoint: within a task, across tasks and across the jobs of the files.
//!
//! Compared are the locations as they are used, derived ones too, whatever their spelling. What else must not overlap is
//! known where paths are resolved, in the engine.

use std::collections::BTreeMap;

use crate::checkpoint::{checkpoint_location, normalized_location};
use crate::finding::Finding;
use crate::resource::StreamingJob;

/// For each finding the index of the job that it belongs to.
pub(crate) fn shared_checkpoints<'a>(jobs: impl Iterator<Item = &'a StreamingJob>) -> Vec<(usize, Finding)> {
    let mut owners: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, job) in jobs.enumerate() {
        let job_name = job.metadata.name.as_deref().unwrap_or_default();
        let queries = job.spec.tasks.iter().flat_map(|task| task.queries.iter().map(move |query| (task, query)));
        for (task, query) in queries {
            let Some(location) = checkpoint_location(job, &task.name, query) else { continue };
            let owner = (index, format!("query {} of task {} of job {job_name}", query.name, task.name));
            let place = normalized_location(&location);
            let Some((other_index, other)) = owners.get(&place) else {
                owners.insert(place, owner);
                continue;
            };
            let own_job = format!(" of job {job_name}");
            let shown = if *other_index == index { other.trim_end_matches(own_job.as_str()) } else { other.as_str() };
            let finding = Finding::error(
                "shared-checkpoint",
                format!("spec.tasks[{}].queries[{}].checkpointLocation", task.name, query.name),
                format!("shares its checkpoint with {shown}"),
            );
            findings.push((index, finding.found(&location).remedy("give each query a checkpoint of its own")));
        }
    }
    findings
}
