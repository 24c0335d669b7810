//! What an installation is told once, at its start.

use std::path::PathBuf;
use std::time::Duration;

use crate::budget;
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
    /// Checks that run at once.
    pub checks_at_once: usize,
    /// How often a running task is asked for its progress.
    pub poll_interval: Duration,
    /// Least time between two writes of a status whose progress alone has changed.
    pub progress_interval: Duration,
    /// How often ConfigMaps and Secrets with `onChange: Restart` are looked at.
    pub reference_interval: Duration,
    /// Most time between two looks at a job that nothing happens to.
    pub resync_interval: Duration,
    /// How long a watch lasts before it is begun anew, seconds.
    pub watch_seconds: u32,
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
            checks_at_once: budget::CHECKS.into(),
            poll_interval: Duration::from_secs(10),
            progress_interval: Duration::from_secs(30),
            reference_interval: Duration::from_secs(30),
            resync_interval: Duration::from_secs(600),
            watch_seconds: 240,
            concurrency: 32,
            call_timeout: Duration::from_secs(30),
        }
    }

    /// A watch that is not heard for this long is taken for dead: it should have ended before that.
    pub fn watch_stale_after(&self) -> Duration {
        Duration::from_secs(self.watch_seconds.into()).mul_f64(1.25)
    }

    /// How often a task is asked that is not ready yet.
    pub fn starting_poll_interval(&self) -> Duration {
        self.poll_interval.min(Duration::from_secs(1))
    }

    /// The wait before a look at a job that nothing happens to, by a draw from 0 to 1: up to a fifth shorter than the
    /// interval, so that jobs which were looked at together do not stay together.
    pub fn resync(&self, draw: f64) -> Duration {
        self.resync_interval.mul_f64(1.0 - 0.2 * draw.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_idle_jobs_spread() {
        let settings = Settings::new("weir-system/weir-operator", Scope::Cluster, "weir:test");
        assert_eq!(settings.resync(0.0), Duration::from_secs(600));
        assert_eq!(settings.resync(1.0), Duration::from_secs(480));
    }
}
