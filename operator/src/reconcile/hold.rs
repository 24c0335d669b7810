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

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use weir_crds::annotations;
use weir_crds::resource::StreamingJobStatus;
use weir_supervisor::conditions::{Condition, ConditionStatus, Hold, Reason, held, recalled};
use weir_supervisor::generation::Accepted;
use weir_supervisor::memory::LeftBehind;
use weir_supervisor::text::{NOTE_BYTES, cut};
use weir_supervisor::time::{Timestamp, elapsed};
use weir_supervisor::{Acceptance, Desired, Event, EventReason, Memory};

use super::{Footing, Next, PassError, leave};
use crate::accept;
use crate::context::Context;
use crate::fencing;
use crate::job::{Job, Remembered};
use crate::local::{Local, Unkept};
use crate::metrics::StatusWrite;
use crate::names::{JobId, pod_name};
use crate::observe;
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

/// What a lost memory may have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Nothing: there is a memory, or whoever was begun is seen.
    Nothing,
    /// An instance that is harmless to what is begun behind its fence, and to nothing else.
    Fenced,
    /// An instance that may still have effects.
    Perhaps,
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
    let forgotten = forgotten(context, job, footing, local).await?;
    Ok((reason(job, Found::Footing(footing, forgotten)), forgotten))
}

/// What stands for the instances that a lost memory may have forgotten: by task, one behind the fence that covers them all.
pub fn stand_ins(job: &Job, accepted: &Accepted) -> BTreeMap<String, LeftBehind> {
    let of = |fence| LeftBehind { epoch: job.status_epoch(), fence, place: None, with_earlier: true };
    let fences = fencing::fences(&accepted.spec, &job.id.namespace, &job.id.name);
    fences.into_iter().map(|(task, fence)| (task, of(fence))).collect()
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

/// Whether the status shows that there was a memory and is none.
pub fn is_memory_lost(job: &Job) -> bool {
    match &job.memory {
        // What told of a run may have been a condition that this very hold has replaced.
        Remembered::Nothing => job.shows_a_run() || shows(job, Reason::MemoryLost),
        Remembered::Damaged(_) => true,
        Remembered::Known(_) | Remembered::Newer(_) | Remembered::Unreadable(_) => false,
    }
}

/// What is not remembered of a job, and whether that may do harm. A status that was wiped as a whole tells nothing; a
/// recorded generation does, because it is stored after a memory and before any pod.
async fn forgotten(context: &Context, job: &Job, footing: &Footing, local: &Local) -> Result<Forgotten, PassError> {
    let is_shown = match &job.memory {
        Remembered::Known(_) => return Ok(Forgotten::Nothing),
        // Their memory is there, so they are held in any case; only a deletion does without.
        Remembered::Newer(_) | Remembered::Unreadable(_) if !job.is_deleting() => return Ok(Forgotten::Nothing),
        Remembered::Newer(_) | Remembered::Unreadable(_) => true,
        Remembered::Nothing | Remembered::Damaged(_) => is_memory_lost(job),
    };
    if !is_shown && local.is_new && footing.accepted.is_none() {
        return Ok(Forgotten::Nothing);
    }
    let maps = context.cluster.config_maps(&job.id).await?;
    let own: Vec<&ObjectMeta> = maps.iter().filter(|map| job.id.owns(map)).collect();
    if !is_shown && own.is_empty() {
        return Ok(Forgotten::Nothing);
    }
    let mut recorded = Vec::new();
    for name in own.into_iter().filter_map(|map| map.name.as_deref()) {
        let Some(map) = context.cluster.config_map(&job.id.namespace, name).await? else { continue };
        // One that cannot be read may have been begun.
        let Some(accepted) = accept::recorded(&context.key, &job.id, &map) else { return Ok(Forgotten::Perhaps) };
        recorded.push(accepted);
    }
    // What it is held for has been taken away since, which vouches for nothing.
    if recorded.is_empty() && shows(job, Reason::MemoryLost) {
        return Ok(Forgotten::Perhaps);
    }
    if !is_shown && is_all_there(&job.id, &recorded, &context.cluster.pods(&job.id).await?) {
        return Ok(Forgotten::Nothing);
    }
    let is_fenced = match (&job.spec, &footing.accepted) {
        (Ok(spec), _) if job.is_deleting() => fencing::covers_the_end(&job.id, spec, &recorded, &job.shown_generations()),
        (_, Some(accepted)) if !job.is_deleting() => fencing::covers(&job.id, &accepted.spec, &recorded, &job.shown_generations()),
        _ => false,
    };
    Ok(if is_fenced { Forgotten::Fenced } else { Forgotten::Perhaps })
}

/// Whether each task that may have been begun has its pod, with nothing before it. A pod is made only when the one before it
/// in its place is over, or behind the same fence; what is behind one is harmless once this one has claimed it, and is ready.
fn is_all_there(id: &JobId, recorded: &[Accepted], pods: &[Pod]) -> bool {
    let found = |wanted: &dyn Fn(&Pod) -> bool| -> BTreeSet<&str> {
        pods.iter().filter(|pod| id.owns(&pod.metadata) && wanted(pod)).filter_map(name_of).collect()
    };
    let (present, ready) = (found(&|_| true), found(&observe::pod::is_ready));
    let mut tasks = recorded.iter().flat_map(|accepted| {
        let fences = fencing::fences(&accepted.spec, &id.namespace, &id.name);
        accepted.spec.tasks.iter().map(move |task| (pod_name(&id.name, &task.name), fences.contains_key(&task.name)))
    });
    !recorded.is_empty() && tasks.all(|(pod, is_fenced)| if is_fenced { &ready } else { &present }.contains(pod.as_str()))
}

fn name_of(pod: &Pod) -> Option<&str> {
    pod.metadata.name.as_deref()
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

fn shows(job: &Job, reason: Reason) -> bool {
    let is_shown = |condition: &Condition| condition.status == ConditionStatus::True && condition.reason == reason.as_str();
    job.conditions().iter().any(|condition| condition.kind == "Stalled" && is_shown(condition))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    fn stalled(reason: &str, message: &str) -> Value {
        let condition = json!({"type": "Stalled", "status": "True", "reason": reason, "message": message, "lastTransitionTime": "2026-11-30T12:00:00Z"});
        json!({"conditions": [condition]})
    }

    #[test]
    fn nothing_is_forgotten_where_every_task_that_was_recorded_has_its_pod() {
        let id = JobId { namespace: "n".to_owned(), name: "j".to_owned(), uid: "u".to_owned() };
        let of = |generation, sink: &str, tasks: &[&str]| {
            let query = json!({"name": "q", "sources": [], "sql": "", "sink": {"format": sink}, "checkpointLocation": "s3://b/c"});
            let tasks: Vec<Value> = tasks.iter().map(|name| json!({"name": name, "queries": [query]})).collect();
            let spec = serde_json::from_value(json!({"trigger": {"continuous": {}}, "tasks": tasks})).expect("a spec");
            Accepted::first(generation, spec)
        };
        let pods = |names: &[&str], ready: &str| -> Vec<Pod> {
            let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
            let of = |name: &&str| {
                let metadata = json!({"name": name, "ownerReferences": [id.owner_reference()]});
                serde_json::from_value(json!({"metadata": metadata, "status": status})).expect("a pod")
            };
            names.iter().map(of).collect()
        };
        let all_there = |recorded: &[Accepted], pods: &[Pod]| is_all_there(&id, recorded, pods);
        let recorded = [of(1, "console", &["a"]), of(2, "console", &["a", "b"])];
        let both = pods(&["j--a", "j--b"], "False");
        assert!(all_there(&recorded, &both) && all_there(&recorded[..1], &both[..1]));
        for names in [&[][..], &["j--a"], &["j--b", "k--a"]] {
            assert!(!all_there(&recorded, &pods(names, "True")), "{names:?}");
        }
        assert!(!all_there(&[], &both), "what was begun is not known");
        let fenced = [of(1, "delta", &["a", "b"]), of(2, "console", &["a", "b"])];
        assert!(!all_there(&fenced, &both), "one before it may go on until the fence is claimed");
        assert!(all_there(&fenced, &pods(&["j--a", "j--b"], "True")));
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
            (json!({"epoch": 3, "memory": {"version": 1}}), true),
            (json!({"epoch": 3, "run": {"number": 1}, "memory": {"version": 1, "epoch": 3, "run": null}}), true),
            (json!({"epoch": 3, "tasks": [{"name": "t", "epoch": 3}], "memory": {"version": 1, "epoch": 3}}), true),
            (json!({"lastRun": {"number": 1, "epoch": 3}, "memory": {"version": 1, "epoch": 2}}), true),
            (json!({"epoch": 3, "memory": {"version": 1, "epoch": 4}}), false),
            (stalled("MemoryLost", ""), true),
            (stalled("StatusNotKept", ""), false),
        ] {
            assert_eq!(is_memory_lost(&job(&status, "", Value::Null)), lost, "{status}");
        }
        let little = json!({"epoch": 3, "memory": {"version": 1, "epoch": 2}});
        assert!(is_memory_lost(&job(&little, "", json!("2026-11-30T12:00:00Z"))), "a deletion mends nothing");
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
