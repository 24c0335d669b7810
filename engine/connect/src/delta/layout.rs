//! How the rows of a query lie in a table: which columns, which types, which
//! partition columns.
//!
//! Planned when the sink is opened and again whenever the table's metadata
//! changes. A file is written under one layout; before its batch is committed
//! the layout is held against the table as it then is (`still_fits`).
//! Decides only.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use deltalake_core::kernel::engine::arrow_conversion::TryIntoArrow;
use deltalake_core::kernel::{DataType as KernelType, StructField, StructType};
use weir_core::{Error, Result};
use weir_crds::finding::did_you_mean;
use weir_decode::spark_type::spark_field_type_name;

use super::features;
use super::identity::Allocator;
use super::mapping;
use super::options::SchemaEvolution;
use super::partition::can_partition;
use super::rules::{self, Rules};
use super::schema::{self, Names, same_name};
use super::state::TableState;
use super::upsert::Keys;
use crate::expressions::Expressions;
use crate::open::UpsertBy;

/// The plan of a query's rows in a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The table's schema, added columns included.
    pub table: StructType,
    /// Columns that a commit has to add to the table.
    pub added: Vec<String>,
    /// The highest id of a column, in tables that map columns.
    pub max_column_id: Option<i64>,
    /// The table's partition columns.
    pub partition_columns: Vec<String>,
    /// For each written column, its index in the query's rows; `None` where the table itself gives the values.
    pub sources: Vec<Option<usize>>,
    /// The written columns, partition columns included, in the table's order.
    pub written: SchemaRef,
    /// Indexes of the partition columns in `written`.
    pub partition_indexes: Vec<usize>,
    /// Indexes of the columns in the files in `written`.
    pub file_indexes: Vec<usize>,
    /// The files' schema, under physical names.
    pub file: SchemaRef,
    /// The partition columns' physical names.
    pub physical_partitions: Vec<String>,
    /// Whether files are searched for columns by their ids first.
    pub by_id: bool,
    /// What the table demands of rows.
    pub rules: Rules,
    /// Whether a commit that replaces rows has to tell the changes.
    pub change_feed: bool,
    /// By which columns rows are merged; else they are appended.
    pub upsert: Option<Keys>,
}

/// The layout that the writers of one batch share, and the numbers that they draw from.
#[derive(Clone, Debug)]
pub struct InUse {
    /// The layout.
    pub layout: Arc<Layout>,
    /// Numbers of identity columns.
    pub numbers: Arc<Allocator>,
}

impl InUse {
    /// Nothing is drawn yet.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self { layout, numbers: Arc::default() }
    }
}

/// What a layout is planned for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The query's output schema.
    pub query: SchemaRef,
    /// The manifest's `partitionBy`.
    pub partition_by: Vec<String>,
    /// `mergeSchema`.
    pub evolution: SchemaEvolution,
    /// The manifest's `upsertKeys` and `upsertOrderBy`.
    pub upsert: Option<UpsertBy>,
    /// The table's location, for messages.
    pub url: String,
    /// Evaluates what the table has of SQL.
    pub expressions: Arc<dyn Expressions>,
}

impl Layout {
    /// Refuses columns that no table could take, whatever it is like.
    pub fn check(request: &Request) -> Result<()> {
        let query = schema::from_arrow(&request.query, Names::Mapped)?;
        Self::new_table(request, query).map(drop)
    }

    fn new_table(request: &Request, query: StructType) -> Result<Self> {
        let partition_columns = resolve_partition_by(request, &query)?;
        let mut layout = Self::lay(request, query, Vec::new(), partition_columns, Rules::default())?;
        layout.upsert = request.upsert.as_ref().map(|by| Keys::plan(by, request, &layout, None)).transpose()?;
        Ok(layout)
    }

    /// Plans the layout in `existing`, or in a table yet to be created.
    pub fn plan(request: &Request, existing: Option<&TableState>) -> Result<Self> {
        let mapped = existing.is_some_and(|table| mapping::is_mapped(&table.metadata.configuration));
        let query = schema::from_arrow(&request.query, if mapped { Names::Mapped } else { Names::Plain })?;
        let Some(table) = existing else { return Self::new_table(request, query) };
        features::check_writable(&request.url, &table.protocol, &table.metadata)?;
        check_partitioning(request, &table.metadata.partition_columns)?;
        let mut merged = schema::merge(&table.schema, &query)?;
        check_added(request, table, &merged)?;
        let configuration = &table.metadata.configuration;
        features::check_change_feed(&request.url, configuration, &merged.schema)?;
        let mut max_column_id = None;
        if mapped {
            let (schema, max) = mapping::assign(&merged.schema, configuration, &table.metadata.id)?;
            (merged.schema, max_column_id) = (schema, Some(max));
        }
        let columns = Arc::new(arrow_of(&merged.schema, &request.url)?);
        let given = |name: &str| query.field_names().any(|column| same_name(column, name));
        let over = rules::Over { columns, expressions: Arc::clone(&request.expressions) };
        let rules =
            Rules::plan(over, &merged.schema, configuration, given).map_err(|e| e.context(format!("cannot write to {}", request.url)))?;
        check_missing(request, &query, &table.metadata.partition_columns, &rules)?;
        let partition_columns = table.metadata.partition_columns.clone();
        let layout = Self::lay(request, merged.schema, merged.added, partition_columns, rules)?;
        let (change_feed, by_id) = (features::has_change_feed(configuration), mapping::is_by_id(configuration));
        let mut layout = Self { max_column_id, change_feed, by_id, ..layout };
        layout.upsert = request.upsert.as_ref().map(|by| Keys::plan(by, request, &layout, existing)).transpose()?;
        Ok(layout)
    }

    /// The layout of whole rows of the table, for those that are written again.
    pub fn whole(&self, url: &str) -> Result<Self> {
        self.whole_of(self.table.clone(), url)
    }

    /// The layout of whole rows with the type of a change as the last column.
    pub fn with_change_type(&self, url: &str) -> Result<Self> {
        let change_type = StructField::nullable("_change_type", KernelType::STRING);
        let table = StructType::try_new(self.table.fields().cloned().chain([change_type]));
        let unfit = "the columns of the changes make no Delta schema";
        self.whole_of(table.map_err(|e| Error::config("DELTA_INVALID_SCHEMA", unfit).with_source(e))?, url)
    }

    fn whole_of(&self, table: StructType, url: &str) -> Result<Self> {
        let arrow = arrow_of(&table, url)?;
        let typed: Vec<String> = arrow.fields().iter().filter(|field| has_type(field)).map(|field| field.name().clone()).collect();
        let given = |name: &str| typed.iter().position(|column| column == name);
        let whole = Self::lay_out(url, table, Vec::new(), self.partition_columns.clone(), Rules::default(), given)?;
        Ok(Self { by_id: self.by_id, ..whole })
    }

    /// Columns as data files have them.
    pub fn stored(&self, fields: &[FieldRef]) -> Vec<FieldRef> {
        fields.iter().map(|field| mapping::stored(field, &self.table)).collect()
    }

    fn lay(request: &Request, table: StructType, added: Vec<String>, partition_columns: Vec<String>, rules: Rules) -> Result<Self> {
        let given = |name: &str| request.query.fields().iter().position(|column| same_name(column.name(), name));
        Self::lay_out(&request.url, table, added, partition_columns, rules, given)
    }

    fn lay_out(
        url: &str,
        table: StructType,
        added: Vec<String>,
        partition_columns: Vec<String>,
        rules: Rules,
        given: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self> {
        let arrow = arrow_of(&table, url)?;
        let mut sources = Vec::new();
        let mut written: Vec<Arc<Field>> = Vec::new();
        for field in arrow.fields() {
            let source = given(field.name());
            if has_type(field) && (source.is_some() || rules.fill(field.name())) {
                sources.push(source);
                let lenient = without_nested_not_null(field.data_type());
                written.push(Arc::new(Field::new(field.name(), lenient, field.is_nullable())));
            }
        }
        let position = |name: &String| written.iter().position(|field| same_name(field.name(), name));
        let partition_indexes: Vec<usize> = partition_columns.iter().filter_map(position).collect();
        for index in &partition_indexes {
            let field = &written[*index];
            if !can_partition(field.data_type()) {
                return Err(Error::config(
                    "DELTA_INVALID_PARTITION_COLUMN_TYPE",
                    format!(
                        "the table cannot be partitioned by `{}`, whose type is {}; choose another column",
                        field.name(),
                        spark_field_type_name(field)
                    ),
                ));
            }
        }
        let file_indexes: Vec<usize> = (0..written.len()).filter(|index| !partition_indexes.contains(index)).collect();
        if file_indexes.is_empty() {
            return Err(Error::config(
                "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION",
                "every column is a partition column; leave at least one out of partitionBy",
            ));
        }
        let written: SchemaRef = Arc::new(Schema::new(written));
        let file = written.project(&file_indexes).map_err(|e| Error::config("DELTA_INVALID_SCHEMA", "no file schema").with_source(e))?;
        let file = Arc::new(mapping::physical_schema(&file, &table));
        let physical_partitions = partition_columns.iter().map(|name| mapping::physical_column(&table, name)).collect();
        Ok(Self {
            max_column_id: None,
            physical_partitions,
            by_id: false,
            table,
            added,
            partition_columns,
            sources,
            written,
            partition_indexes,
            file_indexes,
            file,
            rules,
            change_feed: false,
            upsert: None,
        })
    }

    /// Whether files written under this layout belong into the table as it is now.
    pub fn still_fits(&self, now: &Self) -> bool {
        self.partition_columns == now.partition_columns
            && self.written.fields().iter().all(|field| {
                now.written
                    .field_with_name(field.name())
                    .is_ok_and(|current| current.data_type() == field.data_type() && (current.is_nullable() || !field.is_nullable()))
            })
            && self.rules == now.rules
            && self.physical_partitions == now.physical_partitions
            && self.file.fields().len() == now.file.fields().len()
            && self
                .file
                .fields()
                .iter()
                .zip(now.file.fields())
                .all(|(old, new)| old.name() == new.name() && old.data_type() == new.data_type())
            && now.written.fields().iter().all(|field| field.is_nullable() || self.written.field_with_name(field.name()).is_ok())
    }
}

fn arrow_of(table: &StructType, url: &str) -> Result<Schema> {
    table
        .try_into_arrow()
        .map_err(|e| Error::config("DELTA_INVALID_SCHEMA", format!("the schema of {url} cannot be written")).with_source(e))
}

fn resolve_partition_by(request: &Request, query: &StructType) -> Result<Vec<String>> {
    let mut resolved: Vec<String> = Vec::new();
    for name in &request.partition_by {
        let Some(column) = query.field_names().find(|column| same_name(column, name)) else {
            let known: Vec<&str> = query.field_names().map(String::as_str).collect();
            let meant = did_you_mean(name, known.iter().copied());
            return Err(Error::config(
                "DELTA_COLUMN_NOT_FOUND",
                format!("partitionBy names `{name}`, which the query does not yield{meant}; its columns are {}", known.join(", ")),
            ));
        };
        if resolved.contains(column) {
            return Err(Error::config("DELTA_DUPLICATE_COLUMNS_FOUND", format!("partitionBy names `{name}` twice; name it once")));
        }
        resolved.push(column.clone());
    }
    Ok(resolved)
}

fn check_partitioning(request: &Request, columns: &[String]) -> Result<()> {
    let same = request.partition_by.len() == columns.len() && request.partition_by.iter().zip(columns).all(|(a, b)| same_name(a, b));
    if request.partition_by.is_empty() || same {
        return Ok(());
    }
    Err(Error::config(
        "DELTA_METADATA_MISMATCH",
        format!(
            "partitionBy is [{}] but the table {} is partitioned by [{}]; write the same list, or leave it out",
            request.partition_by.join(", "),
            request.url,
            columns.join(", ")
        ),
    ))
}

fn check_added(request: &Request, table: &TableState, merged: &schema::Merged) -> Result<()> {
    if merged.added.is_empty() {
        return Ok(());
    }
    if request.evolution == SchemaEvolution::Refuse {
        return Err(Error::config(
            "DELTA_METADATA_MISMATCH",
            format!(
                "a schema mismatch was found when writing to the Delta table {} (Table ID: {}): the query yields {}, which the table does not have; set the option mergeSchema: \"true\" to add them, or leave them out of the SELECT",
                request.url,
                table.metadata.id,
                merged.added.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            ),
        ));
    }
    if schema::has_timestamp_ntz(&merged.schema) && !features::allows_timestamp_ntz(&table.protocol) {
        return Err(Error::config(
            "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT",
            format!(
                "the table {} cannot take a TIMESTAMP_NTZ column yet; run ALTER TABLE ... SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported'), or CAST to TIMESTAMP",
                request.url
            ),
        ));
    }
    Ok(())
}

fn check_missing(request: &Request, query: &StructType, partition_columns: &[String], rules: &Rules) -> Result<()> {
    let given = |name: &String| query.field_names().any(|column| same_name(column, name)) || rules.fill(name);
    let partition = partition_columns.iter().find(|name| !given(name));
    let (condition, name, why) = match (partition, rules.missing(|path| rules::has_path(query, path))) {
        (Some(name), _) => ("DELTA_MISSING_PARTITION_COLUMN", name.clone(), "is a partition column of the table"),
        (None, Some(path)) => ("DELTA_MISSING_NOT_NULL_COLUMN_VALUE", path, "is NOT NULL in the table"),
        (None, None) => return Ok(()),
    };
    let text = format!("the column `{name}` {why} {} but the query does not yield it; add it to the SELECT", request.url);
    Err(Error::config(condition, text))
}

/// A column without a type is in no file.
fn has_type(field: &Field) -> bool {
    *field.data_type() != DataType::Null
}

/// The type as files have it: NOT NULL inside structs is a rule for rows, not for Parquet's levels.
fn without_nested_not_null(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Struct(fields) => {
            let lenient = |field: &Arc<Field>| Field::new(field.name(), without_nested_not_null(field.data_type()), true);
            DataType::Struct(fields.iter().map(lenient).collect())
        }
        other => other.clone(),
    }
}
