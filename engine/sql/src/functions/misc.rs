//! Conditions, null handling, type names, session facts, casts by type name.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, NullArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, Operator};
use weir_core::Error;

use super::args;
use crate::analyzer::{Analyzer, Typed, coerce};
use crate::error::spark_error;
use crate::types::{timestamp, timestamp_ntz};
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "if",
    "iff",
    "coalesce",
    "ifnull",
    "nvl",
    "nvl2",
    "nullif",
    "nullifzero",
    "zeroifnull",
    "equal_null",
    "isnull",
    "isnotnull",
    "typeof",
    "least",
    "greatest",
    "assert_true",
    "raise_error",
    "current_timestamp",
    "now",
    "current_date",
    "curdate",
    "localtimestamp",
    "current_user",
    "session_user",
    "user",
    "current_catalog",
    "current_database",
    "current_schema",
    "unix_timestamp",
    "to_unix_timestamp",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "string",
    "binary",
    "date",
    "timestamp",
    "isnan",
    "nanvl",
    "collate",
    "not",
    "uuid",
    "rand",
    "random",
    "randn",
    "uniform",
    "randstr",
    "monotonically_increasing_id",
    "input_file_name",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    match name {
        "if" | "iff" => {
            args::count(name, &list, 3, 3)?;
            let results = list.split_off(1);
            let condition = a.boolean(list.remove(0))?;
            a.branches(vec![condition], results)
        }
        "coalesce" | "ifnull" | "nvl" => {
            args::count(name, &list, 1, usize::MAX)?;
            coalesce(a, name, list)
        }
        "nvl2" => {
            args::count(name, &list, 3, 3)?;
            let results = list.split_off(1);
            let test = is_not_null(list.remove(0));
            a.branches(vec![test], results)
        }
        "nullif" => {
            args::count(name, &list, 2, 2)?;
            let right = list.remove(1);
            let left = list.remove(0);
            let equal = a.compare(left.clone(), Operator::Eq, right, "=")?;
            let null = a.cast(Typed::null(), &left.ty.clone())?;
            a.branches(vec![equal], vec![null, left])
        }
        "nullifzero" => {
            args::count(name, &list, 1, 1)?;
            let value = list.remove(0);
            build(a, "nullif", vec![value, Typed::int(0)])
        }
        "zeroifnull" => {
            args::count(name, &list, 1, 1)?;
            coalesce(a, name, vec![list.remove(0), Typed::int(0)])
        }
        "equal_null" => {
            args::count(name, &list, 2, 2)?;
            let right = list.remove(1);
            a.compare(list.remove(0), Operator::IsNotDistinctFrom, right, "<=>")
        }
        "isnull" | "isnotnull" => {
            args::count(name, &list, 1, 1)?;
            let value = list.remove(0);
            let shown = format!("({} IS {}NULL)", value.name, if name == "isnull" { "" } else { "NOT " });
            let test = is_not_null(value);
            Ok(if name == "isnull" { Typed { expr: Expr::Not(Box::new(test.expr.clone())), ..test } } else { test }
                .named(format!("\u{0}{shown}")))
        }
        "not" => {
            args::count(name, &list, 1, 1)?;
            let value = a.boolean(list.remove(0))?;
            Ok(Typed::new(Expr::Not(Box::new(value.expr.clone())), DataType::Boolean, "not").failing_like([&value]))
        }
        "typeof" => {
            args::count(name, &list, 1, 1)?;
            Ok(Typed::string(list[0].type_name()))
        }
        "least" | "greatest" => {
            args::count(name, &list, 2, usize::MAX)?;
            let list = a.to_common(name, list)?;
            let ty = list[0].ty.clone();
            let greatest = name == "greatest";
            Ok(a.call(name, "", ty.clone(), &list, move |rows: Rows| match ty {
                DataType::Null => Ok(Arc::clone(&rows.args[0])),
                _ => super::sets::extreme(rows.args, greatest),
            }))
        }
        "assert_true" | "raise_error" => assertion(a, name, list),
        "current_timestamp" | "now" => Ok(a.now().named(format!("\u{0}{name}()"))),
        "localtimestamp" => Ok(a.cast(a.now(), &timestamp_ntz())?.named("\u{0}localtimestamp()")),
        "current_date" | "curdate" => Ok(a.cast(a.now(), &DataType::Date32)?.named("\u{0}current_date()")),
        "unix_timestamp" | "to_unix_timestamp" => {
            if list.is_empty() {
                return a.cast(a.now(), &DataType::Int64);
            }
            crate::datetime::build(a, name, list)
        }
        "current_user" | "session_user" | "user" => Ok(Typed::string("weir")),
        "current_catalog" => Ok(Typed::string("spark_catalog")),
        "current_database" | "current_schema" => Ok(Typed::string("default")),
        "input_file_name" => Ok(Typed::string("")),
        "isnan" => {
            args::count(name, &list, 1, 1)?;
            let value = double_or_float(a, list.remove(0))?;
            let call = a.call(name, "", DataType::Boolean, &[value], |rows: Rows| {
                let array = arrow::compute::cast(&rows.args[0], &DataType::Float64)?;
                let values: &arrow::array::Float64Array = downcast(&array)?;
                Ok(Arc::new(values.iter().map(|v| Some(v.is_some_and(f64::is_nan))).collect::<BooleanArray>()) as ArrayRef)
            });
            Ok(call)
        }
        "nanvl" => {
            args::count(name, &list, 2, 2)?;
            let right = double_or_float(a, list.remove(1))?;
            let left = double_or_float(a, list.remove(0))?;
            let both = a.to_common(name, vec![left, right])?;
            let nan = build(a, "isnan", vec![both[0].clone()])?;
            let [left, right] = <[Typed; 2]>::try_from(both).map_err(|_| args::wrong_count(name, 2, "2"))?;
            a.branches(vec![nan], vec![right, left])
        }
        "collate" => {
            args::count(name, &list, 2, 2)?;
            crate::ddl::check_collation(list.remove(1).text().unwrap_or_default())?;
            Ok(list.remove(0))
        }
        "uuid" | "rand" | "random" | "randn" | "uniform" | "randstr" | "monotonically_increasing_id" => random(a, name, list),
        _ => {
            args::count(name, &list, 1, 1)?;
            let ty = crate::ddl::parse_type_name(name)?;
            let value = list.remove(0);
            let shown = value.name.clone();
            let ty = if ty == timestamp() { timestamp() } else { ty };
            Ok(a.cast(value, &ty)?.named(format!("\u{0}{shown}")))
        }
    }
}

fn is_not_null(value: Typed) -> Typed {
    Typed::new(Expr::IsNotNull(Box::new(value.expr.clone())), DataType::Boolean, "").failing_like([&value])
}

fn coalesce(a: &Analyzer, name: &str, list: Vec<Typed>) -> Result<Typed> {
    let mut list = a.to_common(name, list)?;
    if list.len() == 1 {
        return Ok(list.remove(0));
    }
    // CASE evaluates the later values only where the earlier ones are null.
    let conditions = list[..list.len() - 1].iter().cloned().map(is_not_null).collect();
    a.branches(conditions, list)
}

fn double_or_float(a: &Analyzer, value: Typed) -> Result<Typed> {
    if coerce::is_float(&value.ty) { Ok(value) } else { a.cast(value, &DataType::Float64) }
}

fn assertion(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    if name == "raise_error" {
        args::count(name, &list, 1, 2)?;
        let message = a.cast(list.swap_remove(0), &DataType::Utf8)?;
        return Ok(a
            .call(name, "", DataType::Null, &[message], |rows: Rows| {
                let messages: &StringArray = downcast(&rows.args[0])?;
                match messages.iter().next() {
                    Some(message) => Err(spark_error("USER_RAISED_EXCEPTION", message.unwrap_or("null"))),
                    None => Ok(Arc::new(NullArray::new(0)) as ArrayRef),
                }
            })
            .may_fail());
    }
    args::count(name, &list, 1, 2)?;
    let default = format!("'{}' is not true!", list[0].name);
    let message = if list.len() > 1 { a.cast(list.remove(1), &DataType::Utf8)? } else { Typed::string(default) };
    let condition = a.boolean(list.remove(0))?;
    Ok(a.call(name, "", DataType::Null, &[condition, message], |rows: Rows| {
        let (conditions, messages): (&BooleanArray, &StringArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
        for (condition, message) in conditions.iter().zip(messages) {
            if condition != Some(true) {
                return Err(spark_error("USER_RAISED_EXCEPTION", message.unwrap_or("null")));
            }
        }
        Ok(Arc::new(NullArray::new(rows.len)) as ArrayRef)
    })
    .may_fail())
}

/// Functions whose values differ from row to row; only their presence and type are Spark's.
fn random(a: &Analyzer, name: &str, list: Vec<Typed>) -> Result<Typed> {
    use crate::udf::SparkFn;
    use arrow::array::{Float64Array, Int64Array};
    use std::sync::atomic::{AtomicU64, Ordering};
    // A counter through a mixing function; the instant of the batch differs between batches.
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    fn next(seed: i64) -> u64 {
        let mut z = COUNTER.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed.cast_unsigned());
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    #[allow(clippy::cast_precision_loss)]
    fn fraction(seed: i64) -> f64 {
        (next(seed) >> 11) as f64 / (1_u64 << 53) as f64
    }
    fn seeds(rows: &Rows) -> datafusion::common::Result<Vec<i64>> {
        let now: &arrow::array::TimestampMicrosecondArray = downcast(&rows.args[0])?;
        Ok(now.values().to_vec())
    }
    if name == "randstr"
        && let Some(length) = list.first()
        && length.integer().is_none_or(|length| i32::try_from(length).is_err() || length < 0)
    {
        return Err(Error::config(
            "INVALID_PARAMETER_VALUE.LENGTH",
            format!("the length of randstr must be an integer literal from 0 to 2147483647, but is {}", length.name),
        ));
    }
    let now = a.now().expr;
    let key = a.fresh("random");
    let result = match name {
        "uuid" => DataType::Utf8,
        "randstr" => DataType::Utf8,
        "monotonically_increasing_id" => DataType::Int64,
        "uniform" => match coerce::common(list.iter().take(2).map(|l| &l.ty), true) {
            Some(ty) if coerce::is_integral(&ty) => ty,
            _ => DataType::Float64,
        },
        _ => DataType::Float64,
    };
    let bounds: Vec<i64> = list.iter().map(|l| l.integer().unwrap_or(0)).collect();
    let function = name.to_owned();
    let target = result.clone();
    let expr = SparkFn::new(name, key, result.clone(), move |rows: Rows| {
        let seeds = seeds(&rows)?;
        let array: ArrayRef = match function.as_str() {
            "uuid" => Arc::new(
                seeds
                    .iter()
                    .map(|s| {
                        let (high, low) = (next(*s), next(*s));
                        Some(format!(
                            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
                            high >> 32,
                            high >> 16 & 0xffff,
                            high & 0xfff,
                            0x8000 | (low >> 48 & 0x3fff),
                            low & 0xffff_ffff_ffff
                        ))
                    })
                    .collect::<StringArray>(),
            ),
            "randstr" => {
                const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
                let length = bounds.first().copied().unwrap_or(0).max(0);
                Arc::new(
                    seeds
                        .iter()
                        .map(|s| {
                            let text: String =
                                (0..length).map(|_| char::from(LETTERS[usize::try_from(next(*s) % 62).unwrap_or(0)])).collect();
                            Some(text)
                        })
                        .collect::<StringArray>(),
                )
            }
            "monotonically_increasing_id" => Arc::new((0..i64::try_from(rows.len).unwrap_or(0)).map(Some).collect::<Int64Array>()),
            "uniform" => {
                let (low, high) = (bounds.first().copied().unwrap_or(0), bounds.get(1).copied().unwrap_or(1));
                let width = u64::try_from(high.saturating_sub(low)).unwrap_or(1).max(1);
                Arc::new(
                    seeds.iter().map(|s| Some(low.saturating_add(i64::try_from(next(*s) % width).unwrap_or(0)))).collect::<Int64Array>(),
                )
            }
            "randn" => Arc::new(
                seeds
                    .iter()
                    .map(|s| {
                        let radius = (-2.0 * fraction(*s).max(f64::MIN_POSITIVE).ln()).sqrt();
                        Some(radius * (std::f64::consts::TAU * fraction(*s)).cos())
                    })
                    .collect::<Float64Array>(),
            ),
            _ => Arc::new(seeds.iter().map(|s| Some(fraction(*s))).collect::<Float64Array>()),
        };
        if array.data_type() == &target { Ok(array) } else { Ok(arrow::compute::cast(&array, &target)?) }
    })
    .volatile()
    .call(vec![now]);
    Ok(Typed::new(expr, result, name))
}
