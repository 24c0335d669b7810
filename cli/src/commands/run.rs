//! `weir run`: the jobs of the manifests, kept alive on this machine.
//!
//! Checks the manifests as `weir check` does, takes the lock of each job, and
//! runs each under the supervisor until it is finished. The manifests are
//! watched: a valid change is a new generation, an invalid one is reported and
//! changes nothing; it is checked in a process of its own, which can harm nobody. One Ctrl-C ends the jobs at batch boundaries, two at once.

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

use crate::arguments::{RunArguments, triggers};
use crate::commands::check;
use crate::local::display::{Display, JobName};
use crate::local::edit::Refused;
use crate::local::folder;
use crate::local::job::{LocalJob, Setting, Wish};
use crate::local::state::StateDir;
use crate::local::watching;
use crate::manifests::{Files, Manifests};
use crate::outcome::{Code, Ended};
use crate::output;
use crate::reading;
use crate::signals::Signals;

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
    let files = Files::open(&arguments.files);
    let texts = files.read();
    let manifests =
        check::accepted(texts.clone(), &arguments.parameters, arguments.secrets_dir.as_deref(), triggers(arguments.available_now)).await?;
    let mut signals = Signals::listen()?;
    let display = Arc::new(Display::new(arguments.progress));
    let (shutdown, shutdown_seen) = watch::channel(Shutdown::None);
    let mut jobs = JoinSet::new();
    let mut wishes = Vec::new();
    for job in manifests.jobs() {
        let setting = setting(&arguments, &manifests, job)?;
        let root = state_root(&arguments)?;
        let state = StateDir::open(&root, &setting.namespace, &setting.name)?;
        if let Some(words) = folder::look(&state, job)? {
            tracing::warn!(job = setting.name, "{words}");
        }
        let wish = Wish { job: job.clone(), document: manifests.document(), refusal: None, written: 0 };
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
    let mut watcher = tokio::task::spawn_local(watching::watch(arguments.clone(), files, texts, wishes));
    let mut is_watched = true;
    let mut ends = Vec::new();
    let mut interrupts = 0;
    loop {
        tokio::select! {
            // What was asked for counts, also when the jobs have ended in the meantime.
            biased;
            () = signals.next() => {
                interrupts += 1;
                let order = if interrupts == 1 { Shutdown::Graceful } else { Shutdown::Immediate };
                shutdown.send_replace(order);
                if interrupts == 1 {
                    tracing::info!("stopping at batch boundaries; a second signal ends at once");
                }
            }
            ended = &mut watcher, if is_watched => {
                is_watched = false;
                let why = ended.err().map(|error| error.to_string()).unwrap_or_default();
                output::say(&format!(
                    "error: [WATCHER_ENDED] the manifests are not watched any more, which is a defect of Weir; the jobs go on as they \
                     are, and an edit takes effect when weir run is started again: {why}"
                ));
            }
            ended = jobs.join_next() => match ended {
                None => break,
                Some(Ok(end)) => ends.push(end),
                Some(Err(error)) => return Err(Error::retryable("RUNNER_PANICKED", "a job's loop ended by a panic, which is a defect of Weir; start it again, and report what stands above").with_source(error)),
            },
        }
    }
    watcher.abort();
    display.close();
    Ok(match interrupts {
        0 => {
            ends.iter().filter_map(End::refusal).for_each(|refusal| output::say(&format!("error: {refusal}")));
            Code(ends.iter().map(End::code).find(|code| *code != 0).unwrap_or(0))
        }
        1 => Code::DONE,
        _ => Code::INTERRUPTED,
    })
}

/// How a job ended.
#[derive(Debug)]
struct End {
    job: String,
    how: How,
}

#[derive(Debug)]
enum How {
    /// Its runs are over.
    Finished {
        class: ExitClass,
        /// What it was asked to run and did not.
        refused: Option<Refused>,
    },
    /// The runner itself could not go on with it, and has said why.
    Failed(ErrorClass),
}

impl End {
    /// A run's own failure says more than that it was not of the newest manifest.
    fn code(&self) -> u8 {
        match &self.how {
            How::Failed(class) => class.exit_code(),
            How::Finished { class, refused } => match u8::try_from(class.code()).unwrap_or(10) {
                0 if refused.is_some() => ErrorClass::Config.exit_code(),
                code => code,
            },
        }
    }

    /// What was refused of what was asked.
    fn refusal(&self) -> Option<Error> {
        match &self.how {
            How::Finished { refused, .. } => refused.as_ref().map(|refused| refused.error(&self.job)),
            How::Failed(_) => None,
        }
    }
}

async fn supervise(
    mut job: LocalJob,
    name: JobName,
    wishes: watch::Receiver<Wish>,
    shutdown: watch::Receiver<Shutdown>,
    display: Arc<Display>,
    mut heard: mpsc::UnboundedReceiver<crate::local::child::Saying>,
) -> End {
    let shown = Arc::clone(&display);
    let label = name.clone();
    let listener = tokio::task::spawn_local(async move {
        while let Some(saying) = heard.recv().await {
            shown.saying(&label, &saying);
        }
    });
    let finished = job.run(wishes, shutdown, &display).await;
    let refused = job.refused();
    // With the job its sender goes, and the listener ends with what was said.
    drop(job);
    let _ = tokio::time::timeout(Duration::from_secs(1), listener).await;
    let how = match finished {
        Ok(finished) => {
            if !finished.message.is_empty() && !display.is_told(&finished.message) {
                tracing::info!(job = name.job, "{}", finished.message);
            }
            How::Finished { class: finished.class, refused }
        }
        // The other jobs go on, so it is said now.
        Err(error) => {
            output::say(&format!("error: {error}"));
            How::Failed(error.class())
        }
    };
    End { job: name.job, how }
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
    // What a shell makes of `<(..)` lies beside nothing.
    let first = arguments.files.first().filter(|file| !reading::is_stream(file));
    let beside = first.and_then(|file| file.parent()).filter(|parent| *parent != Path::new(""));
    let root = beside.unwrap_or(Path::new(".")).join(".weir");
    std::path::absolute(&root).map_err(|e| Error::retryable("STATE_DIRECTORY", "could not resolve the state directory").with_source(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_an_older_generation_is_not_what_was_asked_for() {
        let end = |class, refused: Option<&str>| {
            let refused = refused.map(|why| Refused { why: why.to_owned(), generation: 3 });
            End { job: "j".to_owned(), how: How::Finished { class, refused } }
        };
        let codes = [
            end(ExitClass::Completed, None),
            end(ExitClass::Completed, Some("x")),
            end(ExitClass::Stopped, Some("x")),
            end(ExitClass::Incompatible, Some("x")),
            end(ExitClass::Retryable, None),
            End { job: "j".to_owned(), how: How::Failed(ErrorClass::Retryable) },
        ];
        assert_eq!(codes.map(|end| end.code()), [0, 20, 20, 21, 10, 10]);
        let words = end(ExitClass::Completed, Some("the checkpoint may not move")).refusal().map(|refusal| refusal.to_string());
        let words = words.unwrap_or_default();
        assert!(words.contains("job j") && words.contains("generation, 3,") && words.ends_with("the checkpoint may not move"), "{words}");
        assert!(end(ExitClass::Retryable, None).refusal().is_none());
    }
}
