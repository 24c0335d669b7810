//! The audit log: what the API server was asked, by whom, and what it answered.
//!
//! A request is logged when it is received, before anything is done, and again
//! when it is answered. So everything that a client has seen the answer of is
//! in the file already, and a reader knows which requests are still open; it
//! waits for those, except for the ones that died with a killed server.
//! Events are in the order of receipt.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::wait::{GENEROUS, eventually};

const WRITES: &str = r#"["create", "update", "patch", "delete", "deletecollection"]"#;

/// What the log contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audit {
    /// Writes, without what was written.
    #[default]
    Writes,
    /// Writes with the objects sent and returned.
    WritesWithObjects,
    /// Reads and watches too, without objects.
    AllRequests,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditMark(u64);

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEvent {
    /// `create`, `update`, `patch`, `delete`, `deletecollection`, `get`, `list`, `watch`.
    pub verb: String,
    /// Empty for the core group, as all texts here that do not apply.
    pub group: String,
    /// Plural, such as `pods`.
    pub resource: String,
    /// Such as `status`.
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// Who asked.
    pub user: String,
    /// The client program, as it names itself.
    pub agent: String,
    /// The HTTP status of the answer; `None` when the server was killed before it answered.
    pub code: Option<u16>,
    /// What was sent, with [`Audit::WritesWithObjects`].
    pub sent: Option<Value>,
    /// What was returned, with [`Audit::WritesWithObjects`].
    pub returned: Option<Value>,
}

impl AuditEvent {
    /// Whether the request changes something, when it succeeds.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Whether it was answered with success.
    pub fn succeeded(&self) -> bool {
        self.code.is_some_and(|code| (200..300).contains(&code))
    }
}

/// The policy file.
pub(super) fn policy(audit: Audit) -> String {
    let rules = match audit {
        Audit::Writes => format!("- {{level: Metadata, verbs: {WRITES}}}\n- {{level: None}}\n"),
        Audit::WritesWithObjects => format!("- {{level: RequestResponse, verbs: {WRITES}}}\n- {{level: None}}\n"),
        Audit::AllRequests => "- {level: Metadata}\n".to_owned(),
    };
    format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [ResponseStarted]\nomitManagedFields: true\nrules:\n{rules}")
}

/// The reader of one server's log.
pub(super) struct AuditLog {
    path: PathBuf,
    /// What was open here was never answered: the server was killed.
    killed_at: Mutex<u64>,
}

impl AuditLog {
    pub(super) fn new(path: PathBuf) -> AuditLog {
        AuditLog { path, killed_at: Mutex::new(0) }
    }

    /// The end of the log now.
    pub(super) fn mark(&self) -> Result<AuditMark> {
        let length = std::fs::metadata(&self.path).with_context(|| format!("reading {}", self.path.display()))?.len();
        Ok(AuditMark(length))
    }

    /// Says that the server was killed just now.
    pub(super) fn server_was_killed(&self) -> Result<()> {
        *self.killed_at.lock() = self.mark()?.0;
        Ok(())
    }

    /// All requests received since the mark, once those that were received by now are answered.
    pub(super) async fn since(&self, mark: AuditMark) -> Result<Vec<AuditEvent>> {
        let end = self.mark()?;
        eventually("all requests in the audit log to be answered", GENEROUS, || async {
            let records = read_records(&self.path, mark.0)?;
            let events = to_events(&records, end.0, *self.killed_at.lock());
            events.map_err(|open| anyhow::anyhow!("{open} is still open"))
        })
        .await
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    #[serde(rename = "auditID")]
    id: String,
    stage: String,
    verb: String,
    #[serde(default)]
    object_ref: ObjectRef,
    user: Account,
    #[serde(default)]
    user_agent: String,
    response_status: Option<Status>,
    request_object: Option<Value>,
    response_object: Option<Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct Status {
    code: Option<u16>,
}

/// The whole lines after a place, each with the place where it begins.
fn read_records(path: &Path, from: u64) -> Result<Vec<(u64, Record)>> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut bytes)).with_context(|| format!("reading {}", path.display()))?;
    ensure!(bytes.is_empty() || bytes.ends_with(b"\n"), "the last line of {} is being written", path.display());
    let mut place = from;
    let mut records = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let record = serde_json::from_slice(line).with_context(|| format!("line at byte {place} of {}", path.display()))?;
        records.push((place, record));
        place += line.len() as u64;
    }
    Ok(records)
}

/// Events received before `end`, or the description of one that is not answered yet. Below `killed_at`, no answer will come.
fn to_events(records: &[(u64, Record)], end: u64, killed_at: u64) -> Result<Vec<AuditEvent>, String> {
    let answers: std::collections::HashMap<&str, &Record> = records
        .iter()
        .map(|(_, record)| record)
        .filter(|record| record.stage != "RequestReceived")
        .map(|record| (record.id.as_str(), record))
        .collect();
    let received = records.iter().filter(|(place, record)| *place < end && record.stage == "RequestReceived");
    let to_event = |(place, record): &(u64, Record)| match answers.get(record.id.as_str()) {
        Some(answer) => Ok(event(answer)),
        // A watch is answered when it ends.
        None if *place < killed_at || record.verb == "watch" => Ok(event(record)),
        None => Err(format!("{} {} {}", record.verb, record.object_ref.resource, record.object_ref.name)),
    };
    received.map(to_event).collect()
}

fn event(record: &Record) -> AuditEvent {
    let object = record.object_ref.clone();
    AuditEvent {
        verb: record.verb.clone(),
        group: object.api_group,
        resource: object.resource,
        subresource: object.subresource,
        namespace: object.namespace,
        name: object.name,
        user: record.user.username.clone(),
        agent: record.user_agent.clone(),
        code: record.response_status.as_ref().and_then(|status| status.code),
        sent: record.request_object.clone(),
        returned: record.response_object.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn record(place: u64, id: &str, stage: &str, code: Option<u16>) -> (u64, Record) {
        let document = json!({
            "auditID": id, "stage": stage, "verb": "create", "user": {"username": "u"}, "userAgent": "a",
            "objectRef": {"resource": "pods", "namespace": "n", "name": id, "apiVersion": "v1"},
            "responseStatus": code.map(|code| json!({"metadata": {}, "code": code})),
        });
        (place, serde_json::from_value(document).unwrap())
    }

    #[test]
    fn events_are_in_the_order_of_receipt() {
        let records = [
            record(0, "x", "ResponseComplete", Some(200)),
            record(1, "a", "RequestReceived", None),
            record(2, "b", "RequestReceived", None),
            record(3, "b", "ResponseComplete", Some(201)),
            record(4, "a", "ResponseComplete", Some(409)),
        ];
        let events = to_events(&records, 5, 0).unwrap();
        let seen: Vec<(&str, Option<u16>)> = events.iter().map(|event| (event.name.as_str(), event.code)).collect();
        assert_eq!(seen, [("a", Some(409)), ("b", Some(201))]);
    }

    #[test]
    fn an_open_request_is_waited_for_unless_it_came_later_or_died() {
        let records = [record(1, "a", "RequestReceived", None)];
        assert_eq!(to_events(&records, 2, 0).unwrap_err(), "create pods a");
        assert!(to_events(&records, 1, 0).unwrap().is_empty());
        assert_eq!(to_events(&records, 2, 2).unwrap()[0].code, None);
    }
}
