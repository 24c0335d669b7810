//! The kit's broker is a real one and does what its handle says.
#![allow(clippy::unwrap_used)]

use weir_testkit::kafka::{Broker, BrokerOptions, Message, numbered_messages};
use weir_testkit::process::is_alive;

#[test]
fn records_come_back_as_they_went_in() {
    let broker = Broker::shared();
    let topic = broker.new_topic("records", 2, &[]).unwrap();
    let sent = [
        Message::of("a").key("k").partition(0).timestamp(1_700_000_000_000).header("h", "v"),
        Message::tombstone("k").partition(1).timestamp(5),
        Message::of(vec![0xff, 0x00]).partition(1).timestamp(6),
    ];
    broker.produce(&topic, sent.clone()).unwrap();
    let received = broker.read_all(&topic).unwrap();
    let again: Vec<Message> = received
        .iter()
        .map(|message| Message {
            partition: Some(message.partition),
            key: message.key.clone(),
            value: message.value.clone(),
            timestamp: message.timestamp,
            headers: message.headers.clone(),
        })
        .collect();
    assert_eq!(again, sent);
    assert_eq!(broker.end_offsets(&topic).unwrap(), [1, 2]);
}

#[test]
fn two_hundred_thousand_records_are_quick() {
    let broker = Broker::shared();
    let topic = broker.new_topic("many", 4, &[]).unwrap();
    broker.produce(&topic, numbered_messages(0..200_000, 4)).unwrap();
    assert_eq!(broker.end_offsets(&topic).unwrap(), [50_000; 4]);
    assert_eq!(broker.read_all(&topic).unwrap().len(), 200_000);
}

#[test]
fn only_committed_transactions_are_read() {
    let broker = Broker::shared();
    let topic = broker.new_topic("transactions", 1, &[]).unwrap();
    for (value, commits) in [("kept", true), ("dropped", false)] {
        let transaction = broker.begin_transaction(&weir_testkit::unique_name("writer")).unwrap();
        transaction.produce(&topic, [Message::of(value)]).unwrap();
        if commits { transaction.commit().unwrap() } else { transaction.abort().unwrap() }
    }
    let texts = |messages: Vec<_>| messages.iter().map(weir_testkit::kafka::ReceivedMessage::text).collect::<Vec<_>>();
    assert_eq!(texts(broker.read_all(&topic).unwrap()), ["kept"]);
    assert_eq!(texts(broker.read_all_uncommitted(&topic).unwrap()), ["kept", "dropped"]);
}

#[test]
fn topics_grow_are_cut_and_go() {
    let broker = Broker::shared();
    let topic = broker.new_topic("topic", 1, &[("cleanup.policy", "compact")]).unwrap();
    broker.delete_topic(&topic).unwrap();
    broker.create_topic(&topic, 1, &[]).unwrap();
    broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    broker.delete_records(&topic, 0, 4).unwrap();
    assert_eq!(broker.offsets(&topic, 0).unwrap(), (4, 10));
    broker.add_partitions(&topic, 3).unwrap();
    assert_eq!(broker.partition_count(&topic).unwrap(), Some(3));
    let shell = broker.tool("org.apache.kafka.tools.GetOffsetShell", &["--topic", &topic]).unwrap();
    assert!(shell.contains(&format!("{topic}:0:10")), "{shell}");
}

#[test]
fn a_broker_comes_back_on_its_port_with_its_data() {
    let options = BrokerOptions::default().property("message.max.bytes", 5_000);
    let broker = Broker::start_with(options).unwrap();
    broker.create_topic("kept", 1, &[]).unwrap();
    broker.produce("kept", [Message::of("before")]).unwrap();
    let refused = broker.produce("kept", [Message::of(vec![b'x'; 10_000])]).unwrap_err();
    assert!(format!("{refused:#}").contains("size"), "{refused:#}");
    let port = broker.port();
    broker.stop().unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    broker.start_again().unwrap();
    broker.kill().unwrap();
    broker.start_again().unwrap();
    broker.freeze().unwrap();
    broker.thaw().unwrap();
    assert_eq!(broker.read_all("kept").unwrap()[0].text(), "before");
    assert_eq!(broker.port(), port);
}

#[test]
fn a_broker_ends_with_a_panicking_test() {
    let pid = std::sync::Arc::new(std::sync::Mutex::new(0));
    let seen = pid.clone();
    let panicked = std::thread::spawn(move || {
        let broker = Broker::start().unwrap();
        *seen.lock().unwrap() = broker.process_id().unwrap();
        panic!("the log of this broker is kept, and the broker ends");
    });
    assert!(panicked.join().is_err());
    let pid = *pid.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    assert!(pid > 0 && !is_alive(pid));
}
