//! Where the stand-in's program is, for tests of other packages too.
//!
//! Cargo builds a dependency's library and not its programs. Where the whole
//! workspace was built for the tests (`WEIR_TEST_BUILT`, set by `make test`)
//! the program stands beside them already; else it is built once per test
//! process. That second build has other features, so it compiles much anew.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};

/// Path of the program, built when needed.
///
/// # Panics
/// When it cannot be built; the message has the compiler's.
pub fn binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build().expect("the stand-in can be built")).clone()
}

fn build() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding the test's own program")?;
    // target/debug/deps/test-0123, target/debug/examples/program or target/debug/program
    let folder = own.parent().context("a program lies in a folder")?;
    let profile = if folder.ends_with("deps") || folder.ends_with("examples") {
        folder.parent().context("deps and examples lie in a folder")?
    } else {
        folder
    };
    let program = profile.join("weir-standin");
    if std::env::var_os("WEIR_TEST_BUILT").is_some() && program.is_file() {
        return Ok(program);
    }
    let target = profile.parent().context("a profile's folder lies in the target folder")?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--offline", "--package", "weir-testcluster", "--bin", "weir-standin", "--target-dir"]).arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("starting cargo")?;
    ensure!(output.status.success(), "building the stand-in failed:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}
