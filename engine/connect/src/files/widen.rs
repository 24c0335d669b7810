//! Columns as a file has them to columns as a schema wants them.
//!
//! `widen` allows what Spark's Parquet reader allows: the same type, wider
//! numbers and decimals, units of timestamps, bytes as strings; structs by field
//! name, lists and maps by their parts. `plain` maps any Arrow type of a file to
//! the one Arrow type that stands for its Spark type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, PrimitiveArray, StringBuilder, StructArray, new_null_array};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};

/// The column as `to`, or nothing when the types do not go together.
pub fn widen(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    if array.data_type() == to {
        return Some(array.clone());
    }
    match (array.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => widen_struct(array.as_struct(), fields),
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let values = widen(list.values(), item.data_type())?;
            let list = ListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned());
            list.ok().map(|list| Arc::new(list) as ArrayRef)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else { return None };
            let keys = widen(map.keys(), fields.first()?.data_type())?;
            let values = widen(map.values(), fields.get(1)?.data_type())?;
            let parts = StructArray::try_new(fields.clone(), vec![keys, values], None).ok()?;
            let map = MapArray::try_new(entries.clone(), map.offsets().clone(), parts, map.nulls().cloned(), *sorted);
            map.ok().map(|map| Arc::new(map) as ArrayRef)
        }
        (DataType::Binary, DataType::Utf8) => {
            let mut strings = StringBuilder::new();
            for value in array.as_binary::<i32>() {
                strings.append_option(value.map(String::from_utf8_lossy));
            }
            Some(Arc::new(strings.finish()))
        }
        (DataType::Timestamp(..), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            Some(Arc::new(micros(array)?.with_timezone_opt(zone.clone())) as ArrayRef)
        }
        (from, to) if is_wider(from, to) => arrow::compute::cast(array, to).ok(),
        _ => None,
    }
}

/// Timestamps of any unit in microseconds; parts of one are cut towards the past.
fn micros(array: &ArrayRef) -> Option<PrimitiveArray<TimestampMicrosecondType>> {
    let DataType::Timestamp(unit, _) = array.data_type() else { return None };
    Some(match unit {
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().unary(|nanos| nanos.div_euclid(1000)),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().clone(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().unary(|millis| millis.saturating_mul(1000)),
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().unary(|seconds| seconds.saturating_mul(1_000_000)),
    })
}

fn widen_struct(array: &StructArray, fields: &Fields) -> Option<ArrayRef> {
    let columns: Option<Vec<ArrayRef>> = fields
        .iter()
        .map(|field| {
            let own = array.fields().iter().position(|own| own.name().eq_ignore_ascii_case(field.name()));
            match own {
                Some(at) => widen(array.column(at), field.data_type()),
                None => Some(new_null_array(field.data_type(), array.len())),
            }
        })
        .collect();
    let array = StructArray::try_new_with_length(fields.clone(), columns?, array.nulls().cloned(), array.len());
    array.ok().map(|array| Arc::new(array) as ArrayRef)
}

fn is_wider(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, Date32, Decimal32, Decimal64, Decimal128, FixedSizeBinary, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary,
        LargeUtf8, Null, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    match (from, to) {
        (Null, _)
        | (Int8 | UInt8, Int8 | Int16 | Int32 | Int64 | Float64)
        | (Int16 | UInt16, Int16 | Int32 | Int64 | Float64)
        // The logical type of a file may be wider than what the writer meant.
        | (Int32, Int8 | Int16 | Int64 | Float64)
        | (UInt32, Int64)
        | (Float32, Float64)
        | (LargeUtf8 | Utf8View, Utf8)
        | (Utf8 | LargeBinary | FixedSizeBinary(_), Binary)
        | (Date32, Timestamp(_, None)) => true,
        (Int8 | Int16 | Int32, Decimal128(precision, scale)) => i16::from(*precision) - i16::from(*scale) >= 10,
        (Int64 | UInt32, Decimal128(precision, scale)) => i16::from(*precision) - i16::from(*scale) >= 20,
        (UInt64, Decimal128(20.., 0)) => true,
        (Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s), Decimal128(precision, scale)) => {
            scale >= s && i16::from(*precision) - i16::from(*scale) >= i16::from(*p) - i16::from(*s)
        }
        _ => false,
    }
}

/// The type that stands for the Spark type of a file's column; nothing for
/// types that Spark does not have.
pub fn plain(data_type: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, Boolean, Date32, Decimal32, Decimal64, Decimal128, FixedSizeBinary, Float16, Float32, Float64, Int8, Int16, Int32, Int64,
        LargeBinary, LargeList, LargeUtf8, List, Map, Null, Struct, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    Some(match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Date32 | Utf8 | Binary | Decimal128(..) => data_type.clone(),
        Null | LargeUtf8 | Utf8View => Utf8,
        UInt8 => Int16,
        UInt16 => Int32,
        UInt32 => Int64,
        UInt64 => Decimal128(20, 0),
        Float16 => Float32,
        LargeBinary | FixedSizeBinary(_) => Binary,
        Decimal32(precision, scale) | Decimal64(precision, scale) => Decimal128(*precision, *scale),
        Timestamp(_, Some(_)) => Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Timestamp(_, None) => Timestamp(TimeUnit::Microsecond, None),
        List(item) | LargeList(item) => List(Arc::new(Field::new_list_field(plain(item.data_type())?, true))),
        Struct(fields) => Struct(fields.iter().map(plain_field).collect::<Option<Fields>>()?),
        Map(entries, _) => {
            let Struct(fields) = entries.data_type() else { return None };
            let key = Field::new("key", plain(fields.first()?.data_type())?, false);
            let value = Field::new("value", plain(fields.get(1)?.data_type())?, true);
            Map(Arc::new(Field::new("entries", Struct(Fields::from(vec![key, value])), false)), false)
        }
        _ => return None,
    })
}

/// The type with nanoseconds without a zone, which is how INT96 comes, as
/// instants: they hold years that nanoseconds cannot.
pub fn int96_as_instants(data_type: &DataType) -> DataType {
    let renamed = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(int96_as_instants(field.data_type())));
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, None) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::List(item) => DataType::List(renamed(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(renamed).collect()),
        DataType::Map(entries, sorted) => DataType::Map(renamed(entries), *sorted),
        other => other.clone(),
    }
}

fn plain_field(field: &FieldRef) -> Option<Field> {
    plain(field.data_type()).map(|data_type| Field::new(field.name(), data_type, true))
}
