//! Where the checkpoint of a query is, and when two spellings mean the same place.
//!
//! An explicit location wins over the one derived from `checkpointRoot`. Comparison is by
//! text only: links are not followed, nothing is opened.

use crate::resource::{QuerySpec, StreamingJob};

/// The namespace of a manifest that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The namespace of a job.
pub fn namespace_of(job: &StreamingJob) -> &str {
    job.metadata.namespace.as_deref().filter(|name| !name.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
}

/// The location of a query's checkpoint as it is used; `None` where the query has none of its own.
pub fn checkpoint_location(job: &StreamingJob, task: &str, query: &QuerySpec) -> Option<String> {
    if let Some(explicit) = &query.checkpoint_location {
        return Some(explicit.clone());
    }
    let root = job.spec.checkpoint_root.as_deref()?.trim_end_matches('/');
    let name = job.metadata.name.as_deref().unwrap_or_default();
    Some(format!("{root}/{}/{name}/{task}/{}", namespace_of(job), query.name))
}

/// One spelling for all spellings of a location: `file:` and bare paths, slashes, dots, S3's schemes.
pub fn normalized_location(location: &str) -> String {
    let location = location.trim();
    let (scheme, rest) = match location.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => (scheme.to_ascii_lowercase(), rest),
        _ => match location.strip_prefix("file:") {
            Some(rest) => ("file".to_owned(), rest),
            None => ("file".to_owned(), location),
        },
    };
    let scheme = match scheme.as_str() {
        "s3a" | "s3n" => "s3".to_owned(),
        "abfs" => "abfss".to_owned(),
        _ => scheme,
    };
    let rest =
        if scheme == "file" { rest.strip_prefix("localhost/").map_or(rest.to_owned(), |rest| format!("/{rest}")) } else { rest.to_owned() };
    let absolute = rest.starts_with('/');
    let mut names: Vec<&str> = Vec::new();
    for name in rest.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            ".." if absolute => {}
            name => names.push(name),
        }
    }
    let path = names.join("/");
    match (scheme.as_str(), absolute) {
        ("file", true) => format!("/{path}"),
        ("file", false) => path,
        (scheme, _) => format!("{scheme}://{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_place_are_equal() {
        for (left, right) in [
            ("/c/a", "file:///c/a/"),
            ("/c/a", "file:/c//./a"),
            ("/c/a", "file://localhost/c/b/../a"),
            ("s3a://Lake/c/", "s3://Lake/c"),
            ("./c", "c/"),
        ] {
            assert_eq!(normalized_location(left), normalized_location(right), "{left} {right}");
        }
        assert_ne!(normalized_location("/c/a"), normalized_location("c/a"));
        assert_ne!(normalized_location("s3://a/c"), normalized_location("gs://a/c"));
    }

    proptest! {
        #[test]
        fn is_idempotent(text in "(file:|s3://|S3A://)?[a-c./]{0,16}") {
            let once = normalized_location(&text);
            prop_assert_eq!(normalized_location(&once), once);
        }
    }
}
