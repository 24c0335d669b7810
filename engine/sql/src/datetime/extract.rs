//! Fields of dates, timestamps and intervals: `year`, `hour`, `extract`, …
//!
//! A field of a date is read from the local date, one of the clock from the
//! local time; a timestamp without zone is local already.

use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Int8Type, Int32Type, Int64Type, IntervalUnit, IntervalYearMonthType,
    TimestampMicrosecondType,
};
use weir_core::Error;
use weir_decode::time::civil::iso_weekday;
use weir_decode::time::{Civil, DateTime};

use crate::planned::{Arg, Planned, Session, at, each, each_text, primitive, wrong_count};
use crate::types::{timestamp, timestamp_ntz};
use crate::udf::Rows;

/// A field that a function or EXTRACT names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    YearOfWeek,
    Quarter,
    Month,
    Week,
    Day,
    DayOfWeek,
    DayOfWeekIso,
    Weekday,
    DayOfYear,
    Hour,
    Minute,
    Second,
    SecondWithFraction,
}

impl Part {
    /// The field of EXTRACT, by its many names.
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "YEAR" | "Y" | "YEARS" | "YR" | "YRS" => Self::Year,
            "YEAROFWEEK" => Self::YearOfWeek,
            "QUARTER" | "QTR" => Self::Quarter,
            "MONTH" | "MON" | "MONS" | "MONTHS" => Self::Month,
            "WEEK" | "W" | "WEEKS" => Self::Week,
            "DAY" | "D" | "DAYS" => Self::Day,
            "DAYOFWEEK" | "DOW" => Self::DayOfWeek,
            "DAYOFWEEK_ISO" | "DOW_ISO" => Self::DayOfWeekIso,
            "DOY" => Self::DayOfYear,
            "HOUR" | "H" | "HOURS" | "HR" | "HRS" => Self::Hour,
            "MINUTE" | "M" | "MIN" | "MINS" | "MINUTES" => Self::Minute,
            "SECOND" | "S" | "SEC" | "SECONDS" | "SECS" => Self::SecondWithFraction,
            _ => return None,
        })
    }

    fn of_clock(self) -> bool {
        matches!(self, Self::Hour | Self::Minute | Self::Second | Self::SecondWithFraction)
    }

    fn of_date(self, days: i32) -> i32 {
        let date = Civil::from_days(days);
        match self {
            Self::Year => date.year,
            Self::YearOfWeek => date.iso_week().0,
            Self::Quarter => (date.month as i32 - 1) / 3 + 1,
            Self::Month => date.month as i32,
            Self::Week => date.iso_week().1 as i32,
            Self::Day => date.day as i32,
            Self::DayOfWeek => iso_weekday(days) as i32 % 7 + 1,
            Self::DayOfWeekIso => iso_weekday(days) as i32,
            Self::Weekday => iso_weekday(days) as i32 - 1,
            Self::DayOfYear => date.day_of_year() as i32,
            Self::Hour | Self::Minute | Self::Second | Self::SecondWithFraction => 0,
        }
    }

    fn of_time(self, local: DateTime) -> i32 {
        match self {
            Self::Hour => local.hour() as i32,
            Self::Minute => local.minute() as i32,
            _ => local.second() as i32,
        }
    }
}

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    let part = match name {
        "year" => Part::Year,
        "quarter" => Part::Quarter,
        "month" => Part::Month,
        "weekofyear" => Part::Week,
        "day" | "dayofmonth" => Part::Day,
        "dayofweek" => Part::DayOfWeek,
        "weekday" => Part::Weekday,
        "dayofyear" => Part::DayOfYear,
        "hour" => Part::Hour,
        "minute" => Part::Minute,
        "second" => Part::Second,
        "monthname" | "dayname" => {
            return Some(if args.len() == 1 { Ok(named(name == "monthname")) } else { Err(wrong_count(name, "1", args.len())) });
        }
        "extract" | "date_part" | "datepart" => return Some(extract(name, args, session)),
        _ => return None,
    };
    Some(match args {
        [source] => Ok(field(part, source, session)),
        _ => Err(wrong_count(name, "1", args.len())),
    })
}

fn extract(name: &str, args: &[Arg], session: &Session) -> Result<Planned, Error> {
    let [field_name, source] = args else { return Err(wrong_count(name, "2", args.len())) };
    let invalid = |text: &str| {
        Error::config(
            "INVALID_EXTRACT_FIELD",
            format!(
                "cannot extract `{text}` from a value of type {}; write YEAR, MONTH, DAY, HOUR, MINUTE, SECOND or another field that it has",
                source.data_type
            ),
        )
    };
    if field_name.is_null() {
        return Ok(Planned::new([DataType::Utf8, source.data_type.clone()], DataType::Float64, |rows: Rows<'_>| {
            Ok(arrow::array::new_null_array(&DataType::Float64, rows.len))
        }));
    }
    let Some(text) = field_name.text() else {
        return Err(Error::config(
            "NON_FOLDABLE_ARGUMENT",
            format!("the function `{name}` requires the parameter `field` to be a constant string"),
        ));
    };
    let part = Part::named(text).ok_or_else(|| invalid(text))?;
    let mut planned = match &source.data_type {
        DataType::Duration(_) => of_duration(part).ok_or_else(|| invalid(text))?,
        DataType::Interval(IntervalUnit::YearMonth) => of_months(part).ok_or_else(|| invalid(text))?,
        _ => field(part, source, session),
    };
    // The constant in front shifts the source to the second place.
    let inner = planned.kernel;
    planned.kernel = std::sync::Arc::new(move |rows: Rows<'_>| inner(Rows { args: &rows.args[1..], len: rows.len }));
    planned.args.insert(0, DataType::Utf8);
    planned.key = format!("{} {part:?}", planned.key);
    Ok(planned)
}

fn field(part: Part, source: &Arg, session: &Session) -> Planned {
    let key = format!("{part:?} {}", session.zone);
    if !part.of_clock() {
        return Planned::new([DataType::Date32], DataType::Int32, move |rows: Rows<'_>| {
            let dates = primitive::<Date32Type>(&rows, 0)?;
            each::<Int32Type>(rows.len, &DataType::Int32, |row| Ok(at(dates, row).map(|days| part.of_date(days))))
        })
        .keyed(key);
    }
    let local = matches!(source.data_type, DataType::Timestamp(_, None));
    let zone = session.zone;
    let result = if part == Part::SecondWithFraction { DataType::Decimal128(8, 6) } else { DataType::Int32 };
    let wanted = if local { timestamp_ntz() } else { timestamp() };
    let kernel = move |rows: Rows<'_>| {
        let instants = primitive::<TimestampMicrosecondType>(&rows, 0)?;
        let at = |row| at(instants, row).map(|micros| DateTime::from_local_micros(if local { micros } else { zone.to_local(micros) }));
        if part == Part::SecondWithFraction {
            return each::<Decimal128Type>(rows.len, &DataType::Decimal128(8, 6), |row| {
                Ok(at(row).map(|time| i128::from(time.micros_of_day % 60_000_000)))
            });
        }
        each::<Int32Type>(rows.len, &DataType::Int32, |row| Ok(at(row).map(|time| part.of_time(time))))
    };
    Planned::new([wanted], result, kernel).keyed(key)
}

fn of_duration(part: Part) -> Option<Planned> {
    let (unit, modulus, result) = match part {
        Part::Day => (86_400_000_000, i64::MAX, DataType::Int32),
        Part::Hour => (3_600_000_000, 24, DataType::Int8),
        Part::Minute => (60_000_000, 60, DataType::Int8),
        Part::SecondWithFraction => (1, 60_000_000, DataType::Decimal128(8, 6)),
        _ => return None,
    };
    let kind = result.clone();
    let kernel = move |rows: Rows<'_>| {
        let values = primitive::<DurationMicrosecondType>(&rows, 0)?;
        let value = |row| at(values, row).map(|micros| micros / unit % modulus);
        match kind {
            DataType::Int32 => each::<Int32Type>(rows.len, &kind, |row| Ok(value(row).map(|v| v as i32))),
            DataType::Int8 => each::<Int8Type>(rows.len, &kind, |row| Ok(value(row).map(|v| v as i8))),
            DataType::Decimal128(..) => each::<Decimal128Type>(rows.len, &kind, |row| Ok(value(row).map(i128::from))),
            _ => each::<Int64Type>(rows.len, &kind, |row| Ok(value(row))),
        }
    };
    Some(Planned::new([crate::types::day_time_interval()], result, kernel))
}

fn of_months(part: Part) -> Option<Planned> {
    let years = match part {
        Part::Year => true,
        Part::Month => false,
        _ => return None,
    };
    let result = if years { DataType::Int32 } else { DataType::Int8 };
    let kernel = move |rows: Rows<'_>| {
        let values = primitive::<IntervalYearMonthType>(&rows, 0)?;
        if years {
            return each::<Int32Type>(rows.len, &DataType::Int32, |row| Ok(at(values, row).map(|months| months / 12)));
        }
        each::<Int8Type>(rows.len, &DataType::Int8, |row| Ok(at(values, row).map(|months| (months % 12) as i8)))
    };
    Some(Planned::new([crate::types::year_month_interval()], result, kernel))
}

/// Three letters of the month or the weekday.
fn named(month: bool) -> Planned {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    Planned::new([DataType::Date32], DataType::Utf8, move |rows: Rows<'_>| {
        let dates = primitive::<Date32Type>(&rows, 0)?;
        each_text(rows.len, |row| {
            Ok(at(dates, row).map(|days| {
                let name = if month { MONTHS[Civil::from_days(days).month as usize - 1] } else { DAYS[iso_weekday(days) as usize - 1] };
                name.to_owned()
            }))
        })
    })
}
