//! The manifests of a running `weir run`, watched for edits.
//!
//! A look reads the files beside the runner's thread. What was written anew and
//! rests from one look to the next is an edit: a file that is still being written
//! is none yet. `Checker` judges an edit; its verdict is taken only of texts that
//! still stand there, and a newer edit ends the check of an older one. Every edit
//! has one answer: a new generation, a refusal, or the word that nothing changes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use weir_core::Result;
use weir_crds::checkpoint::namespace_of;

use super::checking::Checker;
use super::job::Wish;
use crate::arguments::{RunArguments, triggers};
use crate::manifests::{Files, Manifests, Texts};
use crate::reading::Unread;

/// How often the manifests are looked at for changes.
const EVERY: Duration = Duration::from_millis(500);
/// How long a file system may take for a look before that is told.
const SLOW_LOOK: Duration = Duration::from_secs(10);
/// Looks during a check after which it is told that it goes on.
const SLOW_CHECK: u32 = 10;

/// Namespace and name of a job.
pub type JobKey = (String, String);
/// Where the wishes of the jobs go.
pub type Wishes = Vec<(JobKey, watch::Sender<Wish>)>;

type Check = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Looks for manifests that are not as they were `accepted` and tells the jobs; ends with the runner.
pub async fn watch(arguments: RunArguments, files: Files, accepted: Texts, wishes: Wishes) {
    let checker = Arc::new(Checker::new(&arguments));
    let files = Arc::new(files);
    let mut seen = Seen::of(&accepted);
    let mut check: Option<(Check, u32)> = None;
    loop {
        tokio::select! {
            verdict = async { if let Some((check, _)) = &mut check { check.await } else { std::future::pending().await } } => {
                check = None;
                let now = look(&files).await;
                if !seen.is_still(&now) {
                    // Written anew since. It is judged when it rests, also if it is then as it was.
                    seen.forget();
                } else if let Err(error) = verdict {
                    refuse_all(&wishes, &error.to_string());
                } else {
                    let read = arguments.clone();
                    let loaded = spawn_blocking(move || Manifests::of(now, &read.parameters, triggers(read.available_now)).0);
                    accept(&joined(loaded).await, &wishes);
                }
            }
            () = tokio::time::sleep(EVERY) => match seen.look(&look(&files).await) {
                Sight::Same => {
                    if let Some((_, looks)) = &mut check {
                        *looks += 1;
                        if *looks == SLOW_CHECK {
                            tracing::info!("the changed manifest is still being checked; the last good one goes on");
                        }
                    }
                }
                Sight::Gone(names) => {
                    tracing::warn!("the manifest cannot be read any more; what was accepted of it goes on until it is stopped: {names}");
                }
                Sight::Back => tracing::info!("the manifest is there again as it was; nothing changes"),
                Sight::Restless => tracing::warn!("the manifest changes at every look; it is taken when it rests for a second"),
                Sight::Changed => {
                    let (checker, files) = (Arc::clone(&checker), Arc::clone(&files));
                    check = Some((Box::pin(async move { checker.check(&files).await }), 0));
                }
            },
        }
    }
}

async fn look(files: &Arc<Files>) -> Texts {
    let files = Arc::clone(files);
    let mut looking = spawn_blocking(move || files.read());
    match tokio::time::timeout(SLOW_LOOK, &mut looking).await {
        Ok(Ok(texts)) => texts,
        Ok(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        Err(_) => {
            tracing::warn!(
                "the manifests cannot be looked at: their file system does not answer; the jobs go on, and edits are seen when it does"
            );
            joined(looking).await
        }
    }
}

async fn joined<T>(handle: JoinHandle<T>) -> T {
    handle.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

fn accept(manifests: &Manifests, wishes: &Wishes) {
    let document = manifests.document();
    for ((namespace, name), wish) in wishes {
        match manifests.job(namespace, name) {
            Ok(job) => wish.send_modify(|wish| {
                let written = wish.written + 1;
                *wish = Wish { job: job.clone(), document: document.clone(), refusal: None, written };
            }),
            Err(error) => {
                tracing::error!(job = name, "the changed manifest was refused; the last good one goes on\n{error}");
                refuse(wish, error.to_string());
            }
        }
    }
    for job in manifests.jobs() {
        let key = (namespace_of(job).to_owned(), job.metadata.name.clone().unwrap_or_default());
        if !wishes.iter().any(|(known, _)| *known == key) {
            tracing::warn!(job = key.1, "the manifest has a new job, which this runner does not run; stop it and start it again");
        }
    }
}

fn refuse_all(wishes: &Wishes, error: &str) {
    tracing::error!("the changed manifest was refused; the last good one goes on\n{error}");
    for (_, wish) in wishes {
        refuse(wish, error.to_owned());
    }
}

fn refuse(wish: &watch::Sender<Wish>, message: String) {
    wish.send_modify(|wish| {
        wish.refusal = Some(message);
        wish.written += 1;
    });
}

/// What a look at the files shows.
#[derive(Debug, PartialEq, Eq)]
enum Sight {
    /// Nothing new, or nothing that rests.
    Same,
    /// These are missing for a while, and why.
    Gone(String),
    /// What was missing is there again and says the same.
    Back,
    /// It does not come to rest.
    Restless,
    /// New texts.
    Changed,
}

/// The files as they were last seen whole.
#[derive(Debug, Default)]
struct Seen {
    texts: Vec<String>,
    /// Whether `texts` have no verdict and are to be judged anew.
    is_open: bool,
    /// What was there at the last look, if it was new.
    newer: Option<Vec<String>>,
    restless: u32,
    missed: u32,
    told: Option<String>,
}

impl Seen {
    /// Looks at which a file may be missing because it is being replaced.
    const PATIENCE: u32 = 4;
    /// Looks after which it is told that a file does not rest.
    const RESTLESS: u32 = 20;

    fn of(now: &Texts) -> Self {
        Self { texts: whole(now).unwrap_or_default(), ..Self::default() }
    }

    /// Whether the files are as they were last seen.
    fn is_still(&self, now: &Texts) -> bool {
        whole(now).is_ok_and(|now| now == self.texts)
    }

    /// Lets what was seen last be judged anew.
    fn forget(&mut self) {
        self.is_open = true;
    }

    fn look(&mut self, now: &Texts) -> Sight {
        let texts = match whole(now) {
            Ok(texts) => texts,
            Err(missing) => {
                self.newer = None;
                self.missed = self.missed.saturating_add(1);
                if self.missed < Self::PATIENCE || self.told.as_ref() == Some(&missing) {
                    return Sight::Same;
                }
                self.told = Some(missing.clone());
                return Sight::Gone(missing);
            }
        };
        self.missed = 0;
        let was_gone = self.told.take().is_some();
        if texts == self.texts && !self.is_open {
            self.newer = None;
            self.restless = 0;
            return if was_gone { Sight::Back } else { Sight::Same };
        }
        if self.newer.as_ref() == Some(&texts) {
            *self = Self { texts, ..Self::default() };
            return Sight::Changed;
        }
        self.newer = Some(texts);
        self.restless += 1;
        if self.restless == Self::RESTLESS { Sight::Restless } else { Sight::Same }
    }
}

/// The texts of all files, or which cannot be read. What is no text any more has changed, and is refused like any other edit.
fn whole(now: &Texts) -> std::result::Result<Vec<String>, String> {
    let mut texts = Vec::new();
    let mut missing = Vec::new();
    for (name, read) in now {
        match read {
            Ok(text) => texts.push(text.clone()),
            Err(Unread::NotUtf8(found)) => texts.push(found.lossy.clone()),
            Err(unread) => missing.push(format!("{name}: {}", unread.words().0)),
        }
    }
    if missing.is_empty() { Ok(texts) } else { Err(missing.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(read: std::result::Result<&str, Unread>) -> Texts {
        vec![("job.yaml".to_owned(), read.map(str::to_owned))]
    }

    fn gone() -> std::result::Result<&'static str, Unread> {
        Err(Unread::Io("not there".to_owned()))
    }

    #[test]
    fn a_file_that_goes_is_told_once_and_one_that_is_replaced_is_not() {
        let mut seen = Seen::of(&texts(Ok("a")));
        let mut look = |read| seen.look(&texts(read));
        assert_eq!((look(Ok("a")), look(gone()), look(Ok("b")), look(Ok("b"))), (Sight::Same, Sight::Same, Sight::Same, Sight::Changed));
        let told = Sight::Gone("job.yaml: the file cannot be read: not there".to_owned());
        let looks = [0; 6].map(|_| look(gone()));
        assert_eq!(looks, [Sight::Same, Sight::Same, Sight::Same, told, Sight::Same, Sight::Same]);
        let told = Sight::Gone("job.yaml: the path leads to a pipe, not to a file".to_owned());
        assert_eq!([0; 2].map(|_| look(Err(Unread::NoFile("a pipe")))), [told, Sight::Same]);
        assert_eq!((look(Ok("b")), look(Ok("b")), look(Ok("c")), look(Ok("c"))), (Sight::Back, Sight::Same, Sight::Same, Sight::Changed));
    }

    #[test]
    fn a_file_that_is_being_written_is_no_edit_until_it_rests() {
        let mut seen = Seen::of(&texts(Ok("ab")));
        let mut look = |text: &str| seen.look(&texts(Ok(text)));
        assert_eq!(["", "a", "ab", "ab"].map(&mut look), [Sight::Same, Sight::Same, Sight::Same, Sight::Same]);
        assert_eq!(["", "x", "xy", "xy", "xy"].map(&mut look), [Sight::Same, Sight::Same, Sight::Same, Sight::Changed, Sight::Same]);
        let restless: Vec<u32> = (0..50).filter(|n| look(&n.to_string()) == Sight::Restless).collect();
        assert_eq!(restless, [19]);
    }

    #[test]
    fn an_edit_without_a_verdict_is_judged_when_it_is_back() {
        let mut seen = Seen::of(&texts(Ok("a")));
        assert_eq!((seen.look(&texts(Ok("b"))), seen.look(&texts(Ok("b")))), (Sight::Same, Sight::Changed));
        assert!(seen.is_still(&texts(Ok("b"))) && !seen.is_still(&texts(Ok("c"))) && !seen.is_still(&texts(gone())));
        seen.forget();
        assert_eq!(
            (seen.look(&texts(Ok("b"))), seen.look(&texts(Ok("b"))), seen.look(&texts(Ok("b")))),
            (Sight::Same, Sight::Changed, Sight::Same)
        );
    }
}
