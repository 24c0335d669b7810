//! Whether a lost pod of a job may be replaced before it is known to be gone.
//!
//! It may where a stale process can do no harm: every checkpoint is on an
//! object store, which both processes reach and whose create-if-absent fences
//! the older one, and every sink skips a batch that it has recorded. A successor
//! that claims another checkpoint fences nobody, so the fence is named after the
//! places. Anything unknown counts as not fenced. Locations are compared as text;
//! nothing is opened.

use weir_crds::catalog;
use weir_crds::checkpoint::{checkpoint_location, normalized_location};
use weir_crds::manifest::substituted;
use weir_crds::options::{Format, Role};
use weir_crds::{SinkSpec, StreamingJob, StreamingJobSpec};

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

/// The name of the fence that instances of a spec share: a digest of its checkpoints' places; none where one checkpoint or sink is not fenced.
pub fn fence(spec: &StreamingJobSpec, namespace: &str, job: &str) -> Option<String> {
    let named = StreamingJob::in_namespace(namespace, job, substituted(spec));
    let queries = named.spec.tasks.iter().flat_map(|task| task.queries.iter().map(move |query| (&task.name, query)));
    let mut places = queries
        .map(|(task, query)| {
            let location = checkpoint_location(&named, task, query).filter(|_| is_fenced_sink(&query.sink))?;
            let resolved = catalog::location(&named.spec.catalogs, &location).ok()?;
            let place = normalized_location(&resolved);
            is_on_object_store(&place).then(|| format!("{place}#{}", query.checkpoint_reset_nonce))
        })
        .collect::<Option<Vec<String>>>()?;
    places.sort_unstable();
    Some(token::short(&places.join("\n"), 0))
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
    use super::*;
    use serde_json::{Value, json};

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
        fence(&serde_json::from_value(spec).unwrap(), "ns", "job").is_some()
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

    #[test]
    fn one_query_that_is_not_fenced_is_enough() {
        let query = |name: &str, format: &str| json!({"name": name, "sql": "SELECT 1", "sources": [{"name": "s", "format": "rate"}], "sink": {"format": format}});
        let of = |root: Value, formats: [&str; 2]| {
            let tasks = json!([{"name": "a", "queries": [query("q", formats[0])]}, {"name": "b", "queries": [query("q", formats[1])]}]);
            let spec = json!({"trigger": {"continuous": {}}, "checkpointRoot": root, "tasks": tasks});
            fence(&serde_json::from_value(spec).unwrap(), "ns", "job").is_some()
        };
        assert!(of(json!("s3://lake/c"), ["delta", "csv"]));
        assert!(!of(json!("s3://lake/c"), ["delta", "console"]));
        assert!(!of(json!("/mnt/c"), ["delta", "csv"]));
        assert!(!of(Value::Null, ["delta", "noop"]));
    }

    #[test]
    fn a_fence_is_named_after_the_places_of_all_checkpoints() {
        let of = |location: &str, nonce: i64, sink: &str| {
            let query = json!({"name": "q", "sources": [], "sql": "", "sink": {"format": sink}, "checkpointLocation": location, "checkpointResetNonce": nonce});
            let spec = json!({"trigger": {"continuous": {}}, "tasks": [{"name": "t", "queries": [query]}]});
            fence(&serde_json::from_value(spec).unwrap(), "ns", "job")
        };
        let one = of("s3://b/c", 0, "delta");
        assert!(one.is_some());
        assert_eq!((of("s3://b/c/", 0, "noop"), of("s3a://b/c", 0, "delta")), (one.clone(), one.clone()), "the same place");
        assert!(of("s3://b/d", 0, "delta") != one && of("s3://b/c", 1, "delta") != one, "a successor there fences nobody here");
        assert_eq!((of("s3://b/c", 0, "console"), of("/c", 0, "delta")), (None, None));
    }
}
