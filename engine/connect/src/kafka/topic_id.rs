//! Which topic a name stands for: brokers give each an id, and one that is made anew under its name has another.
//!
//! `rdkafka` has no call for it, so this is `rd_kafka_DescribeTopics` with its
//! queue, options and event, each freed by its owner here. One question, one
//! answer, bounded in time; brokers before 2.8 know no ids.

use std::ffi::{CStr, CString};
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

/// The id that stands for none.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// A C object that is freed with its owner.
struct Owned<T> {
    pointer: *mut T,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    fn new(pointer: *mut T, free: unsafe extern "C" fn(*mut T)) -> KafkaResult<Self> {
        if pointer.is_null() { Err(failed(RDKafkaErrorCode::Fail)) } else { Ok(Self { pointer, free }) }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer is not null, was made by the library for this owner alone, and is freed once.
        unsafe { (self.free)(self.pointer) }
    }
}

/// Asks the brokers for the id of a topic.
pub fn ask<C: ClientContext>(client: &Client<C>, topic: &str, timeout: Duration) -> KafkaResult<Option<String>> {
    let name = CString::new(topic).map_err(|_| failed(RDKafkaErrorCode::InvalidTopic))?;
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let handle = client.native_ptr();
    // SAFETY: the handle outlives this function, which borrows its client; the list of names is copied by the call; every
    // other object is owned here until the answer was read, and the answer is read while its event is alive.
    unsafe {
        let topics = native::rd_kafka_TopicCollection_of_topic_names([name.as_ptr()].as_mut_ptr(), 1);
        let topics = Owned::new(topics, native::rd_kafka_TopicCollection_destroy)?;
        let options = native::rd_kafka_AdminOptions_new(handle, native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        let options = Owned::new(options, native::rd_kafka_AdminOptions_destroy)?;
        native::rd_kafka_AdminOptions_set_request_timeout(options.pointer, millis, std::ptr::null_mut(), 0);
        let queue = Owned::new(native::rd_kafka_queue_new(handle), native::rd_kafka_queue_destroy)?;
        native::rd_kafka_DescribeTopics(handle, topics.pointer, options.pointer, queue.pointer);
        let event = native::rd_kafka_queue_poll(queue.pointer, millis);
        if event.is_null() {
            return Err(failed(RDKafkaErrorCode::OperationTimedOut));
        }
        let event = Owned::new(event, native::rd_kafka_event_destroy)?;
        refuse(native::rd_kafka_event_error(event.pointer))?;
        let result = native::rd_kafka_event_DescribeTopics_result(event.pointer);
        let mut count = 0;
        let found = if result.is_null() { std::ptr::null_mut() } else { native::rd_kafka_DescribeTopics_result_topics(result, &mut count) };
        if found.is_null() || count == 0 {
            return Err(failed(RDKafkaErrorCode::UnknownTopicOrPartition));
        }
        let error = native::rd_kafka_TopicDescription_error(*found);
        if !error.is_null() {
            refuse(native::rd_kafka_error_code(error))?;
        }
        let id = native::rd_kafka_TopicDescription_topic_id(*found);
        let text = if id.is_null() { std::ptr::null() } else { native::rd_kafka_Uuid_base64str(id) };
        if text.is_null() {
            return Ok(None);
        }
        let text = CStr::from_ptr(text).to_string_lossy().into_owned();
        Ok(Some(text).filter(|text| text != NO_ID))
    }
}

fn refuse(code: native::rd_kafka_resp_err_t) -> KafkaResult<()> {
    match RDKafkaErrorCode::from(code) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => Err(failed(code)),
    }
}

fn failed(code: RDKafkaErrorCode) -> KafkaError {
    KafkaError::MetadataFetch(code)
}
