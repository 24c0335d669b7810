//! Local paths of a job that becomes pods.
//!
//! A path without a scheme means the pod's own disk, which goes with the pod.
//! So it is refused unless the task mounts a volume there, and a checkpoint is
//! refused on a volume that goes with the pod too. Parameters are replaced
//! first; locations are compared as text, nothing is opened.

use weir_crds::checkpoint::{checkpoint_location, normalized_location};
use weir_crds::manifest::substituted;
use weir_crds::resource::{SourceSpec, TaskSpec};
use weir_crds::{StreamingJob, StreamingJobSpec};

/// What a path is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Checkpoint,
    Data,
}

/// The first path that a pod cannot use, in a sentence with its remedy.
pub fn problem(spec: &StreamingJobSpec, namespace: &str, job: &str) -> Option<String> {
    let named = StreamingJob::in_namespace(namespace, job, substituted(spec));
    named.spec.tasks.iter().find_map(|task| of_task(&named, task))
}

fn of_task(job: &StreamingJob, task: &TaskSpec) -> Option<String> {
    task.queries.iter().enumerate().find_map(|(at, query)| {
        let place = |field: &str| format!("spec.tasks[{}].queries[{at}].{field}", task.name);
        let checkpoint = checkpoint_location(job, &task.name, query);
        let inputs = query.sources.iter().map(|source| ("sources", source)).chain(query.tables.iter().map(|table| ("tables", table)));
        let data = inputs.filter_map(|(field, input)| Some((format!("{field}[{}].options.path", input.name), path_of(input)?)));
        let sink = query.sink.options.get("path").map(|path| ("sink.options.path".to_owned(), path.as_str()));
        let checkpoint = checkpoint.as_deref().map(|path| ("checkpointLocation".to_owned(), path, Purpose::Checkpoint));
        let all = checkpoint.into_iter().chain(data.chain(sink).map(|(field, path)| (field, path, Purpose::Data)));
        all.into_iter().find_map(|(field, path, purpose)| judge(job, task, &place(&field), path, purpose))
    })
}

fn path_of(input: &SourceSpec) -> Option<&str> {
    input.options.get("path").map(String::as_str)
}

fn judge(job: &StreamingJob, task: &TaskSpec, field: &str, path: &str, purpose: Purpose) -> Option<String> {
    let resolved = through_catalog(job, path);
    let normalized = normalized_location(&resolved);
    let local = Some(normalized.as_str()).filter(|location| !location.contains("://"))?;
    if !local.starts_with('/') {
        return Some(format!(
            "{field}: `{path}` is relative, and a pod has no folder of yours; write an absolute path or a URL such as s3://"
        ));
    }
    let Some(volume) = mounted_at(task, local) else {
        return Some(format!(
            "{field}: `{path}` is on the pod's own disk, which goes with the pod; use an object store such as s3://, or mount a volume \
             there with podTemplate.volumes and podTemplate.volumeMounts"
        ));
    };
    let template = task.pod_template.as_ref()?;
    let is_passing = template.volumes.iter().any(|known| known.name == volume && known.empty_dir.is_some());
    (is_passing && purpose == Purpose::Checkpoint).then(|| {
        format!("{field}: `{path}` is on the emptyDir volume {volume}, which goes with the pod; a checkpoint must outlive it: use an object store or a persistent volume")
    })
}

/// Where a path below `/Volumes/<catalog>` really is.
fn through_catalog(job: &StreamingJob, path: &str) -> String {
    let found = path.strip_prefix("/Volumes/").and_then(|rest| {
        let (catalog, inside) = rest.split_once('/')?;
        let root = job.spec.catalogs.iter().find(|known| known.name == catalog)?.volumes.as_deref()?;
        Some(format!("{}/{inside}", root.trim_end_matches('/')))
    });
    found.unwrap_or_else(|| path.to_owned())
}

/// The volume whose mount holds a path; the deepest one.
fn mounted_at<'a>(task: &'a TaskSpec, path: &str) -> Option<&'a str> {
    let mounts = task.pod_template.iter().flat_map(|template| &template.volume_mounts);
    let holding = mounts.filter(|mount| {
        let root = mount.mount_path.trim_end_matches('/');
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    holding.max_by_key(|mount| mount.mount_path.trim_end_matches('/').len()).map(|mount| mount.name.as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn found(checkpoint: &str, sink: &str, template: Value) -> Option<String> {
        let spec = json!({
            "trigger": {"continuous": {}},
            "parameters": {"lake": "/data"},
            "catalogs": [{"name": "main", "warehouse": "s3://w", "volumes": "s3://v"}, {"name": "disk", "warehouse": "/w", "volumes": "/data/v"}],
            "tasks": [{"name": "t", "podTemplate": template, "queries": [{
                "name": "q", "sql": "SELECT 1", "sources": [{"name": "s", "format": "rate"}],
                "sink": {"format": "delta", "options": {"path": sink}}, "checkpointLocation": checkpoint,
            }]}],
        });
        problem(&serde_json::from_value(spec).unwrap(), "ns", "job")
    }

    #[test]
    fn a_local_path_needs_a_volume() {
        let claim = json!({"volumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
            "volumeMounts": [{"name": "lake", "mountPath": "/data/"}]});
        for (checkpoint, sink) in
            [("s3://c/q", "s3://t"), ("/data/c", "${lake}/t"), ("file:///data/c", "/data"), ("/Volumes/disk/s/c", "s3://t")]
        {
            assert_eq!(found(checkpoint, sink, claim.clone()), None, "{checkpoint} {sink}");
        }
        assert_eq!(found("/Volumes/main/s/c", "s3://t", json!({})), None);
        for (checkpoint, sink, part) in [
            ("/data/c", "s3://t", "checkpointLocation: `/data/c` is on the pod's own disk"),
            ("s3://c", "/data/t", "sink.options.path"),
            ("s3://c", "out/t", "is relative"),
            ("/Volumes/disk/s/c", "s3://t", "is on the pod's own disk"),
        ] {
            let words = found(checkpoint, sink, json!({})).unwrap();
            assert!(words.contains(part), "{words}");
        }
        assert!(found("/database/c", "s3://t", claim).unwrap().contains("own disk"));
    }

    #[test]
    fn a_checkpoint_outlives_its_pod() {
        let passing =
            json!({"volumes": [{"name": "scratch", "emptyDir": {}}], "volumeMounts": [{"name": "scratch", "mountPath": "/data"}]});
        assert!(found("/data/c", "s3://t", passing.clone()).unwrap().contains("emptyDir"));
        assert_eq!(found("s3://c", "/data/t", passing), None);
    }
}
