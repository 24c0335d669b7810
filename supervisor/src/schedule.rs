//! Cron schedules: five fields in a named time zone.
//!
//! The fields are those of Vixie cron (minute, hour, day of month, month, day
//! of week), searched by `croner`. Quartz expressions, with their leading
//! seconds and `?`, are refused with their translation: read as five fields
//! they would silently mean something else (Sunday is 1 in Quartz, 0 in cron).
//! Which tick begins a run is decided elsewhere.

use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use crate::time::Timestamp;

/// A parsed schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    text: String,
    cron: Cron,
    zone: Tz,
}

/// Why a text is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Six or seven fields, or a `?`.
    #[error("cron expression {cron:?} is in Quartz form; write it with five fields{}", translated(.translation))]
    Quartz {
        /// The text.
        cron: String,
        /// The same ticks in five fields, where they can be written so.
        translation: Option<String>,
    },
    /// Not a cron expression.
    #[error("cron expression {cron:?} cannot be read: {problem}; write five fields: minute, hour, day of month, month, day of week")]
    Cron {
        /// The text.
        cron: String,
        /// What is wrong.
        problem: String,
    },
    /// Not a zone of the IANA database.
    #[error("time zone {zone:?} is not in the IANA database; write a name such as Europe/Berlin")]
    Zone {
        /// The text.
        zone: String,
    },
}

impl Schedule {
    /// Reads five cron fields and the name of a zone.
    pub fn parse(cron: &str, zone: &str) -> Result<Schedule, ScheduleError> {
        let text = cron.split_whitespace().collect::<Vec<_>>().join(" ");
        let fields: Vec<&str> = text.split(' ').collect();
        if fields.len() == 6 || fields.len() == 7 || (fields.len() == 5 && text.contains('?')) {
            return Err(ScheduleError::Quartz { cron: text.clone(), translation: from_quartz(&fields) });
        }
        let refused = |problem: String| ScheduleError::Cron { cron: text.clone(), problem };
        if fields.len() != 5 {
            return Err(refused(format!("it has {} fields", if text.is_empty() { 0 } else { fields.len() })));
        }
        let parsed = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build()
            .parse(&text)
            .map_err(|error| refused(error.to_string()))?;
        let zone: Tz = zone.parse().map_err(|_| ScheduleError::Zone { zone: zone.to_owned() })?;
        Ok(Schedule { text, cron: parsed, zone })
    }

    /// The first tick after `instant`; none when the fields never match.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let local = instant.with_timezone(&self.zone);
        self.cron.find_next_occurrence(&local, false).ok().map(|tick| tick.to_utc())
    }

    /// The last tick at or before `instant`.
    pub fn last_until(&self, instant: Timestamp) -> Option<Timestamp> {
        let local = instant.with_timezone(&self.zone);
        self.cron.find_previous_occurrence(&local, true).ok().map(|tick| tick.to_utc())
    }

    /// The fields and the zone in one text; equal texts mean equal ticks.
    pub fn identity(&self) -> String {
        format!("{} {}", self.text, self.zone)
    }
}

fn translated(translation: &Option<String>) -> String {
    translation.as_ref().map_or_else(String::new, |cron| format!(": {cron:?}"))
}

/// Five fields with the same ticks; none when seconds, years or weekday steps have no counterpart.
fn from_quartz(fields: &[&str]) -> Option<String> {
    let (seconds, rest) = match fields {
        [_, _, _, _, _] => ("0", fields),
        [seconds, rest @ ..] => (*seconds, rest),
        [] => return None,
    };
    let plain_year = rest.get(5).is_none_or(|year| *year == "*");
    let [minute, hour, day, month, weekday] = rest.get(..5)? else { return None };
    if seconds != "0" || !plain_year {
        return None;
    }
    // Five fields with a `?` count weekdays as cron does; only real Quartz counts from Sunday = 1.
    let shifted = if fields.len() == 5 { (*weekday).to_owned() } else { quartz_weekdays(weekday)? };
    let slash = |field: &str| field.strip_prefix("0/").map_or_else(|| field.to_owned(), |step| format!("*/{step}"));
    let any = |field: &str| if field == "?" { "*".to_owned() } else { field.to_owned() };
    let candidate = format!("{} {} {} {} {}", slash(minute), slash(hour), any(day), any(month), any(&shifted));
    Schedule::parse(&candidate, "UTC").ok().map(|schedule| schedule.text)
}

/// Quartz counts weekdays from Sunday = 1, cron from Sunday = 0.
fn quartz_weekdays(field: &str) -> Option<String> {
    if field.contains('/') || field.contains('#') || field.contains('L') {
        return None;
    }
    let mut out = String::new();
    let mut digits = String::new();
    for letter in field.chars().chain(['\0']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        if !digits.is_empty() {
            let quartz: u32 = digits.parse().ok()?;
            out.push_str(&quartz.checked_sub(1)?.to_string());
            digits.clear();
        }
        if letter != '\0' {
            out.push(letter);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn ticks_are_in_the_named_zone() {
        let nightly = Schedule::parse("0 3 * * *", "Europe/Berlin").unwrap();
        assert_eq!(nightly.next_after(at("2026-01-10T00:00:00Z")), Some(at("2026-01-10T02:00:00Z")));
        assert_eq!(nightly.next_after(at("2026-07-10T00:00:00Z")), Some(at("2026-07-10T01:00:00Z")));
        assert_eq!(nightly.last_until(at("2026-07-10T01:00:00Z")), Some(at("2026-07-10T01:00:00Z")));
    }

    #[test]
    fn quartz_is_refused_with_its_translation() {
        let cases = [
            ("0 0 3 * * ?", Some("0 3 * * *")),
            ("0 0/15 * ? * 2-6", Some("*/15 * * * 1-5")),
            ("0 30 9 ? * MON-FRI *", Some("30 9 * * MON-FRI")),
            ("0 3 ? * 1", Some("0 3 * * 1")),
            ("30 0 3 * * ?", None),
            ("0 0 3 * * ? 2027", None),
        ];
        for (quartz, expected) in cases {
            let error = Schedule::parse(quartz, "UTC").unwrap_err();
            let ScheduleError::Quartz { translation, .. } = &error else { panic!("{quartz}: {error}") };
            assert_eq!(translation.as_deref(), expected, "{quartz}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_fields_named() {
        for text in ["", "* * *", "61 * * * *", "a b c d e"] {
            let error = Schedule::parse(text, "UTC").unwrap_err();
            assert!(error.to_string().contains("minute, hour"), "{text}: {error}");
        }
        assert!(matches!(Schedule::parse("0 3 * * *", "Mars/Base"), Err(ScheduleError::Zone { .. })));
    }
}
