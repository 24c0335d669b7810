//! The five fields of a cron expression, checked; Quartz's form is refused with its translation.
//!
//! Only the form is judged here; when the ticks are is the supervisor's business. It gets five fields
//! always: the macros of Kubernetes' CronJob are written out here.

/// A field's name, its least and greatest value, and the words for values.
type Bounds = (&'static str, u32, u32, &'static [&'static str]);

/// Macros and the five fields that they stand for.
const MACROS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The expression with a macro written out.
pub(crate) fn five_fields(expression: &str) -> &str {
    let word = expression.trim();
    MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map_or(expression, |(_, fields)| *fields)
}

/// Checks an expression. The error says what to write.
pub(super) fn check(expression: &str) -> Result<(), String> {
    let expression = five_fields(expression);
    let fields: Vec<&str> = expression.split_whitespace().collect();
    if let Some(word) = fields.first().filter(|word| word.starts_with('@')) {
        let names = || MACROS.iter().map(|(name, _)| *name);
        let hint = match (*word, crate::finding::nearest(word, names())) {
            ("@every", _) => "for a steady interval write for example `*/5 * * * *`, or let the job run with trigger.continuous".to_owned(),
            ("@reboot", _) => "a job that starts at once and stays is trigger.continuous".to_owned(),
            (_, Some(nearest)) => format!("did you mean `{nearest}`?"),
            _ => format!("write one of {}, or five fields, for example `0 3 * * *`", names().collect::<Vec<_>>().join(", ")),
        };
        return Err(format!("`{word}` is no tick of a calendar; {hint}"));
    }
    if (fields.len() == 6 || fields.len() == 7) && fields[0].parse::<u32>().is_ok() || fields.contains(&"?") {
        return Err(quartz(&fields));
    }
    if fields.len() != 5 {
        return Err(format!(
            "has {} fields; write five: minute, hour, day of month, month, day of week, for example `0 3 * * *`",
            fields.len()
        ));
    }
    let bounds: [Bounds; 5] = [
        ("minute", 0, 59, &[]),
        ("hour", 0, 23, &[]),
        ("day of month", 1, 31, &[]),
        ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
        ("day of week", 0, 7, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
    ];
    let mut all = Vec::with_capacity(bounds.len());
    for (field, bounds) in fields.iter().zip(bounds) {
        let (name, least, most, _) = bounds;
        let refused = || format!("`{field}` is not a {name} ({least} to {most}, with *, lists, ranges and steps)");
        all.push(values(field, bounds).ok_or_else(refused)?);
    }
    let (days, months, weekdays) = (&all[2], &all[3], fields[4]);
    // With a day of week, a tick needs no day of month.
    if weekdays == "*" && !months.iter().any(|month| days.iter().any(|day| *day <= longest(*month))) {
        return Err(format!("never comes: no month of `{}` has a day of `{}`", fields[3], fields[2]));
    }
    Ok(())
}

/// The days of a month in its longest year.
fn longest(month: u32) -> u32 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// All values of a field; none when it is not valid.
fn values(field: &str, bounds: Bounds) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in field.split(',') {
        all.extend(values_of_part(part, bounds)?);
    }
    Some(all)
}

fn values_of_part(part: &str, (_, least, most, words): Bounds) -> Option<impl Iterator<Item = u32>> {
    let number = |text: &str| number(text, least, most, words);
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step >= 1)?)),
        None => (part, None),
    };
    let (from, to) = match range.split_once('-') {
        Some((from, to)) => (number(from)?, number(to)?),
        None if range == "*" => (least, most),
        // `5/2` goes on to the end, `5` stands alone.
        None => {
            let from = number(range)?;
            (from, if step.is_some() { most } else { from })
        }
    };
    let step = usize::try_from(step.unwrap_or(1)).ok()?;
    (from <= to).then(|| (from..=to).step_by(step))
}

/// A number, or a word that stands for one.
fn number(text: &str, least: u32, most: u32, words: &[&str]) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let by_word = words.iter().position(|word| *word == lower).and_then(|at| u32::try_from(at).ok()).map(|at| at + least);
    by_word.or_else(|| text.parse::<u32>().ok()).filter(|value| (least..=most).contains(value))
}

/// Quartz has seconds first and `?`, counts weekdays from 1 = Sunday, and may end with a year.
fn quartz(fields: &[&str]) -> String {
    let plain = "write five fields: minute, hour, day of month, month, day of week, for example `0 3 * * *`";
    if fields.len() < 6 {
        return format!("`?` is Quartz's; use `*`: {plain}");
    }
    let weekday = |field: &str| -> Option<String> {
        let mut out = String::new();
        for c in field.chars() {
            match c {
                '1'..='7' => out.push(char::from(c as u8 - 1)),
                '#' | 'L' | 'l' if !field.chars().any(|c| c.is_ascii_lowercase()) => return None,
                other => out.push(other),
            }
        }
        Some(out)
    };
    let five: Option<Vec<String>> = fields[1..6]
        .iter()
        .enumerate()
        .map(|(index, field)| match *field {
            "?" => Some("*".to_owned()),
            field if index == 4 && !field.chars().any(|c| c.is_ascii_alphabetic()) => weekday(field),
            field => Some(field.to_owned()),
        })
        .collect();
    let translated = five.map(|fields| fields.join(" ")).filter(|five| check(five).is_ok());
    match translated {
        Some(five) => format!("this is Quartz's form with seconds first; write `{five}`"),
        None => format!("this is Quartz's form with seconds first; {plain}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn five_fields_are_accepted() {
        for text in ["0 3 * * *", "*/5 0-6,22 1,15 jan-mar MON-FRI", "59 23 31 12 7"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in ["", "60 * * * *", "* * * *", "*/0 * * * *", "5-1 * * * *", "a b c d e"] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn macros_are_written_out_and_others_are_refused_by_name() {
        for (name, fields) in MACROS {
            assert_eq!((check(name), five_fields(name), check(fields)), (Ok(()), fields, Ok(())), "{name}");
        }
        assert_eq!(five_fields(" @Daily "), "0 0 * * *");
        assert_eq!(five_fields("0 3 * * *"), "0 3 * * *");
        for (text, hint) in [("@every 1h", "*/5"), ("@reboot", "continuous"), ("@dayly", "`@daily`"), ("@", "@hourly, @daily")] {
            assert!(check(text).unwrap_err().contains(hint), "{text}: {:?}", check(text));
        }
    }

    #[test]
    fn a_day_that_never_comes_is_refused() {
        for text in ["0 0 30 2 *", "0 0 31 4,6,sep,11 *", "0 0 30-31 feb *"] {
            assert!(check(text).unwrap_err().contains("never comes"), "{text}");
        }
        for text in ["0 0 29 2 *", "0 0 30 2 mon", "0 0 */5 2 *", "0 0 31 */2 *", "0 0 28/2 2 *"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn quartz_is_translated() {
        assert!(check("0 0 3 * * ?").unwrap_err().contains("`0 3 * * *`"));
        assert!(check("0 30 4 ? * 2-6").unwrap_err().contains("`30 4 * * 1-5`"));
        assert!(check("0 0 12 ? * MON 2027").unwrap_err().contains("`0 12 * * MON`"));
        assert!(check("0 0 12 ? * 6#3").unwrap_err().contains("five fields"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[ 0-9*/,?#La-z@-]{0,24}") {
            let _ = check(&text);
        }
    }
}
