//! Manifests: YAML texts to jobs, with every problem located.
//!
//! [`load`] reads the texts of files, walks each document along the schema of the resource,
//! runs the rules and the option tables, and gives jobs and problems. It never panics and
//! never stops at the first problem. Errors of SQL are found elsewhere and located by
//! [`Locator::inside`].

mod cron;
mod document;
mod load;
pub(crate) mod locate;
mod objects;
mod problem;
mod rules;
mod scalar;
mod substitute;
mod tree;
mod walk;
mod words;

pub(crate) use cron::five_fields;
pub use load::{Loaded, LoadedJob, MAX_FILE_BYTES, MAX_MANIFEST_BYTES, ManifestFile, Triggers, load, load_with};
pub use locate::{End, Locator};
pub use objects::{ObjectData, Objects, merged_options};
pub use problem::Problem;
pub use substitute::{UndefinedParameter, substitute, substituted};
pub use tree::{Position, Style};
