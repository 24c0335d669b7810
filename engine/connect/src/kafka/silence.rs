//! Who waits for brokers that owe an answer: records that were planned, or acknowledgements of records that were sent.
//!
//! A wait counts as silence after a second without any sign of life, and until the next sign or the end of the wait. Nobody
//! is hurried by it: it only lets a stop end at once what may come late or never, and after some seconds it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::source::Outage;

/// How long no sign of life is nothing unusual.
pub const SUSPICION: Duration = Duration::from_secs(1);

/// How long no sign of life is not worth a word.
pub const TOLD_AFTER: Duration = Duration::from_secs(3);

/// Says who does not answer, once; `last` is the client's last word.
pub fn tell(outage: &Outage, servers: &str, last: &str) {
    let words = format!("the Kafka servers {servers} do not answer: {last}");
    if outage.goes_on(words.clone()) {
        tracing::warn!("{words}; they are asked on");
    }
}

/// Somebody has answered.
pub fn heard(outage: &Outage, servers: &str) {
    if outage.ends() {
        tracing::info!(servers, "the Kafka servers answer again");
    }
}

/// How many wait in silence.
#[derive(Debug, Default)]
pub struct Silence(AtomicUsize);

impl Silence {
    /// Whether anybody does.
    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// One wait.
#[derive(Debug)]
pub struct Wait {
    silence: Arc<Silence>,
    since: Instant,
    is_silent: bool,
}

impl Wait {
    /// A wait that begins.
    pub fn begin(silence: &Arc<Silence>, now: Instant) -> Self {
        Self { silence: Arc::clone(silence), since: now, is_silent: false }
    }

    /// Something came.
    pub fn heard(&mut self, now: Instant) {
        self.since = now;
        if std::mem::take(&mut self.is_silent) {
            self.silence.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Nothing has come yet.
    pub fn goes_on(&mut self, now: Instant) {
        if !self.is_silent && now.duration_since(self.since) >= SUSPICION {
            self.is_silent = true;
            self.silence.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Since when nothing has come.
    pub fn since(&self) -> Instant {
        self.since
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.heard(self.since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_silent_after_a_second_and_until_something_comes_or_it_ends() {
        let (silence, begin) = (Arc::new(Silence::default()), Instant::now());
        let after = |millis| begin + Duration::from_millis(millis);
        let (mut one, mut other) = (Wait::begin(&silence, begin), Wait::begin(&silence, after(500)));
        one.goes_on(after(999));
        assert!(!silence.is_there());
        one.goes_on(after(1000));
        one.goes_on(after(1200));
        other.goes_on(after(1200));
        assert!(silence.is_there());
        one.heard(after(1300));
        assert_eq!((silence.is_there(), one.since()), (false, after(1300)));
        other.goes_on(after(1500));
        one.goes_on(after(2200));
        assert!(silence.is_there());
        drop(other);
        assert!(!silence.is_there());
    }
}
