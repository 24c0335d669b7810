//! Whole manifests: each file of `check/` breaks one rule and has a snapshot of what is said
//! about it; each file of `accept/` has no error. Snapshots are updated with `INSTA_UPDATE=always`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_crds::manifest::{Loaded, ManifestFile, load};

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
