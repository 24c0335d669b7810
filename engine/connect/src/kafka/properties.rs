//! Kafka's Java client settings in librdkafka's words.
//!
//! Owns the settings of a source's or sink's clients after translation, and
//! what Weir sets itself: the user's value wins for tuning, Weir's wins where
//! correctness rests on it (no auto commit, no offset reset). Values are never
//! printed. Which setting means what is a table in `weir-crds`.

use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use weir_core::Result;

use super::errors;

/// librdkafka settings of one source or sink, secrets included.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSettings {
    values: BTreeMap<String, String>,
}

impl std::fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

impl ClientSettings {
    /// Settings by librdkafka's names.
    pub fn new(values: BTreeMap<String, String>) -> Self {
        Self { values }
    }

    /// A setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The brokers to begin with, for messages.
    pub fn servers(&self) -> &str {
        self.get("bootstrap.servers").unwrap_or_default()
    }

    /// A client's configuration: `defaults` below, `forced` above the user's settings.
    pub fn config(&self, defaults: &[(&str, &str)], forced: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        let user = self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in defaults.iter().copied().chain(user).chain(forced.iter().copied()) {
            config.set(name, value);
        }
        config.set_log_level(RDKafkaLogLevel::Warning);
        config
    }
}

/// Which client a setting is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Consumers of a source.
    Consumer,
    /// The producer of a sink.
    Producer,
}

/// Translates `kafka.*` options, given without the prefix.
pub fn translate(options: &BTreeMap<String, String>, kind: ClientKind) -> Result<ClientSettings> {
    let mut values = BTreeMap::new();
    for (name, value) in options {
        if let Some(why) = refusal(name, kind) {
            return Err(errors::unsupported_option(name, why));
        }
        match counterpart(name) {
            Counterpart::Same => {
                values.insert(name.clone(), value.clone());
            }
            Counterpart::Renamed(other) => {
                values.insert(other.to_owned(), value.clone());
            }
            Counterpart::Jaas => values.extend(jaas(value)?),
            Counterpart::None => tracing::warn!(option = %format!("kafka.{name}"), "the Kafka client has no such setting, it is ignored"),
            Counterpart::Refused(remedy) => return Err(errors::unsupported_option(name, remedy)),
        }
    }
    Ok(ClientSettings::new(values))
}

/// Settings that Spark refuses too.
fn refusal(name: &str, kind: ClientKind) -> Option<&'static str> {
    match (name, kind) {
        ("auto.offset.reset", ClientKind::Consumer) => {
            Some("offsets are managed by the query; set startingOffsets to earliest or latest instead")
        }
        ("key.deserializer" | "value.deserializer", ClientKind::Consumer) => Some("keys and values are read as bytes; decode them in SQL"),
        ("enable.auto.commit", ClientKind::Consumer) => Some("offsets are kept in the checkpoint"),
        ("interceptor.classes", ClientKind::Consumer) => Some("interceptors could change the records"),
        ("key.serializer" | "value.serializer", ClientKind::Producer) => Some("keys and values are written as bytes; encode them in SQL"),
        _ => None,
    }
}

enum Counterpart {
    Same,
    Renamed(&'static str),
    Jaas,
    None,
    Refused(&'static str),
}

fn counterpart(name: &str) -> Counterpart {
    match name {
        "fetch.max.wait.ms" => Counterpart::Renamed("fetch.wait.max.ms"),
        "max.partition.fetch.bytes" => Counterpart::Renamed("fetch.message.max.bytes"),
        "receive.buffer.bytes" => Counterpart::Renamed("socket.receive.buffer.bytes"),
        "send.buffer.bytes" => Counterpart::Renamed("socket.send.buffer.bytes"),
        "request.timeout.ms" => Counterpart::Renamed("socket.timeout.ms"),
        "max.request.size" => Counterpart::Renamed("message.max.bytes"),
        "delivery.timeout.ms" => Counterpart::Renamed("message.timeout.ms"),
        "ssl.truststore.certificates" => Counterpart::Renamed("ssl.ca.pem"),
        "ssl.keystore.certificate.chain" => Counterpart::Renamed("ssl.certificate.pem"),
        "ssl.keystore.key" => Counterpart::Renamed("ssl.key.pem"),
        "sasl.jaas.config" => Counterpart::Jaas,
        "ssl.truststore.location"
        | "ssl.keystore.location"
        | "ssl.truststore.password"
        | "ssl.keystore.password"
        | "ssl.truststore.type"
        | "ssl.keystore.type" => Counterpart::Refused(
            "Java key stores cannot be read; give PEM files as kafka.ssl.ca.location, kafka.ssl.certificate.location and kafka.ssl.key.location",
        ),
        other if is_known(other) => Counterpart::Same,
        other if other.starts_with("ssl.") || other.starts_with("sasl.") || other.starts_with("security.") => {
            Counterpart::Refused("the Kafka client has no such security setting, and leaving it out could weaken the connection")
        }
        _ => Counterpart::None,
    }
}

/// Whether librdkafka itself knows a setting of this name.
fn is_known(name: &str) -> bool {
    ClientConfig::new().create_native_config().is_ok_and(|config| config.get(name).is_ok())
}

/// `...LoginModule required username="u" password="p";`
fn jaas(value: &str) -> Result<Vec<(String, String)>> {
    let refused = || {
        errors::unsupported_option(
            "sasl.jaas.config",
            "only PlainLoginModule and ScramLoginModule with username and password can be used; or set kafka.sasl.username and kafka.sasl.password",
        )
    };
    if !value.contains("PlainLoginModule") && !value.contains("ScramLoginModule") {
        return Err(refused());
    }
    let field = |name: &str| {
        let rest = &value[value.find(&format!("{name}=\""))? + name.len() + 2..];
        Some(rest[..rest.find('"')?].to_owned())
    };
    let (Some(user), Some(password)) = (field("username"), field("password")) else { return Err(refused()) };
    Ok(vec![("sasl.username".to_owned(), user), ("sasl.password".to_owned(), password)])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn one(name: &str, value: &str) -> Result<ClientSettings> {
        translate(&BTreeMap::from([(name.to_owned(), value.to_owned())]), ClientKind::Consumer)
    }

    #[test]
    fn java_names_find_their_counterparts() {
        assert_eq!(one("fetch.max.wait.ms", "7").unwrap().get("fetch.wait.max.ms"), Some("7"));
        assert_eq!(one("isolation.level", "read_committed").unwrap().get("isolation.level"), Some("read_committed"));
        assert_eq!(one("no.such.setting", "1").unwrap().get("no.such.setting"), None);
        let login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"p w\";";
        let settings = one("sasl.jaas.config", login).unwrap();
        assert_eq!((settings.get("sasl.username"), settings.get("sasl.password")), (Some("u"), Some("p w")));
        assert!(!format!("{settings:?}").contains("p w"));
    }

    #[test]
    fn what_would_harm_is_refused() {
        for name in [
            "auto.offset.reset",
            "enable.auto.commit",
            "key.deserializer",
            "interceptor.classes",
            "ssl.truststore.location",
            "ssl.secure.magic",
        ] {
            assert!(one(name, "x").unwrap_err().message().contains(name), "{name}");
        }
    }
}
