//! The date and time functions that no golden expression covers.
#![allow(clippy::unwrap_used)]

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;

use super::plan;
use crate::cast::cast_array;
use crate::conf::SqlConf;
use crate::error::find_spark_error;
use crate::planned::{Arg, Session};
use crate::udf::Rows;

/// The result as text, NULL, or the error's condition.
fn call(zone: &str, ansi: bool, name: &str, args: &[ScalarValue]) -> String {
    let conf = SqlConf { ansi, time_zone: zone.to_owned(), ..SqlConf::default() };
    let described: Vec<Arg> = args.iter().map(|value| Arg { data_type: value.data_type(), value: Some(value.clone()) }).collect();
    let planned = match plan(name, &described, &conf).unwrap() {
        Ok(planned) => planned,
        Err(error) => return error.condition().to_owned(),
    };
    let session = Session::new(&conf).unwrap();
    let arrays: Vec<ArrayRef> = (args.iter().zip(&planned.args))
        .map(|(value, wanted)| cast_array(&value.to_array_of_size(1).unwrap(), wanted, session.cast, None).unwrap())
        .collect();
    match (planned.kernel)(Rows { args: &arrays, len: 1 }) {
        Ok(array) if array.is_null(0) => "NULL".to_owned(),
        Ok(array) => {
            assert_eq!(array.data_type(), &planned.result, "{name}");
            let text = cast_array(&array, &DataType::Utf8, session.cast, None).unwrap();
            array_value_to_string(&text, 0).unwrap()
        }
        Err(error) => find_spark_error(&error).unwrap().condition.clone(),
    }
}

fn texts(args: &[&str]) -> Vec<ScalarValue> {
    args.iter().map(|text| (*text).into()).collect()
}

#[test]
fn functions_follow_the_session_zone() {
    let berlin = |name: &str, args: &[&str]| call("Europe/Berlin", true, name, &texts(args));
    assert_eq!(berlin("to_timestamp", &["2024-06-01 10:00:00Z"]), "2024-06-01 12:00:00");
    assert_eq!(berlin("to_date", &["01.06.2024 23:30", "dd.MM.yyyy HH:mm"]), "2024-06-01");
    assert_eq!(berlin("hour", &["2024-06-01 10:00:00"]), "10");
    assert_eq!(berlin("date_trunc", &["DAY", "2024-06-01 10:00:00"]), "2024-06-01 00:00:00");
    assert_eq!(berlin("date_format", &["2024-06-01 10:00:00", "HH:mm z"]), "10:00 CEST");
    assert_eq!(berlin("unix_timestamp", &["2024-06-01 02:00:00"]), "1717200000");
    assert_eq!(berlin("timestampdiff", &["DAY", "2024-03-30 12:00:00", "2024-03-31 12:00:00"]), "1");
    let add = [ScalarValue::from("DAY"), ScalarValue::Int64(Some(1)), ScalarValue::from("2024-03-30 12:00:00")];
    assert_eq!(call("Europe/Berlin", true, "timestampadd", &add), "2024-03-31 12:00:00");
}

#[test]
fn what_does_not_fit_is_an_error_or_null() {
    let both = |name: &str, args: &[ScalarValue]| [true, false].map(|ansi| call("UTC", ansi, name, args));
    assert_eq!(both("to_timestamp", &texts(&["x", "yyyy"])), ["CANNOT_PARSE_TIMESTAMP", "NULL"]);
    assert_eq!(both("try_to_timestamp", &texts(&["x", "yyyy"])), ["NULL", "NULL"]);
    assert_eq!(both("try_to_date", &texts(&["x"])), ["NULL", "NULL"]);
    assert_eq!(both("next_day", &texts(&["2024-06-01", "nope"])), ["ILLEGAL_DAY_OF_WEEK", "NULL"]);
    assert_eq!(both("next_day", &texts(&["2024-06-03", "MO"])), ["2024-06-10", "2024-06-10"]);
    let date = [2023, 2, 29].map(|v| ScalarValue::Int32(Some(v)));
    assert_eq!(both("make_date", &date), ["DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION", "NULL"]);
    assert_eq!(both("from_utc_timestamp", &texts(&["2024-06-01", "Nowhere"])), ["INVALID_TIMEZONE"; 2]);
    assert_eq!(both("date_part", &texts(&["epoch", "2024-06-01"])), ["INVALID_EXTRACT_FIELD"; 2]);
    assert_eq!(both("dayname", &texts(&["2024-06-01"])), ["Sat"; 2]);
    assert_eq!(both("weekofyear", &texts(&["2024-12-30"])), ["1"; 2]);
}

#[test]
fn months_are_counted_as_in_java() {
    let diff = |unit: &str, start: &str, end: &str| call("UTC", true, "timestampdiff", &texts(&[unit, start, end]));
    assert_eq!(diff("MONTH", "2024-01-31", "2024-02-29"), "0");
    assert_eq!(diff("MONTH", "2024-01-29 10:00:00", "2024-02-29 09:00:00"), "0");
    assert_eq!(diff("MONTH", "2024-02-29 10:00:00", "2024-01-29 10:00:00"), "-1");
    assert_eq!(diff("YEAR", "2020-02-29", "2024-02-29"), "4");
    assert_eq!(diff("HOUR", "2024-01-01 00:30:00", "2024-01-01 03:00:00"), "2");
}

#[test]
fn extreme_values_do_not_panic() {
    let moments = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX].map(|v| ScalarValue::TimestampMicrosecond(Some(v), Some("UTC".into())));
    let dates = [i32::MIN, i32::MIN + 1, -1, 0, i32::MAX].map(|v| ScalarValue::Date32(Some(v)));
    let numbers = [i32::MIN, -1, 0, 1, i32::MAX].map(|v| ScalarValue::Int32(Some(v)));
    let conf = SqlConf { time_zone: "Europe/Berlin".to_owned(), ..SqlConf::default() };
    let run = |name: &str, args: Vec<ScalarValue>| {
        let described: Vec<Arg> = args.iter().map(|value| Arg { data_type: value.data_type(), value: Some(value.clone()) }).collect();
        let Some(Ok(planned)) = plan(name, &described, &conf) else { return };
        if args.iter().zip(&planned.args).all(|(value, wanted)| value.data_type() == *wanted) {
            let arrays: Vec<ArrayRef> = args.iter().map(|value| value.to_array_of_size(1).unwrap()).collect();
            let _ = (planned.kernel)(Rows { args: &arrays, len: 1 });
        }
    };
    let texts = texts(&["DAY", "WEEK", "YEAR", "HOUR", "Mon", "Asia/Tokyo", "yyyy-MM-dd HH:mm:ss.SSS XXX"]);
    for name in super::NAMES {
        for a in moments.iter().chain(&dates).chain(&numbers).chain(&texts) {
            run(name, vec![a.clone()]);
            for b in moments.iter().chain(&dates).chain(&numbers).chain(&texts) {
                run(name, vec![a.clone(), b.clone()]);
                if matches!(a, ScalarValue::Utf8(_)) {
                    let size = ScalarValue::Int64(Some(i64::MAX));
                    moments.iter().for_each(|c| run(name, vec![a.clone(), b.clone(), c.clone()]));
                    moments.iter().for_each(|c| run(name, vec![a.clone(), size.clone(), c.clone()]));
                }
            }
        }
    }
}
