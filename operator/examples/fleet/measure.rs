//! The measurements, one after the other over one fleet.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use weir_testcluster::kubelet::Signal;
use weir_testcluster::operator_process::{OperatorProcess, sample};

use super::percentile::percentile;
use super::site::{ACCOUNT, Sight, Site, timed};

/// Longest wait for the whole fleet.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Longest wait for one pod.
const POD_PATIENCE: Duration = Duration::from_secs(60);

/// How much there is of everything.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// Jobs that wait for a trigger.
    pub idle: usize,
    /// Jobs that stream.
    pub streaming: usize,
    /// Pods that are killed, one after the other.
    pub failures: usize,
    /// How long the fleet is left alone.
    pub quiet: Duration,
}

/// What was measured. Times in seconds, memory in MiB.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub size: Size,
    /// Processes that wanted to run in the minute before the start, and cores.
    pub load_before: f64,
    pub cores: usize,
    /// From the start of the first operator until every idle job is accepted and waits.
    pub taking_on_seconds: f64,
    /// From the start of a second operator until it has looked at every job, its election included.
    pub resync_seconds: f64,
    /// The same until `/readyz`.
    pub ready_seconds: f64,
    /// Resident memory of that second operator after the quiet time.
    pub resident_mib: f64,
    /// The most that it had until then.
    pub resident_peak_mib: f64,
    /// The same after the failures.
    pub resident_after_failures_mib: f64,
    /// Writes by the operator in the quiet time that concern idle jobs.
    pub writes_to_idle_jobs: usize,
    /// Status writes to streaming jobs.
    pub writes_of_progress: usize,
    /// Renewals of the lease.
    pub writes_of_lease: usize,
    /// All other writes, by what they were.
    pub writes_of_others: BTreeMap<String, usize>,
    /// From the sight of a failed pod to the sight of its successor, milliseconds.
    pub replacement_p50_ms: f64,
    pub replacement_p99_ms: f64,
    pub replacement_max_ms: f64,
    /// How many there were.
    pub replacements: usize,
}

/// Measures a fleet.
pub async fn measure(binary: &Path, size: &Size) -> Result<Figures> {
    let load_before = load()?;
    let site = Site::new(binary).await?;
    let (_, creating) = timed(site.create_idle(size.idle)).await?;
    say(&format!("{} idle jobs are created ({:.1} s)", size.idle, creating.as_secs_f64()));
    let began = Instant::now();
    let operator = site.operator(binary).await?;
    until_statuses(&operator, size.idle).await?;
    let taking_on = began.elapsed();
    say(&format!("all are taken on ({:.1} s)", taking_on.as_secs_f64()));
    let mut sights = site.sights();
    let streaming = site.create_streaming(size.streaming).await?;
    let mut ready: HashMap<(String, String), String> = HashMap::new();
    while ready.len() < streaming.len() {
        let sight = next(&mut sights).await?;
        if sight.ready {
            ready.insert((sight.namespace, sight.name), sight.uid);
        }
    }
    say(&format!("{} jobs stream", streaming.len()));
    ensure!(operator.stop().await?.success(), "the operator did not end well");

    let began = Instant::now();
    let operator = site.operator(binary).await?;
    operator.until_ready().await?;
    let ready_after = began.elapsed();
    until_passes(&operator, size.idle + size.streaming).await?;
    let resync = began.elapsed();
    say(&format!("a second operator has looked at all ({:.1} s)", resync.as_secs_f64()));

    // The quiet time is what is measured, so it is waited for.
    let mark = site.plane.audit_mark()?;
    tokio::time::sleep(size.quiet).await;
    let writes: Vec<_> = site.plane.writes_since(mark).await?.into_iter().filter(|write| write.user == ACCOUNT).collect();
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for write in &writes {
        let kind = match (write.resource.as_str(), write.name.as_str()) {
            ("leases", _) => "lease".to_owned(),
            (_, name) if name.starts_with("idle-") => "idle".to_owned(),
            ("streamingjobs", name) if name.starts_with("stream-") => "progress".to_owned(),
            (resource, _) => format!("{} {resource}", write.verb),
        };
        *counted.entry(kind).or_default() += 1;
    }
    let resident_mib = mib(operator.resident_bytes())?;
    let resident_peak_mib = peak_mib(operator.id())?;
    say(&format!("left alone for {:?}: {resident_mib:.1} MiB, writes {counted:?}", size.quiet));

    let mut samples = Vec::new();
    for number in 0..size.failures {
        let (namespace, job) = &streaming[number % streaming.len()];
        samples.push(replaced(&site, &mut sights, &mut ready, namespace, &format!("{job}--main")).await?);
    }
    let milliseconds = |percent: usize| percentile(&samples, percent).as_secs_f64() * 1000.0;
    let figures = Figures {
        size: size.clone(),
        load_before,
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        taking_on_seconds: taking_on.as_secs_f64(),
        resync_seconds: resync.as_secs_f64(),
        ready_seconds: ready_after.as_secs_f64(),
        resident_mib,
        resident_peak_mib,
        resident_after_failures_mib: mib(operator.resident_bytes())?,
        writes_to_idle_jobs: counted.remove("idle").unwrap_or_default(),
        writes_of_progress: counted.remove("progress").unwrap_or_default(),
        writes_of_lease: counted.remove("lease").unwrap_or_default(),
        writes_of_others: counted,
        replacement_p50_ms: milliseconds(50),
        replacement_p99_ms: milliseconds(99),
        replacement_max_ms: milliseconds(100),
        replacements: samples.len(),
    };
    ensure!(operator.stop().await?.success(), "the operator did not end well");
    Ok(figures)
}

/// Kills a pod's process; the time from the sight of its failure to the sight of the pod that follows.
async fn replaced(
    site: &Site,
    sights: &mut UnboundedReceiver<Sight>,
    ready: &mut HashMap<(String, String), String>,
    namespace: &str,
    pod: &str,
) -> Result<Duration> {
    let key = (namespace.to_owned(), pod.to_owned());
    while !ready.contains_key(&key) {
        let sight = next(sights).await?;
        note(ready, &sight);
    }
    let old = ready.remove(&key).context("it was just there")?;
    site.kubelet.kill(namespace, pod, Signal::KILL)?;
    let mut failed = None;
    loop {
        let sight = next(sights).await?;
        note(ready, &sight);
        if (&sight.namespace, &sight.name) != (&key.0, &key.1) {
            continue;
        }
        if sight.uid == old && sight.phase == "Failed" && failed.is_none() {
            failed = Some(sight.at);
        }
        if sight.uid != old {
            let failed = failed.with_context(|| format!("{namespace}/{pod} was replaced before it was seen to fail"))?;
            return Ok(sight.at.duration_since(failed));
        }
    }
}

fn note(ready: &mut HashMap<(String, String), String>, sight: &Sight) {
    let key = (sight.namespace.clone(), sight.name.clone());
    if sight.ready {
        ready.insert(key, sight.uid.clone());
    } else if ready.get(&key) == Some(&sight.uid) {
        ready.remove(&key);
    }
}

async fn next(sights: &mut UnboundedReceiver<Sight>) -> Result<Sight> {
    tokio::time::timeout(POD_PATIENCE, sights.recv()).await.context("no pod changes any more")?.context("the watch of pods has ended")
}

/// Waits until as many jobs wait for their trigger, as the operator itself shows.
async fn until_statuses(operator: &OperatorProcess, jobs: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut quiet_since: Option<(f64, Instant)> = None;
    loop {
        let text = operator.own_metrics().await?;
        let written: f64 = ["write-ahead", "condition", "progress"]
            .iter()
            .filter_map(|kind| sample(&text, &format!("weir_status_writes_total{{kind=\"{kind}\"}}")))
            .sum();
        // Every job is accepted by one write at least; the whole text, which tells how each one is, is too long to ask for often.
        if written >= jobs as f64 {
            match quiet_since {
                Some((before, _)) if before != written => quiet_since = Some((written, Instant::now())),
                Some((_, at)) if at.elapsed() > Duration::from_secs(2) => {
                    let (_, all) = operator.get("/metrics").await?;
                    let ready = all.lines().filter(|line| line.contains("type=\"Ready\",status=\"true\"} 1")).count();
                    if ready >= jobs {
                        return Ok(());
                    }
                    quiet_since = Some((written, Instant::now()));
                }
                Some(_) => {}
                None => quiet_since = Some((written, Instant::now())),
            }
        }
        ensure!(Instant::now() < deadline, "the jobs are not taken on; {written} statuses were written");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until as many passes were made.
async fn until_passes(operator: &OperatorProcess, jobs: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = operator.own_metrics().await?;
        let passes = sample(&text, "weir_reconcile_total{result=\"ok\"}").unwrap_or_default();
        if passes >= jobs as f64 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "only {passes} passes were made");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn mib(bytes: Option<u64>) -> Result<f64> {
    Ok(bytes.context("the operator is gone")? as f64 / 1024.0 / 1024.0)
}

fn peak_mib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading the operator's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the kernel tells no peak")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}

/// The load average of the last minute.
fn load() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").context("reading the load")?;
    Ok(text.split(' ').next().context("an empty load average")?.parse()?)
}

fn say(what: &str) {
    eprintln!("==> {what}");
}
