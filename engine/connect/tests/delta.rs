//! Delta tables written by Weir, judged by Spark: the golden sink cases, and
//! tables that both engines write to and read. Delta tables read as streams.
#![allow(clippy::unwrap_used)]

#[path = "delta/features.rs"]
mod features;
#[path = "delta/feed.rs"]
mod feed;
#[path = "delta/golden.rs"]
mod golden;
#[path = "delta/judged.rs"]
mod judged;
#[path = "delta/query.rs"]
mod query;
#[path = "delta/rules.rs"]
mod rules;
#[path = "delta/source.rs"]
mod source;
#[path = "delta/source_golden.rs"]
mod source_golden;
#[path = "delta/stream.rs"]
mod stream;
#[path = "delta/upsert.rs"]
mod upsert;
