//! Brokers that ask for a login or speak TLS: who is let in, and what everybody else is told, and when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, StringArray};
use weir_connect::{ReadLimits, Source};
use weir_core::{Error, ErrorClass};
use weir_testkit::certificates::Authority;
use weir_testkit::kafka::{
    Broker, CHANGING_PASSWORD, CHANGING_USER, CONNECTION_STRING, CONNECTION_USER, Issuer, SCRAM_PASSWORD, SCRAM_USER, Secured,
    numbered_messages,
};

use super::driver::{Batch, Checkpoint, read};
use super::scene::EPOCH_MS;
use super::sink;

/// All parts of a test end within this, also on a busy machine; a client that is refused would ask for ever.
const SOON: Duration = Duration::from_secs(60);

type Options = BTreeMap<String, String>;

fn with(options: &Options, given: &[(&str, &str)]) -> Options {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    options.clone().into_iter().chain(given).collect()
}

fn jaas(module: &str, user: &str, password: &str) -> String {
    format!("{module} required username=\"{user}\" password=\"{password}\";")
}

fn plain(password: &str) -> String {
    jaas("kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule", CONNECTION_USER, password)
}

fn scram(password: &str) -> String {
    jaas("org.apache.kafka.common.security.scram.ScramLoginModule", SCRAM_USER, password)
}

/// What gets in by SCRAM.
fn scram_options(topic: &str) -> Options {
    let secured = Broker::shared().secured();
    with(
        &Options::new(),
        &[
            ("kafka.bootstrap.servers", &secured.scram()),
            ("subscribe", topic),
            ("startingOffsets", "earliest"),
            ("kafka.security.protocol", "SASL_PLAINTEXT"),
            ("kafka.sasl.mechanism", "SCRAM-SHA-512"),
            ("kafka.sasl.jaas.config", &scram(SCRAM_PASSWORD)),
        ],
    )
}

/// What gets in by TLS, as into Event Hubs.
fn tls_options(topic: &str) -> Options {
    let secured = Broker::shared().secured();
    with(
        &Options::new(),
        &[
            ("kafka.bootstrap.servers", &secured.tls()),
            ("subscribe", topic),
            ("startingOffsets", "earliest"),
            ("kafka.security.protocol", "SASL_SSL"),
            ("kafka.sasl.mechanism", "PLAIN"),
            ("kafka.sasl.jaas.config", &plain(CONNECTION_STRING)),
            ("kafka.ssl.truststore.type", "PEM"),
            ("kafka.ssl.truststore.certificates", &secured.authority.pem().unwrap()),
        ],
    )
}

/// How many records a client with these options reads.
async fn records(options: &Options) -> usize {
    let mut source = Checkpoint::new().open(options).unwrap();
    let start = source.initial_offset().await.unwrap().unwrap();
    let end = source.plan(Some(&start), ReadLimits::Apply, EPOCH_MS).await.unwrap().end.unwrap();
    read(&mut source, &start, &end).await.unwrap().len()
}

async fn refused(options: &Options, condition: &str, words: &[&str]) {
    let begun = Instant::now();
    let mut source = Checkpoint::new().open(options).unwrap();
    says(&source.reach().await.unwrap_err(), condition, words);
    assert!(begun.elapsed() < SOON, "{condition} after {:?}", begun.elapsed());
}

fn says(error: &Error, condition: &str, words: &[&str]) {
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, condition), "{error}");
    for word in words {
        assert!(error.message().contains(word), "`{word}` is not in: {error}");
    }
    for secret in [SCRAM_PASSWORD, CONNECTION_STRING, "Z2VoZWlt"] {
        assert!(!error.to_string().contains(secret), "{error}");
    }
}

fn topic() -> String {
    let topic = Broker::shared().new_topic("secured", 2, &[]).unwrap();
    Broker::shared().produce(&topic, numbered_messages(0..20, 2)).unwrap();
    topic
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_the_password_and_trusts_the_certificate_is_let_in() {
    let (topic, secured) = (topic(), Broker::shared().secured());
    assert_eq!(records(&scram_options(&topic)).await, 20);
    assert_eq!(records(&with(&scram_options(&topic), &[("kafka.sasl.mechanism", "SCRAM-SHA-256")])).await, 20);
    assert_eq!(records(&tls_options(&topic)).await, 20);
    let folder = tempfile::tempdir().unwrap();
    let (trusted, own) = (folder.path().join("ca.crt"), folder.path().join("client.p12"));
    let client = secured.authority.issue("client", &[]).unwrap();
    std::fs::write(&trusted, secured.authority.pem().unwrap()).unwrap();
    std::fs::write(&own, secured.authority.pkcs12(&client, "geheim").unwrap()).unwrap();
    let mut options = tls_options(&topic);
    options.remove("kafka.ssl.truststore.certificates");
    let files = [
        ("kafka.ssl.truststore.location", trusted.to_str().unwrap()),
        ("kafka.ssl.keystore.type", "PKCS12"),
        ("kafka.ssl.keystore.location", own.to_str().unwrap()),
        ("kafka.ssl.keystore.password", "geheim"),
    ];
    assert_eq!(records(&with(&options, &files)).await, 20);
    let unchecked = [("kafka.bootstrap.servers", &*secured.tls_by_another_name()), ("kafka.ssl.endpoint.identification.algorithm", "")];
    assert_eq!(records(&with(&tls_options(&topic), &unchecked)).await, 20);
    let rows = sink::rows(vec![("value", Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef)]);
    let mut options = tls_options(&topic);
    options.retain(|name, _| name.starts_with("kafka."));
    let sink_options = with(&options, &[("topic", &topic)]);
    let given: Vec<(&str, &str)> = sink_options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    sink::write(&sink::options(&given, &secured.tls()).unwrap(), rows.clone()).await.unwrap();
    let once: Vec<(&str, &str)> = given.iter().copied().chain([("deliveryGuarantee", "exactly-once")]).collect();
    sink::write(&sink::options(&once, &secured.tls()).unwrap(), rows).await.unwrap();
    assert_eq!(Broker::shared().read_all(&topic).unwrap().len(), 24);
}

/// What gets in by a token of an endpoint.
fn token_options(topic: &str, endpoint: &str, secret: &str) -> Options {
    let module = "kafkashaded.org.apache.kafka.common.security.oauthbearer";
    let jaas = format!("{module}.OAuthBearerLoginModule required clientId=\"job\" clientSecret=\"{secret}\" scope=\"kafka\";");
    with(
        &scram_options(topic),
        &[
            ("kafka.bootstrap.servers", &Broker::shared().secured().token()),
            ("kafka.sasl.mechanism", "OAUTHBEARER"),
            ("kafka.sasl.oauthbearer.token.endpoint.url", endpoint),
            ("kafka.sasl.login.callback.handler.class", &format!("{module}.secured.OAuthBearerLoginCallbackHandler")),
            ("kafka.sasl.jaas.config", &jaas),
        ],
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_token_lets_all_clients_in() {
    let (topic, issuer) = (topic(), Issuer::start("job", "Z2VoZWlt", "kafka", (3600, 3600)).unwrap());
    let good = token_options(&topic, &issuer.url(), "Z2VoZWlt");
    assert_eq!((records(&good).await, issuer.issued()), (20, 1));
    let remedy = "check kafka.sasl.oauthbearer.token.endpoint.url";
    let wrong = token_options(&topic, &issuer.url(), "wrong-Z2VoZWlt");
    refused(&wrong, "KAFKA_AUTHENTICATION_FAILED", &[&issuer.url(), "401", "invalid_client: no such client", remedy]).await;
    let away = token_options(&topic, "http://127.0.0.1:1/token", "Z2VoZWlt");
    refused(&away, "KAFKA_AUTHENTICATION_FAILED", &["http://127.0.0.1:1/token", "refused", remedy]).await;
    let mut client = good;
    client.retain(|name, _| name.starts_with("kafka."));
    let rows = sink::rows(vec![("value", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]);
    for guarantee in ["at-least-once", "exactly-once"] {
        let sink_options = with(&client, &[("topic", &topic), ("deliveryGuarantee", guarantee)]);
        let given: Vec<(&str, &str)> = sink_options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        sink::write(&sink::options(&given, &Broker::shared().secured().token()).unwrap(), rows.clone()).await.unwrap();
    }
    assert_eq!(Broker::shared().read_all(&topic).unwrap().len(), 22);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_renewed_while_a_query_runs_and_its_end_is_told_when_it_cannot_be() {
    // Brokers close a connection whose token has ended: the first ends while the last is in force.
    let (topic, issuer) = (topic(), Issuer::start("job", "Z2VoZWlt", "kafka", (5, 2)).unwrap());
    let mut source = Checkpoint::new().open(&token_options(&topic, &issuer.url(), "Z2VoZWlt")).unwrap();
    let mut start = source.initial_offset().await.unwrap().unwrap();
    let (mut produced, mut rows) = (20, 0);
    let begun = Instant::now();
    let error = loop {
        if begun.elapsed() > Duration::from_secs(7) && issuer.issued() > 2 {
            issuer.close_account();
        }
        let planned = match source.plan(Some(&start), ReadLimits::Apply, EPOCH_MS).await {
            Ok(planned) => planned.end.unwrap(),
            Err(error) => break error,
        };
        match read(&mut source, &start, &planned).await {
            Ok(read) => rows += read.len(),
            Err(error) => break error,
        }
        start = planned;
        assert_eq!(rows as u64, produced);
        Broker::shared().produce(&topic, numbered_messages(produced..produced + 2, 2)).unwrap();
        produced += 2;
    };
    assert!(begun.elapsed() > Duration::from_secs(7), "{error}");
    says(&error, "KAFKA_AUTHENTICATION_FAILED", &[&issuer.url(), "invalid_client: no such client"]);
}

#[tokio::test]
async fn a_login_that_is_refused_is_said_at_once() {
    let secured = Broker::shared().secured();
    let correct = "correct the user name and password in kafka.sasl.jaas.config";
    let condition = "KAFKA_AUTHENTICATION_FAILED";
    let wrong = with(&tls_options("t"), &[("kafka.sasl.jaas.config", &plain("wrong-Z2VoZWlt"))]);
    refused(&wrong, condition, &[&secured.tls(), "Authentication failed", correct]).await;
    let wrong = with(&scram_options("t"), &[("kafka.sasl.jaas.config", &scram("wrong-Z2VoZWlt"))]);
    refused(&wrong, condition, &[&secured.scram(), "Authentication failed", correct]).await;
    let mechanism = [("kafka.sasl.mechanism", "PLAIN"), ("kafka.sasl.jaas.config", &*plain(CONNECTION_STRING))];
    refused(&with(&scram_options("t"), &mechanism), condition, &["SCRAM-SHA-256", "kafka.sasl.mechanism"]).await;
    let begun = Instant::now();
    let rows = sink::rows(vec![("value", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]);
    let jaas = scram("wrong-Z2VoZWlt");
    for (guarantee, doing) in [("at-least-once", "write to"), ("exactly-once", "begin a session of its producer at")] {
        let given = [
            ("topic", "t"),
            ("deliveryGuarantee", guarantee),
            ("kafka.security.protocol", "SASL_PLAINTEXT"),
            ("kafka.sasl.mechanism", "SCRAM-SHA-512"),
            ("kafka.sasl.jaas.config", &*jaas),
        ];
        let error = sink::write(&sink::options(&given, &secured.scram()).unwrap(), rows.clone()).await.unwrap_err();
        says(&error, condition, &[&format!("could not {doing} the Kafka servers"), correct]);
    }
    assert!(begun.elapsed() < SOON, "the sink waited for the delivery timeout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_changed_while_a_query_runs_is_told_and_costs_no_record() {
    let topic = topic();
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule";
    let known_by = |password: &str| with(&scram_options(&topic), &[("kafka.sasl.jaas.config", &jaas(module, CHANGING_USER, password))]);
    let mut checkpoint = Checkpoint::new();
    let mut source = checkpoint.open(&known_by(CHANGING_PASSWORD)).unwrap();
    let mut seen: Vec<String> = Vec::new();
    let values = |batch: &Batch| batch.rows.iter().map(|row| row["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    seen.extend(values(&checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap()));
    assert_eq!(seen.len(), 20);
    Broker::shared().set_scram_password(CHANGING_USER, "new-Z2VoZWlt").unwrap();
    // Connections go on until the broker asks for the login again.
    let (begun, mut produced) = (Instant::now(), 20);
    let error = loop {
        assert!(begun.elapsed() < SOON, "the old password is still good");
        Broker::shared().produce(&topic, numbered_messages(produced..produced + 2, 2)).unwrap();
        produced += 2;
        match checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await {
            Ok(Ok(batch)) => seen.extend(values(&batch)),
            Ok(Err(_)) => {}
            Err(error) => break error,
        }
    };
    says(&error, "KAFKA_AUTHENTICATION_FAILED", &["correct the user name and password", "what the Secret holds then"]);
    drop(source);
    let mut source = checkpoint.open(&known_by("new-Z2VoZWlt")).unwrap();
    while let Ok(batch) = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap() {
        seen.extend(values(&batch));
    }
    let mut wanted: Vec<String> = (0..produced).map(|n| format!("{{\"n\":{n}}}")).collect();
    (wanted.sort(), seen.sort());
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_certificate_that_is_refused_is_explained() {
    let secured: &Secured = Broker::shared().secured();
    let other_host = with(&tls_options("t"), &[("kafka.bootstrap.servers", &secured.tls_by_another_name())]);
    let words = ["ertificate of localhost is refused: hostname mismatch", "it is for 127.0.0.1", "kafka.bootstrap.servers"];
    refused(&other_host, "KAFKA_TLS_FAILED", &words).await;
    let stranger = Authority::new("somebody else").unwrap().pem().unwrap();
    let other_authority = with(&tls_options("t"), &[("kafka.ssl.truststore.certificates", &stranger)]);
    let words = ["issued by CN=Weir test authority", "issuer certificate", "kafka.ssl.truststore.*"];
    refused(&other_authority, "KAFKA_TLS_FAILED", &words).await;
}

/// Each protocol at each listener of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_protocol_than_the_listeners_is_named() {
    let (broker, secured) = (Broker::shared(), Broker::shared().secured());
    let (open, scram, tls) = (broker.bootstrap_servers(), secured.scram(), secured.tls());
    let without_login = |protocol: &str, servers: &str| {
        let mut options = with(&tls_options("t"), &[("kafka.bootstrap.servers", servers), ("kafka.security.protocol", protocol)]);
        options.retain(|name, _| !name.starts_with("kafka.sasl") && (protocol == "SSL" || !name.starts_with("kafka.ssl")));
        options
    };
    let (with_scram, with_tls) = (scram_options("t"), tls_options("t"));
    let scram_listener = "SASL_PLAINTEXT, with a login by SCRAM-SHA-256 or SCRAM-SHA-512";
    let tls_listener = "SASL_SSL, with a login by PLAIN";
    let cases = [
        (without_login("PLAINTEXT", &scram), scram_listener),
        (without_login("PLAINTEXT", &tls), tls_listener),
        (without_login("SSL", &open), "PLAINTEXT"),
        (without_login("SSL", &tls), tls_listener),
        (with(&with_scram, &[("kafka.bootstrap.servers", &open)]), "PLAINTEXT"),
        (with(&with_scram, &[("kafka.bootstrap.servers", &tls)]), tls_listener),
        (with(&with_tls, &[("kafka.bootstrap.servers", &open)]), "PLAINTEXT"),
        (with(&with_tls, &[("kafka.bootstrap.servers", &scram)]), scram_listener),
    ];
    // Closed connections alone end nothing early: one round of asking.
    let once = [("fetchOffset.numRetries", "1"), ("kafka.request.timeout.ms", "3000")];
    let told = cases.map(|(options, speaks)| async move {
        refused(&with(&options, &once), "KAFKA_PROTOCOL_MISMATCH", &[&format!("the port speaks {speaks}, and"), "set it to"]).await;
    });
    futures::future::join_all(told).await;
}

#[tokio::test]
async fn a_misspelt_topic_is_named_with_the_nearest() {
    let topic = topic();
    let misspelt = topic.replace("secured", "secuerd");
    let options = with(&scram_options(&misspelt), &[("fetchOffset.numRetries", "1")]);
    let error = Checkpoint::new().open(&options).unwrap().initial_offset().await.unwrap_err();
    says(&error, "UNKNOWN_TOPIC_OR_PARTITION", &[&format!("no topic {misspelt} (did you mean `{topic}`?)"), "subscribe or assign"]);
}
