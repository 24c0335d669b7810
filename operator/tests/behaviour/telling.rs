//! What a job tells: its memory, its times, its events.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weir_operator::clock::Clock;
use weir_testcluster::faults::{Call, Verb};
use weir_testcluster::wait::eventually;

use crate::world::{PATIENCE, Running, World, condition, job};

/// A job of one task without task retries, so that each failure ends its run.
pub fn fragile(name: &str, restart: Value) -> Value {
    let mut job = job(name, &["t"]);
    job["spec"]["taskRetry"] = json!({"maxRetries": 0});
    for (field, value) in restart.as_object().unwrap() {
        job["spec"]["restart"][field] = value.clone();
    }
    job
}

/// A time of a document.
pub fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap_or_else(|| panic!("{value} is no time")).parse().unwrap()
}

/// When the next run begins, to the millisecond.
pub fn next_start(job: &Value) -> DateTime<Utc> {
    time(&job["status"]["memory"]["nextStart"]["at"])
}

/// When the run that is alive was begun, to the millisecond.
pub fn run_began(job: &Value) -> DateTime<Utc> {
    time(&job["status"]["memory"]["run"]["startedAt"])
}

/// Whether `count` runs have failed in a row and none is alive.
pub fn has_failed(job: &Value, count: u64) -> bool {
    job["status"]["consecutiveFailures"] == count && job["status"]["run"].is_null() && !job["status"]["memory"]["nextStart"].is_null()
}

/// A row of `status.tasks`.
pub fn task<'a>(job: &'a Value, name: &str) -> &'a Value {
    let rows = job["status"]["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().find(|row| row["name"] == name).unwrap_or(&Value::Null)
}

impl World {
    /// Moves the clock to a time that is still ahead.
    pub fn advance_to(&self, at: DateTime<Utc>) {
        if let Ok(ahead) = (at - self.clock.now()).to_std() {
            self.clock.advance(ahead);
        }
    }

    /// Waits until so many runs have failed in a row.
    pub async fn until_failed(&self, name: &str, count: u64) -> Value {
        self.until(name, &format!("after {count} failed runs"), |job| has_failed(job, count)).await
    }

    /// Waits until run `number` is alive.
    pub async fn until_run(&self, name: &str, number: u64) -> Value {
        self.until(name, &format!("in run {number}"), |job| job["status"]["run"]["number"] == number).await
    }

    /// Waits until run `number` streams.
    pub async fn until_run_streams(&self, name: &str, number: u64) -> Value {
        let streams = |job: &Value| job["status"]["run"]["number"] == number && condition(job, "Ready")["reason"] == "Streaming";
        self.until(name, &format!("streaming in run {number}"), streams).await
    }

    /// Writes into the status, as somebody who may but should not.
    pub async fn meddle(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.jobs().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Notes of the events with a reason about a job.
    pub async fn events(&self, name: &str, reason: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = api.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()) == Some(name);
        let found = all.items.into_iter().filter(|event| about(event) && event.reason.as_deref() == Some(reason));
        found.map(|event| event.note.unwrap_or_default()).collect()
    }

    /// Waits for an event with a reason about a job; its note.
    pub async fn until_event(&self, name: &str, reason: &str) -> String {
        let what = format!("the event {reason} about {name}");
        let ask = || async { self.events(name, reason).await.pop().ok_or_else(|| anyhow::anyhow!("there is none")) };
        eventually(&what, PATIENCE, ask).await.unwrap()
    }

    /// Processes of a job so far.
    pub fn processes(&self, name: &str) -> usize {
        self.kubelet.records().iter().filter(|record| record.job == name).count()
    }

    /// The one process of a task that runs.
    pub fn pid(&self, name: &str, task: &str) -> u32 {
        let running = self.kubelet.running(&self.namespace, name);
        let found: Vec<u32> = running.iter().filter(|record| record.task == task).map(|record| record.pid).collect();
        assert_eq!(found.len(), 1, "{running:?}");
        found[0]
    }
}

/// Whether a time lies in the two seconds after another.
pub fn is_prompt(at: DateTime<Utc>, due: DateTime<Utc>) -> bool {
    at >= due && (at - due).to_std().is_ok_and(|late| late <= Duration::from_secs(2))
}

impl World {
    /// Waits until an operator has made a whole pass over every job of the namespace since now.
    pub async fn until_run_of_passes(&self, operator: &Running) {
        let jobs = self.jobs().list(&ListParams::default()).await.unwrap().items;
        let names: Vec<String> = jobs.into_iter().filter_map(|job| job.metadata.name).collect();
        let looks = || {
            let is_look = |call: &Call| call.verb == Verb::Get && call.target.resource == "streamingjobs";
            let mut looks: BTreeMap<String, usize> = BTreeMap::new();
            for call in operator.faults.calls().into_iter().filter(is_look) {
                *looks.entry(call.target.name).or_default() += 1;
            }
            looks
        };
        // A pass begins with a look, so that a second look comes after the end of the first pass.
        for _ in 0..2 {
            let before = looks();
            self.clock.advance(Duration::from_millis(1));
            let ask = || {
                let now = looks();
                let late = names.iter().find(|name| now.get(*name) <= before.get(*name)).cloned();
                async move { late.map_or(Ok(()), |name| Err(anyhow::anyhow!("{name} was not looked at"))) }
            };
            eventually("a pass over every job", PATIENCE, ask).await.unwrap();
        }
    }
}
