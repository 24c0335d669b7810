//! M3: nothing is replaced before it is proven over, except where the fence protects what both could write.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weir_crds::exit::ExitClass;
use weir_testcluster::faults::{Call, Matcher, Verb, WatchEffect};
use weir_testcluster::invariants::epochs_of_pods;
use weir_testcluster::kubelet::{ProcessRecord, Signal};
use weir_testcluster::standin::{Control, Hang};
use weir_testcluster::wait::eventually;

use crate::world::{PATIENCE, Running, World, condition, job};

/// Longer than the grace of a silent node.
const PAST_GRACE: Duration = Duration::from_secs(45);

/// Longer than an answer of a task outweighs the silence of its node.
const PAST_ANSWER: Duration = Duration::from_secs(20);

impl World {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The node of a job's only pod.
    async fn node(&self) -> String {
        self.pods().get("j--t").await.unwrap().spec.unwrap().node_name.unwrap()
    }

    async fn force_delete(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    }

    /// Loses the node of the running pod: nobody reaches its task, which goes on. Waits until the operator knows.
    pub async fn lose_the_node(&self) {
        let epoch = self.job("j").await.data["status"]["epoch"].as_u64().unwrap();
        self.control("j", "t", &Control::default().for_epoch(epoch, Control { hang: Hang::Http, ..Control::default() }));
        self.kubelet.lose_node(&self.node().await).await.unwrap();
        self.clock.advance(PAST_ANSWER);
        self.until("j", "on a silent node", |job| condition(job, "PreviousRunTerminated")["reason"] == "NodeUnreachable").await;
    }

    /// Waits until a whole pass has been made since now: the first may have begun before.
    pub async fn until_looked_again(&self, operator: &Running) {
        let is_look = |call: &Call| call.verb == Verb::Get && call.target.resource == "streamingjobs";
        let looks = || operator.faults.calls().into_iter().filter(is_look).count();
        // A pass that has begun may have read already; the third begins when the second is over.
        for _ in 0..3 {
            let before = looks();
            self.clock.advance(Duration::from_secs(1));
            let ask = || async {
                anyhow::ensure!(looks() > before, "no pass since");
                Ok(())
            };
            eventually("another pass", PATIENCE, ask).await.unwrap();
        }
    }

    /// No successor though everything was looked at again, long after.
    async fn assert_no_successor(&self, operator: &Running) {
        let before = self.job("j").await.data["status"]["epoch"].clone();
        self.clock.advance(PAST_GRACE);
        self.until_looked_again(operator).await;
        let stalled = self.until_condition("j", "Stalled", "True", "PreviousRunUnconfirmed").await;
        assert_eq!(condition(&stalled, "PreviousRunTerminated")["status"], "False", "{stalled:#}");
        assert_eq!(stalled["status"]["epoch"], before, "{stalled:#}");
        assert_eq!(self.kubelet.running(&self.namespace, "j").len(), 1);
    }

    /// The pod of epoch 3 vanishes alive, and with it the memory that tells of it: the job waits for a human who names its epoch.
    async fn lose_the_memory_of_a_vanished_pod(&self) {
        self.kubelet.delay_sigterm(&self.namespace, "j--t", Duration::from_secs(600));
        self.force_delete("j--t").await;
        self.meddle("j", json!({"memory": null})).await;
        let operator = self.operator().await;
        let held = self.until_condition("j", "Stalled", "True", "MemoryLost").await;
        let message = condition(&held, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("weir.dev/discard-memory: \"3\""), "{message}");
        assert!(self.until_event("j", "StatusUnreadable").await.contains("discard-memory"));
        self.annotate("j", "weir.dev/discard-memory", "2").await;
        let ignored = self.until_event("j", "ConfirmationIgnored").await;
        assert!(ignored.contains("\"2\" was ignored") && ignored.contains("weir.dev/discard-memory: \"3\""), "{ignored}");
        self.clock.advance(PAST_GRACE);
        self.until_looked_again(&operator).await;
        assert_eq!((&self.job("j").await.data["status"]["epoch"], self.kubelet.running(&self.namespace, "j").len()), (&json!(3), 1));
        self.kubelet.kill(&self.namespace, "j--t", Signal::KILL).unwrap();
        self.kubelet.wait_for("ended", |records| records.iter().all(|record| record.ended_at.is_some()).then_some(())).await.unwrap();
        self.annotate("j", "weir.dev/discard-memory", "3").await;
        let above = |job: &Value| job["status"]["epoch"].as_u64() > Some(3) && condition(job, "Ready")["reason"] == "Streaming";
        self.until("j", "streaming above its epoch", above).await;
        operator.stop().await;
    }

    /// The same with the whole status, and the job is deleted then: it stays until a human vouches for what nobody remembers.
    async fn lose_the_status_of_a_vanished_pod(&self) {
        self.kubelet.delay_sigterm(&self.namespace, "j--t", Duration::from_secs(600));
        self.force_delete("j--t").await;
        self.jobs().patch_status("j", &PatchParams::default(), &Patch::Merge(json!({"status": null}))).await.unwrap();
        let operator = self.operator().await;
        let held = self.until_condition("j", "Stalled", "True", "MemoryLost").await;
        let message = condition(&held, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("weir.dev/discard-memory: \"0\""), "{message}");
        // Taking away what it is held for vouches for nothing.
        for map in self.config_maps().list(&ListParams::default()).await.unwrap() {
            let name = map.metadata.name.unwrap();
            if name.starts_with("j-g") {
                self.config_maps().delete(&name, &DeleteParams::default()).await.unwrap();
            }
        }
        self.delete("j").await;
        self.until_looked_again(&operator).await;
        let waiting = self.until_condition("j", "Stalled", "True", "MemoryLost").await;
        assert!(waiting["metadata"]["deletionTimestamp"].is_string() && waiting["status"]["memory"].is_null(), "{waiting:#}");
        assert_eq!(self.kubelet.running(&self.namespace, "j").len(), 1);
        self.kubelet.kill(&self.namespace, "j--t", Signal::KILL).unwrap();
        self.kubelet.wait_for("ended", |records| records.iter().all(|record| record.ended_at.is_some()).then_some(())).await.unwrap();
        self.annotate("j", "weir.dev/discard-memory", "0").await;
        self.until_gone("j").await;
        operator.stop().await;
    }

    /// Waits for a run under this epoch.
    async fn until_streaming_under(&self, epoch: u64) -> Value {
        let streams = |job: &Value| condition(job, "Ready")["reason"] == "Streaming" && job["status"]["epoch"] == epoch;
        self.until("j", &format!("streaming under epoch {epoch}"), streams).await
    }

    /// The process of epoch 1 was refused by the store once epoch 2 was there, and ended by that.
    async fn assert_fenced(&self) {
        let ended = |records: &[ProcessRecord]| records.iter().find(|record| record.epoch == Some(1))?.exit;
        let exit = self.kubelet.wait_for("the old process is fenced", ended).await.unwrap();
        assert_eq!(exit.code, i32::from(ExitClass::Fenced.code()));
        let store = self.store("j", "t");
        let committed = || async {
            let commits = store.commits()?;
            let first = commits.iter().position(|commit| commit.epoch == 2).context("nothing was committed under epoch 2")?;
            anyhow::ensure!(commits.len() > first + 3, "only a few were");
            Ok(commits[first..].iter().all(|commit| commit.epoch == 2))
        };
        assert!(eventually("commits under epoch 2", PATIENCE, committed).await.unwrap(), "a late commit took effect");
        assert_eq!(store.verify(), Vec::<String>::new());
    }
}

fn waiting_job() -> Value {
    let mut job = job("j", &["t"]);
    job["spec"]["nodeLostPolicy"] = json!("Wait");
    job
}

/// A job whose sink takes effect again with each attempt.
fn unfenced_job() -> Value {
    let mut job = job("j", &["t"]);
    job["spec"]["tasks"][0]["queries"][0]["sink"] = json!({"format": "console"});
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_successor_waits_for_a_process_that_ignores_sigterm_through_edits() {
    let world = World::new("sigterm").await;
    let operator = world.operator().await;
    let mut wanted = job("j", &["t"]);
    wanted["spec"]["stopTimeout"] = json!("10m");
    world.apply(&wanted).await;
    world.until_streaming("j").await;
    world.kubelet.delay_sigterm(&world.namespace, "j--t", Duration::from_secs(120));
    world.edit("j", json!({"spec": {"parameters": {"a": "b"}}})).await;
    let is_ordered = |job: &Value| condition(job, "Ready")["reason"] == "Upgrading" && !job["status"]["memory"]["run"]["stop"].is_null();
    world.until("j", "stopping for the edit", is_ordered).await;
    world.edit("j", json!({"spec": {"parameters": {"a": "c"}}})).await;
    world.clock.advance(Duration::from_secs(120));
    world.until_looked_again(&operator).await;
    let shown = world.job("j").await.data;
    assert_eq!((&shown["status"]["run"]["number"], &shown["status"]["epoch"]), (&json!(1), &json!(1)), "{shown:#}");
    assert_eq!(world.kubelet.running(&world.namespace, "j").len(), 1);
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    world.until_run_streams("j", 2).await;
    assert_eq!(world.job("j").await.data["status"]["run"]["generation"], 3, "straight to the newest edit");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_lost_node_is_replaced_where_the_fence_protects() {
    // Also when a human takes the pod away by force before.
    for forced in [false, true] {
        let world = World::new("fenced").await;
        let operator = world.operator().await;
        world.apply(&job("j", &["t"])).await;
        world.until_streaming("j").await;
        let lost = world.node().await;
        world.lose_the_node().await;
        if forced {
            world.force_delete("j--t").await;
        }
        world.clock.advance(PAST_GRACE);
        let shown = world.until_streaming_under(2).await;
        assert_ne!(world.node().await, lost, "{shown:#}");
        assert!(world.until_event("j", "RunForceReplaced").await.contains("epoch 1 of task t"));
        world.assert_fenced().await;
        operator.stop().await;
        assert_eq!(world.events("j", "RunForceReplaced").await.len(), 1);
        world.recorder.check().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_under_wait_only_proof_or_a_human_replaces() {
    let world = World::new("wait").await;
    let operator = world.operator().await;
    world.apply(&waiting_job()).await;
    world.until_streaming("j").await;
    world.lose_the_node().await;
    world.assert_no_successor(&operator).await;
    // The object gone is no proof while the node is silent.
    world.force_delete("j--t").await;
    world.assert_no_successor(&operator).await;
    for (wrong, says) in [("99", "99"), ("last", "no epoch")] {
        world.annotate("j", "weir.dev/confirm-terminated", wrong).await;
        let is_told = || async {
            let told = world.events("j", "ConfirmationIgnored").await;
            told.into_iter().find(|note| note.contains(says)).context("nobody said so")
        };
        let note = eventually(wrong, PATIENCE, is_told).await.unwrap();
        assert!(note.contains("has epoch 1"), "the right one is named: {note}");
        world.assert_no_successor(&operator).await;
    }
    world.annotate("j", "weir.dev/confirm-terminated", "1").await;
    world.until_streaming_under(2).await;
    assert!(world.until_event("j", "RunForceReplaced").await.contains("confirm-terminated"));
    world.assert_fenced().await;
    operator.stop().await;
    assert_eq!(world.events("j", "ConfirmationIgnored").await.len(), 2, "once per value");
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_node_that_is_gone_or_comes_back_is_proof() {
    let world = World::new("gone").await;
    let operator = world.operator().await;
    world.apply(&waiting_job()).await;
    world.until_streaming("j").await;
    let node = world.node().await;
    world.lose_the_node().await;
    world.assert_no_successor(&operator).await;
    world.control("j", "t", &Control::default());
    world.kubelet.recover_node(&node).await.unwrap();
    world.until_streaming("j").await;
    assert_eq!(world.job("j").await.data["status"]["epoch"], 1, "the process was there all the time");
    world.lose_the_node().await;
    world.kubelet.remove_node(&node).await.unwrap();
    // As the pod garbage collector of a cluster does with pods of nodes that are gone.
    world.kubelet.collect_garbage().await.unwrap();
    world.until_streaming_under(2).await;
    operator.stop().await;
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_sinks_without_a_fence_wait_for_proof() {
    let world = World::new("unfenced").await;
    let operator = world.operator().await;
    world.apply(&unfenced_job()).await;
    world.until_streaming("j").await;
    world.lose_the_node().await;
    world.assert_no_successor(&operator).await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_pod_taken_away_by_force_on_a_healthy_node_is_no_proof() {
    for (wanted, loses_memory) in [(waiting_job(), false), (unfenced_job(), true)] {
        let world = World::new("forced").await;
        let operator = world.operator().await;
        world.apply(&wanted).await;
        world.until_streaming("j").await;
        world.kubelet.delay_sigterm(&world.namespace, "j--t", Duration::from_secs(600));
        // Once while nobody asked for a stop, with an operator that has seen nothing of it.
        operator.kill().await;
        world.force_delete("j--t").await;
        let operator = world.operator().await;
        world.until_condition("j", "PreviousRunTerminated", "False", "PodVanished").await;
        world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
        world.assert_no_successor(&operator).await;
        world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
        world.kubelet.wait_for("ended", |records| records.iter().all(|record| record.ended_at.is_some()).then_some(())).await.unwrap();
        world.annotate("j", "weir.dev/confirm-terminated", "1").await;
        world.until_run_streams("j", 2).await;
        world.kubelet.delay_sigterm(&world.namespace, "j--t", Duration::ZERO);
        // A deletion with grace ends with a last state that says so: proof, also where nobody reads the pod in between.
        let grace = DeleteParams { grace_period_seconds: Some(5), ..DeleteParams::default() };
        world.pods().delete("j--t", &grace).await.unwrap();
        world.until_streaming_under(3).await;
        operator.stop().await;
        if loses_memory {
            world.lose_the_memory_of_a_vanished_pod().await;
            world.lose_the_status_of_a_vanished_pod().await;
            // What the test itself has wiped is no fault of the operator's.
            assert_eq!(epochs_of_pods(&world.recorder.pods()), []);
            world.check_runs(&[("j", "t")]);
        } else {
            world.check(&[("j", "t")]);
        }
    }
    let world = World::new("forced").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    world.kubelet.delay_sigterm(&world.namespace, "j--t", Duration::from_secs(600));
    world.force_delete("j--t").await;
    world.until_streaming_under(2).await;
    world.assert_fenced().await;
    operator.stop().await;
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_lost_process_is_remembered_until_its_fence_is_claimed() {
    let world = World::new("unclaimed").await;
    let operator = world.operator().await;
    let store = |endpoint: &str| {
        let mut wanted = job("j", &["t"]);
        wanted["spec"]["tasks"][0]["podTemplate"] = json!({"env": [{"name": "AWS_ENDPOINT", "value": endpoint}]});
        wanted
    };
    world.apply(&store("https://old")).await;
    world.until_streaming("j").await;
    world.kubelet.delay_sigterm(&world.namespace, "j--t", Duration::from_secs(600));
    world.kubelet.make_unschedulable(&world.namespace, "j--t");
    world.force_delete("j--t").await;
    // Its successor has no node, so it claims nothing, and an edit moves the store away from both.
    let has_no_node =
        |job: &Value| job["status"]["epoch"] == 2 && job["status"]["summary"]["message"].to_string().contains("nodes are available");
    world.until("j", "without a node", has_no_node).await;
    // It never ran, which the answer to its deletion tells also where no watch does: the lost one stays all that is waited for.
    let silent = operator.faults.disturb_watches(Matcher::any().resource("pods"), WatchEffect::Stall);
    world.edit("j", json!({"spec": {"suspend": true}})).await;
    let shown = world.until_condition("j", "Suspended", "True", "SuspendedBySpec").await;
    let left = &shown["status"]["memory"]["leftBehind"]["t"];
    assert!(left["epoch"] == 1 && left["place"].is_string() && left["withEarlier"].is_null(), "{left}");
    let terminated = condition(&shown, "PreviousRunTerminated");
    assert_eq!((&terminated["status"], &terminated["reason"]), (&json!("False"), &json!("LeftBehind")));
    operator.faults.remove(silent);
    world.kubelet.make_schedulable(&world.namespace, "j--t");
    world.edit("j", json!({"spec": {"suspend": false, "tasks": store("https://new")["spec"]["tasks"]}})).await;
    world.assert_no_successor(&operator).await;
    let shown = world.until_condition("j", "PreviousRunTerminated", "False", "PodVanished").await;
    assert!(condition(&shown, "Stalled")["message"].as_str().unwrap().contains("undo that edit"), "{shown:#}");
    // The same when the operator comes back, and with a wiped status, of which nobody knows what it has forgotten.
    operator.kill().await;
    let operator = world.operator().await;
    world.assert_no_successor(&operator).await;
    world.edit("j", json!({"spec": {"tasks": store("https://old")["spec"]["tasks"]}})).await;
    let above = |job: &Value| job["status"]["epoch"].as_u64() > Some(2) && condition(job, "Ready")["reason"] == "Streaming";
    world.until("j", "streaming behind its fence", above).await;
    let fenced = |records: &[ProcessRecord]| records.iter().find(|record| record.epoch == Some(1))?.exit;
    let exit = world.kubelet.wait_for("the old process is fenced", fenced).await.unwrap();
    assert_eq!(exit.code, i32::from(ExitClass::Fenced.code()));
    let claimed = |job: &Value| job["status"]["memory"]["leftBehind"].is_null();
    world.until("j", "with nobody left behind", claimed).await;
    operator.stop().await;
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_pod_that_a_foreign_finalizer_holds_is_waited_for() {
    let world = World::new("held").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.pods().patch("j--t", &PatchParams::default(), &Patch::Merge(&held)).await.unwrap();
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    let names_it = |job: &Value| condition(job, "Ready")["message"].as_str().is_some_and(|message| message.contains("example.com/hold"));
    let shown = world.until("j", "held", names_it).await;
    assert_eq!(condition(&shown, "Reconciling")["reason"], "WaitingForTermination", "{shown:#}");
    assert!(world.kubelet.running(&world.namespace, "j").is_empty());
    world.clock.advance(PAST_GRACE);
    let shown = world.until_condition("j", "Stalled", "True", "FinalizerBlocked").await;
    assert!(names_it(&shown) && shown["status"]["epoch"] == 1, "{shown:#}");
    let free = json!({"metadata": {"finalizers": null}});
    world.pods().patch("j--t", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    world.until_run_streams("j", 2).await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}
