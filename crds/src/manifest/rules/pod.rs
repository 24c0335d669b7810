//! Rules of a task's pod template: nothing in it may have a name that is Weir's.

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
}
