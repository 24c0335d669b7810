//! Whether a lost pod of a job may be replaced before it is known to be gone.
//!
//! It may where a stale process can do no harm: every checkpoint of its task is
//! on an object store, which both processes reach and whose create-if-absent
//! fences the older one, and every sink skips a batch that it has recorded. A
//! successor that claims another checkpoint fences nobody, so the fence is named
//! after the places, and after what of the pod may decide which store a place is
//! in: an endpoint in a variable, an account, a file. All of it is compared as it
//! is written; nothing is opened. Anything unknown counts as not fenced, and so does
//! a store that a Secret or ConfigMap names in a variable: its content may change
//! between two pods, and the operator reads no Secret.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::EnvVar;
use weir_crds::catalog;
use weir_crds::checkpoint::{checkpoint_location, normalized_location};
use weir_crds::manifest::substituted;
use weir_crds::options::{Format, Role};
use weir_crds::policy::NodeLostPolicy;
use weir_crds::resource::PodTemplateSpec;
use weir_crds::{SinkSpec, StreamingJob, StreamingJobSpec, TaskSpec};
use weir_supervisor::generation::Accepted;

use crate::names::JobId;
use crate::token;

/// Schemes of stores that every node reaches and that create an object only if it is absent.
const OBJECT_STORES: [&str; 6] = ["s3", "gs", "az", "adl", "azure", "abfss"];
/// Hosts of `https://` locations that are object stores.
const OBJECT_STORE_HOSTS: [&str; 6] = [
    "dfs.core.windows.net",
    "blob.core.windows.net",
    "dfs.fabric.microsoft.com",
    "blob.fabric.microsoft.com",
    "amazonaws.com",
    "r2.cloudflarestorage.com",
];

/// Prefixes of the variables that the engine's clients of stores read.
const STORE_VARIABLES: [&str; 4] = ["AWS_", "AZURE_", "AZURITE_", "GOOGLE_"];
/// Those that open a store and say nothing of where it is; keys are renewed in their Secrets.
const CREDENTIALS: [&str; 13] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_TENANT_ID",
];

/// By task: the name of the fence that its instances share, a digest of its checkpoints' places and of what says which
/// stores these are. A task of which one checkpoint or sink is not fenced is left out.
pub fn fences(spec: &StreamingJobSpec, namespace: &str, job: &str) -> BTreeMap<String, String> {
    let named = StreamingJob::in_namespace(namespace, job, substituted(spec));
    named.spec.tasks.iter().filter_map(|task| Some((task.name.clone(), fence(&named, task)?))).collect()
}

fn fence(job: &StreamingJob, task: &TaskSpec) -> Option<String> {
    if task.pod_template.as_ref().is_some_and(is_store_out_of_sight) {
        return None;
    }
    let places = task.queries.iter().map(|query| {
        let location = checkpoint_location(job, &task.name, query).filter(|_| is_fenced_sink(&query.sink))?;
        let place = normalized_location(&catalog::location(&job.spec.catalogs, &location).ok()?);
        is_on_object_store(&place).then(|| format!("{place}#{}", query.checkpoint_reset_nonce))
    });
    let mut places = places.collect::<Option<Vec<String>>>()?;
    places.sort_unstable();
    places.extend(surroundings(task));
    Some(token::short(&places.join("\n"), 0))
}

/// Whether a variable that may say which store a location is in has its value elsewhere.
fn is_store_out_of_sight(given: &PodTemplateSpec) -> bool {
    let is_elsewhere = |variable: &&EnvVar| {
        // A Secret's or ConfigMap's key, or a field of the pod such as an annotation.
        let refers = variable.value_from.is_some();
        // Made of other variables.
        refers || variable.value.as_ref().is_some_and(|value| value.contains("$("))
    };
    let named = given.env.iter().filter(is_elsewhere).any(|variable| names_a_store(&variable.name));
    // Any variable may come from there that begins with the prefix.
    named
        || given.env_from.iter().any(|source| {
            let prefix = source.prefix.as_deref().unwrap_or_default().to_ascii_uppercase();
            STORE_VARIABLES.iter().any(|store| store.starts_with(&prefix) || prefix.starts_with(store))
        })
}

fn names_a_store(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    STORE_VARIABLES.iter().any(|store| name.starts_with(store)) && !CREDENTIALS.contains(&name.as_str())
}

/// What of a task's pod may decide which store a location is in, as it is written; none where nothing is given.
fn surroundings(task: &TaskSpec) -> Option<String> {
    let given = task.pod_template.as_ref()?;
    let deciding = PodTemplateSpec {
        env: given.env.clone(),
        env_from: given.env_from.clone(),
        service_account_name: given.service_account_name.clone(),
        // Credentials in a file name their store; so do hosts and certificates.
        volumes: given.volumes.clone(),
        volume_mounts: given.volume_mounts.clone(),
        ..PodTemplateSpec::default()
    };
    (deciding != PodTemplateSpec::default()).then(|| serde_json::to_string(&deciding).unwrap_or_default())
}

/// Whether instances of a job that nobody remembers can do no harm to what `next` begins: each can only be of a generation
/// that is recorded, whose tasks all stand behind the fences of the next one. `named` are the generations that the status
/// still names.
pub fn covers(id: &JobId, next: &StreamingJobSpec, recorded: &[Accepted], named: &BTreeSet<i64>) -> bool {
    let ahead = fences(next, &id.namespace, &id.name);
    let is_covered = |spec: &StreamingJobSpec| spec.tasks.len() == ahead.len() && fences(spec, &id.namespace, &id.name) == ahead;
    is_covered(next) && are_replaced(next, recorded, named, is_covered)
}

/// The same where nothing begins any more, because the job goes: each stands behind some fence.
pub fn covers_the_end(id: &JobId, last: &StreamingJobSpec, recorded: &[Accepted], named: &BTreeSet<i64>) -> bool {
    are_replaced(last, recorded, named, |spec| spec.tasks.len() == fences(spec, &id.namespace, &id.name).len())
}

/// Whether every generation that may have been begun is recorded and harmless, and the policy of today goes by that.
fn are_replaced(
    today: &StreamingJobSpec,
    recorded: &[Accepted],
    named: &BTreeSet<i64>,
    is_harmless: impl Fn(&StreamingJobSpec) -> bool,
) -> bool {
    let replaces = today.policy().is_ok_and(|policy| policy.node_lost_policy == NodeLostPolicy::ReplaceWhenFenced);
    let is_recorded = |generation: &i64| recorded.iter().any(|accepted| accepted.generation == *generation);
    replaces && recorded.iter().all(|accepted| is_harmless(&accepted.spec)) && named.iter().all(is_recorded)
}

fn is_on_object_store(place: &str) -> bool {
    let Some((scheme, rest)) = place.split_once("://") else { return false };
    let host = rest.split('/').next().unwrap_or_default().to_ascii_lowercase();
    match scheme {
        "https" => {
            OBJECT_STORE_HOSTS.iter().any(|known| host.strip_suffix(known).is_some_and(|front| front.is_empty() || front.ends_with('.')))
        }
        scheme => !host.is_empty() && OBJECT_STORES.contains(&scheme),
    }
}

fn is_fenced_sink(sink: &SinkSpec) -> bool {
    let format = match &sink.format {
        Some(name) => Format::find(name, Role::Sink).ok(),
        None => sink.table.as_ref().map(|_| Format::Delta),
    };
    match format {
        Some(Format::Delta | Format::Json | Format::Csv | Format::Text | Format::Parquet) => true,
        // Nothing takes effect, so nothing does twice.
        Some(Format::Noop) => true,
        // The guarantee in a Secret or ConfigMap cannot be seen here.
        Some(Format::Kafka) => {
            let given = sink.options.iter().filter(|(name, _)| name.eq_ignore_ascii_case("deliveryGuarantee"));
            given.map(|(_, value)| value.trim()).any(|value| value.eq_ignore_ascii_case("exactly-once"))
        }
        Some(Format::Console | Format::Rate | Format::RateMicroBatch) | None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weir_crds::resource::NodeLostPolicySpec;

    use super::*;

    fn fenced(checkpoint: &str, sink: Value) -> bool {
        let spec = json!({
            "trigger": {"continuous": {}},
            "parameters": {"lake": "s3://lake", "guarantee": "exactly-once"},
            "catalogs": [
                {"name": "main", "warehouse": "s3://lake/w", "volumes": "abfss://v@acc.dfs.core.windows.net/x"},
                {"name": "disk", "warehouse": "/mnt/w", "volumes": "/mnt/volumes"},
            ],
            "tasks": [{"name": "t", "queries": [{
                "name": "q", "sql": "SELECT 1", "sources": [{"name": "s", "format": "rate"}],
                "sink": sink, "checkpointLocation": checkpoint,
            }]}],
        });
        fences(&serde_json::from_value(spec).unwrap(), "ns", "job").contains_key("t")
    }

    #[test]
    fn a_checkpoint_must_be_on_an_object_store() {
        let delta = json!({"format": "delta", "options": {"path": "s3://lake/t"}});
        for (location, expected) in [
            ("s3://lake/c", true),
            ("S3A://lake/c", true),
            ("abfs://c@acc.dfs.core.windows.net/x", true),
            ("gs://lake/c", true),
            ("az://c/x", true),
            ("https://acc.blob.core.windows.net/c/x", true),
            ("/Volumes/main/default/v/c", true),
            ("${lake}/c", true),
            ("https://files.example.com/c", false),
            ("https://evilamazonaws.com/c", false),
            ("/Volumes/disk/default/v/c", false),
            ("/Volumes/none/default/v/c", false),
            ("/mnt/c", false),
            ("file:///mnt/c", false),
            ("s3://", false),
            ("memory:///c", false),
        ] {
            assert_eq!(fenced(location, delta.clone()), expected, "{location}");
        }
    }

    #[test]
    fn a_sink_must_skip_what_it_has_recorded() {
        for (sink, expected) in [
            (json!({"table": "main.default.t"}), true),
            (json!({"format": "parquet"}), true),
            (json!({"format": "JSON"}), true),
            (json!({"format": "noop"}), true),
            (json!({"format": "kafka", "options": {"topic": "t"}}), false),
            (json!({"format": "kafka", "options": {"deliveryguarantee": "exactly-once"}}), true),
            (json!({"format": "kafka", "options": {"deliveryGuarantee": "${guarantee}"}}), true),
            (json!({"format": "kafka", "options": {"deliveryGuarantee": "at-least-once"}}), false),
            (json!({"format": "kafka", "optionsFrom": [{"secretRef": {"name": "k"}}]}), false),
            (json!({"format": "console"}), false),
            (json!({"format": "elsewhere"}), false),
        ] {
            assert_eq!(fenced("s3://lake/c", sink.clone()), expected, "{sink}");
        }
    }

    /// A spec of tasks with a query for each of these formats.
    fn spec(root: &str, tasks: &[(&str, &[&str])]) -> StreamingJobSpec {
        let query = |number: usize, format: &str| {
            let source = json!({"name": "s", "format": "rate"});
            json!({"name": format!("q{number}"), "sql": "SELECT 1", "sources": [source], "sink": {"format": format}})
        };
        let task = |(name, formats): &(&str, &[&str])| {
            let queries: Vec<Value> = formats.iter().enumerate().map(|(number, format)| query(number, format)).collect();
            json!({"name": name, "queries": queries})
        };
        let tasks: Vec<Value> = tasks.iter().map(task).collect();
        serde_json::from_value(json!({"trigger": {"continuous": {}}, "checkpointRoot": root, "tasks": tasks})).unwrap()
    }

    #[test]
    fn one_query_that_is_not_fenced_is_enough_for_its_task_and_no_other() {
        let fenced =
            |root: &str, tasks: &[(&str, &[&str])]| -> Vec<String> { fences(&spec(root, tasks), "ns", "job").into_keys().collect() };
        assert_eq!(fenced("s3://lake/c", &[("a", &["delta", "noop"]), ("b", &["csv"])]), ["a", "b"]);
        assert_eq!(fenced("s3://lake/c", &[("a", &["delta", "console"]), ("b", &["csv"])]), ["b"]);
        assert!(fenced("/mnt/c", &[("a", &["delta"]), ("b", &["csv"])]).is_empty());
        let alone = fences(&spec("s3://lake/c", &[("a", &["delta"])]), "ns", "job");
        let beside = fences(&spec("s3://lake/c", &[("a", &["delta"]), ("b", &["csv"])]), "ns", "job");
        assert_eq!(alone["a"], beside["a"], "a sibling's checkpoint is none of its own");
    }

    #[test]
    fn a_fence_is_named_after_the_places_of_all_checkpoints() {
        let of = |location: &str, nonce: i64, sink: &str| {
            let query = json!({"name": "q", "sources": [], "sql": "", "sink": {"format": sink}, "checkpointLocation": location, "checkpointResetNonce": nonce});
            let spec = json!({"trigger": {"continuous": {}}, "tasks": [{"name": "t", "queries": [query]}]});
            fences(&serde_json::from_value(spec).unwrap(), "ns", "job").remove("t")
        };
        let one = of("s3://b/c", 0, "delta");
        assert!(one.is_some());
        assert_eq!((of("s3://b/c/", 0, "noop"), of("s3a://b/c", 0, "delta")), (one.clone(), one.clone()), "the same place");
        assert!(of("s3://b/d", 0, "delta") != one && of("s3://b/c", 1, "delta") != one, "a successor there fences nobody here");
        assert_eq!((of("s3://b/c", 0, "console"), of("/c", 0, "delta")), (None, None));
    }

    #[test]
    fn a_fence_is_of_the_store_that_the_pod_would_reach() {
        let of = |template: Value| {
            let mut spec = serde_json::to_value(spec("s3://lake/c", &[("t", &["delta"])])).unwrap();
            spec["tasks"][0]["podTemplate"] = template;
            fences(&serde_json::from_value(spec).unwrap(), "ns", "job").remove("t")
        };
        let bare = of(json!(null));
        let endpoint = |host: &str| json!({"env": [{"name": "AWS_ENDPOINT", "value": host}]});
        let mut others = vec![
            bare.clone(),
            of(endpoint("https://old")),
            of(endpoint("https://new")),
            of(json!({"env": [{"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "store", "key": "a"}}}]})),
            of(json!({"env": [{"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "store", "key": "b"}}}]})),
            of(json!({"env": [{"name": "KAFKA_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "p"}}}]})),
            of(json!({"envFrom": [{"secretRef": {"name": "old"}, "prefix": "KAFKA_"}]})),
            of(json!({"envFrom": [{"secretRef": {"name": "new"}, "prefix": "KAFKA_"}]})),
            of(json!({"serviceAccountName": "old"})),
            of(json!({"serviceAccountName": "new"})),
            of(json!({"volumes": [{"name": "key", "secret": {"secretName": "old"}}]})),
            of(json!({"volumes": [{"name": "key", "secret": {"secretName": "new"}}]})),
        ];
        let count = others.len();
        others.sort();
        others.dedup();
        assert!(others.len() == count && !others.contains(&None), "each is another store: {others:?}");
        for same in [json!(null), json!({}), json!({"labels": {"a": "b"}, "nodeSelector": {"zone": "a"}, "priorityClassName": "high"})] {
            assert_eq!(of(same.clone()), bare, "{same}");
        }
        // What a Secret or ConfigMap says may be something else for the next pod.
        let key = |name: &str, kind: &str| json!({"env": [{"name": name, "valueFrom": {kind: {"name": "store", "key": "a"}}}]});
        for unknown in [
            key("AWS_ENDPOINT", "secretKeyRef"),
            key("aws_endpoint_url_s3", "configMapKeyRef"),
            key("AZURE_STORAGE_ACCOUNT_NAME", "secretKeyRef"),
            key("GOOGLE_SERVICE_ACCOUNT_KEY", "secretKeyRef"),
            json!({"env": [{"name": "AWS_ENDPOINT", "value": "https://$(HOST)"}]}),
            json!({"envFrom": [{"secretRef": {"name": "lake"}}]}),
            json!({"envFrom": [{"configMapRef": {"name": "lake"}, "prefix": "AW"}]}),
            json!({"envFrom": [{"secretRef": {"name": "lake"}, "prefix": "AZURE_STORAGE_"}]}),
        ] {
            assert_eq!(of(unknown.clone()), None, "{unknown}");
        }
    }

    #[test]
    fn what_nobody_remembers_is_harmless_only_where_every_generation_that_there_was_stands_behind_one_fence() {
        let id = JobId { namespace: "n".to_owned(), name: "j".to_owned(), uid: "u".to_owned() };
        let fenced = || spec("s3://lake/c", &[("a", &["delta"]), ("b", &["csv"])]);
        let one_open = || spec("s3://lake/c", &[("a", &["delta"]), ("b", &["console"])]);
        let elsewhere = || spec("s3://lake/d", &[("a", &["delta"]), ("b", &["csv"])]);
        let fewer = || spec("s3://lake/c", &[("a", &["delta"])]);
        let waits = || StreamingJobSpec { node_lost_policy: NodeLostPolicySpec::Wait, ..fenced() };
        let covered = |next: StreamingJobSpec, before: StreamingJobSpec, named: &[i64]| {
            let recorded = [Accepted::first(2, before), Accepted::first(3, next.clone())];
            covers(&id, &next, &recorded, &named.iter().copied().collect())
        };
        assert!(covered(fenced(), fenced(), &[]) && covered(fenced(), fenced(), &[2, 3]));
        assert!(!covered(fenced(), fenced(), &[1]), "a generation that is named is not recorded any more");
        for (next, before) in [(one_open(), one_open()), (fenced(), one_open()), (one_open(), fenced()), (fenced(), elsewhere())] {
            assert!(!covered(next, before, &[]));
        }
        assert!(!covered(fenced(), fewer(), &[]) && !covered(fewer(), fenced(), &[]), "who goes on with a task that is gone?");
        assert!(!covered(waits(), fenced(), &[]) && covered(fenced(), waits(), &[]), "the policy is that of today");
        // A job that goes is followed by nothing, so any fence will do.
        let ends = |last: StreamingJobSpec, before: &[StreamingJobSpec], named: &[i64]| {
            let recorded: Vec<Accepted> = (2..).zip(before).map(|(number, spec)| Accepted::first(number, spec.clone())).collect();
            covers_the_end(&id, &last, &recorded, &named.iter().copied().collect())
        };
        assert!(
            ends(fenced(), &[fenced(), elsewhere(), fewer()], &[2, 4]) && ends(one_open(), &[fenced()], &[]) && ends(fenced(), &[], &[])
        );
        assert!(!ends(fenced(), &[fenced(), one_open()], &[]) && !ends(fenced(), &[fenced()], &[1]) && !ends(waits(), &[fenced()], &[]));
    }
}
