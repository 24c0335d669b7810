//! kube-apiserver on a port of its own, with its key, its tokens and its audit log.
//!
//! It makes its own serving certificate at its first start and keeps it, so
//! clients go on after a restart. Flags are the defaults of a real cluster,
//! with these exceptions: it advertises loopback and keeps no endpoints of
//! itself, because it is the only one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weir_testkit::process;

use super::service::Service;
use super::{Options, WatchCache, audit, users};
use crate::wait::GENEROUS;

pub(super) struct ApiServer {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    etcd: String,
    options: Options,
    service: Service,
}

impl ApiServer {
    /// Writes the files that the server reads.
    pub(super) fn prepare(programs: &Path, folder: &Path, port: u16, etcd: String, options: Options) -> Result<ApiServer> {
        let server = ApiServer {
            program: programs.join("kube-apiserver"),
            folder: folder.to_owned(),
            port,
            etcd,
            options,
            service: Service::new("kube-apiserver"),
        };
        let write = |path: PathBuf, text: String| std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()));
        write(server.tokens(), users::token_file())?;
        write(server.audit_policy(), audit::policy(server.options.audit))?;
        write(server.audit_log(), String::new())?;
        write_key(&server.key())?;
        Ok(server)
    }

    pub(super) fn address(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The bundle that proves the server's certificate; there from the first start on.
    pub(super) fn authority(&self) -> PathBuf {
        self.certificates().join("apiserver.crt")
    }

    /// The key of service account tokens.
    pub(super) fn key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(format!("--etcd-servers={}", self.etcd));
        command.arg(format!("--secure-port={}", self.port)).args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"]);
        command.args(["--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true"]);
        command.arg("--cert-dir").arg(self.certificates());
        command.arg("--service-account-issuer=https://kubernetes.default.svc");
        command.arg("--service-account-key-file").arg(self.key()).arg("--service-account-signing-key-file").arg(self.key());
        command.args(["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--profiling=false"]);
        command.arg("--token-auth-file").arg(self.tokens());
        command.arg("--audit-policy-file").arg(self.audit_policy()).arg("--audit-log-path").arg(self.audit_log());
        // In megabytes; a log that is begun anew would lose the readers' places.
        command.arg("--audit-log-maxsize=100000");
        match self.options.watch_cache {
            WatchCache::On => {}
            WatchCache::Off => {
                command.arg("--watch-cache=false");
            }
        }
        command.args(&self.options.api_server_flags);
        // Short-lived servers on few cores: what they burn is to a third the collection of garbage.
        command.env("GOGC", "400");
        command
    }

    fn certificates(&self) -> PathBuf {
        self.folder.join("certificates")
    }

    fn tokens(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    fn audit_policy(&self) -> PathBuf {
        self.folder.join("audit-policy.yaml")
    }
}

/// An elliptic key takes no time to make, unlike an RSA one.
fn write_key(path: &Path) -> Result<()> {
    let mut command = Command::new("openssl");
    command.args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"]).arg(path);
    let made = process::run("openssl", command, GENEROUS).context("making the key of service accounts needs openssl on the PATH")?;
    ensure!(made.status.success(), "openssl made no key for service accounts: {}", made.stderr);
    Ok(())
}
