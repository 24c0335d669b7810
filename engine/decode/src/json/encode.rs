//! Rows to JSON as Spark's `to_json` and its JSON sink write them.
//!
//! Null fields are left out unless asked for, timestamps carry milliseconds
//! and an offset, decimals keep their scale, numbers that JSON lacks are
//! strings. The array is resolved once, then rows are appended to a buffer.
//! Source: org.apache.spark.sql.catalyst.json.JacksonGenerator.

use super::write::write_string;
use crate::error::DecodeError;
use crate::interval;
use crate::number::{write_double, write_float, write_java_decimal};
use crate::pattern::{DatePattern, Purpose};
use crate::time::Zone;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, GenericListArray, MapArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalUnit, IntervalYearMonthType, TimeUnit, TimestampMicrosecondType,
};
use base64::Engine as _;

/// Options of a JSON writer.
#[derive(Clone, Debug)]
pub struct JsonWriteOptions {
    /// Zone of the timestamps.
    pub zone: Zone,
    /// `timestampFormat`.
    pub timestamp: DatePattern,
    /// `timestampNTZFormat`.
    pub timestamp_ntz: DatePattern,
    /// `dateFormat`.
    pub date: DatePattern,
    /// `ignoreNullFields`.
    pub null_fields: NullFields,
}

/// What becomes of null fields of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullFields {
    /// Left out.
    Ignore,
    /// Written as `null`.
    Write,
}

impl JsonWriteOptions {
    /// Reads the options it knows from name-value pairs; others are ignored.
    ///
    /// # Errors
    /// A value that the option cannot have.
    pub fn parse<'a>(session_zone: Zone, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, DecodeError> {
        let pattern = |text: &str| DatePattern::parse(text, Purpose::Format);
        let mut options = Self {
            zone: session_zone,
            timestamp: pattern("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]")?,
            timestamp_ntz: pattern("yyyy-MM-dd'T'HH:mm:ss[.SSS]")?,
            date: pattern("yyyy-MM-dd")?,
            null_fields: NullFields::Ignore,
        };
        for (name, value) in pairs {
            match name.to_ascii_lowercase().as_str() {
                "timestampformat" => options.timestamp = pattern(value)?,
                "timestampntzformat" => options.timestamp_ntz = pattern(value)?,
                "dateformat" => options.date = pattern(value)?,
                "ignorenullfields" => {
                    options.null_fields = match value.to_ascii_lowercase().as_str() {
                        "true" => NullFields::Ignore,
                        "false" => NullFields::Write,
                        _ => return Err(DecodeError::option(name, value, "true or false")),
                    }
                }
                "timezone" => {
                    options.zone = Zone::parse(value).ok_or_else(|| DecodeError::option(name, value, "a time zone id"))?;
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

/// A column ready to be written row by row.
pub struct JsonWriter<'a> {
    options: &'a JsonWriteOptions,
    nulls: Option<&'a NullBuffer>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int8(&'a PrimitiveArray<Int8Type>),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Float64(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>, i8),
    Date(&'a PrimitiveArray<Date32Type>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
    TimestampNtz(&'a PrimitiveArray<TimestampMicrosecondType>),
    Text(&'a arrow::array::StringArray),
    Binary(&'a arrow::array::BinaryArray),
    Duration(&'a PrimitiveArray<DurationMicrosecondType>, Field),
    Months(&'a PrimitiveArray<IntervalYearMonthType>, Field),
    List(&'a GenericListArray<i32>, Box<JsonWriter<'a>>),
    Map(&'a MapArray, Box<JsonWriter<'a>>, Box<JsonWriter<'a>>),
    Struct(Vec<(Vec<u8>, JsonWriter<'a>)>),
}

impl<'a> JsonWriter<'a> {
    /// Resolves a column; its field tells the units of intervals.
    ///
    /// # Errors
    /// A type that has no JSON form.
    pub fn new(field: &Field, array: &'a ArrayRef, options: &'a JsonWriteOptions) -> Result<Self, DecodeError> {
        let kind = match array.data_type() {
            DataType::Null => Kind::Null,
            DataType::Boolean => Kind::Boolean(array.as_boolean()),
            DataType::Int8 => Kind::Int8(array.as_primitive()),
            DataType::Int16 => Kind::Int16(array.as_primitive()),
            DataType::Int32 => Kind::Int32(array.as_primitive()),
            DataType::Int64 => Kind::Int64(array.as_primitive()),
            DataType::Float32 => Kind::Float32(array.as_primitive()),
            DataType::Float64 => Kind::Float64(array.as_primitive()),
            DataType::Decimal128(_, scale) => Kind::Decimal(array.as_primitive(), *scale),
            DataType::Date32 => Kind::Date(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Kind::Timestamp(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Kind::TimestampNtz(array.as_primitive()),
            DataType::Utf8 => Kind::Text(array.as_string()),
            DataType::Binary => Kind::Binary(array.as_binary()),
            DataType::Duration(TimeUnit::Microsecond) => Kind::Duration(array.as_primitive(), field.clone()),
            DataType::Interval(IntervalUnit::YearMonth) => Kind::Months(array.as_primitive(), field.clone()),
            DataType::List(item) => {
                let list = array.as_list::<i32>();
                Kind::List(list, Box::new(Self::new(item, list.values(), options)?))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let fields = map.entries().fields();
                let key = Self::new(&fields[0], map.keys(), options)?;
                let value = Self::new(&fields[1], map.values(), options)?;
                Kind::Map(map, Box::new(key), Box::new(value))
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let inner = columns.map(|(field, column)| {
                    let mut name = Vec::new();
                    write_string(field.name().as_bytes(), &mut name);
                    name.push(b':');
                    Ok((name, Self::new(field, column, options)?))
                });
                Kind::Struct(inner.collect::<Result<_, DecodeError>>()?)
            }
            other => {
                return Err(DecodeError::new(
                    "DATATYPE_MISMATCH.CANNOT_CONVERT_TO_JSON",
                    format!("Column `{}` of type {other} has no JSON form; cast it to STRING.", field.name()),
                ));
            }
        };
        Ok(Self { options, nulls: array.nulls(), kind })
    }

    /// Whether the row is null.
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.kind, Kind::Null) || self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the value of a row, `null` for null.
    ///
    /// # Errors
    /// A pattern that does not fit the value.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &self.kind {
            Kind::Null => {}
            Kind::Boolean(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
            Kind::Int8(array) => display(array, row, out),
            Kind::Int16(array) => display(array, row, out),
            Kind::Int32(array) => display(array, row, out),
            Kind::Int64(array) => display(array, row, out),
            Kind::Float32(array) => finite(array.value(row).is_finite(), out, |text| write_float(array.value(row), text)),
            Kind::Float64(array) => finite(array.value(row).is_finite(), out, |text| write_double(array.value(row), text)),
            Kind::Decimal(array, scale) => finite(true, out, |text| write_java_decimal(array.value(row), *scale, text)),
            Kind::Date(array) => quote(&self.options.date.format_days(array.value(row))?, out),
            Kind::Timestamp(array) => quote(&self.options.timestamp.format_instant(array.value(row), &self.options.zone)?, out),
            Kind::TimestampNtz(array) => quote(&self.options.timestamp_ntz.format_local(array.value(row))?, out),
            Kind::Text(array) => write_string(array.value(row).as_bytes(), out),
            Kind::Binary(array) => quote(&base64::engine::general_purpose::STANDARD.encode(array.value(row)), out),
            Kind::Duration(array, field) => quote(&interval::text_of(field, array.value(row)), out),
            Kind::Months(array, field) => quote(&interval::text_of(field, array.value(row).into()), out),
            Kind::List(array, item) => {
                let offsets = array.value_offsets();
                out.push(b'[');
                for at in offsets[row] as usize..offsets[row + 1] as usize {
                    if at > offsets[row] as usize {
                        out.push(b',');
                    }
                    item.write(at, out)?;
                }
                out.push(b']');
            }
            Kind::Map(array, key, value) => {
                let offsets = array.value_offsets();
                out.push(b'{');
                for at in offsets[row] as usize..offsets[row + 1] as usize {
                    if at > offsets[row] as usize {
                        out.push(b',');
                    }
                    key.write_key(at, out)?;
                    value.write(at, out)?;
                }
                out.push(b'}');
            }
            Kind::Struct(fields) => {
                let mut first = true;
                out.push(b'{');
                for (name, writer) in fields {
                    if writer.is_null(row) && self.options.null_fields == NullFields::Ignore {
                        continue;
                    }
                    if !std::mem::take(&mut first) {
                        out.push(b',');
                    }
                    out.extend_from_slice(name);
                    writer.write(row, out)?;
                }
                out.push(b'}');
            }
        }
        Ok(())
    }

    /// A map key: always a string.
    fn write_key(&self, row: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut text = Vec::new();
        self.write(row, &mut text)?;
        if text.first() == Some(&b'"') {
            out.extend_from_slice(&text);
        } else {
            write_string(&text, out);
        }
        out.push(b':');
        Ok(())
    }
}

fn display<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize, out: &mut Vec<u8>)
where
    T::Native: std::fmt::Display,
{
    out.extend_from_slice(array.value(row).to_string().as_bytes());
}

/// Numbers as they are, what is not finite in quotes.
fn finite(finite: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut String)) {
    let mut text = String::new();
    write(&mut text);
    if finite { out.extend_from_slice(text.as_bytes()) } else { quote(&text, out) }
}

fn quote(text: &str, out: &mut Vec<u8>) {
    write_string(text.as_bytes(), out);
}
