//! Where a table is: its store, its folder there, and the names in it.
//!
//! Owns the spelling of log entries and data files in the object store and in
//! the log (a percent-encoded URI), and the kernel's view of the same store,
//! so that every byte of a table goes through Weir's storage.

use std::sync::Arc;

use bytes::Bytes;
use deltalake_core::logstore::{LogStoreRef, StorageConfig, default_logstore};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use url::Url;
use weir_core::storage::{Folder, failure};
use weir_core::{Error, Result};

use super::state::Fingerprint;

/// The folder of one Delta table.
#[derive(Clone, Debug)]
pub struct TableLocation {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    url: Url,
}

/// What a create-if-absent of a log entry came to.
#[derive(Debug)]
pub enum Put {
    /// The entry is ours.
    New(Fingerprint),
    /// Somebody has the version.
    Taken,
    /// No answer, or an error: it may or may not be there.
    InDoubt(object_store::Error),
}

impl TableLocation {
    /// A table in `folder`.
    pub fn in_folder(folder: &Folder) -> Self {
        Self::new(Arc::clone(folder.store()), folder.prefix().clone(), folder.url().clone())
    }

    /// A table under `prefix` of `store`; `url` names the same place.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, url: Url) -> Self {
        Self { store, prefix, url }
    }

    /// The canonical URL, without a trailing slash.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The URL with a trailing slash, as the kernel wants its table roots.
    pub fn root_url(&self) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/", self.url.path()));
        url
    }

    /// The whole name of what a name in the table's folder means, for messages.
    pub fn whole(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// The store that holds the table.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The same table as a log store of the Delta library.
    pub fn log_store(&self) -> LogStoreRef {
        let prefixed = Arc::new(PrefixStore::new(Arc::clone(&self.store), self.prefix.clone()));
        default_logstore(prefixed, Arc::clone(&self.store), &self.url, &StorageConfig::default())
    }

    /// The store's path of a name relative to the table's folder.
    pub fn path_of(&self, name: &str) -> Result<Path> {
        // `Path::join` would escape the percent signs of partition folders once more.
        Path::parse(format!("{}/{name}", self.prefix.as_ref())).map_err(|error| {
            Error::config("DELTA_INVALID_PATH", format!("the file name '{name}' cannot be used in {}", self.url)).with_source(error)
        })
    }

    /// Reads an object whole; `None` when there is none.
    pub async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.read_with_meta(name).await?.map(|(_, body)| body))
    }

    /// Reads an object whole, with what is known of it.
    pub async fn read_with_meta(&self, name: &str) -> Result<Option<(ObjectMeta, Bytes)>> {
        match self.store.get(&self.path_of(name)?).await {
            Ok(found) => {
                let meta = found.meta.clone();
                found.bytes().await.map(|body| Some((meta, body))).map_err(|e| self.failed("read", name, e))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", name, error)),
        }
    }

    /// What is known of an object; `None` when there is none.
    pub async fn head(&self, name: &str) -> Result<Option<ObjectMeta>> {
        match self.store.head(&self.path_of(name)?).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("look up", name, error)),
        }
    }

    /// Creates an object that must not exist yet.
    pub async fn create(&self, name: &str, body: Bytes) -> Result<Put> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let size = u64::try_from(body.len()).ok();
        Ok(match self.store.put_opts(&self.path_of(name)?, PutPayload::from_bytes(body), options).await {
            // A disk gives no tag with the write, only with a look.
            Ok(put) if put.e_tag.is_none() => match self.head(name).await {
                Ok(Some(meta)) => Put::New(Fingerprint::of(&meta)),
                _ => Put::New(Fingerprint { size, ..Fingerprint::default() }),
            },
            Ok(put) => Put::New(Fingerprint { size, e_tag: put.e_tag, modified: None }),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Put::Taken,
            Err(error) => Put::InDoubt(error),
        })
    }

    /// Deletes objects, best effort; says how many could not be deleted.
    pub async fn delete_quietly(&self, names: Vec<String>) -> usize {
        let mut left = 0;
        for name in names {
            let deleted = match self.path_of(&name) {
                Ok(path) => self.store.delete(&path).await.is_ok(),
                Err(_) => false,
            };
            left += usize::from(!deleted);
        }
        left
    }

    /// The names directly in the log folder.
    pub async fn log_names(&self) -> Result<Vec<String>> {
        match self.store.list_with_delimiter(Some(&self.path_of("_delta_log")?)).await {
            Ok(listed) => Ok(listed.objects.iter().filter_map(|o| o.location.filename()).map(str::to_owned).collect()),
            Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(self.failed("list", "_delta_log", error)),
        }
    }

    /// A retryable failure of the store.
    pub fn failed(&self, action: &str, name: &str, error: object_store::Error) -> Error {
        failure("STORAGE_FAILURE", format!("could not {action} {}/{name}", self.url), error)
    }
}

/// The name of the log entry of a version.
pub fn commit_name(version: u64) -> String {
    format!("_delta_log/{version:020}.json")
}

/// The version of a commit or checkpoint in the log folder.
pub fn version_of(name: &str) -> Option<u64> {
    let (digits, rest) = name.split_at_checked(20)?;
    let known = rest == ".json" || (rest.starts_with(".checkpoint.") && rest.len() > ".checkpoint.".len());
    known.then(|| digits.parse().ok()).flatten()
}

/// A relative file name as the log spells it: a URI path, encoded strictly
/// enough for `java.net.URI`.
pub fn encode_uri(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'/' | b'=' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'@' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_of_the_log() {
        assert_eq!(commit_name(12), "_delta_log/00000000000000000012.json");
        assert_eq!(version_of("00000000000000000012.json"), Some(12));
        assert_eq!(version_of("00000000000000000012.checkpoint.parquet"), Some(12));
        for other in ["_last_checkpoint", "00000000000000000012.crc", "x", "00000000000000000012.checkpoint.", "é0000000000000000012.json"]
        {
            assert_eq!(version_of(other), None, "{other}");
        }
    }

    #[test]
    fn file_names_are_encoded_once() {
        assert_eq!(encode_uri("k=x%2Fy z/part|ü.parquet"), "k=x%252Fy%20z/part%7C%C3%BC.parquet");
    }

    proptest::proptest! {
        #[test]
        fn what_is_encoded_is_the_same_object(name in "[^/\\x00-\\x1f\\x7f]{1,20}") {
            proptest::prop_assume!(name != "." && name != "..");
            let encoded = encode_uri(&format!("k={name}/file"));
            proptest::prop_assert!(encoded.is_ascii());
            let read = Path::from_url_path(&encoded).unwrap();
            proptest::prop_assert_eq!(read, Path::parse(format!("k={name}/file")).unwrap());
        }
    }
}
