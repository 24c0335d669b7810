//! Partition values: their text in the log, their folder names, and the
//! splitting of a slice by them.
//!
//! Text follows the Delta protocol ("Partition Value Serialization") with UTC
//! ISO-8601 timestamps, as Delta 4 writes; folder names are escaped as Spark
//! does (`ExternalCatalogUtils.escapePathName`). Null and the empty string
//! are both null, and both live in `__HIVE_DEFAULT_PARTITION__`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::{nullif, take_record_batch};
use arrow::datatypes::{DataType, Date32Type, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::row::{OwnedRow, RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The partition values of a file, in the order of the partition columns.
pub type Values = Vec<Option<String>>;

const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// Whether a table may be partitioned by a column of the type.
pub fn can_partition(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(_, _)
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, _)
    )
}

/// A partition column's values as they are read back: the empty text is null.
pub fn as_read(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.as_string_opt::<i32>() {
        Some(texts) if texts.iter().flatten().any(str::is_empty) => nullif(column, &BooleanArray::from_unary(texts, str::is_empty)),
        _ => Ok(Arc::clone(column)),
    }
}

/// The text of one value; `None` is null.
pub fn value(array: &dyn Array, row: usize) -> Result<Option<String>, ArrowError> {
    if array.is_null(row) {
        return Ok(None);
    }
    Ok(match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)).filter(|text| !text.is_empty()).map(str::to_owned),
        DataType::Float32 => Some(float(
            f64::from(array.as_primitive::<Float32Type>().value(row)),
            format!("{:?}", array.as_primitive::<Float32Type>().value(row)),
        )),
        DataType::Float64 => {
            let number = array.as_primitive::<Float64Type>().value(row);
            Some(float(number, format!("{number:?}")))
        }
        DataType::Date32 => array.as_primitive::<Date32Type>().value_as_date(row).map(|date| date.format("%Y-%m-%d").to_string()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let format = if zone.is_some() { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%d %H:%M:%S%.6f" };
            array.as_primitive::<TimestampMicrosecondType>().value_as_datetime(row).map(|at| at.format(format).to_string())
        }
        _ => Some(ArrayFormatter::try_new(array, &FormatOptions::default())?.value(row).to_string()),
    })
}

fn float(number: f64, text: String) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => text,
    }
}

/// The folder of some partition values, with a trailing slash; empty without any.
pub fn folder(columns: &[String], values: &Values) -> String {
    let mut path = String::new();
    for (column, value) in columns.iter().zip(values) {
        escape(column, &mut path);
        path.push('=');
        match value {
            Some(text) => escape(text, &mut path),
            None => path.push_str(NULL_FOLDER),
        }
        path.push('/');
    }
    path
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '\u{0}'..='\u{1f}' | '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '\u{7f}' | '{' | '[' | ']' | '^' => {
                out.push_str(&format!("%{:02X}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
}

/// Splits a batch by the values of the columns `by`, in order of appearance.
pub fn split(batch: &RecordBatch, by: &[usize]) -> Result<Vec<(Values, RecordBatch)>, ArrowError> {
    let columns: Vec<_> = by.iter().map(|index| batch.column(*index).clone()).collect();
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut seen: HashMap<OwnedRow, usize> = HashMap::new();
    let mut last: Option<(usize, usize)> = None;
    for index in 0..batch.num_rows() {
        let row = rows.row(index);
        let group = match last {
            // Runs of equal values are the common case; they need no hashing.
            Some((previous, group)) if rows.row(previous) == row => group,
            _ => *seen.entry(row.owned()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            }),
        };
        last = Some((index, group));
        groups[group].push(u32::try_from(index).map_err(|e| ArrowError::ComputeError(e.to_string()))?);
    }
    let mut parts: Vec<(Values, RecordBatch)> = Vec::with_capacity(groups.len());
    for indexes in groups {
        let first = indexes.first().map_or(0, |index| *index as usize);
        let values = columns.iter().map(|column| value(column.as_ref(), first)).collect::<Result<Values, _>>()?;
        let part = if indexes.len() == batch.num_rows() { batch.clone() } else { take_record_batch(batch, &UInt32Array::from(indexes))? };
        parts.push((values, part));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Decimal128Array, Float64Array, Int32Array, StringArray, TimestampMicrosecondArray};

    #[test]
    fn texts_of_values() {
        let texts =
            |array: &dyn Array| (0..array.len()).map(|row| value(array, row).unwrap().unwrap_or("<null>".into())).collect::<Vec<_>>();
        assert_eq!(texts(&StringArray::from(vec![Some("x/y z"), None, Some("")])), ["x/y z", "<null>", "<null>"]);
        assert_eq!(texts(&Float64Array::from(vec![1.0, -0.5, f64::NAN, f64::INFINITY])), ["1.0", "-0.5", "NaN", "Infinity"]);
        let ntz = TimestampMicrosecondArray::from(vec![1]);
        assert_eq!(texts(&ntz), ["1970-01-01 00:00:00.000001"]);
        assert_eq!(texts(&ntz.with_timezone("UTC")), ["1970-01-01T00:00:00.000001Z"]);
        assert_eq!(texts(&arrow::array::Date32Array::from(vec![-1])), ["1969-12-31"]);
        assert_eq!(texts(&Decimal128Array::from(vec![12345]).with_precision_and_scale(9, 2).unwrap()), ["123.45"]);
        assert_eq!(texts(&arrow::array::BooleanArray::from(vec![true])), ["true"]);
    }

    #[test]
    fn only_the_empty_text_is_read_back_as_null() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some(""), None, Some("__HIVE_DEFAULT_PARTITION__"), Some(" ")]));
        let read = StringArray::from(vec![Some("a"), None, None, Some("__HIVE_DEFAULT_PARTITION__"), Some(" ")]);
        assert_eq!(as_read(&texts).unwrap().as_string::<i32>(), &read);
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![0]));
        assert_eq!(&as_read(&numbers).unwrap(), &numbers);
    }

    #[test]
    fn folders_are_escaped_as_spark_does() {
        let columns = ["k".to_owned(), "a=b".to_owned()];
        assert_eq!(folder(&columns, &vec![Some("x/y z%".into()), None]), "k=x%2Fy z%25/a%3Db=__HIVE_DEFAULT_PARTITION__/");
        assert_eq!(folder(&[], &vec![]), "");
    }

    #[test]
    fn splitting_keeps_every_row_and_their_order() {
        let batch = RecordBatch::try_from_iter([
            ("k", Arc::new(StringArray::from(vec![Some("a"), Some("a"), None, Some("b"), Some("a")])) as _),
            ("v", Arc::new(Int32Array::from(vec![0, 1, 2, 3, 4])) as _),
        ])
        .unwrap();
        let parts = split(&batch, &[0]).unwrap();
        let found: Vec<_> = parts
            .iter()
            .map(|(values, part)| (values[0].clone(), part.column(1).as_primitive::<arrow::datatypes::Int32Type>().values().to_vec()))
            .collect();
        assert_eq!(found, [(Some("a".into()), vec![0, 1, 4]), (None, vec![2]), (Some("b".into()), vec![3])]);
    }

    proptest::proptest! {
        #[test]
        fn every_row_goes_to_the_part_of_its_value(keys in proptest::collection::vec(proptest::option::of("[ab]{0,2}"), 1..50)) {
            let numbers: Vec<i32> = (0..).take(keys.len()).collect();
            let batch = RecordBatch::try_from_iter_with_nullable([
                ("k", Arc::new(StringArray::from(keys.clone())) as _, true),
                ("v", Arc::new(Int32Array::from(numbers)) as _, true),
            ])
            .unwrap();
            let mut seen = 0;
            for (values, part) in split(&batch, &[0]).unwrap() {
                for row in part.column(1).as_primitive::<arrow::datatypes::Int32Type>().values() {
                    let key = keys[usize::try_from(*row).unwrap()].clone().filter(|key| !key.is_empty());
                    proptest::prop_assert_eq!(&values[0], &key);
                    seen += 1;
                }
            }
            proptest::prop_assert_eq!(seen, keys.len());
        }
    }
}
