//! `weir run`: the jobs of the manifests, kept alive on this machine.
//!
//! Checks the manifests as `weir check` does, takes the lock of each job, and
//! runs each under the supervisor until it is finished. The manifests are
//! watched: a valid change is a new generation, an invalid one is reported and
//! changes nothing. One Ctrl-C ends the jobs at batch boundaries, two at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use weir_core::{Error, ErrorClass, Result};
use weir_crds::checkpoint::namespace_of;
use weir_crds::policy::JobTrigger;
use weir_supervisor::observed::Shutdown;
use weir_supervisor::{ExitClass, Lifetime};

use crate::arguments::RunArguments;
use crate::commands::check;
use crate::local::display::{Display, JobName};
use crate::local::job::{LocalJob, Setting, Wish};
use crate::local::state::StateDir;
use crate::manifests::Manifests;
use crate::outcome::{Code, Ended};
use crate::signals::Signals;

/// How often the manifests are looked at for changes.
const WATCH_EVERY: Duration = Duration::from_millis(500);

/// Runs the command.
pub fn run(arguments: RunArguments) -> Ended {
    // One thread: the children's parent-death signal is bound to the thread that starts them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::retryable("RUNTIME_NOT_STARTED", "could not start the async runtime").with_source(e))?;
    crate::output::background::start();
    let tasks = LocalSet::new();
    let ended = tasks.block_on(&runtime, run_all(arguments));
    runtime.shutdown_background();
    ended
}

async fn run_all(arguments: RunArguments) -> Ended {
    let manifests = check::accepted(&arguments.files, &arguments.parameters).await?;
    let mut signals = Signals::listen()?;
    let display = Arc::new(Display::new(arguments.progress));
    let (shutdown, shutdown_seen) = watch::channel(Shutdown::None);
    let mut jobs = JoinSet::new();
    let mut wishes = Vec::new();
    for job in manifests.jobs() {
        let setting = setting(&arguments, &manifests, job)?;
        let root = state_root(&arguments)?;
        let state = StateDir::open(&root, &setting.namespace, &setting.name)?;
        let wish = Wish { job: job.clone(), document: manifests.document(), refusal: None };
        let (sender, receiver) = watch::channel(wish.clone());
        wishes.push(((setting.namespace.clone(), setting.name.clone()), sender));
        let (sayings, heard) = mpsc::unbounded_channel();
        let name = JobName { namespace: setting.namespace.clone(), job: setting.name.clone() };
        let local = LocalJob::open(setting, state, &wish, sayings)?;
        jobs.spawn_local(supervise(local, name, receiver, shutdown_seen.clone(), Arc::clone(&display), heard));
    }
    if wishes.is_empty() {
        return Err(Error::config(
            "NO_JOB",
            "the files hold no StreamingJob, so there is nothing to run; add a document of `kind: StreamingJob`",
        ));
    }
    let watcher = tokio::task::spawn_local(watch_files(arguments.clone(), wishes));
    let mut ends = Vec::new();
    let mut interrupts = 0;
    loop {
        tokio::select! {
            ended = jobs.join_next() => match ended {
                None => break,
                Some(Ok(end)) => ends.push(end?),
                Some(Err(error)) => return Err(Error::retryable("RUNNER_PANICKED", "a job's loop ended by a panic, which is a defect of Weir; start it again, and report what stands above").with_source(error)),
            },
            () = signals.next() => {
                interrupts += 1;
                let order = if interrupts == 1 { Shutdown::Graceful } else { Shutdown::Immediate };
                shutdown.send_replace(order);
                if interrupts == 1 {
                    tracing::info!("stopping at batch boundaries; a second signal ends at once");
                }
            }
        }
    }
    watcher.abort();
    display.close();
    Ok(match interrupts {
        0 => Code(ends.iter().map(|class| u8::try_from(class.code()).unwrap_or(10)).find(|code| *code != 0).unwrap_or(0)),
        1 => Code::DONE,
        _ => Code::INTERRUPTED,
    })
}

async fn supervise(
    mut job: LocalJob,
    name: JobName,
    wishes: watch::Receiver<Wish>,
    shutdown: watch::Receiver<Shutdown>,
    display: Arc<Display>,
    mut heard: mpsc::UnboundedReceiver<crate::local::child::Saying>,
) -> Result<ExitClass> {
    let shown = Arc::clone(&display);
    let label = name.clone();
    let listener = tokio::task::spawn_local(async move {
        while let Some(saying) = heard.recv().await {
            shown.saying(&label, &saying);
        }
    });
    let finished = job.run(wishes, shutdown, &display).await;
    // With the job its sender goes, and the listener ends with what was said.
    drop(job);
    let _ = tokio::time::timeout(Duration::from_secs(1), listener).await;
    let finished = finished?;
    if !finished.message.is_empty() {
        tracing::info!(job = name.job, "{}", finished.message);
    }
    Ok(finished.class)
}

fn setting(arguments: &RunArguments, manifests: &Manifests, job: &weir_crds::StreamingJob) -> Result<Setting> {
    let name = job.metadata.name.clone().unwrap_or_default();
    let policy = job.spec.policy().map_err(|e| Error::config("SPEC_INVALID", e.to_string()))?;
    let is_one_run = arguments.once || matches!(policy.trigger, JobTrigger::Manual);
    if arguments.once && !arguments.available_now {
        let endless = policy.tasks.iter().flat_map(|task| &task.queries).find(|query| !query.trigger.ends_by_itself());
        if let Some(query) = endless {
            return Err(Error::config(
                "ENDLESS_QUERY_WITH_ONCE",
                format!(
                    "{}: the query {} of job {name} never ends by itself, so --once would never return; add --available-now, or \
                     give the query `trigger: {{availableNow: {{}}}}`",
                    manifests.file_of(job),
                    query.name
                ),
            ));
        }
    }
    let mut child_arguments = Vec::new();
    for (key, value) in &arguments.parameters {
        child_arguments.extend(["-p".to_owned(), format!("{key}={value}")]);
    }
    if let Some(dir) = &arguments.secrets_dir {
        child_arguments.extend(["--secrets-dir".to_owned(), dir.display().to_string()]);
    }
    if arguments.available_now {
        child_arguments.push("--available-now".into());
    }
    let program = std::env::current_exe()
        .map_err(|e| Error::new(ErrorClass::Retryable, "PROGRAM_NOT_FOUND", "could not find the program's own file").with_source(e))?;
    Ok(Setting {
        program,
        arguments: child_arguments,
        lifetime: if is_one_run { Lifetime::OneRun { token: uuid::Uuid::new_v4().to_string() } } else { Lifetime::AsTriggered },
        namespace: namespace_of(job).to_owned(),
        name,
    })
}

/// `.weir` beside the first manifest, unless told otherwise.
fn state_root(arguments: &RunArguments) -> Result<PathBuf> {
    if let Some(dir) = &arguments.state_dir {
        return Ok(dir.clone());
    }
    let beside = arguments.files.first().and_then(|file| file.parent()).filter(|parent| *parent != Path::new(""));
    let root = beside.unwrap_or(Path::new(".")).join(".weir");
    std::path::absolute(&root).map_err(|e| Error::retryable("STATE_DIRECTORY", "could not resolve the state directory").with_source(e))
}

type JobKey = (String, String);

/// Looks for changed manifests and tells the jobs.
async fn watch_files(arguments: RunArguments, wishes: Vec<(JobKey, watch::Sender<Wish>)>) {
    let mut seen = read_all(&arguments.files);
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let now = read_all(&arguments.files);
        // A file that is being replaced may be missing for a moment.
        if now == seen || now.iter().any(Option::is_none) {
            continue;
        }
        seen = now;
        match check::accepted(&arguments.files, &arguments.parameters).await {
            Ok(manifests) => {
                let document = manifests.document();
                for ((namespace, name), wish) in &wishes {
                    match manifests.job(namespace, name) {
                        Ok(job) => drop(wish.send_replace(Wish { job: job.clone(), document: document.clone(), refusal: None })),
                        Err(error) => {
                            tracing::error!(job = name, "the changed manifest was refused; the last good one goes on\n{error}");
                            refuse(wish, error.to_string());
                        }
                    }
                }
                for job in manifests.jobs() {
                    let key = (namespace_of(job).to_owned(), job.metadata.name.clone().unwrap_or_default());
                    if !wishes.iter().any(|(known, _)| *known == key) {
                        tracing::warn!(
                            job = key.1,
                            "the manifest has a new job, which this runner does not run; stop it and start it again"
                        );
                    }
                }
            }
            Err(error) => {
                tracing::error!("the changed manifest was refused; the last good one goes on\n{error}");
                for (_, wish) in &wishes {
                    refuse(wish, error.to_string());
                }
            }
        }
    }
}

fn refuse(wish: &watch::Sender<Wish>, message: String) {
    wish.send_modify(|wish| wish.refusal = Some(message));
}

fn read_all(files: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|file| std::fs::read(file).ok()).collect()
}
