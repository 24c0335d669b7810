//! The operator's key: 32 random bytes in a Secret of its own namespace.
//!
//! Made once, by create-if-absent, and read by whoever comes later, so all
//! replicas have the same one. Removing the Secret makes a new key at the next
//! start; pods that are running then refuse live settings until they restart.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::names::{LABEL_MANAGED_BY, MANAGED_BY};
use crate::rbac::KEY_SECRET;
use crate::token::{KEY_BYTES, OperatorKey};

/// Key in the Secret.
pub const KEY_ENTRY: &str = "key";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The right is missing.
    #[error("may not {verb} Secret {namespace}/{KEY_SECRET}: grant `{verb}` on secrets to the operator in namespace {namespace}")]
    Forbidden {
        /// get or create.
        verb: &'static str,
        /// The operator's.
        namespace: String,
    },
    /// Something else is in the Secret.
    #[error(
        "Secret {namespace}/{KEY_SECRET} has no entry `{KEY_ENTRY}` of {KEY_BYTES} bytes; remove the Secret and the operator makes a new one"
    )]
    Malformed {
        /// The operator's.
        namespace: String,
    },
    /// The API server did not do it.
    #[error("cannot {verb} Secret {namespace}/{KEY_SECRET}")]
    Failed {
        /// get or create.
        verb: &'static str,
        /// The operator's.
        namespace: String,
        /// What the client says.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Reads the key, or stores `fresh` where there is none.
pub async fn read_or_create(client: kube::Client, namespace: &str, fresh: [u8; KEY_BYTES]) -> Result<OperatorKey, KeyError> {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    if let Some(secret) = secrets.get_opt(KEY_SECRET).await.map_err(|error| failed("get", namespace, error))? {
        return key_of(&secret, namespace);
    }
    match secrets.create(&PostParams::default(), &secret_of(&fresh)).await {
        Ok(secret) => key_of(&secret, namespace),
        // Another replica was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let secret = secrets.get(KEY_SECRET).await.map_err(|error| failed("get", namespace, error))?;
            key_of(&secret, namespace)
        }
        Err(error) => Err(failed("create", namespace, error)),
    }
}

fn secret_of(key: &[u8; KEY_BYTES]) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(KEY_SECRET.to_owned()),
            labels: Some(BTreeMap::from([(LABEL_MANAGED_BY.to_owned(), MANAGED_BY.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(KEY_ENTRY.to_owned(), ByteString(key.to_vec()))])),
        immutable: Some(true),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn key_of(secret: &Secret, namespace: &str) -> Result<OperatorKey, KeyError> {
    let entry = secret.data.as_ref().and_then(|data| data.get(KEY_ENTRY));
    entry.and_then(|bytes| OperatorKey::from_slice(&bytes.0)).ok_or_else(|| KeyError::Malformed { namespace: namespace.to_owned() })
}

fn failed(verb: &'static str, namespace: &str, error: kube::Error) -> KeyError {
    let namespace = namespace.to_owned();
    match error {
        kube::Error::Api(status) if status.code == 403 => KeyError::Forbidden { verb, namespace },
        error => KeyError::Failed { verb, namespace, source: Box::new(error) },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_stored_key_is_read_back_and_others_are_refused() {
        let stored = secret_of(&[9; KEY_BYTES]);
        assert_eq!(key_of(&stored, "weir").unwrap(), OperatorKey::new([9; KEY_BYTES]));
        let short = Secret { data: Some(BTreeMap::from([(KEY_ENTRY.to_owned(), ByteString(vec![1]))])), ..Secret::default() };
        for secret in [short, Secret::default()] {
            assert!(matches!(key_of(&secret, "weir"), Err(KeyError::Malformed { .. })));
        }
    }

    #[test]
    fn a_missing_right_is_named() {
        let status = kube::core::Status::failure("no", "Forbidden").with_code(403).boxed();
        let error = failed("create", "weir", kube::Error::Api(status));
        assert_eq!(
            error.to_string(),
            "may not create Secret weir/weir-operator-key: grant `create` on secrets to the operator in namespace weir"
        );
    }
}
