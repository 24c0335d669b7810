//! What can go wrong while text becomes columns.
//!
//! Every error carries Spark's error condition name, so that a caller can
//! wrap it into its own error type without interpreting the message. Whether
//! a bad value is an error at all is decided by the mode, not here.

use std::borrow::Cow;

/// An error of the decoder: Spark's condition name and a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{condition}] {message}")]
pub struct DecodeError {
    condition: Cow<'static, str>,
    message: String,
}

impl DecodeError {
    /// An error with the given condition.
    pub fn new(condition: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { condition: condition.into(), message: message.into() }
    }

    /// Spark's error condition, subcondition included after a dot.
    pub fn condition(&self) -> &str {
        &self.condition
    }

    /// The message without the condition.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn bad_record(record: &[u8], cause: &str) -> Self {
        let text = String::from_utf8_lossy(&record[..record.len().min(200)]);
        let more = if record.len() > 200 { "…" } else { "" };
        Self::new(
            "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
            format!(
                "Malformed record `{text}{more}`: {cause}. The parse mode is FAILFAST; \
                 to read bad values as NULL, set the option mode to PERMISSIVE."
            ),
        )
    }

    pub(crate) fn option(name: &str, value: &str, allowed: &str) -> Self {
        Self::new("STDS_INVALID_OPTION_VALUE.WITH_MESSAGE", format!("Invalid value `{value}` of option `{name}`: it must be {allowed}."))
    }
}
