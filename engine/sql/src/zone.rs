//! Time zones as Spark writes them: regions, offsets, `Z`, `UTC+2`.
//!
//! Local times in a gap move forward by the gap, those in an overlap take the
//! earlier offset, as java.time does.

use chrono::{FixedOffset, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::Tz;

/// A zone of a session or of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionZone {
    /// A region of the tz database.
    Region(Tz),
    /// A fixed offset.
    Fixed(FixedOffset),
}

impl SessionZone {
    /// Coordinated universal time.
    pub const UTC: Self = Self::Region(Tz::UTC);

    /// Reads `Europe/Berlin`, `UTC`, `Z`, `+02:00`, `+2`, `GMT+02:30`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        if text == "Z" {
            return Some(Self::UTC);
        }
        let offset = ["UTC", "GMT", "UT"].iter().find_map(|p| text.strip_prefix(p).filter(|rest| !rest.is_empty())).unwrap_or(text);
        if offset.starts_with(['+', '-']) {
            return parse_offset(offset).map(Self::Fixed);
        }
        let alias = match text {
            "UT" | "Z" => "UTC",
            "EST" => return FixedOffset::west_opt(5 * 3600).map(Self::Fixed),
            "MST" => return FixedOffset::west_opt(7 * 3600).map(Self::Fixed),
            "HST" => return FixedOffset::west_opt(10 * 3600).map(Self::Fixed),
            "PST" => "America/Los_Angeles",
            "CST" => "America/Chicago",
            "JST" => "Asia/Tokyo",
            "IST" => "Asia/Kolkata",
            other => other,
        };
        alias.parse::<Tz>().ok().map(Self::Region)
    }

    /// The offset from UTC at an instant, in seconds.
    pub fn offset_at(self, micros: i64) -> i32 {
        match self {
            Self::Fixed(offset) => offset.local_minus_utc(),
            Self::Region(Tz::UTC) => 0,
            Self::Region(tz) => match chrono::DateTime::from_timestamp_micros(micros) {
                Some(at) => tz.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc(),
                None => 0,
            },
        }
    }

    /// The wall clock in this zone at an instant, as microseconds.
    pub fn to_local(self, micros: i64) -> i64 {
        micros.saturating_add(i64::from(self.offset_at(micros)) * 1_000_000)
    }

    /// The instant of a wall clock reading in this zone.
    pub fn to_instant(self, local: i64) -> i64 {
        match self {
            Self::Fixed(offset) => local.saturating_sub(i64::from(offset.local_minus_utc()) * 1_000_000),
            Self::Region(Tz::UTC) => local,
            Self::Region(tz) => {
                let Some(at) = chrono::DateTime::from_timestamp_micros(local).map(|d| d.naive_utc()) else {
                    return local;
                };
                local.saturating_sub(i64::from(local_offset(tz, at)) * 1_000_000)
            }
        }
    }

    /// The name as Spark shows it.
    pub fn name(self) -> String {
        match self {
            Self::Region(tz) => tz.name().to_owned(),
            Self::Fixed(offset) => offset.to_string(),
        }
    }
}

/// The offset that turns a local time into an instant.
fn local_offset(tz: Tz, at: NaiveDateTime) -> i32 {
    match tz.offset_from_local_datetime(&at) {
        LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset.fix().local_minus_utc(),
        LocalResult::None => {
            // In a gap the offset before it applies, which moves the time forward.
            let before = at - TimeDelta::hours(24);
            tz.offset_from_utc_datetime(&before).fix().local_minus_utc()
        }
    }
}

/// Reads `+h`, `+hh`, `+hh:mm`, `+hhmm`, `+hh:mm:ss`.
fn parse_offset(text: &str) -> Option<FixedOffset> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    if !digits.is_ascii() {
        return None;
    }
    let parts: Vec<&str> = if digits.contains(':') {
        digits.split(':').collect()
    } else {
        match digits.len() {
            1 | 2 => vec![digits],
            4 => vec![&digits[..2], &digits[2..]],
            6 => vec![&digits[..2], &digits[2..4], &digits[4..]],
            _ => return None,
        }
    };
    let mut seconds = 0;
    for (index, part) in parts.iter().enumerate() {
        if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let value: i32 = part.parse().ok()?;
        let (limit, unit) = match index {
            0 => (18, 3600),
            1 => (59, 60),
            2 => (59, 1),
            _ => return None,
        };
        if value > limit {
            return None;
        }
        seconds += value * unit;
    }
    FixedOffset::east_opt(sign * seconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_regions_and_offsets() {
        assert_eq!(SessionZone::parse("+02:00").unwrap().offset_at(0), 7200);
        assert_eq!(SessionZone::parse("+0200").unwrap().offset_at(0), 7200);
        assert_eq!(SessionZone::parse("UTC-3").unwrap().offset_at(0), -10800);
        assert_eq!(SessionZone::parse("Europe/Berlin").unwrap().offset_at(1_717_236_672_000_000), 7200);
        assert!(SessionZone::parse("Nowhere/Town").is_none());
        assert!(SessionZone::parse("+25:00").is_none());
    }

    #[test]
    fn a_gap_moves_forward() {
        let berlin = SessionZone::parse("Europe/Berlin").unwrap();
        // 2024-03-31 02:30 does not exist; it is 03:30 summer time, 01:30 UTC.
        let local = 1_711_852_200_000_000;
        assert_eq!(berlin.to_instant(local), local - 3_600_000_000);
    }
}
