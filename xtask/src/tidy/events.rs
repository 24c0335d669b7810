//! Each reason of events is told somewhere: one that nobody sends misleads whoever waits for it.

use weir_supervisor::EventReason;

use super::{Finding, finding, sources};

const TABLE: &str = "supervisor/src/events.rs";

/// Checks the sources, given as path and text.
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    let told = |reason: EventReason| {
        let name = format!("EventReason::{reason}");
        let is_used = |text: &str| text.match_indices(&name).any(|(at, _)| !text[at + name.len()..].starts_with(char::is_alphanumeric));
        files.iter().any(|(path, text)| path != TABLE && !sources::is_test_path(path) && is_used(text))
    };
    let silent = EventReason::ALL.into_iter().filter(|reason| !told(*reason));
    silent.map(|reason| finding(TABLE, 0, format!("the event {reason} is sent nowhere: send it or remove it"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_is_only_in_the_table_or_a_test_is_found() {
        let all: String = EventReason::ALL.iter().map(|reason| format!("tell(EventReason::{reason}, note);\n")).collect();
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        assert!(check(&[file("supervisor/src/decide.rs", &all)]).is_empty());
        let without = all.replace("EventReason::RunFailed,", "EventReason::RunFailedOften,");
        let found = check(&[file("supervisor/src/decide.rs", &without), file(TABLE, &all), file("operator/tests/x.rs", &all)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("RunFailed"));
    }
}
