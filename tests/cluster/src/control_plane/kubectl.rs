//! The real kubectl, as a person types it.
//!
//! [`Kubectl::run`] leaves the runtime free while the program runs. Its caches
//! and settings are in the control plane's folder, never the home folder's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use weir_testkit::process::{Finished, Guarded};

use super::{ControlPlane, User};
use crate::wait::GENEROUS;

/// One invocation, made by [`ControlPlane::kubectl`].
#[must_use = "nothing happens before it is run"]
pub struct Kubectl<'a> {
    plane: &'a ControlPlane,
    arguments: Vec<OsString>,
    kubeconfig: PathBuf,
    input: String,
}

impl ControlPlane {
    /// kubectl with these arguments, as the admin unless [`Kubectl::by`] says another.
    pub fn kubectl(&self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Kubectl<'_> {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Kubectl { plane: self, arguments, kubeconfig: self.kubeconfig(User::Admin), input: String::new() }
    }
}

impl Kubectl<'_> {
    /// As another user.
    pub fn by(mut self, user: User) -> Self {
        self.kubeconfig = self.plane.kubeconfig(user);
        self
    }

    /// With another kubeconfig, such as a service account's.
    pub fn with_kubeconfig(mut self, kubeconfig: impl Into<PathBuf>) -> Self {
        self.kubeconfig = kubeconfig.into();
        self
    }

    /// With a text on standard input, for `-f -`.
    pub fn input(mut self, text: impl Into<String>) -> Self {
        self.input = text.into();
        self
    }

    /// Runs it to its end, whatever that is.
    pub async fn run(self) -> Result<Finished> {
        let (command, input) = (self.command(), self.input);
        tokio::task::spawn_blocking(move || finish(command, &input)).await.context("running kubectl")?
    }

    /// Runs it and returns what it printed; anything but success is an error.
    pub async fn stdout(self) -> Result<String> {
        let shown = format!("kubectl {}", self.arguments.join(" ".as_ref()).to_string_lossy());
        let finished = self.run().await?;
        if !finished.status.success() {
            bail!("{shown} ended with {}: {}{}", finished.status, finished.stdout, finished.stderr);
        }
        Ok(finished.stdout)
    }

    /// The same as [`Kubectl::run`] for callers outside a runtime.
    pub fn run_blocking(self) -> Result<Finished> {
        finish(self.command(), &self.input)
    }

    fn command(&self) -> Command {
        let home = self.plane.folder().join("kubectl-home");
        let mut command = Command::new(self.plane.programs().join("kubectl"));
        command.args(&self.arguments).env("HOME", home).env("KUBECONFIG", &self.kubeconfig).env_remove("KUBECACHEDIR");
        command
    }
}

fn finish(command: Command, input: &str) -> Result<Finished> {
    let mut process = Guarded::spawn("kubectl", command)?;
    if !input.is_empty() {
        process.write_line(input)?;
    }
    process.finish(GENEROUS)
}
