//! Spark's error conditions inside DataFusion.
//!
//! A function that fails at run time as Spark would returns `spark_error`; it
//! travels through DataFusion as an external error and `from_datafusion` gets
//! it back out as Weir's error. Errors of analysis are class Config. An error of
//! the data at run time is class Retryable, as Spark fails the query and a
//! restart may be tried; the supervisor's backoff and limits do the rest.

use std::fmt;

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::ast::Spanned;
use datafusion::sql::sqlparser::tokenizer::Span;
use weir_core::Error;

/// An error condition of Spark at run time.
#[derive(Debug)]
pub struct SparkError {
    /// Spark's condition name.
    pub condition: String,
    /// The sentence.
    pub message: String,
}

impl fmt::Display for SparkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SparkError {}

/// A DataFusion error that carries a Spark condition.
pub fn spark_error(condition: impl Into<String>, message: impl Into<String>) -> DataFusionError {
    DataFusionError::External(Box::new(SparkError { condition: condition.into(), message: message.into() }))
}

/// An Arrow error that carries a Spark condition.
pub fn spark_arrow_error(condition: impl Into<String>, message: impl Into<String>) -> arrow::error::ArrowError {
    arrow::error::ArrowError::ExternalError(Box::new(SparkError { condition: condition.into(), message: message.into() }))
}

/// Finds the Spark condition anywhere in the chain of causes.
pub fn find_spark_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a SparkError> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<SparkError>() {
            return Some(found);
        }
        let inner: Option<&(dyn std::error::Error + 'static)> = match error.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
            Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
            _ => match error.downcast_ref::<arrow::error::ArrowError>() {
                Some(arrow::error::ArrowError::ExternalError(inner)) => Some(inner.as_ref()),
                _ => None,
            },
        };
        if let Some(found) = inner.and_then(find_spark_error) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// A run-time failure of a plan as Weir's error.
pub fn from_datafusion(error: DataFusionError) -> Error {
    if let Some(found) = find_spark_error(&error) {
        return Error::retryable(found.condition.clone(), found.message.clone());
    }
    match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => Error::retryable("WEIR_OUT_OF_MEMORY", message.clone()),
        DataFusionError::External(cause) => match cause.downcast_ref::<Error>() {
            // A connector that reads a table has said what is wrong; as the data may change, a restart may be tried.
            Some(said) => {
                let shown = said.to_string();
                let prefix = format!("[{}] ", said.condition());
                Error::retryable(said.condition().to_owned(), shown.strip_prefix(&prefix).unwrap_or(&shown))
            }
            None => unknown(&error),
        },
        _ => unknown(&error),
    }
}

fn unknown(error: &DataFusionError) -> Error {
    Error::retryable("WEIR_EXECUTION_FAILED", error.strip_backtrace())
}

/// A failure of planning as Weir's error.
pub fn from_planning(error: DataFusionError) -> Error {
    match find_spark_error(&error) {
        Some(found) => Error::config(found.condition.clone(), found.message.clone()),
        None => Error::config("WEIR_PLANNING_FAILED", error.strip_backtrace()),
    }
}

/// The error with the begin of a span, where the span is known.
pub fn at_span(error: Error, span: Span) -> Error {
    match (usize::try_from(span.start.line), usize::try_from(span.start.column)) {
        (Ok(line), Ok(column)) if line > 0 => error.at(line, column),
        _ => error,
    }
}

/// A result whose error is in this piece of the syntax tree, or nearer.
pub fn placed<T>(result: Result<T, Error>, piece: &impl Spanned) -> Result<T, Error> {
    result.map_err(|error| at_span(error, piece.span()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connector_says_of_a_table_keeps_its_condition() {
        let said = Error::config("PATH_NOT_FOUND", "there is no /x").with_source(std::io::Error::other("gone"));
        let error = from_datafusion(DataFusionError::External(Box::new(said)).context("scan"));
        assert_eq!(error.to_string(), "[PATH_NOT_FOUND] there is no /x: gone");
        assert_eq!(error.class(), weir_core::ErrorClass::Retryable);
        assert_eq!(from_datafusion(DataFusionError::Internal("x".to_owned())).condition(), "WEIR_EXECUTION_FAILED");
    }
}
