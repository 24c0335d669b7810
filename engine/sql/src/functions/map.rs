//! Maps.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, ListArray, MapArray, StringArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::DataType;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{DataFusionError, Result as DfResult};
use weir_core::Error;

use super::args;
use super::collection::{Keys, element, span};
use crate::analyzer::{Analyzer, Typed};
use crate::error::spark_error;
use crate::types::{list_field, list_of, map_field, map_of, map_types, struct_of};
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "map",
    "map_from_arrays",
    "map_from_entries",
    "map_keys",
    "map_values",
    "map_entries",
    "map_concat",
    "map_contains_key",
    "str_to_map",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    match name {
        "map" => {
            if !list.len().is_multiple_of(2) {
                return Err(args::wrong_count(name, list.len(), "2n (n > 0)"));
            }
            let shown = format!("map({})", list.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", "));
            if list.is_empty() {
                let result = map_of(DataType::Null, DataType::Null);
                return Ok(a
                    .call(name, "", result, &[Typed::null()], |rows: Rows| {
                        let none = arrow::array::new_null_array(&DataType::Null, 0);
                        make_map(Arc::clone(&none), none, vec![0; rows.len], None)
                    })
                    .named(shown));
            }
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            for (index, arg) in list.into_iter().enumerate() {
                if index % 2 == 0 { keys.push(arg) } else { values.push(arg) }
            }
            let keys = a.to_common(name, keys)?;
            let values = a.to_common(name, values)?;
            let result = map_of(keys[0].ty.clone(), values[0].ty.clone());
            let pairs = keys.len();
            let all: Vec<Typed> = keys.into_iter().chain(values).collect();
            Ok(a.call(name, "", result, &all, move |rows: Rows| {
                let order: Vec<(usize, usize)> = (0..rows.len).flat_map(|row| (0..pairs).map(move |c| (c, row))).collect();
                let side = |columns: &[ArrayRef]| {
                    let arrays: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
                    interleave(&arrays, &order)
                };
                make_map(side(&rows.args[..pairs])?, side(&rows.args[pairs..])?, vec![pairs; rows.len], None)
            })
            .named(shown)
            .may_fail())
        }
        "map_from_arrays" => {
            args::count(name, &list, 2, 2)?;
            let result = map_of(element(name, &list[0])?, element(name, &list[1])?);
            Ok(a.call(name, "", result, &list, |rows: Rows| {
                let (k, v): (&ListArray, &ListArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                let (mut ki, mut vi, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                for row in 0..rows.len {
                    let (Some(ks), Some(vs)) = (span(k, row), span(v, row)) else {
                        lengths.push(0);
                        valid.push(false);
                        continue;
                    };
                    if ks.len() != vs.len() {
                        return Err(spark_error("_LEGACY_ERROR_TEMP_2008", "the arrays of keys and of values have different lengths"));
                    }
                    lengths.push(ks.len());
                    valid.push(true);
                    ki.extend(ks.map(|i| u32::try_from(i).unwrap_or(0)));
                    vi.extend(vs.map(|i| u32::try_from(i).unwrap_or(0)));
                }
                make_map(
                    take(k.values(), &UInt32Array::from(ki), None)?,
                    take(v.values(), &UInt32Array::from(vi), None)?,
                    lengths,
                    Some(NullBuffer::from(valid)),
                )
            })
            .may_fail())
        }
        "map_from_entries" => {
            args::count(name, &list, 1, 1)?;
            let item = element(name, &list[0])?;
            let DataType::Struct(fields) = &item else {
                return Err(args::wrong_type(name, &list[0], "an array of pairs"));
            };
            if fields.len() != 2 {
                return Err(args::wrong_type(name, &list[0], "an array of pairs"));
            }
            let result = map_of(fields[0].data_type().clone(), fields[1].data_type().clone());
            Ok(a.call(name, "", result, &list, |rows: Rows| {
                let entries: &ListArray = downcast(&rows.args[0])?;
                let pairs: &StructArray = downcast(entries.values())?;
                let (mut picked, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
                for row in 0..entries.len() {
                    // A null entry makes the whole map null.
                    match span(entries, row).filter(|s| s.clone().all(|i| pairs.is_valid(i))) {
                        Some(span) => {
                            lengths.push(span.len());
                            valid.push(true);
                            picked.extend(span.map(|i| u32::try_from(i).unwrap_or(0)));
                        }
                        None => {
                            lengths.push(0);
                            valid.push(false);
                        }
                    }
                }
                let picked = UInt32Array::from(picked);
                make_map(
                    take(pairs.column(0), &picked, None)?,
                    take(pairs.column(1), &picked, None)?,
                    lengths,
                    Some(NullBuffer::from(valid)),
                )
            })
            .may_fail())
        }
        "map_keys" | "map_values" | "map_entries" => {
            args::count(name, &list, 1, 1)?;
            let (key, value) = types(name, &list[0])?;
            let kind = name.to_owned();
            let item = match name {
                "map_keys" => key,
                "map_values" => value,
                _ => struct_of([("key", key), ("value", value)]),
            };
            Ok(a.call(name, "", list_of(item.clone()), &list, move |rows: Rows| {
                let map: &MapArray = downcast(&rows.args[0])?;
                let values: ArrayRef = match kind.as_str() {
                    "map_keys" => Arc::clone(map.keys()),
                    "map_values" => Arc::clone(map.values()),
                    _ => {
                        let DataType::Struct(fields) = &item else {
                            return Err(DataFusionError::Internal("entries are structs".to_owned()));
                        };
                        Arc::new(StructArray::try_new(fields.clone(), vec![Arc::clone(map.keys()), Arc::clone(map.values())], None)?)
                    }
                };
                Ok(Arc::new(ListArray::try_new(list_field(item.clone()), map.offsets().clone(), values, map.nulls().cloned())?) as ArrayRef)
            }))
        }
        "map_concat" => {
            if list.is_empty() {
                return build(a, "map", vec![]);
            }
            let list = a.to_common(name, list)?;
            types(name, &list[0])?;
            let ty = list[0].ty.clone();
            Ok(a.call(name, "", ty, &list, |rows: Rows| concat_maps(rows.args, rows.len)).may_fail())
        }
        "map_contains_key" => {
            args::count(name, &list, 2, 2)?;
            let (key, _) = types(name, &list[0])?;
            list[1] = a.cast(list[1].clone(), &key)?;
            Ok(a.call(name, "", DataType::Boolean, &list, |rows: Rows| {
                let map: &MapArray = downcast(&rows.args[0])?;
                let found = find_keys(map, &rows.args[1])?;
                Ok(Arc::new(
                    found
                        .into_iter()
                        .enumerate()
                        .map(|(row, f)| (map.is_valid(row) && rows.args[1].is_valid(row)).then_some(f.is_some()))
                        .collect::<BooleanArray>(),
                ) as ArrayRef)
            }))
        }
        _ => {
            args::count(name, &list, 1, 3)?;
            for default in [",", ":"].iter().skip(list.len() - 1) {
                list.push(Typed::string(*default));
            }
            let list = args::all_to(a, list, &DataType::Utf8)?;
            Ok(a.call(name, "", map_of(DataType::Utf8, DataType::Utf8), &list, |rows: Rows| str_to_map(rows.args, rows.len)).may_fail())
        }
    }
}

fn types(name: &str, arg: &Typed) -> Result<(DataType, DataType)> {
    map_types(&arg.ty).map(|(k, v)| (k.clone(), v.clone())).ok_or_else(|| args::wrong_type(name, arg, "a map"))
}

/// A map array; duplicate and null keys are errors, as in Spark.
pub fn make_map(keys: ArrayRef, values: ArrayRef, lengths: Vec<usize>, nulls: Option<NullBuffer>) -> DfResult<ArrayRef> {
    if keys.null_count() > 0 || (keys.data_type() == &DataType::Null && !keys.is_empty()) {
        return Err(spark_error("NULL_MAP_KEY", "a key of a map cannot be null"));
    }
    if !keys.is_empty() {
        let order = Keys::new(&keys)?;
        let mut start = 0;
        for length in &lengths {
            let mut seen: HashSet<OwnedRow> = HashSet::with_capacity(*length);
            for index in start..start + length {
                if !seen.insert(order.key(index)) {
                    return Err(spark_error(
                        "DUPLICATED_MAP_KEY",
                        format!(
                            "duplicate map key {} was found",
                            crate::cast::to_strings(&keys.slice(index, 1), weir_decode::time::Zone::UTC, None)?.value(0)
                        ),
                    ));
                }
            }
            start += length;
        }
    }
    let field = map_field(keys.data_type().clone(), values.data_type().clone());
    let DataType::Struct(fields) = field.data_type().clone() else {
        return Err(DataFusionError::Internal("entries are structs".to_owned()));
    };
    let entries = if keys.data_type() == &DataType::Null {
        // An empty map of nothing: the key type is never seen.
        StructArray::new(fields, vec![keys, values], None)
    } else {
        StructArray::try_new(fields, vec![keys, values], None)?
    };
    Ok(Arc::new(MapArray::try_new(field, OffsetBuffer::from_lengths(lengths), entries, nulls.filter(|n| n.null_count() > 0), false)?))
}

/// The value of a key, or null.
pub fn map_lookup(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let map: &MapArray = downcast(&args[0])?;
    let rows = find_keys(map, &args[1])?;
    Ok(take(map.values(), &UInt32Array::from(rows), None)?)
}

/// The position of each row's key among the map's entries.
pub fn find_keys(map: &MapArray, keys: &ArrayRef) -> DfResult<Vec<Option<u32>>> {
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let known = converter.convert_columns(&[Arc::clone(map.keys())])?;
    let wanted = converter.convert_columns(&[Arc::clone(keys)])?;
    let offsets = map.value_offsets();
    Ok((0..map.len())
        .map(|row| {
            if map.is_null(row) || keys.is_null(row) {
                return None;
            }
            let range = usize::try_from(offsets[row]).ok()?..usize::try_from(offsets[row + 1]).ok()?;
            range.into_iter().find(|i| known.row(*i) == wanted.row(row)).and_then(|i| u32::try_from(i).ok())
        })
        .collect())
}

/// The positions of a row's entries; `None` for a null map.
pub fn entry_span(map: &MapArray, row: usize) -> Option<std::ops::Range<usize>> {
    if map.is_null(row) {
        return None;
    }
    let offsets = map.value_offsets();
    Some(usize::try_from(offsets[row]).ok()?..usize::try_from(offsets[row + 1]).ok()?)
}

fn concat_maps(columns: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let maps = columns.iter().map(downcast::<MapArray>).collect::<DfResult<Vec<_>>>()?;
    let keys: Vec<&dyn Array> = maps.iter().map(|m| m.keys().as_ref()).collect();
    let values: Vec<&dyn Array> = maps.iter().map(|m| m.values().as_ref()).collect();
    let (keys, values) = (concat(&keys)?, concat(&values)?);
    let (mut picked, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..len {
        let spans: Option<Vec<_>> = maps.iter().map(|m| entry_span(m, row)).collect();
        let Some(spans) = spans else {
            lengths.push(0);
            valid.push(false);
            continue;
        };
        let (mut start, before) = (0, picked.len());
        for (map, span) in maps.iter().zip(spans) {
            picked.extend(span.map(|i| u32::try_from(start + i).unwrap_or(0)));
            start += map.keys().len();
        }
        lengths.push(picked.len() - before);
        valid.push(true);
    }
    let picked = UInt32Array::from(picked);
    make_map(take(&keys, &picked, None)?, take(&values, &picked, None)?, lengths, Some(NullBuffer::from(valid)))
}

fn str_to_map(columns: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let texts = columns.iter().map(downcast::<StringArray>).collect::<DfResult<Vec<_>>>()?;
    let (mut keys, mut values, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut patterns = super::regexp::Patterns::default();
    for row in 0..len {
        if texts.iter().any(|t| t.is_null(row)) {
            lengths.push(0);
            valid.push(false);
            continue;
        }
        let between = patterns.get("str_to_map", texts[1].value(row))?;
        let pairs = super::regexp::split(&between, texts[0].value(row), -1);
        let by = patterns.get("str_to_map", texts[2].value(row))?;
        lengths.push(pairs.len());
        valid.push(true);
        for pair in pairs {
            let mut parts = super::regexp::split(&by, &pair, 2).into_iter();
            keys.push(parts.next().unwrap_or_default());
            values.push(parts.next());
        }
    }
    make_map(Arc::new(StringArray::from(keys)), Arc::new(StringArray::from(values)), lengths, Some(NullBuffer::from(valid)))
}
