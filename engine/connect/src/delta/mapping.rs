//! Column mapping: the names and ids that columns have in files and in the log.
//!
//! A table with column mapping (Delta protocol, "Column Mapping") knows each column, nested ones too, by an id and a
//! physical name, which stay when the column is renamed; both modes write them alike. Everything that the query and messages
//! name is logical; only data files, partition values and statistics are physical. A new column's physical name follows
//! from the table and the column's id, so that planning twice gives the same. Decides only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use deltalake_core::kernel::{ArrayType, DataType, MapType, MetadataValue, StructField, StructType};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use sha2::{Digest, Sha256};
use weir_core::{Error, Result};

const MODE: &str = "delta.columnMapping.mode";
/// The property with the highest id that was ever given.
pub const MAX_ID: &str = "delta.columnMapping.maxColumnId";
const ID: &str = "delta.columnMapping.id";
const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";

/// Whether files are searched for columns by their ids before their names.
pub fn is_by_id(configuration: &BTreeMap<String, String>) -> bool {
    configuration.get(MODE).is_some_and(|mode| mode.eq_ignore_ascii_case("id"))
}

/// Whether columns have physical names.
pub fn is_mapped(configuration: &BTreeMap<String, String>) -> bool {
    configuration.get(MODE).is_some_and(|mode| !mode.eq_ignore_ascii_case("none"))
}

/// The schema with ids and names for the columns that have none, and the highest id.
pub fn assign(schema: &StructType, configuration: &BTreeMap<String, String>, table_id: &str) -> Result<(StructType, i64)> {
    let known = configuration.get(MAX_ID).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let mut assigned = Assigned { highest: highest(schema).max(known), table_id };
    Ok((assigned.fields(schema)?, assigned.highest))
}

struct Assigned<'a> {
    highest: i64,
    table_id: &'a str,
}

impl Assigned<'_> {
    fn fields(&mut self, schema: &StructType) -> Result<StructType> {
        let fields = schema.fields().map(|field| self.field(field)).collect::<Result<Vec<_>>>()?;
        StructType::try_new(fields).map_err(|e| Error::config("DELTA_INVALID_SCHEMA", "the columns make no Delta schema").with_source(e))
    }

    fn field(&mut self, field: &StructField) -> Result<StructField> {
        let mut mapped = field.clone();
        if id_of(field).is_none() {
            self.highest += 1;
            let physical = self.physical_name(field.name());
            mapped = mapped.add_metadata([(ID, MetadataValue::Number(self.highest)), (PHYSICAL_NAME, MetadataValue::String(physical))]);
        }
        mapped.data_type = self.data_type(&field.data_type)?;
        Ok(mapped)
    }

    fn data_type(&mut self, data_type: &DataType) -> Result<DataType> {
        Ok(match data_type {
            DataType::Struct(fields) => self.fields(fields)?.into(),
            DataType::Array(array) => ArrayType::new(self.data_type(&array.element_type)?, array.contains_null).into(),
            DataType::Map(map) => {
                let key = self.data_type(&map.key_type)?;
                MapType::new(key, self.data_type(&map.value_type)?, map.value_contains_null).into()
            }
            other => other.clone(),
        })
    }

    fn physical_name(&self, name: &str) -> String {
        let digest = Sha256::digest(format!("{}/{}/{name}", self.table_id, self.highest));
        let bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
        format!("col-{}", uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

fn highest(schema: &StructType) -> i64 {
    let of = |field: &StructField| id_of(field).unwrap_or(0).max(highest_in(field.data_type()));
    schema.fields().map(of).max().unwrap_or(0)
}

fn highest_in(data_type: &DataType) -> i64 {
    match data_type {
        DataType::Struct(fields) => highest(fields),
        DataType::Array(array) => highest_in(&array.element_type),
        DataType::Map(map) => highest_in(&map.key_type).max(highest_in(&map.value_type)),
        _ => 0,
    }
}

fn id_of(field: &StructField) -> Option<i64> {
    match field.metadata.get(ID) {
        Some(MetadataValue::Number(id)) => Some(*id),
        _ => None,
    }
}

/// The name of a column in files and in the log; its own where it has no other.
pub fn physical_name(field: &StructField) -> &str {
    match field.metadata.get(PHYSICAL_NAME) {
        Some(MetadataValue::String(name)) => name,
        _ => field.name(),
    }
}

/// The physical name of a top-level column.
pub fn physical_column(table: &StructType, name: &str) -> String {
    table.field(name).map_or(name, physical_name).to_owned()
}

/// The columns as a data file has them.
pub fn physical_schema(logical: &Schema, table: &StructType) -> Schema {
    Schema::new(physical_fields(logical.fields(), table))
}

fn physical_fields(fields: &Fields, table: &StructType) -> Vec<FieldRef> {
    fields.iter().map(|field| stored(field, table)).collect()
}

/// A column as a data file has it.
pub fn stored(field: &FieldRef, table: &StructType) -> FieldRef {
    table.field(field.name()).map_or_else(|| Arc::clone(field), |of| physical_field(field, of))
}

/// The id that a file's column has.
pub fn file_id(field: &Field) -> Option<&str> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY).map(String::as_str)
}

fn physical_field(field: &Field, of: &StructField) -> FieldRef {
    let id = id_of(of).map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string()));
    let renamed = Field::new(physical_name(of), physical_type(field.data_type(), of.data_type()), field.is_nullable());
    Arc::new(renamed.with_metadata(id.into_iter().collect::<HashMap<_, _>>()))
}

fn physical_type(arrow: &ArrowType, of: &DataType) -> ArrowType {
    let within =
        |field: &FieldRef, of: &DataType| Arc::new(Field::new(field.name(), physical_type(field.data_type(), of), field.is_nullable()));
    match (arrow, of) {
        (ArrowType::Struct(fields), DataType::Struct(of)) => ArrowType::Struct(physical_fields(fields, of).into()),
        (ArrowType::List(element), DataType::Array(of)) => ArrowType::List(within(element, &of.element_type)),
        (ArrowType::Map(entries, sorted), DataType::Map(of)) => match entries.data_type() {
            ArrowType::Struct(pair) if pair.len() == 2 => {
                let pair: Fields = vec![within(&pair[0], &of.key_type), within(&pair[1], &of.value_type)].into();
                ArrowType::Map(Arc::new(Field::new(entries.name(), ArrowType::Struct(pair), entries.is_nullable())), *sorted)
            }
            _ => arrow.clone(),
        },
        _ => arrow.clone(),
    }
}

/// The rows under a file's names; column by column they are the same.
pub fn relabelled(rows: &RecordBatch, file: &Arc<Schema>) -> Result<RecordBatch, ArrowError> {
    let columns = rows.columns().iter().zip(file.fields());
    let columns = columns.map(|(column, field)| relabel(column, field.data_type())).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(file), columns, &options)
}

/// The same values under the names that another type has for them.
pub fn relabel(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match to {
        ArrowType::Struct(fields) => Ok(Arc::new(relabel_struct(array.as_struct(), fields)?)),
        ArrowType::List(element) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, relabel(&values, element.data_type())?, nulls)?))
        }
        ArrowType::Map(entries, sorted) => {
            let map = array.as_map();
            let ArrowType::Struct(fields) = entries.data_type() else {
                return Err(ArrowError::CastError("a map without entries".into()));
            };
            let pairs = relabel_struct(map.entries(), fields)?;
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), map.offsets().clone(), pairs, map.nulls().cloned(), *sorted)?))
        }
        other => Err(ArrowError::CastError(format!("{} is no {other}", array.data_type()))),
    }
}

fn relabel_struct(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let columns = array.columns().iter().zip(fields).map(|(column, field)| relabel(column, field.data_type()));
    StructArray::try_new_with_length(fields.clone(), columns.collect::<Result<_, _>>()?, array.nulls().cloned(), array.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Int32Array, StringArray};
    use deltalake_core::kernel::engine::arrow_conversion::TryIntoArrow;

    fn schema() -> StructType {
        let inner = || DataType::try_struct_type([StructField::nullable("x y", DataType::INTEGER)]).unwrap();
        StructType::try_new([
            StructField::nullable("k", DataType::STRING)
                .with_metadata([(ID, MetadataValue::Number(4)), (PHYSICAL_NAME, MetadataValue::String("col-k".into()))]),
            StructField::nullable("st", inner()),
            StructField::nullable("li", ArrayType::new(inner(), true)),
            StructField::nullable("ma", MapType::new(DataType::STRING, inner(), true)),
        ])
        .unwrap()
    }

    #[test]
    fn new_columns_get_the_next_ids_and_names_that_stay() {
        let configuration = BTreeMap::from([(MODE.to_owned(), "name".to_owned()), (MAX_ID.to_owned(), "9".to_owned())]);
        assert!(is_mapped(&configuration) && !is_mapped(&BTreeMap::from([(MODE.to_owned(), "none".to_owned())])));
        let (mapped, max) = assign(&schema(), &configuration, "table").unwrap();
        assert_eq!(max, 15);
        assert_eq!(physical_column(&mapped, "k"), "col-k");
        assert_eq!(assign(&mapped, &configuration, "table").unwrap(), (mapped.clone(), 15));
        assert_eq!(assign(&schema(), &configuration, "table").unwrap().0, mapped);
        let other = assign(&schema(), &configuration, "other").unwrap().0;
        assert!(physical_column(&other, "st") != physical_column(&mapped, "st") && physical_column(&mapped, "st").len() == 40);
    }

    #[test]
    fn rows_are_the_same_under_physical_names() {
        let (mapped, _) = assign(&schema(), &BTreeMap::new(), "table").unwrap();
        let logical: Schema = (&mapped).try_into_arrow().unwrap();
        let physical = Arc::new(physical_schema(&logical, &mapped));
        assert_eq!(physical.field(0).metadata()[PARQUET_FIELD_ID_META_KEY], "4");
        let ids: Vec<&str> = physical.fields().iter().map(|field| field.metadata()[PARQUET_FIELD_ID_META_KEY].as_str()).collect();
        assert_eq!(ids, ["4", "5", "7", "9"]);
        let ArrowType::List(element) = physical.field(2).data_type() else { panic!("{physical}") };
        let ArrowType::Struct(fields) = element.data_type() else { panic!("{physical}") };
        assert_eq!((fields[0].name().len(), fields[0].metadata()[PARQUET_FIELD_ID_META_KEY].as_str()), (40, "8"));
        let null = |at: usize| arrow::array::new_null_array(logical.field(at).data_type(), 1);
        let ArrowType::Struct(inner) = logical.field(1).data_type() else { panic!("{logical}") };
        let pair = StructArray::new(inner.clone(), vec![Arc::new(Int32Array::from(vec![7]))], None);
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec!["a"])), Arc::new(pair), null(2), null(3)];
        let rows = relabelled(&RecordBatch::try_new(Arc::new(logical.clone()), columns).unwrap(), &physical).unwrap();
        assert_eq!(rows.schema(), physical);
        assert_eq!(rows.column(1).as_struct().column(0).as_primitive::<arrow::datatypes::Int32Type>().value(0), 7);
    }
}
