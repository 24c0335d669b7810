//! Who may use whom: the dependency rule of the house.
//!
//! Two tables say it. `MAY_USE` lists the workspace crates that each one may name in its own `[dependencies]` (development dependencies are
//! free); a crate that is missing there is a finding, so a new crate is a decision. `NEVER_LINKS` lists packages that must not be reachable
//! from a crate by any way, as `cargo tree` resolves it for that crate alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Finding, finding, run};

const MAY_USE: &[(&str, &[&str])] = &[
    ("weir-crds", &[]),
    ("weir-supervisor", &["weir-crds"]),
    ("weir-decode", &[]),
    ("weir-core", &["weir-crds"]),
    ("weir-connect", &["weir-crds", "weir-core", "weir-decode"]),
    ("weir-sql", &["weir-crds", "weir-core", "weir-decode"]),
    ("weir-http", &[]),
    ("weir-runtime", &["weir-crds", "weir-core", "weir-connect", "weir-decode", "weir-http", "weir-sql"]),
    ("weir", &["weir-crds", "weir-core", "weir-connect", "weir-decode", "weir-runtime", "weir-sql", "weir-supervisor"]),
    ("weir-operator", &["weir-crds", "weir-http", "weir-supervisor"]),
    ("weir-testcluster", &["weir-crds", "weir-testkit"]),
    ("weir-testkit", &[]),
    ("xtask", &["weir-crds", "weir-supervisor"]),
];

const NEVER_LINKS: &[(&str, &[&str])] = &[
    ("weir-crds", &["tokio", "kube-client", "kube-runtime", "hyper", "reqwest", "rdkafka", "datafusion", "arrow", "object_store"]),
    (
        "weir-supervisor",
        &["tokio", "kube-client", "kube-runtime", "hyper", "reqwest", "rdkafka", "datafusion", "arrow", "object_store", "rand"],
    ),
    ("weir-core", &["arrow", "arrow-array", "rdkafka", "datafusion", "rocksdb"]),
    ("weir-sql", &["rdkafka", "deltalake-core", "kube-client"]),
    ("weir-decode", &["tokio", "datafusion", "rdkafka"]),
    (
        "weir-operator",
        &[
            "arrow",
            "arrow-array",
            "datafusion",
            "datafusion-common",
            "deltalake-core",
            "librocksdb-sys",
            "object_store",
            "parquet",
            "rdkafka",
            "rocksdb",
        ],
    ),
];

/// Workspace crates and the workspace crates that each one names, development dependencies left out.
type Edges = BTreeMap<String, BTreeSet<String>>;

pub fn check_workspace(repository: &Path) -> Result<Vec<Finding>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let metadata = run(repository, &cargo, &["metadata", "--format-version", "1", "--offline", "--no-deps"])?;
    let edges = workspace_edges(&serde_json::from_str(&metadata).context("cargo metadata printed no JSON")?);
    let mut findings = check_edges(&edges);
    for (name, forbidden) in NEVER_LINKS.iter().filter(|(name, _)| edges.contains_key(*name)) {
        let tree = run(repository, &cargo, &["tree", "--offline", "--package", name, "--edges", "normal", "--prefix", "none"])?;
        findings.extend(check_links(name, &linked_packages(&tree), forbidden));
    }
    Ok(findings)
}

fn workspace_edges(metadata: &Value) -> Edges {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    let used = |package: &Value| {
        let dependencies = package["dependencies"].as_array().cloned().unwrap_or_default();
        let counted = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
        counted.map(|dependency| text(&dependency["name"])).filter(|name| names.contains(name)).collect()
    };
    packages.iter().map(|package| (text(&package["name"]), used(package))).collect()
}

fn check_edges(edges: &Edges) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, used) in edges {
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| known == name) else {
            findings.push(finding(
                name,
                0,
                "is a crate without a row in the dependency rule: decide what it may use (xtask/src/tidy/dependencies.rs)",
            ));
            continue;
        };
        for other in used.iter().filter(|other| !allowed.contains(&other.as_str())) {
            findings.push(finding(name, 0, format!("must not use {other}: the dependency rule forbids it")));
        }
    }
    findings
}

/// The first word of each line of `cargo tree --prefix none`.
fn linked_packages(tree: &str) -> BTreeSet<&str> {
    tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty()).collect()
}

fn check_links(name: &str, linked: &BTreeSet<&str>, forbidden: &[&str]) -> Vec<Finding> {
    let found = forbidden.iter().filter(|package| linked.contains(**package));
    found.map(|package| finding(name, 0, format!("links {package}; `cargo tree -p {name} -i {package}` shows by which way"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edges(of: Value) -> Vec<String> {
        check_edges(&workspace_edges(&of)).iter().map(ToString::to_string).collect()
    }

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let list: Vec<Value> = dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "dependencies": list})
    }

    #[test]
    fn an_edge_against_the_rule_is_found() {
        let metadata = json!({"packages": [
            package("weir-crds", &[("serde", None), ("weir-core", None)]),
            package("weir-core", &[("weir-crds", None)]),
        ]});
        assert_eq!(edges(metadata), ["weir-crds: must not use weir-core: the dependency rule forbids it"]);
    }

    #[test]
    fn development_dependencies_are_free() {
        let metadata = json!({"packages": [package("weir-core", &[("weir-testkit", Some("dev"))]), package("weir-testkit", &[])]});
        assert!(edges(metadata).is_empty());
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(edges(json!({"packages": [package("weir-new", &[])]})).len(), 1);
    }

    #[test]
    fn a_forbidden_package_is_found_however_deep() {
        let linked = linked_packages("weir-supervisor v0.1.0 (/x)\nchrono v0.4.1\ntokio v1.54.1 (*)\n\ntokio-util v0.7.0\n");
        let found = check_links("weir-supervisor", &linked, &["tokio", "kube-client"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("links tokio;"), "{}", found[0]);
    }
}
