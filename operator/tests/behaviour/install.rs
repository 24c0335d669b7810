//! A plain installation by kubectl, and the real binary with exactly the rights that it was given.
//!
//! Each test has a control plane of its own, whose audit log tells every call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;

use futures::TryStreamExt;
use k8s_openapi::api::events::v1::Event;
use kube::api::DynamicObject;
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use weir_crds::exit::ExitClass;
use weir_operator::rbac::{API_CALLS, ApiCall, Condition, Reach};
use weir_testcluster::control_plane::{Audit, AuditEvent, Options};
use weir_testcluster::invariants::job_resource;
use weir_testcluster::kubelet::{self, Kubelet, Program};
use weir_testcluster::operator_process::{OperatorProcess, printed, sample};
use weir_testcluster::standin::{self, Control, STORE_VARIABLE, Store};
use weir_testcluster::{ControlPlane, User};
use weir_testkit::scratch;

use crate::world::{IMAGE, PATIENCE, condition, is_observed, job};

const NAMESPACE: &str = "lake";
const ACCOUNT: &str = "system:serviceaccount:weir-system:weir-operator";

/// A cluster of one test, with a namespace for jobs that enforces the restricted rules.
struct Site {
    plane: ControlPlane,
    client: Client,
    kubelet: Kubelet,
    stores: TempDir,
}

impl Site {
    async fn new() -> Site {
        // Owner references that block a deletion are checked here, as some distributions do.
        let plugins = "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement";
        let options = Options { audit: Audit::AllRequests, api_server_flags: vec![plugins.to_owned()], ..Options::default() };
        let plane = ControlPlane::start(options).await.unwrap();
        let client = plane.client(User::Admin).await.unwrap();
        plane.namespace(NAMESPACE).await.unwrap();
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        plane.kubectl(["label", "namespace", NAMESPACE, restricted]).stdout().await.unwrap();
        let stores = scratch::folder("stores").unwrap();
        let engine = Program::image(IMAGE, standin::binary()).env(STORE_VARIABLE, stores.path().display().to_string());
        let kubelet = Kubelet::start(client.clone(), kubelet::Options::new([engine]).namespace(NAMESPACE)).await.unwrap();
        Site { plane, client, kubelet, stores }
    }

    /// Applies the output of `weir-operator manifests`, as its help says.
    async fn apply(&self, text: &str) -> String {
        self.plane.kubectl(["apply", "--server-side", "-f", "-"]).input(text).stdout().await.unwrap()
    }

    /// Starts the binary with the rights of the installed account.
    async fn operator(&self, kubeconfig: &Path, more: &[&str]) -> OperatorProcess {
        let checker = standin::binary().display().to_string();
        let arguments = ["--image", IMAGE, "--checker", &checker, "--instance", "weir-operator-0", "--poll-interval", "300ms"];
        OperatorProcess::start(binary(), kubeconfig, &[&arguments, more].concat()).await.unwrap()
    }

    fn store(&self) -> Store {
        Store::of_task(self.stores.path(), NAMESPACE, "sensors", "bronze")
    }

    async fn account(&self) -> PathBuf {
        self.plane.service_account_kubeconfig("weir-system", "weir-operator").await.unwrap()
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        self.plane.kubectl(["-n", NAMESPACE].iter().chain(arguments)).stdout().await.unwrap()
    }

    async fn apply_job(&self, job: &Value) {
        self.plane.kubectl(["-n", NAMESPACE, "apply", "-f", "-"]).input(job.to_string()).stdout().await.unwrap();
    }

    /// Watches until the job is as asked, its newest generation being spoken of.
    async fn until(&self, what: &str, ask: impl Fn(&Value) -> bool) -> Value {
        let jobs: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &job_resource());
        let value = |job: Option<&DynamicObject>| job.map(|job| serde_json::to_value(job).unwrap()).unwrap_or_default();
        let is_so = |job: Option<&DynamicObject>| {
            let found = value(job);
            (found.is_null() || is_observed(&found)) && ask(&found)
        };
        match timeout(PATIENCE, await_condition(jobs.clone(), "sensors", is_so)).await {
            Ok(found) => value(found.unwrap().as_ref()),
            Err(_) => {
                let found = value(jobs.get_opt("sensors").await.unwrap().as_ref());
                panic!("sensors is not {what}: {found:#}\n{:#?}", self.kubelet.records())
            }
        }
    }

    /// Watches until the job was told of by all these events, and the last of them more than once.
    async fn until_told(&self, reasons: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut events = pin!(watcher(events, watcher::Config::default()).default_backoff().applied_objects());
        let mut missing: BTreeSet<&str> = reasons.iter().copied().collect();
        let told = async {
            while let Some(event) = events.try_next().await.unwrap() {
                let of_job = event.regarding.as_ref().is_some_and(|object| object.name.as_deref() == Some("sensors"));
                let reason = event.reason.as_deref().unwrap_or_default();
                let is_counted = event.series.as_ref().is_some_and(|series| series.count >= 2);
                if of_job && (Some(&reason) != reasons.last() || is_counted) {
                    missing.remove(reason);
                }
                if missing.is_empty() {
                    return;
                }
            }
        };
        assert!(timeout(PATIENCE, told).await.is_ok(), "nobody told of {missing:?}");
    }

    async fn until_streaming_above(&self, epoch: i64) -> Value {
        let what = format!("streaming above epoch {epoch}");
        let streams = |job: &Value| condition(job, "Ready")["reason"] == "Streaming" && job["status"]["epoch"].as_i64() > Some(epoch);
        self.until(&what, streams).await
    }

    async fn suspend(&self, suspend: bool) {
        let patch = json!({"spec": {"suspend": suspend}}).to_string();
        self.kubectl(&["patch", "sjob", "sensors", "--type=merge", "-p", &patch]).await;
    }
}

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_weir-operator"))
}

/// Every object of an installation with its version.
async fn versions(plane: &ControlPlane, text: &str) -> BTreeSet<String> {
    let stored = plane.kubectl(["get", "-f", "-", "-o", "json"]).input(text).stdout().await.unwrap();
    let list: Value = serde_json::from_str(&stored).unwrap();
    let version = |object: &Value| format!("{} {} {}", object["kind"], object["metadata"]["name"], object["metadata"]["resourceVersion"]);
    list["items"].as_array().unwrap().iter().map(version).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_by_kubectl_has_exactly_the_rights_that_it_uses() {
    let site = Site::new().await;
    let manifests = printed(binary(), &["manifests", "--image", IMAGE]).await.unwrap();
    site.apply(&manifests).await;
    site.plane.kubectl(["wait", "--for=condition=Established", "crd/streamingjobs.weir.dev"]).stdout().await.unwrap();
    let first = versions(&site.plane, &manifests).await;
    assert!(first.len() >= 9, "{first:?}");
    site.apply(&manifests).await;
    assert_eq!(versions(&site.plane, &manifests).await, first, "the second time changes nothing");
    the_parts_are_printed_too(&manifests).await;
    the_restricted_rules_admit_the_operator(&site, &manifests).await;

    let mark = site.plane.audit_mark().unwrap();
    let account = site.account().await;
    site.plane.freeze().unwrap();
    let operator = site.operator(&account, &[]).await;
    assert_eq!(operator.get("/livez").await.unwrap().0, 200);
    let (code, why) = operator.get("/readyz").await.unwrap();
    assert_eq!((code, why.as_str()), (503, "the election has not begun\n"));
    site.plane.thaw().unwrap();
    operator.until_ready().await.unwrap();

    a_life(&site).await;
    the_figures_are_there(&operator).await;
    site.kubectl(&["delete", "sjob", "sensors"]).await;
    site.until("gone", Value::is_null).await;
    assert!(site.kubelet.running(NAMESPACE, "sensors").is_empty());
    log_lines_name_what_they_are_about(&operator.log());
    assert!(operator.stop().await.unwrap().success());

    let calls = calls_since(&site, mark).await;
    assert_eq!(refused(&calls), BTreeSet::new());
    assert_eq!(unused(&calls, &[Condition::Always], &[Reach::Cluster, Reach::JobNamespaces, Reach::OwnNamespace]), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_for_namespaces_gets_by_with_roles() {
    let site = Site::new().await;
    let scope = ["--namespaces", NAMESPACE, "--watch-secrets"];
    let manifests = printed(binary(), &[&["manifests", "--image", IMAGE], &scope[..]].concat()).await.unwrap();
    assert!(!manifests.contains("kind: ClusterRole"));
    site.apply(&manifests).await;
    site.plane.kubectl(["wait", "--for=condition=Established", "crd/streamingjobs.weir.dev"]).stdout().await.unwrap();
    site.kubectl(&["create", "secret", "generic", "speed", "--from-literal=rowsPerSecond=1"]).await;
    let mark = site.plane.audit_mark().unwrap();
    let operator = site.operator(&site.account().await, &scope).await;
    operator.until_ready().await.unwrap();
    site.store().control(&slow_to_stop()).unwrap();
    let mut job = job("sensors", &["bronze"]);
    job["spec"]["tasks"][0]["queries"][0]["sources"][0]["optionsFrom"] = json!([{"secretRef": {"name": "speed"}, "onChange": "Restart"}]);
    site.apply_job(&job).await;
    site.until_streaming_above(0).await;
    let patch = json!({"stringData": {"rowsPerSecond": "2"}}).to_string();
    site.kubectl(&["patch", "secret", "speed", "-p", &patch]).await;
    site.until_streaming_above(1).await;
    site.kubectl(&["delete", "sjob", "sensors"]).await;
    site.until("gone", Value::is_null).await;
    assert!(operator.stop().await.unwrap().success());
    let calls = calls_since(&site, mark).await;
    // Nothing cluster-wide is granted; the operator goes on without.
    let expected = ["get customresourcedefinitions", "get nodes"].map(str::to_owned);
    assert_eq!(refused(&calls), BTreeSet::from(expected));
    let secrets: Vec<&ApiCall> = API_CALLS.iter().filter(|call| call.condition == Condition::WatchesSecrets).collect();
    assert!(secrets.iter().all(|call| is_used(call, "get", &calls)), "the Secret of a job is read");
}

async fn the_parts_are_printed_too(manifests: &str) {
    let crd = printed(binary(), &["crd"]).await.unwrap();
    assert_eq!(crd, weir_crds::resource::crd_yaml());
    let rights = printed(binary(), &["rbac"]).await.unwrap();
    assert!(rights.contains("kind: ClusterRole\n") && rights.split("---\n").all(|document| manifests.contains(document)));
}

/// The Deployment's pods are admitted where the restricted rules are enforced, and these are: another pod is not.
async fn the_restricted_rules_admit_the_operator(site: &Site, manifests: &str) {
    let deployment = manifests.split("---\n").find(|document| document.contains("kind: Deployment\n")).unwrap();
    let deployment: Value = serde_yaml_ng::from_str(deployment).unwrap();
    let template = &deployment["spec"]["template"];
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["name"] = json!("operator-by-hand");
    let try_out = |pod: &Value| {
        let dry_run = ["-n", "weir-system", "create", "--dry-run=server", "-f", "-"];
        site.plane.kubectl(dry_run).input(pod.to_string()).run()
    };
    let admitted = try_out(&pod).await.unwrap();
    assert!(admitted.status.success() && admitted.stderr.is_empty(), "{}", admitted.stderr);
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let refused = try_out(&pod).await.unwrap();
    assert!(refused.stderr.contains("violates PodSecurity"), "{}", refused.stderr);
}

/// Long enough between the order to stop and the end that the operator looks at the node meanwhile.
fn slow_to_stop() -> Control {
    Control { stop_takes_ms: 700, ..Control::default() }
}

/// Start, failure, retry, edit, suspend, resume: every way in which the operator changes something.
async fn a_life(site: &Site) {
    site.store().control(&slow_to_stop().for_epoch(1, Control::fails(ExitClass::Retryable))).unwrap();
    let mut job = job("sensors", &["bronze"]);
    site.apply_job(&job).await;
    site.kubectl(&["wait", "--for=condition=Ready", "--timeout=90s", "sjob/sensors"]).await;
    let shown = site.until_streaming_above(1).await;
    job["spec"]["tasks"][0]["queries"][0]["sql"] = json!("SELECT value FROM s");
    site.apply_job(&job).await;
    site.until_streaming_above(shown["status"]["epoch"].as_i64().unwrap()).await;
    // Twice, so that the second event of a kind is added to the first.
    for _ in 0..2 {
        site.suspend(true).await;
        let shown = site.until("suspended", |job| condition(job, "Ready")["reason"] == "Suspended").await;
        site.suspend(false).await;
        site.until_streaming_above(shown["status"]["epoch"].as_i64().unwrap()).await;
    }
    let columns = site.kubectl(&["get", "sjob", "sensors"]).await;
    assert!(columns.contains("NEXT-RESTART") && columns.contains("Streaming") && columns.contains("1/1"), "{columns}");
    site.until_told(&["RunStarted", "RunReady", "TaskRetrying", "SpecUpdateApplied", "Resumed", "RunStopped", "Suspended"]).await;
    let listed = site.kubectl(&["get", "events.events.k8s.io"]).await;
    assert!(listed.contains("Suspended") && listed.contains("sensors"), "{listed}");
}

async fn the_figures_are_there(operator: &OperatorProcess) {
    let (code, text) = operator.get("/metrics").await.unwrap();
    assert_eq!(code, 200);
    for family in [
        "condition",
        "info",
        "restarts_total",
        "consecutive_failures",
        "epoch",
        "last_commit_timestamp_seconds",
        "next_restart_timestamp_seconds",
        "generation_lag",
        "run_start_seconds",
        "gap_between_runs_seconds",
    ] {
        assert!(text.contains(&format!("# TYPE weir_streamingjob_{family} ")), "{family}");
    }
    for family in [
        "weir_reconcile_total",
        "weir_reconcile_seconds",
        "weir_watch_errors_total",
        "weir_watch_last_event_timestamp_seconds",
        "weir_leader",
        "weir_create_conflicts_total",
        "weir_status_writes_total",
        "weir_events_dropped_total",
        "weir_events_failed_total",
    ] {
        assert!(text.contains(&format!("# TYPE {family} ")), "{family}");
    }
    let of_job = |family: &str, labels: &str| {
        sample(&text, &format!("weir_streamingjob_{family}{{namespace=\"{NAMESPACE}\",name=\"sensors\"{labels}}}"))
    };
    assert_eq!(of_job("condition", ",type=\"Ready\",status=\"true\""), Some(1.0));
    assert_eq!(of_job("generation_lag", ""), Some(0.0));
    assert!(of_job("epoch", "") >= Some(5.0));
    assert!(of_job("restarts_total", ",cause=\"Application\"") >= Some(1.0));
    assert_eq!(sample(&text, "weir_leader"), Some(1.0));
    assert_eq!(sample(&text, "weir_events_dropped_total"), Some(0.0));
    assert_eq!(sample(&text, "weir_events_failed_total"), Some(0.0));
    assert!(sample(&text, "weir_reconcile_total{result=\"panic\"}") == Some(0.0));
}

/// The spans of a line: the job with its run, and the task with its epoch.
fn log_lines_name_what_they_are_about(lines: &[Value]) {
    let order = |line: &&Value| line["message"] == "order" && line["action"].as_str().unwrap_or_default().starts_with("StopTask");
    let line = lines.iter().find(order).unwrap_or_else(|| panic!("no order to stop in {lines:#?}"));
    let spans = &line["spans"];
    assert_eq!((&spans[0]["namespace"], &spans[0]["job"]), (&json!(NAMESPACE), &json!("sensors")), "{line}");
    assert!(spans[0]["run"].as_u64() >= Some(1) && spans[0]["epoch"].as_u64() >= Some(2), "{line}");
    assert_eq!(spans[1]["task"], "bronze", "{line}");
    assert!(spans[1]["epoch"].as_u64() >= Some(2), "{line}");
}

async fn calls_since(site: &Site, mark: weir_testcluster::control_plane::AuditMark) -> Vec<AuditEvent> {
    let all = site.plane.requests_since(mark).await.unwrap();
    // Version and discovery requests name no resource.
    all.into_iter().filter(|event| event.user == ACCOUNT && !event.resource.is_empty()).collect()
}

/// Verb and resource of every call that was forbidden.
fn refused(calls: &[AuditEvent]) -> BTreeSet<String> {
    calls.iter().filter(|call| call.code == Some(403)).map(|call| format!("{} {}", call.verb, call.resource)).collect()
}

/// Rights that no call made use of.
fn unused(calls: &[AuditEvent], conditions: &[Condition], reaches: &[Reach]) -> Vec<String> {
    let granted = API_CALLS.iter().filter(|call| conditions.contains(&call.condition) && reaches.contains(&call.reach));
    // No request of its own: admission asks for it when a pod or ConfigMap with a blocking owner is created, which this API server does.
    let requested = granted.filter(|call| call.resource != "streamingjobs/finalizers");
    let verbs = requested.flat_map(|call| call.verbs.iter().map(move |verb| (call, *verb)));
    verbs
        .filter(|(call, verb)| !is_used(call, verb, calls))
        .map(|(call, verb)| format!("{verb} {} ({})", call.resource, call.why))
        .collect()
}

fn is_used(call: &ApiCall, verb: &str, calls: &[AuditEvent]) -> bool {
    let (resource, subresource) = call.resource.split_once('/').unwrap_or((call.resource, ""));
    let in_reach = |event: &AuditEvent| match call.reach {
        Reach::Cluster => event.namespace.is_empty(),
        // A watch over all namespaces names none.
        Reach::JobNamespaces => event.namespace == NAMESPACE || event.namespace.is_empty(),
        Reach::OwnNamespace => event.namespace == "weir-system",
    };
    let is_named = |event: &AuditEvent| call.names.is_empty() || call.names.contains(&event.name.as_str());
    let of_kind = |event: &AuditEvent| event.group == call.group && event.resource == resource && event.subresource == subresource;
    calls.iter().any(|event| of_kind(event) && event.verb == verb && in_reach(event) && is_named(event) && event.code != Some(403))
}
