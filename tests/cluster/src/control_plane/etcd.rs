//! etcd: one member, its data in a folder that can be copied and put back.
//!
//! Nothing is flushed to the disk (`--unsafe-no-fsync`): the data has to
//! survive the process, not the machine. A copy is taken while the process is
//! frozen, so that clients see a pause and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use weir_testkit::{ports, scratch};

use super::service::Service;

pub(super) struct Etcd {
    program: PathBuf,
    data: PathBuf,
    port: u16,
    peer_port: u16,
    service: Service,
}

/// The state of a cluster at one moment.
pub struct Snapshot {
    folder: TempDir,
}

impl Etcd {
    pub(super) fn new(programs: &Path, folder: &Path) -> Result<Etcd> {
        Ok(Etcd {
            program: programs.join("etcd"),
            data: folder.join("etcd"),
            port: ports::reserve()?,
            peer_port: ports::reserve()?,
            service: Service::new("etcd"),
        })
    }

    /// The address for `--etcd-servers`.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// Starts it on what is in the data folder, and waits until clients are served.
    pub(super) async fn start(&self) -> Result<()> {
        self.service.start(self.command())?;
        self.service
            .until_ready(|| async {
                let served = self.service.log().iter().any(|line| line.contains("ready to serve client requests"));
                ensure!(served, "it has not said that it serves clients");
                Ok(())
            })
            .await
    }

    /// Copies the data while the process stands still.
    pub(super) async fn snapshot(&self) -> Result<Snapshot> {
        let folder = scratch::folder("etcd-snapshot")?;
        self.service.freeze()?;
        let copied = copy_in_background(&self.data, folder.path()).await;
        self.service.thaw()?;
        copied?;
        Ok(Snapshot { folder })
    }

    /// Puts a copy in the place of the data; the process must not run.
    pub(super) async fn put_back(&self, snapshot: &Snapshot) -> Result<()> {
        fs::remove_dir_all(&self.data).with_context(|| format!("removing {}", self.data.display()))?;
        copy_in_background(snapshot.folder.path(), &self.data).await
    }

    fn command(&self) -> Command {
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let mut command = Command::new(&self.program);
        command.arg("--data-dir").arg(&self.data).args(["--name=test", "--unsafe-no-fsync", "--log-level=info"]);
        command.arg(format!("--listen-client-urls={}", self.address())).arg(format!("--advertise-client-urls={}", self.address()));
        command.arg(format!("--listen-peer-urls={peer}")).arg(format!("--initial-advertise-peer-urls={peer}"));
        command.arg(format!("--initial-cluster=test={peer}"));
        // What the API server's watch cache asks of etcd; the default of ten minutes is for other users.
        command.arg("--watch-progress-notify-interval=5s");
        command
    }
}

async fn copy_in_background(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (from.to_owned(), to.to_owned());
    tokio::task::spawn_blocking(move || copy_folder(&from, &to)).await.context("copying etcd's data")?
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    // etcd refuses folders that others can read.
    fs::set_permissions(to, fs::metadata(from)?.permissions()).with_context(|| format!("setting the mode of {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            fs::copy(&source, &target).with_context(|| format!("copying {} to {}", source.display(), target.display()))?;
        }
    }
    Ok(())
}
