//! The store: claims, plans and commits as files, each written once.
//!
//! `epochs/<e>`, `offsets/<n>` and `commits/<n>` are created complete or not at
//! all (temporary file and hard link), as on an object store with conditional
//! puts. A commit is also the sink's: what is in `commits/` has taken effect.
//! `effects` has one line per process that believed to have committed, which is
//! how [`Store::verify`] sees a batch that took effect twice. Nothing is deleted.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::control::Control;

/// Environment variable of the stand-in: the folder under which all stores lie.
pub const STORE_VARIABLE: &str = "STANDIN_STORE";

/// The store of one task.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Who claimed an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// UID of the job.
    pub job_uid: String,
    /// Random id of the process.
    pub instance: Uuid,
    /// UID of its pod.
    pub pod_uid: Option<String>,
}

/// A batch that took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// The batch, from 0.
    pub batch: u64,
    /// Epoch of the process that committed it.
    pub epoch: u64,
    /// The process.
    pub instance: Uuid,
    /// When, ms since 1970.
    pub at_ms: i64,
}

/// What a create-if-absent found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created<T> {
    /// It was not there.
    New,
    /// It was there, with this in it.
    Existed(T),
}

impl Store {
    /// The store of a task under a root, as the stand-in chooses it with [`STORE_VARIABLE`].
    pub fn of_task(root: &Path, namespace: &str, job: &str, task: &str) -> Self {
        Self::at(root.join(namespace).join(job).join(task))
    }

    /// The store in a folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Says how this store's stand-ins behave from now on.
    pub fn control(&self, control: &Control) -> Result<()> {
        self.prepare()?;
        let temporary = self.temporary();
        fs::write(&temporary, serde_json::to_vec_pretty(control)?)?;
        fs::rename(&temporary, self.folder.join("control.json")).context("replacing the control file")
    }

    /// All batches that took effect, in order.
    pub fn commits(&self) -> Result<Vec<Commit>> {
        self.numbers("commits")?.into_iter().map(|batch| self.read("commits", batch)).collect()
    }

    /// All epochs that were claimed, in order.
    pub fn epochs(&self) -> Result<Vec<u64>> {
        self.numbers("epochs")
    }

    /// Whether each batch took effect once, without gaps, under epochs that never go down; what is wrong otherwise.
    pub fn verify(&self) -> Vec<String> {
        let (commits, effects) = match self.commits().and_then(|commits| Ok((commits, self.effects()?))) {
            Ok(read) => read,
            Err(error) => return vec![format!("the store {} cannot be read: {error:#}", self.folder.display())],
        };
        let mut wrong = verify_commits(&commits);
        for commit in &commits {
            let winners: Vec<&Commit> = effects.iter().filter(|effect| effect.batch == commit.batch).collect();
            // A process killed right after its commit leaves no line, never two.
            if winners.len() > 1 || winners.iter().any(|winner| winner.instance != commit.instance) {
                wrong.push(format!("batch {} took effect more than once: {winners:?}", commit.batch));
            }
        }
        wrong
    }

    fn effects(&self) -> Result<Vec<Commit>> {
        match fs::read_to_string(self.folder.join("effects")) {
            // A line that a killed process did not finish is no claim.
            Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn prepare(&self) -> Result<()> {
        for part in ["epochs", "offsets", "commits"] {
            let folder = self.folder.join(part);
            fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        Ok(())
    }

    pub(super) fn read_control(&self) -> Result<Control> {
        match fs::read(self.folder.join("control.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).context("reading the control file"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Control::default()),
            Err(error) => Err(error).context("reading the control file"),
        }
    }

    /// The id of a query, made by whoever comes first.
    pub(super) fn query_id(&self, query: &str) -> Result<Uuid> {
        let id = Uuid::new_v4();
        Ok(match self.create_file(&format!("metadata-{query}"), &id)? {
            Created::New => id,
            Created::Existed(id) => id,
        })
    }

    pub(super) fn claim(&self, epoch: u64, claim: &Claim) -> Result<Created<Claim>> {
        self.create("epochs", epoch, claim)
    }

    pub(super) fn highest_epoch(&self) -> Result<u64> {
        Ok(self.epochs()?.last().copied().unwrap_or(0))
    }

    pub(super) fn next_batch(&self) -> Result<u64> {
        Ok(self.numbers("commits")?.last().map_or(0, |last| last + 1))
    }

    pub(super) fn plan(&self, commit: &Commit) -> Result<Created<Commit>> {
        self.create("offsets", commit.batch, commit)
    }

    pub(super) fn commit(&self, commit: &Commit) -> Result<Created<Commit>> {
        let created = self.create("commits", commit.batch, commit)?;
        if created == Created::New {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("effects"))?;
            file.write_all(format!("{}\n", serde_json::to_string(commit)?).as_bytes())?;
        }
        Ok(created)
    }

    fn numbers(&self, part: &str) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(self.folder.join(part)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn read<T: DeserializeOwned>(&self, part: &str, number: u64) -> Result<T> {
        let path = self.folder.join(part).join(number.to_string());
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("reading {}", path.display()))
    }

    fn create<T: Serialize + DeserializeOwned>(&self, part: &str, number: u64, content: &T) -> Result<Created<T>> {
        self.create_file(&format!("{part}/{number}"), content)
    }

    fn create_file<T: Serialize + DeserializeOwned>(&self, name: &str, content: &T) -> Result<Created<T>> {
        let (temporary, path) = (self.temporary(), self.folder.join(name));
        fs::write(&temporary, serde_json::to_vec(content)?).with_context(|| format!("writing {}", temporary.display()))?;
        let linked = fs::hard_link(&temporary, &path);
        fs::remove_file(&temporary)?;
        match linked {
            Ok(()) => Ok(Created::New),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                Ok(Created::Existed(serde_json::from_slice(&bytes).with_context(|| format!("reading {}", path.display()))?))
            }
            Err(error) => Err(error).with_context(|| format!("creating {}", path.display())),
        }
    }

    fn temporary(&self) -> PathBuf {
        self.folder.join(format!(".{}", Uuid::new_v4()))
    }
}

/// The rules of [`Store::verify`] that the commits alone decide.
pub(super) fn verify_commits(commits: &[Commit]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (expected, commit) in commits.iter().enumerate() {
        if commit.batch != expected as u64 {
            wrong.push(format!("batch {expected} is missing; the next is {}", commit.batch));
            break;
        }
    }
    for pair in commits.windows(2) {
        if pair[1].epoch < pair[0].epoch {
            wrong.push(format!(
                "batch {} has epoch {}, batch {} before it had {}",
                pair[1].batch, pair[1].epoch, pair[0].batch, pair[0].epoch
            ));
        }
    }
    wrong
}
