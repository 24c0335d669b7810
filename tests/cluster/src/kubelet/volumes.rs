//! Volumes of a pod as folders: ConfigMap, Secret, emptyDir, projected, downward API, hostPath and claims.
//!
//! Contents are read once, when the pod starts; what is missing and not
//! optional keeps the pod waiting, as with a real kubelet. A claim is a folder
//! of the whole kubelet, so that it outlives a pod. Later changes of a
//! ConfigMap do not arrive.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccount, Volume, VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::environment::{Mount, expand, field};

/// What mounting needs to know.
pub struct Mounting<'a> {
    pub client: &'a Client,
    pub pod: &'a Pod,
    pub node: &'a str,
    pub ip: Ipv4Addr,
    /// The pod's own folder.
    pub folder: &'a Path,
    /// Folder of the claims of all pods.
    pub claims: &'a Path,
}

impl Mounting<'_> {
    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or("default")
    }

    /// Makes every volume; the folder of each by name.
    pub async fn volumes(&self) -> Result<BTreeMap<String, PathBuf>> {
        let mut places = BTreeMap::new();
        for volume in self.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let place = self.volume(volume).await.with_context(|| format!("volume {}", volume.name))?;
            places.insert(volume.name.clone(), place);
        }
        Ok(places)
    }

    async fn volume(&self, volume: &Volume) -> Result<PathBuf> {
        if let Some(host) = &volume.host_path {
            return Ok(PathBuf::from(&host.path));
        }
        if let Some(claim) = &volume.persistent_volume_claim {
            let place = self.claims.join(self.namespace()).join(&claim.claim_name);
            fs::create_dir_all(&place)?;
            return Ok(place);
        }
        let place = self.folder.join("volumes").join(&volume.name);
        fs::create_dir_all(&place)?;
        let mut files = BTreeMap::new();
        if let Some(source) = &volume.config_map {
            files = chosen(self.config_map(&source.name, source.optional).await?, source.items.as_deref())?;
        } else if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            files = chosen(self.secret(name, source.optional).await?, source.items.as_deref())?;
        } else if let Some(source) = &volume.downward_api {
            files = self.downward(source.items.as_deref())?;
        } else if let Some(source) = &volume.projected {
            for projection in source.sources.iter().flatten() {
                files.extend(self.projection(projection).await?);
            }
        } else if volume.empty_dir.is_none() {
            bail!("this kubelet does not know its kind");
        }
        for (name, content) in files {
            let path = place.join(name);
            fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
            fs::write(&path, content)?;
        }
        Ok(place)
    }

    async fn projection(&self, projection: &VolumeProjection) -> Result<BTreeMap<String, Vec<u8>>> {
        if let Some(source) = &projection.config_map {
            return chosen(self.config_map(&source.name, source.optional).await?, source.items.as_deref());
        }
        if let Some(source) = &projection.secret {
            return chosen(self.secret(&source.name, source.optional).await?, source.items.as_deref());
        }
        if let Some(source) = &projection.downward_api {
            return self.downward(source.items.as_deref());
        }
        if let Some(source) = &projection.service_account_token {
            let account = self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
            let spec = TokenRequestSpec {
                audiences: source.audience.clone().map(|audience| vec![audience]),
                expiration_seconds: source.expiration_seconds,
                bound_object_ref: None,
            };
            let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace());
            let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
            let token = accounts.create_token_request(account, &PostParams::default(), &request).await?;
            let token = token.status.and_then(|status| status.token).context("a token request is answered with a token")?;
            return Ok(BTreeMap::from([(source.path.clone(), token.into_bytes())]));
        }
        bail!("this kubelet does not know the projection")
    }

    /// All keys of a ConfigMap; none when it is missing and optional.
    pub async fn config_map(&self, name: &str, optional: Option<bool>) -> Result<BTreeMap<String, Vec<u8>>> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace());
        let found = required(api.get_opt(name).await?, optional, || format!("configmap \"{name}\" not found"))?;
        let text = found.data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes()));
        Ok(text.chain(found.binary_data.into_iter().flatten().map(|(key, value)| (key, value.0))).collect())
    }

    /// All keys of a Secret; none when it is missing and optional.
    pub async fn secret(&self, name: &str, optional: Option<bool>) -> Result<BTreeMap<String, Vec<u8>>> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace());
        let found = required(api.get_opt(name).await?, optional, || format!("secret \"{name}\" not found"))?;
        Ok(found.data.into_iter().flatten().map(|(key, value)| (key, value.0)).collect())
    }

    fn downward(&self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<BTreeMap<String, Vec<u8>>> {
        let items = items.unwrap_or_default().iter();
        items
            .map(|item| {
                let path = item.field_ref.as_ref().map(|field| field.field_path.as_str()).unwrap_or_default();
                let value = field(self.pod, self.node, self.ip, path).ok_or_else(|| anyhow!("unknown field {path:?}"))?;
                Ok((item.path.clone(), value.into_bytes()))
            })
            .collect()
    }
}

fn required<T: Default>(found: Option<T>, optional: Option<bool>, missing: impl FnOnce() -> String) -> Result<T> {
    match found {
        Some(found) => Ok(found),
        None if optional == Some(true) => Ok(T::default()),
        None => Err(anyhow!(missing())),
    }
}

/// The keys that `items` asks for, under their paths; all keys without it.
fn chosen(mut keys: BTreeMap<String, Vec<u8>>, items: Option<&[KeyToPath]>) -> Result<BTreeMap<String, Vec<u8>>> {
    let Some(items) = items else { return Ok(keys) };
    let chosen = items.iter().map(|item| {
        let value = keys.remove(&item.key).ok_or_else(|| anyhow!("references non-existent config key: {}", item.key))?;
        Ok((item.path.clone(), value))
    });
    chosen.collect()
}

/// The mounts of a container, with the file of its termination message.
pub fn mounts(
    container: &Container,
    places: &BTreeMap<String, PathBuf>,
    variables: &BTreeMap<String, String>,
    termination: &Path,
) -> Vec<Mount> {
    let volumes = container.volume_mounts.iter().flatten().filter_map(|mount| {
        let place = places.get(&mount.name)?;
        let sub_path = mount.sub_path_expr.as_ref().map(|path| expand(path, variables)).or_else(|| mount.sub_path.clone());
        let place = sub_path.map_or_else(|| place.clone(), |path| place.join(path));
        Some(Mount { point: mount.mount_path.clone(), place })
    });
    let point = container.termination_message_path.clone().unwrap_or_else(|| "/dev/termination-log".to_owned());
    volumes.chain([Mount { point, place: termination.to_owned() }]).collect()
}
