//! The loop of one local job: look, decide, store, act, show.
//!
//! The order is the supervisor's promise: the memory is on disk before an
//! action happens, so a runner that is killed anywhere is repeated safely by
//! the next one. Children of an earlier runner are dead or fenced by the higher
//! epoch; they are reported as lost, never as absent, until that is decided.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rustix::process::Signal;
use tokio::sync::{Notify, mpsc, watch};
use weir_core::{Error, Result};
use weir_runtime::http::LiveConfig;
use weir_supervisor::conditions::Reason;
use weir_supervisor::generation::Accepted;
use weir_supervisor::memory::MemoryError;
use weir_supervisor::observed::{Blame, Exit, Observed, Phase, Shutdown, Slot, StopOrder};
use weir_supervisor::waits::{Wait, waits};
use weir_supervisor::{Acceptance, Action, Desired, Finished, Lifetime, Memory, Plan, decide};

use super::child::{Child, ChildSpec, Saying};
use super::display::{Display, Extent, JobName};
use super::edit::{Refused, Standing, no_news};
use super::look::{self, Answers};
use super::state::{NOT_WRITTEN, StateDir};
use super::writing::{News, REMEDY, Writing};
use crate::manifests::run_now_token;

/// How often children are asked while they run.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What the owner of the job wants now; changes when the manifest does.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The job as written.
    pub job: weir_crds::StreamingJob,
    /// The manifest documents, for the children.
    pub document: String,
    /// Why the newest version of the manifest was refused, if it was.
    pub refusal: Option<String>,
    /// How often the manifest was written since the runner looks at it.
    pub written: u64,
}

/// What stays the same for the life of a runner.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The program that children run.
    pub program: PathBuf,
    /// Arguments of every child: parameters, secrets, available-now.
    pub arguments: Vec<String>,
    /// How many runs.
    pub lifetime: Lifetime,
    /// Namespace.
    pub namespace: String,
    /// Job.
    pub name: String,
}

/// Whether a plan's memory is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remembered {
    Yes,
    /// It is written later.
    NotYet,
}

/// One job under the supervisor.
pub struct LocalJob {
    setting: Setting,
    state: StateDir,
    uid: String,
    token_key: String,
    memory: Memory,
    accepted: Accepted,
    /// The document that is stored for the accepted generation.
    document: Option<String>,
    refused_edit: Option<String>,
    standing: Standing,
    children: BTreeMap<String, (Child, Answers)>,
    rejected: BTreeMap<String, (u64, String)>,
    lost: BTreeMap<String, u64>,
    sayings: mpsc::UnboundedSender<Saying>,
    changed: Arc<Notify>,
    client: reqwest::Client,
    last_status: Option<serde_json::Value>,
    /// What was told to be waited for.
    told: Vec<Wait>,
    writing: Writing,
}

impl LocalJob {
    /// Takes over the job in `state` with the manifest of `wish`.
    pub fn open(setting: Setting, state: StateDir, wish: &Wish, sayings: mpsc::UnboundedSender<Saying>) -> Result<Self> {
        let uid = state.job_uid()?;
        let memory = match state.read::<serde_json::Value>("memory.json")? {
            Some(value) => Memory::from_json(&value.to_string()).map_err(|error| match error {
                MemoryError::Newer { .. } => Error::incompatible("STATE_TOO_NEW", error.to_string()),
                MemoryError::Damaged(_) | MemoryError::Exhausted { .. } => state.damaged("memory.json", error),
            })?,
            None => Memory::default(),
        };
        // Whatever an earlier runner started cannot be accounted for by this one.
        let lost = memory
            .run
            .as_ref()
            .map(|run| {
                run.tasks
                    .iter()
                    .filter(|(_, task)| task.state.is_live())
                    .filter_map(|(name, task)| Some((name.clone(), task.epoch?)))
                    .collect()
            })
            .unwrap_or_default();
        let accepted = match state.read::<Accepted>("accepted.json")? {
            Some(stored) => stored,
            None => Accepted::first(1, wish.job.spec.clone()),
        };
        let mut job = Self {
            writing: Writing::new(&setting.lifetime),
            setting,
            uid,
            token_key: uuid::Uuid::new_v4().to_string(),
            memory,
            accepted,
            document: None,
            refused_edit: None,
            standing: Standing::default(),
            children: BTreeMap::new(),
            rejected: BTreeMap::new(),
            lost,
            sayings,
            changed: Arc::new(Notify::new()),
            client: reqwest::Client::new(),
            last_status: None,
            told: Vec::new(),
            state,
        };
        job.accept(wish)?;
        Ok(job)
    }

    /// Runs until the supervisor says that it is finished. A failure of the runner itself takes the tasks with it:
    /// nobody would look after them.
    pub async fn run(&mut self, wishes: watch::Receiver<Wish>, shutdown: watch::Receiver<Shutdown>, display: &Display) -> Result<Finished> {
        let ended = self.supervise(wishes, shutdown, display).await;
        if ended.is_err() {
            self.children.values().for_each(|(child, _)| child.signal(Signal::KILL));
        }
        ended
    }

    async fn supervise(
        &mut self,
        mut wishes: watch::Receiver<Wish>,
        mut shutdown: watch::Receiver<Shutdown>,
        display: &Display,
    ) -> Result<Finished> {
        let name = JobName { namespace: self.setting.namespace.clone(), job: self.setting.name.clone() };
        let mut asked_at: Option<tokio::time::Instant> = None;
        loop {
            let wish = wishes.borrow_and_update().clone();
            let before = self.standing.clone();
            let may_write = self.writing.is_due(Utc::now());
            let accepted = if may_write { self.accept(&wish) } else { Ok(()) };
            if self.standing.written != before.written {
                self.tell_edit(&before, display);
            }
            if asked_at.is_none_or(|at| at.elapsed() >= ASK_EVERY) {
                self.ask().await;
                self.show_backlogs(&name, display);
                asked_at = Some(tokio::time::Instant::now());
            }
            let desired = self.desired(&wish)?;
            let stop = *shutdown.borrow();
            let observed = self.observe(stop);
            tell_failures(&observed, display);
            let plan = decide(&desired, &observed, &self.memory, Utc::now(), &mut rand::random::<f64>);
            let now = Utc::now();
            let remembered = self.remember(&plan, may_write);
            let is_decided = matches!(remembered, Ok(Remembered::Yes));
            if may_write {
                let failed = accepted.and(remembered.map(drop));
                let published = self.publish(&desired, &observed, failed.as_ref().err());
                self.settle(failed.and(published), now)?;
            }
            self.writing.bear(&self.setting.name, observed.any_live(), now)?;
            let due: Vec<Action> =
                plan.actions.into_iter().filter(|action| stop == Shutdown::Immediate || self.is_due(action, now)).collect();
            let is_acting = is_decided && !due.is_empty();
            // Ending a task is safe without a record of it, starting one is not.
            for action in due.into_iter().filter(|action| is_decided || ends_a_task(action)) {
                display.action(&name, &action);
                self.act(action, &wish).await;
            }
            // What is not remembered is decided again, and told then.
            let finished = plan.finished.filter(|_| is_decided || stop != Shutdown::None);
            if is_decided || finished.is_some() {
                for event in &plan.events {
                    display.event(&name, event);
                }
            }
            if let Some(finished) = finished {
                return Ok(finished);
            }
            if is_acting {
                // Look again at once: most actions have their effect already. The
                // pause keeps one that has none from turning the loop into a spin.
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            self.tell_waits(&desired, &observed, &name, display);
            let again = self.writing.again_at();
            let wake_at = if is_decided { plan.wake_at.into_iter().chain(again).min() } else { again };
            self.wait(wake_at, &mut wishes, &mut shutdown).await;
        }
    }

    /// Why the newest manifest is refused, if it is, and what runs in its place.
    pub fn refused(&self) -> Option<Refused> {
        let why = self.standing.refusal.clone().or_else(|| self.refused_edit.clone())?;
        Some(Refused { why, generation: self.accepted.generation })
    }

    /// Says what came of writing the state.
    fn settle(&mut self, written: Result<()>, now: DateTime<Utc>) -> Result<()> {
        let job = &self.setting.name;
        match self.writing.settle(written, now)? {
            News::None => {}
            News::Over => tracing::info!(job, "the state is written again"),
            News::Trouble(words) => tracing::error!(
                job,
                "nothing is started until the state can be written, also no task that fails or is killed from now on; those that run go on: \
                 {words}; {REMEDY}"
            ),
        }
        Ok(())
    }

    async fn wait(&self, wake_at: Option<DateTime<Utc>>, wishes: &mut watch::Receiver<Wish>, shutdown: &mut watch::Receiver<Shutdown>) {
        let until_wake = wake_at.map_or(Duration::from_secs(3600), |at| (at - Utc::now()).to_std().unwrap_or_default());
        let until_ask = if self.children.is_empty() { Duration::from_secs(3600) } else { ASK_EVERY };
        tokio::select! {
            () = self.changed.notified() => {}
            _ = wishes.changed() => {}
            _ = shutdown.changed() => {}
            () = tokio::time::sleep(until_wake.min(until_ask)) => {}
        }
    }

    async fn ask(&mut self) {
        let now = Utc::now();
        for (child, answers) in self.children.values_mut().filter(|(child, _)| child.exit().is_none()) {
            look::ask(&self.client, child, answers, now).await;
        }
    }

    /// Tells each thing that is waited for once.
    fn tell_waits(&mut self, desired: &Desired, observed: &Observed, name: &JobName, display: &Display) {
        let now = Utc::now();
        let waits = waits(desired, observed, &self.memory, now);
        for wait in waits.iter().filter(|wait| !self.told.contains(wait)) {
            display.wait(name, wait, now);
        }
        self.told = waits;
    }

    fn show_backlogs(&self, name: &JobName, display: &Display) {
        for (task, (_, answers)) in &self.children {
            let spec = self.accepted.spec.tasks.iter().find(|known| known.name == *task);
            for query in &answers.queries {
                let found = spec.and_then(|spec| spec.queries.iter().find(|known| known.name == query.name));
                let ends = found.is_some_and(|found| found.trigger().is_ok_and(|trigger| trigger.ends_by_itself()));
                let extent =
                    if ends || self.setting.arguments.iter().any(|a| a == "--available-now") { Extent::Bounded } else { Extent::Endless };
                display.backlog(name, task, &query.name, query.backlog.records.or(query.backlog.files), extent);
            }
        }
    }

    /// Whether an order is to be carried out by now. A task that was asked to stop ends by itself when its time is up;
    /// it is killed only if it does not.
    fn is_due(&self, action: &Action, now: DateTime<Utc>) -> bool {
        let Action::KillTask { task, epoch } = action else { return true };
        let child = self.children.get(task).filter(|(child, _)| child.spec.epoch == *epoch);
        match child.map(|(_, answers)| answers.stop_order) {
            Some(StopOrder::Graceful { at }) => is_overdue(at, self.accepted.spec.stop_timeout.as_duration(), now),
            _ => true,
        }
    }

    /// Says what became of a manifest that was written anew, where no event of the supervisor does.
    fn tell_edit(&self, before: &Standing, display: &Display) {
        if let Some(refusal) = &self.standing.refusal {
            // The watcher of the files has said why.
            display.has_told(refusal);
        }
        if let Some(words) = no_news(before, &self.standing) {
            tracing::info!(job = self.setting.name, "{words}");
        }
    }

    /// Takes an accepted manifest as the newest generation.
    fn accept(&mut self, wish: &Wish) -> Result<()> {
        let accepted = self.accept_or_refuse(wish);
        self.standing = Standing {
            refusal: wish.refusal.clone(),
            is_refused: wish.refusal.is_some() || self.refused_edit.is_some(),
            generation: self.accepted.generation,
            document: wish.document.clone(),
            written: wish.written,
        };
        accepted
    }

    fn accept_or_refuse(&mut self, wish: &Wish) -> Result<()> {
        self.refused_edit = self.refuse_edit(wish);
        if wish.refusal.is_some() || self.refused_edit.is_some() {
            return Ok(());
        }
        let is_same_spec = wish.job.spec == self.accepted.spec;
        if is_same_spec && self.document.as_ref() == Some(&wish.document) {
            return Ok(());
        }
        let next = || self.accepted.next(self.accepted.generation + 1, wish.job.spec.clone());
        let accepted = if is_same_spec { self.accepted.clone() } else { next() };
        // The documents first: children of the generation read them.
        self.state.replace(&self.state.generation(accepted.generation), wish.document.as_bytes())?;
        self.state.write("accepted.json", &accepted)?;
        self.accepted = accepted;
        self.state.prune_generations(self.accepted.generation);
        self.document = Some(wish.document.clone());
        Ok(())
    }

    /// Why the edit from the accepted spec to the wish is refused, if it is: a
    /// checkpoint may not move without its nonce.
    fn refuse_edit(&self, wish: &Wish) -> Option<String> {
        let old = weir_crds::StreamingJob { spec: self.accepted.spec.clone(), ..wish.job.clone() };
        let found = weir_crds::resource::edit_problems(&old, &wish.job);
        let sentences: Vec<String> = found.iter().map(weir_crds::finding::Finding::sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    fn desired(&self, wish: &Wish) -> Result<Desired> {
        let accepted = &self.accepted;
        let policy = accepted.spec.policy().map_err(|e| Error::config("SPEC_INVALID", e.to_string()))?;
        let mut desired = Desired::accepted(policy, accepted.generation, accepted.run_hash.clone(), accepted.task_hashes.clone())
            .map_err(|e| Error::config("INVALID_SCHEDULE", e.to_string()))?;
        if let Some(message) = wish.refusal.as_ref().or(self.refused_edit.as_ref()) {
            desired.acceptance =
                Acceptance::Rejected { generation: accepted.generation + 1, reason: Reason::SpecInvalid, message: message.clone() };
        }
        desired.lifetime = self.setting.lifetime.clone();
        desired.run_now = run_now_token(&wish.job);
        Ok(desired)
    }

    fn observe(&self, shutdown: Shutdown) -> Observed {
        let mut slots = look::slots(&self.children);
        for (task, (epoch, message)) in &self.rejected {
            slots.entry(task.clone()).or_insert_with(|| Slot::Rejected {
                epoch: *epoch,
                message: message.clone(),
                blame: Blame::Surroundings,
            });
        }
        for (task, epoch) in &self.lost {
            slots.entry(task.clone()).or_insert(Slot::Lost { epoch: *epoch });
        }
        Observed { slots, shutdown, ..Observed::default() }
    }

    /// Writes the memory of a plan ahead of its actions, where there is something new in it.
    fn remember(&mut self, plan: &Plan, may_write: bool) -> Result<Remembered> {
        if plan.memory.needs_storing(&self.memory) {
            if !may_write {
                return Ok(Remembered::NotYet);
            }
            let value: serde_json::Value = serde_json::from_str(&plan.memory.to_json()).expect("memory is JSON");
            self.state.write("memory.json", &value)?;
        }
        self.memory = plan.memory.clone();
        Ok(Remembered::Yes)
    }

    /// Writes the status, with the reason why the rest of the state is not written, if it is not.
    fn publish(&mut self, desired: &Desired, observed: &Observed, failed: Option<&Error>) -> Result<()> {
        let status = weir_supervisor::status::status(desired, observed, &self.memory);
        let mut shown = serde_json::json!({
            "metadata": {"name": self.setting.name, "namespace": self.setting.namespace, "uid": self.uid, "generation": desired.newest_generation()},
            "runner": std::process::id(),
            "status": status,
        });
        if let Some(error) = failed {
            shown[NOT_WRITTEN] = error.to_string().into();
        }
        if self.last_status.as_ref() != Some(&shown) {
            // What could not be replaced is not true any more.
            self.last_status = None;
            self.state.publish(&shown)?;
            self.last_status = Some(shown);
        }
        Ok(())
    }

    async fn act(&mut self, action: Action, wish: &Wish) {
        match action {
            Action::StartTask { task, epoch, generation, .. } => self.start(task, epoch, generation),
            Action::StopTask { task, epoch, .. } => {
                self.order(&task, epoch, Signal::TERM, StopOrder::Graceful { at: Utc::now() });
            }
            Action::KillTask { task, epoch } | Action::ForceRemoveTask { task, epoch } => {
                self.order(&task, epoch, Signal::KILL, StopOrder::Kill);
            }
            // A process is never held back: its runner sees it from the first moment on.
            Action::ReleaseTask { .. } => {}
            Action::ClearTask { task, epoch } => self.clear(&task, epoch),
            Action::ApplyLiveConfig { task, epoch, generation } => self.apply_live(&task, epoch, generation, wish).await,
        }
    }

    fn start(&mut self, task: String, epoch: u64, generation: i64) {
        self.lost.remove(&task);
        self.rejected.remove(&task);
        if self.children.contains_key(&task) {
            return;
        }
        let report = self.state.exit_report(&task, epoch);
        let token = token(&self.token_key, &self.uid, epoch);
        let mut arguments = self.setting.arguments.clone();
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--job", self.setting.name.clone());
        add("--namespace", self.setting.namespace.clone());
        add("--task", task.clone());
        add("--epoch", epoch.to_string());
        add("--job-uid", self.uid.clone());
        add("--termination-log", report.display().to_string());
        add("--die-with", std::process::id().to_string());
        arguments.push("--events".into());
        arguments.push(self.state.generation(generation).display().to_string());
        let spec = ChildSpec { program: self.setting.program.clone(), arguments, task: task.clone(), epoch, token, report };
        match Child::start(spec, Utc::now(), self.sayings.clone(), Arc::clone(&self.changed)) {
            Ok(child) => {
                self.children.insert(task, (child, Answers::none_yet(generation)));
            }
            Err(error) => {
                self.rejected.insert(task, (epoch, error.to_string()));
            }
        }
    }

    fn order(&mut self, task: &str, epoch: u64, signal: Signal, order: StopOrder) {
        if let Some((child, answers)) = self.children.get_mut(task).filter(|(child, _)| child.spec.epoch == epoch) {
            let is_repeat = std::mem::discriminant(&answers.stop_order) == std::mem::discriminant(&order);
            // A second SIGTERM would mean "at once" to the task.
            if !is_repeat {
                child.signal(signal);
                answers.stop_order = order;
            }
        }
    }

    fn clear(&mut self, task: &str, epoch: u64) {
        if self.children.get(task).is_some_and(|(child, _)| child.spec.epoch == epoch && child.exit().is_some())
            && let Some((child, _)) = self.children.remove(task)
        {
            self.state.remove(&child.spec.report);
        }
        self.lost.remove(task);
        self.rejected.remove(task);
    }

    async fn apply_live(&mut self, task: &str, epoch: u64, generation: i64, wish: &Wish) {
        let Some((child, answers)) = self.children.get_mut(task).filter(|(child, _)| child.spec.epoch == epoch) else { return };
        let Some(address) = child.address() else { return };
        let stop_timeout_ms = wish.job.spec.stop_timeout.as_duration().as_millis();
        let config = LiveConfig { generation, stop_timeout_ms: u64::try_from(stop_timeout_ms).ok() };
        let request = self.client.put(format!("http://{address}/v1/config")).bearer_auth(&child.spec.token).json(&config);
        match request.timeout(Duration::from_secs(2)).send().await {
            Ok(response) if response.status().is_success() => answers.config_generation = generation,
            Ok(response) => tracing::warn!(task, status = %response.status(), "live settings were refused; they are sent again"),
            Err(error) => tracing::warn!(task, %error, "live settings did not arrive; they are sent again"),
        }
    }
}

/// How long after its stop timeout a task may take for its last words before it is killed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Whether a task that was asked to stop at `asked` has had its time.
fn is_overdue(asked: DateTime<Utc>, stop_timeout: Duration, now: DateTime<Utc>) -> bool {
    (now - asked).to_std().is_ok_and(|waited| waited >= stop_timeout.saturating_add(LAST_WORDS))
}

/// A task's own log has said why it failed.
fn tell_failures(observed: &Observed, display: &Display) {
    for instance in observed.slots.values().filter_map(Slot::instance) {
        if let Phase::Exited(Exit { report: Some(report), .. }) = &instance.phase {
            display.has_told(&report.message);
        }
    }
}

fn ends_a_task(action: &Action) -> bool {
    matches!(action, Action::StopTask { .. } | Action::KillTask { .. } | Action::ForceRemoveTask { .. })
}

/// The bearer token of one epoch: keyed by a secret of this runner.
fn token(key: &str, uid: &str, epoch: u64) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{key}/{uid}/{epoch}/{key}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_say_its_last_words_after_the_stop_timeout() {
        let asked = DateTime::UNIX_EPOCH;
        let overdue = |after: u64| is_overdue(asked, Duration::from_secs(60), asked + Duration::from_secs(after));
        assert_eq!([59, 60, 64, 65].map(overdue), [false, false, false, true]);
        assert!(!is_overdue(asked + Duration::from_secs(9), Duration::ZERO, asked), "a clock that went back");
    }
}
