//! M7: nobody reads "ready" of a generation that is not in effect. Every version that the recorder sees is judged by kstatus.

use std::time::Duration;

use serde_json::{Value, json};
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb};
use weir_testcluster::invariants::{Kstatus, kstatus};
use weir_testcluster::standin::{Control, Hang};
use weir_testcluster::wait::eventually;

use crate::telling::task;
use crate::world::{PATIENCE, World, condition, job};

/// An edit of the SQL of the only task.
fn sql(text: &str) -> Value {
    let mut edited = job("j", &["t"]);
    edited["spec"]["tasks"][0]["queries"][0]["sql"] = json!(text);
    edited
}

impl World {
    /// The real `kubectl wait` for Ready; whether it succeeded.
    async fn kubectl_waits(&self, name: &str, timeout: &str) -> bool {
        let (resource, timeout) = (format!("streamingjob/{name}"), format!("--timeout={timeout}"));
        let arguments = ["wait", "--namespace", &self.namespace, "--for=condition=Ready", &timeout, &resource];
        self.plane.kubectl(arguments).run().await.unwrap().status.success()
    }

    async fn kstatus(&self, name: &str) -> Kstatus {
        kstatus(&serde_json::to_value(self.job(name).await).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_a_job_applied_while_no_operator_runs_is_in_progress() {
    let world = World::new("m7-down").await;
    world.apply(&job("j", &["t"])).await;
    assert_eq!(world.kstatus("j").await, Kstatus::InProgress);
    assert!(!world.kubectl_waits("j", "1s").await);
    let operator = world.operator().await;
    assert!(world.kubectl_waits("j", "60s").await);
    assert_eq!(world.kstatus("j").await, Kstatus::Current);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_a_wait_after_an_edit_does_not_take_the_word_of_before() {
    let world = World::new("m7-wait").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.kill().await;
    let generation = world.apply(&sql("SELECT 1")).await.metadata.generation;
    assert_eq!(world.kstatus("j").await, Kstatus::InProgress);
    assert!(!world.kubectl_waits("j", "2s").await);
    let (waited, operator) = tokio::join!(world.kubectl_waits("j", "60s"), world.operator());
    assert!(waited);
    let shown = serde_json::to_value(world.job("j").await).unwrap();
    assert_eq!(task(&shown, "t")["generation"].as_i64(), generation, "{shown:#}");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_an_edit_that_disturbs_nothing_is_current_without_a_restart_and_acknowledged() {
    let world = World::new("m7-none").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let pid = world.pid("j", "t");
    let generation = world.edit("j", json!({"spec": {"stopTimeout": "7s"}})).await.metadata.generation;
    let acknowledged = |job: &Value| task(job, "t")["configGeneration"].as_i64() == generation && kstatus(job) == Kstatus::Current;
    let shown = world.until("j", "acknowledged by its task", acknowledged).await;
    assert_eq!(task(&shown, "t")["generation"], 1);
    assert_eq!((world.pid("j", "t"), world.processes("j")), (pid, 1));
    assert!(world.until_event("j", "SpecUpdateApplied").await.contains("disturbs nothing"));
    // A new operator believes the task's own word.
    operator.kill().await;
    let operator = world.operator().await;
    world.until_run_of_passes(&operator).await;
    let shown = serde_json::to_value(world.job("j").await).unwrap();
    assert!(acknowledged(&shown), "{shown:#}");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_a_refused_edit_is_failed_while_the_last_good_generation_goes_on() {
    let world = World::new("m7-refused").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let pid = world.pid("j", "t");
    world.apply(&sql("SELECT 1 -- REFUSE: no such column")).await;
    let shown = world.until_condition("j", "Accepted", "False", "").await;
    assert_eq!(kstatus(&shown), Kstatus::Failed);
    assert!(condition(&shown, "Accepted")["message"].as_str().unwrap().contains("no such column"));
    assert_eq!(condition(&shown, "Running")["status"], "True");
    assert_eq!(world.pid("j", "t"), pid);
    world.until_event("j", "SpecInvalid").await;
    // The last good generation is restarted, too.
    world.kubelet.kill(&world.namespace, "j--t", weir_testcluster::kubelet::Signal::KILL).unwrap();
    let again = |job: &Value| task(job, "t")["attempt"] == 2 && condition(job, "Running")["status"] == "True";
    let shown = world.until("j", "running again", again).await;
    assert_eq!((task(&shown, "t")["generation"].clone(), kstatus(&shown)), (json!(1), Kstatus::Failed));
    world.apply(&sql("SELECT 1")).await;
    let shown = world.until_streaming("j").await;
    assert_eq!(task(&shown, "t")["generation"], 3);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_a_first_generation_that_is_refused_fails_and_starts_nothing() {
    let world = World::new("m7-first").await;
    let operator = world.operator().await;
    world.apply(&sql("SELECT 1 -- REFUSE: no such table")).await;
    let shown = world.until_condition("j", "Stalled", "True", "SpecInvalid").await;
    assert_eq!(kstatus(&shown), Kstatus::Failed);
    assert_eq!(world.processes("j"), 0);
    world.apply(&sql("SELECT 1")).await;
    world.until_streaming("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_a_task_whose_probe_fails_is_never_current() {
    let world = World::new("m7-probe").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control { gets_ready: false, ..Control::default() });
    world.apply(&job("j", &["t"])).await;
    let starting = |job: &Value| task(job, "t")["state"] == "Starting" && world.processes("j") == 1;
    let shown = world.until("j", "starting", starting).await;
    assert_eq!(kstatus(&shown), Kstatus::InProgress);
    world.control("j", "t", &Control::default());
    world.until_streaming("j").await;
    world.control("j", "t", &Control { hang: Hang::Everything, ..Control::default() });
    let shown = world.until("j", "not ready", |job| condition(job, "Ready")["status"] == "False").await;
    assert_eq!(kstatus(&shown), Kstatus::InProgress);
    world.kubelet.kill(&world.namespace, "j--t", weir_testcluster::kubelet::Signal::KILL).unwrap();
    world.control("j", "t", &Control::default());
    world.until_streaming("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_a_status_write_that_fails_after_the_pod_was_replaced_is_made_up_for() {
    let world = World::new("m7-write").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::default().for_epoch(2, Control { gets_ready: false, ..Control::default() }));
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    world.apply(&sql("SELECT 2")).await;
    world.kubelet.wait_for_epoch_above(&world.namespace, "j", "t", 1).await.unwrap();
    let writes = Matcher::any().verb(Verb::Update).resource("streamingjobs/status").name("j");
    let rule = operator.faults.add(writes, Times::Always, Effect::Answer(Refusal::code(500)));
    world.control("j", "t", &Control::default());
    let failed = || async {
        anyhow::ensure!(operator.faults.hits(rule).len() >= 2, "too few");
        Ok(())
    };
    eventually("failed writes of the status", PATIENCE, failed).await.unwrap();
    assert_eq!(world.kstatus("j").await, Kstatus::InProgress);
    operator.faults.remove(rule);
    world.until_streaming("j").await;
    assert_eq!(world.processes("j"), 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

/// The cells of a table by the names of their columns.
fn cells(table: &str) -> Vec<(String, String)> {
    let (heads, row) = (table.lines().next().unwrap(), table.lines().nth(1).unwrap());
    let is_start = |at: &usize| !heads[*at..].starts_with(' ') && (*at == 0 || heads[..*at].ends_with("   "));
    let starts: Vec<usize> = (0..heads.len()).filter(is_start).collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let cell = |line: &str, from: usize, to: usize| line.get(from..to.min(line.len())).unwrap_or_default().trim().to_owned();
    starts.iter().zip(ends).map(|(from, to)| (cell(heads, *from, to), cell(row, *from, to))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_the_columns_and_the_events() {
    let world = World::new("columns").await;
    let operator = world.operator().await;
    let backlog = weir_testcluster::standin::BacklogFigures { records: Some(42), ..Default::default() };
    world.control("j", "t", &Control { backlog, ..Control::default() });
    world.apply(&job("j", &["t"])).await;
    let lagging = |job: &Value| job["status"]["summary"]["lag"] == 42 && job["status"]["summary"]["lastCommitTime"].is_string();
    world.until("j", "committing with a lag", lagging).await;
    let get = |wide: &str| world.plane.kubectl(["get", "sjob", "j", "--namespace", &world.namespace, "-o", wide]).stdout();
    let shown = |table: &str| {
        let is_age = |name: &str| name == "AGE" || name == "LAST-COMMIT";
        let text = |(name, value): (String, String)| {
            let is_duration =
                value.ends_with('s') && value.trim_end_matches(['s', 'm']).chars().all(|digit| digit.is_ascii_digit() || digit == 'm');
            format!("{name}: {}", if is_age(&name) && is_duration { "an age".to_owned() } else { value })
        };
        cells(table).into_iter().map(text).collect::<Vec<_>>().join("\n")
    };
    let narrow = world.plane.kubectl(["get", "sjob", "--namespace", &world.namespace]).stdout().await.unwrap();
    insta::assert_snapshot!(shown(&narrow), @r"
    NAME: j
    READY: True
    STATUS: Streaming
    RUN: 1
    TASKS: 1/1
    FAILURES: 0
    NEXT-RESTART: 
    LAST-COMMIT: an age
    AGE: an age
    ");
    insta::assert_snapshot!(shown(&get("wide").await.unwrap()), @r"
    NAME: j
    READY: True
    STATUS: Streaming
    RUN: 1
    TASKS: 1/1
    FAILURES: 0
    NEXT-RESTART: 
    LAST-COMMIT: an age
    AGE: an age
    LAG: 42
    EPOCH: 1
    MESSAGE: run 1 is streaming
    ");
    world.until_event("j", "RunReady").await;
    let told = world.plane.kubectl(["describe", "sjob", "j", "--namespace", &world.namespace]).stdout().await.unwrap();
    assert!(told.contains("RunStarted") && told.contains("run 1 is streaming"), "{told}");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_when_a_job_that_backs_off_goes_on() {
    let world = World::new("columns-off").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::fails(weir_crds::exit::ExitClass::Retryable));
    world.apply(&crate::telling::fragile("j", json!({"initialDelay": "5m", "maxDelay": "5m"}))).await;
    let job = world.until_failed("j", 1).await;
    let table = world.plane.kubectl(["get", "sjob", "--namespace", &world.namespace]).stdout().await.unwrap();
    let cells = cells(&table);
    let cell = |name: &str| cells.iter().find(|(head, _)| head == name).unwrap().1.clone();
    assert_eq!(
        (cell("READY"), cell("STATUS"), cell("TASKS"), cell("FAILURES")),
        ("False".into(), "BackingOff".into(), "0/1".into(), "1".into())
    );
    assert_eq!(cell("NEXT-RESTART"), job["status"]["nextRestartTime"]);
    operator.stop().await;
    world.clock.advance(Duration::from_millis(1));
    world.check(&[("j", "t")]);
}
