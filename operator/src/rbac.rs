//! What the operator may do, as data: one row per kind of API call that it makes.
//!
//! Roles and bindings are rendered from the table, so a right without a call,
//! or a call without a right, is one edit away from being seen. A row is
//! granted in the whole cluster, in the namespaces with jobs, or in the
//! operator's own namespace. There are no wildcards. An installation for named
//! namespaces gets nothing cluster-wide: it reads no nodes, and then takes a
//! pod that vanished without an end as not proven gone.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names;

/// Name of the service account, the roles, the bindings and the Deployment.
pub const NAME: &str = names::MANAGER;
/// The lease of the leader.
pub const LEASE: &str = "weir-operator";
/// The Secret with the key that tokens of tasks are derived from.
pub const KEY_SECRET: &str = "weir-operator-key";
const CRD: &str = "streamingjobs.weir.dev";

/// Where a right holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The whole cluster; not granted to an installation for named namespaces.
    Cluster,
    /// The namespaces with jobs: all of them, or the named ones.
    JobNamespaces,
    /// The operator's own namespace.
    OwnNamespace,
}

/// When a right is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// In every installation.
    Always,
    /// Only where the operator watches Secrets.
    WatchesSecrets,
}

/// One kind of API call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Resource, with its subresource.
    pub resource: &'static str,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// The only objects that it may be used on; empty for all. `create` and `list` cannot be limited.
    pub names: &'static [&'static str],
    /// Where.
    pub reach: Reach,
    /// When.
    pub condition: Condition,
    /// Why the operator does it.
    pub why: &'static str,
}

impl ApiCall {
    const fn new(group: &'static str, resource: &'static str, verbs: &'static [&'static str], reach: Reach, why: &'static str) -> Self {
        Self { group, resource, verbs, names: &[], reach, condition: Condition::Always, why }
    }

    const fn only_on(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    const fn when(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }
}

/// All calls.
pub const API_CALLS: &[ApiCall] = &[
    ApiCall::new(
        "weir.dev",
        "streamingjobs",
        &["get", "list", "patch", "watch"],
        Reach::JobNamespaces,
        "jobs are watched, read uncached before each decision, and get a finalizer",
    ),
    ApiCall::new(
        "weir.dev",
        "streamingjobs/status",
        &["update"],
        Reach::JobNamespaces,
        "the memory of a job is written ahead of what it authorises",
    ),
    ApiCall::new(
        "weir.dev",
        "streamingjobs/finalizers",
        &["update"],
        Reach::JobNamespaces,
        "where the API server enforces owner references, an owner that blocks its deletion may only be set with this right",
    ),
    ApiCall::new(
        "",
        "pods",
        &["create", "delete", "get", "list", "patch", "watch"],
        Reach::JobNamespaces,
        "each attempt of a task is a pod, which is let go by a patch once its being there is remembered",
    ),
    ApiCall::new(
        "",
        "configmaps",
        &["create", "delete", "get", "list"],
        Reach::JobNamespaces,
        "accepted generations are ConfigMaps; options may come from others",
    ),
    ApiCall::new("", "secrets", &["get"], Reach::JobNamespaces, "a changed Secret with onChange Restart restarts its task")
        .when(Condition::WatchesSecrets),
    ApiCall::new("events.k8s.io", "events", &["create", "patch"], Reach::JobNamespaces, "what happens to a job is told by events"),
    ApiCall::new("", "nodes", &["get"], Reach::Cluster, "whether the node of a lost pod is gone"),
    ApiCall::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &["get"],
        Reach::Cluster,
        "a resource definition older than the operator is found at the start",
    )
    .only_on(&[CRD]),
    ApiCall::new("coordination.k8s.io", "leases", &["create"], Reach::OwnNamespace, "one leader: the first one makes the lease"),
    ApiCall::new("coordination.k8s.io", "leases", &["get", "update"], Reach::OwnNamespace, "one leader: it renews the lease")
        .only_on(&[LEASE]),
    ApiCall::new("", "secrets", &["create"], Reach::OwnNamespace, "the key that tokens of tasks are derived from is made once"),
    ApiCall::new("", "secrets", &["get"], Reach::OwnNamespace, "the same key is read after a restart").only_on(&[KEY_SECRET]),
];

/// The namespaces whose jobs an installation looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Cluster,
    /// These; they must exist.
    Namespaces(BTreeSet<String>),
}

/// Whether the operator reads Secrets of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretAccess {
    /// It does not; a Secret with onChange Restart is refused.
    None,
    /// It reads those that jobs name. The right cannot be limited to them.
    Watch,
}

/// An installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The operator's own namespace.
    pub namespace: String,
    /// The jobs that it looks after.
    pub scope: Scope,
    /// Whether it reads Secrets of jobs.
    pub secrets: SecretAccess,
}

/// The rights of an installation as objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    /// The operator's account.
    pub service_account: ServiceAccount,
    /// Cluster-wide rights; empty for named namespaces.
    pub cluster_roles: Vec<ClusterRole>,
    /// Who has them.
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
    /// Rights in namespaces.
    pub roles: Vec<Role>,
    /// Who has them.
    pub role_bindings: Vec<RoleBinding>,
}

/// Renders the rights of an installation.
pub fn rights(installation: &Installation) -> Rights {
    let own = rules(installation, &[Reach::OwnNamespace]);
    let mut rights = Rights {
        service_account: ServiceAccount { metadata: metadata(NAME, Some(&installation.namespace)), ..ServiceAccount::default() },
        cluster_roles: Vec::new(),
        cluster_role_bindings: Vec::new(),
        // A namespace with jobs may be the operator's own, so the names differ.
        roles: vec![role(&format!("{NAME}-own"), &installation.namespace, own)],
        role_bindings: vec![role_binding(&format!("{NAME}-own"), &installation.namespace, installation)],
    };
    match &installation.scope {
        Scope::Cluster => {
            let rules = Some(rules(installation, &[Reach::JobNamespaces, Reach::Cluster]));
            rights.cluster_roles.push(ClusterRole { metadata: metadata(NAME, None), rules, ..ClusterRole::default() });
            rights.cluster_role_bindings.push(ClusterRoleBinding {
                metadata: metadata(NAME, None),
                role_ref: role_ref("ClusterRole", NAME),
                subjects: Some(vec![subject(installation)]),
            });
        }
        Scope::Namespaces(namespaces) => {
            for namespace in namespaces {
                rights.roles.push(role(NAME, namespace, rules(installation, &[Reach::JobNamespaces])));
                rights.role_bindings.push(role_binding(NAME, namespace, installation));
            }
        }
    }
    rights
}

fn rules(installation: &Installation, reaches: &[Reach]) -> Vec<PolicyRule> {
    let is_granted = |call: &&ApiCall| match call.condition {
        Condition::Always => true,
        Condition::WatchesSecrets => installation.secrets == SecretAccess::Watch,
    };
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let rule = |call: &ApiCall| PolicyRule {
        api_groups: Some(list(&[call.group])),
        resources: Some(list(&[call.resource])),
        resource_names: (!call.names.is_empty()).then(|| list(call.names)),
        verbs: list(call.verbs),
        non_resource_urls: None,
    };
    API_CALLS.iter().filter(|call| reaches.contains(&call.reach)).filter(is_granted).map(rule).collect()
}

fn role(name: &str, namespace: &str, rules: Vec<PolicyRule>) -> Role {
    Role { metadata: metadata(name, Some(namespace)), rules: Some(rules) }
}

fn role_binding(name: &str, namespace: &str, installation: &Installation) -> RoleBinding {
    RoleBinding { metadata: metadata(name, Some(namespace)), role_ref: role_ref("Role", name), subjects: Some(vec![subject(installation)]) }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some("rbac.authorization.k8s.io".to_owned()), kind: kind.to_owned(), name: name.to_owned() }
}

fn subject(installation: &Installation) -> Subject {
    let namespace = Some(installation.namespace.clone());
    Subject { kind: "ServiceAccount".to_owned(), name: NAME.to_owned(), namespace, api_group: None }
}

/// Metadata of an object of the installation.
pub(crate) fn metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some([("app.kubernetes.io/name".to_owned(), NAME.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::CustomResourceExt;
    use weir_crds::StreamingJob;

    #[test]
    fn nothing_is_a_wildcard_and_every_right_has_a_reason() {
        for call in API_CALLS {
            let words = [call.group, call.resource].into_iter().chain(call.verbs.iter().copied()).chain(call.names.iter().copied());
            assert!(words.into_iter().all(|word| !word.contains('*')), "{call:?}");
            assert!(!call.why.is_empty() && !call.verbs.is_empty(), "{call:?}");
            assert!(call.verbs.is_sorted(), "{call:?}");
            let limited = !call.names.is_empty();
            assert!(
                !limited || !call.verbs.iter().any(|verb| ["create", "list", "watch"].contains(verb)),
                "cannot be limited by name: {call:?}"
            );
        }
    }

    #[test]
    fn the_table_names_the_resource_as_it_is() {
        assert_eq!(StreamingJob::crd_name(), CRD);
    }

    #[test]
    fn named_namespaces_get_nothing_cluster_wide() {
        let scope = Scope::Namespaces(["a".to_owned(), "weir-system".to_owned()].into());
        let rights = rights(&Installation { namespace: "weir-system".to_owned(), scope, secrets: SecretAccess::Watch });
        assert!(rights.cluster_roles.is_empty() && rights.cluster_role_bindings.is_empty());
        let mut names: Vec<_> = rights.roles.iter().map(|role| (role.metadata.namespace.clone(), role.metadata.name.clone())).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3, "no role replaces another");
        let reaches_nodes =
            |role: &Role| role.rules.iter().flatten().any(|rule| rule.resources.iter().flatten().any(|name| name == "nodes"));
        assert!(!rights.roles.iter().any(reaches_nodes));
    }

    #[test]
    fn secrets_of_jobs_are_read_only_where_asked_for() {
        let of = |secrets| {
            let rights = rights(&Installation { namespace: "weir-system".to_owned(), scope: Scope::Cluster, secrets });
            let rules = rights.cluster_roles.into_iter().flat_map(|role| role.rules.unwrap_or_default());
            rules
                .filter(|rule| rule.resources.iter().flatten().any(|name| name == "secrets"))
                .flat_map(|rule| rule.verbs)
                .collect::<Vec<_>>()
        };
        assert!(of(SecretAccess::None).is_empty());
        assert_eq!(of(SecretAccess::Watch), ["get"]);
    }
}
