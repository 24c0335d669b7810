//! What a plain scalar means, by the rules that `kubectl` reads it with.
//!
//! YAML 1.1 as in `sigs.k8s.io/yaml`: `yes`, `on`, `y` and their like are booleans, numbers
//! may have underscores and leading zeros are octal. A text that looks like one of these
//! must be quoted to stay a text, here as there.

use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Null => f.write_str("nothing"),
            Scalar::Bool(value) => write!(f, "the boolean {value}"),
            Scalar::Int(value) => write!(f, "the integer {value}"),
            Scalar::Float(value) => write!(f, "the number {value}"),
            Scalar::Text(_) => f.write_str("a string"),
        }
    }
}

pub(super) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            return Scalar::Bool(false);
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return Scalar::Text(text.to_owned());
    }
    let digits = text.replace('_', "");
    if let Some(value) = integer(&digits) {
        return Scalar::Int(value);
    }
    let looks_like_float =
        digits.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) && digits.bytes().any(|b| b.is_ascii_digit());
    match digits.parse::<f64>() {
        Ok(value) if looks_like_float => Scalar::Float(value),
        _ => Scalar::Text(text.to_owned()),
    }
}

fn integer(digits: &str) -> Option<i64> {
    let (negative, body) = match digits.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (radix, body) = match body.get(..2) {
        Some("0x" | "0X") => (16, &body[2..]),
        Some("0o" | "0O") => (8, &body[2..]),
        Some("0b" | "0B") => (2, &body[2..]),
        Some(_) if body.starts_with('0') => (8, &body[1..]),
        _ => (10, body),
    };
    if body.is_empty() || body.starts_with(['+', '-']) {
        return None;
    }
    let value = i64::from_str_radix(body, radix).ok()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_as_kubectl_does() {
        for (text, expected) in [
            ("on", Scalar::Bool(true)),
            ("No", Scalar::Bool(false)),
            ("12", Scalar::Int(12)),
            ("1_000", Scalar::Int(1000)),
            ("010", Scalar::Int(8)),
            ("0x1F", Scalar::Int(31)),
            ("-5", Scalar::Int(-5)),
            ("1.5e3", Scalar::Float(1500.0)),
            ("~", Scalar::Null),
            ("1m30s", Scalar::Text("1m30s".into())),
            ("2024-01-01", Scalar::Text("2024-01-01".into())),
            ("09", Scalar::Float(9.0)),
            ("-", Scalar::Text("-".into())),
            ("kafka:9092", Scalar::Text("kafka:9092".into())),
        ] {
            assert_eq!(resolve(text), expected, "{text}");
        }
    }
}
