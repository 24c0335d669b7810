//! `${name}` in option values and SQL.
//!
//! Values come from `spec.parameters` and `-p`. `$${name}` stands for the text `${name}`.
//! Substitution is textual and happens once: values are not looked at again.

use std::collections::{BTreeMap, BTreeSet};

use crate::resource::{QuerySpec, SourceSpec, StreamingJobSpec};

/// A parameter without a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{name}` has no value")]
pub struct UndefinedParameter {
    /// Its name; empty for `${}`.
    pub name: String,
    /// Byte offset of `${` in the text.
    pub offset: usize,
}

/// A piece of a text with parameters, and its byte offset there.
enum Piece<'a> {
    Text(usize, &'a str),
    Parameter(usize, &'a str),
}

/// Takes a text apart. An escaped `$${name}` is text without its first `$`.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(at) = text[begin..].find("${").map(|at| begin + at) {
        let Some(end) = text[at..].find('}').map(|length| at + length) else { break };
        if text[begin..at].ends_with('$') {
            found.push(Piece::Text(begin, &text[begin..at - 1]));
            found.push(Piece::Text(at, &text[at..=end]));
        } else {
            found.push(Piece::Text(begin, &text[begin..at]));
            found.push(Piece::Parameter(at, text[at + 2..end].trim()));
        }
        begin = end + 1;
    }
    found.push(Piece::Text(begin, &text[begin..]));
    found
}

/// Replaces all parameters, or names all that have no value.
pub fn substitute(text: &str, parameters: &BTreeMap<String, String>) -> Result<String, Vec<UndefinedParameter>> {
    let mut result = String::with_capacity(text.len());
    let mut undefined = Vec::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(_, text) => result.push_str(text),
            Piece::Parameter(offset, name) => match parameters.get(name) {
                Some(value) => result.push_str(value),
                None => undefined.push(UndefinedParameter { name: name.to_owned(), offset }),
            },
        }
    }
    if undefined.is_empty() { Ok(result) } else { Err(undefined) }
}

/// Where what is at an offset of the replaced text stands in the text as it is written; inside a value, its parameter.
pub(super) fn written_offset(text: &str, parameters: &BTreeMap<String, String>, offset: usize) -> usize {
    let mut made = 0;
    for piece in pieces(text) {
        let (at, length) = match piece {
            Piece::Text(at, piece) => (at + offset.saturating_sub(made), piece.len()),
            Piece::Parameter(at, name) => (at, parameters.get(name).map_or(0, String::len)),
        };
        if offset < made + length {
            return at;
        }
        made += length;
    }
    text.len()
}

/// The spec with all parameters replaced in options, SQL and checkpoint locations. A parameter without a value stays as it is written; `weir check` refuses it.
pub fn substituted(spec: &StreamingJobSpec) -> StreamingJobSpec {
    let mut spec = spec.clone();
    let parameters = std::mem::take(&mut spec.parameters);
    let root = spec.checkpoint_root.iter_mut();
    let texts = spec.tasks.iter_mut().flat_map(|task| task.queries.iter_mut()).flat_map(texts_of);
    for text in root.chain(texts) {
        if let Ok(replaced) = substitute(text, &parameters) {
            *text = replaced;
        }
    }
    spec.parameters = parameters;
    spec
}

/// The names of all parameters that a spec uses.
pub fn used(spec: &StreamingJobSpec) -> BTreeSet<String> {
    let mut spec = spec.clone();
    let root = spec.checkpoint_root.iter_mut();
    let texts = spec.tasks.iter_mut().flat_map(|task| task.queries.iter_mut()).flat_map(texts_of);
    let undefined = root.chain(texts).filter_map(|text| substitute(text, &BTreeMap::new()).err());
    undefined.flatten().map(|one| one.name).collect()
}

/// All texts of a query that parameters stand in.
fn texts_of(query: &mut QuerySpec) -> impl Iterator<Item = &mut String> {
    let inputs = query.sources.iter_mut().chain(query.tables.iter_mut());
    inputs
        .flat_map(|source: &mut SourceSpec| source.options.values_mut())
        .chain(query.views.iter_mut().map(|view| &mut view.sql))
        .chain(query.observe.iter_mut().flat_map(|observe| observe.metrics.iter_mut().map(|metric| &mut metric.expr)))
        .chain(std::iter::once(&mut query.sql))
        .chain(query.sink.options.values_mut())
        .chain(query.bad_records.iter_mut().flat_map(|bad_records| bad_records.options.values_mut()))
        .chain(query.checkpoint_location.iter_mut())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn parameters() -> BTreeMap<String, String> {
        BTreeMap::from([("env".to_owned(), "prod".to_owned()), ("x".to_owned(), "${env}".to_owned())])
    }

    #[test]
    fn replaces_once_and_keeps_what_is_escaped() {
        let replace = |text| substitute(text, &parameters()).unwrap();
        assert_eq!(replace("s3://lake/${env}/in"), "s3://lake/prod/in");
        assert_eq!(replace("${x} $${env} $5 ${open"), "${env} ${env} $5 ${open");
    }

    #[test]
    fn a_place_in_the_replaced_text_is_found_in_the_written_one() {
        let written = "a ${env} $${env} b";
        let replaced = substitute(written, &parameters()).unwrap();
        assert_eq!(replaced, "a prod ${env} b");
        let offset = |text: &str| written_offset(written, &parameters(), replaced.find(text).unwrap());
        assert_eq!([offset("a"), offset("prod"), offset("rod"), offset("${env}"), offset("b")], [0, 2, 2, 10, 17]);
        assert_eq!(written_offset(written, &parameters(), replaced.len()), written.len());
    }

    #[test]
    fn names_everything_without_a_value() {
        let undefined = substitute("a ${one} b ${two}", &parameters()).unwrap_err();
        assert_eq!(undefined.len(), 2);
        assert_eq!((undefined[1].name.as_str(), undefined[1].offset), ("two", 11));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[$\\{}a-cé]{0,24}") {
            let length = substitute(&text, &parameters()).map_or(0, |replaced| replaced.len());
            for offset in 0..=length {
                prop_assert!(text.is_char_boundary(written_offset(&text, &parameters(), offset)) || !text.is_ascii());
            }
        }
    }
}
