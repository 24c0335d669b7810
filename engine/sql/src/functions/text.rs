//! Kernels of the string functions.
//!
//! Positions and lengths count characters, as in Spark; a null argument makes a
//! null result unless the function says otherwise.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, Int32Array, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;

use super::bounds::Budget;
use crate::error::spark_error;
use crate::udf::downcast;

pub(super) fn with_int(args: &[ArrayRef], f: impl Fn(&str, i32) -> String) -> DfResult<ArrayRef> {
    let (s, n): (&StringArray, &Int32Array) = (downcast(&args[0])?, downcast(&args[1])?);
    Ok(Arc::new(s.iter().zip(n).map(|(s, n)| Some(f(s?, n?))).collect::<StringArray>()))
}

/// A text so and so many times.
pub(super) fn repeat(name: &'static str, args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (s, n): (&StringArray, &Int32Array) = (downcast(&args[0])?, downcast(&args[1])?);
    let mut budget = Budget::new(name);
    let repeated = s.iter().zip(n).map(|(s, n)| {
        let (Some(s), Some(n)) = (s, n) else { return Ok(None) };
        let times = usize::try_from(n).unwrap_or(0);
        budget.bytes(s.len().saturating_mul(times))?;
        Ok(Some(s.repeat(times)))
    });
    Ok(Arc::new(repeated.collect::<DfResult<StringArray>>()?))
}

pub(super) fn length(array: &ArrayRef, unit: usize) -> DfResult<ArrayRef> {
    let count = |chars: usize, bytes: usize| i32::try_from(if unit == 0 { chars } else { bytes * unit }).unwrap_or(i32::MAX);
    Ok(Arc::new(match array.data_type() {
        DataType::Binary => downcast::<BinaryArray>(array)?.iter().map(|b| b.map(|b| count(b.len(), b.len()))).collect::<Int32Array>(),
        _ => downcast::<StringArray>(array)?.iter().map(|s| s.map(|s| count(s.chars().count(), s.len()))).collect::<Int32Array>(),
    }))
}

pub(super) fn initcap(s: &str) -> String {
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

pub(super) fn trim<'s>(s: &'s str, chars: &str, front: bool, back: bool) -> &'s str {
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
pub(super) fn bounds(length: i64, position: i32, count: i32) -> (usize, usize) {
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

pub(super) fn substring(args: &[ArrayRef], binary: bool) -> DfResult<ArrayRef> {
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
                    if value.is_ascii() { value[from..to].to_owned() } else { value.chars().skip(from).take(to - from).collect() }
                })
            })
            .collect::<StringArray>(),
    ))
}

pub(super) fn pad(args: &[ArrayRef], left: bool) -> DfResult<ArrayRef> {
    let (s, n, fill): (&StringArray, &Int32Array, &StringArray) = (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?);
    let mut budget = Budget::new(if left { "lpad" } else { "rpad" });
    Ok(Arc::new(
        (0..s.len())
            .map(|row| {
                if s.is_null(row) || n.is_null(row) || fill.is_null(row) {
                    return Ok(None);
                }
                let (value, wanted) = (s.value(row), usize::try_from(n.value(row)).unwrap_or(0));
                let length = value.chars().count();
                if length >= wanted {
                    return Ok(Some(value.chars().take(wanted).collect::<String>()));
                }
                if fill.value(row).is_empty() {
                    return Ok(Some(value.to_owned()));
                }
                // Each character of the fill may take as many bytes as all of it.
                budget.bytes((wanted - length).saturating_mul(fill.value(row).len().min(4)).saturating_add(value.len()))?;
                let padding: String = fill.value(row).chars().cycle().take(wanted - length).collect();
                Ok(Some(if left { format!("{padding}{value}") } else { format!("{value}{padding}") }))
            })
            .collect::<DfResult<StringArray>>()?,
    ))
}

/// The distance of two texts; -1 if it is more than the third argument, where there is one.
pub(super) fn levenshtein(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (l, r): (&StringArray, &StringArray) = (downcast(&args[0])?, downcast(&args[1])?);
    let most: Option<&Int32Array> = args.get(2).map(downcast).transpose()?;
    let distance = |row: usize| {
        if l.is_null(row) || r.is_null(row) || most.is_some_and(|most| most.is_null(row)) {
            return None;
        }
        let distance = i32::try_from(strsim::levenshtein(l.value(row), r.value(row))).ok()?;
        Some(if most.is_some_and(|most| distance > most.value(row)) { -1 } else { distance })
    };
    Ok(Arc::new((0..l.len()).map(distance).collect::<Int32Array>()))
}

pub(super) fn translate(s: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    s.chars()
        .filter_map(|c| match from.chars().position(|f| f == c) {
            Some(index) => to.get(index).copied(),
            None => Some(c),
        })
        .collect()
}

pub(super) fn locate(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (needle, hay, from): (&StringArray, &StringArray, &Int32Array) = (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?);
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

pub(super) fn split_part(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (s, d, n): (&StringArray, &StringArray, &Int32Array) = (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?);
    let mut out = Vec::with_capacity(s.len());
    for row in 0..s.len() {
        if s.is_null(row) || d.is_null(row) || n.is_null(row) {
            out.push(None);
            continue;
        }
        let n = n.value(row);
        if n == 0 {
            return Err(spark_error(
                "INVALID_INDEX_OF_ZERO",
                "the index 0 is invalid; an index counts from 1, or from the end if negative",
            ));
        }
        let parts: Vec<&str> = if d.value(row).is_empty() { vec![s.value(row)] } else { s.value(row).split(d.value(row)).collect() };
        let index =
            if n > 0 { usize::try_from(n - 1).ok() } else { parts.len().checked_sub(usize::try_from(-i64::from(n)).unwrap_or(usize::MAX)) };
        out.push(Some(index.and_then(|i| parts.get(i).copied()).unwrap_or("")));
    }
    Ok(Arc::new(StringArray::from(out)))
}

pub(super) fn substring_index<'s>(s: &'s str, delimiter: &str, count: i32) -> &'s str {
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

pub(super) fn overlay(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (s, r, p, n): (&StringArray, &StringArray, &Int32Array, &Int32Array) =
        (downcast(&args[0])?, downcast(&args[1])?, downcast(&args[2])?, downcast(&args[3])?);
    Ok(Arc::new(
        (0..s.len())
            .map(|row| {
                if args.iter().any(|a| a.is_null(row)) {
                    return None;
                }
                let (value, replacement) = (s.value(row), r.value(row));
                let characters = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
                let position = p.value(row);
                let length = match n.value(row) {
                    n if n < 0 => i32::try_from(characters(replacement)).unwrap_or(i32::MAX),
                    n => n,
                };
                // Two substrings around the replacement, which is what makes a position below one mean what it does in Spark.
                let part = |position: i32, length: i32| -> String {
                    let (from, to) = bounds(characters(value), position, length);
                    value.chars().skip(from).take(to - from).collect()
                };
                let head = part(1, position.wrapping_sub(1));
                let tail = part(position.wrapping_add(length), i32::MAX);
                Some(format!("{head}{replacement}{tail}"))
            })
            .collect::<StringArray>(),
    ))
}

pub(super) fn elt(args: &[ArrayRef], ansi: bool) -> DfResult<ArrayRef> {
    let index: &Int32Array = downcast(&args[0])?;
    let mut out: Vec<Option<&str>> = Vec::with_capacity(index.len());
    let options = args[1..].iter().map(downcast::<StringArray>).collect::<DfResult<Vec<_>>>()?;
    for row in 0..index.len() {
        if index.is_null(row) {
            out.push(None);
            continue;
        }
        let wanted = index.value(row);
        match usize::try_from(wanted.saturating_sub(1)).ok().and_then(|i| options.get(i)) {
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

pub(super) fn mask(args: &[ArrayRef]) -> DfResult<ArrayRef> {
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

pub(super) fn concat_binary(args: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let columns = args.iter().map(downcast::<BinaryArray>).collect::<DfResult<Vec<_>>>()?;
    Ok(Arc::new(
        (0..len)
            .map(|row| {
                columns.iter().all(|c| c.is_valid(row)).then(|| columns.iter().flat_map(|c| c.value(row)).copied().collect::<Vec<u8>>())
            })
            .collect::<BinaryArray>(),
    ))
}

/// The bytes of texts with a separator between them.
pub(super) fn joined(parts: &[impl AsRef<str>], separator: &str) -> usize {
    let own: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    own.saturating_add(separator.len().saturating_mul(parts.len().saturating_sub(1)))
}

pub(super) fn concat_ws(args: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let separator: &StringArray = downcast(&args[0])?;
    let mut budget = Budget::of_column("concat_ws");
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
        budget.bytes(joined(&parts, separator.value(row)))?;
        out.push(Some(parts.join(separator.value(row))));
    }
    Ok(Arc::new(StringArray::from(out)))
}

/// Sentences end at `.`, `!`, `?`; words are runs of letters, digits and apostrophes.
pub(super) fn sentences(array: &ArrayRef) -> DfResult<ArrayRef> {
    use arrow::array::{ListBuilder, StringBuilder};
    let strings: &StringArray = downcast(array)?;
    let mut out = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for s in strings {
        let Some(s) = s else {
            out.append(false);
            continue;
        };
        for sentence in s.split_inclusive(['.', '!', '?']) {
            let words: Vec<&str> = sentence.split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|w| !w.is_empty()).collect();
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

pub(super) fn luhn(s: &str) -> bool {
    if s.is_empty() || !s.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let sum: u32 = s
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, b)| {
            let digit = u32::from(b - b'0');
            if index % 2 == 0 {
                digit
            } else if digit > 4 {
                digit * 2 - 9
            } else {
                digit * 2
            }
        })
        .sum();
    sum.is_multiple_of(10)
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
