//! The start-up look at the CRD that the API server serves.
//!
//! An old CRD drops fields that this version writes, in silence. So it is
//! compared with the one of this version, and what is missing is said in the
//! log and in a gauge. Not being allowed to look is no reason not to start.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use serde_json::Value;

use crate::metrics::Metrics;

/// Name of the CRD.
const NAME: &str = "streamingjobs.weir.dev";
/// Paths named in the log at most.
const NAMED: usize = 10;

/// Compares the served CRD with this version's and reports.
pub async fn report(client: &Client, metrics: &Metrics) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let served = match api.get_opt(NAME).await {
        Ok(Some(served)) => serde_json::to_value(served).unwrap_or_default(),
        Ok(None) => {
            tracing::error!("the cluster has no CRD {NAME}; apply the output of `weir-operator crd`");
            metrics.operator.missing_fields(1);
            return;
        }
        Err(error) => {
            tracing::info!(%error, "the CRD could not be compared with this version's");
            return;
        }
    };
    let own = serde_json::to_value(weir_crds::resource::crd()).unwrap_or_default();
    let missing = missing(&schema(&own), &schema(&served));
    metrics.operator.missing_fields(missing.len());
    if !missing.is_empty() {
        let named = missing.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        tracing::error!(
            fields = missing.len(),
            "the CRD {NAME} is older than this operator and drops {named}; apply the output of `weir-operator crd`"
        );
    }
}

fn schema(crd: &Value) -> Value {
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let version = versions.iter().find(|version| version["name"] == "v1alpha1");
    version.map(|version| version["schema"]["openAPIV3Schema"].clone()).unwrap_or_default()
}

/// Paths of fields that one schema has and the other has not.
fn missing(wanted: &Value, served: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", wanted, served, &mut found);
    found
}

fn compare(path: &str, wanted: &Value, served: &Value, found: &mut Vec<String>) {
    if served["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, field) in wanted["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match served["properties"].get(name) {
            Some(known) => compare(&path, field, known, found),
            None => found.push(path),
        }
    }
    if wanted["items"].is_object() {
        compare(&format!("{path}[]"), &wanted["items"], &served["items"], found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_the_served_schema_lacks_are_named() {
        let own = json!({"properties": {"spec": {"properties": {"a": {}, "tasks": {"items": {"properties": {"b": {}}}}}}}});
        let served = json!({"properties": {"spec": {"properties": {"tasks": {"items": {"properties": {}}}}}}});
        assert_eq!(missing(&own, &served), [".spec.a", ".spec.tasks[].b"]);
        assert!(missing(&own, &own).is_empty());
        let open = json!({"x-kubernetes-preserve-unknown-fields": true});
        assert!(missing(&own, &open).is_empty());
    }
}
