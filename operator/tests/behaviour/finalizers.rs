//! M9: a job always gets away, with all that it had, and with nothing that belonged to others.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};
use weir_crds::exit::ExitClass;
use weir_operator::names::FINALIZER;
use weir_testcluster::ControlPlane;
use weir_testcluster::control_plane::GARBAGE_COLLECTION;
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb};
use weir_testcluster::standin::Control;
use weir_testcluster::wait::eventually;

use crate::world::{PATIENCE, World, condition, job, own_plane};

impl World {
    /// I8: no process and no pod is left of the jobs that went.
    async fn nothing_is_left(&self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let ask = || async {
            let left = pods.list(&ListParams::default()).await?.items.len();
            let running = self.kubelet.records().iter().filter(|record| record.is_running()).count();
            anyhow::ensure!(left + running == 0, "{left} pods and {running} processes are left");
            Ok(())
        };
        eventually("nothing is left", PATIENCE, ask).await.unwrap();
    }

    /// Adds a finalizer as another controller would: to the list that it has read.
    async fn add_finalizer(&self, name: &str, finalizer: &str) {
        let read = self.job(name).await.metadata;
        let finalizers: Vec<String> = read.finalizers.into_iter().flatten().chain([finalizer.to_owned()]).collect();
        self.edit(name, json!({"metadata": {"resourceVersion": read.resource_version, "finalizers": finalizers}})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_a_job_that_nobody_has_looked_at_goes_at_once() {
    let world = World::new("unseen").await;
    world.apply(&job("j", &["t"])).await;
    world.delete("j").await;
    world.until_gone("j").await;
    let operator = world.operator().await;
    assert!(world.kubelet.records().is_empty());
    // With an operator that takes jobs on at that very moment: whatever it has begun goes as well.
    for number in 0..4 {
        let name = format!("k{number}");
        world.apply(&job(&name, &["t"])).await;
        world.delete(&name).await;
    }
    for number in 0..4 {
        world.until_gone(&format!("k{number}")).await;
    }
    world.nothing_is_left().await;
    operator.stop().await;
    world.check(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_a_wiped_status_does_not_hold_a_job() {
    let world = World::new("wiped").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.kill().await;
    world.delete("j").await;
    world.jobs().patch_status("j", &PatchParams::default(), &Patch::Merge(json!({"status": null}))).await.unwrap();
    let operator = world.operator().await;
    world.until_gone("j").await;
    world.nothing_is_left().await;
    // Deleted while no operator runs, with its status.
    world.apply(&job("k", &["t"])).await;
    world.until_streaming("k").await;
    operator.stop().await;
    world.delete("k").await;
    assert_eq!(world.kubelet.running(&world.namespace, "k").len(), 1);
    let operator = world.operator().await;
    world.until_gone("k").await;
    world.nothing_is_left().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_finalizers_that_come_and_go_at_the_same_moment_are_neither_lost_nor_brought_back() {
    let world = World::new("moment").await;
    let operator = world.operator().await;
    let lists = || Matcher::any().verb(Verb::Patch).resource("streamingjobs").name("j");
    let held_up = |rule| {
        let faults = &operator.faults;
        let ask = move || async move { anyhow::Context::context(faults.hits(rule).pop(), "no write yet") };
        eventually("the list is about to be written", PATIENCE, ask)
    };
    // Our write, from the list that was read, is held up, and meanwhile another controller changes the list.
    let rule = operator.faults.add(lists(), Times::Once, Effect::Delay(Duration::from_secs(1)));
    world.apply(&job("j", &["t"])).await;
    held_up(rule).await.unwrap();
    world.add_finalizer("j", "example.com/other").await;
    world.until_streaming("j").await;
    let both = world.job("j").await.metadata.finalizers.unwrap();
    assert_eq!(both, ["example.com/other", FINALIZER]);
    let rule = operator.faults.add(lists(), Times::Once, Effect::Delay(Duration::from_secs(1)));
    world.delete("j").await;
    held_up(rule).await.unwrap();
    world.edit("j", json!({"metadata": {"finalizers": [FINALIZER]}})).await;
    world.until_gone("j").await;
    world.nothing_is_left().await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_a_service_account_that_went_first_does_not_hold_a_job() {
    let world = World::new("account").await;
    let operator = world.operator().await;
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "lake"}})).unwrap();
    world.create(&account).await;
    let mut wanted = job("j", &["t"]);
    wanted["spec"]["tasks"][0]["podTemplate"] = json!({"serviceAccountName": "lake"});
    world.apply(&wanted).await;
    world.until("j", "started", |job| job["status"]["run"]["number"] == 1 && job["status"]["tasks"][0]["state"] == "Starting").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), &world.namespace);
    accounts.delete("lake", &DeleteParams::default()).await.unwrap();
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    // The API server itself refuses a pod without its account.
    let is_refused = |job: &Value| {
        let exit = &job["status"]["tasks"][0]["lastExit"];
        exit["reason"] == "StartRejected" && exit["message"].as_str().is_some_and(|message| message.contains("lake"))
    };
    world.until("j", "refused a pod", is_refused).await;
    world.delete("j").await;
    world.until_gone("j").await;
    world.nothing_is_left().await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

/// The garbage collector and the namespace controller are real here, so this has a control plane of its own; the scenes
/// follow one another on it, the one that takes the resource definition away last.
#[tokio::test(flavor = "multi_thread")]
async fn m09_m10_orphans_namespaces_and_definitions_that_go() {
    let plane = own_plane().await;
    plane.start_controller_manager(GARBAGE_COLLECTION).await.unwrap();
    an_orphan_is_waited_for(plane).await;
    a_namespace_goes_with_its_jobs(plane).await;
    a_definition_goes_with_its_jobs(plane).await;
    plane.kill().await.unwrap();
}

async fn an_orphan_is_waited_for(plane: &'static ControlPlane) {
    let world = World::on(plane, "orphan").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.stop().await;
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.jobs().delete("j", &orphan).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let orphaned = || async {
        let pod = pods.get("j--t").await?;
        anyhow::ensure!(pod.metadata.owner_references.is_none(), "it has an owner");
        Ok(pod)
    };
    let before = eventually("the pod is an orphan", PATIENCE, orphaned).await.unwrap();
    let operator = world.operator().await;
    world.until_gone("j").await;
    // Its generation is an orphan as well, and may be removed: nothing mounts it any more but the orphan.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    maps.delete("j-g1", &DeleteParams::default()).await.unwrap();
    world.apply(&job("j", &["t"])).await;
    let says_so = |job: &Value| {
        let stalled = condition(job, "Stalled");
        stalled["reason"] == "OwnershipConflict" && stalled["message"].as_str().is_some_and(|message| message.contains("pod j--t"))
    };
    world.until("j", "waiting for the orphan", says_so).await;
    let running = world.kubelet.running(&world.namespace, "j");
    assert_eq!(running.len(), 1, "{running:#?}");
    let after = pods.get("j--t").await.unwrap();
    assert_eq!((&after.metadata.uid, &after.metadata.deletion_timestamp), (&before.metadata.uid, &None), "it is left alone");
    pods.delete("j--t", &DeleteParams::default()).await.unwrap();
    world.until_streaming("j").await;
    let records = world.kubelet.records();
    assert!(records.len() == 2 && records[0].ended_at.is_some_and(|ended| ended <= records[1].started_at), "{records:#?}");
    world.delete("j").await;
    world.until_gone("j").await;
    operator.stop().await;
    assert_eq!(world.store("j", "t").verify(), Vec::<String>::new());
}

async fn a_namespace_goes_with_its_jobs(plane: &'static ControlPlane) {
    let world = World::on(plane, "ends").await;
    let operator = world.operator().await;
    world.apply(&job("running", &["t"])).await;
    world.apply(&job("waiting", &["t"])).await;
    world.until_streaming("running").await;
    // One that wants a new pod all the time, which a namespace that ends refuses, as it does events.
    world.control("waiting", "t", &Control::fails(ExitClass::Retryable));
    world.until("waiting", "failing", |job| job["status"]["totalRestarts"]["application"].as_u64() > Some(0)).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
    let gone = || async {
        anyhow::ensure!(namespaces.get_opt(&world.namespace).await?.is_none(), "it is still there");
        Ok(())
    };
    eventually("the namespace to end", PATIENCE, gone).await.unwrap();
    assert!(world.kubelet.records().iter().all(|record| record.ended_at.is_some()));
    operator.stop().await;
    world.check(&[("running", "t"), ("waiting", "t")]);
}

async fn a_definition_goes_with_its_jobs(plane: &'static ControlPlane) {
    let world = World::on(plane, "definition").await;
    let operator = world.operator().await;
    for name in ["one", "two"] {
        world.apply(&job(name, &["t"])).await;
        world.until_streaming(name).await;
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    definitions.delete("streamingjobs.weir.dev", &DeleteParams::default()).await.unwrap();
    let gone = || async {
        anyhow::ensure!(definitions.get_opt("streamingjobs.weir.dev").await?.is_none(), "it is still there");
        Ok(())
    };
    eventually("the definition to go", PATIENCE, gone).await.unwrap();
    world.nothing_is_left().await;
    operator.stop().await;
    world.check(&[("one", "t"), ("two", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_events_and_creates_that_are_forbidden_do_not_hold_a_job() {
    let world = World::new("forbidden").await;
    let operator = world.operator().await;
    operator.faults.add(Matcher::any().resource("events"), Times::Always, Effect::Answer(Refusal::code(403)));
    operator.faults.add(Matcher::any().verb(Verb::Create).resource("pods"), Times::Always, Effect::Answer(Refusal::code(403)));
    world.apply(&job("j", &["t"])).await;
    world.until("j", "refused a pod", |job| job["status"]["tasks"][0]["lastExit"]["reason"] == "StartRejected").await;
    world.delete("j").await;
    world.until_gone("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_finalizers_of_others_stay_and_a_stop_that_hangs_says_so() {
    let world = World::new("hangs").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    world.add_finalizer("j", "example.com/other").await;
    // The node is silent under Wait: nobody can tell that the process is over.
    world.edit("j", json!({"spec": {"nodeLostPolicy": "Wait"}})).await;
    world.lose_the_node().await;
    world.delete("j").await;
    // The lost node has made it not ready before; only this says that the deadline runs.
    world.until("j", "stopping", |job| job["status"]["memory"]["shutdownSince"].is_string()).await;
    world.clock.advance(Duration::from_secs(120));
    let shown = world.until("j", "blocked", |job| condition(job, "Stalled")["reason"] == "FinalizerBlocked").await;
    assert!(condition(&shown, "Stalled")["message"].as_str().unwrap().contains("weir.dev/skip-graceful-stop"), "{shown:#}");
    world.annotate("j", "weir.dev/skip-graceful-stop", "true").await;
    let left = json!(["example.com/other"]);
    world.until("j", "let go by us", |job| job["metadata"]["finalizers"] == left).await;
    world.edit("j", json!({"metadata": {"finalizers": null}})).await;
    world.until_gone("j").await;
    operator.stop().await;
}
