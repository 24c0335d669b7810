//! k32 of `shared/golden/kafka-cases.jsonl`: what Spark's sink takes and refuses, each row of the case written by ours.
//!
//! The case writes rows of SQL without a source; its few forms of values are laid out here.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, Int32Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;
use serde_json::Value;
use weir_core::ErrorClass;

use super::golden::case;
use super::scene::Scene;
use super::sink::{options, rows, write};

/// The row of `SELECT value AS name, …`.
fn row(sql: &str, scene: &Scene) -> RecordBatch {
    let mut depth = 0;
    let parts = sql.strip_prefix("SELECT ").unwrap().split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0 && c == ','
    });
    let columns: Vec<(String, ArrayRef)> = parts
        .map(|part| {
            let (value, name) = part.trim().rsplit_once(" AS ").unwrap();
            let value = if name == "topic" { value.replace("o2", &scene.topic("o2")) } else { value.to_owned() };
            (name.to_owned(), cell(&value))
        })
        .collect();
    rows(columns.iter().map(|(name, column)| (name.as_str(), Arc::clone(column))).collect())
}

fn cell(value: &str) -> ArrayRef {
    let text = |text: Option<&str>| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let entry = |columns: Vec<(&str, ArrayRef)>| {
        let fields = columns.into_iter().map(|(name, column)| (Arc::new(Field::new(name, column.data_type().clone(), true)), column));
        StructArray::from(fields.collect::<Vec<_>>())
    };
    match value {
        "CAST(NULL AS STRING)" => text(None),
        "CAST('1' AS BINARY)" => Arc::new(BinaryArray::from(vec![&b"1"[..]])),
        "X'6162'" => Arc::new(BinaryArray::from(vec![&b"ab"[..]])),
        "X'63'" => Arc::new(BinaryArray::from(vec![&b"c"[..]])),
        "named_struct('a',1)" => Arc::new(entry(vec![("a", cell("1"))])),
        _ => {
            if let Some(header) = value.strip_prefix("array(named_struct('key','h','value',").and_then(|rest| rest.strip_suffix("))")) {
                let entry = entry(vec![("key", text(Some("h"))), ("value", cell(header))]);
                let field = Arc::new(Field::new_list_field(entry.data_type().clone(), true));
                return Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([1]), Arc::new(entry), None));
            }
            match value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
                Some(quoted) => text(Some(quoted)),
                None => Arc::new(Int32Array::from(vec![value.parse::<i32>().unwrap()])),
            }
        }
    }
}

#[tokio::test]
async fn k32() {
    let case = case("k32");
    let scene = Scene::new("k32");
    // Spark's broker made this topic when it was written to.
    scene.broker.create_topic(&scene.topic("absent"), 1, &[]).unwrap();
    for step in case["steps"].as_array().unwrap() {
        match step["do"].as_str().unwrap() {
            "batch write to kafka" => written(&scene, step).await,
            "read topic" => compare(&scene, step),
            _ => scene.act(step, None),
        }
    }
}

async fn written(scene: &Scene, step: &Value) {
    let given: Vec<(String, String)> = step["options"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| {
            let value = value.as_str().unwrap();
            (name.clone(), if name == "topic" { scene.topic(value) } else { value.to_owned() })
        })
        .collect();
    let given: Vec<(&str, &str)> = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let ended = match options(&given, &scene.broker.bootstrap_servers()) {
        Ok(options) => write(&options, row(step["sql"].as_str().unwrap(), scene)).await,
        Err(error) => Err(error),
    };
    assert_eq!(ended.is_err(), step.get("error").is_some(), "{step}: {ended:?}");
    if let Err(error) = ended {
        assert_eq!(error.class(), ErrorClass::Config, "{step}: {error}");
        if let Some(class) = step["error"]["class"].as_str() {
            assert_eq!(error.condition(), class, "{step}: {error}");
        }
    }
}

/// Which partition a record without key goes to is chance, in Spark too.
fn compare(scene: &Scene, step: &Value) {
    let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(Value::Null, |bytes| String::from_utf8_lossy(bytes).into_owned().into());
    let received = scene.broker.read_all(&scene.topic(step["topic"].as_str().unwrap())).unwrap();
    let ours = received.iter().map(|record| {
        let headers: Vec<Value> = record.headers.iter().map(|(name, value)| vec![name.clone().into(), text(value)].into()).collect();
        vec![record.key.clone().map_or(Value::Null, |key| text(&Some(key))), text(&record.value), headers.into()]
    });
    let theirs = step["rows"].as_array().unwrap().iter().map(|row| {
        let headers = row.get(4).cloned().unwrap_or_else(|| Vec::<Value>::new().into());
        vec![row[2].clone(), row[3].clone(), headers]
    });
    let sorted = |rows: &mut dyn Iterator<Item = Vec<Value>>| {
        let mut rows: Vec<String> = rows.map(|row| Value::from(row).to_string()).collect();
        rows.sort();
        rows
    };
    assert_eq!(sorted(&mut ours.into_iter()), sorted(&mut theirs.into_iter()), "{}", step["topic"]);
}
