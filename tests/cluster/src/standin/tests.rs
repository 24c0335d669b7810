//! The stand-in as a process: claims, commits, fences and ends as its control file says.
//!
//! What a store must look like afterwards is judged by `Store::verify`.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use weir_crds::exit::{ExitClass, ExitReport};
use weir_testkit::process::Guarded;
use weir_testkit::wait::GENEROUS;
use weir_testkit::{eventually, ports, scratch};

use super::store::{Commit, verify_commits};
use super::*;

const MANIFEST: &str =
    r#"{"kind": "StreamingJob", "metadata": {"name": "j"}, "spec": {"tasks": [{"name": "t", "queries": [{"name": "q"}]}]}}"#;

struct Standin {
    process: Guarded,
    address: SocketAddr,
    report: std::path::PathBuf,
}

fn start(root: &Path, epoch: u64) -> Standin {
    let manifest = root.join("job.json");
    std::fs::write(&manifest, MANIFEST).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], ports::reserve().unwrap()));
    let report = root.join(format!("report-{epoch}"));
    let mut command = Command::new(binary());
    command.env(STORE_VARIABLE, root).env("WEIR_TASK_TOKEN", "secret").arg("task");
    command.args(["--job", "j", "--namespace", "n", "--task", "t", "--job-uid", "u", "--unknown", "x"]);
    command.args([format!("--epoch={epoch}"), format!("--listen={address}")]);
    command.arg("--termination-log").arg(&report).arg(&manifest);
    Standin { process: Guarded::spawn("standin", command).unwrap(), address, report }
}

impl Standin {
    fn exit(&self) -> (i32, ExitReport) {
        let code = self.process.wait(GENEROUS).unwrap().code().unwrap();
        (code, serde_json::from_slice(&std::fs::read(&self.report).unwrap()).unwrap())
    }

    fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn wait_for_commits(store: &Store, count: usize) {
    eventually("commits", GENEROUS, || (store.commits().ok()?.len() >= count).then_some(())).unwrap();
}

#[test]
fn commits_until_it_is_stopped() {
    let root = scratch::folder("standin").unwrap();
    let store = Store::of_task(root.path(), "n", "j", "t");
    let standin = start(root.path(), 3);
    wait_for_commits(&store, 3);
    standin.process.terminate().unwrap();
    let (code, report) = standin.exit();
    assert_eq!((code, report.class, report.epoch), (0, ExitClass::Stopped, 3));
    assert_eq!(report.batch, store.commits().unwrap().last().map(|commit| commit.batch));
    assert_eq!((store.epochs().unwrap(), store.verify()), (vec![3], Vec::<String>::new()));
}

#[test]
fn a_higher_epoch_fences_a_lower_one_and_each_batch_stays_single() {
    let root = scratch::folder("standin").unwrap();
    let store = Store::of_task(root.path(), "n", "j", "t");
    let old = start(root.path(), 1);
    wait_for_commits(&store, 2);
    let new = start(root.path(), 2);
    let (code, report) = old.exit();
    assert_eq!((code, report.class, report.highest_epoch_seen), (22, ExitClass::Fenced, Some(2)));
    let late = start(root.path(), 1);
    assert_eq!(late.exit().1.highest_epoch_seen, Some(2));
    wait_for_commits(&store, store.commits().unwrap().len() + 2);
    drop(new);
    assert_eq!(store.verify(), Vec::<String>::new());
    assert_eq!(store.commits().unwrap().last().unwrap().epoch, 2);
}

#[test]
fn ends_as_it_is_told() {
    let root = scratch::folder("standin").unwrap();
    let store = Store::of_task(root.path(), "n", "j", "t");
    let silent = Control::ends(1, Ending::Silent { exit_code: 0 });
    let panics = Control::ends(0, Ending::Panic);
    let control =
        Control::ends(2, Ending::Complete).for_epoch(2, Control::fails(ExitClass::Config)).for_epoch(3, silent).for_epoch(4, panics);
    store.control(&control).unwrap();
    let (code, report) = start(root.path(), 1).exit();
    assert_eq!((code, report.class, report.batch), (0, ExitClass::Completed, Some(1)));
    let (code, report) = start(root.path(), 2).exit();
    assert_eq!((code, report.reason.as_str()), (20, "AskedByTest"));
    let third = start(root.path(), 3);
    assert_eq!(third.process.wait(GENEROUS).unwrap().code(), Some(0));
    assert!(!third.report.exists());
    assert_eq!(start(root.path(), 4).process.wait(GENEROUS).unwrap().code(), Some(101));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_as_the_engine_does() {
    let root = scratch::folder("standin").unwrap();
    let store = Store::of_task(root.path(), "n", "j", "t");
    store
        .control(&Control { gets_ready: false, backlog: BacklogFigures { records: Some(7), ..Default::default() }, ..Control::default() })
        .unwrap();
    let standin = start(root.path(), 5);
    wait_for_commits(&store, 2);
    assert_eq!(reqwest::get(standin.address("/readyz")).await.unwrap().status(), 503);
    store.control(&Control { backlog: BacklogFigures { records: Some(7), ..Default::default() }, ..Control::default() }).unwrap();
    wait_for_commits(&store, store.commits().unwrap().len() + 2);
    assert_eq!(reqwest::get(standin.address("/readyz")).await.unwrap().status(), 200);

    let client = reqwest::Client::new();
    let put = |token: &str| client.put(standin.address("/v1/config")).bearer_auth(token).json(&serde_json::json!({"generation": 9}));
    assert_eq!(put("wrong").send().await.unwrap().status(), 401);
    assert_eq!(put("secret").send().await.unwrap().status(), 204);
    let shown: serde_json::Value = reqwest::get(standin.address("/v1/queries")).await.unwrap().json().await.unwrap();
    assert_eq!((shown["epoch"].as_u64(), shown["generation"].as_i64()), (Some(5), Some(9)));
    let query = &shown["queries"][0];
    assert_eq!((query["name"].as_str(), query["backlog"]["records"].as_u64()), (Some("q"), Some(7)));
    assert!(query["recentBatches"][0]["processedRowsPerSecond"].is_number() && query["id"].is_string(), "{query}");
}

#[test]
fn check_refuses_what_says_so() {
    let found = check::refusals("f", "{\n  \"sql\": \"SELECT 1 -- REFUSE: no such column\"\n}");
    assert_eq!((found.len(), found[0].line, found[0].finding.message.as_str()), (1, 2, "no such column"));
    assert_eq!(check::refusals("f", r#""-- REFUSE: a\nSELECT""#)[0].finding.message, "a");
    assert!(check::refusals("f", "SELECT 1").is_empty());

    let root = scratch::folder("standin").unwrap();
    let file = root.path().join("m.yaml");
    std::fs::write(&file, "# REFUSE: as asked").unwrap();
    let output = Command::new(binary()).args(["check", "--output", "json"]).arg(&file).output().unwrap();
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), printed[0]["message"].as_str()), (Some(20), Some("as asked")));
}

proptest! {
    #[test]
    fn commits_are_right_when_contiguous_and_sorted_by_epoch(epochs in proptest::collection::vec(1u64..4, 0..8)) {
        let commits: Vec<Commit> = epochs.iter().enumerate()
            .map(|(batch, epoch)| Commit { batch: batch as u64, epoch: *epoch, instance: uuid::Uuid::nil(), at_ms: 0 })
            .collect();
        prop_assert_eq!(verify_commits(&commits).is_empty(), epochs.is_sorted());
        if commits.len() > 1 {
            prop_assert!(!verify_commits(&commits[1..]).is_empty());
        }
    }
}
