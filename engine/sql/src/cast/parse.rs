//! Strings to booleans, numbers and intervals, as Java and Spark read them.

use weir_decode::interval::{Unit, parse_range, parse_single};

/// Without the control characters and spaces that Spark ignores on both ends.
pub fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ' || c == '\u{7f}')
}

/// `t`, `true`, `y`, `yes`, `1` and their opposites.
pub fn boolean_from_string(text: &str) -> Option<bool> {
    match trimmed(text).to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// How a fraction after an integer is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fraction {
    /// Cut off, as legacy mode does.
    Cut,
    /// Malformed, as ANSI mode does.
    Malformed,
}

/// An integer of any width; the caller checks the range.
pub fn integer_from_string(text: &str, fraction: Fraction) -> Option<i64> {
    let text = trimmed(text);
    let text = match text.split_once('.') {
        Some((whole, rest)) if fraction == Fraction::Cut && rest.bytes().all(|b| b.is_ascii_digit()) => {
            if whole.is_empty() || whole == "+" || whole == "-" {
                return (!rest.is_empty()).then_some(0);
            }
            whole
        }
        _ => text,
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A double, with Java's suffixes and Spark's words for infinity.
pub fn double_from_string(text: &str) -> Option<f64> {
    let text = trimmed(text);
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return Some(f64::NAN),
        _ => {}
    }
    let digits = unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    digits.parse::<f64>().ok().map(|v| sign * v)
}

/// An interval: the bare value, or the whole literal with INTERVAL and units.
pub fn interval_from_string(text: &str, first: Unit, last: Unit) -> Option<i64> {
    let text = trimmed(text);
    let lower = text.to_ascii_lowercase();
    let body = match lower.strip_prefix("interval") {
        Some(rest) => {
            let rest = rest.trim();
            let (sign, rest) = match rest.strip_prefix('-') {
                Some(rest) => ("-", rest),
                None => ("", rest.strip_prefix('+').unwrap_or(rest)),
            };
            let rest = rest.strip_prefix('\'')?;
            let (body, units) = rest.split_once('\'')?;
            let wanted = weir_decode::interval::type_name(first, last);
            if format!("interval {}", units.trim()) != wanted {
                return None;
            }
            format!("{sign}{body}")
        }
        None => lower,
    };
    if first == last { parse_single(&body, first) } else { parse_range(&body, first, last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_java_does() {
        assert_eq!(integer_from_string(" 12 ", Fraction::Malformed), Some(12));
        assert_eq!(integer_from_string("1.9", Fraction::Cut), Some(1));
        assert_eq!(integer_from_string("1.9", Fraction::Malformed), None);
        assert_eq!(double_from_string("1.5d"), Some(1.5));
        assert_eq!(double_from_string("0x1A"), None);
        assert_eq!(double_from_string("-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(double_from_string("1."), Some(1.0));
    }
}
