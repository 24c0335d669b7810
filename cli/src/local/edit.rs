//! What is said of a manifest that was written anew and changes nothing.
//!
//! An edit that changes the job is an event of the supervisor, and a refusal is
//! told where it is met. What is left would pass in silence, and a person who
//! has just saved a file wants to know that it was seen. Decides only words.

use weir_core::Error;

/// What is known of the newest manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Why it could not be read as a job, if it could not.
    pub refusal: Option<String>,
    /// Whether it is refused, for that or because an edit may not do what it does.
    pub is_refused: bool,
    /// The generation in effect.
    pub generation: i64,
    /// Its documents, those of the last good one where it is refused.
    pub document: String,
    /// How often the manifest was written.
    pub written: u64,
}

/// A manifest that is refused while its last good generation ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The refusal.
    pub why: String,
    /// What ran.
    pub generation: i64,
}

impl Refused {
    /// The last words of a runner that did not run what it was asked to.
    pub fn error(&self, job: &str) -> Error {
        let text = format!(
            "job {job}: what ran is its last good generation, {}, since the manifest as it stands is refused; correct it and run it again: {}",
            self.generation, self.why
        );
        Error::config("MANIFEST_REFUSED", text)
    }
}

/// What is to be said of a manifest that changes nothing.
pub fn no_news(before: &Standing, now: &Standing) -> Option<&'static str> {
    let is_same = before.generation == now.generation;
    match (before.is_refused, now.is_refused) {
        (true, false) if is_same => Some("the manifest is again the one in effect; the refused edit is forgotten and nothing changes"),
        (false, false) if is_same && before.document == now.document => {
            Some("the manifest was written anew and says the same; nothing changes")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_changes_nothing_is_told_and_another_is_not() {
        let standing = |is_refused, generation, document: &str| Standing {
            is_refused,
            generation,
            document: document.to_owned(),
            ..Standing::default()
        };
        let good = standing(false, 1, "a");
        assert!(no_news(&standing(true, 1, "a"), &good).is_some_and(|words| words.contains("again the one in effect")));
        assert!(no_news(&good, &good).is_some_and(|words| words.contains("says the same")));
        for now in [standing(true, 1, "a"), standing(false, 2, "b"), standing(false, 1, "a job beside it has changed")] {
            assert_eq!(no_news(&good, &now), None);
        }
        assert_eq!(no_news(&standing(true, 1, "a"), &standing(false, 2, "b")), None);
    }
}
