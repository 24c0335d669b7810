//! Which columns identify a row, which one orders rows of one key, and which
//! queries and tables may be merged at all.
//!
//! A merge writes whole rows, as `UPDATE SET *` does without schema evolution:
//! a query that lacks a column of the table is refused, since its rows would
//! set that column to null. Decides only.

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use deltalake_core::kernel::{DataType, StructType};
use weir_core::{Error, Result};
use weir_crds::finding::did_you_mean;
use weir_decode::spark_type::spark_field_type_name;

use super::super::features;
use super::super::layout::{Layout, Request};
use super::super::partition::can_partition;
use super::super::schema::{self, Names, same_name};
use super::super::state::TableState;
use crate::open::UpsertBy;

/// The key columns and the order column, in the table's spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The columns that identify a row.
    pub columns: Vec<String>,
    /// The column whose greatest value wins.
    pub order: Option<String>,
}

impl Keys {
    /// Resolves the names in the columns that the query writes, and refuses what cannot be merged.
    pub fn plan(by: &UpsertBy, request: &Request, layout: &Layout, existing: Option<&TableState>) -> Result<Self> {
        let mut columns: Vec<String> = Vec::with_capacity(by.keys.len());
        for name in &by.keys {
            let column = resolve("upsertKeys", name, layout)?;
            if columns.contains(&column) {
                let text = format!("upsertKeys names `{name}` twice; name it once");
                return Err(Error::config("DELTA_DUPLICATE_COLUMNS_FOUND", text).in_field("upsertKeys"));
            }
            columns.push(column);
        }
        let order = by.order_by.as_deref().map(|name| resolve("upsertOrderBy", name, layout)).transpose()?;
        if let Some(table) = existing {
            features::check_mergeable(&request.url, &table.protocol, &table.metadata)?;
            if let Some(identity) = layout.rules.identity.first() {
                let text = format!(
                    "rows cannot be merged by upsertKeys into the Delta table {}: its column `{}` is an identity column, whose numbers a merge has to keep; merge into a table without it",
                    request.url, identity.column
                );
                return Err(Error::config("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", text));
            }
            let query = schema::from_arrow(&request.query, Names::Mapped)?;
            let mut lacking = Vec::new();
            find_lacking("", &table.schema, &query, &mut lacking);
            lacking.retain(|name| !layout.rules.generates(name));
            if !lacking.is_empty() {
                return Err(Error::config(
                    "DELTA_MERGE_UNRESOLVED_EXPRESSION",
                    format!(
                        "rows cannot be merged by upsertKeys into the Delta table {}: the query does not yield {}, which the table has and which would be set to null; add what is missing to the SELECT, as NULL where that is meant",
                        request.url,
                        lacking.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                    ),
                ));
            }
        }
        Ok(Self { columns, order })
    }

    /// The fields of the key columns and then of the order column, with the table's types.
    pub fn fields(&self, layout: &Layout) -> Result<Vec<FieldRef>> {
        let named = self.columns.iter().chain(&self.order);
        named.map(|name| written(name, layout).cloned().ok_or_else(|| gone(name))).collect()
    }
}

fn gone(name: &str) -> Error {
    Error::retryable("DELTA_METADATA_CHANGED", format!("the table has no column `{name}` any more; the batch is run again"))
}

fn written<'a>(name: &str, layout: &'a Layout) -> Option<&'a FieldRef> {
    layout.written.fields().iter().find(|field| same_name(field.name(), name))
}

fn resolve(field: &'static str, name: &str, layout: &Layout) -> Result<String> {
    let Some(column) = written(name, layout) else {
        let known: Vec<&str> = layout.written.fields().iter().map(|column| column.name().as_str()).collect();
        let meant = did_you_mean(name, known.iter().copied());
        let text = format!("{field} names `{name}`, which the query does not yield{meant}; its columns are {}", known.join(", "));
        return Err(Error::config("DELTA_COLUMN_NOT_FOUND", text).in_field(field));
    };
    if !can_compare(column.data_type()) {
        let text = format!(
            "{field} names `{name}`, whose type {} cannot be compared; choose another column, or a field of it with AS",
            spark_field_type_name(column)
        );
        return Err(Error::config("DATATYPE_MISMATCH.INVALID_ORDERING_TYPE", text).in_field(field));
    }
    Ok(column.name().clone())
}

fn can_compare(data_type: &ArrowType) -> bool {
    can_partition(data_type) || *data_type == ArrowType::Binary
}

/// The paths of what the table has and the query does not yield.
fn find_lacking(parent: &str, table: &StructType, query: &StructType, lacking: &mut Vec<String>) {
    for field in table.fields() {
        let path = if parent.is_empty() { field.name().clone() } else { format!("{parent}.{}", field.name()) };
        match query.fields().find(|column| same_name(column.name(), field.name())) {
            Some(column) => find_lacking_in_type(&path, field.data_type(), column.data_type(), lacking),
            None => lacking.push(path),
        }
    }
}

fn find_lacking_in_type(path: &str, table: &DataType, query: &DataType, lacking: &mut Vec<String>) {
    match (table, query) {
        (DataType::Struct(table), DataType::Struct(query)) => find_lacking(path, table, query, lacking),
        (DataType::Array(table), DataType::Array(query)) => {
            find_lacking_in_type(&format!("{path}.element"), &table.element_type, &query.element_type, lacking);
        }
        (DataType::Map(table), DataType::Map(query)) => {
            find_lacking_in_type(&format!("{path}.key"), &table.key_type, &query.key_type, lacking);
            find_lacking_in_type(&format!("{path}.value"), &table.value_type, &query.value_type, lacking);
        }
        _ => {}
    }
}
