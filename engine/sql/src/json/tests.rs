//! The JSON functions that no golden expression covers.
#![allow(clippy::unwrap_used)]

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use std::sync::Arc;

use super::plan;
use crate::conf::SqlConf;
use crate::planned::Arg;
use crate::udf::Rows;

fn call(name: &str, args: &[&str]) -> ArrayRef {
    let described: Vec<Arg> = args.iter().map(|text| Arg { data_type: DataType::Utf8, value: Some((*text).into()) }).collect();
    let planned = plan(name, &described, &SqlConf::default()).unwrap().unwrap();
    let arrays: Vec<ArrayRef> = args.iter().map(|text| Arc::new(StringArray::from(vec![*text])) as ArrayRef).collect();
    (planned.kernel)(Rows { args: &arrays, len: 1 }).unwrap()
}

fn text(name: &str, args: &[&str]) -> String {
    call(name, args).as_string::<i32>().value(0).to_owned()
}

#[test]
fn schemas_are_inferred() {
    let cases = [
        (r#"{"b":1,"a":"x"}"#, "STRUCT<a: STRING, b: BIGINT>"),
        (r#"{"a":[1,2.5,null],"c d":true}"#, "STRUCT<a: ARRAY<DOUBLE>, `c d`: BOOLEAN>"),
        (r#"[{"a":1},{"a":"x","b":null}]"#, "ARRAY<STRUCT<a: STRING, b: STRING>>"),
        (r#"{"a":12345678901234567890}"#, "STRUCT<a: DECIMAL(20,0)>"),
    ];
    for (sample, expected) in cases {
        assert_eq!(text("schema_of_json", &[sample]), expected);
    }
    assert_eq!(text("schema_of_csv", &["1,abc,2024-06-01"]), "STRUCT<_c0: INT, _c1: STRING, _c2: DATE>");
}

#[test]
fn tuples_take_the_top_level() {
    let json = r#"{"a":1,"b":"x","c":{"d":1.50},"e":null,"a":"last"}"#;
    let cases = [("a", Some("last")), ("b", Some("x")), ("c", Some(r#"{"d":1.5}"#)), ("e", None), ("zz", None)];
    for (key, expected) in cases {
        let found = call(super::TUPLE_FIELD, &[json, key]);
        assert_eq!(found.as_string::<i32>().iter().next().flatten(), expected, "{key}");
    }
}

#[test]
fn schemas_in_json_form_are_read() {
    let schema = r#"{"type":"struct","fields":[{"name":"a","type":"integer","nullable":true,"metadata":{}}]}"#;
    let out = call("from_json", &[r#"{"a":5}"#, schema]);
    assert_eq!(out.as_struct().column(0).as_primitive::<arrow::datatypes::Int32Type>().value(0), 5);
}

#[test]
fn a_mode_that_drops_rows_is_refused() {
    let args = [Arg { data_type: DataType::Utf8, value: None }, Arg { data_type: DataType::Utf8, value: Some("a INTT".into()) }];
    assert!(plan("from_json", &args, &SqlConf::default()).unwrap().is_err());
}
