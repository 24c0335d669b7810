//! The one error type of the engine crates.
//!
//! An error names the object and the action in its message, says what to do
//! about it, and carries two machine-readable facts: a class, which decides
//! the exit code and whether the supervisor retries, and a condition, which is
//! Spark's error condition name wherever Spark has one, else Weir's own in the
//! same style. Libraries never exit; the task turns the class into a code.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// What kind of failure this is; decides exit code and retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorClass {
    /// May go away by itself: brokers, disks, networks. Exit code 10.
    Retryable,
    /// The manifest or its data cannot work as written. Exit code 20.
    Config,
    /// The checkpoint or the sink does not fit this query. Exit code 21.
    Incompatible,
    /// A newer epoch owns the checkpoint. Exit code 22.
    Fenced,
}

impl ErrorClass {
    /// The process exit code of a task that failed with this class.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Retryable => 10,
            Self::Config => 20,
            Self::Incompatible => 21,
            Self::Fenced => 22,
        }
    }
}

/// What an error is about inside the definition of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The path of the field, as in messages: `queries[readings].views[clean].sql`.
    pub field: String,
    /// Line and column inside the field's text, from 1.
    pub at: Option<(usize, usize)>,
}

/// An engine error: class, condition, message, place, cause.
#[derive(Debug)]
pub struct Error {
    class: ErrorClass,
    condition: Cow<'static, str>,
    message: String,
    place: Option<Box<Place>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    highest_epoch: Option<u64>,
    source_version: Option<Box<str>>,
}

/// The result type of the engine crates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the given class.
    pub fn new(class: ErrorClass, condition: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            class,
            condition: condition.into(),
            message: message.into(),
            place: None,
            source: None,
            highest_epoch: None,
            source_version: None,
        }
    }

    /// A failure that a later attempt may not meet again.
    pub fn retryable(condition: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Retryable, condition, message)
    }

    /// A failure that only an edit of the manifest or its data can end.
    pub fn config(condition: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Config, condition, message)
    }

    /// A checkpoint or sink that does not fit this query.
    pub fn incompatible(condition: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Incompatible, condition, message)
    }

    /// A newer epoch owns the checkpoint; carries the highest epoch seen.
    pub fn fenced(highest_epoch: u64, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorClass::Fenced, "FENCED_BY_NEWER_EPOCH", message);
        error.highest_epoch = Some(highest_epoch);
        error
    }

    /// A source gained columns with its version `source_version`: a new attempt reads them.
    pub fn schema_changed(source_version: impl Into<Box<str>>, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorClass::Retryable, weir_crds::exit::SCHEMA_CHANGED, message);
        error.source_version = Some(source_version.into());
        error
    }

    /// The same failure in the class that its place gives it.
    #[must_use]
    pub fn in_class(mut self, class: ErrorClass) -> Self {
        self.class = class;
        self
    }

    /// Attaches the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts what was being done before the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Says where in a text the error is; the first to know is the nearest to it and is kept.
    #[must_use]
    pub fn at(mut self, line: usize, column: usize) -> Self {
        self.place.get_or_insert_with(|| Box::new(Place { field: String::new(), at: Some((line, column)) }));
        self
    }

    /// Says which field the error is about; the first to know is the nearest to it and is kept.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<String>) -> Self {
        let place = self.place.get_or_insert_default();
        if place.field.is_empty() {
            place.field = field.into();
        }
        self
    }

    /// Puts the path of what holds the field before the field's own.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        let place = self.place.get_or_insert_default();
        place.field = if place.field.is_empty() { parent.to_owned() } else { format!("{parent}.{}", place.field) };
        self
    }

    /// Takes out the place, for those who tell it in their own words.
    pub fn take_place(&mut self) -> Place {
        self.place.take().map(|place| *place).unwrap_or_default()
    }

    /// The class.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// Spark's error condition name, or Weir's own in the same style.
    pub fn condition(&self) -> &str {
        &self.condition
    }

    /// The message without the condition.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The version of the source whose columns are others, for changes of the schema.
    pub fn source_version(&self) -> Option<&str> {
        self.source_version.as_deref()
    }

    /// The highest epoch seen in the checkpoint, for fenced errors.
    pub fn highest_epoch(&self) -> Option<u64> {
        self.highest_epoch
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.condition, self.message)?;
        if let Some((line, column)) = self.place.as_ref().and_then(|place| place.at) {
            write!(f, " (line {line}, column {column})")?;
        }
        let mut cause = self.source.as_deref().map(|e| e as &dyn StdError);
        while let Some(error) = cause {
            let text = error.to_string();
            if !self.message.contains(&text) {
                write!(f, ": {text}")?;
            }
            cause = error.source();
        }
        Ok(())
    }
}

/// What a panic said.
pub fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked without words".to_owned())
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_is_kept_and_paths_grow_outwards() {
        let error = Error::config("C", "m").at(2, 3).at(1, 1).in_field("views[v].sql").at(9, 9).in_field("sql");
        let mut error = error.within("queries[q]").context("query q");
        assert_eq!(error.to_string(), "[C] query q: m (line 2, column 3)");
        assert_eq!(error.take_place(), Place { field: "queries[q].views[v].sql".to_owned(), at: Some((2, 3)) });
        assert_eq!(error.to_string(), "[C] query q: m");
        assert_eq!(Error::config("C", "m").within("queries[q]").take_place().field, "queries[q]");
    }
}
