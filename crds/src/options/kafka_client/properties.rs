//! One row per setting of the Java Kafka client: what it is in librdkafka.
//!
//! Names are those of Kafka's `ConsumerConfig`, `ProducerConfig`, `SslConfigs` and `SaslConfigs`,
//! counterparts those of librdkafka's CONFIGURATION.md. What librdkafka cannot do and security rests on is
//! refused; what only tunes the Java client is a warning.

/// Which clients have the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Consumer and producer.
    Both,
    /// Only the consumer.
    Consumer,
    /// Only the producer.
    Producer,
}

/// What becomes of a setting.
#[derive(Clone, Copy, Debug)]
pub enum Mapping {
    /// Same name, same values.
    Same,
    /// Another name, same values.
    Renamed(&'static str),
    /// A number under this name; librdkafka takes it only within bounds.
    Number(&'static str, i64, i64),
    /// Bytes here, KiB there.
    Kibibytes(&'static str),
    /// One of some words, in lower case there.
    Words(&'static str, &'static [&'static str]),
    /// No counterpart, and nothing is lost: a warning with this reason.
    Harmless(&'static str),
    /// Refused, for Spark's reason or because Weir sets it.
    Refused(&'static str),
    /// No counterpart, and security or meaning would be lost: refused with this remedy.
    NoCounterpart(&'static str),
    /// Needs a look at the value or at other settings; what comes of it, in words.
    Special(&'static str),
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// Name in the Java client, without `kafka.`.
    pub name: &'static str,
    /// Which clients have it.
    pub client: Client,
    /// What becomes of it.
    pub mapping: Mapping,
    /// Whether its value is a secret, which a manifest may only refer to.
    pub secret: bool,
}

const fn p(name: &'static str, client: Client, mapping: Mapping) -> Property {
    Property { name, client, mapping, secret: false }
}

const fn secret(name: &'static str, mapping: Mapping) -> Property {
    Property { name, client: Client::Both, mapping, secret: true }
}

use Client::{Both, Consumer, Producer};
use Mapping::{Harmless, Kibibytes, NoCounterpart, Number, Refused, Renamed, Same, Special, Words};

const VALIDATION: &str = "the brokers check the token";
const ASSERTION: &str =
    "assertions (JWT bearer grant) are not available: use client credentials, kafka.sasl.oauthbearer.client.credentials.*";
const KERBEROS: &str = "Kerberos is not available: use SCRAM-SHA-512, PLAIN over TLS, or a client certificate (kafka.ssl.keystore.*)";
const PROVIDERS: &str = "Java security providers do not exist here: remove it";
const SOCKET: &str = "`socket.` and this name; Java's -1 is the system's default, here 0";
const STORE: &str = "a file in PEM or PKCS12, read when the query starts; JKS is refused with the command that converts it";
const STORE_TYPE: &str = "PEM or PKCS12; without it the file's content says which";
const BATCHES: &str = "rows are buffered by the engine's memory budget";
const POSITIONS: &str = "positions are kept in the checkpoint and never committed to Kafka";

/// All settings.
pub const PROPERTIES: &[Property] = &[
    p("bootstrap.servers", Both, Same),
    p("client.id", Both, Same),
    p("client.dns.lookup", Both, Same),
    p("client.rack", Consumer, Same),
    p("metadata.max.age.ms", Both, Number("metadata.max.age.ms", 1, 86_400_000)),
    p("metadata.recovery.strategy", Both, Same),
    p("metadata.recovery.rebootstrap.trigger.ms", Both, Number("metadata.recovery.rebootstrap.trigger.ms", 0, 2_147_483_647)),
    p("metadata.max.idle.ms", Producer, Harmless("metadata of unused topics costs nothing here")),
    p("send.buffer.bytes", Both, Special(SOCKET)),
    p("receive.buffer.bytes", Both, Special(SOCKET)),
    p("reconnect.backoff.ms", Both, Number("reconnect.backoff.ms", 0, 3_600_000)),
    p("reconnect.backoff.max.ms", Both, Number("reconnect.backoff.max.ms", 0, 3_600_000)),
    p("retry.backoff.ms", Both, Number("retry.backoff.ms", 1, 300_000)),
    p("retry.backoff.max.ms", Both, Number("retry.backoff.max.ms", 1, 300_000)),
    p("request.timeout.ms", Both, Number("socket.timeout.ms", 10, 300_000)),
    p("default.api.timeout.ms", Both, Harmless("each request has its own timeout, request.timeout.ms")),
    p("socket.connection.setup.timeout.ms", Both, Number("socket.connection.setup.timeout.ms", 1000, 2_147_483_647)),
    p("socket.connection.setup.timeout.max.ms", Both, Harmless("the setup timeout does not grow here")),
    p("connections.max.idle.ms", Both, Number("connections.max.idle.ms", 0, 2_147_483_647)),
    p("enable.metrics.push", Both, Same),
    p("metric.reporters", Both, Harmless("metrics are on the task's /metrics")),
    p("metrics.num.samples", Both, Harmless("metrics are on the task's /metrics")),
    p("metrics.recording.level", Both, Harmless("metrics are on the task's /metrics")),
    p("metrics.sample.window.ms", Both, Harmless("metrics are on the task's /metrics")),
    p("auto.include.jmx.reporter", Both, Harmless("metrics are on the task's /metrics")),
    // Consumer.
    p("group.id", Consumer, Same),
    p("group.instance.id", Consumer, Same),
    p("group.protocol", Consumer, Harmless("partitions are assigned by the engine, not by a group")),
    p("group.remote.assignor", Consumer, Harmless("partitions are assigned by the engine, not by a group")),
    p("partition.assignment.strategy", Consumer, Harmless("partitions are assigned by the engine, not by a group")),
    p("session.timeout.ms", Consumer, Number("session.timeout.ms", 1, 3_600_000)),
    p("heartbeat.interval.ms", Consumer, Number("heartbeat.interval.ms", 1, 3_600_000)),
    p("max.poll.interval.ms", Consumer, Number("max.poll.interval.ms", 1, 86_400_000)),
    p("max.poll.records", Consumer, Harmless("records are drained in batches of the engine's size")),
    p("max.partition.fetch.bytes", Consumer, Number("max.partition.fetch.bytes", 1, 1_000_000_000)),
    p("fetch.max.bytes", Consumer, Number("fetch.max.bytes", 0, 2_147_483_135)),
    p("fetch.min.bytes", Consumer, Number("fetch.min.bytes", 1, 100_000_000)),
    p("fetch.max.wait.ms", Consumer, Number("fetch.wait.max.ms", 0, 300_000)),
    p("check.crcs", Consumer, Same),
    p("isolation.level", Consumer, Words("isolation.level", &["read_uncommitted", "read_committed"])),
    p("allow.auto.create.topics", Consumer, Same),
    p("internal.leave.group.on.close", Consumer, Harmless("partitions are assigned by the engine, not by a group")),
    p("internal.throw.on.fetch.stable.offset.unsupported", Consumer, Harmless("brokers of all supported versions have stable offsets")),
    p("exclude.internal.topics", Consumer, Harmless("internal topics are read only when they are named")),
    p("auto.commit.interval.ms", Consumer, Harmless(POSITIONS)),
    p(
        "auto.offset.reset",
        Consumer,
        Refused(
            "is not supported: instead set the source option startingOffsets to earliest or latest to say where to start; the checkpoint keeps which offsets were consumed",
        ),
    ),
    p(
        "key.deserializer",
        Consumer,
        Refused("is not supported, as keys are read as bytes: use CAST(key AS STRING) or a function in the SQL"),
    ),
    p(
        "value.deserializer",
        Consumer,
        Refused("is not supported, as values are read as bytes: use CAST(value AS STRING) or from_json in the SQL"),
    ),
    p("enable.auto.commit", Consumer, Refused("is not supported: positions are kept in the checkpoint and never committed to Kafka")),
    p("interceptor.classes", Both, Refused("is not supported: an interceptor can break the query, and Java classes cannot be loaded")),
    // Producer.
    p(
        "key.serializer",
        Producer,
        Refused("is not supported, as keys are written as bytes: make the column key a string or binary in the SQL"),
    ),
    p(
        "value.serializer",
        Producer,
        Refused("is not supported, as values are written as bytes: make the column value a string or binary in the SQL"),
    ),
    p("acks", Producer, Same),
    p("retries", Producer, Number("retries", 0, 2_147_483_647)),
    p("delivery.timeout.ms", Producer, Number("delivery.timeout.ms", 0, 2_147_483_647)),
    p("linger.ms", Producer, Number("linger.ms", 0, 900_000)),
    p("batch.size", Producer, Number("batch.size", 1, 2_147_483_647)),
    p("buffer.memory", Producer, Kibibytes("queue.buffering.max.kbytes")),
    p("max.request.size", Producer, Number("message.max.bytes", 1000, 1_000_000_000)),
    p("max.in.flight.requests.per.connection", Producer, Number("max.in.flight.requests.per.connection", 1, 1_000_000)),
    p("compression.type", Producer, Words("compression.type", &["none", "gzip", "snappy", "lz4", "zstd"])),
    p("compression.gzip.level", Producer, Renamed("compression.level")),
    p("compression.lz4.level", Producer, Renamed("compression.level")),
    p("compression.zstd.level", Producer, Renamed("compression.level")),
    p("enable.idempotence", Producer, Same),
    p("transaction.timeout.ms", Producer, Number("transaction.timeout.ms", 1000, 2_147_483_647)),
    p("transactional.id", Producer, Refused("is set by Weir to `weir-<query id>` where delivery is exactly once: remove it")),
    p("partitioner.class", Producer, Special("`partitioner`, for the partitioners of Kafka itself")),
    p("partitioner.ignore.keys", Producer, Special("`partitioner`: random or murmur2_random")),
    p("partitioner.adaptive.partitioning.enable", Producer, Harmless("records without key go to random partitions")),
    p("partitioner.availability.timeout.ms", Producer, Harmless("records without key go to random partitions")),
    p("max.block.ms", Producer, Harmless(BATCHES)),
    // TLS.
    p("security.protocol", Both, Words("security.protocol", &["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"])),
    p("security.providers", Both, NoCounterpart(PROVIDERS)),
    p("ssl.truststore.location", Both, Special(STORE)),
    secret("ssl.truststore.password", Special("the password of the PKCS12 file; a PEM file has none")),
    p("ssl.truststore.type", Both, Special(STORE_TYPE)),
    p("ssl.truststore.certificates", Both, Special("certificates in PEM, in one line or many")),
    p("ssl.keystore.location", Both, Special(STORE)),
    secret("ssl.keystore.password", Special("the password of the PKCS12 file; a PEM file has none")),
    p("ssl.keystore.type", Both, Special(STORE_TYPE)),
    p("ssl.keystore.certificate.chain", Both, Special("the certificate and its chain in PEM, beside `ssl.keystore.key`")),
    secret("ssl.keystore.key", Special("the private key in PEM, beside `ssl.keystore.certificate.chain`")),
    secret("ssl.key.password", Special("the password of the private key, where PEM holds it encrypted")),
    p("ssl.endpoint.identification.algorithm", Both, Special("the same; empty turns the check of host names off")),
    p("ssl.protocol", Both, Special("nothing, with a warning: TLS 1.2 and 1.3 are always allowed; refused if it asks for others")),
    p("ssl.enabled.protocols", Both, Special("nothing, with a warning: TLS 1.2 and 1.3 are always allowed; refused if it asks for others")),
    p(
        "ssl.cipher.suites",
        Both,
        NoCounterpart("Java's names of cipher suites are not OpenSSL's: remove it, TLS 1.2 and 1.3 with OpenSSL's default suites are used"),
    ),
    p("ssl.provider", Both, NoCounterpart(PROVIDERS)),
    p(
        "ssl.engine.factory.class",
        Both,
        NoCounterpart("Java classes cannot be loaded: give the certificates by kafka.ssl.keystore.* and kafka.ssl.truststore.*"),
    ),
    p("ssl.client.auth", Both, Harmless("the broker decides whether it asks for a certificate")),
    p("ssl.keymanager.algorithm", Both, Harmless("OpenSSL is used")),
    p("ssl.trustmanager.algorithm", Both, Harmless("OpenSSL is used")),
    p("ssl.secure.random.implementation", Both, Harmless("OpenSSL's generator is used")),
    // SASL.
    p("sasl.mechanism", Both, Special("the same: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; others are refused")),
    secret(
        "sasl.jaas.config",
        Special(
            "`sasl.username` and `sasl.password`, from PlainLoginModule or ScramLoginModule in any package; from OAuthBearerLoginModule \
             client credentials",
        ),
    ),
    p(
        "sasl.client.callback.handler.class",
        Both,
        NoCounterpart("Java classes cannot be loaded: give user name and password by kafka.sasl.jaas.config"),
    ),
    p("sasl.login.class", Both, NoCounterpart("Java classes cannot be loaded: give user name and password by kafka.sasl.jaas.config")),
    p(
        "sasl.login.callback.handler.class",
        Both,
        Special("Kafka's own OAuthBearerLoginCallbackHandler in any package is built in; others are refused"),
    ),
    p("sasl.oauthbearer.token.endpoint.url", Both, Special("where tokens are asked for, by OAuth 2.0's client credentials")),
    p("sasl.oauthbearer.client.credentials.client.id", Both, Special("the client, before clientId of the login module")),
    secret("sasl.oauthbearer.client.credentials.client.secret", Special("the client's secret, before clientSecret of the login module")),
    p("sasl.oauthbearer.scope", Both, Special("the scope, before that of the login module")),
    p("sasl.oauthbearer.sub.claim.name", Both, Special("the claim with the principal's name, which the brokers do not see")),
    p("sasl.oauthbearer.scope.claim.name", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.header.urlencode", Both, Special("whether client and secret are encoded as in URLs before they are sent")),
    p(
        "sasl.oauthbearer.jwt.retriever.class",
        Both,
        Special("Kafka's DefaultJwtRetriever or ClientCredentialsJwtRetriever is built in; others are refused"),
    ),
    p("sasl.oauthbearer.jwt.validator.class", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.clock.skew.seconds", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.expected.audience", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.expected.issuer", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.jwks.endpoint.refresh.ms", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.jwks.endpoint.url", Both, Harmless(VALIDATION)),
    p("sasl.oauthbearer.assertion.algorithm", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.claim.aud", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.claim.exp.seconds", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.claim.iss", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.claim.jti.include", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.claim.nbf.seconds", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.claim.sub", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.file", Both, NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.private.key.file", Both, NoCounterpart(ASSERTION)),
    secret("sasl.oauthbearer.assertion.private.key.passphrase", NoCounterpart(ASSERTION)),
    p("sasl.oauthbearer.assertion.template.file", Both, NoCounterpart(ASSERTION)),
    p("sasl.kerberos.service.name", Both, NoCounterpart(KERBEROS)),
    p("sasl.kerberos.kinit.cmd", Both, NoCounterpart(KERBEROS)),
    p("sasl.kerberos.min.time.before.relogin", Both, NoCounterpart(KERBEROS)),
    p("sasl.kerberos.ticket.renew.jitter", Both, NoCounterpart(KERBEROS)),
    p("sasl.kerberos.ticket.renew.window.factor", Both, NoCounterpart(KERBEROS)),
    p("sasl.login.connect.timeout.ms", Both, Harmless("an answer of the token endpoint is waited for 15 s")),
    p("sasl.login.read.timeout.ms", Both, Harmless("an answer of the token endpoint is waited for 15 s")),
    p("sasl.login.refresh.buffer.seconds", Both, Harmless("a token is renewed after four fifths of its life")),
    p("sasl.login.refresh.min.period.seconds", Both, Harmless("a token is renewed after four fifths of its life")),
    p("sasl.login.refresh.window.factor", Both, Harmless("a token is renewed after four fifths of its life")),
    p("sasl.login.refresh.window.jitter", Both, Harmless("a token is renewed after four fifths of its life")),
    p("sasl.login.retry.backoff.ms", Both, Harmless("a renewal that fails is tried again until the token ends")),
    p("sasl.login.retry.backoff.max.ms", Both, Harmless("a renewal that fails is tried again until the token ends")),
];

/// Remedy for Kerberos.
pub const KERBEROS_REMEDY: &str = KERBEROS;
/// Remedy for the logins of Amazon's MSK.
pub const MSK_REMEDY: &str = "AWS_MSK_IAM is not available: give the cluster SASL/SCRAM users and use SCRAM-SHA-512 (port 9096), or a client certificate (kafka.ssl.keystore.*)";
