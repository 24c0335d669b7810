//! Folders and clean-up of one test process.
//!
//! Everything lies under `$TMPDIR/weir-tests/<pid>/`. A folder goes when its handle is dropped, the whole tree when the process exits, and
//! trees of processes that were killed go when the next test process starts. Logs of failed tests are kept in `test-logs/` of the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{process, setup};

type Task = Box<dyn FnOnce() + Send>;

static AT_EXIT: Mutex<Vec<Task>> = Mutex::new(Vec::new());
static A_THREAD_PANICKED: AtomicBool = AtomicBool::new(false);

/// A new empty folder that is removed with its handle.
pub fn folder(name: &str) -> Result<TempDir> {
    prepare();
    let own = own_tree();
    fs::create_dir_all(&own).with_context(|| format!("creating {}", own.display()))?;
    let made = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(&own);
    made.with_context(|| format!("creating a folder in {}", own.display()))
}

/// Runs a task when the process exits in an orderly way; the last one registered comes first.
pub fn at_exit(task: impl FnOnce() + Send + 'static) {
    prepare();
    AT_EXIT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Box::new(task));
}

/// Whether any thread of this process has panicked, that is, whether a test has failed.
pub fn a_thread_panicked() -> bool {
    A_THREAD_PANICKED.load(Ordering::Relaxed)
}

/// Writes a service's log where it outlives the test, and says where. Best effort: it runs while something has failed already.
pub fn keep_log(name: &str, lines: &[String]) {
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    let logs = setup::cache().join("test-logs");
    let number = KEPT.fetch_add(1, Ordering::Relaxed);
    let path = logs.join(format!("{name}-{}-{number}.log", std::process::id()));
    match fs::create_dir_all(&logs).and_then(|()| fs::write(&path, lines.join("\n"))) {
        Ok(()) => eprintln!("the log of {name} is kept in {}", path.display()),
        Err(error) => eprintln!("the log of {name} could not be kept in {}: {error}", path.display()),
    }
}

fn all_trees() -> PathBuf {
    std::env::temp_dir().join("weir-tests")
}

fn own_tree() -> PathBuf {
    all_trees().join(std::process::id().to_string())
}

fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        sweep();
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            A_THREAD_PANICKED.store(true, Ordering::Relaxed);
            earlier(info);
        }));
        // SAFETY: `atexit` takes a function that lives as long as the program; ours touches only statics of this module.
        unsafe { atexit(run_exit_tasks) };
    });
}

unsafe extern "C" {
    fn atexit(task: extern "C" fn()) -> std::ffi::c_int;
}

extern "C" fn run_exit_tasks() {
    let tasks = std::mem::take(&mut *AT_EXIT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    tasks.into_iter().rev().for_each(|task| task());
    let _ = fs::remove_dir_all(own_tree());
}

/// Removes what killed test processes left, what an earlier process of our own id did, and old logs.
fn sweep() {
    sweep_logs(&setup::cache().join("test-logs"), Duration::from_secs(7 * 24 * 3600));
    let Ok(entries) = fs::read_dir(all_trees()) else { return };
    for entry in entries.flatten() {
        let pid: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if pid.is_some_and(|pid| pid == std::process::id() || !process::is_alive(pid)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn sweep_logs(folder: &Path, keep: Duration) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > keep) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_folder_goes_with_its_handle() {
        let folder = folder("sample").unwrap();
        let path = folder.path().to_owned();
        assert!(path.starts_with(own_tree()) && path.is_dir());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn old_logs_go_and_new_ones_stay() {
        let logs = folder("logs").unwrap();
        for (name, age) in [("old", 7200), ("new", 60)] {
            let file = fs::File::create(logs.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        sweep_logs(logs.path(), Duration::from_secs(3600));
        assert!(!logs.path().join("old").exists() && logs.path().join("new").exists());
    }

    #[test]
    fn trees_of_dead_processes_are_swept() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = all_trees().join(child.id().to_string());
        child.wait().unwrap();
        fs::create_dir_all(dead.join("data")).unwrap();
        sweep();
        assert!(!dead.exists());
    }
}
