//! JSON text as Jackson's generator writes it.
//!
//! Quotes, backslashes and control characters are escaped, nothing else: no
//! slash, no character outside ASCII.

use super::lexer::{Number, NumberForm};
use crate::number::{parse_double, write_double};

/// Appends a quoted, escaped string.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b < 0x20 || *b == b'"' || *b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let short = match rest[at] {
            b'"' => b'"',
            b'\\' => b'\\',
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            other => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(other >> 4)]);
                out.push(HEX[usize::from(other & 15)]);
                rest = &rest[at + 1..];
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends a number as Jackson copies it: integers by value, others as doubles.
pub(super) fn write_number(number: &Number<'_>, out: &mut Vec<u8>) {
    match number.form {
        NumberForm::Integer => {
            let negative = number.raw.first() == Some(&b'-');
            let digits = &number.raw[usize::from(negative)..];
            let zeros = digits.iter().take_while(|b| **b == b'0').count();
            let digits = &digits[zeros.min(digits.len() - 1)..];
            if negative && digits != b"0" {
                out.push(b'-');
            }
            out.extend_from_slice(digits);
        }
        NumberForm::Float => {
            let mut text = String::new();
            write_double(parse_double(number.raw).unwrap_or(f64::NAN), &mut text);
            if text.ends_with(|c: char| c.is_ascii_digit()) {
                out.extend_from_slice(text.as_bytes());
            } else {
                write_string(text.as_bytes(), out);
            }
        }
        NumberForm::NonFinite(value) => {
            let mut text = String::new();
            write_double(value, &mut text);
            write_string(text.as_bytes(), out);
        }
    }
}
