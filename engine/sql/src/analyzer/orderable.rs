//! What cannot be ordered or compared: maps, and what holds maps.
//!
//! Spark refuses them wherever an order or an equality is needed, with a
//! condition per kind of place; only GROUP BY and count(DISTINCT ..) take them.

use arrow::datatypes::DataType;
use weir_core::Error;

use super::{Result, ScopeCol, Typed};
use crate::types::quoted_type;

/// Functions that order or compare their arguments or the elements of these.
const ORDERING: &[&str] = &[
    "array_contains",
    "array_distinct",
    "array_except",
    "array_intersect",
    "array_max",
    "array_min",
    "array_position",
    "array_remove",
    "array_sort",
    "array_union",
    "arrays_overlap",
    "greatest",
    "least",
    "sort_array",
];

pub(super) fn contains_map(ty: &DataType) -> bool {
    match ty {
        DataType::Map(..) => true,
        DataType::List(f) => contains_map(f.data_type()),
        DataType::Struct(fields) => fields.iter().any(|f| contains_map(f.data_type())),
        _ => false,
    }
}

/// Refuses a type without an order; `place` is the operator or function, `shown` the whole expression.
pub(super) fn check_order(place: &str, shown: &str, ty: &DataType) -> Result<()> {
    if !contains_map(ty) {
        return Ok(());
    }
    Err(Error::config(
        "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE",
        format!("cannot resolve \"{shown}\": `{place}` does not support ordering on type {}; use its keys or values", quoted_type(ty)),
    ))
}

/// Refuses the maps that a scalar function cannot take.
pub fn check_arguments(name: &str, args: &[Typed]) -> Result<()> {
    let shown = || format!("{name}({})", args.iter().map(|arg| arg.name.as_str()).collect::<Vec<_>>().join(", "));
    match name {
        "hash" | "xxhash64" if args.iter().any(|arg| contains_map(&arg.ty)) => Err(Error::config(
            "DATATYPE_MISMATCH.HASH_MAP_TYPE",
            format!("cannot resolve \"{}\": {name} cannot take maps, as equal maps may have different hashes; hash map_entries", shown()),
        )),
        "map" => match args.iter().step_by(2).find(|key| contains_map(&key.ty)) {
            Some(key) => Err(Error::config(
                "DATATYPE_MISMATCH.INVALID_MAP_KEY_TYPE",
                format!("cannot resolve \"{}\": the key of a map cannot be or contain {}", shown(), quoted_type(&key.ty)),
            )),
            None => Ok(()),
        },
        name if ORDERING.contains(&name) => args.iter().try_for_each(|arg| check_order(name, &shown(), &arg.ty)),
        _ => Ok(()),
    }
}

/// Refuses columns that DISTINCT or a set operation would have to compare.
pub(super) fn check_distinct<'c>(cols: impl IntoIterator<Item = &'c ScopeCol>) -> Result<()> {
    let Some(col) = cols.into_iter().find(|col| contains_map(&col.ty)) else { return Ok(()) };
    Err(Error::config(
        "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE",
        format!(
            "DISTINCT, UNION without ALL, INTERSECT and EXCEPT cannot compare maps, but the column `{}` is {}; use UNION ALL, or \
             leave the column out",
            col.name,
            quoted_type(&col.ty)
        ),
    ))
}
