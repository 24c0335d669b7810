//! Spark's printed form of expressions that are not functions.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

/// The parts of a dotted name, without quotes.
pub fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().map(|p| p.as_ident().map_or_else(|| p.to_string(), |i| i.value.clone())).collect()
}

/// The parts of a compound identifier.
pub fn idents(idents: &[Ident]) -> Vec<String> {
    idents.iter().map(|i| i.value.clone()).collect()
}

/// `name(a, b)`.
pub fn call<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> String {
    let args: Vec<_> = args.into_iter().collect();
    format!("{name}({})", args.join(", "))
}
