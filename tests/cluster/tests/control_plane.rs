//! The control plane proves what it promises, and what a bare API server does that tests of the operator rest on.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weir_crds::StreamingJob;
use weir_testcluster::control_plane::{Audit, GARBAGE_COLLECTION, WatchCache};
use weir_testcluster::wait::{GENEROUS, eventually};
use weir_testcluster::{ControlPlane, Options, User};

/// Long enough that an API server that can answer has answered.
const NO_ANSWER: Duration = Duration::from_millis(1500);

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamingJob",
        "metadata": {"name": name},
        "spec": {
            "trigger": {"manual": {}},
            "tasks": [{
                "name": "bronze",
                "queries": [{
                    "name": "readings",
                    "sources": [{"name": "raw", "format": "rate"}],
                    "sql": "SELECT value FROM raw",
                    "sink": {"format": "noop"},
                    "checkpointLocation": "out/checkpoints/readings",
                }],
            }],
        },
    })
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).unwrap()
}

fn pod(name: &str) -> Pod {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "engine", "image": "weir"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

async fn names_of_config_maps(plane: &ControlPlane, namespace: &str) -> Result<Vec<String>> {
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(User::Admin).await?, namespace);
    Ok(maps.list(&ListParams::default()).await?.items.into_iter().filter_map(|map| map.metadata.name).collect())
}

#[tokio::test]
async fn a_job_is_applied_listed_and_starts_without_a_healthy_status() {
    let plane = ControlPlane::shared().await;
    let namespace = plane.new_namespace("apply").await.unwrap();
    let manifest = job("weather").to_string();
    let applied = plane.kubectl(["apply", "-n", &namespace, "-f", "-"]).input(manifest).stdout().await.unwrap();
    assert_eq!(applied, "streamingjob.weir.dev/weather created\n");

    let table = plane.kubectl(["get", "sjob", "-n", &namespace]).stdout().await.unwrap();
    let columns: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["NAME", "READY", "STATUS", "RUN", "TASKS", "FAILURES", "NEXT-RESTART", "LAST-COMMIT", "AGE"]);
    let wide = plane.kubectl(["get", "weir", "-n", &namespace, "-o", "wide"]).stdout().await.unwrap();
    assert!(wide.lines().next().unwrap().ends_with("LAG   EPOCH   MESSAGE"), "{wide}");

    let status = plane.kubectl(["get", "sjob", "weather", "-n", &namespace, "-o", "jsonpath={.status}"]).stdout().await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&status).unwrap(), json!({"observedGeneration": -1}));

    let jobs: Api<StreamingJob> = Api::namespaced(plane.client(User::Admin).await.unwrap(), &namespace);
    assert_eq!(jobs.get("weather").await.unwrap().metadata.generation, Some(1));
}

#[tokio::test]
async fn the_api_server_refuses_what_the_rules_of_the_crd_refuse() {
    let plane = ControlPlane::shared().await;
    let namespace = plane.new_namespace("rules").await.unwrap();
    let mut dependent = job("dependent");
    dependent["spec"]["tasks"][0]["dependsOn"] = json!(["other"]);
    for (manifest, reason) in [(job("two--hyphens"), "a DNS label without `--`"), (dependent, "tasks cannot depend on each other")] {
        let finished = plane.kubectl(["apply", "-n", &namespace, "-f", "-"]).input(manifest.to_string()).run().await.unwrap();
        assert!(!finished.status.success() && finished.stderr.contains(reason), "{finished:?}");
    }
}

#[tokio::test]
async fn a_write_is_counted_once_with_its_user_and_its_answer() {
    let plane = ControlPlane::shared().await;
    let namespace = plane.new_namespace("audit").await.unwrap();
    let admin: Api<ConfigMap> = Api::namespaced(plane.client(User::Admin).await.unwrap(), &namespace);
    let mark = plane.audit_mark().unwrap();
    admin.create(&PostParams::default(), &config_map("one")).await.unwrap();
    admin.create(&PostParams::default(), &config_map("one")).await.unwrap_err();
    admin.list(&ListParams::default()).await.unwrap();

    let operator: Api<ConfigMap> = Api::namespaced(plane.client(User::Operator).await.unwrap(), &namespace);
    operator.delete("one", &DeleteParams::default()).await.unwrap_err();

    let writes = plane.writes_since(mark).await.unwrap();
    let ours: Vec<_> = writes.iter().filter(|event| event.namespace == namespace).collect();
    let seen: Vec<_> = ours.iter().map(|event| (event.verb.as_str(), event.name.as_str(), event.user.as_str(), event.code)).collect();
    let expected =
        [("create", "one", "admin", Some(201)), ("create", "one", "admin", Some(409)), ("delete", "one", "weir-operator", Some(403))];
    assert_eq!(seen, expected);
    assert!(ours.iter().all(|event| event.resource == "configmaps" && event.group.is_empty() && event.subresource.is_empty()));
    assert!(ours[0].succeeded() && !ours[1].succeeded());
}

#[tokio::test]
async fn rights_are_what_rbac_objects_grant() {
    let plane = ControlPlane::shared().await;
    let namespace = plane.new_namespace("rights").await.unwrap();
    let operator: Api<ConfigMap> = Api::namespaced(plane.client(User::Operator).await.unwrap(), &namespace);
    assert!(matches!(operator.list(&ListParams::default()).await, Err(kube::Error::Api(status)) if status.code == 403));

    plane.service_account(&namespace, "reader").await.unwrap();
    let subject = format!("--serviceaccount={namespace}:reader");
    let steps: [&[&str]; 2] = [
        &["create", "role", "reader", "--verb=list", "--resource=configmaps"],
        &["create", "rolebinding", "reader", "--role=reader", "--user=weir-operator", &subject],
    ];
    for step in steps {
        plane.kubectl(step.iter().chain(&["-n", namespace.as_str()])).stdout().await.unwrap();
    }
    eventually("the grant to be known", GENEROUS, || async { Ok(operator.list(&ListParams::default()).await?) }).await.unwrap();

    let kubeconfig = plane.service_account_kubeconfig(&namespace, "reader").await.unwrap();
    let listing = ["get", "configmaps", "-n", namespace.as_str(), "-o", "name"];
    eventually("the service account to be known", GENEROUS, || plane.kubectl(listing).with_kubeconfig(&kubeconfig).stdout()).await.unwrap();
    let whoami = plane.kubectl(["auth", "whoami"]).with_kubeconfig(&kubeconfig).stdout().await.unwrap();
    assert!(whoami.contains(&format!("system:serviceaccount:{namespace}:reader")), "{whoami}");
}

/// A kubelet's absence shows in deletion: only a pod that runs on a node has a time of ending.
#[tokio::test]
async fn an_unbound_pod_goes_at_once_and_a_running_one_stays_terminating() {
    let plane = ControlPlane::shared().await;
    let namespace = plane.new_namespace("pods").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.client(User::Admin).await.unwrap(), &namespace);
    for name in ["unbound", "bound"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    let binding: Binding =
        serde_json::from_value(json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "node-1"}})).unwrap();
    let _: Value = pods.create_subresource("binding", "bound", &PostParams::default(), &binding).await.unwrap();
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("bound", &PatchParams::default(), &running).await.unwrap();

    for name in ["unbound", "bound"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    assert!(pods.get_opt("unbound").await.unwrap().is_none());
    let left = pods.get("bound").await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_some());
    assert_eq!(left.spec.unwrap().node_name.as_deref(), Some("node-1"));

    pods.delete("bound", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("bound").await.unwrap().is_none());
}

#[tokio::test]
async fn the_shared_control_plane_cannot_be_disturbed() {
    let plane = ControlPlane::shared().await;
    let refusals = [plane.freeze(), plane.kill().await, plane.restart().await, plane.snapshot().await.map(|_| ())];
    for refusal in refusals {
        assert!(refusal.unwrap_err().to_string().contains("ControlPlane::start"));
    }
    plane.new_namespace("still-there").await.unwrap();
}

#[tokio::test]
async fn a_frozen_server_answers_nothing_and_a_thawed_one_everything() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client(User::Admin).await.unwrap());
    maps.list(&ListParams::default()).await.unwrap();
    plane.freeze().unwrap();
    let mut asked = tokio::spawn(async move { maps.list(&ListParams::default()).await });
    assert!(tokio::time::timeout(NO_ANSWER, &mut asked).await.is_err(), "a frozen server has answered");
    plane.thaw().unwrap();
    asked.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_killed_server_comes_back_with_its_data_for_the_same_clients() {
    let plane = ControlPlane::start(Options { watch_cache: WatchCache::Off, ..Options::default() }).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client(User::Admin).await.unwrap());
    let mark = plane.audit_mark().unwrap();
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let before = plane.api_server_id().unwrap();
    plane.kill().await.unwrap();
    assert_eq!(plane.api_server_id(), None);
    maps.get("kept").await.unwrap_err();
    plane.restart().await.unwrap();
    assert_ne!(plane.api_server_id(), Some(before));
    maps.get("kept").await.unwrap();
    let writes = plane.writes_since(mark).await.unwrap();
    assert_eq!(writes.iter().filter(|event| event.name == "kept").count(), 1);
}

#[tokio::test]
async fn a_restored_snapshot_forgets_what_came_after_it() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client(User::Admin).await.unwrap());
    let early = maps.create(&PostParams::default(), &config_map("early")).await.unwrap();
    let snapshot = plane.snapshot().await.unwrap();
    let late = maps.create(&PostParams::default(), &config_map("late")).await.unwrap();
    plane.restore(&snapshot).await.unwrap();
    assert_eq!(names_of_config_maps(&plane, "default").await.unwrap(), ["early"]);
    assert_eq!(maps.get("early").await.unwrap().metadata.uid, early.metadata.uid);
    let again = maps.create(&PostParams::default(), &config_map("late")).await.unwrap();
    assert_ne!(again.metadata.uid, late.metadata.uid);

    // The same once more, from the same snapshot and with the server away.
    plane.kill().await.unwrap();
    plane.restore(&snapshot).await.unwrap();
    assert_eq!(names_of_config_maps(&plane, "default").await.unwrap(), ["early"]);
}

#[tokio::test]
async fn with_a_controller_manager_children_go_with_their_owner_and_namespaces_end() {
    let plane = ControlPlane::start(Options { audit: Audit::WritesWithObjects, ..Options::default() }).await.unwrap();
    plane.install_crd().await.unwrap();
    plane.start_controller_manager(GARBAGE_COLLECTION).await.unwrap();
    plane.namespace("garbage").await.unwrap();
    let client = plane.client(User::Admin).await.unwrap();
    let jobs: Api<StreamingJob> = Api::namespaced(client.clone(), "garbage");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "garbage");
    let mark = plane.audit_mark().unwrap();
    let owner = jobs.create(&PostParams::default(), &serde_json::from_value(job("owner")).unwrap()).await.unwrap();
    let mut child = config_map("child");
    let reference =
        json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "name": "owner", "uid": owner.metadata.uid, "controller": true});
    child.metadata.owner_references = Some(vec![serde_json::from_value(reference).unwrap()]);
    maps.create(&PostParams::default(), &child).await.unwrap();

    let writes = plane.writes_since(mark).await.unwrap();
    let sent = writes.iter().find(|event| event.resource == "configmaps").unwrap().sent.clone().unwrap();
    assert_eq!(sent["data"], json!({"a": "1"}));

    jobs.delete("owner", &DeleteParams::default()).await.unwrap();
    eventually("the child to be collected", GENEROUS, || async {
        anyhow::ensure!(maps.get_opt("child").await?.is_none(), "it is still there");
        Ok(())
    })
    .await
    .unwrap();

    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete("garbage", &DeleteParams::default()).await.unwrap();
    eventually("the namespace to end", GENEROUS, || async {
        anyhow::ensure!(namespaces.get_opt("garbage").await?.is_none(), "it is still there");
        Ok(())
    })
    .await
    .unwrap();
}
