//! Which connector a format means.
//!
//! The one place that knows all connectors. Options are checked against the
//! option tables of `weir-crds` first, so that an unknown name or a bad value
//! is refused here as `weir check` refuses it; then the connector opens.

use std::collections::BTreeMap;
use std::io::stdout;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use weir_core::{Error, Result};
use weir_crds::finding::Finding;
use weir_crds::options::{Completeness, Format, ParsedOptions, Role, parse};

use crate::console::{ConsoleSink, Output, Shown};
use crate::delta::{DeltaSourceOptions, PreparedDelta};
use crate::files::read::options::session_zone;
use crate::files::{FileSink, FileSinkPlan, FileStream};
use crate::kafka::{KafkaSink, KafkaSinkOptions, KafkaSourceOptions, PreparedKafka};
use crate::noop::NoopSink;
use crate::open::{SinkContext, SinkSettings, SourceContext};
use crate::options::Options;
use crate::rate::{RateOptions, RatePerBatchSource};
use crate::sink::Sink;
use crate::source::PreparedSource;

/// A streaming source with its schema, before the checkpoint is claimed; `schema` is what the manifest declares.
pub async fn prepare_source(
    format: &str,
    options: &BTreeMap<String, String>,
    schema: Option<SchemaRef>,
    context: SourceContext,
) -> Result<Box<dyn PreparedSource>> {
    let (format, parsed) = check(format, Role::Source, options)?;
    if schema.is_some() && !format.is_files() {
        let text = format!("The {} source has a fixed schema and takes no other; remove the field schema", format.as_str());
        return Err(Error::config("UNSUPPORTED_USER_SPECIFIED_SCHEMA", text));
    }
    let view = Options::new(options.iter());
    Ok(match format {
        Format::Rate => Box::new(RateOptions::parse(&view)?),
        Format::RateMicroBatch => Box::new(RatePerBatchSource::new(&view)?),
        Format::Json | Format::Csv | Format::Text | Format::Parquet => {
            Box::new(FileStream::prepare(format.as_str(), &view, schema, context).await?)
        }
        Format::Kafka => Box::new(PreparedKafka::new(KafkaSourceOptions::from_parsed(&parsed, &context.conf)?)?),
        Format::Delta => Box::new(PreparedDelta::open(DeltaSourceOptions::from_parsed(&parsed, &context.conf)?, &context.storage).await?),
        Format::Console | Format::Noop => return Err(cannot_be(format, "a streaming source")),
    })
}

/// Opens a sink for a query's output; `console` prints to the standard output.
pub async fn open_sink(settings: SinkSettings<'_>, context: &SinkContext) -> Result<Box<dyn Sink>> {
    let (format, parsed) = check(settings.format, Role::Sink, settings.options)?;
    check_fields(format, &settings)?;
    // As the log of a file sink and its identity have it.
    let settings = SinkSettings { format: format.as_str(), ..settings };
    let schema = Arc::clone(settings.schema);
    Ok(match format {
        Format::Json | Format::Csv | Format::Text | Format::Parquet => Box::new(FileSink::open(&settings, context).await?),
        Format::Kafka => Box::new(KafkaSink::open(&KafkaSinkOptions::from_parsed(&parsed)?, schema, context).await?),
        Format::Delta => crate::delta::open_sink(&settings, context).await?,
        Format::Console => {
            let output: Output = Arc::new(Mutex::new(stdout()));
            let shown = Shown::parse(&Options::new(settings.options.iter()))?;
            Box::new(ConsoleSink::new(schema, shown, session_zone(settings.conf)?, output))
        }
        Format::Noop => Box::new(NoopSink::new(schema)),
        Format::Rate | Format::RateMicroBatch => return Err(cannot_be(format, "a sink")),
    })
}

/// What is wrong with a sink for a query's output as far as the manifest alone
/// decides: options, columns, their types, a path that is a file. Asks no service.
pub fn check_sink(settings: SinkSettings<'_>) -> Result<()> {
    let (format, parsed) = check(settings.format, Role::Sink, settings.options)?;
    check_fields(format, &settings)?;
    let settings = SinkSettings { format: format.as_str(), ..settings };
    match format {
        Format::Json | Format::Csv | Format::Text | Format::Parquet => FileSinkPlan::new(&settings).map(drop),
        Format::Kafka => KafkaSink::check(&KafkaSinkOptions::from_parsed(&parsed)?, settings.schema),
        Format::Delta => crate::delta::check_sink(&settings),
        Format::Console => Shown::parse(&Options::new(settings.options.iter())).and(session_zone(settings.conf)).map(drop),
        Format::Noop => Ok(()),
        Format::Rate | Format::RateMicroBatch => Err(cannot_be(format, "a sink")),
    }
}

/// What is wrong with a sink for the table that it finds, as far as this machine alone can tell.
pub async fn check_sink_table(settings: SinkSettings<'_>) -> Result<()> {
    match Format::find(settings.format, Role::Sink) {
        Ok(Format::Delta) => crate::delta::check_table(&settings).await,
        _ => Ok(()),
    }
}

/// Refuses fields of the sink that the format has no use for.
fn check_fields(format: Format, settings: &SinkSettings<'_>) -> Result<()> {
    if !settings.partition_by.is_empty() && !format.is_files() && format != Format::Delta {
        let text = format!("the sink format '{}' has no partitions; remove the field partitionBy", format.as_str());
        return Err(Error::config("PARTITION_BY_NOT_SUPPORTED", text));
    }
    if settings.upsert.is_some() && format != Format::Delta {
        let text = format!("the sink format '{}' cannot merge by key; write to delta, or remove the field upsertKeys", format.as_str());
        return Err(Error::config("UPSERT_NOT_SUPPORTED", text).in_field("upsertKeys"));
    }
    Ok(())
}

/// The schema of a source as far as it is known without looking at its data:
/// `None` for file sources, whose folders may add partition columns, and for Delta tables.
pub fn fixed_schema(format: &str) -> Option<SchemaRef> {
    match Format::find(format, Role::Source) {
        Ok(Format::Rate | Format::RateMicroBatch) => Some(crate::rate::schema()),
        _ => None,
    }
}

/// Checks a format and its options for a role.
pub(crate) fn check(format: &str, role: Role, options: &BTreeMap<String, String>) -> Result<(Format, ParsedOptions)> {
    let format = Format::find(format, role).map_err(|finding| refused(&[finding]))?;
    let parsed = parse(format, role, options, Completeness::Complete).into_result().map_err(|findings| refused(&findings))?;
    Ok((format, parsed))
}

fn refused(findings: &[Finding]) -> Error {
    let sentences: Vec<String> = findings.iter().map(Finding::sentence).collect();
    Error::config("INVALID_OPTIONS", sentences.join("; "))
}

fn cannot_be(format: Format, role: &str) -> Error {
    Error::config("DATA_SOURCE_NOT_FOUND", format!("the format '{}' cannot be {role}", format.as_str()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{expressions, sink_context, source_context, source_place, storage};
    use weir_core::ErrorClass;

    fn map(options: &[(&str, &str)]) -> BTreeMap<String, String> {
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[tokio::test]
    async fn formats_open_and_bad_options_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let context = source_context();
        let source = prepare_source("rate", &map(&[("rowsPerSecond", "3")]), None, context.clone()).await.unwrap();
        assert_eq!(fixed_schema("rate").unwrap(), source.schema());
        let path = dir.path().to_str().unwrap();
        let source = prepare_source("text", &map(&[("path", path)]), None, context.clone()).await.unwrap();
        let source = source.bind(source_place(dir.path())).await.unwrap();
        assert!(source.description().starts_with("FileStreamSource[file:/"));
        for (format, options) in [("rate", map(&[("rowsPerSecnd", "3")])), ("nope", map(&[])), ("json", map(&[])), ("console", map(&[]))] {
            let error = prepare_source(format, &options, None, context.clone()).await.err().unwrap();
            assert_eq!(error.class(), ErrorClass::Config);
        }
        let context = sink_context(dir.path(), uuid::Uuid::nil());
        let expressions = &expressions();
        let (schema, storage, conf, none, value) = (&crate::rate::schema(), &storage(), &map(&[]), &map(&[]), &["value".to_owned()]);
        let noop = SinkSettings { format: "noop", options: none, schema, partition_by: &[], upsert: None, storage, conf, expressions };
        for format in ["console", "noop"] {
            assert!(open_sink(SinkSettings { format, ..noop }, &context).await.is_ok());
        }
        let out = dir.path().join("out");
        let options = &map(&[("path", out.to_str().unwrap())]);
        let sink = open_sink(SinkSettings { format: "Parquet", options, partition_by: value, ..noop }, &context).await.unwrap();
        assert!(sink.description().starts_with("FileSink[file:/"));
        assert_eq!(sink.identity().format, "parquet");
        assert!(open_sink(SinkSettings { format: "console", partition_by: value, ..noop }, &context).await.is_err());
    }

    #[test]
    fn a_sink_is_checked_without_being_opened() {
        use arrow::datatypes::{DataType, Field, Schema};
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let (storage, conf, expressions) = (&storage(), &map(&[]), &expressions());
        let (place, file) = (dir.path().join("out"), dir.path().join("file"));
        let (place, file) = (place.to_str().unwrap(), file.to_str().unwrap());
        let columns = |columns: &[(&str, DataType)]| -> SchemaRef {
            Arc::new(Schema::new(columns.iter().map(|(name, ty)| Field::new(*name, ty.clone(), true)).collect::<Vec<_>>()))
        };
        let list = DataType::new_list(DataType::Int32, true);
        let text = columns(&[("value", DataType::Utf8)]);
        let cases = [
            ("text", map(&[("path", place)]), columns(&[("v", DataType::Int32)]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"),
            ("csv", map(&[("path", place)]), columns(&[("v", list)]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"),
            (
                "kafka",
                map(&[("kafka.bootstrap.servers", "k:9092"), ("topic", "t")]),
                columns(&[("v", DataType::Utf8)]),
                "_LEGACY_ERROR_TEMP_3080",
            ),
            ("json", map(&[("path", file)]), text.clone(), "PATH_NOT_A_FOLDER"),
            ("delta", map(&[("path", file)]), text.clone(), "PATH_NOT_A_FOLDER"),
            (
                "kafka",
                map(&[("kafka.bootstrap.servers", "k:9092"), ("topic", "t"), ("kafka.acks", "some")]),
                columns(&[("value", DataType::Utf8)]),
                "INVALID_OPTION_VALUE",
            ),
        ];
        let check = |format: &str, options: &BTreeMap<String, String>, schema: &SchemaRef| {
            check_sink(SinkSettings { format, options, schema, partition_by: &[], upsert: None, storage, conf, expressions })
        };
        for (format, options, schema, condition) in &cases {
            assert_eq!(check(format, options, schema).unwrap_err().condition(), *condition, "{format}");
        }
        let listed = columns(&[("v", DataType::Utf8), ("country", DataType::new_list(DataType::Int32, true))]);
        let by = |format: &str, column: &str| {
            let options = map(&[("path", place)]);
            let partition_by = &[column.to_owned()];
            let settings =
                SinkSettings { format, options: &options, schema: &listed, partition_by, upsert: None, storage, conf, expressions };
            check_sink(settings).unwrap_err().to_string()
        };
        for format in ["parquet", "delta"] {
            assert!(by(format, "country").contains("array<int>"), "{}", by(format, "country"));
            assert!(by(format, "contry").contains("did you mean `country`?"), "{}", by(format, "contry"));
        }
        let interval = columns(&[("v", DataType::Duration(arrow::datatypes::TimeUnit::Microsecond))]);
        assert_eq!(check("delta", &map(&[("path", place)]), &interval).unwrap_err().class(), ErrorClass::Config);
        for format in ["text", "delta"] {
            check(format, &map(&[("path", place)]), &text).unwrap();
        }
        let (log, nowhere) =
            (map(&[("spark.sql.streaming.fileSink.log.cleanupDelay", "soon")]), map(&[("spark.sql.session.timeZone", "X")]));
        for (format, options, conf, condition) in [
            ("text", map(&[("path", place)]), &log, "INVALID_CONF_VALUE"),
            ("text", map(&[("path", place)]), &nowhere, "INVALID_TIMEZONE"),
            ("console", map(&[]), &nowhere, "INVALID_TIMEZONE"),
        ] {
            let settings =
                SinkSettings { format, options: &options, schema: &text, partition_by: &[], upsert: None, storage, conf, expressions };
            assert_eq!(check_sink(settings).unwrap_err().condition(), condition, "{format}");
        }
        assert!(!dir.path().join("out").exists());
    }
}
