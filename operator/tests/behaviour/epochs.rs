//! I2: no epoch is given out twice, whatever somebody writes into the status.

use serde_json::json;
use weir_testcluster::invariants::{Invariant, epochs_of_pods};
use weir_testcluster::kubelet::Signal;

use crate::world::{World, job};

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_was_lowered_by_hand_is_never_given_out_again() {
    let world = World::new("lowered").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    let before = world.until_run_streams("j", 2).await["status"]["epoch"].as_u64().unwrap();
    assert_eq!(before, 2);
    // Under a living pod.
    world.meddle("j", json!({"epoch": 0, "memory": {"epoch": 0}})).await;
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    let again = world.kubelet.wait_for_epoch_above(&world.namespace, "j", "t", before).await.unwrap().epoch.unwrap();
    world.until_streaming("j").await;
    // Everything that names an epoch, while no pod is there: only the API server's own book tells that somebody did it.
    world.edit("j", json!({"spec": {"suspend": true}})).await;
    world.until_condition("j", "Ready", "True", "Suspended").await;
    let nothing = json!({"epoch": 0, "lastRun": null, "history": [], "memory": {"epoch": 0, "lastRun": null, "history": []}});
    world.meddle("j", nothing).await;
    world.edit("j", json!({"spec": {"suspend": false}})).await;
    world.kubelet.wait_for_epoch_above(&world.namespace, "j", "t", again).await.unwrap();
    world.until_streaming("j").await;
    // After that it counts on as before.
    let counted = world.job("j").await.data["status"]["epoch"].as_u64().unwrap();
    world.edit("j", json!({"spec": {"restartNonce": 2}})).await;
    world.until("j", "one epoch further", |job| job["status"]["epoch"] == counted + 1).await;
    world.until_streaming("j").await;
    operator.stop().await;
    // The test itself has lowered what status shows.
    world.recorder.check_except(&[Invariant::I2]).unwrap();
    assert_eq!(epochs_of_pods(&world.recorder.pods()), []);
    assert_eq!(world.store("j", "t").verify(), Vec::<String>::new());
}
