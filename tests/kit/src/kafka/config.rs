//! The broker's configuration file: one node, small, quick to start and quick to notice.
//!
//! A test's own properties come last and win. Nothing else about the broker is decided here.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What a test may choose about its broker.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Entries of server.properties, such as `message.max.bytes`; they override the kit's.
    pub properties: BTreeMap<String, String>,
    /// The Java heap, as in `-Xmx`.
    pub heap: String,
    /// Whether there are listeners that ask for a login, with SCRAM and with TLS.
    pub secured: bool,
}

impl Default for BrokerOptions {
    fn default() -> BrokerOptions {
        BrokerOptions { properties: BTreeMap::new(), heap: "512m".into(), secured: false }
    }
}

impl BrokerOptions {
    #[must_use]
    pub fn property(mut self, key: &str, value: impl ToString) -> BrokerOptions {
        self.properties.insert(key.into(), value.to_string());
        self
    }
}

const FIXED: [(&str, &str); 26] = [
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", "CONTROLLER"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("auto.create.topics.enable", "false"),
    ("num.partitions", "1"),
    ("default.replication.factor", "1"),
    ("offsets.topic.replication.factor", "1"),
    ("offsets.topic.num.partitions", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "1000"),
    ("log.retention.check.interval.ms", "500"),
    // A broker that was killed can register again when its session is over.
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("log.segment.delete.delay.ms", "100"),
    ("log.initial.task.delay.ms", "100"),
    // Tests use old timestamps; who wants retention asks for it in a topic of his own.
    ("log.retention.ms", "-1"),
    ("log.cleaner.backoff.ms", "500"),
    ("num.network.threads", "2"),
];

pub(super) fn server_properties(port: u16, controller_port: u16, data: &Path, own: &BTreeMap<String, String>) -> String {
    let mut all: BTreeMap<String, String> = FIXED.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    all.insert("listeners".into(), format!("PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"));
    all.insert("advertised.listeners".into(), format!("PLAINTEXT://127.0.0.1:{port}"));
    all.insert("controller.quorum.bootstrap.servers".into(), format!("127.0.0.1:{controller_port}"));
    all.insert("log.dirs".into(), data.display().to_string());
    all.extend(own.clone());
    all.iter().fold(String::new(), |mut text, (key, value)| {
        writeln!(text, "{key}={}", value.replace('\\', "\\\\")).expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_properties_win() {
        let options = BrokerOptions::default().property("num.partitions", 7).property("message.max.bytes", 1000);
        let text = server_properties(1, 2, Path::new("/data"), &options.properties);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"num.partitions=7") && lines.contains(&"message.max.bytes=1000"), "{text}");
        assert!(!lines.contains(&"num.partitions=1"), "{text}");
        assert!(lines.contains(&"listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"), "{text}");
    }
}
