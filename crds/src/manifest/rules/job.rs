//! Rules of the job itself: names, trigger, delays, settings, listeners, catalogs.

use crate::conf;
use crate::finding::{Finding, nearest};
use crate::image;
use crate::manifest::cron;
use crate::options::{Kind, Value};
use crate::resource::{StreamingJob, TaskRetryModeSpec};

const ANNOTATIONS: [&str; 7] = [
    crate::annotations::RUN_NOW,
    crate::annotations::CONFIRM_TERMINATED,
    crate::annotations::ADOPT_CHECKPOINT,
    crate::annotations::PAUSED,
    crate::annotations::DISCARD_MEMORY,
    crate::annotations::SKIP_GRACEFUL_STOP,
    crate::annotations::OPERATOR,
];

pub(super) fn check(job: &StreamingJob, findings: &mut Vec<Finding>) {
    names(job, findings);
    trigger(job, findings);
    delays(job, findings);
    image(job, findings);
    annotations(job, findings);
    listeners(job, findings);
    for mut finding in conf::check(&job.spec.conf) {
        finding.path = crate::manifest::locate::child("spec.conf", &finding.path);
        findings.push(finding);
    }
    for name in job.spec.parameters.keys() {
        let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        if !valid {
            findings.push(
                Finding::error(
                    "parameter-name",
                    crate::manifest::locate::child("spec.parameters", name),
                    format!("`{name}` is not a name for a parameter"),
                )
                .remedy("write letters, digits, underscores, dots and hyphens, beginning with a letter"),
            );
        }
    }
}

fn names(job: &StreamingJob, findings: &mut Vec<Finding>) {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let label = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !label {
        findings.push(
            Finding::error("job-name", "metadata.name", format!("`{name}` is not a DNS label without `--`"))
                .found(name)
                .remedy("write lower-case letters, digits and single hyphens between them"),
        );
    }
    for task in &job.spec.tasks {
        let length = name.len() + 2 + task.name.len();
        if length > 63 {
            findings.push(
                Finding::error(
                    "pod-name",
                    format!("spec.tasks[{}].name", task.name),
                    format!("the pod `{name}--{}` would have {length} characters, at most 63 are allowed", task.name),
                )
                .remedy("shorten metadata.name or the task's name"),
            );
        }
    }
    let queries: usize = job.spec.tasks.iter().map(|task| task.queries.len()).sum();
    if queries > 64 {
        findings.push(Finding::error("bounds", "spec.tasks", format!("{queries} queries in all tasks together, at most 64 are allowed")));
    }
}

fn trigger(job: &StreamingJob, findings: &mut Vec<Finding>) {
    let trigger = &job.spec.trigger;
    let given: Vec<&str> =
        [("continuous", trigger.continuous.is_some()), ("schedule", trigger.schedule.is_some()), ("manual", trigger.manual.is_some())]
            .into_iter()
            .filter_map(|(name, given)| given.then_some(name))
            .collect();
    if given.len() != 1 {
        let message = match given.len() {
            0 => "gives none of continuous, schedule, manual; exactly one is needed".to_owned(),
            _ => format!("gives {}; exactly one of continuous, schedule, manual is allowed", given.join(" and ")),
        };
        let remedy = match given.len() {
            0 => "write for example `trigger: {continuous: {}}`; a trigger without settings is written with `{}`",
            _ => "keep one",
        };
        findings.push(Finding::error("exactly-one", "spec.trigger", message).remedy(remedy));
    }
    if let Some(continuous) = &trigger.continuous
        && continuous.task_retry_mode == TaskRetryModeSpec::Never
    {
        let path = "spec.trigger.continuous.taskRetryMode";
        if job.spec.task_retry.is_some() {
            findings.push(
                Finding::error("task-retry-with-never", "spec.taskRetry", "taskRetry has no effect with taskRetryMode Never")
                    .remedy("remove taskRetry, or set trigger.continuous.taskRetryMode to OnFailure"),
            );
        }
        findings.push(
            Finding::warning(
                "never-mode",
                path,
                "with Never a failed task stays down until all other tasks have ended, which streams do not do by themselves",
            )
            .remedy("use OnFailure unless somebody watches Degraded"),
        );
    }
    let Some(schedule) = &trigger.schedule else { return };
    if let Err(reason) = cron::check(&schedule.cron) {
        findings.push(Finding::error("cron", "spec.trigger.schedule.cron", reason).found(&schedule.cron));
    }
    if let Err(reason) = Kind::TimeZone.parse(&schedule.time_zone) {
        findings.push(Finding::error("time-zone", "spec.trigger.schedule.timeZone", reason).found(&schedule.time_zone));
    }
    for task in &job.spec.tasks {
        for query in &task.queries {
            let ends = query.trigger.as_ref().is_some_and(|trigger| trigger.available_now.is_some() || trigger.once.is_some());
            if !ends {
                findings.push(
                    Finding::error(
                        super::NEEDS_END,
                        format!("spec.tasks[{}].queries[{}].trigger", task.name, query.name),
                        "under trigger.schedule every query must end by itself",
                    )
                    .remedy("write `trigger: {availableNow: {}}`"),
                );
            }
        }
    }
}

fn delays(job: &StreamingJob, findings: &mut Vec<Finding>) {
    let mut order = |path: &str, first: &crate::duration::WeirDuration, second: &crate::duration::WeirDuration, names: [&str; 2]| {
        if first > second {
            findings.push(
                Finding::error(
                    "delay-order",
                    format!("{path}.{}", names[0]),
                    format!("{} {first} is longer than {} {second}", names[0], names[1]),
                )
                .remedy(format!("make {} the longer one", names[1])),
            );
        }
    };
    let restart = &job.spec.restart;
    order("spec.restart", &restart.initial_delay, &restart.max_delay, ["initialDelay", "maxDelay"]);
    if let Some(retry) = &job.spec.task_retry {
        order("spec.taskRetry", &retry.initial_delay, &retry.max_delay, ["initialDelay", "maxDelay"]);
    }
    order("spec.health", &job.spec.health.stale_after, &job.spec.health.fail_after, ["staleAfter", "failAfter"]);
}

/// An empty one is as if absent.
fn image(job: &StreamingJob, findings: &mut Vec<Finding>) {
    let Some(given) = job.spec.image.as_deref().filter(|given| !given.is_empty() && !image::is_reference(given)) else { return };
    let message = format!("{given:?} names no image");
    findings.push(Finding::error("image", "spec.image", message).found(given).remedy(image::GRAMMAR));
}

fn annotations(job: &StreamingJob, findings: &mut Vec<Finding>) {
    for (key, value) in job.metadata.annotations.iter().flatten() {
        if !key.starts_with("weir.dev/") {
            continue;
        }
        let path = crate::manifest::locate::child("metadata.annotations", key);
        if !ANNOTATIONS.contains(&key.as_str()) {
            let mut finding = Finding::warning("annotation", &path, format!("`{key}` is not an annotation that Weir knows"));
            finding.nearest = nearest(key, ANNOTATIONS).map(str::to_owned);
            findings.push(finding.allowed(ANNOTATIONS));
            continue;
        }
        let epochs = [crate::annotations::CONFIRM_TERMINATED, crate::annotations::ADOPT_CHECKPOINT, crate::annotations::DISCARD_MEMORY];
        let epoch = epochs.contains(&key.as_str());
        let switch = key == crate::annotations::PAUSED || key == crate::annotations::SKIP_GRACEFUL_STOP;
        if epoch && !matches!((Kind::Int { min: 0, max: i64::MAX }).parse(value), Ok(Value::Int(_))) {
            findings
                .push(Finding::error("annotation", path, format!("the value of `{key}` must be an epoch, a whole number")).found(value));
        } else if switch && Kind::Bool.parse(value).is_err() {
            findings.push(Finding::error("annotation", path, format!("the value of `{key}` must be \"true\" or \"false\"")).found(value));
        } else if key == crate::annotations::OPERATOR && !is_installation(value.trim()) {
            let message = "no installation is called so: nobody would look after the job";
            findings.push(Finding::warning("annotation", path, message).found(value).remedy("write <namespace>/<name>, or remove it"));
        }
    }
}

/// The form of an installation's name; empty stands for none.
fn is_installation(text: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace) && !name.contains('/');
    text.is_empty() || text.split_once('/').is_some_and(|(namespace, name)| is_name(namespace) && is_name(name))
}

fn listeners(job: &StreamingJob, findings: &mut Vec<Finding>) {
    for listener in &job.spec.listeners {
        let path = format!("spec.listeners[{}].healthTable", listener.name);
        if listener.health_table.path.is_some() == listener.health_table.table.is_some() {
            findings.push(Finding::error("exactly-one", &path, "give exactly one of path, table"));
        }
        if let Some(table) = &listener.health_table.table {
            findings.extend(super::inputs::table_name(job, &format!("{path}.table"), table));
        }
    }
}
