//! Options after parsing: typed values with defaults filled in.
//!
//! Getters take the name of a row in Spark's spelling. Asking for a name that has no row is
//! a mistake of the program; it answers with the zero value in release builds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::formats::Format;
use super::kafka_client::{TlsStores, TokenLogin};
use super::kind::{Offsets, Value};
use super::row::{OptionRow, Role};

/// The options of one source, static table or sink.
#[derive(Clone, PartialEq)]
pub struct ParsedOptions {
    /// The format.
    pub format: Format,
    /// The role it plays.
    pub role: Role,
    pub(super) values: BTreeMap<&'static str, Value>,
    pub(super) texts: BTreeMap<&'static str, String>,
    pub(super) client: BTreeMap<String, String>,
    pub(super) tls: TlsStores,
    pub(super) token: Option<TokenLogin>,
}

/// Names only: values may be secret.
impl fmt::Debug for ParsedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.values.keys().copied().chain(self.client.keys().map(String::as_str));
        f.debug_set().entry(&self.format).entry(&self.role).entries(names).finish()
    }
}

impl ParsedOptions {
    pub(super) fn new(format: Format, role: Role) -> Self {
        Self {
            format,
            role,
            values: BTreeMap::new(),
            texts: BTreeMap::new(),
            client: BTreeMap::new(),
            tls: TlsStores::default(),
            token: None,
        }
    }

    /// Whether the option was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.row(name).is_some_and(|row| self.values.contains_key(row.name))
    }

    /// A yes or no.
    pub fn bool(&self, name: &str) -> bool {
        self.opt_bool(name).unwrap_or_default()
    }

    /// A whole number.
    pub fn i64(&self, name: &str) -> i64 {
        self.opt_i64(name).unwrap_or_default()
    }

    /// A number.
    pub fn f64(&self, name: &str) -> f64 {
        self.opt_f64(name).unwrap_or_default()
    }

    /// A text.
    pub fn str(&self, name: &str) -> String {
        self.opt_str(name).unwrap_or_default()
    }

    /// A length of time.
    pub fn duration(&self, name: &str) -> Duration {
        self.opt_duration(name).unwrap_or_default()
    }

    /// A yes or no, if given or defaulted.
    pub fn opt_bool(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A whole number, if given or defaulted.
    pub fn opt_i64(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }

    /// A number, if given or defaulted.
    pub fn opt_f64(&self, name: &str) -> Option<f64> {
        match self.value(name)? {
            Value::Float(value) => Some(value),
            _ => None,
        }
    }

    /// A text, if given or defaulted; for values of another type the text as it was written.
    pub fn opt_str(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Text(value) => Some(value),
            _ => self.row(name).and_then(|row| self.texts.get(row.name).cloned().or_else(|| row.default.map(str::to_owned))),
        }
    }

    /// A length of time, if given or defaulted.
    pub fn opt_duration(&self, name: &str) -> Option<Duration> {
        match self.value(name)? {
            Value::Time(value) => Some(value),
            _ => None,
        }
    }

    /// Kafka offsets or timestamps, if given or defaulted.
    pub fn opt_offsets(&self, name: &str) -> Option<Offsets> {
        match self.value(name)? {
            Value::Offsets(value) => Some(value),
            _ => None,
        }
    }

    /// Topics with partitions, if given.
    pub fn opt_partitions(&self, name: &str) -> Option<BTreeMap<String, Vec<i32>>> {
        match self.value(name)? {
            Value::Partitions(value) => Some(value),
            _ => None,
        }
    }

    /// A list with commas, trimmed, without empty entries.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.str(name).split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Settings of the Kafka client in librdkafka's names. May hold secrets: never print it.
    pub fn kafka_client(&self) -> &BTreeMap<String, String> {
        &self.client
    }

    /// Where the Kafka client's certificates and keys come from. May hold secrets: never print it.
    pub fn kafka_stores(&self) -> &TlsStores {
        &self.tls
    }

    /// How the Kafka client asks for tokens, where it logs in by one. Holds a secret: never print it.
    pub fn kafka_token(&self) -> Option<&TokenLogin> {
        self.token.as_ref()
    }

    /// What is in force, defaults included, for the line that a start logs. Secrets and client settings are left out.
    pub fn effective(&self) -> BTreeMap<&'static str, String> {
        self.format
            .rows(self.role)
            .filter(|row| !row.secret)
            .filter_map(|row| {
                let text = self.texts.get(row.name).cloned().or_else(|| row.default.map(str::to_owned))?;
                Some((row.name, text))
            })
            .collect()
    }

    fn row(&self, name: &str) -> Option<&'static OptionRow> {
        let row = self.format.rows(self.role).find(|row| row.is_named(name));
        debug_assert!(row.is_some(), "no row for option {name} of {}", self.format.as_str());
        row
    }

    fn value(&self, name: &str) -> Option<Value> {
        let row = self.row(name)?;
        match self.values.get(row.name) {
            Some(value) => Some(value.clone()),
            None => row.kind.parse(row.default?).ok(),
        }
    }
}
