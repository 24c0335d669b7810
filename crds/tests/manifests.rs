//! Whole manifests: each file of `check/` breaks one rule and has a snapshot of what is said
//! about it; each file of `accept/` has no error. Snapshots are updated with `INSTA_UPDATE=always`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_crds::manifest::{Loaded, ManifestFile, Triggers, load, load_with};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn load_file(path: &Path) -> Loaded {
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).expect("a readable file");
    load(&[ManifestFile { name, text }], &BTreeMap::new())
}

#[test]
fn each_broken_manifest_is_refused_with_its_sentence() {
    for path in files("check") {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let loaded = load_file(&path);
        assert!(!loaded.problems.is_empty(), "{name} has no problem");
        let warning_only = name.starts_with("warn-");
        assert_eq!(loaded.has_errors(), !warning_only, "{name}: {:?}", loaded.problems);
        let lines: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
        assert!(!lines.concat().contains("geheim"), "{name} tells a secret");
        insta::with_settings!({snapshot_path => "check", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name, lines.join("\n"));
        });
    }
}

#[test]
fn good_manifests_are_accepted() {
    for path in files("accept") {
        let loaded = load_file(&path);
        assert!(!loaded.has_errors(), "{}: {:#?}", path.display(), loaded.problems);
        assert!(!loaded.jobs.is_empty(), "{}", path.display());
        for job in loaded.jobs {
            let again = load(&[ManifestFile { name: "again".to_owned(), text: job.document }], &BTreeMap::new());
            assert_eq!(again.jobs.first().map(|job| &job.job), Some(&job.job), "JSON of {}", path.display());
            job.job.spec.policy().expect("an accepted job has a policy");
        }
    }
}

#[test]
fn a_parameter_that_no_manifest_uses_is_refused_by_name() {
    let text = "apiVersion: weir.dev/v1alpha1\nkind: StreamingJob\nmetadata: {name: p}\nspec:\n  trigger: {manual: {}}\n  \
                parameters: {declared: x}\n  tasks:\n  - name: t\n    queries:\n    - name: q\n      sources: [{name: r, format: rate, \
                options: {rowsPerSecond: '${rows}'}}]\n      sql: SELECT value AS v FROM r\n      sink: {format: noop}\n      \
                trigger: {availableNow: {}}\n      checkpointLocation: /tmp/x\n";
    let files = [ManifestFile { name: "job.yaml".to_owned(), text: text.to_owned() }];
    let given = |names: &[&str]| load(&files, &names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect());
    assert!(!given(&["rows", "declared"]).has_errors(), "{:?}", given(&["rows", "declared"]).problems);
    let loaded = given(&["rows", "row"]);
    let lines: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    assert!(loaded.has_errors(), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("`row`") && line.contains("did you mean `rows`")), "{lines:?}");
}

#[test]
fn queries_that_are_made_to_end_may_be_scheduled() {
    let name = "tests/check/schedule-needs-end.yaml";
    let file = ManifestFile { name: name.to_owned(), text: std::fs::read_to_string(name).expect("a readable file") };
    let rules = |triggers| {
        let loaded = load_with(std::slice::from_ref(&file), &Default::default(), triggers);
        (loaded.problems.iter().map(|problem| problem.finding.rule).collect::<Vec<_>>(), loaded.jobs.len())
    };
    assert_eq!(rules(Triggers::AsWritten), (vec!["schedule-needs-end"], 0));
    assert_eq!(rules(Triggers::AvailableNow), (vec![], 1));
}
