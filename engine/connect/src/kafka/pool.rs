//! Consumer handles that outlive a batch.
//!
//! Making a handle and its connections costs tens of milliseconds, and a handle
//! that stays assigned has the next records fetched before they are planned.
//! So a reader gives its handle back, and the next reader of the same partition
//! goes on with it where it stands. The pool bounds how many handles are kept
//! and divides one memory budget among them; it never reads by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::consumer::Consumer;
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};
use weir_core::Result;

use super::drain::BatchDrain;
use super::errors;
use super::lookup::{self, LastWords};
use super::offsets::TopicPartition;
use super::options::KafkaSourceOptions;

/// Prefetched records of all handles together, in kilobytes.
const QUEUE_BUDGET_KB: usize = 16 * 1024;

/// The handles of one source.
pub struct ConsumerPool {
    config: rdkafka::ClientConfig,
    servers: String,
    most: usize,
    state: Mutex<State>,
    sizes: SizeMeter,
}

#[derive(Default)]
struct State {
    idle: Vec<Handle>,
    live: usize,
}

/// A handle and where it stands.
pub struct Handle {
    /// The records taken and not used yet, and the client.
    pub drain: BatchDrain,
    assigned: Option<TopicPartition>,
    /// The offset after the last record used.
    next: i64,
    /// No record is left in `next..reached`.
    reached: i64,
}

impl Handle {
    fn stands_at(&self, partition: &TopicPartition, start: i64) -> bool {
        self.assigned.as_ref() == Some(partition) && (self.next..=self.reached).contains(&start)
    }

    /// A record before `offset` was used.
    pub fn used_up_to(&mut self, offset: i64) {
        self.next = offset;
        self.reached = self.reached.max(offset);
    }

    /// The client saw that no record comes before `offset`.
    pub fn saw_end_at(&mut self, offset: i64) {
        self.reached = self.reached.max(offset);
    }

    /// No record is left before this offset.
    pub fn reached(&self) -> i64 {
        self.reached
    }
}

/// A handle out of the pool.
pub struct Lease {
    handle: Option<Handle>,
    pool: Arc<ConsumerPool>,
}

impl Lease {
    /// The handle.
    pub fn handle(&mut self) -> &mut Handle {
        self.handle.as_mut().expect("a lease has its handle until it is dropped or discarded")
    }

    /// Throws the handle away, because it does not deliver.
    pub fn discard(mut self) {
        if self.handle.take().is_some() {
            self.pool.discarded();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.pool.release(handle);
        }
    }
}

impl ConsumerPool {
    /// A pool for the records of one source; no broker is asked yet.
    pub fn new(options: &KafkaSourceOptions, group_id: &str) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let most = (cores * 2).clamp(2, 8);
        let queue = (QUEUE_BUDGET_KB / most).to_string();
        let defaults = [
            ("isolation.level", "read_uncommitted"),
            ("group.id", group_id),
            ("fetch.wait.max.ms", "100"),
            ("fetch.error.backoff.ms", "50"),
            ("fetch.queue.backoff.ms", "5"),
            ("queued.min.messages", "16384"),
            ("queued.max.messages.kbytes", queue.as_str()),
            ("socket.nagle.disable", "true"),
        ];
        let forced = [
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "error"),
            ("enable.partition.eof", "true"),
        ];
        let mut config = options.client.config(&defaults, &forced);
        // Events of this handle are served by the drain, which cannot route logs.
        config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        Self { config, servers: options.client.servers().to_owned(), most, state: Mutex::default(), sizes: SizeMeter::default() }
    }

    /// The brokers, for messages.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// Mean sizes of what was read.
    pub fn sizes(&self) -> &SizeMeter {
        &self.sizes
    }

    /// The most bytes that the handles hold fetched ahead.
    pub fn queue_bytes(&self) -> usize {
        let each = self.config.get("queued.max.messages.kbytes").and_then(|text| text.parse::<usize>().ok()).unwrap_or(QUEUE_BUDGET_KB);
        self.most * each * 1024
    }

    /// A handle that will deliver `partition` from `start` on; it comes back when the lease is dropped.
    pub fn lease(self: &Arc<Self>, partition: &TopicPartition, start: i64) -> Result<Lease> {
        Ok(Lease { handle: Some(self.acquire(partition, start)?), pool: Arc::clone(self) })
    }

    fn acquire(&self, partition: &TopicPartition, start: i64) -> Result<Handle> {
        let kept = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = choose(&state.idle, state.live, self.most, partition, start).map(|at| state.idle.remove(at));
            state.live += usize::from(kept.is_none());
            kept
        };
        let made = match kept {
            Some(handle) => Ok(handle),
            None => self.make(),
        };
        let assigned = made.and_then(|mut handle| {
            if !handle.stands_at(partition, start) {
                self.assign(&mut handle, partition, start)?;
            }
            Ok(handle)
        });
        if assigned.is_err() {
            self.discarded();
        }
        assigned
    }

    /// Lets a handle deliver from another place.
    pub fn assign(&self, handle: &mut Handle, partition: &TopicPartition, start: i64) -> Result<()> {
        handle.drain.clear();
        let mut list = TopicPartitionList::with_capacity(1);
        let assigned = list
            .add_partition_offset(&partition.topic, partition.partition, KafkaOffset::Offset(start))
            .and_then(|()| handle.drain.consumer().assign(&list));
        assigned.map_err(|error| errors::unreachable(&format!("read {partition}"), &self.servers, &error.to_string()))?;
        handle.assigned = Some(partition.clone());
        (handle.next, handle.reached) = (start, start);
        Ok(())
    }

    /// Takes a handle back for the next reader.
    fn release(&self, handle: Handle) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.live > self.most {
            state.live -= 1;
            drop(state);
            drop(handle);
        } else {
            state.idle.push(handle);
        }
    }

    /// A handle was thrown away.
    fn discarded(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.live = state.live.saturating_sub(1);
    }

    fn make(&self) -> Result<Handle> {
        let consumer = self.config.create_with_context(LastWords::default()).map_err(|error| lookup::cannot_create(&error))?;
        Ok(Handle { drain: BatchDrain::new(consumer)?, assigned: None, next: 0, reached: 0 })
    }
}

/// Which idle handle serves best; `None` asks for a new one.
fn choose(idle: &[Handle], live: usize, most: usize, partition: &TopicPartition, start: i64) -> Option<usize> {
    let standing = idle.iter().position(|handle| handle.stands_at(partition, start));
    let same = || idle.iter().position(|handle| handle.assigned.as_ref() == Some(partition));
    // The one that has been idle longest is the first.
    standing.or_else(same).or_else(|| (live >= most && !idle.is_empty()).then_some(0))
}

/// The mean size of records, weighted towards the last batches.
#[derive(Default)]
pub struct SizeMeter {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl SizeMeter {
    /// Records were read.
    pub fn add(&self, rows: u64, bytes: u64) {
        let total = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if total > 1_000_000 {
            // Halving both keeps the mean and lets newer records count more; a lost update changes little.
            self.rows.fetch_sub(total / 2, Ordering::Relaxed);
            self.bytes.fetch_sub(self.bytes.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }

    /// Mean bytes of a record; `None` before the first.
    pub fn mean(&self) -> Option<f64> {
        let rows = self.rows.load(Ordering::Relaxed);
        (rows > 0).then(|| self.bytes.load(Ordering::Relaxed) as f64 / rows as f64)
    }
}
