//! `sasl.jaas.config`: one login module with options, as the Java client reads it.
//!
//! `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`
//! The module may stand in any package, so Databricks' shaded `kafkashaded.org.apache…` is the same module. PLAIN and SCRAM give user
//! name and password; other modules are refused with a remedy. No error quotes the text, because it holds the password.

use std::collections::BTreeMap;

use super::tokens::{Token, tokens};

/// What a login module says.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// The mechanisms that the module is for.
    pub mechanisms: &'static [&'static str],
}

/// The mechanism of `PlainLoginModule`.
pub(super) const PLAIN: &[&str] = &["PLAIN"];
/// The mechanisms of `ScramLoginModule`.
pub(super) const SCRAM: &[&str] = &["SCRAM-SHA-256", "SCRAM-SHA-512"];

/// Reads the text. Errors never quote it.
pub(super) fn parse(text: &str) -> Result<Login, String> {
    let (module, mut options) = entry(text)?;
    let mechanisms = match module.rsplit('.').next().unwrap_or_default() {
        "PlainLoginModule" => PLAIN,
        "ScramLoginModule" => SCRAM,
        "OAuthBearerLoginModule" => return Err(without_counterpart("OAUTHBEARER")),
        "Krb5LoginModule" => return Err(without_counterpart("Kerberos")),
        "IAMLoginModule" => return Err(without_counterpart("AWS_MSK_IAM")),
        _ => return Err("its login module is not known: use PlainLoginModule or ScramLoginModule".to_owned()),
    };
    if options.get("tokenauth").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err("delegation tokens (tokenauth) have no counterpart here: use the user name and password of a SCRAM user".to_owned());
    }
    let mut take = |name: &str| options.remove(name).ok_or_else(|| format!("it has no {name}"));
    Ok(Login { username: take("username")?, password: take("password")?, mechanisms })
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
