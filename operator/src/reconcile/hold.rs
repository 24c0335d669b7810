//! A job of which nothing may be decided: it is told, in its conditions and an event, and left alone.
//!
//! One table says why. Only conditions are written, and only when they change;
//! the memory stays as it is stored. A deletion is never held: it gives out no
//! epoch, so it needs no memory. That a status is not kept is seen in the answer
//! to a write and asked again by a dry run, so a definition that was brought up to
//! date is noticed. A memory that was lost may have forgotten a pod that vanished
//! unseen: the job goes on where a fence makes that harmless, or a human says so.

use std::time::Duration;

use serde::Deserialize;
use weir_crds::resource::StreamingJobStatus;
use weir_supervisor::conditions::{Condition, ConditionStatus, Hold, held, recalled};
use weir_supervisor::generation::Accepted;
use weir_supervisor::time::Timestamp;
use weir_supervisor::{Desired, Memory};

use super::{Footing, Next, PassError};
use crate::accept;
use crate::context::Context;
use crate::fencing;
use crate::job::{Job, Remembered};
use crate::metrics::StatusWrite;
use crate::status::{self, Change};

/// How often the API server is asked whether it keeps the memory by now.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What a pass knows when it asks whether it may decide.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// The job as it is stored.
    Stored,
    /// That the API server keeps no memory: by its answer to a write.
    MemoryNotKept,
    /// What to stand on. Where the memory is lost, also whether what may be forgotten is harmless.
    Footing(&'a Footing, Forgotten),
    /// The pass panicked with these words.
    Panic(&'a str),
}

/// What a lost memory may have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Nothing: there is a memory.
    Nothing,
    /// Nothing but instances that a fence makes harmless.
    Harmless,
    /// An instance that may still have effects.
    Perhaps,
}

/// Why nothing may be decided about a job; none where all is well. The only place that says so.
pub fn reason(job: &Job, found: Found<'_>) -> Option<Hold> {
    let epoch = job.status_epoch();
    match (found, &job.memory) {
        (Found::Panic(words), _) => Some(Hold::InternalError { words: words.to_owned() }),
        _ if job.is_deleting() => None,
        (Found::MemoryNotKept, _) => Some(Hold::StatusNotKept),
        (Found::Footing(footing, _), Remembered::Known(memory)) if footing.accepted.is_none() && memory.run.is_some() => {
            let generation = memory.spec.as_ref().map_or(0, |known| known.generation);
            Some(Hold::GenerationLost { generation })
        }
        (Found::Footing(..) | Found::Stored, Remembered::Known(_)) => None,
        (Found::Footing(..) | Found::Stored, _) if job.discards_memory() => None,
        (Found::Footing(..) | Found::Stored, Remembered::Newer(why)) => Some(Hold::StatusTooNew { epoch, why: why.clone() }),
        (Found::Footing(..) | Found::Stored, Remembered::Unreadable(why)) => Some(Hold::MemoryUnreadable { epoch, why: why.clone() }),
        (Found::Footing(_, Forgotten::Perhaps), Remembered::Nothing) => {
            Some(Hold::MemoryLost { epoch, why: "status.memory is gone".to_owned() })
        }
        (Found::Footing(_, Forgotten::Perhaps), Remembered::Damaged(why)) => {
            Some(Hold::MemoryLost { epoch, why: format!("status.memory is damaged ({why})") })
        }
        (Found::Footing(..) | Found::Stored, Remembered::Nothing | Remembered::Damaged(_)) => None,
    }
}

/// The first look: at the job as it is stored.
pub async fn on_sight(context: &Context, job: &Job) -> Result<Option<Hold>, PassError> {
    let asks = matches!(job.memory, Remembered::Nothing) && shows(job, &Hold::StatusNotKept) && !job.is_deleting();
    let found = if asks && !is_kept(context, job).await? { Found::MemoryNotKept } else { Found::Stored };
    Ok(reason(job, found))
}

/// The second look: what is stood on is known, and with it what goes on where the memory is lost.
pub async fn on_footing(context: &Context, job: &Job, footing: &Footing) -> Result<Option<Hold>, PassError> {
    let forgotten = if is_memory_lost(job) { forgotten(context, job, footing).await? } else { Forgotten::Nothing };
    Ok(reason(job, Found::Footing(footing, forgotten)))
}

/// Whether there was a memory and is none. Of a status that was wiped as a whole nobody can tell: pods, ConfigMaps and
/// claims of checkpoints are what is left.
pub fn is_memory_lost(job: &Job) -> bool {
    match &job.memory {
        Remembered::Nothing => job.shows_a_run(),
        Remembered::Damaged(_) => true,
        Remembered::Known(_) | Remembered::Newer(_) | Remembered::Unreadable(_) => false,
    }
}

async fn forgotten(context: &Context, job: &Job, footing: &Footing) -> Result<Forgotten, PassError> {
    let Some(accepted) = footing.accepted.as_ref().filter(|_| !job.is_deleting()) else { return Ok(Forgotten::Perhaps) };
    let maps = context.cluster.config_maps(&job.id).await?;
    let own = maps.iter().filter(|map| job.id.owns(&map.metadata));
    // One that cannot be read may have been begun.
    let recorded: Option<Vec<Accepted>> = own.map(|map| accept::recorded(&job.id, map)).collect();
    let harmless = recorded.is_some_and(|recorded| fencing::covers(&job.id, &accepted.spec, &recorded, &job.shown_generations()));
    Ok(if harmless { Forgotten::Harmless } else { Forgotten::Perhaps })
}

/// Whether the API server keeps a memory now.
async fn is_kept(context: &Context, job: &Job) -> Result<bool, PassError> {
    let mut status = job.status().clone();
    status["memory"] = serde_json::to_value(Memory::default()).unwrap_or_default();
    let answer = context.cluster.try_status(&job.with_status(status)).await?;
    Ok(answer.object.data["status"]["memory"]["version"].is_number())
}

/// Tells why a job is held.
pub async fn keep(context: &Context, job: &Job, hold: &Hold, now: Timestamp) -> Result<Next, PassError> {
    let (conditions, event) = held(&known(job), hold, job.generation, now);
    let composed = status::hold(job.status(), &conditions, job.generation);
    if let Ok(shown) = StreamingJobStatus::deserialize(&composed) {
        context.show(job, &Desired::nothing(), shown);
    }
    if status::change(job.status(), &composed) != Change::None {
        context.cluster.write_status(&job.with_status(composed)).await?;
        context.metrics.operator.status_written(StatusWrite::Condition);
    }
    if let Some(event) = event {
        tracing::error!("{}", event.note);
        context.events.publish(&job.id, &event);
    }
    Ok(Next::Within(match hold {
        Hold::StatusNotKept => ASK_AGAIN,
        Hold::StatusTooNew { .. }
        | Hold::MemoryUnreadable { .. }
        | Hold::MemoryLost { .. }
        | Hold::GenerationLost { .. }
        | Hold::InternalError { .. } => context.settings.resync(rand::random()),
    }))
}

/// Tells that the pass over a job panicked.
pub async fn panicked(context: &Context, namespace: &str, name: &str, words: &str) -> Result<(), PassError> {
    let Some(stored) = context.cluster.job(namespace, name).await? else { return Ok(()) };
    let job = Job::read(stored);
    if job.installation() == Some(context.settings.installation.as_str())
        && let Some(hold) = reason(&job, Found::Panic(words))
    {
        keep(context, &job, &hold, context.clock.now()).await?;
    }
    Ok(())
}

/// The conditions of a job so far: as shown, and as remembered where that is the same.
pub fn known(job: &Job) -> Vec<Condition> {
    let remembered = match &job.memory {
        Remembered::Known(memory) => memory.conditions.as_slice(),
        Remembered::Nothing | Remembered::Damaged(_) | Remembered::Newer(_) | Remembered::Unreadable(_) => &[],
    };
    recalled(&job.conditions(), remembered)
}

fn shows(job: &Job, hold: &Hold) -> bool {
    let is_shown = |condition: &Condition| condition.status == ConditionStatus::True && condition.reason == hold.reason().as_str();
    job.conditions().iter().any(|condition| condition.kind == "Stalled" && is_shown(condition))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_crds::resource::StreamingJobSpec;

    use super::*;

    fn job(status: &Value, discards: &str, deletion: Value) -> Job {
        let metadata = json!({
            "name": "j", "namespace": "n", "uid": "u", "generation": 2, "deletionTimestamp": deletion,
            "annotations": {weir_crds::annotations::DISCARD_MEMORY: discards},
        });
        let object = json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": metadata, "spec": {}, "status": status});
        Job::read(serde_json::from_value(object).expect("an object"))
    }

    fn held_by(status: &Value, found: Found<'_>) -> Option<&'static str> {
        reason(&job(status, "6", Value::Null), found).map(|hold| hold.reason().as_str())
    }

    #[test]
    fn the_table_of_reasons() {
        let spec = StreamingJobSpec::without_tasks();
        let standing = Footing::standing(Accepted::first(2, spec));
        let nothing = Footing { accepted: None, ..standing.clone() };
        let run = json!({"number": 1, "generation": 1, "runHash": "r", "startedAt": "2026-11-30T12:00:00Z", "tasks": {}});
        let known = json!({"epoch": 7, "memory": {"version": 1, "epoch": 7, "run": run}});
        let resting = json!({"epoch": 7, "memory": {"version": 1, "epoch": 7}});
        let lost = json!({"epoch": 7});
        let damaged = json!({"epoch": 7, "memory": {"version": 1, "epoch": 7, "nextStart": "soon"}});
        let newer = json!({"epoch": 7, "memory": {"version": 99}});
        let on = |footing, forgotten| Found::Footing(footing, forgotten);
        let rows = [
            (&known, Found::Panic("x"), Some("InternalError")),
            (&lost, Found::MemoryNotKept, Some("StatusNotKept")),
            (&newer, Found::Stored, Some("StatusTooNew")),
            (&newer, on(&standing, Forgotten::Nothing), Some("StatusTooNew")),
            (&known, on(&nothing, Forgotten::Nothing), Some("GenerationLost")),
            (&known, on(&standing, Forgotten::Nothing), None),
            (&resting, on(&nothing, Forgotten::Nothing), None),
            (&lost, Found::Stored, None),
            (&lost, on(&standing, Forgotten::Perhaps), Some("MemoryLost")),
            (&lost, on(&nothing, Forgotten::Perhaps), Some("MemoryLost")),
            (&lost, on(&standing, Forgotten::Harmless), None),
            (&damaged, on(&standing, Forgotten::Perhaps), Some("MemoryLost")),
            (&damaged, on(&standing, Forgotten::Harmless), None),
        ];
        for (status, found, expected) in rows {
            assert_eq!(held_by(status, found), expected, "{status} {found:?}");
            let going = job(status, "", json!("2026-11-30T12:00:00Z"));
            let ends = reason(&going, found).map(|hold| hold.reason().as_str());
            assert_eq!(ends, expected.filter(|reason| *reason == "InternalError"), "a deletion needs no memory: {status} {found:?}");
        }
        // Only the epoch of this very status is a human's word for it, and only for the memory.
        for status in [&lost, &damaged, &newer] {
            let told = job(status, " 7 ", Value::Null);
            assert_eq!(reason(&told, on(&standing, Forgotten::Perhaps)), None, "{status}");
        }
        assert!(reason(&job(&known, "7", Value::Null), on(&nothing, Forgotten::Nothing)).is_some());
    }

    #[test]
    fn a_memory_is_lost_where_there_was_one() {
        for (status, lost) in [
            (json!({"observedGeneration": -1}), false),
            (json!({"epoch": 0, "memory": {"version": 1}}), false),
            (json!({"epoch": 3, "memory": {"version": 1, "epoch": 3}}), false),
            (json!({"epoch": 3}), true),
            (json!({"history": [{"number": 1}]}), true),
            (json!({"memory": {"version": 1, "epoch": "x"}}), true),
        ] {
            assert_eq!(is_memory_lost(&job(&status, "", Value::Null)), lost, "{status}");
        }
    }

    #[test]
    fn the_way_out_is_the_clusters_and_names_the_epoch() {
        for status in [json!({"epoch": 7}), json!({"epoch": 7, "memory": {"version": 1, "epoch": "x"}})] {
            let lost = job(&status, "", Value::Null);
            let standing = Footing::standing(Accepted::first(2, StreamingJobSpec::without_tasks()));
            let message = reason(&lost, Found::Footing(&standing, Forgotten::Perhaps)).map(|hold| hold.message()).unwrap_or_default();
            assert!(message.contains("status.memory is") && message.contains("weir.dev/discard-memory: \"7\""), "{message}");
            assert!(!message.contains("file"), "{message}");
        }
    }

    #[test]
    fn the_documentation_names_the_way_out_of_a_memory_that_is_too_new() {
        let documentation = include_str!("../../../docs/operator.md");
        assert!(documentation.contains(&format!("`{}: <epoch>`", weir_crds::annotations::DISCARD_MEMORY)));
    }
}
