//! A job of which nothing may be decided: it is told, in its conditions and an event, and left alone.
//!
//! Only conditions are written, and only when they change; the memory stays as
//! it is stored. A deletion is never held: it gives out no epoch, so it needs no
//! memory. That a status is not kept is seen in the answer to a write and asked
//! again by a dry run, so a definition that was brought up to date is noticed.

use std::time::Duration;

use serde::Deserialize;
use weir_crds::resource::StreamingJobStatus;
use weir_supervisor::conditions::{Condition, ConditionStatus, Hold, held, recalled};
use weir_supervisor::time::Timestamp;
use weir_supervisor::{Desired, Memory};

use super::{Next, PassError};
use crate::context::Context;
use crate::job::{Job, Remembered};
use crate::metrics::StatusWrite;
use crate::status::{self, Change};

/// How often the API server is asked whether it keeps the memory by now.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Why nothing may be decided about a job; none where all is well.
pub async fn reason(context: &Context, job: &Job) -> Result<Option<Hold>, PassError> {
    if job.is_deleting() {
        return Ok(None);
    }
    match &job.memory {
        Remembered::Newer(why) if !job.discards_memory() => Ok(Some(Hold::StatusTooNew { epoch: job.status_epoch(), why: why.clone() })),
        Remembered::Unreadable(why) if !job.discards_memory() => {
            Ok(Some(Hold::MemoryUnreadable { epoch: job.status_epoch(), why: why.clone() }))
        }
        Remembered::Nothing if shows(job, &Hold::StatusNotKept) && !is_kept(context, job).await? => Ok(Some(Hold::StatusNotKept)),
        Remembered::Nothing | Remembered::Known(_) | Remembered::Damaged(_) | Remembered::Newer(_) | Remembered::Unreadable(_) => Ok(None),
    }
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
        Hold::StatusTooNew { .. } | Hold::MemoryUnreadable { .. } | Hold::GenerationLost { .. } | Hold::InternalError { .. } => {
            context.settings.resync(rand::random())
        }
    }))
}

/// Tells that the pass over a job panicked.
pub async fn panicked(context: &Context, namespace: &str, name: &str, words: &str) -> Result<(), PassError> {
    let Some(stored) = context.cluster.job(namespace, name).await? else { return Ok(()) };
    let job = Job::read(stored);
    if job.installation() == Some(context.settings.installation.as_str()) {
        let hold = Hold::InternalError { words: words.to_owned() };
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
    #[test]
    fn the_documentation_names_the_way_out_of_a_memory_that_is_too_new() {
        let documentation = include_str!("../../../docs/operator.md");
        assert!(documentation.contains(&format!("`{}: <epoch>`", weir_crds::annotations::DISCARD_MEMORY)));
    }
}
