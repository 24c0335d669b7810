//! Forms of Spark SQL that sqlparser or DataFusion do not have, or have otherwise: stars among arguments, aliases that
//! later items use, windows, subqueries, generators in FROM, literals. What is expected was asked of Spark 4.2.

use weir_sql::SqlConf;

use super::run;

async fn give(list: &[(&str, &[&str])]) {
    let conf = SqlConf::default();
    for (sql, rows) in list {
        let ours = run(&conf, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(&ours, rows, "{sql}");
    }
}

async fn refuse(list: &[(&str, &str)]) {
    let conf = SqlConf::default();
    for (sql, condition) in list {
        let error = run(&conf, sql).await.err().unwrap_or_else(|| panic!("{sql} succeeded"));
        assert_eq!(error.condition(), *condition, "{sql}: {error}");
    }
}

#[tokio::test]
async fn stars_among_arguments_stand_for_columns() {
    give(&[
        (
            "SELECT to_json(struct(*)) AS value FROM u ORDER BY v",
            &[r#"{"value":"{\"k\":\"a\",\"v\":10}"}"#, r#"{"value":"{\"k\":\"c\",\"v\":30}"}"#],
        ),
        ("SELECT to_json(struct(*)) FROM u WHERE v = 10", &[r#"{"to_json(struct(k, v))":"{\"k\":\"a\",\"v\":10}"}"#]),
        ("SELECT struct(t.*, u.v AS w) AS s FROM t JOIN u ON t.k = u.k WHERE t.v = 1", &[r#"{"s":{"k":"a","v":1,"w":10}}"#]),
        (
            "SELECT struct(* EXCEPT (k)) AS a, struct(u.* EXCEPT (v), 1) AS b FROM u WHERE v = 30",
            &[r#"{"a":{"v":30},"b":{"k":"c","col2":1}}"#],
        ),
        ("SELECT struct(d.*) AS s, array(d.*) AS a FROM (SELECT struct(1 AS x, 2 AS y) AS d)", &[r#"{"s":{"x":1,"y":2},"a":[1,2]}"#]),
        (
            "SELECT concat_ws('-', *) AS c, coalesce(*) AS d, 10 IN (v, *) AS e FROM (SELECT v FROM u) ORDER BY v LIMIT 1",
            &[r#"{"c":"10","d":10,"e":true}"#],
        ),
        ("SELECT count(*) AS a, count(DISTINCT *) AS b, count(*, v) AS c FROM t", &[r#"{"a":4,"b":3,"c":3}"#]),
        ("SELECT v FROM (SELECT v FROM t) WHERE coalesce(*) = 2", &[r#"{"v":2}"#]),
        (
            "SELECT struct(m['x'], a[0].y, d.z) AS s FROM (SELECT map('x', 1) AS m, array(struct(2 AS y)) AS a, struct(3 AS z) AS d)",
            &[r#"{"s":{"x":1,"y":2,"z":3}}"#],
        ),
    ])
    .await;
    refuse(&[
        ("SELECT count(t.*) FROM t", "INVALID_USAGE_OF_STAR_WITH_TABLE_IDENTIFIER_IN_COUNT"),
        ("SELECT struct(*)", "INVALID_USAGE_OF_STAR_OR_REGEX"),
        ("SELECT (*) + 1 FROM t", "INVALID_USAGE_OF_STAR_OR_REGEX"),
        ("SELECT struct(x.*) FROM t", "CANNOT_RESOLVE_STAR_EXPAND"),
        ("SELECT struct(* EXCEPT (x)) FROM t", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("SELECT transform(array(1), x -> struct(*)) FROM t", "INVALID_USAGE_OF_STAR_OR_REGEX"),
    ])
    .await;
}

#[tokio::test]
async fn later_items_use_the_aliases_of_earlier_ones() {
    give(&[
        ("SELECT v + 1 AS a, a * 2 AS b, b - a AS c FROM t WHERE v = 2", &[r#"{"a":3,"b":6,"c":3}"#]),
        (
            "SELECT from_json('{\"x\":[1,2]}', 'x ARRAY<INT>') AS d, d.x[1] AS y, transform(d.x, e -> e + y) AS z",
            &[r#"{"d":{"x":[1,2]},"y":2,"z":[3,4]}"#],
        ),
        ("SELECT k AS kk, sum(v) AS s, s + 1 AS s1 FROM t GROUP BY k ORDER BY s1 LIMIT 1", &[r#"{"s":0,"s1":1}"#]),
        ("SELECT explode(array(v)) AS e, e + 1 AS f FROM t WHERE v = 3", &[r#"{"e":3,"f":4}"#]),
        // A column of the input comes first.
        ("SELECT v + 1 AS v, v AS w FROM t WHERE v = 3", &[r#"{"v":4,"w":3}"#]),
    ])
    .await;
    // Computed once: two looks at it are the same.
    give(&[("SELECT a = b AS r FROM (SELECT uuid() AS a, a AS b FROM t WHERE v = 3)", &[r#"{"r":true}"#])]).await;
    refuse(&[
        ("SELECT v AS x, v + 1 AS x, x FROM t", "AMBIGUOUS_LATERAL_COLUMN_ALIAS"),
        ("SELECT v AS x FROM t WHERE x > 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ])
    .await;
}

#[tokio::test]
async fn windows_are_computed_over_tables() {
    give(&[
        (
            "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n, lag(v) OVER (ORDER BY v) AS l, lead(v, 1, -1) OVER (ORDER BY v) AS e, \
             sum(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t ORDER BY v",
            &[
                r#"{"v":0,"n":1,"e":1,"s":0}"#,
                r#"{"v":1,"n":2,"l":0,"e":2,"s":1}"#,
                r#"{"v":2,"n":1,"l":1,"e":3,"s":3}"#,
                r#"{"v":3,"n":1,"l":2,"e":-1,"s":5}"#,
            ],
        ),
        ("SELECT k, v FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) = 1 ORDER BY v DESC", &[r#"{"k":"a","v":3}"#, r#"{"k":"b","v":2}"#, r#"{"v":0}"#]),
        ("SELECT v, rank() OVER w AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY v) QUALIFY r = 2", &[r#"{"v":3,"r":2}"#]),
        ("SELECT k, rank() OVER (ORDER BY sum(v) DESC) AS r FROM t GROUP BY k ORDER BY r LIMIT 1", &[r#"{"k":"a","r":1}"#]),
        (
            "SELECT ts, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 2 HOURS PRECEDING AND CURRENT ROW) AS n \
             FROM VALUES (TIMESTAMP'2024-05-01 10:00:00'), (TIMESTAMP'2024-05-01 11:00:00'), (TIMESTAMP'2024-05-01 13:30:00') AS r(ts) ORDER BY n DESC LIMIT 1",
            &[r#"{"ts":"2024-05-01T11:00:00.000Z","n":2}"#],
        ),
    ])
    .await;
    refuse(&[
        ("SELECT row_number() FROM t", "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE"),
        ("SELECT row_number() OVER (PARTITION BY k) FROM t", "WINDOW_FUNCTION_FRAME_NOT_ORDERED"),
        ("SELECT v FROM t WHERE row_number() OVER (ORDER BY v) = 1", "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE"),
        ("SELECT upper(k) OVER (ORDER BY v) FROM t", "UNSUPPORTED_EXPR_FOR_WINDOW"),
        ("SELECT count(DISTINCT v) OVER (PARTITION BY k) FROM t", "DISTINCT_WINDOW_FUNCTION_UNSUPPORTED"),
        ("SELECT sum(v) OVER w FROM t", "MISSING_WINDOW_SPECIFICATION"),
        ("SELECT sum(v) OVER w FROM t WINDOW w AS (w ORDER BY v)", "MISSING_WINDOW_SPECIFICATION"),
        ("SELECT k FROM t QUALIFY v > 1", "QUALIFY_REQUIRES_WINDOW_FUNCTION"),
    ])
    .await;
}

#[tokio::test]
async fn subqueries_are_values_and_conditions() {
    give(&[
        ("SELECT v FROM t WHERE v > (SELECT avg(v) FROM t) ORDER BY v", &[r#"{"v":2}"#, r#"{"v":3}"#]),
        ("SELECT (SELECT max(v) FROM u) AS m, (SELECT v FROM u WHERE v > 99) AS n", &[r#"{"m":30}"#]),
        ("SELECT v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k) ORDER BY v", &[r#"{"v":1}"#, r#"{"v":3}"#]),
        ("SELECT v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k) ORDER BY v", &[r#"{"v":0}"#, r#"{"v":2}"#]),
        ("SELECT v, (SELECT max(v) FROM u WHERE u.k = t.k) AS m FROM t ORDER BY v LIMIT 2", &[r#"{"v":0}"#, r#"{"v":1,"m":10}"#]),
        ("SELECT k FROM t WHERE NOT exists(array(v), x -> x > 0)", &["{}"]),
    ])
    .await;
    refuse(&[
        ("SELECT (SELECT v FROM u) AS m", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
        ("SELECT (SELECT * FROM u) AS m", "INVALID_SUBQUERY_EXPRESSION.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN"),
        ("WITH x AS (SELECT k FROM u WHERE u.k = t.k) SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM x)", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ])
    .await;
}

#[tokio::test]
async fn from_takes_generators_names_and_samples() {
    give(&[
        ("SELECT * FROM explode(array(10, 20)) AS x(c)", &[r#"{"c":10}"#, r#"{"c":20}"#]),
        ("SELECT v, c FROM t, LATERAL explode(array(v, -v)) AS x(c) WHERE v = 2", &[r#"{"v":2,"c":2}"#, r#"{"v":2,"c":-2}"#]),
        (
            "SELECT v, x.c FROM t LEFT JOIN LATERAL explode(if(v = 2, array(v), array())) AS x(c) ON true WHERE v > 1 ORDER BY v",
            &[r#"{"v":2,"c":2}"#, r#"{"v":3}"#],
        ),
        (
            "SELECT * FROM (SELECT 1 AS id, 10 AS a, CAST(NULL AS INT) AS b) UNPIVOT INCLUDE NULLS (val FOR name IN (a, b AS bb))",
            &[r#"{"id":1,"name":"a","val":10}"#, r#"{"id":1,"name":"bb"}"#],
        ),
        ("SELECT v, i.* FROM t LATERAL VIEW inline(array(struct(v AS x))) i ORDER BY v DESC LIMIT 1", &[r#"{"v":3,"x":3}"#]),
        ("SELECT IDENTIFIER('k') AS x FROM IDENTIFIER('u') ORDER BY ALL", &[r#"{"x":"a"}"#, r#"{"x":"c"}"#]),
        ("SELECT count(*) AS n FROM t TABLESAMPLE (100 PERCENT) AS s", &[r#"{"n":4}"#]),
        ("SELECT count(*) AS n FROM t TABLESAMPLE (2 ROWS)", &[r#"{"n":2}"#]),
        ("SELECT upper(k) AS k, v FROM t ORDER BY ALL DESC LIMIT 2", &[r#"{"k":"B","v":2}"#, r#"{"k":"A","v":3}"#]),
    ])
    .await;
}

#[tokio::test]
async fn ranks_are_elements_and_lists_are_joined() {
    give(&[
        (
            "SELECT percentile_approx(v, 0.5) AS a, approx_percentile(v, array(0.25, 0.75, 1.0), 100) AS b, percentile(v, 0.5) AS c FROM t",
            &[r#"{"a":1,"b":[0,2,3],"c":1.5}"#],
        ),
        ("SELECT percentile_approx(d, 0.9) AS d FROM VALUES (DATE'2024-05-01'), (DATE'2024-05-02') AS r(d)", &[r#"{"d":"2024-05-02"}"#]),
        ("SELECT percentile_approx(v, 0.5) AS a, percentile(v, array(0.5)) AS b FROM t WHERE v > 9", &["{}"]),
        (
            "SELECT listagg(k, ',') WITHIN GROUP (ORDER BY k DESC) AS a, string_agg(v, '') FILTER (WHERE v > 9) AS b FROM t",
            &[r#"{"a":"b,a,a"}"#],
        ),
    ])
    .await;
    refuse(&[
        ("SELECT percentile_approx(v, 1.5) FROM t", "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE"),
        ("SELECT percentile_approx(v, v) FROM t", "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT"),
        ("SELECT percentile_approx(v, NULL) FROM t", "DATATYPE_MISMATCH.UNEXPECTED_NULL"),
        ("SELECT percentile_approx(v, 0.5, 0) FROM t", "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE"),
    ])
    .await;
}

/// Spark looks at the left side first, and at the divisor first; beside a NULL it does not look at the other one.
#[tokio::test]
async fn beside_null_the_other_side_is_not_looked_at() {
    let rows = "FROM VALUES (CAST(NULL AS INT), 5), (CAST(NULL AS INT), 0) AS n(a, b)";
    for (sql, result) in [
        ("a = raise_error('x')", "{}"),
        ("a + CAST(concat('z', b) AS INT)", "{}"),
        ("a < 1 div 0 * b", "{}"),
        ("CAST(concat('z', b) AS INT) / a", "{}"),
        ("raise_error('x') % a", "{}"),
        ("a BETWEEN 1 AND 5 / (b - b)", "{}"),
        ("NULL + CAST('a' AS INT)", "{}"),
        ("CAST('a' AS INT) = NULL", "{}"),
        ("NULL / (1 / 0)", "{}"),
    ] {
        let sql = format!("SELECT {sql} AS r {rows} WHERE b = 5");
        assert_eq!(run(&SqlConf::default(), &sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")), [result], "{sql}");
    }
    for (sql, condition) in [
        ("CAST(concat('z', b) AS INT) + a", "CAST_INVALID_INPUT"),
        ("a / CAST(concat('z', b) AS INT)", "CAST_INVALID_INPUT"),
        ("b > raise_error('x')", "USER_RAISED_EXCEPTION"),
    ] {
        refuse(&[(&format!("SELECT {sql} AS r {rows}"), condition)]).await;
    }
}

#[tokio::test]
async fn literals_are_sparks() {
    give(&[
        ("SELECT r'\\d+\\n' AS a, R\"c:\\t\" AS b, 'x\\ty' 'z' AS c", &[r#"{"a":"\\d+\\n","b":"c:\\t","c":"x\tyz"}"#]),
        ("SELECT typeof(INTERVAL 1 DAY 2 HOURS) AS a, CAST(INTERVAL 1 DAY 2 HOURS AS STRING) AS b, TIMESTAMP'2024-05-01 10:00:00' - INTERVAL 2 HOURS 30 MINUTES AS c", &[
            r#"{"a":"interval day to hour","b":"INTERVAL '1 02' DAY TO HOUR","c":"2024-05-01T07:30:00.000Z"}"#,
        ]),
        ("SELECT 1E-400 AS a, overlay('abc' PLACING 'x' FROM 0) AS b, overlay('abcdef' PLACING 'x' FROM -2 FOR 1) AS c", &[r#"{"a":0.0,"b":"xabc","c":"xf"}"#]),
        ("SELECT 'a' COLLATE UTF8_BINARY = 'A' AS r", &[r#"{"r":false}"#]),
    ])
    .await;
    refuse(&[
        ("SELECT INTERVAL '999999999999' YEAR", "INVALID_INTERVAL_FORMAT.ARITHMETIC_EXCEPTION"),
        ("SELECT INTERVAL '999999999999' DAY", "INVALID_INTERVAL_FORMAT.ARITHMETIC_EXCEPTION"),
        ("SELECT 1E400", "INVALID_NUMERIC_LITERAL_RANGE"),
        ("SELECT 1E400D", "INVALID_NUMERIC_LITERAL_RANGE"),
        ("SELECT 1E39F", "INVALID_NUMERIC_LITERAL_RANGE"),
        ("SELECT 'a' COLLATE UTF8_LCASE", "WEIR_UNSUPPORTED_COLLATION"),
        ("SELECT from_json('{}', 'a STRING COLLATE UTF8_LCASE')", "WEIR_UNSUPPORTED_COLLATION"),
        ("SELECT parse_json('1')", "UNSUPPORTED_DATATYPE"),
        ("SELECT k:x FROM t", "UNSUPPORTED_DATATYPE"),
    ])
    .await;
}
