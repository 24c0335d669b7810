//! Every way in which certificates and keys are given, and each that is refused.
#![allow(clippy::unwrap_used)]
use weir_testkit::certificates::{Authority, Issued};

use super::*;

/// Written by Java's keytool: a trust store with one certificate, password `geheim`, in both formats.
const KEYTOOL_P12: &[u8] = include_bytes!("testdata/trust.p12");
const KEYTOOL_JKS: &[u8] = include_bytes!("testdata/trust.jks");

fn issued() -> (Authority, Issued) {
    let authority = Authority::new("authority").unwrap();
    let issued = authority.issue("client", &[]).unwrap();
    (authority, issued)
}

fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8], password: Option<&str>) -> StoreFile {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    StoreFile { path: path.to_str().unwrap().to_owned(), password: password.map(str::to_owned) }
}

fn trust(certificates: Certificates) -> TlsStores {
    TlsStores { trust: Some(certificates), identity: None }
}

fn identity(key: PrivateKey, key_password: Option<&str>) -> TlsStores {
    TlsStores { trust: None, identity: Some(Identity { key, key_password: key_password.map(str::to_owned) }) }
}

fn refusal(stores: &TlsStores) -> String {
    let error = load(stores).unwrap_err();
    assert_eq!(error.class(), weir_core::ErrorClass::Config);
    assert!(!error.to_string().contains("geheim"), "{error}");
    error.to_string()
}

#[test]
fn a_trust_store_is_pem_or_pkcs12_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let authority = issued().0.pem().unwrap();
    let expected = [("ssl.ca.pem", authority.clone())];
    let in_one_line = authority.replace('\n', " ");
    for text in [&authority, &in_one_line, &format!("# the CA\n{authority}\n")] {
        assert_eq!(load(&trust(Certificates::Pem(text.clone()))).unwrap(), expected);
        let file = file(&folder, "trust.jks", text.as_bytes(), None);
        assert_eq!(load(&trust(Certificates::File(file))).unwrap(), expected);
    }
    let two = load(&trust(Certificates::Pem(format!("{authority}{authority}")))).unwrap();
    assert_eq!(two[0].1.matches("BEGIN CERTIFICATE").count(), 2);
    let keytool = file(&folder, "trust", KEYTOOL_P12, Some("geheim"));
    assert_eq!(load(&trust(Certificates::File(keytool))).unwrap()[0].1.matches("BEGIN CERTIFICATE").count(), 1);
}

#[test]
fn a_key_store_is_the_certificate_with_its_chain_and_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, client) = issued();
    let expected = [("ssl.certificate.pem", client.certificate.clone()), ("ssl.key.pem", client.key.clone())];
    let pem = |key: &str| PrivateKey::Pem { chain: client.certificate.clone(), key: key.to_owned() };
    assert_eq!(load(&identity(pem(&client.key), None)).unwrap(), expected);
    let encrypted = client.encrypted_key("geheim").unwrap();
    assert_eq!(load(&identity(pem(&encrypted.replace('\n', "")), Some("geheim"))).unwrap(), expected);
    let both = file(&folder, "client.pem", format!("{}{}", client.key, client.certificate).as_bytes(), None);
    assert_eq!(load(&identity(PrivateKey::File(both), None)).unwrap(), expected);
    let store = file(&folder, "client.p12", &authority.pkcs12(&client, "geheim").unwrap(), Some("geheim"));
    let loaded = load(&identity(PrivateKey::File(store), None)).unwrap();
    assert_eq!((loaded[0].1.clone(), &loaded[1].1), (client.certificate.clone() + &authority.pem().unwrap(), &client.key));
    for (key, password) in [(encrypted.as_str(), Some("geheimer")), (encrypted.as_str(), None), ("geheim", None)] {
        assert!(refusal(&identity(pem(key), password)).contains("kafka.ssl.key.password"));
    }
}

#[test]
fn a_store_that_cannot_be_read_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |file: StoreFile| refusal(&trust(Certificates::File(file)));
    let jks = refused(file(&folder, "java.store", KEYTOOL_JKS, Some("geheim")));
    let path = folder.path().join("java").to_str().unwrap().to_owned();
    let command =
        format!("keytool -importkeystore -srckeystore {path}.store -srcstoretype JKS -destkeystore {path}.p12 -deststoretype PKCS12");
    assert!(jks.contains(&command) && jks.contains("kafka.ssl.truststore.location"), "{jks}");
    let wrong = refused(file(&folder, "wrong.p12", KEYTOOL_P12, Some("geheimer")));
    assert!(wrong.contains("is not opened by the password in kafka.ssl.truststore.password"), "{wrong}");
    assert!(refused(file(&folder, "none.p12", KEYTOOL_P12, None)).contains("give kafka.ssl.truststore.password"));
    assert!(refused(file(&folder, "other", b"geheim", None)).contains("neither PEM nor PKCS12"));
    assert!(refused(file(&folder, "damaged", &KEYTOOL_P12[..200], Some("geheim"))).contains("no PKCS12"));
    assert!(refused(StoreFile { path: "/no/such/file".to_owned(), password: None }).contains("No such file"));
    assert!(refusal(&trust(Certificates::Pem("geheim".to_owned()))).contains(CERTIFICATES));
    let keyless = file(&folder, "keyless.p12", KEYTOOL_P12, Some("geheim"));
    assert!(refusal(&identity(PrivateKey::File(keyless), None)).contains("no private key"));
}
