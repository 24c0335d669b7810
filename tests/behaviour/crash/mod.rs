//! Killed and frozen at every failpoint, and at random moments: afterwards
//! each row is there once.
//!
//! The test is the supervisor here: it starts `weir task` under rising epochs.
//! Each failpoint is met by a process that is killed there, then by one that is
//! frozen there while a successor runs and that is thawed afterwards. Rows are
//! produced all along, so that there is always something to lose. `matrix` has
//! the pairs of sources (`feed`) and sinks (`target`).

mod feed;
mod matrix;
mod target;

use std::process::Command;
use std::time::Duration;

use rand::Rng;
use weir_testkit::process::{Guarded, state_of};
use weir_testkit::wait::eventually;

use self::feed::Feed;
use self::target::Target;
use crate::support::{DEADLINE, Place, weir};

struct Crashing {
    place: Place,
    feed: Feed,
    target: Target,
    epoch: u64,
    produced: u64,
}

impl Crashing {
    fn new(name: &str, feed: Feed, target: Target) -> Self {
        let place = Place::new(name);
        std::fs::create_dir_all(place.path().join("input")).unwrap();
        let manifest = format!(
            r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {{name: crash}}
spec:
  trigger: {{continuous: {{}}}}
  restart: {{initialDelay: 100ms, maxDelay: 1s, minInterval: 100ms}}
  taskRetry: {{maxRetries: 100, initialDelay: 100ms, maxDelay: 1s}}
  tasks:
  - name: bronze
    queries:
    - name: readings
      sources:
      - {source}
      sql: SELECT {columns} FROM {rows}
      sink: {sink}
      trigger: {{processingTime: 100ms}}
      checkpointLocation: checkpoint
"#,
            source = feed.source(),
            columns = target.columns(),
            rows = feed.rows(),
            sink = target.sink(),
        );
        place.write("job.yaml", &manifest);
        Self { place, feed, target, epoch: 0, produced: 0 }
    }

    fn produce(&mut self, count: u64) {
        self.feed.produce(&self.place, self.produced..self.produced + count);
        self.produced += count;
    }

    /// A task under the next epoch, reading what is there now.
    fn task(&mut self, failpoints: &str) -> Guarded {
        self.epoch += 1;
        Guarded::spawn(&format!("task {}", self.epoch), self.command(failpoints)).unwrap()
    }

    fn command(&self, failpoints: &str) -> Command {
        let mut command = weir();
        let epoch = self.epoch.to_string();
        command.current_dir(self.place.path()).env("FAILPOINTS", failpoints);
        command.args(["task", "job.yaml", "--job", "crash", "--task", "bronze", "--job-uid", "uid", "--available-now"]);
        command.args(["--epoch", &epoch, "--termination-log", &self.place.at(&format!("exit-{epoch}.json"))]);
        command
    }

    fn succeed(&mut self) {
        let status = self.task("").wait(DEADLINE).unwrap();
        assert_eq!(status.code(), Some(0), "epoch {}", self.epoch);
    }

    fn judge(&self) {
        self.target.judge(&self.place, self.produced);
    }

    /// Killed, then frozen, at each of the places, with at least `total` rows.
    fn crash_at(&mut self, places: &[&str], total: u64) {
        let share = self.feed.share().max(total / (2 * places.len() as u64 + 1));
        for name in places {
            for crash in [killed, frozen] {
                self.produce(share);
                if only_at_first(name) {
                    self.begin_anew();
                }
                crash(self, name);
            }
        }
        self.produce(total.saturating_sub(self.produced));
        self.succeed();
        self.judge();
    }

    fn begin_anew(&self) {
        for folder in ["checkpoint", "table"] {
            std::fs::remove_dir_all(self.place.path().join(folder)).unwrap_or_default();
        }
    }
}

/// How often a place is passed before it acts: some are passed once a start,
/// others once a batch, and the second passage is the more telling one there.
fn passages(failpoint: &str) -> u32 {
    u32::from(failpoint.starts_with("batch.") || failpoint.starts_with("sink."))
}

/// Places that only a first start passes.
fn only_at_first(failpoint: &str) -> bool {
    failpoint.starts_with("claim.metadata") || failpoint.starts_with("claim.owner")
}

fn killed(crashing: &mut Crashing, name: &str) {
    let action = format!("{name}={}*off->return(kill)", passages(name));
    let status = crashing.task(&action).wait(DEADLINE).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{name} was not passed");
}

fn frozen(crashing: &mut Crashing, name: &str) {
    let action = format!("{name}={}*off->1*return(stop)", passages(name));
    let old = crashing.task(&action);
    let id = old.id();
    eventually(&format!("the task is frozen at {name}"), DEADLINE, || (state_of(id) == Some('T')).then_some(())).unwrap();
    crashing.succeed();
    old.thaw().unwrap();
    let status = old.wait(DEADLINE).unwrap();
    // It finds the higher epoch, or it was past its last write already.
    assert!(matches!(status.code(), Some(0 | 22)), "{name}: {status:?}");
}

#[test]
fn crash_killed_at_random_moments_under_the_runner() {
    let mut crashing = Crashing::new("crash-random", Feed::kafka("crash-random"), Target::Delta);
    let total = 200_000;
    let runner = {
        let mut command = weir();
        command.current_dir(crashing.place.path()).args(["run", "job.yaml", "--progress", "json"]);
        Guarded::spawn("weir run", command).unwrap()
    };
    let mut random = rand::rng();
    for _ in 0..10 {
        crashing.produce(total / 10);
        let task = |place: &Place| place.status("crash").map(|status| status["tasks"][0].clone());
        let pid = eventually("the task runs", DEADLINE, || {
            let row = task(&crashing.place)?;
            let pid = row["pod"].as_str()?.parse::<u32>().ok()?;
            (row["state"] == "Running").then_some(pid)
        });
        // A moment within the life of some batches; nothing waits for it to be over.
        std::thread::sleep(Duration::from_millis(random.random_range(0..400)));
        weir_testkit::process::kill_by_id(pid.unwrap()).unwrap();
    }
    eventually("all is committed", DEADLINE, || {
        let rows = crashing.place.status("crash")?["tasks"][0]["queries"][0]["backlog"]["records"].as_u64()?;
        (rows == 0).then_some(())
    })
    .unwrap();
    runner.interrupt().unwrap();
    assert_eq!(runner.wait(DEADLINE).unwrap().code(), Some(0));
    crashing.succeed_with_the_runners_uid();
    crashing.judge();
}

impl Crashing {
    /// What was produced after the last look at the backlog is read by one more run.
    fn succeed_with_the_runners_uid(&mut self) {
        let mut command = weir();
        command.current_dir(self.place.path()).args(["run", "job.yaml", "--once", "--available-now", "--progress", "json"]);
        crate::support::finish("weir run --once", command).assert_code(0);
    }
}
