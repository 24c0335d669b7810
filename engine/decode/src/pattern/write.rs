//! Fields to text.
//!
//! Decides nothing but widths and signs; an absent zone is reported by name.

use super::{Field, Item, Minutes, Sign, Style, names};
use crate::time::civil::{Civil, DateTime, iso_weekday};
use crate::time::zone::{Zone, split_offset};
use std::fmt::Write as _;

type ZoneAt<'a> = Option<(i64, &'a Zone)>;

/// What the pattern wanted and the value has not.
type Missing = &'static str;

pub(super) fn write(items: &[Item], local: DateTime, zone: ZoneAt<'_>, out: &mut String) -> Result<(), Missing> {
    items.iter().try_for_each(|item| write_item(item, local, zone, out))
}

fn write_item(item: &Item, local: DateTime, zone: ZoneAt<'_>, out: &mut String) -> Result<(), Missing> {
    let date = || Civil::from_days(local.days);
    match item {
        Item::Literal(text) => out.push_str(text),
        Item::Number { field, min, max, sign, .. } => {
            number(value(*field, local), *min, *max, *sign, out)?;
        }
        Item::TwoDigitYear { field, .. } => {
            push(out, value(*field, local).rem_euclid(100), 2);
        }
        Item::Fraction { max, .. } => {
            let nanos = format!("{:09}", u64::from(local.micros()) * 1_000);
            out.push_str(&nanos[..*max as usize]);
        }
        Item::Month(style) => {
            out.push_str(styled(names::MONTHS[date().month as usize - 1], *style));
        }
        Item::Weekday(style) => {
            out.push_str(styled(names::WEEKDAYS[iso_weekday(local.days) as usize - 1], *style));
        }
        Item::Quarter(style) => {
            let quarter = (date().month as usize - 1) / 3;
            match style {
                Style::Short => push_display(out, format_args!("Q{}", quarter + 1)),
                Style::Full => out.push_str(names::QUARTERS[quarter]),
            }
        }
        Item::AmPm => out.push_str(if local.hour() < 12 { "AM" } else { "PM" }),
        Item::Era(style) => out.push_str(match (date().year > 0, style) {
            (true, Style::Short) => "AD",
            (true, Style::Full) => "Anno Domini",
            (false, Style::Short) => "BC",
            (false, Style::Full) => "Before Christ",
        }),
        Item::ZoneId => push_display(out, format_args!("{}", zone.ok_or("a time zone")?.1)),
        Item::ZoneName(style) => {
            let (instant, zone) = zone.ok_or("a time zone")?;
            match (style, zone) {
                (Style::Full, Zone::Fixed(0, _)) => out.push_str("Coordinated Universal Time"),
                _ => out.push_str(&zone.short_name(instant)),
            }
        }
        Item::Offset { shape, zero } => {
            let (instant, zone) = zone.ok_or("a zone offset")?;
            let offset = zone.offset_at(instant);
            let (h, m, s) = split_offset(offset);
            if offset == 0 {
                out.push_str(zero);
                return Ok(());
            }
            let colon = if shape.colon { ":" } else { "" };
            push_display(out, format_args!("{}{h:02}", if offset < 0 { '-' } else { '+' }));
            if shape.minutes == Minutes::Always || m != 0 {
                push_display(out, format_args!("{colon}{m:02}"));
            }
            if shape.seconds && s != 0 {
                push_display(out, format_args!("{colon}{s:02}"));
            }
        }
        Item::LocalizedOffset(style) => {
            let (instant, zone) = zone.ok_or("a zone offset")?;
            let offset = zone.offset_at(instant);
            let (h, m, s) = split_offset(offset);
            out.push_str("GMT");
            if offset == 0 {
                return Ok(());
            }
            out.push(if offset < 0 { '-' } else { '+' });
            match style {
                Style::Full => push_display(out, format_args!("{h:02}:{m:02}")),
                Style::Short if m == 0 && s == 0 => push_display(out, format_args!("{h}")),
                Style::Short => push_display(out, format_args!("{h}:{m:02}")),
            }
            if s != 0 {
                push_display(out, format_args!(":{s:02}"));
            }
        }
        Item::Optional(items) => {
            // A section whose fields are absent is left out as a whole.
            let mark = out.len();
            if write(items, local, zone, out).is_err() {
                out.truncate(mark);
            }
        }
    }
    Ok(())
}

fn push_display(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(arguments);
}

fn push(out: &mut String, value: i64, width: usize) {
    push_display(out, format_args!("{value:0width$}"));
}

fn styled(name: &'static str, style: Style) -> &'static str {
    match style {
        Style::Short => &name[..3],
        Style::Full => name,
    }
}

fn value(field: Field, local: DateTime) -> i64 {
    let date = Civil::from_days(local.days);
    let hour = i64::from(local.hour());
    match field {
        Field::Year => i64::from(date.year),
        Field::YearOfEra if date.year <= 0 => 1 - i64::from(date.year),
        Field::YearOfEra => i64::from(date.year),
        Field::Month => i64::from(date.month),
        Field::Day => i64::from(date.day),
        Field::DayOfYear => i64::from(date.day_of_year()),
        Field::Hour24 => hour,
        Field::ClockHour24 => (hour + 23) % 24 + 1,
        Field::Hour12 => hour % 12,
        Field::ClockHour12 => (hour + 11) % 12 + 1,
        Field::Minute => i64::from(local.minute()),
        Field::Second => i64::from(local.second()),
        Field::Quarter => i64::from(date.month - 1) / 3 + 1,
        Field::AlignedWeekday => i64::from(date.day - 1) % 7 + 1,
    }
}

fn number(value: i64, min: u32, max: u32, sign: Sign, out: &mut String) -> Result<(), Missing> {
    let digits = value.unsigned_abs().to_string();
    if digits.len() > max as usize || (value < 0 && sign == Sign::Never) {
        return Err("fewer digits");
    }
    if value < 0 {
        out.push('-');
    } else if sign == Sign::ExceedsPad && digits.len() > min as usize {
        out.push('+');
    }
    for _ in digits.len()..min as usize {
        out.push('0');
    }
    out.push_str(&digits);
    Ok(())
}
