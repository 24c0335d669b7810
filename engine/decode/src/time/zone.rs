//! Time zones by the ids that Java's ZoneId and Spark accept.
//!
//! Regions come from the IANA data of chrono-tz, offsets are fixed seconds.
//! A local time in a gap moves forward by the gap, one in an overlap takes
//! the earlier offset, as java.time does it.

use super::civil::MICROS_PER_SECOND;
use chrono::{NaiveDateTime, Offset, TimeZone};
use chrono_tz::{OffsetName, Tz};
use std::fmt;

/// A region of the IANA database or a fixed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Zone {
    /// Offset in seconds east of UTC, and how its id is printed.
    Fixed(i32, Spelling),
    /// A region with its rules.
    Region(Tz),
}

/// How the id of a fixed offset is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spelling {
    /// `+02:00`, `Z` for zero.
    Offset,
    /// `UTC`, `GMT` or `UT`, and the offset unless it is zero.
    Prefixed(&'static str),
}

/// The three-letter ids that java.time.ZoneId.SHORT_IDS maps.
const SHORT_IDS: [(&str, &str); 28] = [
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
    ("EST", "-05:00"),
    ("MST", "-07:00"),
    ("HST", "-10:00"),
];

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self::Fixed(0, Spelling::Prefixed("UTC"));

    /// The zone of an id such as `Europe/Berlin`, `+02:00`, `UTC+2`, `Z`.
    pub fn parse(id: &str) -> Option<Self> {
        if id.eq_ignore_ascii_case("z") {
            return Some(Self::Fixed(0, Spelling::Offset));
        }
        if id.starts_with(['+', '-']) {
            return parse_offset(id).map(|seconds| Self::Fixed(seconds, Spelling::Offset));
        }
        for prefix in ["UTC", "GMT", "UT"] {
            match id.strip_prefix(prefix) {
                Some("") => return Some(Self::Fixed(0, Spelling::Prefixed(prefix))),
                Some(rest) if rest.starts_with(['+', '-']) => {
                    return parse_offset(rest).map(|seconds| Self::Fixed(seconds, Spelling::Prefixed(prefix)));
                }
                _ => {}
            }
        }
        if let Some((_, target)) = SHORT_IDS.iter().find(|(short, _)| *short == id) {
            return Self::parse(target);
        }
        id.parse::<Tz>().ok().map(Self::Region)
    }

    /// Seconds east of UTC at an instant.
    pub fn offset_at(&self, instant_micros: i64) -> i32 {
        match self {
            Self::Fixed(seconds, _) => *seconds,
            Self::Region(tz) => offset_of(tz, naive(instant_micros)),
        }
    }

    /// Local microseconds of an instant.
    pub fn to_local(&self, instant_micros: i64) -> i64 {
        let offset = i64::from(self.offset_at(instant_micros)) * MICROS_PER_SECOND;
        instant_micros.saturating_add(offset)
    }

    /// The instant of local microseconds.
    pub fn to_instant(&self, local_micros: i64) -> Option<i64> {
        let offset = match self {
            Self::Fixed(seconds, _) => *seconds,
            Self::Region(tz) => match tz.offset_from_local_datetime(&naive(local_micros)) {
                chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
                chrono::LocalResult::Ambiguous(a, b) => {
                    // The earlier offset is the one that was in force before
                    // the change, whatever order the library reports.
                    a.fix().local_minus_utc().max(b.fix().local_minus_utc())
                }
                chrono::LocalResult::None => offset_of(tz, naive(local_micros.saturating_sub(86_400 * MICROS_PER_SECOND))),
            },
        };
        local_micros.checked_sub(i64::from(offset) * MICROS_PER_SECOND)
    }

    /// The abbreviation in force at an instant, such as `CEST`.
    pub fn short_name(&self, instant_micros: i64) -> String {
        match self {
            Self::Fixed(..) => self.to_string(),
            Self::Region(tz) => {
                tz.offset_from_utc_datetime(&naive(instant_micros)).abbreviation().map_or_else(|| tz.name().to_owned(), ToOwned::to_owned)
            }
        }
    }

    /// Whether local time is UTC.
    pub fn is_utc(&self) -> bool {
        match self {
            Self::Fixed(seconds, _) => *seconds == 0,
            Self::Region(tz) => *tz == Tz::UTC || *tz == Tz::Etc__UTC,
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(seconds, Spelling::Offset) => f.write_str(&offset_id(*seconds)),
            Self::Fixed(0, Spelling::Prefixed(prefix)) => f.write_str(prefix),
            Self::Fixed(seconds, Spelling::Prefixed(prefix)) => write!(f, "{prefix}{}", offset_id(*seconds)),
            Self::Region(tz) => f.write_str(tz.name()),
        }
    }
}

/// `+HH:MM`, with seconds if there are any; `Z` for zero.
fn offset_id(seconds: i32) -> String {
    if seconds == 0 {
        return "Z".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (h, m, s) = split_offset(seconds);
    if s == 0 { format!("{sign}{h:02}:{m:02}") } else { format!("{sign}{h:02}:{m:02}:{s:02}") }
}

/// Hours, minutes, seconds of the absolute offset.
pub fn split_offset(seconds: i32) -> (u32, u32, u32) {
    let total = seconds.unsigned_abs();
    (total / 3_600, total / 60 % 60, total % 60)
}

fn offset_of(tz: &Tz, utc: NaiveDateTime) -> i32 {
    tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()
}

/// Rules are only looked up, so instants beyond the range of the library
/// borrow those of its ends.
fn naive(micros: i64) -> NaiveDateTime {
    const LIMIT: i64 = 8_000_000_000_000 * MICROS_PER_SECOND;
    chrono::DateTime::from_timestamp_micros(micros.clamp(-LIMIT, LIMIT)).unwrap_or(chrono::DateTime::UNIX_EPOCH).naive_utc()
}

/// `+h`, `+hh`, `+h:mm`, `+hh:mm`, `+hh:m`, `+hhmm`, `+hh:mm:ss`, `+hhmmss`; at most 18 hours.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let digits = |part: &str| -> Option<i32> {
        (matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse().ok()).flatten()
    };
    let parts: Vec<&str> = if rest.contains(':') {
        rest.split(':').collect()
    } else if rest.is_ascii() && matches!(rest.len(), 4 | 6) {
        (0..rest.len() / 2).map(|i| &rest[2 * i..2 * i + 2]).collect()
    } else {
        vec![rest]
    };
    let values = parts.iter().map(|part| digits(part)).collect::<Option<Vec<_>>>()?;
    let (hours, minutes, seconds) = match values[..] {
        [h] => (h, 0, 0),
        [h, m] => (h, m, 0),
        [h, m, s] if parts[2].len() == 2 => (h, m, s),
        _ => return None,
    };
    let total = hours * 3_600 + minutes * 60 + seconds;
    (minutes < 60 && seconds < 60 && total <= 18 * 3_600).then_some(sign * total)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ids_are_read_as_java_reads_them() {
        let offset = |id: &str| Zone::parse(id).map(|z| z.offset_at(0));
        assert_eq!(offset("+0200"), Some(7_200));
        assert_eq!(offset("+2"), Some(7_200));
        assert_eq!(offset("-3:30"), Some(-12_600));
        assert_eq!(offset("UTC+1"), Some(3_600));
        assert_eq!(offset("GMT-03:30"), Some(-12_600));
        assert_eq!(offset("+18:01"), None);
        assert_eq!(offset("+24"), None);
        assert_eq!(offset("Nowhere"), None);
        for (id, printed) in
            [("PST", "America/Los_Angeles"), ("UT", "UT"), ("GMT+2", "GMT+02:00"), ("UTC-0", "UTC"), ("z", "Z"), ("-3", "-03:00")]
        {
            assert_eq!(Zone::parse(id).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn gaps_move_forward_and_overlaps_take_the_earlier_offset() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let local = |text: &str| super::super::iso::parse_timestamp_ntz(text.as_bytes(), true).unwrap();
        let gap = berlin.to_instant(local("2024-03-31 02:30:00")).unwrap();
        assert_eq!(berlin.to_local(gap), local("2024-03-31 03:30:00"));
        let overlap = berlin.to_instant(local("2024-10-27 02:30:00")).unwrap();
        assert_eq!(overlap, local("2024-10-27 00:30:00"));
        assert_eq!(berlin.short_name(overlap), "CEST");
    }
}
