//! Tables made by Spark with rules for their rows: what they compute, and what they refuse.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int32Array, Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field};
use arrow::record_batch::RecordBatch;
use serde_json::{Value, json};
use weir_connect::Committed;
use weir_core::ErrorClass;
use weir_testkit::judge::Judge;
use weir_testkit::scratch;

use super::query::{Query, rows};

const TEN: i64 = 1_717_236_000_000_000;

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn numbers(values: &[Option<i32>]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn times(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(values.to_vec()).with_timezone("UTC"))
}

fn pairs(a: &[Option<i32>], there: Option<Vec<bool>>) -> ArrayRef {
    let fields = vec![Field::new("a", DataType::Int32, true)].into();
    Arc::new(StructArray::try_new(fields, vec![numbers(a)], there.map(Into::into)).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_a_table_are_kept_as_spark_keeps_them() {
    let folder = scratch::folder("delta-rules").unwrap();
    let table = folder.path().join("out");
    let run = |sql: &str| Judge::shared().sql(&sql.replace("{t}", &format!("delta.`{}`", table.display())), &[]).unwrap();
    run(
        "CREATE TABLE {t} (k STRING NOT NULL, ts TIMESTAMP, d DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), y INT GENERATED ALWAYS AS (YEAR(ts)), \
         st STRUCT<a: INT NOT NULL, b: STRING>, short VARCHAR(3), x STRING DEFAULT concat('q', 'r'), n DECIMAL(10,2) NOT NULL DEFAULT 7) \
         USING delta PARTITIONED BY (d) TBLPROPERTIES('delta.feature.allowColumnDefaults'='supported')",
    );
    run("ALTER TABLE {t} ADD CONSTRAINT `two or so` CHECK (st.a < 5 OR upper(k) = 'A')");
    let good = rows(vec![
        ("k", texts(&[Some("a"), Some("b"), Some("c")])),
        ("ts", times(&[Some(TEN), Some(TEN + 86_400_000_000), None])),
        ("st", pairs(&[Some(9), Some(1), Some(2)], None)),
        ("short", texts(&[Some("abc"), Some("\u{e4}\u{f6}\u{fc}"), None])),
    ]);
    let query = Query::to(&table);
    let sink = query.open(good.schema()).await.unwrap();
    assert_eq!(query.write(&sink, 0, &good).await.unwrap(), Committed::Now);
    // Generated columns that the query yields itself.
    let given = rows(vec![
        ("k", texts(&[Some("d"), Some("e")])),
        ("ts", times(&[Some(TEN), None])),
        ("y", Arc::new(Int64Array::from(vec![Some(2024), None]))),
        ("d", Arc::new(Date32Array::from(vec![Some(19_875), None]))),
        ("st", pairs(&[Some(1), Some(1)], None)),
        ("n", numbers(&[Some(1), Some(2)])),
    ]);
    let giving = query.open(given.schema()).await.unwrap();
    assert_eq!(query.write(&giving, 1, &given).await.unwrap(), Committed::Now);
    let found = || run("SELECT k, CAST(d AS STRING) d, y, st.a, short, x, CAST(n AS STRING) n FROM {t}").rows;
    let expected: Vec<Vec<Value>> = vec![
        vec![json!("a"), json!("2024-06-01"), json!(2024), json!(9), json!("abc"), json!("qr"), json!("7.00")],
        vec![json!("b"), json!("2024-06-02"), json!(2024), json!(1), json!("\u{e4}\u{f6}\u{fc}"), json!("qr"), json!("7.00")],
        vec![json!("c"), json!(null), json!(null), json!(2), json!(null), json!("qr"), json!("7.00")],
        vec![json!("d"), json!("2024-06-01"), json!(2024), json!(1), json!(null), json!("qr"), json!("1.00")],
        vec![json!("e"), json!(null), json!(null), json!(1), json!(null), json!("qr"), json!("2.00")],
    ];
    assert_eq!(found(), expected);
    // Spark finds the rows by the partition that Weir computed.
    assert_eq!(run("SELECT count(*) FROM {t} WHERE ts = TIMESTAMP'2024-06-02T10:00:00Z'").rows, [[json!(1)]]);

    let row = |k: Option<&str>, ts: i64, st: ArrayRef| vec![("k", texts(&[k])), ("ts", times(&[Some(ts)])), ("st", st)];
    let one = || pairs(&[Some(1)], None);
    let with = |mut columns: Vec<(&'static str, ArrayRef)>, name: &'static str, values: ArrayRef| {
        columns.push((name, values));
        rows(columns)
    };
    let bad: Vec<(RecordBatch, &str, &str)> = vec![
        (rows(row(None, TEN, one())), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "for column: k;"),
        (rows(row(Some("a"), TEN, pairs(&[None], None))), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "for column: st.a;"),
        (rows(row(Some("a"), TEN, pairs(&[None], Some(vec![false])))), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "for column: st.a;"),
        (with(row(Some("a"), TEN, one()), "n", numbers(&[None])), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "for column: n;"),
        (
            rows(row(Some("z"), TEN, pairs(&[Some(7)], None))),
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            "CHECK constraint two or so (st . a < 5 OR upper ( k ) = 'A') violated by row with values: k : z, st : {a: 7, b: null}; filter",
        ),
        (
            with(row(Some("a"), TEN, one()), "y", numbers(&[Some(2023)])),
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            "CHECK constraint Generated Column (`y` <=> (YEAR(ts))) violated by row with values: ts : 2024-06-01T10:00:00Z, y : 2023; leave `y` out",
        ),
        (with(row(Some("a"), TEN, one()), "short", texts(&[Some("abcd")])), "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "short : abcd"),
    ];
    for (batch, condition, part) in bad {
        let sink = query.open(batch.schema()).await.unwrap();
        let error = query.write(&sink, 2, &batch).await.unwrap_err();
        assert_eq!((error.class(), error.condition()), (ErrorClass::Config, condition), "{error}");
        assert!(error.message().contains(part), "{error}");
    }
    let lacking = rows(vec![("k", texts(&[Some("a")]))]);
    let error = query.open(lacking.schema()).await.err().unwrap();
    assert_eq!(error.condition(), "DELTA_MISSING_NOT_NULL_COLUMN_VALUE");
    assert!(error.message().contains("`st.a`"), "{error}");
    assert_eq!(found(), expected, "nothing is half written");
}
