//! Killed and frozen at every failpoint, and at random moments: afterwards
//! each row is there once.
//!
//! The test is the supervisor here: it starts `weir task` under rising epochs.
//! A process is killed, or it is frozen while a successor runs and thawed
//! afterwards. Rows are produced all along, so that there is always something to
//! lose; after each crash the checkpoint is verified. `plan` says what is done
//! to the pairs (`matrix`) of sources (`feed`) and sinks (`target`), on the disk
//! and in a store that fails (`home`).

mod feed;
pub mod home;
mod matrix;
mod plan;
mod runner;
mod target;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use weir_testkit::process::{Guarded, state_of};
use weir_testkit::wait::eventually;

use self::feed::Feed;
use self::home::Home;
use self::plan::{Crash, Moment, Pair, Way, only_at_first, passages};
use self::target::Target;
use crate::support::{DEADLINE, Place, finish, weir};

/// Crashes after which the rows are looked at.
const JUDGED_AFTER: usize = 20;
/// Runs one after the other that a failing store may spoil.
const SPOILT: usize = 10;

struct Crashing {
    place: Place,
    home: Home,
    feed: Feed,
    target: Target,
    epoch: u64,
    produced: u64,
    /// Rows that are produced before each crash.
    share: u64,
    /// What an undisturbed run takes.
    usual: Duration,
    /// The command that does the same again.
    repeat: String,
}

impl Crashing {
    fn new(name: &str, pair: Pair, home: Home, crashes: usize, repeat: String) -> Self {
        let place = Place::new(name);
        let feed = Feed::new(pair.source, name, &place, crashes as u64 + 1);
        let target = Target::new(pair.sink, name, feed.apart());
        Self::between(place, home, feed, target, repeat)
    }

    fn between(place: Place, home: Home, feed: Feed, target: Target, repeat: String) -> Self {
        std::fs::create_dir_all(place.path().join("input")).unwrap();
        let share = feed.share();
        let crashing = Self { place, home, feed, target, epoch: 0, produced: 0, share, usual: Duration::from_millis(300), repeat };
        crashing.write_manifest();
        crashing
    }

    fn write_manifest(&self) {
        let manifest = format!(
            r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {{name: crash}}
spec:
  trigger: {{continuous: {{}}}}
  restart: {{initialDelay: 100ms, maxDelay: 1s, minInterval: 100ms}}
  taskRetry: {{maxRetries: 100, initialDelay: 100ms, maxDelay: 1s}}
  conf: {{spark.sql.streaming.minBatchesToRetain: "2", weir.checkpoint.fsync: "false"}}
  tasks:
  - name: bronze
    queries:
    - name: readings
      sources:
      - {source}
      sql: SELECT {columns} FROM {rows}
      sink: {sink}
      trigger: {{processingTime: 100ms}}
      checkpointLocation: {checkpoint}
"#,
            checkpoint = self.home.location("checkpoint"),
            source = self.feed.source(),
            columns = self.target.columns(),
            rows = self.feed.rows(),
            sink = self.target.sink(&self.home.location("table")),
        );
        self.place.write("job.yaml", &manifest);
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
        command.current_dir(self.place.path()).env("FAILPOINTS", failpoints).envs(self.home.of_tasks());
        command.args(["task", "job.yaml", "--job", "crash", "--task", "bronze", "--job-uid", "uid", "--available-now"]);
        command.args(["--epoch", &epoch, "--termination-log", &self.place.at(&format!("exit-{epoch}.json"))]);
        command
    }

    fn succeed(&mut self) {
        for _ in 0..SPOILT {
            let begun = Instant::now();
            let status = self.task("").wait(DEADLINE).unwrap();
            self.verify();
            if !self.is_spoilt(status) {
                assert_eq!(status.code(), Some(0), "epoch {}", self.epoch);
                self.usual = begun.elapsed();
                return;
            }
        }
        panic!("{SPOILT} runs, and each was tried in vain; the last was epoch {}", self.epoch);
    }

    /// Whether the store failed so often that the task has to be tried again.
    fn is_spoilt(&self, status: ExitStatus) -> bool {
        self.home.fails() && status.code() == Some(10)
    }

    /// The checkpoint is whole, whatever was cut off.
    fn verify(&self) {
        let checkpoint = self.home.seen(&self.place, "checkpoint");
        if !checkpoint.join("metadata").exists() {
            assert!(!checkpoint.join("offsets").exists() && !checkpoint.join("_weir").exists(), "the checkpoint lost its metadata");
            return;
        }
        let mut command = weir();
        command.current_dir(self.place.path()).envs(self.home.of_judges());
        command.args(["checkpoint", "verify", &self.home.location("checkpoint")]);
        finish("weir checkpoint verify", command).assert_code(0);
    }

    fn judge(&self) {
        self.target.judge(&self.place, &self.home, self.produced);
    }

    fn run(mut self, crashes: &[Crash]) {
        for (at, crash) in crashes.iter().enumerate() {
            self.produce(self.share);
            if matches!(crash.moment, Moment::At(name) if only_at_first(name)) {
                self.begin_anew();
            }
            println!("crash {} of {}: {crash:?}", at + 1, crashes.len());
            match crash.way {
                Way::Killed => self.killed(crash.moment),
                Way::Frozen => self.frozen(crash.moment),
            }
            if (at + 1) % JUDGED_AFTER == 0 {
                self.succeed();
                self.judge();
            }
        }
        self.produce(self.share);
        self.succeed();
        self.judge();
        self.home.check_faults();
    }

    /// Leaves what was read so far to be read again, after a look at it.
    fn begin_anew(&mut self) {
        if self.epoch == 0 {
            return;
        }
        self.succeed();
        self.judge();
        self.home.begin_anew(&self.place);
        self.target.begin_anew();
        self.write_manifest();
    }

    fn killed(&mut self, moment: Moment) {
        let task = self.task(&moment.failpoints("kill"));
        if let Moment::Whenever(thousandths) = moment {
            self.wait_for_no_event(thousandths);
            task.signal(rustix::process::Signal::KILL).unwrap();
        }
        let status = task.wait(DEADLINE).unwrap();
        let is_over = matches!(moment, Moment::Whenever(_)) && status.code() == Some(0);
        assert!(status.signal() == Some(9) || is_over || self.is_spoilt(status), "{moment:?} was not passed: {status}");
        self.verify();
    }

    fn frozen(&mut self, moment: Moment) {
        let old = self.task(&moment.failpoints("stop"));
        let id = old.id();
        match moment {
            Moment::At(name) => {
                let stands = || matches!(state_of(id), Some('T' | 'Z')).then_some(());
                eventually(&format!("the task is frozen at {name}"), DEADLINE, stands).unwrap();
                if let Some(status) = old.try_wait().unwrap() {
                    assert!(self.is_spoilt(status), "{name} was not passed: {status}");
                }
            }
            Moment::Whenever(thousandths) => {
                self.wait_for_no_event(thousandths);
                old.freeze().unwrap();
            }
        }
        self.succeed();
        // One that has ended is not there to be thawed.
        old.thaw().unwrap_or_default();
        let status = old.wait(DEADLINE).unwrap();
        // It finds the higher epoch, or it was past its last write already.
        assert!(matches!(status.code(), Some(0 | 22)) || self.is_spoilt(status), "{moment:?}: {status}");
        self.verify();
    }

    /// A moment that no event marks is what is wanted here; nothing rests on where it lies.
    fn wait_for_no_event(&self, thousandths: u32) {
        std::thread::sleep(self.usual * thousandths / 1000);
    }
}

impl Moment {
    /// The setting under which a task does this to itself.
    fn failpoints(self, action: &str) -> String {
        match self {
            Self::At(name) => format!("{name}={}*off->1*return({action})", passages(name)),
            Self::Whenever(_) => String::new(),
        }
    }
}

impl Drop for Crashing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat it: {}", self.repeat);
        }
    }
}
