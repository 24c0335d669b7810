//! Guarded children are seen, frozen, limited and ended.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use weir_testkit::cgroup::Limited;
use weir_testkit::eventually;
use weir_testkit::process::{self, Guarded, is_alive, state_of};
use weir_testkit::wait::GENEROUS;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn lines_are_events_and_the_end_is_one_too() {
    let mut child = Guarded::spawn("echo", shell("read name; echo hello $name; echo oops >&2; exit 3")).unwrap();
    child.write_line("world").unwrap();
    assert_eq!(child.output.wait_for("a greeting", GENEROUS, |line| line.starts_with("hello")).unwrap(), "hello world");
    let early = child.output.wait_for("a farewell", GENEROUS, |line| line == "bye").unwrap_err();
    assert!(early.to_string().contains("ended before"), "{early}");
    let finished = child.finish(GENEROUS).unwrap();
    assert_eq!((finished.status.code(), finished.stdout.as_str(), finished.stderr.as_str()), (Some(3), "hello world\n", "oops\n"));
}

#[test]
fn a_frozen_child_stands_still_until_it_is_thawed() {
    let child = Guarded::spawn("frozen", shell("trap 'echo got it; exit 0' TERM; echo ready; while :; do read line; done")).unwrap();
    child.output.wait_for("ready", GENEROUS, |line| line == "ready").unwrap();
    child.freeze().unwrap();
    assert_eq!(state_of(child.id()), Some('T'));
    child.terminate().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    child.thaw().unwrap();
    assert_eq!(child.wait(GENEROUS).unwrap().code(), Some(0));
}

#[test]
fn dropping_a_child_ends_its_whole_group() {
    let child = Guarded::spawn("parent", shell("sleep 600 & echo $!; wait")).unwrap();
    let grandchild: u32 = child.stdout.wait_for("a process id", GENEROUS, |line| !line.is_empty()).unwrap().parse().unwrap();
    let pid = child.id();
    assert!(is_alive(pid) && is_alive(grandchild));
    drop(child);
    eventually("both to be gone", GENEROUS, || (!is_alive(pid) && !is_alive(grandchild)).then_some(())).unwrap();
}

#[test]
fn children_outlive_the_thread_that_asked_for_them() {
    let child = std::thread::spawn(|| Guarded::spawn("long", shell("echo up; sleep 600")).unwrap()).join().unwrap();
    child.output.wait_for("up", GENEROUS, |line| line == "up").unwrap();
    assert!(is_alive(child.id()), "the thread that asked for the child has ended, the child goes on");
    assert_eq!(child.kill_hard().unwrap().signal(), Some(9));
}

/// Plays two parts: the test, and the test process that gets killed.
#[test]
fn children_die_with_a_killed_test_process() {
    const PART: &str = "WEIR_TESTKIT_KILLED_PART";
    if std::env::var_os(PART).is_some() {
        let child = Guarded::spawn("left-alone", shell("sleep 600")).unwrap();
        eprintln!("child={}", child.id());
        child.wait(GENEROUS).unwrap();
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "children_die_with_a_killed_test_process", "--nocapture"]).env(PART, "yes");
    let process = Guarded::spawn("test-process", command).unwrap();
    let line = process.stderr.wait_for("a process id", GENEROUS, |line| line.starts_with("child=")).unwrap();
    let child: u32 = line["child=".len()..].parse().unwrap();
    assert!(is_alive(child));
    process.kill_hard().unwrap();
    eventually("the child to be gone", GENEROUS, || (!is_alive(child)).then_some(())).unwrap();
}

#[test]
fn a_limit_on_memory_is_the_kernels() {
    let limited = Limited::new(32 << 20).unwrap();
    let mut small = limited.command("sh");
    small.args(["-c", "echo fits"]);
    assert_eq!(process::run("small", small, GENEROUS).unwrap().stdout, "fits\n");
    assert_eq!(limited.killed_for_memory().unwrap(), 0);
    let mut big = limited.command("python3");
    big.args(["-c", "data = bytearray(256 << 20)"]);
    let finished = process::run("big", big, GENEROUS).unwrap();
    assert_eq!(finished.status.signal(), Some(9), "{finished:?}");
    assert_eq!(limited.killed_for_memory().unwrap(), 1);
    assert!(limited.peak_bytes().unwrap() <= 32 << 20);
}
