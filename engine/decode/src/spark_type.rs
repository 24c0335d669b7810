//! Spark's names of types.
//!
//! An Arrow type stands for one Spark type, but for the units of intervals:
//! those are in the field's metadata, under `SPARK_TYPE_KEY`.

use arrow::datatypes::{DataType, Field, IntervalUnit};

/// Metadata key of a field that names the Spark type where the Arrow type alone cannot.
pub const SPARK_TYPE_KEY: &str = "spark.type";

/// Spark's `simpleString` of a type.
pub fn spark_type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "void".into(),
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(_, Some(_)) => "timestamp".into(),
        DataType::Timestamp(_, None) => "timestamp_ntz".into(),
        DataType::Duration(_) => "interval day to second".into(),
        DataType::Interval(IntervalUnit::YearMonth) => "interval year to month".into(),
        DataType::Interval(_) => "interval".into(),
        DataType::Decimal128(p, s) => format!("decimal({p},{s})"),
        DataType::List(f) | DataType::LargeList(f) => {
            format!("array<{}>", spark_field_type_name(f))
        }
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|f| format!("{}:{}", f.name(), spark_field_type_name(f))).collect();
            format!("struct<{}>", fields.join(","))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                format!("map<{},{}>", spark_type_name(fields[0].data_type()), spark_type_name(fields[1].data_type()))
            }
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

/// Spark's name of a field's type, with the units of an interval.
pub fn spark_field_type_name(field: &Field) -> String {
    match field.metadata().get(SPARK_TYPE_KEY) {
        Some(name) => name.clone(),
        None => spark_type_name(field.data_type()),
    }
}
