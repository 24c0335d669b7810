//! Taking a job on and letting it go: finalizer, generations that are not needed any more.
//!
//! The finalizer is added in a write of its own before anything else exists,
//! and taken away when nothing is alive. The job's own generations go before
//! it, so that a job made anew under its name needs no garbage collection.
//! Lists are written with the `resourceVersion` that was read, so finalizers
//! of others stay. Checkpoints are never deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use weir_supervisor::Memory;

use super::{Footing, Next, PassError};
use crate::apply;
use crate::cluster::{CallError, Grace};
use crate::context::Context;
use crate::job::Job;
use crate::look::Look;
use crate::names::{FINALIZER, INSTALLATION};

/// The metadata of a job that an installation takes on.
pub fn entering(job: &Job, installation: &str) -> Value {
    let mut finalizers = job.object.metadata.finalizers.clone().unwrap_or_default();
    if !job.has_finalizer() {
        finalizers.push(FINALIZER.to_owned());
    }
    json!({
        "resourceVersion": job.object.metadata.resource_version,
        "finalizers": finalizers,
        "annotations": {INSTALLATION: installation},
    })
}

/// Lets a job go: nothing of it is alive, or its owner asked not to wait.
pub async fn leave(context: &Context, job: &Job, look: &Look) -> Result<Next, PassError> {
    for pod in look.pods.values() {
        context.cluster.delete_pod(pod, Grace::Seconds(1)).await?;
    }
    remove_generations(context, job).await?;
    remove_finalizer(context, job).await
}

/// Asks the pods of a job to stop, each once.
pub async fn stop(context: &Context, job: &Job) -> Result<(), PassError> {
    let limit = job.spec.as_ref().map_or(Duration::ZERO, |spec| spec.stop_timeout.as_duration());
    for pod in context.cluster.pods(&job.id).await? {
        if job.id.owns(&pod.metadata) && pod.metadata.deletion_timestamp.is_none() {
            context.cluster.delete_pod(&pod, apply::grace(limit)).await?;
        }
    }
    Ok(())
}

async fn remove_generations(context: &Context, job: &Job) -> Result<(), PassError> {
    let maps = match context.cluster.config_maps(&job.id).await {
        Err(error) if error.is_forbidden() => {
            tracing::warn!(%error, "the generations are left to garbage collection");
            Vec::new()
        }
        other => other?,
    };
    for map in maps.iter().filter(|map| job.id.generation_of(map).is_some()) {
        tolerate(context.cluster.delete_config_map(map).await)?;
    }
    Ok(())
}

async fn remove_finalizer(context: &Context, job: &Job) -> Result<Next, PassError> {
    let kept = job.object.metadata.finalizers.iter().flatten().filter(|name| *name != FINALIZER);
    let metadata = json!({
        "resourceVersion": job.object.metadata.resource_version,
        "finalizers": kept.collect::<Vec<_>>(),
    });
    match context.cluster.patch_metadata(&job.id.namespace, &job.id.name, &metadata).await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    context.forget(&job.id.namespace, &job.id.name);
    Ok(Next::Never)
}

/// Whether a generation may not be needed any more. Not asked for between a run's end and the next one's start, which
/// would wait for the list: the next run's being ready asks for it.
pub fn may_prune(before: &Memory, after: &Memory) -> bool {
    // Nobody remembers which generation these are of, and whether they are fenced is told by its record.
    let is_waited_for = |memory: &Memory| !memory.strangers.is_empty() || !memory.left_behind.is_empty();
    if is_waited_for(after) {
        return false;
    }
    let is_ready = |memory: &Memory| memory.run.as_ref().is_some_and(|run| run.ready_since.is_some());
    let rests = after.last_run != before.last_run && after.next_start.is_none();
    after.spec != before.spec || rests || (is_ready(after) && !is_ready(before)) || is_waited_for(before)
}

/// Deletes generations that no run can need any more.
pub async fn prune(context: &Context, job: &Job, footing: &Footing, memory: &Memory) -> Result<(), PassError> {
    if job.generation <= 1 {
        // There is none below the first.
        return Ok(());
    }
    let run = memory.run.iter().flat_map(|run| run.tasks.values().map(|task| task.generation).chain([run.generation]));
    let others = memory.last_run.as_ref().map(|last| last.generation).into_iter();
    let accepted = footing.accepted.as_ref().map(|accepted| accepted.generation);
    let needed: BTreeSet<i64> = run.chain(others).chain(accepted).chain([job.generation]).collect();
    for map in context.cluster.config_maps(&job.id).await? {
        if job.id.generation_of(&map).is_some_and(|generation| !needed.contains(&generation)) {
            tolerate(context.cluster.delete_config_map(&map).await)?;
        }
    }
    Ok(())
}

/// A ConfigMap that stays is no reason to stop a pass.
fn tolerate(result: Result<(), CallError>) -> Result<(), PassError> {
    match result {
        Err(error) if error.is_forbidden() => {
            tracing::warn!(%error, "a generation could not be removed");
            Ok(())
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn no_generation_goes_while_somebody_is_waited_for_of_whom_it_may_tell() {
        let memory = |waited: Value, spec: Value| -> Memory {
            let mut memory = json!({"version": 1, "epoch": 3, "spec": spec});
            memory.as_object_mut().unwrap().extend(waited.as_object().unwrap().clone());
            Memory::from_json(&memory.to_string()).unwrap()
        };
        let stranger = json!({"strangers": {"t": {"epoch": 2}}});
        let left = json!({"leftBehind": {"t": {"epoch": 2, "fence": "f"}}});
        let edited = json!({"generation": 2, "runHash": "r", "tasks": {}});
        for (before, after, prunes) in [
            (memory(json!({}), Value::Null), memory(json!({}), Value::Null), false),
            (memory(json!({}), Value::Null), memory(json!({}), edited.clone()), true),
            (memory(json!({}), Value::Null), memory(stranger.clone(), edited.clone()), false),
            (memory(stranger.clone(), edited.clone()), memory(stranger.clone(), edited.clone()), false),
            (memory(stranger, edited.clone()), memory(json!({}), edited.clone()), true),
            (memory(json!({}), Value::Null), memory(left.clone(), edited.clone()), false),
            (memory(left, edited.clone()), memory(json!({}), edited), true),
        ] {
            assert_eq!(may_prune(&before, &after), prunes, "{before:?} {after:?}");
        }
    }
}
