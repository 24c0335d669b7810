//! Hashes, checksums and URLs.
//!
//! `hash` and `xxhash64` are Spark's: the columns one after the other, each with
//! the hash so far as its seed, nulls skipped, seed 42.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::ScalarUDF;
use weir_core::Error;

use super::args;
use crate::analyzer::{Analyzer, Typed};
use crate::error::from_planning;
use crate::types::canonical;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "hash",
    "xxhash64",
    "md5",
    "sha",
    "sha1",
    "sha2",
    "crc32",
    "parse_url",
    "try_parse_url",
    "url_decode",
    "try_url_decode",
    "url_encode",
    "soundex",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, list: Vec<Typed>) -> Result<Typed> {
    use datafusion_spark::function as spark;
    let (text, binary) = (DataType::Utf8, DataType::Binary);
    match name {
        "hash" | "xxhash64" => {
            args::count(name, &list, 1, usize::MAX)?;
            let wide = name == "xxhash64";
            let result = if wide { DataType::Int64 } else { DataType::Int32 };
            Ok(a.call(name, "", result, &list, move |rows: Rows| hash_rows(rows.args, rows.len, wide)))
        }
        "md5" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[binary])?;
            foreign(a, name, datafusion::functions::crypto::md5(), list)
        }
        "sha" | "sha1" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[binary])?;
            foreign(a, name, spark::hash::sha1(), list)
        }
        "sha2" => {
            args::count(name, &list, 2, 2)?;
            let list = args::to_types(a, list, &[binary, DataType::Int32])?;
            foreign(a, name, spark::hash::sha2(), list)
        }
        "crc32" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[binary])?;
            foreign(a, name, spark::hash::crc32(), list)
        }
        "soundex" => {
            args::count(name, &list, 1, 1)?;
            let list = args::all_to(a, list, &text)?;
            foreign(a, name, spark::string::soundex(), list)
        }
        _ => {
            let parse = name.ends_with("parse_url");
            args::count(name, &list, if parse { 2 } else { 1 }, if parse { 3 } else { 1 })?;
            let list = args::all_to(a, list, &text)?;
            let function = match name {
                "parse_url" => spark::url::parse_url(),
                "try_parse_url" => spark::url::try_parse_url(),
                "url_decode" => spark::url::url_decode(),
                "try_url_decode" => spark::url::try_url_decode(),
                _ => spark::url::url_encode(),
            };
            Ok(foreign(a, name, function, list)?.may_fail())
        }
    }
}

/// A call of another crate's function, with its result in the canonical type.
pub fn foreign(a: &Analyzer, name: &str, function: Arc<ScalarUDF>, list: Vec<Typed>) -> Result<Typed> {
    let types: Vec<DataType> = list.iter().map(|l| l.ty.clone()).collect();
    let fields: Vec<_> = types.iter().map(|t| Arc::new(arrow::datatypes::Field::new("", t.clone(), true))).collect();
    let scalars: Vec<_> = list.iter().map(Typed::value).collect();
    let field = function
        .return_field_from_args(datafusion::logical_expr::ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars })
        .map_err(from_planning)?;
    let made = field.data_type().clone();
    let target = canonical(&made).ok_or_else(|| Error::config("WEIR_PLANNING_FAILED", format!("{name} returns {made}")))?;
    let shown = format!("{name}({})", list.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", "));
    let call = Typed::new(function.call(list.iter().map(|l| l.expr.clone()).collect()), made.clone(), shown).failing_like(&list);
    if made == target {
        return Ok(call);
    }
    let (name, goal) = (call.name.clone(), target.clone());
    Ok(a.call("canonical", "", target, &[call], move |rows: Rows| super::nested::to_canonical(&rows.args[0], &goal)).named(name))
}

fn hash_rows(columns: &[ArrayRef], len: usize, wide: bool) -> DfResult<ArrayRef> {
    let mut seeds = vec![42_i64; len];
    for column in columns {
        for (row, seed) in seeds.iter_mut().enumerate() {
            *seed = hash_value(column, row, *seed, wide)?;
        }
    }
    Ok(if wide {
        Arc::new(Int64Array::from(seeds))
    } else {
        #[allow(clippy::cast_possible_truncation)]
        Arc::new(seeds.into_iter().map(|s| Some(s as i32)).collect::<Int32Array>())
    })
}

fn hash_value(array: &ArrayRef, row: usize, seed: i64, wide: bool) -> DfResult<i64> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Ok(seed);
    }
    let int = |v: i32| if wide { xx::int(v, seed) } else { murmur::int(v, seed) };
    let long = |v: i64| if wide { xx::long(v, seed) } else { murmur::long(v, seed) };
    let bytes = |b: &[u8]| if wide { xx::bytes(b, seed) } else { murmur::bytes(b, seed) };
    Ok(match array.data_type() {
        DataType::Boolean => int(i32::from(downcast::<BooleanArray>(array)?.value(row))),
        DataType::Int8 => int(i32::from(downcast::<Int8Array>(array)?.value(row))),
        DataType::Int16 => int(i32::from(downcast::<Int16Array>(array)?.value(row))),
        DataType::Int32 => int(downcast::<Int32Array>(array)?.value(row)),
        DataType::Date32 => int(downcast::<Date32Array>(array)?.value(row)),
        DataType::Int64 => long(downcast::<Int64Array>(array)?.value(row)),
        DataType::Timestamp(..) => long(downcast::<TimestampMicrosecondArray>(array)?.value(row)),
        DataType::Float32 => {
            let v = downcast::<Float32Array>(array)?.value(row);
            int(if v == 0.0 { 0 } else { v.to_bits().cast_signed() })
        }
        DataType::Float64 => {
            let v = downcast::<Float64Array>(array)?.value(row);
            long(if v == 0.0 { 0 } else { v.to_bits().cast_signed() })
        }
        DataType::Utf8 => bytes(downcast::<StringArray>(array)?.value(row).as_bytes()),
        DataType::Binary => bytes(downcast::<BinaryArray>(array)?.value(row)),
        DataType::Decimal128(precision, _) => {
            let v = downcast::<Decimal128Array>(array)?.value(row);
            match i64::try_from(v) {
                Ok(v) if *precision <= 18 => long(v),
                _ => {
                    // Java's BigInteger.toByteArray: the fewest bytes that keep the sign.
                    let all = v.to_be_bytes();
                    let skip = (0..15)
                        .take_while(|i| {
                            let (byte, next) = (all[*i], all[*i + 1]);
                            (byte == 0 && next < 0x80) || (byte == 0xff && next >= 0x80)
                        })
                        .count();
                    bytes(&all[skip..])
                }
            }
        }
        DataType::Struct(_) => {
            let parts: &StructArray = downcast(array)?;
            let mut seed = seed;
            for column in parts.columns() {
                seed = hash_value(column, row, seed, wide)?;
            }
            seed
        }
        DataType::List(_) => {
            let items = downcast::<ListArray>(array)?.value(row);
            let mut seed = seed;
            for index in 0..items.len() {
                seed = hash_value(&items, index, seed, wide)?;
            }
            seed
        }
        DataType::Map(..) => {
            let entries = downcast::<MapArray>(array)?.value(row);
            let mut seed = seed;
            for index in 0..entries.len() {
                seed = hash_value(entries.column(0), index, seed, wide)?;
                seed = hash_value(entries.column(1), index, seed, wide)?;
            }
            seed
        }
        DataType::Duration(_) => long(downcast::<arrow::array::DurationMicrosecondArray>(array)?.value(row)),
        _ => seed,
    })
}

/// Murmur3 with 32 bits as Spark uses it: words, then single signed bytes.
#[allow(clippy::cast_possible_truncation)]
mod murmur {
    fn mix(h: u32, k: u32) -> u32 {
        let k = k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (h ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    }

    fn end(h: u32, length: u32) -> i64 {
        let mut h = h ^ length;
        h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
        h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
        i64::from((h ^ (h >> 16)).cast_signed())
    }

    pub fn int(v: i32, seed: i64) -> i64 {
        end(mix(seed as u32, v.cast_unsigned()), 4)
    }

    pub fn long(v: i64, seed: i64) -> i64 {
        end(mix(mix(seed as u32, v as u32), (v >> 32) as u32), 8)
    }

    pub fn bytes(b: &[u8], seed: i64) -> i64 {
        let mut h = seed as u32;
        let (words, rest) = b.as_chunks::<4>();
        for word in words {
            h = mix(h, u32::from_le_bytes(*word));
        }
        for byte in rest {
            h = mix(h, i32::from(byte.cast_signed()).cast_unsigned());
        }
        end(h, b.len() as u32)
    }
}

/// XXHash64 as Spark uses it.
mod xx {
    const P1: u64 = 0x9E37_79B1_85EB_CA87;
    const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
    const P3: u64 = 0x1656_67B1_9E37_79F9;
    const P4: u64 = 0x85EB_CA77_C2B2_AE63;
    const P5: u64 = 0x27D4_EB2F_1656_67C5;

    fn end(h: u64) -> i64 {
        let mut h = (h ^ (h >> 33)).wrapping_mul(P2);
        h = (h ^ (h >> 29)).wrapping_mul(P3);
        (h ^ (h >> 32)).cast_signed()
    }

    fn word(h: u64, v: u64) -> u64 {
        let h = h ^ v.wrapping_mul(P2).rotate_left(31).wrapping_mul(P1);
        h.rotate_left(27).wrapping_mul(P1).wrapping_add(P4)
    }

    pub fn int(v: i32, seed: i64) -> i64 {
        let h = seed.cast_unsigned().wrapping_add(P5).wrapping_add(4);
        let h = h ^ u64::from(v.cast_unsigned()).wrapping_mul(P1);
        end(h.rotate_left(23).wrapping_mul(P2).wrapping_add(P3))
    }

    pub fn long(v: i64, seed: i64) -> i64 {
        end(word(seed.cast_unsigned().wrapping_add(P5).wrapping_add(8), v.cast_unsigned()))
    }

    pub fn bytes(b: &[u8], seed: i64) -> i64 {
        let seed = seed.cast_unsigned();
        let read = |b: &[u8], at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&b[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let mut at = 0;
        let mut h = if b.len() >= 32 {
            let mut lanes = [seed.wrapping_add(P1).wrapping_add(P2), seed.wrapping_add(P2), seed, seed.wrapping_sub(P1)];
            while at + 32 <= b.len() {
                for (index, lane) in lanes.iter_mut().enumerate() {
                    *lane = lane.wrapping_add(read(b, at + 8 * index).wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1);
                }
                at += 32;
            }
            let mut h = lanes[0]
                .rotate_left(1)
                .wrapping_add(lanes[1].rotate_left(7))
                .wrapping_add(lanes[2].rotate_left(12))
                .wrapping_add(lanes[3].rotate_left(18));
            for lane in lanes {
                h = (h ^ lane.wrapping_mul(P2).rotate_left(31).wrapping_mul(P1)).wrapping_mul(P1).wrapping_add(P4);
            }
            h
        } else {
            seed.wrapping_add(P5)
        };
        h = h.wrapping_add(u64::try_from(b.len()).unwrap_or(u64::MAX));
        while at + 8 <= b.len() {
            h = word(h, read(b, at));
            at += 8;
        }
        if at + 4 <= b.len() {
            let mut four = [0; 4];
            four.copy_from_slice(&b[at..at + 4]);
            h ^= u64::from(u32::from_le_bytes(four)).wrapping_mul(P1);
            h = h.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
            at += 4;
        }
        for byte in &b[at..] {
            h ^= u64::from(*byte).wrapping_mul(P5);
            h = h.rotate_left(11).wrapping_mul(P1);
        }
        end(h)
    }
}
