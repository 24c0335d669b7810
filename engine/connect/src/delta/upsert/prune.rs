//! Which files of the table may hold a key of the batch.
//!
//! By the partition values where key columns are partition columns, else by
//! the least and greatest keys in the files' statistics. Bounds of other
//! writers are trusted where their text has one meaning: numbers, strings,
//! dates; timestamps are cut to milliseconds by some writers, upwards or not,
//! and decide nothing. A file is left out only when that is certain.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::{DataType, FieldRef};
use arrow::row::RowConverter;
use serde::Deserialize;
use serde_json::{Map, Value};
use weir_core::Result;

use super::encode::{converter, normalized, unencoded};
use super::read::{constant, value_of};
use crate::delta::schema::same_name;
use crate::sink::WrittenFile;

/// What is known of the keys of one batch.
pub struct Pruner {
    /// Key columns that are partition columns.
    partitioned: Vec<FieldRef>,
    converter: RowConverter,
    /// Key columns with statistics that can be compared.
    bounded: Vec<FieldRef>,
    /// By partition, the bounds of each of the batch's files there.
    files: HashMap<Box<[u8]>, Vec<Bounds>>,
}

/// The least and the greatest value of each bounded column.
type Bounds = Vec<Option<(Value, Value)>>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    #[serde(default)]
    min_values: Map<String, Value>,
    #[serde(default)]
    max_values: Map<String, Value>,
}

impl Pruner {
    /// Takes in the files of a batch; `keys` are the key columns under the names that files and log have for them.
    pub fn new(keys: &[FieldRef], partition_columns: &[String], files: &[WrittenFile]) -> Result<Self> {
        let (partitioned, rest): (Vec<FieldRef>, Vec<FieldRef>) =
            keys.iter().cloned().partition(|field| partition_columns.iter().any(|column| same_name(column, field.name())));
        let bounded = rest.into_iter().filter(|field| has_clear_bounds(field.data_type())).collect();
        let converter = converter(partitioned.iter().map(|field| field.data_type().clone()))?;
        let mut pruner = Self { partitioned, converter, bounded, files: HashMap::new() };
        for file in files {
            let values: BTreeMap<String, Option<String>> = file.partition_values.iter().cloned().collect();
            let bounds = pruner.bounds(file.stats.as_deref());
            if let Some(partition) = pruner.partition(&values)? {
                pruner.files.entry(partition).or_default().push(bounds);
            }
        }
        Ok(pruner)
    }

    /// Whether a file of the table may hold a key of the batch.
    pub fn may_match(&self, values: &BTreeMap<String, Option<String>>, stats: Option<&str>) -> Result<bool> {
        let Some(partition) = self.partition(values)? else { return Ok(false) };
        let Some(own) = self.files.get(&partition) else { return Ok(false) };
        let theirs = self.bounds(stats);
        Ok(own.iter().any(|own| own.iter().zip(&theirs).all(|(own, theirs)| may_overlap(own.as_ref(), theirs.as_ref()))))
    }

    /// The key's part of the partition as bytes; `None` where it has a null, which equals nothing.
    fn partition(&self, values: &BTreeMap<String, Option<String>>) -> Result<Option<Box<[u8]>>> {
        if self.partitioned.is_empty() {
            return Ok(Some(Box::default()));
        }
        let mut columns = Vec::with_capacity(self.partitioned.len());
        for field in &self.partitioned {
            let value = value_of(values, field.name()).and_then(Option::as_deref);
            let column = normalized(&constant(value, field.data_type(), 1).map_err(unencoded)?);
            if column.is_null(0) {
                return Ok(None);
            }
            columns.push(column);
        }
        let rows = self.converter.convert_columns(&columns).map_err(unencoded)?;
        Ok(Some(rows.row(0).data().into()))
    }

    fn bounds(&self, stats: Option<&str>) -> Bounds {
        let stats: Stats = stats.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let of = |field: &FieldRef| Some((stats.min_values.get(field.name())?.clone(), stats.max_values.get(field.name())?.clone()));
        let is_clear = |field: &FieldRef, bounds: &(Value, Value)| match field.data_type() {
            // Texts of years beyond four digits have another order.
            DataType::Date32 => [&bounds.0, &bounds.1].iter().all(|bound| bound.as_str().is_some_and(|text| text.len() == 10)),
            _ => true,
        };
        self.bounded.iter().map(|field| of(field).filter(|bounds| is_clear(field, bounds))).collect()
    }
}

fn has_clear_bounds(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(_, _)
            | DataType::Date32
            | DataType::Utf8
    )
}

fn may_overlap(one: Option<&(Value, Value)>, other: Option<&(Value, Value)>) -> bool {
    match (one, other) {
        (Some((least, greatest)), Some((other_least, other_greatest))) => {
            !is_below(greatest, other_least) && !is_below(other_greatest, least)
        }
        _ => true,
    }
}

/// Whether a bound is certainly below another. Rounding to a double keeps the order, so what differs there differs.
fn is_below(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one < other,
            _ => one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one < other),
        },
        // Strings compare by their bytes, as in Spark.
        (Value::String(one), Value::String(other)) => one < other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::datatypes::Field;
    use std::sync::Arc;

    fn field(name: &str, data_type: DataType) -> FieldRef {
        Arc::new(Field::new(name, data_type, true))
    }

    fn file(partition: Option<&str>, stats: &str) -> WrittenFile {
        WrittenFile {
            path: String::new(),
            size: 1,
            rows: 1,
            modification_time_ms: 0,
            partition_values: partition.map(|value| vec![("p".to_owned(), Some(value.to_owned()))]).unwrap_or_default(),
            stats: Some(stats.to_owned()),
        }
    }

    #[test]
    fn files_are_left_out_by_bounds_only_where_that_is_certain() {
        let keys = [field("id", DataType::Int64), field("s", DataType::Utf8)];
        let own = file(None, r#"{"minValues":{"id":10,"s":"b"},"maxValues":{"id":20,"s":"d"}}"#);
        let pruner = Pruner::new(&keys, &[], &[own]).unwrap();
        let none = BTreeMap::new();
        for (stats, expected) in [
            (r#"{"minValues":{"id":20,"s":"a"},"maxValues":{"id":30,"s":"b"}}"#, true),
            (r#"{"minValues":{"id":21,"s":"a"},"maxValues":{"id":30,"s":"z"}}"#, false),
            (r#"{"minValues":{"id":1,"s":"a"},"maxValues":{"id":9.5,"s":"z"}}"#, false),
            (r#"{"minValues":{"id":15,"s":"e"},"maxValues":{"id":15,"s":"f"}}"#, false),
            (r#"{"minValues":{"id":15},"maxValues":{"id":15}}"#, true),
            (r#"{"minValues":{"id":"NaN","s":"c"},"maxValues":{"id":"NaN","s":"c"}}"#, true),
            (r#"{"numRecords":3}"#, true),
            ("not JSON", true),
        ] {
            assert_eq!(pruner.may_match(&none, Some(stats)).unwrap(), expected, "{stats}");
        }
        assert!(pruner.may_match(&none, None).unwrap());
        let timed = Pruner::new(&[field("t", DataType::Utf8)], &[], &[]).unwrap();
        assert!(!timed.may_match(&none, None).unwrap(), "a batch without rows matches nothing");
    }

    #[test]
    fn partitions_are_compared_by_value() {
        let instant = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
        let keys = [field("p", instant), field("id", DataType::Int64)];
        let own = file(Some("2024-06-01T10:00:00.000000Z"), r#"{"minValues":{"id":1},"maxValues":{"id":2}}"#);
        let pruner = Pruner::new(&keys, &["p".to_owned()], &[own]).unwrap();
        let at = |text: Option<&str>| BTreeMap::from([("p".to_owned(), text.map(str::to_owned))]);
        let stats = Some(r#"{"minValues":{"id":2},"maxValues":{"id":2}}"#);
        assert!(pruner.may_match(&at(Some("2024-06-01 10:00:00")), stats).unwrap(), "another writer's text of the same instant");
        assert!(!pruner.may_match(&at(Some("2024-06-01T10:00:01.000000Z")), stats).unwrap());
        assert!(!pruner.may_match(&at(None), stats).unwrap(), "null equals nothing");
        assert!(!pruner.may_match(&at(Some("2024-06-01 10:00:00")), Some(r#"{"minValues":{"id":3},"maxValues":{"id":4}}"#)).unwrap());
    }
}
