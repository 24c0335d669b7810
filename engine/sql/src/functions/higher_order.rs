//! Functions that take lambdas: one evaluation of the body for all elements.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, ListArray, MapArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::sql::sqlparser::ast::Expr as Sql;
use weir_core::Error;

use super::Built;
use super::args::{wrong_count, wrong_type};
use super::bounds::judge_taken;
use super::collection::{element, pick_lists, span};
use super::map::{entry_span, make_map};
use crate::analyzer::{Analyzer, Cx, Lambda, Typed, arity, as_lambda};
use crate::types::{list_field, list_of, map_of, map_types};
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The higher-order functions.
pub const NAMES: &[&str] = &[
    "transform",
    "filter",
    "exists",
    "any_match",
    "forall",
    "all_match",
    "aggregate",
    "reduce",
    "zip_with",
    "map_filter",
    "transform_keys",
    "transform_values",
    "map_zip_with",
    "array_sort",
];

/// Builds a call with at least one lambda.
pub fn build(a: &Analyzer, name: &str, args: &[&Sql], cx: &Cx) -> Built {
    if !NAMES.contains(&name) {
        return None;
    }
    Some(match name {
        "transform" | "filter" | "exists" | "any_match" | "forall" | "all_match" => over_array(a, name, args, cx),
        "aggregate" | "reduce" => fold(a, name, args, cx),
        "zip_with" => zip_with(a, args, cx),
        "array_sort" => sort(a, args, cx),
        "map_zip_with" => Err(Error::config("WEIR_UNSUPPORTED_SQL", "map_zip_with is not supported; use map_concat or transform_values")),
        _ => over_map(a, name, args, cx),
    })
}

fn lambda_at<'s>(name: &str, args: &[&'s Sql], index: usize) -> Result<&'s datafusion::sql::sqlparser::ast::LambdaFunction> {
    args.get(index).and_then(|sql| as_lambda(sql)).ok_or_else(|| wrong_count(name, args.len(), "other"))
}

/// The arguments of the call: the collections, then what the bodies capture.
fn call(
    a: &Analyzer,
    name: &str,
    result: DataType,
    inputs: Vec<Typed>,
    bodies: &[&Lambda],
    kernel: impl Fn(Rows<'_>) -> DfResult<ArrayRef> + Send + Sync + 'static,
) -> Typed {
    let shown: Vec<String> = inputs.iter().map(|i| i.name.clone()).chain(bodies.iter().map(|b| b.name.clone())).collect();
    let key: Vec<&str> = bodies.iter().map(|b| b.key.as_str()).collect();
    let all: Vec<Typed> = inputs.into_iter().chain(bodies.iter().flat_map(|b| b.captures.clone())).collect();
    a.call(name, key.join("|"), result, &all, kernel).named(format!("{name}({})", shown.join(", "))).may_fail()
}

fn repeated(captures: &[ArrayRef], owners: &UInt32Array) -> DfResult<Vec<ArrayRef>> {
    judge_taken("a lambda function", captures, owners)?;
    captures.iter().map(|c| Ok(take(c, owners, None)?)).collect()
}

/// Valid lists flattened: element positions, owning rows, positions inside the row.
struct Flat {
    elements: UInt32Array,
    owners: UInt32Array,
    positions: Int32Array,
}

fn flat(spans: impl Iterator<Item = Option<std::ops::Range<usize>>>) -> Flat {
    let (mut elements, mut owners, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for (row, span) in spans.enumerate() {
        for (position, index) in span.into_iter().flatten().enumerate() {
            elements.push(u32::try_from(index).unwrap_or(0));
            owners.push(u32::try_from(row).unwrap_or(0));
            positions.push(i32::try_from(position).unwrap_or(0));
        }
    }
    Flat { elements: elements.into(), owners: owners.into(), positions: positions.into() }
}

fn over_array(a: &Analyzer, name: &str, args: &[&Sql], cx: &Cx) -> Result<Typed> {
    let [array, _] = args else { return Err(wrong_count(name, args.len(), "2")) };
    let array = a.expr(array, cx)?;
    let item = element(name, &array)?;
    let lambda = lambda_at(name, args, 1)?;
    let indexed = arity(lambda) == 2 && matches!(name, "transform" | "filter");
    let types = if indexed { vec![item.clone(), DataType::Int32] } else { vec![item.clone()] };
    let want = (name != "transform").then_some(DataType::Boolean);
    let body = a.lambda(lambda, &types, want.as_ref(), cx)?;
    let result = match name {
        "transform" => list_of(body.ty.clone()),
        "filter" => array.ty.clone(),
        _ => DataType::Boolean,
    };
    let (kind, run) = (name.to_owned(), body.clone());
    Ok(call(a, name, result, vec![array], &[&body], move |rows: Rows| {
        let list: &ListArray = downcast(&rows.args[0])?;
        let flat = flat((0..list.len()).map(|row| span(list, row)));
        let mut columns = vec![take(list.values(), &flat.elements, None)?];
        if indexed {
            columns.push(Arc::new(flat.positions.clone()));
        }
        columns.extend(repeated(&rows.args[1..], &flat.owners)?);
        let made = run.evaluate(columns, flat.elements.len())?;
        if kind == "transform" {
            let lengths = (0..list.len()).map(|row| span(list, row).map_or(0, |s| s.len()));
            let field = list_field(made.data_type().clone());
            return Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), made, list.nulls().cloned())?) as ArrayRef);
        }
        let test: &BooleanArray = downcast(&made)?;
        let mut at = 0;
        let (mut kept, mut decided) = (Vec::new(), Vec::new());
        for row in 0..list.len() {
            let Some(span) = span(list, row) else {
                kept.push(None);
                decided.push(None);
                continue;
            };
            let answers: Vec<Option<bool>> = (at..at + span.len()).map(|i| test.is_valid(i).then(|| test.value(i))).collect();
            at += span.len();
            let all = matches!(kind.as_str(), "forall" | "all_match");
            decided.push(if answers.contains(&Some(!all)) {
                Some(!all)
            } else if answers.contains(&None) {
                None
            } else {
                Some(all)
            });
            kept.push(Some(
                span.zip(answers).filter(|(_, answer)| *answer == Some(true)).map(|(i, _)| u32::try_from(i).ok()).collect::<Vec<_>>(),
            ));
        }
        if kind == "filter" { pick_lists(list.values(), &kept) } else { Ok(Arc::new(BooleanArray::from(decided))) }
    }))
}

fn fold(a: &Analyzer, name: &str, args: &[&Sql], cx: &Cx) -> Result<Typed> {
    if !(3..=4).contains(&args.len()) {
        return Err(wrong_count(name, args.len(), "3 or 4"));
    }
    let array = a.expr(args[0], cx)?;
    let item = element(name, &array)?;
    let zero = a.expr(args[1], cx)?;
    let state = zero.ty.clone();
    let merge = a.lambda(lambda_at(name, args, 2)?, &[state.clone(), item], Some(&state), cx)?;
    let finish = match args.len() {
        4 => Some(a.lambda(lambda_at(name, args, 3)?, std::slice::from_ref(&state), None, cx)?),
        _ => None,
    };
    let result = finish.as_ref().map_or(state, |f| f.ty.clone());
    let bodies: Vec<&Lambda> = std::iter::once(&merge).chain(&finish).collect();
    let (run, end) = (merge.clone(), finish.clone());
    let merged = merge.captures.len();
    Ok(call(a, name, result, vec![array, zero], &bodies, move |rows: Rows| {
        let list: &ListArray = downcast(&rows.args[0])?;
        let captures = &rows.args[2..];
        let mut states = Arc::clone(&rows.args[1]);
        let spans: Vec<_> = (0..list.len()).map(|row| span(list, row)).collect();
        let longest = spans.iter().flatten().map(ExactSizeIterator::len).max().unwrap_or(0);
        // Step by step through the positions, all rows that have one at once.
        for position in 0..longest {
            let active: Vec<(u32, u32)> = spans
                .iter()
                .enumerate()
                .filter_map(|(row, span)| {
                    let span = span.as_ref().filter(|s| s.len() > position)?;
                    Some((u32::try_from(row).ok()?, u32::try_from(span.start + position).ok()?))
                })
                .collect();
            let owners = UInt32Array::from_iter_values(active.iter().map(|(row, _)| *row));
            let elements = UInt32Array::from_iter_values(active.iter().map(|(_, index)| *index));
            let mut columns = vec![take(&states, &owners, None)?, take(list.values(), &elements, None)?];
            columns.extend(repeated(&captures[..merged], &owners)?);
            let made = run.evaluate(columns, active.len())?;
            // New states over the old ones.
            let mut order: Vec<u32> = (0..u32::try_from(states.len()).unwrap_or(0)).collect();
            for (new, (row, _)) in active.iter().enumerate() {
                order[usize::try_from(*row).unwrap_or(0)] = u32::try_from(states.len() + new).unwrap_or(0);
            }
            let all = concat(&[states.as_ref(), made.as_ref()])?;
            states = take(&all, &UInt32Array::from(order), None)?;
        }
        if let Some(end) = &end {
            let mut columns = vec![states];
            columns.extend(captures[merged..].iter().cloned());
            states = end.evaluate(columns, rows.len)?;
        }
        super::nested::with_nulls_of(&states, list.nulls())
    }))
}

fn zip_with(a: &Analyzer, args: &[&Sql], cx: &Cx) -> Result<Typed> {
    let name = "zip_with";
    let [left, right, _] = args else { return Err(wrong_count(name, args.len(), "3")) };
    let (left, right) = (a.expr(left, cx)?, a.expr(right, cx)?);
    let types = [element(name, &left)?, element(name, &right)?];
    let body = a.lambda(lambda_at(name, args, 2)?, &types, None, cx)?;
    let run = body.clone();
    Ok(call(a, name, list_of(body.ty.clone()), vec![left, right], &[&body], move |rows: Rows| {
        let (l, r): (&ListArray, &ListArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
        let (mut li, mut ri, mut owners, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in 0..rows.len {
            let (Some(ls), Some(rs)) = (span(l, row), span(r, row)) else {
                lengths.push(0);
                valid.push(false);
                continue;
            };
            let longest = ls.len().max(rs.len());
            for i in 0..longest {
                li.push((i < ls.len()).then(|| u32::try_from(ls.start + i).unwrap_or(0)));
                ri.push((i < rs.len()).then(|| u32::try_from(rs.start + i).unwrap_or(0)));
                owners.push(u32::try_from(row).unwrap_or(0));
            }
            lengths.push(longest);
            valid.push(true);
        }
        let owners = UInt32Array::from(owners);
        let mut columns = vec![take(l.values(), &UInt32Array::from(li), None)?, take(r.values(), &UInt32Array::from(ri), None)?];
        columns.extend(repeated(&rows.args[2..], &owners)?);
        let made = run.evaluate(columns, owners.len())?;
        Ok(Arc::new(ListArray::try_new(
            list_field(made.data_type().clone()),
            OffsetBuffer::from_lengths(lengths),
            made,
            Some(NullBuffer::from(valid)).filter(|n| n.null_count() > 0),
        )?) as ArrayRef)
    }))
}

fn over_map(a: &Analyzer, name: &str, args: &[&Sql], cx: &Cx) -> Result<Typed> {
    let [map, _] = args else { return Err(wrong_count(name, args.len(), "2")) };
    let map = a.expr(map, cx)?;
    let (key, value) = map_types(&map.ty).map(|(k, v)| (k.clone(), v.clone())).ok_or_else(|| wrong_type(name, &map, "a map"))?;
    let want = (name == "map_filter").then_some(DataType::Boolean);
    let body = a.lambda(lambda_at(name, args, 1)?, &[key.clone(), value.clone()], want.as_ref(), cx)?;
    let result = match name {
        "map_filter" => map.ty.clone(),
        "transform_keys" => map_of(body.ty.clone(), value),
        _ => map_of(key, body.ty.clone()),
    };
    let (kind, run) = (name.to_owned(), body.clone());
    Ok(call(a, name, result, vec![map], &[&body], move |rows: Rows| {
        let map: &MapArray = downcast(&rows.args[0])?;
        let spans: Vec<_> = (0..map.len()).map(|row| entry_span(map, row)).collect();
        let flat = flat(spans.iter().cloned());
        let (keys, values) = (take(map.keys(), &flat.elements, None)?, take(map.values(), &flat.elements, None)?);
        let mut columns = vec![Arc::clone(&keys), Arc::clone(&values)];
        columns.extend(repeated(&rows.args[1..], &flat.owners)?);
        let made = run.evaluate(columns, flat.elements.len())?;
        let mut lengths: Vec<usize> = spans.iter().map(|s| s.as_ref().map_or(0, ExactSizeIterator::len)).collect();
        let nulls = map.nulls().cloned();
        match kind.as_str() {
            "transform_keys" => make_map(made, values, lengths, nulls),
            "transform_values" => make_map(keys, made, lengths, nulls),
            _ => {
                let test: &BooleanArray = downcast(&made)?;
                let mut kept = Vec::new();
                let mut at = 0;
                for length in &mut lengths {
                    let before = kept.len();
                    kept.extend((at..at + *length).filter(|i| test.is_valid(*i) && test.value(*i)).map(|i| u32::try_from(i).unwrap_or(0)));
                    at += *length;
                    *length = kept.len() - before;
                }
                let kept = UInt32Array::from(kept);
                make_map(take(&keys, &kept, None)?, take(&values, &kept, None)?, lengths, nulls)
            }
        }
    }))
}

fn sort(a: &Analyzer, args: &[&Sql], cx: &Cx) -> Result<Typed> {
    let name = "array_sort";
    let [array, _] = args else { return Err(wrong_count(name, args.len(), "1 or 2")) };
    let array = a.expr(array, cx)?;
    let item = element(name, &array)?;
    let body = a.lambda(lambda_at(name, args, 1)?, &[item.clone(), item], Some(&DataType::Int32), cx)?;
    let run = body.clone();
    let result = array.ty.clone();
    Ok(call(a, name, result, vec![array], &[&body], move |rows: Rows| {
        let list: &ListArray = downcast(&rows.args[0])?;
        let mut picked = Vec::with_capacity(list.len());
        let failure = std::cell::RefCell::new(None);
        for row in 0..list.len() {
            let Some(span) = span(list, row) else {
                picked.push(None);
                continue;
            };
            let mut order: Vec<u32> = span.map(|i| u32::try_from(i).unwrap_or(0)).collect();
            let owner = UInt32Array::from(vec![u32::try_from(row).unwrap_or(0)]);
            let captures = repeated(&rows.args[1..], &owner)?;
            let compare = |l: u32, r: u32| -> DfResult<std::cmp::Ordering> {
                let mut columns =
                    vec![take(list.values(), &UInt32Array::from(vec![l]), None)?, take(list.values(), &UInt32Array::from(vec![r]), None)?];
                columns.extend(captures.iter().cloned());
                let made = run.evaluate(columns, 1)?;
                let made: &Int32Array = downcast(&made)?;
                if made.is_null(0) {
                    return Err(crate::error::spark_error(
                        "COMPARATOR_RETURNS_NULL",
                        "the comparator of array_sort returned NULL; it must return a negative number, zero or a positive number",
                    ));
                }
                Ok(made.value(0).cmp(&0))
            };
            order.sort_by(|l, r| {
                compare(*l, *r).unwrap_or_else(|error| {
                    failure.borrow_mut().get_or_insert(error);
                    std::cmp::Ordering::Equal
                })
            });
            picked.push(Some(order.into_iter().map(Some).collect()));
        }
        match failure.into_inner() {
            Some(error) => Err(error),
            None => pick_lists(list.values(), &picked),
        }
    }))
}
