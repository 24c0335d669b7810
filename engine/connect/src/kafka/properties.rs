//! The settings of Kafka clients, in librdkafka's words.
//!
//! Owns how a user's settings and Weir's own come together: the user's value
//! wins for tuning, Weir's wins where correctness rests on it (no auto commit,
//! no offset reset). Values may be secret and are never printed. What a Java
//! setting is called here is a table in `weir-crds`.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use weir_core::Result;
use weir_crds::options::ParsedOptions;
use weir_crds::options::kafka_client::TlsStores;

use super::stores;
use super::token::{TakesTokens, Tokens};

/// librdkafka settings of one source or sink, secrets included.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSettings {
    values: BTreeMap<String, String>,
    /// Certificates and keys that are not loaded yet.
    stores: TlsStores,
    tokens: Option<Arc<Tokens>>,
}

impl std::fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

impl ClientSettings {
    /// Settings by librdkafka's names.
    pub fn new(values: BTreeMap<String, String>) -> Self {
        Self { values, stores: TlsStores::default(), tokens: None }
    }

    /// Takes over parsed options; no file is opened yet.
    pub fn from_parsed(parsed: &ParsedOptions) -> Self {
        let tokens = parsed.kafka_token().map(|login| Arc::new(Tokens::new(login.clone())));
        Self { values: parsed.kafka_client().clone(), stores: parsed.kafka_stores().clone(), tokens }
    }

    /// The settings with certificates and keys in place of their files. Only the machine that runs the query has those.
    pub fn loaded(mut self) -> Result<Self> {
        let stores = std::mem::take(&mut self.stores);
        self.values.extend(stores::load(&stores)?.into_iter().map(|(name, pem)| (name.to_owned(), pem)));
        Ok(self)
    }

    /// Sees to it that a client has a good token, where it logs in by one. May ask for one and wait.
    pub fn authorize<C: TakesTokens + 'static>(&self, client: &Arc<C>) -> Result<()> {
        self.tokens.as_ref().map_or(Ok(()), |tokens| tokens.authorize(client))
    }

    /// What a user corrects when the brokers refuse the login.
    pub fn credentials(&self) -> &'static str {
        match self.tokens {
            Some(_) => {
                "clientId, clientSecret and scope in kafka.sasl.jaas.config (or kafka.sasl.oauthbearer.*), or what the brokers ask of a token"
            }
            None => "the user name and password in kafka.sasl.jaas.config, or kafka.sasl.mechanism",
        }
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
        // As information it says why a connection was closed.
        config.set_log_level(RDKafkaLogLevel::Info);
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_value_lies_between_defaults_and_what_correctness_needs() {
        let given = [("sasl.password", "p w"), ("fetch.wait.max.ms", "7"), ("enable.auto.commit", "true")];
        let settings = ClientSettings::new(given.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        let config = settings.config(&[("fetch.wait.max.ms", "100"), ("client.id", "weir")], &[("enable.auto.commit", "false")]);
        assert_eq!(
            (config.get("fetch.wait.max.ms"), config.get("client.id"), config.get("enable.auto.commit")),
            (Some("7"), Some("weir"), Some("false"))
        );
        assert!(!format!("{settings:?}").contains("p w"));
    }
}
