//! Types of JSON records (Spark's `JsonInferSchema`).
//!
//! Whole numbers are bigint, others double, both together double; what does
//! not go together is string. Fields are ordered by name. Null alone is string.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Fields};
use serde_json::Value;
use weir_decode::{JsonOptions, ParseMode};

#[derive(Clone, Debug, PartialEq)]
enum Type {
    Null,
    Boolean,
    Long,
    Decimal(u8),
    Double,
    Text,
    Array(Box<Type>),
    Object(BTreeMap<String, Type>),
}

/// What records have been so far.
pub struct Inferred {
    fields: BTreeMap<String, Type>,
    corrupt: Option<String>,
    keep_corrupt: bool,
    primitives_as_string: bool,
    drop_all_null: bool,
}

impl Inferred {
    /// Nothing seen.
    pub fn new(options: &JsonOptions) -> Self {
        Self {
            fields: BTreeMap::new(),
            corrupt: None,
            keep_corrupt: options.mode == ParseMode::Permissive,
            primitives_as_string: options.primitives_as_string,
            drop_all_null: options.drop_field_if_all_null,
        }
        .named(&options.corrupt_record_column)
    }

    fn named(mut self, corrupt: &str) -> Self {
        self.corrupt = Some(corrupt.to_owned()).filter(|_| self.keep_corrupt);
        self.keep_corrupt = false;
        self
    }

    /// Looks at a record.
    pub fn add(&mut self, record: &[u8]) {
        if record.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match serde_json::from_slice::<Value>(record) {
            Ok(Value::Object(object)) => self.add_object(object),
            Ok(Value::Array(items)) => {
                for item in items {
                    if let Value::Object(object) = item {
                        self.add_object(object);
                    }
                }
            }
            _ => self.keep_corrupt = true,
        }
    }

    fn add_object(&mut self, object: serde_json::Map<String, Value>) {
        for (name, value) in object {
            let found = self.type_of(value);
            let known = self.fields.remove(&name).unwrap_or(Type::Null);
            self.fields.insert(name, merge(known, found));
        }
    }

    fn type_of(&self, value: Value) -> Type {
        match value {
            Value::Null => Type::Null,
            Value::Array(items) => {
                let item = items.into_iter().map(|item| self.type_of(item)).reduce(merge);
                Type::Array(Box::new(item.unwrap_or(Type::Null)))
            }
            Value::Object(object) => Type::Object(object.into_iter().map(|(name, value)| (name, self.type_of(value))).collect()),
            _ if self.primitives_as_string => Type::Text,
            Value::Bool(_) => Type::Boolean,
            Value::String(_) => Type::Text,
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(_), _) => Type::Long,
                (None, Some(_)) => Type::Decimal(20),
                _ => Type::Double,
            },
        }
    }

    /// The columns of all records so far.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = fields(&self.fields, self.drop_all_null);
        if let Some(name) = self.corrupt.as_ref().filter(|name| self.keep_corrupt && !self.fields.contains_key(*name)) {
            fields.push(Field::new(name, DataType::Utf8, true));
            fields.sort_by(|a, b| a.name().cmp(b.name()));
        }
        fields
    }
}

fn fields(types: &BTreeMap<String, Type>, drop_all_null: bool) -> Vec<Field> {
    let kept = types.iter().filter(|(_, found)| !(drop_all_null && is_all_null(found)));
    kept.map(|(name, found)| Field::new(name, data_type(found, drop_all_null), true)).collect()
}

fn is_all_null(found: &Type) -> bool {
    match found {
        Type::Null => true,
        Type::Array(item) => is_all_null(item),
        Type::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn data_type(found: &Type, drop_all_null: bool) -> DataType {
    match found {
        Type::Null | Type::Text => DataType::Utf8,
        Type::Boolean => DataType::Boolean,
        Type::Long => DataType::Int64,
        Type::Decimal(digits) => DataType::Decimal128(*digits, 0),
        Type::Double => DataType::Float64,
        Type::Array(item) => DataType::List(std::sync::Arc::new(Field::new_list_field(data_type(item, drop_all_null), true))),
        Type::Object(object) => DataType::Struct(Fields::from(fields(object, drop_all_null))),
    }
}

fn merge(a: Type, b: Type) -> Type {
    match (a, b) {
        (a, b) if a == b => a,
        (Type::Null, other) | (other, Type::Null) => other,
        (Type::Long | Type::Double | Type::Decimal(_), Type::Double) | (Type::Double, Type::Long | Type::Decimal(_)) => Type::Double,
        (Type::Long, Type::Decimal(digits)) | (Type::Decimal(digits), Type::Long) => Type::Decimal(digits.max(20)),
        (Type::Array(a), Type::Array(b)) => Type::Array(Box::new(merge(*a, *b))),
        (Type::Object(mut a), Type::Object(b)) => {
            for (name, found) in b {
                let known = a.remove(&name).unwrap_or(Type::Null);
                a.insert(name, merge(known, found));
            }
            Type::Object(a)
        }
        _ => Type::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_decode::Origin;
    use weir_decode::time::Zone;

    fn infer(records: &[&str]) -> Vec<Field> {
        let mut inferred = Inferred::new(&JsonOptions::new(Origin::File, Zone::UTC));
        for record in records {
            inferred.add(record.as_bytes());
        }
        inferred.fields()
    }

    #[test]
    fn types_meet_as_in_spark() {
        let fields = infer(&[r#"{"b":1,"a":"x","n":null,"l":[1,2.5]}"#, r#"{"b":2.5,"o":{"x":true},"a":1}"#, ""]);
        let described: Vec<String> = fields.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
        assert_eq!(described[0], "a Utf8");
        assert_eq!(described[1], "b Float64");
        assert!(described[2].starts_with("l List(Float64"), "{described:?}");
        assert_eq!(described[3], "n Utf8");
        assert!(described[4].starts_with("o Struct"), "{described:?}");
    }

    #[test]
    fn a_bad_record_adds_the_corrupt_column() {
        let names: Vec<String> = infer(&[r#"{"z":1}"#, "{bad"]).iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["_corrupt_record", "z"]);
    }
}
