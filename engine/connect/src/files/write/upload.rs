//! One file on its way into the store.
//!
//! Bytes collect in a buffer; a file that never fills it is put in one step,
//! a larger one as a multipart upload, whose object appears when it is
//! complete. An abandoned upload leaves nothing behind.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use weir_core::storage::Folder;
use weir_core::{Error, Result};

/// Bytes of a part; object stores want at least 5 MiB.
const OBJECT_PART: usize = 5 * 1024 * 1024;
const LOCAL_PART: usize = 512 * 1024;

/// A file that is being written.
pub struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    part: usize,
    buffer: Vec<u8>,
    multipart: Option<Box<dyn MultipartUpload>>,
    uri: String,
}

/// A finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Bytes.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
}

impl Upload {
    /// Nothing is created yet.
    pub fn new(folder: &Folder, path: Path) -> Self {
        let part = if folder.is_local() { LOCAL_PART } else { OBJECT_PART };
        let uri = format!("{} in {}", path.filename().unwrap_or_default(), folder.url());
        Self { store: folder.store().clone(), path, part, buffer: Vec::new(), multipart: None, uri }
    }

    /// Where to append.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Bytes in memory.
    pub fn held(&self) -> usize {
        self.buffer.capacity()
    }

    fn failed(&self, error: object_store::Error) -> Error {
        Error::retryable(
            "STORAGE_FAILURE",
            format!("could not write the file {}; check the free space and the rights of the folder", self.uri),
        )
        .with_source(error)
    }

    /// Sends the buffer on once it holds a part.
    pub async fn flush_full(&mut self) -> Result<()> {
        while self.buffer.len() >= self.part {
            // All parts but the last have one size: some stores insist on it.
            let rest = self.buffer.split_off(self.part);
            let part = std::mem::replace(&mut self.buffer, rest);
            self.send(part).await?;
        }
        Ok(())
    }

    /// Sends as much as the store's part size allows, to free memory.
    pub async fn flush(&mut self) -> Result<()> {
        self.flush_full().await?;
        self.buffer.shrink_to_fit();
        Ok(())
    }

    async fn send(&mut self, part: Vec<u8>) -> Result<()> {
        let multipart = match &mut self.multipart {
            Some(multipart) => multipart,
            none => {
                let started = self.store.put_multipart(&self.path).await;
                match started {
                    Ok(multipart) => none.insert(multipart),
                    Err(error) => return Err(self.failed(error)),
                }
            }
        };
        let sent = multipart.put_part(PutPayload::from(part)).await;
        sent.map_err(|e| self.failed(e))
    }

    /// Stores the rest; the file is complete and durable afterwards.
    pub async fn finish(mut self) -> Result<Stored> {
        let rest = std::mem::take(&mut self.buffer);
        let done = match &mut self.multipart {
            None => self.store.put(&self.path, PutPayload::from(rest)).await.map(|_| ()),
            Some(multipart) => {
                let sent = if rest.is_empty() { Ok(()) } else { multipart.put_part(PutPayload::from(rest)).await };
                match sent {
                    Ok(()) => multipart.complete().await.map(|_| ()),
                    Err(error) => Err(error),
                }
            }
        };
        if let Err(error) = done {
            let error = self.failed(error);
            self.abort().await;
            return Err(error);
        }
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = self.store.get_opts(&self.path, options).await.map_err(|e| self.failed(e))?;
        Ok(Stored { size: found.meta.size, modified_ms: found.meta.last_modified.timestamp_millis() })
    }

    /// Gives the file up.
    pub async fn abort(mut self) {
        if let Some(multipart) = &mut self.multipart
            && let Err(error) = multipart.abort().await
        {
            tracing::warn!(file = self.uri, %error, "could not abort an upload");
        }
    }
}
