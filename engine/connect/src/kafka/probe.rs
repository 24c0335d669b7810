//! What exactly is wrong with a broker's certificate.
//!
//! librdkafka only says that it could not be verified. So one handshake is made beside it, with the same trust, and OpenSSL's reason
//! is put into words: another host, an unknown issuer, out of date. Best effort and bounded in time; sends nothing but the handshake.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use openssl::x509::{X509, X509NameRef, X509Ref, X509StoreContextRef};

use super::properties::ClientSettings;

/// Longest wait for each step of the handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the certificate of the first server that answers is refused; `None` if none answers or none is refused.
pub fn certificate(client: &ClientSettings) -> Option<String> {
    servers(client).find_map(|(host, port)| handshake(client, host, port))
}

/// Hosts and ports of the client's servers.
pub fn servers(client: &ClientSettings) -> impl Iterator<Item = (&str, u16)> {
    client.servers().split(',').filter_map(|server| {
        let (host, port) = server.trim().rsplit_once(':')?;
        Some((host.trim_matches(['[', ']']), port.parse::<u16>().ok()?))
    })
}

/// A connection that waits a bounded time for everything.
pub fn connect(host: &str, port: u16) -> Option<TcpStream> {
    let stream = (host, port).to_socket_addrs().ok()?.find_map(|address| TcpStream::connect_timeout(&address, PATIENCE).ok())?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

fn handshake(client: &ClientSettings, host: &str, port: u16) -> Option<String> {
    let mut builder = SslConnector::builder(SslMethod::tls()).ok()?;
    if let Some(trusted) = client.get("ssl.ca.pem") {
        let mut store = openssl::x509::store::X509StoreBuilder::new().ok()?;
        for certificate in X509::stack_from_pem(trusted.as_bytes()).ok()? {
            store.add_cert(certificate).ok()?;
        }
        builder.set_cert_store(store.build());
    }
    let found: Arc<Mutex<Option<String>>> = Arc::default();
    let (seen, asked) = (Arc::clone(&found), host.to_owned());
    builder.set_verify_callback(SslVerifyMode::PEER, move |is_good, context| {
        if !is_good {
            seen.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why(context, &asked));
        }
        is_good
    });
    let mut connection = builder.build().configure().ok()?;
    connection.set_verify_hostname(client.get("ssl.endpoint.identification.algorithm") != Some("none"));
    let stream = connect(host, port)?;
    // Whether it succeeds does not matter: the callback has seen the certificate.
    let _ = connection.connect(host, stream);
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.take()
}

fn why(context: &X509StoreContextRef, host: &str) -> String {
    let reason = context.error().error_string();
    let Some(certificate) = context.current_cert() else { return format!("the certificate of {host} is refused: {reason}") };
    format!(
        "the certificate of {host} is refused: {reason} (it is for {}, issued by {}, valid until {})",
        names(certificate),
        text(certificate.issuer_name()),
        certificate.not_after()
    )
}

/// Whom a certificate is for: the names that a client compares, else the subject.
fn names(certificate: &X509Ref) -> String {
    let names: Vec<String> = certificate
        .subject_alt_names()
        .into_iter()
        .flatten()
        .filter_map(|name| match (name.dnsname(), name.ipaddress()) {
            (Some(dns), _) => Some(dns.to_owned()),
            (None, Some(&[a, b, c, d])) => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            (None, Some(bytes)) => <[u8; 16]>::try_from(bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
            (None, None) => None,
        })
        .collect();
    if names.is_empty() { text(certificate.subject_name()) } else { names.join(", ") }
}

fn text(name: &X509NameRef) -> String {
    let parts = name.entries().filter_map(|entry| {
        let key = entry.object().nid().short_name().ok()?;
        Some(format!("{key}={}", entry.data().to_string().ok()?))
    });
    parts.collect::<Vec<_>>().join(", ")
}
