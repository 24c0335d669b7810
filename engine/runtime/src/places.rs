//! Which folders queries read and write, and which of them must not overlap.
//!
//! A sink inside a checkpoint spoils it; a sink inside the folder that its query reads feeds the query its own rows; two
//! file sinks in one folder take each other's batches for their own. Allowed is what works: a checkpoint below a sink's
//! folder, one query that reads what another writes, several queries into one Delta table.
//!
//! Compared are spellings in which links of the disk are followed where it may be looked at; no store is opened. A location
//! that cannot be read at all is none of this module's business, nor is one that only a Secret or ConfigMap will name.

use std::fmt;

use object_store::path::Path;
use weir_connect::files::listing::is_hidden;
use weir_connect::files::location::SplitPath;
use weir_core::storage::Storage;
use weir_core::{Error, Result};
use weir_crds::checkpoint::normalized_location;
use weir_crds::options::{Format, Role};

use crate::query::{QueryDefinition, SinkDefinition};

/// The field of a sink's folder.
const SINK_PATH: &str = "sink.options.path";
/// The field of the folder for bad records.
const BAD_RECORDS_PATH: &str = "badRecords.options.path";
/// The field of a checkpoint.
const CHECKPOINT: &str = "checkpointLocation";

/// A folder as it is written and in its one spelling.
#[derive(Clone, Debug)]
struct Place {
    written: String,
    /// The disk, or scheme and bucket.
    store: String,
    path: Path,
}

impl Place {
    fn of(written: &str, storage: &Storage) -> Option<Self> {
        let spelled = normalized_location(storage.spelling(written).ok()?.as_str());
        let (store, path) = match spelled.split_once("://") {
            Some((scheme, rest)) => {
                let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
                (format!("{scheme}://{bucket}"), path)
            }
            None => ("file".to_owned(), spelled.as_str()),
        };
        Some(Self { written: written.to_owned(), path: Path::from_url_path(path).ok()?, store })
    }

    fn is(&self, other: &Self) -> bool {
        (&self.store, &self.path) == (&other.store, &other.path)
    }

    /// The names from this folder to `other`, if that is this folder or lies in it.
    fn names_to(&self, other: &Self) -> Option<Vec<String>> {
        let below = other.path.prefix_match(&self.path).filter(|_| self.store == other.store)?;
        Some(below.map(|part| part.as_ref().to_owned()).collect())
    }

    /// Whether `other` is this folder or lies in it.
    fn holds(&self, other: &Self) -> bool {
        self.names_to(other).is_some()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.written)
    }
}

/// How a sink keeps what it has written apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// One log for the folder.
    Files,
    /// A table that many may write to.
    Table,
}

/// The folders that one query writes.
#[derive(Clone, Debug)]
pub struct Written {
    /// The query, for messages about another one.
    label: String,
    checkpoint: Option<Place>,
    sinks: Vec<Sink>,
}

/// A folder that rows go to.
#[derive(Clone, Debug)]
struct Sink {
    field: &'static str,
    /// What writes to it, for messages.
    who: &'static str,
    keeping: Keeping,
    place: Place,
}

impl Written {
    /// Those of a query; `label` is its name for messages, such as `query q of task t`.
    pub fn by(label: impl Into<String>, definition: &QueryDefinition, storage: &Storage) -> Self {
        Self { label: label.into(), checkpoint: Place::of(&definition.checkpoint, storage), sinks: sinks(definition, storage) }
    }
}

fn sinks(definition: &QueryDefinition, storage: &Storage) -> Vec<Sink> {
    let of = |definition: &SinkDefinition, field, who| {
        let keeping = match Format::find(&definition.format, Role::Sink).ok()? {
            format if format.is_files() => Keeping::Files,
            Format::Delta => Keeping::Table,
            _ => return None,
        };
        Some(Sink { field, who, keeping, place: Place::of(path(&definition.options)?, storage)? })
    };
    let rows = of(&definition.sink, SINK_PATH, "the sink writes");
    let bad_records = definition.bad_records.as_ref().and_then(|sink| of(sink, BAD_RECORDS_PATH, "bad records go"));
    rows.into_iter().chain(bad_records).collect()
}

fn path(options: &std::collections::BTreeMap<String, String>) -> Option<&str> {
    options.iter().find(|(name, _)| name.eq_ignore_ascii_case("path")).map(|(_, value)| value.as_str())
}

/// What is wrong with the folders of one query among themselves.
pub fn check_own(definition: &QueryDefinition, storage: &Storage) -> Result<()> {
    let checkpoint = Place::of(&definition.checkpoint, storage);
    let sinks = sinks(definition, storage);
    if let Some(checkpoint) = &checkpoint
        && let Some(sink) = sinks.iter().find(|sink| checkpoint.holds(&sink.place))
    {
        return Err(sink_in_checkpoint(sink, checkpoint, "its own checkpoint"));
    }
    if let [rows, bad_records] = sinks.as_slice()
        && (rows.place.holds(&bad_records.place) || bad_records.place.holds(&rows.place))
    {
        let how = if rows.place.is(&bad_records.place) { "is where" } else { "lies in or around the folder where" };
        let what = format!("bad records go to {}, which {how} the sink writes to ({})", bad_records.place, rows.place);
        return Err(overlap(BAD_RECORDS_PATH.to_owned(), what, "give bad records a folder beside it"));
    }
    for input in &definition.sources {
        let format = Format::find(&input.format, Role::Source).ok();
        let Some(path) = path(&input.options).filter(|_| format.is_some_and(|f| f.is_files() || f == Format::Delta)) else { continue };
        // What is listed of files is the folder before the first wildcard; a table is its folder, whose log says what is in it.
        let split = format.filter(|format| format.is_files()).map(|_| SplitPath::new(path)).transpose();
        let Ok(split) = split else { continue };
        let Some(listed) = Place::of(split.as_ref().map_or(path, SplitPath::folder), storage) else { continue };
        let field = format!("sources[{}].options.path", input.name);
        let source = format!("source {} reads `{path}`", input.name);
        if let Some(checkpoint) = &checkpoint
            && checkpoint.holds(&listed)
        {
            return Err(overlap(
                field,
                format!("{source}, which is the query's own checkpoint {checkpoint} or lies in it"),
                "give the checkpoint a folder of its own",
            ));
        }
        for Sink { field: own, who, place, .. } in &sinks {
            if listed.is(place) || split.as_ref().is_some_and(|split| reads(split, &listed, place)) {
                let what = format!("{who} to {place}, which {source}: the query would read what it writes");
                return Err(overlap((*own).to_owned(), what, "let it write to a folder beside the one that it reads"));
            }
            if place.holds(&listed) {
                let what = format!("{source}, which lies in the folder {place} that {who} to");
                return Err(overlap(field, what, "let the query write to a folder beside the one that it reads"));
            }
        }
    }
    Ok(())
}

/// Whether files in `folder` would be among those of a source that lists `listed`.
fn reads(split: &SplitPath, listed: &Place, folder: &Place) -> bool {
    let Some(names) = listed.names_to(folder) else { return false };
    split.root_below(names.iter()).is_some() && !names.iter().any(|name| is_hidden(name))
}

/// What is wrong with the folders of several queries: the number of the query that has to change, and why.
pub fn conflicts(all: &[Written]) -> Vec<(usize, Error)> {
    let mut found = Vec::new();
    for (at, query) in all.iter().enumerate() {
        for (number, other) in all.iter().enumerate().filter(|(number, _)| *number != at) {
            for sink in &query.sinks {
                if let Some(checkpoint) = other.checkpoint.as_ref().filter(|checkpoint| checkpoint.holds(&sink.place)) {
                    found.push((at, sink_in_checkpoint(sink, checkpoint, &format!("the checkpoint of {}", other.label))));
                }
                let Some(others) = other.sinks.iter().find(|others| number < at && others.place.is(&sink.place)) else { continue };
                if (sink.keeping, others.keeping) != (Keeping::Table, Keeping::Table) {
                    let (who, place) = (sink.who, &sink.place);
                    let what = format!("{who} to {place}, and so does {}: a folder of files has one writer", other.label);
                    found.push((at, overlap(sink.field.to_owned(), what, "give each its own folder, or write both to one Delta table")));
                }
            }
        }
    }
    found
}

fn sink_in_checkpoint(sink: &Sink, checkpoint: &Place, whose: &str) -> Error {
    let Sink { field, who, place, .. } = sink;
    let how = if checkpoint.is(place) { "is" } else { "lies in" };
    let what = format!("{who} to {place}, which {how} {whose} ({CHECKPOINT} {checkpoint})");
    overlap((*field).to_owned(), what, "give the sink a folder of its own outside of checkpoints")
}

fn overlap(field: String, what: String, remedy: &str) -> Error {
    Error::config("OVERLAPPING_LOCATIONS", format!("{what}; {remedy}")).in_field(field)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::resolve::{AvailableNowRun, Surroundings, task_queries};
    use weir_core::storage::Durability;
    use weir_crds::resource::StreamingJobSpec;

    /// The definitions of queries by source, sink and checkpoint.
    fn queries(parts: &[(&str, &str, &str)]) -> Vec<QueryDefinition> {
        let query = |(number, (source, sink, checkpoint)): (usize, &(&str, &str, &str))| {
            let (sink, bad_records) = sink.split_once(", ").map_or((*sink, None), |(sink, bad)| (sink, Some(bad)));
            let to = |sink: &str| {
                let (format, path) = sink.split_once(':').unwrap();
                serde_json::json!({"format": format, "options": {"PATH": path}})
            };
            serde_json::json!({
                "name": format!("q{number}"), "sql": "SELECT * FROM s",
                "sources": [{"name": "s", "format": "text", "options": {"path": source}}],
                "sink": to(sink),
                "badRecords": bad_records.map(to),
                "checkpointLocation": checkpoint,
            })
        };
        let queries: Vec<_> = parts.iter().enumerate().map(query).collect();
        let spec = serde_json::json!({"trigger": {"manual": {}}, "tasks": [{"name": "t", "queries": queries}]});
        let spec: StreamingJobSpec = serde_json::from_value(spec).unwrap();
        let lookup = |_, _: &str| Ok(std::collections::BTreeMap::new());
        let available_now = AvailableNowRun::AsWritten;
        task_queries(&spec, "t", Surroundings { namespace: "n", job: "j", lookup: &lookup, temporary_root: "/tmp", available_now }).unwrap()
    }

    fn disk() -> Storage {
        Storage::new(Durability::PageCache)
    }

    fn own(source: &str, sink: &str, checkpoint: &str) -> Option<(String, String)> {
        let definition = &queries(&[(source, sink, checkpoint)])[0];
        let mut error = check_own(definition, &disk()).err()?;
        assert_eq!((error.class(), error.condition()), (weir_core::ErrorClass::Config, "OVERLAPPING_LOCATIONS"));
        Some((error.take_place().field, error.to_string()))
    }

    #[test]
    fn what_a_query_writes_is_neither_its_checkpoint_nor_what_it_reads() {
        let here = std::env::current_dir().unwrap();
        let absolute = here.join("out/ck");
        let source = "sources[s].options.path";
        for (reads, writes, checkpoint, field, words) in [
            ("in", "json:out", "out", SINK_PATH, "writes to `out`, which is its own checkpoint (checkpointLocation `out`)"),
            ("in", "delta:out/ck/data", "./out/ck/", SINK_PATH, "lies in its own checkpoint"),
            ("in", "json:out/ck/data", absolute.to_str().unwrap(), SINK_PATH, "lies in"),
            ("in", "parquet:in", "ck", SINK_PATH, "would read what it writes"),
            ("in", "delta:in/out", "ck", SINK_PATH, "the sink writes to `in/out`, which source s reads `in`"),
            ("in/*/day", "csv:in/x/day", "ck", SINK_PATH, "would read"),
            ("in/*.json", "json:in", "ck", SINK_PATH, "would read"),
            ("s3://b/in", "json:s3a://b/in/", "ck", SINK_PATH, "would read"),
            ("out/in", "json:out", "ck", source, "lies in the folder `out` that the sink writes to"),
            ("ck/in", "json:out", "ck", source, "the query's own checkpoint `ck`"),
            ("ck", "json:out", "ck", source, "the query's own checkpoint"),
            ("in", "json:out, delta:ck/bad", "ck", BAD_RECORDS_PATH, "bad records go to `ck/bad`, which lies in its own checkpoint"),
            ("in", "json:out, json:./out", "ck", BAD_RECORDS_PATH, "bad records go to `./out`, which is where the sink writes to (`out`)"),
            ("in", "delta:out, json:out/_bad", "ck", BAD_RECORDS_PATH, "around the folder"),
            ("in", "delta:bad/out, json:bad", "ck", BAD_RECORDS_PATH, "around the folder"),
            ("in", "json:out, json:in/bad", "ck", BAD_RECORDS_PATH, "bad records go to `in/bad`, which source s reads `in`"),
            ("bad/in", "noop:x, json:bad", "ck", source, "lies in the folder `bad` that bad records go to"),
        ] {
            let (found, text) = own(reads, writes, checkpoint).unwrap_or_else(|| panic!("{reads} {writes} {checkpoint} is accepted"));
            assert_eq!(found, field, "{text}");
            assert!(text.contains(words) && text.contains("folder"), "{text}");
        }
        for (reads, writes, checkpoint) in [
            ("in", "json:out", "ck"),
            ("in", "json:in-2", "in-3"),
            ("in", "json:out", "out/_checkpoint"),
            ("in", "json:in/_out", "in/_ck"),
            ("in/*.json", "json:in/out", "ck"),
            ("in/*/day", "csv:in/x/night", "ck"),
            ("s3://b/in", "json:s3://c/in", "ck"),
            ("in", "json:ckout", "ck"),
            ("in", "json:out, delta:bad", "ck"),
            ("in", "noop:x, json:in/_bad", "ck"),
        ] {
            assert_eq!(own(reads, writes, checkpoint), None, "{reads} {writes} {checkpoint}");
        }
    }

    #[test]
    fn a_link_leads_where_it_leads() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir_all(dir.path().join("real/in")).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let sink = |format: &str, name: &str| format!("{format}:{}", at(name));
        for (reads, writes, checkpoint) in [
            ("real/in", "link/in", "ck"),
            ("link/in/*/day", "real/in/x/day", "ck"),
            ("link/in", "real/in/out", "ck"),
            ("other", "link/ck/out", "real/ck"),
            ("link/ck", "out", "real/ck"),
        ] {
            for format in ["json", "delta"] {
                let found = own(&at(reads), &sink(format, writes), &at(checkpoint));
                let (_, text) = found.unwrap_or_else(|| panic!("{reads} {writes} {checkpoint} is accepted"));
                assert!(text.contains("link") && text.contains("real"), "as both are written: {text}");
            }
        }
        assert_eq!(own(&at("real/in"), &sink("json", "link/out"), &at("link/ck")), None);
        let parts = [(at("a"), sink("json", "link/o"), at("x")), (at("b"), sink("csv", "real/o"), at("y"))];
        let parts: Vec<_> = parts.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        let written = |storage: &Storage| {
            let by = |query: &QueryDefinition| Written::by(format!("query {}", query.name), query, storage);
            conflicts(&queries(&parts).iter().map(by).collect::<Vec<_>>()).len()
        };
        assert_eq!((written(&disk()), written(&Storage::sealed())), (1, 0), "a sealed world has no links");
    }

    #[test]
    fn queries_do_not_spoil_each_other() {
        let found = |parts: &[(&str, &str, &str)]| {
            let written: Vec<_> = queries(parts).iter().map(|query| Written::by(format!("query {}", query.name), query, &disk())).collect();
            conflicts(&written).into_iter().map(|(at, error)| format!("{at} {error}")).collect::<Vec<_>>()
        };
        let one = |parts: &[(&str, &str, &str)], words: &str| {
            let found = found(parts);
            assert!(found.len() == 1 && found[0].contains(words), "{found:#?}");
        };
        one(
            &[("a", "json:ck/b", "x"), ("b", "json:o", "ck")],
            "0 [OVERLAPPING_LOCATIONS] the sink writes to `ck/b`, which lies in the checkpoint of query q1",
        );
        one(&[("a", "json:o", "x"), ("b", "csv:./o/", "y")], "1 [OVERLAPPING_LOCATIONS] the sink writes to `./o/`, and so does query q0");
        one(&[("a", "json:o", "x"), ("b", "delta:o", "y")], "one writer");
        one(
            &[("a", "noop:o, json:bad", "x"), ("b", "noop:p, json:bad", "y")],
            "1 [OVERLAPPING_LOCATIONS] bad records go to `bad`, and so does",
        );
        one(
            &[("a", "json:o, delta:ck/bad", "x"), ("b", "noop:o", "ck")],
            "0 [OVERLAPPING_LOCATIONS] bad records go to `ck/bad`, which lies",
        );
        assert_eq!(found(&[("a", "noop:o, delta:bad", "x"), ("b", "noop:p, delta:bad", "y")]), [""; 0], "one table of bad records");
        assert_eq!(found(&[("a", "delta:o", "x"), ("b", "delta:o", "y")]), [""; 0], "a Delta table has many writers");
        assert_eq!(found(&[("a", "json:o", "x"), ("o", "json:p", "y")]), [""; 0], "one reads what the other writes");
        assert_eq!(found(&[("a", "json:o", "x"), ("b", "json:o/b", "y")]), [""; 0]);
    }
}
