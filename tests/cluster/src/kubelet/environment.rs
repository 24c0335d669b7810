//! What a container sees of its pod: fields, variables, and paths of its mounts.
//!
//! Pure: `$(VAR)` is expanded as Kubernetes does (`$$` escapes, unknown names
//! stay), fields are the downward API's, and paths under a mount point become
//! paths in the folder that plays it, since there is no mount namespace here.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;

/// Replaces `$(NAME)` by the variable's value.
pub fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some((name, more)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            match variables.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = more;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out + rest
}

/// A field of the downward API.
pub fn field(pod: &Pod, node: &str, ip: Ipv4Addr, path: &str) -> Option<String> {
    let metadata = &pod.metadata;
    let keyed = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix("['")).and_then(|rest| rest.strip_suffix("']"));
    if let Some(key) = keyed("metadata.labels") {
        return Some(metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default());
    }
    if let Some(key) = keyed("metadata.annotations") {
        return Some(metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)).cloned().unwrap_or_default());
    }
    match path {
        "metadata.name" => metadata.name.clone(),
        "metadata.namespace" => metadata.namespace.clone(),
        "metadata.uid" => metadata.uid.clone(),
        "metadata.labels" => Some(lines(metadata.labels.as_ref())),
        "metadata.annotations" => Some(lines(metadata.annotations.as_ref())),
        "spec.nodeName" => Some(node.to_owned()),
        "spec.serviceAccountName" => pod.spec.as_ref()?.service_account_name.clone(),
        "status.podIP" | "status.podIPs" => Some(ip.to_string()),
        "status.hostIP" | "status.hostIPs" => Some(Ipv4Addr::LOCALHOST.to_string()),
        _ => None,
    }
}

fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}\n")).collect()
}

/// A mount point and the folder or file that plays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The path in the container.
    pub point: String,
    /// The path on this machine.
    pub place: PathBuf,
}

/// Replaces paths under mount points, where a path starts: at the beginning and after `=`, `:`, `,`, a blank or `://`.
pub fn rewrite(text: &str, mounts: &[Mount]) -> String {
    let mut mounts: Vec<&Mount> = mounts.iter().collect();
    mounts.sort_by_key(|mount| std::cmp::Reverse(mount.point.len()));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let found = mounts.iter().find(|mount| {
            let point = mount.point.trim_end_matches('/');
            !point.is_empty() && starts_path(&text[..at]) && rest.strip_prefix(point).is_some_and(ends_name)
        });
        match found {
            Some(mount) => {
                out.push_str(&mount.place.display().to_string());
                at += mount.point.trim_end_matches('/').len();
            }
            None => {
                let next = rest.chars().next().map_or(1, char::len_utf8);
                out.push_str(&rest[..next]);
                at += next;
            }
        }
    }
    out
}

fn starts_path(before: &str) -> bool {
    before.is_empty() || before.ends_with(['=', ':', ',', ' ', '"']) || before.ends_with("file://")
}

fn ends_name(after: &str) -> bool {
    after.is_empty() || after.starts_with(['/', ':', ',', ' ', '"'])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn mounts() -> Vec<Mount> {
        let mount = |point: &str, place: &str| Mount { point: point.into(), place: place.into() };
        vec![mount("/etc/weir", "/t/config"), mount("/etc/weir/job", "/t/job"), mount("/dev/termination-log", "/t/log")]
    }

    #[test]
    fn paths_under_mounts_are_replaced_by_the_longest() {
        let rewritten = |text| rewrite(text, &mounts());
        assert_eq!(rewritten("/etc/weir/job/job.json"), "/t/job/job.json");
        assert_eq!(rewritten("--dir=/etc/weir/references"), "--dir=/t/config/references");
        assert_eq!(rewritten("file:///etc/weir"), "file:///t/config");
        assert_eq!(rewritten("/etc/weirder"), "/etc/weirder");
        assert_eq!(rewritten("/usr/etc/weir"), "/usr/etc/weir");
        assert_eq!(rewritten("s3://etc/weir"), "s3://etc/weir");
        assert_eq!(rewritten("/dev/termination-log"), "/t/log");
    }

    #[test]
    fn variables_are_expanded_as_kubernetes_does() {
        let variables = BTreeMap::from([("POD_IP".to_owned(), "127.1.2.3".to_owned())]);
        let expanded = |text| expand(text, &variables);
        assert_eq!(expanded("$(POD_IP):8080"), "127.1.2.3:8080");
        assert_eq!(expanded("$$(POD_IP) $(NONE) $HOME $"), "$(POD_IP) $(NONE) $HOME $");
    }

    proptest! {
        #[test]
        fn texts_without_mounts_and_variables_stay(text in "[^$]*") {
            prop_assert_eq!(rewrite(&text, &[]), text.clone());
            prop_assert_eq!(expand(&text, &BTreeMap::new()), text);
        }
    }
}
