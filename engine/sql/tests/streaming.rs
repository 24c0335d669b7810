//! Streaming plans: checks, slices, lanes, clock, observations, static inputs.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::MemTable;
use serde_json::json;
use weir_sql::{
    CompiledQuery, Lane, Observation, OutputMode, QueryText, SqlConf, StaticInput, StreamInput, compile, merge_observed, rows_to_json,
};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("unused", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
    ]))
}

fn stream(name: &str) -> StreamInput {
    StreamInput { name: name.into(), schema: schema(), has_watermark: false }
}

fn dim(rows: &[(&str, &str)]) -> Arc<MemTable> {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("name", DataType::Utf8, true)]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(k, _)| Some(*k)).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(_, n)| Some(*n)).collect::<StringArray>()),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap())
}

fn text(sql: &str) -> QueryText {
    QueryText { sql: sql.into(), ..QueryText::default() }
}

fn compiled(sql: &str) -> CompiledQuery {
    compile(&SqlConf::default(), vec![stream("events")], vec![], &text(sql), OutputMode::Append).unwrap()
}

fn refusal(sql: &str, mode: OutputMode) -> String {
    let statics = vec![StaticInput { name: "dim".into(), table: dim(&[("a", "alpha")]) }];
    let streams = if sql.contains("other") { vec![stream("events"), stream("other")] } else { vec![stream("events")] };
    match compile(&SqlConf::default(), streams, statics, &text(sql), mode) {
        Ok(_) => "ALLOWED".into(),
        Err(error) => error.condition().to_owned(),
    }
}

/// A slice with the required columns of a query.
fn slice(query: &CompiledQuery, rows: &[(&str, i64)]) -> RecordBatch {
    let all: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(k, _)| Some(*k)).collect::<StringArray>()),
        Arc::new(rows.iter().map(|_| Some("x")).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(_, v)| Some(*v)).collect::<Int64Array>()),
        Arc::new(TimestampMicrosecondArray::from(vec![0; rows.len()]).with_timezone("UTC")),
    ];
    let full = RecordBatch::try_new(schema(), all).unwrap();
    full.project(&query.required_columns(0)).unwrap()
}

async fn run(lane: &mut Lane, input: RecordBatch) -> Vec<String> {
    let batches = lane.execute(0, input).await.unwrap();
    let conf = SqlConf::default();
    batches.iter().flat_map(|batch| rows_to_json(batch, &conf).unwrap()).collect()
}

#[tokio::test]
async fn filters_and_projects_slices() {
    let query = compiled("SELECT k, v + 1 AS w, k FROM events WHERE v > 1");
    assert_eq!(query.required_columns(0), [0, 2]);
    assert_eq!(query.stream_order(), [0]);
    let mut lane = query.lane().unwrap();
    lane.begin_batch(1000).await.unwrap();
    let rows = run(&mut lane, slice(&query, &[("a", 1), ("b", 2)])).await;
    assert_eq!(rows, [r#"{"k":"b","w":3,"k":"b"}"#]);
    let rows = run(&mut lane, slice(&query, &[("c", 5)])).await;
    assert_eq!(rows, [r#"{"k":"c","w":6,"k":"c"}"#]);
}

#[tokio::test]
async fn a_plan_may_need_no_column() {
    let query = compiled("SELECT 'x' AS c FROM events");
    assert!(query.required_columns(0).is_empty());
    let mut lane = query.lane().unwrap();
    lane.begin_batch(0).await.unwrap();
    assert_eq!(run(&mut lane, slice(&query, &[("a", 1), ("b", 2)])).await.len(), 2);
}

#[tokio::test]
async fn a_lane_serves_many_batches() {
    let query = compiled("SELECT upper(k) AS k FROM events WHERE v % 2 = 0");
    let mut lane = query.lane().unwrap();
    for batch in 0..1000 {
        lane.begin_batch(batch).await.unwrap();
        let rows = run(&mut lane, slice(&query, &[("a", batch), ("b", batch + 1)])).await;
        assert_eq!(rows.len(), 1);
        lane.finish_batch().unwrap();
    }
}

#[tokio::test]
async fn the_clock_stands_still_within_a_batch() {
    let query =
        compiled("SELECT current_timestamp() AS t, transform(array(1), x -> current_timestamp())[0] AS u, current_date() AS d FROM events");
    let mut lane = query.lane().unwrap();
    lane.begin_batch(86_400_000).await.unwrap();
    let first = run(&mut lane, slice(&query, &[("a", 1)])).await;
    let second = run(&mut lane, slice(&query, &[("b", 1)])).await;
    assert_eq!(first, [r#"{"t":"1970-01-02T00:00:00.000Z","u":"1970-01-02T00:00:00.000Z","d":"1970-01-02"}"#]);
    assert_eq!(first, second);
    lane.begin_batch(2 * 86_400_000).await.unwrap();
    let third = run(&mut lane, slice(&query, &[("c", 1)])).await;
    assert_eq!(third, [r#"{"t":"1970-01-03T00:00:00.000Z","u":"1970-01-03T00:00:00.000Z","d":"1970-01-03"}"#]);
}

#[tokio::test]
async fn observations_span_slices_and_lanes() {
    let text = QueryText {
        views: vec![("clean".into(), "SELECT k, v FROM events WHERE v > 0".into())],
        sql: "SELECT k FROM clean WHERE k <> 'b'".into(),
        observe: vec![Observation {
            name: "quality".into(),
            view: "clean".into(),
            metrics: vec![
                ("rows".into(), "count(*)".into()),
                ("largest".into(), "max(v)".into()),
                ("mean".into(), "sum(v) / count(1)".into()),
                ("bs".into(), "count(*) FILTER (WHERE k = 'b')".into()),
            ],
        }],
        ..QueryText::default()
    };
    let query = compile(&SqlConf::default(), vec![stream("events")], vec![], &text, OutputMode::Append).unwrap();
    let (mut one, mut two) = (query.lane().unwrap(), query.lane().unwrap());
    one.begin_batch(0).await.unwrap();
    two.begin_batch(0).await.unwrap();
    let rows = run(&mut one, slice(&query, &[("a", 1), ("b", 2), ("x", -1)])).await;
    assert_eq!(rows, [r#"{"k":"a"}"#]);
    run(&mut one, slice(&query, &[("b", 3)])).await;
    run(&mut two, slice(&query, &[("c", 10)])).await;
    let parts = [one.finish_batch().unwrap(), two.finish_batch().unwrap()];
    let merged = merge_observed(parts.to_vec()).unwrap();
    assert_eq!(merged["quality"], json!({"rows": 4, "largest": 10, "mean": 4.0, "bs": 2}));
    // The next batch starts from nothing.
    one.begin_batch(1).await.unwrap();
    let merged = merge_observed(vec![one.finish_batch().unwrap()]).unwrap();
    assert_eq!(merged["quality"]["rows"], json!(0));
}

#[tokio::test]
async fn static_inputs_are_read_again_for_each_batch() {
    let table = dim(&[("a", "alpha")]);
    let statics = vec![StaticInput { name: "dim".into(), table: Arc::<MemTable>::clone(&table) }];
    let sql = "SELECT events.k, dim.name FROM events LEFT JOIN dim ON events.k = dim.k";
    let query = compile(&SqlConf::default(), vec![stream("events")], statics, &text(sql), OutputMode::Append).unwrap();
    let mut lane = query.lane().unwrap();
    lane.begin_batch(0).await.unwrap();
    assert_eq!(run(&mut lane, slice(&query, &[("a", 1)])).await, [r#"{"k":"a","name":"alpha"}"#]);
    assert_eq!(run(&mut lane, slice(&query, &[("b", 1)])).await, [r#"{"k":"b"}"#]);
    let more = dim(&[("b", "beta")]);
    let rows = more.batches[0].read().await.clone();
    *table.batches[0].write().await = rows;
    // The slice of the same batch still sees the old rows, the next batch the new ones.
    assert_eq!(run(&mut lane, slice(&query, &[("b", 1)])).await, [r#"{"k":"b"}"#]);
    lane.begin_batch(1).await.unwrap();
    assert_eq!(run(&mut lane, slice(&query, &[("b", 1)])).await, [r#"{"k":"b","name":"beta"}"#]);
}

#[tokio::test]
async fn unions_and_generators_run() {
    let query = compiled("SELECT k, w FROM (SELECT k, explode(array(v, v * 10)) AS w FROM events) UNION ALL SELECT k, v FROM events");
    let mut lane = query.lane().unwrap();
    lane.begin_batch(0).await.unwrap();
    let mut rows = run(&mut lane, slice(&query, &[("a", 1)])).await;
    rows.sort();
    assert_eq!(rows, [r#"{"k":"a","w":10}"#, r#"{"k":"a","w":1}"#, r#"{"k":"a","w":1}"#]);
}

#[test]
fn refuses_what_spark_refuses() {
    use OutputMode::{Append, Complete, Update};
    let mode = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION";
    let legacy = "_LEGACY_ERROR_TEMP_3102";
    let state = "WEIR_UNSUPPORTED_STATEFUL_OPERATOR";
    for (sql, append, update, complete) in [
        ("SELECT k FROM events WHERE v > 1", "ALLOWED", "ALLOWED", mode),
        ("SELECT k, count(*) FROM events GROUP BY k", mode, state, state),
        ("SELECT count(*) FROM events", mode, state, state),
        ("SELECT DISTINCT k FROM events", mode, state, state),
        ("SELECT count(DISTINCT k) FROM events", mode, legacy, legacy),
        ("SELECT session_window(ts, '5 seconds') AS s, count(*) FROM events GROUP BY session_window(ts, '5 seconds')", mode, mode, state),
        ("SELECT k FROM events ORDER BY k", legacy, legacy, mode),
        ("SELECT k FROM events LIMIT 1", state, legacy, mode),
        ("SELECT k FROM events OFFSET 1", legacy, legacy, mode),
        (
            "SELECT row_number() OVER (PARTITION BY k ORDER BY ts) AS n FROM events",
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
            mode,
        ),
        ("SELECT events.k FROM events JOIN other ON events.k = other.k", state, state, mode),
        ("SELECT events.k FROM events LEFT JOIN other ON events.k = other.k", legacy, legacy, mode),
        ("SELECT events.k, name FROM events JOIN dim ON events.k = dim.k", "ALLOWED", "ALLOWED", mode),
        ("SELECT events.k, name FROM events LEFT JOIN dim ON events.k = dim.k", "ALLOWED", "ALLOWED", mode),
        ("SELECT events.k FROM events LEFT SEMI JOIN dim ON events.k = dim.k", "ALLOWED", "ALLOWED", mode),
        ("SELECT events.k FROM events LEFT ANTI JOIN dim ON events.k = dim.k", "ALLOWED", "ALLOWED", mode),
        ("SELECT events.k, name FROM events RIGHT JOIN dim ON events.k = dim.k", legacy, legacy, mode),
        ("SELECT events.k, name FROM events FULL JOIN dim ON events.k = dim.k", legacy, legacy, mode),
        ("SELECT events.k, name FROM dim LEFT JOIN events ON events.k = dim.k", legacy, legacy, mode),
        ("SELECT events.k, name FROM dim RIGHT JOIN events ON events.k = dim.k", "ALLOWED", "ALLOWED", mode),
        ("SELECT k FROM events UNION ALL SELECT k FROM other", "ALLOWED", "ALLOWED", mode),
        ("SELECT k FROM events UNION ALL SELECT k FROM dim", legacy, legacy, mode),
        ("SELECT k FROM events INTERSECT SELECT k FROM other", legacy, legacy, mode),
        ("SELECT monotonically_increasing_id() AS id FROM events", legacy, legacy, mode),
        ("SELECT rand() AS r, current_timestamp() AS t FROM events", "ALLOWED", "ALLOWED", mode),
    ] {
        assert_eq!(refusal(sql, Append), append, "append: {sql}");
        assert_eq!(refusal(sql, Update), update, "update: {sql}");
        assert_eq!(refusal(sql, Complete), complete, "complete: {sql}");
    }
}

/// A text without its mark `¦`, and where that was.
fn marked(text: &str) -> (String, Option<(usize, usize)>) {
    let place = text.split_once('¦').map(|(before, _)| {
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    });
    (text.replace('¦', ""), place)
}

#[test]
fn names_what_is_wrong_and_where() {
    for (sql, condition, part) in [
        ("SELECT ¦kk FROM events", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "`k`"),
        ("SELECT k,\n  lower(k) AS é, ¦uper(k) FROM events", "UNRESOLVED_ROUTINE", "`upper`"),
        ("SELECT k, ¦qqqqqqqq(k) FROM events", "UNRESOLVED_ROUTINE", "none of the built-in functions"),
        ("SELECT k\nFROM\n  ¦event", "TABLE_OR_VIEW_NOT_FOUND", "`events`"),
        ("SELECT k FROM events WHERE¦", "PARSE_SYNTAX_ERROR", "correct the SQL"),
        ("SELECT k FROM events WHERE v > 1 AND (¦) ORDER", "PARSE_SYNTAX_ERROR", "correct the SQL"),
        ("SELECT k + v AS x,\n DATE¦'2024-01-01' * 2 FROM events", "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", "CAST"),
        ("SELECT events.k FROM events JOIN dim ON v > 1 WHERE ¦k = 'a'", "AMBIGUOUS_REFERENCE", "`k`"),
        ("WITH c AS (\n SELECT ¦nope AS n FROM events) SELECT n FROM c", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "`k`"),
        ("SELECT * EXCEPT (k, ¦w) FROM events", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "`v`"),
        ("SELECT k FROM events JOIN ¦dim USING (nope)", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "nope"),
        ("SELECT x FROM events LATERAL VIEW ¦explode(k) t AS x", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE", "explode"),
        ("SELECT transform(array(v), x -> ¦y + 1) FROM events", "UNRESOLVED_COLUMN", "y"),
        ("SELECT k FROM events ORDER BY v", "_LEGACY_ERROR_TEMP_3102", "sort"),
    ] {
        let (sql, place) = marked(sql);
        let statics = vec![StaticInput { name: "dim".into(), table: dim(&[("a", "alpha")]) }];
        let error = compile(&SqlConf::default(), vec![stream("events")], statics, &text(&sql), OutputMode::Append);
        let mut error = error.err().unwrap_or_else(|| panic!("{sql}"));
        assert!(error.condition().starts_with(condition), "{sql}: {error}");
        assert!(error.message().contains(part), "{sql}: {error}");
        assert_eq!(error.class(), weir_core::ErrorClass::Config);
        let found = error.take_place();
        assert_eq!((found.field.as_str(), found.at), ("sql", place), "{sql}: {error}");
    }
}

#[test]
fn errors_of_views_and_observations_are_placed_in_their_own_texts() {
    let place = |view: &str, metric: &str| {
        let observe = Observation { name: "o".into(), view: "clean".into(), metrics: vec![("m".into(), metric.replace('¦', ""))] };
        let text = QueryText {
            views: vec![("clean".into(), view.replace('¦', "")), ("more".into(), "SELECT k, v FROM clean".into())],
            observe: vec![observe],
            sql: "SELECT a.k\nFROM (SELECT k FROM more) a".into(),
            ..QueryText::default()
        };
        let mut error = compile(&SqlConf::default(), vec![stream("events")], vec![], &text, OutputMode::Append).err().unwrap();
        let found = error.take_place();
        let expected = marked(if view.contains('¦') { view } else { metric }).1;
        assert_eq!(found.at, expected, "{error}");
        found.field
    };
    let good = "SELECT k, v FROM events";
    assert_eq!(place("SELECT k,\n ¦w FROM events", "count(*)"), "views[clean].sql");
    assert_eq!(place("SELECT k v ¦w FROM events", "count(*)"), "views[clean].sql");
    assert_eq!(place(good, "sum(\n¦w)"), "observe[o].metrics[m].expr");
    assert_eq!(place(good, "sum(v) + ¦* 2"), "observe[o].metrics[m].expr");
}

#[test]
fn an_unused_source_is_an_error() {
    let error =
        compile(&SqlConf::default(), vec![stream("a"), stream("b")], vec![], &text("SELECT k FROM b"), OutputMode::Append).err().unwrap();
    assert_eq!(error.condition(), "WEIR_UNUSED_SOURCE");
    let query = compile(
        &SqlConf::default(),
        vec![stream("a"), stream("b")],
        vec![],
        &text("SELECT k FROM b UNION ALL SELECT k FROM a"),
        OutputMode::Append,
    )
    .unwrap();
    assert_eq!(query.stream_order(), [1, 0]);
}

#[tokio::test]
async fn a_failing_row_is_retryable() {
    let query = compiled("SELECT CAST(k AS INT) AS n FROM events WHERE v <> 0 AND 10 div v > 0");
    let mut lane = query.lane().unwrap();
    lane.begin_batch(0).await.unwrap();
    assert_eq!(run(&mut lane, slice(&query, &[("7", 1), ("8", 0)])).await, [r#"{"n":7}"#]);
    let error = lane.execute(0, slice(&query, &[("x", 1)])).await.err().unwrap();
    assert_eq!(error.condition(), "CAST_INVALID_INPUT");
    assert_eq!(error.class(), weir_core::ErrorClass::Retryable);
}

/// What is written to Kafka: all columns of a record as one text.
#[tokio::test]
async fn a_record_is_written_as_one_json_text() {
    let query = compiled("SELECT upper(k) AS u, concat(u, '!') AS key, to_json(struct(*)) AS value FROM events WHERE v > 0");
    let mut lane = query.lane().unwrap();
    lane.begin_batch(0).await.unwrap();
    let rows = run(&mut lane, slice(&query, &[("a", 1), ("b", 0)])).await;
    let value = r#"{\"k\":\"a\",\"unused\":\"x\",\"v\":1,\"ts\":\"1970-01-01T00:00:00.000Z\"}"#;
    assert_eq!(rows, [format!(r#"{{"u":"A","key":"A!","value":"{value}"}}"#)]);
}

/// As Spark's metadata columns: named or not there.
#[test]
fn hidden_columns_are_found_by_name_only() {
    let hidden = [(weir_core::columns::HIDDEN_KEY.to_owned(), "true".to_owned())];
    let meta = DataType::Struct(vec![Field::new("file_name", DataType::Utf8, true)].into());
    let mut fields: Vec<Field> = schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new("_metadata", meta, true).with_metadata(hidden.into()));
    let schema = Arc::new(Schema::new(fields));
    let compiled = |sql: &str| {
        let streams = ["a", "b"].map(|name| StreamInput { name: name.into(), schema: Arc::clone(&schema), has_watermark: false });
        let used = if sql.contains("FROM b") || sql.contains("JOIN b") { 2 } else { 1 };
        compile(&SqlConf::default(), streams.into_iter().take(used).collect(), vec![], &text(sql), OutputMode::Append)
    };
    let columns = |sql: &str| {
        let schema = compiled(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).schema();
        schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(" ")
    };
    let condition = |sql: &str| compiled(sql).err().unwrap_or_else(|| panic!("{sql}")).condition().to_owned();
    assert_eq!(columns("SELECT * FROM a"), "k unused v ts");
    assert_eq!(columns("SELECT a.* FROM a"), "k unused v ts");
    assert_eq!(columns("SELECT *, _metadata FROM a"), "k unused v ts _metadata");
    assert_eq!(columns("SELECT x._metadata.file_name FROM a AS x WHERE _metadata.file_name LIKE 'a%'"), "file_name");
    assert_eq!(columns("SELECT _metadata.* FROM a x(p, q, r, s)"), "file_name");
    assert_eq!(columns("SELECT * FROM a UNION ALL SELECT * FROM b"), "k unused v ts");
    assert_eq!(condition("SELECT _metadata FROM (SELECT * FROM a) x"), "UNRESOLVED_COLUMN.WITH_SUGGESTION");
    assert_eq!(condition("SELECT _metadata FROM a JOIN b ON a.k = b.k"), "AMBIGUOUS_REFERENCE");
}
