//! M12: two operators that take turns, a leader that slept, a leader without its lease, two installations.
//!
//! Where a leader sleeps, both are real processes behind proxies of their own:
//! a call is held on its way, the process is stopped, its lease lapses, the
//! other one works, and then the call arrives and the process wakes up.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::watch;
use weir_operator::authority::Authority;
use weir_operator::lease::{Durations, Identity, KubeLease, Leadership, LeaseHolder};
use weir_operator::metrics::Metrics;
use weir_operator::names::INSTALLATION;
use weir_operator::rbac::LEASE;
use weir_operator::settings::Settings;
use weir_testcluster::User;
use weir_testcluster::control_plane::AuditEvent;
use weir_testcluster::faults::{Effect, Faults, Matcher, RuleId, Side, Times, Verb};
use weir_testcluster::invariants::Invariant;
use weir_testcluster::kubelet::Signal;
use weir_testcluster::operator_process::{OperatorProcess, sample};
use weir_testcluster::proxy::Proxy;
use weir_testcluster::standin;
use weir_testcluster::wait::eventually;

use crate::world::{IMAGE, PATIENCE, Running, World, condition, is_observed, job};

/// How long a lease of these tests lasts.
const LEASE_DURATION: &str = "12s";
/// What a follower may take to end, of which its farewell to the lease may take one.
const AT_ONCE: Duration = Duration::from_secs(5);
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// A process that may lead, and what lies between it and the API server.
struct Candidate {
    proxy: Proxy,
    process: OperatorProcess,
}

impl Candidate {
    async fn start(world: &World, instance: &str) -> Candidate {
        let proxy = Proxy::start(world.plane.config(User::Admin).await.unwrap()).await.unwrap();
        let checker = standin::binary().display().to_string();
        let names = ["--namespace", &world.namespace, "--namespaces", &world.namespace, "--instance", instance];
        let paces = ["--poll-interval", "300ms", "--progress-interval", "2s", "--lease-duration", LEASE_DURATION];
        let arguments = [&["--image", IMAGE, "--checker", &checker], &names[..], &paces[..]].concat();
        let binary = Path::new(env!("CARGO_BIN_EXE_weir-operator"));
        let process = OperatorProcess::start(binary, &proxy.kubeconfig(), &arguments).await.unwrap();
        Candidate { proxy, process }
    }

    /// The next call of this kind is held on a side of the API server.
    fn hold(&self, matcher: Matcher, side: Side) -> RuleId {
        self.proxy.faults.add(matcher, Times::Once, Effect::Hold(side))
    }

    /// How often it asked for anything but the lease.
    fn calls(&self) -> usize {
        self.proxy.faults.calls().iter().filter(|call| call.target.resource != "leases").count()
    }

    async fn until_it_leads_no_more(&self) {
        let leads_no_more = || async {
            anyhow::ensure!(!self.process.leads().await?, "it leads");
            Ok(())
        };
        eventually("the leader to step down", PATIENCE, leads_no_more).await.unwrap();
    }

    /// SIGTERM to one that does not lead.
    async fn end_at_once(self) {
        let began = Instant::now();
        assert!(self.process.stop().await.unwrap().success());
        let took = began.elapsed();
        assert!(took < AT_ONCE, "a follower took {took:?} to end");
    }
}

/// Two candidates, of which the first leads.
async fn two(world: &World) -> (Candidate, Candidate) {
    let first = Candidate::start(world, "first").await;
    first.process.until_leading().await.unwrap();
    let second = Candidate::start(world, "second").await;
    second.process.until_ready().await.unwrap();
    (first, second)
}

fn restart() -> Value {
    json!({"spec": {"restartNonce": 1}})
}

/// A job that starts its task again soon.
fn brisk_job() -> Value {
    let mut job = job("j", &["t"]);
    job["spec"]["taskRetry"] = json!({"maxRetries": 3, "initialDelay": "50ms", "maxDelay": "50ms"});
    job
}

/// Waits until the job streams at this epoch, or at a higher one where a slow machine made an order be given again.
async fn until_streaming_from(world: &World, epoch: u64) -> u64 {
    let streams = |job: &Value| {
        is_observed(job) && condition(job, "Ready")["reason"] == "Streaming" && job["status"]["epoch"].as_u64() >= Some(epoch)
    };
    let shown = world.until("j", &format!("streaming from epoch {epoch} on"), streams).await;
    shown["status"]["epoch"].as_u64().unwrap()
}

/// Where the leader stands when it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asleep {
    /// It has written ahead and not yet asked for the pod.
    BeforeTheCreate,
    /// Its create is on its way.
    DuringTheCreate,
    /// Its delete is on its way.
    DuringTheDelete,
}

impl Asleep {
    /// Brings the leader there; the rule that holds its call.
    async fn arrange(self, world: &World, leader: &Candidate) -> RuleId {
        let pods = |verb| Matcher::any().verb(verb).resource("pods");
        if self == Asleep::DuringTheCreate {
            let rule = leader.hold(pods(Verb::Create), Side::Before);
            world.apply(&brisk_job()).await;
            return rule;
        }
        world.apply(&brisk_job()).await;
        world.until_streaming("j").await;
        if self == Asleep::DuringTheDelete {
            let rule = leader.hold(pods(Verb::Delete), Side::Before);
            world.edit("j", restart()).await;
            return rule;
        }
        // The last look before a create is at the generation.
        let rule = leader.hold(Matcher::any().verb(Verb::Get).resource("configmaps").name("j-g1"), Side::After);
        world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
        rule
    }

    /// Epoch of the last order of the leader, of the other's pod, and the answer that the late call gets.
    fn expected(self) -> (u64, u64, Option<(&'static str, u16)>) {
        match self {
            Asleep::BeforeTheCreate => (2, 3, None),
            Asleep::DuringTheCreate => (1, 2, Some(("create", 409))),
            Asleep::DuringTheDelete => (1, 2, Some(("delete", 409))),
        }
    }
}

async fn the_sleeper_wakes(asleep: Asleep) {
    let world = World::new("sleeper").await;
    let (first, second) = two(&world).await;
    let (ordered, next, late) = asleep.expected();
    let rule = asleep.arrange(&world, &first).await;
    first.proxy.faults.until_hit(rule, 1).await.unwrap();
    assert_eq!(world.job("j").await.data["status"]["epoch"], ordered, "{asleep:?}: written ahead");
    first.process.freeze().unwrap();
    second.process.until_leading().await.unwrap();
    let next = until_streaming_from(&world, next).await;
    let mark = world.plane.audit_mark().unwrap();
    let of_pods = |write: &AuditEvent| write.namespace == world.namespace && (&*write.resource, &*write.subresource) == ("pods", "");
    first.proxy.faults.release(rule).await;
    if let Some(answer) = late {
        let arrived = || async {
            let writes = world.plane.writes_since(mark).await?;
            let late: Vec<_> = writes.iter().filter(|write| of_pods(write)).map(|write| (&*write.verb, write.code)).collect();
            anyhow::ensure!(late == [(answer.0, Some(answer.1))], "{late:?}");
            Ok(())
        };
        eventually("the late call to be refused", PATIENCE, arrived).await.unwrap();
    }
    let sent = first.proxy.faults.writes().len();
    first.process.thaw().unwrap();
    first.until_it_leads_no_more().await;
    // It hears of the job, and leaves it alone.
    world.annotate("j", "test/touched", "1").await;
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    until_streaming_from(&world, next + 1).await;
    // What was written ahead it may still tell: nobody else does.
    let more = first.proxy.faults.writes().split_off(sent);
    assert!(more.iter().all(|write| write.target.resource == "events"), "{asleep:?}: it writes after its sleep: {more:?}");
    first.end_at_once().await;
    second.process.stop().await.unwrap();
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_what_a_leader_that_slept_still_sends_is_refused() {
    futures::future::join_all([Asleep::BeforeTheCreate, Asleep::DuringTheCreate, Asleep::DuringTheDelete].map(the_sleeper_wakes)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_leader_cut_off_from_its_lease_stops_its_controllers_before_the_next_begins() {
    let world = World::new("cut-off").await;
    let (first, second) = two(&world).await;
    world.apply(&brisk_job()).await;
    world.until_streaming("j").await;
    first.proxy.faults.add(Matcher::any().resource("leases"), Times::Always, Effect::Hang);
    // The other is asked first: once it leads, the first one must have stopped already.
    let taken_over = || async {
        let second_leads = second.process.leads().await?;
        let first_leads = first.process.leads().await?;
        assert!(!(second_leads && first_leads), "two lead");
        anyhow::ensure!(second_leads, "nobody took over");
        Ok(())
    };
    eventually("the other to lead", PATIENCE, taken_over).await.unwrap();
    let asked = first.calls();
    world.edit("j", restart()).await;
    until_streaming_from(&world, 2).await;
    assert_eq!(first.calls(), asked, "its controllers have ended: {:?}", first.proxy.faults.calls().split_off(asked));
    first.end_at_once().await;
    second.process.stop().await.unwrap();
    world.check(&[("j", "t")]);
}

/// An operator of this process that takes part in an election with the world's clock.
struct Elected {
    running: Running,
    leadership: watch::Receiver<Leadership>,
    _stop: watch::Sender<bool>,
}

async fn elected(world: &World, number: u64) -> Elected {
    let lease = KubeLease::new(world.client.clone(), &world.namespace, LEASE);
    let (stop, mut stopped) = watch::channel(false);
    let over = async move { drop(stopped.wait_for(|stop| *stop).await) };
    let durations = Durations::of_lease(Duration::from_secs(15)).unwrap();
    let (leadership, _) = LeaseHolder::run(lease, Identity::new("operator", number), durations, Arc::new(world.clock.clone()), over);
    let faults = Faults::new();
    let client = faults.client(world.plane.config(User::Admin).await.unwrap()).unwrap();
    let running = world.operator_over(client, faults, world.settings(), Authority::Elected(leadership.clone()));
    Elected { running, leadership, _stop: stop }
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_clock_that_jumps_moves_neither_the_leadership_nor_a_run() {
    let world = World::new("jumps").await;
    let mut first = elected(&world, 1).await;
    first.leadership.wait_for(|now| matches!(now, Leadership::Leading { .. })).await.unwrap();
    let second = elected(&world, 2).await;
    world.apply(&brisk_job()).await;
    world.until_streaming("j").await;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    for (jump, epoch) in [(true, 2), (false, 3), (false, 4)] {
        if jump {
            world.clock.advance(TEN_MINUTES)
        } else {
            world.clock.set_back(TEN_MINUTES)
        }
        world.until_run_of_passes(&first.running).await;
        let before = leases.get(LEASE).await.unwrap();
        // A renewal under the new time.
        let renewed = || async {
            let now = leases.get(LEASE).await?;
            anyhow::ensure!(now.metadata.resource_version != before.metadata.resource_version, "not renewed");
            Ok(now.spec.unwrap_or_default())
        };
        let lease = eventually("the lease to be renewed", PATIENCE, renewed).await.unwrap();
        assert_eq!(lease.lease_transitions, Some(0));
        assert_eq!(world.processes("j") as u64, epoch - 1, "the jump started nothing");
        world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
        until_streaming_from(&world, epoch).await;
    }
    assert_eq!(second.running.faults.calls(), [], "a follower asks for nothing");
    second.running.stop().await;
    first.running.stop().await;
    // Times of transitions go back with the clock.
    world.check_except(&[Invariant::I5], &[("j", "t")]);
}

fn scope_conflicts(metrics: &Metrics) -> Option<f64> {
    sample(&metrics.pieces().next()?, "weir_scope_conflicts")
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_second_installation_over_the_same_jobs_says_so_and_leaves_them_alone() {
    let world = World::new("scopes").await;
    let first = world.operator().await;
    let mut job = brisk_job();
    // Empty is as if absent.
    job["metadata"]["annotations"] = json!({INSTALLATION: ""});
    world.apply(&job).await;
    world.until_streaming("j").await;
    let second = world.operator_with(Settings { installation: "elsewhere/weir-operator".to_owned(), ..world.settings() }).await;
    let note = world.until_event("j", "ScopeConflict").await;
    assert!(note.contains("elsewhere/weir-operator") && note.contains("weir-system/weir-operator"), "{note}");
    assert_eq!((scope_conflicts(&first.metrics), scope_conflicts(&second.metrics)), (Some(0.0), Some(1.0)));
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    until_streaming_from(&world, 2).await;
    first.stop().await;
    // Nobody looks after it now, and the other one still does not.
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    world.until_run_of_passes(&second).await;
    assert_eq!(world.processes("j"), 2);
    let writes = second.faults.writes();
    assert!(writes.iter().all(|write| write.target.resource == "events"), "{writes:?}");
    second.stop().await;
    world.check(&[("j", "t")]);
    let jobs = world.jobs().list(&ListParams::default()).await.unwrap();
    assert_eq!(jobs.items[0].metadata.annotations.as_ref().unwrap()[INSTALLATION], "weir-system/weir-operator");
}
