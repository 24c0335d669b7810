//! Date and timestamp text without a pattern: the forms that Spark's casts read.
//!
//! Source: org.apache.spark.sql.catalyst.util.SparkDateTimeUtils, stringToDate
//! and parseTimestampString. Partial dates (`2024`, `2024-6`), one-digit
//! fields, more than six fraction digits (cut off) and zone suffixes are read;
//! a time without a date is not, because it would need the clock.

use super::civil::{Civil, DateTime};
use super::zone::Zone;

/// Days of a date text; whatever follows `yyyy-m-d ` or `yyyy-m-dT` is ignored.
pub fn parse_date(text: &[u8]) -> Option<i32> {
    let bytes = trim(text);
    let (sign, mut at) = match bytes.first()? {
        b'-' => (-1, 1),
        b'+' => (1, 1),
        _ => (1, 0),
    };
    let mut segments = [1i32; 3];
    let (mut index, mut value, mut digits) = (0usize, 0i32, 0u32);
    let valid = |index: usize, digits: u32| match index {
        0 => (4..=7).contains(&digits),
        _ => (1..=2).contains(&digits),
    };
    while at < bytes.len() && bytes[at] != b' ' && bytes[at] != b'T' {
        match bytes[at] {
            b'-' if index < 2 => {
                if !valid(index, digits) {
                    return None;
                }
                segments[index] = value;
                (index, value, digits) = (index + 1, 0, 0);
            }
            digit @ b'0'..=b'9' if digits < 8 => {
                value = value * 10 + i32::from(digit - b'0');
                digits += 1;
            }
            _ => return None,
        }
        at += 1;
    }
    if !valid(index, digits) || (index < 2 && at < bytes.len()) {
        return None;
    }
    segments[index] = value;
    let [year, month, day] = segments;
    Civil::new(sign * year, month as u32, day as u32).map(Civil::to_days)
}

/// Microseconds since the epoch; text without a zone is local time of `zone`.
pub fn parse_timestamp(text: &[u8], zone: &Zone) -> Option<i64> {
    if let Some((local, utc)) = fast(text) {
        return if utc { Some(local) } else { zone.to_instant(local) };
    }
    let (local, suffix) = parse_fields(text)?;
    match suffix {
        Some(id) => parse_zone(id)?.to_instant(local),
        None => zone.to_instant(local),
    }
}

/// Local microseconds; a zone suffix is checked and dropped, or refused.
pub fn parse_timestamp_ntz(text: &[u8], allow_zone: bool) -> Option<i64> {
    let (local, suffix) = parse_fields(text)?;
    match suffix {
        Some(id) if allow_zone => parse_zone(id).map(|_| local),
        Some(_) => None,
        None => Some(local),
    }
}

fn parse_zone(id: &[u8]) -> Option<Zone> {
    Zone::parse(std::str::from_utf8(trim(id)).ok()?)
}

/// `yyyy-MM-dd[ T]HH:mm:ss[.fraction][Z]`: local micros and whether `Z` stood there.
fn fast(text: &[u8]) -> Option<(i64, bool)> {
    let two = |at: usize| -> Option<u32> {
        let (a, b) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
        (a < 10 && b < 10).then_some(u32::from(a) * 10 + u32::from(b))
    };
    if text.len() < 19 || text[4] != b'-' || text[7] != b'-' || !matches!(text[10], b' ' | b'T') || text[13] != b':' || text[16] != b':' {
        return None;
    }
    let year = two(0)? * 100 + two(2)?;
    let date = Civil::new(year as i32, two(5)?, two(8)?)?;
    let mut at = 19;
    let mut micros = 0;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let start = at;
        let mut scale = 100_000;
        while let Some(digit) = text.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
            micros += u32::from(digit) * scale;
            scale /= 10;
            at += 1;
        }
        if at == start {
            return None;
        }
    }
    let utc = match &text[at..] {
        [] => false,
        [b'Z'] => true,
        _ => return None,
    };
    let local = DateTime::new(date, two(11)?, two(14)?, two(17)?, micros)?.to_local_micros()?;
    Some((local, utc))
}

/// Local microseconds and the text of a zone suffix.
fn parse_fields(text: &[u8]) -> Option<(i64, Option<&[u8]>)> {
    let bytes = trim(text);
    let (sign, mut at) = match bytes.first()? {
        b'-' => (-1, 1),
        b'+' => (1, 1),
        _ => (1, 0),
    };
    let mut segments = [1i32, 1, 1, 0, 0, 0, 0, 0, 0];
    let (mut index, mut value, mut digits, mut fraction_digits) = (0usize, 0i32, 0u32, 0u32);
    let mut suffix = None;
    let valid = |index: usize, digits: u32| match index {
        0 => (4..=6).contains(&digits),
        6 => true,
        7 => digits <= 2,
        _ => (1..=2).contains(&digits),
    };
    while at < bytes.len() {
        let byte = bytes[at];
        if byte.is_ascii_digit() {
            if index == 6 {
                fraction_digits += 1;
            }
            if index != 6 || digits < 6 {
                if digits > 8 {
                    return None;
                }
                value = value * 10 + i32::from(byte - b'0');
            }
            digits += 1;
            at += 1;
            continue;
        }
        let separator = match index {
            0 | 1 => byte == b'-',
            2 => matches!(byte, b' ' | b'T'),
            3 | 4 => byte == b':',
            5 | 6 => true,
            _ => false,
        };
        if !separator || !valid(index, digits) {
            return None;
        }
        segments[index] = value;
        if index == 6 || (index == 5 && byte != b'.') {
            suffix = Some(&bytes[at..]);
            (index, value, digits) = (7, 0, 0);
            break;
        }
        (index, value, digits) = (index + 1, 0, 0);
        at += 1;
    }
    if !valid(index, digits) {
        return None;
    }
    segments[index] = value;
    for _ in fraction_digits..6 {
        segments[6] *= 10;
    }
    let date = Civil::new(sign * segments[0], segments[1] as u32, segments[2] as u32)?;
    let [hour, minute, second, micros] = [3, 4, 5, 6].map(|i: usize| segments[i] as u32);
    let local = DateTime::new(date, hour, minute, second, micros)?.to_local_micros()?;
    Some((local, suffix))
}

/// Without leading and trailing blanks and control characters.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let blank = |b: &u8| *b <= b' ' || *b == 0x7f;
    let start = text.iter().position(|b| !blank(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !blank(b)).map_or(start, |i| i + 1);
    &text[start..end]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn ts(text: &str) -> Option<i64> {
        parse_timestamp(text.as_bytes(), &Zone::UTC)
    }

    #[test]
    fn dates_may_be_partial_and_carry_a_time() {
        let day = |text: &str| parse_date(text.as_bytes());
        assert_eq!(day("2024-06-01"), Some(19_875));
        assert_eq!(day(" 2024-6-1\n"), Some(19_875));
        assert_eq!(day("2024-06-01T25:99"), Some(19_875));
        assert_eq!(day("2024-06"), Some(19_875));
        assert_eq!(day("2024"), Some(19_723));
        for bad in ["", "24-06-01", "2024-06 x", "2024-02-30", "2024-06-01x", "20240601x", "bad"] {
            assert_eq!(day(bad), None, "{bad}");
        }
    }

    #[test]
    fn timestamps_take_zones_and_partial_times() {
        let noon = ts("2024-06-01 12:00:00").unwrap();
        assert_eq!(ts("2024-06-01T14:00:00+02:00"), Some(noon));
        assert_eq!(ts("2024-06-01T14:00:00 Europe/Berlin"), Some(noon));
        assert_eq!(ts("2024-06-01 12:00:00.1234567"), Some(noon + 123_456));
        assert_eq!(ts("2024-06-01 12:0:0.5Z"), Some(noon + 500_000));
        assert_eq!(ts("2024-06-01 12"), Some(noon));
        for bad in ["12:00:00", "2024-06-01 24:00:00", "2024-06-01 12:00:00x", "x", "2024-06-01 12:00Z"] {
            assert_eq!(ts(bad), None, "{bad}");
        }
        assert_eq!(parse_timestamp_ntz(b"2024-06-01 12:00:00Z", false), None);
    }

    proptest! {
        #[test]
        fn the_fast_form_agrees_with_the_general_one(text in "[0-9]{4}-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,8})?Z?") {
            if let Some((local, _)) = fast(text.as_bytes()) {
                prop_assert_eq!(Some(local), parse_fields(text.as_bytes()).map(|f| f.0));
            }
        }

        #[test]
        fn no_text_panics(text in any::<Vec<u8>>()) {
            let _ = parse_date(&text);
            let _ = parse_timestamp(&text, &Zone::UTC);
        }
    }
}
