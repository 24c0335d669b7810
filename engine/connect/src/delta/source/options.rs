//! The options of the Delta source (`DeltaOptions`).
//!
//! Names, types and bounds are the option table's; this turns them into what
//! the source decides by. Opens nothing.

use std::collections::BTreeMap;

use regex::Regex;
use weir_core::{Error, Result};
use weir_crds::options::ParsedOptions;

use super::plan::Limits;
use crate::delta::options::instant;
use crate::files::read::options::session_zone;

/// What the source does with a commit that took data away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The stream fails.
    Refuse,
    /// `ignoreDeletes`: commits that only delete are passed by, others refused.
    IgnoreDeletes,
    /// `ignoreChanges`, `ignoreFileDeletion`: files that an update wrote are read, with rows that were read before.
    ReadAgain,
    /// `skipChangeCommits`: such commits are passed by whole.
    SkipCommits,
}

/// Where a new query starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starting {
    /// With all that the table holds, then its log.
    Snapshot,
    /// With what this version brought.
    Version(u64),
    /// Behind the newest version.
    Latest,
    /// With what the first version at or after a time brought, in milliseconds since the epoch.
    Timestamp(i64),
}

/// What happens when versions that are due are not in the log any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The query fails.
    Fail,
    /// It warns and goes on with what is there.
    Warn,
}

/// A Delta source's options.
#[derive(Clone, Debug)]
pub struct DeltaSourceOptions {
    /// The table's folder, as it was written.
    pub path: String,
    /// `readChangeFeed`: what each version did to rows, instead of what it added.
    pub change_feed: bool,
    /// Where a new query starts.
    pub starting: Starting,
    /// Limits of a batch.
    pub limits: Limits,
    /// Treatment of deletes and updates.
    pub changes: Changes,
    /// `excludeRegex`: files whose path it finds are not read.
    pub exclude: Option<Regex>,
    /// `failOnDataLoss`.
    pub loss: Loss,
}

impl DeltaSourceOptions {
    /// Takes over parsed options; `conf` holds the session's settings.
    pub fn from_parsed(parsed: &ParsedOptions, conf: &BTreeMap<String, String>) -> Result<Self> {
        let changes = if parsed.bool("skipChangeCommits") {
            Changes::SkipCommits
        } else if parsed.bool("ignoreChanges") || parsed.bool("ignoreFileDeletion") {
            Changes::ReadAgain
        } else if parsed.bool("ignoreDeletes") {
            Changes::IgnoreDeletes
        } else {
            Changes::Refuse
        };
        let exclude = parsed.opt_str("excludeRegex").map(|pattern| {
            Regex::new(&pattern)
                .map_err(|e| Error::config("DELTA_REGEX_OPT_SYNTAX_ERROR", "Please recheck your syntax for 'excludeRegex'").with_source(e))
        });
        if parsed.bool("readChangeFeed") && exclude.is_some() {
            return Err(Error::config(
                "DELTA_ILLEGAL_OPTION",
                "excludeRegex cannot be used with readChangeFeed, since a version's changes are read whole; remove one of them, and filter in the SQL",
            ));
        }
        Ok(Self {
            path: parsed.str("path"),
            change_feed: parsed.bool("readChangeFeed"),
            starting: starting(parsed, conf)?,
            limits: limits(parsed),
            changes,
            exclude: exclude.transpose()?,
            loss: if parsed.bool("failOnDataLoss") { Loss::Fail } else { Loss::Warn },
        })
    }

    /// Whether a file is to be read.
    pub fn wants(&self, path: &str) -> bool {
        self.exclude.as_ref().is_none_or(|pattern| !pattern.is_match(path))
    }
}

/// A limit of bytes alone lifts the default limit of files.
fn limits(parsed: &ParsedOptions) -> Limits {
    let given = |name: &str| parsed.opt_i64(name).and_then(|number| u64::try_from(number).ok()).unwrap_or(u64::MAX);
    let bytes = given("maxBytesPerTrigger");
    let only_bytes = parsed.is_given("maxBytesPerTrigger") && !parsed.is_given("maxFilesPerTrigger");
    Limits { files: if only_bytes { u64::MAX } else { given("maxFilesPerTrigger") }, bytes }
}

/// The time that an option names, in milliseconds since the epoch.
pub fn time_of(name: &str, text: &str, conf: &BTreeMap<String, String>) -> Result<i64> {
    let zone = session_zone(conf)?;
    instant(text, |local| zone.to_instant(local)).ok_or_else(|| {
        Error::config(
            "DELTA_TIMESTAMP_INVALID",
            format!("The provided timestamp ('{text}') cannot be converted to a valid timestamp. Write {name} as for example 2024-06-01 or 2024-06-01T10:00:00Z"),
        )
    })
}

/// Where the options say that reading begins.
pub fn starting(parsed: &ParsedOptions, conf: &BTreeMap<String, String>) -> Result<Starting> {
    if let Some(text) = parsed.opt_str("startingTimestamp") {
        return Ok(Starting::Timestamp(time_of("startingTimestamp", &text, conf)?));
    }
    Ok(match (parsed.opt_str("startingVersion"), parsed.opt_i64("startingVersion")) {
        (_, Some(version)) => Starting::Version(u64::try_from(version).unwrap_or_default()),
        (Some(_), None) => Starting::Latest,
        (None, None) => Starting::Snapshot,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use weir_crds::options::{Completeness, Format, parse_source};

    fn parse(given: &[(&str, &str)]) -> Result<DeltaSourceOptions, String> {
        let options = std::iter::once(&("path", "/t")).chain(given).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let parsed = parse_source(Format::Delta, &options.collect(), Completeness::Complete).into_result();
        let parsed = parsed.map_err(|findings| findings.iter().map(|finding| finding.sentence()).collect::<Vec<_>>().join("; "))?;
        let conf = BTreeMap::from([("spark.sql.session.timeZone".to_owned(), "Europe/Berlin".to_owned())]);
        DeltaSourceOptions::from_parsed(&parsed, &conf).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_and_limits_are_those_of_delta() {
        let options = parse(&[]).unwrap();
        assert_eq!((options.starting, options.changes, options.loss), (Starting::Snapshot, Changes::Refuse, Loss::Fail));
        let limits = |given: &[(&str, &str)]| parse(given).unwrap().limits;
        assert_eq!(options.limits, Limits { files: 1000, bytes: u64::MAX });
        assert_eq!(limits(&[("maxBytesPerTrigger", "10g")]), Limits { files: u64::MAX, bytes: 10 << 30 });
        assert_eq!(limits(&[("maxBytesPerTrigger", "5"), ("MAXFILESPERTRIGGER", "2")]), Limits { files: 2, bytes: 5 });
    }

    #[test]
    fn starts_and_changes() {
        let starting = |name, value| parse(&[(name, value)]).unwrap().starting;
        assert_eq!(starting("startingVersion", "7"), Starting::Version(7));
        assert_eq!(starting("startingVersion", "latest"), Starting::Latest);
        assert_eq!(starting("startingTimestamp", "1970-01-01T00:00:01Z"), Starting::Timestamp(1000));
        assert_eq!(starting("startingTimestamp", "1970-01-02"), Starting::Timestamp(23 * 3_600_000), "in the session's zone");
        let changes = |names: &[&str]| parse(&names.iter().map(|name| (*name, "true")).collect::<Vec<_>>()).unwrap().changes;
        assert_eq!(changes(&["ignoreDeletes"]), Changes::IgnoreDeletes);
        assert_eq!(changes(&["ignoreDeletes", "ignoreChanges"]), Changes::ReadAgain);
        assert_eq!(changes(&["ignoreFileDeletion"]), Changes::ReadAgain);
        assert_eq!(changes(&["ignoreChanges", "skipChangeCommits"]), Changes::SkipCommits);
        let options = parse(&[("excludeRegex", r"k=1/.*\.parquet$")]).unwrap();
        assert!(options.wants("k=2/a.parquet") && !options.wants("k=1/a.parquet"));
        assert!(!options.change_feed && parse(&[("readChangeData", "true")]).unwrap().change_feed);
        assert!(parse(&[("readChangeFeed", "true"), ("excludeRegex", "x")]).unwrap_err().contains("readChangeFeed"));
    }

    #[test]
    fn bad_values_have_deltas_sentences() {
        for (name, value, sentence) in [
            ("maxFilesPerTrigger", "0", "Invalid value '0' for option 'maxFilesPerTrigger', must be a positive integer"),
            ("maxFilesPerTrigger", "x", "Invalid value 'x' for option 'maxFilesPerTrigger', must be a positive integer"),
            ("maxBytesPerTrigger", "x", "Invalid value 'x' for option 'maxBytesPerTrigger', must be a size configuration such as '10g'"),
            ("maxBytesPerTrigger", "0", "Invalid value '0' for option 'maxBytesPerTrigger', must be a size configuration such as '10g'"),
            ("ignoreDeletes", "maybe", "Invalid value 'maybe' for option 'ignoreDeletes', must be 'true' or 'false'"),
            ("startingVersion", "x", "Invalid value 'x' for option 'startingVersion', must be greater than or equal to zero"),
            ("startingVersion", "-1", "Invalid value '-1' for option 'startingVersion', must be greater than or equal to zero"),
            ("startingTimestamp", "x", "The provided timestamp ('x') cannot be converted to a valid timestamp."),
            ("excludeRegex", "[", "Please recheck your syntax for 'excludeRegex'"),
            ("versionAsOf", "0", "is an option of a delta static table, not of a source"),
            ("noSuchOption", "1", "is not an option of the delta source"),
        ] {
            let error = parse(&[(name, value)]).unwrap_err();
            assert!(error.contains(sentence), "{error}");
        }
        let both = parse(&[("startingVersion", "1"), ("startingTimestamp", "2000-01-01")]).unwrap_err();
        assert!(both.contains("Please either provide 'startingVersion' or 'startingTimestamp'"), "{both}");
    }
}
