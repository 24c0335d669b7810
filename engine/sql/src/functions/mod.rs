//! The scalar functions, by Spark's names.
//!
//! Each topic has a `build` that takes analysed arguments and returns the call
//! with its type, or `None` for a name it does not have. The analyzer asks them
//! in turn; names are looked up in lower case.

pub mod args;
pub mod arithmetic;
pub mod bounds;
mod charset;
pub mod collection;
mod format;
mod hash;
pub mod higher_order;
pub mod map;
pub mod math;
mod misc;
pub mod nested;
pub mod percentile;
pub mod regexp;
mod round;
mod sequence;
mod sets;
mod strict;
mod string;
mod structs;
pub mod sums;
pub mod temporal;
mod text;

use crate::analyzer::{Analyzer, Typed, check_arguments};

type Built = Option<Result<Typed, weir_core::Error>>;

/// Builds the call of a function; `None` if there is no such function.
pub fn build(analyzer: &Analyzer, name: &str, args: Vec<Typed>) -> Built {
    for topic in TOPICS {
        if topic.names.contains(&name) {
            if let Err(error) = check_arguments(name, &args) {
                return Some(Err(error));
            }
            return Some((topic.build)(analyzer, name, args));
        }
    }
    None
}

/// One file of functions.
struct Topic {
    names: &'static [&'static str],
    build: fn(&Analyzer, &str, Vec<Typed>) -> Result<Typed, weir_core::Error>,
}

const TOPICS: &[Topic] = &[
    Topic { names: arithmetic::NAMES, build: arithmetic::build },
    Topic { names: misc::NAMES, build: misc::build },
    Topic { names: string::NAMES, build: string::build },
    Topic { names: regexp::NAMES, build: regexp::build },
    Topic { names: math::NAMES, build: math::build },
    Topic { names: collection::NAMES, build: collection::build },
    Topic { names: map::NAMES, build: map::build },
    Topic { names: hash::NAMES, build: hash::build },
    Topic { names: &crate::json::NAMES, build: crate::json::build },
    Topic { names: &crate::datetime::NAMES, build: crate::datetime::build },
];

/// Whether a function's printed name is not simply `name(args)`.
pub fn keeps_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_alphabetic()) || matches!(name, "div" | "concat" | "named_struct")
}

/// All function names, operators left out.
pub fn names() -> Vec<String> {
    let mut all: Vec<String> = TOPICS
        .iter()
        .flat_map(|t| t.names)
        .copied()
        .chain(higher_order::NAMES.iter().copied())
        .chain(crate::analyzer::aggregate_names().iter().copied())
        .chain(crate::analyzer::generator_names().iter().copied())
        .chain(crate::analyzer::window_names().iter().copied())
        .filter(|n| n.starts_with(|c: char| c.is_alphabetic()) && !n.ends_with("_chars"))
        .map(str::to_owned)
        .collect();
    all.sort();
    all.dedup();
    all
}
