//! A job of which nothing may be decided: it is told, in its conditions and an event, and left alone.
//!
//! One table says why. Only conditions are written, and only when they change;
//! the memory stays as it is stored. A definition that drops the memory hides the
//! one that is stored, and any write then drops it for good: so where a memory is
//! missing, a dry run asks whether one would be kept, and nothing is written until
//! it is. A memory that was lost may have forgotten a pod that vanished unseen: the
//! job goes on where a fence makes that harmless, or a human says so. A deletion
//! gives out no epoch, so it is held for that alone, lest a job made anew under its
//! name begins beside such a pod: its pods are stopped, its finalizer stays.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use weir_crds::annotations;
use weir_crds::resource::StreamingJobStatus;
use weir_supervisor::conditions::{Condition, Hold, held, recalled};
use weir_supervisor::text::{NOTE_BYTES, cut};
use weir_supervisor::time::{Timestamp, elapsed};
use weir_supervisor::{Acceptance, Desired, Event, EventReason, Memory};

use super::forgotten::{self, Forgotten};
use super::{Footing, Next, PassError, leave};
use crate::context::Context;
use crate::job::{Job, Remembered};
use crate::local::{Local, Unkept};
use crate::metrics::StatusWrite;
use crate::status::{self, Change};
use crate::stored::StoredJob;

/// As much as is told of why a memory cannot be read, so that the way out follows in any case.
const WHY_BYTES: usize = 256;
/// How often the API server is asked whether it keeps the memory by now.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// How often it is told meanwhile what no condition can tell; API servers keep events for an hour.
const TELL_AGAIN: Duration = Duration::from_secs(30 * 60);

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

/// Why nothing may be decided about a job; none where all is well, or a human takes it on. The only place that says so.
pub fn reason(job: &Job, found: Found<'_>) -> Option<Hold> {
    let mut hold = obstacle(job, found)?;
    let shown = hold.is_shown(&job.conditions());
    let said = job.discards_memory().and_then(|said| said.epoch);
    if let Some((epoch, early)) = hold.word()
        && said == Some(epoch)
    {
        // A word that was there before the hold is no answer to it, until it was away.
        *early = shown.unwrap_or(true);
        if !*early {
            return None;
        }
    }
    Some(hold)
}

fn obstacle(job: &Job, found: Found<'_>) -> Option<Hold> {
    let (epoch, early) = (job.status_epoch(), false);
    match (found, &job.memory) {
        (Found::Panic(words), _) => Some(Hold::InternalError { words: words.to_owned() }),
        _ if job.is_deleting() && (job.skips_graceful_stop() || !matches!(found, Found::Footing(_, Forgotten::Perhaps))) => None,
        (Found::MemoryNotKept, _) => Some(Hold::StatusNotKept),
        (Found::Footing(footing, _), Remembered::Known(memory)) if footing.accepted.is_none() && memory.run.is_some() => {
            let generation = memory.spec.as_ref().map_or(0, |known| known.generation);
            let refusal = match &footing.acceptance {
                Acceptance::Rejected { message, .. } => Some(message.clone()),
                Acceptance::Accepted | Acceptance::Checking { .. } => None,
            };
            Some(Hold::GenerationLost { generation, refusal })
        }
        (Found::Footing(..) | Found::Stored, Remembered::Known(_)) => None,
        (Found::Footing(..) | Found::Stored, Remembered::Newer(why)) => Some(Hold::StatusTooNew { epoch, early, why: cut(why, WHY_BYTES) }),
        (Found::Footing(..) | Found::Stored, Remembered::Unreadable(why)) => {
            Some(Hold::MemoryUnreadable { epoch, early, why: cut(why, WHY_BYTES) })
        }
        (Found::Footing(_, Forgotten::Perhaps), Remembered::Nothing) => {
            Some(Hold::MemoryLost { epoch, early, why: "status.memory is gone".to_owned() })
        }
        (Found::Footing(_, Forgotten::Perhaps), Remembered::Damaged(why)) => {
            Some(Hold::MemoryLost { epoch, early, why: format!("status.memory is damaged ({})", cut(why, WHY_BYTES)) })
        }
        (Found::Footing(..) | Found::Stored, Remembered::Nothing | Remembered::Damaged(_)) => None,
    }
}

/// What the first look says.
pub enum Sight {
    /// Nothing is in the way so far.
    Clear,
    /// Nothing may be decided.
    Held(Hold),
    /// The same, and nothing may be written either: the memory may be there, out of sight.
    NotKept(Hold),
    /// The job is stored with another memory than was read.
    Changed(Box<StoredJob>),
}

/// The first look: at the job as it is stored, and at what is stored out of sight.
pub async fn on_sight(context: &Context, job: &Job, local: &mut Local) -> Result<Sight, PassError> {
    let is_asked = !job.is_deleting() && is_memory_missing(job, local.is_new);
    if is_asked && !is_kept(context, job).await? {
        return Ok(reason(job, Found::MemoryNotKept).map_or(Sight::Clear, Sight::NotKept));
    }
    if !job.is_deleting() {
        local.told_apart_at = None;
    }
    let unkept = local.unkept.take();
    if is_asked {
        // It may have come into sight after the job was read.
        let again = context.cluster.job(&job.id.namespace, &job.id.name).await?;
        if let Some(again) = again.filter(|again| again.object.data["status"]["memory"] != job.status()["memory"]) {
            return Ok(Sight::Changed(Box::new(again)));
        }
        if let Some(unkept) = unkept.filter(|unkept| unkept.version == job.object.metadata.resource_version) {
            let mut status = job.status().clone();
            status["memory"] = unkept.memory;
            let stored = context.cluster.write_status(&job.with_status(status)).await?;
            context.wrote(&stored.object.metadata);
            return Ok(Sight::Changed(Box::new(stored)));
        }
    }
    Ok(reason(job, Found::Stored).map_or(Sight::Clear, Sight::Held))
}

/// Whether a job lacks a memory, or has one that cannot be its own, so that what is stored may be out of sight.
fn is_memory_missing(job: &Job, is_new: bool) -> bool {
    match &job.memory {
        Remembered::Nothing => !is_new,
        Remembered::Damaged(_) => true,
        Remembered::Known(_) | Remembered::Newer(_) | Remembered::Unreadable(_) => false,
    }
}

/// The second look: what is stood on is known, and with it what goes on where the memory is lost.
pub async fn on_footing(context: &Context, job: &Job, footing: &Footing, local: &Local) -> Result<(Option<Hold>, Forgotten), PassError> {
    let forgotten = forgotten::look(context, job, footing, local).await?;
    Ok((reason(job, Found::Footing(footing, forgotten)), forgotten))
}

/// Answers a word for a lost memory that nothing asks for; each once.
pub fn answer(context: &Context, job: &Job, hold: Option<&Hold>, local: &mut Local) {
    let said = job.discards_memory();
    let is_answered = said.as_ref().is_none_or(|said| local.answered_word.as_ref() == Some(&said.text));
    local.answered_word = said.as_ref().map(|said| said.text.clone());
    if let Some(said) = said.filter(|_| !is_answered)
        && let Some(note) = ignored(job, &said.text, hold)
    {
        context.events.publish(&job.id, &Event { reason: EventReason::ConfirmationIgnored, note });
    }
}

/// Why a word for a lost memory has no effect, for people; none where it has one.
fn ignored(job: &Job, said: &str, hold: Option<&Hold>) -> Option<String> {
    let remedy = match hold {
        Some(hold) => hold.message(),
        None if matches!(job.memory, Remembered::Known(_)) => "nothing asks for it; remove the annotation".to_owned(),
        None => return None,
    };
    Some(cut(&format!("{}: {said:?} was ignored: {remedy}", annotations::DISCARD_MEMORY), NOTE_BYTES))
}

/// Whether the API server keeps a memory now, with all that is in it.
async fn is_kept(context: &Context, job: &Job) -> Result<bool, PassError> {
    let mut status = job.status().clone();
    let memory = serde_json::to_value(Memory::default()).unwrap_or_default();
    status["memory"] = memory.clone();
    let answer = context.cluster.try_status(&job.with_status(status)).await?;
    Ok(answer.object.data["status"]["memory"] == memory)
}

/// Tells why a job is held.
pub async fn keep(context: &Context, job: &Job, hold: &Hold, now: Timestamp) -> Result<Next, PassError> {
    record(context, job, hold, now).await?;
    Ok(Next::Within(match hold {
        Hold::StatusNotKept => ASK_AGAIN,
        Hold::StatusTooNew { .. }
        | Hold::MemoryUnreadable { .. }
        | Hold::MemoryLost { .. }
        | Hold::GenerationLost { .. }
        | Hold::InternalError { .. } => context.settings.resync(rand::random()),
    }))
}

/// The same for a job that is being deleted: what is known of it is stopped, and it stays until somebody vouches for the rest.
pub async fn keep_from_leaving(context: &Context, job: &Job, hold: &Hold, local: &mut Local, now: Timestamp) -> Result<Next, PassError> {
    if !job.is_paused() {
        leave::stop(context, job).await?;
    }
    if is_memory_missing(job, false) && !is_kept(context, job).await? {
        return Ok(tell_apart(context, job, hold, local, now));
    }
    keep(context, job, hold, now).await
}

/// The same where the memory was dropped from a write: this process keeps it until it can be stored.
pub async fn keep_aside(
    context: &Context,
    job: &Job,
    hold: &Hold,
    memory: Value,
    local: &mut Local,
    now: Timestamp,
) -> Result<Next, PassError> {
    let stored = record(context, job, hold, now).await?;
    let metadata = stored.map_or_else(|| job.object.metadata.clone(), |stored| stored.object.metadata);
    local.unkept = Some(Unkept { version: metadata.resource_version, memory });
    local.told_apart_at = Some(now);
    Ok(Next::Within(ASK_AGAIN))
}

/// Tells that a job is held beside its status, which is left alone: in the metrics, and in an event as long as it lasts.
pub fn tell_apart(context: &Context, job: &Job, hold: &Hold, local: &mut Local, now: Timestamp) -> Next {
    let (_, event) = show(context, job, hold, now);
    if local.told_apart_at.is_none_or(|at| at > now || elapsed(at, now) >= TELL_AGAIN) {
        local.told_apart_at = Some(now);
        publish(context, job, event);
    }
    Next::Within(ASK_AGAIN)
}

/// Writes why a job is held where that is not shown yet; the job as it is stored then.
async fn record(context: &Context, job: &Job, hold: &Hold, now: Timestamp) -> Result<Option<StoredJob>, PassError> {
    let (composed, event) = show(context, job, hold, now);
    let mut stored = None;
    if status::change(job.status(), &composed) != Change::None {
        stored = Some(context.cluster.write_status(&job.with_status(composed)).await?);
        context.metrics.operator.status_written(StatusWrite::Condition);
    }
    publish(context, job, event);
    Ok(stored)
}

/// Shows in the metrics that a job is held; the status that says so, and the event where that is new.
fn show(context: &Context, job: &Job, hold: &Hold, now: Timestamp) -> (Value, Option<Event>) {
    let (conditions, event) = held(&known(job), hold, job.generation, now);
    let composed = status::hold(job.status(), &conditions, job.generation);
    if let Ok(shown) = StreamingJobStatus::deserialize(&composed) {
        context.show(job, &Desired::nothing(), shown);
    }
    (composed, event)
}

fn publish(context: &Context, job: &Job, event: Option<Event>) {
    if let Some(event) = event {
        tracing::error!("{}", event.note);
        context.events.publish(&job.id, &event);
    }
}

/// Tells that the pass over a job panicked.
pub async fn panicked(context: &Context, namespace: &str, name: &str, words: &str) -> Result<(), PassError> {
    let Some(stored) = context.cluster.job(namespace, name).await? else { return Ok(()) };
    let job = Job::read(stored);
    if job.installation() == Some(context.settings.installation.as_str())
        && let Some(hold) = reason(&job, Found::Panic(words))
        && (!is_memory_missing(&job, false) || is_kept(context, &job).await?)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use weir_crds::resource::StreamingJobSpec;
    use weir_supervisor::generation::Accepted;

    use super::super::forgotten::samples::{job, stalled};
    use super::*;

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
            (&newer, on(&standing, Forgotten::Perhaps), Some("StatusTooNew")),
            (&known, on(&nothing, Forgotten::Nothing), Some("GenerationLost")),
            (&known, on(&standing, Forgotten::Nothing), None),
            (&resting, on(&nothing, Forgotten::Nothing), None),
            (&lost, Found::Stored, None),
            (&lost, on(&standing, Forgotten::Perhaps), Some("MemoryLost")),
            (&lost, on(&nothing, Forgotten::Perhaps), Some("MemoryLost")),
            (&lost, on(&standing, Forgotten::Fenced), None),
            (&damaged, on(&standing, Forgotten::Perhaps), Some("MemoryLost")),
            (&damaged, on(&standing, Forgotten::Fenced), None),
        ];
        for (status, found, expected) in rows {
            assert_eq!(held_by(status, found), expected, "{status} {found:?}");
            let mut going = job(status, "", json!("2026-11-30T12:00:00Z"));
            let ends = reason(&going, found).map(|hold| hold.reason().as_str());
            let waits = matches!(found, Found::Panic(_) | Found::Footing(_, Forgotten::Perhaps));
            assert_eq!(
                ends,
                expected.filter(|_| waits),
                "a deletion needs no memory, but waits for what may be forgotten: {status} {found:?}"
            );
            let skips = BTreeMap::from([(annotations::SKIP_GRACEFUL_STOP.to_owned(), "true".to_owned())]);
            going.object.metadata.annotations = Some(skips);
            let ends = reason(&going, found).map(|hold| hold.reason().as_str());
            assert_eq!(ends, expected.filter(|reason| *reason == "InternalError"), "its owner does not wait: {status} {found:?}");
        }
        // Only the epoch of this very status is a human's word for it, only for the memory, and only once it was asked for.
        for (status, asked) in [(&lost, "MemoryLost"), (&damaged, "MemoryLost"), (&newer, "StatusTooNew")] {
            let found = on(&standing, Forgotten::Perhaps);
            let shown = |hold: &Hold| {
                let mut shown = status.clone();
                shown["conditions"] = stalled(asked, &hold.message())["conditions"].clone();
                shown
            };
            let early = reason(&job(status, "7", Value::Null), found).expect("held");
            assert!(early.message().contains("remove that annotation"), "{}", early.message());
            assert_eq!(reason(&job(&shown(&early), "7", Value::Null), found).as_ref(), Some(&early), "it stays early");
            let asked = reason(&job(&shown(&early), "", Value::Null), found).expect("held");
            assert!(!asked.message().contains("remove"), "once it was away");
            assert_eq!(reason(&job(&shown(&asked), " 7 ", Value::Null), found), None, "{status}");
            let elsewhere = job(&shown(&asked), "yes", Value::Null);
            assert_eq!(reason(&elsewhere, found).as_ref(), Some(&asked));
            let note = ignored(&elsewhere, "yes", Some(&asked)).expect("a note");
            assert!(note.contains("\"yes\" was ignored") && note.contains("discard-memory: \"7\""), "{note}");
        }
        assert!(ignored(&job(&resting, "7", Value::Null), "7", None).is_some(), "nothing asks");
        assert!(ignored(&job(&lost, "7", Value::Null), "7", None).is_none(), "it had its effect");
        assert!(reason(&job(&known, "7", Value::Null), on(&nothing, Forgotten::Nothing)).is_some());
    }

    #[test]
    fn what_is_stored_may_be_out_of_sight_where_the_memory_is_missing_or_cannot_be_its_own() {
        for (status, is_new, expected) in [
            (json!({"epoch": 3}), false, true),
            (json!({}), false, true),
            (json!({}), true, false),
            (json!({"epoch": 3, "memory": {}}), false, true),
            (json!({"epoch": 3, "memory": {"version": 1, "epoch": 3}}), false, false),
            (json!({"epoch": 3, "memory": {"version": 99}}), false, false),
        ] {
            assert_eq!(is_memory_missing(&job(&status, "", Value::Null), is_new), expected, "{status}");
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
