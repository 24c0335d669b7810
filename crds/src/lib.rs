//! The language of jobs: the `StreamingJob` resource, option tables and validation.
//!
//! | to | use |
//! |---|---|
//! | read manifests, with every problem located | [`manifest::load`] → [`manifest::Loaded`] of [`manifest::LoadedJob`], [`manifest::Problem`] |
//! | place an error of SQL | [`manifest::Locator::inside`] |
//! | replace `${name}` | [`manifest::substituted`], [`manifest::substitute`] |
//! | add options from Secrets and ConfigMaps | [`manifest::merged_options`] |
//! | read options of a source, static table or sink | [`options::parse_source`], [`options::parse_table`], [`options::parse_sink`] → [`options::ParsedOptions`] |
//! | read `spec.conf` | [`conf::SessionConf::parse`] |
//! | know the rules of a job's life | [`StreamingJobSpec::policy`](resource::StreamingJobSpec::policy) → [`policy::JobPolicy`] |
//! | know what an edit disrupts, and what it may not change | [`resource::disruption`], [`resource::edit_problems`] |
//! | find a query's checkpoint, and compare spellings | [`checkpoint::checkpoint_location`], [`checkpoint::normalized_location`] |
//! | find what a table name or a `/Volumes` path stands for | [`catalog::table_location`], [`catalog::location`] |
//! | know which names in a pod are Weir's | [`reserved`] |
//! | print a result for a reader that may go | [`departing::print`] |
//! | write the CRD and the reference pages | [`resource::crd_yaml`], [`resource::manifest_markdown`], [`options::reference_markdown`] |
//!
//! Everything but `departing` is pure: texts in, values and findings out. No client, no clock, no file is touched.
//! Facts about a field stand on its Rust type, facts about an option or setting on its row; parser, errors,
//! CRD and reference pages are derived from there.

// A finding is large and made only where something is wrong.
#![allow(clippy::result_large_err)]

pub mod annotations;
pub mod catalog;
pub mod checkpoint;
pub mod conf;
pub mod departing;
pub mod duration;
pub mod exit;
pub mod finding;
pub mod image;
pub mod manifest;
pub mod options;
pub mod policy;
pub mod reserved;
pub mod resource;

pub use resource::{OutputMode, QuerySpec, SinkSpec, SourceSpec, StreamingJob, StreamingJobSpec, TaskSpec, TriggerSpec};
