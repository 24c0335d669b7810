//! One pass over one job: observe, decide, write the status ahead, apply.
//!
//! The order is the promise. Everything that authorises is read anew from the
//! API server; the supervisor's memory is stored under the `resourceVersion`
//! that was read before any pod is touched, and a conflict there ends the pass.
//! The answer to a write is the job as it is stored, so a pass that follows at
//! once begins with it. Whoever dies between two steps is repeated by the next pass.

use std::time::Duration;

use serde_json::Value;
use tracing::{Instrument, Span};
use weir_supervisor::generation::with_references;
use weir_supervisor::time::{Timestamp, elapsed};
use weir_supervisor::{Action, Desired, Event, EventReason, Memory, Plan, decide};

use crate::accept;
use crate::apply::{Applier, ApplyError, Subject};
use crate::cluster::CallError;
use crate::context::Context;
use crate::epochs;
use crate::fencing;
use crate::job::{Job, Remembered};
use crate::local::{Asked, Local};
use crate::look::{Look, Observer};
use crate::metrics::StatusWrite;
use crate::search::Search;
use crate::status::{self, Change};
use crate::stored::StoredJob;
use crate::telemetry;

mod footing;
mod forgotten;
mod hold;
mod leave;
mod references;

pub use footing::Footing;
use forgotten::Forgotten;
pub use hold::panicked;
use hold::{Found, Sight};

/// Passes of one call: a chain of orders and what they cause at once.
const MOST_PASSES: usize = 12;

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// A call failed; tried again with a growing pause.
    #[error(transparent)]
    Call(#[from] CallError),
    /// An order could not be carried out.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl PassError {
    /// Whether somebody else wrote in between, so that another look at once is in order.
    pub fn is_conflict(&self) -> bool {
        match self {
            PassError::Call(error) | PassError::Apply(ApplyError::Call(error)) => error.is_conflict(),
            PassError::Apply(ApplyError::Build(_)) => false,
        }
    }
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The job is gone, or somebody else's business.
    Never,
    /// After so long at the latest.
    Within(Duration),
    /// At once: orders were given.
    Again,
}

/// Looks at a job until there is nothing more to do now.
pub async fn reconcile(context: &Context, namespace: &str, name: &str) -> Result<Next, PassError> {
    let mut written = None;
    for _ in 0..MOST_PASSES {
        match pass(context, namespace, name, &mut written).await? {
            Next::Again => {}
            next => return Ok(next),
        }
    }
    Ok(Next::Within(Duration::from_secs(1)))
}

/// One pass, whose log lines carry the job, and the run once it is known.
async fn pass(context: &Context, namespace: &str, name: &str, written: &mut Option<StoredJob>) -> Result<Next, PassError> {
    look_at(context, namespace, name, written).instrument(telemetry::job_span(namespace, name)).await
}

/// `written` is the job as the pass just before has stored it; this one leaves its own.
async fn look_at(context: &Context, namespace: &str, name: &str, written: &mut Option<StoredJob>) -> Result<Next, PassError> {
    let stored = match written.take() {
        Some(stored) => Some(stored),
        None => context.cluster.job(namespace, name).await?,
    };
    let Some(stored) = stored else {
        context.forget(namespace, name);
        return Ok(Next::Never);
    };
    let job = Job::read(stored);
    context.saw(&job.id, &job.object);
    let mut local = context.take_local(&job.id);
    let result = pass_over(context, &job, &mut local, written).await;
    context.put_local(&job.id, local);
    result
}

async fn pass_over(context: &Context, job: &Job, local: &mut Local, written: &mut Option<StoredJob>) -> Result<Next, PassError> {
    if let Some(next) = enter(context, job, local, written).await? {
        return Ok(next);
    }
    let now = context.clock.now();
    match hold::on_sight(context, job, local).await? {
        Sight::Clear => {}
        Sight::Held(hold) => {
            hold::answer(context, job, Some(&hold), local);
            return hold::keep(context, job, &hold, now).await;
        }
        Sight::NotKept(hold) => return Ok(hold::tell_apart(context, job, &hold, local, now)),
        Sight::Changed(stored) => {
            *written = Some(*stored);
            return Ok(Next::Again);
        }
    }
    let (mut memory, damage) = remembered(job, local);
    let mut footing = footing::find(context, job, &memory, local, now).await?;
    let (held, forgotten) = hold::on_footing(context, job, &footing, local).await?;
    hold::answer(context, job, held.as_ref(), local);
    if let Some(hold) = held {
        return if job.is_deleting() {
            hold::keep_from_leaving(context, job, &hold, local, now).await
        } else {
            hold::keep(context, job, &hold, now).await
        };
    }
    if let (Forgotten::Fenced, Some(accepted)) = (forgotten, &footing.accepted) {
        memory.left_behind = forgotten::stand_ins(job, accepted);
    }
    references::digest(context, job, &memory, &mut footing, local, now).await?;
    let observer = Observer { cluster: &context.cluster, poller: &context.poller, settings: &context.settings, now };
    local.remember_ended(context.take_ended(&job.id));
    let desired = desired(context, job, &footing);
    let forgotten_at = context.restores.forgotten_at(&job.object.metadata);
    let mut search = Search::of(job, &memory);
    let (look, mut plan) = loop {
        let mut look = observer.look(job, &memory, local, &search).await?;
        look.observed.highest_epoch = look.observed.highest_epoch.max(forgotten_at.map_or(0, epochs::of_clock));
        let plan = decide(&desired, &look.observed, &memory, now, &mut rand::random::<f64>);
        if search.suffices(&memory, &plan) {
            break (look, plan);
        }
        search = Search::All;
    };
    local.is_new = false;
    if let Some(damage) = damage {
        let note = format!("the stored memory could not be read and starts afresh above epoch {}: {damage}", plan.memory.epoch);
        plan.events.push(Event { reason: EventReason::StatusUnreadable, note });
    }
    local.health.clone_from(&plan.memory.health);
    if let Some(run) = &plan.memory.run {
        telemetry::record_run(&Span::current(), run.number, plan.memory.epoch);
    }
    match write(context, job, &desired, &look, &plan, local, now).await? {
        Written::Kept(stored) => *written = Some(*stored),
        Written::Nothing => {}
        Written::Dropped(stored, memory) => {
            let job = Job::read(*stored);
            if let Some(hold) = hold::reason(&job, Found::MemoryNotKept) {
                return hold::keep_aside(context, &job, &hold, memory, local, now).await;
            }
        }
    }
    // Only what is stored is given out.
    local.highest_epoch = plan.memory.epoch;
    let accepted = footing.accepted_or_empty();
    let subject = Subject { job, accepted: &accepted, memory: &plan.memory, pods: &look.pods };
    let applied = apply(context, &subject, &plan, local, now).await;
    for event in &plan.events {
        context.events.publish(&job.id, event);
    }
    let acted = applied?;
    if let Some(finished) = &plan.finished {
        tracing::info!(message = finished.message, "the job is let go");
        return leave::leave(context, job, &look).await;
    }
    if job.is_deleting() && job.skips_graceful_stop() && acted == 0 {
        // Its owner asked not to wait for its pods.
        return leave::leave(context, job, &look).await;
    }
    if leave::may_prune(&memory, &plan.memory) {
        leave::prune(context, job, &footing, &plan.memory).await?;
    }
    let given_before = std::mem::replace(&mut local.orders, plan.actions.clone()) == plan.actions;
    Ok(next(context, &plan, &look, &footing, local, now, if given_before { 0 } else { acted }))
}

/// What comes before anything else: whose job it is, and our finalizer in a write of its own.
async fn enter(context: &Context, job: &Job, local: &mut Local, written: &mut Option<StoredJob>) -> Result<Option<Next>, PassError> {
    let resync = Next::Within(context.settings.resync(rand::random()));
    if let Some(other) = job.installation().filter(|other| *other != context.settings.installation) {
        if !std::mem::replace(&mut local.conflict_reported, true) {
            context.scope_conflict(&job.id);
            tracing::warn!(other, "the job belongs to another installation");
            let note = format!(
                "the operator {} leaves this job alone: the annotation {} says that {other} looks after it",
                context.settings.installation,
                crate::names::INSTALLATION
            );
            context.events.publish(&job.id, &Event { reason: EventReason::ScopeConflict, note });
        }
        return Ok(Some(resync));
    }
    local.conflict_reported = false;
    context.no_scope_conflict(&job.id);
    if job.is_deleting() {
        return Ok((!job.has_finalizer()).then_some(Next::Never));
    }
    if job.has_finalizer() && job.installation().is_some() {
        return Ok(None);
    }
    let entering = leave::entering(job, &context.settings.installation);
    let stored = context.cluster.patch_metadata(&job.id.namespace, &job.id.name, &entering).await?;
    context.wrote(&stored.object.metadata);
    *written = Some(stored);
    // One that has had the finalizer may have lost its status.
    local.is_new = !job.has_finalizer();
    Ok(Some(Next::Again))
}

/// The memory to decide with, and what is wrong with the stored one. What the conditions were is told by the status.
fn remembered(job: &Job, local: &Local) -> (Memory, Option<String>) {
    let (memory, damage) = match &job.memory {
        Remembered::Nothing => {
            let is_told = forgotten::is_memory_lost(job) && !job.is_deleting();
            (Memory::default(), is_told.then(|| "it is gone".to_owned()))
        }
        Remembered::Known(memory) => {
            let mut memory = (**memory).clone();
            if !local.health.queries.is_empty() {
                memory.health.clone_from(&local.health);
            }
            (memory, None)
        }
        Remembered::Damaged(why) | Remembered::Newer(why) | Remembered::Unreadable(why) => (Memory::default(), Some(why.clone())),
    };
    (Memory { conditions: hold::known(job), ..memory }, damage)
}

fn desired(context: &Context, job: &Job, footing: &Footing) -> Desired {
    let mut desired = match &footing.accepted {
        Some(accepted) => {
            let hashes = accepted.task_hashes.iter().map(|(task, hash)| match footing.references.get(task) {
                Some(digest) => (task.clone(), with_references(hash, digest)),
                None => (task.clone(), hash.clone()),
            });
            let policy = accepted.spec.policy().ok();
            let fences = fencing::fences(&accepted.spec, &job.id.namespace, &job.id.name);
            policy
                .and_then(|policy| Desired::accepted(policy, accepted.generation, accepted.run_hash.clone(), hashes.collect()).ok())
                .map_or_else(Desired::nothing, |mut desired| {
                    desired.fences = fences;
                    desired.places = accept::places(&job.id, &accepted.spec);
                    desired
                })
        }
        None => Desired::nothing(),
    };
    desired.acceptance = footing.acceptance.clone();
    desired.run_now = job.run_now();
    desired.paused = job.is_paused();
    let image = footing.accepted.as_ref().and_then(|accepted| accepted.spec.image.clone()).filter(|image| !image.is_empty());
    desired.image = image.unwrap_or_else(|| context.settings.image.clone());
    desired
}

/// What became of a memory that is to be stored.
enum Written {
    /// It is stored; the object as it is now.
    Kept(Box<StoredJob>),
    /// There was nothing to store.
    Nothing,
    /// The API server dropped it; the object as it is now, and the memory.
    Dropped(Box<StoredJob>, Value),
}

/// Writes the status where it must be.
#[allow(clippy::too_many_arguments)]
async fn write(
    context: &Context,
    job: &Job,
    desired: &Desired,
    look: &Look,
    plan: &Plan,
    local: &mut Local,
    now: Timestamp,
) -> Result<Written, PassError> {
    let rendered = weir_supervisor::status::status(desired, &look.observed, &plan.memory);
    let composed = status::compose(job.status(), &rendered, &plan.memory);
    context.show(job, desired, rendered);
    let change = status::change(job.status(), &composed);
    let due = local.written_at.is_none_or(|at| at > now || elapsed(at, now) >= context.settings.progress_interval);
    match change {
        Change::None => return Ok(Written::Nothing),
        Change::Progress if !due => return Ok(Written::Nothing),
        // A deletion gives out nothing that has to be remembered; where memory is not kept, it does without.
        Change::Progress | Change::Fact if is_memory_all(job, &composed) => return Ok(Written::Nothing),
        Change::Progress | Change::Fact => {}
    }
    let memory = composed["memory"].clone();
    let stored = context.cluster.write_status(&job.with_status(composed)).await?;
    context.saw(&job.id, &stored.object);
    context.wrote(&stored.object.metadata);
    if stored.object.data["status"]["memory"]["epoch"] != memory["epoch"] {
        return Ok(Written::Dropped(Box::new(stored), memory));
    }
    let kind = if change == Change::Progress {
        StatusWrite::Progress
    } else if plan.actions.is_empty() {
        StatusWrite::Condition
    } else {
        StatusWrite::WriteAhead
    };
    context.metrics.operator.status_written(kind);
    local.written_at = Some(now);
    Ok(Written::Kept(Box::new(stored)))
}

/// Whether a job that is being deleted lacks nothing but a memory.
fn is_memory_all(job: &Job, composed: &Value) -> bool {
    let mut bare = composed.clone();
    if let Some(fields) = bare.as_object_mut() {
        fields.remove("memory");
    }
    job.is_deleting() && matches!(job.memory, Remembered::Nothing) && status::change(job.status(), &bare) == Change::None
}

/// Carries out the orders; how many there were.
async fn apply(context: &Context, subject: &Subject<'_>, plan: &Plan, local: &mut Local, now: Timestamp) -> Result<usize, PassError> {
    let applier = Applier {
        cluster: &context.cluster,
        poller: &context.poller,
        settings: &context.settings,
        metrics: &context.metrics.operator,
        key: &context.key,
        now,
    };
    for action in &plan.actions {
        let (task, epoch) = target(action);
        let span = telemetry::task_span(task, epoch);
        span.in_scope(|| tracing::info!(?action, "order"));
        if let Some(adopted) = applier.apply(action, subject, local).instrument(span).await? {
            let note = format!("the pod of task {} with epoch {} was there already and is taken over", adopted.task, adopted.epoch);
            context.events.publish(&subject.job.id, &Event { reason: EventReason::RunAdopted, note });
        }
    }
    Ok(plan.actions.len())
}

/// The instance that an order is about.
fn target(action: &Action) -> (&str, u64) {
    let (Action::StartTask { task, epoch, .. }
    | Action::StopTask { task, epoch, .. }
    | Action::KillTask { task, epoch }
    | Action::ReleaseTask { task, epoch }
    | Action::ForceRemoveTask { task, epoch }
    | Action::ClearTask { task, epoch }
    | Action::ApplyLiveConfig { task, epoch, .. }) = action;
    (task, *epoch)
}

fn next(context: &Context, plan: &Plan, look: &Look, footing: &Footing, local: &Local, now: Timestamp, acted: usize) -> Next {
    if acted > 0 {
        return Next::Again;
    }
    let settings = &context.settings;
    let mut within = settings.resync(rand::random());
    if let Some(at) = plan.wake_at {
        within = within.min(elapsed(now, at));
    }
    if look.observed.any_live() {
        let all_ready = local.tasks.values().all(Asked::is_ready);
        within = within.min(if all_ready { settings.poll_interval } else { settings.starting_poll_interval() });
    }
    if !footing.references.is_empty() {
        within = within.min(settings.reference_interval);
    }
    if let Some(at) = footing.retry_at {
        within = within.min(elapsed(now, at));
    }
    Next::Within(within)
}
