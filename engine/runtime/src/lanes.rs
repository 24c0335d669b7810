//! The threads that run a query's partitions to completion.
//!
//! A lane is one operating-system thread that owns a physical plan and, within
//! a batch, one sink writer. It takes partitions from the batch's queue, pulls
//! slices, runs the plan on each and hands the rows to its writer; there is no
//! queue between operators and no thread per operator. Async calls run on the
//! task's shared runtime through its handle, so a lane may block.
//!
//! Memory in flight per lane is one slice and what the plan makes of it.
//! Lanes know nothing of offsets, logs or triggers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use weir_core::{Error, Result};
use weir_sql::{CompiledQuery, Lane};

/// Stack of every thread that compiles or runs a query: enough for expressions
/// of the depth that `weir_sql` accepts. Only what is touched uses memory.
pub const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Work for one lane: gets the lane's plan, runs on its thread.
type Job = Box<dyn for<'a> FnOnce(&'a mut Lane) -> BoxFuture<'a, ()> + Send>;

/// One lane thread.
#[derive(Debug)]
struct LaneThread {
    jobs: mpsc::UnboundedSender<Job>,
}

/// A query's lanes; threads start when a batch first needs them.
pub struct Lanes {
    name: String,
    compiled: Arc<CompiledQuery>,
    threads: Vec<LaneThread>,
    limit: usize,
}

impl Lanes {
    /// Lanes for a compiled query; at most `limit` threads.
    pub fn new(name: &str, compiled: Arc<CompiledQuery>, limit: usize) -> Self {
        Self { name: name.to_owned(), compiled, threads: Vec::new(), limit: limit.max(1) }
    }

    /// How many lanes a batch of so many partitions uses.
    pub fn width(&self, partitions: usize) -> usize {
        partitions.clamp(1, self.limit)
    }

    /// Runs one job on each of the first `width` lanes and gathers the results
    /// in lane order. `make` builds the job of a lane.
    pub async fn run<T, F>(&mut self, width: usize, make: F) -> Result<Vec<Result<T>>>
    where
        T: Send + 'static,
        F: Fn(usize) -> Box<dyn for<'a> FnOnce(&'a mut Lane) -> BoxFuture<'a, Result<T>> + Send>,
    {
        while self.threads.len() < width {
            let thread = self.start(self.threads.len())?;
            self.threads.push(thread);
        }
        let mut answers = Vec::with_capacity(width);
        for (number, thread) in self.threads.iter().take(width).enumerate() {
            let (answer, result) = oneshot::channel();
            let work = make(number);
            let job: Job = Box::new(move |lane| {
                Box::pin(async move {
                    // The batch may have given up on this lane; then nobody listens.
                    let _ = answer.send(work(lane).await);
                })
            });
            thread.jobs.send(job).map_err(|_| died(&self.name, number))?;
            answers.push(result);
        }
        let mut results = Vec::with_capacity(width);
        for (number, answer) in answers.into_iter().enumerate() {
            results.push(answer.await.unwrap_or_else(|_| Err(died(&self.name, number))));
        }
        Ok(results)
    }

    fn start(&self, number: usize) -> Result<LaneThread> {
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let mut lane = self.compiled.lane()?;
        let runtime = Handle::current();
        thread::Builder::new()
            .name(format!("lane-{number}-{}", self.name))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                runtime.block_on(async move {
                    while let Some(job) = queue.recv().await {
                        job(&mut lane).await;
                    }
                });
            })
            .map_err(|e| Error::retryable("LANE_NOT_STARTED", "could not start a lane thread").with_source(e))?;
        Ok(LaneThread { jobs })
    }
}

fn died(query: &str, number: usize) -> Error {
    Error::retryable("LANE_DIED", format!("lane {number} of query {query} ended in the middle of a batch; see the log above"))
}

/// Ends the lanes' work on a batch when it goes.
#[derive(Debug)]
pub struct EndsWithIt(BatchFailed);

impl Drop for EndsWithIt {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Tells the lanes of a batch that one of them failed.
#[derive(Clone, Debug, Default)]
pub struct BatchFailed(Arc<AtomicBool>);

impl BatchFailed {
    /// Marks the batch as failed.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Marks the batch as failed when what is given out is dropped, done or not.
    pub fn with_the_end(&self) -> EndsWithIt {
        EndsWithIt(self.clone())
    }

    /// Whether some lane failed.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
