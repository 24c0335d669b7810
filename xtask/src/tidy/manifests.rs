//! Rules for the crates' Cargo.toml: versions live in the root table only, lints are the workspace's.

use super::{Finding, finding};

pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = "";
    let mut has_lints = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
            if is_dependency_section(section) && !section.ends_with("dependencies]") {
                findings.push(finding(path, number, "write the dependency as one line `name.workspace = true`"));
            }
        } else if section == "[lints]" && line == "workspace = true" {
            has_lints = true;
        } else if is_dependency_section(section) && !line.is_empty() && !line.starts_with('#') && !takes_workspace_version(line) {
            findings.push(finding(path, number, "versions and paths live in the root Cargo.toml: write `name.workspace = true`"));
        }
    }
    if !has_lints {
        findings.push(finding(path, 0, "does not take the workspace's lints: add `[lints]` with `workspace = true`"));
    }
    findings
}

fn is_dependency_section(section: &str) -> bool {
    section.contains("dependencies") && !section.starts_with("[package.metadata")
}

fn takes_workspace_version(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let (name, value) = (name.trim(), value.trim());
    (name.ends_with(".workspace") && value == "true")
        || (value.starts_with('{') && value.contains("workspace = true") && value.ends_with('}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<usize> {
        check("x/Cargo.toml", text).iter().map(|found| found.line).collect()
    }

    #[test]
    fn workspace_dependencies_pass() {
        let text = "[lints]\nworkspace = true\n[dependencies]\n# why\na.workspace = true\nb = { workspace = true, features = [\"x\"] }\n[features]\nc = []\n";
        assert!(lines_of(text).is_empty());
    }

    #[test]
    fn own_versions_paths_and_tables_are_found() {
        let text = "[lints]\nworkspace = true\n[dependencies]\na = \"1\"\n[dev-dependencies]\nb = { path = \"../b\" }\n[dependencies.c]\nversion = \"1\"\n";
        assert_eq!(lines_of(text), [4, 6, 7, 8]);
    }

    #[test]
    fn missing_lints_are_found() {
        assert_eq!(lines_of("[dependencies]\na.workspace = true\n"), [0]);
    }
}
