//! A streaming job of one task whose pod is then shown in a new state: what the
//! supervisor makes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use weir_crds::policy::{
    HealthPolicy, JobPolicy, JobTrigger, NodeLostPolicy, QueryPolicy, QueryTrigger, RestartPolicy, TaskPolicy, TaskRetryMode,
    TaskRetryPolicy,
};
use weir_operator::observe::{NodeState, instance};
use weir_supervisor::memory::{RunMemory, RunResult, TaskMemory, TaskState};
use weir_supervisor::{Desired, Memory, Observed, Plan, Slot, decide};

use crate::pods::{EPOCH, now};

/// What the supervisor made of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it is alive, or may be.
    Waits,
    /// Counted as a failure of the task, which is retried.
    Counted,
    /// Counted; no retry can help, so the run failed and the next one waits for the longest delay.
    Hopeless,
    /// Not counted and started again.
    Uncounted,
    /// The task is done; the next run follows.
    Completed,
}

fn desired() -> Desired {
    let rules = JobPolicy {
        trigger: JobTrigger::Continuous { task_retry_mode: TaskRetryMode::OnFailure },
        restart: RestartPolicy::default(),
        task_retry: Some(TaskRetryPolicy::default()),
        start_deadline: Duration::from_secs(7200),
        stop_timeout: Duration::from_secs(60),
        keep_failed_for: Duration::ZERO,
        node_lost_policy: NodeLostPolicy::Wait,
        suspend: false,
        restart_nonce: 0,
        health: HealthPolicy::default(),
        tasks: vec![TaskPolicy {
            name: "a".to_owned(),
            queries: vec![QueryPolicy { name: "q".to_owned(), trigger: QueryTrigger::Default }],
        }],
    };
    Desired::accepted(rules, 3, "r".to_owned(), BTreeMap::from([("a".to_owned(), "h".to_owned())])).unwrap()
}

/// The memory of a job that streams, its task under [`EPOCH`].
pub fn streaming() -> Memory {
    let started = now() - chrono::TimeDelta::minutes(60);
    let task = TaskMemory {
        state: TaskState::Running,
        attempt: 1,
        epoch: Some(EPOCH),
        seen: true,
        ready_since: Some(started),
        ..TaskMemory::pending("h", 3)
    };
    let run = RunMemory {
        number: 1,
        generation: 3,
        run_hash: "r".to_owned(),
        image: String::new(),
        cause: None,
        started_at: started,
        ready_at: Some(started),
        ready_since: Some(started),
        stable: true,
        stop: None,
        tasks: BTreeMap::from([("a".to_owned(), task)]),
    };
    Memory { epoch: EPOCH, run_number: 1, run: Some(run), ..Memory::default() }
}

/// Shows the pod to the supervisor.
pub fn show(pod: &Pod, node: &NodeState, memory: &Memory) -> Plan {
    let slot = Slot::Present(Box::new(instance(pod, node, None, now())));
    let observed = Observed { slots: BTreeMap::from([("a".to_owned(), slot)]), ..Observed::default() };
    decide(&desired(), &observed, memory, now(), &mut || 0.0)
}

/// What came of it.
pub fn outcome(plan: &Plan) -> Outcome {
    let restarts = &plan.memory.restarts;
    let task = plan.memory.run.as_ref().and_then(|run| run.tasks.get("a"));
    if plan.memory.last_run.as_ref().is_some_and(|last| last.result == RunResult::Succeeded) {
        return Outcome::Completed;
    }
    match (restarts.application + restarts.start_up, restarts.disruption + restarts.fenced, task) {
        (0, 0, Some(task)) if task.state.is_live() => Outcome::Waits,
        (1, 0, Some(task)) if task.state == TaskState::WaitingRetry && task.failures == 1 => Outcome::Counted,
        (1, 0, None) if plan.memory.consecutive_failures == 1 && plan.memory.next_start.is_some() => Outcome::Hopeless,
        (0, 1, Some(task)) if task.failures == 0 && task.state == TaskState::Pending => Outcome::Uncounted,
        other => panic!("an outcome that no rule knows: {other:?}"),
    }
}
