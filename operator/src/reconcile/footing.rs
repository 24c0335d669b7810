//! The generation that a pass stands on, and the verdict on the newest one.
//!
//! Where the memory knows the newest generation, the stored spec is the truth,
//! and its record is only looked at once per process, to be made or sealed anew
//! where that is missing, so that the next edit finds what it follows. Else
//! the record in a ConfigMap tells, or the check is run beside the pass, while
//! the last good generation stays in force. A ConfigMap of that name which is
//! somebody else's refuses the generation until it is gone. One is made only
//! for a job whose memory is stored: so it shows, also where the whole status was
//! wiped, that something may have been begun.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use weir_crds::resource::StreamingJobSpec;
use weir_supervisor::Acceptance;
use weir_supervisor::Memory;
use weir_supervisor::conditions::{ConditionStatus, Reason};
use weir_supervisor::generation::Accepted;
use weir_supervisor::time::{Timestamp, after};

use super::PassError;
use crate::accept::{self, Predecessor, Refusal, Taken};
use crate::apply::{self, ApplyError};
use crate::checks::CheckState;
use crate::context::Context;
use crate::job::{Job, Remembered};
use crate::local::Local;
use crate::names::generation_name;

/// When a ConfigMap that the API server refused is tried again: quotas and rules change without a watch.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// How many records of a job are looked at for one that is ours; there are two or three.
const MOST_TRIED: usize = 16;

/// What a pass stands on.
#[derive(Clone, Debug)]
pub struct Footing {
    /// The generation in force; none when none was ever accepted.
    pub accepted: Option<Accepted>,
    /// The verdict on the newest generation.
    pub acceptance: Acceptance,
    /// By task: digest of the references whose change restarts it.
    pub references: BTreeMap<String, String>,
    /// When a check that could not be run is tried again, or a name that is taken is looked at again.
    pub retry_at: Option<Timestamp>,
}

impl Footing {
    pub(super) fn standing(accepted: Accepted) -> Footing {
        Footing { accepted: Some(accepted), acceptance: Acceptance::Accepted, references: BTreeMap::new(), retry_at: None }
    }

    fn beside(accepted: Option<Accepted>, acceptance: Acceptance) -> Footing {
        Footing { accepted, acceptance, references: BTreeMap::new(), retry_at: None }
    }

    /// The generation in force; an empty one, of which nothing is ever ordered, when there is none.
    pub fn accepted_or_empty(&self) -> Cow<'_, Accepted> {
        match &self.accepted {
            Some(accepted) => Cow::Borrowed(accepted),
            None => Cow::Owned(Accepted::first(0, StreamingJobSpec::without_tasks())),
        }
    }
}

/// Finds what to stand on.
pub async fn find(context: &Context, job: &Job, memory: &Memory, local: &mut Local, now: Timestamp) -> Result<Footing, PassError> {
    let footing = look_up(context, job, memory, now).await?;
    let Some(generation) = local.taken_generation.filter(|_| !job.is_deleting()) else { return Ok(footing) };
    // A pod could not be started for it.
    let found = context.cluster.config_map(&job.id.namespace, &generation_name(&job.id.name, generation)).await?;
    match found.and_then(|map| accept::taken(&job.id, &map)) {
        Some(taken) if footing.acceptance == Acceptance::Accepted => Ok(contested(job, footing.accepted, taken, now)),
        Some(_) => Ok(footing),
        None => {
            local.taken_generation = None;
            Ok(footing)
        }
    }
}

async fn look_up(context: &Context, job: &Job, memory: &Memory, now: Timestamp) -> Result<Footing, PassError> {
    let known = memory.spec.as_ref().filter(|known| known.generation > 0);
    let spec = match &job.spec {
        Ok(spec) => spec,
        Err(why) => {
            let refusal = Refusal::invalid(format!("the stored spec cannot be read: {why}"));
            return Ok(refused(job, last_good(context, job, memory).await?, refusal));
        }
    };
    if let Some(known) = known.filter(|known| known.generation == job.generation) {
        let accepted = Accepted::remembered((**spec).clone(), known);
        keep_record(context, job, &accepted).await;
        return Ok(Footing::standing(accepted));
    }
    let record = context.cluster.config_map(&job.id.namespace, &generation_name(&job.id.name, job.generation)).await?;
    if let Some(accepted) = record.as_ref().and_then(|map| accept::recorded(&context.key, &job.id, map)) {
        context.recorded(&job.id, job.generation);
        return Ok(Footing::standing(accepted));
    }
    let last_good = last_good(context, job, memory).await?;
    if job.is_deleting() {
        // Nothing new begins any more.
        return Ok(Footing::beside(last_good, Acceptance::Checking { generation: job.generation, obstacle: None }));
    }
    let before = match (&last_good, known) {
        (Some(accepted), _) => Predecessor::Kept(accepted),
        (None, Some(known)) => Predecessor::Lost(known),
        (None, None) => Predecessor::None,
    };
    if let Some(refusal) = accept::refusal(&job.id, before, spec, context.settings.secrets) {
        return Ok(refused(job, last_good, refusal));
    }
    if let Some(taken) = record.as_ref().and_then(|map| accept::taken(&job.id, map)) {
        return Ok(contested(job, last_good, taken, now));
    }
    match context.checks.state(job, spec, now) {
        // A generation is recorded only beside a memory, so that a record without one tells that a memory was lost.
        CheckState::Passed if !matches!(job.memory, Remembered::Known(_)) => {
            Ok(Footing { retry_at: Some(now), ..unchecked(job, last_good, None) })
        }
        CheckState::Passed => {
            let accepted = match &last_good {
                Some(last_good) => last_good.next(job.generation, (**spec).clone()),
                None => Accepted::first(job.generation, (**spec).clone()),
            };
            match apply::store_generation(&context.cluster, &context.key, job, &accepted, record.as_ref()).await {
                Ok(None) => {}
                Ok(Some(taken)) => return Ok(contested(job, last_good, taken, now)),
                Err(ApplyError::Call(error)) if error.is_refusal() => {
                    let message = format!("the ConfigMap of the generation could not be made: {error}; it is tried again");
                    let retry_at = Some(after(now, REFUSED_PAUSE));
                    return Ok(Footing { retry_at, ..unchecked(job, last_good, Some(message)) });
                }
                Err(ApplyError::Build(error)) => return Ok(refused(job, last_good, Refusal::invalid(error.to_string()))),
                Err(error) => return Err(error.into()),
            }
            context.recorded(&job.id, job.generation);
            context.checks.forget(&job.id);
            Ok(Footing::standing(accepted))
        }
        CheckState::Refused(refusal) => Ok(refused(job, last_good, refusal)),
        CheckState::Running { obstacle } => Ok(unchecked(job, last_good, obstacle)),
        CheckState::Unavailable { message, retry_at } => {
            Ok(Footing { retry_at: Some(retry_at), ..unchecked(job, last_good, Some(message)) })
        }
    }
}

/// Makes or seals anew the record of the generation in force where this process has not seen it: one of a Weir without seals,
/// of another key, or that somebody removed. Nothing waits for it, so what is in its way is told when a pod needs it.
async fn keep_record(context: &Context, job: &Job, accepted: &Accepted) {
    if job.is_deleting() || job.is_paused() || context.is_recorded(&job.id, accepted.generation) {
        return;
    }
    let found = context.cluster.config_map(&job.id.namespace, &generation_name(&job.id.name, accepted.generation)).await;
    let kept = match found {
        Ok(Some(map)) if accept::recorded(&context.key, &job.id, &map).is_some() => Ok(None),
        Ok(found) => apply::store_generation(&context.cluster, &context.key, job, accepted, found.as_ref()).await,
        Err(error) => Err(error.into()),
    };
    match kept {
        Ok(_) | Err(ApplyError::Build(_)) => context.recorded(&job.id, accepted.generation),
        Err(ApplyError::Call(error)) => {
            tracing::warn!(%error, "the ConfigMap of the generation in force could not be looked at or made anew");
            if error.is_refusal() {
                context.recorded(&job.id, accepted.generation);
            }
        }
    }
}

/// No verdict yet. A new process checks anew what an earlier one refused; until it knows better, that verdict holds.
fn unchecked(job: &Job, last_good: Option<Accepted>, obstacle: Option<String>) -> Footing {
    match refused_before(job) {
        Some(refusal) => refused(job, last_good, refusal),
        None => Footing::beside(last_good, Acceptance::Checking { generation: job.generation, obstacle }),
    }
}

fn refused(job: &Job, last_good: Option<Accepted>, refusal: Refusal) -> Footing {
    let Refusal { reason, message } = refusal;
    Footing::beside(last_good, Acceptance::Rejected { generation: job.generation, reason, message })
}

/// A generation whose ConfigMap cannot be made, because something else has its name.
fn contested(job: &Job, accepted: Option<Accepted>, taken: Taken, now: Timestamp) -> Footing {
    let retry_at = Some(after(now, taken.look_again));
    Footing { retry_at, ..refused(job, accepted, taken.refusal()) }
}

/// The refusal of this very generation that the status shows.
fn refused_before(job: &Job) -> Option<Refusal> {
    let conditions = job.status()["conditions"].as_array()?;
    let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted" && condition["status"] == "False")?;
    let is_current = accepted["observedGeneration"].as_i64() == Some(job.generation);
    is_current.then_some(())?;
    let reason = accepted["reason"].as_str().and_then(Reason::named).filter(|reason| reason.is_of("Accepted", ConditionStatus::False))?;
    // Those are looked at anew each time.
    let is_kept = !matches!(reason, Reason::OwnershipConflict | Reason::GenerationLost);
    is_kept.then_some(Refusal { reason, message: accepted["message"].as_str()?.to_owned() })
}

/// The generation that was in force before the newest: the one that the memory knows or, where it knows none, the newest that
/// is left. None where no record proves it.
async fn last_good(context: &Context, job: &Job, memory: &Memory) -> Result<Option<Accepted>, PassError> {
    if let Some(known) = memory.spec.as_ref().filter(|known| known.generation > 0) {
        let map = context.cluster.config_map(&job.id.namespace, &generation_name(&job.id.name, known.generation)).await?;
        return Ok(map.and_then(|map| accept::recorded(&context.key, &job.id, &map)));
    }
    if job.generation <= 1 {
        // There is none below the first.
        return Ok(None);
    }
    // A wiped status.
    let maps = context.cluster.config_maps(&job.id).await?;
    let mut below: Vec<i64> =
        maps.iter().filter_map(|map| job.id.generation_of(map)).filter(|generation| *generation < job.generation).collect();
    below.sort_unstable_by(|one, other| other.cmp(one));
    for generation in below.into_iter().take(MOST_TRIED) {
        let map = context.cluster.config_map(&job.id.namespace, &generation_name(&job.id.name, generation)).await?;
        if let Some(accepted) = map.and_then(|map| accept::recorded(&context.key, &job.id, &map)) {
            return Ok(Some(accepted));
        }
    }
    Ok(None)
}
