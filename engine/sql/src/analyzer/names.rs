//! Spark's printed form of names and calls, which is the column name of an
//! expression without an alias.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

use super::Typed;

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

/// Functions that Spark prints in upper case.
const UPPER: &[&str] = &[
    "sqrt",
    "cbrt",
    "exp",
    "expm1",
    "ln",
    "log",
    "log10",
    "log2",
    "log1p",
    "power",
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "atan2",
    "hypot",
    "degrees",
    "radians",
    "pi",
    "e",
    "regexp_like",
];

/// A call of a scalar function; defaults of arguments left out are shown too.
pub fn function(name: &str, args: &[Typed]) -> String {
    let shown: Vec<&str> = args.iter().map(|a| a.name.as_str()).collect();
    let list = shown.join(", ");
    let defaults = match (name, args.len()) {
        ("substr" | "substring", 2) => ", 2147483647",
        ("replace", 2) => ", ",
        ("locate" | "position", 2) | ("regexp_replace", 3) | ("regexp_extract" | "regexp_extract_all", 2) => ", 1",
        ("split", 2) | ("overlay", 3) => ", -1",
        ("mask", 1) => ", X, x, n, NULL",
        ("mask", 2) => ", x, n, NULL",
        ("mask", 3) => ", n, NULL",
        ("mask", 4) => ", NULL",
        ("sentences", 1) => ", , ",
        ("regexp_instr", 2) => ", 0",
        ("str_to_map", 1) => ", ,, :",
        ("str_to_map", 2) => ", :",
        ("sort_array", 1) => ", true",
        ("lpad" | "rpad", 2) => ",  ",
        _ => "",
    };
    match name {
        "if" => format!("(IF({list}))"),
        name if UPPER.contains(&name) => format!("{}({list}{defaults})", name.to_uppercase()),
        name => format!("{name}({list}{defaults})"),
    }
}
