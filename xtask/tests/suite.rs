//! What `xtask suite` reads of cargo's messages, and that the result of each binary counts.

use std::path::Path;
use std::time::Duration;

use xtask::suite::{Binary, Run, binaries, run, table};

const MESSAGES: &str = r#"
   Compiling noise v0.1.0
{"reason":"compiler-artifact","manifest_path":"/r/crds/Cargo.toml","target":{"name":"weir_crds"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/r/crds/Cargo.toml","target":{"name":"weir_crds"},"profile":{"test":true},"executable":"/t/weir_crds-1"}
{"reason":"compiler-artifact","manifest_path":"/r/operator/Cargo.toml","target":{"name":"weir-operator"},"profile":{"test":false},"executable":"/t/weir-operator"}
{"reason":"compiler-artifact","manifest_path":"/r/operator/Cargo.toml","target":{"name":"behaviour"},"profile":{"test":true},"executable":"/t/behaviour-2"}
{"reason":"build-finished","success":true}
"#;

fn binary(executable: &str) -> Binary {
    Binary { package: Path::new("/").into(), target: executable.into(), executable: executable.into() }
}

#[test]
fn tests_are_found_among_the_messages_and_the_longest_begins_first() {
    let found = binaries(MESSAGES).expect("messages of cargo");
    let names: Vec<_> = found.iter().map(|binary| (binary.package.to_str(), binary.target.as_str())).collect();
    assert_eq!(names, [(Some("/r/operator"), "behaviour"), (Some("/r/crds"), "weir_crds")]);
}

#[test]
fn a_message_cut_short_is_an_error() {
    assert!(binaries("{\"reason\":\"compiler-").is_err());
}

#[test]
fn one_failure_among_many_is_a_failure_and_the_rest_is_still_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let touch = |name: &str| vec![folder.path().join(name).display().to_string()];
    assert!(run(vec![binary("/bin/true"), binary("/bin/true")], 2, &[]).expect("they start"));
    assert!(!run(vec![binary("/bin/false"), binary("/usr/bin/touch")], 1, &touch("after")).expect("they start"));
    assert!(folder.path().join("after").exists());
}

#[test]
fn a_binary_that_does_not_start_is_an_error() {
    assert!(run(vec![binary("/nowhere/test")], 2, &[]).is_err());
}

#[test]
fn what_costs_most_is_told_first_and_what_costs_little_is_not() {
    let took = |title: &str, clock, processors| {
        let [clock, processors] = [clock, processors].map(Duration::from_millis);
        Run { title: title.to_owned(), is_good: true, clock, processors }
    };
    let runs = [took("kit kafka", 9000, 1500), took("core sums", 50, 900), took("connect delta", 153_000, 130_900)];
    assert_eq!(table(&runs), "\n    clock  processors\n    153 s     130 s  connect delta\n      9 s       1 s  kit kafka\n\n");
    assert_eq!(table(&runs[1..2]), "");
}
