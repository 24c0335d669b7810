//! `schema_of_json` and `schema_of_csv`: the DDL of a constant sample.
//!
//! Whole numbers are BIGINT, others DOUBLE, fields are sorted by name, kinds
//! that do not agree become STRING. Source: JsonInferSchema and CSVInferSchema
//! of Spark's catalyst.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use weir_core::Error;
use weir_decode::json::{Fault, Lexer, NumberForm};
use weir_decode::time::{Zone, parse_date, parse_timestamp};
use weir_decode::{CsvOptions, JsonOptions, Origin};

use super::{borrowed, options};
use crate::planned::{Arg, Planned, Session, each_text, planning, wrong_count};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    match (name, args) {
        ("schema_of_json" | "schema_of_csv", [sample] | [sample, _]) => Some(schema_of(name, sample, args, session)),
        ("schema_of_json" | "schema_of_csv", _) => Some(Err(wrong_count(name, "[1, 2]", args.len()))),
        _ => None,
    }
}

fn schema_of(name: &str, sample: &Arg, args: &[Arg], session: &Session) -> Result<Planned, Error> {
    let text = sample.text().ok_or_else(|| {
        Error::config("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", format!("the sample of `{name}` must be a constant string"))
    })?;
    let pairs = options(name, args.get(1))?;
    let ddl = if name == "schema_of_json" {
        let read = JsonOptions::parse(Origin::Column, session.zone, borrowed(&pairs)).map_err(|e| planning(&e))?;
        let mut lexer = Lexer::new(text.as_bytes(), read.leniency);
        let inferred = infer(&mut lexer, &read).map_err(|_| {
            Error::config("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", format!("`{text}` is not JSON; give a valid sample"))
        })?;
        inferred.ddl()
    } else {
        csv_schema(text, session.zone, &pairs)?
    };
    let key = ddl.clone();
    let types: Vec<DataType> = args.iter().map(|arg| arg.data_type.clone()).collect();
    Ok(Planned::new(types, DataType::Utf8, move |rows: Rows<'_>| each_text(rows.len, |_| Ok(Some(ddl.clone())))).keyed(key))
}

/// What a value looks like.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Null,
    Boolean,
    Long,
    Double,
    Decimal(u8, u8),
    Text,
    Array(Box<Shape>),
    Object(BTreeMap<String, Shape>),
}

impl Shape {
    fn ddl(&self) -> String {
        match self {
            Self::Null | Self::Text => "STRING".to_owned(),
            Self::Boolean => "BOOLEAN".to_owned(),
            Self::Long => "BIGINT".to_owned(),
            Self::Double => "DOUBLE".to_owned(),
            Self::Decimal(precision, scale) => format!("DECIMAL({precision},{scale})"),
            Self::Array(item) => format!("ARRAY<{}>", item.ddl()),
            Self::Object(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, shape)| format!("{}: {}", quoted(name), shape.ddl())).collect();
                format!("STRUCT<{}>", fields.join(", "))
            }
        }
    }

    fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, shape) | (shape, Self::Null) => shape,
            (Self::Long | Self::Double | Self::Decimal(..), Self::Double) | (Self::Double, Self::Long | Self::Decimal(..)) => Self::Double,
            (Self::Decimal(p, s), Self::Long) | (Self::Long, Self::Decimal(p, s)) => {
                let whole = (p - s).max(20);
                if whole + s > 38 { Self::Double } else { Self::Decimal(whole + s, s) }
            }
            (Self::Decimal(p, s), Self::Decimal(q, t)) => {
                let (whole, scale) = ((p - s).max(q - t), s.max(t));
                if whole + scale > 38 { Self::Double } else { Self::Decimal(whole + scale, scale) }
            }
            (Self::Array(a), Self::Array(b)) => Self::Array(Box::new(a.merge(*b))),
            (Self::Object(mut a), Self::Object(b)) => {
                for (name, shape) in b {
                    let merged = match a.remove(&name) {
                        Some(known) => known.merge(shape),
                        None => shape,
                    };
                    a.insert(name, merged);
                }
                Self::Object(a)
            }
            (a, b) if a == b => a,
            _ => Self::Text,
        }
    }
}

fn quoted(name: &str) -> String {
    let plain =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.bytes().all(|b| b.is_ascii_digit());
    if plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

fn infer(lexer: &mut Lexer<'_>, options: &JsonOptions) -> Result<Shape, Fault> {
    let primitive = |shape: Shape| if options.primitives_as_string { Shape::Text } else { shape };
    let first = lexer.value_start()?;
    Ok(match first {
        b'{' => {
            let mut fields = BTreeMap::new();
            let mut scratch = Vec::new();
            lexer.open()?;
            if !lexer.close(b'}')? {
                loop {
                    let span = lexer.name()?;
                    let name = String::from_utf8_lossy(lexer.text(span, &mut scratch)).into_owned();
                    fields.insert(name, infer(lexer, options)?);
                    if !lexer.more(b'}')? {
                        break;
                    }
                }
            }
            Shape::Object(fields)
        }
        b'[' => {
            let mut item = Shape::Null;
            lexer.open()?;
            if !lexer.close(b']')? {
                loop {
                    item = item.merge(infer(lexer, options)?);
                    if !lexer.more(b']')? {
                        break;
                    }
                }
            }
            Shape::Array(Box::new(item))
        }
        b'n' => {
            lexer.literal(b"null")?;
            Shape::Null
        }
        b't' => {
            lexer.literal(b"true")?;
            primitive(Shape::Boolean)
        }
        b'f' => {
            lexer.literal(b"false")?;
            primitive(Shape::Boolean)
        }
        quote if lexer.is_quote(quote) => {
            lexer.string()?;
            Shape::Text
        }
        _ => {
            let number = lexer.number()?;
            let digits = number.raw.iter().filter(|b| b.is_ascii_digit()).count();
            primitive(match number.form {
                NumberForm::Integer if std::str::from_utf8(number.raw).is_ok_and(|text| text.parse::<i64>().is_ok()) => Shape::Long,
                NumberForm::Integer if digits <= 38 => Shape::Decimal(digits as u8, 0),
                NumberForm::Float if options.prefers_decimal => decimal(number.raw).unwrap_or(Shape::Double),
                _ => Shape::Double,
            })
        }
    })
}

/// The smallest decimal that holds a plain number.
fn decimal(raw: &[u8]) -> Option<Shape> {
    let text = std::str::from_utf8(raw).ok()?.trim_start_matches('-');
    let (whole, fraction) = text.split_once('.')?;
    let plain = fraction.bytes().all(|b| b.is_ascii_digit());
    let scale = fraction.len();
    let precision = whole.trim_start_matches('0').len() + scale;
    (plain && precision <= 38).then_some(Shape::Decimal(precision.max(1) as u8, scale as u8))
}

fn csv_schema(text: &str, zone: Zone, pairs: &[(String, String)]) -> Result<String, Error> {
    let read = CsvOptions::parse(zone, borrowed(pairs)).map_err(|e| planning(&e))?;
    let fields = text.split(char::from(read.separator)).enumerate().map(|(index, field)| {
        let kind = match field {
            "" => "STRING",
            field if field.parse::<i32>().is_ok() => "INT",
            field if field.parse::<i64>().is_ok() => "BIGINT",
            field if field.parse::<f64>().is_ok() => "DOUBLE",
            field if parse_date(field.as_bytes()).is_some() && field.len() <= 10 => "DATE",
            field if parse_timestamp(field.as_bytes(), &zone).is_some() => "TIMESTAMP",
            field if field.eq_ignore_ascii_case("true") || field.eq_ignore_ascii_case("false") => "BOOLEAN",
            _ => "STRING",
        };
        format!("_c{index}: {kind}")
    });
    Ok(format!("STRUCT<{}>", fields.collect::<Vec<_>>().join(", ")))
}
