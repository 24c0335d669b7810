//! One streaming query: definition, opening, batches, trigger loop, state.

pub mod bad_records;
pub mod batch;
pub mod definition;
pub mod driver;
pub mod open;
pub mod report;
pub mod state;

pub use definition::{InputDefinition, QueryDefinition, SinkDefinition, Watermark};
pub use state::{BatchSummary, QuerySnapshot, QueryState, QueryStatus};
