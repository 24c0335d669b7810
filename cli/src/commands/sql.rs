//! `weir sql`: a query over tables that the connectors can read.
//!
//! Tables are named on the command line and opened by the same code that opens
//! a job's static tables. Errors of the query exit with 20 and show Spark's
//! condition name in brackets.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, Result};
use weir_crds::conf::SessionConf;
use weir_sql::SqlConf;

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

/// A failed query is the user's query: exit 20, whatever step failed in it.
fn as_config(error: Error) -> Error {
    match error.class() {
        weir_core::ErrorClass::Retryable => Error::config(error.condition().to_owned(), error.message().to_owned()).with_source(error),
        _ => error,
    }
}

async fn query(arguments: &SqlArguments, conf: &SqlConf) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let storage = Storage::new(Durability::PageCache);
    let mut tables = Vec::with_capacity(arguments.tables.len());
    for (name, location) in &arguments.tables {
        let table = TableArgument::parse(name, location)?;
        let provider = weir_connect::tables::open_table(&table.format, &table.options, table.schema, &storage)
            .await
            .map_err(|e| e.context(format!("table {name}")))?;
        tables.push((name.clone(), provider));
    }
    weir_sql::run_batch_sql(conf, tables, &arguments.query).await
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
        let mut options: BTreeMap<String, String> =
            query.split('&').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let schema = options.remove("schema").map(|ddl| weir_sql::parse_ddl_schema(&ddl)).transpose()?.map(std::sync::Arc::new);
        options.insert("path".into(), path.to_owned());
        Ok(Self { format: format.to_ascii_lowercase(), options, schema })
    }
}

fn print(form: SqlOutput, schema: &SchemaRef, batches: &[RecordBatch], conf: &SqlConf) -> Result<()> {
    let failed = |e: arrow::error::ArrowError| Error::retryable("NOT_PRINTED", "could not print the rows").with_source(e);
    match form {
        SqlOutput::Table => {
            let empty = [RecordBatch::new_empty(schema.clone())];
            let shown = if batches.is_empty() { &empty[..] } else { batches };
            output::print(&format!("{}\n", arrow::util::pretty::pretty_format_batches(shown).map_err(failed)?))?;
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
