//! The restricted pod security standard, as the rules of admission list them.

use k8s_openapi::api::core::v1::{PodSpec, Volume};

/// Which rules a pod breaks.
pub(crate) fn restricted_violations(pod: &PodSpec) -> Vec<String> {
    let mut broken = Vec::new();
    let mut rule = |holds: bool, what: String| {
        if !holds {
            broken.push(what);
        }
    };
    for (field, value) in [("hostNetwork", pod.host_network), ("hostPID", pod.host_pid), ("hostIPC", pod.host_ipc)] {
        rule(value != Some(true), format!("{field} is true"));
    }
    for volume in pod.volumes.iter().flatten() {
        rule(is_allowed(volume), format!("volume {} is of a kind that is not allowed", volume.name));
    }
    let of_pod = pod.security_context.clone().unwrap_or_default();
    rule(of_pod.sysctls.is_none_or(|list| list.is_empty()), "sysctls are set".to_owned());
    for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
        let name = &container.name;
        let own = container.security_context.clone().unwrap_or_default();
        let drops_all = own.capabilities.iter().flat_map(|list| list.drop.iter().flatten()).any(|capability| capability == "ALL");
        let adds_none =
            own.capabilities.iter().flat_map(|list| list.add.iter().flatten()).all(|capability| capability == "NET_BIND_SERVICE");
        rule(own.privileged != Some(true), format!("{name} is privileged"));
        rule(own.allow_privilege_escalation == Some(false), format!("{name} may escalate"));
        rule(drops_all && adds_none, format!("{name} keeps capabilities"));
        rule(own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true), format!("{name} may run as root"));
        rule(own.run_as_user.or(of_pod.run_as_user) != Some(0), format!("{name} runs as user 0"));
        let seccomp = own.seccomp_profile.or(of_pod.seccomp_profile.clone()).map(|profile| profile.type_);
        let confined = matches!(seccomp.as_deref(), Some("RuntimeDefault" | "Localhost"));
        rule(confined, format!("{name} has no seccomp profile"));
        rule(own.proc_mount.as_deref().is_none_or(|mount| mount == "Default"), format!("{name} changes /proc"));
        rule(container.ports.iter().flatten().all(|port| port.host_port.is_none()), format!("{name} takes a port of the node"));
    }
    broken
}

fn is_allowed(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.csi.is_some()
        || volume.downward_api.is_some()
        || volume.empty_dir.is_some()
        || volume.ephemeral.is_some()
        || volume.persistent_volume_claim.is_some()
        || volume.projected.is_some()
        || volume.secret.is_some()
}
