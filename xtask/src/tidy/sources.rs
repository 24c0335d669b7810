//! Rules for Rust files: at most 600 lines, a header, no `unwrap` outside tests, nothing unfinished, no clock in the pure crates.
//!
//! The checks read lines, not syntax; they rely on the formatter's layout (an item ends with its closing brace at the indentation it began with).
//! Comments are not code. Test code is a file in a `tests` folder, a file that says `#![cfg(test)]` or is named as a test's, and an item
//! under `#[cfg(test)]`.

use super::{Finding, finding};

const LONGEST: usize = 600;

// Put together here, so that this file does not break its own rules.
const UNWRAP: &str = concat!(".unwrap", "()");
const UNFINISHED: [&str; 3] = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("#[ign", "ore")];
const CLOCKS: [&str; 4] = [concat!("Utc::n", "ow"), concat!("Local::n", "ow"), concat!("SystemTime::n", "ow"), concat!("Instant::n", "ow")];

/// Time is an argument of everything that these crates do.
const WITHOUT_CLOCK: [&str; 3] = ["crds/src/", "supervisor/src/", "engine/core/src/"];

pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let count = text.lines().count();
    if count > LONGEST {
        findings.push(finding(path, 0, format!("has {count} lines, more than {LONGEST}: split it by topic")));
    }
    let is_source = path.starts_with("src/") || path.contains("/src/");
    if is_source && !text.starts_with("//!") {
        findings.push(finding(path, 1, "has no header: begin with `//!` lines that say what it owns and what it does not do"));
    }
    for (number, line) in code_lines(text) {
        if let Some(word) = UNFINISHED.iter().find(|word| line.contains(**word)) {
            findings.push(finding(path, number, format!("`{word}` is unfinished work: finish it or remove it")));
        }
    }
    if !is_test_file(path, text) {
        findings.extend(check_product_code(path, text));
    }
    findings
}

fn check_product_code(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let clockless = WITHOUT_CLOCK.iter().any(|folder| path.starts_with(folder));
    for (number, line) in without_test_items(text) {
        if line.contains(UNWRAP) {
            findings.push(finding(path, number, format!("`{UNWRAP}` outside tests: return an error, or `expect` with the invariant")));
        }
        if let Some(clock) = CLOCKS.iter().find(|clock| clockless && line.contains(**clock)) {
            findings.push(finding(path, number, format!("`{clock}` in a crate that takes the time as an argument")));
        }
    }
    findings
}

fn is_test_file(path: &str, text: &str) -> bool {
    is_test_path(path) || text.contains("#![cfg(test)]")
}

/// Whether a path is that of test code.
pub(super) fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_test_name = matches!(name, "tests.rs" | "testing.rs") || name.ends_with("_tests.rs") || name.ends_with("_test.rs");
    let in_test_folder = path.split('/').rev().skip(1).any(|folder| folder == "tests") && !path.starts_with("tests/kit/src/");
    is_test_name || in_test_folder
}

/// Numbered lines that are not comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Numbered code lines outside the items under `#[cfg(test)]`.
pub(super) fn without_test_items(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut item_end: Option<String> = None;
    let mut test_follows = false;
    for (number, line) in code_lines(text) {
        let indentation = &line[..line.len() - line.trim_start().len()];
        let code = line.trim();
        if let Some(end) = &item_end {
            if line.trim_end() == end {
                item_end = None;
            }
        } else if code == "#[cfg(test)]" {
            test_follows = true;
        } else if test_follows {
            // Further attributes belong to the item; it ends on this line or at the brace that closes it.
            if code.ends_with('{') {
                item_end = Some(format!("{indentation}}}"));
            }
            test_follows = code.starts_with("#[");
        } else {
            kept.push((number, line));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<(usize, String)> {
        check(path, text).into_iter().map(|found| (found.line, found.message)).collect()
    }

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        messages(path, text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_long_file_is_found() {
        let text = format!("//! Header.\n{}", "// x\n".repeat(600));
        assert_eq!(lines_of("a/src/x.rs", &text), [0]);
        assert!(lines_of("a/src/x.rs", &text[..text.len() - 5]).is_empty());
    }

    #[test]
    fn a_missing_header_is_found() {
        assert_eq!(lines_of("a/src/x.rs", "fn f() {}\n"), [1]);
        assert!(lines_of("a/tests/x.rs", "fn f() {}\n").is_empty());
    }

    #[test]
    fn unwrap_is_found_outside_tests_only() {
        let text = format!(
            "//! H.\nfn f() {{\n    x{UNWRAP};\n}}\n// x{UNWRAP}\n#[cfg(test)]\nmod tests {{\n    #![allow(x)]\n    fn g() {{\n        x{UNWRAP};\n    }}\n}}\nfn h() {{ y{UNWRAP} }}\n"
        );
        assert_eq!(lines_of("a/src/x.rs", &text), [3, 13]);
        for path in ["a/tests/x.rs", "a/src/tests/x.rs", "a/src/tests.rs", "tests/x/y.rs"] {
            assert!(lines_of(path, &text).is_empty(), "{path}");
        }
        assert_eq!(lines_of("tests/kit/src/x.rs", &text), [3, 13]);
    }

    #[test]
    fn one_line_test_items_end_on_their_line() {
        let text = format!(
            "//! H.\n#[cfg(test)]\nmod testing;\nfn f() {{ x{UNWRAP} }}\n#[cfg(test)]\n#[allow(x)]\nfn g() {{\n    x{UNWRAP};\n}}\n"
        );
        assert_eq!(lines_of("a/src/x.rs", &text), [4]);
    }

    #[test]
    fn unfinished_work_is_found_in_tests_too() {
        for word in UNFINISHED {
            let text = format!("//! H.\n{word}\n// {word}\n");
            assert_eq!(lines_of("a/tests/x.rs", &text), [2], "{word}");
        }
    }

    #[test]
    fn a_clock_is_found_in_the_pure_crates() {
        let text = format!("//! H.\nlet now = {}();\n", CLOCKS[0]);
        assert_eq!(lines_of("supervisor/src/x.rs", &text), [2]);
        assert!(lines_of("cli/src/x.rs", &text).is_empty());
        assert!(lines_of("supervisor/tests/x.rs", &text).is_empty());
    }
}
