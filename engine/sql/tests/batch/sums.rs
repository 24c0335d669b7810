//! Sums and means at the limits of their types, as Spark 4.2 gives them.

use weir_sql::SqlConf;

use super::run;

const LONGS: &str = "VALUES (9223372036854775807), (1) AS s(x)";
const DECIMALS: &str = "VALUES (CAST(99999999999999999999999999999999999999 AS DECIMAL(38,0))), (CAST(1 AS DECIMAL(38,0))) AS s(x)";
const LARGE: &str = "VALUES (CAST(99999999999999999999999999999999999 AS DECIMAL(38,0))), (CAST(2 AS DECIMAL(38,0))) AS s(x)";
const MONTHS: &str = "VALUES (INTERVAL '178956970' YEAR), (INTERVAL '2' YEAR) AS s(x)";

/// The rows, or the condition.
async fn said(conf: &SqlConf, sql: &str) -> String {
    run(conf, sql).await.map_or_else(|error| error.condition().to_owned(), |rows| rows.join(" "))
}

#[tokio::test]
async fn what_does_not_fit_is_an_error_or_null_and_does_not_wrap() {
    let (ansi, legacy) = (SqlConf::default(), SqlConf { ansi: false, ..SqlConf::default() });
    let interval = "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION";
    for (call, from, in_ansi, in_legacy) in [
        ("sum(x)", LONGS, "ARITHMETIC_OVERFLOW", r#"{"r":-9223372036854775808}"#),
        ("sum(DISTINCT x)", LONGS, "ARITHMETIC_OVERFLOW", r#"{"r":-9223372036854775808}"#),
        ("try_sum(x)", LONGS, "{}", "{}"),
        ("sum(x)", DECIMALS, "ARITHMETIC_OVERFLOW", "{}"),
        ("try_sum(x)", DECIMALS, "{}", "{}"),
        ("avg(x)", DECIMALS, "ARITHMETIC_OVERFLOW", "{}"),
        ("try_avg(x)", DECIMALS, "{}", "{}"),
        ("avg(x)", LARGE, "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "{}"),
        ("sum(x)", MONTHS, interval, interval),
        ("try_sum(x)", MONTHS, "{}", "{}"),
        ("sum(x) OVER ()", LONGS, "ARITHMETIC_OVERFLOW", r#"{"r":-9223372036854775808} {"r":-9223372036854775808}"#),
    ] {
        let sql = format!("SELECT {call} AS r FROM {from}");
        assert_eq!(said(&ansi, &sql).await, in_ansi, "{sql}");
        assert_eq!(said(&legacy, &sql).await, in_legacy, "legacy: {sql}");
    }
}

#[tokio::test]
async fn sums_of_intervals_and_of_frames_are_sparks() {
    let conf = SqlConf::default();
    for (sql, rows) in [
        (
            "SELECT sum(x) AS s, typeof(sum(x)) AS t, avg(x) AS a, typeof(avg(x)) AS u FROM VALUES (INTERVAL '1' DAY), (INTERVAL '2' DAY) AS s(x)",
            r#"{"s":"INTERVAL '3' DAY","t":"interval day","a":"INTERVAL '1 12:00:00' DAY TO SECOND","u":"interval day to second"}"#,
        ),
        (
            "SELECT avg(x) AS a, sum(x) AS s FROM VALUES (INTERVAL '1' MONTH), (INTERVAL '2' MONTH) AS s(x)",
            r#"{"a":"INTERVAL '0-2' YEAR TO MONTH","s":"INTERVAL '3' MONTH"}"#,
        ),
        (
            "SELECT sum(x) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM VALUES (1, 1e20D), (2, 1D), (3, 2D), (4, NULL), (5, NULL) AS s(i, x)",
            r#"{"s":1.0E20} {"s":1.0E20} {"s":3.0} {"s":2.0} {}"#,
        ),
        (
            "SELECT avg(DISTINCT x) AS a, sum(DISTINCT x) AS s, count(DISTINCT x) AS c FROM VALUES (1.5D), (1.5D), (2.5D) AS s(x)",
            r#"{"a":2.0,"s":4.0,"c":2}"#,
        ),
        (
            "SELECT k, sum(v) AS s, avg(v) AS a FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k",
            r#"{"k":"a","s":4,"a":2.0} {"k":"b","s":2,"a":2.0}"#,
        ),
    ] {
        assert_eq!(said(&conf, sql).await, rows, "{sql}");
    }
}
