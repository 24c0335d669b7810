//! What of a task's pod is Weir's own and cannot be given in `podTemplate`.
//!
//! The operator builds with these names and the rules refuse them in a
//! template, so that nothing which somebody wrote is left out in silence.

/// Labels and annotations that begin so are Weir's.
pub const KEY_PREFIX: &str = "weir.dev/";
/// Label: who made this. Watches select on it.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Annotation: the container that `kubectl logs` and `kubectl exec` mean where none is named.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Environment variable: the epoch, the fence token of the pod.
pub const EPOCH_VARIABLE: &str = "WEIR_EPOCH";
/// Environment variable: the pod's address, which the task listens on.
pub const POD_IP_VARIABLE: &str = "POD_IP";
/// Environment variable: UID of the pod.
pub const POD_UID_VARIABLE: &str = "WEIR_POD_UID";
/// Environment variable: the token of `PUT /v1/config`.
pub const TOKEN_VARIABLE: &str = "WEIR_TASK_TOKEN";
/// Volumes that begin so are Weir's.
pub const VOLUME_PREFIX: &str = "weir-";
/// Volumes that a template may replace: `/tmp` and the task's state.
pub const REPLACEABLE_VOLUMES: [&str; 2] = ["weir-tmp", "weir-state"];
/// Manifest and references are mounted in here.
pub const FOLDER: &str = "/etc/weir";

/// Whether a label is Weir's.
pub fn is_label(key: &str) -> bool {
    key.starts_with(KEY_PREFIX) || key == LABEL_MANAGED_BY
}

/// Whether an annotation is Weir's.
pub fn is_annotation(key: &str) -> bool {
    key.starts_with(KEY_PREFIX) || key == DEFAULT_CONTAINER
}

/// Whether a variable of the environment is Weir's.
pub fn is_variable(name: &str) -> bool {
    [EPOCH_VARIABLE, POD_IP_VARIABLE, POD_UID_VARIABLE, TOKEN_VARIABLE].contains(&name)
}

/// Whether a volume is Weir's.
pub fn is_volume(name: &str) -> bool {
    name.starts_with(VOLUME_PREFIX) && !REPLACEABLE_VOLUMES.contains(&name)
}

/// Whether a path is in the folder that is Weir's, however it is spelt.
pub fn is_mount(path: &str) -> bool {
    let mut steps = Vec::new();
    for step in path.split('/').filter(|step| !matches!(*step, "" | ".")) {
        if step == ".." {
            steps.pop();
        } else {
            steps.push(step);
        }
    }
    let own: Vec<&str> = FOLDER.split('/').filter(|step| !step.is_empty()).collect();
    steps.starts_with(&own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_however_it_is_spelt() {
        for own in ["/etc/weir", "/etc/weir/", "/etc/weir/job", "//etc/./weir/references/x", "/etc/x/../weir/job", "/../etc/weir"] {
            assert!(is_mount(own), "{own}");
        }
        for other in ["/etc", "/etc/weird", "/", "", "/data/etc/weir", "/etc/weir/..", "/var/lib/weir", "/tmp"] {
            assert!(!is_mount(other), "{other}");
        }
    }

    #[test]
    fn what_may_be_replaced_is_not_reserved() {
        assert!(REPLACEABLE_VOLUMES.iter().all(|name| !is_volume(name)) && is_volume("weir-job") && !is_volume("data"));
        assert!(is_label("weir.dev/epoch") && is_label(LABEL_MANAGED_BY) && !is_label("weir.device/x"));
        assert!(is_annotation(DEFAULT_CONTAINER) && !is_annotation(LABEL_MANAGED_BY));
        assert!(is_variable("POD_IP") && !is_variable("WEIR_LOG_FORMAT"));
    }
}
