//! The observe step: uncached reads of one job's world into the supervisor's facts.
//!
//! Pods are found by the job's label or by their fixed names (`search`), and by
//! name in any case where the memory expects one; whose they are is told by the
//! owner's UID alone. A pod object that is gone is proof of its end only when
//! its last state said so (see `ended`) or its node is no more. Composes the
//! pure judgements of `observe`; decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Pod;
use weir_supervisor::Memory;
use weir_supervisor::memory::{HIGHEST_CLAIM, RunMemory, TaskMemory, TaskState};
use weir_supervisor::observed::{Instance, Observed, Phase, Slot, StartObstacle, StopOrder};
use weir_supervisor::time::Timestamp;

use crate::cluster::{CallError, Cluster, NodeLook};
use crate::epochs;
use crate::job::Job;
use crate::local::{Asked, Local};
use crate::names::{controller_uid, epoch_of_pod, pod_name};
use crate::observe::{self, Answers, NodeState, Vanished};
use crate::poll::Poller;
use crate::search::Search;
use crate::settings::Settings;

/// What a pass sees.
pub struct Look {
    /// For the supervisor.
    pub observed: Observed,
    /// The job's own pods, by task.
    pub pods: BTreeMap<String, Pod>,
}

/// Who looks.
pub struct Observer<'a> {
    /// The API server.
    pub cluster: &'a Cluster,
    /// The tasks.
    pub poller: &'a Poller,
    /// How often.
    pub settings: &'a Settings,
    /// When.
    pub now: Timestamp,
}

impl Observer<'_> {
    /// Looks at everything that belongs to a job.
    pub async fn look(&self, job: &Job, memory: &Memory, local: &mut Local, search: &Search) -> Result<Look, CallError> {
        let Found { pods, others } = self.find_pods(job, memory, search).await?;
        self.ask(&pods, local).await;
        let prefix = pod_name(&job.id.name, "");
        let mut slots = BTreeMap::new();
        local.refused_releases.retain(|task, refused| pods.get(task).and_then(epoch_of_pod) == Some(refused.epoch));
        for (task, pod) in &pods {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let asked = local.tasks.get(uid);
            let node = if wants_node(pod, asked) { self.node(observe::pod::place(pod)).await? } else { NodeState::NotAsked };
            let answers = asked.and_then(|asked| asked.answers.as_ref());
            let mut instance = observe::instance(pod, &node, answers, self.now);
            if let Some(refused) = local.refused_releases.get(task).filter(|_| instance.phase.is_held_back()) {
                instance.phase = Phase::Starting(StartObstacle::ReleaseRefused { message: refused.message.clone() });
            }
            slots.insert(task.clone(), Slot::Present(Box::new(instance)));
        }
        for (task, slot) in others {
            slots.entry(task).or_insert(slot);
        }
        for (task, rejection) in &local.rejections {
            slots.entry(task.clone()).or_insert_with(|| rejection.slot());
        }
        let (mut never_ran, mut over) = (BTreeSet::new(), BTreeSet::new());
        local.ended.retain(|pod| {
            let Some(task) = awaited(memory, &prefix, pod) else {
                let left = left_behind(memory, &prefix, pod);
                over.extend(left.clone());
                return left.is_some();
            };
            let instance = || observe::instance(pod, &NodeState::NotAsked, None, self.now);
            if !observe::has_ended(pod, self.now) {
                never_ran.insert(task);
                return true;
            }
            if slots.get(&task).is_none_or(is_anothers) {
                slots.insert(task, Slot::Present(Box::new(instance())));
            }
            true
        });
        for (name, epoch) in unseen_orders(memory.run.as_ref(), &slots) {
            slots.insert(name, Slot::Lost { epoch });
        }
        for (name, gone) in gone(memory, &slots) {
            if never_ran.contains(&name) {
                continue;
            }
            if let Some(slot) = self.judge_vanished(job, &name, gone).await? {
                slots.insert(name, slot);
            }
        }
        // Whoever came after one that was left behind proves nothing of it, unless its claim does.
        for (name, left) in &memory.left_behind {
            if slots.contains_key(name) || over.contains(name) && !left.with_earlier {
                continue;
            }
            if let Some(Slot::Present(mut gone)) = self.judge_vanished(job, name, Gone::remembered(left.epoch, left.place.as_ref())).await?
            {
                // It has been given up, so the silence of its node is waited for no more.
                gone.phase = Phase::Vanished;
                slots.insert(name.clone(), Slot::Present(gone));
            }
        }
        let known = epochs::Known {
            of_pods: pods.values().filter_map(epoch_of_pod).filter(is_epoch).max().unwrap_or_default(),
            is_new: local.is_new,
        };
        let answered = local.tasks.values().map(|asked| asked.other_epoch).filter(is_epoch).max().unwrap_or_default();
        let highest_epoch = epochs::highest(job, &known, self.now).max(answered).max(local.highest_epoch);
        let (confirmed_terminated, unreadable) = (job.confirmed_terminated(), job.unreadable());
        let observed = Observed { slots, highest_epoch, shutdown: job.shutdown(), confirmed_terminated, unreadable };
        Ok(Look { observed, pods })
    }

    /// The job's pods by task, and what else sits at names that it needs.
    async fn find_pods(&self, job: &Job, memory: &Memory, search: &Search) -> Result<Found, CallError> {
        let prefix = pod_name(&job.id.name, "");
        let task_of = |pod: &Pod| pod.metadata.name.as_deref()?.strip_prefix(&prefix).map(str::to_owned);
        let (listed, named) = match search {
            Search::All => (self.cluster.pods(&job.id).await?, BTreeSet::new()),
            Search::Named(tasks) => (Vec::new(), tasks.clone()),
        };
        let owned = listed.into_iter().filter(|pod| job.id.owns(&pod.metadata));
        let mut pods: BTreeMap<String, Pod> = owned.filter_map(|pod| Some((task_of(&pod)?, pod))).collect();
        let tasks = memory.run.iter().flat_map(|run| &run.tasks);
        let expected: BTreeSet<String> =
            tasks.filter(|(_, task)| task.state.is_live() || task.state == TaskState::Pending).map(|(name, _)| name.clone()).collect();
        // A label may have been edited away; the name cannot be.
        let asked = expected.union(&named).filter(|task| !pods.contains_key(*task)).map(|task| async move {
            let found = self.cluster.pod(&job.id.namespace, &pod_name(&job.id.name, task)).await?;
            Ok::<_, CallError>(found.map(|pod| (task.clone(), pod)))
        });
        let mut others = BTreeMap::new();
        for (task, pod) in try_join_all(asked).await?.into_iter().flatten() {
            if job.id.owns(&pod.metadata) {
                pods.insert(task, pod);
            } else if expected.contains(&task) {
                others.insert(task, Slot::Occupied { by: owner_words(&pod) });
            }
        }
        pods.retain(|task, pod| {
            let unknown = observe::unknown_instance(pod, self.now);
            let is_known = unknown.is_none();
            others.extend(unknown.map(|slot| (task.clone(), slot)));
            is_known
        });
        Ok(Found { pods, others })
    }

    /// Asks the tasks that are due.
    async fn ask(&self, pods: &BTreeMap<String, Pod>, local: &mut Local) {
        let uid_of = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        let present: Vec<String> = pods.values().map(uid_of).collect();
        local.tasks.retain(|uid, _| present.contains(uid));
        let due: Vec<(&Pod, String)> =
            pods.values().map(|pod| (pod, uid_of(pod))).filter(|(pod, uid)| is_running(pod) && self.is_due(local.tasks.get(uid))).collect();
        let answers = join_all(due.into_iter().map(|(pod, uid)| async move { (pod, uid, self.poller.ask(pod).await) })).await;
        for (pod, uid, answer) in answers {
            let asked = local.tasks.entry(uid).or_default();
            asked.at = Some(self.now);
            match answer {
                Ok(answer) if Some(answer.epoch) == epoch_of_pod(pod) => {
                    asked.is_silent = false;
                    asked.answers = Some(Answers {
                        epoch: answer.epoch,
                        reported_at: self.now,
                        is_ready: answer.is_ready,
                        generation: answer.generation,
                        queries: answer.queries,
                    });
                }
                Ok(answer) => {
                    tracing::warn!(epoch = answer.epoch, "an answer of another epoch was ignored");
                    asked.other_epoch = asked.other_epoch.max(answer.epoch);
                }
                Err(silence) => {
                    tracing::debug!(%silence, pod = pod.metadata.name, "the task did not answer");
                    asked.is_silent = true;
                }
            }
        }
    }

    fn is_due(&self, asked: Option<&Asked>) -> bool {
        let Some(at) = asked.and_then(|asked| asked.at) else { return true };
        let is_ready = asked.is_some_and(Asked::is_ready);
        let pause = if is_ready { self.settings.poll_interval } else { self.settings.starting_poll_interval() };
        at > self.now || weir_supervisor::time::elapsed(at, self.now) >= pause
    }

    async fn node(&self, place: Option<&str>) -> Result<NodeState, CallError> {
        let Some(name) = place else { return Ok(NodeState::NotAsked) };
        Ok(match self.cluster.node(name).await? {
            NodeLook::Found(node) => observe::node_state(Some(&node), self.now),
            NodeLook::Gone => observe::node_state(None, self.now),
            NodeLook::Forbidden => NodeState::Unreadable,
        })
    }

    /// The slot of a task whose pod object is gone though nobody saw it end; none when its node is gone as well.
    async fn judge_vanished(&self, job: &Job, name: &str, gone: Gone) -> Result<Option<Slot>, CallError> {
        let node = self.node(gone.place.as_deref()).await?;
        let phase = match observe::vanished(gone.place.as_deref(), &node, self.now) {
            Vanished::Proven => return Ok(None),
            Vanished::Unproven => Phase::Vanished,
            Vanished::Unconfirmed { since } => Phase::Unreachable { since },
        };
        Ok(Some(Slot::Present(Box::new(Instance {
            name: pod_name(&job.id.name, name),
            epoch: gone.epoch,
            created_at: gone.begun.unwrap_or(self.now),
            phase,
            stop_order: StopOrder::None,
            config_generation: gone.generation,
            reported_at: None,
            queries: Vec::new(),
            place: gone.place,
            held_by: Vec::new(),
        }))))
    }
}

/// What is at the names of a job's tasks.
struct Found {
    /// The job's own instances, by task.
    pods: BTreeMap<String, Pod>,
    /// By task: what else has its place.
    others: BTreeMap<String, Slot>,
}

/// Whether a slot shows something that is none of the job's known instances. It says nothing of an instance that was there
/// before it.
fn is_anothers(slot: &Slot) -> bool {
    matches!(slot, Slot::Occupied { .. } | Slot::Unclassified { .. })
}

/// An instance that was seen alive and is not in its slot now.
#[derive(Debug)]
struct Gone {
    epoch: u64,
    place: Option<String>,
    generation: i64,
    begun: Option<Timestamp>,
}

impl Gone {
    fn own(task: &TaskMemory) -> Gone {
        let begun = task.start_clock.or(task.ready_since);
        Gone { epoch: task.epoch.unwrap_or_default(), place: task.place.clone(), generation: task.generation, begun }
    }

    /// One of which only the epoch and the place are remembered.
    fn remembered(epoch: u64, place: Option<&String>) -> Gone {
        Gone { epoch, place: place.cloned(), generation: 0, begun: None }
    }
}

/// The task and the epoch of a pod of the job.
fn identity<'a>(prefix: &str, pod: &'a Pod) -> Option<(&'a str, u64)> {
    Some((pod.metadata.name.as_deref()?.strip_prefix(prefix)?, epoch_of_pod(pod)?))
}

/// The task that left this very pod behind.
fn left_behind(memory: &Memory, prefix: &str, pod: &Pod) -> Option<String> {
    let (name, epoch) = identity(prefix, pod)?;
    memory.left_behind.get(name).is_some_and(|left| left.epoch == epoch).then(|| name.to_owned())
}

/// The task whose instance of this epoch is thought to be alive.
fn awaited(memory: &Memory, prefix: &str, pod: &Pod) -> Option<String> {
    let (name, epoch) = identity(prefix, pod)?;
    let task = memory.run.as_ref().and_then(|run| run.tasks.get(name));
    let is_own = task.is_some_and(|task| task.state.is_live() && task.epoch == Some(epoch));
    let is_stranger = memory.strangers.get(name).is_some_and(|stranger| stranger.epoch == epoch);
    (is_own || is_stranger).then(|| name.to_owned())
}

/// Orders to start of an earlier pass whose pod is not there. The pod may have come and gone, without having run: its gate
/// goes only once it was seen. A call that was held up may still make it, so the order is not given again: its epoch is skipped.
fn unseen_orders(run: Option<&RunMemory>, slots: &BTreeMap<String, Slot>) -> Vec<(String, u64)> {
    let tasks = run.into_iter().flat_map(|run| &run.tasks);
    let unseen = tasks.filter(|(name, task)| task.state == TaskState::Starting && !task.seen && !slots.contains_key(*name));
    unseen.filter_map(|(name, task)| Some((name.clone(), task.epoch?))).collect()
}

/// Instances that were seen alive and are not in their slot now: of the run's tasks, and strangers.
fn gone(memory: &Memory, slots: &BTreeMap<String, Slot>) -> BTreeMap<String, Gone> {
    let strangers = memory.strangers.iter().map(|(name, known)| (name, Gone::remembered(known.epoch, known.place.as_ref())));
    let tasks = memory.run.iter().flat_map(|run| &run.tasks).filter(|(_, task)| task.state.is_live() && task.seen);
    let known = strangers.chain(tasks.map(|(name, task)| (name, Gone::own(task))));
    known.filter(|(name, _)| slots.get(*name).is_none_or(is_anothers)).map(|(name, gone)| (name.clone(), gone)).collect()
}

/// Whether a number is believed to be an epoch, whoever says it.
fn is_epoch(number: &u64) -> bool {
    *number <= HIGHEST_CLAIM
}

fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Running") && status.is_some_and(|status| status.pod_ip.is_some())
}

/// Whether the node is needed to judge a pod: its own word may be frozen.
fn wants_node(pod: &Pod, asked: Option<&Asked>) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let is_silent = asked.is_some_and(|asked| asked.is_silent);
    !is_over && (pod.metadata.deletion_timestamp.is_some() || phase == Some("Unknown") || is_silent)
}

fn owner_words(pod: &Pod) -> String {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    match controller_uid(&pod.metadata) {
        Some(uid) => format!("pod {name}, whose owner has UID {uid}"),
        None => format!("pod {name}, which has no owner"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use weir_supervisor::memory::Stranger;

    use super::*;

    #[test]
    fn what_took_the_place_of_a_task_does_not_prove_that_its_instance_is_over() {
        let task = json!({"state": "Running", "hash": "h", "generation": 1, "attempt": 1, "failures": 0, "epoch": 3, "seen": true});
        let mut unseen = task.clone();
        (unseen["state"], unseen["seen"]) = (json!("Starting"), json!(false));
        let run: RunMemory = serde_json::from_value(json!({
            "number": 1, "generation": 1, "runHash": "r", "startedAt": "2026-11-30T12:00:00Z",
            "tasks": {"alone": task, "occupied": task, "forged": task, "lost": task, "unseen": unseen},
        }))
        .unwrap();
        let what = || "a pod".to_owned();
        let slots = BTreeMap::from([
            ("occupied".to_owned(), Slot::Occupied { by: what() }),
            ("forged".to_owned(), Slot::Unclassified { what: what() }),
            ("lost".to_owned(), Slot::Lost { epoch: 3 }),
            ("unseen".to_owned(), Slot::Unclassified { what: what() }),
        ]);
        assert!(unseen_orders(Some(&run), &slots).is_empty(), "whose order met something else is told by its slot");
        let stranger = |epoch: u64| Stranger { epoch, place: Some("n".to_owned()) };
        let strangers = [("removed", 2), ("unseen", 1), ("lost", 1)].map(|(name, epoch)| (name.to_owned(), stranger(epoch)));
        let memory = Memory { run: Some(run), strangers: strangers.into(), ..Memory::default() };
        let judged: Vec<(String, u64)> = gone(&memory, &slots).into_iter().map(|(name, gone)| (name, gone.epoch)).collect();
        let expected = [("alone", 3), ("forged", 3), ("occupied", 3), ("removed", 2), ("unseen", 1)];
        assert_eq!(judged, expected.map(|(name, epoch)| (name.to_owned(), epoch)), "also one that no run calls its own");
    }
}
