//! Manifests with random damage: loading never panics, and what is accepted is read back the same.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use weir_crds::manifest::{ManifestFile, load};

fn accepted(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accept").join(name);
    std::fs::read_to_string(path).expect("a readable file")
}

fn load_text(text: String) -> weir_crds::manifest::Loaded {
    load(&[ManifestFile { name: "m.yaml".to_owned(), text }], &BTreeMap::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn damage_never_panics(
        file in prop::sample::select(vec!["design.yaml", "wide.yaml"]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, "[ -~\\n\u{e9}]{0,6}"), 1..4),
    ) {
        let mut chars: Vec<char> = accepted(file).chars().collect();
        for (at, removed, inserted) in edits {
            let at = at.index(chars.len());
            let end = (at + removed).min(chars.len());
            chars.splice(at..end, inserted.chars());
        }
        let loaded = load_text(chars.into_iter().collect());
        for problem in &loaded.problems {
            prop_assert!(problem.line >= 1 && problem.column >= 1);
            prop_assert!(!problem.to_string().is_empty());
        }
        for job in loaded.jobs {
            let again = load_text(job.document);
            prop_assert_eq!(&again.jobs[0].job, &job.job);
        }
    }

    #[test]
    fn swapped_lines_never_panic(left in any::<prop::sample::Index>(), right in any::<prop::sample::Index>()) {
        let text = accepted("wide.yaml");
        let mut lines: Vec<&str> = text.lines().collect();
        let (left, right) = (left.index(lines.len()), right.index(lines.len()));
        lines.swap(left, right);
        load_text(lines.join("\n"));
    }
}
