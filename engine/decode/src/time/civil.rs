//! Days and microseconds to calendar fields and back.
//!
//! Proleptic Gregorian calendar with astronomical years (0 is 1 BC), valid
//! for every year that a 32-bit day number can hold. The day arithmetic is
//! the usual shift of the year's start to March.

/// Microseconds in a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds in a day of 24 hours.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A calendar date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    /// Astronomical year.
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

/// Whether the year has a 29th of February.
pub fn is_leap_year(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Length of a month; the month is 1 to 12.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Civil {
    /// The date, if year, month and day name one.
    pub fn new(year: i32, month: u32, day: u32) -> Option<Self> {
        let valid = (1..=12).contains(&month)
            && day >= 1
            && (day <= 28 || day <= days_in_month(year, month))
            && (-5_877_641..=5_881_580).contains(&year);
        valid.then_some(Self { year, month, day })
    }

    /// Days since 1970-01-01.
    pub fn to_days(self) -> i32 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * shifted + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        days.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
    }

    /// The date of a day number.
    pub fn from_days(days: i32) -> Self {
        let shifted = i64::from(days) + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month + 2) / 5 + 1) as u32;
        let month = if month < 10 { month + 3 } else { month - 9 } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year: year as i32, month, day }
    }

    /// 1 for the first of January.
    pub fn day_of_year(self) -> u32 {
        let first = Civil { year: self.year, month: 1, day: 1 };
        (self.to_days() - first.to_days() + 1) as u32
    }

    /// The same day `months` later, or the last day of that month.
    pub fn add_months(self, months: i32) -> Option<Self> {
        let total = i64::from(self.year) * 12 + i64::from(self.month) - 1 + i64::from(months);
        let year = i32::try_from(total.div_euclid(12)).ok()?;
        let month = (total.rem_euclid(12) + 1) as u32;
        Self::new(year, month, self.day.min(days_in_month(year, month)))
    }

    /// ISO week-based year and week of year.
    pub fn iso_week(self) -> (i32, u32) {
        let days = self.to_days();
        let thursday = Civil::from_days(days.wrapping_add(4 - iso_weekday(days) as i32));
        (thursday.year, (thursday.day_of_year() - 1) / 7 + 1)
    }
}

/// 1 for Monday to 7 for Sunday.
pub fn iso_weekday(days: i32) -> u32 {
    ((i64::from(days) + 3).rem_euclid(7) + 1) as u32
}

/// A date with a time of day, without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTime {
    /// Days since 1970-01-01.
    pub days: i32,
    /// Microseconds since midnight.
    pub micros_of_day: i64,
}

impl DateTime {
    /// The fields of local microseconds since 1970-01-01T00:00:00.
    pub fn from_local_micros(micros: i64) -> Self {
        Self { days: micros.div_euclid(MICROS_PER_DAY) as i32, micros_of_day: micros.rem_euclid(MICROS_PER_DAY) }
    }

    /// Local microseconds, or nothing if they do not fit.
    pub fn to_local_micros(self) -> Option<i64> {
        i64::from(self.days).checked_mul(MICROS_PER_DAY)?.checked_add(self.micros_of_day)
    }

    /// A time of day on a date; nothing if a field is out of its range.
    pub fn new(date: Civil, hour: u32, minute: u32, second: u32, micros: u32) -> Option<Self> {
        if hour > 23 || minute > 59 || second > 59 || micros > 999_999 {
            return None;
        }
        let seconds = i64::from(hour * 3_600 + minute * 60 + second);
        Some(Self { days: date.to_days(), micros_of_day: seconds * MICROS_PER_SECOND + i64::from(micros) })
    }

    /// 0 to 23.
    pub fn hour(self) -> u32 {
        (self.micros_of_day / (3_600 * MICROS_PER_SECOND)) as u32
    }

    /// 0 to 59.
    pub fn minute(self) -> u32 {
        (self.micros_of_day / (60 * MICROS_PER_SECOND) % 60) as u32
    }

    /// 0 to 59.
    pub fn second(self) -> u32 {
        (self.micros_of_day / MICROS_PER_SECOND % 60) as u32
    }

    /// 0 to 999 999.
    pub fn micros(self) -> u32 {
        (self.micros_of_day % MICROS_PER_SECOND) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn days_and_dates_are_inverse(days in any::<i32>()) {
            let date = Civil::from_days(days);
            prop_assert_eq!(date.to_days(), days);
            prop_assert_eq!(Civil::new(date.year, date.month, date.day), Some(date));
        }
    }

    #[test]
    fn weeks_follow_iso() {
        let date = |y, m, d| Civil::new(y, m, d).unwrap_or(Civil { year: 0, month: 1, day: 1 });
        assert_eq!(date(2024, 12, 30).iso_week(), (2025, 1));
        assert_eq!(date(2021, 1, 3).iso_week(), (2020, 53));
        assert_eq!(iso_weekday(date(2024, 6, 2).to_days()), 7);
        assert_eq!(date(2024, 1, 31).add_months(1), Some(date(2024, 2, 29)));
        assert_eq!(date(2024, 12, 31).day_of_year(), 366);
    }
}
