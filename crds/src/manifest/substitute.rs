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

/// Replaces all parameters, or names all that have no value.
pub fn substitute(text: &str, parameters: &BTreeMap<String, String>) -> Result<String, Vec<UndefinedParameter>> {
    let mut result = String::with_capacity(text.len());
    let mut undefined = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let offset = text.len() - rest.len() + at;
        let Some(length) = rest[at + 2..].find('}') else { break };
        let name = &rest[at + 2..at + 2 + length];
        let tail = &rest[at + 2 + length + 1..];
        if let Some(before) = rest[..at].strip_suffix('$') {
            result.push_str(before);
            result.push_str(&rest[at..at + 2 + length + 1]);
        } else {
            result.push_str(&rest[..at]);
            match parameters.get(name.trim()) {
                Some(value) => result.push_str(value),
                None => undefined.push(UndefinedParameter { name: name.trim().to_owned(), offset }),
            }
        }
        rest = tail;
    }
    result.push_str(rest);
    if undefined.is_empty() { Ok(result) } else { Err(undefined) }
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
    fn names_everything_without_a_value() {
        let undefined = substitute("a ${one} b ${two}", &parameters()).unwrap_err();
        assert_eq!(undefined.len(), 2);
        assert_eq!((undefined[1].name.as_str(), undefined[1].offset), ("two", 11));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[$\\{}a-cé]{0,24}") {
            let _ = substitute(&text, &parameters());
        }
    }
}
