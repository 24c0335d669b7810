//! `weir checkpoint`: what a checkpoint holds and whether it is whole.
//!
//! `copy` writes to its target alone. `show` prints everything as YAML, and of a checkpointRoot the
//! queries below it; `verify` prints the damage and exits with 21 when there is some.

use serde::Serialize;
use weir_connect::source_logs;
use weir_core::Error;
use weir_core::checkpoint::copy::{CopyAs, copy};
use weir_core::checkpoint::inspect::{Inspection, below, inspect};
use weir_core::storage::{Durability, Storage};

use crate::arguments::{CheckpointAction, CheckpointArguments};
use crate::commands::task::runtime;
use crate::outcome::{Code, Ended};
use crate::output;

/// Runs the command.
pub fn run(arguments: &CheckpointArguments) -> Ended {
    match &arguments.action {
        CheckpointAction::Show { location } => {
            let text = match read(location)? {
                Found::Checkpoint(found) => serde_yaml_ng::to_string(&found),
                Found::Root(found) => serde_yaml_ng::to_string(&found),
            };
            let text = text.map_err(|e| Error::retryable("NOT_PRINTED", "could not print the checkpoint").with_source(e))?;
            output::print(&text)?;
            Ok(Code::DONE)
        }
        CheckpointAction::Copy { from, to, new_query_id } => {
            let kind = if *new_query_id { CopyAs::Fork(uuid::Uuid::new_v4()) } else { CopyAs::SameQuery };
            let storage = Storage::new(Durability::Fsync);
            let (from, to) = (storage.open(from)?, storage.open(to)?);
            let copied = runtime()?.block_on(copy(&from, &to, kind))?;
            output::print(&format!("copied {} objects, up to batch {}, to {}\n", copied.objects, copied.batch, to.url()))?;
            Ok(Code::DONE)
        }
        CheckpointAction::Verify { location } => {
            let found = match read(location)? {
                Found::Checkpoint(found) => found,
                Found::Root(root) => return Err(root.is_no_checkpoint()),
            };
            if found.damage.is_empty() {
                output::print(&format!(
                    "{} is whole: query {}, {} planned and {} committed batches kept\n",
                    found.location,
                    found.query_id.map(|id| id.to_string()).unwrap_or_default(),
                    found.planned.len(),
                    found.committed.len()
                ))?;
                return Ok(Code::DONE);
            }
            for damage in &found.damage {
                output::say(&format!("damaged: {damage}"));
            }
            Ok(Code(weir_core::ErrorClass::Incompatible.exit_code()))
        }
    }
}

/// What a location is.
enum Found {
    Checkpoint(Box<Inspection>),
    Root(Root),
}

/// A folder with checkpoints below it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Root {
    location: String,
    /// Where the checkpoints are from there: namespace, job, task and query, as `checkpointRoot` lays them out.
    queries: Vec<String>,
}

impl Root {
    fn is_no_checkpoint(&self) -> Error {
        let (location, queries) = (&self.location, self.queries.join(", "));
        Error::config(
            "CHECKPOINT_NOT_FOUND",
            format!("there is no checkpoint at {location}, but there are some below it: {queries}; add one of these to the location"),
        )
    }
}

fn read(location: &str) -> Result<Found, Error> {
    runtime()?.block_on(async {
        let root = Storage::new(Durability::PageCache).open(location)?;
        let mut found = inspect(&root).await?;
        if found.query_id.is_none() && found.planned.is_empty() && found.epoch.is_none() && found.damage.len() == 1 {
            let queries = below(&root).await?;
            if !queries.is_empty() {
                return Ok(Found::Root(Root { location: root.url().to_string(), queries }));
            }
            return Err(Error::config("CHECKPOINT_NOT_FOUND", format!("there is no checkpoint at {}; give the checkpointLocation of one query that has run, as the manifest has it and from the same folder", root.url())));
        }
        let of_sources = source_logs::damage(&root, &found).await?;
        found.damage.extend(of_sources);
        Ok(Found::Checkpoint(Box::new(found)))
    })
}
