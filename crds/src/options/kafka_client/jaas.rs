//! `sasl.jaas.config`: one login module with options, as the Java client reads it.
//!
//! `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`
//! The module may stand in any package, so Databricks' shaded `kafkashaded.org.apache…` is the same module. PLAIN and SCRAM give user
//! name and password, OAUTHBEARER client credentials; other modules are refused with a remedy. No error quotes the text, because it
//! holds the password.

use std::collections::BTreeMap;

use super::tokens::{Token, tokens};

/// What a login module says.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    /// Who logs in.
    pub credentials: Credentials,
    /// The mechanisms that the module is for.
    pub mechanisms: &'static [&'static str],
}

/// Who logs in.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    /// PLAIN and SCRAM.
    Password {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
    /// OAUTHBEARER.
    Client(ClientCredentials),
}

/// What a token is asked for with; settings of the client may stand in for each.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ClientCredentials {
    /// `clientId`.
    pub id: Option<String>,
    /// `clientSecret`.
    pub secret: Option<String>,
    /// `scope`.
    pub scope: Option<String>,
    /// `extension_…`, which go to the brokers.
    pub extensions: Vec<(String, String)>,
}

/// The mechanism of `PlainLoginModule`.
pub(super) const PLAIN: &[&str] = &["PLAIN"];
/// The mechanisms of `ScramLoginModule`.
pub(super) const SCRAM: &[&str] = &["SCRAM-SHA-256", "SCRAM-SHA-512"];
/// The mechanism of `OAuthBearerLoginModule`.
pub(super) const OAUTHBEARER: &[&str] = &["OAUTHBEARER"];

/// Reads the text. Errors never quote it.
pub(super) fn parse(text: &str) -> Result<Login, String> {
    let (module, mut options) = entry(text)?;
    let mechanisms = match module.rsplit('.').next().unwrap_or_default() {
        "PlainLoginModule" => PLAIN,
        "ScramLoginModule" => SCRAM,
        "OAuthBearerLoginModule" => {
            return Ok(Login { credentials: Credentials::Client(client_credentials(options)?), mechanisms: OAUTHBEARER });
        }
        "Krb5LoginModule" => return Err(without_counterpart("Kerberos")),
        "IAMLoginModule" => return Err(without_counterpart("AWS_MSK_IAM")),
        _ => return Err("its login module is not known: use PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule".to_owned()),
    };
    if options.get("tokenauth").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err("delegation tokens (tokenauth) have no counterpart here: use the user name and password of a SCRAM user".to_owned());
    }
    let mut take = |name: &str| options.remove(name).ok_or_else(|| format!("it has no {name}"));
    Ok(Login { credentials: Credentials::Password { username: take("username")?, password: take("password")? }, mechanisms })
}

/// Options of Kafka's own `OAuthBearerLoginCallbackHandler`. `ssl.protocol`, which examples of Event Hubs have, chooses nothing here.
fn client_credentials(mut options: BTreeMap<String, String>) -> Result<ClientCredentials, String> {
    let (id, secret, scope) = (options.remove("clientId"), options.remove("clientSecret"), options.remove("scope"));
    let mut extensions = Vec::new();
    for (name, value) in options {
        match name.strip_prefix("extension_") {
            Some(name) => extensions.push((name.to_owned(), value)),
            None if name == "ssl.protocol" => {}
            None if name.starts_with("ssl.") => {
                return Err("the token endpoint's certificate is checked by the authorities of the machine (SSL_CERT_FILE): remove the \
                            options that begin with ssl."
                    .to_owned());
            }
            None if name.starts_with("unsecured") => {
                return Err("tokens that nobody signs (unsecuredLogin…) are not made here: use clientId and clientSecret".to_owned());
            }
            None => return Err("OAuthBearerLoginModule takes clientId, clientSecret, scope and extension_… only".to_owned()),
        }
    }
    Ok(ClientCredentials { id, secret, scope, extensions })
}

fn without_counterpart(what: &str) -> String {
    format!("{what} has no counterpart here: use SCRAM-SHA-512, PLAIN over TLS, or a client certificate (ssl.keystore.*)")
}

/// The one entry of the text: its module and options. Of an option given twice the last value counts.
fn entry(text: &str) -> Result<(String, BTreeMap<String, String>), String> {
    let mut tokens = tokens(text).into_iter();
    let module = tokens.next().ok_or("it is empty")?;
    let module = module.text().ok_or("it does not begin with a login module")?.to_owned();
    let flag = tokens.next();
    let flags = ["required", "requisite", "sufficient", "optional"];
    if !flag.as_ref().and_then(Token::text).is_some_and(|flag| flags.iter().any(|known| known.eq_ignore_ascii_case(flag))) {
        return Err("`required` must follow the login module".to_owned());
    }
    let mut options = BTreeMap::new();
    loop {
        let key = match tokens.next() {
            None => return Err("it does not end with a semicolon".to_owned()),
            Some(Token::Sign(';')) => break,
            Some(token) => token,
        };
        let value = (tokens.next() == Some(Token::Sign('='))).then(|| tokens.next()).flatten();
        let Some(Token::Text(value)) = value else {
            return Err("its options must be written as key=\"value\", closed by a semicolon; within a value, write \\\" for a quote and \
                        \\\\ for a backslash"
                .to_owned());
        };
        options.insert(key.text().unwrap_or_default().to_owned(), value);
    }
    match tokens.next() {
        None => Ok((module, options)),
        Some(_) => Err("it has something behind the semicolon: exactly one login module is allowed".to_owned()),
    }
}

#[cfg(test)]
#[path = "jaas_tests.rs"]
mod tests;
