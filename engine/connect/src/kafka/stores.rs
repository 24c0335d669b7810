//! Certificates and keys for the client, loaded when a query starts.
//!
//! Java's stores become plain PEM, which is all that librdkafka takes from memory: PEM files and texts (also in one line, as
//! properties files have them) and PKCS12, for whom the client trusts and for who it is. A file's content says what it is, as in
//! Java; JKS is refused with the command that converts it. Errors name the option and the file, never a password or a key.

use openssl::error::ErrorStack;
use openssl::pkcs12::{ParsedPkcs12_2, Pkcs12};
use openssl::pkey::{PKey, Private};
use openssl::x509::X509;
use weir_core::{Error, Result};
use weir_crds::options::kafka_client::{Certificates, Identity, PrivateKey, Side, StoreFile, TlsStores, jks_remedy};

use super::errors;

const CHAIN: &str = "kafka.ssl.keystore.certificate.chain";
const KEY: &str = "kafka.ssl.keystore.key";
const CERTIFICATES: &str = "kafka.ssl.truststore.certificates";

/// The settings of librdkafka that hold what the stores hold.
pub fn load(stores: &TlsStores) -> Result<Vec<(&'static str, String)>> {
    let mut settings = Vec::new();
    if let Some(trust) = &stores.trust {
        settings.push(("ssl.ca.pem", trusted(trust)?));
    }
    if let Some(identity) = &stores.identity {
        let (chain, key) = own(identity)?;
        settings.push(("ssl.certificate.pem", chain));
        settings.push(("ssl.key.pem", key));
    }
    Ok(settings)
}

fn trusted(trust: &Certificates) -> Result<String> {
    let certificates = match trust {
        Certificates::Pem(text) => certificates(text).ok_or_else(|| no_certificates(CERTIFICATES))?,
        Certificates::File(file) => match open(Side::Trust, file)? {
            Content::Pem(text) => certificates(&text).ok_or_else(|| unusable(Side::Trust, file, "holds no certificate in PEM"))?,
            Content::Pkcs12(store) => store.cert.into_iter().chain(store.ca.into_iter().flatten()).collect(),
        },
    };
    match certificates.is_empty() {
        true => Err(Error::config("INVALID_OPTION_VALUE", "the trust store of the Kafka client holds no certificate; import the CA's")),
        false => pem_of(&certificates).map_err(|_| no_certificates(CERTIFICATES)),
    }
}

/// Chain and key, the client's own certificate first.
fn own(identity: &Identity) -> Result<(String, String)> {
    let key_password = identity.key_password.as_deref();
    let (chain, key) = match &identity.key {
        PrivateKey::Pem { chain, key } => {
            (certificates(chain).ok_or_else(|| no_certificates(CHAIN))?, private_key(key, key_password).ok_or_else(|| no_key(KEY))?)
        }
        PrivateKey::File(file) => match open(Side::Key, file)? {
            Content::Pem(text) => (
                certificates(&text).ok_or_else(|| unusable(Side::Key, file, "holds no certificate in PEM"))?,
                private_key(&text, key_password).ok_or_else(|| no_key(&Side::Key.option("location")))?,
            ),
            Content::Pkcs12(ParsedPkcs12_2 { pkey: Some(key), cert: Some(own), ca }) => {
                (std::iter::once(own).chain(ca.into_iter().flatten()).collect(), key)
            }
            Content::Pkcs12(_) => return Err(unusable(Side::Key, file, "holds no private key with its certificate")),
        },
    };
    let chain = pem_of(&chain).map_err(|_| no_certificates(CHAIN))?;
    let key = key.private_key_to_pem_pkcs8().ok().and_then(|pem| String::from_utf8(pem).ok());
    Ok((chain, key.ok_or_else(|| no_key(KEY))?))
}

enum Content {
    Pem(String),
    Pkcs12(ParsedPkcs12_2),
}

fn open(side: Side, file: &StoreFile) -> Result<Content> {
    let bytes = std::fs::read(&file.path).map_err(|error| unusable(side, file, &format!("cannot be read: {error}")))?;
    match bytes.as_slice() {
        // The first bytes of JKS and of its sister JCEKS.
        [0xfe, 0xed, 0xfe, 0xed, ..] | [0xce, 0xce, 0xce, 0xce, ..] => {
            Err(unusable(side, file, &format!("is a JKS file, which only Java reads; {}", jks_remedy(side, &file.path))))
        }
        // DER begins with a sequence.
        [0x30, ..] => pkcs12(side, file, &bytes).map(Content::Pkcs12),
        _ => match String::from_utf8(bytes) {
            Ok(text) if text.contains("-----BEGIN ") => Ok(Content::Pem(text)),
            _ => Err(unusable(side, file, "is neither PEM nor PKCS12")),
        },
    }
}

fn pkcs12(side: Side, file: &StoreFile, bytes: &[u8]) -> Result<ParsedPkcs12_2> {
    let store = Pkcs12::from_der(bytes).map_err(|_| unusable(side, file, "is no PKCS12 file"))?;
    store.parse2(file.password.as_deref().unwrap_or_default()).map_err(|error| {
        let option = side.option("password");
        let said = |words: &str| error.errors().iter().any(|one| one.reason().is_some_and(|reason| reason.contains(words)));
        let why = match &file.password {
            _ if said("unsupported") => format!(
                "is encrypted in a way that OpenSSL 3 does not read any more; write it anew with `keytool -importkeystore -srckeystore {} \
                 -destkeystore new.p12 -deststoretype PKCS12`",
                file.path
            ),
            Some(_) => format!("is not opened by the password in {option}"),
            None => format!("needs a password: give {option} by optionsFrom"),
        };
        unusable(side, file, &why)
    })
}

fn unusable(side: Side, file: &StoreFile, why: &str) -> Error {
    errors::invalid_option(&side.option("location"), &file.path, &format!("the file {why}"))
}

fn no_certificates(option: &str) -> Error {
    Error::config(
        "INVALID_OPTION_VALUE",
        format!("the Kafka option {option} holds no certificate; give PEM: -----BEGIN CERTIFICATE----- … -----END CERTIFICATE-----"),
    )
}

fn no_key(option: &str) -> Error {
    Error::config(
        "INVALID_OPTION_VALUE",
        format!(
            "the Kafka option {option} holds no private key that can be read; give PEM (PKCS8), and kafka.ssl.key.password if it is encrypted"
        ),
    )
}

/// The certificates of a text; `None` when there is none or one is damaged.
fn certificates(text: &str) -> Option<Vec<X509>> {
    let blocks = blocks(text).into_iter().filter(|(label, _)| label.ends_with("CERTIFICATE"));
    let found: Option<Vec<X509>> = blocks.map(|(_, pem)| X509::from_pem(pem.as_bytes()).ok()).collect();
    found.filter(|found| !found.is_empty())
}

fn private_key(text: &str, password: Option<&str>) -> Option<PKey<Private>> {
    let (_, pem) = blocks(text).into_iter().find(|(label, _)| label.ends_with("PRIVATE KEY"))?;
    match password {
        Some(password) => PKey::private_key_from_pem_passphrase(pem.as_bytes(), password.as_bytes()).ok(),
        // Without a callback OpenSSL would ask the terminal.
        None => PKey::private_key_from_pem_callback(pem.as_bytes(), |_| Ok(0)).ok(),
    }
}

fn pem_of(certificates: &[X509]) -> std::result::Result<String, ErrorStack> {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str(&String::from_utf8_lossy(&certificate.to_pem()?));
    }
    Ok(text)
}

/// Labels and blocks of a PEM text, each block laid out as OpenSSL wants it. In one line, as properties files have it, the lines'
/// ends are spaces or missing.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((label, body, after)) = next_block(rest) {
        rest = after;
        let joined: String = body.split_whitespace().collect();
        // A header, as old encrypted keys have it, needs its lines.
        let body = if body.contains(':') { body.trim().to_owned() } else { wrapped(&joined) };
        found.push((label, format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")));
    }
    found
}

fn next_block(text: &str) -> Option<(&str, &str, &str)> {
    let (_, begun) = text.split_once("-----BEGIN ")?;
    let (label, begun) = begun.split_once("-----")?;
    let (body, after) = begun.split_once("-----END ")?;
    Some((label, body, after.split_once("-----").map_or("", |(_, after)| after)))
}

fn wrapped(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(64).map(|line| line.iter().collect::<String>()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "stores_tests.rs"]
mod tests;
