//! Spark SQL on DataFusion: text in, streaming plan out.
//!
//! Parsing uses sqlparser, analysis is Weir's own (names, Spark's typing and
//! coercion are decided in `analyzer`, once), execution is DataFusion's. Every
//! function whose result, overflow or null rule differs from DataFusion's is a
//! UDF of this crate. The crate knows no connectors and no checkpoint paths.

pub mod ddl;
pub mod error;
pub mod types;

pub use ddl::{parse_ddl_schema, parse_ddl_type, parse_type_name};
pub use types::spark_type_name;
