//! What an edit may not change, beyond what one object alone decides.
//!
//! A checkpoint names what a query has done; moving it alone would start the query from the
//! beginning. The CRD's rule holds for explicit locations; here also changes of
//! `checkpointRoot`, and between explicit and derived, count. Pure: two specs in, findings out.

use super::StreamingJob;
use crate::checkpoint::{checkpoint_location, normalized_location};
use crate::finding::Finding;

/// Findings that refuse `new` as an edit of `old`.
pub fn edit_problems(old: &StreamingJob, new: &StreamingJob) -> Vec<Finding> {
    let mut findings = Vec::new();
    for task in &new.spec.tasks {
        let Some(old_task) = old.spec.tasks.iter().find(|known| known.name == task.name) else { continue };
        for query in &task.queries {
            let Some(before) = old_task.queries.iter().find(|known| known.name == query.name) else { continue };
            let place = |job, query| checkpoint_location(job, &task.name, query);
            let (from, to) = (place(old, before), place(new, query));
            let same = match (&from, &to) {
                (Some(from), Some(to)) => normalized_location(from) == normalized_location(to),
                (from, to) => from == to,
            };
            if same || before.checkpoint_reset_nonce != query.checkpoint_reset_nonce {
                continue;
            }
            let shown = |location: &Option<String>| location.clone().unwrap_or_else(|| "a temporary one".to_owned());
            findings.push(
                Finding::error(
                    "checkpoint-moved",
                    format!("spec.tasks[{}].queries[{}].checkpointLocation", task.name, query.name),
                    format!(
                        "the checkpoint would move from {} to {}, and the query would start from the beginning",
                        shown(&from),
                        shown(&to)
                    ),
                )
                .found(&shown(&to))
                .remedy(format!(
                    "keep the location, or change checkpointResetNonce (now {}) with it; nothing is deleted",
                    query.checkpoint_reset_nonce
                )),
            );
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn job(change: impl FnOnce(&mut Value)) -> StreamingJob {
        let mut value = json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": {"name": "j"},
            "spec": {"trigger": {"continuous": {}}, "checkpointRoot": "/c", "tasks": [{"name": "t", "queries": [
                {"name": "derived", "sources": [], "sql": "SELECT 1", "sink": {"format": "noop"}},
                {"name": "explicit", "sources": [], "sql": "SELECT 1", "sink": {"format": "noop"}, "checkpointLocation": "/x"},
            ]}]},
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_checkpoint_moves_only_with_its_nonce() {
        let old = job(|_| ());
        let moved = |change: fn(&mut Value)| edit_problems(&old, &job(change)).len();
        assert_eq!(moved(|_| ()), 0);
        assert_eq!(moved(|job| job["spec"]["checkpointRoot"] = json!("file:///c/")), 0);
        assert_eq!(moved(|job| job["spec"]["checkpointRoot"] = json!("/d")), 1);
        assert_eq!(moved(|job| job["spec"]["tasks"][0]["queries"][0]["checkpointLocation"] = json!("/c/default/j/t/derived")), 0);
        assert_eq!(moved(|job| job["spec"]["tasks"][0]["queries"][1]["checkpointLocation"] = json!("/y")), 1);
        assert_eq!(
            moved(|job| {
                job["spec"]["tasks"][0]["queries"][1]["checkpointLocation"] = json!("/y");
                job["spec"]["tasks"][0]["queries"][1]["checkpointResetNonce"] = json!(1);
            }),
            0
        );
    }
}
