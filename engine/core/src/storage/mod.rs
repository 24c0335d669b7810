//! Where checkpoints, logs and files live: one way to open a location.
//!
//! Owns the mapping from a user's path (`/data/x`, `file:///data/x`,
//! `s3://bucket/x`) to an object store and a prefix in it, the canonical
//! spelling of a location, and create-if-absent, the one primitive that the
//! protocol rests on. On local disks it is durable (`local`); object stores
//! are durable by nature, and `insist` asks them again when an answer got lost. `links` tells when two paths of a disk
//! are one, `obstacles` what is there in place of a file.
//!
//! Does not know what is stored: that is `log`, the sources and the sinks.

mod insist;
mod links;
mod local;
mod obstacles;
mod walk;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions, PutPayload};
use url::Url;

pub use local::{Durability, DurableLocal};

use self::insist::Insistent;
use crate::error::{Error, Result};

/// Refusals of an object that is not there.
const BLIND_REFUSALS: u32 = 10;
/// The most that is read of a log into memory; a compaction of some million files is smaller.
const MOST_BYTES: u64 = 1 << 30;
/// The most that is read of a file of which there is not much to say: a plan over a hundred thousand partitions is smaller.
const FEW_BYTES: u64 = 64 << 20;
/// The wait after the second of them; each further one is longer.
const BLIND_PAUSE: Duration = Duration::from_millis(10);

/// What to do about something that is not what Weir writes.
const PUT_RIGHT: &str = "take it away, and restore what was there from a copy, or start a new checkpoint at a new checkpointLocation with a \
                         changed checkpointResetNonce";

/// A folder in some store, and the operations the protocol needs on it.
#[derive(Clone, Debug)]
pub struct Folder {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    url: Url,
    is_sealed: bool,
}

/// What a create-if-absent came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The object is ours and durable.
    New,
    /// It is there: somebody created it before, or this very call did and its first answer got lost. In a remote store it
    /// may also be that somebody else's write was under way at the same moment, and nothing is there.
    AlreadyExists,
}

/// Opens folders; shares one client per store root.
#[derive(Clone, Debug)]
pub struct Storage {
    durability: Durability,
    is_sealed: bool,
}

impl Storage {
    /// A way to open folders; `durability` matters on local disks only.
    pub fn new(durability: Durability) -> Self {
        Self { durability, is_sealed: false }
    }

    /// A way to open folders of an empty world: any location may be there, none holds anything, and neither a disk nor a
    /// service is touched. For judging what somebody wrote who may not see what this process may.
    pub fn sealed() -> Self {
        Self { durability: Durability::PageCache, is_sealed: true }
    }

    /// The spelling under which locations are compared: canonical, and on a disk that may be looked at with links followed as
    /// far as the path is there. Opens no store.
    pub fn spelling(&self, location: &str) -> Result<Url> {
        let url = canonical_url(location)?;
        if self.is_sealed || url.scheme() != "file" {
            return Ok(url);
        }
        let real = url.to_file_path().ok().map(|path| links::follow(&path));
        Ok(real.and_then(|path| Url::from_file_path(path).ok()).unwrap_or(url))
    }

    /// Opens a location given as a bare path or a URL. Nothing is created.
    ///
    /// Cloud credentials come from the usual environment variables of each
    /// provider (`AWS_*`, `AZURE_*`, `GOOGLE_*`).
    pub fn open(&self, location: &str) -> Result<Folder> {
        let url = canonical_url(location)?;
        if self.is_sealed {
            let (_, prefix) = ObjectStoreScheme::parse(&url).map_err(|e| bad_location(location, e))?;
            return Ok(Folder { store: Arc::new(InMemory::new()), prefix, url, is_sealed: true });
        }
        if url.scheme() == "file" {
            let prefix = Path::from_url_path(url.path()).map_err(|e| bad_location(location, e))?;
            let store: Arc<dyn ObjectStore> = Arc::new(DurableLocal::new(self.durability));
            return Ok(Folder { store, prefix, url, is_sealed: false });
        }
        let variables = std::env::vars().map(|(k, v)| (k.to_ascii_lowercase(), v));
        let (store, prefix) = object_store::parse_url_opts(&url, variables).map_err(|e| bad_location(location, e))?;
        Ok(Folder { store: Arc::new(Insistent::new(Arc::from(store))), prefix, url, is_sealed: false })
    }
}

/// The canonical spelling of a location: an absolute URL without a trailing
/// slash, `file:///...` for bare paths (relative ones are taken from the
/// working directory), `s3://` for `s3a://` and `s3n://`.
pub fn canonical_url(location: &str) -> Result<Url> {
    let text = location.trim();
    if text.is_empty() {
        return Err(bad_location(location, "it is empty"));
    }
    let mut url = match Url::parse(text) {
        // Hadoop prints local paths as `file:/x`; a one-letter scheme is no URL.
        Ok(url) if url.scheme().len() > 1 => url,
        _ => {
            let absolute = std::path::absolute(text).map_err(|e| bad_location(location, e))?;
            Url::from_file_path(&absolute).map_err(|()| bad_location(location, "it is not an absolute path"))?
        }
    };
    if matches!(url.scheme(), "s3a" | "s3n") {
        url.set_scheme("s3").map_err(|()| bad_location(location, "its scheme cannot be used"))?;
    }
    let trimmed = url.path().trim_end_matches('/').to_owned();
    url.set_path(&trimmed);
    Ok(url)
}

fn bad_location(location: &str, why: impl std::fmt::Display) -> Error {
    Error::config(
        "INVALID_LOCATION",
        format!("cannot use the location '{location}': {why}; write a path or a URL such as file:///data/x or s3://bucket/x"),
    )
}

impl Folder {
    /// The store that holds the folder.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The folder's path inside its store.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The canonical URL, without a trailing slash.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// True on a disk of this machine that may be looked at.
    pub fn is_local(&self) -> bool {
        self.url.scheme() == "file" && !self.is_sealed
    }

    /// True where nothing may be looked at, see [`Storage::sealed`].
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Refuses a local folder that is, or lies below, a file; `field` is what
    /// names it. Nothing could ever be written there.
    pub fn refuse_file(&self, field: &str) -> Result<()> {
        if !self.is_local() {
            return Ok(());
        }
        let path = std::path::Path::new("/").join(self.prefix.as_ref());
        match path.ancestors().find(|path| path.exists()) {
            Some(found) if !found.is_dir() => Err(Error::config(
                "PATH_NOT_A_FOLDER",
                format!("{field} names {}, but {} is a file; name a folder, which is made when it is not there", self.url, found.display()),
            )),
            _ => Ok(()),
        }
    }

    /// A folder below this one; `name` may hold slashes.
    pub fn child(&self, name: &str) -> Self {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{name}", self.url.path()));
        Self { store: Arc::clone(&self.store), prefix: self.path_of(name), url, is_sealed: self.is_sealed }
    }

    /// The path in the store of an object below the folder.
    pub fn path_of(&self, name: &str) -> Path {
        name.split('/').filter(|part| !part.is_empty()).fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Writes an object that must not exist yet; atomic and durable.
    pub async fn create_new(&self, name: &str, body: impl Into<Bytes>) -> Result<Created> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = PutPayload::from_bytes(body.into());
        match self.store.put_opts(&self.path_of(name), payload, options).await {
            Ok(_) => Ok(Created::New),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(Created::AlreadyExists),
            Err(error) => Err(self.failed("create", name, error)),
        }
    }

    /// The same, and gives back what is there already, where it is.
    pub async fn create_or_read(&self, name: &str, body: impl Into<Bytes>) -> Result<Option<Bytes>> {
        let body = body.into();
        for turn in 0..BLIND_REFUSALS {
            if self.create_new(name, body.clone()).await? == Created::New {
                return Ok(None);
            }
            if let Some(stored) = self.read(name).await? {
                return Ok(Some(stored));
            }
            // Deleted between the two looks, or another write was under way and has failed.
            tokio::time::sleep(BLIND_PAUSE * turn).await;
        }
        Err(Error::retryable("STORAGE_FAILURE", format!("the store refuses {}/{name} as taken but shows no such object", self.url)))
    }

    /// Reads an object whole; `None` when there is none. What is not a file, or no file of a log by its size, is refused.
    pub async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        self.read_at_most(name, MOST_BYTES).await
    }

    /// The same for files that are small.
    pub async fn read_small(&self, name: &str) -> Result<Option<Bytes>> {
        self.read_at_most(name, FEW_BYTES).await
    }

    async fn read_at_most(&self, name: &str, most: u64) -> Result<Option<Bytes>> {
        self.obstacle(name)?;
        match self.store.get(&self.path_of(name)).await {
            Ok(found) if found.meta.size > most => Err(Error::incompatible(
                "FILE_TOO_LARGE",
                format!("{}/{name} has {} bytes, and no more than {most} are read of such a file: {PUT_RIGHT}", self.url, found.meta.size),
            )),
            Ok(found) => found.bytes().await.map(Some).map_err(|e| self.failed("read", name, e)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", name, error)),
        }
    }

    /// The objects directly in the folder (not deeper), in name order.
    pub async fn list(&self) -> Result<Vec<ObjectMeta>> {
        let listed = self.store.list_with_delimiter(Some(&self.prefix)).await;
        match listed {
            Ok(result) => {
                let mut objects = result.objects;
                objects.sort_by(|a, b| a.location.cmp(&b.location));
                Ok(objects)
            }
            Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(self.failed("list", "", error)),
        }
    }

    /// The names directly in the folder, and of each whether it is a file, in order.
    pub async fn names(&self) -> Result<Vec<(String, bool)>> {
        if self.is_local() {
            return obstacles::names(&self.path_on_disk("")).map_err(|error| {
                self.in_the_way("").unwrap_or_else(|| Error::retryable("STORAGE_FAILURE", format!("could not list {}: {error}", self.url)))
            });
        }
        let listed = match self.store.list_with_delimiter(Some(&self.prefix)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            listed => listed.map_err(|error| self.failed("list", "", error))?,
        };
        let name = |path: &Path| path.filename().map(str::to_owned);
        let files = listed.objects.iter().filter_map(|object| Some((name(&object.location)?, true)));
        let folders = listed.common_prefixes.iter().filter_map(|prefix| Some((name(prefix)?, false)));
        let mut names: Vec<(String, bool)> = files.chain(folders).collect();
        names.sort();
        Ok(names)
    }

    /// Everything below the folder, at any depth.
    pub async fn list_recursive(&self) -> Result<Vec<ObjectMeta>> {
        self.store.list(Some(&self.prefix)).try_collect().await.map_err(|e| self.failed("list", "", e))
    }

    /// Deletes an object; a missing one is fine.
    pub async fn delete(&self, name: &str) -> Result<()> {
        match self.store.delete(&self.path_of(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", name, error)),
        }
    }

    fn path_on_disk(&self, name: &str) -> std::path::PathBuf {
        std::path::Path::new("/").join(self.path_of(name).as_ref())
    }

    /// Refuses what is there in place of a file.
    fn obstacle(&self, name: &str) -> Result<()> {
        self.in_the_way(name).map_or(Ok(()), Err)
    }

    /// What stands on a disk where the file `name`, or the folder itself, should be.
    fn in_the_way(&self, name: &str) -> Option<Error> {
        let found = self.is_local().then(|| obstacles::find(&self.path_on_disk(name), !name.is_empty())).flatten()?;
        Some(Error::incompatible("NOT_A_FILE", format!("{found}: {PUT_RIGHT}")))
    }

    fn failed(&self, action: &str, name: &str, error: object_store::Error) -> Error {
        if let Some(obstacle) = self.in_the_way(name) {
            return obstacle;
        }
        let object = if name.is_empty() { self.url.to_string() } else { format!("{}/{name}", self.url) };
        let hint = if self.is_local() { "; check the free space and the rights of the folder" } else { "" };
        failure("STORAGE_FAILURE", format!("could not {action} {object}{hint}"), error)
    }
}

/// A failure of a store that may go away by itself, with the remedy where the store's words hide it.
pub fn failure(condition: &'static str, message: String, error: impl StdError + Send + Sync + 'static) -> Error {
    Error::retryable(condition, format!("{message}{}", remedy(&error))).with_source(error)
}

/// A client that has no credentials asks the metadata service that cloud machines have, and its address is all that is told of that.
fn remedy(error: &(dyn StdError + 'static)) -> &'static str {
    const WITHOUT: [(&str, &str); 3] = [
        (
            "169.254.169.254/latest",
            "; no credentials for S3 were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for a store that is not Amazon's also \
             AWS_ENDPOINT, and AWS_SKIP_SIGNATURE=true for a public bucket (in a cluster by podTemplate, or by a service account with a role)",
        ),
        ("169.254.169.254/metadata", "; no credentials for Azure were found: set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
        ("computeMetadata", "; no credentials for Google Cloud were found: set GOOGLE_SERVICE_ACCOUNT to the file of the account's key"),
    ];
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        if let Some((_, remedy)) = WITHOUT.iter().find(|(sign, _)| text.contains(sign)) {
            return remedy;
        }
        cause = error.source();
    }
    ""
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn spellings_of_one_location_are_one() {
        for text in ["/a/b", "/a/b/", "file:///a/b", "file:/a/b/", "file:///a/c/../b"] {
            assert_eq!(canonical_url(text).unwrap().as_str(), "file:///a/b", "{text}");
        }
        assert_eq!(canonical_url("s3a://lake/x/").unwrap().as_str(), "s3://lake/x");
        assert!(canonical_url(" ").is_err());
    }

    #[test]
    fn a_store_without_credentials_names_the_remedy() {
        let of = |text: &str| object_store::Error::Generic { store: "S3", source: text.to_owned().into() };
        let imds = of("Error performing PUT http://169.254.169.254/latest/api/token in 1s, after 3 retries");
        let error = failure("STORAGE_FAILURE", "could not list s3://lake/x".to_owned(), imds);
        assert!(error.message().contains("AWS_ACCESS_KEY_ID"), "{error}");
        let error = failure("STORAGE_FAILURE", "could not list s3://lake/x".to_owned(), of("403 Forbidden"));
        assert_eq!(error.message(), "could not list s3://lake/x");
    }

    #[test]
    fn a_file_is_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let refuse = |name: &str| {
            let place = dir.path().join(name);
            Storage::new(Durability::PageCache).open(place.to_str().unwrap()).unwrap().refuse_file("checkpointLocation")
        };
        refuse("").unwrap();
        refuse("new/folder").unwrap();
        for name in ["file", "file/below"] {
            let error = refuse(name).unwrap_err();
            assert_eq!((error.class(), error.condition()), (crate::ErrorClass::Config, "PATH_NOT_A_FOLDER"));
        }
        Storage::new(Durability::PageCache).open("s3://lake/x").unwrap().refuse_file("path").unwrap();
    }

    #[tokio::test]
    async fn a_sealed_world_is_empty_whatever_is_there() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        let sealed = Storage::sealed();
        let folder = sealed.open(dir.path().to_str().unwrap()).unwrap();
        assert!(folder.list().await.unwrap().is_empty() && folder.read("secret").await.unwrap().is_none() && !folder.is_local());
        folder.child("secret").refuse_file("path").unwrap();
        assert!(folder.child("x").is_sealed());
        // No credentials, no region: nobody is asked.
        assert!(sealed.open("s3://lake/x").unwrap().list_recursive().await.unwrap().is_empty());
        assert_eq!(sealed.open("nowhere://x").unwrap_err().condition(), "INVALID_LOCATION");
    }

    #[tokio::test]
    async fn create_new_is_exclusive_and_leaves_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        for durability in [Durability::Fsync, Durability::PageCache] {
            let name = format!("{durability:?}/offsets/0");
            let folder = Storage::new(durability).open(dir.path().to_str().unwrap()).unwrap();
            assert_eq!(folder.create_new(&name, "one").await.unwrap(), Created::New);
            assert_eq!(folder.create_new(&name, "two").await.unwrap(), Created::AlreadyExists);
            assert_eq!(folder.read(&name).await.unwrap().unwrap(), "one");
            let parent = folder.child(&format!("{durability:?}/offsets"));
            assert_eq!(parent.list().await.unwrap().len(), 1);
            let on_disk = std::fs::read_dir(dir.path().join(format!("{durability:?}/offsets"))).unwrap();
            assert_eq!(on_disk.count(), 1);
            folder.delete(&name).await.unwrap();
            folder.delete(&name).await.unwrap();
            assert!(folder.read(&name).await.unwrap().is_none());
        }
        assert!(Storage::new(Durability::Fsync).open("/no/such/folder").unwrap().list().await.unwrap().is_empty());
    }
}
