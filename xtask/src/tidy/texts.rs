//! Rules for every tracked text file: no paths of one machine.
//!
//! A lock file is a program's, not ours.

use std::sync::LazyLock;

use regex::Regex;

use super::{Finding, finding};

/// Folders of the machines that this is written on; they mean nothing anywhere else.
static MACHINE_PATH: LazyLock<Regex> = LazyLock::new(|| {
    let folders = ["work", "root", "farm"].join("|");
    Regex::new(&format!("(?:^|[^A-Za-z0-9_.$}}*-])/(?:{folders})/")).expect("the pattern is fixed")
});

pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if path.ends_with(".lock") {
        return Vec::new();
    }
    let lines = (1..).zip(text.lines());
    let bad = lines.filter(|(_, line)| MACHINE_PATH.is_match(line));
    bad.map(|(number, _)| finding(path, number, "names a folder of one machine: use a path relative to the repository, or the cache"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<usize> {
        check("some.md", text).iter().map(|found| found.line).collect()
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let bad = ["see /wor", "k/main/x", "\nfine\n\"/roo", "t/.cache\""].concat();
        assert_eq!(lines_of(&bad), [1, 3]);
    }

    #[test]
    fn other_paths_and_addresses_are_not() {
        assert!(lines_of("target/work/x\n${A}/root/x\nhttp://host/work/x\n/home/root").is_empty());
    }

    #[test]
    fn lock_files_are_left_alone() {
        let text = ["/wor", "k/"].concat();
        assert!(check("Cargo.lock", &text).is_empty());
        assert_eq!(check("a.sh", &text).len(), 1);
    }
}
