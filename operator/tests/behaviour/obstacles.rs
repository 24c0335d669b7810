//! What keeps a generation from being checked and a container from being made is told, and ends by itself.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use weir_operator::settings::Settings;
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb};
use weir_testcluster::standin;
use weir_testcluster::wait::eventually;
use weir_testkit::scratch;

use crate::world::{PATIENCE, World, condition, job};

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_cannot_be_run_is_told_and_tried_again() {
    let world = World::new("unchecked").await;
    let folder = scratch::folder("checker").unwrap();
    let (checker, tries, works) = (folder.path().join("weir"), folder.path().join("tries"), folder.path().join("works"));
    let script = format!(
        "#!/bin/sh\nif [ -e {} ]; then exec {} \"$@\"; fi\necho x >> {}\necho 'no room' >&2\nexit 3\n",
        works.display(),
        standin::binary().display(),
        tries.display()
    );
    std::fs::write(&checker, script).unwrap();
    std::fs::set_permissions(&checker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let operator = world.operator_with(Settings { checker, ..world.settings() }).await;
    let count = || std::fs::read_to_string(&tries).map_or(0, |text| text.lines().count());

    world.apply(&job("j", &["t"])).await;
    let shown = world.until_condition("j", "Accepted", "Unknown", "CheckUnavailable").await;
    let message = condition(&shown, "Accepted")["message"].as_str().unwrap();
    assert!(message.contains("code 3") && message.ends_with("no room"), "{message}");
    assert_eq!(condition(&shown, "Ready")["status"], "False");
    assert_eq!((count(), world.kubelet.records().len()), (1, 0));
    world.clock.advance(Duration::from_secs(31));
    eventually("a second try", PATIENCE, || async { Ok(anyhow::ensure!(count() == 2)) }).await.unwrap();
    std::fs::write(&works, "").unwrap();
    world.clock.advance(Duration::from_secs(31));
    world.until_streaming("j").await;

    std::fs::remove_file(&works).unwrap();
    world.edit("j", json!({"spec": {"parameters": {"a": "b"}}})).await;
    let shown = world.until_condition("j", "Accepted", "Unknown", "CheckUnavailable").await;
    assert_eq!((&shown["status"]["run"]["generation"], &condition(&shown, "Running")["status"]), (&json!(1), &json!("True")));
    std::fs::write(&works, "").unwrap();
    world.clock.advance(Duration::from_secs(31));
    world.until("j", "in the new generation", |job| job["status"]["run"]["generation"] == 2).await;
    world.until_streaming("j").await;
    operator.stop().await;
    // What stood in the way is told until it is over: a new try flips nothing.
    let words: Vec<String> =
        world.recorder.jobs().iter().map(|job| condition(job, "Accepted")["reason"].as_str().unwrap_or("").to_owned()).collect();
    let known: Vec<&str> = words.iter().map(String::as_str).skip_while(|word| *word != "CheckUnavailable").collect();
    let flips: Vec<&str> = known.chunk_by(|one, next| one == next).map(|same| same[0]).filter(|word| !word.is_empty()).collect();
    assert_eq!(flips.iter().filter(|word| **word == "CheckUnavailable").count(), 2, "{flips:?}");
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_lacks_a_key_of_a_secret_names_it_and_starts_once_it_is_there() {
    let world = World::new("lacks").await;
    let operator = world.operator().await;
    let mut lacking = job("j", &["t"]);
    let password = json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "password"}}});
    lacking["spec"]["tasks"][0]["podTemplate"] = json!({"env": [password]});
    // Before that a policy forbids to take the gate from its pod, for longer than a start may take.
    let refusal = Refusal::code(403).message("a policy says no");
    let denied = operator.faults.add(Matcher::any().verb(Verb::Patch).resource("pods"), Times::Always, Effect::Answer(refusal));
    world.apply(&lacking).await;
    let shown = world.until_condition("j", "Stalled", "True", "ReleaseRefused").await;
    let stalled = condition(&shown, "Stalled")["message"].as_str().unwrap();
    assert!(stalled.contains("weir.dev/remembered") && stalled.ends_with("a policy says no"), "{stalled}");
    assert!(world.until_event("j", "ReleaseRefused").await.contains("a policy says no"));
    world.clock.advance(Duration::from_secs(600));
    world.until_looked_again(&operator).await;
    assert_eq!(world.job("j").await.data["status"]["totalRestarts"], shown["status"]["totalRestarts"], "no attempt of the task failed");
    operator.faults.remove(denied);
    world.clock.advance(Duration::from_secs(11));
    let shown = world.until_condition("j", "Ready", "False", "CreateContainerConfigError").await;
    let ready = condition(&shown, "Ready")["message"].as_str().unwrap();
    assert!(ready.contains("task t") && ready.contains("kafka"), "{ready}");
    assert_eq!(condition(&shown, "Stalled")["status"], "False");
    let stored = json!({"metadata": {"name": "kafka"}, "stringData": {"password": "x"}});
    world.create(&serde_json::from_value::<Secret>(stored).unwrap()).await;
    let shown = world.until_streaming("j").await;
    assert_eq!((&shown["status"]["run"]["number"], &shown["status"]["epoch"]), (&json!(1), &json!(1)), "the same pod");
    operator.stop().await;
    world.check(&[("j", "t")]);
}
