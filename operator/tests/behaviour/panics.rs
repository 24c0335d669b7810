//! M15: one job whose pass panics says so, is tried again with pauses, and delays no other job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Request;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use weir_operator::authority::Authority;
use weir_testcluster::User;
use weir_testcluster::faults::Faults;
use weir_testcluster::wait::eventually;

use crate::world::{PATIENCE, World, condition, job};

/// Makes whoever lists the pods of one job panic, as a defect in the pass over it would.
#[derive(Clone, Default)]
struct Poison {
    selector: Arc<Mutex<Option<String>>>,
    panics: Arc<Mutex<Vec<Instant>>>,
}

impl Poison {
    fn over(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let poison = self.clone();
        // The answer is awaited by the pass itself, so that is where the panic happens.
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, poison) = (client.clone(), poison.clone());
            async move {
                poison.taste(&request);
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    fn taste(&self, request: &Request<Body>) {
        let query = request.uri().query().unwrap_or_default();
        let is_poisoned = self.selector.lock().as_ref().is_some_and(|uid| query.contains(uid));
        if is_poisoned && request.uri().path().ends_with("/pods") {
            self.panics.lock().push(Instant::now());
            panic!("poisoned by the test");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_a_job_whose_pass_panics_says_so_and_delays_no_other() {
    let world = World::new("panics").await;
    let (faults, poison) = (Faults::new(), Poison::default());
    let client = poison.over(faults.client(world.plane.config(User::Admin).await.unwrap()).unwrap());
    world.apply(&job("good", &["t"])).await;
    let bad = world.apply(&job("bad", &["t"])).await;
    *poison.selector.lock() = bad.metadata.uid;
    let operator = world.operator_over(client, faults, world.settings(), Authority::Alone);
    let shown = world.until_condition("bad", "Stalled", "True", "InternalError").await;
    assert!(condition(&shown, "Ready")["message"].as_str().unwrap().contains("poisoned by the test"), "{shown:#}");
    world.until_event("bad", "InternalError").await;
    world.until_streaming("good").await;
    // The first repetition comes with the job's own change; each one after it is twice as far away.
    let five = || async {
        anyhow::ensure!(poison.panics.lock().len() >= 5, "there were fewer panics");
        Ok(())
    };
    let restarted = async {
        world.edit("good", json!({"spec": {"restartNonce": 1}})).await;
        let began = Instant::now();
        world.until_run_streams("good", 2).await;
        began.elapsed()
    };
    let (took, five) = tokio::join!(restarted, eventually("five panics", PATIENCE, five));
    five.unwrap();
    assert!(took < Duration::from_secs(20), "the other job took {took:?}");
    let panics = poison.panics.lock().clone();
    let pauses: Vec<Duration> = panics.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[2] >= Duration::from_millis(1000) && pauses[3] >= Duration::from_millis(2000), "{pauses:?}");
    assert_eq!(world.processes("bad"), 0);
    assert_eq!(world.events("bad", "InternalError").await.len(), 1, "one event for one flip");
    let again = world.job("bad").await;
    assert_eq!(again.metadata.resource_version.as_deref(), shown["metadata"]["resourceVersion"].as_str(), "nothing more is written");

    // Once the defect is gone the job runs as if nothing had been.
    *poison.selector.lock() = None;
    world.annotate("bad", "test/touched", "1").await;
    world.until_streaming("bad").await;
    assert_eq!(world.processes("bad"), 1);
    operator.stop().await;
    world.check(&[("good", "t"), ("bad", "t")]);
}
