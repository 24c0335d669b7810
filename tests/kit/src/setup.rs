//! Finds what the set-up scripts put into the cache, running the script when it is not there yet.
//!
//! The scripts print the folder as their last line on standard output and are quick when nothing is to be done, so they are asked every time;
//! the answer is kept for the life of the process.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The checkout that this crate was compiled in.
pub fn repository() -> PathBuf {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR"));
    kit.ancestors().nth(2).expect("the kit lives two folders below the repository's root").to_owned()
}

/// The folder of the set-up scripts' cache, as they compute it.
pub fn cache() -> PathBuf {
    let from_home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".cache");
    match std::env::var_os("WEIR_CACHE") {
        Some(own) => own.into(),
        None => std::env::var_os("XDG_CACHE_HOME").map_or_else(from_home, PathBuf::from).join("weir"),
    }
}

/// The folder with the broker's jars.
pub fn kafka_jars() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    once(&FOUND, "setup-kafka.sh")
}

/// The folder with `weed`, the S3 store.
pub fn seaweedfs_program() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    once(&FOUND, "setup-seaweedfs.sh")
}

/// The folder with `venv/` and `jars/` of the judge.
pub fn judge_home() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    once(&FOUND, "setup-judge.sh")
}

/// The folder with the Kubernetes programs: etcd, kube-apiserver, kube-controller-manager, kubectl.
pub fn kubernetes_programs() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    once(&FOUND, "setup-kubernetes.sh")
}

/// A binary of this workspace, built beside the running test: `binary("weir")`. Tests of the crate that owns it use `CARGO_BIN_EXE_…` instead.
pub fn binary(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe().context("asking for the path of this test")?;
    let folder = test.ancestors().nth(2).context("a test binary lies in a folder `deps` of the target folder")?;
    let path = folder.join(name);
    if !path.is_file() {
        bail!("{} is not built: run `cargo build -p {name} --features weir-core/failpoints` with the same target folder", path.display());
    }
    Ok(path)
}

fn once(found: &OnceLock<PathBuf>, script: &str) -> Result<PathBuf> {
    if let Some(folder) = found.get() {
        return Ok(folder.clone());
    }
    let folder = run_script(script)?;
    Ok(found.get_or_init(|| folder).clone())
}

fn run_script(script: &str) -> Result<PathBuf> {
    let path = repository().join("scripts").join(script);
    let output = Command::new("bash")
        .arg(&path)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", path.display()))?;
    if !output.status.success() {
        bail!("{} ended with {}; its messages are above", path.display(), output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let folder = PathBuf::from(text.lines().last().unwrap_or_default());
    if !folder.is_dir() {
        bail!("{} printed `{}`, which is no folder", path.display(), folder.display());
    }
    Ok(folder)
}
