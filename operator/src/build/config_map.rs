//! The ConfigMap of an accepted generation, and the document in it.
//!
//! Pods mount it, so a run never sees an edit that was not accepted. It is
//! immutable and owned by the job. Its size is checked here: at most 900 KiB,
//! below the 1 MiB that the API server takes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use weir_crds::manifest::MAX_MANIFEST_BYTES;
use weir_crds::{StreamingJobSpec, annotations};

use crate::names::{self, JobId};

/// Key of the StreamingJob document that the tasks load.
pub const DOCUMENT_KEY: &str = "job.json";
/// Key of what was noted at the acceptance.
pub const ACCEPTED_KEY: &str = "accepted.json";
/// Most bytes of both together.
pub const MAX_GENERATION_BYTES: usize = MAX_MANIFEST_BYTES;

/// Why something cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A generation does not fit into a ConfigMap.
    #[error(
        "generation {generation} of job {namespace}/{job} cannot be stored: it takes {bytes} bytes, at most {MAX_GENERATION_BYTES} fit; shorten its SQL and options, or split it into several jobs"
    )]
    TooLarge {
        /// Namespace of the job.
        namespace: String,
        /// Name of the job.
        job: String,
        /// The generation.
        generation: i64,
        /// What it takes.
        bytes: usize,
    },
}

/// Builds the ConfigMap of an accepted generation.
pub fn generation_config_map(job: &JobId, generation: i64, document: &Value, accepted: &Value) -> Result<ConfigMap, BuildError> {
    let data = BTreeMap::from([(DOCUMENT_KEY.to_owned(), document.to_string()), (ACCEPTED_KEY.to_owned(), accepted.to_string())]);
    let bytes = data.values().map(String::len).sum();
    if bytes > MAX_GENERATION_BYTES {
        return Err(BuildError::TooLarge { namespace: job.namespace.clone(), job: job.name.clone(), generation, bytes });
    }
    let mut labels = job.labels();
    labels.insert(names::LABEL_GENERATION.to_owned(), generation.to_string());
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(names::generation_name(&job.name, generation)),
            namespace: Some(job.namespace.clone()),
            labels: Some(labels),
            owner_references: Some(vec![job.owner_reference()]),
            ..ObjectMeta::default()
        },
        data: Some(data),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}

/// The document that a task loads. Of the annotations only the one that takes over a checkpoint means something to it.
pub fn job_document(name: &str, namespace: &str, spec: &StreamingJobSpec, annotations: &BTreeMap<String, String>) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace});
    if let Some(claim) = annotations.get(annotations::ADOPT_CHECKPOINT) {
        metadata["annotations"] = json!({annotations::ADOPT_CHECKPOINT: claim});
    }
    json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": metadata, "spec": spec})
}
