//! The mapping between Spark's types and Arrow's, and Spark's type names.
//!
//! One Arrow type stands for one Spark type: string is `Utf8`, binary is
//! `Binary`, timestamp is `Timestamp(Microsecond, "UTC")`, timestamp_ntz is
//! `Timestamp(Microsecond, None)`, decimals are `Decimal128`, day-time intervals
//! are `Duration(Microsecond)`, year-month intervals `Interval(YearMonth)`.
//! Nested types are built only by the constructors here, so that two arrays of
//! the same Spark type always have the same Arrow type (list field `item`, map
//! field `entries` of `key`, `value`, everything inside nullable except keys).
//! Which units an interval has is kept in field metadata, see `SPARK_TYPE_KEY`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, TimeUnit};
use weir_core::columns::HIDDEN_KEY;

pub use weir_decode::spark_type::{SPARK_TYPE_KEY, spark_field_type_name, spark_type_name};

/// Spark's largest decimal precision.
pub const MAX_PRECISION: u8 = 38;

/// `timestamp`: an instant in microseconds.
pub fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// `timestamp_ntz`: a wall clock reading in microseconds.
pub fn timestamp_ntz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// `interval day to second`, in microseconds.
pub fn day_time_interval() -> DataType {
    DataType::Duration(TimeUnit::Microsecond)
}

/// `interval year to month`, in months.
pub fn year_month_interval() -> DataType {
    DataType::Interval(IntervalUnit::YearMonth)
}

/// `interval`: months, days and microseconds.
pub fn calendar_interval() -> DataType {
    DataType::Interval(IntervalUnit::MonthDayNano)
}

/// `array<element>`.
pub fn list_of(element: DataType) -> DataType {
    DataType::List(list_field(element))
}

/// The item field of `array<element>`.
pub fn list_field(element: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(element, true))
}

/// The two fields of a map's entries.
pub fn map_entry_fields(key: DataType, value: DataType) -> Fields {
    Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)])
}

/// The entries field of `map<key,value>`.
pub fn map_field(key: DataType, value: DataType) -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(map_entry_fields(key, value)), false))
}

/// `map<key,value>`.
pub fn map_of(key: DataType, value: DataType) -> DataType {
    DataType::Map(map_field(key, value), false)
}

/// `struct<...>` with every field nullable.
pub fn struct_of<N: Into<String>>(fields: impl IntoIterator<Item = (N, DataType)>) -> DataType {
    DataType::Struct(fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect())
}

/// Key and value types of a map type.
pub fn map_types(data_type: &DataType) -> Option<(&DataType, &DataType)> {
    match data_type {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => Some((fields[0].data_type(), fields[1].data_type())),
            _ => None,
        },
        _ => None,
    }
}

/// The one Arrow type that Weir uses for the Spark type of any Arrow type, or
/// `None` where Spark has no such type.
pub fn canonical(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(_, Some(_)) => timestamp(),
        DataType::Timestamp(_, None) => timestamp_ntz(),
        DataType::Duration(_) => day_time_interval(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => DataType::Decimal128(*p, *s),
        DataType::List(f) | DataType::LargeList(f) | DataType::ListView(f) | DataType::LargeListView(f) | DataType::FixedSizeList(f, _) => {
            list_of(canonical(f.data_type())?)
        }
        DataType::Map(..) => {
            let (key, value) = map_types(data_type)?;
            map_of(canonical(key)?, canonical(value)?)
        }
        DataType::Struct(fields) => {
            let fields: Option<Vec<_>> = fields.iter().map(|f| Some((f.name().clone(), canonical(f.data_type())?))).collect();
            struct_of(fields?)
        }
        DataType::Dictionary(_, value) => canonical(value)?,
        DataType::RunEndEncoded(_, value) => canonical(value.data_type())?,
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::MonthDayNano) => data_type.clone(),
        _ => return None,
    })
}

/// A type as Spark's error messages write it: upper case, in double quotes.
pub fn quoted_type(data_type: &DataType) -> String {
    format!("\"{}\"", spark_type_name(data_type).to_uppercase())
}

/// Every column of a schema with its canonical type, nullable as everything that
/// Spark reads from a stream.
pub fn canonical_schema(schema: &Schema) -> Result<Schema, String> {
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let data_type = canonical(field.data_type())
            .ok_or_else(|| format!("column {} has type {}, which Spark SQL does not have", field.name(), field.data_type()))?;
        let hidden = field.metadata().get_key_value(HIDDEN_KEY).map(|(key, value)| (key.clone(), value.clone()));
        fields.push(Field::new(field.name(), data_type, true).with_metadata(hidden.into_iter().collect()));
    }
    Ok(Schema::new(fields))
}
