//! `shared/golden/kafka-cases.jsonl`, executed on Spark 4.2 and Kafka 4.3, repeated at the source.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_connect::kafka::KafkaSource;
use weir_connect::{ReadLimits, Source};
use weir_core::{Error, Offset};

use super::driver::{Batch, Checkpoint};
use super::scene::{EPOCH_MS, Scene};

/// Steps listed before a query that took place while it ran, one after each batch.
fn during(id: &str) -> &'static [usize] {
    match id {
        "k02" | "k15" | "k16" => &[2],
        "k17" => &[2, 3],
        _ => &[],
    }
}

/// The condition of Weir's error where Spark's case has one without a class.
fn condition(id: &str) -> &'static str {
    match id {
        "k06" => "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        "k07" => "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
        "k09" => "KAFKA_NO_OFFSET_FOR_TIMESTAMP",
        "k20" => "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        "k21" | "k23" => "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
        "k24" => "UNKNOWN_TOPIC_OR_PARTITION",
        other => panic!("no error is expected of {other}"),
    }
}

pub fn case(id: &str) -> Value {
    cases().into_iter().find(|case| case["id"] == id).unwrap()
}

fn cases() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden/kafka-cases.jsonl");
    let path = std::env::var("WEIR_GOLDEN").map_or_else(|_| path.to_owned(), |folder| format!("{folder}/kafka-cases.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn execute(id: &str) {
    let case = case(id);
    let steps = case["steps"].as_array().unwrap();
    let scene = Scene::new(id);
    let mut checkpoint = Checkpoint::new();
    let sizes = steps.iter().find_map(|step| step["progress"].get(0)).map(|first| &first["source"]["latestOffset"]);
    let mut midway: Vec<&Value> = during(id).iter().map(|index| &steps[*index]).collect();
    for (index, step) in steps.iter().enumerate() {
        if during(id).contains(&index) {
            continue;
        }
        if step.get("options").is_none() {
            scene.act(step, sizes);
            continue;
        }
        if step["progress"].get(0).is_some_and(|first| first["batchId"] == 0) {
            checkpoint = Checkpoint::new();
        }
        let ended = query(&scene, &mut checkpoint, step, &mut midway).await;
        match (ended, step.get("error")) {
            (Ok(()), None) => {}
            (Err(error), Some(_)) => {
                assert_eq!(error.condition(), condition(id), "{error}");
                assert!(scene.shorten(error.message()).contains(['t', 'u']), "names what it is about: {error}");
            }
            (ended, expected) => panic!("{id} step {index}: {ended:?}, expected {expected:?}"),
        }
        let log: BTreeMap<String, Value> =
            checkpoint.planned.iter().map(|(batch, end)| (batch.to_string(), short(&scene, Some(end)))).collect();
        assert_eq!(serde_json::to_value(log).unwrap(), step["offsets"], "{id} step {index}: the offset log");
    }
}

/// Runs a query step to its end and compares every batch.
async fn query(scene: &Scene, checkpoint: &mut Checkpoint, step: &Value, midway: &mut Vec<&Value>) -> Result<(), Error> {
    let mut source = checkpoint.open(&scene.options(&step["options"]))?;
    source.open(checkpoint.planned.values().last()).await?;
    let once = step["trigger"].get("once").is_some();
    let available_now = step["trigger"].get("availableNow").is_some();
    if available_now {
        source.freeze_available_now().await?;
    }
    let limits = if once { ReadLimits::Ignore } else { ReadLimits::Apply };
    let expected = step["progress"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut batches = step["batches"].as_array().unwrap().iter();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut now_ms = EPOCH_MS;
    let mut progress = expected.iter();
    loop {
        assert!(Instant::now() < deadline, "the query does not end");
        now_ms += 1000;
        match checkpoint.next_batch(&mut source, limits, now_ms).await? {
            Ok(batch) => {
                let progress = progress.next().unwrap_or_else(|| panic!("a batch too many: {batch:?}"));
                compare_progress(scene, &source, &batch, progress);
                compare_rows(scene, &batch, batches.next().unwrap(), step);
                if !midway.is_empty() {
                    scene.act(midway.remove(0), None);
                }
            }
            Err(idle) if available_now || once => {
                // Spark lists an idle trigger only when nothing else ran.
                if let Some(progress) = progress.next() {
                    compare_progress(scene, &source, &idle, progress);
                }
                break;
            }
            Err(_) if progress.len() > 0 => tokio::task::yield_now().await,
            Err(_) => break,
        }
        if once || (progress.len() == 0 && !available_now) {
            break;
        }
    }
    assert_eq!((progress.len(), batches.len()), (0, 0), "batches are missing");
    Ok(())
}

fn short(scene: &Scene, offset: Option<&Offset>) -> Value {
    offset.map_or(Value::Null, |offset| serde_json::from_str(&scene.shorten(offset.json())).unwrap())
}

fn compare_progress(scene: &Scene, source: &KafkaSource, batch: &Batch, expected: &Value) {
    let stated = &expected["source"];
    assert_eq!(batch.id, expected["batchId"]);
    assert_eq!(scene.shorten(&source.description()), stated["description"].as_str().unwrap());
    assert_eq!(short(scene, batch.end.as_ref()), stated["endOffset"], "the end of batch {}", batch.id);
    assert_eq!(short(scene, batch.latest.as_ref()), stated["latestOffset"], "the latest offset at batch {}", batch.id);
    let metrics = serde_json::to_value(&batch.metrics).unwrap();
    assert_eq!(metrics, stated.get("metrics").cloned().unwrap_or_else(|| serde_json::json!({})), "the metrics of batch {}", batch.id);
    assert_eq!(batch.rows.len() as u64, expected["numInputRows"].as_u64().unwrap());
}

fn compare_rows(scene: &Scene, batch: &Batch, expected: &Value, step: &Value) {
    let schema = step["schema"].as_str().unwrap();
    let inner = schema.trim_start_matches("struct<");
    let names: Vec<&str> = ["topic", "partition", "offset", "key", "value", "headers", "timestamp", "timestampType"]
        .into_iter()
        .filter(|name| inner.split(',').any(|field| field.trim_end_matches('>').starts_with(&format!("{name}:"))))
        .collect();
    let mut names = names;
    names.sort_by_key(|name| inner.find(&format!("{name}:")));
    let rows: Vec<Value> = batch.rows.iter().map(|row| names.iter().map(|name| shown(scene, name, &row[*name])).collect()).collect();
    let listed = expected["rows"].as_array().unwrap();
    assert_eq!(rows.len() as u64, expected["count"].as_u64().unwrap());
    for row in listed {
        assert!(rows.contains(row), "batch {} lacks {row}; it has {rows:?}", batch.id);
    }
    assert!(listed.len() == rows.len() || listed.len() == 12);
}

fn shown(scene: &Scene, name: &str, value: &Value) -> Value {
    match name {
        "topic" => Value::from(scene.shorten(value.as_str().unwrap())),
        "timestamp" => {
            let seconds = value.as_i64().unwrap() / 1_000_000 - EPOCH_MS / 1000;
            Value::from(format!("2024-06-01 10:00:{seconds:02}"))
        }
        _ => value.clone(),
    }
}

macro_rules! cases {
    ($($id:ident)*) => {
        const REPEATED: &[&str] = &[$(stringify!($id)),*];
        $(
        #[tokio::test]
        async fn $id() {
            execute(stringify!($id)).await;
        }
    )*};
}

/// k31 is below, k32 is the sink's.
#[test]
fn no_case_is_left_out() {
    let known = |id: &String| REPEATED.contains(&id.as_str()) || ["k31", "k32"].contains(&id.as_str());
    let left: Vec<String> = cases().iter().map(|case| case["id"].as_str().unwrap().to_owned()).filter(|id| !known(id)).collect();
    assert_eq!(left, Vec::<String>::new());
}

cases!(k01 k02 k03 k04 k06 k07 k08 k09 k11 k12 k14 k15 k16 k17 k18 k20 k21 k23 k24 k25 k26 k28 k29 k33);

/// Options of k31 that Spark runs and Weir refuses: it ignores or misreads them in silence.
const STRICTER: [&str; 3] = [r#"endingTimestamp"#, r#""maxOffsetsPerTrigger":"0""#, r#"subcribe"#];

/// Every single try of k31: refused or run, as Spark did, and with the same end.
#[tokio::test]
async fn k31() {
    let case = case("k31");
    let scene = Scene::new("k31");
    for step in case["steps"].as_array().unwrap() {
        if step.get("options").is_none() {
            scene.act(step, None);
            continue;
        }
        let mut checkpoint = Checkpoint::new();
        let ended = query(&scene, &mut checkpoint, step, &mut Vec::new()).await;
        let stricter = STRICTER.iter().any(|option| step["options"].to_string().contains(option));
        assert_eq!(ended.is_err(), step.get("error").is_some() || stricter, "{}: {ended:?}", step["options"]);
        if let Err(error) = ended {
            assert_eq!(error.class(), weir_core::ErrorClass::Config, "{}: {error}", step["options"]);
        }
    }
}

#[tokio::test]
async fn the_initial_offsets_are_stored_as_spark_stores_them() {
    let scene = Scene::new("initial");
    scene.broker.create_topic(&scene.topic("t"), 2, &[]).unwrap();
    scene.broker.produce(&scene.topic("t"), [weir_testkit::kafka::Message::of("v").partition(1)]).unwrap();
    let checkpoint = Checkpoint::new();
    let options = scene.options(&serde_json::json!({"subscribe": "t"}));
    let first = checkpoint.open(&options).unwrap().initial_offset().await.unwrap().unwrap();
    assert_eq!(scene.shorten(first.json()), r#"{"t":{"0":0,"1":1}}"#);
    assert_eq!(checkpoint.entry(), format!("\0v1\n{}", first.json()).into_bytes());
    scene.broker.produce(&scene.topic("t"), [weir_testkit::kafka::Message::of("w").partition(0)]).unwrap();
    assert_eq!(checkpoint.open(&options).unwrap().initial_offset().await.unwrap().unwrap(), first, "the stored entry wins");
}
