//! Builders: the Kubernetes objects that the operator makes, as pure functions of what it decided.
//!
//! A pod is rendered whole here, so nothing has to change it after it was
//! made (no webhook, no later patch). Who may create or delete what is built
//! here is no business of this module: nothing in it knows an API server.
//! Same arguments, same object, byte for byte.

mod config_map;
mod container;
mod pod;
mod references;
mod template;

pub use config_map::{ACCEPTED_KEY, BuildError, DOCUMENT_KEY, MAX_GENERATION_BYTES, generation_config_map, job_document};
pub use container::{CPU_REQUEST, MEMORY_LIMIT, MEMORY_REQUEST};
pub use pod::{PodOrder, pod};

pub(crate) use container::{field_variable, variable};
pub(crate) use pod::empty_dir;

use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

/// User and group of everything that Weir runs: `nonroot` of the common base images.
pub const USER: i64 = 65532;

/// Security context of a pod under the restricted pod security standard.
pub(crate) fn restricted_pod() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        // Mounted volumes are the group's, so that a process without root can write them.
        fs_group: Some(USER),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Security context of a container under the restricted pod security standard, with a root that nobody writes.
pub(crate) fn restricted_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        read_only_root_filesystem: Some(true),
        ..SecurityContext::default()
    }
}

#[cfg(test)]
mod pod_tests;
#[cfg(test)]
mod restricted_tests;
#[cfg(test)]
pub(crate) use restricted_tests::restricted_violations;
