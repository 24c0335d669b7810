//! Records against what Spark makes of them, and against other parsers.
#![allow(clippy::unwrap_used)]

use crate::options::JsonOptions;
use crate::time::Zone;
use crate::{JsonDecoder, Origin, ParseMode};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type, Schema, TimeUnit};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use std::sync::Arc;

fn schema(fields: &[(&str, DataType)]) -> Arc<Schema> {
    Arc::new(Schema::new(fields.iter().map(|(name, t)| Field::new(*name, t.clone(), true)).collect::<Vec<_>>()))
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", item, true)))
}

fn object(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(schema(fields).fields().clone())
}

fn map(value: DataType) -> DataType {
    let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

fn decode(fields: &[(&str, DataType)], origin: Origin, mode: ParseMode, records: &[&[u8]]) -> RecordBatch {
    let mut options = JsonOptions::new(origin, Zone::UTC);
    options.mode = mode;
    let mut decoder = JsonDecoder::new(schema(fields), options).unwrap();
    for record in records {
        decoder.push(Some(record)).unwrap();
    }
    decoder.flush().unwrap()
}

fn cell(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) { "NULL".to_owned() } else { array_value_to_string(array, row).unwrap() }
}

/// Rows as `a|b`, for a file.
fn rows(fields: &[(&str, DataType)], records: &[&str]) -> Vec<String> {
    let records: Vec<&[u8]> = records.iter().map(|r| r.as_bytes()).collect();
    let batch = decode(fields, Origin::File, ParseMode::Permissive, &records);
    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|c| cell(c, row)).collect::<Vec<_>>().join("|")).collect()
}

fn one(data_type: DataType, value: &str) -> String {
    rows(&[("a", data_type)], &[&format!("{{\"a\":{value}}}")]).remove(0)
}

#[test]
fn scalars_follow_jackson_and_spark() {
    use DataType::*;
    let cases = [
        (Int32, "1", "1"),
        (Int32, "\"1\"", "NULL"),
        (Int32, "1.5", "NULL"),
        (Int32, "1e2", "NULL"),
        (Int32, "2147483648", "NULL"),
        (Int8, "200", "-56"),
        (Int8, "300", "NULL"),
        (Int64, "-9223372036854775808", "-9223372036854775808"),
        (Int64, "9223372036854775808", "NULL"),
        (Utf8, "1.10", "1.10"),
        (Utf8, "{ \"x\" : 1 }", "{ \"x\" : 1 }"),
        (Utf8, "true", "true"),
        (Utf8, "null", "NULL"),
        (Boolean, "1", "NULL"),
        (Boolean, "true", "true"),
        (Float64, "NaN", "NaN"),
        (Float64, "\"-Infinity\"", "-inf"),
        (Float64, "-0", "0.0"),
        (Float64, "\"1\"", "NULL"),
        (Decimal128(10, 2), "1.005", "1.01"),
        (Decimal128(10, 2), "\"1.5\"", "1.50"),
        (Decimal128(3, 2), "10", "NULL"),
        (Date32, "\"2024-6-1\"", "2024-06-01"),
        (Date32, "19000", "NULL"),
        (Date32, "\"\"", "NULL"),
        (Binary, "\"YWJj\"", "616263"),
        (Binary, "\"*\"", "NULL"),
        (Timestamp(TimeUnit::Microsecond, None), "\"2024-06-01 10:11:12\"", "2024-06-01T10:11:12"),
        (Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), "\"2024-06-01T10:11:12+0200\"", "2024-06-01T08:11:12Z"),
        (Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), "1717236672", "2024-06-01T10:11:12Z"),
        (Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), "1717236672.5", "NULL"),
        (list(Int32), "[1,null,\"x\"]", "NULL"),
        (list(Int32), "[1,null]", "[1, ]"),
        (list(Int32), "[]", "[]"),
        (map(Int32), "{\"k\":1,\"l\":null}", "{k: 1, l: }"),
        (map(Int32), "{\"k\":\"x\"}", "NULL"),
        (object(&[("b", Int32)]), "5", "NULL"),
        (object(&[("b", Int32), ("c", Int32)]), "{\"b\":\"x\",\"c\":2}", "{b: , c: 2}"),
    ];
    for (data_type, value, expected) in cases {
        assert_eq!(one(data_type.clone(), value), expected, "{value} as {data_type}");
    }
}

#[test]
fn bad_records_keep_what_spark_keeps() {
    let fields = [("a", DataType::Int32), ("b", DataType::Utf8), ("_corrupt_record", DataType::Utf8)];
    let found = rows(
        &fields,
        &[
            r#"{"a":1,"b":"x"}"#,
            "{bad",
            r#"{"a":"x","b":"y"}"#,
            r#"{"a":1"#,
            "",
            "  ",
            "null",
            "[]",
            r#"[{"a":1},{"a":2}]"#,
            r#"{"a":1} trailing"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"a":"x"}"#,
            r#"{"a":1,"b":tru}"#,
        ],
    );
    let expected = [
        "1|x|NULL",
        "NULL|NULL|{bad",
        r#"NULL|y|{"a":"x","b":"y"}"#,
        r#"NULL|NULL|{"a":1"#,
        "NULL|NULL|null",
        "1|NULL|NULL",
        "2|NULL|NULL",
        "1|NULL|NULL",
        "2|NULL|NULL",
        r#"1|NULL|{"a":1,"a":"x"}"#,
        r#"NULL|NULL|{"a":1,"b":tru}"#,
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_column_keeps_one_row_for_each_record() {
    let fields = [("a", DataType::Utf8)];
    let mut decoder = JsonDecoder::new(schema(&fields), JsonOptions::new(Origin::Column, Zone::UTC)).unwrap();
    for record in [Some(r#"{"a":1.10}"#), None, Some(" "), Some("[{}]"), Some(r#"{"a": { "x" : [1.0, "é\n"] } }"#)] {
        decoder.push(record.map(str::as_bytes)).unwrap();
    }
    decoder.push(Some(b"{\"a\":\"\xff\"}")).unwrap();
    let column = decoder.flush_column().unwrap();
    let structs = column.as_struct();
    assert_eq!((0..6).map(|i| structs.is_null(i)).collect::<Vec<_>>(), [false, true, true, false, false, false]);
    let values = structs.column(0).as_string::<i32>();
    assert_eq!(values.value(0), "1.1");
    assert!(values.is_null(3));
    assert_eq!(values.value(4), r#"{"x":[1.0,"é\n"]}"#);
    assert_eq!(values.value(5), "\u{fffd}");
}

#[test]
fn modes_drop_or_fail() {
    let fields = [("a", DataType::Int32)];
    let records: [&[u8]; 4] = [b"{\"a\":1}", b"{", b"\xff", b"{\"a\":\"x\"}"];
    assert_eq!(decode(&fields, Origin::File, ParseMode::DropMalformed, &records).num_rows(), 1);
    let mut options = JsonOptions::new(Origin::File, Zone::UTC);
    options.mode = ParseMode::FailFast;
    let mut decoder = JsonDecoder::new(schema(&fields), options).unwrap();
    decoder.push(Some(records[0])).unwrap();
    for bad in &records[1..] {
        let error = decoder.push(Some(bad)).unwrap_err();
        assert_eq!(error.condition(), "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION");
    }
    assert_eq!(decoder.flush().unwrap().num_rows(), 1);
}

#[test]
fn templates_follow_changes_of_shape() {
    let fields = [("a", DataType::Int64), ("b", DataType::Utf8)];
    let mut decoder = JsonDecoder::new(schema(&fields), JsonOptions::new(Origin::File, Zone::UTC)).unwrap();
    let records = [
        r#"{"a":1,"x":[1,{"y":2}],"b":"p"}"#,
        r#"{"a":2,"x":"z","b":"q"}"#,
        r#"{"b":"r","a":3}"#,
        r#"{"b":"s","a":4}"#,
        r#"{"a":5,"x":0,"b":null}"#,
        r#"{"a":6,"x":0,"b":"t"} "#,
        r#"{"a":7,"x":0,"b":"u"#,
    ];
    for record in records {
        decoder.push(Some(record.as_bytes())).unwrap();
    }
    let counts = decoder.take_counts();
    assert_eq!((counts.records, counts.malformed, counts.template_hits), (7, 1, 3));
    let batch = decoder.flush().unwrap();
    let a: Vec<_> = batch.column(0).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(a, [Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), None]);
    let b: Vec<_> = batch.column(1).as_string::<i32>().iter().collect();
    assert_eq!(b, [Some("p"), Some("q"), Some("r"), Some("s"), None, Some("t"), None]);
}

#[test]
fn deep_and_large_values_are_bounded() {
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(rows(&[("a", DataType::Int32)], &[&deep]), ["NULL"]);
    let fine = format!("{{\"x\":{}{},\"a\":1}}", "[".repeat(900), "]".repeat(900));
    assert_eq!(rows(&[("a", DataType::Int32)], &[&fine]), ["1"]);
    let large = format!("{{\"a\":\"{}\\u00e9\"}}", "v".repeat(10 << 20));
    assert_eq!(rows(&[("a", DataType::Utf8)], &[&large])[0].len(), (10 << 20) + 2);
}

#[test]
fn a_name_that_is_not_utf8_is_malformed_each_time() {
    let fields = [("a", DataType::Int64), ("_corrupt_record", DataType::Utf8)];
    let damaged: &[u8] = b"{\"\xc3\":{}}";
    let batch = decode(&fields, Origin::File, ParseMode::Permissive, &[damaged, b"{\"a\":0.0}", damaged, damaged]);
    let corrupt = batch.column(1).as_string::<i32>();
    assert!([0, 2, 3].iter().all(|row| corrupt.value(*row) == "{\"\u{fffd}\":{}}"));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e300f64..1e300).prop_map(Into::into),
        "\\PC{0,12}".prop_map(Into::into),
        "[\\x00-\\x7f\\\\\"]{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::vec(("[a-d]", inner), 0..4).prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn record() -> impl Strategy<Value = serde_json::Value> {
    proptest::collection::vec(("[a-d]", json()), 0..5).prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect()))
}

proptest! {
    #[test]
    fn columns_agree_with_serde(records in proptest::collection::vec(record(), 1..6)) {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8), ("c", DataType::Float64), ("d", list(DataType::Boolean))];
        let texts: Vec<String> = records.iter().map(ToString::to_string).collect();
        let bytes: Vec<&[u8]> = texts.iter().map(|t| t.as_bytes()).collect();
        let batch = decode(&fields, Origin::File, ParseMode::Permissive, &bytes);
        prop_assert_eq!(batch.num_rows(), records.len());
        for (row, value) in records.iter().enumerate() {
            let a = batch.column(0).as_primitive::<Int64Type>();
            prop_assert_eq!(a.is_valid(row).then(|| a.value(row)), value["a"].as_i64());
            let b = batch.column(1).as_string::<i32>();
            let text = match &value["b"] {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            prop_assert_eq!(b.is_valid(row).then(|| b.value(row).to_owned()), text);
            let c = batch.column(2).as_primitive::<Float64Type>();
            prop_assert_eq!(c.is_valid(row).then(|| c.value(row)), value["c"].as_f64());
            let d = batch.column(3);
            let all_booleans = value["d"].as_array().is_some_and(|items| items.iter().all(|v| v.is_boolean() || v.is_null()));
            prop_assert_eq!(d.is_valid(row), all_booleans);
        }
    }

    #[test]
    fn acceptance_agrees_with_serde(record in record(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = record.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let fields = [("a", object(&[("b", DataType::Int32)])), ("_corrupt_record", DataType::Utf8)];
        let mut options = JsonOptions::new(Origin::File, Zone::UTC);
        options.leniency.single_quotes = false;
        options.leniency.non_numeric_numbers = false;
        let mut decoder = JsonDecoder::new(schema(&fields), options).unwrap();
        decoder.push(Some(&bytes)).unwrap();
        let accepted = serde_json::Deserializer::from_slice(&bytes).into_iter::<serde_json::Value>().next();
        let malformed = decoder.take_counts().malformed > 0;
        if matches!(accepted, Some(Err(_))) {
            prop_assert!(malformed || simdutf8::basic::from_utf8(&bytes).is_ok_and(|t| t.contains("\\ud") || t.contains("\\uD") || t.contains('e') || t.contains('E')));
        }
    }

    #[test]
    fn no_bytes_panic(records in proptest::collection::vec(proptest::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]\",:\\'u0123nte.-+ ab"[..])], 0..40), 0..4)) {
        let fields = [("a", list(object(&[("b", DataType::Utf8)]))), ("b", map(DataType::Float32)), ("_corrupt_record", DataType::Utf8)];
        for origin in [Origin::File, Origin::Column] {
            let mut options = JsonOptions::new(origin, Zone::UTC);
            options.leniency.comments = true;
            options.leniency.unquoted_field_names = true;
            options.leniency.backslash_escaping_any_character = true;
            let mut decoder = JsonDecoder::new(schema(&fields), options).unwrap();
            for record in &records {
                decoder.push(Some(record)).unwrap();
            }
            prop_assert!(decoder.flush().is_ok());
        }
    }

    #[test]
    fn shapes_that_are_known_change_nothing(first in record(), second in record(), at in any::<prop::sample::Index>(), byte in prop::sample::select(&b"\"\\,:{}[]0e. x\xc3"[..])) {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8), ("c", object(&[("a", DataType::Float64), ("b", DataType::Date32)])), ("_corrupt_record", DataType::Utf8)];
        let mut damaged = first.to_string().into_bytes();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        let (first, second) = (first.to_string(), second.to_string());
        let records: [&[u8]; 6] = [first.as_bytes(), first.as_bytes(), &damaged, second.as_bytes(), &damaged, first.as_bytes()];
        let together = decode(&fields, Origin::File, ParseMode::Permissive, &records);
        let alone: Vec<RecordBatch> = records.iter().map(|r| decode(&fields, Origin::File, ParseMode::Permissive, &[r])).collect();
        let alone = arrow::compute::concat_batches(&together.schema(), &alone).unwrap();
        prop_assert_eq!(together, alone);
    }

    #[test]
    fn values_that_fit_agree_with_arrow_json(rows in proptest::collection::vec((any::<Option<i64>>(), proptest::option::of("\\PC{0,12}"), any::<Option<bool>>(), proptest::collection::vec(any::<Option<i32>>(), 0..3)), 1..8), flip in any::<bool>()) {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8), ("c", DataType::Boolean), ("d", list(DataType::Int32))];
        let texts: Vec<String> = rows.iter().map(|(a, b, c, d)| {
            if flip { serde_json::json!({"d": d, "c": c, "b": b, "a": a}) } else { serde_json::json!({"a": a, "b": b, "c": c, "d": d, "e": {"f": [1]}}) }.to_string()
        }).collect();
        let bytes: Vec<&[u8]> = texts.iter().map(|t| t.as_bytes()).collect();
        let ours = decode(&fields, Origin::File, ParseMode::FailFast, &bytes);
        let mut theirs = arrow::json::ReaderBuilder::new(schema(&fields)).build_decoder().unwrap();
        for text in &bytes {
            theirs.decode(text).unwrap();
        }
        prop_assert_eq!(Some(ours), theirs.flush().unwrap());
    }
}
