//! What pods and ConfigMaps look like, for specs from the smallest to one with everything.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_crds::manifest::{ManifestFile, Problem, load};
use weir_crds::{StreamingJobSpec, reserved};

use super::*;
use crate::names::{self, JobId};

fn job(name: &str) -> JobId {
    JobId { namespace: "lake".to_owned(), name: name.to_owned(), uid: "6f1c0d0e-0000-4000-8000-000000000001".to_owned() }
}

fn spec(of: Value) -> StreamingJobSpec {
    serde_json::from_value(of).unwrap()
}

fn order<'a>(job: &'a JobId, spec: &'a StreamingJobSpec, task: &'a str) -> PodOrder<'a> {
    PodOrder {
        job,
        spec,
        generation: 3,
        task,
        epoch: 17,
        attempt: 2,
        run: 5,
        image: "example.com/weir:0.1.0",
        token: "5ca1ab1e",
        adopt_checkpoint: None,
    }
}

fn query(name: &str) -> Value {
    json!({
        "name": name,
        "sources": [{"name": "tick", "format": "rate-micro-batch", "options": {"rowsPerBatch": "10"}}],
        "sql": "SELECT value FROM tick",
        "sink": {"format": "delta", "options": {"path": "s3://lake/out"}},
        "checkpointLocation": format!("s3://lake/checkpoints/{name}"),
    })
}

fn minimal() -> StreamingJobSpec {
    spec(json!({"trigger": {"continuous": {}}, "tasks": [{"name": "main", "queries": [query("q")]}]}))
}

fn with_template(template: Value) -> StreamingJobSpec {
    spec(json!({"trigger": {"continuous": {}}, "tasks": [{"name": "main", "podTemplate": template, "queries": [query("q")]}]}))
}

/// The manifest of the user book's first page.
fn sensor_readings() -> StreamingJobSpec {
    spec(json!({
        "trigger": {"continuous": {"taskRetryMode": "OnFailure"}},
        "startDeadline": "5m",
        "stopTimeout": "60s",
        "checkpointRoot": "s3://lake/checkpoints",
        "listeners": [{"name": "health", "healthTable": {"path": "s3://lake/monitoring/streaming_health", "flushInterval": "10s"}}],
        "notifications": {"onFailure": [{"name": "chat", "webhook": {"urlFrom": {"secretKeyRef": {"name": "hooks", "key": "url"}}}}]},
        "catalogs": [{"name": "main", "warehouse": "s3://lake/warehouse", "volumes": "s3://lake/volumes"}],
        "parameters": {"env": "prod"},
        "conf": {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"},
        "tasks": [{"name": "bronze", "podTemplate": {}, "queries": [{
            "name": "readings",
            "sources": [{
                "name": "raw",
                "format": "kafka",
                "options": {"kafka.bootstrap.servers": "kafka:9092", "subscribe": "sensor-readings", "startingOffsets": "latest"},
                "optionsFrom": [{"secretRef": {"name": "kafka-credentials"}, "onChange": "Ignore"}],
            }],
            "sql": "SELECT CAST(value AS STRING) AS value FROM raw",
            "sink": {"format": "delta", "options": {"path": "s3://lake/bronze/sensor_readings"}},
            "outputMode": "Append",
            "trigger": {"processingTime": "10s"},
            "checkpointLocation": "s3://lake/checkpoints/sensor-readings/bronze",
        }]}],
    }))
}

fn every_field() -> StreamingJobSpec {
    with_template(json!({
        "labels": {"team": "lake"},
        "annotations": {"example.com/scrape": "true"},
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi", "example.com/disk": "1"}},
        "env": [
            {"name": "AWS_REGION", "value": "eu-central-1"},
            {"name": "SELF", "value": "http://$(POD_IP)"},
            {"name": "WEIR_LOG_FORMAT", "value": "text"},
        ],
        "envFrom": [{"secretRef": {"name": "cloud"}}, {"prefix": "C_", "configMapRef": {"name": "settings"}}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "weir-tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        ],
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "data", "mountPath": "/var/lib/weir/"},
        ],
        "serviceAccountName": "lake-writer",
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "streaming", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        ]}}},
        "priorityClassName": "streaming",
    }))
}

/// A Secret and a ConfigMap of one name, a static table, a sink, a place for bad records, and one Secret that is needed twice.
fn shared_references() -> StreamingJobSpec {
    let mut query = query("q");
    query["sources"][0]["optionsFrom"] =
        json!([{"secretRef": {"name": "kafka"}}, {"configMapRef": {"name": "kafka"}, "onChange": "Restart"}]);
    query["tables"] = json!([{"name": "devices", "format": "delta", "optionsFrom": [{"configMapRef": {"name": "devices"}}]}]);
    query["sink"]["optionsFrom"] = json!([{"secretRef": {"name": "hooks"}}]);
    query["badRecords"] = json!({"format": "json", "optionsFrom": [{"configMapRef": {"name": "kept-apart"}}]});
    let receiver =
        |name: &str, secret: &str, key: &str| json!({"name": name, "webhook": {"urlFrom": {"secretKeyRef": {"name": secret, "key": key}}}});
    spec(json!({
        "trigger": {"continuous": {}},
        "notifications": {"onFailure": [receiver("a", "hooks", "url"), receiver("b", "pages", "night"), receiver("c", "pages", "day")]},
        "tasks": [{"name": "main", "queries": [query]}, {"name": "other", "queries": [super::pod_tests::query("p")]}],
    }))
}

fn slow_to_start_and_stop() -> StreamingJobSpec {
    StreamingJobSpec { start_deadline: "90s".parse().unwrap(), stop_timeout: "1m500ms".parse().unwrap(), ..minimal() }
}

/// All specs with the names of their job and task.
fn examples() -> Vec<(&'static str, StreamingJobSpec, &'static str)> {
    vec![
        ("minimal", minimal(), "main"),
        ("sensor-readings", sensor_readings(), "bronze"),
        ("every-field", every_field(), "main"),
        ("shared-references", shared_references(), "main"),
        ("slow", slow_to_start_and_stop(), "main"),
        ("other-task", shared_references(), "other"),
    ]
}

#[test]
fn pods_look_like_this() {
    for (name, spec, task) in examples() {
        let job = job(name);
        insta::assert_snapshot!(format!("pod_{name}"), serde_yaml_ng::to_string(&pod(&order(&job, &spec, task))).unwrap());
    }
}

#[test]
fn a_template_may_have_no_name_that_the_builder_needs() {
    let replaceable =
        |name: &str| ["WEIR_LOG_FORMAT", "/tmp", "/var/lib/weir"].contains(&name) || reserved::REPLACEABLE_VOLUMES.contains(&name);
    let (job, spec) = (job("j"), shared_references());
    let pod = pod(&order(&job, &spec, "main"));
    let engine = &pod.spec.as_ref().unwrap().containers[0];
    let volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
    let names = [
        pod.metadata.labels.iter().flatten().map(|(key, _)| (key, reserved::is_label(key))).collect::<Vec<_>>(),
        pod.metadata.annotations.iter().flatten().map(|(key, _)| (key, reserved::is_annotation(key))).collect(),
        engine.env.iter().flatten().map(|variable| (&variable.name, reserved::is_variable(&variable.name))).collect(),
        engine.volume_mounts.iter().flatten().map(|mount| (&mount.mount_path, reserved::is_mount(&mount.mount_path))).collect(),
        volumes.map(|volume| (&volume.name, reserved::is_volume(&volume.name))).collect(),
    ];
    for kind in names {
        assert!(!kind.is_empty());
        for (name, is_refused) in kind {
            assert_eq!(is_refused, !replaceable(name), "{name}");
        }
    }
}

#[test]
fn every_pod_keeps_the_restricted_rules() {
    for (name, spec, task) in examples() {
        let job = job(name);
        let spec = pod(&order(&job, &spec, task)).spec.unwrap();
        assert_eq!(restricted_violations(&spec), Vec::<String>::new(), "{name}");
        assert!(spec.containers.iter().all(|c| c.security_context.as_ref().unwrap().read_only_root_filesystem == Some(true)));
    }
}

#[test]
fn a_template_with_a_folder_of_the_node_breaks_them() {
    let (job, spec) = (job("j"), with_template(json!({"volumes": [{"name": "host", "hostPath": {"path": "/data"}}]})));
    let broken = restricted_violations(&pod(&order(&job, &spec, "main")).spec.unwrap());
    assert_eq!(broken, ["volume host is of a kind that is not allowed"]);
}

#[test]
fn a_checkpoint_is_taken_over_only_where_it_is_ordered() {
    let (job, spec) = (job("j"), minimal());
    let arguments = |order: &PodOrder<'_>| pod(order).spec.unwrap().containers[0].args.clone().unwrap();
    assert!(!arguments(&order(&job, &spec, "main")).contains(&"--adopt-checkpoint".to_owned()));
    let adopting = arguments(&PodOrder { adopt_checkpoint: Some(41), ..order(&job, &spec, "main") });
    let at = adopting.iter().position(|argument| argument == "--adopt-checkpoint").unwrap();
    assert_eq!(adopting[at + 1], "41");
    assert_eq!(adopting.last().map(String::as_str), Some("/etc/weir/job/job.json"));
}

#[test]
fn a_task_that_the_spec_does_not_have_gives_a_plain_pod() {
    let (job, spec) = (job("j"), every_field());
    let pod = pod(&order(&job, &spec, "gone"));
    assert_eq!(pod.metadata.name.as_deref(), Some("j--gone"));
    assert_eq!(pod.spec.unwrap().service_account_name, None);
}

fn assert_it_is_ours(pod: &Pod, job: &JobId) {
    assert_eq!(names::epoch_of_pod(pod), Some(17));
    assert_eq!(names::label(&pod.metadata, names::LABEL_EPOCH), Some("17"));
    assert_eq!(names::label(&pod.metadata, names::LABEL_MANAGED_BY), Some(names::MANAGED_BY));
    assert!(job.owns(&pod.metadata));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
    let engine = &spec.containers[0];
    let volumes: BTreeSet<&str> = spec.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    assert_eq!(volumes.len(), spec.volumes.iter().flatten().count(), "a name comes twice");
    let paths: Vec<&str> = engine.volume_mounts.iter().flatten().map(|mount| mount.mount_path.trim_end_matches('/')).collect();
    assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len(), "a path comes twice");
    let job_mount = engine.volume_mounts.iter().flatten().find(|mount| mount.mount_path == "/etc/weir/job").unwrap();
    let volume = spec.volumes.iter().flatten().find(|volume| volume.name == job_mount.name).unwrap();
    assert_eq!(volume.config_map.as_ref().unwrap().name, names::generation_name(&job.name, 3));
}

proptest! {
    /// Whatever a template says, the pod is this job's, under its epoch, and a name of the API server's length.
    #[test]
    fn no_template_takes_away_what_a_run_rests_on(
        labels in proptest::collection::btree_map("(weir\\.dev/|x\\.io/|app\\.kubernetes\\.io/)(epoch|task|managed-by|job-uid)", "[a-z0-9]{0,9}", 0..6),
        names in proptest::collection::btree_set("weir-(job|tmp|state|reference-0)|data|[a-z]{1,4}", 0..6),
        paths in proptest::collection::btree_set("/(tmp|var/lib/weir|etc/weir/job|etc/weir/references/hooks|data)", 0..5),
        variables in proptest::collection::btree_map("WEIR_EPOCH|WEIR_TASK_TOKEN|POD_IP|WEIR_POD_UID|[A-Z]{1,3}", "[0-9]{1,3}", 0..6),
    ) {
        let template = json!({
            "labels": labels,
            "annotations": labels,
            "volumes": names.iter().map(|name| json!({"name": name, "emptyDir": {}})).collect::<Vec<_>>(),
            "volumeMounts": paths.iter().map(|path| json!({"name": names.first().map_or("none", String::as_str), "mountPath": path})).collect::<Vec<_>>(),
            "env": variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>(),
        });
        let (job, spec) = (job("j"), with_template(template));
        let pod = pod(&order(&job, &spec, "main"));
        assert_it_is_ours(&pod, &job);
        prop_assert_eq!(restricted_violations(&pod.spec.unwrap()), Vec::<String>::new());
    }

    #[test]
    fn names_fit_where_the_rules_of_the_resource_hold(job_name in "[a-z0-9]{1,59}", task_name in "[a-z0-9]{1,61}") {
        prop_assume!(job_name.len() + 2 + task_name.len() <= 63);
        let (job, spec) = (job(&job_name), minimal());
        let pod = pod(&order(&job, &spec, &task_name));
        prop_assert!(pod.metadata.name.unwrap().len() <= 63);
        prop_assert!(pod.metadata.labels.unwrap().values().all(|value| value.len() <= 63));
    }
}

#[test]
fn a_stored_generation_is_what_a_task_can_load() {
    for (name, spec, task) in examples() {
        let document = job_document(name, "lake", &spec, &BTreeMap::new());
        let file = ManifestFile { name: DOCUMENT_KEY.to_owned(), text: document.to_string() };
        let loaded = load(&[file], &BTreeMap::new());
        let errors: Vec<String> = loaded.problems.iter().filter(|problem| problem.is_error()).map(Problem::to_string).collect();
        assert_eq!(errors, Vec::<String>::new(), "{name}");
        assert!(loaded.jobs[0].job.spec.tasks.iter().any(|known| known.name == task));
        assert_eq!(loaded.jobs[0].job.spec, spec, "{name}");
    }
}

#[test]
fn a_document_carries_one_annotation_only() {
    let annotations = BTreeMap::from([
        ("weir.dev/adopt-checkpoint".to_owned(), "7".to_owned()),
        ("weir.dev/run-now".to_owned(), "x".to_owned()),
        ("example.com/a".to_owned(), "b".to_owned()),
    ]);
    let document = job_document("j", "lake", &minimal(), &annotations);
    assert_eq!(document["metadata"], json!({"name": "j", "namespace": "lake", "annotations": {"weir.dev/adopt-checkpoint": "7"}}));
}

#[test]
fn a_generation_is_immutable_owned_and_bounded() {
    let job = job("j");
    let document = job_document("j", "lake", &minimal(), &BTreeMap::new());
    let map = generation_config_map(&job, 3, &document, &json!({"runGeneration": 2})).unwrap();
    insta::assert_snapshot!("generation", serde_yaml_ng::to_string(&map).unwrap());
    let large = json!({"sql": "x".repeat(MAX_GENERATION_BYTES)});
    let error = generation_config_map(&job, 4, &large, &json!({})).unwrap_err();
    assert!(error.to_string().starts_with("generation 4 of job lake/j cannot be stored: it takes 9216"), "{error}");
}
