//! Whether files that were moved to the archive could be taken for new input.
//!
//! The decision of `FileStreamSource.SourceFileArchiver`: both paths are cut to the smaller
//! of their depths; when the archive's names match the source pattern's names one by one, a
//! file in the archive could match too.

use globset::GlobBuilder;

/// True where Spark refuses the pair. Paths of different schemes never match.
pub(super) fn archive_may_match_source(archive: &str, source: &str) -> bool {
    if source.is_empty() {
        return false;
    }
    let ((archive_scheme, archive), (source_scheme, source)) = (split(archive), split(source));
    if archive_scheme != source_scheme || archive.0 != source.0 {
        return false;
    }
    archive.1.iter().zip(&source.1).all(|(name, pattern)| matches(name, pattern))
}

/// Scheme, whether the path is absolute, names.
fn split(path: &str) -> (String, (bool, Vec<String>)) {
    let (scheme, rest) = match path.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => match path.strip_prefix("file:") {
            Some(rest) => ("file".to_owned(), rest),
            None => ("file".to_owned(), path),
        },
    };
    let absolute = rest.starts_with('/') || scheme != "file";
    let names = rest.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect();
    (scheme, (absolute, names))
}

fn matches(name: &str, pattern: &str) -> bool {
    if name == pattern {
        return true;
    }
    GlobBuilder::new(pattern).literal_separator(true).build().is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

#[cfg(test)]
mod tests {
    use super::archive_may_match_source;

    #[test]
    fn an_archive_inside_the_input_is_refused() {
        assert!(archive_may_match_source("/data/in/old", "/data/in"));
        assert!(archive_may_match_source("/data/in", "/data/in/2026/*.json"));
        assert!(archive_may_match_source("file:///data/a1/old", "/data/a?"));
        assert!(archive_may_match_source("in/old", "in"));
    }

    #[test]
    fn an_archive_beside_the_input_is_fine() {
        assert!(!archive_may_match_source("/data/old", "/data/in"));
        assert!(!archive_may_match_source("s3://lake/in/old", "/in"));
        assert!(!archive_may_match_source("/archive", "/data/in/*"));
    }
}
