//! M14: stored jobs, resource definitions and operators of different age meet.
//!
//! One control plane of their own for each test: definitions are changed under running jobs.

use std::path::Path;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weir_operator::settings::Settings;
use weir_testcluster::control_plane::AuditMark;
use weir_testcluster::kubelet::ProcessRecord;
use weir_testcluster::wait::eventually;

use crate::world::{NEXT_IMAGE, PATIENCE, Running, World, condition, job};

/// This release's definition after a change.
fn definition(change: impl FnOnce(&mut Value)) -> String {
    let mut crd = serde_json::to_value(weir_crds::resource::crd()).unwrap();
    change(&mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]);
    crd.to_string()
}

/// The one without these fields, each `spec.x` or `status.x`.
fn without(fields: &[&str]) -> String {
    definition(|properties| {
        for field in fields {
            let (part, name) = field.split_once('.').unwrap();
            let removed = properties[part]["properties"].as_object_mut().unwrap().remove(name);
            assert!(removed.is_some(), "{field} is a field");
        }
    })
}

/// The one of a release to come.
fn future() -> String {
    definition(|properties| {
        for part in ["spec", "status"] {
            properties[part]["properties"]["future"] = json!({"type": "string", "maxLength": 64});
        }
    })
}

impl World {
    /// Applies a definition and waits until the API server goes by it: until a status of `name` keeps this field, or drops it.
    async fn define(&self, definition: &str, name: &str, (field, value): (&str, Value), is_kept: bool) {
        self.plane.apply_crd(definition).await.unwrap();
        let patch = Patch::Merge(json!({"status": {field: value}}));
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        let served = || async {
            let answer = self.jobs().patch_status(name, &parameters, &patch).await?;
            let kept = !answer.data["status"][field].is_null();
            anyhow::ensure!(kept == is_kept, "status.{field} is {}", answer.data["status"][field]);
            Ok(())
        };
        eventually("the definition to be gone by", PATIENCE, served).await.unwrap();
    }

    /// Creations and deletions of pods since a mark, by the operator that is tested or anybody else.
    async fn pods_touched(&self, mark: AuditMark) -> Vec<String> {
        let writes = self.plane.writes_since(mark).await.unwrap();
        let of_pods = writes.iter().filter(|write| write.resource == "pods" && write.namespace == self.namespace);
        let touching = of_pods.filter(|write| write.subresource.is_empty() && matches!(write.verb.as_str(), "create" | "delete"));
        touching.map(|write| format!("{} {}", write.verb, write.name)).collect()
    }

    /// Everything that runs, once two rounds of passes changed nothing about it.
    async fn settled(&self, operator: &Running) -> Vec<ProcessRecord> {
        self.until_run_of_passes(operator).await;
        self.kubelet.records()
    }

    async fn version(&self, name: &str) -> Option<String> {
        self.job(name).await.metadata.resource_version
    }
}

fn memory() -> Value {
    json!({"version": 1})
}

#[tokio::test(flavor = "multi_thread")]
async fn m14_upgrades_and_rollbacks_touch_no_pod_and_lose_no_field() {
    let world = World::alone("m14-upgrade").await;
    let operator = world.operator().await;
    for name in ["a", "b"] {
        world.apply(&job(name, &["t", "u"])).await;
        world.until_streaming(name).await;
    }
    let mark = world.plane.audit_mark().unwrap();
    let before = world.settled(&operator).await;

    // kubectl applies the definition from either side, twice.
    let file = weir_crds::resource::crd_yaml();
    assert!(file.len() < 200 * 1024, "{} bytes", file.len());
    for arguments in [&["apply", "-f", "-"][..], &["apply", "--server-side", "--force-conflicts", "-f", "-"]] {
        for _ in 0..2 {
            world.plane.kubectl(arguments).input(file.clone()).stdout().await.unwrap();
        }
    }
    // Another operator with another image of its own: what runs goes on with what it has.
    operator.kill().await;
    let operator = world.operator_with(Settings { image: NEXT_IMAGE.to_owned(), ..world.settings() }).await;
    assert_eq!(world.settled(&operator).await, before);

    // A release to come and its rollback: fields that this release does not know survive its writes.
    world.define(&future(), "a", ("future", json!("new")), true).await;
    world.edit("a", json!({"spec": {"future": "mine", "stopTimeout": "6s"}})).await;
    world.meddle("a", json!({"future": "seen"})).await;
    let generation = world.job("a").await.metadata.generation;
    let shown = world.until("a", "observed", |job| job["status"]["observedGeneration"].as_i64() == generation).await;
    assert_eq!((&shown["spec"]["future"], &shown["status"]["future"]), (&json!("mine"), &json!("seen")));
    let older = without(&["spec.health", "status.backlog"]);
    world.define(&older, "a", ("backlog", json!({"records": 1})), false).await;
    assert_eq!(world.settled(&operator).await, before, "an older definition restarts nothing");
    world.define(&definition(|_| {}), "a", ("backlog", json!({"records": 1})), true).await;
    assert_eq!(world.settled(&operator).await, before, "nor do the defaults of a newer one");
    assert_eq!(world.pods_touched(mark).await, Vec::<String>::new());
    for name in ["a", "b"] {
        world.until_streaming(name).await;
    }
    operator.stop().await;
    world.check(&[("a", "t"), ("a", "u"), ("b", "t"), ("b", "u")]);
    world.plane.kill().await.unwrap();
}

/// A job whose lost memory only a human may make up for.
fn unfenced(name: &str) -> Value {
    let mut job = job(name, &["t"]);
    job["spec"]["tasks"][0]["queries"][0]["sink"] = json!({"format": "console"});
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn m14_a_definition_without_memory_starts_nothing_and_says_so() {
    let world = World::alone("m14-older").await;
    let operator = world.operator().await;
    world.apply(&unfenced("live")).await;
    let live = world.until_streaming("live").await;
    let pid = world.pid("live", "t");
    // A new definition cuts all watches: the recorder is to have seen what was before.
    let streams = |job: &Value| job["metadata"]["name"] == "live" && condition(job, "Ready")["reason"] == "Streaming";
    world.recorder.wait_for("live streams", |jobs| jobs.iter().any(streams).then_some(())).await.unwrap();
    world.define(&without(&["status.memory"]), "live", ("memory", memory()), false).await;

    for name in ["fresh", "brief"] {
        world.apply(&unfenced(name)).await;
        let shown = world.until_condition(name, "Stalled", "True", "StatusNotKept").await;
        assert!(condition(&shown, "Ready")["message"].as_str().unwrap().contains("weir-operator crd"), "{shown:#}");
        world.until_event(name, "StatusUnreadable").await;
    }
    world.clock.advance(Duration::from_millis(1));
    assert!(world.until_event("live", "StatusUnreadable").await.contains("weir-operator crd"));
    // Looked at again and again, nothing is written and nothing is started or stopped.
    let versions = (world.version("fresh").await, world.version("live").await);
    world.until_run_of_passes(&operator).await;
    world.until_run_of_passes(&operator).await;
    assert_eq!((world.version("fresh").await, world.version("live").await), versions);
    assert_eq!((world.processes("fresh"), world.processes("live"), world.pid("live", "t")), (0, 1, pid));
    for name in ["fresh", "live"] {
        assert_eq!(world.events(name, "StatusUnreadable").await.len(), 1, "{name}");
    }
    // Whoever deletes a job is not left waiting.
    world.delete("brief").await;
    world.until_gone("brief").await;

    // What was stored comes into sight again, and what could not be stored was kept aside: nobody has to vouch for anything.
    world.define(&definition(|_| {}), "live", ("memory", memory()), true).await;
    world.until_run_of_passes(&operator).await;
    let again = world.until_streaming("live").await;
    for known in ["/epoch", "/runNumber", "/run/number", "/run/tasks/t/epoch", "/spec"] {
        assert_eq!(again["status"]["memory"].pointer(known), live["status"]["memory"].pointer(known), "{known}");
    }
    assert_eq!((world.processes("live"), world.pid("live", "t")), (1, pid));
    world.until_streaming("fresh").await;
    world.edit("live", json!({"spec": {"restartNonce": 1}})).await;
    world.until_run_streams("live", 2).await;
    assert_eq!((world.processes("live"), world.processes("fresh")), (2, 1));
    operator.stop().await;
    world.check(&[("live", "t"), ("fresh", "t")]);
    world.plane.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m14_the_memory_of_a_later_version_is_left_alone_until_its_epoch_is_named() {
    let world = World::new("m14-newer").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let pid = world.pid("j", "t");
    operator.stop().await;
    world.meddle("j", json!({"memory": {"version": 99, "later": {"kept": true}}})).await;
    let operator = world.operator().await;
    let shown = world.until_condition("j", "Stalled", "True", "StatusTooNew").await;
    let epoch = shown["status"]["epoch"].as_u64().unwrap();
    assert!(condition(&shown, "Stalled")["message"].as_str().unwrap().contains(&format!("weir.dev/discard-memory: \"{epoch}\"")));
    assert!(world.until_event("j", "StatusUnreadable").await.contains("99"));
    world.annotate("j", "weir.dev/discard-memory", &(epoch + 1).to_string()).await;
    world.until_run_of_passes(&operator).await;
    let memory = world.job("j").await.data["status"]["memory"].clone();
    assert_eq!((&memory["version"], &memory["later"]["kept"], world.pid("j", "t")), (&json!(99), &json!(true), pid));

    world.annotate("j", "weir.dev/discard-memory", &epoch.to_string()).await;
    let above = |job: &Value| job["status"]["epoch"].as_u64() > Some(epoch) && condition(job, "Ready")["status"] == "True";
    world.until("j", "streaming above its earlier epoch", above).await;
    assert_eq!(world.processes("j"), 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

/// The jobs that releases have stored, by file.
fn corpus() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut found: Vec<(String, Value)> = Vec::new();
    for release in std::fs::read_dir(folder).unwrap() {
        let release = release.unwrap();
        for file in std::fs::read_dir(release.path()).unwrap() {
            let path = file.unwrap().path();
            let job: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let state = path.file_stem().unwrap().to_string_lossy().into_owned();
            found.push((state, job));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(found.len() >= 3, "{found:?}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn m14_jobs_that_releases_have_stored_go_on_under_this_one() {
    let world = World::alone("m14-corpus").await;
    world.apply(&job("probe", &["t"])).await;
    // Stored under a definition that lacks what came later.
    world.define(&without(&["spec.health", "status.backlog"]), "probe", ("backlog", json!({"records": 1})), false).await;
    for (_, stored) in corpus() {
        let name = stored["metadata"]["name"].as_str().unwrap().to_owned();
        // As many generations as it had; the last is the one that is stored.
        let generations = stored["status"]["observedGeneration"].as_u64().unwrap();
        let mut object = stored.clone();
        for generation in 1..=generations {
            let stop_timeout =
                if generation == generations { stored["spec"]["stopTimeout"].clone() } else { json!(format!("{generation}m")) };
            object["spec"]["stopTimeout"] = stop_timeout;
            if generation == 1 {
                world.jobs().create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
            } else {
                world.edit(&name, json!({"spec": object["spec"]})).await;
            }
        }
        world.meddle(&name, stored["status"].clone()).await;
    }
    world.define(&definition(|_| {}), "probe", ("backlog", json!({"records": 1})), true).await;
    world.edit("probe", json!({"spec": {"suspend": true}})).await;
    let operator = world.operator().await;
    world.until_condition("probe", "Ready", "True", "Suspended").await;
    for (state, stored) in corpus() {
        let name = stored["metadata"]["name"].as_str().unwrap();
        let epoch = stored["status"]["epoch"].as_u64().unwrap();
        let (run, memory) = (stored["status"]["memory"]["runNumber"].clone(), &stored["status"]["memory"]);
        let shown = match state.as_str() {
            "suspended" => world.until_condition(name, "Ready", "True", "Suspended").await,
            "backing-off" => {
                // Its time is long over.
                world.until("backing-off", "in its next run", |job| job["status"]["run"]["number"].as_u64() > run.as_u64()).await
            }
            "streaming" => {
                let above = |job: &Value| job["status"]["epoch"].as_u64() > Some(epoch) && condition(job, "Ready")["status"] == "True";
                world.until(name, "streaming above its epoch", above).await
            }
            other => panic!("{other} is no state that this test knows"),
        };
        assert!(shown["status"]["epoch"].as_u64() >= Some(epoch), "{shown:#}");
        assert_eq!(shown["status"]["memory"]["history"].as_array().map(Vec::is_empty), memory["history"].as_array().map(Vec::is_empty));
        assert!(shown["spec"]["health"].is_object(), "the defaults of this release");
        assert!(world.events(name, "StatusUnreadable").await.is_empty(), "the memory of that release is read");
    }
    operator.stop().await;
    world.check(&[("streaming", "t")]);
    world.plane.kill().await.unwrap();
}
