//! Checking and casting of arguments.

use arrow::datatypes::DataType;
use weir_core::Error;

use crate::analyzer::{Analyzer, Typed};
use crate::types::quoted_type;

type Result<T> = std::result::Result<T, Error>;

/// The error for a wrong number of arguments.
pub fn wrong_count(name: &str, got: usize, wanted: &str) -> Error {
    Error::config(
        "WRONG_NUM_ARGS.WITHOUT_SUGGESTION",
        format!("{name} requires {wanted} arguments, but {got} were given; give it that many"),
    )
}

/// Checks the number of arguments.
pub fn count(name: &str, args: &[Typed], least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&args.len()) {
        return Ok(());
    }
    let wanted = match (least, most) {
        (a, b) if a == b => a.to_string(),
        (a, usize::MAX) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    };
    Err(wrong_count(name, args.len(), &wanted))
}

/// The error for an argument of a wrong type.
pub fn wrong_type(name: &str, arg: &Typed, wanted: &str) -> Error {
    Error::config(
        "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
        format!("{name} requires {wanted}, however \"{}\" has the type {}; CAST it", arg.name, quoted_type(&arg.ty)),
    )
}

/// Casts arguments one by one to the types given; further ones stay.
pub fn to_types(analyzer: &Analyzer, args: Vec<Typed>, types: &[DataType]) -> Result<Vec<Typed>> {
    args.into_iter()
        .enumerate()
        .map(|(i, a)| match types.get(i) {
            Some(ty) => analyzer.cast(a, ty),
            None => Ok(a),
        })
        .collect()
}

/// Casts all arguments to one type.
pub fn all_to(analyzer: &Analyzer, args: Vec<Typed>, ty: &DataType) -> Result<Vec<Typed>> {
    args.into_iter().map(|a| analyzer.cast(a, ty)).collect()
}
