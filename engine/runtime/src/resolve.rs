//! From the manifest's job to query definitions with nothing left open.
//!
//! Substitutes parameters, merges `optionsFrom` under the options that are
//! written out, turns table names and `/Volumes` paths into locations through
//! `catalogs`, derives checkpoint locations from `checkpointRoot`, parses DDL
//! schemas and durations. Pure but for the lookup that is passed in; errors
//! have class Config and name the field's path.

use std::borrow::Cow;
use std::collections::BTreeMap;

use weir_connect::open::UpsertBy;
use weir_core::trigger::Trigger;
use weir_core::{Error, Result};
use weir_crds::catalog::{self, CatalogError};
use weir_crds::conf::SessionConf;
use weir_crds::manifest::merged_options;
use weir_crds::options::{Format, Role};
use weir_crds::policy::QueryTrigger;
use weir_crds::resource::{OptionsFromSpec, QuerySpec, SinkSpec, SourceSpec, StreamingJobSpec};
use weir_sql::{Observation, OutputMode, QueryText, SqlConf, Undecodable};

use crate::query::{InputDefinition, QueryDefinition, SinkDefinition, Watermark};

/// Options whose values are locations.
const LOCATIONS: &[&str] = &["path", "basePath", "sourceArchiveDir"];

/// Which kind of object an `optionsFrom` entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

/// Looks up the keys and values of a Secret or ConfigMap.
pub type Lookup<'a> = &'a (dyn Fn(ReferenceKind, &str) -> Result<BTreeMap<String, String>> + Sync);

/// Where a job lives and what its queries need from outside the manifest.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The job's namespace.
    pub namespace: &'a str,
    /// The job's name.
    pub job: &'a str,
    /// Secrets and ConfigMaps.
    pub lookup: Lookup<'a>,
    /// Where queries without a checkpoint of their own (console, noop) keep a
    /// temporary one.
    pub temporary_root: &'a str,
    /// Replaces every query's trigger with `availableNow` for this run.
    pub available_now: AvailableNowRun,
}

/// Whether `--available-now` was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvailableNowRun {
    /// Triggers are as written.
    AsWritten,
    /// Every query runs as `availableNow`.
    EveryQuery,
}

/// The definitions of one task's queries.
pub fn task_queries(spec: &StreamingJobSpec, task: &str, around: Surroundings<'_>) -> Result<Vec<QueryDefinition>> {
    let spec = &weir_crds::manifest::substituted(spec);
    let found = spec.tasks.iter().find(|candidate| candidate.name == task).ok_or_else(|| {
        let names: Vec<&str> = spec.tasks.iter().map(|t| t.name.as_str()).collect();
        Error::config("TASK_NOT_FOUND", format!("the job {} has no task {task}; its tasks are {}", around.job, names.join(", ")))
    })?;
    let resolver = Resolver { spec, around };
    let placed = |e: Error, name: &str| e.within(&format!("queries[{name}]")).context(format!("query {name}"));
    found.queries.iter().map(|query| resolver.query(task, query).map_err(|e| placed(e, &query.name))).collect()
}

struct Resolver<'a> {
    spec: &'a StreamingJobSpec,
    around: Surroundings<'a>,
}

impl Resolver<'_> {
    fn query(&self, task: &str, query: &QuerySpec) -> Result<QueryDefinition> {
        let input = |list: &str, spec: &SourceSpec| self.input(spec).map_err(|e| e.within(&format!("{list}[{}]", spec.name)));
        let sources = query.sources.iter().map(|s| input("sources", s)).collect::<Result<Vec<_>>>()?;
        let mut tables = query.tables.iter().map(|s| input("tables", s)).collect::<Result<Vec<_>>>()?;
        let views = query.views.iter().map(|v| (v.name.clone(), v.sql.clone())).collect();
        let observe = query.observe.iter().map(|o| Observation {
            name: o.name.clone(),
            view: o.view.clone(),
            metrics: o.metrics.iter().map(|m| (m.name.clone(), m.expr.clone())).collect(),
        });
        let undecodable = if query.bad_records.is_some() { Undecodable::SetApart } else { Undecodable::ByMode };
        let text = QueryText { views, sql: query.sql.clone(), observe: observe.collect(), undecodable };
        let declared: Vec<&str> = sources.iter().chain(&tables).map(|input| input.name.as_str()).collect();
        let named = self.named_in_sql(&text, &declared)?;
        tables.extend(named);
        let sink = self.sink(&query.sink).map_err(|e| e.within("sink"))?;
        let bad_records =
            query.bad_records.as_ref().map(|spec| self.sink(&spec.to_sink()).map_err(|e| e.within("badRecords"))).transpose()?;
        let conf = &self.spec.conf;
        let session = SessionConf::parse(conf).map_err(|found| {
            let sentences: Vec<String> = found.iter().map(|finding| finding.sentence()).collect();
            Error::config("INVALID_CONF", sentences.join("; "))
        })?;
        Ok(QueryDefinition {
            name: query.name.clone(),
            sources,
            tables,
            text,
            checkpoint: self.checkpoint(task, query, &sink).map_err(|e| e.within("checkpointLocation"))?,
            sink,
            bad_records,
            output_mode: match query.output_mode {
                weir_crds::OutputMode::Append => OutputMode::Append,
                weir_crds::OutputMode::Update => OutputMode::Update,
                weir_crds::OutputMode::Complete => OutputMode::Complete,
            },
            trigger: self.trigger(query).map_err(|e| e.within("trigger"))?,
            reset_nonce: u64::try_from(query.checkpoint_reset_nonce).unwrap_or_default(),
            sql_conf: sql_conf(&session),
            session,
            conf: conf.clone(),
        })
    }

    fn trigger(&self, query: &QuerySpec) -> Result<Trigger> {
        if self.around.available_now == AvailableNowRun::EveryQuery {
            return Ok(Trigger::AvailableNow);
        }
        let parsed = query.trigger().map_err(|e| Error::config("INVALID_TRIGGER", e))?;
        Ok(match parsed {
            QueryTrigger::Default => Trigger::ProcessingTime(std::time::Duration::ZERO),
            QueryTrigger::ProcessingTime(interval) => Trigger::ProcessingTime(interval),
            QueryTrigger::AvailableNow => Trigger::AvailableNow,
            QueryTrigger::Once => Trigger::Once,
        })
    }

    fn input(&self, source: &SourceSpec) -> Result<InputDefinition> {
        let mut options = self.options(&source.options, &source.options_from)?;
        let format = match (&source.format, &source.table) {
            (Some(format), _) => format.to_ascii_lowercase(),
            (None, table) => {
                options.insert("path".into(), self.table_path(table.as_deref().unwrap_or_default())?);
                "delta".into()
            }
        };
        let schema = source
            .schema
            .as_deref()
            .map(|ddl| Ok::<_, Error>(std::sync::Arc::new(weir_sql::parse_ddl_schema(ddl)?)))
            .transpose()
            .map_err(|e| e.in_field("schema").context(format!("schema of source {}", source.name)))?;
        let watermark = source
            .watermark
            .as_ref()
            .map(|w| {
                let delay = weir_crds::duration::parse_delay(&w.delay)
                    .map_err(|e| Error::config("INVALID_INTERVAL_FORMAT", format!("watermark of source {}: {e}", source.name)))?;
                Ok::<_, Error>(Watermark { column: w.column.clone(), delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX) })
            })
            .transpose()?;
        Ok(InputDefinition { name: source.name.clone(), format, options, schema, watermark })
    }

    /// The tables that the SQL names by catalog or schema: static inputs that nobody has to declare. SQL that cannot be read is
    /// told where it is compiled.
    fn named_in_sql(&self, text: &QueryText, declared: &[&str]) -> Result<Vec<InputDefinition>> {
        if self.spec.catalogs.is_empty() {
            return Ok(Vec::new());
        }
        let named = weir_sql::tables_by_name(text, |word| Format::find(word, Role::Table).is_ok()).unwrap_or_default();
        let named = named.into_iter().map(|parts| (parts.join("."), parts));
        let new = named.filter(|(name, _)| !declared.iter().any(|known| known.eq_ignore_ascii_case(name)));
        let input = |(name, parts): (String, Vec<String>)| {
            let path = catalog::named_location(&self.spec.catalogs, &parts).map_err(|e| unknown(e).in_field("sql"))?;
            let options = BTreeMap::from([("path".to_owned(), path)]);
            Ok(InputDefinition { name, format: "delta".to_owned(), options, schema: None, watermark: None })
        };
        new.map(input).collect()
    }

    fn sink(&self, sink: &SinkSpec) -> Result<SinkDefinition> {
        let mut options = self.options(&sink.options, &sink.options_from)?;
        if let Some(table) = &sink.table {
            options.insert("path".into(), self.table_path(table)?);
        }
        let format = sink.format.as_deref().unwrap_or("delta").to_ascii_lowercase();
        let keys = sink.upsert_keys.clone();
        let upsert = (!keys.is_empty()).then(|| UpsertBy { keys, order_by: sink.upsert_order_by.clone() });
        Ok(SinkDefinition { format, options, partition_by: sink.partition_by.clone(), upsert })
    }

    /// The options with those of `optionsFrom` under them, locations resolved.
    fn options(&self, written: &BTreeMap<String, String>, from: &[OptionsFromSpec]) -> Result<BTreeMap<String, String>> {
        let mut found = Vec::with_capacity(from.len());
        for reference in from {
            let (kind, name) = match (&reference.secret_ref, &reference.config_map_ref) {
                (Some(secret), _) => (ReferenceKind::Secret, &secret.name),
                (None, Some(map)) => (ReferenceKind::ConfigMap, &map.name),
                (None, None) => continue,
            };
            found.push((reference, (self.around.lookup)(kind, name)?));
        }
        let data = |wanted: &OptionsFromSpec| found.iter().find(|(reference, _)| *reference == wanted).map(|(_, data)| data.clone());
        let mut options = merged_options(written, from, data)
            .map_err(|_| Error::config("REFERENCE_NOT_FOUND", "an optionsFrom entry names neither a Secret nor a ConfigMap; write `secretRef: {name: …}` or `configMapRef: {name: …}` in it"))?;
        for (name, value) in &mut options {
            if LOCATIONS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                *value = self.location(value)?;
            }
        }
        Ok(options)
    }

    fn checkpoint(&self, task: &str, query: &QuerySpec, sink: &SinkDefinition) -> Result<String> {
        let below =
            |root: &str| format!("{}/{}/{}/{task}/{}", root.trim_end_matches('/'), self.around.namespace, self.around.job, query.name);
        if let Some(location) = &query.checkpoint_location {
            return self.location(location);
        }
        if let Some(root) = &self.spec.checkpoint_root {
            return self.location(&below(root));
        }
        if Format::find(&sink.format, Role::Sink).is_ok_and(Format::takes_temporary_checkpoint) {
            return Ok(below(self.around.temporary_root));
        }
        Err(Error::config(
            "CHECKPOINT_LOCATION_MISSING",
            "checkpointLocation must be specified: write it in the query, or checkpointRoot in the spec",
        ))
    }

    fn location(&self, location: &str) -> Result<String> {
        catalog::location(&self.spec.catalogs, location).map(Cow::into_owned).map_err(unknown)
    }

    fn table_path(&self, table: &str) -> Result<String> {
        catalog::table_location(&self.spec.catalogs, table).map_err(unknown)
    }
}

fn unknown(error: CatalogError) -> Error {
    Error::config(error.condition, error.message)
}

/// The settings that SQL knows.
pub fn sql_conf(session: &SessionConf) -> SqlConf {
    SqlConf { ansi: session.ansi_enabled, time_zone: session.session_time_zone.clone(), case_sensitive: session.case_sensitive }
}
