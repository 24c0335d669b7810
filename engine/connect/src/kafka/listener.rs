//! What a listener of the brokers speaks: with TLS or without, with a login or without.
//!
//! A broker closes the connection of a client that speaks otherwise, and says nothing. So one is asked beside it for the mechanisms of
//! its logins (`SaslHandshake`, which every listener answers before a login), first in the clear, then under TLS. Best effort and
//! bounded in time; no secret is sent.

use std::io::{Read, Write};

use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};

use super::probe;
use super::properties::ClientSettings;

/// `SaslHandshake` version 1 for PLAIN: size, key, version, number, no client's name, mechanism.
const REQUEST: &[u8] = b"\x00\x00\x00\x11\x00\x11\x00\x01\x00\x00\x00\x01\xff\xff\x00\x05PLAIN";
/// What brokers say where there is no login.
const ILLEGAL_SASL_STATE: i16 = 34;
/// No answer is longer.
const MOST_BYTES: usize = 4096;

/// What a listener speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    with_tls: bool,
    login: Login,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Login {
    /// It did not say.
    Unknown,
    No,
    /// By these mechanisms.
    By(Vec<String>),
}

/// What the first of the client's servers that can be reached speaks; `None` if none can.
pub fn ask(client: &ClientSettings) -> Option<Listener> {
    probe::servers(client).find_map(|(host, port)| {
        if let Some(login) = exchange(&mut probe::connect(host, port)?) {
            return Some(Listener { with_tls: false, login });
        }
        let mut builder = SslConnector::builder(SslMethod::tls()).ok()?;
        builder.set_verify(SslVerifyMode::NONE);
        let mut connection = builder.build().configure().ok()?;
        connection.set_verify_hostname(false);
        let mut stream = connection.connect(host, probe::connect(host, port)?).ok()?;
        Some(Listener { with_tls: true, login: exchange(&mut stream).unwrap_or(Login::Unknown) })
    })
}

fn exchange(stream: &mut (impl Read + Write)) -> Option<Login> {
    stream.write_all(REQUEST).ok()?;
    let mut size = [0; 4];
    stream.read_exact(&mut size).ok()?;
    let size = usize::try_from(i32::from_be_bytes(size)).ok().filter(|size| *size <= MOST_BYTES)?;
    let mut answer = vec![0; size];
    stream.read_exact(&mut answer).ok()?;
    login(&answer)
}

/// The request's number, an error, and the mechanisms.
fn login(answer: &[u8]) -> Option<Login> {
    let (head, mut rest) = answer.split_at_checked(10)?;
    let (number, error) = (&head[..4], i16::from_be_bytes([head[4], head[5]]));
    if number != [0, 0, 0, 1] {
        return None;
    }
    let mut mechanisms = Vec::new();
    while let Some((size, after)) = rest.split_at_checked(2) {
        let (name, after) = after.split_at_checked(usize::from(u16::from_be_bytes([size[0], size[1]])))?;
        mechanisms.push(String::from_utf8_lossy(name).into_owned());
        rest = after;
    }
    mechanisms.sort();
    Some(if error == ILLEGAL_SASL_STATE { Login::No } else { Login::By(mechanisms) })
}

impl Listener {
    /// What is to be said to a client whose settings do not fit; `None` where they do.
    pub fn objection(&self, client: &ClientSettings) -> Option<String> {
        let set = client.get("security.protocol").unwrap_or("plaintext").to_ascii_lowercase();
        let fits_login = match &self.login {
            Login::Unknown => true,
            Login::No => !set.starts_with("sasl"),
            Login::By(_) => set.starts_with("sasl"),
        };
        if fits_login && set.ends_with("ssl") == self.with_tls {
            return None;
        }
        let (name, by) = match (&self.login, self.with_tls) {
            (Login::No, false) => ("PLAINTEXT", String::new()),
            (Login::No, true) => ("SSL", String::new()),
            (Login::By(mechanisms), false) => ("SASL_PLAINTEXT", format!(", with a login by {}", mechanisms.join(" or "))),
            (Login::By(mechanisms), true) => ("SASL_SSL", format!(", with a login by {}", mechanisms.join(" or "))),
            (Login::Unknown, false) => ("PLAINTEXT or SASL_PLAINTEXT", String::new()),
            (Login::Unknown, true) => ("SSL or SASL_SSL", String::new()),
        };
        Some(format!(
            "the port speaks {name}{by}, and kafka.security.protocol says {}: set it to {name}, or give the port of another listener in \
             kafka.bootstrap.servers",
            set.to_ascii_uppercase()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_the_mechanisms_or_that_there_is_no_login() {
        let names = |names: &[&str]| Some(Login::By(names.iter().map(|name| (*name).to_owned()).collect()));
        assert_eq!(login(b"\0\0\0\x01\0\x21\0\0\0\x02\0\x05PLAIN\0\x0bOAUTHBEARER"), names(&["OAUTHBEARER", "PLAIN"]));
        assert_eq!(login(b"\0\0\0\x01\0\x22\0\0\0\0"), Some(Login::No));
        for damaged in [&b"\x15\x03\x03\0\x02\x02\x28"[..], b"\0\0\0\x02\0\0\0\0\0\0", b"\0\0\0\x01\0\0\0\0\0\x01\0\x05PLA", b""] {
            assert_eq!(login(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn only_a_protocol_that_differs_is_objected_to() {
        let says = |with_tls, login: Login, set: Option<&str>| {
            let values = set.map(|set| ("security.protocol".to_owned(), set.to_owned())).into_iter().collect();
            Listener { with_tls, login }.objection(&ClientSettings::new(values)).unwrap_or_default()
        };
        let by = || Login::By(vec!["PLAIN".to_owned()]);
        assert_eq!(says(true, by(), Some("sasl_ssl")) + &says(false, Login::No, None) + &says(true, Login::Unknown, Some("ssl")), "");
        assert!(
            says(false, by(), None)
                .starts_with("the port speaks SASL_PLAINTEXT, with a login by PLAIN, and kafka.security.protocol says PLAINTEXT")
        );
        assert!(says(true, by(), Some("ssl")).contains("set it to SASL_SSL"));
        assert!(says(false, Login::No, Some("sasl_ssl")).contains("set it to PLAINTEXT"));
        assert!(says(true, Login::Unknown, Some("plaintext")).contains("set it to SSL or SASL_SSL"));
    }
}
