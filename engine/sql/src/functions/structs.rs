//! `struct` and `named_struct`.

use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field};
use weir_core::Error;

use super::args;
use crate::analyzer::{Analyzer, Typed};
use crate::types::SPARK_TYPE_KEY;
use crate::udf::Rows;

type Result<T> = std::result::Result<T, Error>;

/// Builds a call.
pub fn structs(a: &Analyzer, name: &str, list: Vec<Typed>) -> Result<Typed> {
    let mut fields: Vec<Field> = Vec::new();
    let mut values = Vec::new();
    let mut add = |field: String, value: Typed| {
        let mut made = Field::new(field, value.ty.clone(), true);
        if let Some(ty) = &value.spark_type {
            made = made.with_metadata([(SPARK_TYPE_KEY.to_owned(), ty.clone())].into());
        }
        fields.push(made);
        values.push(value);
    };
    let shown = if name == "struct" {
        let shown: Vec<_> = list.iter().map(|l| l.name.clone()).collect();
        for (index, value) in list.into_iter().enumerate() {
            add(format!("col{}", index + 1), value);
        }
        format!("struct({})", shown.join(", "))
    } else {
        if !list.len().is_multiple_of(2) || list.is_empty() {
            return Err(args::wrong_count(name, list.len(), "2n (n > 0)"));
        }
        let shown: Vec<_> = list.iter().map(|l| l.name.clone()).collect();
        let mut rest = list.into_iter();
        while let (Some(field), Some(value)) = (rest.next(), rest.next()) {
            let Some(field) = field.text() else {
                return Err(Error::config(
                    "DATATYPE_MISMATCH.CREATE_NAMED_STRUCT_WITHOUT_FOLDABLE_STRING",
                    format!("the field names of named_struct must be string literals, but one is \"{}\"", field.name),
                ));
            };
            add(field.to_owned(), value);
        }
        format!("named_struct({})", shown.join(", "))
    };
    let fields = arrow::datatypes::Fields::from(fields);
    let result = DataType::Struct(fields.clone());
    let key: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
    let key = key.join(",");
    Ok(a.call(name, key, result, &values, move |rows: Rows| {
        Ok(Arc::new(StructArray::try_new(fields.clone(), rows.args.to_vec(), None)?) as ArrayRef)
    })
    .named(shown))
}
