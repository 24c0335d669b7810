//! String functions. Positions and lengths count characters, as in Spark.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use weir_core::Error;

use super::args;
use crate::analyzer::{Analyzer, Typed};
use crate::error::spark_error;
use crate::types::list_of;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "length", "len", "char_length", "character_length", "octet_length", "bit_length", "lower", "lcase", "upper", "ucase",
    "initcap", "trim", "ltrim", "rtrim", "btrim", "trim_chars", "ltrim_chars", "rtrim_chars", "substring", "substr", "left",
    "right", "lpad", "rpad", "repeat", "replace", "translate", "locate", "position", "charindex", "instr", "split_part",
    "substring_index", "startswith", "endswith", "contains", "ascii", "chr", "char", "encode", "decode", "overlay", "elt",
    "space", "mask", "concat", "concat_ws", "find_in_set", "base64", "unbase64", "hex", "unhex", "sentences", "levenshtein",
    "format_string", "printf", "to_char", "to_varchar", "to_number", "try_to_number", "format_number", "luhn_check", "reverse",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    let text = DataType::Utf8;
    let int = DataType::Int32;
    match name {
        "concat" | "reverse" if list.first().is_some_and(|l| matches!(l.ty, DataType::List(_))) => {
            super::collection::build(a, name, list)
        }
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
            if list.len() == 2 {
                list.push(Typed::string(" "));
            }
            let list = args::to_types(a, list, &[text.clone(), int, text.clone()])?;
            let left = name == "lpad";
            Ok(a.call(name, "", text, &list, move |rows: Rows| pad(rows.args, left)))
        }
        "repeat" => {
            args::count(name, &list, 2, 2)?;
            let list = args::to_types(a, list, &[text.clone(), int])?;
            Ok(a.call(name, "", text, &list, |rows: Rows| {
                with_int(rows.args, |s, n| s.repeat(usize::try_from(n).unwrap_or(0)))
            }))
        }
        "space" => {
            args::count(name, &list, 1, 1)?;
            let count = a.cast(list.remove(0), &int)?;
            let list = vec![Typed::string(" "), count];
            Ok(a.call(name, "", text, &list, |rows: Rows| {
                with_int(rows.args, |s, n| s.repeat(usize::try_from(n).unwrap_or(0)))
            }))
        }
        "replace" => {
            args::count(name, &list, 2, 3)?;
            if list.len() == 2 {
                list.push(Typed::string(""));
            }
            strings(a, name, list, 3, |s| Some(if s[1].is_empty() { s[0].to_owned() } else { s[0].replace(s[1], s[2]) }))
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
            let list = args::to_types(a, list, &[text.clone(), text, int.clone()])?;
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
                            n.map(|n| {
                                if n < 0 {
                                    String::new()
                                } else {
                                    u8::try_from(n & 0xff).map(char::from).unwrap_or('\0').to_string()
                                }
                            })
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
            Ok(strings(a, name, list, many, |s| Some(s.concat()))?.named(shown))
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
            list.truncate(2);
            let list = args::all_to(a, list, &text)?;
            Ok(a.call(name, "", int, &list, |rows: Rows| {
                let (l, r): (&StringArray, &StringArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                Ok(Arc::new(
                    l.iter()
                        .zip(r)
                        .map(|(l, r)| i32::try_from(strsim::levenshtein(l?, r?)).ok())
                        .collect::<Int32Array>(),
                ) as ArrayRef)
            }))
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
        "base64" | "unbase64" | "hex" | "unhex" => super::charset::build(a, name, list),
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

/// A function of strings to a string; null if any argument is.
pub fn strings(
    a: &Analyzer,
    name: &str,
    list: Vec<Typed>,
    many: usize,
    f: impl Fn(&[&str]) -> Option<String> + Send + Sync + 'static,
) -> Result<Typed> {
    args::count(name, &list, many, many)?;
    let list = args::all_to(a, list, &DataType::Utf8)?;
    Ok(a.call(name, "", DataType::Utf8, &list, move |rows: Rows| {
        let arrays = rows.args.iter().map(downcast::<StringArray>).collect::<DfResult<Vec<_>>>()?;
        let mut values: Vec<&str> = Vec::with_capacity(arrays.len());
        Ok(Arc::new(
            (0..rows.len)
                .map(|row| {
                    if arrays.iter().any(|s| s.is_null(row)) {
                        return None;
                    }
                    values.clear();
                    values.extend(arrays.iter().map(|s| s.value(row)));
                    f(&values)
                })
                .collect::<StringArray>(),
        ) as ArrayRef)
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

fn with_int(args: &[ArrayRef], f: impl Fn(&str, i32) -> String) -> DfResult<ArrayRef> {
    let (s, n): (&StringArray, &Int32Array) = (downcast(&args[0])?, downcast(&args[1])?);
    Ok(Arc::new(s.iter().zip(n).map(|(s, n)| Some(f(s?, n?))).collect::<StringArray>()))
}

fn length(array: &ArrayRef, unit: usize) -> DfResult<ArrayRef> {
    let count = |chars: usize, bytes: usize| i32::try_from(if unit == 0 { chars } else { bytes * unit }).unwrap_or(i32::MAX);
    Ok(Arc::new(match array.data_type() {
        DataType::Binary => {
            downcast::<BinaryArray>(array)?.iter().map(|b| b.map(|b| count(b.len(), b.len()))).collect::<Int32Array>()
        }
        _ => downcast::<StringArray>(array)?
            .iter()
            .map(|s| s.map(|s| count(s.chars().count(), s.len())))
            .collect::<Int32Array>(),
    }))
}

fn initcap(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut start = true;
    for c in s.chars() {
        if start {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        start = c == ' ';
    }
    out
}

fn trim<'s>(s: &'s str, chars: &str, front: bool, back: bool) -> &'s str {
    let mut s = s;
    if front {
        s = s.trim_start_matches(|c| chars.contains(c));
    }
    if back {
        s = s.trim_end_matches(|c| chars.contains(c));
    }
    s
}

/// Spark's positions: from 1, 0 is 1, negative from the end.
fn bounds(length: i64, position: i32, count: i32) -> (usize, usize) {
    let position = i64::from(position);
    let start = match position {
        p if p > 0 => p - 1,
        0 => 0,
        p => length + p,
    };
    let end = start.saturating_add(i64::from(count)).min(length);
    let from = start.max(0);
    if end <= from {
        return (0, 0);
    }
    (usize::try_from(from).unwrap_or(0), usize::try_from(end).unwrap_or(0))
}

fn substring(args: &[ArrayRef], binary: bool) -> DfResult<ArrayRef> {
    let (position, count): (&Int32Array, &Int32Array) = (downcast(&args[1])?, downcast(&args[2])?);
    let valid = |row: usize| args[0].is_valid(row) && position.is_valid(row) && count.is_valid(row);
    if binary {
        let bytes: &BinaryArray = downcast(&args[0])?;
        return Ok(Arc::new(
            (0..bytes.len())
                .map(|row| {
                    valid(row).then(|| {
                        let value = bytes.value(row);
                        let (from, to) = bounds(i64::try_from(value.len()).unwrap_or(0), position.value(row), count.value(row));
                        &value[from..to]
                    })
                })
                .collect::<BinaryArray>(),
        ));
    }
    let strings: &StringArray = downcast(&args[0])?;
    Ok(Arc::new(
        (0..strings.len())
            .map(|row| {
                valid(row).then(|| {
                    let value = strings.value(row);
                    let length = if value.is_ascii() { value.len() } else { value.chars().count() };
                    let (from, to) = bounds(i64::try_from(length).unwrap_or(0), position.value(row), count.value(row));
                    if value.is_ascii() {
                        value[from..to].to_owned()
                    } else {
                        value.chars().skip(from).take(to - from).collect()
                    }
                })
            })
            .collect::<StringArray>(),
    ))
}

fn pad(args: &[ArrayRef], left: bool) -> DfResult<ArrayRef> {
    let (s, n, fill): (&StringArray, &Int32Array, &StringArray) =
        (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?);
    Ok(Arc::new(
        (0..s.len())
            .map(|row| {
                if s.is_null(row) || n.is_null(row) || fill.is_null(row) {
                    return None;
                }
                let (value, wanted) = (s.value(row), usize::try_from(n.value(row)).unwrap_or(0));
                let length = value.chars().count();
                if length >= wanted {
                    return Some(value.chars().take(wanted).collect::<String>());
                }
                let padding: String = fill.value(row).chars().cycle().take(wanted - length).collect();
                Some(if left { format!("{padding}{value}") } else { format!("{value}{padding}") })
            })
            .collect::<StringArray>(),
    ))
}

fn translate(s: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    s.chars()
        .filter_map(|c| match from.chars().position(|f| f == c) {
            Some(index) => to.get(index).copied(),
            None => Some(c),
        })
        .collect()
}

fn locate(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (needle, hay, from): (&StringArray, &StringArray, &Int32Array) =
        (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?);
    Ok(Arc::new(
        (0..needle.len())
            .map(|row| {
                if needle.is_null(row) || hay.is_null(row) {
                    return None;
                }
                if from.is_null(row) || from.value(row) < 1 {
                    return Some(0);
                }
                let (needle, hay) = (needle.value(row), hay.value(row));
                let skip = usize::try_from(from.value(row) - 1).unwrap_or(0);
                let start = hay.char_indices().nth(skip).map_or(hay.len(), |(at, _)| at);
                if skip > hay.chars().count() {
                    return Some(0);
                }
                Some(match hay[start..].find(needle) {
                    Some(at) => i32::try_from(hay[..start + at].chars().count() + 1).unwrap_or(0),
                    None => 0,
                })
            })
            .collect::<Int32Array>(),
    ))
}

fn split_part(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (s, d, n): (&StringArray, &StringArray, &Int32Array) = (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?);
    let mut out = Vec::with_capacity(s.len());
    for row in 0..s.len() {
        if s.is_null(row) || d.is_null(row) || n.is_null(row) {
            out.push(None);
            continue;
        }
        let n = n.value(row);
        if n == 0 {
            return Err(spark_error("INVALID_INDEX_OF_ZERO", "the index 0 is invalid; an index counts from 1, or from the end if negative"));
        }
        let parts: Vec<&str> =
            if d.value(row).is_empty() { vec![s.value(row)] } else { s.value(row).split(d.value(row)).collect() };
        let index = if n > 0 { usize::try_from(n - 1).ok() } else { parts.len().checked_sub(usize::try_from(-i64::from(n)).unwrap_or(usize::MAX)) };
        out.push(Some(index.and_then(|i| parts.get(i).copied()).unwrap_or("")));
    }
    Ok(Arc::new(StringArray::from(out)))
}

fn substring_index<'s>(s: &'s str, delimiter: &str, count: i32) -> &'s str {
    if delimiter.is_empty() || count == 0 {
        return "";
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count > 0 {
        s.match_indices(delimiter).nth(wanted - 1).map_or(s, |(at, _)| &s[..at])
    } else {
        s.rmatch_indices(delimiter).nth(wanted - 1).map_or(s, |(at, found)| &s[at + found.len()..])
    }
}

fn overlay(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (s, r, p, n): (&StringArray, &StringArray, &Int32Array, &Int32Array) =
        (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?, downcast(&args[3])?);
    Ok(Arc::new(
        (0..s.len())
            .map(|row| {
                if args.iter().any(|a| a.is_null(row)) {
                    return None;
                }
                let (value, replacement) = (s.value(row), r.value(row));
                let start = usize::try_from(p.value(row) - 1).unwrap_or(0);
                let length = match n.value(row) {
                    n if n < 0 => replacement.chars().count(),
                    n => usize::try_from(n).unwrap_or(0),
                };
                let head: String = value.chars().take(start).collect();
                let tail: String = value.chars().skip(start + length).collect();
                Some(format!("{head}{replacement}{tail}"))
            })
            .collect::<StringArray>(),
    ))
}

fn elt(args: &[ArrayRef], ansi: bool) -> DfResult<ArrayRef> {
    let index: &Int32Array = downcast(&args[0])?;
    let mut out: Vec<Option<&str>> = Vec::with_capacity(index.len());
    let options = args[1..].iter().map(downcast::<StringArray>).collect::<DfResult<Vec<_>>>()?;
    for row in 0..index.len() {
        if index.is_null(row) {
            out.push(None);
            continue;
        }
        let wanted = index.value(row);
        match usize::try_from(wanted - 1).ok().and_then(|i| options.get(i)) {
            Some(option) => out.push(option.is_valid(row).then(|| option.value(row))),
            None if ansi => {
                return Err(spark_error(
                    "INVALID_ARRAY_INDEX",
                    format!("the index {wanted} is out of bounds, elt has {} values", options.len()),
                ));
            }
            None => out.push(None),
        }
    }
    Ok(Arc::new(StringArray::from(out)))
}

fn mask(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let columns = args.iter().map(downcast::<StringArray>).collect::<DfResult<Vec<_>>>()?;
    Ok(Arc::new(
        (0..columns[0].len())
            .map(|row| {
                if columns[0].is_null(row) {
                    return None;
                }
                let pick = |index: usize, c: char| {
                    if columns[index].is_null(row) { Some(c) } else { columns[index].value(row).chars().next() }
                };
                Some(
                    columns[0]
                        .value(row)
                        .chars()
                        .filter_map(|c| {
                            let index = match c {
                                c if c.is_uppercase() => 1,
                                c if c.is_lowercase() => 2,
                                c if c.is_numeric() => 3,
                                _ => 4,
                            };
                            pick(index, c)
                        })
                        .collect::<String>(),
                )
            })
            .collect::<StringArray>(),
    ))
}

fn concat_binary(args: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let columns = args.iter().map(downcast::<BinaryArray>).collect::<DfResult<Vec<_>>>()?;
    Ok(Arc::new(
        (0..len)
            .map(|row| {
                columns.iter().all(|c| c.is_valid(row)).then(|| columns.iter().flat_map(|c| c.value(row)).copied().collect::<Vec<u8>>())
            })
            .collect::<BinaryArray>(),
    ))
}

fn concat_ws(args: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let separator: &StringArray = downcast(&args[0])?;
    let mut out = Vec::with_capacity(len);
    for row in 0..len {
        if separator.is_null(row) {
            out.push(None);
            continue;
        }
        let mut parts: Vec<String> = Vec::new();
        for column in &args[1..] {
            if column.is_null(row) {
                continue;
            }
            if let Some(list) = column.as_any().downcast_ref::<arrow::array::ListArray>() {
                let items = list.value(row);
                let items: &StringArray = downcast(&items)?;
                parts.extend(items.iter().flatten().map(str::to_owned));
            } else {
                parts.push(downcast::<StringArray>(column)?.value(row).to_owned());
            }
        }
        out.push(Some(parts.join(separator.value(row))));
    }
    Ok(Arc::new(StringArray::from(out)))
}

/// Sentences end at `.`, `!`, `?`; words are runs of letters, digits and apostrophes.
fn sentences(array: &ArrayRef) -> DfResult<ArrayRef> {
    use arrow::array::{ListBuilder, StringBuilder};
    let strings: &StringArray = downcast(array)?;
    let mut out = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for s in strings {
        let Some(s) = s else {
            out.append(false);
            continue;
        };
        for sentence in s.split_inclusive(['.', '!', '?']) {
            let words: Vec<&str> =
                sentence.split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|w| !w.is_empty()).collect();
            if words.is_empty() {
                continue;
            }
            for word in words {
                out.values().values().append_value(word);
            }
            out.values().append(true);
        }
        out.append(true);
    }
    Ok(Arc::new(out.finish()))
}

fn luhn(s: &str) -> bool {
    if s.is_empty() || !s.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let sum: u32 = s
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, b)| {
            let digit = u32::from(b - b'0');
            if index % 2 == 0 { digit } else if digit > 4 { digit * 2 - 9 } else { digit * 2 }
        })
        .sum();
    sum % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_sparks() {
        assert_eq!(bounds(5, 2, 3), (1, 4));
        assert_eq!(bounds(5, 0, 2), (0, 2));
        assert_eq!(bounds(5, -3, 2), (2, 4));
        assert_eq!(bounds(5, 10, 3), (0, 0));
        assert_eq!(substring_index("a.b.c", ".", -2), "b.c");
        assert!(luhn("4111111111111111"));
    }
}
