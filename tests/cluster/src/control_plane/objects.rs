//! What a bare API server does not make by itself: namespaces with their service account, and tokens for service accounts.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};

use super::{ControlPlane, User};
use crate::wait::{GENEROUS, eventually};

impl ControlPlane {
    /// Creates a namespace of this name, with the `default` service account that pods need.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client(User::Admin).await?);
        let namespace = Namespace { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..Namespace::default() };
        namespaces.create(&PostParams::default(), &namespace).await.with_context(|| format!("creating namespace {name}"))?;
        self.service_account(name, "default").await
    }

    /// Creates a namespace that no other test uses and returns its name.
    pub async fn new_namespace(&self, prefix: &str) -> Result<String> {
        let name = weir_testkit::unique_name(prefix);
        self.namespace(&name).await?;
        Ok(name)
    }

    /// Creates a service account; it may be there already.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(User::Admin).await?, namespace);
        let account =
            ServiceAccount { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ServiceAccount::default() };
        match accounts.create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            created => created.map(|_| ()).with_context(|| format!("creating service account {namespace}/{name}")),
        }
    }

    /// A kubeconfig with a real token (one hour) of a service account that exists.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(User::Admin).await?, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() }),
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let answer = answer.with_context(|| format!("asking for a token of service account {namespace}/{name}"))?;
        let token = answer.status.and_then(|status| status.token).context("the API server returned no token")?;
        self.kubeconfigs.write_one(&format!("{namespace}-{name}"), &token)
    }

    /// The API server makes the namespace `default` some time after it is ready.
    pub(super) async fn prepare_namespaces(&self) -> Result<()> {
        eventually("the namespace `default`", GENEROUS, || self.service_account("default", "default")).await
    }
}
