//! The local disk as an object store whose writes survive a power cut.
//!
//! `object_store`'s local store does not fsync. This wrapper does, for every
//! write that can be seen under its final name: temporary file, fsync, hard
//! link (create) or rename (overwrite), fsync of the folder and of every
//! parent that had to be made (protocol.md section 6). Delta tables, sink
//! files and checkpoints all go through it. `Durability::PageCache` leaves the
//! fsyncs out, for tests and for whoever may lose the machine; atomicity stays.
//!
//! Reading is the inner store's, listing is `walk`'s. Temporary files begin with a
//! dot and end with `.tmp`, as Spark's do, and listings never show them.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path as OsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

use super::walk::{Depth, Entry, walk};

pub(super) const STORE: &str = "local disk";

/// Whether a write waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Files and folders are fsynced before a write returns.
    Fsync,
    /// Writes stay in the page cache; a crash of the machine may lose them.
    PageCache,
}

/// The local disk, rooted at `/`.
#[derive(Debug)]
pub struct DurableLocal {
    inner: LocalFileSystem,
    durability: Durability,
}

impl DurableLocal {
    /// A store over the whole file system.
    pub fn new(durability: Durability) -> Self {
        Self { inner: LocalFileSystem::new(), durability }
    }

    fn write(&self, location: &Path, payload: &PutPayload, mode: &PutMode) -> Result<()> {
        let target = self.inner.path_to_filesystem(location)?;
        let parent = target.parent().unwrap_or(OsPath::new("/"));
        make_folders(parent, self.durability).map_err(|e| failed(location, e))?;
        let temporary = parent.join(format!(".{}.{}.tmp", target.file_name().unwrap_or_default().to_string_lossy(), uuid::Uuid::new_v4()));
        let placed = write_temporary(&temporary, payload, self.durability)
            .and_then(|()| place(&temporary, &target, mode))
            .and_then(|()| sync_folder(parent, self.durability));
        if placed.is_err() || matches!(mode, PutMode::Create) {
            // After a hard link the temporary name is a second name of the same file.
            let _ = fs::remove_file(&temporary);
        }
        placed.map_err(|e| failed(location, e))
    }
}

fn write_temporary(temporary: &OsPath, payload: &PutPayload, durability: Durability) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(temporary)?;
    for part in payload {
        file.write_all(part)?;
    }
    match durability {
        Durability::Fsync => file.sync_all(),
        Durability::PageCache => Ok(()),
    }
}

fn place(temporary: &OsPath, target: &OsPath, mode: &PutMode) -> io::Result<()> {
    match mode {
        PutMode::Create => fs::hard_link(temporary, target),
        _ => fs::rename(temporary, target),
    }
}

fn sync_folder(folder: &OsPath, durability: Durability) -> io::Result<()> {
    match durability {
        Durability::Fsync => File::open(folder)?.sync_all(),
        Durability::PageCache => Ok(()),
    }
}

/// Makes a folder and its missing parents, each entry made durable.
fn make_folders(folder: &OsPath, durability: Durability) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut cursor = Some(folder);
    while let Some(path) = cursor.filter(|path| !path.exists()) {
        missing.push(path.to_owned());
        cursor = path.parent();
    }
    fs::create_dir_all(folder)?;
    for made in missing.iter().rev() {
        if let Some(parent) = made.parent() {
            sync_folder(parent, durability)?;
        }
    }
    Ok(())
}

fn failed(location: &Path, error: io::Error) -> object_store::Error {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return object_store::Error::AlreadyExists { path: location.to_string(), source: error.into() };
    }
    object_store::Error::Generic { store: STORE, source: format!("/{location}: {error}").into() }
}

impl fmt::Display for DurableLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableLocal({:?})", self.durability)
    }
}

#[async_trait]
impl ObjectStore for DurableLocal {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        if matches!(opts.mode, PutMode::Update(_)) {
            return Err(object_store::Error::NotImplemented { operation: "conditional update".into(), implementer: STORE.into() });
        }
        self.write(location, &payload, &opts.mode)?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let target = self.inner.path_to_filesystem(location)?;
        let parent = target.parent().unwrap_or(OsPath::new("/"));
        make_folders(parent, self.durability).map_err(|e| failed(location, e))?;
        let upload = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(DurableUpload { upload, target, durability: self.durability }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let folder = folder_of(prefix);
        let listed = blocking(move || {
            let files = walk(folder, Depth::All).filter_map(|entry| match entry {
                Ok(Entry::File(object)) => (!is_temporary(&object.location)).then_some(Ok(object)),
                Ok(Entry::Folder(_)) => None,
                Err(error) => Some(Err(error)),
            });
            files.collect::<Result<Vec<_>>>()
        });
        stream::once(listed).map_ok(|objects| stream::iter(objects).map(Ok)).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let folder = folder_of(prefix);
        blocking(move || {
            let (mut objects, mut common_prefixes) = (Vec::new(), Vec::new());
            for entry in walk(folder, Depth::One) {
                match entry? {
                    Entry::File(object) if is_temporary(&object.location) => {}
                    Entry::File(object) => objects.push(object),
                    Entry::Folder(path) => common_prefixes.push(path),
                }
            }
            common_prefixes.sort();
            Ok(ListResult { common_prefixes, objects })
        })
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

fn folder_of(prefix: Option<&Path>) -> PathBuf {
    OsPath::new("/").join(prefix.map_or("", |prefix| prefix.as_ref()))
}

/// Runs work of the disk beside the runtime's threads, where there is a runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await?,
        Err(_) => work(),
    }
}

/// Spark's local writer leaves `.N.crc` beside its logs; neither those nor
/// temporary files are objects.
fn is_temporary(location: &Path) -> bool {
    location.filename().is_some_and(|name| name.starts_with('.') && (name.ends_with(".tmp") || name.ends_with(".crc")))
}

/// A multipart upload that is durable once `complete` returns.
#[derive(Debug)]
struct DurableUpload {
    upload: Box<dyn MultipartUpload>,
    target: PathBuf,
    durability: Durability,
}

#[async_trait]
impl MultipartUpload for DurableUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let result = self.upload.complete().await?;
        if self.durability == Durability::Fsync {
            let parent = self.target.parent().unwrap_or(OsPath::new("/"));
            File::open(&self.target)
                .and_then(|file| file.sync_all())
                .and_then(|()| sync_folder(parent, self.durability))
                .map_err(|e| object_store::Error::Generic { store: STORE, source: Arc::new(e).to_string().into() })?;
        }
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
