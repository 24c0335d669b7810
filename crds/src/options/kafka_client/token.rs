//! A login by token: OAuth 2.0's client credentials, as Java's `OAuthBearerLoginCallbackHandler` asks for them.
//!
//! Who the client is stands in settings of its own (KIP-1139) or in `sasl.jaas.config`, where tokens are issued in
//! `sasl.oauthbearer.token.endpoint.url`. The connector asks there; Java's other handlers and retrievers cannot be loaded. No request
//! is made here, and `Debug` shows no secret.

use std::fmt;

use super::jaas::ClientCredentials;
use super::{Completeness, Translation};
use crate::finding::Finding;

/// What a token is asked for with.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenLogin {
    /// Where tokens are issued.
    pub endpoint: String,
    /// Who asks.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: String,
    /// What the token is for.
    pub scope: Option<String>,
    /// The claim that names the principal.
    pub subject_claim: String,
    /// Whether client and secret are encoded as in URLs before they are sent.
    pub is_header_encoded: bool,
    /// SASL extensions, which go to the brokers beside the token.
    pub extensions: Vec<(String, String)>,
}

impl fmt::Debug for TokenLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenLogin").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

const ENDPOINT: &str = "sasl.oauthbearer.token.endpoint.url";
const CLIENT: &str = "sasl.oauthbearer.client.credentials.client.id";
const SECRET: &str = "sasl.oauthbearer.client.credentials.client.secret";
const HANDLER: &str = "sasl.login.callback.handler.class";
const HANDLERS: &str = "write `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler`";
/// Kafka's own classes for client credentials, in whatever package.
const CLASSES: [&str; 3] = ["OAuthBearerLoginCallbackHandler", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever"];

impl Translation<'_> {
    /// Refuses a handler or retriever that is not Kafka's own for client credentials.
    pub(super) fn token_class(&mut self, key: &str, name: &str, value: &str) {
        if !value.trim().rsplit('.').next().is_some_and(|class| CLASSES.contains(&class)) {
            let instead = if key == HANDLER { HANDLERS } else { "leave it out" };
            self.refuse(name, key, &format!("Java classes cannot be loaded; for a token by client credentials {instead}"));
        }
    }

    pub(super) fn token_login(&mut self, credentials: &ClientCredentials, completeness: Completeness) {
        if self.given(HANDLER).is_none() && completeness == Completeness::Complete {
            // Java would make up a token that nobody has signed.
            self.missing(HANDLER, "OAUTHBEARER needs kafka.sasl.login.callback.handler.class, which is not given", HANDLERS);
        }
        let endpoint = self.endpoint(completeness);
        let client_id = self.credential(CLIENT, "clientId", &credentials.id, completeness);
        let client_secret = self.credential(SECRET, "clientSecret", &credentials.secret, completeness);
        let (Some(endpoint), Some(client_id), Some(client_secret)) = (endpoint, client_id, client_secret) else { return };
        self.token = Some(TokenLogin {
            endpoint,
            client_id,
            client_secret,
            scope: self.given("sasl.oauthbearer.scope").map(str::to_owned).or_else(|| credentials.scope.clone()),
            subject_claim: self.given("sasl.oauthbearer.sub.claim.name").unwrap_or("sub").to_owned(),
            is_header_encoded: self.given("sasl.oauthbearer.header.urlencode").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            extensions: credentials.extensions.clone(),
        });
    }

    fn endpoint(&mut self, completeness: Completeness) -> Option<String> {
        let Some(endpoint) = self.given(ENDPOINT) else {
            if completeness == Completeness::Complete {
                let message = "OAUTHBEARER needs kafka.sasl.oauthbearer.token.endpoint.url, which is not given";
                self.missing(ENDPOINT, message, "add the URL where your identity provider issues tokens");
            }
            return None;
        };
        if endpoint.starts_with("http://") {
            let message = "the token endpoint is asked without TLS: whoever sees the traffic has the client's secret";
            self.findings.push(Finding::warning("option-value", self.written(ENDPOINT), message).remedy("use its https:// URL"));
        }
        if endpoint.starts_with("https://") || endpoint.starts_with("http://") {
            return Some(endpoint.to_owned());
        }
        let message = format!("Invalid value for Kafka option '{ENDPOINT}', must be a URL that begins with https://");
        self.findings.push(Finding::error("option-value", self.written(ENDPOINT), message));
        None
    }

    /// A setting of the client, or what stands for it in the login module.
    fn credential(&mut self, key: &str, option: &str, in_module: &Option<String>, completeness: Completeness) -> Option<String> {
        let found = self.given(key).map(str::to_owned).or_else(|| in_module.clone());
        if found.is_none() && completeness == Completeness::Complete {
            let message = format!("OAUTHBEARER needs kafka.{key}, or {option} in kafka.sasl.jaas.config; neither is given");
            self.missing(key, &message, "add it by optionsFrom, from a Secret");
        }
        found
    }
}
