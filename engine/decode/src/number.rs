//! Numbers as Java reads and writes them.
//!
//! Decimals are read exactly and rounded half up to their scale, doubles are
//! read correctly rounded and written in the shortest form that reads back,
//! with Java's switch to scientific notation. No locale, no grouping.

/// The unscaled value of `text` at `scale`, rounded half up; nothing if it is
/// not a number as `java.math.BigDecimal` takes it or has more than
/// `precision` digits.
pub fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, rest) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let split = rest.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(rest.len());
    let exponent: i64 = match rest.get(split + 1..) {
        Some(digits) => std::str::from_utf8(digits).ok()?.parse::<i32>().ok()?.into(),
        None => 0,
    };
    let mantissa = &rest[..split];
    let point = mantissa.iter().position(|b| *b == b'.');
    let whole_len = point.unwrap_or(mantissa.len());
    let fraction = point.map_or(&mantissa[..0], |at| &mantissa[at + 1..]);
    let digits = || mantissa[..whole_len].iter().chain(fraction);
    if digits().next().is_none() || !digits().all(u8::is_ascii_digit) {
        return None;
    }
    // Position of the first digit after those that the scale keeps.
    let keep = whole_len as i64 + exponent + i64::from(scale);
    let mut value: i128 = 0;
    let mut at = 0i64;
    for digit in digits() {
        if at >= keep {
            break;
        }
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        at += 1;
    }
    while value != 0 && at < keep {
        value = value.checked_mul(10)?;
        at += 1;
    }
    if keep >= 0 && digits().nth(keep as usize).is_some_and(|digit| *digit >= b'5') {
        value += 1;
    }
    if value >= 10i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX) {
        return None;
    }
    Some(if negative { -value } else { value })
}

/// A JSON number, already checked for form, as a double.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 23] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22];
    // Up to 15 digits and a power of ten below 23 are exact in one division.
    let negative = text.first() == Some(&b'-');
    let body = &text[usize::from(negative)..];
    if body.len() <= 16 {
        let mut mantissa = 0u64;
        let mut point = None;
        let mut plain = true;
        for (at, byte) in body.iter().enumerate() {
            match byte {
                b'0'..=b'9' => mantissa = mantissa * 10 + u64::from(byte - b'0'),
                b'.' if point.is_none() => point = Some(at),
                _ => {
                    plain = false;
                    break;
                }
            }
        }
        let digits = body.len() - usize::from(point.is_some());
        if plain && digits > 0 && digits <= 15 {
            let places = point.map_or(0, |at| body.len() - at - 1);
            let value = mantissa as f64 / POWERS[places];
            return Some(if negative { -value } else { value });
        }
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `java.lang.Double.toString`.
pub fn write_double(value: f64, out: &mut String) {
    write_scientific(format!("{value:e}"), value.is_nan(), out);
}

/// `java.lang.Float.toString`.
pub fn write_float(value: f32, out: &mut String) {
    write_scientific(format!("{value:e}"), value.is_nan(), out);
}

/// Rust's shortest `d.ddde±x` in Java's layout.
fn write_scientific(text: String, nan: bool, out: &mut String) {
    if nan {
        out.push_str("NaN");
        return;
    }
    let (sign, rest) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    out.push_str(sign);
    let Some((mantissa, exponent)) = rest.split_once('e') else {
        out.push_str("Infinity");
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if digits == "0" {
        out.push_str("0.0");
    } else if (-3..7).contains(&exponent) {
        if exponent < 0 {
            out.push_str("0.");
            (1..-exponent).for_each(|_| out.push('0'));
            out.push_str(&digits);
        } else {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                out.push_str(&digits);
                (digits.len()..whole).for_each(|_| out.push('0'));
                out.push_str(".0");
            } else {
                out.push_str(&digits[..whole]);
                out.push('.');
                out.push_str(&digits[whole..]);
            }
        }
    } else {
        let fraction = if digits.len() > 1 { &digits[1..] } else { "0" };
        out.push_str(&digits[..1]);
        out.push('.');
        out.push_str(fraction);
        out.push('E');
        out.push_str(&exponent.to_string());
    }
}

/// Unscaled decimal to text, with as many fraction digits as the scale says.
pub fn write_decimal(unscaled: i128, scale: i8, out: &mut String) {
    if unscaled < 0 {
        out.push('-');
    }
    let mut digits = unscaled.unsigned_abs().to_string();
    if scale <= 0 {
        out.push_str(&digits);
        if unscaled != 0 {
            (0..-i32::from(scale)).for_each(|_| out.push('0'));
        }
        return;
    }
    let scale = scale as usize;
    if digits.len() <= scale {
        digits.insert_str(0, &"0".repeat(scale + 1 - digits.len()));
    }
    let whole = digits.len() - scale;
    out.push_str(&digits[..whole]);
    out.push('.');
    out.push_str(&digits[whole..]);
}

/// `java.math.BigDecimal.toString`: scientific for very small values.
pub fn write_java_decimal(unscaled: i128, scale: i8, out: &mut String) {
    let digits = unscaled.unsigned_abs().to_string();
    let adjusted = digits.len() as i32 - 1 - i32::from(scale);
    if scale >= 0 && adjusted >= -6 {
        write_decimal(unscaled, scale, out);
        return;
    }
    if unscaled < 0 {
        out.push('-');
    }
    out.push_str(&digits[..1]);
    if digits.len() > 1 {
        out.push('.');
        out.push_str(&digits[1..]);
    }
    if adjusted != 0 {
        out.push_str(if adjusted > 0 { "E+" } else { "E" });
        out.push_str(&adjusted.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn double(value: f64) -> String {
        let mut out = String::new();
        write_double(value, &mut out);
        out
    }

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        let cases = [
            (1.0, "1.0"),
            (100.0, "100.0"),
            (1.1, "1.1"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (1e-3, "0.001"),
            (1.5e-4, "1.5E-4"),
            (-0.0, "-0.0"),
            (1.2345678901234567e19, "1.2345678901234567E19"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
            (123.456, "123.456"),
        ];
        for (value, text) in cases {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn decimals_round_half_up_and_respect_precision() {
        let parse = |text: &str, p, s| parse_decimal(text.as_bytes(), p, s);
        assert_eq!(parse("1.005", 10, 2), Some(101));
        assert_eq!(parse("-1.005", 10, 2), Some(-101));
        assert_eq!(parse("1e2", 10, 2), Some(10_000));
        assert_eq!(parse("15e-1", 10, 0), Some(2));
        assert_eq!(parse("0.004", 10, 2), Some(0));
        assert_eq!(parse("5e-4", 10, 2), Some(0));
        assert_eq!(parse("99.995", 4, 2), None);
        assert_eq!(parse("12345678901234567890.123", 30, 3), Some(12_345_678_901_234_567_890_123));
        assert_eq!(parse("1e999999999", 38, 0), None);
        assert_eq!(parse("0e999999999", 38, 0), Some(0));
        for bad in ["", "x", "1.2.3", ".", "-", "1e", " 1", "NaN"] {
            assert_eq!(parse(bad, 10, 2), None, "{bad}");
        }
        assert_eq!(parse(".5", 10, 1), Some(5));
    }

    proptest! {
        #[test]
        fn doubles_are_read_exactly(text in "-?[0-9]{1,12}(\\.[0-9]{1,8})?([eE][-+]?[0-9]{1,2})?") {
            prop_assert_eq!(parse_double(text.as_bytes()), text.parse::<f64>().ok());
        }

        #[test]
        fn written_doubles_read_back(value in any::<f64>()) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(double(value).parse::<f64>().ok(), Some(value));
        }
    }
}
