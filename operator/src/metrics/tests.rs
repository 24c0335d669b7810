//! The text, and what the board counts.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::json;
use weir_crds::StreamingJob;

use super::*;
use crate::names::JobId;

fn id(name: &str) -> JobId {
    JobId { namespace: "lake".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

fn job(status: serde_json::Value) -> StreamingJob {
    serde_json::from_value(json!({
        "apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob",
        "metadata": {"name": "orders", "namespace": "lake", "generation": 7},
        "spec": {"trigger": {"manual": {}}, "tasks": []},
        "status": status,
    }))
    .unwrap()
}

fn condition(kind: &str, status: &str) -> serde_json::Value {
    json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn streaming() -> StreamingJob {
    job(json!({
        "observedGeneration": 6,
        "conditions": [condition("Ready", "True"), condition("Stalled", "False"), condition("FallingBehind", "Unknown")],
        "epoch": 42, "consecutiveFailures": 2, "nextRestartTime": "2026-01-01T00:10:00Z",
        "totalRestarts": {"application": 9, "disruption": 3, "spec": 4, "startUp": 1},
        "run": {"number": 17, "image": "registry/weir:\"1\"", "startedAt": "2026-01-01T00:00:00Z"},
        "lastRun": {"number": 16, "result": "Failed", "finishedAt": "2025-12-31T23:59:20Z"},
        "backlog": {"records": 1200, "bytes": 3400, "seconds": 1.5, "files": 2},
        "summary": {"lastCommitTime": "2026-01-01T00:00:30Z"},
    }))
}

fn text(metrics: &Metrics) -> String {
    metrics.pieces().collect()
}

#[test]
fn the_text_is_as_published() {
    let metrics = Metrics::default();
    metrics.operator.reconciled(ReconcileResult::Conflict, Duration::from_millis(3));
    metrics.operator.watch_failed(WatchKind::Node);
    metrics.operator.watch_heard(WatchKind::Pod, 1_767_225_600.0);
    metrics.operator.leads(true);
    metrics.operator.create_conflicted(CreateConflict::Foreign);
    metrics.operator.status_written(StatusWrite::WriteAhead);
    metrics.operator.scope_conflicts(2);
    metrics.operator.events(3, 1);
    let view = JobView::of(&streaming());
    metrics.board.update(&id("orders"), JobView { run_number: Some(16), ..view.clone() });
    metrics.board.update(&id("orders"), view);
    insta::assert_snapshot!(text(&metrics));
}

#[test]
fn a_job_without_status_has_its_counters_and_no_guesses() {
    let metrics = Metrics::default();
    let mut fresh = streaming();
    fresh.status = None;
    metrics.board.update(&id("orders"), JobView::of(&fresh));
    let text = text(&metrics);
    assert!(text.contains("weir_streamingjob_restarts_total{namespace=\"lake\",name=\"orders\",cause=\"Application\"} 0\n"), "{text}");
    assert!(text.contains("weir_streamingjob_generation_lag{namespace=\"lake\",name=\"orders\"} 7\n"), "{text}");
    for absent in ["epoch{", "condition{", "next_restart_timestamp_seconds{", "last_commit_timestamp_seconds{"] {
        assert!(!text.contains(&format!("weir_streamingjob_{absent}")), "{absent}: {text}");
    }
}

#[test]
fn starts_and_gaps_are_counted_once() {
    let board = JobBoard::default();
    let at = |run: i64, started: i64, ready: Option<i64>, last: Option<i64>| JobView {
        run_number: Some(run),
        run_started: Some(started),
        run_ready: ready,
        last_run_finished: last,
        ..JobView::default()
    };
    let counts = |board: &JobBoard| {
        let snapshot = board.snapshot();
        let entry = &snapshot[0].1;
        (entry.run_start.counts.iter().sum::<u32>(), entry.run_start.sum, entry.gap.counts.iter().sum::<u32>(), entry.gap.sum)
    };
    // Seen for the first time while it runs: nobody knows whether it was counted before.
    board.update(&id("a"), at(1, 100, Some(104), Some(90)));
    assert_eq!(counts(&board), (0, 0.0, 0, 0.0));
    board.update(&id("a"), JobView { run_number: None, last_run_finished: Some(200), ..JobView::default() });
    board.update(&id("a"), at(2, 210, None, Some(200)));
    board.update(&id("a"), at(2, 210, None, Some(200)));
    assert_eq!(counts(&board), (0, 0.0, 1, 10.0));
    board.update(&id("a"), at(2, 210, Some(213), Some(200)));
    board.update(&id("a"), JobView { consecutive_failures: 1, ..at(2, 210, Some(213), Some(200)) });
    assert_eq!(counts(&board), (1, 3.0, 1, 10.0));
    // Both at once, as after a pause of the watch.
    board.update(&id("a"), at(3, 300, Some(302), Some(299)));
    assert_eq!(counts(&board), (2, 5.0, 2, 11.0));
}

#[test]
fn a_removed_job_is_gone_and_pieces_stay_small() {
    let metrics = Metrics::default();
    for number in 0..2000 {
        metrics.board.update(&id(&format!("job-{number}")), JobView::of(&streaming()));
    }
    metrics.board.remove(&id("job-7"));
    assert_eq!(metrics.board.len(), 1999);
    let longest = metrics.pieces().map(|piece| piece.len()).max().unwrap();
    assert!(longest < 80 * 1024, "{longest}");
    let text = text(&metrics);
    assert!(!text.contains("name=\"job-7\"") && text.contains("name=\"job-8\""));
    assert_eq!(text.matches("# TYPE weir_streamingjob_epoch gauge\n").count(), 1);
    assert_eq!(text.matches("\nweir_streamingjob_epoch{").count(), 1999);
    metrics.board.clear();
    assert!(metrics.board.is_empty());
}
