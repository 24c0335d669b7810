//! Event Hubs by its native connector (`format: eventhubs`): not available, but every namespace from the Standard tier on speaks Kafka.
//!
//! From the native connector's options comes the block of a manifest that does the same through the Kafka endpoint. The connection
//! string is a secret: host and event hub are taken from it, the rest is never shown.

use std::collections::BTreeMap;

use serde_json::Value;

use super::row::Role;

/// What a connection string says beside its key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Connection {
    host: Option<String>,
    event_hub: Option<String>,
}

/// Reads `Endpoint=sb://host/;SharedAccessKeyName=…;SharedAccessKey=…;EntityPath=hub`, the key left aside.
/// What no host or name can be is not taken over, so that nothing else is shown by mistake.
fn connection(text: &str) -> Connection {
    let mut found = Connection::default();
    for (name, value) in text.split(';').filter_map(|part| part.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "endpoint" => {
                let address = value.trim().strip_prefix("sb://").map(|rest| rest.split(['/', ':']).next().unwrap_or_default());
                found.host = address.filter(|host| is_name(host)).map(str::to_owned);
            }
            "entitypath" => found.event_hub = Some(value.trim()).filter(|name| is_name(name)).map(str::to_owned),
            _ => {}
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// The block to write instead, with the options that say the same. `options` are those of the native connector.
pub fn kafka_block(role: Role, options: &BTreeMap<String, String>) -> String {
    let given = |wanted: &str| {
        let is = |name: &str| name.to_ascii_lowercase().trim_start_matches("eventhubs.") == wanted;
        options.iter().find(|(name, _)| is(name)).map(|(_, value)| value.trim())
    };
    let Connection { host, event_hub } = given("connectionstring").map(connection).unwrap_or_default();
    let name = given("name").filter(|name| is_name(name)).map(str::to_owned);
    let host = host.unwrap_or_else(|| "<namespace>.servicebus.windows.net".to_owned());
    let topic = event_hub.or(name).unwrap_or_else(|| "<event hub>".to_owned());
    let mut lines = vec![
        ("kafka.bootstrap.servers", format!("{host}:9093")),
        (if role == Role::Sink { "topic" } else { "subscribe" }, topic),
        ("kafka.security.protocol", "SASL_SSL".to_owned()),
        ("kafka.sasl.mechanism", "PLAIN".to_owned()),
    ];
    if role != Role::Sink {
        lines.extend(given("startingposition").and_then(start));
        let group = given("consumergroup").filter(|group| is_name(group));
        lines.extend(group.map(|group| ("kafka.group.id", group.to_owned())));
    }
    if role == Role::Source {
        let most = given("maxeventspertrigger").filter(|most| most.parse::<u64>().is_ok());
        lines.extend(most.map(|most| ("maxOffsetsPerTrigger", format!("\"{most}\""))));
    }
    let options: String = lines.iter().map(|(name, value)| format!("\n    {name}: {value}")).collect();
    format!(
        "write\n  format: kafka\n  options:{options}\n  optionsFrom: [{{secretRef: {{name: eventhubs}}}}]\nand keep the connection string in a Secret:\n  \
         apiVersion: v1\n  kind: Secret\n  metadata: {{name: eventhubs}}\n  stringData:\n    kafka.sasl.jaas.config: \
         org.apache.kafka.common.security.plain.PlainLoginModule required username=\"$ConnectionString\" password=\"<the connection string>\";"
    )
}

/// `{"offset":"-1","seqNo":-1,"enqueuedTime":null,"isInclusive":true}`. Offsets within a partition and times are left to the reader.
fn start(position: &str) -> Option<(&'static str, String)> {
    let position: Value = serde_json::from_str(position).ok()?;
    let offset = match position.get("offset").and_then(Value::as_str)? {
        "-1" => "earliest",
        "@latest" => "latest",
        _ => return None,
    };
    Some(("startingOffsets", offset.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRING: &str =
        "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=listen;SharedAccessKey=geheim+/=;EntityPath=clicks";

    fn block(role: Role, options: &[(&str, &str)]) -> String {
        kafka_block(role, &options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn the_block_says_what_the_native_options_said_and_not_the_key() {
        let position = r#"{"offset":"-1","seqNo":-1,"enqueuedTime":null,"isInclusive":true}"#;
        let options = [
            ("eventhubs.connectionString", STRING),
            ("eventhubs.consumerGroup", "spark"),
            ("eventhubs.startingPosition", position),
            ("maxEventsPerTrigger", "5000"),
        ];
        let text = block(Role::Source, &options);
        for line in [
            "format: kafka",
            "kafka.bootstrap.servers: contoso.servicebus.windows.net:9093",
            "subscribe: clicks",
            "kafka.security.protocol: SASL_SSL",
            "kafka.sasl.mechanism: PLAIN",
            "startingOffsets: earliest",
            "kafka.group.id: spark",
            "maxOffsetsPerTrigger: \"5000\"",
            "optionsFrom: [{secretRef: {name: eventhubs}}]",
        ] {
            assert!(text.lines().any(|found| found.trim() == line), "{line} in {text}");
        }
        assert!(text.contains("username=\"$ConnectionString\"") && !text.contains("geheim") && !text.contains("listen"), "{text}");
        assert!(block(Role::Sink, &options).contains("    topic: clicks"));
    }

    #[test]
    fn what_cannot_be_read_becomes_a_place_to_fill_and_is_not_shown() {
        for text in ["geheim", "Endpoint=sb://ge heim/;EntityPath=ge heim", "Endpoint=geheim;EntityPath=", "SharedAccessKey=geheim"] {
            let block = block(Role::Source, &[("eventhubs.connectionString", text), ("eventhubs.consumerGroup", "$Default")]);
            assert!(block.contains("<namespace>.servicebus.windows.net:9093") && block.contains("subscribe: <event hub>"), "{block}");
            assert!(!block.contains("heim") && !block.contains("group.id"), "{block}");
        }
    }
}
