//! Listeners for clients that must prove who they are, beside the open one of the same broker.
//!
//! One speaks SASL_PLAINTEXT with SCRAM, one SASL_SSL with PLAIN and the user `$ConnectionString`, as the Kafka endpoint of an Event Hubs
//! namespace does, one SASL_PLAINTEXT with OAUTHBEARER, which takes any token that is in date. The certificate is for 127.0.0.1 only, so
//! `localhost` is another host. A client's certificate is asked for, not required; a strange one is refused.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use crate::certificates::Authority;
use crate::ports;

/// The user of the listener with SCRAM.
pub const SCRAM_USER: &str = "alice";
/// The password of that user.
pub const SCRAM_PASSWORD: &str = "alices-Z2VoZWlt";
/// Another user of that listener, whose password one test may change.
pub const CHANGING_USER: &str = "bob";
/// The password of that user at first.
pub const CHANGING_PASSWORD: &str = "bobs-Z2VoZWlt";
/// The user of the listener with TLS.
pub const CONNECTION_USER: &str = "$ConnectionString";
/// The password of that user.
pub const CONNECTION_STRING: &str =
    "Endpoint=sb://weir.servicebus.windows.net/;SharedAccessKeyName=test;SharedAccessKey=Z2VoZWltZ2VoZWlt+/c=;EntityPath=readings";

/// Where such clients connect.
pub struct Secured {
    scram_port: u16,
    tls_port: u16,
    token_port: u16,
    /// Who signed the broker's certificate.
    pub authority: Authority,
}

impl Secured {
    pub(super) fn new() -> Result<Secured> {
        Ok(Secured {
            scram_port: ports::reserve()?,
            tls_port: ports::reserve()?,
            token_port: ports::reserve()?,
            authority: Authority::new("Weir test authority")?,
        })
    }

    /// `bootstrap.servers` with SASL_PLAINTEXT and SCRAM.
    pub fn scram(&self) -> String {
        format!("127.0.0.1:{}", self.scram_port)
    }

    /// `bootstrap.servers` with SASL_SSL and PLAIN.
    pub fn tls(&self) -> String {
        format!("127.0.0.1:{}", self.tls_port)
    }

    /// `bootstrap.servers` with SASL_PLAINTEXT and OAUTHBEARER.
    pub fn token(&self) -> String {
        format!("127.0.0.1:{}", self.token_port)
    }

    /// The listener with TLS under a name that its certificate is not for.
    pub fn tls_by_another_name(&self) -> String {
        format!("localhost:{}", self.tls_port)
    }

    /// Entries of server.properties; writes the certificates beside it.
    pub(super) fn properties(&self, open_port: u16, controller_port: u16, folder: &Path) -> Result<BTreeMap<String, String>> {
        let (keys, trusted) = (folder.join("broker.pem"), folder.join("authority.pem"));
        let issued = self.authority.issue("broker", &["127.0.0.1"])?;
        std::fs::write(&keys, format!("{}{}", issued.key, issued.certificate)).context("writing the broker's certificate")?;
        std::fs::write(&trusted, self.authority.pem()?).context("writing the authority's certificate")?;
        let (open, scram, tls) = (format!("PLAINTEXT://127.0.0.1:{open_port}"), self.scram(), self.tls());
        let advertised = format!("{open},SCRAM://{scram},TLS://{tls},TOKEN://{}", self.token());
        let module = "org.apache.kafka.common.security";
        let plain = format!("{module}.plain.PlainLoginModule required user_{CONNECTION_USER}=\"{CONNECTION_STRING}\";");
        let mut entries = vec![
            ("listeners", format!("{advertised},CONTROLLER://127.0.0.1:{controller_port}")),
            ("advertised.listeners", advertised),
            (
                "listener.security.protocol.map",
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_PLAINTEXT,TLS:SASL_SSL,TOKEN:SASL_PLAINTEXT".to_owned(),
            ),
            ("listener.name.scram.sasl.enabled.mechanisms", "SCRAM-SHA-256,SCRAM-SHA-512".to_owned()),
            // So soon clients must log in anew.
            ("listener.name.scram.connections.max.reauth.ms", "4000".to_owned()),
            ("listener.name.tls.sasl.enabled.mechanisms", "PLAIN".to_owned()),
            ("listener.name.token.sasl.enabled.mechanisms", "OAUTHBEARER".to_owned()),
            // A connection ends with the token by which it logged in, unless it logs in anew.
            ("listener.name.token.connections.max.reauth.ms", "3600000".to_owned()),
            (
                "listener.name.token.oauthbearer.sasl.jaas.config",
                format!("{module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";"),
            ),
            ("listener.name.tls.plain.sasl.jaas.config", plain),
            ("listener.name.tls.ssl.keystore.type", "PEM".to_owned()),
            ("listener.name.tls.ssl.keystore.location", keys.display().to_string()),
            ("listener.name.tls.ssl.truststore.type", "PEM".to_owned()),
            ("listener.name.tls.ssl.truststore.location", trusted.display().to_string()),
            ("listener.name.tls.ssl.client.auth", "requested".to_owned()),
        ];
        for mechanism in ["listener.name.scram.scram-sha-256.sasl.jaas.config", "listener.name.scram.scram-sha-512.sasl.jaas.config"] {
            entries.push((mechanism, format!("{module}.scram.ScramLoginModule required;")));
        }
        Ok(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// What the storage tool takes, so that the users are there when the broker starts.
    pub(super) fn format_arguments() -> Vec<String> {
        let users = [
            ("SCRAM-SHA-256", SCRAM_USER, SCRAM_PASSWORD),
            ("SCRAM-SHA-512", SCRAM_USER, SCRAM_PASSWORD),
            ("SCRAM-SHA-512", CHANGING_USER, CHANGING_PASSWORD),
        ];
        let argument = |(mechanism, user, password): (&str, &str, &str)| format!("{mechanism}=[name={user},password={password}]");
        users.into_iter().flat_map(|user| ["--add-scram".to_owned(), argument(user)]).collect()
    }
}
