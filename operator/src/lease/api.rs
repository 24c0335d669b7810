//! The three calls of leader election, on the real API or in a test's stead.

use std::future::Future;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::names::{LABEL_MANAGED_BY, MANAGED_BY};

/// Why a call did not give a record.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// 409: changed or made by another since it was read.
    #[error("the lease was changed by another")]
    Conflict,
    /// 404 of a replacement.
    #[error("the lease was removed by another")]
    Gone,
    /// Anything else; the call may have had its effect.
    #[error(
        "cannot {action} lease {name}: {source}; the operator needs get, create and update on leases of coordination.k8s.io in its namespace"
    )]
    Failed {
        /// get, create or replace.
        action: &'static str,
        /// Of the lease.
        name: String,
        /// What the client says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// One Lease object.
pub trait LeaseApi: Send + Sync {
    /// Reads it, uncached; None when it does not exist.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, LeaseError>> + Send;
    /// Makes it; [`LeaseError::Conflict`] when it exists.
    fn create(&self, spec: &LeaseSpec) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
    /// Replaces it under the `resourceVersion` that it carries.
    fn replace(&self, lease: &Lease) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
}

/// The real one.
#[derive(Clone)]
pub struct KubeLease {
    api: Api<Lease>,
    name: String,
}

impl KubeLease {
    /// The lease of this name in a namespace.
    pub fn new(client: kube::Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    fn error(&self, action: &'static str, error: kube::Error) -> LeaseError {
        match &error {
            kube::Error::Api(status) if status.code == 409 => LeaseError::Conflict,
            kube::Error::Api(status) if status.code == 404 && action == "replace" => LeaseError::Gone,
            _ => LeaseError::Failed { action, name: self.name.clone(), source: Box::new(error) },
        }
    }
}

impl LeaseApi for KubeLease {
    async fn get(&self) -> Result<Option<Lease>, LeaseError> {
        self.api.get_opt(&self.name).await.map_err(|error| self.error("get", error))
    }

    async fn create(&self, spec: &LeaseSpec) -> Result<Lease, LeaseError> {
        let labels = [(LABEL_MANAGED_BY.to_owned(), MANAGED_BY.to_owned())].into();
        let metadata = ObjectMeta { name: Some(self.name.clone()), labels: Some(labels), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(spec.clone()) };
        self.api.create(&PostParams::default(), &lease).await.map_err(|error| self.error("create", error))
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.api.replace(&self.name, &PostParams::default(), lease).await.map_err(|error| self.error("replace", error))
    }
}
