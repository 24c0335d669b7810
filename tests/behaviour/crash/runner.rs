//! Tasks under the runner, killed at moments that nobody chose.

use std::time::Duration;

use rand::Rng;
use weir_testkit::process::Guarded;
use weir_testkit::wait::eventually;

use super::Crashing;
use super::feed::Feed;
use super::home::Home;
use super::target::{Sink, Target};
use crate::support::{DEADLINE, Place, finish, weir};

#[test]
fn crash_killed_at_random_moments_under_the_runner() {
    let mut crashing = {
        let feed = Feed::kafka("crash-random", 2000);
        let target = Target::new(Sink::Delta, "crash-random", feed.apart());
        Crashing::between(Place::new("crash-random"), Home::Disk, feed, target, "make crash ONLY=crash_killed_at_random".to_owned())
    };
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
        finish("weir run --once", command).assert_code(0);
    }
}
