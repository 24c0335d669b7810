//! The house rules and the generated files.
//!
//! Checks are pure functions from text to findings, so that small bad inputs can show that they bite; `tidy::check_repository` feeds them the
//! tracked files, `cargo metadata` and `cargo tree`. Nothing here knows Weir beyond the names of its crates and what `weir-crds` generates.

pub mod generated;
pub mod suite;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The checkout that this program was compiled in.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's root").to_owned()
}
