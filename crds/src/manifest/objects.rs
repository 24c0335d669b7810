//! Secrets and ConfigMaps that stand among the files.
//!
//! They supply `optionsFrom` and webhook addresses to the local runner. Values of Secrets
//! are never printed: `Debug` shows the names of keys only.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;

use crate::resource::OptionsFromSpec;

/// Key and text of one object.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ObjectData(pub BTreeMap<String, String>);

impl fmt::Debug for ObjectData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The Secrets and ConfigMaps of a set of files, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Secrets.
    pub secrets: BTreeMap<(String, String), ObjectData>,
    /// ConfigMaps.
    pub config_maps: BTreeMap<(String, String), ObjectData>,
}

impl Objects {
    /// What an `optionsFrom` entry refers to, if it is among the files.
    pub fn find(&self, namespace: &str, from: &OptionsFromSpec) -> Option<&ObjectData> {
        let key = |name: &str| (namespace.to_owned(), name.to_owned());
        match (&from.secret_ref, &from.config_map_ref) {
            (Some(secret), _) => self.secrets.get(&key(&secret.name)),
            (None, Some(config_map)) => self.config_maps.get(&key(&config_map.name)),
            (None, None) => None,
        }
    }

    /// Takes a document of kind Secret. The error never quotes a value.
    pub(super) fn add_secret(&mut self, namespace: &str, name: &str, document: Value) -> Result<(), String> {
        let secret: Secret = serde_json::from_value(document)
            .map_err(|_| "this is not a Secret: `data` holds base64, `stringData` plain texts".to_owned())?;
        let mut data = BTreeMap::new();
        for (key, bytes) in secret.data.unwrap_or_default() {
            let text = String::from_utf8(bytes.0).map_err(|_| format!("the value of `{key}` is not UTF-8"))?;
            data.insert(key, text);
        }
        data.extend(secret.string_data.unwrap_or_default());
        insert(&mut self.secrets, namespace, name, data)
    }

    /// Takes a document of kind ConfigMap.
    pub(super) fn add_config_map(&mut self, namespace: &str, name: &str, document: Value) -> Result<(), String> {
        let config_map: ConfigMap = serde_json::from_value(document).map_err(|error| format!("this is not a ConfigMap: {error}"))?;
        insert(&mut self.config_maps, namespace, name, config_map.data.unwrap_or_default())
    }
}

fn insert(
    objects: &mut BTreeMap<(String, String), ObjectData>,
    namespace: &str,
    name: &str,
    data: BTreeMap<String, String>,
) -> Result<(), String> {
    match objects.insert((namespace.to_owned(), name.to_owned()), ObjectData(data)) {
        None => Ok(()),
        Some(_) => Err(format!("`{name}` is given twice in namespace {namespace}")),
    }
}

/// Options with those of `optionsFrom` under them: literal options win, among the objects the later one.
/// Names compare without regard to case. `lookup` gives the data of an entry; the first entry without data is the error.
pub fn merged_options<'a>(
    options: &BTreeMap<String, String>,
    from: &'a [OptionsFromSpec],
    lookup: impl Fn(&OptionsFromSpec) -> Option<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, &'a OptionsFromSpec> {
    let mut merged: BTreeMap<String, String> = BTreeMap::new();
    for entry in from {
        for (name, value) in lookup(entry).ok_or(entry)? {
            put(&mut merged, name, value);
        }
    }
    merged.retain(|known, _| !options.keys().any(|name| name.eq_ignore_ascii_case(known)));
    merged.extend(options.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(merged)
}

fn put(options: &mut BTreeMap<String, String>, name: String, value: String) {
    options.retain(|known, _| !known.eq_ignore_ascii_case(&name) || *known == name);
    options.insert(name, value);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_is_decoded_and_never_shown() {
        let mut objects = Objects::default();
        let secret = json!({"data": {"a": "Z2VoZWlt"}, "stringData": {"b": "offen"}});
        objects.add_secret("default", "s", secret).unwrap();
        let from: OptionsFromSpec = serde_json::from_value(json!({"secretRef": {"name": "s"}})).unwrap();
        let data = objects.find("default", &from).unwrap();
        assert_eq!((data.0["a"].as_str(), data.0["b"].as_str()), ("geheim", "offen"));
        assert!(!format!("{objects:?}").contains("geheim"));
    }

    #[test]
    fn literal_options_win_whatever_their_case() {
        let from: Vec<OptionsFromSpec> = serde_json::from_value(json!([{"secretRef": {"name": "s"}}])).unwrap();
        let literal = BTreeMap::from([("Topic".to_owned(), "mine".to_owned())]);
        let data = BTreeMap::from([("topic".to_owned(), "theirs".to_owned()), ("x".to_owned(), "1".to_owned())]);
        let merged = merged_options(&literal, &from, |_| Some(data.clone())).unwrap();
        assert_eq!(merged, BTreeMap::from([("Topic".to_owned(), "mine".to_owned()), ("x".to_owned(), "1".to_owned())]));
        assert!(merged_options(&literal, &from, |_| None).is_err());
    }
}
