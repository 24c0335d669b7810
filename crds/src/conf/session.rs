//! The settings of a job, typed, with defaults.
//!
//! Built once at the door from `spec.conf`; a bad value is refused, never replaced by the default.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rows::{find, rows};
use crate::finding::{Finding, Severity};
use crate::options::{Effect, Value};

/// Which watermark counts where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipleWatermarkPolicy {
    /// The smallest: no row of the slowest stream is lost.
    Min,
    /// The greatest.
    Max,
}

/// The settings of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConf {
    texts: BTreeMap<String, String>,
    /// `spark.sql.ansi.enabled`
    pub ansi_enabled: bool,
    /// `spark.sql.session.timeZone`
    pub session_time_zone: String,
    /// `spark.sql.caseSensitive`
    pub case_sensitive: bool,
    /// `spark.sql.shuffle.partitions`
    pub shuffle_partitions: u32,
    /// `spark.sql.columnNameOfCorruptRecord`
    pub column_name_of_corrupt_record: String,
    /// `spark.sql.jsonGenerator.ignoreNullFields`
    pub json_ignore_null_fields: bool,
    /// `spark.sql.sources.partitionColumnTypeInference.enabled`
    pub partition_column_type_inference: bool,
    /// `spark.sql.files.ignoreMissingFiles`
    pub ignore_missing_files: bool,
    /// `spark.sql.files.ignoreCorruptFiles`
    pub ignore_corrupt_files: bool,
    /// `spark.sql.streaming.minBatchesToRetain`
    pub min_batches_to_retain: u32,
    /// `spark.sql.streaming.pollingDelay`
    pub polling_delay: Duration,
    /// `spark.sql.streaming.noDataProgressEventInterval`
    pub no_data_progress_event_interval: Duration,
    /// `spark.sql.streaming.noDataMicroBatches.enabled`
    pub no_data_micro_batches: bool,
    /// `spark.sql.streaming.numRecentProgressUpdates`
    pub num_recent_progress_updates: u32,
    /// `spark.sql.streaming.schemaInference`
    pub schema_inference: bool,
    /// `spark.sql.streaming.multipleWatermarkPolicy`
    pub multiple_watermark_policy: MultipleWatermarkPolicy,
    /// `spark.sql.streaming.fileSource.log.*`
    pub file_source_log: LogConf,
    /// `spark.sql.streaming.fileSink.log.*`
    pub file_sink_log: LogConf,
    /// `weir.checkpoint.fsync`
    pub checkpoint_fsync: bool,
    /// `weir.batch.maxRows`
    pub batch_max_rows: usize,
    /// `weir.memory.limit`, in bytes
    pub memory_limit: Option<u64>,
    /// `weir.lanes`
    pub lanes: Option<usize>,
}

/// Settings of a log that is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConf {
    /// Entries between compactions.
    pub compact_interval: u32,
    /// How long compacted entries are kept.
    pub cleanup_delay: Duration,
    /// Whether compacted entries are deleted.
    pub deletion: bool,
}

impl Default for SessionConf {
    fn default() -> Self {
        Self::build(BTreeMap::new())
    }
}

impl SessionConf {
    /// Reads `spec.conf`; all errors, or the settings. Warnings are given by [`super::check`].
    pub fn parse(conf: &BTreeMap<String, String>) -> Result<Self, Vec<Finding>> {
        let errors: Vec<Finding> = super::check(conf).into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        if errors.is_empty() { Ok(Self::build(conf.clone())) } else { Err(errors) }
    }

    /// The text in force of any known setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        let default = find(name).map(|row| row.default).filter(|default| !default.is_empty());
        self.texts.get(name).map(String::as_str).or(default)
    }

    /// What a new checkpoint pins into its offset log: key and value.
    pub fn pinned(&self) -> BTreeMap<String, String> {
        rows().filter(|row| row.pinned).filter_map(|row| self.get(row.name).map(|value| (row.name.to_owned(), value.to_owned()))).collect()
    }

    /// The same settings with those of an existing checkpoint, which win, and the keys whose values changed by it.
    /// Keys and values that are not known or not valid here are left to the checkpoint alone.
    pub fn with_pinned(&self, pinned: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut texts = self.texts.clone();
        let mut changed = Vec::new();
        for (key, value) in pinned {
            let Some(row) = find(key).filter(|row| row.pinned) else { continue };
            if self.get(key) != Some(value.as_str()) && row.kind.parse(value).is_ok() {
                texts.insert(key.clone(), value.clone());
                changed.push(key.clone());
            }
        }
        (Self::build(texts), changed)
    }

    /// Total for maps without errors; what cannot be read counts as left out.
    fn build(texts: BTreeMap<String, String>) -> Self {
        let read = Reader { texts: &texts };
        let log = |prefix: &str| LogConf {
            compact_interval: read.u32(&format!("{prefix}.compactInterval")),
            cleanup_delay: read.time(&format!("{prefix}.cleanupDelay")),
            deletion: read.bool(&format!("{prefix}.deletion")),
        };
        Self {
            ansi_enabled: read.bool("spark.sql.ansi.enabled"),
            session_time_zone: read.text("spark.sql.session.timeZone"),
            case_sensitive: read.bool("spark.sql.caseSensitive"),
            shuffle_partitions: read.u32("spark.sql.shuffle.partitions"),
            column_name_of_corrupt_record: read.text("spark.sql.columnNameOfCorruptRecord"),
            json_ignore_null_fields: read.bool("spark.sql.jsonGenerator.ignoreNullFields"),
            partition_column_type_inference: read.bool("spark.sql.sources.partitionColumnTypeInference.enabled"),
            ignore_missing_files: read.bool("spark.sql.files.ignoreMissingFiles"),
            ignore_corrupt_files: read.bool("spark.sql.files.ignoreCorruptFiles"),
            min_batches_to_retain: read.u32("spark.sql.streaming.minBatchesToRetain"),
            polling_delay: read.time("spark.sql.streaming.pollingDelay"),
            no_data_progress_event_interval: read.time("spark.sql.streaming.noDataProgressEventInterval"),
            no_data_micro_batches: read.bool("spark.sql.streaming.noDataMicroBatches.enabled"),
            num_recent_progress_updates: read.u32("spark.sql.streaming.numRecentProgressUpdates"),
            schema_inference: read.bool("spark.sql.streaming.schemaInference"),
            multiple_watermark_policy: match read.text("spark.sql.streaming.multipleWatermarkPolicy").as_str() {
                "max" => MultipleWatermarkPolicy::Max,
                _ => MultipleWatermarkPolicy::Min,
            },
            file_source_log: log("spark.sql.streaming.fileSource.log"),
            file_sink_log: log("spark.sql.streaming.fileSink.log"),
            checkpoint_fsync: read.bool("weir.checkpoint.fsync"),
            batch_max_rows: usize::try_from(read.int("weir.batch.maxRows").unwrap_or(1)).unwrap_or(1),
            memory_limit: read.int("weir.memory.limit").and_then(|bytes| u64::try_from(bytes).ok()),
            lanes: read.int("weir.lanes").and_then(|lanes| usize::try_from(lanes).ok()),
            texts,
        }
    }
}

struct Reader<'a> {
    texts: &'a BTreeMap<String, String>,
}

impl Reader<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        let row = find(name)?;
        debug_assert!(!matches!(row.effect, Effect::Refused(_)), "{name} is refused");
        let given = self.texts.get(name).and_then(|text| row.kind.parse(text).ok());
        given.or_else(|| row.kind.parse(row.default).ok())
    }

    fn bool(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Bool(true)))
    }

    fn int(&self, name: &str) -> Option<i64> {
        match self.value(name) {
            Some(Value::Int(value)) => Some(value),
            _ => None,
        }
    }

    fn u32(&self, name: &str) -> u32 {
        self.int(name).and_then(|value| u32::try_from(value).ok()).unwrap_or(1)
    }

    fn time(&self, name: &str) -> Duration {
        match self.value(name) {
            Some(Value::Time(value)) => value,
            _ => Duration::ZERO,
        }
    }

    fn text(&self, name: &str) -> String {
        match self.value(name) {
            Some(Value::Text(value)) => value,
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn defaults_are_sparks() {
        let conf = SessionConf::default();
        assert!(conf.ansi_enabled && !conf.case_sensitive && conf.checkpoint_fsync);
        assert_eq!(conf.polling_delay, Duration::from_millis(10));
        assert_eq!(conf.file_source_log.cleanup_delay, Duration::from_secs(600));
        assert_eq!(conf.pinned().len(), 17);
        assert_eq!(conf.memory_limit, None);
        for row in rows() {
            assert!(row.default.is_empty() || row.kind.parse(row.default).is_ok(), "{}", row.name);
        }
    }

    #[test]
    fn unknown_and_bad_settings_are_refused() {
        let errors = SessionConf::parse(&map(&[
            ("spark.sql.ansi.enabeld", "true"),
            ("spark.sql.caseSensitive", "maybe"),
            ("spark.sql.streaming.checkpointLocation", "/c"),
        ]))
        .unwrap_err();
        let rules: Vec<&str> = errors.iter().map(|error| error.rule).collect();
        assert_eq!(rules, ["unknown-conf", "conf-value", "refused-conf"]);
        assert_eq!(errors[0].nearest.as_deref(), Some("spark.sql.ansi.enabled"));
    }

    #[test]
    fn what_the_checkpoint_pins_wins() {
        let conf = SessionConf::parse(&map(&[("spark.sql.shuffle.partitions", "4")])).unwrap();
        let (merged, changed) = conf.with_pinned(&map(&[
            ("spark.sql.shuffle.partitions", "2"),
            ("spark.sql.ansi.enabled", "false"),
            ("spark.sql.unknown", "x"),
        ]));
        assert_eq!((merged.shuffle_partitions, merged.ansi_enabled), (2, true));
        assert_eq!(changed, ["spark.sql.shuffle.partitions"]);
    }
}
