//! Arrays and structs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::DataType;
use arrow::row::{OwnedRow, RowConverter, Rows as KeyRows, SortField};
use datafusion::common::Result as DfResult;
use weir_core::Error;

use super::args;
use super::bounds::{Blame, Budget, width};
use super::sets::{concat_lists, flatten, overlap, set_operation};
use super::text::joined as joined_size;
use crate::analyzer::{Analyzer, Typed, coerce};
use crate::error::spark_error;
use crate::types::{list_field, list_of, map_types, quoted_type, struct_of};
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// Bytes of a position in an array that is being gathered.
const ITEM_BYTES: usize = 8;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "array",
    "struct",
    "named_struct",
    "size",
    "cardinality",
    "array_size",
    "get",
    "element_at",
    "try_element_at",
    "array_contains",
    "array_distinct",
    "array_union",
    "array_intersect",
    "array_except",
    "array_join",
    "array_max",
    "array_min",
    "array_position",
    "array_remove",
    "array_sort",
    "sort_array",
    "array_append",
    "array_prepend",
    "array_insert",
    "array_compact",
    "array_repeat",
    "arrays_zip",
    "arrays_overlap",
    "flatten",
    "slice",
    "sequence",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    match name {
        "array" => {
            if list.is_empty() {
                let result = list_of(DataType::Null);
                return Ok(a
                    .call(name, "", result, &[Typed::null()], |rows: Rows| {
                        Ok(Arc::new(ListArray::try_new(
                            list_field(DataType::Null),
                            OffsetBuffer::from_lengths(vec![0; rows.len]),
                            arrow::array::new_null_array(&DataType::Null, 0),
                            None,
                        )?) as ArrayRef)
                    })
                    .named("array()"));
            }
            let shown: Vec<_> = list.iter().map(|l| l.name.clone()).collect();
            let list = a.to_common(name, list)?;
            let result = list_of(list[0].ty.clone());
            Ok(a.call(name, "", result, &list, |rows: Rows| make_list(rows.args, rows.len)).named(format!("array({})", shown.join(", "))))
        }
        "struct" | "named_struct" => super::structs::structs(a, name, list),
        "size" | "cardinality" | "array_size" => {
            args::count(name, &list, 1, 1)?;
            let null = if a.conf.ansi || name == "array_size" { None } else { Some(-1) };
            match list[0].ty {
                DataType::List(_) | DataType::Map(..) => {}
                DataType::Null => list[0] = a.cast(list[0].clone(), &list_of(DataType::Null))?,
                _ => return Err(args::wrong_type(name, &list[0], "an array or a map")),
            }
            Ok(a.call(name, format!("{null:?}"), DataType::Int32, &list, move |rows: Rows| sizes(&rows.args[0], null)))
        }
        "get" => {
            args::count(name, &list, 2, 2)?;
            let item = element(name, &list[0])?;
            list[1] = a.cast(list[1].clone(), &DataType::Int64)?;
            Ok(a.call(name, "", item, &list, |rows: Rows| super::nested::list_item(rows.args, false)))
        }
        "element_at" | "try_element_at" => {
            args::count(name, &list, 2, 2)?;
            if let Some((key, value)) = map_types(&list[0].ty).map(|(k, v)| (k.clone(), v.clone())) {
                list[1] = a.cast(list[1].clone(), &key)?;
                return Ok(a.call(name, "", value, &list, |rows: Rows| super::map::map_lookup(rows.args)));
            }
            let item = element(name, &list[0])?;
            list[1] = a.cast(list[1].clone(), &DataType::Int64)?;
            let ansi = a.conf.ansi && name == "element_at";
            Ok(a.call(name, ansi.to_string(), item, &list, move |rows: Rows| element_at(rows.args, ansi)).may_fail())
        }
        "array_join" => {
            args::count(name, &list, 2, 3)?;
            list[0] = a.cast(list[0].clone(), &list_of(DataType::Utf8))?;
            for other in &mut list[1..] {
                *other = a.cast(other.clone(), &DataType::Utf8)?;
            }
            Ok(a.call(name, "", DataType::Utf8, &list, |rows: Rows| join(rows.args)))
        }
        "array_max" | "array_min" => {
            args::count(name, &list, 1, 1)?;
            let item = element(name, &list[0])?;
            let greatest = name == "array_max";
            Ok(a.call(name, "", item, &list, move |rows: Rows| {
                let items: &ListArray = downcast(&rows.args[0])?;
                let keys = Keys::new(items.values())?;
                let picked: Vec<Option<u32>> = (0..items.len())
                    .map(|row| {
                        let range = span(items, row)?;
                        let valid = range.filter(|i| items.values().is_valid(*i));
                        let best =
                            if greatest { valid.max_by(|l, r| keys.compare(*l, *r)) } else { valid.min_by(|l, r| keys.compare(*l, *r)) };
                        best.and_then(|i| u32::try_from(i).ok())
                    })
                    .collect();
                Ok(take(items.values(), &UInt32Array::from(picked), None)?)
            }))
        }
        "array_contains" | "array_position" | "array_remove" | "array_append" | "array_prepend" | "array_insert" | "array_repeat" => {
            with_element(a, name, list)
        }
        "array_distinct" | "array_compact" | "sort_array" | "array_sort" | "reverse" | "slice" | "flatten" => single(a, name, list),
        "array_union" | "array_intersect" | "array_except" | "arrays_overlap" | "concat" => {
            args::count(name, &list, if name == "concat" { 1 } else { 2 }, if name == "concat" { usize::MAX } else { 2 })?;
            let list = a.to_common(name, list)?;
            element(name, &list[0])?;
            let ty = list[0].ty.clone();
            match name {
                "concat" => {
                    let shown = format!("concat({})", list.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", "));
                    Ok(a.call(name, "", ty, &list, |rows: Rows| concat_lists(rows.args, rows.len)).named(shown))
                }
                "arrays_overlap" => Ok(a.call(name, "", DataType::Boolean, &list, |rows: Rows| overlap(rows.args))),
                _ => {
                    let kind = name.to_owned();
                    Ok(a.call(name, "", ty, &list, move |rows: Rows| set_operation(&kind, rows.args)))
                }
            }
        }
        "arrays_zip" => zip(a, list),
        _ => super::sequence::build(a, list),
    }
}

/// The type of an array's elements.
pub fn element(name: &str, arg: &Typed) -> Result<DataType> {
    match &arg.ty {
        DataType::List(item) => Ok(item.data_type().clone()),
        _ => Err(args::wrong_type(name, arg, "an array")),
    }
}

/// Values of any type in Spark's order and equality.
pub struct Keys(KeyRows);

impl Keys {
    /// The keys of an array; floats have one zero and one NaN.
    pub fn new(array: &ArrayRef) -> DfResult<Self> {
        let array = match array.data_type() {
            DataType::Float32 | DataType::Float64 => super::math::normalize(array)?,
            _ => Arc::clone(array),
        };
        let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
        Ok(Self(converter.convert_columns(&[array])?))
    }

    /// The order of two values, nulls first.
    pub fn compare(&self, l: usize, r: usize) -> std::cmp::Ordering {
        self.0.row(l).cmp(&self.0.row(r))
    }

    /// The key of a value.
    pub fn key(&self, index: usize) -> OwnedRow {
        self.0.row(index).owned()
    }
}

/// The positions of a row's elements; `None` for a null list.
pub fn span(list: &ListArray, row: usize) -> Option<std::ops::Range<usize>> {
    if list.is_null(row) {
        return None;
    }
    let offsets = list.value_offsets();
    Some(usize::try_from(offsets[row]).ok()?..usize::try_from(offsets[row + 1]).ok()?)
}

/// A list array out of chosen elements of another; `None` is a null list.
pub fn pick_lists(values: &ArrayRef, rows: &[Option<Vec<Option<u32>>>]) -> DfResult<ArrayRef> {
    let indexes: Vec<Option<u32>> = rows.iter().flatten().flatten().copied().collect();
    let picked = take(values, &UInt32Array::from(indexes), None)?;
    let lengths = rows.iter().map(|r| r.as_ref().map_or(0, Vec::len));
    let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(
        list_field(values.data_type().clone()),
        OffsetBuffer::from_lengths(lengths),
        picked,
        Some(nulls).filter(|n| n.null_count() > 0),
    )?))
}

/// A position as `take` wants it.
pub(super) fn at(index: usize) -> Option<u32> {
    u32::try_from(index).ok()
}

fn make_list(columns: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let arrays: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let order: Vec<(usize, usize)> = (0..len).flat_map(|row| (0..columns.len()).map(move |c| (c, row))).collect();
    let values = interleave(&arrays, &order)?;
    Ok(Arc::new(ListArray::try_new(
        list_field(values.data_type().clone()),
        OffsetBuffer::from_lengths(vec![columns.len(); len]),
        values,
        None,
    )?))
}

fn sizes(array: &ArrayRef, null: Option<i32>) -> DfResult<ArrayRef> {
    let offsets = match array.data_type() {
        DataType::Map(..) => downcast::<MapArray>(array)?.value_offsets(),
        _ => downcast::<ListArray>(array)?.value_offsets(),
    };
    Ok(Arc::new(
        (0..array.len()).map(|row| if array.is_null(row) { null } else { Some(offsets[row + 1] - offsets[row]) }).collect::<Int32Array>(),
    ))
}

fn element_at(columns: &[ArrayRef], ansi: bool) -> DfResult<ArrayRef> {
    let list: &ListArray = downcast(&columns[0])?;
    let wanted: &Int64Array = downcast(&columns[1])?;
    let mut picked = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        let Some(range) = span(list, row).filter(|_| wanted.is_valid(row)) else {
            picked.push(None);
            continue;
        };
        let length = i64::try_from(range.len()).unwrap_or(0);
        let index = match wanted.value(row) {
            0 => {
                return Err(spark_error(
                    "INVALID_INDEX_OF_ZERO",
                    "the index 0 is invalid; an index counts from 1, or from the end if negative",
                ));
            }
            i if i > 0 => i - 1,
            i => length + i,
        };
        if index < 0 || index >= length {
            if ansi {
                return Err(spark_error(
                    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
                    format!(
                        "the index {} is out of bounds, the array has {length} elements; use try_element_at to get NULL",
                        wanted.value(row)
                    ),
                ));
            }
            picked.push(None);
            continue;
        }
        picked.push(usize::try_from(index).ok().and_then(|i| at(range.start + i)));
    }
    Ok(take(list.values(), &UInt32Array::from(picked), None)?)
}

fn join(columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (list, separator): (&ListArray, &StringArray) = (downcast(&columns[0])?, downcast(&columns[1])?);
    let values: &StringArray = downcast(list.values())?;
    let replacement = match columns.get(2) {
        Some(c) => Some(downcast::<StringArray>(c)?),
        None => None,
    };
    let mut budget = Budget::of_column("array_join");
    let rows = (0..list.len()).map(|row| {
        let Some(range) = span(list, row).filter(|_| separator.is_valid(row)) else { return Ok(None) };
        let null = match replacement {
            Some(r) if r.is_null(row) => return Ok(None),
            Some(r) => Some(r.value(row)),
            None => None,
        };
        let parts: Vec<&str> = range.filter_map(|i| if values.is_null(i) { null } else { Some(values.value(i)) }).collect();
        budget.bytes(joined_size(&parts, separator.value(row)))?;
        Ok(Some(parts.join(separator.value(row))))
    });
    Ok(Arc::new(rows.collect::<DfResult<StringArray>>()?))
}

fn with_element(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    if name == "array_repeat" {
        args::count(name, &list, 2, 2)?;
        list[1] = a.cast(list[1].clone(), &DataType::Int32)?;
        let result = list_of(list[0].ty.clone());
        return Ok(a
            .call(name, "", result, &list, |rows: Rows| {
                let counts: &Int32Array = downcast(&rows.args[1])?;
                let mut budget = Budget::new("array_repeat");
                let mut picked = Vec::with_capacity(rows.len);
                for row in 0..rows.len {
                    if counts.is_null(row) {
                        picked.push(None);
                        continue;
                    }
                    let count = counts.value(row).max(0);
                    budget.elements(i128::from(count), width(&rows.args[0], row), Blame::Count)?;
                    picked.push(Some(vec![at(row); usize::try_from(count).unwrap_or(0)]));
                }
                pick_lists(&rows.args[0], &picked)
            })
            .may_fail());
    }
    let insert = name == "array_insert";
    args::count(name, &list, if insert { 3 } else { 2 }, if insert { 3 } else { 2 })?;
    let position = insert.then(|| list.remove(1));
    let item = element(name, &list[0])?;
    let ty = coerce::wider(&item, &list[1].ty, a.conf.ansi).ok_or_else(|| {
        Error::config(
            "DATATYPE_MISMATCH.ARRAY_FUNCTION_DIFF_TYPES",
            format!("{name} needs an element of the array's type; CAST \"{}\", which is {}", list[1].name, quoted_type(&list[1].ty)),
        )
    })?;
    list[0] = a.cast(list[0].clone(), &list_of(ty.clone()))?;
    list[1] = a.cast(list[1].clone(), &ty)?;
    if let Some(position) = position {
        list.push(a.cast(position, &DataType::Int32)?);
    }
    let result = list_of(ty);
    match name {
        "array_contains" => Ok(a.call(name, "", DataType::Boolean, &list, |rows: Rows| contains(rows.args))),
        "array_position" => Ok(a.call(name, "", DataType::Int64, &list, |rows: Rows| position_of(rows.args))),
        "array_remove" => Ok(a.call(name, "", result, &list, |rows: Rows| {
            let items: &ListArray = downcast(&rows.args[0])?;
            let (all, offset) = joined(items.values(), &rows.args[1])?;
            let keys = Keys::new(&all)?;
            let picked: Vec<_> = (0..items.len())
                .map(|row| {
                    let range = span(items, row).filter(|_| rows.args[1].is_valid(row))?;
                    Some(range.filter(|i| keys.compare(*i, offset + row).is_ne()).map(at).collect())
                })
                .collect();
            pick_lists(items.values(), &picked)
        })),
        _ => {
            let kind = name.to_owned();
            Ok(a.call(name, "", result, &list, move |rows: Rows| {
                let items: &ListArray = downcast(&rows.args[0])?;
                let (all, offset) = joined(items.values(), &rows.args[1])?;
                let mut budget = Budget::new("array_insert");
                let mut picked = Vec::with_capacity(items.len());
                for row in 0..items.len() {
                    let Some(range) = span(items, row) else {
                        picked.push(None);
                        continue;
                    };
                    let mut out: Vec<Option<u32>> = range.map(at).collect();
                    let new = at(offset + row);
                    match kind.as_str() {
                        "array_append" => out.push(new),
                        "array_prepend" => out.insert(0, new),
                        _ => {
                            let positions: &Int32Array = downcast(&rows.args[2])?;
                            if positions.is_null(row) {
                                picked.push(None);
                                continue;
                            }
                            let gap = i128::from(positions.value(row).unsigned_abs()).saturating_sub(out.len() as i128);
                            if gap > 0 {
                                budget.elements(gap + out.len() as i128, ITEM_BYTES, Blame::Function)?;
                            }
                            insert_at(&mut out, positions.value(row), new)?;
                        }
                    }
                    picked.push(Some(out));
                }
                // One more row, all null, for the gaps that array_insert leaves.
                pick_lists(&all, &picked)
            })
            .may_fail())
        }
    }
}

fn insert_at(out: &mut Vec<Option<u32>>, position: i32, new: Option<u32>) -> DfResult<()> {
    if position == 0 {
        return Err(spark_error("INVALID_INDEX_OF_ZERO", "the index 0 is invalid; an index counts from 1, or from the end if negative"));
    }
    if position > 0 {
        let index = usize::try_from(position - 1).unwrap_or(0);
        out.resize(out.len().max(index), None);
        out.insert(index, new);
    } else {
        let back = usize::try_from(-i64::from(position)).unwrap_or(0);
        let gap = back.saturating_sub(out.len() + 1);
        out.splice(0..0, std::iter::repeat_n(None, gap));
        out.insert(out.len() + 1 - back, new);
    }
    Ok(())
}

/// Two arrays in one, and where the second begins.
pub(super) fn joined(values: &ArrayRef, more: &ArrayRef) -> DfResult<(ArrayRef, usize)> {
    Ok((concat(&[values.as_ref(), more.as_ref()])?, values.len()))
}

fn contains(columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let items: &ListArray = downcast(&columns[0])?;
    let (all, offset) = joined(items.values(), &columns[1])?;
    let keys = Keys::new(&all)?;
    Ok(Arc::new(
        (0..items.len())
            .map(|row| {
                let range = span(items, row).filter(|_| columns[1].is_valid(row))?;
                let mut null = false;
                for i in range {
                    if all.is_null(i) {
                        null = true;
                    } else if keys.compare(i, offset + row).is_eq() {
                        return Some(true);
                    }
                }
                (!null).then_some(false)
            })
            .collect::<BooleanArray>(),
    ))
}

fn position_of(columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let items: &ListArray = downcast(&columns[0])?;
    let (all, offset) = joined(items.values(), &columns[1])?;
    let keys = Keys::new(&all)?;
    Ok(Arc::new(
        (0..items.len())
            .map(|row| {
                let range = span(items, row).filter(|_| columns[1].is_valid(row))?;
                let found = range.clone().position(|i| all.is_valid(i) && keys.compare(i, offset + row).is_eq());
                Some(found.and_then(|p| i64::try_from(p + 1).ok()).unwrap_or(0))
            })
            .collect::<Int64Array>(),
    ))
}

/// Functions that pick from one array.
fn single(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    let most = match name {
        "slice" => 3,
        "sort_array" => 2,
        _ => 1,
    };
    args::count(name, &list, if name == "slice" { 3 } else { 1 }, most)?;
    let item = element(name, &list[0])?;
    if name == "flatten" {
        if !matches!(item, DataType::List(_)) {
            return Err(args::wrong_type(name, &list[0], "an array of arrays"));
        }
        return Ok(a.call(name, "", item, &list, |rows: Rows| flatten(&rows.args[0])));
    }
    let shown = format!("{name}({})", list.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", "));
    if name == "slice" {
        list[1] = a.cast(list[1].clone(), &DataType::Int32)?;
        list[2] = a.cast(list[2].clone(), &DataType::Int32)?;
    }
    if let ("sort_array", Some(order)) = (name, list.get(1))
        && !matches!(order.ty, DataType::Boolean | DataType::Null)
    {
        return Err(args::wrong_type(name, order, "a boolean as the order"));
    }
    if name == "sort_array" && list.len() == 2 {
        list[1] = a.cast(list[1].clone(), &DataType::Boolean)?;
    }
    if name == "sort_array" && list.len() == 1 {
        list.push(Typed::literal(datafusion::common::ScalarValue::Boolean(Some(true)), "true"));
    }
    let kind = name.to_owned();
    let ty = list[0].ty.clone();
    let call = a.call(name, "", ty, &list, move |rows: Rows| {
        let items: &ListArray = downcast(&rows.args[0])?;
        let values = items.values();
        let keys = Keys::new(values)?;
        let mut picked = Vec::with_capacity(items.len());
        for row in 0..items.len() {
            let Some(range) = span(items, row) else {
                picked.push(None);
                continue;
            };
            let mut out: Vec<usize> = range.collect();
            match kind.as_str() {
                "array_distinct" => {
                    let mut seen = std::collections::HashSet::new();
                    out.retain(|i| seen.insert(keys.key(*i)));
                }
                "array_compact" => out.retain(|i| values.is_valid(*i)),
                "reverse" => out.reverse(),
                "array_sort" => {
                    out.sort_by(|l, r| values.is_null(*l).cmp(&values.is_null(*r)).then_with(|| keys.compare(*l, *r)));
                }
                "sort_array" => {
                    let ascending: &BooleanArray = downcast(&rows.args[1])?;
                    out.sort_by(|l, r| keys.compare(*l, *r));
                    if ascending.is_valid(row) && !ascending.value(row) {
                        out.reverse();
                    }
                }
                _ => {
                    let (start, length): (&Int32Array, &Int32Array) = (downcast(&rows.args[1])?, downcast(&rows.args[2])?);
                    if start.is_null(row) || length.is_null(row) {
                        picked.push(None);
                        continue;
                    }
                    out = slice(&out, start.value(row), length.value(row))?;
                }
            }
            picked.push(Some(out.into_iter().map(at).collect()));
        }
        pick_lists(values, &picked)
    });
    Ok(if name == "slice" { call.may_fail() } else { call }.named(shown))
}

fn slice(items: &[usize], start: i32, length: i32) -> DfResult<Vec<usize>> {
    if start == 0 {
        return Err(spark_error("INVALID_PARAMETER_VALUE.START", "slice counts from 1; its start cannot be 0"));
    }
    let length = usize::try_from(length)
        .map_err(|_| spark_error("INVALID_PARAMETER_VALUE.LENGTH", format!("the length of slice cannot be negative, but is {length}")))?;
    let from = if start > 0 {
        usize::try_from(start - 1).unwrap_or(0)
    } else {
        match items.len().checked_sub(usize::try_from(-i64::from(start)).unwrap_or(usize::MAX)) {
            Some(from) => from,
            None => return Ok(vec![]),
        }
    };
    Ok(items.iter().skip(from).take(length).copied().collect())
}

fn zip(a: &Analyzer, list: Vec<Typed>) -> Result<Typed> {
    let mut fields = Vec::new();
    for (index, arg) in list.iter().enumerate() {
        let name = match &arg.expr {
            datafusion::logical_expr::Expr::Column(_) => arg.name.clone(),
            _ => index.to_string(),
        };
        fields.push((name, element("arrays_zip", arg)?));
    }
    let item = struct_of(fields);
    let DataType::Struct(fields) = item.clone() else {
        return Err(Error::config("DATATYPE_MISMATCH", "arrays_zip needs arrays"));
    };
    let key = format!("{fields:?}");
    Ok(a.call("arrays_zip", key, list_of(item), &list, move |rows: Rows| {
        let lists = rows.args.iter().map(downcast::<ListArray>).collect::<DfResult<Vec<_>>>()?;
        let mut picked: Vec<Vec<Option<u32>>> = vec![Vec::new(); lists.len()];
        let mut lengths = Vec::with_capacity(rows.len);
        let mut valid = Vec::with_capacity(rows.len);
        for row in 0..rows.len {
            let spans: Option<Vec<_>> = lists.iter().map(|l| span(l, row)).collect();
            valid.push(spans.is_some());
            let spans = spans.unwrap_or_default();
            let longest = spans.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
            lengths.push(longest);
            for (span, out) in spans.iter().zip(&mut picked) {
                out.extend((0..longest).map(|i| if i < span.len() { at(span.start + i) } else { None }));
            }
        }
        let columns = lists
            .iter()
            .zip(picked)
            .map(|(l, indexes)| Ok(take(l.values(), &UInt32Array::from(indexes), None)?))
            .collect::<DfResult<Vec<_>>>()?;
        let items = StructArray::try_new(fields.clone(), columns, None)?;
        Ok(Arc::new(ListArray::try_new(
            list_field(items.data_type().clone()),
            OffsetBuffer::from_lengths(lengths),
            Arc::new(items),
            Some(NullBuffer::from(valid)).filter(|n| n.null_count() > 0),
        )?) as ArrayRef)
    }))
}
