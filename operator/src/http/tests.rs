//! The interface over real sockets, and readiness by its own clock.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::lease::Leadership;
use crate::metrics::{ReconcileResult, WatchKind};

const HOUR: Duration = Duration::from_secs(3600);
const WATCH_STALE_AFTER: Duration = Duration::from_secs(300);

#[tokio::test]
async fn it_answers_on_its_three_paths() {
    let health = Arc::new(Health::default());
    let metrics = Metrics::default();
    metrics.operator.reconciled(ReconcileResult::Ok, Duration::from_millis(3));
    let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let fill: BeforeScrape = Arc::new(|metrics| metrics.operator.events(7, 0));
    let server = tokio::spawn(serve(listener, metrics, health.clone(), fill));
    let ask = async |path: &str| {
        let answer = reqwest::get(format!("http://{address}{path}")).await.unwrap();
        let kind = answer.headers().get("content-type").unwrap().to_str().unwrap().to_owned();
        (answer.status().as_u16(), kind, answer.text().await.unwrap())
    };
    assert_eq!(ask("/livez").await.0, 200);
    let (code, _, text) = ask("/readyz").await;
    assert_eq!((code, text.as_str()), (503, "the election has not begun\n"));
    health.leadership(&Leadership::Following { holder: None, seen: Some(Instant::now()) });
    assert_eq!(ask("/readyz").await.0, 200);
    let (code, kind, text) = ask("/metrics").await;
    assert_eq!((code, kind.as_str()), (200, CONTENT_TYPE));
    assert!(text.contains("weir_reconcile_total{result=\"ok\"} 1\n") && text.contains("weir_events_dropped_total 7\n"), "{text}");
    server.abort();
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let (_listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = listen(address).await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

#[test]
fn a_follower_is_ready_while_it_reads_the_lease() {
    let health = Health::default();
    let start = Instant::now();
    health.leadership(&Leadership::Following { holder: None, seen: None });
    assert!(health.ready(start).is_err());
    health.leadership(&Leadership::Following { holder: Some("other".to_owned()), seen: Some(start) });
    assert!(health.ready(start + LEASE_STALE_AFTER).is_ok());
    let reason = health.ready(start + 2 * LEASE_STALE_AFTER).unwrap_err();
    assert_eq!(reason, "the lease was last read 120 s ago");
}

#[test]
fn a_leader_is_ready_with_full_caches_and_watches_that_speak() {
    let health = Health::default();
    let start = Instant::now();
    health.leadership(&Leadership::Leading { until: start + HOUR });
    assert_eq!(health.ready(start).unwrap_err(), "the watches have not begun");
    health.expect(&[WatchKind::StreamingJob, WatchKind::Pod], ["lake"], WATCH_STALE_AFTER);
    health.synced(WatchKind::StreamingJob, "lake", start);
    health.heard(WatchKind::Pod, "lake", start);
    assert_eq!(health.ready(start).unwrap_err(), "the cache of Pod in namespace lake is not complete yet");
    health.synced(WatchKind::Pod, "lake", start);
    assert!(health.ready(start + WATCH_STALE_AFTER).is_ok());
    let late = start + WATCH_STALE_AFTER + Duration::from_secs(1);
    health.heard(WatchKind::StreamingJob, "lake", late);
    assert_eq!(health.ready(late).unwrap_err(), "the watch of Pod in namespace lake was last heard of 301 s ago");
    assert!(health.ready(start + 2 * HOUR).is_err(), "the leadership has run out");
}
