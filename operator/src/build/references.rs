//! The Secrets and ConfigMaps that a task reads, as folders of files: `<folder>/<name>/<key>`.
//!
//! One projected volume a name: a Secret and a ConfigMap of the same name
//! share a folder, as `weir task` looks them up, and the Secret's value wins
//! where both have a key. What options come from must exist, and the kubelet
//! keeps the pod waiting until it does; an address for notifications is
//! optional, because a missing one must not keep a stream from running.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, KeyToPath, ProjectedVolumeSource, SecretProjection, Volume, VolumeMount, VolumeProjection,
};
use weir_crds::{StreamingJobSpec, TaskSpec};

/// Where they are mounted.
pub(super) const FOLDER: &str = "/etc/weir/references";
/// Read by the owner and the group of the engine only.
const MODE: i32 = 0o440;

/// What is mounted under one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reference {
    name: String,
    secret: Option<SecretKeys>,
    has_config_map: bool,
}

/// Which keys of a Secret are mounted.
#[derive(Clone, Debug, PartialEq)]
enum SecretKeys {
    All,
    Optional(BTreeSet<String>),
}

/// What a task reads, in the order of names.
pub(super) fn of_task(spec: &StreamingJobSpec, task: &TaskSpec) -> Vec<Reference> {
    let mut found: BTreeMap<&str, Reference> = BTreeMap::new();
    for options in task.queries.iter().flat_map(|query| query.options_from().flat_map(|(_, from)| from)) {
        if let Some(object) = &options.secret_ref {
            found.entry(&object.name).or_default().secret = Some(SecretKeys::All);
        }
        if let Some(object) = &options.config_map_ref {
            found.entry(&object.name).or_default().has_config_map = true;
        }
    }
    for receiver in spec.notifications.iter().flat_map(|notifications| &notifications.on_failure) {
        let key = &receiver.webhook.url_from.secret_key_ref;
        let secret = &mut found.entry(&key.name).or_default().secret;
        if let SecretKeys::Optional(keys) = secret.get_or_insert(SecretKeys::Optional(BTreeSet::new())) {
            keys.insert(key.key.clone());
        }
    }
    found.into_iter().map(|(name, reference)| Reference { name: name.to_owned(), ..reference }).collect()
}

/// The volume of the reference at a place in the list.
pub(super) fn volume((index, reference): (usize, &Reference)) -> Volume {
    let name = reference.name.clone();
    let config_map = reference.has_config_map.then(|| VolumeProjection {
        config_map: Some(ConfigMapProjection { name: name.clone(), ..ConfigMapProjection::default() }),
        ..VolumeProjection::default()
    });
    let secret = reference.secret.as_ref().map(|keys| VolumeProjection {
        secret: Some(match keys {
            SecretKeys::All => SecretProjection { name: name.clone(), ..SecretProjection::default() },
            SecretKeys::Optional(keys) => SecretProjection {
                name: name.clone(),
                items: Some(keys.iter().map(|key| KeyToPath { key: key.clone(), path: key.clone(), mode: None }).collect()),
                optional: Some(true),
            },
        }),
        ..VolumeProjection::default()
    });
    // Of two sources with the same key the kubelet takes the later one.
    let sources = config_map.into_iter().chain(secret).collect();
    Volume {
        name: volume_name(index),
        projected: Some(ProjectedVolumeSource { default_mode: Some(MODE), sources: Some(sources) }),
        ..Volume::default()
    }
}

/// Where the reference at a place in the list is mounted.
pub(super) fn mount((index, reference): (usize, &Reference)) -> VolumeMount {
    VolumeMount {
        name: volume_name(index),
        mount_path: format!("{FOLDER}/{}", reference.name),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

// Names of Secrets are longer than those of volumes may be.
fn volume_name(index: usize) -> String {
    format!("weir-reference-{index}")
}
