//! The commit against a store that loses responses, loses races and fills up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};

use self::script::Script;
use super::*;

/// What happens to the next creations of log entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Written, but the response is lost.
    ResponseLost,
    /// Not written, and an error.
    RequestLost,
    /// Another writer takes the version first.
    RaceLost,
    /// What was prepared happens first.
    Overtaken,
    /// Refused as taken, though nothing is there.
    Blind,
    /// As it should be.
    None,
}

mod script {
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};

    /// A script that is played once.
    #[derive(Debug)]
    pub struct Script<T>(Mutex<VecDeque<T>>);

    impl<T> Script<T> {
        pub fn of(steps: impl IntoIterator<Item = T>) -> Self {
            Self(Mutex::new(steps.into_iter().collect()))
        }

        pub fn next(&self) -> Option<T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        }
    }
}

#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn ObjectStore>,
    script: Script<Fault>,
    /// Data files that may still be written.
    room: AtomicUsize,
    /// Requests so far.
    requests: Arc<AtomicUsize>,
    meanwhile: Meanwhile,
}

/// What others do while an entry is on its way.
#[derive(Default)]
struct Meanwhile(tokio::sync::Mutex<Option<BoxFuture<'static, ()>>>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Faulty {
    fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

fn lost(what: &'static str) -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: what.into() }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.count();
        if !matches!(opts.mode, PutMode::Create) {
            let room = self.room.load(Ordering::Relaxed);
            if room == 0 {
                return Err(lost("No space left on device"));
            }
            self.room.store(room - 1, Ordering::Relaxed);
            return self.inner.put_opts(location, payload, opts).await;
        }
        match self.script.next().unwrap_or(Fault::None) {
            Fault::None => self.inner.put_opts(location, payload, opts).await,
            Fault::Blind => Err(object_store::Error::AlreadyExists { path: location.to_string(), source: "taken".into() }),
            Fault::RequestLost => Err(lost("the request was lost")),
            Fault::ResponseLost => {
                self.inner.put_opts(location, payload, opts).await?;
                Err(lost("the response was lost"))
            }
            Fault::Overtaken => {
                if let Some(others) = self.meanwhile.0.lock().await.take() {
                    others.await;
                }
                self.inner.put_opts(location, payload, opts).await
            }
            Fault::RaceLost => {
                let other = PutPayload::from_static(b"{\"commitInfo\":{\"operation\":\"WRITE\",\"txnId\":\"other\"}}\n");
                self.inner.put_opts(location, other, opts.clone()).await?;
                self.inner.put_opts(location, payload, opts).await
            }
        }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.count();
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.count();
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.count();
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

pub fn faulty(path: &str, script: &[Fault], room: usize) -> TableLocation {
    overtaken(path, script, room, Meanwhile::default())
}

/// A table whose next log entry comes after what others do.
pub fn with_others(path: &str, others: BoxFuture<'static, ()>) -> TableLocation {
    overtaken(path, &[Fault::Overtaken], usize::MAX, Meanwhile(tokio::sync::Mutex::new(Some(others))))
}

fn overtaken(path: &str, script: &[Fault], room: usize, meanwhile: Meanwhile) -> TableLocation {
    let folder = storage().open(path).unwrap();
    let store = Faulty {
        inner: Arc::clone(folder.store()),
        script: Script::of(script.iter().copied()),
        room: AtomicUsize::new(room),
        requests: Arc::default(),
        meanwhile,
    };
    TableLocation::new(Arc::new(store), folder.prefix().clone(), folder.url().clone())
}

#[tokio::test]
async fn lost_responses_and_lost_races_add_nothing_twice() {
    use Fault::{None, RaceLost, RequestLost, ResponseLost};
    // The first batch creates the table, so another writer cannot take version 0 with a plain append.
    let scripts: &[&[Fault]] = &[
        &[ResponseLost],
        &[RequestLost, RequestLost],
        &[RequestLost, ResponseLost],
        &[None, RaceLost],
        &[None, RaceLost, RaceLost, ResponseLost],
        &[None, RequestLost, RaceLost, RequestLost, RaceLost],
    ];
    for script in scripts {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out").to_str().unwrap().to_owned();
        let query = Query::to(&path);
        let sink = query.open_at(faulty(&path, script, usize::MAX), kv(&[]).schema()).await.unwrap();
        for batch in 0..3 {
            let committed = query.write(&sink, batch, &[kv(&[("a", 1), ("b", 2)])]).await.unwrap();
            assert_eq!(committed, Committed::Now, "{script:?}");
        }
        assert_eq!(sink.recorded_batch(query.id).await.unwrap(), Some(2));
        assert_eq!(count(&path).await, 6, "{script:?}");
        assert_eq!(data_files(&path), 3, "no committed file may be deleted: {script:?}");
    }
}

#[tokio::test]
async fn a_commit_in_doubt_is_settled_by_the_next_life() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let schema = kv(&[]).schema();
    let script = [Fault::RequestLost, Fault::RequestLost, Fault::ResponseLost];
    let sink = query.open_at(faulty(&path, &script, usize::MAX), schema.clone()).await.unwrap();
    let error = query.write(&sink, 0, &[kv(&[("a", 1)])]).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "STORAGE_FAILURE"));
    let next = query.open(schema).await.unwrap();
    assert_eq!(next.recorded_batch(query.id).await.unwrap(), Some(0));
    assert_eq!(query.write(&next, 0, &[kv(&[("a", 1)])]).await.unwrap(), Committed::Before);
    assert_eq!((count(&path).await, data_files(&path)), (1, 1));
}

#[tokio::test]
async fn a_store_that_contradicts_itself_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let sink = query.open_at(faulty(&path, &[Fault::Blind; 11], usize::MAX), kv(&[]).schema()).await.unwrap();
    let error = query.write(&sink, 0, &[kv(&[("a", 1)])]).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "DELTA_CONCURRENT_WRITE"));
    assert_eq!(query.write(&sink, 0, &[kv(&[("a", 1)])]).await.unwrap(), Committed::Now);
    assert_eq!(count(&path).await, 1);
}

#[tokio::test]
async fn a_full_disk_is_retryable_and_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let sink = query.open_at(faulty(&path, &[], 1), kv(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &[kv(&[("a", 1)])]).await.unwrap();
    let error = query.write(&sink, 1, &[kv(&[("a", 1)])]).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Retryable);
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert_eq!((count(&path).await, data_files(&path)), (1, 1));
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    assert_eq!(query.write(&sink, 1, &[kv(&[("a", 1)])]).await.unwrap(), Committed::Now);
    assert_eq!(count(&path).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_that_create_and_append_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let path = path.clone();
            tokio::spawn(async move {
                let query = Query::to(&path);
                let sink = query.open(kv(&[]).schema()).await.unwrap();
                for batch in 0..50 {
                    assert_eq!(query.write(&sink, batch, &[kv(&[("a", writer)])]).await.unwrap(), Committed::Now);
                    sink.maintain(batch).await.unwrap();
                }
                assert_eq!(sink.recorded_batch(query.id).await.unwrap(), Some(49));
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!((count(&path).await, data_files(&path)), (150, 150));
    let distinct = sql(&path, "SELECT count(*) FROM (SELECT v FROM t GROUP BY v HAVING count(*) = 50)").await;
    assert_eq!(distinct[0].column(0).as_primitive::<Int64Type>().value(0), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_lives_of_one_query_commit_each_batch_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Arc::new(Query::to(&path));
    let lives: Vec<_> = (0..2)
        .map(|_| {
            let query = Arc::clone(&query);
            tokio::spawn(async move {
                let sink = query.open(kv(&[]).schema()).await.unwrap();
                let mut now = 0;
                for batch in 0..50 {
                    now += i32::from(query.write(&sink, batch, &[kv(&[("a", 1)])]).await.unwrap() == Committed::Now);
                }
                now
            })
        })
        .collect();
    let mut committed = 0;
    for life in lives {
        committed += life.await.unwrap();
    }
    assert_eq!((committed, count(&path).await, data_files(&path)), (50, 50, 50));
}

#[tokio::test]
async fn a_commit_costs_the_same_few_requests_however_large_the_table_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let (location, requests) = counted(&path);
    let sink = query.open_at(location, kv(&[]).schema()).await.unwrap();
    let mut costs = Vec::new();
    for batch in 0..60 {
        let before = requests.load(Ordering::Relaxed);
        query.write(&sink, batch, &[kv(&[("a", 1)])]).await.unwrap();
        costs.push(requests.load(Ordering::Relaxed) - before);
    }
    // The data file; then a look at the newest entry and at the next, the entry, its tag.
    assert!(costs[1..].iter().all(|cost| *cost == 5), "{costs:?}");
}

fn counted(path: &str) -> (TableLocation, Arc<AtomicUsize>) {
    let folder = storage().open(path).unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let store = Faulty {
        inner: Arc::clone(folder.store()),
        script: Script::of([]),
        room: AtomicUsize::new(usize::MAX),
        requests: Arc::clone(&requests),
        meanwhile: Meanwhile::default(),
    };
    (TableLocation::new(Arc::new(store), folder.prefix().clone(), folder.url().clone()), requests)
}
