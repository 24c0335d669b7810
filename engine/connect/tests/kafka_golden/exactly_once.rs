//! The sink that delivers exactly once: what readers of committed records see, and what is refused when the record is lost.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, StringArray};
use uuid::Uuid;
use weir_connect::kafka::{KafkaSink, KafkaSinkOptions};
use weir_connect::{BatchId, Committed, Delivery, Sink, Standing};
use weir_core::{ErrorClass, Result};
use weir_testkit::eventually;
use weir_testkit::wait::GENEROUS;

use super::scene::Scene;
use super::sink::{SinkPlace, options, place, rows};

const FRESH: Standing = Standing { committed: None, in_doubt: None, is_new: true };

struct Query {
    scene: Scene,
    topic: String,
    id: Uuid,
    place: SinkPlace,
}

impl Query {
    fn new(name: &str) -> Self {
        let scene = Scene::new(name);
        let topic = scene.topic("o");
        scene.broker.create_topic(&topic, 2, &[]).unwrap();
        let id = Uuid::new_v4();
        Self { scene, topic, id, place: place(id) }
    }

    fn options(&self) -> KafkaSinkOptions {
        let servers = self.scene.broker.bootstrap_servers();
        options(&[("topic", &self.topic), ("deliveryGuarantee", "exactly-once")], &servers).unwrap()
    }

    async fn open(&self) -> KafkaSink {
        let schema = batch(&[]).schema();
        KafkaSink::open(&self.options(), schema, &self.place.context).await.unwrap()
    }

    /// Opened, with what it had recorded.
    async fn resumed(&self, standing: Standing) -> (KafkaSink, Option<u64>) {
        let sink = self.open().await;
        let recorded = sink.recorded_batch(self.id).await.unwrap();
        sink.resume(standing).await.unwrap();
        (sink, recorded)
    }

    fn seen(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.scene.broker.read_all(&self.topic).unwrap().iter().map(|record| record.text()).collect();
        texts.sort();
        texts
    }

    fn marker(&self) -> Option<(i64, String)> {
        self.scene.broker.committed(&format!("weir-{}", self.id), &self.topic, 0).unwrap()
    }

    fn lose_the_marker(&self) {
        self.scene.broker.delete_group(&format!("weir-{}", self.id)).unwrap();
    }

    fn batch(&self, batch: u64) -> BatchId {
        BatchId { query_id: self.id, batch, epoch: 1 }
    }
}

fn batch(values: &[&str]) -> arrow::record_batch::RecordBatch {
    rows(vec![("value", Arc::new(StringArray::from(values.to_vec())) as ArrayRef)])
}

/// Sends without committing.
async fn send(sink: &KafkaSink, id: &BatchId, values: &[&str]) -> Result<()> {
    for (lane, value) in values.iter().enumerate() {
        let mut writer = sink.writer(id, lane).await?;
        writer.write(batch(&[value])).await?;
        writer.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn each_batch_is_seen_once_and_as_a_whole() {
    let query = Query::new("once");
    let (sink, recorded) = query.resumed(FRESH).await;
    assert_eq!((recorded, sink.delivery(), query.marker()), (None, Delivery::Fenced, Some((0, r#"{"epoch":1,"batch":null}"#.to_owned()))));
    send(&sink, &query.batch(0), &["a", "b"]).await.unwrap();
    assert!(query.seen().is_empty(), "nothing is seen before the commit");
    assert_eq!(sink.commit(&query.batch(0), Vec::new()).await.unwrap(), Committed::Now);
    assert_eq!(query.seen(), ["a", "b"]);
    // A batch without rows leaves its record too.
    assert_eq!(sink.commit(&query.batch(1), Vec::new()).await.unwrap(), Committed::Now);
    assert_eq!(query.marker(), Some((2, r#"{"epoch":1,"batch":1}"#.to_owned())));
    // What is sent again under a recorded batch stays unseen.
    send(&sink, &query.batch(1), &["c"]).await.unwrap();
    assert_eq!(sink.commit(&query.batch(1), Vec::new()).await.unwrap(), Committed::Before);
    drop(sink);
    let (sink, recorded) = query.resumed(Standing { committed: Some(0), in_doubt: Some(1), is_new: false }).await;
    assert_eq!((recorded, query.seen()), (Some(1), vec!["a".to_owned(), "b".to_owned()]));
    // What a run leaves open ends with its sink, or with the next session.
    send(&sink, &query.batch(2), &["d"]).await.unwrap();
    drop(sink);
    let (sink, recorded) = query.resumed(Standing { committed: Some(1), in_doubt: Some(2), is_new: false }).await;
    send(&sink, &query.batch(2), &["e"]).await.unwrap();
    sink.commit(&query.batch(2), Vec::new()).await.unwrap();
    assert_eq!((recorded, query.seen()), (Some(1), vec!["a".to_owned(), "b".to_owned(), "e".to_owned()]));
}

#[tokio::test]
async fn rows_may_name_their_topics_and_the_record_is_kept_beside_another() {
    let query = Query::new("named");
    let other = query.scene.topic("p");
    query.scene.broker.create_topic(&other, 1, &[]).unwrap();
    let marker_topic = query.scene.topic("m");
    query.scene.broker.create_topic(&marker_topic, 1, &[]).unwrap();
    let servers = query.scene.broker.bootstrap_servers();
    let given = options(&[("markerTopic", &marker_topic), ("deliveryGuarantee", "exactly-once")], &servers).unwrap();
    let rows = |values: &[(&str, &str)]| {
        let column = |part: fn(&(&str, &str)) -> String| Arc::new(StringArray::from_iter_values(values.iter().map(part))) as ArrayRef;
        rows(vec![("topic", column(|row| row.0.to_owned())), ("value", column(|row| row.1.to_owned()))])
    };
    let (first, second) = (query.topic.as_str(), other.as_str());
    let open = async |standing: Standing| {
        let sink = KafkaSink::open(&given, rows(&[]).schema(), &query.place.context).await.unwrap();
        let recorded = sink.recorded_batch(query.id).await.unwrap();
        sink.resume(standing).await.unwrap();
        (sink, recorded)
    };
    let send = async |sink: &KafkaSink, batch: u64, values: &[(&str, &str)]| {
        let mut writer = sink.writer(&query.batch(batch), 0).await.unwrap();
        writer.write(rows(values)).await.unwrap();
        writer.finish().await.unwrap();
    };
    let seen =
        || [first, second].map(|topic| query.scene.broker.read_all(topic).unwrap().iter().map(|record| record.text()).collect::<String>());
    let (sink, _) = open(FRESH).await;
    send(&sink, 0, &[(first, "a"), (second, "b")]).await;
    assert_eq!(seen().concat(), "");
    sink.commit(&query.batch(0), Vec::new()).await.unwrap();
    assert_eq!(seen(), ["a", "b"]);
    // A run dies with its rows in both topics; the next sends them again.
    send(&sink, 1, &[(first, "lost"), (second, "lost")]).await;
    drop(sink);
    let (sink, recorded) = open(Standing { committed: Some(0), in_doubt: Some(1), is_new: false }).await;
    send(&sink, 1, &[(second, "c")]).await;
    sink.commit(&query.batch(1), Vec::new()).await.unwrap();
    assert_eq!((recorded, seen()), (Some(0), ["a".to_owned(), "bc".to_owned()]));
    let group = format!("weir-{}", query.id);
    let found = query.scene.broker.committed(&group, &marker_topic, 0).unwrap();
    assert_eq!(found, Some((2, r#"{"epoch":1,"batch":1}"#.to_owned())));
    assert_eq!(query.scene.broker.end_offsets(&marker_topic).unwrap(), [0]);
}

#[tokio::test]
async fn a_displaced_producer_changes_nothing_and_knows_its_successor() {
    let query = Query::new("displaced");
    let (old, _) = query.resumed(FRESH).await;
    send(&old, &query.batch(0), &["old"]).await.unwrap();
    let (new, recorded) = query.resumed(Standing { committed: None, in_doubt: Some(0), is_new: false }).await;
    assert_eq!(recorded, None);
    send(&new, &query.batch(0), &["new"]).await.unwrap();
    let error = old.commit(&query.batch(0), Vec::new()).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "KAFKA_PRODUCER_FENCED"), "{error}");
    let again = old.commit(&query.batch(0), Vec::new()).await.unwrap_err();
    assert_eq!(again.class(), ErrorClass::Retryable, "{again}");
    // The same under a higher claim has its own exit code.
    let epochs = query.place.folder.path().join("_weir/epochs");
    std::fs::create_dir_all(&epochs).unwrap();
    std::fs::write(epochs.join("000000000002"), "{}").unwrap();
    let fenced = old.commit(&query.batch(0), Vec::new()).await.unwrap_err();
    assert_eq!((fenced.class(), fenced.highest_epoch()), (ErrorClass::Fenced, Some(2)), "{fenced}");
    let unsent = send(&old, &query.batch(0), &["late"]).await.unwrap_err();
    assert_eq!(unsent.class(), ErrorClass::Fenced, "{unsent}");
    new.commit(&query.batch(0), Vec::new()).await.unwrap();
    assert_eq!(query.seen(), ["new"]);
}

#[tokio::test]
async fn a_lost_record_is_refused_while_a_batch_is_in_doubt_only() {
    let query = Query::new("lost");
    let (sink, _) = query.resumed(FRESH).await;
    send(&sink, &query.batch(0), &["a"]).await.unwrap();
    sink.commit(&query.batch(0), Vec::new()).await.unwrap();
    drop(sink);
    query.lose_the_marker();
    let doubtful = Standing { committed: Some(0), in_doubt: Some(1), is_new: false };
    let sink = query.open().await;
    assert_eq!(sink.recorded_batch(query.id).await.unwrap(), None);
    let error = sink.resume(doubtful).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "KAFKA_MARKER_LOST"));
    // A changed nonce takes it up anew, and so does a checkpoint without doubt.
    for standing in [Standing { is_new: true, ..doubtful }, Standing { in_doubt: None, ..doubtful }] {
        let (sink, recorded) = query.resumed(standing).await;
        assert_eq!((recorded, query.marker()), (None, Some((1, r#"{"epoch":1,"batch":0}"#.to_owned()))));
        drop(sink);
        query.lose_the_marker();
    }
    let (sink, _) = query.resumed(Standing { committed: Some(0), in_doubt: None, is_new: false }).await;
    let identity = sink.identity();
    assert!(identity.table_id.is_some() && query.open().await.identity() == identity);
    let behind = sink.recorded_batch(query.id).await.unwrap();
    let error = sink.resume(Standing { committed: Some(4), in_doubt: None, is_new: false }).await.unwrap_err();
    assert_eq!((behind, error.condition(), error.class()), (Some(0), "SINK_BEHIND_CHECKPOINT", ErrorClass::Incompatible));
    drop(sink);
    // With its topic the brokers forget the record too; what tells the topic made anew from the old one is its id.
    query.scene.broker.delete_topic(&query.topic).unwrap();
    let error = KafkaSink::open(&query.options(), batch(&[]).schema(), &query.place.context).await.err().unwrap();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "UNKNOWN_TOPIC_OR_PARTITION"), "{error}");
    query.scene.broker.create_topic(&query.topic, 2, &[]).unwrap();
    let anew = query.open().await.identity();
    assert!(anew.location == identity.location && anew.table_id.is_some() && anew.table_id != identity.table_id);
}

#[tokio::test]
async fn a_long_batch_takes_effect_in_steps_and_goes_on_where_it_was() {
    let query = Query::new("steps");
    let slow = KafkaSinkOptions { step_after: Duration::ZERO, ..query.options() };
    let names: Vec<String> = ["first", "second"].map(str::to_owned).into();
    let open = async |standing: Standing| {
        let sink = KafkaSink::open(&slow, batch(&[]).schema(), &query.place.context).await.unwrap();
        sink.recorded_batch(query.id).await.unwrap();
        sink.resume(standing).await.unwrap();
        sink
    };
    let sink = open(FRESH).await;
    assert!(sink.steps().unwrap().begin(&query.batch(0), &names).await.unwrap().is_empty());
    let mut lanes = [sink.writer(&query.batch(0), 0).await.unwrap(), sink.writer(&query.batch(0), 1).await.unwrap()];
    // A lane within a slice holds the step back until it has told its position.
    lanes[1].write(batch(&["b"])).await.unwrap();
    lanes[0].write(batch(&["a"])).await.unwrap();
    let [first, second] = &mut lanes;
    let (one, other) = tokio::join!(first.reached(0, 10), second.reached(1, 7));
    one.and(other).unwrap();
    assert_eq!((query.seen(), query.marker().unwrap().0), (vec!["a".to_owned(), "b".to_owned()], 0));
    lanes[0].write(batch(&["lost"])).await.unwrap();
    drop(lanes);
    drop(sink);

    let doubtful = Standing { committed: None, in_doubt: Some(0), is_new: false };
    let sink = open(doubtful).await;
    let otherwise = sink.steps().unwrap().begin(&query.batch(0), &names[..1]).await.unwrap_err();
    assert_eq!((otherwise.class(), otherwise.condition()), (ErrorClass::Incompatible, "KAFKA_BATCH_CUT_OTHERWISE"));
    let reached = sink.steps().unwrap().begin(&query.batch(0), &names).await.unwrap();
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), [(0, 10), (1, 7)]);
    let mut lane = sink.writer(&query.batch(0), 0).await.unwrap();
    lane.write(batch(&["c"])).await.unwrap();
    lane.reached(0, 11).await.unwrap();
    assert_eq!(
        query.marker().unwrap().1,
        r#"{"epoch":1,"batch":null,"part":{"batch":0,"cut":"CUT","reached":{"0":11,"1":7}}}"#.replace("CUT", &cut(&query))
    );
    lane.finish().await.unwrap();
    sink.commit(&query.batch(0), Vec::new()).await.unwrap();
    assert_eq!((query.seen().concat(), query.marker().unwrap().1), ("abc".to_owned(), r#"{"epoch":1,"batch":0}"#.to_owned()));
    assert!(sink.steps().unwrap().begin(&query.batch(1), &names).await.unwrap().is_empty());
}

/// What the marker says of the cut.
fn cut(query: &Query) -> String {
    let marker: serde_json::Value = serde_json::from_str(&query.marker().unwrap().1).unwrap();
    marker["part"]["cut"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_record_is_renewed_while_nothing_is_written() {
    let query = Query::new("renewed");
    let quick = KafkaSinkOptions { renew_after: Duration::from_millis(50), ..query.options() };
    let sink = KafkaSink::open(&quick, batch(&[]).schema(), &query.place.context).await.unwrap();
    sink.recorded_batch(query.id).await.unwrap();
    sink.resume(FRESH).await.unwrap();
    sink.commit(&query.batch(0), Vec::new()).await.unwrap();
    query.lose_the_marker();
    let wanted = (1, r#"{"epoch":1,"batch":0}"#.to_owned());
    eventually("the record to be back", GENEROUS, || query.marker().filter(|found| *found == wanted)).unwrap();
}

#[tokio::test]
async fn what_transactions_cannot_do_is_refused_at_the_door() {
    for (given, words) in [
        (vec![("deliveryGuarantee", "exactly-once")], "needs the option 'topic', or 'markerTopic'"),
        (vec![("topic", "o"), ("markerTopic", "m"), ("deliveryGuarantee", "exactly-once")], "only one of topic, markerTopic"),
        (vec![("topic", "o"), ("deliveryGuarantee", "exactly-once"), ("kafka.acks", "1")], "kafka.acks"),
        (vec![("topic", "o"), ("deliveryGuarantee", "exactly-once"), ("kafka.enable.idempotence", "false")], "kafka.enable.idempotence"),
        (vec![("topic", "o"), ("deliveryGuarantee", "exactly-once"), ("kafka.retries", "0")], "kafka.retries"),
    ] {
        let error = options(&given, "h:1").unwrap_err();
        assert!(error.class() == ErrorClass::Config && error.message().contains(words), "{given:?}: {error}");
    }
    // A transaction that is shorter than the client's patience with a record shortens that.
    let query = Query::new("short");
    let servers = query.scene.broker.bootstrap_servers();
    let short = [("topic", query.topic.as_str()), ("deliveryGuarantee", "exactly-once"), ("kafka.transaction.timeout.ms", "5000")];
    let sink = KafkaSink::open(&options(&short, &servers).unwrap(), batch(&[]).schema(), &query.place.context).await;
    assert!(sink.is_ok());
    let long = [("topic", query.topic.as_str()), ("deliveryGuarantee", "exactly-once"), ("kafka.transaction.timeout.ms", "3600000")];
    let refused = KafkaSink::open(&options(&long, &servers).unwrap(), batch(&[]).schema(), &query.place.context).await.err().unwrap();
    assert!(refused.class() == ErrorClass::Config && refused.message().contains("transaction.max.timeout.ms"), "{refused}");
}
