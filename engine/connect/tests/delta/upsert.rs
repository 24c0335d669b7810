//! The same merges by Weir's sink and by Spark's `MERGE INTO`, each into a
//! table of its own: equal rows after every step, also where columns are mapped.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field};
use arrow::record_batch::RecordBatch;
use serde_json::{Value, json};
use weir_connect::Committed;
use weir_connect::open::UpsertBy;
use weir_testkit::judge::{Input, Judge};
use weir_testkit::scratch;

use super::query::{Query, rows};

/// id, region, version, reading.
type Row<'a> = (Option<i32>, Option<&'a str>, Option<i32>, f64);

/// Microseconds since 1970 of a row's time: beyond what nanoseconds hold for one of them.
fn time_of(row: &Row<'_>) -> i64 {
    if row.2 == Some(7) { 253_402_300_799_000_001 } else { 1_717_236_000_000_001 + i64::from(row.2.unwrap_or(0)) }
}

fn batch(values: &[Row<'_>]) -> RecordBatch {
    let int = |of: fn(&Row<'_>) -> Option<i32>| -> ArrayRef { Arc::new(values.iter().map(of).collect::<Int32Array>()) };
    rows(vec![
        ("id", int(|row| row.0)),
        ("region", Arc::new(values.iter().map(|row| row.1).collect::<StringArray>())),
        ("version", int(|row| row.2)),
        ("reading", Arc::new(values.iter().map(|row| Some(row.3)).collect::<Float64Array>())),
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values(values.iter().map(time_of)).with_timezone("UTC"))),
    ])
}

fn sql_rows(values: &[Row<'_>]) -> String {
    let int = |value: Option<i32>| value.map_or("CAST(NULL AS INT)".to_owned(), |value| value.to_string());
    let row = |row: &Row<'_>| {
        let region = row.1.map_or("CAST(NULL AS STRING)".to_owned(), |region| format!("'{region}'"));
        format!("({}, {region}, {}, CAST('{}' AS DOUBLE), timestamp_micros({}))", int(row.0), int(row.2), row.3, time_of(row))
    };
    let rows: Vec<String> = values.iter().map(row).collect();
    format!("(SELECT * FROM VALUES {} AS v(id, region, version, reading, at))", rows.join(", "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_leave_the_rows_that_sparks_merge_leaves() {
    let folder = scratch::folder("delta-upsert").unwrap();
    let judge = Judge::shared();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    let on = |table: &std::path::Path, sql: &str| judge.sql(&sql.replace("{t}", &format!("delta.`{}`", table.display())), &[]).unwrap();
    let both = |sql: &str| [&ours, &theirs].map(|table| on(table, sql));
    let first: Vec<Row<'_>> =
        (0..20).map(|id| (Some(id), Some(if id % 2 == 0 { "eu west" } else { "us" }), Some(1), f64::from(id))).collect();
    both(
        "CREATE TABLE {t} (id INT, region STRING, version INT, reading DOUBLE, at TIMESTAMP) USING delta PARTITIONED BY (region) \
         TBLPROPERTIES('delta.enableDeletionVectors'='true', 'delta.enableChangeDataFeed'='true')",
    );
    both(&format!("INSERT INTO {{t}} SELECT * FROM {}", sql_rows(&first)));
    both("DELETE FROM {t} WHERE id IN (3, 4, 5)");

    let keys = vec!["id".to_owned(), "region".to_owned()];
    let mut query = Query::to(&ours);
    query.upsert = Some(UpsertBy { keys, order_by: Some("version".to_owned()) });
    let sink = query.open(batch(&[]).schema()).await.unwrap();
    let steps: [&[Row<'_>]; 3] = [
        // Deleted, there, new, in another partition, far in time, without a key.
        &[
            (Some(4), Some("eu west"), Some(2), 0.5),
            (Some(6), Some("eu west"), Some(2), -0.0),
            (Some(6), Some("us"), Some(1), 1.5),
            (Some(1), Some("us"), Some(7), 7.0),
            (None, Some("us"), Some(1), 2.5),
            (Some(7), None, Some(1), 3.5),
        ],
        // Older, as old, and without a version.
        &[
            (Some(6), Some("eu west"), Some(1), 9.0),
            (Some(6), Some("us"), Some(1), 9.5),
            (Some(8), Some("eu west"), None, 9.9),
            (Some(100), Some("zz"), None, 1.0),
        ],
        &[(Some(100), Some("zz"), Some(0), f64::NAN), (None, Some("us"), Some(1), 2.5), (Some(19), Some("us"), Some(8), 8.0)],
    ];
    let merge = "MERGE INTO {t} t USING {s} s ON t.id = s.id AND t.region = s.region \
                 WHEN MATCHED AND (t.version IS NULL OR s.version >= t.version) THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";
    let read = "SELECT id, region, version, CAST(reading AS STRING), CAST(at AS STRING) FROM {t} ORDER BY ALL";
    for (number, step) in steps.iter().enumerate() {
        let committed = query.write(&sink, number as u64, &batch(step)).await.unwrap();
        assert_eq!(committed, Committed::Now);
        on(&theirs, &merge.replace("{s}", &sql_rows(step)));
        let [found, expected] = both(read);
        assert_eq!(found.rows, expected.rows, "step {number}");
        match number {
            0 => drop(on(&ours, "OPTIMIZE {t}")),
            1 => drop(both("DELETE FROM {t} WHERE id = 12")),
            _ => {}
        }
    }
    let feed = [&ours, &theirs].map(|table| {
        let feed = Input::at("delta", table).option("readChangeFeed", "true").option("startingVersion", "0");
        judge
            .query(&feed, "SELECT id, region, version, CAST(reading AS STRING), CAST(at AS STRING), _change_type FROM source")
            .unwrap()
            .rows
    });
    assert!(feed[0].iter().any(|row| row[5] == json!("update_preimage")));
    assert_eq!(feed[0], feed[1], "the changes that both tables tell");
    let history = judge.delta_history(&ours).unwrap();
    let column = |name: &str| history.columns.iter().position(|column| column == name).unwrap();
    let merges: Vec<&Vec<Value>> = history.rows.iter().filter(|row| row[column("operation")] == json!("MERGE")).collect();
    assert_eq!(merges.len(), 3);
    let last = &merges[2][column("operationMetrics")];
    assert_eq!((&last["numTargetRowsUpdated"], &last["numTargetRowsInserted"]), (&json!("2"), &json!("1")), "{last}");
    assert_eq!(judge.delta_transactions(&ours).unwrap(), BTreeMap::from([(query.id.to_string(), 2)]));
}

/// id, number, partition.
fn mapped(values: &[(i32, i32, &str)]) -> (RecordBatch, String) {
    let ints = |of: fn(&(i32, i32, &str)) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(values.iter().map(of))) };
    let st = StructArray::try_new(vec![Field::new("x y", DataType::Int32, true)].into(), vec![ints(|row| row.1)], None).unwrap();
    let regions: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|row| row.2)));
    let batch = rows(vec![("id", ints(|row| row.0)), ("v w", ints(|row| row.1)), ("st", Arc::new(st)), ("p q", regions)]);
    let row = |(id, v, p): &(i32, i32, &str)| format!("({id}, {v}, named_struct('x y', {v}), '{p}')");
    let text = values.iter().map(row).collect::<Vec<_>>().join(", ");
    (batch, format!("(SELECT * FROM VALUES {text} AS v(id, `v w`, st, `p q`))"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_into_mapped_columns_leave_the_rows_that_sparks_merge_leaves() {
    let folder = scratch::folder("delta-upsert-mapped").unwrap();
    let judge = Judge::shared();
    for mode in ["name", "id"] {
        let (ours, theirs) = (folder.path().join(format!("{mode}-ours")), folder.path().join(format!("{mode}-theirs")));
        let on = |table: &std::path::Path, sql: &str| judge.sql(&sql.replace("{t}", &format!("delta.`{}`", table.display())), &[]).unwrap();
        let both = |sql: &str| [&ours, &theirs].map(|table| on(table, sql));
        both(&format!(
            "CREATE TABLE {{t}} (id INT, v INT, st STRUCT<a: INT>, `p q` STRING) USING delta PARTITIONED BY (`p q`) \
             TBLPROPERTIES('delta.columnMapping.mode'='{mode}', 'delta.enableChangeDataFeed'='true')"
        ));
        both("INSERT INTO {t} SELECT CAST(id AS INT), 0, named_struct('a', CAST(id AS INT)), IF(id % 2 = 0, 'e e', 'o') FROM range(6)");
        // What was written keeps its names in files.
        both("ALTER TABLE {t} RENAME COLUMN v TO `v w`");
        both("ALTER TABLE {t} RENAME COLUMN st.a TO `x y`");
        let mut query = Query::to(&ours);
        query.upsert = Some(UpsertBy { keys: vec!["id".to_owned(), "p q".to_owned()], order_by: None });
        let sink = query.open(mapped(&[]).0.schema()).await.unwrap();
        // There, there in another partition, new, and with the partition that becomes null.
        let steps: [&[(i32, i32, &str)]; 2] =
            [&[(2, 20, "e e"), (3, 30, "e e"), (9, 90, "n"), (1, 10, "")], &[(3, 31, "e e"), (1, 11, "o"), (9, 91, "n")]];
        for (number, step) in steps.iter().enumerate() {
            let (batch, sql) = mapped(step);
            assert_eq!(query.write(&sink, number as u64, &batch).await.unwrap(), Committed::Now);
            let merge = "MERGE INTO {t} t USING {s} s ON t.id = s.id AND t.`p q` = s.`p q` \
                         WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";
            on(&theirs, &merge.replace("{s}", &sql));
            let [found, expected] = both("SELECT id, `v w`, st.`x y`, `p q` FROM {t} ORDER BY ALL");
            assert_eq!(found.rows, expected.rows, "{mode}, step {number}");
        }
        let feed = [&ours, &theirs].map(|table| {
            let feed = Input::at("delta", table).option("readChangeFeed", "true").option("startingVersion", "4");
            judge.query(&feed, "SELECT id, `v w`, st.`x y`, `p q`, _change_type FROM source").unwrap().rows
        });
        assert!(feed[0].iter().any(|row| row[4] == json!("update_preimage")));
        assert_eq!(feed[0], feed[1], "{mode}: the changes that both tables tell");
    }
}
