//! kube-controller-manager, for the tests in which garbage collection or the end of a namespace matters.
//!
//! It runs the controllers that are asked for and no others, so that nothing
//! else writes. It knows a custom resource only if the CRD was there when it
//! started, or half a minute later.

use std::path::Path;
use std::process::Command;

/// Deletes what has lost its owner, and what is in a namespace that goes.
pub const GARBAGE_COLLECTION: &[&str] = &["garbage-collector-controller", "namespace-controller"];

/// Makes a `default` service account in every namespace.
pub const SERVICE_ACCOUNTS: &[&str] = &["serviceaccount-controller"];

pub(super) struct Settings<'a> {
    pub(super) kubeconfig: &'a Path,
    pub(super) key: &'a Path,
    pub(super) certificates: &'a Path,
    pub(super) port: u16,
    pub(super) controllers: &'a [&'a str],
}

pub(super) fn command(programs: &Path, settings: &Settings) -> Command {
    let mut command = Command::new(programs.join("kube-controller-manager"));
    for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
        command.arg(flag).arg(settings.kubeconfig);
    }
    command.arg("--service-account-private-key-file").arg(settings.key).arg("--cert-dir").arg(settings.certificates);
    command.args(["--use-service-account-credentials", "--leader-elect=false", "--bind-address=127.0.0.1"]);
    command.arg(format!("--secure-port={}", settings.port)).arg(format!("--controllers={}", settings.controllers.join(",")));
    command
}
