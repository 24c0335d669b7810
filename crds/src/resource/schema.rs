//! The schema of the resource: for Weir's own walkers, and as the CRD that a cluster gets.
//!
//! [`resource_schema`] keeps Weir's `x-weir-*` keys (`disrupts`, `type`, `refused`, `any-case`); the CRD
//! has none of them, because `JSONSchemaProps` knows them not. Three patches that the derive
//! cannot express: `outputMode` may be lower case; `status` defaults to `{observedGeneration: -1}`, so that a new object is
//! not taken for a healthy one, and fields inside `status` have no defaults of their own.
//! Descriptions of Kubernetes' own types are left out to keep the CRD small.

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::generate::SchemaSettings;
use schemars::transform::AddNullable;
use serde_json::{Value, json};

use super::{StreamingJob, StreamingJobSpec};

/// Structural schema of `spec`, with Weir's own keys.
pub fn resource_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        SchemaSettings::openapi3()
            .with(|settings| {
                settings.inline_subschemas = true;
                settings.meta_schema = None;
            })
            .with_transform(AddNullable::default())
            .with_transform(StructuralSchemaRewriter)
            .with_transform(OptionalEnum)
            .with_transform(OptionalIntOrString)
            .into_generator()
            .into_root_schema_for::<StreamingJobSpec>()
            .to_value()
    })
}

/// The CRD of `StreamingJob`.
pub fn crd() -> CustomResourceDefinition {
    let mut document = serde_json::to_value(StreamingJob::crd()).expect("a CRD is made of plain maps, lists and strings");
    for version in document["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
        let status = &mut properties["status"];
        remove_key(status, "default");
        status["default"] = json!({"observedGeneration": -1});
        let task = &mut properties["spec"]["properties"]["tasks"]["items"]["properties"];
        if let Some(modes) = task["queries"]["items"]["properties"]["outputMode"]["enum"].as_array_mut() {
            let lower: Vec<Value> = modes.iter().filter_map(Value::as_str).map(|mode| json!(mode.to_ascii_lowercase())).collect();
            modes.extend(lower);
        }
        let pod = &mut task["podTemplate"];
        for part in pod["properties"].as_object_mut().into_iter().flat_map(|parts| parts.values_mut()) {
            let description = part["description"].take();
            remove_key(part, "description");
            if !description.is_null() {
                part["description"] = description;
            }
        }
    }
    serde_json::from_value(document).expect("the patches keep the shape of a CRD")
}

/// The CRD as the YAML that the charts contain.
pub fn crd_yaml() -> String {
    let body = serde_yaml_ng::to_string(&crd()).expect("a CRD is made of plain maps, lists and strings");
    format!("# Generated from crds/src/resource by `cargo xtask codegen`. Do not edit.\n{body}")
}

/// Removes a keyword wherever it stands as a keyword, not as the name of a property.
fn remove_key(schema: &mut Value, keyword: &str) {
    let Some(map) = schema.as_object_mut() else { return };
    map.shift_remove(keyword);
    for (key, child) in map.iter_mut() {
        match key.as_str() {
            "properties" => {
                for property in child.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
                    remove_key(property, keyword);
                }
            }
            "items" | "additionalProperties" => remove_key(child, keyword),
            "anyOf" | "oneOf" | "allOf" => {
                for part in child.as_array_mut().into_iter().flatten() {
                    remove_key(part, keyword);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn version() -> Value {
        serde_json::to_value(crd()).unwrap()["spec"]["versions"][0].clone()
    }

    #[test]
    fn an_untouched_status_is_not_taken_for_a_healthy_one() {
        let status = &version()["schema"]["openAPIV3Schema"]["properties"]["status"];
        assert_eq!(status["default"], json!({"observedGeneration": -1}));
        assert!(status["properties"]["consecutiveFailures"].get("default").is_none());
    }

    #[test]
    fn the_crd_carries_rules_lists_as_maps_and_none_of_weirs_keys() {
        let text = crd_yaml();
        assert!(!text.contains("x-weir"));
        let spec = version()["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
        assert_eq!(spec["properties"]["tasks"]["x-kubernetes-list-map-keys"], json!(["name"]));
        assert!(spec["x-kubernetes-validations"].as_array().unwrap().len() >= 3);
        let mode = &spec["properties"]["tasks"]["items"]["properties"]["queries"]["items"]["properties"]["outputMode"];
        assert_eq!(mode["enum"], json!(["Append", "Update", "Complete", "append", "update", "complete"]));
        assert!(text.len() < 200 * 1024, "{} bytes", text.len());
    }

    #[test]
    fn lists_and_strings_are_bounded_so_that_cel_stays_cheap() {
        fn walk(path: &str, schema: &Value, missing: &mut Vec<String>) {
            if path.contains(".podTemplate.") {
                return;
            }
            let bounded = |keys: &[&str]| keys.iter().any(|key| schema.get(*key).is_some());
            match schema["type"].as_str() {
                Some("string") if !bounded(&["maxLength", "enum"]) => missing.push(path.to_owned()),
                Some("array") if !bounded(&["maxItems"]) => missing.push(path.to_owned()),
                Some("object") if schema.get("additionalProperties").is_some() && !bounded(&["maxProperties"]) => {
                    missing.push(path.to_owned());
                }
                _ => {}
            }
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                walk(&format!("{path}.{name}"), property, missing);
            }
            walk_child(&format!("{path}[]"), &schema["items"], missing);
            walk_child(&format!("{path}{{}}"), &schema["additionalProperties"], missing);
        }
        fn walk_child(path: &str, schema: &Value, missing: &mut Vec<String>) {
            if schema.is_object() {
                walk(path, schema, missing);
            }
        }
        let mut missing = Vec::new();
        walk("spec", resource_schema(), &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn the_committed_crd_is_the_generated_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/weir-crds/crds/weir.dev_streamingjobs.yaml");
        let generated = crd_yaml();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(std::path::Path::new(file).parent().unwrap()).unwrap();
            std::fs::write(file, &generated).unwrap();
        }
        let committed = std::fs::read_to_string(file).unwrap_or_default();
        assert!(committed == generated, "{file} is out of date: run the test once with UPDATE=1");
    }
}
