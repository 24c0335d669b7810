//! Why brokers do not let the client in: the login, the certificate, or another protocol than theirs.
//!
//! librdkafka goes on trying in silence. A login or a certificate gets no better by waiting, so it ends the wait at once. Another
//! protocol is only guessed from connections that close, as those of a broker that restarts do: it ends nothing early, and a listener
//! is asked what it speaks. Each is an error of its own, and retryable: a Secret can be corrected and a certificate renewed without an edit of the job, and each start
//! reads both anew. The client's words never hold a password.

use std::sync::{Mutex, PoisonError};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use weir_core::Error;

use super::listener;
use super::probe;
use super::properties::ClientSettings;

/// What the brokers, or the client in the brokers' stead, refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// User name, password or mechanism.
    Login,
    /// The brokers' certificate, or the client's.
    Certificate,
    /// There is no login at the listener.
    NeedlessLogin,
    /// A connection was closed in its first exchange: the listener speaks another protocol.
    Protocol,
    /// A connection was closed later, which has many reasons.
    Closed,
}

/// What is said where no listener could be asked.
const ANY_PROTOCOL: &str = "the port speaks another protocol than kafka.security.protocol says: with TLS it is SSL or SASL_SSL, without \
                            PLAINTEXT or SASL_PLAINTEXT, and with a login one of SASL";

/// A refusal in the client's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    what: Refused,
    words: String,
}

impl Refusal {
    /// The refusal behind an error event, if it is one.
    pub fn of(code: Option<RDKafkaErrorCode>, words: &str) -> Option<Self> {
        let what = match code? {
            RDKafkaErrorCode::Authentication if words.contains("not valid in current SASL state") => Refused::NeedlessLogin,
            RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed => Refused::Login,
            RDKafkaErrorCode::SSL => Refused::Certificate,
            RDKafkaErrorCode::BrokerTransportFailure => return Self::of_closed(words),
            _ => return None,
        };
        Some(Self { what, words: words.to_owned() })
    }

    /// The refusal behind a line of the log about a connection that failed. The event of a login that was refused is given out once,
    /// and may be lost among records that nobody wants any more.
    fn of_log(words: &str) -> Option<Self> {
        if words.contains("SASL authentication error") {
            return Self::of(Some(RDKafkaErrorCode::Authentication), words);
        }
        Self::of_closed(words)
    }

    /// The refusal behind a connection that was closed: what TLS says of a certificate, else what the client guesses.
    fn of_closed(words: &str) -> Option<Self> {
        // A broker that sees TLS where it speaks none, or the other way round, closes in the first exchange.
        let first = ["in state APIVERSION_QUERY", "in state SSL_HANDSHAKE"];
        let what = match words {
            words if words.contains("SSL routines") && words.contains("certificate") => Refused::Certificate,
            words if !words.contains("Disconnected") => return None,
            words if first.iter().any(|state| words.contains(state)) => Refused::Protocol,
            _ => Refused::Closed,
        };
        Some(Self { what, words: words.to_owned() })
    }

    /// Whether waiting is of no use.
    pub fn is_final(&self) -> bool {
        !matches!(self.what, Refused::Protocol | Refused::Closed)
    }

    /// The error of whoever has waited in vain to do `action`; `None` where a connection was closed by a listener that the settings fit.
    pub fn explain(&self, action: &str, client: &ClientSettings) -> Option<Error> {
        if self.is_final() {
            return Some(self.error(action, client));
        }
        match listener::ask(client) {
            Some(listener) => listener.objection(client).map(|objection| self.mismatch(action, client, &objection)),
            None if self.what == Refused::Protocol => Some(self.mismatch(action, client, ANY_PROTOCOL)),
            None => None,
        }
    }

    /// The error of whoever could not do `action`, such as `read t-0 from` the servers. Asks one of them once more where that tells
    /// more of a certificate or of the protocol.
    pub fn error(&self, action: &str, client: &ClientSettings) -> Error {
        let begin = format!("could not {action} the Kafka servers {}: {}", client.servers(), self.words);
        match self.what {
            Refused::Login => Error::retryable(
                "KAFKA_AUTHENTICATION_FAILED",
                format!("{begin}; correct {}; the query is tried again with what the Secret holds then", client.credentials()),
            ),
            Refused::Certificate => {
                let why = probe::certificate(client).map_or_else(String::new, |why| format!("; {why}"));
                Error::retryable(
                    "KAFKA_TLS_FAILED",
                    format!(
                        "{begin}{why}; check kafka.bootstrap.servers, kafka.ssl.truststore.* (whom the client trusts) and \
                         kafka.ssl.keystore.* (its own certificate); the query is tried again"
                    ),
                )
            }
            Refused::NeedlessLogin | Refused::Protocol | Refused::Closed => {
                let objection = listener::ask(client).and_then(|listener| listener.objection(client));
                self.mismatch(action, client, objection.as_deref().unwrap_or(ANY_PROTOCOL))
            }
        }
    }

    fn mismatch(&self, action: &str, client: &ClientSettings, objection: &str) -> Error {
        let begin = format!("could not {action} the Kafka servers {}: {}", client.servers(), self.words);
        Error::retryable("KAFKA_PROTOCOL_MISMATCH", format!("{begin}; {objection}; the query is tried again"))
    }
}

/// The last refusal since the brokers last answered.
#[derive(Default)]
pub struct LastRefusal(Mutex<Option<Refusal>>);

impl LastRefusal {
    /// Takes an error event of the client.
    pub fn note(&self, error: &KafkaError, words: &str) {
        self.set(Refusal::of(error.rdkafka_error_code(), words));
    }

    /// Takes a line of the client's log; only there it says why a connection may have been closed.
    pub fn note_log(&self, facility: &str, words: &str) {
        if facility == "FAIL" {
            self.set(Refusal::of_log(words));
        }
    }

    /// The refusal that waiting does not mend, if there was one.
    pub fn get_final(&self) -> Option<Refusal> {
        self.get().filter(Refusal::is_final)
    }

    fn set(&self, refusal: Option<Refusal>) {
        let Some(new) = refusal else { return };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Connections are closed after other refusals too.
        if new.is_final() || last.as_ref().is_none_or(|last| !last.is_final() && new.what != Refused::Closed) {
            *last = Some(new);
        }
    }

    /// The refusal, if there was one.
    pub fn get(&self) -> Option<Refusal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The brokers answered.
    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RDKafkaErrorCode as Code;

    #[test]
    fn a_broker_that_is_away_refuses_nothing() {
        let what = |code, words: &str| Refusal::of(Some(code), words).map(|refusal| refusal.what);
        assert_eq!(what(Code::Authentication, "SASL authentication error: Authentication failed"), Some(Refused::Login));
        assert_eq!(what(Code::SSL, "SSL handshake failed: certificate verify failed"), Some(Refused::Certificate));
        let hint = "Disconnected: connection closed by peer (after 2ms in state APIVERSION_QUERY)";
        assert_eq!(what(Code::BrokerTransportFailure, hint), Some(Refused::Protocol));
        let late = "error:0A000086:SSL routines::certificate verify failed (after 4ms in state SSL_HANDSHAKE)";
        assert_eq!(what(Code::BrokerTransportFailure, late), Some(Refused::Certificate));
        let needless =
            "SASL PLAIN mechanism handshake failed: Broker: Request not valid in current SASL state: broker's supported mechanisms: ";
        assert_eq!(what(Code::Authentication, needless), Some(Refused::NeedlessLogin));
        assert_eq!(what(Code::BrokerTransportFailure, "Disconnected (after 3ms in state UP)"), Some(Refused::Closed));
        assert_eq!(what(Code::BrokerTransportFailure, "Connect to ipv4#127.0.0.1:1 failed: Connection refused"), None);
        assert_eq!(what(Code::AllBrokersDown, "1/1 brokers are down"), None);
        assert_eq!(Refusal::of(None, hint), None);
    }

    #[test]
    fn the_brokers_answer_ends_a_refusal() {
        let last = LastRefusal::default();
        last.note(&KafkaError::Global(Code::Authentication), "no");
        last.note(&KafkaError::Global(Code::AllBrokersDown), "all down");
        last.note_log("FAIL", "Disconnected");
        assert!(last.get().is_some_and(|refusal| refusal.is_final()));
        assert_eq!(last.get().map(|refusal| refusal.words), Some("no".to_owned()));
        last.clear();
        assert_eq!(last.get(), None);
        last.note_log("FAIL", "[thrd:x]: x/1: SASL authentication error: Authentication failed (after 5ms in state AUTH_REQ)");
        last.note_log("FAIL", "Disconnected (after 3ms in state APIVERSION_QUERY)");
        assert_eq!(last.get_final().map(|refusal| refusal.what), Some(Refused::Login), "told by the log alone, and not overwritten");
    }
}
