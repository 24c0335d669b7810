//! Checks of several jobs, with a shell script in the program's place.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use weir_supervisor::time::elapsed;

use super::*;
use crate::check::tests::Script;

struct Stopped(Mutex<Timestamp>);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

fn job(name: &str, generation: i64, sql: &str) -> Job {
    shown(name, generation, sql, json!({}))
}

fn shown(name: &str, generation: i64, sql: &str, status: serde_json::Value) -> Job {
    let query = json!({"name": "q", "sources": [{"name": "s", "format": "rate"}], "sql": sql, "sink": {"format": "noop"}});
    let object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "generation": generation},
        "spec": {"trigger": {"continuous": {}}, "tasks": [{"name": "t", "queries": [query]}]},
        "status": status,
    });
    Job::read(serde_json::from_value(object).unwrap())
}

struct Stage {
    checks: Checks,
    clock: Arc<Stopped>,
    done: broadcast::Receiver<JobId>,
}

impl Stage {
    fn state(&self, job: &Job) -> CheckState {
        self.checks.state(job, job.spec.as_ref().unwrap(), self.clock.now())
    }

    /// Begins a check and waits for its end.
    async fn checked(&mut self, job: &Job) -> CheckState {
        assert!(matches!(self.state(job), CheckState::Running { .. }));
        assert_eq!(self.done.recv().await.unwrap(), job.id);
        self.state(job)
    }

    fn wait(&self, wait: Duration) {
        let mut now = self.clock.0.lock();
        *now = after(*now, wait);
    }
}

#[tokio::test]
async fn a_job_whose_check_uses_up_a_limit_waits_longer_each_time_and_in_nobodys_way() {
    // The large one prints too much, and a patient one waits to be told.
    let mut script = Script::new(
        r#"manifest="$(cat)"
case "$manifest" in *PATIENT*) while [ ! -e told ]; do sleep 0.01; done ;; esac
case "$manifest" in *LARGE*) echo x >> tries; echo '[                    ]' ;; *) echo '[]' ;; esac"#,
    );
    script.limits.output = 16;
    let (sender, done) = broadcast::channel(8);
    let clock = Arc::new(Stopped(Mutex::new(Timestamp::UNIX_EPOCH)));
    // There is one place for all others.
    let checks = Checks::new(Checker::new(script.file("weir"), script.limits, 1), Arc::clone(&clock) as Arc<dyn Clock>, sender);
    let mut stage = Stage { checks, clock, done };
    let large = job("large", 1, "SELECT 'LARGE'");
    for seconds in [60, 120] {
        let CheckState::Unavailable { message, retry_at } = stage.checked(&large).await else { panic!("it ended within its limits") };
        assert!(message.contains("more than 16 bytes") && message.contains("or as soon as the manifest changes"), "{message}");
        assert_eq!(elapsed(stage.clock.now(), retry_at), Duration::from_secs(seconds));
        stage.wait(Duration::from_secs(seconds - 1));
        assert!(matches!(stage.state(&large), CheckState::Unavailable { .. }), "not before its time");
        // Nor when it comes back after another manifest, or as another generation of the same.
        assert_eq!(stage.checked(&job("large", 2, "SELECT 'SMALL'")).await, CheckState::Passed);
        assert!(matches!(stage.state(&job("large", 3, "SELECT 'LARGE'")), CheckState::Unavailable { .. }));
        assert!(matches!(stage.state(&large), CheckState::Unavailable { .. }));
        stage.wait(Duration::from_secs(1));
    }
    let CheckState::Unavailable { .. } = stage.checked(&large).await else { panic!("once more") };
    assert_eq!(script.read("tries").lines().count(), 3);
    // A changed one is checked at once, and takes no place of others while its job is known to be costly.
    let changed = job("large", 4, "SELECT 'PATIENT'");
    assert!(matches!(stage.state(&changed), CheckState::Running { .. }));
    assert_eq!(stage.checked(&job("other", 1, "SELECT 1")).await, CheckState::Passed);
    std::fs::write(script.file("told"), "").unwrap();
    assert_eq!(stage.done.recv().await.unwrap(), changed.id);
    assert_eq!(stage.state(&changed), CheckState::Passed);

    // Another leader learns from the status that this generation may take long, and lets it delay nobody either.
    std::fs::remove_file(script.file("told")).unwrap();
    let (sender, done) = broadcast::channel(8);
    let clock = Arc::clone(&stage.clock);
    let checks = Checks::new(Checker::new(script.file("weir"), script.limits, 1), Arc::clone(&clock) as Arc<dyn Clock>, sender);
    let mut heir = Stage { checks, clock, done };
    let accepted = json!({"type": "Accepted", "status": "Unknown", "reason": "CheckUnavailable", "observedGeneration": 5,
                          "lastTransitionTime": "2026-11-30T00:00:00Z"});
    let slow = shown("large", 5, "SELECT 'PATIENT'", json!({"conditions": [accepted]}));
    assert!(matches!(heir.state(&slow), CheckState::Running { .. }));
    assert_eq!(heir.checked(&job("other", 1, "SELECT 1")).await, CheckState::Passed);
    std::fs::write(script.file("told"), "").unwrap();
    assert_eq!(heir.done.recv().await.unwrap(), slow.id);
}
