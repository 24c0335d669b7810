//! Arrow types as Delta types, and how a query's schema fits a table's.
//!
//! A streaming write makes every column nullable, as Spark's Delta sink does.
//! Names are matched without regard to case; the table's spelling and types
//! win. A query may lack columns (they become null); columns that the table
//! lacks are either refused or appended. Values are cast to the table's types
//! where Spark casts them in a stream (`allowImplicitCasts`); a cast that
//! would need a session time zone or Spark's text of a float is refused, since
//! the query can say it in SQL. Decides only.

use arrow::datatypes::{DataType as ArrowType, Field, Schema};
use deltalake_core::kernel::{ArrayType, DataType, MapType, PrimitiveType, StructField, StructType};
use weir_core::{Error, Result};
use weir_decode::spark_type::spark_type_name;

/// Characters that Parquet names of Delta tables without column mapping lack.
const INVALID_IN_NAMES: &[char] = &[' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

/// A query's schema laid over a table's.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The table's schema with what was added.
    pub schema: StructType,
    /// Paths of the added columns.
    pub added: Vec<String>,
}

/// Which names columns may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Those that files can have.
    Plain,
    /// Any: files have others, by column mapping.
    Mapped,
}

/// The Delta schema of a query's rows, all nullable.
pub fn from_arrow(schema: &Schema, names: Names) -> Result<StructType> {
    struct_of("", schema.fields().iter().map(AsRef::as_ref), names)
}

fn struct_of<'a>(parent: &str, fields: impl Iterator<Item = &'a Field>, names: Names) -> Result<StructType> {
    let mut seen: Vec<String> = Vec::new();
    let mut converted = Vec::new();
    for field in fields {
        let path = join(parent, field.name());
        if field.name().is_empty() || (names == Names::Plain && field.name().contains(INVALID_IN_NAMES)) {
            return Err(Error::config(
                "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
                format!(
                    "the column name `{path}` is empty or has one of the characters ' ,;{{}}()\\n\\t=', which a Delta table without column mapping cannot have; rename it with AS, or write to a table with delta.columnMapping.mode = name"
                ),
            ));
        }
        let folded = field.name().to_lowercase();
        if seen.contains(&folded) {
            return Err(Error::config(
                "DELTA_DUPLICATE_COLUMNS_FOUND",
                format!("the column `{path}` appears twice (case does not count); give one of them another name with AS"),
            ));
        }
        seen.push(folded);
        converted.push(StructField::nullable(field.name(), type_of(&path, field.data_type(), names)?));
    }
    StructType::try_new(converted)
        .map_err(|e| Error::config("DELTA_INVALID_SCHEMA", "the query's columns make no Delta schema").with_source(e))
}

fn type_of(path: &str, data_type: &ArrowType, names: Names) -> Result<DataType> {
    let primitive = match data_type {
        ArrowType::Boolean => PrimitiveType::Boolean,
        ArrowType::Int8 => PrimitiveType::Byte,
        ArrowType::Int16 => PrimitiveType::Short,
        ArrowType::Int32 => PrimitiveType::Integer,
        ArrowType::Int64 => PrimitiveType::Long,
        ArrowType::Float32 => PrimitiveType::Float,
        ArrowType::Float64 => PrimitiveType::Double,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => PrimitiveType::String,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => PrimitiveType::Binary,
        ArrowType::Date32 => PrimitiveType::Date,
        ArrowType::Timestamp(_, Some(_)) => PrimitiveType::Timestamp,
        ArrowType::Timestamp(_, None) => PrimitiveType::TimestampNtz,
        ArrowType::Decimal128(precision, scale) if *scale >= 0 => {
            PrimitiveType::decimal(*precision, scale.unsigned_abs()).map_err(|e| unsupported(path, data_type).with_source(e))?
        }
        ArrowType::Dictionary(_, value) => return type_of(path, value, names),
        ArrowType::List(element) | ArrowType::LargeList(element) | ArrowType::ListView(element) | ArrowType::FixedSizeList(element, _) => {
            return Ok(ArrayType::new(type_of(&join(path, "element"), element.data_type(), names)?, true).into());
        }
        ArrowType::Struct(fields) => return Ok(struct_of(path, fields.iter().map(AsRef::as_ref), names)?.into()),
        ArrowType::Map(entries, _) => match entries.data_type() {
            ArrowType::Struct(pair) if pair.len() == 2 => {
                let key = type_of(&join(path, "key"), pair[0].data_type(), names)?;
                return Ok(MapType::new(key, type_of(&join(path, "value"), pair[1].data_type(), names)?, true).into());
            }
            _ => return Err(unsupported(path, data_type)),
        },
        ArrowType::Null => {
            return Err(Error::config(
                "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE",
                format!("the column `{path}` has no type but null; give it one with CAST(NULL AS ...)"),
            ));
        }
        _ => return Err(unsupported(path, data_type)),
    };
    Ok(DataType::Primitive(primitive))
}

fn unsupported(path: &str, data_type: &ArrowType) -> Error {
    Error::config(
        "DELTA_UNSUPPORTED_DATA_TYPE",
        format!(
            "the column `{path}` has the type {}, which a Delta table cannot hold; CAST it to another type",
            spark_type_name(data_type)
        ),
    )
}

/// Lays the query's schema over the table's.
pub fn merge(table: &StructType, query: &StructType) -> Result<Merged> {
    let mut added = Vec::new();
    let schema = merge_structs("", table, query, &mut added)?;
    Ok(Merged { schema, added })
}

fn merge_structs(parent: &str, table: &StructType, query: &StructType, added: &mut Vec<String>) -> Result<StructType> {
    let mut fields: Vec<StructField> = table.fields().cloned().collect();
    for incoming in query.fields() {
        let path = join(parent, incoming.name());
        match fields.iter_mut().find(|field| same_name(field.name(), incoming.name())) {
            // A column that was never given a type gets one.
            Some(field) if *field.data_type() == DataType::VOID => {
                added.push(path);
                field.data_type = incoming.data_type.clone();
            }
            Some(field) => field.data_type = merge_types(&path, field.data_type(), incoming.data_type(), added)?,
            None => {
                added.push(path);
                fields.push(incoming.clone());
            }
        }
    }
    StructType::try_new(fields).map_err(|e| Error::config("DELTA_INVALID_SCHEMA", "the merged columns make no Delta schema").with_source(e))
}

fn merge_types(path: &str, table: &DataType, query: &DataType, added: &mut Vec<String>) -> Result<DataType> {
    Ok(match (table, query) {
        (DataType::Struct(table), DataType::Struct(query)) => merge_structs(path, table, query, added)?.into(),
        (DataType::Array(table), DataType::Array(query)) => {
            let element = merge_types(&join(path, "element"), &table.element_type, &query.element_type, added)?;
            ArrayType::new(element, table.contains_null).into()
        }
        (DataType::Map(table), DataType::Map(query)) => {
            let key = merge_types(&join(path, "key"), &table.key_type, &query.key_type, added)?;
            let value = merge_types(&join(path, "value"), &table.value_type, &query.value_type, added)?;
            MapType::new(key, value, table.value_contains_null).into()
        }
        (DataType::Primitive(to), DataType::Primitive(from)) if castable(from, to) => table.clone(),
        _ => {
            return Err(Error::config(
                "DELTA_FAILED_TO_MERGE_FIELDS",
                format!("the column `{path}` is {query} in the query but {table} in the table; CAST it to {table} in the query's SQL"),
            ));
        }
    })
}

fn castable(from: &PrimitiveType, to: &PrimitiveType) -> bool {
    use PrimitiveType as P;
    let number = |p: &P| matches!(p, P::Byte | P::Short | P::Integer | P::Long | P::Float | P::Double | P::Decimal(_));
    let exact_text = |p: &P| matches!(p, P::Byte | P::Short | P::Integer | P::Long | P::Decimal(_) | P::Boolean | P::Date);
    from == to
        || (number(from) && number(to))
        || (exact_text(from) && *to == P::String)
        || (*from == P::String && (number(to) || matches!(to, P::Boolean | P::Date)))
}

/// Whether any part of the schema is a timestamp without time zone.
pub fn has_timestamp_ntz(schema: &StructType) -> bool {
    schema.fields().any(|field| type_has_ntz(field.data_type()))
}

fn type_has_ntz(data_type: &DataType) -> bool {
    match data_type {
        DataType::Primitive(primitive) => *primitive == PrimitiveType::TimestampNtz,
        DataType::Array(array) => type_has_ntz(&array.element_type),
        DataType::Map(map) => type_has_ntz(&map.key_type) || type_has_ntz(&map.value_type),
        DataType::Struct(fields) => has_timestamp_ntz(fields),
        DataType::Variant(_) => false,
    }
}

/// Column names are equal without regard to case.
pub fn same_name(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::datatypes::TimeUnit;
    use std::sync::Arc;

    fn schema(fields: &[(&str, ArrowType)]) -> StructType {
        let fields: Vec<Field> = fields.iter().map(|(name, t)| Field::new(*name, t.clone(), false)).collect();
        from_arrow(&Schema::new(fields), Names::Plain).unwrap()
    }

    #[test]
    fn every_type_of_spark_has_its_delta_type() {
        let list = ArrowType::List(Arc::new(Field::new("item", ArrowType::Int32, true)));
        let fields = schema(&[
            ("t", ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
            ("n", ArrowType::Timestamp(TimeUnit::Microsecond, None)),
            ("d", ArrowType::Decimal128(10, 2)),
            ("l", list),
            ("s", ArrowType::Utf8View),
        ]);
        let json: serde_json::Value = serde_json::to_value(&fields).unwrap();
        let types: Vec<_> = json["fields"].as_array().unwrap().iter().map(|f| f["type"].clone()).collect();
        assert_eq!(types[0], "timestamp");
        assert_eq!(types[1], "timestamp_ntz");
        assert_eq!(types[2], "decimal(10,2)");
        assert_eq!(types[3]["elementType"], "integer");
        assert_eq!(types[4], "string");
        assert!(json["fields"][0]["nullable"].as_bool().unwrap());
        assert!(has_timestamp_ntz(&fields));
        let odd = Schema::new(vec![Field::new("a b", ArrowType::Int8, true)]);
        assert!(from_arrow(&odd, Names::Plain).is_err() && from_arrow(&odd, Names::Mapped).is_ok());
        assert!(from_arrow(&Schema::new(vec![Field::new("a", ArrowType::Null, true)]), Names::Plain).is_err());
        assert!(
            from_arrow(&Schema::new(vec![Field::new("a", ArrowType::Int8, true), Field::new("A", ArrowType::Int8, true)]), Names::Plain)
                .is_err()
        );
    }

    #[test]
    fn names_fold_and_new_columns_come_last() {
        let table = schema(&[("k", ArrowType::Utf8), ("v", ArrowType::Int32)]);
        let merged = merge(&table, &schema(&[("V", ArrowType::Int64), ("w", ArrowType::Int32)])).unwrap();
        let names: Vec<_> = merged.schema.field_names().cloned().collect();
        assert_eq!((names, merged.added), (vec!["k".to_owned(), "v".into(), "w".into()], vec!["w".to_owned()]));
        assert_eq!(merged.schema.field("v").unwrap().data_type(), &DataType::Primitive(PrimitiveType::Integer));
    }

    #[test]
    fn nested_fields_are_merged_and_mismatches_named() {
        let inner = |names: &[&str]| ArrowType::Struct(names.iter().map(|n| Field::new(*n, ArrowType::Int32, true)).collect());
        let table = schema(&[("s", inner(&["a"]))]);
        assert_eq!(merge(&table, &schema(&[("s", inner(&["A", "b"]))])).unwrap().added, ["s.b"]);
        let void = StructType::try_new([StructField::nullable("s", DataType::VOID)]).unwrap();
        let typed = merge(&void, &table).unwrap();
        assert_eq!((typed.added, typed.schema.field("s")), (vec!["s".to_owned()], table.field("s")));
        let error = merge(&table, &schema(&[("s", ArrowType::Utf8)])).unwrap_err().to_string();
        assert!(error.contains("the column `s` is string"), "{error}");
        let error = merge(&schema(&[("s", ArrowType::Utf8)]), &schema(&[("s", ArrowType::Float64)])).unwrap_err().to_string();
        assert!(error.contains("CAST it to string"), "{error}");
    }

    fn any_schema() -> impl proptest::strategy::Strategy<Value = StructType> {
        use proptest::prelude::*;
        let leaf = prop_oneof![Just(DataType::STRING), Just(DataType::INTEGER), Just(DataType::DOUBLE), Just(DataType::DATE)];
        let tree = leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|element| ArrayType::new(element, true).into()),
                proptest::collection::btree_map("[a-c]", inner, 1..3).prop_map(|fields| {
                    let fields = fields.into_iter().map(|(name, data_type)| StructField::nullable(name, data_type));
                    DataType::try_struct_type(fields).unwrap()
                }),
            ]
        });
        proptest::collection::btree_map("[a-e]", tree, 1..5)
            .prop_map(|fields| StructType::try_new(fields.into_iter().map(|(name, t)| StructField::nullable(name, t))).unwrap())
    }

    proptest::proptest! {
        #[test]
        fn a_merge_is_settled_at_once(table in any_schema(), query in any_schema()) {
            if let Ok(merged) = merge(&table, &query) {
                let again = merge(&merged.schema, &query).unwrap();
                proptest::prop_assert_eq!(&again.schema, &merged.schema);
                proptest::prop_assert!(again.added.is_empty());
                proptest::prop_assert_eq!(merged.added.is_empty(), merged.schema == table);
                let kept: Vec<_> = merged.schema.field_names().take(table.num_fields()).collect();
                proptest::prop_assert_eq!(kept, table.field_names().collect::<Vec<_>>());
            }
        }
    }
}
