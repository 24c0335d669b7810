//! The shell with an API that can be told to misbehave, on tokio's own clock: a test of minutes takes milliseconds.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::super::{Durations, Identity, Leadership, LeaseApi, LeaseError, LeaseHolder, while_leading};
use crate::clock::SystemClock;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mood {
    #[default]
    Well,
    /// 500.
    Broken,
    /// 409 to every write, although nothing was changed.
    Contrary,
    /// Takes effect, never answers.
    Mute,
}

#[derive(Clone, Default)]
struct FakeApi {
    store: Arc<Mutex<(Option<Lease>, u64)>>,
    mood: Arc<Mutex<Mood>>,
    calls: Arc<Mutex<usize>>,
}

impl FakeApi {
    /// Another way to the same store.
    fn other(&self) -> Self {
        Self { store: self.store.clone(), ..Self::default() }
    }

    fn be(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    fn spec(&self) -> LeaseSpec {
        self.store.lock().0.clone().unwrap().spec.unwrap()
    }

    async fn write(&self, mut lease: Lease, expected: Option<String>) -> Result<Lease, LeaseError> {
        *self.calls.lock() += 1;
        sleep(Duration::from_millis(5)).await;
        let mood = *self.mood.lock();
        match mood {
            Mood::Broken => return Err(broken()),
            Mood::Contrary => return Err(LeaseError::Conflict),
            Mood::Well | Mood::Mute => {}
        }
        let written = {
            let mut store = self.store.lock();
            let current = store.0.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
            if current != expected {
                return Err(LeaseError::Conflict);
            }
            store.1 += 1;
            lease.metadata.resource_version = Some(store.1.to_string());
            store.0 = Some(lease.clone());
            lease
        };
        if mood == Mood::Mute {
            pending::<()>().await;
        }
        Ok(written)
    }
}

fn broken() -> LeaseError {
    LeaseError::Failed { action: "get", name: "lease".to_owned(), source: "500".into() }
}

impl LeaseApi for FakeApi {
    async fn get(&self) -> Result<Option<Lease>, LeaseError> {
        *self.calls.lock() += 1;
        sleep(Duration::from_millis(5)).await;
        let mood = *self.mood.lock();
        match mood {
            Mood::Broken => Err(broken()),
            Mood::Mute => pending().await,
            Mood::Well | Mood::Contrary => Ok(self.store.lock().0.clone()),
        }
    }

    async fn create(&self, spec: &LeaseSpec) -> Result<Lease, LeaseError> {
        self.write(Lease { spec: Some(spec.clone()), ..Lease::default() }, None).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.write(lease.clone(), lease.metadata.resource_version.clone()).await
    }
}

struct Running {
    leadership: watch::Receiver<Leadership>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn run(api: &FakeApi, number: u64) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let stop_order = async {
        let _ = stopped.await;
    };
    let me = Identity::new("pod", number);
    let (leadership, task) = LeaseHolder::run(api.clone(), me, Durations::default(), Arc::new(SystemClock), stop_order);
    Running { leadership, stop, task }
}

impl Running {
    async fn leads(&mut self) {
        let leading = self.leadership.wait_for(|now| matches!(now, Leadership::Leading { .. }));
        timeout(Duration::from_secs(120), leading).await.expect("leads in time").unwrap();
    }

    async fn follows(&mut self) {
        let following = self.leadership.wait_for(|now| matches!(now, Leadership::Following { .. }));
        timeout(Duration::from_secs(120), following).await.expect("follows in time").unwrap();
    }

    fn leads_now(&self) -> bool {
        self.leadership.borrow().leads_at(Instant::now())
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_its_api_stops_before_the_other_begins() {
    for mood in [Mood::Broken, Mood::Contrary, Mood::Mute] {
        let api = FakeApi::default();
        let mut first = run(&api, 1);
        first.leads().await;
        let mut second = run(&api.other(), 2);
        sleep(Duration::from_secs(60)).await;
        assert!(first.leads_now() && !second.leads_now(), "{mood:?}");
        api.be(mood);
        let cut = Instant::now();
        first.follows().await;
        let stopped = cut.elapsed();
        assert!(stopped <= Duration::from_secs(10), "{mood:?}: stopped after {stopped:?}");
        assert!(!second.leads_now());
        second.leads().await;
        let taken = cut.elapsed();
        assert!(taken > stopped && taken < Duration::from_secs(20), "{mood:?}: taken over after {taken:?}");
        assert_eq!(api.spec().lease_transitions, Some(1));
        api.be(Mood::Well);
        sleep(Duration::from_secs(60)).await;
        assert!(second.leads_now() && !first.leads_now());
        assert!(*api.calls.lock() < 200, "a busy loop: {} calls", api.calls.lock());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_once_costs_neither_leadership_nor_a_transition() {
    let api = FakeApi::default();
    let mut only = run(&api, 1);
    only.leads().await;
    api.be(Mood::Mute);
    sleep(Duration::from_secs(3)).await;
    api.be(Mood::Well);
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        assert!(only.leads_now());
    }
    assert_eq!(api.spec().lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_releases_the_lease_and_the_next_begins_at_once() {
    let api = FakeApi::default();
    let mut first = run(&api, 1);
    first.leads().await;
    let mut second = run(&api.other(), 2);
    sleep(Duration::from_secs(5)).await;
    first.stop.send(()).unwrap();
    first.task.await.unwrap();
    assert_eq!(api.spec().holder_identity.as_deref(), Some(""));
    assert!(!first.leadership.borrow().leads_at(Instant::now()));
    let released = Instant::now();
    second.leads().await;
    assert!(released.elapsed() < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_stops_leaves_the_lease_alone() {
    let api = FakeApi::default();
    let mut first = run(&api, 1);
    first.leads().await;
    let second = run(&api.other(), 2);
    sleep(Duration::from_secs(5)).await;
    second.stop.send(()).unwrap();
    second.task.await.unwrap();
    assert!(first.leads_now());
    assert!(api.spec().holder_identity.unwrap().starts_with("pod_"));
}

#[tokio::test(start_paused = true)]
async fn work_runs_while_leading_and_is_dropped_at_the_end() {
    struct Alive(watch::Sender<u32>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.send_modify(|running| *running -= 1);
        }
    }
    let api = FakeApi::default();
    let running = run(&api, 1);
    let (running_count, mut count) = watch::channel(0_u32);
    let (_stop, stopped) = watch::channel(false);
    let leading = while_leading(running.leadership.clone(), stopped, move || {
        running_count.send_modify(|running| *running += 1);
        let alive = Alive(running_count.clone());
        async move {
            pending::<()>().await;
            drop(alive);
        }
    });
    let work = tokio::spawn(leading);
    count.wait_for(|running| *running == 1).await.unwrap();
    api.be(Mood::Broken);
    let cut = Instant::now();
    count.wait_for(|running| *running == 0).await.unwrap();
    assert!(cut.elapsed() <= Duration::from_secs(10));
    api.be(Mood::Well);
    count.wait_for(|running| *running == 1).await.unwrap();
    running.stop.send(()).unwrap();
    assert_eq!(work.await.unwrap(), None);
    assert_eq!(*count.borrow(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_order_to_stop_ends_a_follower_at_once_and_leaves_a_leader_to_its_work() {
    let api = FakeApi::default();
    let mut first = run(&api, 1);
    first.leads().await;
    let second = run(&api.other(), 2);
    sleep(Duration::from_secs(5)).await;
    let ordered = Instant::now();
    for (candidate, ending) in [(&first, Some("done")), (&second, None)] {
        let (stop, stopped) = watch::channel(false);
        let leading = tokio::spawn(while_leading(candidate.leadership.clone(), stopped.clone(), move || {
            let mut stopped = stopped.clone();
            async move {
                let _ = stopped.wait_for(|stop| *stop).await;
                sleep(Duration::from_secs(3)).await;
                "done"
            }
        }));
        tokio::task::yield_now().await;
        stop.send_replace(true);
        assert_eq!(leading.await.unwrap(), ending);
    }
    assert_eq!(ordered.elapsed(), Duration::from_secs(3), "the leader alone took its time");
}

#[tokio::test(start_paused = true)]
async fn an_election_that_ends_without_a_word_ends_the_work() {
    let until = Instant::now() + Duration::from_secs(600);
    let (leadership, told) = watch::channel(Leadership::Leading { until });
    let (_stop, stopped) = watch::channel(false);
    let work = tokio::spawn(while_leading(told, stopped, pending::<()>));
    tokio::task::yield_now().await;
    drop(leadership);
    assert_eq!(timeout(Duration::from_secs(1), work).await.unwrap().unwrap(), None);
}
