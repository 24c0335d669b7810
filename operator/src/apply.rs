//! The apply step: the supervisor's orders become calls.
//!
//! Each order is harmless when repeated and goes to the pod of one epoch and
//! UID. A refusal of a pod is an observation for the next pass, not an error;
//! an error ends the pass, and the next one gives the order again.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::Status;
use weir_supervisor::generation::Accepted;
use weir_supervisor::observed::Blame;
use weir_supervisor::time::{Timestamp, elapsed};
use weir_supervisor::{Action, Memory};

use crate::accept::{self, Taken};
use crate::build::{self, BuildError, PodOrder};
use crate::cluster::{CallError, Cluster, Created, Grace};
use crate::ended;
use crate::job::Job;
use crate::local::{Local, RefusedRelease, Rejection};
use crate::metrics::{CreateConflict, OperatorMetrics};
use crate::names::{GATE, epoch_of_pod, generation_name, pod_name};
use crate::poll::{LiveSettings, Poller};
use crate::settings::Settings;
use crate::token;

/// What the kubelet waits beyond the stop timeout, so that the engine ends by itself first.
const GRACE_BEYOND_STOP: Duration = Duration::from_secs(5);

/// When a pod whose release was refused is tried again: rules change without a watch.
const RELEASE_PAUSE: Duration = Duration::from_secs(10);

/// How the API server words the refusals of rules that are not its own, whatever code they have: webhooks answer 400 where
/// they name none, validating policies 422.
const ADMISSION: [&str; 2] = ["admission webhook \"", "ValidatingAdmissionPolicy '"];

/// Why an order could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Something of ours cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// What became of a look for a generation's ConfigMap.
enum Stored {
    Found(Box<Accepted>),
    Gone,
    Taken(Taken),
}

/// Who carries out orders.
pub struct Applier<'a> {
    /// The API server.
    pub cluster: &'a Cluster,
    /// The tasks.
    pub poller: &'a Poller,
    /// Settings.
    pub settings: &'a Settings,
    /// Counters.
    pub metrics: &'a OperatorMetrics,
    /// The installation's key.
    pub key: &'a token::OperatorKey,
    /// The time of the pass.
    pub now: Timestamp,
}

/// What orders are about.
pub struct Subject<'a> {
    /// The job.
    pub job: &'a Job,
    /// The generation in force.
    pub accepted: &'a Accepted,
    /// The memory that was stored with the orders.
    pub memory: &'a Memory,
    /// The job's pods by task, as just seen.
    pub pods: &'a BTreeMap<String, Pod>,
}

/// A pod that is there although this process did not see itself create it.
#[derive(Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The task.
    pub task: String,
    /// The epoch.
    pub epoch: u64,
}

impl Applier<'_> {
    /// Carries out one order.
    pub async fn apply(&self, action: &Action, subject: &Subject<'_>, local: &mut Local) -> Result<Option<Adopted>, ApplyError> {
        match action {
            Action::StartTask { task, epoch, attempt, run, generation } => {
                return self.start(subject, local, task, *epoch, *attempt, *run, *generation).await;
            }
            Action::ReleaseTask { task, epoch } => {
                if let Some(pod) = pod_of(subject, task, *epoch) {
                    self.release(pod, task, *epoch, local).await?;
                }
            }
            Action::StopTask { task, epoch, deadline } => {
                if let Some(pod) = pod_of(subject, task, *epoch) {
                    self.remove_pod(pod, grace(elapsed(self.now, *deadline)), local).await?;
                }
            }
            Action::KillTask { task, epoch } => {
                // A shorter grace than the one that runs; the kubelet kills.
                if let Some(pod) = pod_of(subject, task, *epoch).filter(|pod| pod.metadata.deletion_grace_period_seconds != Some(1)) {
                    self.remove_pod(pod, Grace::Seconds(1), local).await?;
                }
            }
            Action::ForceRemoveTask { task, epoch } => {
                if let Some(pod) = pod_of(subject, task, *epoch) {
                    self.remove_pod(pod, Grace::Force, local).await?;
                }
            }
            Action::ClearTask { task, epoch } => {
                local.rejections.remove(task);
                if let Some(pod) = pod_of(subject, task, *epoch) {
                    self.remove_pod(pod, Grace::Seconds(1), local).await?;
                }
            }
            Action::ApplyLiveConfig { task, epoch, generation } => self.configure(subject, local, task, *epoch, *generation).await,
        }
        Ok(None)
    }

    /// Takes the gate from a pod. A refusal is an observation, and asked for again at a pace.
    async fn release(&self, pod: &Pod, task: &str, epoch: u64, local: &mut Local) -> Result<(), ApplyError> {
        let is_recent = |refused: &RefusedRelease| refused.at <= self.now && elapsed(refused.at, self.now) < RELEASE_PAUSE;
        if local.refused_releases.get(task).is_some_and(|refused| refused.epoch == epoch && is_recent(refused)) {
            return Ok(());
        }
        match self.cluster.release_pod(pod).await {
            Ok(()) => {}
            Err(error) => {
                let Some(status) = error.status().filter(|_| error.is_refusal()) else { return Err(error.into()) };
                let message = format!("the API server refuses to take the gate {GATE} from its pod: {}", status.message);
                local.refused_releases.insert(task.to_owned(), RefusedRelease { epoch, message, at: self.now });
            }
        }
        Ok(())
    }

    /// Deletes a pod; its last state is remembered where it proves that nothing of it is alive, lest the next pass look before
    /// the watch tells.
    async fn remove_pod(&self, pod: &Pod, grace: Grace, local: &mut Local) -> Result<(), ApplyError> {
        let shown = self.cluster.delete_pod(pod, grace).await?;
        local.remember_ended(shown.and_then(|shown| ended::proof(&shown, self.now)).into_iter().collect());
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    async fn start(
        &self,
        subject: &Subject<'_>,
        local: &mut Local,
        task: &str,
        epoch: u64,
        attempt: u32,
        run: u64,
        generation: i64,
    ) -> Result<Option<Adopted>, ApplyError> {
        local.rejections.remove(task);
        let accepted = match self.stored_generation(subject, generation).await? {
            Stored::Found(accepted) => accepted,
            Stored::Gone => {
                // The order is older than anything that is kept; the next pass takes it back by refusing it.
                let message = format!("the ConfigMap {} is gone", generation_name(&subject.job.id.name, generation));
                local.rejections.insert(task.to_owned(), Rejection::passing(epoch, message));
                return Ok(None);
            }
            Stored::Taken(taken) => {
                local.taken_generation = Some(generation);
                local.rejections.insert(task.to_owned(), Rejection::passing(epoch, taken.message));
                return Ok(None);
            }
        };
        let image = subject.memory.run.as_ref().map(|run| run.image.as_str()).filter(|image| !image.is_empty());
        let token = token::token(self.key, &subject.job.id.uid, epoch);
        let order = PodOrder {
            job: &subject.job.id,
            spec: &accepted.spec,
            generation,
            task,
            epoch,
            attempt,
            run,
            image: image.unwrap_or(&self.settings.image),
            token: &token,
            adopt_checkpoint: subject.job.adopted_checkpoint(),
        };
        let pod = build::pod(&order);
        match self.cluster.create_pod(&pod).await {
            Ok(Created::New(_)) => Ok(None),
            Ok(Created::Exists) => self.judge_existing(subject, task, epoch).await,
            Err(error) => {
                let Some(status) = error.status().filter(|_| error.is_refusal()) else { return Err(error.into()) };
                let rejection = Rejection { epoch, message: status.message.clone(), blame: blame(status) };
                local.rejections.insert(task.to_owned(), rejection);
                Ok(None)
            }
        }
    }

    /// A pod of that name is there: ours by a lost answer, ours and still going, or somebody else's. Touches nothing.
    async fn judge_existing(&self, subject: &Subject<'_>, task: &str, epoch: u64) -> Result<Option<Adopted>, ApplyError> {
        let name = pod_name(&subject.job.id.name, task);
        let Some(found) = self.cluster.pod(&subject.job.id.namespace, &name).await? else { return Ok(None) };
        let is_own = subject.job.id.owns(&found.metadata);
        let class = match epoch_of_pod(&found) {
            Some(there) if is_own && there == epoch => CreateConflict::Adopted,
            Some(_) if is_own => CreateConflict::Terminating,
            // Also one that names the job as its owner and has no epoch: nobody can tell what it is.
            Some(_) | None => CreateConflict::Foreign,
        };
        self.metrics.create_conflicted(class);
        Ok((class == CreateConflict::Adopted).then(|| Adopted { task: task.to_owned(), epoch }))
    }

    /// The generation that an order names, once it is in its ConfigMap.
    async fn stored_generation(&self, subject: &Subject<'_>, generation: i64) -> Result<Stored, ApplyError> {
        let id = &subject.job.id;
        let found = self.cluster.config_map(&id.namespace, &generation_name(&id.name, generation)).await?;
        if let Some(accepted) = found.as_ref().and_then(|map| accept::recorded(self.key, id, map)) {
            return Ok(Stored::Found(Box::new(accepted)));
        }
        if let Some(taken) = found.as_ref().and_then(|map| accept::taken(id, map)) {
            return Ok(Stored::Taken(taken));
        }
        if subject.accepted.generation != generation {
            return Ok(Stored::Gone);
        }
        let taken = store_generation(self.cluster, self.key, subject.job, subject.accepted, found.as_ref()).await?;
        Ok(taken.map_or_else(|| Stored::Found(Box::new(subject.accepted.clone())), Stored::Taken))
    }

    async fn configure(&self, subject: &Subject<'_>, local: &mut Local, task: &str, epoch: u64, generation: i64) {
        let Some(pod) = pod_of(subject, task, epoch) else { return };
        let stop_timeout = subject.accepted.spec.stop_timeout.as_duration().as_millis();
        let settings = LiveSettings { generation, stop_timeout_ms: u64::try_from(stop_timeout).unwrap_or(u64::MAX) };
        let token = token::token(self.key, &subject.job.id.uid, epoch);
        match self.poller.configure(pod, &token, &settings).await {
            Ok(()) => {
                let asked = local.tasks.get_mut(pod.metadata.uid.as_deref().unwrap_or_default());
                if let Some(answers) = asked.and_then(|asked| asked.answers.as_mut()) {
                    answers.generation = generation;
                }
            }
            // The supervisor repeats it at a pace.
            Err(silence) => tracing::warn!(task, epoch, %silence, "live settings did not arrive"),
        }
    }
}

/// Writes the ConfigMap of an accepted generation, unless its name is taken; `found` is what has just been read there. One
/// that names the job as its owner and does not bear our seal makes way.
pub async fn store_generation(
    cluster: &Cluster,
    key: &token::OperatorKey,
    job: &Job,
    accepted: &Accepted,
    found: Option<&ConfigMap>,
) -> Result<Option<Taken>, ApplyError> {
    let record = accept::record(key, &job.id, accepted)?;
    let is_in_the_way = |found: &ConfigMap| accept::recorded(key, &job.id, found).is_none();
    if let Some(found) = found.filter(|found| is_in_the_way(found)) {
        if let Some(taken) = accept::taken(&job.id, found) {
            return Ok(Some(taken));
        }
        tracing::warn!(config_map = found.metadata.name, "it does not bear this installation's seal and is replaced");
        cluster.delete_config_map(&found.metadata).await?;
    }
    if let Created::New(_) = cluster.create_config_map(&record).await? {
        return Ok(None);
    }
    // Made since it was read, by a lost answer or by somebody else, or kept by a finalizer.
    let there = cluster.config_map(&job.id.namespace, &generation_name(&job.id.name, accepted.generation)).await?;
    Ok(there.filter(is_in_the_way).map(|there| accept::taken(&job.id, &there).unwrap_or_else(|| accept::unsealed(&there))))
}

fn pod_of<'a>(subject: &'a Subject<'_>, task: &str, epoch: u64) -> Option<&'a Pod> {
    subject.pods.get(task).filter(|pod| epoch_of_pod(pod) == Some(epoch))
}

/// The grace of a pod whose engine has this long to stop.
pub fn grace(left: Duration) -> Grace {
    Grace::Seconds(whole_seconds(left + GRACE_BEYOND_STOP))
}

fn whole_seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// What a refused pod is to be put down to. A pod that is not valid never will be, for the manifest makes it. Quotas and
/// admission answer 403, and rules of others may answer with any code; all of those change without the manifest.
fn blame(status: &Status) -> Blame {
    let by_rule = ADMISSION.iter().any(|words| status.message.contains(words));
    if status.is_forbidden() || by_rule { Blame::Surroundings } else { Blame::Manifest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_pod_is_the_manifests_fault_and_a_rule_of_the_cluster_is_not() {
        let blamed = |code: u16, reason: &str, message: &str| blame(&Status::failure(message, reason).with_code(code));
        let invalid = "Pod \"j--t\" is invalid: spec.containers[0].env[0].name: Invalid value: \"a=b\"";
        let unread = "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression";
        assert_eq!(blamed(422, "Invalid", invalid), Blame::Manifest);
        assert_eq!(blamed(400, "BadRequest", unread), Blame::Manifest);
        let rules = [
            (403, "Forbidden", "pods \"j--t\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
            (403, "Forbidden", "pods \"j--t\" is forbidden: violates PodSecurity \"restricted:latest\": host namespaces"),
            (403, "Forbidden", "pods \"j--t\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi"),
            (400, "BadRequest", "admission webhook \"policy.example.com\" denied the request: no owner"),
            (422, "Invalid", "pods \"j--t\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no owner"),
        ];
        for (code, reason, message) in rules {
            assert_eq!(blamed(code, reason, message), Blame::Surroundings, "{message}");
        }
    }
}
