//! Whether what a stream is to read fits the table as it was opened.
//!
//! The answers of `compat` as errors: what a new attempt heals ends this one
//! (`SchemaChanged`), the rest is refused with the versions and the remedy.

use weir_core::{Error, Result};

use super::compat::{Age, Columns, Difference};
use super::entry::Commit;
use super::offset::other_table;
use super::table::SourceTable;
use crate::delta::action::{MetaData, Protocol};

impl SourceTable {
    /// Refuses a commit after which files do not fit.
    pub fn check_commit(&self, commit: &Commit) -> Result<()> {
        if let Some(metadata) = &commit.metadata {
            self.check_metadata(metadata, commit.version)?;
        }
        match &commit.protocol {
            Some(protocol) if commit.version > self.version() => self.check_protocol(protocol, commit.version),
            _ => Ok(()),
        }
    }

    /// Refuses an older version whose files do not fit the columns that are read now.
    pub async fn check_columns_at(&self, version: u64) -> Result<()> {
        if version >= self.version() {
            return Ok(());
        }
        match self.columns_at(version).await {
            Ok(columns) => self.check_columns(&columns, version),
            Err(error) if self.columns.is_mapped() => Err(error.context(format!(
                "the columns of version {version} of the Delta table {}, from which the stream goes on, cannot be compared with those of now",
                self.location.url()
            ))),
            // Its log was cleaned; the commits that are left are checked one by one.
            Err(error) => {
                tracing::debug!(version, %error, "the columns of an old version cannot be told");
                Ok(())
            }
        }
    }

    fn check_columns(&self, columns: &Columns, version: u64) -> Result<()> {
        let now = self.version();
        let age = if version < now { Age::Older } else { Age::Newer };
        let url = self.location.url();
        let remedy =
            "use a new checkpointLocation with a new checkpointResetNonce, and where old versions do not fit the option startingVersion";
        match self.columns.difference(columns, age) {
            Difference::None => Ok(()),
            Difference::Additive => Err(Error::schema_changed(
                format!("{}@{version}", self.id),
                format!(
                    "version {version} of the Delta table {url} has columns that version {now} had not; the query starts again and reads them"
                ),
            )),
            Difference::Mapping(why) => Err(Error::incompatible(
                "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
                format!(
                    "Streaming read is not supported on tables with read-incompatible schema changes (e.g. rename or drop or datatype changes): in the Delta table {url}, between version {version} and version {now}, {why}; {remedy}"
                ),
            )),
            Difference::Incompatible(why) => Err(Error::incompatible(
                "DELTA_SCHEMA_CHANGED_WITH_VERSION",
                format!(
                    "Detected schema change in version {version} of the Delta table {url}, read with the columns of version {now}: {why}; you have made an incompatible schema change: {remedy}"
                ),
            )),
        }
    }

    fn check_metadata(&self, metadata: &MetaData, version: u64) -> Result<()> {
        if metadata.id != self.id {
            return Err(other_table(self.location.url().as_str(), &metadata.id, &self.id));
        }
        self.check_columns(&Columns::of(metadata)?, version)
    }

    /// Files of a later version may need features that the table had not when it was opened; opening it anew tells.
    fn check_protocol(&self, protocol: &Protocol, version: u64) -> Result<()> {
        let known = &self.protocol;
        let mut features = protocol.reader_features.iter().flatten();
        let is_known = |feature: &String| known.reader_features.iter().flatten().any(|other| other == feature);
        if protocol.min_reader_version <= known.min_reader_version && features.all(is_known) {
            return Ok(());
        }
        let text = format!(
            "version {version} of the Delta table {} has another protocol than version {}; the query starts again with it",
            self.location.url(),
            self.version()
        );
        Err(Error::schema_changed(format!("{}@{version}", self.id), text))
    }
}
