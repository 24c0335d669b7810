//! Batch queries, as `weir sql` runs them.
#![allow(clippy::unwrap_used)]

#[path = "batch/forms.rs"]
mod forms;
#[path = "batch/limits.rs"]
mod limits;
#[path = "batch/sums.rs"]
mod sums;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use weir_sql::{SqlConf, rows_to_json, run_batch_sql};

fn table(rows: &[(Option<&str>, i32)]) -> Arc<dyn TableProvider> {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8View, true), Field::new("v", DataType::Int32, true)]));
    let keys =
        arrow::compute::cast(&(Arc::new(rows.iter().map(|(k, _)| *k).collect::<StringArray>()) as ArrayRef), &DataType::Utf8View).unwrap();
    let columns: Vec<ArrayRef> = vec![keys, Arc::new(rows.iter().map(|(_, v)| Some(*v)).collect::<Int32Array>())];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap())
}

async fn run(conf: &SqlConf, sql: &str) -> Result<Vec<String>, weir_core::Error> {
    let tables = vec![
        ("t".to_owned(), table(&[(Some("a"), 1), (Some("b"), 2), (Some("a"), 3), (None, 0)])),
        ("u".to_owned(), table(&[(Some("a"), 10), (Some("c"), 30)])),
    ];
    let (_, batches) = run_batch_sql(conf, tables, sql).await?;
    Ok(batches.iter().flat_map(|batch| rows_to_json(batch, conf).unwrap()).collect())
}

#[tokio::test]
async fn maps_are_refused_where_an_order_is_needed() {
    let conf = SqlConf::default();
    let from = "FROM (SELECT map('a', v) AS m, array(map('a', v)) AS am, v FROM t)";
    for (select, condition) in [
        ("v {} ORDER BY m", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("v {} ORDER BY am", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("m {} ORDER BY 1", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("m = m {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("m IN (m) {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("nullif(m, m) {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("greatest(m, m) {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("array_max(am) {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("array_contains(am, m) {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("array_distinct(am) {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("max(m) {}", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("collect_set(m) {}", "DATATYPE_MISMATCH.UNSUPPORTED_INPUT_TYPE"),
        ("hash(m) {}", "DATATYPE_MISMATCH.HASH_MAP_TYPE"),
        ("map(m, 1) {}", "DATATYPE_MISMATCH.INVALID_MAP_KEY_TYPE"),
        ("DISTINCT m {}", "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE"),
        ("m {} UNION SELECT map('b', 1)", "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE"),
        ("m {} INTERSECT SELECT map('b', 1)", "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE"),
        ("m {} EXCEPT SELECT map('b', 1)", "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE"),
    ] {
        let sql = format!("SELECT {}", select.replace("{}", from));
        assert_eq!(run(&conf, &sql).await.unwrap_err().condition(), condition, "{sql}");
    }
    let rows = run(&conf, "SELECT map('a', 1) AS m UNION ALL SELECT map('b', 2)").await.unwrap();
    assert_eq!(rows, [r#"{"m":{"a":1}}"#, r#"{"m":{"b":2}}"#]);
}

#[tokio::test]
async fn a_union_of_many_parts_is_planned_in_one_go() {
    let conf = SqlConf::default();
    let many = vec!["SELECT k, v + 1 AS v FROM t WHERE v > 1"; 300].join(" UNION ALL ");
    let begun = std::time::Instant::now();
    let rows = run(&conf, &format!("SELECT count(*) AS n, sum(v) AS s FROM ({many})")).await.unwrap();
    assert_eq!(rows, [r#"{"n":600,"s":2100}"#]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    // Types widen from pair to pair, as Spark brings the sides together.
    let rows = run(&conf, "SELECT 1 AS x UNION ALL SELECT 2.5 UNION ALL SELECT CAST(3 AS DOUBLE)").await.unwrap();
    assert_eq!(rows, [r#"{"x":1.0}"#, r#"{"x":2.5}"#, r#"{"x":3.0}"#]);
    let error = run(&conf, "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3, 4").await.unwrap_err();
    assert_eq!(error.condition(), "NUM_COLUMNS_MISMATCH");
}

#[tokio::test]
async fn queries_give_sparks_rows() {
    let conf = SqlConf::default();
    for (sql, rows) in [
        (
            "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY k",
            vec![r#"{"n":1,"s":0}"#, r#"{"k":"a","n":2,"s":4}"#, r#"{"k":"b","n":1,"s":2}"#],
        ),
        ("SELECT upper(k) AS u, avg(v) AS m FROM t GROUP BY upper(k) HAVING count(*) > 1", vec![r#"{"u":"A","m":2.0}"#]),
        ("SELECT count(*) AS n, max(v) - min(v) AS d FROM t", vec![r#"{"n":4,"d":3}"#]),
        ("SELECT k FROM t ORDER BY v DESC LIMIT 2", vec![r#"{"k":"a"}"#, r#"{"k":"b"}"#]),
        (
            "SELECT k AS kk, v FROM t ORDER BY kk NULLS LAST, 2 DESC",
            vec![r#"{"kk":"a","v":3}"#, r#"{"kk":"a","v":1}"#, r#"{"kk":"b","v":2}"#, r#"{"v":0}"#],
        ),
        ("SELECT DISTINCT k FROM t WHERE k IS NOT NULL ORDER BY k", vec![r#"{"k":"a"}"#, r#"{"k":"b"}"#]),
        ("SELECT * FROM t JOIN u USING (k) ORDER BY t.v", vec![r#"{"k":"a","v":1,"v":10}"#, r#"{"k":"a","v":3,"v":10}"#]),
        ("SELECT v FROM t WHERE k IN (SELECT k FROM u) AND v > 1", vec![r#"{"v":3}"#]),
        ("SELECT v FROM t WHERE k NOT IN (SELECT k FROM u) AND v >= 0", vec![r#"{"v":2}"#]),
        ("SELECT t.k, u.v FROM t LEFT JOIN u ON t.k = u.k WHERE t.v = 2", vec![r#"{"k":"b"}"#]),
        ("SELECT k FROM t LEFT ANTI JOIN u ON t.k = u.k ORDER BY k", vec![r#"{}"#, r#"{"k":"b"}"#]),
        (
            "WITH x AS (SELECT k, v * 2 AS w FROM t) SELECT a.k, b.w FROM x a JOIN x b ON a.k = b.k AND a.w < b.w",
            vec![r#"{"k":"a","w":6}"#],
        ),
        ("SELECT k, x FROM t LATERAL VIEW explode(array(v, -v)) e AS x WHERE k = 'b'", vec![r#"{"k":"b","x":2}"#, r#"{"k":"b","x":-2}"#]),
        ("SELECT i, c FROM (SELECT posexplode(split('x,y', ',')) AS (i, c))", vec![r#"{"i":0,"c":"x"}"#, r#"{"i":1,"c":"y"}"#]),
        ("SELECT stack(2, 1, 'a', 2, 'b') AS (n, s)", vec![r#"{"n":1,"s":"a"}"#, r#"{"n":2,"s":"b"}"#]),
        ("SELECT * EXCEPT (v) FROM u ORDER BY k", vec![r#"{"k":"a"}"#, r#"{"k":"c"}"#]),
        ("SELECT x + y AS z FROM VALUES (1, 2.5), (3, 4) AS p(x, y)", vec![r#"{"z":3.5}"#, r#"{"z":7.0}"#]),
        ("SELECT k FROM u UNION SELECT k FROM t WHERE v = 1 ORDER BY k", vec![r#"{"k":"a"}"#, r#"{"k":"c"}"#]),
        ("SELECT sum(id) AS s FROM range(5)", vec![r#"{"s":10}"#]),
        (
            "SELECT d.* FROM (SELECT from_json('{\"a\":1,\"b\":{\"c\":\"x\"}}', 'a INT, b STRUCT<c: STRING>') AS d)",
            vec![r#"{"a":1,"b":{"c":"x"}}"#],
        ),
        (
            "SELECT d.b.c AS x, d.b['c'] AS y FROM (SELECT from_json('{\"b\":{\"c\":\"x\"}}', 'b STRUCT<c: STRING>') AS d)",
            vec![r#"{"x":"x","y":"x"}"#],
        ),
        ("SELECT transform(array(1, 2), x -> x + v) AS a FROM t WHERE v = 3", vec![r#"{"a":[4,5]}"#]),
        ("SELECT transform(array(array(1), array(2)), a -> transform(a, x -> x * v)) AS a FROM t WHERE v = 3", vec![r#"{"a":[[3],[6]]}"#]),
        ("SELECT collect_list(v) AS a, collect_set(k) AS s FROM t WHERE k = 'a'", vec![r#"{"a":[1,3],"s":["a"]}"#]),
        (
            "SELECT CASE WHEN v > 1 THEN 'big' ELSE 'small' END AS c, count(*) AS n FROM t GROUP BY 1 ORDER BY 1",
            vec![r#"{"c":"big","n":2}"#, r#"{"c":"small","n":2}"#],
        ),
        ("SELECT k FROM (SELECT k, v FROM t WHERE v <> 0) WHERE 6 / v > 4", vec![r#"{"k":"a"}"#]),
        ("SELECT k FROM t WHERE v <> 0 AND 6 / v > 4", vec![r#"{"k":"a"}"#]),
        ("SELECT if(v = 0, false, 6 / v > 4) AS b FROM t WHERE k IS NULL", vec![r#"{"b":false}"#]),
        ("SELECT try_divide(1, 0) AS a, nvl(NULL, 2) AS b, 1 BETWEEN 0 AND 2 AS c", vec![r#"{"b":2,"c":true}"#]),
    ] {
        let ours = run(&conf, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(ours, rows, "{sql}");
    }
}

#[tokio::test]
async fn the_session_zone_is_respected() {
    let conf = SqlConf { time_zone: "Europe/Berlin".into(), ..SqlConf::default() };
    let sql = "SELECT CAST('2024-06-01 12:00:00' AS TIMESTAMP) AS t, hour(TIMESTAMP'2024-06-01 10:00:00Z') AS h, \
               CAST(TIMESTAMP'2024-06-01 10:00:00Z' AS STRING) AS s, date_format(TIMESTAMP'2024-06-01 10:00:00Z', 'HH:mm') AS f";
    let rows = run(&conf, sql).await.unwrap();
    assert_eq!(rows, [r#"{"t":"2024-06-01T12:00:00.000+02:00","h":12,"s":"2024-06-01 12:00:00","f":"12:00"}"#]);
}

#[tokio::test]
async fn errors_have_sparks_conditions() {
    let conf = SqlConf::default();
    for (sql, condition) in [
        ("SELECT k, v FROM t GROUP BY k", "MISSING_AGGREGATION"),
        ("SELECT k FROM t WHERE count(*) > 1", "INVALID_WHERE_CONDITION"),
        ("SELECT explode(array(1)), explode(array(2))", "UNSUPPORTED_GENERATOR.MULTI_GENERATOR"),
        ("SELECT 1 + explode(array(1))", "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS"),
        ("SELECT k.x FROM t", "INVALID_EXTRACT_BASE_FIELD_TYPE"),
        ("SELECT substring()", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"),
        ("SELECT v FROM t UNION ALL SELECT k, v FROM u", "NUM_COLUMNS_MISMATCH"),
        ("DELETE FROM t", "WEIR_UNSUPPORTED_STATEMENT"),
        ("SELECT raise_error('no')", "USER_RAISED_EXCEPTION"),
        ("SELECT CASE WHEN v IS NOT NULL THEN raise_error('no') ELSE v END FROM t", "USER_RAISED_EXCEPTION"),
        ("SELECT CAST(raise_error('no') AS STRING) FROM t", "USER_RAISED_EXCEPTION"),
        ("SELECT coalesce(raise_error('no'), 'q') FROM t", "USER_RAISED_EXCEPTION"),
        ("SELECT CAST(assert_true(v IS NULL) AS STRING) FROM t", "USER_RAISED_EXCEPTION"),
    ] {
        let error = run(&conf, sql).await.err().unwrap_or_else(|| panic!("{sql} succeeded"));
        assert_eq!(error.condition(), condition, "{sql}: {error}");
    }
}

#[tokio::test]
async fn an_assertion_fails_only_for_rows_that_reach_it() {
    let sql = "SELECT CASE WHEN v IS NULL AND k IS NULL THEN raise_error('no') ELSE 1 END AS one FROM t";
    run(&SqlConf::default(), sql).await.unwrap();
}

/// What Spark 4.2 gives: it looks from left to right, AND, OR and IN stop where the rest does not matter, and only
/// NULL and a decided AND or OR as they are written make it look no further.
#[tokio::test]
async fn what_may_fail_is_looked_at_where_spark_looks() {
    const X: &str = "raise_error('x')";
    let conf = SqlConf::default();
    for sql in [
        "X <=> NULL",
        "NULL <=> X",
        "equal_null(X, NULL)",
        "X = X",
        "1 IN (2, X)",
        "1 IN (X, 1)",
        "X IN (1, NULL)",
        "X IN (1)",
        "X NOT IN (2, 3)",
        "X IN (X)",
        "assert_true(false) AND true",
        "assert_true(false) OR false",
        "true AND assert_true(false)",
        "false OR assert_true(false)",
        "NOT X",
        "X IS NULL",
        "X IS NOT NULL",
        "X BETWEEN 1 AND 2",
        "least(X, NULL)",
        "greatest(NULL, X)",
        "nullif(X, 1)",
        "nullif(X, NULL)",
        "if(v > 0, X, NULL)",
        "CASE WHEN v > 0 THEN X END",
    ] {
        let sql = format!("SELECT {} AS r FROM t", sql.replace('X', X));
        let failed = run(&conf, &sql).await.err().unwrap_or_else(|| panic!("{sql} succeeded"));
        assert_eq!(failed.condition(), "USER_RAISED_EXCEPTION", "{sql}: {failed}");
    }
    for (sql, result) in [
        ("X = NULL", "{}"),
        ("NULL < X", "{}"),
        ("NULL IN (X)", "{}"),
        ("X IN (NULL, NULL)", "{}"),
        ("CASE X WHEN NULL THEN 1 ELSE 2 END", r#"{"r":2}"#),
        ("nullif(NULL, X)", "{}"),
        ("1 IN (1, X)", r#"{"r":true}"#),
        ("false AND assert_true(false)", r#"{"r":false}"#),
        ("true OR assert_true(false)", r#"{"r":true}"#),
        ("coalesce(1, X)", r#"{"r":1}"#),
    ] {
        let sql = format!("SELECT {} AS r FROM u WHERE v = 10", sql.replace('X', X));
        assert_eq!(run(&conf, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")), [result], "{sql}");
    }
    // Row by row: beside a NULL the list is not looked at.
    let rows = "VALUES (1), (CAST(NULL AS INT)) AS r(a)";
    let found = run(&conf, &format!("SELECT a IN (1, {X}) AS r FROM {rows}")).await.unwrap();
    assert_eq!(found, [r#"{"r":true}"#, "{}"]);
    assert!(run(&conf, &format!("SELECT a IN (2, {X}) AS r FROM {rows}")).await.is_err());
    let found = run(&conf, "SELECT a IN (b, 6 / b) AS r FROM VALUES (0.0, 0), (3.0, 2), (4.0, 2), (NULL, 0) AS r(a, b)").await.unwrap();
    assert_eq!(found, [r#"{"r":true}"#, r#"{"r":true}"#, r#"{"r":false}"#, "{}"]);
}

#[tokio::test]
async fn later_functions_are_sparks() {
    let conf = SqlConf::default();
    for (sql, result) in [
        (
            "hex(to_binary('6162')) AS a, hex(to_binary('YWI=', 'base64')) AS b, hex(to_binary('é', 'UTF-8')) AS c",
            r#"{"a":"6162","b":"6162","c":"C3A9"}"#,
        ),
        ("to_binary('61', NULL) AS a, try_to_binary('zz') AS b, try_to_binary('a!', 'BASE64') AS c", "{}"),
        ("is_valid_utf8(X'80') AS a, is_valid_utf8('é') AS b, is_valid_utf8(NULL) AS c", r#"{"a":false,"b":true}"#),
        (
            "make_valid_utf8(X'61C37A') AS a, make_valid_utf8(X'F09F98') AS b, try_validate_utf8(X'80') AS c",
            "{\"a\":\"a\u{fffd}z\",\"b\":\"\u{fffd}\"}",
        ),
        ("quote('Don\\'t') AS a, quote(NULL) AS b, input_file_name() AS f", r#"{"a":"'Don\\'t'","f":""}"#),
        (
            "max_by(x, y) AS a, min_by(x, y) AS b, max_by(y, x) AS c FROM VALUES ('a', 10), ('b', 50), ('c', 20), ('d', NULL) AS t(x, y)",
            r#"{"a":"b","b":"a"}"#,
        ),
        (
            "last(x) AS a, last(x, true) AS b, first(x) IGNORE NULLS AS c, any_value(x, false) IS NULL AS d FROM VALUES (NULL), (2), (3), (NULL) AS t(x)",
            r#"{"b":3,"c":2,"d":true}"#,
        ),
        (
            "approx_count_distinct(x) AS a, count(x, y) AS b, count(DISTINCT x, y) AS c, count(DISTINCT x) AS d \
             FROM VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, NULL), (NULL, 'a') AS t(x, y)",
            r#"{"a":2,"b":3,"c":2,"d":2}"#,
        ),
        ("max_by(x, y) AS a FROM VALUES ('a', CAST(NULL AS INT)) AS t(x, y)", "{}"),
        (
            "first(v) AS a, last(v) AS b, any_value(v) AS c, first_value(v + 1) AS d FROM u WHERE k = 'c'",
            r#"{"a":30,"b":30,"c":30,"d":31}"#,
        ),
        ("bit_and(x) AS a, bit_or(x) AS b, bit_xor(x) AS c FROM VALUES (3), (5), (NULL) AS t(x)", r#"{"a":1,"b":7,"c":6}"#),
    ] {
        let sql = format!("SELECT {sql}");
        assert_eq!(run(&conf, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")), [result], "{sql}");
    }
    for (sql, condition) in [
        ("to_binary('zz')", "CONVERSION_INVALID_INPUT"),
        ("to_binary('61', 'nope')", "DATATYPE_MISMATCH.INVALID_ARG_VALUE"),
        ("to_binary('61', k) FROM t", "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT"),
        ("validate_utf8(X'80')", "INVALID_UTF8_STRING"),
        ("bit_or(k) FROM t", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
        ("sum(v, v) FROM t", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"),
        ("max_by(v) FROM t", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"),
        ("first(v, v > 1) FROM t", "_LEGACY_ERROR_TEMP_1210"),
    ] {
        assert_eq!(run(&conf, &format!("SELECT {sql}")).await.unwrap_err().condition(), condition, "{sql}");
    }
}

#[tokio::test]
async fn the_file_of_a_row_is_what_its_source_says() {
    let fields = arrow::datatypes::Fields::from(vec![Field::new("file_path", DataType::Utf8, true)]);
    let paths: ArrayRef = Arc::new(StringArray::from(vec!["file:/in/a%20b.json"]));
    let files: ArrayRef = Arc::new(arrow::array::StructArray::new(fields.clone(), vec![paths], None));
    let hidden = [(weir_core::columns::HIDDEN_KEY.to_owned(), "true".to_owned())].into();
    let hidden = Field::new("_metadata", DataType::Struct(fields), true).with_metadata(hidden);
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int32, true), hidden]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int32Array::from(vec![1])), files]).unwrap();
    let table: Arc<dyn TableProvider> = Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap());
    let conf = SqlConf::default();
    let ask = async |sql: &str| {
        let tables = vec![("a".to_owned(), Arc::clone(&table)), ("b".to_owned(), Arc::clone(&table))];
        let (_, rows) = run_batch_sql(&conf, tables, sql).await?;
        Ok::<Vec<String>, weir_core::Error>(rows.iter().flat_map(|batch| rows_to_json(batch, &conf).unwrap()).collect())
    };
    let found = ask("SELECT v, input_file_name() FROM a WHERE input_file_name() LIKE '%.json'").await.unwrap();
    assert_eq!(found, [r#"{"v":1,"input_file_name()":"file:///in/a%20b.json"}"#]);
    for (sql, condition) in [
        ("SELECT input_file_name() FROM (SELECT v FROM a)", "WEIR_INPUT_FILE_NOT_KNOWN"),
        ("SELECT input_file_name() FROM a JOIN b ON a.v = b.v", "MULTI_SOURCES_UNSUPPORTED_FOR_EXPRESSION"),
    ] {
        assert_eq!(ask(sql).await.unwrap_err().condition(), condition, "{sql}");
    }
}

#[tokio::test]
async fn a_table_that_is_not_there_is_asked_for_as_the_command_takes_it() {
    let conf = SqlConf::default();
    let said = |error: weir_core::Error| error.message().to_owned();
    assert!(said(run(&conf, "SELECT 1 FROM tt").await.unwrap_err()).contains("did you mean `t`"));
    let other = said(run(&conf, "SELECT 1 FROM readings").await.unwrap_err());
    assert!(other.contains("known are `t`, `u`") && other.contains("--table readings=delta:/data/x"), "{other}");
    let none = run_batch_sql(&conf, vec![], "SELECT 1 FROM `a b`").await.err().map(said).unwrap();
    assert!(none.contains("--table t=delta:/data/x") && !none.contains("sources"), "{none}");
    let sql = "WITH x AS (SELECT * FROM delta.`/a b`) SELECT 1 FROM x JOIN json.`/c` ON true JOIN DELTA.`/a b` ON true JOIN s.t ON true";
    let is_format = |word: &str| ["delta", "json"].iter().any(|format| format.eq_ignore_ascii_case(word));
    let found = weir_sql::tables_by_path(sql, is_format).unwrap();
    let found: Vec<(&str, &str)> = found.iter().map(|(format, path)| (format.as_str(), path.as_str())).collect();
    assert_eq!(found, [("delta", "/a b"), ("json", "/c"), ("DELTA", "/a b")]);
    let text = weir_sql::QueryText {
        views: vec![("v".to_owned(), "SELECT * FROM ref.dim d JOIN x ON d.k = x.k".to_owned())],
        sql:
            "WITH c AS (SELECT 1 FROM main.ref.`dim`, Delta.`/a`) SELECT (SELECT max(k) FROM REF.dim) FROM c, v LATERAL VIEW explode(v.a) t"
                .to_owned(),
        ..weir_sql::QueryText::default()
    };
    assert_eq!(weir_sql::tables_by_name(&text, is_format).unwrap(), [vec!["ref", "dim"], vec!["main", "ref", "dim"]]);
    let rows = run_batch_sql(&conf, vec![("delta./x".to_owned(), table(&[(Some("a"), 1)]))], "SELECT `/x`.k FROM Delta.`/x`").await;
    assert_eq!(rows.unwrap().1[0].num_rows(), 1);
}

#[tokio::test]
async fn what_spark_told_of_odd_corners_is_so() {
    let conf = SqlConf::default();
    for (sql, rows) in [
        ("SELECT k FROM t EXCEPT ALL SELECT k FROM u", vec![r#"{"k":"a"}"#, r#"{"k":"b"}"#, "{}"]),
        ("SELECT k FROM t INTERSECT ALL (SELECT k FROM u UNION ALL SELECT NULL UNION ALL SELECT NULL)", vec![r#"{"k":"a"}"#, "{}"]),
        (
            "SELECT format_number(9007199254740993, 0) AS f, format_number(5, 40) AS g",
            vec![r#"{"f":"9,007,199,254,740,993","g":"5.0000000000000000000000000000000000000000"}"#],
        ),
        ("SELECT levenshtein('kitten', 'sitting', 2) AS l, levenshtein('kitten', 'sitting', 3) AS m", vec![r#"{"l":-1,"m":3}"#]),
        (
            "SELECT CAST(map('a', '1') AS MAP<STRING, INT>) AS m, CAST(array(map('a', 1)) AS ARRAY<MAP<STRING, STRING>>) AS n",
            vec![r#"{"m":{"a":1},"n":[{"a":"1"}]}"#],
        ),
        ("SELECT CAST(named_struct('a', map('b', 1)) AS STRUCT<x: MAP<STRING, STRUCT<y: INT>>>) IS NULL AS n", vec![]),
    ] {
        let found = run(&conf, sql).await;
        if rows.is_empty() {
            assert!(found.unwrap_err().condition().starts_with("DATATYPE_MISMATCH"), "{sql}");
            continue;
        }
        let mut found = found.unwrap();
        found.sort();
        assert_eq!(found, rows, "{sql}");
    }
    for call in ["rpad(unhex('AA'), 3)", "format_number(1.5, '#.#')"] {
        let refused = run(&conf, &format!("SELECT {call} AS r")).await.unwrap_err();
        assert_eq!(refused.condition(), "WEIR_UNSUPPORTED_SQL", "{call}");
    }
}

#[test]
fn function_names_are_plain() {
    let names = weir_sql::function_names();
    assert!(names.len() > 300, "{}", names.len());
    assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')));
    assert!(names.windows(2).all(|w| w[0] < w[1]));
}

#[test]
fn arrays_are_of_one_type() {
    let list = weir_sql::types::list_of(DataType::Int32);
    assert_eq!(weir_sql::spark_type_name(&list), "array<int>");
    let _: Option<&dyn Array> = None;
}

/// Extreme, null and empty arguments in every combination: an error or a value,
/// never a panic.
#[tokio::test]
async fn extreme_arguments_do_not_panic() {
    const EXTREMES: &[&str] = &[
        "NULL",
        "CAST(-2147483648 AS INT)",
        "2147483647",
        "CAST(-9223372036854775808 AS BIGINT)",
        "9223372036854775807L",
        "-0.0D",
        "DOUBLE('NaN')",
        "DOUBLE('-Infinity')",
        "99999999999999999999999999999999999999BD",
        "''",
        "'é😀'",
        "X''",
        "DATE'9999-12-31'",
        "TIMESTAMP'0001-01-01 00:00:00'",
        "INTERVAL '106751991' DAY",
        "array(NULL, 2147483647)",
        "map('', NULL)",
    ];
    let skip = ["repeat", "space", "array_repeat", "sequence", "lpad", "rpad", "randstr", "array_insert"];
    for ansi in [true, false] {
        let conf = SqlConf { ansi, ..SqlConf::default() };
        for name in weir_sql::function_names() {
            if skip.contains(&name.as_str()) {
                continue;
            }
            for (index, extreme) in EXTREMES.iter().enumerate() {
                let other = EXTREMES[(index + 3) % EXTREMES.len()];
                // One arity per value in ANSI mode, another one in legacy mode.
                let args = match (index + usize::from(!ansi)) % 3 {
                    0 => (*extreme).to_owned(),
                    1 => format!("{extreme}, {other}"),
                    _ => format!("{other}, {extreme}, {extreme}"),
                };
                let _ = run(&conf, &format!("SELECT {name}({args})")).await;
            }
        }
        for op in ["+", "-", "*", "/", "%", "div", "=", "<=>", "<", "||", "&"] {
            for left in EXTREMES.iter().skip(usize::from(ansi)).step_by(2) {
                for right in EXTREMES {
                    let _ = run(&conf, &format!("SELECT {left} {op} {right}")).await;
                }
            }
        }
    }
}

#[test]
fn long_chains_are_planned_in_little_time_and_longer_ones_are_refused() {
    // The stack that the threads of a task have.
    let body = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let conf = SqlConf::default();
            let sum = run(&conf, &format!("SELECT v{} AS s FROM t WHERE v = 2", " + v".repeat(300))).await.unwrap();
            assert_eq!(sum, [r#"{"s":602}"#]);
            let any = run(&conf, &format!("SELECT k FROM t WHERE v = 9{}", " OR v = 2".repeat(300))).await.unwrap();
            assert_eq!(any, [r#"{"k":"b"}"#]);
            let error = run(&conf, &format!("SELECT v{} AS s FROM t", " + v".repeat(3000))).await.unwrap_err();
            assert_eq!(error.condition(), "FAILED_TO_PARSE_TOO_COMPLEX");
        });
    });
    body.unwrap().join().unwrap();
}

#[tokio::test]
async fn arguments_out_of_range_are_values_or_errors() {
    let conf = SqlConf::default();
    let rounded =
        run(&conf, "SELECT round(1.5, 2147483647) AS a, round(1.5D, -2147483648) AS b, bround(15L, -2147483648) AS c").await.unwrap();
    assert_eq!(rounded, [r#"{"a":1.5,"b":0.0,"c":0}"#]);
    for (sql, condition) in [
        ("SELECT sort_array(array(1), X'FF')", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
        ("SELECT min(map('a', 1))", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("SELECT randstr(9223372036854775807)", "INVALID_PARAMETER_VALUE.LENGTH"),
        ("SELECT randstr(-1)", "INVALID_PARAMETER_VALUE.LENGTH"),
    ] {
        assert_eq!(run(&conf, sql).await.unwrap_err().condition(), condition, "{sql}");
    }
}
