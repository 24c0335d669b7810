//! The folder that a job was started in.
//!
//! Relative paths of a manifest are taken from the folder where `weir` is
//! started. One that is started elsewhere would begin anew there without a word:
//! so the folder is remembered beside the job's state, and a change is told if
//! the job has such paths. Decides nothing else.

use std::path::Path;

use weir_core::Result;
use weir_crds::StreamingJob;
use weir_crds::resource::StreamingJobSpec;

use super::state::StateDir;

/// Where it is remembered.
const FILE: &str = "folder.json";
/// Paths that are named.
const NAMED: usize = 3;

/// What is to be said of the folder that the job is started in; remembers it.
pub fn look(state: &StateDir, job: &StreamingJob) -> Result<Option<String>> {
    // A folder that was deleted has no name, and no relative path leads anywhere.
    let Ok(now) = std::env::current_dir() else { return Ok(None) };
    let before = state.read::<String>(FILE)?;
    let text = now.display().to_string();
    if before.as_ref() == Some(&text) {
        return Ok(None);
    }
    state.write(FILE, &text)?;
    Ok(before.and_then(|before| moved(Path::new(&before), &now, &relative(&job.spec))))
}

fn moved(before: &Path, now: &Path, relative: &[&str]) -> Option<String> {
    let (before, now) = (before.display(), now.display());
    let named = relative.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if relative.len() > NAMED { ", ..." } else { "" };
    (!relative.is_empty()).then(|| {
        format!(
            "the job was started in {before} before and is started in {now} now, from where its relative paths are taken ({named}{more}): \
             what is below {before} is not seen; start it there, or write absolute paths"
        )
    })
}

/// The paths that depend on the folder.
fn relative(spec: &StreamingJobSpec) -> Vec<&str> {
    let queries = || spec.tasks.iter().flat_map(|task| &task.queries);
    let roots = spec.checkpoint_root.iter().map(String::as_str);
    let places = queries().flat_map(|query| {
        let inputs = query.sources.iter().chain(&query.tables).filter_map(|input| input.options.get("path"));
        let bad_records = query.bad_records.iter().filter_map(|bad_records| bad_records.options.get("path"));
        query.checkpoint_location.iter().chain(inputs).chain(query.sink.options.get("path")).chain(bad_records).map(String::as_str)
    });
    let mut found: Vec<&str> = roots.chain(places).filter(|path| is_relative(path)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Neither absolute nor on a store; what a parameter begins with is not known here.
fn is_relative(path: &str) -> bool {
    let has_scheme = path.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    !path.is_empty() && !path.starts_with('/') && !path.starts_with("${") && !has_scheme
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_job_with_relative_paths_that_is_started_elsewhere_is_told_so() {
        let text = "{tasks: [{name: t, queries: [{name: q, sources: [{name: s, format: csv, options: {path: in}}], sql: SELECT 1, \
                    sink: {format: delta, options: {path: s3://b/t}}, badRecords: {format: json, options: {path: bad}}, checkpointLocation: lake/ck}]}], trigger: {manual: {}}}";
        let spec: StreamingJobSpec = serde_yaml_ng::from_str(text).unwrap();
        assert_eq!(relative(&spec), ["bad", "in", "lake/ck"]);
        let words = moved(Path::new("/a"), Path::new("/b"), &relative(&spec)).unwrap();
        assert!(words.contains("started in /a before") && words.contains("(bad, in, lake/ck)"), "{words}");
        assert_eq!(moved(Path::new("/a"), Path::new("/b"), &[]), None);
        for path in ["/a", "s3://b/x", "file:/x", "${root}/x", ""] {
            assert!(!is_relative(path), "{path}");
        }
        assert!(is_relative("a/b:c") && is_relative("./x"));
    }

    #[test]
    fn the_folder_is_remembered() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(root.path(), "default", "j").unwrap();
        let text = "{apiVersion: weir.dev/v1alpha1, kind: StreamingJob, metadata: {name: j}, spec: {trigger: {manual: {}}, checkpointRoot: lake, tasks: []}}";
        let job: StreamingJob = serde_yaml_ng::from_str(text).unwrap();
        assert_eq!(look(&state, &job).unwrap(), None);
        state.write(FILE, &"/elsewhere".to_owned()).unwrap();
        assert!(look(&state, &job).unwrap().is_some_and(|words| words.contains("/elsewhere")));
        assert_eq!(look(&state, &job).unwrap(), None);
    }
}
