//! `weir sql`: a query over tables that the connectors can read.
//!
//! Tables are named on the command line, or by their place in the query, and
//! opened by the same code that opens a job's static tables. Errors of the
//! query exit with 20 and show Spark's condition name in brackets; a broker or
//! a store that does not answer is 10, as it is for a job.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, ErrorClass, Result};
use weir_crds::catalog;
use weir_crds::conf::SessionConf;
use weir_crds::options::{Format, Role};
use weir_crds::resource::CatalogSpec;
use weir_sql::{QueryText, SqlConf, Statement};

use crate::arguments::{SqlArguments, SqlOutput};
use crate::commands::task::runtime;
use crate::outcome::{Code, Ended};
use crate::output;

/// Runs the query and prints its rows.
pub fn run(arguments: &SqlArguments) -> Ended {
    let conf = SessionConf::parse(&arguments.conf.iter().cloned().collect()).map_err(|found| {
        let sentences: Vec<String> = found.iter().map(weir_crds::finding::Finding::sentence).collect();
        Error::config("INVALID_CONF", sentences.join("; "))
    })?;
    let conf = weir_runtime::resolve::sql_conf(&conf);
    let (schema, batches) = runtime()?.block_on(query(arguments, &conf)).map_err(as_config)?;
    print(arguments.output, &schema, &batches, &conf)?;
    Ok(Code::DONE)
}

/// A failed query is the user's query, exit 20, whatever step failed in it, but for what is read from and does not answer.
fn as_config(error: Error) -> Error {
    match error.class() {
        ErrorClass::Retryable if !OF_SERVICES.contains(&error.condition()) => error.in_class(ErrorClass::Config),
        _ => error,
    }
}

/// Conditions of brokers and stores, which may answer another time.
const OF_SERVICES: [&str; 3] = [weir_connect::kafka::UNREACHABLE, "STORAGE_FAILURE", "DELTA_LOG_FAILURE"];

async fn query(arguments: &SqlArguments, conf: &SqlConf) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let storage = Storage::new(Durability::PageCache);
    let statement = Statement::of(&arguments.query)?;
    refuse_repeated("table", &arguments.tables, conf.case_sensitive)?;
    refuse_repeated("catalog", &arguments.catalogs, false)?;
    let by_path = weir_sql::tables_by_path(statement.query(), is_format)?;
    let by_path = by_path.iter().map(|(format, path)| (format!("{format}.{path}"), TableArgument::at(format, path, BTreeMap::new())));
    let by_name = arguments.tables.iter().map(|(name, location)| (name.clone(), TableArgument::parse(name, location)));
    let in_catalogs = in_catalogs(&arguments.catalogs, statement.query())?;
    let mut tables = Vec::new();
    for (name, table) in by_name.chain(by_path).chain(in_catalogs) {
        let table = table?;
        let provider = weir_connect::tables::open_table(&table.format, &table.options, table.schema, &storage)
            .await
            .map_err(|e| e.context(format!("table {name}")))?;
        tables.push((name, provider));
    }
    weir_sql::run_statement(conf, tables, &statement).await
}

fn is_format(word: &str) -> bool {
    Format::find(word, Role::Table).is_ok()
}

/// A name stands for one table, or one catalog.
fn refuse_repeated(what: &str, given: &[(String, String)], is_case_sensitive: bool) -> Result<()> {
    let key = |name: &str| if is_case_sensitive { name.to_owned() } else { name.to_lowercase() };
    let mut seen = BTreeMap::new();
    for (name, place) in given {
        if let Some(before) = seen.insert(key(name), place) {
            return Err(Error::config(
                format!("INVALID_{}_ARGUMENT", what.to_uppercase()),
                format!("--{what} {name} is given twice, as {before} and as {place}; give each {what} a name of its own"),
            ));
        }
    }
    Ok(())
}

/// The tables that a query names by their catalog or schema.
fn in_catalogs(given: &[(String, String)], query: &str) -> Result<Vec<(String, Result<TableArgument>)>> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let of = |(name, warehouse): &(String, String)| CatalogSpec { name: name.clone(), warehouse: warehouse.clone(), volumes: None };
    let catalogs: Vec<CatalogSpec> = given.iter().map(of).collect();
    let named = weir_sql::tables_by_name(&QueryText { sql: query.to_owned(), ..QueryText::default() }, is_format)?;
    let table = |parts: Vec<String>| {
        let path = catalog::named_location(&catalogs, &parts).map_err(|e| Error::config(e.condition, e.message));
        (parts.join("."), path.and_then(|path| TableArgument::at(Format::Delta.as_str(), &path, BTreeMap::new())))
    };
    Ok(named.into_iter().map(table).collect())
}

/// `FORMAT:PATH?option=value&...`; the option `schema` is a DDL schema.
struct TableArgument {
    format: String,
    options: BTreeMap<String, String>,
    schema: Option<SchemaRef>,
}

impl TableArgument {
    fn parse(name: &str, location: &str) -> Result<Self> {
        let (format, rest) = location.split_once(':').ok_or_else(|| {
            Error::config(
                "INVALID_TABLE_ARGUMENT",
                format!("--table {name}={location}: write {name}=FORMAT:PATH, for example {name}=delta:/data/x"),
            )
        })?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self::at(format, path, options.collect())
    }

    fn at(format: &str, path: &str, mut options: BTreeMap<String, String>) -> Result<Self> {
        let format = format.to_ascii_lowercase();
        let schema = options.remove("schema").map(|ddl| weir_sql::parse_ddl_schema(&ddl)).transpose()?.map(std::sync::Arc::new);
        // The place of records in Kafka is their topic, which may also be given by an option.
        let place = if format == Format::Kafka.as_str() { "subscribe" } else { "path" };
        if !path.is_empty() || place == "path" {
            options.insert(place.to_owned(), path.to_owned());
        }
        Ok(Self { format, options, schema })
    }
}

fn print(form: SqlOutput, schema: &SchemaRef, batches: &[RecordBatch], conf: &SqlConf) -> Result<()> {
    let failed = |e: arrow::error::ArrowError| Error::retryable("NOT_PRINTED", "could not print the rows").with_source(e);
    match form {
        SqlOutput::Table => {
            let empty = [RecordBatch::new_empty(schema.clone())];
            let shown = if batches.is_empty() { &empty[..] } else { batches };
            // As Spark's show: nothing is one thing and an empty text another.
            let format = FormatOptions::default().with_null("NULL");
            output::print(&format!("{}\n", pretty_format_batches_with_options(shown, &format).map_err(failed)?))?;
        }
        SqlOutput::Json => {
            let mut out = BufWriter::new(output::stdout());
            for batch in batches {
                for row in weir_sql::rows_to_json(batch, conf)? {
                    writeln!(out, "{row}").map_err(output::not_printed)?;
                }
            }
            out.flush().map_err(output::not_printed)?;
        }
        SqlOutput::Csv => {
            let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(output::stdout());
            // The header comes with the first batch, which may be without rows.
            writer.write(&RecordBatch::new_empty(schema.clone())).map_err(failed)?;
            for batch in batches {
                writer.write(batch).map_err(failed)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_place_of_a_table_is_a_path_or_a_topic() {
        let options = |location: &str| TableArgument::parse("t", location).unwrap().options.into_iter().collect::<Vec<_>>();
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
        assert_eq!(options("CSV:/x?header=true"), pairs(&[("header", "true"), ("path", "/x")]));
        assert_eq!(options("kafka:a,b?kafka.bootstrap.servers=k:1"), pairs(&[("kafka.bootstrap.servers", "k:1"), ("subscribe", "a,b")]));
        assert_eq!(options("kafka:?assign={}"), pairs(&[("assign", "{}")]));
    }

    #[test]
    fn a_table_name_is_given_once() {
        let tables = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), format!("csv:/{name}"))).collect::<Vec<_>>();
        refuse_repeated("table", &tables(&["t", "u"]), false).unwrap();
        refuse_repeated("table", &tables(&["t", "T"]), true).unwrap();
        let error = refuse_repeated("table", &tables(&["t", "u", "T"]), false).unwrap_err();
        assert!(error.to_string().contains("--table T is given twice, as csv:/t and as csv:/T"), "{error}");
        let error = refuse_repeated("catalog", &tables(&["main", "Main"]), false).unwrap_err();
        assert!(error.condition() == "INVALID_CATALOG_ARGUMENT" && error.to_string().contains("--catalog Main is given twice"), "{error}");
    }

    #[test]
    fn a_failure_of_the_data_is_the_querys_and_is_told_once() {
        let error = as_config(Error::retryable("USER_RAISED_EXCEPTION", "no").at(1, 2));
        assert_eq!((error.class(), error.to_string().as_str()), (ErrorClass::Config, "[USER_RAISED_EXCEPTION] no (line 1, column 2)"));
        let silent = as_config(Error::retryable(weir_connect::kafka::UNREACHABLE, "no answer"));
        assert_eq!(silent.class(), ErrorClass::Retryable);
    }
}
