//! Local paths of a job that becomes pods.
//!
//! A path without a scheme means the pod's own disk, which goes with the pod.
//! So it is refused unless the task mounts a volume there, and a checkpoint is
//! refused on a volume that goes with the pod too. Parameters are replaced
//! first; locations are compared as text, nothing is opened.

use std::borrow::Cow;
use std::collections::BTreeMap;

use weir_crds::catalog;
use weir_crds::checkpoint::{checkpoint_location, normalized_location};
use weir_crds::manifest::substituted;
use weir_crds::resource::TaskSpec;
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
        let data = inputs.flat_map(|(field, input)| data_of(&format!("{field}[{}]", input.name), &input.options, input.table.as_deref()));
        let sink = data_of("sink", &query.sink.options, query.sink.table.as_deref());
        let bad_records = query.bad_records.iter().flat_map(|to| data_of("badRecords", &to.options, to.table.as_deref()));
        let checkpoint = checkpoint.map(|path| ("checkpointLocation".to_owned(), Named::Path(path), Purpose::Checkpoint));
        let all = checkpoint.into_iter().chain(data.chain(sink).chain(bad_records).map(|(field, named)| (field, named, Purpose::Data)));
        all.into_iter().find_map(|(field, named, purpose)| judge(job, task, &place(&field), &named, purpose))
    })
}

/// What a manifest calls a place.
enum Named {
    Path(String),
    Table(String),
}

/// The places that a source, static table or sink names.
fn data_of(part: &str, options: &BTreeMap<String, String>, table: Option<&str>) -> Vec<(String, Named)> {
    let path = options.iter().find(|(name, _)| name.eq_ignore_ascii_case("path"));
    let path = path.map(|(_, path)| (format!("{part}.options.path"), Named::Path(path.clone())));
    let table = table.map(|table| (format!("{part}.table"), Named::Table(table.to_owned())));
    path.into_iter().chain(table).collect()
}

fn judge(job: &StreamingJob, task: &TaskSpec, field: &str, named: &Named, purpose: Purpose) -> Option<String> {
    let (path, resolved) = match named {
        Named::Path(path) => (path, catalog::location(&job.spec.catalogs, path)),
        Named::Table(table) => (table, catalog::table_location(&job.spec.catalogs, table).map(Cow::Owned)),
    };
    let normalized = match resolved {
        Ok(location) => normalized_location(&location),
        Err(unknown) => return Some(format!("{field}: {}", unknown.message)),
    };
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
        let query = json!({"name": "q", "sql": "SELECT 1", "sources": [{"name": "s", "format": "rate"}], "sink": {"format": "noop"},
            "badRecords": {"format": "json", "options": {"path": "bad"}}, "checkpointLocation": "s3://c"});
        let spec = json!({"trigger": {"continuous": {}}, "tasks": [{"name": "t", "queries": [query]}]});
        let words = problem(&serde_json::from_value(spec).unwrap(), "ns", "job").unwrap();
        assert!(words.contains("badRecords.options.path: `bad` is relative"), "{words}");
        assert!(found("/database/c", "s3://t", claim).unwrap().contains("own disk"));
        assert!(found("/Volumes/none/c", "s3://t", json!({})).unwrap().contains("there is no catalog none"));
    }

    #[test]
    fn a_table_by_name_is_looked_at_where_it_is() {
        let of = |table: &str, bad_records: &str| {
            let query = json!({"name": "q", "sql": "SELECT 1", "sources": [{"name": "s", "format": "rate"}], "sink": {"table": table},
                "badRecords": {"table": bad_records}, "checkpointLocation": "s3://c"});
            let catalogs = json!([{"name": "main", "warehouse": "s3://w"}, {"name": "disk", "warehouse": "/w"}]);
            let spec = json!({"trigger": {"continuous": {}}, "catalogs": catalogs, "tasks": [{"name": "t", "queries": [query]}]});
            problem(&serde_json::from_value(spec).unwrap(), "ns", "job")
        };
        assert_eq!(of("main.s.t", "main.s.bad"), None);
        assert!(of("disk.s.t", "main.s.bad").unwrap().contains("queries[0].sink.table: `disk.s.t` is on the pod's own disk"));
        assert!(of("main.s.t", "disk.s.bad").unwrap().contains("queries[0].badRecords.table: `disk.s.bad` is on the pod's own disk"));
    }

    #[test]
    fn a_checkpoint_outlives_its_pod() {
        let passing =
            json!({"volumes": [{"name": "scratch", "emptyDir": {}}], "volumeMounts": [{"name": "scratch", "mountPath": "/data"}]});
        assert!(found("/data/c", "s3://t", passing.clone()).unwrap().contains("emptyDir"));
        assert_eq!(found("s3://c", "/data/t", passing), None);
    }
}
