//! Trust stores and key stores of the Kafka client: which files or texts they come from.
//!
//! librdkafka reads neither a PKCS12 trust store nor PEM in one line, so the connector loads both when a query starts and hands
//! over plain PEM. Here is what the options say, and the refusal of what is known to be unreadable: JKS, with the command that
//! converts it. No file is opened here; `Debug` shows neither keys nor passwords.

use std::fmt;

use super::{PREFIX, Translation};
use crate::finding::Finding;

/// Which of Java's two stores is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Whom the client trusts.
    Trust,
    /// Who the client is.
    Key,
}

impl Side {
    fn setting(self, what: &str) -> String {
        let side = if self == Side::Trust { "truststore" } else { "keystore" };
        format!("ssl.{side}.{what}")
    }

    /// The option with this ending, as a manifest writes it.
    pub fn option(self, what: &str) -> String {
        format!("{PREFIX}{}", self.setting(what))
    }
}

/// A file of certificates or keys.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// Where it is, on the machine that runs the query.
    pub path: String,
    /// What opens it, if it is PKCS12.
    pub password: Option<String>,
}

/// Whom the client trusts.
#[derive(Clone, PartialEq, Eq)]
pub enum Certificates {
    /// `ssl.truststore.location`.
    File(StoreFile),
    /// `ssl.truststore.certificates`.
    Pem(String),
}

/// Who the client is.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// Certificate and key.
    pub key: PrivateKey,
    /// `ssl.key.password`.
    pub key_password: Option<String>,
}

/// Where the client's certificate and key come from.
#[derive(Clone, PartialEq, Eq)]
pub enum PrivateKey {
    /// `ssl.keystore.location`.
    File(StoreFile),
    /// `ssl.keystore.certificate.chain` and `ssl.keystore.key`.
    Pem {
        /// The certificate, and those between it and a trusted one.
        chain: String,
        /// The key.
        key: String,
    },
}

/// Both stores; what is absent is left to the system's certificates and to no certificate of the client.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsStores {
    /// Whom the client trusts.
    pub trust: Option<Certificates>,
    /// Who the client is.
    pub identity: Option<Identity>,
}

impl fmt::Debug for TlsStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsStores {{ trust: {}, identity: {} }}", self.trust.is_some(), self.identity.is_some())
    }
}

/// What to do with a store in Java's own format.
pub fn jks_remedy(side: Side, path: &str) -> String {
    let converted = match path.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !ending.contains('/') => format!("{stem}.p12"),
        _ => format!("{path}.p12"),
    };
    format!(
        "convert it with `keytool -importkeystore -srckeystore {} -srcstoretype JKS -destkeystore {} -deststoretype PKCS12` and write \
         `{}`: PKCS12 with `{}`: {converted}",
        quoted(path),
        quoted(&converted),
        side.option("type"),
        side.option("location"),
    )
}

/// A path as one word of a shell.
fn quoted(path: &str) -> String {
    let plain = !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || "/._-+=:@%".contains(c));
    if plain { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

impl Translation<'_> {
    pub(super) fn stores(&mut self) -> TlsStores {
        let given = |out: &Self, key: &str| out.settings.get(key).map(|(_, value)| (*value).to_owned());
        let trust_file = self.store_file(Side::Trust);
        let certificates = given(self, "ssl.truststore.certificates");
        if trust_file.is_some() && certificates.is_some() {
            self.both("ssl.truststore.certificates", "ssl.truststore.location");
        }
        let trust = certificates.map(Certificates::Pem).or(trust_file.map(Certificates::File));
        let key_file = self.store_file(Side::Key);
        let (chain, key) = (given(self, "ssl.keystore.certificate.chain"), given(self, "ssl.keystore.key"));
        if key_file.is_some() && (chain.is_some() || key.is_some()) {
            self.both(if key.is_some() { "ssl.keystore.key" } else { "ssl.keystore.certificate.chain" }, "ssl.keystore.location");
        }
        let key = match (chain, key, key_file) {
            (Some(chain), Some(key), _) => Some(PrivateKey::Pem { chain, key }),
            (None, None, file) => file.map(PrivateKey::File),
            (Some(_), None, _) => self.half("ssl.keystore.key", "ssl.keystore.certificate.chain"),
            (None, Some(_), _) => self.half("ssl.keystore.certificate.chain", "ssl.keystore.key"),
        };
        let key_password = given(self, "ssl.key.password");
        TlsStores { trust, identity: key.map(|key| Identity { key, key_password }) }
    }

    fn store_file(&mut self, side: Side) -> Option<StoreFile> {
        let type_key = side.setting("type");
        let kind = self.given(&type_key).unwrap_or_default().to_ascii_uppercase();
        let location = side.setting("location");
        let path = self.given(&location).map(str::to_owned);
        match kind.as_str() {
            "JKS" | "JCEKS" => {
                let path = path.unwrap_or_else(|| "store.jks".to_owned());
                self.refuse(&self.written(&type_key), &type_key, &jks_remedy(side, &path));
                return None;
            }
            "" | "PEM" | "PKCS12" => {}
            _ => {
                let name = self.written(&type_key);
                let finding = Finding::error("option-value", name, format!("Invalid value '{kind}' for Kafka option '{type_key}'"));
                self.findings.push(finding.found(&kind).allowed(["PEM", "PKCS12"]).nearest_of(&kind, ["PEM", "PKCS12"]));
            }
        }
        let path = path?;
        if kind.is_empty() && path.to_ascii_lowercase().ends_with(".jks") {
            self.refuse(&self.written(&location), &location, &jks_remedy(side, &path));
            return None;
        }
        let password_key = side.setting("password");
        let password = self.settings.get(&password_key).map(|(_, value)| (*value).to_owned());
        if kind == "PEM" && password.is_some() {
            self.warn(&self.written(&password_key), format!("Kafka option '{password_key}' has no effect: a PEM file has no password"));
        }
        Some(StoreFile { path, password })
    }

    fn both(&mut self, key: &str, other: &str) {
        let message = format!("Kafka options '{key}' and '{other}' exclude each other");
        self.findings.push(Finding::error("exclusive-options", self.written(key), message).remedy("keep one of them"));
    }

    fn half(&mut self, missing: &str, given: &str) -> Option<PrivateKey> {
        let message = format!("Kafka option '{given}' needs '{missing}' beside it");
        self.findings.push(Finding::error("missing-option", format!("{PREFIX}{missing}"), message).remedy("give both, in PEM"));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_converts_names_the_files_as_a_shell_takes_them() {
        let remedy = jks_remedy(Side::Trust, "/certs/trust.jks");
        let command = "`keytool -importkeystore -srckeystore /certs/trust.jks -srcstoretype JKS -destkeystore /certs/trust.p12 -deststoretype PKCS12`";
        assert!(remedy.contains(command) && remedy.ends_with("`kafka.ssl.truststore.location`: /certs/trust.p12"), "{remedy}");
        let remedy = jks_remedy(Side::Key, "/my certs.d/it's");
        assert!(remedy.contains(r"-srckeystore '/my certs.d/it'\''s' ") && remedy.contains(r"'/my certs.d/it'\''s.p12'"), "{remedy}");
    }
}
