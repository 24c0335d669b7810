//! Certificates for tests: an authority of this process, and what it issues.
//!
//! Keys are on the curve P-256, which takes no time. Nothing is kept on disk here; who needs files writes the texts.

use std::net::IpAddr;

use anyhow::Result;
use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkcs12::Pkcs12;
use openssl::pkey::{PKey, Private};
use openssl::stack::Stack;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};

/// Who signs certificates.
pub struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

/// A certificate with its key, both in PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The key, in PKCS8.
    pub key: String,
    parts: (X509, PKey<Private>),
}

impl Authority {
    /// An authority with a new key.
    pub fn new(name: &str) -> Result<Authority> {
        let key = new_key()?;
        let mut builder = builder(name, &key)?;
        builder.set_issuer_name(&*common_name(name)?)?;
        builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
        builder.sign(&key, MessageDigest::sha256())?;
        Ok(Authority { certificate: builder.build(), key })
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> Result<String> {
        Ok(String::from_utf8(self.certificate.to_pem()?)?)
    }

    /// A certificate for hosts, by name or address.
    pub fn issue(&self, name: &str, hosts: &[&str]) -> Result<Issued> {
        let key = new_key()?;
        let mut builder = builder(name, &key)?;
        builder.set_issuer_name(self.certificate.subject_name())?;
        if !hosts.is_empty() {
            let mut names = SubjectAlternativeName::new();
            for host in hosts {
                if host.parse::<IpAddr>().is_ok() {
                    names.ip(host)
                } else {
                    names.dns(host)
                };
            }
            let names = names.build(&builder.x509v3_context(Some(&self.certificate), None))?;
            builder.append_extension(names)?;
        }
        builder.sign(&self.key, MessageDigest::sha256())?;
        let certificate = builder.build();
        let text = |pem: Vec<u8>| String::from_utf8(pem);
        Ok(Issued { certificate: text(certificate.to_pem()?)?, key: text(key.private_key_to_pem_pkcs8()?)?, parts: (certificate, key) })
    }

    /// A PKCS12 file with the issued certificate, its key and this authority.
    pub fn pkcs12(&self, issued: &Issued, password: &str) -> Result<Vec<u8>> {
        let mut chain = Stack::new()?;
        chain.push(self.certificate.clone())?;
        let store = Pkcs12::builder().name("client").pkey(&issued.parts.1).cert(&issued.parts.0).ca(chain).build2(password)?;
        Ok(store.to_der()?)
    }
}

impl Issued {
    /// The key in PEM, encrypted.
    pub fn encrypted_key(&self, password: &str) -> Result<String> {
        let pem = self.parts.1.private_key_to_pem_pkcs8_passphrase(openssl::symm::Cipher::aes_256_cbc(), password.as_bytes())?;
        Ok(String::from_utf8(pem)?)
    }
}

fn new_key() -> Result<PKey<Private>> {
    let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    Ok(PKey::from_ec_key(EcKey::generate(&curve)?)?)
}

/// All but issuer, extensions and signature.
fn builder(name: &str, key: &PKey<Private>) -> Result<X509Builder> {
    let mut serial = BigNum::new()?;
    serial.rand(120, MsbOption::MAYBE_ZERO, false)?;
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&*serial.to_asn1_integer()?)?;
    builder.set_subject_name(&*common_name(name)?)?;
    // From yesterday on: clocks differ.
    builder.set_not_before(&*Asn1Time::from_unix(unix_days(-1)?)?)?;
    builder.set_not_after(&*Asn1Time::from_unix(unix_days(3650)?)?)?;
    builder.set_pubkey(key)?;
    Ok(builder)
}

fn common_name(name: &str) -> Result<X509Name> {
    let mut built = X509NameBuilder::new()?;
    built.append_entry_by_text("CN", name)?;
    Ok(built.build())
}

fn unix_days(from_now: i64) -> Result<i64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    Ok(i64::try_from(now)? + from_now * 86_400)
}
