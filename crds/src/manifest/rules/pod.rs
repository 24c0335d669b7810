//! Rules of a task's pod template: nothing in it may have a name that is Weir's, and amounts of resources are Kubernetes' quantities.

use crate::finding::Finding;
use crate::manifest::locate::{child, item};
use crate::reserved;
use crate::resource::TaskSpec;

const OTHER_KEY: &str = "choose another key";
const OTHER_NAME: &str = "remove it, or choose another name";

pub(super) fn check(task: &TaskSpec, findings: &mut Vec<Finding>) {
    let Some(template) = &task.pod_template else { return };
    let path = |field: &str| format!("spec.tasks[{}].podTemplate.{field}", task.name);
    let mut refuse = |rule, what: &str, path: String, name: &str, remedy: &str| {
        let message = format!("the {what} `{name}` of a task's pod is Weir's own");
        findings.push(Finding::error(rule, path, message).found(name).remedy(remedy));
    };
    for key in template.labels.keys().filter(|key| reserved::is_label(key)) {
        refuse("reserved-key", "label", child(&path("labels"), key), key, OTHER_KEY);
    }
    for key in template.annotations.keys().filter(|key| reserved::is_annotation(key)) {
        refuse("reserved-key", "annotation", child(&path("annotations"), key), key, OTHER_KEY);
    }
    for name in template.env.iter().map(|variable| &variable.name).filter(|name| reserved::is_variable(name)) {
        refuse("reserved-name", "variable", format!("{}.name", item(&path("env"), name)), name, OTHER_NAME);
    }
    for name in template.volumes.iter().map(|volume| &volume.name).filter(|name| reserved::is_volume(name)) {
        let replaceable = reserved::REPLACEABLE_VOLUMES.join(" and ");
        let remedy = format!("choose another name; only {replaceable} may be replaced");
        refuse("reserved-name", "volume", format!("{}.name", item(&path("volumes"), name)), name, &remedy);
    }
    for mount in template.volume_mounts.iter().map(|mount| &mount.mount_path).filter(|path| reserved::is_mount(path)) {
        let remedy = format!("mount it outside {}", reserved::FOLDER);
        refuse("reserved-name", "path", format!("{}.mountPath", item(&path("volumeMounts"), mount)), mount, &remedy);
    }
    let resources = template.resources.iter().flat_map(|given| [("requests", &given.requests), ("limits", &given.limits)]);
    for (list, (resource, quantity)) in resources.flat_map(|(list, given)| given.iter().flatten().map(move |entry| (list, entry))) {
        if !is_quantity(&quantity.0) {
            let path = child(&path(&format!("resources.{list}")), resource);
            let finding = Finding::error("quantity", path, format!("{:?} is not a quantity of Kubernetes", quantity.0)).found(&quantity.0);
            findings.push(finding.remedy("write a number with one of m, k, M, G, T, Ki, Mi, Gi, Ti or none of them, such as 500m or 2Gi"));
        }
    }
}

/// The grammar of `resource.Quantity` (k8s.io/apimachinery).
fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let suffixes = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    is_number && (suffixes.contains(&suffix) || suffix.strip_prefix(['e', 'E']).is_some_and(is_exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for text in ["1", "250m", "0.5", ".5", "1.", "2Gi", "1e3", "1E-3", "+1k", "129e6", "1E"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "1GB", "lots", "1 Gi", "1gi", "1.2.3", "Gi", "1e", "--1", "1K", "0x10"] {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
