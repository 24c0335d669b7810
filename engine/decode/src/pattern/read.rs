//! Text to fields, then fields to a date and time.
//!
//! Numbers follow the JDK's strict parsing, adjacent digits included; a field
//! read twice must agree. An optional section that does not fit leaves no
//! trace.

use super::{Field, Item, OffsetShape, Parsed, Sign, Style, names};
use crate::time::civil::{Civil, DateTime};
use crate::time::zone::{Spelling, Zone};

#[derive(Clone, Debug, Default)]
struct Fields {
    year: Option<i64>,
    year_of_era: Option<i64>,
    era: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour24: Option<i64>,
    clock24: Option<i64>,
    hour12: Option<i64>,
    clock12: Option<i64>,
    am_pm: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    nanos: Option<i64>,
    zone: Option<Zone>,
}

pub(super) fn read(items: &[Item], text: &str) -> Option<Parsed> {
    let mut fields = Fields::default();
    let end = read_items(items, text, 0, &mut fields)?;
    (end == text.len()).then(|| resolve(fields)).flatten()
}

fn read_items(items: &[Item], text: &str, mut at: usize, fields: &mut Fields) -> Option<usize> {
    for item in items {
        at = read_item(item, text, at, fields)?;
    }
    Some(at)
}

fn read_item(item: &Item, text: &str, at: usize, fields: &mut Fields) -> Option<usize> {
    let rest = text.get(at..)?;
    match item {
        Item::Literal(literal) => {
            let head = rest.get(..literal.len())?;
            (head == literal || head.to_lowercase() == literal.to_lowercase()).then_some(at + literal.len())
        }
        Item::Number { field, min, max, sign, reserved } => {
            let (value, length) = number(rest.as_bytes(), *min, *max, *sign, *reserved)?;
            fields.set(*field, value)?;
            Some(at + length)
        }
        Item::TwoDigitYear { field, reserved } => {
            let (value, length) = number(rest.as_bytes(), 2, 2, Sign::Never, *reserved)?;
            fields.set(*field, if length == 2 { 2000 + value } else { value })?;
            Some(at + length)
        }
        Item::Fraction { min, max } => {
            let digits = rest.bytes().take(*max as usize).take_while(u8::is_ascii_digit).count();
            if digits < *min as usize {
                return None;
            }
            let value: i64 = rest[..digits].parse().ok()?;
            put(&mut fields.nanos, value * 10i64.pow(9 - digits as u32))?;
            Some(at + digits)
        }
        Item::Month(style) => {
            let (index, length) = names::find(&names::MONTHS, rest, *style == Style::Short)?;
            fields.set(Field::Month, index as i64 + 1)?;
            Some(at + length)
        }
        Item::AmPm => {
            let head = rest.get(..2)?;
            let value = ["AM", "PM"].iter().position(|name| head.eq_ignore_ascii_case(name))?;
            put(&mut fields.am_pm, value as i64)?;
            Some(at + 2)
        }
        Item::Era(style) => {
            let options = match style {
                Style::Short => ["BC", "AD"],
                Style::Full => ["Before Christ", "Anno Domini"],
            };
            let value = options.iter().position(|name| rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name)))?;
            put(&mut fields.era, value as i64)?;
            Some(at + options[value].len())
        }
        Item::ZoneId | Item::ZoneName(_) => {
            let names_too = matches!(item, Item::ZoneName(_));
            let (zone, length) = zone_id(rest, names_too)?;
            fields.set_zone(zone)?;
            Some(at + length)
        }
        Item::Offset { shape, zero } => {
            let (seconds, length) = offset(rest.as_bytes(), *shape, zero)?;
            fields.set_zone(Zone::Fixed(seconds, Spelling::Offset))?;
            Some(at + length)
        }
        Item::LocalizedOffset(_) => {
            let tail = rest.strip_prefix("GMT")?;
            let end = tail.bytes().take_while(|b| b"+-:0123456789".contains(b)).count();
            let zone = if end == 0 { Zone::UTC } else { Zone::parse(&tail[..end])? };
            fields.set_zone(zone)?;
            Some(at + 3 + end)
        }
        Item::Optional(items) => {
            let mut attempt = fields.clone();
            match read_items(items, text, at, &mut attempt) {
                Some(end) => {
                    *fields = attempt;
                    Some(end)
                }
                None => Some(at),
            }
        }
        // Refused when a pattern is compiled for parsing.
        Item::Weekday(_) | Item::Quarter(_) => None,
    }
}

/// Sets a field once; a second, different value is a contradiction.
fn put(slot: &mut Option<i64>, value: i64) -> Option<()> {
    match *slot {
        Some(old) if old != value => None,
        _ => {
            *slot = Some(value);
            Some(())
        }
    }
}

impl Fields {
    fn set(&mut self, field: Field, value: i64) -> Option<()> {
        let slot = match field {
            Field::Year => &mut self.year,
            Field::YearOfEra => &mut self.year_of_era,
            Field::Month => &mut self.month,
            Field::Day => &mut self.day,
            Field::DayOfYear => &mut self.day_of_year,
            Field::Hour24 => &mut self.hour24,
            Field::ClockHour24 => &mut self.clock24,
            Field::Hour12 => &mut self.hour12,
            Field::ClockHour12 => &mut self.clock12,
            Field::Minute => &mut self.minute,
            Field::Second => &mut self.second,
            Field::Quarter | Field::AlignedWeekday => return None,
        };
        put(slot, value)
    }

    fn set_zone(&mut self, zone: Zone) -> Option<()> {
        if self.zone.as_ref().is_some_and(|old| *old != zone) {
            return None;
        }
        self.zone = Some(zone);
        Some(())
    }
}

/// Value and length of the digits that begin the text.
fn number(text: &[u8], min: u32, max: u32, sign: Sign, reserved: u32) -> Option<(i64, usize)> {
    let (negative, positive) = match text.first()? {
        b'-' if sign != Sign::Never => (true, false),
        b'+' if sign == Sign::ExceedsPad => (false, true),
        _ => (false, false),
    };
    let start = usize::from(negative || positive);
    let available = text[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut length = available.min((max + reserved) as usize);
    if reserved > 0 {
        length = (min as usize).max(length.saturating_sub(reserved as usize));
    }
    length = length.min(max as usize);
    if length < min as usize || length > available {
        return None;
    }
    let digits = std::str::from_utf8(&text[start..start + length]).ok()?;
    let value: i64 = digits.parse().ok()?;
    match (negative, positive, sign) {
        (true, _, _) if value == 0 => return None,
        (false, true, Sign::ExceedsPad) if length <= min as usize => return None,
        (false, false, Sign::ExceedsPad) if length > min as usize => return None,
        _ => {}
    }
    Some((if negative { -value } else { value }, start + length))
}

/// Offset in seconds and length.
fn offset(text: &[u8], shape: OffsetShape, zero: &str) -> Option<(i32, usize)> {
    let zero_here = text.get(..zero.len()).is_some_and(|t| t.eq_ignore_ascii_case(zero.as_bytes()));
    let sign = match text.first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return zero_here.then_some((0, zero.len())),
    };
    let two = |at: usize| -> Option<i32> {
        let pair = text.get(at..at + 2)?;
        pair.iter().all(u8::is_ascii_digit).then(|| i32::from(pair[0] - b'0') * 10 + i32::from(pair[1] - b'0'))
    };
    let part = |at: usize| -> Option<(i32, usize)> {
        let skip = usize::from(shape.colon);
        if shape.colon && text.get(at) != Some(&b':') {
            return None;
        }
        two(at + skip).filter(|v| *v < 60).map(|v| (v, at + skip + 2))
    };
    let hours = two(1)?;
    let (minutes, mut end) = match (part(3), shape.minutes) {
        (Some(found), _) => found,
        (None, super::Minutes::IfNonZero) => (0, 3),
        (None, super::Minutes::Always) => return None,
    };
    let mut seconds = 0;
    if shape.seconds
        && let Some(found) = part(end)
    {
        (seconds, end) = found;
    }
    let total = hours * 3_600 + minutes * 60 + seconds;
    (total <= 18 * 3_600).then_some((sign * total, end))
}

/// The longest zone id, or zone name if asked for, at the start of the text.
fn zone_id(text: &str, names_too: bool) -> Option<(Zone, usize)> {
    let id_byte = |b: &u8| b.is_ascii_alphanumeric() || b"/_+-:".contains(b);
    let mut end = text.bytes().take_while(|b| id_byte(b)).count();
    while end > 0 {
        let candidate = &text[..end];
        if names_too && let Some((_, region)) = names::ZONE_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(candidate)) {
            return Zone::parse(region).map(|zone| (zone, end));
        }
        let upper = candidate.to_ascii_uppercase();
        let universal = matches!(upper.as_str(), "UTC" | "GMT" | "UT" | "Z").then_some(upper);
        if let Some(zone) = Zone::parse(universal.as_deref().unwrap_or(candidate)) {
            return Some((zone, end));
        }
        end -= 1;
    }
    None
}

/// Strict resolution, then Spark's defaults for what is missing.
fn resolve(fields: Fields) -> Option<Parsed> {
    let year = match (fields.year, fields.year_of_era, fields.era) {
        (Some(year), _, _) => Some(year),
        (None, Some(year), Some(0)) => Some(1 - year),
        (None, Some(year), Some(_)) => Some(year),
        _ => None,
    };
    let range = |value: Option<i64>, low: i64, high: i64| match value {
        Some(v) if v < low || v > high => None,
        other => Some(other),
    };
    let year = range(year, -999_999_999, 999_999_999)?;
    let month = range(fields.month, 1, 12)?;
    let day = range(fields.day, 1, 31)?;
    let day_of_year = range(fields.day_of_year, 1, 366)?;
    let civil = |year: i64, month: i64, day: i64| Civil::new(i32::try_from(year).ok()?, month as u32, day as u32);
    let date = match (year, month, day, day_of_year) {
        (Some(y), Some(m), Some(d), ordinal) => {
            let date = civil(y, m, d)?;
            if ordinal.is_some_and(|n| n != i64::from(date.day_of_year())) {
                return None;
            }
            date
        }
        (Some(y), _, _, Some(ordinal)) => {
            let date = Civil::from_days(civil(y, 1, 1)?.to_days() + ordinal as i32 - 1);
            let agrees = i64::from(date.year) == y
                && month.is_none_or(|m| m == i64::from(date.month))
                && day.is_none_or(|d| d == i64::from(date.day));
            agrees.then_some(date)?
        }
        _ => civil(year.unwrap_or(1970), month.unwrap_or(1), day.unwrap_or(1))?,
    };
    let clock12 = range(fields.clock12, 1, 12)?.map(|h| h % 12);
    let hour12 = agree(range(fields.hour12, 0, 11)?, clock12)?;
    let clock24 = range(fields.clock24, 1, 24)?.map(|h| h % 24);
    let hour24 = agree(range(fields.hour24, 0, 23)?, clock24)?;
    let half_day = hour12.zip(fields.am_pm).map(|(h, half)| h + 12 * half);
    let hour = match agree(hour24, half_day)? {
        Some(hour) => {
            let contradiction = fields.am_pm.is_some_and(|half| half != hour / 12) || hour12.is_some_and(|h| h != hour % 12);
            (!contradiction).then_some(hour)?
        }
        None => hour12.or(fields.am_pm.map(|half| half * 12)).unwrap_or(0),
    };
    let minute = range(fields.minute, 0, 59)?.unwrap_or(0);
    let second = range(fields.second, 0, 59)?.unwrap_or(0);
    let micros = fields.nanos.unwrap_or(0) / 1_000;
    let local = DateTime::new(date, hour as u32, minute as u32, second as u32, micros as u32)?;
    Some(Parsed { local, zone: fields.zone })
}

/// One value of two that must not contradict each other.
fn agree(a: Option<i64>, b: Option<i64>) -> Option<Option<i64>> {
    match (a, b) {
        (Some(x), Some(y)) if x != y => None,
        _ => Some(a.or(b)),
    }
}
