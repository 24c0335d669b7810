//! The located tree against the schema of the resource: every problem of shape, none stops the walk.
//!
//! The result is also a JSON value that fits the schema: what does not fit is left out, what
//! is missing is filled with a neutral value, and both are remembered as damaged, so that the
//! rules can still run over the rest without speaking about what was already reported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value, json};

use super::locate::{Locator, Spot, child, item, parent};
use super::scalar::Scalar;
use super::tree::{Entry, Node, NodeValue, Position, Style};
use super::words::{pattern_in_words, type_in_words};
use crate::finding::Finding;

/// Findings with their place, the locator, and the damaged paths.
pub(super) struct Walk<'a> {
    pub locator: &'a mut Locator,
    pub findings: Vec<(Position, Finding)>,
    pub damaged: BTreeSet<String>,
}

impl Walk<'_> {
    pub fn new(locator: &mut Locator) -> Walk<'_> {
        Walk { locator, findings: Vec::new(), damaged: BTreeSet::new() }
    }

    pub fn report(&mut self, at: Position, finding: Finding) {
        self.damaged.insert(finding.path.clone());
        self.findings.push((at, finding));
    }

    /// Whether a finding of a rule only repeats what the walk has said.
    pub fn is_covered(&self, path: &str) -> bool {
        let mut at = Some(path);
        while let Some(step) = at {
            if self.damaged.contains(step) {
                return true;
            }
            at = parent(step);
        }
        self.damaged.iter().any(|damaged| parent(damaged) == Some(path))
    }

    pub fn value(&mut self, schema: &Value, node: &Node, path: &str, key: Position) -> Option<Value> {
        let style = match &node.value {
            NodeValue::Scalar(_, _, style) => *style,
            _ => Style::Plain,
        };
        if let Some(text) = node.text() {
            self.locator.add_text(path, text);
        }
        self.locator.add(path, Spot { key, value: node.start, style });
        if let Some(sentence) = schema["x-weir-refused"].as_str() {
            self.report(key, Finding::error("refused-field", path, sentence));
            return None;
        }
        if node.is_null() && schema["nullable"] == json!(true) {
            return None;
        }
        if schema["x-kubernetes-int-or-string"] == json!(true) {
            return self.int_or_string(node, path);
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, node, path),
            Some("array") => self.list(schema, node, path),
            Some("string") => self.string(schema, node, path),
            Some("integer" | "number") => self.number(schema, node, path),
            Some("boolean") => match &node.value {
                NodeValue::Scalar(Scalar::Bool(value), _, _) => Some(json!(value)),
                _ => self.wrong_type(schema, node, path),
            },
            _ => Some(to_json(node)),
        }
    }

    fn object(&mut self, schema: &Value, node: &Node, path: &str) -> Option<Value> {
        let NodeValue::Map(entries) = &node.value else { return self.wrong_type(schema, node, path) };
        let mut result = Map::new();
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            if let Some(most) = schema["maxProperties"].as_u64().filter(|most| entries.len() as u64 > *most) {
                self.report(
                    node.start,
                    Finding::error("bounds", path, format!("has {} entries, at most {most} are allowed", entries.len())),
                );
            }
            for entry in entries {
                let path = child(path, &entry.key);
                if let Some(value) = self.value(values, &entry.value, &path, entry.key_start) {
                    result.insert(entry.key.clone(), value);
                }
            }
            return Some(Value::Object(result));
        }
        let empty = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let open = schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
        for entry in entries {
            match properties.get(&entry.key) {
                Some(property) => {
                    let path = child(path, &entry.key);
                    if let Some(value) = self.value(property, &entry.value, &path, entry.key_start) {
                        result.insert(entry.key.clone(), value);
                    }
                }
                None if open => {
                    result.insert(entry.key.clone(), to_json(&entry.value));
                }
                None => self.unknown_field(properties, entry, path),
            }
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !result.contains_key(name) {
                let own = child(path, name);
                if !self.damaged.contains(&own) {
                    let doc = properties.get(name).and_then(|property| property["description"].as_str()).unwrap_or_default();
                    let what = type_in_words(properties.get(name).unwrap_or(&Value::Null));
                    let finding = Finding::error("missing-field", &own, format!("`{name}` is required"));
                    self.report(node.start, finding.remedy(format!("add `{name}`, {what}: {}", doc.trim_end_matches('.'))));
                }
                result.insert(name.to_owned(), neutral(properties.get(name).unwrap_or(&Value::Null)));
            }
        }
        Some(Value::Object(result))
    }

    fn unknown_field(&mut self, properties: &Map<String, Value>, entry: &Entry, path: &str) {
        let known = || properties.iter().filter(|(_, schema)| schema.get("x-weir-refused").is_none()).map(|(name, _)| name.as_str());
        let own = child(path, &entry.key);
        let finding = Finding::error("unknown-field", &own, format!("`{}` is not a field here", entry.key))
            .allowed(known())
            .nearest_of(&entry.key, known());
        self.locator.add(&own, Spot { key: entry.key_start, value: entry.value.start, style: Style::Plain });
        self.report(entry.key_start, finding);
    }

    fn list(&mut self, schema: &Value, node: &Node, path: &str) -> Option<Value> {
        let NodeValue::List(items) = &node.value else { return self.wrong_type(schema, node, path) };
        let (least, most) = (schema["minItems"].as_u64().unwrap_or(0), schema["maxItems"].as_u64().unwrap_or(u64::MAX));
        let count = items.len() as u64;
        if count < least {
            self.report(node.start, Finding::error("bounds", path, format!("is empty, at least {least} is needed")));
        } else if count > most {
            self.report(node.start, Finding::error("bounds", path, format!("has {count} entries, at most {most} are allowed")));
        }
        let list_key = schema["x-kubernetes-list-map-keys"][0].as_str();
        let mut seen: BTreeMap<String, Position> = BTreeMap::new();
        let mut result = Vec::new();
        for (index, node) in items.iter().enumerate() {
            let named = list_key.and_then(|key| node.get(key));
            let name = named.and_then(Node::text).map(str::to_owned);
            let mut own = item(path, &name.clone().unwrap_or_else(|| index.to_string()));
            if let (Some(name), Some(named)) = (&name, named) {
                if let Some(first) = seen.get(name) {
                    let message = format!("`{name}` is given twice, first in line {}", first.line);
                    let finding = Finding::error("duplicate-name", format!("{own}.{}", list_key.unwrap_or("name")), message);
                    self.findings.push((named.start, finding.remedy("choose another name")));
                    own = item(path, &index.to_string());
                    self.damaged.insert(own.clone());
                    self.value(&schema["items"], node, &own, node.start);
                    continue;
                }
                seen.insert(name.clone(), named.start);
            }
            if let Some(value) = self.value(&schema["items"], node, &own, node.start) {
                result.push(value);
            }
        }
        Some(Value::Array(result))
    }

    fn string(&mut self, schema: &Value, node: &Node, path: &str) -> Option<Value> {
        let NodeValue::Scalar(Scalar::Text(text), _, _) = &node.value else {
            return self.wrong_type(schema, node, path);
        };
        if let Some(values) = schema["enum"].as_array() {
            let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let any_case = schema["x-weir-any-case"] == json!(true);
            if let Some(word) = words.iter().find(|word| any_case && word.eq_ignore_ascii_case(text)) {
                return Some(json!(word));
            }
            if !words.contains(&text.as_str()) {
                let message = match path.rsplit('.').next() {
                    Some("outputMode") => format!(
                        "[STREAMING_OUTPUT_MODE.INVALID] Invalid streaming output mode: {text}. Accepted output modes are 'Append', 'Complete', 'Update'."
                    ),
                    _ => format!("`{text}` is not allowed"),
                };
                let finding = Finding::error("enum", path, message).found(text).allowed(words.iter().copied());
                self.report(node.start, finding.nearest_of(text, words.iter().copied()));
                return None;
            }
            return Some(json!(text));
        }
        let count = text.chars().count() as u64;
        let (least, most) = (schema["minLength"].as_u64().unwrap_or(0), schema["maxLength"].as_u64().unwrap_or(u64::MAX));
        if count < least {
            let message = if count == 0 {
                "is empty, a text is needed".to_owned()
            } else {
                format!("has {count} characters, at least {least} are needed")
            };
            self.report(node.start, Finding::error("bounds", path, message));
            return None;
        }
        if count > most {
            self.report(node.start, Finding::error("bounds", path, format!("has {count} characters, at most {most} are allowed")));
            return None;
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && let Ok(regex) = regex::Regex::new(pattern)
            && !regex.is_match(text)
        {
            let finding = Finding::error("pattern", path, format!("`{text}` is not {}", pattern_in_words(pattern)));
            self.report(node.start, finding.found(text));
            return None;
        }
        Some(json!(text))
    }

    fn number(&mut self, schema: &Value, node: &Node, path: &str) -> Option<Value> {
        let value = match (&node.value, schema["type"].as_str()) {
            (NodeValue::Scalar(Scalar::Int(value), _, _), _) => Number::from(*value),
            (NodeValue::Scalar(Scalar::Float(value), _, _), Some("number")) => Number::from_f64(*value)?,
            _ => return self.wrong_type(schema, node, path),
        };
        let as_float = value.as_f64().unwrap_or(0.0);
        let least = schema["minimum"].as_f64().unwrap_or(f64::MIN);
        let most = schema["maximum"].as_f64().unwrap_or(if schema["format"] == "int32" { f64::from(i32::MAX) } else { f64::MAX });
        if as_float < least || as_float > most {
            let finding = Finding::error("bounds", path, format!("{value} is not {}", type_in_words(schema)));
            self.report(node.start, finding.found(&value.to_string()));
            return None;
        }
        Some(Value::Number(value))
    }

    fn int_or_string(&mut self, node: &Node, path: &str) -> Option<Value> {
        match &node.value {
            NodeValue::Scalar(Scalar::Int(value), _, _) => Some(json!(value)),
            NodeValue::Scalar(Scalar::Text(text), _, _) => Some(json!(text)),
            NodeValue::Scalar(Scalar::Float(_), text, _) => Some(json!(text)),
            _ => self.wrong_type(&json!({"type": "string"}), node, path),
        }
    }

    fn wrong_type(&mut self, schema: &Value, node: &Node, path: &str) -> Option<Value> {
        let expected = type_in_words(schema);
        let (found, shown) = match &node.value {
            NodeValue::Scalar(scalar, text, _) => (scalar.to_string(), Some(text.clone())),
            NodeValue::List(_) => ("a list".to_owned(), None),
            NodeValue::Map(_) => ("a map".to_owned(), None),
        };
        let mut finding = Finding::error("type", path, format!("must be {expected}, but is {found}"));
        if let Some(text) = &shown {
            finding = finding.found(text);
        }
        let key = last_key(path);
        let is_duration = matches!(schema["x-weir-type"].as_str(), Some("duration" | "interval"));
        finding = match (schema["type"].as_str(), &node.value) {
            (Some("string"), NodeValue::Scalar(Scalar::Int(_), text, _)) if is_duration => {
                finding.remedy(format!("give the unit: `{key}: {text}s`"))
            }
            (Some("string"), NodeValue::Scalar(Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_), text, _)) => {
                finding.remedy(format!("write it in quotes: `{}: \"{text}\"`", quoted_key(key)))
            }
            (Some("object"), NodeValue::Scalar(Scalar::Null, _, _)) => finding.remedy(format!("write `{key}: {{}}`")),
            (Some("integer" | "number" | "boolean"), NodeValue::Scalar(Scalar::Text(text), _, Style::Quoted)) => {
                finding.remedy(format!("write it without quotes: `{key}: {text}`"))
            }
            (Some("array"), NodeValue::Map(_)) => finding.remedy("begin each entry with `- `"),
            (Some("array"), NodeValue::Scalar(_, text, _)) if schema["items"]["type"] == "string" => {
                finding.remedy(format!("write `{key}: [{text}]`"))
            }
            (Some("object"), NodeValue::Scalar(_, text, _)) => finding.remedy(map_instead(schema, key, text)),
            _ => finding,
        };
        self.report(node.start, finding);
        None
    }
}

/// What to write where a word stands for a map: the field of that name, or which fields there are.
fn map_instead(schema: &Value, key: &str, text: &str) -> String {
    let fields: Vec<&str> = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    match schema["properties"][text]["type"].as_str() {
        Some("object") => format!("write `{key}: {{{text}: {{}}}}`"),
        _ if fields.contains(&"format") => format!("write `{key}: {{format: {text}}}` with what else it needs"),
        _ if fields.is_empty() => format!("write `{key}: {{name: value}}`"),
        _ => format!("write `{key}: {{…}}` with some of {}", fields.join(", ")),
    }
}

fn last_key(path: &str) -> &str {
    if let Some(body) = path.strip_suffix("\"]") {
        return body.rfind("[\"").map_or(path, |at| &body[at + 2..]);
    }
    path.rsplit('.').next().unwrap_or(path)
}

fn quoted_key(key: &str) -> String {
    match super::scalar::resolve(key) {
        Scalar::Text(_) => key.to_owned(),
        _ => format!("\"{key}\""),
    }
}

/// A value of the schema that means as little as possible.
fn neutral(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let mut result = Map::new();
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                result.insert(name.to_owned(), neutral(&schema["properties"][name]));
            }
            Value::Object(result)
        }
        Some("array") => json!([]),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(0)),
        Some("boolean") => json!(false),
        _ if schema["x-weir-type"] == "duration" => json!("0s"),
        _ => json!(""),
    }
}

/// A tree without a schema.
pub(super) fn to_json(node: &Node) -> Value {
    match &node.value {
        NodeValue::Scalar(scalar, text, _) => match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => json!(value),
            Scalar::Int(value) => json!(value),
            Scalar::Float(value) => Number::from_f64(*value).map_or_else(|| json!(text), Value::Number),
            Scalar::Text(text) => json!(text),
        },
        NodeValue::List(items) => Value::Array(items.iter().map(to_json).collect()),
        NodeValue::Map(entries) => Value::Object(entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.value))).collect()),
    }
}
