//! Source offsets as the checkpoint stores them.
//!
//! An offset is one line of JSON text whose shape belongs to its source
//! (`{"logOffset":3}`, `{"topic":{"0":17}}`, a bare number). The checkpoint
//! and the driver move it around without looking inside; equality is by JSON
//! value, since Spark and Weir may order keys differently.

use serde_json::Value;
use std::fmt;

/// One source's position: the text of one line of the offset log.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Offset(String);

impl Offset {
    /// Wraps the JSON text of an offset; line breaks cannot be stored.
    pub fn new(json: impl Into<String>) -> Self {
        let text: String = json.into();
        debug_assert!(!text.contains('\n'), "an offset is one line of the log");
        Self(text)
    }

    /// The JSON text.
    pub fn json(&self) -> &str {
        &self.0
    }

    /// The value for progress records: parsed JSON, or the text itself as
    /// Spark prints offsets that are not JSON.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.clone()))
    }
}

impl PartialEq for Offset {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.to_value() == other.to_value()
    }
}

impl Eq for Offset {}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
