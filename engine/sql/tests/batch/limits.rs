//! What little SQL may make of little input: bounded values, plans and types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use weir_sql::{CompiledQuery, OutputMode, QueryText, SqlConf, StreamInput, compile};

use super::run;

#[tokio::test]
async fn results_without_bound_are_refused_by_name() {
    let conf = SqlConf::default();
    for (call, condition) in [
        ("repeat('ab', 2000000000 + v)", "WEIR_RESULT_TOO_LARGE"),
        ("space(2000000000 + v)", "WEIR_RESULT_TOO_LARGE"),
        ("lpad('a', 2000000000 + v, 'xy')", "WEIR_RESULT_TOO_LARGE"),
        ("rpad('a', 2000000000 + v)", "WEIR_RESULT_TOO_LARGE"),
        ("array_repeat(v, 2147483640 + v)", "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER"),
        ("array_repeat(v, 2000000000 + v)", "WEIR_RESULT_TOO_LARGE"),
        ("sequence(v, 3000000000)", "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER"),
        ("sequence(v, 2000000000)", "WEIR_RESULT_TOO_LARGE"),
        ("array_insert(array(1), 2147483640 + v, 2)", "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION"),
        ("array_insert(array(1), -2000000000 + v, 2)", "WEIR_RESULT_TOO_LARGE"),
        ("format_string('%2000000000d', v)", "INVALID_PARAMETER_VALUE.PATTERN"),
    ] {
        let error = run(&conf, &format!("SELECT {call} AS x FROM t")).await.unwrap_err();
        assert_eq!(error.condition(), condition, "{call}: {error}");
        let name = call.split('(').next().unwrap();
        assert!(error.to_string().contains(name) || condition.ends_with("PATTERN"), "{error}");
    }
    let rows = run(&conf, "SELECT lpad('é', 3, 'x') AS l, rpad('ab', 4, '') AS r, repeat('a', 2) AS p").await.unwrap();
    assert_eq!(rows, [r#"{"l":"xxé","r":"ab","p":"aa"}"#]);
}

#[tokio::test]
async fn what_a_constant_becomes_beside_many_rows_is_judged_first() {
    let conf = SqlConf::default();
    let many = "FROM range(10000)";
    let large = "repeat('x', 1000000)";
    for (sql, function) in [
        (format!("SELECT {large} AS x {many}"), "repeat"),
        (format!("SELECT concat({large}, id) AS x {many}"), "repeat"),
        (format!("SELECT CASE WHEN id > 0 THEN {large} END AS x {many}"), "repeat"),
        ("SELECT replace(repeat('a', 100000), 'a', repeat('b', 100000)) AS x".to_owned(), "replace"),
        ("SELECT regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000)) AS x".to_owned(), "regexp_replace"),
        ("SELECT array_join(array_repeat('a', 100000), repeat('b', 100000)) AS x".to_owned(), "array_join"),
        ("SELECT concat_ws(repeat('b', 100000), array_repeat('a', 100000)) AS x".to_owned(), "concat_ws"),
        ("SELECT array_repeat(array_repeat('a', 100000), 100000) AS x".to_owned(), "array_repeat"),
        ("SELECT transform(sequence(1, 100000), i -> repeat('a', 100000)) AS x".to_owned(), "repeat"),
        ("SELECT transform(sequence(1, 100000), i -> repeat(concat('a', i), 300000000)) AS x".to_owned(), "repeat"),
        ("SELECT transform(sequence(1, 100000), i -> sequence(1, 100000)) AS x".to_owned(), "sequence"),
        (format!("SELECT transform(sequence(1, 100000), i -> concat(s, i)) AS x FROM (SELECT repeat(k, 100000) AS s FROM t)"), "lambda"),
    ] {
        let error = run(&conf, &sql).await.unwrap_err();
        assert_eq!(error.condition(), "WEIR_RESULT_TOO_LARGE", "{sql}: {error}");
        assert!(error.to_string().contains(function), "{sql}: {error}");
    }
    // One row may have it, and it may be large in between.
    let rows = run(&conf, &format!("SELECT length({large}) AS n, length(replace({large}, 'x', 'yz')) AS m")).await.unwrap();
    assert_eq!(rows, [r#"{"n":1000000,"m":2000000}"#]);
    let rows = run(&conf, "SELECT length(repeat('x', 100000)) + v AS n FROM t WHERE v = 1").await.unwrap();
    assert_eq!(rows, [r#"{"n":100001}"#]);
    let mixed = "SELECT array_sort(array(3, 1, 2), (l, r) -> 1) AS x FROM t";
    assert!(run(&conf, mixed).await.is_ok_and(|rows| rows.len() == 4));
}

/// Runs with the stack that the program's threads have.
fn with_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(64 << 20).spawn(test).unwrap().join().unwrap();
}

/// Views of which each reads the one before it by `step`, from a stream with the text column `a`.
fn chained(views: usize, step: &str, last: &str) -> weir_core::Result<CompiledQuery> {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
    let stream = StreamInput { name: "v0".into(), schema, has_watermark: false };
    let views = (1..=views).map(|n| (format!("v{n}"), step.replace('#', &format!("v{}", n - 1))));
    let text = QueryText { views: views.collect(), sql: last.to_owned(), ..QueryText::default() };
    compile(&SqlConf::default(), vec![stream], vec![], &text, OutputMode::Append)
}

#[test]
fn views_that_grow_without_bound_are_refused_by_name() {
    with_stack(views_that_grow);
}

fn views_that_grow() {
    for (step, condition) in [
        ("SELECT * FROM # UNION ALL SELECT * FROM #", "WEIR_QUERY_TOO_LARGE"),
        ("SELECT struct(a AS x, a AS y) AS a FROM #", "WEIR_SCHEMA_TOO_LARGE"),
        ("SELECT array(struct(a, a)) AS a FROM #", "WEIR_SCHEMA_TOO_LARGE"),
    ] {
        let error = chained(31, step, "SELECT * FROM v31").err().unwrap();
        assert_eq!(error.condition(), condition, "{step}: {error}");
        assert!(error.to_string().contains("view v1"), "{step}: {error}");
    }
    let aliases: Vec<String> = (1..60).map(|n| format!("struct(b{0} AS x, b{0} AS y) AS b{n}", n - 1)).collect();
    let error = chained(0, "", &format!("SELECT a AS b0, {} FROM v0", aliases.join(", "))).err().unwrap();
    assert_eq!(error.condition(), "WEIR_SCHEMA_TOO_LARGE", "{error}");
    let aliases: Vec<String> = (1..60).map(|n| format!("b{0} + b{0} AS b{n}", n - 1)).collect();
    let error = chained(0, "", &format!("SELECT count(*) AS b0, {} FROM v0", aliases.join(", "))).err().unwrap();
    assert_eq!(error.condition(), "WEIR_QUERY_TOO_LARGE", "{error}");
}

#[test]
fn conditions_stay_above_columns_that_grow_from_view_to_view() {
    with_stack(conditions_over_columns_that_grow);
}

fn conditions_over_columns_that_grow() {
    for last in [
        "SELECT * FROM v31 WHERE a = 'x'",
        "SELECT * FROM v30 WHERE a = 'x' UNION ALL SELECT 'b'",
        "SELECT v30.a FROM v30 JOIN (VALUES ('b')) AS w(b) ON v30.a LIKE w.b AND v30.a > 'x'",
    ] {
        let sql = last.replace(" UNION ALL SELECT 'b'", "");
        chained(31, "SELECT a || a AS a FROM #", &sql).unwrap().lane().unwrap();
    }
}

#[tokio::test]
async fn a_chain_of_what_grows_is_refused_before_it_fills_the_memory() {
    let conf = SqlConf::default();
    // 200 MB fit into a slice, and 300 do not.
    let from = "FROM (SELECT repeat(k, 100000000) AS s FROM t WHERE v = 1)";
    for (function, call) in [("concat", "concat(concat(s, s), s)"), ("hex", "hex(concat(s, s))")] {
        let error = run(&conf, &format!("SELECT {call} AS x {from}")).await.unwrap_err();
        assert_eq!(error.condition(), "WEIR_RESULT_TOO_LARGE", "{function}: {error}");
        assert!(error.to_string().contains(&format!("{function} would make")), "{error}");
    }
}
