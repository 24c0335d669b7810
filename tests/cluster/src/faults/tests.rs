//! The fault layer against a small server: what is recorded, refused, lost, held back and cut off.
//!
//! Watches are covered in `kubelet.rs`, on a real API server.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::any;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams, WatchEvent, WatchParams};
use tokio::sync::broadcast;

use super::*;

/// Long enough that a call that hangs has shown it.
const A_WHILE: Duration = Duration::from_millis(200);

#[derive(Clone)]
struct Server {
    served: Arc<AtomicUsize>,
    events: broadcast::Sender<String>,
}

impl Server {
    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// Sends an event to all watches, once there is one.
    async fn tell(&self, name: &str) {
        while self.events.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        let line = serde_json::json!({"type": "MODIFIED", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}});
        self.events.send(format!("{line}\n")).unwrap();
    }
}

async fn answer(State(server): State<Server>, uri: Uri) -> axum::response::Response {
    use axum::response::IntoResponse;
    if uri.query().unwrap_or_default().contains("watch=true") {
        let events = tokio_stream_of(server.events.subscribe());
        return axum::body::Body::from_stream(events).into_response();
    }
    server.served.fetch_add(1, Ordering::SeqCst);
    axum::Json(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})).into_response()
}

fn tokio_stream_of(receiver: broadcast::Receiver<String>) -> impl futures::Stream<Item = Result<String, std::io::Error>> {
    futures::stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.ok().map(|line| (Ok(line), receiver)) })
}

async fn start() -> (Server, Faults, Api<ConfigMap>) {
    let server = Server { served: Arc::default(), events: broadcast::channel(16).0 };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(any(answer)).with_state(server.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let faults = Faults::new();
    let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
    config.default_namespace = "n".to_owned();
    let client = faults.client(config).unwrap();
    (server, faults, Api::default_namespaced(client))
}

async fn hangs<T>(future: impl Future<Output = T>) -> bool {
    tokio::time::timeout(A_WHILE, future).await.is_err()
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("not a status: {other}"),
    }
}

#[tokio::test]
async fn calls_are_recorded_and_answered_by_rules() {
    let (server, faults, maps) = start().await;
    maps.get("a").await.unwrap();
    let gets = faults.add(Matcher::any().verb(Verb::Get).resource("configmaps"), Times::Next(2), Effect::Answer(Refusal::code(410)));
    assert_eq!(code(maps.get("a").await.unwrap_err()), 410);
    assert_eq!(code(maps.get("a").await.unwrap_err()), 410);
    maps.get("a").await.unwrap();
    for expected in [403, 404, 409, 422, 500, 503] {
        faults.add(Matcher::any(), Times::Once, Effect::Answer(Refusal::code(expected)));
        assert_eq!(code(maps.get("a").await.unwrap_err()), expected);
    }
    faults.add(Matcher::any().index(10), Times::Once, Effect::Answer(Refusal::retry_after(7)));
    match maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err() {
        kube::Error::Api(status) => assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (429, 7)),
        other => panic!("{other}"),
    }
    let calls = faults.calls();
    assert_eq!((calls.len(), server.served(), faults.hits(gets).len()), (11, 2, 2));
    assert_eq!((calls[10].verb, calls[10].path.as_str()), (Verb::Create, "/api/v1/namespaces/n/configmaps"));
    assert!(calls[10].body_bytes > 0 && faults.writes().len() == 1);
}

#[tokio::test]
async fn a_lost_response_is_lost_after_the_commit() {
    let (server, faults, maps) = start().await;
    faults.add(Matcher::any().writes(), Times::Once, Effect::ResetBefore);
    assert!(maps.delete("a", &DeleteParams::default()).await.is_err());
    assert_eq!(server.served(), 0);
    faults.add(Matcher::any().writes(), Times::Once, Effect::LoseResponse(Caller::SeesReset));
    assert!(maps.delete("a", &DeleteParams::default()).await.is_err());
    assert_eq!(server.served(), 1);
    let lost = faults.add(Matcher::any(), Times::Always, Effect::LoseResponse(Caller::Hangs));
    assert!(hangs(maps.get("a")).await);
    assert_eq!(server.served(), 2);
    faults.remove(lost);
    faults.add(Matcher::any(), Times::Once, Effect::Hang);
    assert!(hangs(maps.get("a")).await);
    assert_eq!(server.served(), 2);
    faults.add(Matcher::any(), Times::Once, Effect::Delay(A_WHILE / 4));
    maps.get("a").await.unwrap();
}

#[tokio::test]
async fn a_call_is_held_until_its_rule_goes_whoever_made_it() {
    for (side, served) in [(Side::Before, 0), (Side::After, 1)] {
        let (server, faults, maps) = start().await;
        let rule = faults.add(Matcher::any().verb(Verb::Get), Times::Once, Effect::Hold(side));
        let patient = tokio::spawn({
            let maps = maps.clone();
            async move { maps.get("a").await }
        });
        faults.until_hit(rule, 1).await.unwrap();
        assert!(
            hangs(async {
                while !patient.is_finished() {
                    tokio::task::yield_now().await
                }
            })
            .await
        );
        assert_eq!(server.served(), served, "{side:?}");
        let other = faults.add(Matcher::any().verb(Verb::Delete), Times::Once, Effect::Hold(side));
        assert!(hangs(maps.delete("a", &DeleteParams::default())).await, "its caller gives up");
        faults.remove(rule);
        patient.await.unwrap().unwrap();
        faults.release(other).await;
        assert_eq!(server.served(), 2);
    }
}

#[tokio::test]
async fn a_process_can_be_killed_before_and_after_a_call() {
    for (side, expected) in [(Side::Before, 1), (Side::After, 2)] {
        let (server, faults, maps) = start().await;
        faults.stop_at(1, side);
        maps.get("a").await.unwrap();
        assert!(!faults.is_severed());
        let second = tokio::spawn(async move {
            let _ = maps.get("a").await;
            panic!("a killed process hears nothing")
        });
        faults.reached().await;
        assert!(!second.is_finished());
        assert_eq!(server.served(), expected);
    }
}

#[tokio::test]
async fn a_severed_client_is_silent() {
    let (server, faults, maps) = start().await;
    let mut events = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    server.tell("first").await;
    assert_eq!(next(&mut events).await, "first");
    faults.sever();
    server.tell("second").await;
    assert!(hangs(events.next()).await);
    assert!(hangs(maps.get("a")).await);
    assert_eq!((server.served(), faults.calls().len()), (0, 0));
}

type Events = futures::stream::BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

async fn next(events: &mut Events) -> String {
    match events.next().await.unwrap().unwrap() {
        WatchEvent::Modified(map) => map.metadata.name.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn watches_are_late_silent_lossy_repeated_or_closed() {
    let (server, faults, maps) = start().await;
    let mut events = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let all = || Matcher::any().resource("configmaps");

    let stall = faults.disturb_watches(all(), WatchEffect::Stall);
    server.tell("a").await;
    assert!(hangs(events.next()).await);
    faults.remove(stall);
    assert_eq!(next(&mut events).await, "a");

    let late = faults.disturb_watches(all(), WatchEffect::Delay(Duration::from_secs(3600)));
    server.tell("b").await;
    assert!(hangs(events.next()).await);
    faults.remove(late);
    assert_eq!(next(&mut events).await, "b");

    let twice = faults.disturb_watches(all(), WatchEffect::Duplicate);
    server.tell("c").await;
    assert_eq!((next(&mut events).await, next(&mut events).await), ("c".to_owned(), "c".to_owned()));
    faults.remove(twice);

    let lossy = faults.disturb_watches(all(), WatchEffect::Drop);
    server.tell("d").await;
    assert!(hangs(events.next()).await);
    faults.remove(lossy);
    server.tell("e").await;
    assert_eq!(next(&mut events).await, "e");

    faults.disturb_watches(Matcher::any().resource("pods"), WatchEffect::Close);
    assert!(hangs(events.next()).await);
    faults.disturb_watches(all(), WatchEffect::Close);
    assert!(events.next().await.is_none());
}
