//! The `StreamingJob` resource, `weir.dev/v1alpha1`.
//!
//! The Rust types are the one source of truth about fields: the CRD ([`crd`], [`crd_yaml`]),
//! the located check (`manifest`), the field table ([`field_table`]) and the answer to what an
//! edit disrupts ([`disruption`]) are derived from their schema.
//! Later versions of the resource only add. Nothing here talks to an API server.

mod defaults;
mod disruption;
mod edit;
mod fields;
mod input;
mod job;
mod pod;
mod reference;
mod schema;
mod status;
mod task;
mod to_policy;

pub use disruption::{Disruption, disruption};
pub use edit::edit_problems;
pub use fields::{Disrupts, FieldRow, field_table};
pub use input::{BadRecordsSpec, ObjectRefSpec, OnChangeSpec, OptionsFromSpec, SinkSpec, SourceSpec, WatermarkSpec};
pub use job::*;
pub use pod::PodTemplateSpec;
pub use reference::manifest_markdown;
pub use schema::{crd, crd_yaml, resource_schema};
pub use status::*;
pub use task::*;
pub use to_policy::PolicyError;

use schemars::{Schema, SchemaGenerator, json_schema};

/// Longest value of an option.
pub const MAX_OPTION_LENGTH: usize = 16_384;

fn option_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 128,
        "additionalProperties": {"type": "string", "maxLength": MAX_OPTION_LENGTH},
    })
}

fn text_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 128,
        "additionalProperties": {"type": "string", "maxLength": 4096},
    })
}

fn free_form_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
