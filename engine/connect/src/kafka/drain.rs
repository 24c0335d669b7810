//! Taking many records at once from librdkafka: the only unsafe code of the connector, but for single calls in `token` and `topic_id`.
//!
//! `rdkafka` hands out one record per call, with an allocation and a clock read
//! each. `BatchDrain` owns a consumer handle with its queue and takes up to a
//! few thousand records in one call (`rd_kafka_consume_batch_queue`). Records
//! stay in C memory until `advance` frees them; a view borrows the drain, so it
//! cannot outlive its record. What was taken and not used stays for the next
//! batch. One thread uses a drain at a time: it is `Send`, not `Sync`.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use weir_core::{Error, Result};

use super::lookup::LastWords;

/// Records taken by one call at most.
const SLOTS: usize = 4096;

/// A consumer handle and the records taken from it.
pub struct BatchDrain {
    queue: NonNull<native::rd_kafka_queue_t>,
    slots: Box<[*mut native::rd_kafka_message_t]>,
    head: usize,
    filled: usize,
    consumer: Arc<BaseConsumer<LastWords>>,
}

// SAFETY: librdkafka handles, queues and messages may be used from any thread;
// the pointers belong to this value alone and every use needs `&mut self` or a
// view that borrows it.
unsafe impl Send for BatchDrain {}

impl BatchDrain {
    /// Takes over a consumer that has a `group.id`, which is what gives it a consumer queue.
    pub fn new(consumer: Arc<BaseConsumer<LastWords>>) -> Result<Self> {
        // SAFETY: the client pointer is valid as long as `consumer`, which this
        // value shares; the reference to the queue is given back in `drop`.
        let queue = unsafe { native::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        let queue = NonNull::new(queue).ok_or_else(|| {
            Error::config("INVALID_OPTION_VALUE", "the Kafka client has no consumer queue: the option kafka.group.id is empty")
        })?;
        let slots = vec![std::ptr::null_mut(); SLOTS].into_boxed_slice();
        Ok(Self { queue, slots, head: 0, filled: 0, consumer })
    }

    /// The handle, for assignments and questions.
    pub fn consumer(&self) -> &Arc<BaseConsumer<LastWords>> {
        &self.consumer
    }

    /// Takes up to `most` records that are there; with none there waits for one up to `patience`.
    /// Only when nothing taken is left.
    pub fn fill(&mut self, most: usize, patience: Duration) -> usize {
        debug_assert!(self.head == self.filled, "records that were taken are used first");
        self.head = 0;
        self.filled = self.take(0, most.clamp(1, SLOTS), Duration::ZERO);
        if self.filled == 0 {
            self.filled = self.take(0, 1, patience);
        }
        self.filled
    }

    fn take(&mut self, at: usize, most: usize, patience: Duration) -> usize {
        let free = &mut self.slots[at..at + most];
        let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is alive, and librdkafka writes at most `free.len()`
        // message pointers into the slice, which become ours to destroy.
        let taken = unsafe { native::rd_kafka_consume_batch_queue(self.queue.as_ptr(), patience, free.as_mut_ptr(), free.len()) };
        usize::try_from(taken).unwrap_or(0)
    }

    /// The next record, if one was taken.
    pub fn peek(&self) -> Option<RecordView<'_>> {
        // SAFETY: slots in `head..filled` hold messages that were taken and not destroyed.
        self.slots[self.head..self.filled].first().map(|slot| RecordView { message: unsafe { &**slot } })
    }

    /// Frees the next record.
    pub fn advance(&mut self) {
        if self.head < self.filled {
            // SAFETY: as in `peek`; moving `head` makes the pointer unreachable. No
            // view is alive, since this call borrows the drain exclusively.
            unsafe { native::rd_kafka_message_destroy(self.slots[self.head]) };
            self.head += 1;
        }
    }

    /// Frees all that was taken.
    pub fn clear(&mut self) {
        while self.head < self.filled {
            self.advance();
        }
    }
}

impl Drop for BatchDrain {
    fn drop(&mut self) {
        self.clear();
        // SAFETY: gives back the reference of `new`, once, before the consumer is closed.
        unsafe { native::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// One record, or an event in its place, in C memory.
pub struct RecordView<'a> {
    message: &'a native::rd_kafka_message_t,
}

impl<'a> RecordView<'a> {
    /// The event, where this is no record.
    pub fn error(&self) -> Option<RDKafkaErrorCode> {
        let code = RDKafkaErrorCode::from(self.message.err);
        (code != RDKafkaErrorCode::NoError).then_some(code)
    }

    /// The event's text.
    pub fn error_text(&self) -> String {
        String::from_utf8_lossy(self.value().unwrap_or_default()).into_owned()
    }

    /// The record's offset; for the end of a partition, the offset that comes next.
    pub fn offset(&self) -> i64 {
        self.message.offset
    }

    /// The partition's number.
    pub fn partition(&self) -> i32 {
        self.message.partition
    }

    /// The topic's name; empty for events of no topic.
    pub fn topic(&self) -> &'a [u8] {
        if self.message.rkt.is_null() {
            return &[];
        }
        // SAFETY: a message keeps its topic handle alive, and the name lives as long as that.
        unsafe { CStr::from_ptr(native::rd_kafka_topic_name(self.message.rkt)) }.to_bytes()
    }

    /// The key; `None` is null.
    pub fn key(&self) -> Option<&'a [u8]> {
        bytes(self.message.key.cast(), self.message.key_len)
    }

    /// The value; `None` is null, a tombstone.
    pub fn value(&self) -> Option<&'a [u8]> {
        bytes(self.message.payload.cast(), self.message.len)
    }

    /// Milliseconds since 1970 (-1 when absent) and Kafka's number for the type: -1 none, 0 create time, 1 append time.
    pub fn timestamp(&self) -> (i64, i32) {
        let mut kind = native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive and `kind` is a valid place to write to.
        let time = unsafe { native::rd_kafka_message_timestamp(self.message, &mut kind) };
        (time, kind as i32 - 1)
    }

    /// Calls `each` with the headers in order; false when the record has none.
    pub fn for_each_header(&self, mut each: impl FnMut(&'a [u8], Option<&'a [u8]>)) -> bool {
        let mut headers = std::ptr::null_mut();
        // SAFETY: the message is alive; librdkafka keeps ownership of the headers,
        // which live as long as the message.
        let found = unsafe { native::rd_kafka_message_headers(self.message, &mut headers) };
        if RDKafkaErrorCode::from(found) != RDKafkaErrorCode::NoError {
            return false;
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (std::ptr::null(), std::ptr::null(), 0);
            // SAFETY: `headers` is valid and the three places can be written to.
            let found = unsafe { native::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut size) };
            if RDKafkaErrorCode::from(found) != RDKafkaErrorCode::NoError {
                break;
            }
            // SAFETY: on success the name is a C string of the headers' memory.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes();
            each(name, bytes(value.cast(), size));
        }
        true
    }
}

/// A slice of C memory that the caller's message keeps alive; a null pointer is null.
fn bytes<'a>(start: *const u8, len: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: librdkafka gives pointer and length of memory owned by the message,
    // and only `RecordView<'a>`, which borrows the message, calls this.
    Some(unsafe { slice::from_raw_parts(start, len) })
}
