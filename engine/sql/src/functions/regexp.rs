//! Regular expressions and LIKE, with Java's meaning where Rust's differs.
//!
//! `\d`, `\w` and `\s` are ASCII as in Java, `$1` in replacements is a group and
//! `\$` a dollar. Look-around and back-references do not exist in Weir's engine
//! and are refused with a sentence that says so.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use regex::Regex;
use weir_core::Error;

use super::args;
use super::bounds::Budget;
use crate::analyzer::{Analyzer, Typed};
use crate::error::{from_planning, spark_error};
use crate::types::list_of;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "like",
    "ilike",
    "rlike",
    "regexp",
    "regexp_like",
    "regexp_extract",
    "regexp_extract_all",
    "regexp_replace",
    "regexp_count",
    "regexp_instr",
    "regexp_substr",
    "split",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    let (text, int) = (DataType::Utf8, DataType::Int32);
    if !matches!(name, "like" | "ilike")
        && let Some(pattern) = list.get(1).and_then(Typed::text)
    {
        Patterns::default().get(name, pattern).map_err(from_planning)?;
    }
    let shown = format!("{name}({})", list.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", "));
    let call = match name {
        "like" | "ilike" => {
            args::count(name, &list, 2, 3)?;
            let escape = match list.get(2) {
                Some(escape) => escape.text().and_then(|e| e.chars().next()).unwrap_or('\\'),
                None => '\\',
            };
            list.truncate(2);
            let fold = name == "ilike";
            let list = args::all_to(a, list, &text)?;
            a.call(name, escape.to_string(), DataType::Boolean, &list, move |rows: Rows| like(rows.args, escape, fold))
        }
        "rlike" | "regexp" | "regexp_like" => {
            args::count(name, &list, 2, 2)?;
            let list = args::all_to(a, list, &text)?;
            let name = name.to_owned();
            a.call(&name.clone(), "", DataType::Boolean, &list, move |rows: Rows| {
                let (s, p): (&StringArray, &StringArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                let mut patterns = Patterns::default();
                let mut out = Vec::with_capacity(rows.len);
                for (s, p) in s.iter().zip(p) {
                    out.push(match (s, p) {
                        (Some(s), Some(p)) => Some(patterns.get(&name, p)?.is_match(s)),
                        _ => None,
                    });
                }
                Ok(Arc::new(BooleanArray::from(out)) as ArrayRef)
            })
        }
        "regexp_extract" | "regexp_extract_all" | "regexp_instr" => {
            args::count(name, &list, 2, 3)?;
            if list.len() == 2 {
                list.push(Typed::int(if name == "regexp_instr" { 0 } else { 1 }));
            }
            let list = args::to_types(a, list, &[text.clone(), text.clone(), int.clone()])?;
            let result = match name {
                "regexp_extract" => text,
                "regexp_instr" => int,
                _ => list_of(text),
            };
            let kind = name.to_owned();
            a.call(name, "", result, &list, move |rows: Rows| extract(&kind, rows.args, rows.len))
        }
        "regexp_replace" => {
            args::count(name, &list, 3, 4)?;
            if list.len() == 3 {
                list.push(Typed::int(1));
            }
            let list = args::to_types(a, list, &[text.clone(), text.clone(), text.clone(), int])?;
            a.call(name, "", text, &list, |rows: Rows| replace(rows.args, rows.len)).named(shown.clone())
        }
        "regexp_count" | "regexp_substr" => {
            args::count(name, &list, 2, 2)?;
            let list = args::all_to(a, list, &text)?;
            let count = name == "regexp_count";
            a.call(name, "", if count { int } else { text }, &list, move |rows: Rows| {
                let (s, p): (&StringArray, &StringArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                let mut patterns = Patterns::default();
                let (mut counts, mut found) = (Vec::new(), Vec::new());
                for (s, p) in s.iter().zip(p) {
                    let (Some(s), Some(p)) = (s, p) else {
                        counts.push(None);
                        found.push(None);
                        continue;
                    };
                    let pattern = patterns.get("regexp_count", p)?;
                    if count {
                        counts.push(i32::try_from(pattern.find_iter(s).count()).ok());
                    } else {
                        found.push(pattern.find(s).map(|m| m.as_str().to_owned()));
                    }
                }
                Ok(if count { Arc::new(Int32Array::from(counts)) as ArrayRef } else { Arc::new(StringArray::from(found)) })
            })
        }
        _ => {
            args::count(name, &list, 2, 3)?;
            if list.len() == 2 {
                list.push(Typed::int(-1));
            }
            let list = args::to_types(a, list, &[text.clone(), text.clone(), int])?;
            a.call(name, "", list_of(text), &list, |rows: Rows| {
                let (s, p, n): (&StringArray, &StringArray, &Int32Array) =
                    (downcast(&rows.args[0])?, downcast(&rows.args[1])?, downcast(&rows.args[2])?);
                let mut patterns = Patterns::default();
                let mut out = ListBuilder::new(StringBuilder::new());
                for row in 0..rows.len {
                    if s.is_null(row) || p.is_null(row) || n.is_null(row) {
                        out.append(false);
                        continue;
                    }
                    let pattern = patterns.get("split", p.value(row))?;
                    for part in split(&pattern, s.value(row), n.value(row)) {
                        out.values().append_value(part);
                    }
                    out.append(true);
                }
                Ok(Arc::new(out.finish()) as ArrayRef)
            })
        }
    };
    Ok(call.may_fail())
}

/// Compiled patterns of one call.
#[derive(Default)]
pub struct Patterns(HashMap<String, Arc<Regex>>);

impl Patterns {
    /// The compiled form of a Java pattern.
    pub fn get(&mut self, function: &str, pattern: &str) -> DfResult<Arc<Regex>> {
        if let Some(known) = self.0.get(pattern) {
            return Ok(Arc::clone(known));
        }
        let compiled = Regex::new(&from_java(pattern)).map_err(|e| {
            let reason = if pattern.contains("(?=") || pattern.contains("(?!") || pattern.contains("(?<=") || pattern.contains("(?<!") {
                "look-around is not supported; match what is around as well and take the part with regexp_extract(text, pattern, group)"
                    .to_owned()
            } else {
                e.to_string().lines().last().unwrap_or_default().to_owned()
            };
            spark_error("INVALID_PARAMETER_VALUE.PATTERN", format!("the pattern '{pattern}' of {function} is invalid: {reason}"))
        })?;
        let compiled = Arc::new(compiled);
        self.0.insert(pattern.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

/// A Java pattern in Rust's syntax.
fn from_java(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut class = 0;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[a-zA-Z_0-9]"),
                Some('W') => out.push_str("[^a-zA-Z_0-9]"),
                Some('s') => out.push_str("[ \\t\\n\\x0B\\f\\r]"),
                Some('S') => out.push_str("[^ \\t\\n\\x0B\\f\\r]"),
                Some('h') => out.push_str("[ \\t\\u{A0}]"),
                Some('Z') => out.push_str("(?:\\n?\\z)"),
                Some('Q') => {
                    let mut quoted = String::new();
                    while let Some(c) = chars.next() {
                        if c == '\\' && chars.peek() == Some(&'E') {
                            chars.next();
                            break;
                        }
                        quoted.push(c);
                    }
                    out.push_str(&regex::escape(&quoted));
                }
                Some('u') => {
                    let hex: String = chars.clone().take(4).collect();
                    if hex.len() == 4 && u32::from_str_radix(&hex, 16).is_ok() {
                        chars.nth(3);
                        out.push_str(&format!("\\u{{{hex}}}"));
                    } else {
                        out.push('u');
                    }
                }
                Some(c) if c.is_ascii_punctuation() || c.is_alphanumeric() => {
                    out.push('\\');
                    out.push(c);
                }
                Some(c) => out.push(c),
                None => out.push_str("\\\\"),
            },
            '[' => {
                class += 1;
                out.push('[');
                // `[]abc]` and `[^]abc]` are not Java; a bare `[` inside a class is.
            }
            ']' if class > 0 => {
                class -= 1;
                out.push(']');
            }
            c => out.push(c),
        }
    }
    out
}

/// Splits as Java does with this limit: trailing empty parts stay with -1.
pub fn split(pattern: &Regex, text: &str, limit: i32) -> Vec<String> {
    let mut out = Vec::new();
    let mut start = 0;
    for found in pattern.find_iter(text) {
        if limit > 0 && out.len() + 1 == usize::try_from(limit).unwrap_or(usize::MAX) {
            break;
        }
        // A match of nothing at the start makes no empty part.
        if found.end() == 0 {
            continue;
        }
        if found.is_empty() && found.start() >= text.len() {
            continue;
        }
        out.push(text[start..found.start()].to_owned());
        start = found.end();
    }
    out.push(text[start..].to_owned());
    out
}

fn group_error(function: &str, index: i32, groups: usize) -> datafusion::common::DataFusionError {
    spark_error(
        "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX",
        format!("{function} was asked for group {index}, but the pattern has {groups} groups; give a number from 0 to {groups}"),
    )
}

fn extract(kind: &str, columns: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let (s, p, g): (&StringArray, &StringArray, &Int32Array) = (downcast(&columns[0])?, downcast(&columns[1])?, downcast(&columns[2])?);
    let mut patterns = Patterns::default();
    let (mut one, mut position) = (Vec::new(), Vec::new());
    let mut all = ListBuilder::new(StringBuilder::new());
    for row in 0..len {
        if s.is_null(row) || p.is_null(row) || g.is_null(row) {
            one.push(None);
            position.push(None);
            all.append(false);
            continue;
        }
        let pattern = patterns.get(kind, p.value(row))?;
        let groups = pattern.captures_len() - 1;
        let group = usize::try_from(g.value(row)).ok().filter(|g| *g <= groups);
        let Some(group) = group else { return Err(group_error(kind, g.value(row), groups)) };
        let text = s.value(row);
        match kind {
            "regexp_extract" => {
                let found = pattern.captures(text).and_then(|c| c.get(group)).map_or("", |m| m.as_str());
                one.push(Some(found.to_owned()));
            }
            "regexp_instr" => {
                let at = pattern.find(text).map_or(0, |m| text[..m.start()].chars().count() + 1);
                position.push(i32::try_from(at).ok());
            }
            _ => {
                for captures in pattern.captures_iter(text) {
                    all.values().append_value(captures.get(group).map_or("", |m| m.as_str()));
                }
                all.append(true);
            }
        }
    }
    Ok(match kind {
        "regexp_extract" => Arc::new(StringArray::from(one)),
        "regexp_instr" => Arc::new(Int32Array::from(position)),
        _ => Arc::new(all.finish()),
    })
}

/// A replacement that is worth a look at how often it would be made.
const LONG_REPLACEMENT: usize = 1024;

fn replace(columns: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let (s, p, r, from): (&StringArray, &StringArray, &StringArray, &Int32Array) =
        (downcast(&columns[0])?, downcast(&columns[1])?, downcast(&columns[2])?, downcast(&columns[3])?);
    let mut patterns = Patterns::default();
    let mut budget = Budget::of_column("regexp_replace");
    let mut out = Vec::with_capacity(len);
    for row in 0..len {
        if columns.iter().any(|c| c.is_null(row)) {
            out.push(None);
            continue;
        }
        let pattern = patterns.get("regexp_replace", p.value(row))?;
        let text = s.value(row);
        if from.value(row) < 1 {
            return Err(spark_error("INVALID_PARAMETER_VALUE.POSITION", "the position of regexp_replace counts from 1"));
        }
        let skip = usize::try_from(from.value(row) - 1).unwrap_or(0);
        let start = text.char_indices().nth(skip).map_or(text.len(), |(at, _)| at);
        if r.value(row).len() > LONG_REPLACEMENT {
            // Judged before it is made; shorter ones are counted as they come.
            let matches = pattern.find_iter(&text[start..]).count();
            Budget::of_column("regexp_replace").bytes(matches.saturating_mul(r.value(row).len()))?;
        }
        let mut made = text[..start].to_owned();
        let mut last = start;
        for captures in pattern.captures_iter(&text[start..]) {
            let Some(whole) = captures.get(0) else { continue };
            let before = made.len();
            made.push_str(&text[last..start + whole.start()]);
            expand(&mut made, r.value(row), &captures)?;
            budget.bytes(made.len() - before)?;
            last = start + whole.end();
        }
        made.push_str(&text[last..]);
        out.push(Some(made));
    }
    Ok(Arc::new(StringArray::from(out)))
}

/// Java's replacement syntax: `$1`, `${name}`, `\` quotes the next character.
fn expand(out: &mut String, replacement: &str, captures: &regex::Captures) -> DfResult<()> {
    let mut chars = replacement.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '$' if chars.peek() == Some(&'{') => {
                chars.next();
                let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
                out.push_str(captures.name(&name).map_or("", |m| m.as_str()));
            }
            '$' => {
                let mut group = match chars.next().and_then(|c| c.to_digit(10)) {
                    Some(digit) => usize::try_from(digit).unwrap_or(0),
                    None => {
                        return Err(spark_error(
                            "INVALID_PARAMETER_VALUE.PATTERN",
                            "a `$` in a replacement needs a group number; write `\\\\$` for a dollar",
                        ));
                    }
                };
                if group >= captures.len() {
                    return Err(group_error("regexp_replace", i32::try_from(group).unwrap_or(0), captures.len() - 1));
                }
                while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                    let more = group * 10 + usize::try_from(digit).unwrap_or(0);
                    if more >= captures.len() {
                        break;
                    }
                    group = more;
                    chars.next();
                }
                out.push_str(captures.get(group).map_or("", |m| m.as_str()));
            }
            c => out.push(c),
        }
    }
    Ok(())
}

fn like(columns: &[ArrayRef], escape: char, fold: bool) -> DfResult<ArrayRef> {
    let (s, p): (&StringArray, &StringArray) = (downcast(&columns[0])?, downcast(&columns[1])?);
    let mut known: HashMap<String, Regex> = HashMap::new();
    let mut out = Vec::with_capacity(s.len());
    for (s, p) in s.iter().zip(p) {
        let (Some(s), Some(p)) = (s, p) else {
            out.push(None);
            continue;
        };
        if !known.contains_key(p) {
            known.insert(p.to_owned(), like_pattern(p, escape, fold)?);
        }
        out.push(known.get(p).map(|r| r.is_match(s)));
    }
    Ok(Arc::new(BooleanArray::from(out)))
}

fn like_pattern(pattern: &str, escape: char, fold: bool) -> DfResult<Regex> {
    let mut out = String::from(if fold { "(?si)\\A" } else { "(?s)\\A" });
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == escape {
            match chars.next() {
                Some(next) if next == '%' || next == '_' || next == escape => out.push_str(&regex::escape(&next.to_string())),
                Some(_) => {
                    return Err(spark_error(
                        "INVALID_FORMAT.ESC_IN_THE_MIDDLE",
                        format!("the escape character in '{pattern}' must stand before %, _ or itself"),
                    ));
                }
                None => {
                    return Err(spark_error(
                        "INVALID_FORMAT.ESC_AT_THE_END",
                        format!("the pattern '{pattern}' ends with the escape character"),
                    ));
                }
            }
            continue;
        }
        match c {
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            c => out.push_str(&regex::escape(&c.to_string())),
        }
    }
    out.push_str("\\z");
    Regex::new(&out).map_err(|e| spark_error("INVALID_PARAMETER_VALUE.PATTERN", e.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn splits_as_java_does() {
        let comma = Regex::new(",").unwrap();
        assert_eq!(split(&comma, "a,b,,c,", -1), ["a", "b", "", "c", ""]);
        assert_eq!(split(&comma, "a,b,c", 2), ["a", "b,c"]);
        assert_eq!(split(&comma, "", -1), [""]);
        assert_eq!(split(&Regex::new("").unwrap(), "abc", -1), ["a", "b", "c"]);
    }

    #[test]
    fn classes_are_ascii() {
        let pattern = Regex::new(&from_java(r"[\d.]+\w")).unwrap();
        assert!(pattern.is_match("1.5a"));
        assert!(!Regex::new(&from_java(r"^\w$")).unwrap().is_match("é"));
    }
}
