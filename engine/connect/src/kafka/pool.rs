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
use super::offsets::{PartitionOffsets, TopicPartition};
use super::options::KafkaSourceOptions;
use super::properties::ClientSettings;
use super::silence::Silence;

/// Prefetched records of all handles together, in kilobytes.
const QUEUE_BUDGET_KB: usize = 16 * 1024;
/// Most handles kept; each has a handful of threads.
const MOST_HANDLES: usize = 64;

/// How many handles there are, and how each is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuning {
    handles: usize,
    queue_kb: usize,
    fetch_wait_ms: usize,
}

/// One handle for each partition, so that none has to change its place, up to a
/// bound. Beyond it handles wander, and a wandering handle first waits for the
/// fetch that is under way: then fetches wait for records only shortly.
fn tuning(partitions: usize) -> Tuning {
    let handles = partitions.clamp(2, MOST_HANDLES);
    let fetch_wait_ms = if partitions > MOST_HANDLES { 5 } else { 100 };
    Tuning { handles, queue_kb: (QUEUE_BUDGET_KB / handles).min(4096), fetch_wait_ms }
}

/// The handles of one source.
pub struct ConsumerPool {
    config: rdkafka::ClientConfig,
    client: ClientSettings,
    state: Mutex<State>,
    sizes: SizeMeter,
    silence: Arc<Silence>,
}

struct State {
    idle: Vec<Handle>,
    live: usize,
    tuning: Tuning,
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
        let defaults = [
            ("isolation.level", "read_uncommitted"),
            ("group.id", group_id),
            ("fetch.error.backoff.ms", "50"),
            ("fetch.queue.backoff.ms", "5"),
            ("queued.min.messages", "16384"),
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
        Self {
            config,
            client: options.client.clone(),
            state: Mutex::new(State { idle: Vec::new(), live: 0, tuning: tuning(0) }),
            sizes: SizeMeter::default(),
            silence: Arc::default(),
        }
    }

    /// The client's settings, for messages.
    pub fn client(&self) -> &ClientSettings {
        &self.client
    }

    /// Readers that wait for records in vain.
    pub fn silence(&self) -> &Arc<Silence> {
        &self.silence
    }

    /// Mean sizes of what was read.
    pub fn sizes(&self) -> &SizeMeter {
        &self.sizes
    }

    /// The most bytes that the handles hold fetched ahead.
    pub fn queue_bytes(&self) -> usize {
        QUEUE_BUDGET_KB * 1024
    }

    /// Says which partitions the source has: handles made from now on are set for
    /// their number, idle ones of other partitions go.
    pub fn expect(&self, partitions: &PartitionOffsets) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let tuned = tuning(partitions.len());
        if tuned.handles > state.tuning.handles || partitions.len() > MOST_HANDLES {
            state.tuning = tuned;
        }
        let wanted = |handle: &Handle| handle.assigned.as_ref().is_none_or(|assigned| partitions.contains_key(assigned));
        let (kept, gone): (Vec<Handle>, Vec<Handle>) = std::mem::take(&mut state.idle).into_iter().partition(wanted);
        state.idle = kept;
        state.live = state.live.saturating_sub(gone.len());
        drop(state);
        // Closing a handle takes a moment; nobody waits for the lock meanwhile.
        close(gone);
    }

    /// A handle that will deliver `partition` from `start` on; it comes back when the lease is dropped.
    pub fn lease(self: &Arc<Self>, partition: &TopicPartition, start: i64) -> Result<Lease> {
        Ok(Lease { handle: Some(self.acquire(partition, start)?), pool: Arc::clone(self) })
    }

    fn acquire(&self, partition: &TopicPartition, start: i64) -> Result<Handle> {
        let (kept, tuning) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = choose(&state.idle, state.live, state.tuning.handles, partition, start).map(|at| state.idle.remove(at));
            state.live += usize::from(kept.is_none());
            (kept, state.tuning)
        };
        let made = match kept {
            Some(handle) => Ok(handle),
            None => self.make(tuning),
        };
        let assigned = made.and_then(|mut handle| {
            self.client.authorize(handle.drain.consumer())?;
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
        assigned.map_err(|error| errors::unreachable(&format!("read {partition}"), self.client.servers(), &error.to_string()))?;
        handle.assigned = Some(partition.clone());
        (handle.next, handle.reached) = (start, start);
        Ok(())
    }

    /// Takes a handle back for the next reader.
    fn release(&self, handle: Handle) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.live > state.tuning.handles {
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

    fn make(&self, tuning: Tuning) -> Result<Handle> {
        let mut config = self.config.clone();
        for (name, value) in [("fetch.wait.max.ms", tuning.fetch_wait_ms), ("queued.max.messages.kbytes", tuning.queue_kb)] {
            if config.get(name).is_none() {
                config.set(name, value.to_string());
            }
        }
        let consumer = config.create_with_context(LastWords::default()).map_err(|error| lookup::cannot_create(&error))?;
        Ok(Handle { drain: BatchDrain::new(Arc::new(consumer))?, assigned: None, next: 0, reached: 0 })
    }
}

impl Drop for ConsumerPool {
    fn drop(&mut self) {
        close(std::mem::take(&mut self.state.get_mut().unwrap_or_else(PoisonError::into_inner).idle));
    }
}

/// Closes handles side by side: each waits for the fetch that is under way.
fn close(handles: Vec<Handle>) {
    std::thread::scope(|scope| {
        for handle in handles {
            // Where no thread can be had, the handle goes with the closure, here.
            let _ = std::thread::Builder::new().name("kafka-close".into()).spawn_scoped(scope, move || drop(handle));
        }
    });
}

/// Which idle handle serves best; `None` asks for a new one.
fn choose(idle: &[Handle], live: usize, most: usize, partition: &TopicPartition, start: i64) -> Option<usize> {
    let standing = idle.iter().position(|handle| handle.stands_at(partition, start));
    let same = || idle.iter().position(|handle| handle.assigned.as_ref() == Some(partition));
    // Batches go over the partitions in turn: giving up the handle used last lets the others stay where they are.
    standing.or_else(same).or_else(|| idle.len().checked_sub(1).filter(|_| live >= most))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_share_one_budget_and_never_outnumber_the_bound() {
        assert_eq!(tuning(4), Tuning { handles: 4, queue_kb: 4096, fetch_wait_ms: 100 });
        for partitions in 0..2000 {
            let tuned = tuning(partitions);
            assert!(tuned.handles <= MOST_HANDLES && tuned.handles * tuned.queue_kb <= QUEUE_BUDGET_KB);
            assert!(partitions > MOST_HANDLES || tuned.handles >= partitions);
        }
    }

    #[test]
    fn the_mean_follows_the_last_records() {
        let meter = SizeMeter::default();
        assert_eq!(meter.mean(), None);
        meter.add(1_000_000, 100_000_000);
        meter.add(1_000_000, 300_000_000);
        meter.add(2_000_000, 600_000_000);
        assert!(meter.mean().is_some_and(|mean| mean > 200.0 && mean <= 300.0));
    }
}
