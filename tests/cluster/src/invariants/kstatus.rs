//! The algorithm by which deployment tools read an object's status.
//!
//! Written from its description, not with Weir's own types, so that it judges
//! what a tool would see. Pure.

use serde_json::Value;

/// What a tool makes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    /// Fully reconciled.
    Current,
    /// Not yet.
    InProgress,
    /// A waiter gives up.
    Failed,
    /// Being deleted.
    Terminating,
}

/// Reads an object.
pub fn kstatus(object: &Value) -> Kstatus {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Kstatus::Terminating;
    }
    let status = &object["status"];
    if let Some(observed) = status["observedGeneration"].as_i64()
        && Some(observed) != object["metadata"]["generation"].as_i64()
    {
        return Kstatus::InProgress;
    }
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for condition in conditions.iter().filter(|condition| condition["status"] == "True") {
        match condition["type"].as_str() {
            Some("Reconciling") => return Kstatus::InProgress,
            Some("Stalled") => return Kstatus::Failed,
            _ => {}
        }
    }
    match conditions.iter().find(|condition| condition["type"] == "Ready") {
        Some(ready) if ready["status"] != "True" => Kstatus::InProgress,
        _ => Kstatus::Current,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(observed: Option<i64>, conditions: &[(&str, &str)]) -> Kstatus {
        let conditions: Vec<Value> = conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        let mut object = json!({"metadata": {"generation": 3}, "status": {"conditions": conditions}});
        if let Some(observed) = observed {
            object["status"]["observedGeneration"] = json!(observed);
        }
        kstatus(&object)
    }

    #[test]
    fn the_order_of_the_algorithm_is_kept() {
        assert_eq!(of(Some(2), &[("Ready", "True")]), Kstatus::InProgress);
        assert_eq!(of(None, &[]), Kstatus::Current);
        assert_eq!(of(Some(-1), &[]), Kstatus::InProgress);
        assert_eq!(of(Some(3), &[("Ready", "True"), ("Reconciling", "False")]), Kstatus::Current);
        assert_eq!(of(Some(3), &[("Ready", "False"), ("Stalled", "True")]), Kstatus::Failed);
        assert_eq!(of(Some(3), &[("Stalled", "True"), ("Reconciling", "True")]), Kstatus::Failed);
        assert_eq!(of(Some(3), &[("Reconciling", "True"), ("Stalled", "True")]), Kstatus::InProgress);
        assert_eq!(of(Some(3), &[("Ready", "Unknown")]), Kstatus::InProgress);
        assert_eq!(kstatus(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), Kstatus::Terminating);
    }
}
