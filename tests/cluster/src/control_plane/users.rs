//! Who may talk to the API server: the token file and a kubeconfig for each user.
//!
//! [`User::Admin`] may do everything. The two operators may do nothing until a
//! test grants it with RBAC objects; that is how the operator's own rights are
//! proven. Service accounts get real tokens from the API server, see
//! `ControlPlane::service_account`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

/// How many node users there are: `Node(1)` to `Node(NODES)`.
pub const NODES: u8 = 8;

/// A user of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum User {
    /// In `system:masters`: every right.
    Admin,
    /// `weir-operator`, without any right of its own.
    Operator,
    /// `weir-operator-2`, the same for a second installation.
    SecondOperator,
    /// `system:kube-controller-manager`, with the rights that the API server grants it by default.
    ControllerManager,
    /// `system:node:node-<n>`, from 1 to [`NODES`], in group `system:nodes`.
    Node(u8),
}

impl User {
    /// The name under which RBAC and the audit log know the user.
    pub fn name(self) -> String {
        match self {
            User::Admin => "admin".to_owned(),
            User::Operator => "weir-operator".to_owned(),
            User::SecondOperator => "weir-operator-2".to_owned(),
            User::ControllerManager => "system:kube-controller-manager".to_owned(),
            User::Node(number) => format!("system:node:node-{number}"),
        }
    }

    fn group(self) -> &'static str {
        match self {
            User::Admin => "system:masters",
            User::Node(_) => "system:nodes",
            User::Operator | User::SecondOperator | User::ControllerManager => "",
        }
    }

    fn token(self) -> String {
        format!("token-of-{}", self.file_part())
    }

    fn file_part(self) -> String {
        self.name().replace(':', "-")
    }
}

fn all() -> impl Iterator<Item = User> {
    let nodes = (1..=NODES).map(User::Node);
    [User::Admin, User::Operator, User::SecondOperator, User::ControllerManager].into_iter().chain(nodes)
}

/// The text of `--token-auth-file`: a line `token,user,uid,"groups"` for each user.
pub(super) fn token_file() -> String {
    all().fold(String::new(), |mut text, user| {
        writeln!(text, "{},{},uid-of-{},\"{}\"", user.token(), user.name(), user.file_part(), user.group())
            .expect("writing to a string cannot fail");
        text
    })
}

/// The folder of kubeconfig files, all for one server.
pub(super) struct Kubeconfigs {
    folder: PathBuf,
    server: String,
    authority: PathBuf,
}

impl Kubeconfigs {
    /// Writes a kubeconfig for each user. The authority's file need not exist yet.
    pub(super) fn write(folder: &Path, server: String, authority: PathBuf) -> Result<Kubeconfigs> {
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let configs = Kubeconfigs { folder: folder.to_owned(), server, authority };
        for user in all() {
            configs.write_one(&user.file_part(), &user.token())?;
        }
        Ok(configs)
    }

    /// Where the kubeconfig of a user is.
    pub(super) fn path(&self, user: User) -> PathBuf {
        self.path_of(&user.file_part())
    }

    /// Writes a kubeconfig for any token.
    pub(super) fn write_one(&self, name: &str, token: &str) -> Result<PathBuf> {
        // JSON is YAML.
        let document = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [{"name": "test", "cluster": {"server": self.server, "certificate-authority": self.authority}}],
            "users": [{"name": name, "user": {"token": token}}],
        });
        let path = self.path_of(name);
        std::fs::write(&path, format!("{document:#}\n")).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.kubeconfig"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_the_admin_is_a_master() {
        let text = token_file();
        let masters: Vec<&str> = text.lines().filter(|line| line.contains("system:masters")).collect();
        assert_eq!(masters, ["token-of-admin,admin,uid-of-admin,\"system:masters\""]);
        assert!(text.contains("token-of-system-node-node-8,system:node:node-8,uid-of-system-node-node-8,\"system:nodes\"\n"), "{text}");
    }

    #[test]
    fn users_share_no_token_and_no_file() {
        let tokens: BTreeSet<String> = all().map(User::token).collect();
        assert_eq!(tokens.len(), all().count());
    }
}
