//! Runs a command under a memory limit that the kernel enforces.
//!
//! The limit is a control group's: of version 1 (`memory.limit_in_bytes`) or version 2 (`memory.max`), whichever the machine offers and lets
//! us write. Page cache counts too but is reclaimed before anyone is killed. There is no fallback: an address-space limit (`ulimit -v`) counts
//! something else, so where no group can be made [`Limited::new`] is an error that says what is missing.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{eventually, unique_name, wait};

/// A control group with a memory limit; removed when dropped, so drop the processes inside it first.
pub struct Limited {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    One,
    Two,
}

impl Limited {
    /// A new group of which all processes together may use this many bytes of memory, and no swap where that can be said.
    pub fn new(bytes: u64) -> Result<Limited> {
        let (parent, version) = find_parent()?;
        let folder = parent.join(unique_name("weir-test"));
        fs::create_dir(&folder).with_context(|| {
            format!("creating the control group {}; memory limits need root or a delegated memory controller", folder.display())
        })?;
        let limited = Limited { folder, version };
        limited.write(limited.file("memory.limit_in_bytes", "memory.max"), bytes)?;
        let swap = match version {
            // Version 1 limits memory and swap together; the file exists only where the kernel accounts swap.
            Version::One => limited.write("memory.memsw.limit_in_bytes", bytes),
            Version::Two => limited.write("memory.swap.max", 0),
        };
        // Without swap accounting there is nothing to limit, and the memory limit holds all the same.
        let _ = swap;
        Ok(limited)
    }

    /// The command as one that joins the group first: everything it starts is inside as well.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&self.folder).arg(program);
        command
    }

    /// The highest use so far, in bytes.
    pub fn peak_bytes(&self) -> Result<u64> {
        self.read(self.file("memory.max_usage_in_bytes", "memory.peak"))
    }

    /// The use now, in bytes.
    pub fn current_bytes(&self) -> Result<u64> {
        self.read(self.file("memory.usage_in_bytes", "memory.current"))
    }

    /// How many processes the kernel has killed in this group for lack of memory.
    pub fn killed_for_memory(&self) -> Result<u64> {
        let name = self.file("memory.oom_control", "memory.events");
        let text = fs::read_to_string(self.folder.join(name)).with_context(|| format!("reading {name}"))?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).with_context(|| format!("{name} has no oom_kill count:\n{text}"))
    }

    fn file<'a>(&self, one: &'a str, two: &'a str) -> &'a str {
        match self.version {
            Version::One => one,
            Version::Two => two,
        }
    }

    fn write(&self, name: &str, value: u64) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, value.to_string()).with_context(|| format!("writing {value} to {}", path.display()))
    }

    fn read(&self, name: &str) -> Result<u64> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        text.trim().parse().with_context(|| format!("{} holds `{}`", path.display(), text.trim()))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // A group can be removed only when its last process has been reaped, which the kernel may do a moment after the wait for it.
        let removed = eventually("the control group to be empty", wait::GENEROUS / 12, || match fs::remove_dir(&self.folder) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => None,
            done => Some(done),
        });
        if let Err(error) = removed {
            eprintln!("the control group {} is left behind: {error}", self.folder.display());
        }
    }
}

/// The folder below which groups with a memory limit can be made.
fn find_parent() -> Result<(PathBuf, Version)> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("reading /proc/self/mounts")?;
    let own = fs::read_to_string("/proc/self/cgroup").context("reading /proc/self/cgroup")?;
    match memory_controller(&mounts, &own) {
        Some((mount, own, Version::One)) => Ok((existing(&mount, &own), Version::One)),
        Some((mount, own, Version::Two)) => Ok((delegated(&mount, &own)?, Version::Two)),
        None => bail!("no memory controller is mounted here, so memory limits cannot be tested on this machine"),
    }
}

/// The mount point of the memory controller and our own group in it.
fn memory_controller(mounts: &str, own: &str) -> Option<(PathBuf, String, Version)> {
    let fields = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let all: Vec<Vec<String>> = mounts.lines().map(fields).filter(|found| found.len() > 3).collect();
    let has_memory = |list: &str| list.split(',').any(|option| option == "memory");
    let one = all.iter().find(|found| found[2] == "cgroup" && has_memory(&found[3]));
    let own_of = |wanted: &dyn Fn(&str) -> bool| {
        let path = |line: &str| line.splitn(3, ':').nth(1).filter(|list| wanted(list)).and(line.splitn(3, ':').nth(2)).map(str::to_owned);
        own.lines().find_map(path).unwrap_or_else(|| "/".into())
    };
    if let Some(found) = one {
        return Some((PathBuf::from(&found[1]), own_of(&has_memory), Version::One));
    }
    let two = all.iter().find(|found| found[2] == "cgroup2")?;
    Some((PathBuf::from(&two[1]), own_of(&str::is_empty), Version::Two))
}

/// In a container our group may lie outside what is mounted; then the mount's root is ours.
fn existing(mount: &Path, own: &str) -> PathBuf {
    let nested = mount.join(own.trim_start_matches('/'));
    if nested.is_dir() { nested } else { mount.to_owned() }
}

/// In version 2 only a group without processes may have children with limits: the nearest ancestor that passes the memory controller on.
fn delegated(mount: &Path, own: &str) -> Result<PathBuf> {
    let start = existing(mount, own);
    let passes_on = |folder: &&Path| {
        let passed = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        folder.starts_with(mount) && passed.split_ascii_whitespace().any(|controller| controller == "memory")
    };
    let found = start.ancestors().find(passes_on);
    found.map(Path::to_owned).with_context(|| format!("no group above {} passes the memory controller on", start.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_ONE: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const VERSION_TWO: &str = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";

    #[test]
    fn version_one_is_preferred_where_it_has_the_controller() {
        let found = memory_controller(VERSION_ONE, "8:pids:/\n4:memory:/a:b\n0::/\n");
        assert_eq!(found, Some((PathBuf::from("/sys/fs/cgroup/memory"), "/a:b".into(), Version::One)));
    }

    #[test]
    fn version_two_has_one_line() {
        let found = memory_controller(VERSION_TWO, "0::/user.slice\n");
        assert_eq!(found, Some((PathBuf::from("/sys/fs/cgroup"), "/user.slice".into(), Version::Two)));
    }

    #[test]
    fn a_machine_without_either_is_told_apart() {
        assert_eq!(memory_controller("proc /proc proc rw 0 0\n", ""), None);
    }
}
