//! The API server: one method per call that the operator makes, and no other call anywhere.
//!
//! All reads go to the API server itself, never to a cache, because what is
//! read here authorises. Pods are created in one function and deleted in one,
//! with a UID precondition always; `.status` is written in one, with the
//! `resourceVersion` that was read. Decides nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Request, request};
use kube::{Client, Resource};
use serde_json::Value;

use crate::authority::Authority;
use crate::names::{GATE, JobId, MANAGER};
use crate::slim::Slim;
use crate::stored::StoredJob;

/// How many objects a page of a list has.
const PAGE: u32 = 100;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server answered with an error, or not at all.
    #[error("{call}: {source}")]
    Api {
        /// The call, for people.
        call: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// This process does not lead, so it may not write.
    #[error("{call}: not sent, because this process does not lead any more")]
    NotLeading {
        /// The call, for people.
        call: String,
    },
    /// No answer within the time that a call may take; what it did is unknown.
    #[error("{call}: no answer within {limit:?}")]
    Timeout {
        /// The call, for people.
        call: String,
        /// The limit.
        limit: Duration,
    },
}

impl CallError {
    /// The status that the API server answered with.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            CallError::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            CallError::Timeout { .. } | CallError::NotLeading { .. } => None,
        }
    }

    /// Somebody else wrote in between.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.is_conflict() && !status.is_already_exists())
    }

    /// The API server refused for good: a quota, an admission rule, an invalid object.
    pub fn is_refusal(&self) -> bool {
        self.status().is_some_and(|status| status.is_forbidden() || status.is_invalid() || status.code == 400)
    }

    /// There is no such object.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_not_found)
    }

    /// A right is missing.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_forbidden)
    }
}

/// What became of an order to create.
#[derive(Debug)]
pub enum Created<K> {
    /// It is there, and new.
    New(K),
    /// Something of that name was there already.
    Exists,
}

/// How an object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// With time to stop, at least a second.
    Seconds(u32),
    /// At once, without proof that its processes are over: only for a pod on a lost node that is fenced.
    Force,
}

/// What is known of a node.
#[derive(Debug)]
pub enum NodeLook {
    /// It is there.
    Found(Box<Node>),
    /// It is not there any more.
    Gone,
    /// The right to look is missing.
    Forbidden,
}

/// The API server as the operator uses it.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    call_timeout: Duration,
    authority: Authority,
}

impl Cluster {
    /// Over a client; a call that takes longer than `call_timeout` counts as failed.
    pub fn new(client: Client, call_timeout: Duration, authority: Authority) -> Cluster {
        Cluster { client, call_timeout, authority }
    }

    /// The client, for watches.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    fn job_api(&self, namespace: &str) -> Api<StoredJob> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn api<K>(&self, namespace: &str) -> Api<Slim<K>>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn call<T>(&self, call: &str, answer: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        match tokio::time::timeout(self.call_timeout, answer).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(CallError::Api { call: call.to_owned(), source: Box::new(source) }),
            Err(_) => Err(CallError::Timeout { call: call.to_owned(), limit: self.call_timeout }),
        }
    }

    /// A call that changes something: never sent by a process that does not lead at this very moment.
    async fn change<T>(&self, call: &str, answer: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        if !self.authority.holds() {
            return Err(CallError::NotLeading { call: call.to_owned() });
        }
        self.call(call, answer).await
    }

    /// A job as it is stored, with fields that this version does not know.
    pub async fn job(&self, namespace: &str, name: &str) -> Result<Option<StoredJob>, CallError> {
        self.call(&format!("get streamingjob {namespace}/{name}"), self.job_api(namespace).get_opt(name)).await
    }

    /// Writes `.status`; fails with a conflict when the job has changed since it was read.
    pub async fn write_status(&self, job: &StoredJob) -> Result<StoredJob, CallError> {
        self.put_status(job, by_manager()).await
    }

    /// What the API server would keep of a status; nothing is written.
    pub async fn try_status(&self, job: &StoredJob) -> Result<StoredJob, CallError> {
        self.put_status(job, PostParams { dry_run: true, ..by_manager() }).await
    }

    /// The only place that writes `.status`.
    async fn put_status(&self, job: &StoredJob, parameters: PostParams) -> Result<StoredJob, CallError> {
        let (namespace, name) = place(&job.object.metadata);
        let api = self.job_api(&namespace);
        self.change(&format!("put status of streamingjob {namespace}/{name}"), api.replace_status(&name, &parameters, job)).await
    }

    /// Changes finalizers and annotations of a job; the patch carries the `resourceVersion` that was read.
    pub async fn patch_metadata(&self, namespace: &str, name: &str, metadata: &Value) -> Result<StoredJob, CallError> {
        let patch = serde_json::json!({"metadata": metadata});
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.job_api(namespace);
        let call = format!("patch metadata of streamingjob {namespace}/{name}");
        self.change(&call, api.patch(name, &parameters, &Patch::Merge(&patch))).await
    }

    /// The pods that carry the job's label; whose they are the caller judges by owner.
    pub async fn pods(&self, job: &JobId) -> Result<Vec<Pod>, CallError> {
        let api = self.api::<Pod>(&job.namespace);
        let parameters = ListParams::default().labels(&job.selector());
        let call = format!("list pods of streamingjob {}/{}", job.namespace, job.name);
        Ok(self.call(&call, api.list(&parameters)).await?.items.into_iter().map(|Slim(object)| object).collect())
    }

    /// One pod.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, CallError> {
        self.call(&format!("get pod {namespace}/{name}"), self.api::<Pod>(namespace).get_opt(name)).await.map(bare)
    }

    /// Creates a pod. The only place that does.
    pub async fn create_pod(&self, pod: &Pod) -> Result<Created<Pod>, CallError> {
        let (namespace, name) = place(&pod.metadata);
        let answer = self
            .change(&format!("create pod {namespace}/{name}"), self.api::<Pod>(&namespace).create(&by_manager(), &Slim(pod.clone())))
            .await;
        existing(answer)
    }

    /// Takes our gate from the pod of this very UID, so that it may be scheduled; gates of others stay.
    pub async fn release_pod(&self, pod: &Pod) -> Result<(), CallError> {
        let (namespace, name) = place(&pod.metadata);
        let gates = serde_json::json!([{"$patch": "delete", "name": GATE}]);
        let patch = serde_json::json!({"metadata": {"uid": pod.metadata.uid}, "spec": {"schedulingGates": gates}});
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.api::<Pod>(&namespace);
        unless_gone(self.change(&format!("patch pod {namespace}/{name}"), api.patch(&name, &parameters, &Patch::Strategic(&patch))).await)
    }

    /// Deletes the pod of this very UID. The only place that does. One that is gone, or has made way for another, is no error.
    /// The answer shows the pod as it is now or was at last, unless no reader takes it.
    pub async fn delete_pod(&self, pod: &Pod, grace: Grace) -> Result<Option<Pod>, CallError> {
        let (namespace, name) = place(&pod.metadata);
        let seconds = match grace {
            Grace::Seconds(seconds) => seconds.max(1),
            Grace::Force => 0,
        };
        let parameters = DeleteParams { grace_period_seconds: Some(seconds), ..by_uid(&pod.metadata) };
        let request = requests_for::<Pod>(&namespace).delete(&name, &parameters);
        let answer = self.change(&format!("delete pod {namespace}/{name}"), self.send(request)).await;
        let shown = answer.as_ref().ok().and_then(|text| serde_json::from_str::<Slim<Pod>>(text).ok()).map(|Slim(shown)| shown);
        unless_gone(answer)?;
        Ok(shown.filter(|shown| shown.metadata.uid.is_some() && shown.metadata.uid == pod.metadata.uid))
    }

    /// Sends a request whose answer need not be read: it may show an object that no reader takes.
    async fn send(&self, request: Result<http::Request<Vec<u8>>, request::Error>) -> kube::Result<String> {
        self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// A node.
    pub async fn node(&self, name: &str) -> Result<NodeLook, CallError> {
        let api: Api<Slim<Node>> = Api::all(self.client.clone());
        match self.call(&format!("get node {name}"), api.get_opt(name)).await {
            Ok(Some(Slim(node))) => Ok(NodeLook::Found(Box::new(node))),
            Ok(None) => Ok(NodeLook::Gone),
            Err(error) if error.is_forbidden() => Ok(NodeLook::Forbidden),
            Err(error) => Err(error),
        }
    }

    /// One ConfigMap.
    pub async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<ConfigMap>, CallError> {
        self.call(&format!("get configmap {namespace}/{name}"), self.api::<ConfigMap>(namespace).get_opt(name)).await.map(bare)
    }

    /// The ConfigMaps that carry the job's label, page by page and without their contents: anybody can make many, as large as
    /// they like.
    pub async fn config_maps(&self, job: &JobId) -> Result<Vec<ObjectMeta>, CallError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &job.namespace);
        let mut parameters = ListParams::default().labels(&job.selector()).limit(PAGE);
        let call = format!("list configmaps of streamingjob {}/{}", job.namespace, job.name);
        let mut found = Vec::new();
        loop {
            let page = self.call(&call, api.list_metadata(&parameters)).await?;
            found.extend(page.items.into_iter().map(|map| ObjectMeta { annotations: None, managed_fields: None, ..map.metadata }));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// Creates a ConfigMap.
    pub async fn create_config_map(&self, map: &ConfigMap) -> Result<Created<ConfigMap>, CallError> {
        let (namespace, name) = place(&map.metadata);
        let api = self.api::<ConfigMap>(&namespace);
        existing(self.change(&format!("create configmap {namespace}/{name}"), api.create(&by_manager(), &Slim(map.clone()))).await)
    }

    /// Deletes the ConfigMap of this very UID.
    pub async fn delete_config_map(&self, map: &ObjectMeta) -> Result<(), CallError> {
        let (namespace, name) = place(map);
        let request = requests_for::<ConfigMap>(&namespace).delete(&name, &by_uid(map));
        unless_gone(self.change(&format!("delete configmap {namespace}/{name}"), self.send(request)).await)
    }

    /// One Secret.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, CallError> {
        self.call(&format!("get secret {namespace}/{name}"), self.api::<Secret>(namespace).get_opt(name)).await.map(bare)
    }
}

fn place(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The parameters of creations and of writes of status: who does it.
fn by_manager() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

fn by_uid(metadata: &ObjectMeta) -> DeleteParams {
    // No UID matches none, which is safer than a precondition that is left out.
    let uid = metadata.uid.clone().unwrap_or_default();
    let preconditions = Preconditions { uid: Some(uid), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

fn bare<K>(found: Option<Slim<K>>) -> Option<K> {
    found.map(|Slim(object)| object)
}

fn existing<K>(answer: Result<Slim<K>, CallError>) -> Result<Created<K>, CallError> {
    match answer {
        Ok(Slim(object)) => Ok(Created::New(object)),
        Err(error) if error.status().is_some_and(kube::core::Status::is_already_exists) => Ok(Created::Exists),
        Err(error) => Err(error),
    }
}

/// What was to change may be gone, or may have made way for another.
fn unless_gone<T>(answer: Result<T, CallError>) -> Result<(), CallError> {
    match answer {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Requests for one kind of object in a namespace.
fn requests_for<K: Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace)))
}
