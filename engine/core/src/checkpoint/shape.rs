//! What the numbers of plans and commits tell of a checkpoint: a commit without
//! its plan, a plan that is gone from between others.
//!
//! Pure, and the same for a run and for whoever only looks. What a process
//! leaves that was frozen in its batch and went on when its successors had let
//! go of it is told apart: it means nothing, and the next start deletes it.

use super::entries::RESTORE;

/// Everything that is missing, a sentence each; both lists rise.
pub fn holes(location: &str, planned: &[u64], committed: &[u64]) -> Vec<String> {
    let commit = |batch: &u64| format!("{location}/commits/{batch} has no plan: {location}/offsets/{batch} is missing; {RESTORE}");
    without_plan(planned, committed).iter().map(commit).chain(gaps(location, planned, committed)).collect()
}

/// Commits that lack their plan. One that is older than all plans is left over.
fn without_plan(planned: &[u64], committed: &[u64]) -> Vec<u64> {
    let is_left_over = |batch: u64| planned.first().is_some_and(|oldest| batch < *oldest);
    committed.iter().copied().filter(|batch| planned.binary_search(batch).is_err() && !is_left_over(*batch)).collect()
}

/// Plans that are missing between two kept ones. One that was never committed, though later ones were, is left over.
fn gaps(location: &str, planned: &[u64], committed: &[u64]) -> Vec<String> {
    let newest = committed.last().copied();
    let pairs = planned.windows(2).filter(|pair| newest <= Some(pair[0]) || committed.binary_search(&pair[0]).is_ok());
    let gap = |pair: &[u64]| match (pair[0] + 1, pair[1] - 1) {
        (first, last) if first > last => None,
        (first, last) if first == last => Some(format!("{location}/offsets/{first} is missing between kept batches; {RESTORE}")),
        (first, last) => {
            Some(format!("{location}/offsets/{first} to {location}/offsets/{last} are missing between kept batches; {RESTORE}"))
        }
    };
    pairs.filter_map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_frozen_process_leaves_is_no_damage() {
        let found = |planned: &[u64], committed: &[u64]| {
            let told = holes("ck", planned, committed).into_iter();
            let name = |text: &str| {
                [" has no ", " is missing ", " are missing "]
                    .iter()
                    .fold(text.to_owned(), |text, end| text.split(end).next().unwrap_or_default().to_owned())
            };
            told.map(|text| name(&text)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[57, 58, 59], &[54, 57, 58]), Vec::<String>::new(), "the commit that it made late");
        assert_eq!(found(&[53, 57, 58], &[57, 58]), Vec::<String>::new(), "the plan that it made late");
        assert_eq!(found(&[57, 59], &[57]), ["ck/offsets/58"]);
        assert_eq!(found(&[57, 59], &[57, 58]), ["ck/commits/58", "ck/offsets/58"]);
        assert_eq!(found(&[1, 5], &[1, 5]), ["ck/offsets/2 to ck/offsets/4"]);
        assert_eq!(found(&[], &[3]), ["ck/commits/3"]);
    }
}
