//! Who logs in and how: protocol, mechanism and login module, which must fit each other.
//!
//! Java fails late or not at all where they do not; here each contradiction is refused with what to write. What may still come from
//! `optionsFrom` is not missed.

use super::jaas::{self, Credentials, Login};
use super::properties::{KERBEROS_REMEDY, MSK_REMEDY};
use super::{Completeness, PREFIX, Translation};
use crate::finding::Finding;

const MECHANISMS: [&str; 4] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];
const EXAMPLE: &str = "write for example `org.apache.kafka.common.security.scram.ScramLoginModule required username=\"…\" password=\"…\";`";
const PROTOCOL: &str = "security.protocol";
const MECHANISM: &str = "sasl.mechanism";
const JAAS: &str = "sasl.jaas.config";

impl Translation<'_> {
    pub(super) fn mechanism(&mut self, key: &str, name: &str, value: &str) {
        match value.trim().to_ascii_uppercase().as_str() {
            "GSSAPI" => self.refuse(name, key, KERBEROS_REMEDY),
            "AWS_MSK_IAM" => self.refuse(name, key, MSK_REMEDY),
            mechanism if MECHANISMS.contains(&mechanism) => self.put(key, mechanism),
            _ => {
                let finding = Finding::error("option-value", name, format!("Invalid value '{value}' for Kafka option '{key}'"));
                self.findings.push(finding.found(value).allowed(MECHANISMS).nearest_of(value, MECHANISMS));
            }
        }
    }

    /// `sasl.jaas.config`, and what must go with it.
    pub(super) fn security(&mut self, completeness: Completeness) {
        let protocol = self.given(PROTOCOL).map(str::to_ascii_lowercase);
        let with_login = protocol.as_deref().is_some_and(|protocol| protocol.starts_with("sasl"));
        if let Some((name, text)) = self.settings.get(JAAS) {
            match jaas::parse(text) {
                Ok(login) => self.login(name, &login, with_login, completeness),
                Err(reason) => self
                    .findings
                    .push(Finding::error("option-value", *name, format!("Kafka option '{JAAS}' cannot be used: {reason}")).remedy(EXAMPLE)),
            }
        } else if with_login && completeness == Completeness::Complete {
            // Java would look for a file of the machine's administrator.
            self.missing(JAAS, "kafka.security.protocol asks for a login, but kafka.sasl.jaas.config is not given", EXAMPLE);
        }
        if with_login && self.given(MECHANISM).is_none() && self.given(JAAS).is_none() && completeness == Completeness::Complete {
            let message = "kafka.security.protocol asks for a login, but kafka.sasl.mechanism is not given, and Java's default is Kerberos";
            self.missing(MECHANISM, message, &format!("add `kafka.sasl.mechanism`: one of {}", MECHANISMS.join(", ")));
        }
        if !with_login && self.given(MECHANISM).is_some() && self.given(JAAS).is_none() && completeness == Completeness::Complete {
            let remedy = "has no effect unless kafka.security.protocol is SASL_SSL or SASL_PLAINTEXT";
            self.warn(&self.written(MECHANISM), format!("Kafka option '{MECHANISM}' {remedy}"));
        }
        let encrypted = protocol.as_deref().is_some_and(|protocol| protocol.ends_with("ssl"));
        let idle = self.settings.keys().find(|key| key.starts_with("ssl.")).filter(|_| !encrypted).cloned();
        if let Some(key) = idle
            && completeness == Completeness::Complete
            && self.client_knows(&key)
        {
            let remedy = "has no effect unless kafka.security.protocol is SSL or SASL_SSL";
            self.warn(&self.written(&key), format!("Kafka option '{key}' {remedy}"));
        }
    }

    fn login(&mut self, name: &str, login: &Login, with_login: bool, completeness: Completeness) {
        let expected = login.mechanisms.join(" or ");
        match self.given(MECHANISM).map(str::to_ascii_uppercase) {
            None if completeness == Completeness::MayGrow => {}
            None => {
                let message = format!("the login module needs the mechanism {expected}, but kafka.sasl.mechanism is not given");
                self.missing(MECHANISM, &message, &format!("add `kafka.sasl.mechanism`: {expected}"));
            }
            Some(given) if MECHANISMS.contains(&given.as_str()) && !login.mechanisms.contains(&given.as_str()) => {
                self.findings.push(
                    Finding::error("option-value", name, format!("the login module does not fit kafka.sasl.mechanism {given}"))
                        .remedy(format!("use the mechanism {expected}, or the other login module")),
                );
            }
            Some(_) => {}
        }
        match &login.credentials {
            Credentials::Password { username, password } => {
                self.put("sasl.username", username);
                self.put("sasl.password", password);
            }
            Credentials::Client(credentials) => self.token_login(credentials, completeness),
        }
        if !with_login && (self.given(PROTOCOL).is_some() || completeness == Completeness::Complete) {
            self.findings.push(
                Finding::error(
                    "option-value",
                    name,
                    "kafka.sasl.jaas.config has no effect unless kafka.security.protocol is SASL_SSL or SASL_PLAINTEXT",
                )
                .remedy("add `kafka.security.protocol`: SASL_SSL"),
            );
        }
    }

    fn client_knows(&self, key: &str) -> bool {
        super::PROPERTIES.iter().any(|property| property.name == key)
    }

    pub(super) fn missing(&mut self, key: &str, message: &str, remedy: &str) {
        self.findings.push(Finding::error("missing-option", format!("{PREFIX}{key}"), message).remedy(remedy));
    }
}
