//! Spark SQL on DataFusion: text in, streaming plan out.
//!
//! Parsing uses sqlparser, analysis is Weir's own (names, Spark's typing and
//! coercion are decided in `analyzer`, once), execution is DataFusion's. Every
//! function whose result, overflow or null rule differs from DataFusion's is a
//! UDF of this crate. The crate knows no connectors and no checkpoint paths.
//!
//! Errors of text and plan are class Config. Errors of data at run time (ANSI
//! overflow, a malformed cast, a failed assertion) are class Retryable, as Spark
//! fails the query and a restart may be tried.

mod analyzer;
mod batch;
pub mod cast;
mod compile;
mod conf;
pub mod datetime;
pub mod ddl;
pub mod error;
mod exec;
mod expressions;
mod functions;
pub mod json;
mod json_row;
mod parser;
pub mod planned;
pub mod types;
pub mod udf;

pub use analyzer::OutputMode;
pub use batch::{Statement, run_batch_sql, run_batch_sql_at, run_statement, tables_by_name, tables_by_path};
pub use compile::{CompiledQuery, Observation, QueryText, StaticInput, StreamInput, Undecodable, compile};
pub use conf::SqlConf;
pub use ddl::{parse_ddl_schema, parse_ddl_type, parse_type_name};
pub use exec::{LANE_POOL_BYTES, Lane, ObservedPartial, merge_observed};
pub use expressions::compile_expressions;
pub use json_row::rows_to_json;
pub use types::spark_type_name;

/// The names of all SQL functions, sorted.
pub fn function_names() -> Vec<String> {
    functions::names()
}
