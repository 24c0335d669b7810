//! String functions. Positions and lengths count characters, as in Spark.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use weir_core::Error;

use super::args;
use super::bounds::Budget;
use super::text::{
    concat_binary, concat_ws, elt, initcap, length, levenshtein, locate, luhn, mask, overlay, pad, repeat, sentences, split_part,
    substring, substring_index, translate, trim, with_int,
};
use crate::analyzer::{Analyzer, Typed, unsupported};
use crate::types::list_of;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "length",
    "len",
    "char_length",
    "character_length",
    "octet_length",
    "bit_length",
    "lower",
    "lcase",
    "upper",
    "ucase",
    "initcap",
    "trim",
    "ltrim",
    "rtrim",
    "btrim",
    "trim_chars",
    "ltrim_chars",
    "rtrim_chars",
    "substring",
    "substr",
    "left",
    "right",
    "lpad",
    "rpad",
    "repeat",
    "replace",
    "translate",
    "locate",
    "position",
    "charindex",
    "instr",
    "split_part",
    "substring_index",
    "startswith",
    "endswith",
    "contains",
    "ascii",
    "chr",
    "char",
    "encode",
    "decode",
    "overlay",
    "elt",
    "space",
    "mask",
    "concat",
    "concat_ws",
    "find_in_set",
    "base64",
    "unbase64",
    "hex",
    "unhex",
    "sentences",
    "levenshtein",
    "format_string",
    "printf",
    "to_char",
    "to_varchar",
    "to_number",
    "try_to_number",
    "format_number",
    "luhn_check",
    "reverse",
    "quote",
    "to_binary",
    "try_to_binary",
    "is_valid_utf8",
    "make_valid_utf8",
    "validate_utf8",
    "try_validate_utf8",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    let text = DataType::Utf8;
    let int = DataType::Int32;
    match name {
        "concat" | "reverse" if list.first().is_some_and(|l| matches!(l.ty, DataType::List(_))) => super::collection::build(a, name, list),
        "length" | "len" | "char_length" | "character_length" | "octet_length" | "bit_length" => {
            args::count(name, &list, 1, 1)?;
            let unit = match name {
                "octet_length" => 1,
                "bit_length" => 8,
                _ => 0,
            };
            if list[0].ty != DataType::Binary {
                list = args::to_types(a, list, &[text])?;
            }
            Ok(a.call(name, "", int, &list, move |rows: Rows| length(&rows.args[0], unit)))
        }
        "lower" | "lcase" => strings(a, name, list, 1, |s| Some(lower(s[0]))),
        "upper" | "ucase" => strings(a, name, list, 1, |s| Some(s[0].to_uppercase())),
        "initcap" => strings(a, name, list, 1, |s| Some(initcap(s[0]))),
        "trim" | "ltrim" | "rtrim" | "btrim" => {
            args::count(name, &list, 1, 2)?;
            // `ltrim(chars, s)` takes the characters first, `btrim(s, chars)` last.
            if list.len() == 2 && name != "btrim" {
                list.swap(0, 1);
            }
            let (front, back) = (name != "rtrim", name != "ltrim");
            let many = list.len();
            strings(a, name, list, many, move |s| Some(trim(s[0], s.get(1).copied().unwrap_or(" "), front, back).to_owned()))
        }
        "trim_chars" | "ltrim_chars" | "rtrim_chars" => {
            let (front, back) = (name != "rtrim_chars", name != "ltrim_chars");
            strings(a, name, list, 2, move |s| Some(trim(s[0], s[1], front, back).to_owned()))
        }
        "substring" | "substr" => {
            args::count(name, &list, 2, 3)?;
            if list.len() == 2 {
                list.push(Typed::int(i32::MAX));
            }
            let binary = list[0].ty == DataType::Binary;
            let first = if binary { DataType::Binary } else { text };
            let list = args::to_types(a, list, &[first.clone(), int.clone(), int])?;
            Ok(a.call(name, "", first, &list, move |rows: Rows| substring(rows.args, binary)))
        }
        "left" | "right" => {
            args::count(name, &list, 2, 2)?;
            let list = args::to_types(a, list, &[text.clone(), int])?;
            let left = name == "left";
            Ok(a.call(name, "", text, &list, move |rows: Rows| {
                with_int(rows.args, |s, n| {
                    let n = usize::try_from(n).unwrap_or(0);
                    if left {
                        s.chars().take(n).collect()
                    } else {
                        let skip = s.chars().count().saturating_sub(n);
                        s.chars().skip(skip).collect()
                    }
                })
            }))
        }
        "lpad" | "rpad" => {
            args::count(name, &list, 2, 3)?;
            if list[0].ty == DataType::Binary {
                return Err(unsupported(&format!("{name} of BINARY"), "CAST it to STRING, or pad its hex(..)"));
            }
            if list.len() == 2 {
                list.push(Typed::string(" "));
            }
            let list = args::to_types(a, list, &[text.clone(), int, text.clone()])?;
            let left = name == "lpad";
            Ok(a.call(name, "", text, &list, move |rows: Rows| pad(rows.args, left)).may_fail())
        }
        "repeat" => {
            args::count(name, &list, 2, 2)?;
            let list = args::to_types(a, list, &[text.clone(), int])?;
            Ok(a.call(name, "", text, &list, |rows: Rows| repeat("repeat", rows.args)).may_fail())
        }
        "space" => {
            args::count(name, &list, 1, 1)?;
            let count = a.cast(list.remove(0), &int)?;
            let list = vec![Typed::string(" "), count];
            Ok(a.call(name, "", text, &list, |rows: Rows| repeat("space", rows.args)).may_fail())
        }
        "replace" => {
            args::count(name, &list, 2, 3)?;
            if list.len() == 2 {
                list.push(Typed::string(""));
            }
            sized_strings(a, name, list, 3, |s| Some(if s[1].is_empty() { s[0].to_owned() } else { s[0].replace(s[1], s[2]) }), replaced)
        }
        "translate" => strings(a, name, list, 3, |s| Some(translate(s[0], s[1], s[2]))),
        "locate" | "position" | "charindex" | "instr" => {
            args::count(name, &list, 2, 3)?;
            if name == "instr" {
                list.swap(0, 1);
            }
            if list.len() == 2 {
                list.push(Typed::int(1));
            }
            let list = args::to_types(a, list, &[text.clone(), text.clone(), int.clone()])?;
            Ok(a.call(name, "", int, &list, |rows: Rows| locate(rows.args)))
        }
        "split_part" => {
            args::count(name, &list, 3, 3)?;
            let list = args::to_types(a, list, &[text.clone(), text.clone(), int])?;
            Ok(a.call(name, "", text, &list, |rows: Rows| split_part(rows.args)).may_fail())
        }
        "substring_index" => {
            args::count(name, &list, 3, 3)?;
            let list = args::to_types(a, list, &[text.clone(), text.clone(), int])?;
            Ok(a.call(name, "", text, &list, |rows: Rows| {
                let (s, d, n): (&StringArray, &StringArray, &Int32Array) =
                    (downcast(&rows.args[0])?, downcast(&rows.args[1])?, downcast(&rows.args[2])?);
                Ok(Arc::new(
                    (0..s.len())
                        .map(|i| {
                            (s.is_valid(i) && d.is_valid(i) && n.is_valid(i))
                                .then(|| substring_index(s.value(i), d.value(i), n.value(i)).to_owned())
                        })
                        .collect::<StringArray>(),
                ) as ArrayRef)
            }))
        }
        "startswith" => test(a, name, list, |s, p| s.starts_with(p)),
        "endswith" => test(a, name, list, |s, p| s.ends_with(p)),
        "contains" => test(a, name, list, |s, p| s.contains(p)),
        "ascii" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[text])?;
            Ok(a.call(name, "", int, &list, |rows: Rows| {
                let s: &StringArray = downcast(&rows.args[0])?;
                Ok(Arc::new(
                    s.iter()
                        .map(|s| s.map(|s| s.chars().next().map_or(0, |c| i32::try_from(u32::from(c)).unwrap_or(0))))
                        .collect::<Int32Array>(),
                ) as ArrayRef)
            }))
        }
        "chr" | "char" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[DataType::Int64])?;
            Ok(a.call(name, "", text, &list, |rows: Rows| {
                let n: &Int64Array = downcast(&rows.args[0])?;
                Ok(Arc::new(
                    n.iter()
                        .map(|n| {
                            n.map(
                                |n| {
                                    if n < 0 { String::new() } else { u8::try_from(n & 0xff).map(char::from).unwrap_or('\0').to_string() }
                                },
                            )
                        })
                        .collect::<StringArray>(),
                ) as ArrayRef)
            }))
        }
        "encode" | "decode" => {
            if name == "decode" && list.len() > 2 {
                return decode_cases(a, list);
            }
            args::count(name, &list, 2, 2)?;
            super::charset::build(a, name, list)
        }
        "overlay" => {
            args::count(name, &list, 3, 4)?;
            if list.len() == 3 {
                list.push(Typed::int(-1));
            }
            let list = args::to_types(a, list, &[text.clone(), text.clone(), int.clone(), int])?;
            Ok(a.call(name, "", text, &list, |rows: Rows| overlay(rows.args)))
        }
        "elt" => {
            args::count(name, &list, 2, usize::MAX)?;
            let ansi = a.conf.ansi;
            let index = a.cast(list.remove(0), &int)?;
            let mut list = args::all_to(a, list, &text)?;
            list.insert(0, index);
            let call = a.call(name, ansi.to_string(), text, &list, move |rows: Rows| elt(rows.args, ansi));
            Ok(if ansi { call.may_fail() } else { call })
        }
        "mask" => {
            args::count(name, &list, 1, 5)?;
            let defaults = ["X", "x", "n"];
            while list.len() < 4 {
                let default = defaults[list.len() - 1];
                list.push(Typed::string(default));
            }
            if list.len() == 4 {
                list.push(Typed::null());
            }
            let list = args::all_to(a, list, &text)?;
            Ok(a.call(name, "", text, &list, |rows: Rows| mask(rows.args)))
        }
        "concat" => {
            if list.is_empty() {
                return Ok(Typed::string(""));
            }
            let shown = format!("concat({})", list.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", "));
            if list.iter().all(|l| l.ty == DataType::Binary) {
                return Ok(a.call(name, "", DataType::Binary, &list, |rows: Rows| concat_binary(rows.args, rows.len)));
            }
            let many = list.len();
            let size = |s: &[&str]| s.iter().map(|part| part.len()).sum();
            Ok(sized_strings(a, name, list, many, |s| Some(s.concat()), size)?.named(shown))
        }
        "concat_ws" => {
            args::count(name, &list, 1, usize::MAX)?;
            let list = list
                .into_iter()
                .map(|l| match l.ty {
                    DataType::List(_) => a.cast(l, &list_of(DataType::Utf8)),
                    _ => a.cast(l, &DataType::Utf8),
                })
                .collect::<Result<Vec<_>>>()?;
            Ok(a.call(name, "", text, &list, |rows: Rows| concat_ws(rows.args, rows.len)))
        }
        "find_in_set" => {
            args::count(name, &list, 2, 2)?;
            let list = args::all_to(a, list, &text)?;
            Ok(a.call(name, "", int, &list, |rows: Rows| {
                let (s, set): (&StringArray, &StringArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                Ok(Arc::new(
                    s.iter()
                        .zip(set)
                        .map(|(s, set)| {
                            let (s, set) = (s?, set?);
                            if s.contains(',') {
                                return Some(0);
                            }
                            Some(set.split(',').position(|p| p == s).and_then(|p| i32::try_from(p + 1).ok()).unwrap_or(0))
                        })
                        .collect::<Int32Array>(),
                ) as ArrayRef)
            }))
        }
        "levenshtein" => {
            args::count(name, &list, 2, 3)?;
            let list = args::to_types(a, list, &[text.clone(), text.clone(), int.clone()])?;
            Ok(a.call(name, "", int, &list, |rows: Rows| levenshtein(rows.args)))
        }
        "sentences" => {
            args::count(name, &list, 1, 3)?;
            list.truncate(1);
            let list = args::to_types(a, list, &[text])?;
            let result = list_of(list_of(DataType::Utf8));
            Ok(a.call(name, "", result, &list, |rows: Rows| sentences(&rows.args[0])))
        }
        "reverse" => strings(a, name, list, 1, |s| Some(s[0].chars().rev().collect())),
        "luhn_check" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[text])?;
            Ok(a.call(name, "", DataType::Boolean, &list, |rows: Rows| {
                let s: &StringArray = downcast(&rows.args[0])?;
                Ok(Arc::new(s.iter().map(|s| s.map(luhn)).collect::<BooleanArray>()) as ArrayRef)
            }))
        }
        "quote" => strings(a, name, list, 1, |s| Some(format!("'{}'", s[0].replace('\'', "\\'")))),
        "base64" | "unbase64" | "hex" | "unhex" | "to_binary" | "try_to_binary" | "is_valid_utf8" | "make_valid_utf8" | "validate_utf8"
        | "try_validate_utf8" => super::charset::build(a, name, list),
        _ => super::format::build(a, name, list),
    }
}

/// Lower case; like Java, a capital I with dot becomes two characters.
fn lower(s: &str) -> String {
    s.to_lowercase()
}

/// `decode(x, a, 1, b, 2, default)`.
fn decode_cases(a: &Analyzer, mut list: Vec<Typed>) -> Result<Typed> {
    let value = list.remove(0);
    let mut conditions = Vec::new();
    let mut results = Vec::new();
    let mut rest = list.into_iter();
    while let Some(first) = rest.next() {
        match rest.next() {
            Some(result) => {
                conditions.push(a.compare(value.clone(), datafusion::logical_expr::Operator::IsNotDistinctFrom, first, "<=>")?);
                results.push(result);
            }
            None => results.push(first),
        }
    }
    a.branches(conditions, results)
}

/// The bytes of a text with one part of it replaced wherever it occurs.
fn replaced(s: &[&str]) -> usize {
    let (text, part, by) = (s[0], s[1], s[2]);
    // Most replacements are no longer than what they replace, and then nothing is to be counted.
    if part.is_empty() || by.len() <= part.len() {
        return text.len();
    }
    text.len().saturating_add(text.matches(part).count().saturating_mul(by.len() - part.len()))
}

/// A function of strings to a string about as long as they are together; null if any argument is.
pub fn strings(
    a: &Analyzer,
    name: &str,
    list: Vec<Typed>,
    many: usize,
    f: impl Fn(&[&str]) -> Option<String> + Send + Sync + 'static,
) -> Result<Typed> {
    sized_strings(a, name, list, many, f, |s| s[0].len())
}

/// A function of strings to a string whose size is known before it is made.
fn sized_strings(
    a: &Analyzer,
    name: &str,
    list: Vec<Typed>,
    many: usize,
    f: impl Fn(&[&str]) -> Option<String> + Send + Sync + 'static,
    size: impl Fn(&[&str]) -> usize + Send + Sync + 'static,
) -> Result<Typed> {
    args::count(name, &list, many, many)?;
    let list = args::all_to(a, list, &DataType::Utf8)?;
    let function = name.to_owned();
    Ok(a.call(name, "", DataType::Utf8, &list, move |rows: Rows| {
        let arrays = rows.args.iter().map(downcast::<StringArray>).collect::<DfResult<Vec<_>>>()?;
        let mut values: Vec<&str> = Vec::with_capacity(arrays.len());
        let mut budget = Budget::of_column(&function);
        let made = (0..rows.len).map(|row| {
            if arrays.iter().any(|s| s.is_null(row)) {
                return Ok(None);
            }
            values.clear();
            values.extend(arrays.iter().map(|s| s.value(row)));
            budget.bytes(size(&values))?;
            Ok(f(&values))
        });
        Ok(Arc::new(made.collect::<DfResult<StringArray>>()?) as ArrayRef)
    }))
}

fn test(a: &Analyzer, name: &str, list: Vec<Typed>, f: fn(&str, &str) -> bool) -> Result<Typed> {
    args::count(name, &list, 2, 2)?;
    let list = args::all_to(a, list, &DataType::Utf8)?;
    Ok(a.call(name, "", DataType::Boolean, &list, move |rows: Rows| {
        let (s, p): (&StringArray, &StringArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
        Ok(Arc::new(s.iter().zip(p).map(|(s, p)| Some(f(s?, p?))).collect::<BooleanArray>()) as ArrayRef)
    }))
}
