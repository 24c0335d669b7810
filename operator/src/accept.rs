//! Which generation of a manifest is in force.
//!
//! The newest one that passed every check: parsed, an edit that moves no
//! checkpoint, allowed references, and `weir check`. An accepted generation is
//! an immutable ConfigMap before any pod uses it, so it is also the record of
//! the acceptance: a pass that died after writing it finds it again, and a
//! rejected edit never stops the last good generation from being restarted. It
//! is sealed, because others may write ConfigMaps and pods are made from it.
//! A name that something else holds is told and waited for, never taken.
//! Pure: looking things up and running the check are the caller's.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde_json::Value;
use weir_crds::StreamingJob;
use weir_crds::checkpoint::{checkpoint_location, normalized_location};
use weir_crds::finding::Finding;
use weir_crds::resource::{OnChangeSpec, OptionsFromSpec, StreamingJobSpec, edit_problems};
use weir_supervisor::conditions::Reason;
use weir_supervisor::generation::Accepted;
use weir_supervisor::memory::SpecMark;

use crate::build::{self, ACCEPTED_KEY, BuildError, DOCUMENT_KEY};
use crate::names::{self, JobId};
use crate::paths;
use crate::rbac::SecretAccess;
use crate::token::{self, OperatorKey};

/// When to look again at what an earlier job of the name left; it is as good as gone.
const LEFT_OVER: Duration = Duration::from_secs(2);
/// When to look again at what is foreign.
const FOREIGN: Duration = Duration::from_secs(30);

/// Why a generation is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason of the `Accepted` condition.
    pub reason: Reason,
    /// What is wrong, for people.
    pub message: String,
}

impl Refusal {
    /// A manifest that is wrong in itself.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal { reason: Reason::SpecInvalid, message: message.into() }
    }
}

/// The generation that an edit follows.
#[derive(Clone, Copy, Debug)]
pub enum Predecessor<'a> {
    /// There is none, or nothing is known of it.
    None,
    /// As it was recorded.
    Kept(&'a Accepted),
    /// No record proves it; the memory has its mark.
    Lost(&'a SpecMark),
}

/// Digest of what two specs have alike that are no forbidden edit of each other, whatever else is in them: each query's place.
/// Where the older spec is lost, it tells whether the newer may follow it.
pub fn places(id: &JobId, spec: &StreamingJobSpec) -> String {
    let job = StreamingJob::in_namespace(&id.namespace, &id.name, spec.clone());
    let queries = job.spec.tasks.iter().flat_map(|task| task.queries.iter().map(move |query| (&task.name, query)));
    let mut places: Vec<String> = queries
        .map(|(task, query)| {
            let place = checkpoint_location(&job, task, query).map(|location| normalized_location(&location));
            format!("{:?}", (task, &query.name, place, query.checkpoint_reset_nonce))
        })
        .collect();
    places.sort_unstable();
    token::short(&places.join("\n"), 0)
}

/// Everything that can be refused without running the check.
pub fn refusal(id: &JobId, before: Predecessor<'_>, spec: &StreamingJobSpec, secrets: SecretAccess) -> Option<Refusal> {
    if let Err(error) = spec.policy() {
        return Some(Refusal::invalid(error.to_string()));
    }
    if let Some(problem) = paths::problem(spec, &id.namespace, &id.name) {
        return Some(Refusal::invalid(problem));
    }
    if let Some(refusal) = refused_edit(id, before, spec) {
        return Some(refusal);
    }
    let secret = watched_references(spec).find_map(|reference| reference.secret_ref.as_ref());
    match (secret, secrets) {
        (Some(secret), SecretAccess::None) => Some(Refusal {
            reason: Reason::ReferenceNotPermitted,
            message: format!(
                "onChange: Restart on the Secret {} needs an operator that may read Secrets: install it with --watch-secrets and its \
                 rights, or write onChange: Ignore",
                secret.name
            ),
        }),
        _ => None,
    }
}

/// An edit that would move a checkpoint, or of which nobody can tell that it does not.
fn refused_edit(id: &JobId, before: Predecessor<'_>, spec: &StreamingJobSpec) -> Option<Refusal> {
    match before {
        Predecessor::None => None,
        Predecessor::Kept(accepted) => {
            let named = |spec| StreamingJob::in_namespace(&id.namespace, &id.name, spec);
            let found = edit_problems(&named(accepted.spec.clone()), &named(spec.clone()));
            let sentences: Vec<String> = found.iter().map(Finding::sentence).collect();
            (!found.is_empty()).then(|| Refusal::invalid(sentences.join("; ")))
        }
        Predecessor::Lost(known) if known.places == places(id, spec) => None,
        Predecessor::Lost(known) => {
            let remedy = if known.places.is_empty() {
                "might move a checkpoint: delete the job and apply it anew, its checkpoints are kept"
            } else {
                "changes which queries there are or where a checkpoint is: first apply the manifest with the queries, checkpoint locations \
                 and checkpointResetNonces of then, after that this edit"
            };
            let (generation, map) = (known.generation, names::generation_name(&id.name, known.generation));
            let message = format!(
                "generation {generation} is in force, its ConfigMap {map} is gone or does not bear the seal of this operator, and this edit {remedy}"
            );
            Some(Refusal { reason: Reason::GenerationLost, message })
        }
    }
}

/// References of a spec whose change restarts their task.
pub fn watched_references(spec: &StreamingJobSpec) -> impl Iterator<Item = &OptionsFromSpec> {
    spec.tasks.iter().flat_map(task_references)
}

/// References of one task whose change restarts it.
pub fn task_references(task: &weir_crds::resource::TaskSpec) -> impl Iterator<Item = &OptionsFromSpec> {
    let all = task.queries.iter().flat_map(|query| query.options_from().flat_map(|(_, from)| from));
    all.filter(|reference| reference.on_change == OnChangeSpec::Restart)
}

/// The ConfigMap of an accepted generation, sealed. The spec stands in its document alone.
pub fn record(key: &OperatorKey, id: &JobId, accepted: &Accepted) -> Result<ConfigMap, BuildError> {
    let document = build::job_document(&id.name, &id.namespace, &accepted.spec, &BTreeMap::new());
    let mut record = serde_json::to_value(accepted).unwrap_or_default();
    if let Some(fields) = record.as_object_mut() {
        fields.remove("spec");
    }
    let mut map = build::generation_config_map(id, accepted.generation, &document, &record)?;
    let seal = seal(key, id, &map).unwrap_or_default();
    map.metadata.annotations = Some(BTreeMap::from([(names::SEAL.to_owned(), seal)]));
    Ok(map)
}

/// The seal that a ConfigMap of ours has.
fn seal(key: &OperatorKey, id: &JobId, map: &ConfigMap) -> Option<String> {
    let data = map.data.as_ref()?;
    Some(token::seal(key, &id.uid, map.metadata.name.as_deref()?, &[data.get(DOCUMENT_KEY)?, data.get(ACCEPTED_KEY)?]))
}

/// The record in a ConfigMap of ours. Whoever may write ConfigMaps can make one that looks like it, so only the seal of this
/// installation's key says that the generation was checked.
pub fn recorded(key: &OperatorKey, id: &JobId, map: &ConfigMap) -> Option<Accepted> {
    let sealed = map.metadata.annotations.as_ref().and_then(|annotations| annotations.get(names::SEAL));
    if !id.owns(&map.metadata) || sealed.is_none() || sealed != seal(key, id, map).as_ref() {
        return None;
    }
    let data = map.data.as_ref()?;
    let mut record: Value = serde_json::from_str(data.get(ACCEPTED_KEY)?).ok()?;
    let mut document: Value = serde_json::from_str(data.get(DOCUMENT_KEY)?).ok()?;
    record.as_object_mut()?.insert("spec".to_owned(), document["spec"].take());
    Accepted::deserialize(record).ok()
}

/// Something else has the name of a generation's ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Whose it is and what to do, for people.
    pub message: String,
    /// When to look again; nobody watches it.
    pub look_again: Duration,
}

impl Taken {
    /// The verdict on a generation that cannot be stored.
    pub fn refusal(self) -> Refusal {
        Refusal { reason: Reason::OwnershipConflict, message: self.message }
    }
}

/// What looks like a generation, does not bear the seal and does not go, because somebody holds it or makes it anew.
pub fn unsealed(map: &ConfigMap) -> Taken {
    let name = map.metadata.name.as_deref().unwrap_or_default();
    let message = format!(
        "the ConfigMap {name}, which this job needs, does not bear the seal of this operator and stays although it was deleted; take away \
         its finalizers, or stop what makes it"
    );
    Taken { message, look_again: FOREIGN }
}

/// Whether the ConfigMap at a generation's name belongs to somebody else: to an earlier job of this name, which is let
/// go of, or to something foreign.
pub fn taken(id: &JobId, map: &ConfigMap) -> Option<Taken> {
    if id.owns(&map.metadata) {
        return None;
    }
    let name = map.metadata.name.as_deref().unwrap_or_default();
    let owner = names::controller(&map.metadata);
    let is_predecessor =
        |owner: &OwnerReference| owner.kind == "StreamingJob" && owner.api_version.starts_with("weir.dev/") && owner.name == id.name;
    Some(match owner {
        Some(owner) if is_predecessor(owner) => Taken {
            message: format!(
                "the ConfigMap {name} is left from an earlier job of this name (UID {}) and is waited for; where no garbage collector removes \
                 it, delete it",
                owner.uid
            ),
            look_again: LEFT_OVER,
        },
        _ => {
            let whose = owner.map_or_else(|| "has no owner".to_owned(), |owner| format!("belongs to {} {}", owner.kind, owner.name));
            let message = format!(
                "the ConfigMap {name}, which this job needs, {whose}, is not Weir's and is left alone; remove it, or rename the job"
            );
            Taken { message, look_again: FOREIGN }
        }
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn map_of(owner: Option<OwnerReference>) -> ConfigMap {
        let owner_references = owner.map(|owner| vec![owner]);
        let metadata = ObjectMeta { name: Some("j-g1".to_owned()), owner_references, ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    #[test]
    fn only_what_this_installation_has_sealed_under_its_name_counts_as_accepted() {
        let id = |uid: &str| JobId { namespace: "n".to_owned(), name: "j".to_owned(), uid: uid.to_owned() };
        let (key, other) = (OperatorKey::new([7; 32]), OperatorKey::new([8; 32]));
        let accepted = Accepted::first(3, StreamingJobSpec::without_tasks());
        let map = record(&key, &id("u"), &accepted).expect("a record");
        assert_eq!(recorded(&key, &id("u"), &map), Some(accepted));
        let changed = |change: &dyn Fn(&mut ConfigMap)| {
            let mut map = map.clone();
            change(&mut map);
            map
        };
        let edited = |entry: &'static str| {
            changed(&move |map| {
                let data = map.data.as_mut().expect("data");
                data.get_mut(entry).expect("an entry").push(' ');
            })
        };
        let renamed = changed(&|map| map.metadata.name = Some("j-g9".to_owned()));
        let unsealed = changed(&|map| map.metadata.annotations = None);
        for forged in [edited(DOCUMENT_KEY), edited(ACCEPTED_KEY), renamed, unsealed] {
            assert_eq!(recorded(&key, &id("u"), &forged), None, "{forged:?}");
        }
        assert_eq!((recorded(&other, &id("u"), &map), recorded(&key, &id("v"), &map)), (None, None));
    }

    #[test]
    fn an_edit_is_judged_by_the_record_of_its_predecessor_or_by_what_the_memory_knows_of_it() {
        let id = JobId { namespace: "n".to_owned(), name: "j".to_owned(), uid: "u".to_owned() };
        let spec = |root: &str, sql: &str| -> StreamingJobSpec {
            let query = serde_json::json!({"name": "q", "sources": [], "sql": sql, "sink": {"format": "noop"}});
            let tasks = serde_json::json!([{"name": "t", "queries": [query]}]);
            serde_json::from_value(serde_json::json!({"trigger": {"continuous": {}}, "checkpointRoot": root, "tasks": tasks}))
                .expect("a spec")
        };
        let kept = Accepted::first(3, spec("s3://b/c", "SELECT 1"));
        let known = |places: String| SpecMark { generation: 3, run_hash: "r".to_owned(), tasks: BTreeMap::new(), places };
        let (mark, old) = (known(places(&id, &kept.spec)), known(String::new()));
        assert!(mark.places.len() < 64);
        let (harmless, moved) = (spec("s3a://b/c/", "SELECT 2"), spec("s3://b/d", "SELECT 1"));
        for (before, edit, expected) in [
            (Predecessor::None, &moved, None),
            (Predecessor::Kept(&kept), &harmless, None),
            (Predecessor::Kept(&kept), &moved, Some((Reason::SpecInvalid, "would move from s3://b/c/n/j/t/q"))),
            (Predecessor::Lost(&mark), &harmless, None),
            (Predecessor::Lost(&mark), &moved, Some((Reason::GenerationLost, "ConfigMap j-g3 is gone or does not bear the seal"))),
            (Predecessor::Lost(&mark), &moved, Some((Reason::GenerationLost, "first apply the manifest with the queries"))),
            (Predecessor::Lost(&old), &harmless, Some((Reason::GenerationLost, "delete the job and apply it anew"))),
        ] {
            let found = refusal(&id, before, edit, SecretAccess::None);
            assert_eq!(found.as_ref().map(|refusal| refusal.reason), expected.map(|(reason, _)| reason), "{before:?} {found:?}");
            assert!(expected.is_none_or(|(_, words)| found.is_some_and(|refusal| refusal.message.contains(words))), "{expected:?}");
        }
    }

    #[test]
    fn a_name_is_ours_a_predecessors_or_foreign() {
        let id = |uid: &str| JobId { namespace: "n".to_owned(), name: "j".to_owned(), uid: uid.to_owned() };
        let own = id("u-2").owner_reference();
        let earlier = id("u-1").owner_reference();
        assert_eq!(taken(&id("u-2"), &map_of(Some(own))), None);
        let left = taken(&id("u-2"), &map_of(Some(earlier.clone()))).map(|taken| (taken.look_again, taken.message.contains("UID u-1")));
        assert_eq!(left, Some((LEFT_OVER, true)));
        let other_job = OwnerReference { name: "k".to_owned(), ..earlier.clone() };
        let other_kind = OwnerReference { api_version: "apps/v1".to_owned(), kind: "ReplicaSet".to_owned(), ..earlier.clone() };
        let not_controlling = OwnerReference { controller: None, ..earlier };
        for owner in [None, Some(other_job), Some(other_kind), Some(not_controlling)] {
            let found = taken(&id("u-2"), &map_of(owner.clone())).map(|taken| (taken.look_again, taken.message.contains("not Weir's")));
            assert_eq!(found, Some((FOREIGN, true)), "{owner:?}");
        }
    }
}
