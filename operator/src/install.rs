//! A whole installation as YAML, for one `kubectl apply --server-side -f -`.
//!
//! Documents come in the order in which they can be applied: namespace,
//! resource definition, rights, workload. Same options, same text. Two
//! replicas, of which the one with the lease works. Namespaces with jobs are
//! not made here: they are the users'.
//!
//! What the process learns from here: its arguments (`run`, `--namespaces`,
//! `--watch-secrets`) and the variables named below.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, ContainerPort, EnvVar, HTTPGetAction, Namespace, PodAffinityTerm, PodAntiAffinity, PodSpec, PodTemplateSpec,
    Probe, ResourceRequirements, Service, ServicePort, ServiceSpec, VolumeMount, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use crate::budget;
use crate::build::{empty_dir, field_variable, restricted_container, restricted_pod, variable};
use crate::rbac::{self, Installation, NAME, Rights, Scope, SecretAccess, metadata};

/// The namespace of an installation that names none.
pub const DEFAULT_NAMESPACE: &str = "weir-system";
/// Port of `/metrics`, `/livez` and `/readyz`.
pub const HTTP_PORT: u16 = 8081;
/// Environment variable: the operator's own image, which is that of jobs that name none.
pub const IMAGE_VARIABLE: &str = "WEIR_IMAGE";
/// Environment variable: the operator's own namespace.
pub const NAMESPACE_VARIABLE: &str = "POD_NAMESPACE";
/// Environment variable: the name of the operator's pod, its identity in the lease.
pub const IDENTITY_VARIABLE: &str = "POD_NAME";

const PORT_NAME: &str = "http";
const REPLICAS: i32 = 2;

/// What an installation is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallOptions {
    /// Image of the operator, and of jobs that name none.
    pub image: String,
    /// Where, for which jobs, with which rights.
    pub installation: Installation,
}

/// The resource definition.
pub fn crd() -> String {
    weir_crds::resource::crd_yaml()
}

/// Service account, roles and bindings.
pub fn rbac(installation: &Installation) -> String {
    documents(&rights_documents(&rbac::rights(installation)))
}

/// Everything.
pub fn manifests(options: &InstallOptions) -> String {
    let installation = &options.installation;
    let before = vec![document(&namespace(installation)), crd()];
    let after = vec![document(&service(installation)), document(&deployment(options))];
    documents(&[before, rights_documents(&rbac::rights(installation)), after].concat())
}

fn rights_documents(rights: &Rights) -> Vec<String> {
    let mut all = vec![document(&rights.service_account)];
    all.extend(rights.cluster_roles.iter().map(document));
    all.extend(rights.cluster_role_bindings.iter().map(document));
    all.extend(rights.roles.iter().map(document));
    all.extend(rights.role_bindings.iter().map(document));
    all
}

fn document(object: &impl Serialize) -> String {
    serde_yaml_ng::to_string(object).expect("Kubernetes objects are plain maps, lists and strings")
}

fn documents(texts: &[String]) -> String {
    texts.join("---\n")
}

fn namespace(installation: &Installation) -> Namespace {
    let mut metadata = metadata(&installation.namespace, None);
    let enforce = ("pod-security.kubernetes.io/enforce".to_owned(), "restricted".to_owned());
    metadata.labels.get_or_insert_default().extend([enforce]);
    Namespace { metadata, ..Namespace::default() }
}

fn selector() -> BTreeMap<String, String> {
    metadata(NAME, None).labels.unwrap_or_default()
}

fn service(installation: &Installation) -> Service {
    Service {
        metadata: metadata(&format!("{NAME}-metrics"), Some(&installation.namespace)),
        spec: Some(ServiceSpec {
            // Each replica is asked by itself: only the leader has figures of jobs.
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector()),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: i32::from(HTTP_PORT),
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn deployment(options: &InstallOptions) -> Deployment {
    let pod = PodSpec {
        affinity: Some(apart()),
        automount_service_account_token: Some(true),
        containers: vec![container(options)],
        enable_service_links: Some(false),
        security_context: Some(restricted_pod()),
        service_account_name: Some(NAME.to_owned()),
        volumes: Some(vec![empty_dir("tmp")]),
        ..PodSpec::default()
    };
    Deployment {
        metadata: metadata(NAME, Some(&options.installation.namespace)),
        spec: Some(DeploymentSpec {
            replicas: Some(REPLICAS),
            selector: LabelSelector { match_labels: Some(selector()), match_expressions: None },
            template: PodTemplateSpec { metadata: Some(ObjectMeta { labels: Some(selector()), ..ObjectMeta::default() }), spec: Some(pod) },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// The replicas on two nodes where there are two.
fn apart() -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: Some(selector()), match_expressions: None }),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    let preferred = WeightedPodAffinityTerm { pod_affinity_term: term, weight: 100 };
    let anti =
        PodAntiAffinity { preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]), ..PodAntiAffinity::default() };
    Affinity { pod_anti_affinity: Some(anti), ..Affinity::default() }
}

fn container(options: &InstallOptions) -> Container {
    Container {
        name: "operator".to_owned(),
        image: Some(options.image.clone()),
        command: Some(vec!["weir-operator".to_owned()]),
        args: Some(arguments(&options.installation)),
        env: Some(environment(&options.image)),
        ports: Some(vec![ContainerPort {
            name: Some(PORT_NAME.to_owned()),
            container_port: i32::from(HTTP_PORT),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(Probe { period_seconds: Some(10), failure_threshold: Some(6), ..probe("/livez") }),
        readiness_probe: Some(Probe { period_seconds: Some(5), failure_threshold: Some(3), ..probe("/readyz") }),
        resources: Some(resources()),
        security_context: Some(restricted_container()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(vec![VolumeMount { name: "tmp".to_owned(), mount_path: "/tmp".to_owned(), ..VolumeMount::default() }]),
        ..Container::default()
    }
}

fn arguments(installation: &Installation) -> Vec<String> {
    let mut arguments = vec!["run".to_owned()];
    if let Scope::Namespaces(namespaces) = &installation.scope {
        arguments.push(format!("--namespaces={}", namespaces.iter().map(String::as_str).collect::<Vec<_>>().join(",")));
    }
    if installation.secrets == SecretAccess::Watch {
        arguments.push("--watch-secrets".to_owned());
    }
    arguments
}

fn environment(image: &str) -> Vec<EnvVar> {
    vec![
        variable(IMAGE_VARIABLE, image),
        field_variable(NAMESPACE_VARIABLE, "metadata.namespace"),
        field_variable(IDENTITY_VARIABLE, "metadata.name"),
        variable("WEIR_LOG_FORMAT", "json"),
    ]
}

fn probe(path: &str) -> Probe {
    let http = HTTPGetAction { path: Some(path.to_owned()), port: IntOrString::String(PORT_NAME.to_owned()), ..HTTPGetAction::default() };
    Probe { http_get: Some(http), timeout_seconds: Some(5), ..Probe::default() }
}

/// The operator is always there, checks of manifests come and go.
fn resources() -> ResourceRequirements {
    let quantity = |resource: &str, value: String| (resource.to_owned(), Quantity(value));
    let memory = |bytes: u64| quantity("memory", budget::quantity(bytes));
    ResourceRequirements {
        requests: Some([quantity("cpu", "50m".to_owned()), memory(budget::OWN)].into()),
        limits: Some([memory(budget::container(budget::CHECKS))].into()),
        claims: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    fn options(scope: Scope, secrets: SecretAccess) -> InstallOptions {
        let installation = Installation { namespace: DEFAULT_NAMESPACE.to_owned(), scope, secrets };
        InstallOptions { image: "example.com/weir:0.1.0".to_owned(), installation }
    }

    fn named() -> Scope {
        Scope::Namespaces(["lake".to_owned(), "sensors".to_owned()].into())
    }

    fn parsed(text: &str) -> Vec<Value> {
        serde_yaml_ng::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
    }

    /// Everything but the resource definition, which has a file of its own.
    fn without_crd(text: &str) -> String {
        text.split("---\n").filter(|document| !document.contains("kind: CustomResourceDefinition")).collect::<Vec<_>>().join("---\n")
    }

    #[test]
    fn an_installation_for_the_cluster() {
        insta::assert_snapshot!(without_crd(&manifests(&options(Scope::Cluster, SecretAccess::None))));
    }

    #[test]
    fn an_installation_for_named_namespaces_that_watches_secrets() {
        insta::assert_snapshot!(without_crd(&manifests(&options(named(), SecretAccess::Watch))));
    }

    #[test]
    fn rights_for_the_cluster_that_watch_secrets() {
        insta::assert_snapshot!(rbac(&options(Scope::Cluster, SecretAccess::Watch).installation));
    }

    #[test]
    fn the_order_can_be_applied_and_no_object_comes_twice() {
        let all = parsed(&manifests(&options(named(), SecretAccess::None)));
        let kinds: Vec<_> = all.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let order = [
            "Namespace",
            "CustomResourceDefinition",
            "ServiceAccount",
            "Role",
            "Role",
            "Role",
            "RoleBinding",
            "RoleBinding",
            "RoleBinding",
            "Service",
            "Deployment",
        ];
        assert_eq!(kinds, order);
        let mut keys: Vec<_> =
            all.iter().map(|o| format!("{} {} {}", o["kind"], o["metadata"]["namespace"], o["metadata"]["name"])).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all.len());
    }

    #[test]
    fn the_operator_keeps_the_restricted_rules() {
        let deployment = deployment(&options(Scope::Cluster, SecretAccess::None));
        let spec = deployment.spec.unwrap().template.spec.unwrap();
        assert_eq!(crate::build::restricted_violations(&spec), Vec::<String>::new());
    }

    #[test]
    fn checks_that_use_up_their_limits_leave_the_operator_what_it_needs() {
        let deployment = deployment(&options(Scope::Cluster, SecretAccess::None));
        let container = deployment.spec.unwrap().template.spec.unwrap().containers.remove(0);
        assert!(container.args.unwrap().iter().all(|argument| !argument.contains("checks-at-once")), "the default holds");
        let common = crate::settings::Settings::new("a/b", Scope::Cluster, "weir").checks_at_once;
        let checks = u64::try_from(common).unwrap() + u64::from(budget::COSTLY_CHECKS);
        let resources = container.resources.unwrap();
        let bytes = |list: Option<BTreeMap<String, Quantity>>| -> u64 {
            list.unwrap()["memory"].0.strip_suffix("Mi").unwrap().parse::<u64>().unwrap() << 20
        };
        let (request, limit) = (bytes(resources.requests), bytes(resources.limits));
        assert!(limit >= request + checks * crate::check::Limits::default().memory, "{limit} bytes for {checks} checks");
    }

    #[test]
    fn the_same_options_give_the_same_text() {
        let text = || manifests(&options(named(), SecretAccess::Watch));
        assert_eq!(text(), text());
    }
}
