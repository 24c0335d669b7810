//! What an installation is told once, at its start.

use std::path::PathBuf;
use std::time::Duration;

use crate::rbac::{Scope, SecretAccess};

/// The settings of an installation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `<namespace>/<name>` of the installation; jobs carry it, so that two installations over one scope do not fight.
    pub installation: String,
    /// Where jobs are looked after.
    pub scope: Scope,
    /// Image of pods whose manifest names none.
    pub image: String,
    /// Whether Secrets may be read.
    pub secrets: SecretAccess,
    /// The program that checks manifests (`weir`).
    pub checker: PathBuf,
    /// How often a running task is asked for its progress.
    pub poll_interval: Duration,
    /// Least time between two writes of a status whose progress alone has changed.
    pub progress_interval: Duration,
    /// How often ConfigMaps and Secrets with `onChange: Restart` are looked at.
    pub reference_interval: Duration,
    /// Most time between two looks at a job that nothing happens to.
    pub resync_interval: Duration,
    /// Jobs that are looked at side by side.
    pub concurrency: u16,
    /// How long one call to the API server may take.
    pub call_timeout: Duration,
}

impl Settings {
    /// The defaults of an installation.
    pub fn new(installation: impl Into<String>, scope: Scope, image: impl Into<String>) -> Settings {
        Settings {
            installation: installation.into(),
            scope,
            image: image.into(),
            secrets: SecretAccess::None,
            checker: PathBuf::from("weir"),
            poll_interval: Duration::from_secs(10),
            progress_interval: Duration::from_secs(30),
            reference_interval: Duration::from_secs(30),
            resync_interval: Duration::from_secs(600),
            concurrency: 32,
            call_timeout: Duration::from_secs(30),
        }
    }
}
