//! A real control plane on loopback: etcd and kube-apiserver, if wanted kube-controller-manager, and the real kubectl.
//!
//! Invariants:
//! - The API server keeps its address, its certificate, its tokens and its data over [`ControlPlane::kill`] and [`ControlPlane::restart`].
//! - [`ControlPlane::shared`] is one for all tests of a test binary; its tests keep to namespaces of their own, and what would disturb
//!   others (freezing, killing, restoring) is refused on it.
//! - Nothing here belongs to a runtime: clients are made anew for whoever asks, so a test's runtime may end before the control plane does.
//!
//! There is no kubelet, scheduler or endpoint: a pod stays as it was created until somebody writes its status.

mod apiserver;
mod audit;
mod controller_manager;
mod crd;
mod etcd;
mod kubectl;
mod objects;
mod service;
mod users;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use weir_testkit::{ports, scratch, setup};

pub use audit::{Audit, AuditEvent, AuditMark};
pub use controller_manager::{GARBAGE_COLLECTION, SERVICE_ACCOUNTS};
pub use etcd::Snapshot;
pub use kubectl::Kubectl;
pub use users::{NODES, User};

use apiserver::ApiServer;
use audit::AuditLog;
use etcd::Etcd;
use service::Service;
use users::Kubeconfigs;

/// One question about readiness; a server under load may take longer than a healthy one, so the next question is patient too.
const ANSWER: Duration = Duration::from_secs(5);

/// What a test may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub audit: Audit,
    pub watch_cache: WatchCache,
    /// More flags of kube-apiserver, such as `--request-timeout=5s`; they come last and win.
    pub api_server_flags: Vec<String>,
}

/// The API server's own cache. Without it, reads and watches go to etcd, and compaction ends watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchCache {
    #[default]
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    OneTest,
    AllTests,
}

/// The control plane of this test, or of the whole test binary.
pub struct ControlPlane {
    // Fields are dropped in this order: who asks first, who answers last, and then the data.
    controller_manager: Service,
    api_server: ApiServer,
    etcd: Etcd,
    audit: AuditLog,
    kubeconfigs: Kubeconfigs,
    programs: PathBuf,
    owner: Owner,
    folder: TempDir,
}

impl ControlPlane {
    /// Starts etcd and the API server; ready for clients when it returns.
    pub async fn start(options: Options) -> Result<ControlPlane> {
        ControlPlane::start_for(Owner::OneTest, options).await
    }

    /// The one control plane of this test binary, with Weir's CRD and the default options, started by the first test that asks and ended
    /// when the process exits.
    pub async fn shared() -> &'static ControlPlane {
        static SHARED: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
        let shared = SHARED
            .get_or_init(|| async {
                scratch::at_exit(|| {
                    if let Some(Ok(plane)) = SHARED.get() {
                        plane.end();
                    }
                });
                let started = async {
                    let plane = ControlPlane::start_for(Owner::AllTests, Options::default()).await?;
                    plane.install_crd().await?;
                    Ok(plane)
                };
                started.await.map_err(|error: anyhow::Error| format!("{error:#}"))
            })
            .await;
        shared.as_ref().unwrap_or_else(|error| panic!("the shared control plane did not start: {error}"))
    }

    async fn start_for(owner: Owner, options: Options) -> Result<ControlPlane> {
        let programs = tokio::task::spawn_blocking(setup::kubernetes_programs).await.context("looking for the Kubernetes programs")??;
        let folder = scratch::folder("control-plane")?;
        let etcd = Etcd::new(&programs, folder.path())?;
        let api_server = ApiServer::prepare(&programs, folder.path(), ports::reserve()?, etcd.address(), options)?;
        let plane = ControlPlane {
            controller_manager: Service::new("kube-controller-manager"),
            audit: AuditLog::new(api_server.audit_log()),
            kubeconfigs: Kubeconfigs::write(&folder.path().join("kubeconfigs"), api_server.address(), api_server.authority())?,
            api_server,
            etcd,
            programs,
            owner,
            folder,
        };
        plane.etcd.start().await?;
        plane.start_api_server().await?;
        plane.prepare_namespaces().await?;
        Ok(plane)
    }

    /// `https://127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        self.api_server.address()
    }

    /// A client on the runtime of the caller. Not to be handed to another runtime.
    pub async fn client(&self, user: User) -> Result<Client> {
        Client::try_from(self.config(user).await?).with_context(|| format!("making a client for {}", user.name()))
    }

    /// What a client of this user is made of.
    pub async fn config(&self, user: User) -> Result<Config> {
        config_from(&self.kubeconfig(user)).await
    }

    /// The kubeconfig file of this user.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.kubeconfigs.path(user)
    }

    /// A place in the audit log: everything answered by now is before it.
    pub fn audit_mark(&self) -> Result<AuditMark> {
        self.audit.mark()
    }

    /// The writes that were received since the mark, of all users, in the order of receipt; those still open are waited for.
    pub async fn writes_since(&self, mark: AuditMark) -> Result<Vec<AuditEvent>> {
        let all = self.audit.since(mark).await?;
        Ok(all.into_iter().filter(AuditEvent::is_write).collect())
    }

    /// The same of every request that the log contains, see [`Audit::AllRequests`]. A running watch has no code yet.
    pub async fn requests_since(&self, mark: AuditMark) -> Result<Vec<AuditEvent>> {
        self.audit.since(mark).await
    }

    /// SIGSTOP to the API server: connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.check_own("frozen")?;
        self.api_server.service().freeze()
    }

    /// SIGCONT to the API server.
    pub fn thaw(&self) -> Result<()> {
        self.api_server.service().thaw()
    }

    /// SIGKILL to the API server.
    pub async fn kill(&self) -> Result<()> {
        self.check_own("killed")?;
        self.api_server.service().kill().await?;
        self.audit.server_was_killed()
    }

    /// Starts a killed API server again, at the same address with the same data, and waits until it is ready.
    pub async fn restart(&self) -> Result<()> {
        self.check_own("restarted")?;
        self.start_api_server().await
    }

    /// Copies the state of the cluster. etcd stands still meanwhile (some 0.2 s), nothing ends.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.check_own("copied")?;
        self.etcd.snapshot().await
    }

    /// Goes back to an earlier state: the API server (which may be killed already) and etcd are killed and started on the copy.
    /// Resource versions go back too, as they do in a real restore.
    pub async fn restore(&self, snapshot: &Snapshot) -> Result<()> {
        self.check_own("restored")?;
        if self.api_server.service().id().is_some() {
            self.kill().await?;
        }
        self.etcd.service().kill().await?;
        self.etcd.put_back(snapshot).await?;
        self.etcd.start().await?;
        self.start_api_server().await
    }

    /// Starts kube-controller-manager with these controllers only, such as [`GARBAGE_COLLECTION`].
    pub async fn start_controller_manager(&self, controllers: &[&str]) -> Result<()> {
        self.check_own("given a controller manager")?;
        let settings = controller_manager::Settings {
            kubeconfig: &self.kubeconfig(User::ControllerManager),
            key: &self.api_server.key(),
            certificates: &self.folder().join("controller-manager-certificates"),
            port: ports::reserve()?,
            controllers,
        };
        self.controller_manager.start(controller_manager::command(&self.programs, &settings))
    }

    /// Process id of the API server while it runs.
    pub fn api_server_id(&self) -> Option<u32> {
        self.api_server.service().id()
    }

    /// What the API server has logged since it was started last.
    pub fn api_server_log(&self) -> Vec<String> {
        self.api_server.service().log()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn programs(&self) -> &Path {
        &self.programs
    }

    async fn start_api_server(&self) -> Result<()> {
        let service = self.api_server.service();
        service.start(self.api_server.command())?;
        service
            .until_ready(|| async {
                // The first start makes the certificate that the client needs, so the client is made in here.
                let client = self.client(User::Admin).await?;
                let request = http::Request::get("/readyz").body(Vec::new())?;
                let answer = timeout(ANSWER, client.request_text(request)).await.context("/readyz did not answer")??;
                ensure!(answer == "ok", "/readyz says {answer}");
                Ok(())
            })
            .await
    }

    fn check_own(&self, action: &str) -> Result<()> {
        ensure!(
            self.owner == Owner::OneTest,
            "the shared control plane cannot be {action}: start one for this test with ControlPlane::start"
        );
        Ok(())
    }

    fn end(&self) {
        for service in [&self.controller_manager, self.api_server.service(), self.etcd.service()] {
            service.end();
        }
    }
}

/// What a client is made of, from a kubeconfig file.
pub async fn config_from(kubeconfig: &Path) -> Result<Config> {
    let read = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    config.with_context(|| format!("reading {}", kubeconfig.display()))
}
