//! Puts custom resource definitions into the API server and waits until it serves them.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::Value;

use super::{ControlPlane, User};
use crate::wait::{GENEROUS, eventually};

const MANAGER: &str = "weir-tests";

impl ControlPlane {
    /// Applies Weir's own CRD.
    pub async fn install_crd(&self) -> Result<()> {
        self.apply_crd(&weir_crds::resource::crd_yaml()).await
    }

    /// Applies a CRD (server-side, by force), waits until it is established and until every served version can be listed.
    pub async fn apply_crd(&self, yaml: &str) -> Result<()> {
        let document: Value = serde_yaml_ng::from_str(yaml).context("reading the CRD")?;
        let name = document["metadata"]["name"].as_str().context("the CRD has no metadata.name")?;
        let client = self.client(User::Admin).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let applied = definitions.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&document)).await;
        let applied = applied.with_context(|| format!("applying the CRD {name}"))?;
        eventually(&format!("the CRD {name} to be established"), GENEROUS, || async {
            let found = definitions.get(name).await?;
            let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
            let holds = conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True");
            ensure!(holds, "its conditions are {conditions:?}");
            Ok(())
        })
        .await?;
        for version in applied.spec.versions.iter().filter(|version| version.served) {
            let kind = GroupVersionKind::gvk(&applied.spec.group, &version.name, &applied.spec.names.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &applied.spec.names.plural);
            let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            eventually(&format!("{name} {} to be served", version.name), GENEROUS, || async {
                Ok(objects.list(&ListParams::default().limit(1)).await?)
            })
            .await?;
        }
        Ok(())
    }
}
