//! The queue, and what reaches an API server.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::mpsc;
use tower::service_fn;

use weir_supervisor::EventReason;

use super::*;

fn job() -> JobId {
    JobId { namespace: "lake".to_owned(), name: "orders".to_owned(), uid: "u-1".to_owned() }
}

fn failure(note: &str) -> Event {
    Event { reason: EventReason::RunFailed, note: note.to_owned() }
}

/// A client whose API server answers with this code and tells what it was asked.
fn client(code: u16) -> (kube::Client, mpsc::UnboundedReceiver<(String, serde_json::Value)>) {
    let (asked, questions) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            let what = format!("{} {}", request.method(), request.uri().path());
            let bytes = request.into_body().collect_bytes().await?;
            let body: serde_json::Value = serde_json::from_slice(&bytes)?;
            let answer = match code {
                201 => body.clone(),
                _ => serde_json::json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "Forbidden"}),
            };
            asked.send((what, body))?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                Response::builder().status(code).body(Body::from(serde_json::to_vec(&answer)?))?,
            )
        }
    });
    (kube::Client::new(service, "default"), questions)
}

#[test]
fn a_full_queue_drops_the_oldest_and_counts() {
    let sink = EventSink::unattended();
    for number in 0..QUEUE_LENGTH + 3 {
        sink.publish(&job(), &failure(&number.to_string()));
    }
    assert_eq!(sink.dropped(), 3);
    let queue = sink.shared.queue.lock();
    assert_eq!(queue.len(), QUEUE_LENGTH);
    assert_eq!(queue.front().unwrap().0.note.as_deref(), Some("3"));
}

#[test]
fn a_note_is_cut_between_characters() {
    let note = published(&failure(&"ü".repeat(600))).note.unwrap();
    assert_eq!((note.len(), note.chars().count()), (1024, 512));
    let note = published(&failure(&format!("x{}", "ü".repeat(600)))).note.unwrap();
    assert_eq!(note.len(), 1023);
}

#[tokio::test]
async fn equal_events_become_a_series_and_other_texts_other_events() {
    let (client, mut questions) = client(201);
    let sink = EventSink::start(client, "weir-operator-0");
    sink.publish(&job(), &failure("run 1 failed"));
    let (what, first) = questions.recv().await.unwrap();
    assert_eq!(what, "POST /apis/events.k8s.io/v1/namespaces/lake/events");
    assert_eq!(first["regarding"]["uid"], "u-1");
    assert!(first["regarding"]["resourceVersion"].is_null(), "or no event would ever be added to an earlier one");
    assert_eq!(first["type"], "Warning");
    assert_eq!(first["reason"], "RunFailed");
    assert_eq!(first["note"], "run 1 failed");
    assert_eq!(first["reportingController"], "weir.dev/weir-operator");
    assert_eq!(first["reportingInstance"], "weir-operator-0");
    sink.publish(&job(), &failure("run 1 failed"));
    let (what, again) = questions.recv().await.unwrap();
    assert!(what.starts_with("PATCH"), "{what}");
    assert_eq!(again["series"]["count"], 2);
    sink.publish(&job(), &failure("run 2 failed"));
    let (what, other) = questions.recv().await.unwrap();
    assert!(what.starts_with("POST"), "{what}");
    assert_eq!(other["note"], "run 2 failed");
}

#[tokio::test]
async fn refusals_are_counted_and_the_worker_goes_on_and_ends_with_its_sink() {
    let (client, mut questions) = client(403);
    let sink = EventSink::start(client, "weir-operator-0");
    let worker = Arc::downgrade(&sink.shared);
    for note in ["one", "two"] {
        sink.publish(&job(), &failure(note));
        assert!(questions.recv().await.is_some());
    }
    drop(sink.clone());
    sink.publish(&job(), &failure("three"));
    assert!(questions.recv().await.is_some());
    assert!(sink.failed() >= 2);
    drop(sink);
    tokio::time::timeout(Duration::from_secs(20), async {
        while worker.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the worker ends");
}

/// A client whose API server never answers to events about one job; tells the notes of all that it was asked.
fn partly_mute(mute: &'static str) -> (kube::Client, mpsc::UnboundedReceiver<String>) {
    let (asked, questions) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            let bytes = request.into_body().collect_bytes().await?;
            let body: serde_json::Value = serde_json::from_slice(&bytes)?;
            asked.send(body["note"].as_str().unwrap_or_default().to_owned())?;
            if body["regarding"]["name"] == mute {
                std::future::pending::<()>().await;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Response::builder().status(201).body(Body::from(bytes.to_vec()))?)
        }
    });
    (kube::Client::new(service, "default"), questions)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_delays_its_own_job_for_a_time_and_no_other() {
    let (client, mut questions) = partly_mute("orders");
    let sink = EventSink::start(client, "weir-operator-0");
    let other = JobId { name: "returns".to_owned(), uid: "u-2".to_owned(), ..job() };
    sink.publish(&job(), &failure("1"));
    assert_eq!(questions.recv().await.unwrap(), "1");
    let began = tokio::time::Instant::now();
    sink.publish(&job(), &failure("2"));
    for note in ["3", "4"] {
        sink.publish(&other, &failure(note));
        assert_eq!(questions.recv().await.unwrap(), note);
    }
    assert_eq!((began.elapsed(), sink.failed()), (Duration::ZERO, 0));
    assert_eq!(questions.recv().await.unwrap(), "2", "the next of the same job, once the first was given up");
    assert!(began.elapsed() >= PUBLISH_TIMEOUT && began.elapsed() < PUBLISH_TIMEOUT * 2);
    assert_eq!(sink.failed(), 1);
}
