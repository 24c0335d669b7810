//! A job's state directory: `<root>/<namespace>/<job>`.
//!
//! Holds the lock, the job's random UID, the supervisor's memory, the accepted
//! generations and the last status. Every file is replaced atomically and
//! fsynced before it counts, since the memory is written ahead of actions
//! (protocol.md section 2). One runner at a time: the lock is an flock, which
//! the kernel keeps for a frozen process and drops for a dead one.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use weir_core::{Error, ErrorClass, Result};

/// Manifests kept: the accepted one and those that running tasks began with.
const KEPT_GENERATIONS: i64 = 10;

/// The status of a job, as `weir status` reads it.
pub const STATUS: &str = "status.json";
/// The same when it could not be replaced: no more than what was true once.
pub const STALE_STATUS: &str = "status.stale.json";
/// Field of a status: why the rest of the state could not be written.
pub const NOT_WRITTEN: &str = "notWritten";

/// A locked state directory.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Opens and locks the directory of a job.
    pub fn open(root: &Path, namespace: &str, job: &str) -> Result<Self> {
        let path = root.join(namespace).join(job);
        fs::create_dir_all(&path).map_err(|e| failed("create", &path, e))?;
        let lock = lock(&path.join("lock"), job)?;
        for folder in ["exit", "generations"] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder).map_err(|e| failed("create", &folder, e))?;
        }
        let state = Self { path, _lock: lock };
        // Reports of tasks that an earlier runner started: nobody asks for them any more.
        state.prune("exit", |_| true);
        Ok(state)
    }

    /// Removes manifests that no task can be started from any more.
    pub fn prune_generations(&self, newest: i64) {
        let is_old = |name: &str| name.trim_end_matches(".yaml").parse::<i64>().is_ok_and(|number| number + KEPT_GENERATIONS <= newest);
        self.prune("generations", is_old);
    }

    fn prune(&self, folder: &str, is_old: impl Fn(&str) -> bool) {
        let entries = fs::read_dir(self.path.join(folder)).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_old)) {
            self.remove(&entry.path());
        }
    }

    /// The job's UID, made at the first start.
    pub fn job_uid(&self) -> Result<String> {
        if let Some(uid) = self.read::<String>("uid.json")? {
            return Ok(uid);
        }
        let uid = Uuid::new_v4().to_string();
        self.write("uid.json", &uid)?;
        Ok(uid)
    }

    /// Where an instance leaves its exit report.
    pub fn exit_report(&self, task: &str, epoch: u64) -> PathBuf {
        self.path.join("exit").join(format!("{task}-{epoch}.json"))
    }

    /// Where the manifest of an accepted generation is kept.
    pub fn generation(&self, generation: i64) -> PathBuf {
        self.path.join("generations").join(format!("{generation}.yaml"))
    }

    /// Reads a JSON file; `None` when it is not there.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| self.damaged(name, error))
    }

    /// A file whose content is no state of ours.
    pub fn damaged(&self, name: &str, why: impl std::error::Error + Send + Sync + 'static) -> Error {
        let message = format!("{} is damaged; restore it, or remove the folder to start the job afresh", self.path.join(name).display());
        Error::incompatible("STATE_DAMAGED", message).with_source(why)
    }

    /// Replaces a JSON file, durably.
    pub fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let text = serde_json::to_vec(value).expect("state is maps with string keys");
        self.replace(&self.path.join(name), &text)
    }

    /// Replaces the status. Where that is not possible the old one loses its name, which needs no space.
    pub fn publish<T: Serialize>(&self, status: &T) -> Result<()> {
        let (path, stale) = (self.path.join(STATUS), self.path.join(STALE_STATUS));
        match self.write(STATUS, status) {
            Ok(()) => {
                self.remove(&stale);
                Ok(())
            }
            Err(error) => {
                // On a disk that takes nothing at all the old one keeps its name.
                let _ = fs::rename(&path, &stale);
                Err(error)
            }
        }
    }

    /// Replaces a file that may hold secrets: readable by its owner only.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&temporary, path))
            .and_then(|()| File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all());
        written.map_err(|e| {
            // What there is of it only takes space that may be scarce.
            let _ = fs::remove_file(&temporary);
            failed("write", path, e)
        })
    }

    /// Removes a file that has served; a missing one is fine.
    pub fn remove(&self, path: &Path) {
        if let Err(error) = fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "could not remove");
        }
    }
}

/// Takes the lock, or refuses naming the process that holds it.
fn lock(path: &Path, job: &str) -> Result<File> {
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(|e| failed("open", path, e))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        // What stands there is a courtesy; the kernel's lock is what counts.
        let _ = file.read_to_string(&mut holder);
        return Err(Error::new(
            ErrorClass::Fenced,
            "JOB_ALREADY_RUNNING",
            format!(
                "the job {job} is run by the process {} already (it holds {}); stop that one first, also if it is frozen",
                holder.trim(),
                path.display()
            ),
        ));
    }
    file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes())).map_err(|e| failed("write", path, e))?;
    Ok(file)
}

fn failed(action: &str, path: &Path, error: std::io::Error) -> Error {
    Error::retryable("STATE_DIRECTORY", format!("could not {action} {}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_runner_at_a_time_and_the_uid_stays() {
        let root = tempfile::tempdir().unwrap();
        let first = StateDir::open(root.path(), "default", "j").unwrap();
        let uid = first.job_uid().unwrap();
        let refused = StateDir::open(root.path(), "default", "j").unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Fenced);
        assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
        drop(first);
        let state = StateDir::open(root.path(), "default", "j").unwrap();
        assert_eq!(state.job_uid().unwrap(), uid);
        let damaged = state.damaged("memory.json", std::io::Error::other("version 9"));
        assert!(damaged.to_string().contains("/default/j/memory.json is damaged; restore it"), "{damaged}");
    }
}
