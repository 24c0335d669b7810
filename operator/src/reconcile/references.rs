//! Digests of the ConfigMaps and Secrets whose change restarts a task.
//!
//! They are read at an interval, because a watch on them would hold what
//! belongs to others in memory. What cannot be read keeps its last digest: a
//! failed read, or an object that is gone, restarts nothing.

use std::collections::BTreeMap;

use weir_crds::resource::TaskSpec;
use weir_supervisor::Memory;
use weir_supervisor::generation::references_of;
use weir_supervisor::time::{Timestamp, elapsed};

use super::{Footing, PassError};
use crate::accept::task_references;
use crate::context::Context;
use crate::job::Job;
use crate::local::Local;
use crate::token;

/// Fills in the digests of the generation in force.
pub async fn digest(
    context: &Context,
    job: &Job,
    memory: &Memory,
    footing: &mut Footing,
    local: &mut Local,
    now: Timestamp,
) -> Result<(), PassError> {
    let Some(accepted) = &footing.accepted else { return Ok(()) };
    let watched: Vec<&TaskSpec> = accepted.spec.tasks.iter().filter(|task| task_references(task).next().is_some()).collect();
    if watched.is_empty() {
        local.references.clear();
        return Ok(());
    }
    let is_fresh = local.references_at.is_some_and(|at| at <= now && elapsed(at, now) < context.settings.reference_interval);
    if !is_fresh || watched.iter().any(|task| !local.references.contains_key(&task.name)) {
        let mut digests = BTreeMap::new();
        for task in watched {
            let known = local.references.get(&task.name).cloned().or_else(|| remembered(memory, &task.name));
            if let Some(digest) = read(context, job, task).await.or(known) {
                digests.insert(task.name.clone(), digest);
            }
        }
        local.references = digests;
        local.references_at = Some(now);
    }
    footing.references.clone_from(&local.references);
    Ok(())
}

/// The digest that the task last ran with.
fn remembered(memory: &Memory, task: &str) -> Option<String> {
    references_of(memory.spec.as_ref()?.tasks.get(task)?).map(str::to_owned)
}

/// One digest over all that a task refers to; none when something cannot be read.
async fn read(context: &Context, job: &Job, task: &TaskSpec) -> Option<String> {
    let namespace = &job.id.namespace;
    let mut content: Vec<u8> = Vec::new();
    for reference in task_references(task) {
        let found = match (&reference.secret_ref, &reference.config_map_ref) {
            (Some(secret), _) => match context.cluster.secret(namespace, &secret.name).await {
                Ok(found) => found.map(|secret| serde_json::to_vec(&secret.data)),
                Err(error) => return unreadable(&secret.name, &error),
            },
            (None, Some(map)) => match context.cluster.config_map(namespace, &map.name).await {
                Ok(found) => found.map(|map| serde_json::to_vec(&(map.data, map.binary_data))),
                Err(error) => return unreadable(&map.name, &error),
            },
            (None, None) => continue,
        };
        content.extend(found?.ok()?);
        content.push(0);
    }
    Some(token::fingerprint(&context.key, &content))
}

fn unreadable(name: &str, error: &crate::cluster::CallError) -> Option<String> {
    tracing::warn!(name, %error, "a reference with onChange: Restart could not be read");
    None
}
