//! Tokens for OAUTHBEARER: one for all clients of a source or sink, renewed after four fifths of its life.
//!
//! librdkafka asks for tokens by events that a client which only fetches never sees, so each client enrolls before it is used and is
//! handed every token from then on by one thread, as in Java. That thread ends with the source or sink. A renewal that fails is tried
//! again and does no harm while the old token is good; without a good one whoever is about to use a client asks, and fails in words
//! that name endpoint and options, never the secret or a token.

mod ask;
mod hand_over;

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_core::{Error, Result};
use weir_crds::options::kafka_client::TokenLogin;

use self::ask::Token;
pub use self::hand_over::TakesTokens;

/// How often a renewal that fails is tried again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The tokens of one source or sink.
pub struct Tokens {
    login: TokenLogin,
    state: Mutex<State>,
    /// Held by whoever asks for a token.
    asking: Mutex<()>,
}

#[derive(Default)]
struct State {
    held: Option<Token>,
    clients: Vec<Weak<dyn TakesTokens>>,
    /// The thread that renews ends when this does.
    keeper: Option<SyncSender<()>>,
}

impl Tokens {
    /// No token is asked for yet.
    pub fn new(login: TokenLogin) -> Self {
        Self { login, state: Mutex::default(), asking: Mutex::default() }
    }

    /// Sees to it that a client has a good token now, and from now on. May ask for one and wait.
    pub fn authorize<C: TakesTokens + 'static>(self: &Arc<Self>, client: &Arc<C>) -> Result<()> {
        if !self.is_good() {
            let _one_asks = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_good() {
                self.renew().map_err(|why| self.failed(&why))?;
            }
        }
        self.enroll(client).map_err(|why| self.failed(&why))
    }

    fn is_good(&self) -> bool {
        self.state().held.as_ref().is_some_and(|token| now_ms() < token.expires_ms)
    }

    fn enroll<C: TakesTokens + 'static>(self: &Arc<Self>, client: &Arc<C>) -> std::result::Result<(), String> {
        let mut state = self.state();
        let is_known = state.clients.iter().any(|known| known.as_ptr().cast::<()>() == Arc::as_ptr(client).cast());
        let Some(token) = state.held.as_ref().filter(|_| !is_known) else { return Ok(()) };
        hand_over::hand_over(&**client, token, &self.login.extensions)?;
        state.clients.retain(|known| known.strong_count() > 0);
        let client: Weak<dyn TakesTokens> = Arc::downgrade(client) as Weak<dyn TakesTokens>;
        state.clients.push(client);
        if state.keeper.is_none() {
            state.keeper = self.keep();
        }
        Ok(())
    }

    /// Asks for a token and hands it to all clients.
    fn renew(&self) -> std::result::Result<(), String> {
        let token = ask::ask(&self.login)?;
        let mut state = self.state();
        let clients: Vec<Arc<dyn TakesTokens>> = state.clients.iter().filter_map(Weak::upgrade).collect();
        let handed = clients.iter().try_for_each(|client| hand_over::hand_over(&**client, &token, &self.login.extensions));
        state.held = Some(token);
        drop(state);
        // The last owner of a client closes it, which takes a moment: nobody waits for the lock meanwhile.
        drop(clients);
        handed
    }

    fn keep(self: &Arc<Self>) -> Option<SyncSender<()>> {
        let (alive, ended) = sync_channel(0);
        let kept = Arc::downgrade(self);
        let run = move || {
            while let Some(pause) = kept.upgrade().map(|tokens| tokens.tend()) {
                if ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        };
        match std::thread::Builder::new().name("kafka-tokens".to_owned()).spawn(run) {
            Ok(_) => Some(alive),
            Err(error) => {
                tracing::warn!(%error, "no thread renews the token before it ends: it is renewed when it is needed next");
                None
            }
        }
    }

    /// Renews the token if its time has come; says when to look again.
    fn tend(&self) -> Duration {
        let is_due = |tokens: &Self| tokens.state().held.as_ref().is_none_or(|token| now_ms() >= token.renew_ms);
        if is_due(self) {
            let _one_asks = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if is_due(self)
                && let Err(why) = self.renew()
            {
                tracing::warn!(endpoint = self.login.endpoint, "the token could not be renewed, which is tried again until it ends: {why}");
            }
        }
        self.state().held.as_ref().map_or(RETRY.1, |token| pause(token, now_ms()))
    }

    fn failed(&self, why: &str) -> Error {
        Error::retryable(
            "KAFKA_AUTHENTICATION_FAILED",
            format!(
                "could not get a token from {}: {why}; check kafka.sasl.oauthbearer.token.endpoint.url, and clientId, clientSecret and scope \
                 in kafka.sasl.jaas.config (or kafka.sasl.oauthbearer.client.credentials.* and kafka.sasl.oauthbearer.scope); the query is \
                 tried again with what the Secret holds then",
                self.login.endpoint
            ),
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Tokens {
    fn eq(&self, other: &Self) -> bool {
        self.login == other.login
    }
}

impl Eq for Tokens {}

/// How long a token may be left alone: until its renewal, and if that has failed, a fifth of what is left of it.
fn pause(token: &Token, now_ms: i64) -> Duration {
    let millis = |until: i64| Duration::from_millis(u64::try_from(until - now_ms).unwrap_or_default());
    if now_ms < token.renew_ms { millis(token.renew_ms) } else { (millis(token.expires_ms) / 5).clamp(RETRY.0, RETRY.1) }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_left_alone_until_its_renewal_and_then_tried_more_and_more_often() {
        let token = Token { text: String::new(), principal: String::new(), expires_ms: 100_000, renew_ms: 80_000 };
        let seconds = |now_s: i64| pause(&token, now_s * 1000).as_secs_f64();
        assert_eq!((seconds(0), seconds(79), seconds(80), seconds(99), seconds(200)), (80.0, 1.0, 4.0, 1.0, 1.0));
        let long = Token { expires_ms: 10_000_000, ..token };
        assert_eq!(pause(&long, 90_000), RETRY.1);
    }
}
