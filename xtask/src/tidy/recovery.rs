//! The page on recovery: every condition that waits for a human has a row there.
//!
//! Such a condition is the literal first argument of `Error::incompatible`. Reads both sides as text.

use std::collections::BTreeSet;

use regex::Regex;

use super::{Finding, finding, sources};

const PAGE: &str = "docs/recovery.md";

/// Checks the page against the Rust files, given as path and text.
pub fn check(page: &str, files: &[(String, String)]) -> Vec<Finding> {
    let given = Regex::new(r#"Error::incompatible\(\s*"([A-Z][A-Z0-9_.]*)""#).expect("the pattern is fixed");
    let product = files.iter().filter(|(path, _)| !sources::is_test_path(path) && !path.starts_with("xtask/"));
    let conditions: BTreeSet<&str> =
        product.flat_map(|(_, text)| given.captures_iter(text)).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let row = |condition: &str| page.lines().any(|line| line.starts_with("| `") && line.contains(&format!("`{condition}`")));
    let missing = conditions.iter().filter(|condition| !row(condition));
    missing.map(|condition| finding(PAGE, 0, format!("has no row for {condition}: say what happened and the way on"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_without_a_row_is_found() {
        let file = |path: &str| (path.to_owned(), "Error::incompatible(\n    \"A_B.C\",\n    x)".to_owned());
        let messages = |page: &str, path: &str| check(page, &[file(path)]).into_iter().map(|found| found.message).collect::<Vec<_>>();
        assert!(messages("| `A_B.C`, `D` | what | how |", "engine/x/src/a.rs").is_empty());
        assert!(messages("", "engine/x/tests/a.rs").is_empty());
        for page in ["", "`A_B.C`", "| `A_B` | what | how |"] {
            assert_eq!(messages(page, "engine/x/src/a.rs"), ["has no row for A_B.C: say what happened and the way on"]);
        }
    }
}
