//! A file's statistics in Delta's JSON form, from its row groups' metadata.
//!
//! Follows the Delta protocol ("Per-file Statistics") and Spark's writer:
//! strings are cut to 32 characters (a cut maximum is raised above everything
//! that begins with it), timestamps are milliseconds (minimum rounded down,
//! maximum up), booleans and binaries have null counts only. A column whose
//! bounds are not known for certain has none: bounds may be missing, never
//! wrong. Columns inside arrays and maps are left out.

use arrow::datatypes::{DataType, Fields, Schema, TimeUnit};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use serde_json::{Map, Number, Value};

/// Columns that get statistics, as `delta.dataSkippingNumIndexedCols`.
const INDEXED_COLUMNS: usize = 32;
/// Characters of a string bound, as Delta's `stringPrefixLength`.
const PREFIX: usize = 32;

/// The statistics document. `has_nan` says for each top-level column of
/// `schema` whether a NaN was written; Parquet's bounds leave NaN out while
/// Spark orders it above everything.
pub fn document(schema: &Schema, metadata: &ParquetMetaData, has_nan: &[bool]) -> String {
    let mut walk = Walk { metadata, leaf: 0, indexed: 0 };
    let mut levels = Levels::default();
    for (index, field) in schema.fields().iter().enumerate() {
        walk.field(field.name(), field.data_type(), has_nan.get(index).copied().unwrap_or(false), &mut levels);
    }
    let rows: i64 = metadata.row_groups().iter().map(|group| group.num_rows()).sum();
    let mut document = Map::new();
    document.insert("numRecords".into(), Value::from(rows));
    document.insert("minValues".into(), Value::Object(levels.min));
    document.insert("maxValues".into(), Value::Object(levels.max));
    document.insert("nullCount".into(), Value::Object(levels.nulls));
    Value::Object(document).to_string()
}

#[derive(Default)]
struct Levels {
    min: Map<String, Value>,
    max: Map<String, Value>,
    nulls: Map<String, Value>,
}

struct Walk<'a> {
    metadata: &'a ParquetMetaData,
    /// Index of the next Parquet leaf.
    leaf: usize,
    indexed: usize,
}

impl Walk<'_> {
    fn field(&mut self, name: &str, data_type: &DataType, has_nan: bool, levels: &mut Levels) {
        match data_type {
            DataType::Struct(fields) => {
                let mut inner = Levels::default();
                for field in fields {
                    // NaN is looked for in top-level columns only.
                    let unknown = matches!(field.data_type(), DataType::Float32 | DataType::Float64);
                    self.field(field.name(), field.data_type(), unknown, &mut inner);
                }
                for (level, values) in [(&mut levels.min, inner.min), (&mut levels.max, inner.max), (&mut levels.nulls, inner.nulls)] {
                    if !values.is_empty() {
                        level.insert(name.to_owned(), Value::Object(values));
                    }
                }
            }
            DataType::List(_) | DataType::Map(_, _) => self.leaf += leaves(data_type),
            _ => {
                let chunks: Vec<&ColumnChunkMetaData> = self.metadata.row_groups().iter().map(|group| group.column(self.leaf)).collect();
                self.leaf += 1;
                self.indexed += 1;
                if self.indexed <= INDEXED_COLUMNS {
                    self.leaf_stats(name, data_type, has_nan, &chunks, levels);
                }
            }
        }
    }

    fn leaf_stats(&self, name: &str, data_type: &DataType, has_nan: bool, chunks: &[&ColumnChunkMetaData], levels: &mut Levels) {
        let Some(statistics) = chunks.iter().map(|chunk| chunk.statistics()).collect::<Option<Vec<_>>>() else { return };
        let Some(nulls) = statistics.iter().map(|s| s.null_count_opt()).sum::<Option<u64>>() else { return };
        levels.nulls.insert(name.to_owned(), Value::from(nulls));
        // A chunk of nulls has no bounds and constrains nothing.
        let bounded: Vec<&Statistics> = statistics
            .into_iter()
            .zip(chunks)
            .filter(|(s, chunk)| s.null_count_opt().map(|n| i64::try_from(n).ok()) != Some(Some(chunk.num_values())))
            .map(|(s, _)| s)
            .collect();
        if has_nan || bounded.is_empty() {
            return;
        }
        if let (Some(min), Some(max)) = (bound(data_type, &bounded, Side::Min), bound(data_type, &bounded, Side::Max)) {
            levels.min.insert(name.to_owned(), min);
            levels.max.insert(name.to_owned(), max);
        }
    }
}

fn leaves(data_type: &DataType) -> usize {
    let all = |fields: &Fields| fields.iter().map(|field| leaves(field.data_type())).sum();
    match data_type {
        DataType::Struct(fields) => all(fields),
        DataType::List(element) => leaves(element.data_type()),
        DataType::Map(entries, _) => leaves(entries.data_type()),
        _ => 1,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Min,
    Max,
}

impl Side {
    fn of<T: Copy>(self, min: Option<&T>, max: Option<&T>) -> Option<T> {
        match self {
            Self::Min => min.copied(),
            Self::Max => max.copied(),
        }
    }
}

fn extreme<T: PartialOrd>(side: Side, values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let values: Vec<T> = values.collect::<Option<_>>()?;
    values.into_iter().reduce(|best, value| if (value < best) == (side == Side::Min) { value } else { best })
}

fn bound(data_type: &DataType, chunks: &[&Statistics], side: Side) -> Option<Value> {
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(Value::from(integer(chunks, side)?)),
        DataType::Date32 => {
            let days = chrono::Duration::try_days(integer(chunks, side)?)?;
            let date = chrono::NaiveDate::default().checked_add_signed(days)?;
            Some(Value::from(date.format("%Y-%m-%d").to_string()))
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = integer(chunks, side)?;
            let millis = if side == Side::Min { micros.div_euclid(1_000) } else { micros.checked_add(999)?.div_euclid(1_000) };
            let at = chrono::DateTime::from_timestamp_millis(millis)?;
            let format = if zone.is_some() { "%Y-%m-%dT%H:%M:%S%.3fZ" } else { "%Y-%m-%dT%H:%M:%S%.3f" };
            Some(Value::from(at.format(format).to_string()))
        }
        DataType::Float32 => {
            let value = extreme(
                side,
                chunks.iter().map(|s| match s {
                    Statistics::Float(v) => side.of(v.min_opt(), v.max_opt()),
                    _ => None,
                }),
            )?;
            // The shortest text of the float itself, not of its widening.
            value.to_string().parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number)
        }
        DataType::Float64 => {
            let value = extreme(
                side,
                chunks.iter().map(|s| match s {
                    Statistics::Double(v) => side.of(v.min_opt(), v.max_opt()),
                    _ => None,
                }),
            )?;
            Number::from_f64(value).map(Value::Number)
        }
        DataType::Decimal128(_, scale) => decimal(chunks, side, u32::try_from(*scale).ok()?),
        DataType::Utf8 => text(chunks, side),
        _ => None,
    }
}

fn integer(chunks: &[&Statistics], side: Side) -> Option<i64> {
    extreme(
        side,
        chunks.iter().map(|statistics| match statistics {
            Statistics::Int32(v) => side.of(v.min_opt(), v.max_opt()).map(i64::from),
            Statistics::Int64(v) => side.of(v.min_opt(), v.max_opt()),
            _ => None,
        }),
    )
}

/// Decimals are plain numbers in the document; one that a double does not
/// hold exactly would be read back as another value, so it gets no bound.
fn decimal(chunks: &[&Statistics], side: Side, scale: u32) -> Option<Value> {
    let unscaled = integer(chunks, side)?;
    if unscaled.unsigned_abs() >= 1 << 53 || scale > 15 {
        return None;
    }
    let text = if scale == 0 {
        unscaled.to_string()
    } else {
        let power = 10_u64.checked_pow(scale)?;
        let sign = if unscaled < 0 { "-" } else { "" };
        format!("{sign}{}.{:0width$}", unscaled.unsigned_abs() / power, unscaled.unsigned_abs() % power, width = scale as usize)
    };
    serde_json::from_str(&text).ok()
}

fn text(chunks: &[&Statistics], side: Side) -> Option<Value> {
    let bytes = extreme(
        side,
        chunks.iter().map(|statistics| match statistics {
            Statistics::ByteArray(v) if side == Side::Min => v.min_opt().map(|b| b.data().to_vec()),
            Statistics::ByteArray(v) => v.max_opt().map(|b| b.data().to_vec()),
            _ => None,
        }),
    )?;
    let whole = String::from_utf8(bytes).ok()?;
    let Some((cut, rest)) = whole.char_indices().nth(PREFIX).map(|(at, _)| whole.split_at(at)) else {
        return Some(Value::from(whole));
    };
    match side {
        Side::Min => Some(Value::from(cut)),
        Side::Max if rest.starts_with(char::MAX) => None,
        Side::Max => Some(Value::from(format!("{cut}{}", char::MAX))),
    }
}
