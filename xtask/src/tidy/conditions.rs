//! Each reason of conditions is given somewhere: one that nothing sets misleads whoever waits for it.
//!
//! That a reason which is set is in the table needs no rule: verdicts take no other.

use weir_supervisor::conditions::Reason;

use super::{Finding, finding, sources};

const TABLE: &str = "supervisor/src/conditions/reasons.rs";

/// Checks the sources, given as path and text.
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    let product = files.iter().filter(|(path, _)| path != TABLE && !sources::is_test_path(path));
    let lines: Vec<&str> = product.flat_map(|(_, text)| sources::without_test_items(text)).map(|(_, line)| line).collect();
    let idle = Reason::ALL.into_iter().filter(|reason| !lines.iter().any(|line| gives(line, *reason)));
    idle.map(|reason| finding(TABLE, 0, format!("the reason {reason} is given nowhere: give it or remove it"))).collect()
}

/// Whether a line gives a reason; a pattern of a match only asks for it.
fn gives(line: &str, reason: Reason) -> bool {
    let name = format!("Reason::{reason}");
    line.match_indices(&name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric) && !after.contains("=>")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[(path.to_owned(), text.to_owned())]).into_iter().map(|found| found.message).collect()
    }

    #[test]
    fn a_reason_that_is_only_asked_for_or_only_in_a_test_is_found() {
        let all: String = Reason::ALL.iter().map(|reason| format!("    verdict(Reason::{reason});\n")).collect();
        let source = "supervisor/src/conditions/own.rs";
        assert!(found(source, &all).is_empty());
        for path in [TABLE, "supervisor/tests/runs.rs"] {
            assert_eq!(found(path, &all).len(), Reason::ALL.len());
        }
        assert_eq!(found(source, &format!("#[cfg(test)]\nmod tests {{\n{all}}}\n")).len(), Reason::ALL.len());
        for other in ["EventReason::CrashLooping", "Reason::CrashLoopingOften", "(\"Stalled\", Reason::CrashLooping) => warn"] {
            let without = all.replace("Reason::CrashLooping", other);
            assert_eq!(found(source, &without), ["the reason CrashLooping is given nowhere: give it or remove it"], "{other}");
        }
    }
}
