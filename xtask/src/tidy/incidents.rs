//! The table of incidents: every report has a row, and every test that a row names is there.
//!
//! A row names tests by their functions, in backquotes; a word with a dot is a file of tests. Reads rows as text and knows nothing of what the tests do.

use std::collections::BTreeSet;

use regex::Regex;

use super::{Finding, finding};

const TABLE: &str = "docs/incidents.md";

/// The reports that the operator was built against.
const REPORTS: [u8; 54] = [
    1, 2, 4, 5, 7, 8, 10, 11, 12, 14, 15, 17, 18, 20, 21, 22, 23, 24, 25, 27, 28, 30, 31, 33, 34, 35, 38, 39, 40, 41, 43, 44, 47, 48, 49,
    51, 52, 54, 56, 57, 59, 60, 62, 63, 64, 66, 67, 69, 71, 72, 73, 74, 77, 78,
];

/// Checks the table against the Rust files, given as path and text.
pub fn check(table: &str, files: &[(String, String)]) -> Vec<Finding> {
    let function = Regex::new(r"\bfn ([a-z0-9_]+)\(").expect("the pattern is fixed");
    let known: BTreeSet<&str> =
        files.iter().flat_map(|(_, text)| function.captures_iter(text)).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let quoted = Regex::new("`([^`]+)`").expect("the pattern is fixed");
    let mut findings = Vec::new();
    let mut rows = BTreeSet::new();
    for (number, line) in (1..).zip(table.lines()) {
        let Some(id) = line.strip_prefix("| T").and_then(|rest| rest.get(..2)?.parse::<u8>().ok()) else { continue };
        if !rows.insert(id) {
            findings.push(finding(TABLE, number, format!("is a second row for T{id:02}")));
        }
        let names: Vec<&str> = quoted.captures_iter(line).filter_map(|found| Some(found.get(1)?.as_str())).collect();
        if names.is_empty() {
            findings.push(finding(TABLE, number, format!("names no test for T{id:02}")));
        }
        let tests = names.iter().filter(|name| !name.contains('.'));
        let missing = tests.filter(|name| !known.contains(**name));
        findings.extend(missing.map(|name| finding(TABLE, number, format!("names the test {name}, which does not exist"))));
    }
    let without = REPORTS.iter().filter(|id| !rows.contains(*id));
    findings.extend(without.map(|id| finding(TABLE, 0, format!("has no row for T{id:02}"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(row: &str) -> String {
        let others = REPORTS.iter().filter(|id| **id != 1).map(|id| format!("| T{id:02} | | `it_holds` | M1 |\n"));
        others.collect::<String>() + row
    }

    fn found(row: &str) -> Vec<String> {
        let files = [("tests/x.rs".to_owned(), "async fn it_holds() {}\n".to_owned())];
        check(&table(row), &files).iter().map(|found| found.message.clone()).collect()
    }

    #[test]
    fn a_row_with_tests_that_exist_is_fine() {
        assert!(found("| T01 | what | `it_holds` `others.rs` | M1 |").is_empty());
    }

    #[test]
    fn missing_rows_tests_and_names_are_found() {
        assert_eq!(found(""), ["has no row for T01"]);
        assert_eq!(found("| T01 | what | `it_fails` | M1 |"), ["names the test it_fails, which does not exist"]);
        assert_eq!(found("| T01 | what | | M1 |"), ["names no test for T01"]);
        assert_eq!(found("| T01 | a | `it_holds` | M1 |\n| T01 | b | `it_holds` | M1 |"), ["is a second row for T01"]);
    }
}
