//! `from_json` and `from_csv`: text to structs, arrays and maps.
//!
//! The schema is a constant: DDL, or Spark's JSON form of a schema. Decoders
//! are kept between batches, because they remember the shape of records.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result as DfResult;
use parking_lot::Mutex;
use weir_core::Error;
use weir_decode::{CsvDecoder, CsvOptions, DecodeError, JsonDecoder, JsonOptions, Origin, ParseMode};

use super::{borrowed, options};
use crate::ddl::parse_ddl_type;
use crate::planned::{Arg, Malformed, Planned, Session, each_text, planning, running, strings, wrong_count};
use crate::types::{list_of, map_of};
use crate::udf::{Kernel, Rows};

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    if !matches!(name, "from_json" | "from_csv") {
        return None;
    }
    Some(match args {
        [_, schema] => build(name, schema, args, session),
        [_, schema, _] => build(name, schema, args, session),
        _ => Err(wrong_count(name, "[2, 3]", args.len())),
    })
}

fn build(name: &str, schema: &Arg, args: &[Arg], session: &Session) -> Result<Planned, Error> {
    let text = schema.text().ok_or_else(|| {
        Error::config(
            "INVALID_SCHEMA.NON_STRING_LITERAL",
            format!("the schema of `{name}` must be a constant string such as 'a INT, b STRING'"),
        )
    })?;
    let data_type = weir_decode::column::nullable(&schema_type(text)?);
    let pairs = options(name, args.get(2))?;
    let mut types = vec![DataType::Utf8, DataType::Utf8];
    types.extend(args.get(2).map(|arg| arg.data_type.clone()));
    let key = format!("{text} {pairs:?} {}", session.zone);
    let zone = session.zone;
    let mut planned = if name == "from_json" {
        let parsed = JsonOptions::parse(Origin::Column, zone, borrowed(&pairs)).map_err(|e| planning(&e))?;
        check_mode(name, parsed.mode)?;
        json(types, data_type, parsed)?
    } else {
        let parsed = CsvOptions::parse(zone, borrowed(&pairs)).map_err(|e| planning(&e))?;
        check_mode(name, parsed.mode)?;
        csv(types, data_type, parsed)?
    };
    planned.key = key;
    Ok(planned)
}

fn check_mode(name: &str, mode: ParseMode) -> Result<(), Error> {
    if mode == ParseMode::DropMalformed {
        return Err(Error::config(
            "PARSE_MODE_UNSUPPORTED",
            format!("the function `{name}` doesn't support the DROPMALFORMED mode; acceptable modes are PERMISSIVE and FAILFAST"),
        ));
    }
    Ok(())
}

fn json(args: Vec<DataType>, data_type: DataType, options: JsonOptions) -> Result<Planned, Error> {
    let first = JsonDecoder::of_type(&data_type, options.clone()).map_err(|e| planning(&e))?;
    let may_fail = options.mode == ParseMode::FailFast;
    let pool = Mutex::new(vec![first]);
    let kind = data_type.clone();
    let judging = JsonOptions { mode: ParseMode::DropMalformed, ..options.clone() };
    let malformed = Malformed::default();
    let counter = malformed.clone();
    let kernel = move |rows: Rows<'_>| -> DfResult<ArrayRef> {
        let texts = strings(&rows, 0)?;
        let kept = pool.lock().pop();
        let mut decoder = match kept {
            Some(decoder) => decoder,
            None => JsonDecoder::of_type(&kind, options.clone()).map_err(|e| running(&e))?,
        };
        // A decoder is dropped on errors: it may hold half a batch.
        for row in 0..texts.len() {
            let pushed = if texts.is_null(row) { decoder.push(None) } else { decoder.push_str(texts.value(row)) };
            pushed.map_err(|e| running(&e))?;
        }
        counter.add(decoder.take_counts().malformed);
        let column = decoder.flush_column().map_err(|e| running(&e))?;
        pool.lock().push(decoder);
        Ok(column)
    };
    let mut planned = Planned::new(args, data_type.clone(), kernel);
    planned.may_fail = may_fail;
    planned.malformed = Some(malformed);
    planned.misfit = (!may_fail).then(|| misfit(move || JsonDecoder::of_type(&data_type, judging.clone())));
    Ok(planned)
}

/// A decoder in the mode that leaves out what does not fit.
trait Judge: Sized {
    /// Takes a text.
    fn take(&mut self, text: &str) -> Result<(), DecodeError>;
    /// Why the last text was left out, if it was.
    fn left_out(&mut self) -> Option<&'static str>;
}

impl Judge for JsonDecoder {
    fn take(&mut self, text: &str) -> Result<(), DecodeError> {
        self.push_str(text)
    }

    fn left_out(&mut self) -> Option<&'static str> {
        self.take_dropped()
    }
}

impl Judge for CsvDecoder {
    fn take(&mut self, text: &str) -> Result<(), DecodeError> {
        self.push(text)
    }

    fn left_out(&mut self) -> Option<&'static str> {
        self.take_dropped()
    }
}

/// Why each text does not fit: what DROPMALFORMED would leave it out for.
fn misfit<J: Judge>(judge: impl Fn() -> Result<J, DecodeError> + Send + Sync + 'static) -> Kernel {
    Arc::new(move |rows: Rows<'_>| {
        let texts = strings(&rows, 0)?;
        let mut judge = judge().map_err(|e| running(&e))?;
        each_text(texts.len(), |row| {
            if texts.is_null(row) {
                return Ok(None);
            }
            judge.take(texts.value(row)).map_err(|e| running(&e))?;
            Ok(judge.left_out().map(str::to_owned))
        })
    })
}

fn csv(args: Vec<DataType>, data_type: DataType, options: CsvOptions) -> Result<Planned, Error> {
    let DataType::Struct(fields) = &data_type else {
        return Err(Error::config(
            "INVALID_SCHEMA.NON_STRUCT_TYPE",
            "the schema of `from_csv` must be a list of columns such as 'a INT, b STRING'",
        ));
    };
    let schema = Arc::new(Schema::new(fields.clone()));
    let may_fail = options.mode == ParseMode::FailFast;
    CsvDecoder::new(&schema, options.clone()).map_err(|e| planning(&e))?;
    let (kind, judging) = (Arc::clone(&schema), CsvOptions { mode: ParseMode::DropMalformed, ..options.clone() });
    let malformed = Malformed::default();
    let counter = malformed.clone();
    let kernel = move |rows: Rows<'_>| -> DfResult<ArrayRef> {
        let texts = strings(&rows, 0)?;
        let mut decoder = CsvDecoder::new(&schema, options.clone()).map_err(|e| running(&e))?;
        for row in 0..texts.len() {
            if texts.is_null(row) {
                decoder.push_null();
            } else {
                decoder.push(texts.value(row)).map_err(|e| running(&e))?;
            }
        }
        counter.add(decoder.take_counts().malformed);
        decoder.flush_column().map_err(|e| running(&e))
    };
    let mut planned = Planned::new(args, data_type, kernel);
    planned.may_fail = may_fail;
    planned.malformed = Some(malformed);
    planned.misfit = (!may_fail).then(|| misfit(move || CsvDecoder::new(&kind, judging.clone())));
    Ok(planned)
}

/// A schema as DDL or as the JSON that Spark's `StructType.json` writes.
pub(super) fn schema_type(text: &str) -> Result<DataType, Error> {
    if text.trim_start().starts_with('{')
        && let Ok(json) = serde_json::from_str::<serde_json::Value>(text)
    {
        return from_json_form(&json).ok_or_else(|| {
            Error::config(
                "INVALID_SCHEMA.PARSE_ERROR",
                format!("`{text}` is not a schema in Spark's JSON form; write columns as 'a INT, b STRING'"),
            )
        });
    }
    parse_ddl_type(text)
}

fn from_json_form(json: &serde_json::Value) -> Option<DataType> {
    if let Some(name) = json.as_str() {
        return crate::ddl::parse_type_name(match name {
            "integer" => "int",
            "long" => "bigint",
            "short" => "smallint",
            "byte" => "tinyint",
            other => other,
        })
        .ok();
    }
    match json["type"].as_str()? {
        "struct" => {
            let fields = json["fields"].as_array()?.iter().map(|field| Some((field["name"].as_str()?, from_json_form(&field["type"])?)));
            Some(crate::types::struct_of(fields.collect::<Option<Vec<_>>>()?))
        }
        "array" => Some(list_of(from_json_form(&json["elementType"])?)),
        "map" => Some(map_of(from_json_form(&json["keyType"])?, from_json_form(&json["valueType"])?)),
        _ => None,
    }
}
