//! A remote store that is asked again when its answer got lost.
//!
//! The client library itself repeats what a server refuses for now (5xx, 429) and what it takes to be harmless. A connection
//! that was reset is neither where something is written or deleted, and it gives up; here that is asked again, too. So
//! whatever is created may turn out to be there already because an earlier try of the same call took effect: whoever
//! creates looks at what is there. Deleting twice and overwriting twice do no harm.
//!
//! Listings of any depth, copies and uploads in parts are passed on as they are: a task that is tried again repeats them.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result,
};

/// Most tries of one call.
const TRIES: u32 = 4;
/// The wait before the second try; the next ones are longer.
const PAUSE: Duration = Duration::from_millis(100);

/// The store with patience.
#[derive(Debug)]
pub struct Insistent {
    inner: Arc<dyn ObjectStore>,
}

impl Insistent {
    /// Insists on answers of `inner`.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner }
    }
}

/// Asks until there is an answer, and no more than is sensible.
async fn insist<T, F: Future<Output = Result<T>>>(mut ask: impl FnMut() -> F) -> Result<T> {
    let mut tries = 1;
    loop {
        match ask().await {
            Err(error) if tries < TRIES && got_lost(&error) => {
                tracing::info!(%error, "the store's answer got lost; it is asked again");
                tokio::time::sleep(PAUSE * tries).await;
                tries += 1;
            }
            answer => return answer,
        }
    }
}

/// Whether there was no answer, though the request may have arrived.
fn got_lost(error: &Error) -> bool {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return matches!(error.kind(), HttpErrorKind::Interrupted | HttpErrorKind::Decode | HttpErrorKind::Unknown);
        }
        cause = error.source();
    }
    false
}

impl fmt::Display for Insistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Insistent {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        insist(|| self.inner.put_opts(location, payload.clone(), opts.clone())).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        insist(|| self.inner.put_multipart_opts(location, opts.clone())).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        insist(|| self.inner.get_opts(location, options.clone())).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let inner = Arc::clone(&self.inner);
        let deleted = async move {
            let all: Vec<Path> = locations.try_collect().await?;
            let delete = || inner.delete_stream(stream::iter(all.clone()).map(Ok).boxed()).try_collect::<Vec<_>>();
            Ok::<_, Error>(stream::iter(insist(delete).await?).map(Ok))
        };
        stream::once(deleted).try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        insist(|| self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use super::*;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutMode};

    fn cut(kind: HttpErrorKind) -> Error {
        Error::Generic { store: "S3", source: Box::new(HttpError::new(kind, std::io::Error::other("reset"))) }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_whose_creation_got_no_answer_is_there_already() {
        let (store, tries) = (InMemory::new(), Cell::new(0));
        let create = || async {
            tries.set(tries.get() + 1);
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let stored = store.put_opts(&Path::from("x"), "own".into(), options).await;
            if tries.get() == 1 { Err(cut(HttpErrorKind::Interrupted)) } else { stored }
        };
        assert!(matches!(insist(create).await, Err(Error::AlreadyExists { .. })));
        assert_eq!((tries.get(), store.get(&Path::from("x")).await.unwrap().bytes().await.unwrap().as_ref()), (2, b"own".as_ref()));
    }

    #[tokio::test(start_paused = true)]
    async fn only_lost_answers_are_asked_for_again_and_not_for_ever() {
        let refused = || Error::NotFound { path: "x".to_owned(), source: "404".into() };
        let kinds: [(&dyn Fn() -> Error, u32); 4] = [
            (&|| cut(HttpErrorKind::Interrupted), TRIES),
            (&|| cut(HttpErrorKind::Decode), TRIES),
            // The library has tried these itself.
            (&|| cut(HttpErrorKind::Connect), 1),
            (&refused, 1),
        ];
        for (error, expected) in kinds {
            let tries = Cell::new(0);
            let ask = || {
                tries.set(tries.get() + 1);
                std::future::ready(Err::<(), _>(error()))
            };
            insist(ask).await.unwrap_err();
            assert_eq!(tries.get(), expected, "{}", error());
        }
    }
}
