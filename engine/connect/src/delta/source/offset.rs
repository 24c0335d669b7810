//! Delta offsets as the checkpoint holds them (`DeltaSourceOffset`).
//!
//! `{"sourceVersion":1,"reservoirId":"<table id>","reservoirVersion":3,"index":-1,"isStartingVersion":false}`:
//! what lies behind it in the log is read. An index is that of the last file
//! taken of its version, -1 is none of them. In a first snapshot
//! (`isStartingVersion`) the index counts the files of the whole version.
//! Read and written as Delta does, so that either engine goes on from the
//! other's checkpoint. Knows no table.

use serde::{Deserialize, Serialize};
use weir_core::checkpoint::entries::object;
use weir_core::checkpoint::numbered::HIGHEST;
use weir_core::{Error, Offset, Result};

/// A place in a table's history; ordered as its files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The table's version.
    pub version: u64,
    /// The last file taken of it.
    pub file: Option<u64>,
}

impl Mark {
    /// Before all files of a version.
    pub fn before(version: u64) -> Self {
        Self { version, file: None }
    }
}

/// What the files of a mark's version are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Those of the whole table, oldest first.
    FirstSnapshot,
    /// Those that the version added.
    Log,
}

/// A position of a stream in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaOffset {
    /// The table's id.
    pub table_id: String,
    /// How far it has come.
    pub mark: Mark,
    /// What it reads there.
    pub stage: Stage,
}

/// As Delta's serializer has it, with its order of fields.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    source_version: i64,
    reservoir_id: String,
    reservoir_version: u64,
    index: i64,
    is_starting_version: bool,
}

/// Index before all files, by the version of the shape.
const BASE_V1: i64 = -1;
const BASE_V3: i64 = -100;

impl DeltaOffset {
    /// The offset for the log.
    pub fn to_offset(&self) -> Offset {
        let stored = Stored {
            source_version: 1,
            reservoir_id: self.table_id.clone(),
            reservoir_version: self.mark.version,
            index: self.mark.file.map_or(BASE_V1, |file| i64::try_from(file).unwrap_or(i64::MAX)),
            is_starting_version: self.stage == Stage::FirstSnapshot,
        };
        Offset::new(serde_json::to_string(&stored).expect("numbers and text are JSON"))
    }

    /// Reads an offset of the table `table_id` at `url`.
    pub fn from_checkpoint(offset: &Offset, table_id: &str, url: &str) -> Result<Self> {
        let read = Self::read(offset)?;
        if read.table_id == table_id { Ok(read) } else { Err(other_table(url, table_id, &read.table_id)) }
    }

    /// Reads an offset of any table.
    pub fn read(offset: &Offset) -> Result<Self> {
        let stored: Stored = object(offset.json().as_bytes()).map_err(|e| unreadable(offset).with_source(e))?;
        if stored.reservoir_version > HIGHEST {
            return Err(unreadable(offset));
        }
        let file = match (stored.source_version, stored.index) {
            (1, BASE_V1) | (3, BASE_V3) => None,
            (3, -20 | -19) => {
                return Err(Error::incompatible(
                    "DELTA_INVALID_SOURCE_OFFSET_FORMAT",
                    format!(
                        "the offset {offset} stands at a change of the schema, for a stream with a schemaTrackingLocation, which Weir does not have; let Spark finish that change, or use a new checkpointLocation with a new checkpointResetNonce"
                    ),
                ));
            }
            (1 | 3, index) => Some(u64::try_from(index).map_err(|_| unreadable(offset))?),
            (version, _) => {
                return Err(Error::incompatible(
                    "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION",
                    format!(
                        "Unsupported format. Expected version should be smaller than or equal to 3 but was {version}, in the offset {offset}; use a newer version of Weir"
                    ),
                ));
            }
        };
        let stage = if stored.is_starting_version { Stage::FirstSnapshot } else { Stage::Log };
        Ok(Self { table_id: stored.reservoir_id, mark: Mark { version: stored.reservoir_version, file }, stage })
    }
}

/// The table is another one than the stream has read.
pub fn other_table(url: &str, now: &str, before: &str) -> Error {
    Error::incompatible(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        format!(
            "The streaming query was reading from an unexpected Delta table (id = '{now}') at {url}. It used to read from another Delta table (id = '{before}') according to checkpoint. This may happen when you changed the code to read from a new table or you deleted and re-created a table. Please revert your change, or start from scratch with a new checkpointLocation and a new checkpointResetNonce."
        ),
    )
}

fn unreadable(offset: &Offset) -> Error {
    Error::incompatible(
        "DELTA_INVALID_SOURCE_OFFSET_FORMAT",
        format!(
            "the checkpoint holds the offset {offset} where the Delta source keeps sourceVersion, reservoirId, reservoirVersion, index and isStartingVersion; use the checkpoint of this source, or a new checkpointLocation"
        ),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(json: &str) -> Result<DeltaOffset> {
        DeltaOffset::from_checkpoint(&Offset::new(json), "t", "file:/src")
    }

    fn json(source: i64, version: u64, index: i64, first: bool) -> String {
        format!(
            r#"{{"sourceVersion":{source},"reservoirId":"t","reservoirVersion":{version},"index":{index},"isStartingVersion":{first}}}"#
        )
    }

    #[test]
    fn an_offset_of_spark_is_written_as_it_was_read() {
        for (index, first) in [(-1, false), (-1, true), (0, false), (7, true)] {
            let text = json(1, 3, index, first);
            assert_eq!(parse(&text).unwrap().to_offset().json(), text);
        }
        assert_eq!(parse(&json(3, 3, -100, false)).unwrap().to_offset().json(), json(1, 3, -1, false));
        assert!(Mark::before(3) < Mark { version: 3, file: Some(0) } && Mark { version: 3, file: Some(9) } < Mark::before(4));
    }

    #[test]
    fn what_cannot_be_gone_on_from_is_refused() {
        for (text, condition) in [
            ("{\"logOffset\":3}".to_owned(), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
            (json(1, u64::MAX, -1, false), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
            ("[1,\"t\",3,-1,false]".to_owned(), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
            (json(1, 3, -5, false), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
            (json(3, 3, -20, false), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
            (json(4, 3, 0, false), "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION"),
            (json(1, 3, 0, false).replace("\"t\"", "\"other\""), "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"),
        ] {
            let error = parse(&text).unwrap_err();
            assert_eq!((error.class(), error.condition()), (weir_core::ErrorClass::Incompatible, condition), "{error}");
        }
    }
}
