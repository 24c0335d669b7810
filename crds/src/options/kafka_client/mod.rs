//! Settings of the Java Kafka client (`kafka.*`) as librdkafka's.
//!
//! Options copy over verbatim from Spark, so the names are Java's. Refused with Spark's reason: what Spark
//! itself sets (`KafkaSourceProvider.validateGeneralOptions`). Refused with a remedy: what security or
//! meaning rests on and librdkafka cannot do. Ignored with a warning: what only tunes the
//! Java client, and names that it does not know. Values may be secret and never appear in a message.

mod jaas;
mod properties;
mod security;
mod stores;
mod token;
mod tokens;

use std::collections::BTreeMap;

use super::parse::Completeness;
use super::parsed::ParsedOptions;
use super::row::Role;
use crate::finding::Finding;

pub use properties::{Client, Mapping, PROPERTIES, Property};
pub use stores::{Certificates, Identity, PrivateKey, Side, StoreFile, TlsStores, jks_remedy};
pub use token::TokenLogin;

/// Whether an option's value is a secret, which a manifest may only refer to.
pub fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    let name = option.strip_prefix(PREFIX).unwrap_or_default();
    PROPERTIES.iter().any(|property| property.secret && property.name == name)
}

/// What the names of the client's settings begin with.
pub(super) const PREFIX: &str = "kafka.";

pub(super) fn translate(
    role: Role,
    given: &BTreeMap<String, String>,
    completeness: Completeness,
    parsed: &mut ParsedOptions,
    findings: &mut Vec<Finding>,
) {
    let settings: BTreeMap<String, (&str, &str)> =
        given.iter().map(|(name, value)| (name[PREFIX.len()..].to_ascii_lowercase(), (name.as_str(), value.as_str()))).collect();
    let mut out = Translation { settings: &settings, client: BTreeMap::new(), token: None, findings };
    for (key, (name, value)) in &settings {
        out.setting(role, key, name, value);
    }
    out.security(completeness);
    parsed.tls = out.stores();
    parsed.token = out.token.take();
    // The Java producer hashes keys with murmur2; the same key must stay in the same partition.
    if role == Role::Sink {
        out.client.entry("partitioner".to_owned()).or_insert_with(|| "murmur2_random".to_owned());
    }
    parsed.client.append(&mut out.client);
    if let Some(servers) = parsed.opt_str("kafka.bootstrap.servers") {
        parsed.client.insert("bootstrap.servers".to_owned(), servers);
    }
}

struct Translation<'a> {
    settings: &'a BTreeMap<String, (&'a str, &'a str)>,
    client: BTreeMap<String, String>,
    token: Option<TokenLogin>,
    findings: &'a mut Vec<Finding>,
}

impl<'a> Translation<'a> {
    fn setting(&mut self, role: Role, key: &str, name: &str, value: &str) {
        let Some(property) = PROPERTIES.iter().find(|property| property.name == key) else {
            self.unknown(key, name);
            return;
        };
        let foreign = match property.client {
            Client::Both => false,
            Client::Consumer => role == Role::Sink,
            Client::Producer => role != Role::Sink,
        };
        match property.mapping {
            Mapping::Refused(why) => {
                self.findings.push(Finding::error("refused-option", name, format!("Kafka option '{key}' {why}")));
            }
            _ if foreign => {
                let whose = if role == Role::Sink { "consumer" } else { "producer" };
                self.warn(name, format!("Kafka option '{key}' is a setting of the {whose} and has no effect here"));
            }
            Mapping::NoCounterpart(remedy) => self.refuse(name, key, remedy),
            Mapping::Harmless(why) => self.warn(name, format!("Kafka option '{key}' has no effect: {why}")),
            Mapping::Same => self.put(key, value),
            Mapping::Renamed(other) => self.put(other, value),
            Mapping::Number(other, least, most) => self.number(key, name, value, other, (least, most)),
            Mapping::Kibibytes(other) => match value.trim().parse::<i64>() {
                Ok(bytes) if bytes > 0 => self.put(other, &(bytes / 1024).clamp(1, 2_147_483_647).to_string()),
                _ => self.bad(name, key, "must be a positive number of bytes"),
            },
            Mapping::Words(other, words) => match words.iter().find(|word| word.eq_ignore_ascii_case(value.trim())) {
                Some(word) => self.put(other, word),
                None => {
                    let finding = Finding::error("option-value", name, format!("Invalid value '{value}' for Kafka option '{key}'"));
                    self.findings.push(finding.found(value).allowed(words.iter().copied()).nearest_of(value, words.iter().copied()));
                }
            },
            Mapping::Special(_) => self.special(key, name, value),
        }
    }

    fn special(&mut self, key: &str, name: &str, value: &str) {
        match key {
            "send.buffer.bytes" | "receive.buffer.bytes" => {
                // Java's -1 is the system's default, which is librdkafka's 0.
                let value = if value.trim() == "-1" { "0" } else { value };
                self.number(key, name, value, &format!("socket.{key}"), (0, 100_000_000));
            }
            "partitioner.class" => match value.rsplit('.').next().unwrap_or(value) {
                "DefaultPartitioner" => self.put("partitioner", "murmur2_random"),
                "UniformStickyPartitioner" | "RoundRobinPartitioner" => self.put("partitioner", "random"),
                _ => self.refuse(
                    name,
                    key,
                    "Java classes cannot be loaded: remove it for the partitioner by key, or compute a column `partition` in the SQL",
                ),
            },
            "partitioner.ignore.keys" => match value.trim() {
                "true" => self.put("partitioner", "random"),
                _ => self.put("partitioner", "murmur2_random"),
            },
            "ssl.endpoint.identification.algorithm" => match value.trim().to_ascii_lowercase().as_str() {
                "" | "none" => self.put(key, "none"),
                "https" => self.put(key, "https"),
                _ => self.bad(name, key, "must be https, or empty to turn the check of host names off"),
            },
            "ssl.protocol" | "ssl.enabled.protocols" => {
                let modern = value.split(',').map(str::trim).all(|protocol| matches!(protocol, "TLS" | "TLSv1.2" | "TLSv1.3"));
                let both = key == "ssl.protocol" || value.contains("TLSv1.2") && value.contains("TLSv1.3");
                if modern && both {
                    self.warn(name, format!("Kafka option '{key}' has no effect: TLS 1.2 and 1.3 are always allowed, older ones never"));
                } else {
                    self.refuse(name, key, "TLS 1.2 and 1.3 are always allowed, older ones never: remove it");
                }
            }
            "sasl.mechanism" => self.mechanism(key, name, value),
            "sasl.login.callback.handler.class" | "sasl.oauthbearer.jwt.retriever.class" => self.token_class(key, name, value),
            // Read together, by `login`, `token_login` and `stores`.
            _ => {}
        }
    }

    fn number(&mut self, key: &str, name: &str, value: &str, other: &str, bounds: (i64, i64)) {
        let (least, most) = bounds;
        match value.trim().parse::<i64>() {
            Ok(number) => {
                let kept = number.clamp(least, most);
                if kept != number {
                    self.warn(name, format!("Kafka option '{key}' is taken as {kept}: librdkafka takes {least} to {most}"));
                }
                self.put(other, &kept.to_string());
            }
            Err(_) => self.bad(name, key, "must be a whole number"),
        }
    }

    fn unknown(&mut self, key: &str, name: &str) {
        let known = PROPERTIES.iter().map(|property| property.name);
        let security = ["ssl.", "sasl.", "security."].iter().any(|prefix| key.starts_with(prefix));
        let message = format!("`{key}` is not a setting of the Kafka client");
        let finding = if security {
            Finding::error("unknown-option", name, message).remedy("correct or remove it: settings of security are not passed over")
        } else {
            Finding::warning("unknown-option", name, format!("{message} and has no effect"))
        };
        let mut finding = finding.nearest_of(key, known);
        finding.nearest = finding.nearest.map(|nearest| format!("kafka.{nearest}"));
        self.findings.push(finding);
    }

    /// A setting that was given, trimmed.
    fn given(&self, key: &str) -> Option<&'a str> {
        self.settings.get(key).map(|(_, value)| value.trim())
    }

    /// The option under which a setting was written, for findings.
    fn written(&self, key: &str) -> String {
        self.settings.get(key).map_or_else(|| format!("{PREFIX}{key}"), |(name, _)| (*name).to_owned())
    }

    fn put(&mut self, key: &str, value: &str) {
        self.client.insert(key.to_owned(), value.to_owned());
    }

    fn warn(&mut self, name: &str, message: String) {
        self.findings.push(Finding::warning("ignored-option", name, message));
    }

    fn refuse(&mut self, name: &str, key: &str, remedy: &str) {
        self.findings.push(Finding::error("refused-option", name, format!("Kafka option '{key}' cannot be obeyed here")).remedy(remedy));
    }

    fn bad(&mut self, name: &str, key: &str, must: &str) {
        self.findings.push(Finding::error("option-value", name, format!("Invalid value for Kafka option '{key}', {must}")));
    }
}
