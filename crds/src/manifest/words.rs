//! Types and patterns of the schema in words, for messages.

use serde_json::Value;

use crate::duration::DURATION_PATTERN;

/// The type of a field, as it completes "must be …".
pub(super) fn type_in_words(schema: &Value) -> String {
    match schema["x-weir-type"].as_str() {
        Some("duration") => return "a duration such as 90s or 1m30s".to_owned(),
        Some("interval") => return "an interval such as 10 seconds or 1m30s".to_owned(),
        _ => {}
    }
    match schema["type"].as_str() {
        Some("object") => "a map".to_owned(),
        Some("array") => "a list".to_owned(),
        Some("string") => "a string".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("integer" | "number") => {
            let kind = if schema["type"] == "integer" { "an integer" } else { "a number" };
            match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
                (Some(least), Some(most)) => format!("{kind} from {least} to {most}"),
                (Some(least), None) => format!("{kind} from {least}"),
                _ => kind.to_owned(),
            }
        }
        _ => "a value".to_owned(),
    }
}

/// What a pattern asks for, as it completes "is not …".
pub(super) fn pattern_in_words(pattern: &str) -> String {
    match pattern {
        DURATION_PATTERN => {
            "a duration: write one to four numbers of at most five digits, each with h, m, s or ms, for example 90s or 1m30s".to_owned()
        }
        r"^[a-z0-9]+(-[a-z0-9]+)*$" => {
            "a DNS label without `--`: write lower-case letters, digits and single hyphens between them".to_owned()
        }
        r"^[A-Za-z_][A-Za-z0-9_]*$" => "a name for SQL: write letters, digits and underscores, not beginning with a digit".to_owned(),
        r"^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$" => {
            "a name: write letters, digits, and between them hyphens, underscores and dots".to_owned()
        }
        other => format!("of the form {other}"),
    }
}
