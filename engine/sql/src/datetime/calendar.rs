//! Arithmetic on dates and timestamps that functions and operators share.
//!
//! Pure functions over days and microseconds; none means that the result does
//! not fit. Months and days are added to local time, smaller units to the
//! instant, as Spark's DateTimeUtils does.

use weir_decode::time::civil::{MICROS_PER_DAY, days_in_month};
use weir_decode::time::{Civil, DateTime, Zone};

/// `add_months(date, n)`: the same day, or the month's last one.
pub fn date_add_months(days: i32, months: i32) -> Option<i32> {
    Civil::from_days(days).add_months(months).map(Civil::to_days)
}

/// Local microseconds plus months and days.
pub fn local_add(local: i64, months: i32, days: i64) -> Option<i64> {
    let at = DateTime::from_local_micros(local);
    let shifted = date_add_months(at.days, months)?;
    let days = i32::try_from(i64::from(shifted).checked_add(days)?).ok()?;
    DateTime { days, ..at }.to_local_micros()
}

/// An instant plus months, days and microseconds; the first two in local time.
pub fn timestamp_add(micros: i64, months: i32, days: i64, rest: i64, zone: &Zone) -> Option<i64> {
    let moved = if months == 0 && days == 0 { micros } else { zone.to_instant(local_add(zone.to_local(micros), months, days)?)? };
    moved.checked_add(rest)
}

/// The instant of a date's midnight in a zone.
pub fn date_to_timestamp(days: i32, zone: &Zone) -> Option<i64> {
    zone.to_instant(i64::from(days).checked_mul(MICROS_PER_DAY)?)
}

/// The date of an instant in a zone.
pub fn timestamp_to_date(micros: i64, zone: &Zone) -> i32 {
    DateTime::from_local_micros(zone.to_local(micros)).days
}

/// Whole months from one local time to another, towards zero.
pub fn months_until(start: i64, end: i64) -> i64 {
    let (a, b) = (DateTime::from_local_micros(start), DateTime::from_local_micros(end));
    let mut last = b.days;
    if b.days > a.days && b.micros_of_day < a.micros_of_day {
        last -= 1;
    } else if b.days < a.days && b.micros_of_day > a.micros_of_day {
        last += 1;
    }
    let packed = |days: i32| {
        let date = Civil::from_days(days);
        (i64::from(date.year) * 12 + i64::from(date.month) - 1) * 32 + i64::from(date.day)
    };
    (packed(last) - packed(a.days)) / 32
}

/// Spark's `months_between` of two local times: a fraction of 31 days, unless
/// the days are the same or both the month's last.
pub fn months_between(end: i64, start: i64) -> f64 {
    let (a, b) = (DateTime::from_local_micros(end), DateTime::from_local_micros(start));
    let (x, y) = (Civil::from_days(a.days), Civil::from_days(b.days));
    let months = (i64::from(x.year) - i64::from(y.year)) * 12 + i64::from(x.month) - i64::from(y.month);
    let last = |date: Civil| date.day == days_in_month(date.year, date.month);
    if x.day == y.day || (last(x) && last(y)) {
        return months as f64;
    }
    let seconds = (i64::from(x.day) - i64::from(y.day)) * 86_400 + a.micros_of_day / 1_000_000 - b.micros_of_day / 1_000_000;
    months as f64 + seconds as f64 / (31 * 86_400) as f64
}

/// The month's last day.
pub fn last_day(days: i32) -> i32 {
    let date = Civil::from_days(days);
    days.wrapping_add((days_in_month(date.year, date.month) - date.day) as i32)
}
