//! Spark's time strings: a whole number with an optional unit, as `JavaUtils.timeStringAs` reads them.
//!
//! Used by options (`maxFileAge`, `maxTriggerDelay`, `rampUpTime`, `retention`) and by conf.
//! Without a unit the number counts in the unit that the option defines.

use std::time::Duration;

/// The unit of a number that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// Reads a time string. The message of the error says what is allowed.
pub fn parse_time_string(text: &str, bare_unit: TimeUnit) -> Result<Duration, String> {
    let refusal = || "write a whole number with us, ms, s, m (or min), h or d, for example 50s, 100ms or 7d".to_owned();
    let text = text.trim().to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| refusal())?;
    let micros_each: u64 = match unit {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        "" => match bare_unit {
            TimeUnit::Milliseconds => 1000,
            TimeUnit::Seconds => 1_000_000,
        },
        _ => return Err(refusal()),
    };
    number
        .checked_mul(micros_each)
        .filter(|micros| i64::try_from(*micros).is_ok())
        .map(Duration::from_micros)
        .ok_or_else(|| "the time is too long to be counted in microseconds".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_sparks_units() {
        let ms = |text| parse_time_string(text, TimeUnit::Milliseconds).unwrap().as_millis();
        assert_eq!(ms("7d"), 604_800_000);
        assert_eq!(ms("15m"), 900_000);
        assert_eq!(ms("15MIN"), 900_000);
        assert_eq!(ms("250"), 250);
        assert_eq!(parse_time_string("5", TimeUnit::Seconds).unwrap().as_secs(), 5);
        for text in ["", "abc", "1 s", "-1s", "1.5s", "99999999999999999999s", "9999999999999d"] {
            assert!(parse_time_string(text, TimeUnit::Milliseconds).is_err(), "{text}");
        }
    }
}
