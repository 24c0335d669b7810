//! Gives a client its token: one call into librdkafka, which rdkafka has only in its own answer to an event.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use rdkafka::bindings as native;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{Producer, ThreadedProducer};
use rdkafka::types::RDKafka;

use super::ask::Token;
use crate::kafka::lookup::LastWords;
use crate::kafka::sink::Deliveries;

/// A client that logs in by tokens.
pub trait TakesTokens: Send + Sync {
    /// The client, which lives as long as this value.
    fn native(&self) -> *mut RDKafka;
}

impl TakesTokens for BaseConsumer<LastWords> {
    fn native(&self) -> *mut RDKafka {
        self.client().native_ptr()
    }
}

impl TakesTokens for ThreadedProducer<Deliveries> {
    fn native(&self) -> *mut RDKafka {
        self.client().native_ptr()
    }
}

/// The client's next login is by this token. Errors are in words.
pub fn hand_over(client: &dyn TakesTokens, token: &Token, extensions: &[(String, String)]) -> Result<(), String> {
    let text = |text: &str| CString::new(text).map_err(|_| "the token or an extension holds a zero character".to_owned());
    let (value, principal) = (text(&token.text)?, text(&token.principal)?);
    let parts = extensions.iter().flat_map(|(name, value)| [text(name), text(value)]).collect::<Result<Vec<CString>, String>>()?;
    let mut pointers: Vec<*const c_char> = parts.iter().map(|part| part.as_ptr()).collect();
    let extensions = if pointers.is_empty() { ptr::null_mut() } else { pointers.as_mut_ptr() };
    let mut why = [0 as c_char; 512];
    // SAFETY: the client lives as long as the reference to it; all strings and the array outlive the call, which copies them.
    let code = unsafe {
        native::rd_kafka_oauthbearer_set_token(
            client.native(),
            value.as_ptr(),
            token.expires_ms,
            principal.as_ptr(),
            extensions,
            parts.len(),
            why.as_mut_ptr(),
            why.len(),
        )
    };
    match RDKafkaErrorCode::from(code) {
        RDKafkaErrorCode::NoError => Ok(()),
        _ => {
            // SAFETY: the call wrote at most `why.len()` bytes with a zero at the end, and there is one if it wrote none.
            let why = unsafe { CStr::from_ptr(why.as_ptr()) }.to_string_lossy();
            Err(format!("the client does not take the token: {why}"))
        }
    }
}
