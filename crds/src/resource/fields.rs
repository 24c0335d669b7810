//! One row per field of the spec: path, type, default, documentation, and what an edit disrupts.
//!
//! Derived from the schema, never written by hand. `x-weir-disrupts` is inherited from the
//! nearest ancestor that has it. Kubernetes' own types inside `podTemplate` are not descended into.

use serde_json::Value;

use super::schema::resource_schema;

/// What changing a field does to a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disrupts {
    /// Reaches the running tasks, nothing is restarted.
    None,
    /// Acts by itself (suspend, restartNonce).
    Itself,
    /// Restarts the task that it stands in.
    Task,
    /// Ends the run; the next one starts at once.
    Run,
}

impl Disrupts {
    /// The word of the `x-weir-disrupts` key.
    pub fn as_str(self) -> &'static str {
        match self {
            Disrupts::None => "none",
            Disrupts::Itself => "self",
            Disrupts::Task => "task",
            Disrupts::Run => "run",
        }
    }

    pub(super) fn of(schema: &Value) -> Option<Self> {
        match schema.get("x-weir-disrupts")?.as_str()? {
            "none" => Some(Disrupts::None),
            "self" => Some(Disrupts::Itself),
            "task" => Some(Disrupts::Task),
            _ => Some(Disrupts::Run),
        }
    }
}

/// One field of the spec.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRow {
    /// Where it stands, for example `spec.tasks[].queries[].sql`.
    pub path: String,
    /// Type and bounds in words.
    pub kind: String,
    /// Value when the field is left out.
    pub default: Option<Value>,
    /// Whether it must be given where its parent is.
    pub required: bool,
    /// What it means.
    pub doc: String,
    /// What an edit does.
    pub disrupts: Disrupts,
}

/// The rows of all fields, parents before children.
pub fn field_table() -> Vec<FieldRow> {
    let mut rows = Vec::new();
    descend("spec", resource_schema(), Disrupts::Run, &mut rows);
    rows
}

fn descend(path: &str, schema: &Value, inherited: Disrupts, rows: &mut Vec<FieldRow>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if property.get("x-weir-refused").is_some() {
            continue;
        }
        let disrupts = Disrupts::of(property).unwrap_or(inherited);
        let is_list = property["type"] == "array";
        let own_path = format!("{path}.{name}{}", if is_list { "[]" } else { "" });
        rows.push(FieldRow {
            path: own_path.clone(),
            kind: kind_in_words(property),
            default: property.get("default").cloned().filter(|value| !value.is_null() && !value.is_object()),
            required: required.contains(&name.as_str()),
            doc: property["description"].as_str().unwrap_or_default().to_owned(),
            disrupts,
        });
        if !path.ends_with(".podTemplate") {
            let children = if is_list { &property["items"] } else { property };
            descend(&own_path, children, disrupts, rows);
        }
    }
}

fn kind_in_words(schema: &Value) -> String {
    if let Some(kind) = schema["x-weir-type"].as_str() {
        return kind.to_owned();
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        return values.join(" | ");
    }
    let number = |key: &str| schema[key].as_f64().map(|value| value.to_string());
    match schema["type"].as_str() {
        Some("array") => format!(
            "list of {}{}",
            kind_in_words(&schema["items"]),
            number("maxItems").map(|max| format!(", at most {max}")).unwrap_or_default()
        ),
        Some("object") if schema.get("additionalProperties").is_some() => "map of strings".to_owned(),
        Some("integer") => match (number("minimum"), number("maximum")) {
            (Some(min), Some(max)) => format!("integer {min} to {max}"),
            (Some(min), None) => format!("integer from {min}"),
            _ => "integer".to_owned(),
        },
        Some("string") => match number("maxLength") {
            Some(max) => format!("string, at most {max} characters"),
            None => "string".to_owned(),
        },
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_field_is_documented_and_has_a_class() {
        let rows = field_table();
        assert!(rows.len() > 100, "{}", rows.len());
        for row in &rows {
            assert!(!row.doc.is_empty(), "{} has no documentation", row.path);
        }
        let class = |path: &str| rows.iter().find(|row| row.path == path).map(|row| row.disrupts).unwrap();
        assert_eq!(class("spec.trigger.continuous.taskRetryMode"), Disrupts::None);
        assert_eq!(class("spec.tasks[].queries[].sql"), Disrupts::Task);
        assert_eq!(class("spec.tasks[].queries[].checkpointLocation"), Disrupts::Run);
        assert_eq!(class("spec.tasks[].podTemplate.labels"), Disrupts::None);
        assert_eq!(class("spec.health.staleAfter"), Disrupts::None);
        assert_eq!(class("spec.conf"), Disrupts::Run);
        assert_eq!(class("spec.suspend"), Disrupts::Itself);
    }
}
