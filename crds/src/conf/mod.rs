//! `spec.conf`: the Spark settings that Weir knows, and Weir's own.
//!
//! A setting exists exactly when it has a row; any other key is refused with the nearest
//! name. [`SessionConf`] is what the engine reads: every value typed, defaults filled in.
//! Settings that Spark pins into the offset log are rows too, see [`SessionConf::pinned`].

mod rows;
mod session;

pub use rows::{ConfRow, rows};
pub use session::{LogConf, MultipleWatermarkPolicy, SessionConf};

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::options::Effect;

/// Everything that is wrong with a map of settings. Paths are the keys.
pub fn check(conf: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, text) in conf {
        let Some(row) = rows::find(key) else {
            findings.push(unknown(key));
            continue;
        };
        match row.effect {
            Effect::Refused(why) => {
                findings.push(Finding::error("refused-conf", key, format!("setting '{key}' {why}")));
                continue;
            }
            Effect::Ignored(why) => {
                findings.push(Finding::warning("ignored-conf", key, format!("setting '{key}' has no effect: {why}")));
            }
            Effect::Obeyed => {}
        }
        if let Err(reason) = row.kind.parse(text) {
            let words = row.kind.allowed();
            findings.push(
                Finding::error("conf-value", key, format!("Invalid value '{text}' for setting '{key}', {reason}"))
                    .found(text)
                    .allowed(words.clone())
                    .nearest_of(text, words.iter().map(String::as_str)),
            );
        }
    }
    findings
}

fn unknown(key: &str) -> Finding {
    let known = rows::rows().filter(|row| !matches!(row.effect, Effect::Refused(_))).map(|row| row.name);
    let message = if key.starts_with("spark.") || key.starts_with("weir.") {
        format!("`{key}` is not a setting that Weir knows")
    } else {
        format!("`{key}` is not a setting: Spark's begin with spark., Weir's own with weir.")
    };
    Finding::error("unknown-conf", key, message).nearest_of(key, known).remedy("remove it, or see the list of settings in docs/options.md")
}
