//! The closing line of `make test` is the truth about the run: `scripts/sum-tests.sh` on outputs of all kinds.

use std::io::Write;
use std::process::{Command, Stdio};

const PASSED: &str = "test result: ok. 6 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.04s\n";
const FAILED: &str = "test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.04s\n";

fn sum(output: &str, status: &str) -> (String, Option<i32>) {
    let script = xtask::repository().join("scripts/sum-tests.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg(status).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("bash starts");
    child.stdin.take().expect("standard input is piped").write_all(output.as_bytes()).expect("the script reads its input");
    let done = child.wait_with_output().expect("the script ends");
    (String::from_utf8_lossy(&done.stdout).into_owned(), done.status.code())
}

#[test]
fn results_of_all_binaries_are_added() {
    assert_eq!(sum(&[PASSED, "noise\n", PASSED].concat(), "0"), ("12 passed, 0 failed\n".into(), Some(0)));
}

#[test]
fn failures_are_counted_and_the_status_kept() {
    assert_eq!(sum(&[PASSED, FAILED].concat(), "101"), ("7 passed, 2 failed, 1 skipped\n".into(), Some(101)));
}

#[test]
fn a_run_that_did_not_compile_has_failed() {
    assert_eq!(sum("error: could not compile\n", "101"), ("0 passed, 1 failed\n".into(), Some(101)));
}

#[test]
fn a_crashed_test_binary_is_a_failure_beside_what_passed() {
    assert_eq!(sum(PASSED, "101"), ("6 passed, 1 failed\n".into(), Some(101)));
}

#[test]
fn a_run_without_tests_has_failed() {
    assert_eq!(sum("", "0"), ("0 passed, 1 failed\n".into(), Some(101)));
}
