//! Every expression of the golden file, in ANSI and in legacy mode, against
//! what Spark gave: types, rows, or the error's condition.
//!
//! Prints a table per group, holds the goals, and keeps
//! `docs/spark-differences-sql.md` (one line per expression that disagrees) up
//! to date: `UPDATE=1` writes it, otherwise it must match.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::DataType;
use serde_json::{Value, json};
use weir_sql::types::spark_field_type_name;
use weir_sql::{SqlConf, rows_to_json, run_batch_sql};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn golden() -> PathBuf {
    std::env::var_os("WEIR_GOLDEN").map_or_else(|| root().join("../shared/golden"), PathBuf::from)
}

/// One value as the golden file writes it.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Value::Null;
    }
    let any = array.as_any();
    macro_rules! number {
        ($kind:ty) => {
            json!(any.downcast_ref::<$kind>().unwrap().value(row))
        };
    }
    match array.data_type() {
        DataType::Boolean => number!(BooleanArray),
        DataType::Int8 => number!(Int8Array),
        DataType::Int16 => number!(Int16Array),
        DataType::Int32 => number!(Int32Array),
        DataType::Int64 => number!(Int64Array),
        DataType::Float32 => double(f64::from(any.downcast_ref::<Float32Array>().unwrap().value(row))),
        DataType::Float64 => double(any.downcast_ref::<Float64Array>().unwrap().value(row)),
        DataType::Utf8 => json!(any.downcast_ref::<StringArray>().unwrap().value(row)),
        DataType::Binary => {
            let bytes = any.downcast_ref::<BinaryArray>().unwrap().value(row);
            json!({"__hex__": bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()})
        }
        DataType::Decimal128(_, scale) => {
            let v = any.downcast_ref::<Decimal128Array>().unwrap().value(row);
            json!({"__decimal__": weir_sql::cast::format_decimal(v, *scale)})
        }
        DataType::Date32 => json!({"__date__": weir_sql::cast::format_date(any.downcast_ref::<Date32Array>().unwrap().value(row))}),
        DataType::Timestamp(..) => {
            let micros = any.downcast_ref::<TimestampMicrosecondArray>().unwrap().value(row);
            let mut text = weir_sql::cast::format_timestamp(micros).replace(' ', "T");
            if let Some((head, fraction)) = text.clone().split_once('.') {
                text = format!("{head}.{fraction:0<6}");
            }
            json!({"__ts__": text})
        }
        DataType::Duration(_) => json!({"__interval_us__": any.downcast_ref::<DurationMicrosecondArray>().unwrap().value(row)}),
        DataType::List(_) => {
            let items = any.downcast_ref::<ListArray>().unwrap().value(row);
            Value::Array((0..items.len()).map(|i| value(&items, i)).collect())
        }
        DataType::Map(..) => {
            let entries = any.downcast_ref::<MapArray>().unwrap().value(row);
            let pairs: Vec<Value> = (0..entries.len()).map(|i| json!([value(entries.column(0), i), value(entries.column(1), i)])).collect();
            json!({"__map__": pairs})
        }
        DataType::Struct(fields) => {
            let parts = any.downcast_ref::<StructArray>().unwrap();
            Value::Object(fields.iter().zip(parts.columns()).map(|(f, c)| (f.name().clone(), value(c, row))).collect())
        }
        other => json!(format!("unexpected {other}")),
    }
}

fn double(v: f64) -> Value {
    if v.is_nan() {
        json!({"__double__": "nan"})
    } else if v.is_infinite() {
        json!({"__double__": if v > 0.0 { "inf" } else { "-inf" }})
    } else {
        json!(v)
    }
}

fn same(ours: &Value, spark: &Value) -> bool {
    match (ours, spark) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            // Map entries have no order.
            if let (Some(Value::Array(x)), Some(Value::Array(y))) = (a.get("__map__"), b.get("__map__")) {
                return x.len() == y.len() && y.iter().all(|e| x.iter().any(|o| same(o, e)));
            }
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => ours == spark,
    }
}

/// Evaluates an expression as the golden file's maker did.
fn evaluate(runtime: &tokio::runtime::Runtime, expr: &str, ansi: bool) -> Value {
    let conf = SqlConf { ansi, ..SqlConf::default() };
    let sql = format!("SELECT {expr}");
    match runtime.block_on(run_batch_sql(&conf, vec![], &sql)) {
        Err(error) => json!({"error": error.condition(), "message": error.message()}),
        Ok((schema, batches)) => {
            let types: Vec<String> = schema.fields().iter().map(|f| spark_field_type_name(f)).collect();
            let rows: Vec<Value> = batches.iter().flat_map(rows).collect();
            let first = batches.iter().find(|b| b.num_rows() > 0);
            let json = first.map(|batch| rows_to_json(&batch.slice(0, 1), &conf).unwrap().concat());
            json!({"types": types, "rows": rows, "json": json})
        }
    }
}

fn rows(batch: &RecordBatch) -> Vec<Value> {
    (0..batch.num_rows()).map(|row| Value::Array(batch.columns().iter().map(|c| value(c, row)).collect())).collect()
}

/// Why an outcome disagrees, or `None` if it does not.
fn difference(ours: &Value, spark: &Value) -> Option<String> {
    let shown = |v: &Value| match v.get("error") {
        Some(error) => format!("error {}", error.as_str().unwrap_or_default()),
        None => {
            let types: Vec<_> = v["types"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            format!("{} {}", types.join(", "), v["rows"])
        }
    };
    let agree = match (ours.get("error"), spark.get("error")) {
        // The maker's Python could not hold the value; any value is as good.
        (None, Some(error)) if error == "ValueError" || error == "NOT_IMPLEMENTED" => true,
        (Some(a), Some(b)) => a == b,
        (None, None) => ours["types"] == spark["types"] && same(&ours["rows"], &spark["rows"]),
        _ => false,
    };
    (!agree).then(|| format!("Weir {}; Spark {}", shown(ours), shown(spark)))
}

fn escape(text: &str) -> String {
    text.replace('\n', "\\n").replace('|', "\\|")
}

#[test]
fn agrees_with_spark() {
    let path = golden().join("sql-expressions.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{} cannot be read: {e}; set WEIR_GOLDEN", path.display()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut groups: BTreeMap<String, [usize; 6]> = BTreeMap::new();
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut details = String::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let case: Value = serde_json::from_str(line).unwrap();
        let (id, group, expr) = (&case["id"], case["group"].as_str().unwrap(), case["expr"].as_str().unwrap());
        let spark_ansi = &case["ansi"];
        let spark_legacy = case.get("legacy").unwrap_or(spark_ansi);
        let ours = [evaluate(&runtime, expr, true), evaluate(&runtime, expr, false)];
        let reasons = [difference(&ours[0], spark_ansi), difference(&ours[1], spark_legacy)];
        let count = groups.entry(group.to_owned()).or_default();
        count[0] += 1;
        count[1] += usize::from(reasons[0].is_none());
        count[2] += usize::from(reasons[1].is_none());
        count[3] += usize::from(reasons.iter().all(Option::is_none));
        // Column names and to_json, where Spark's own row could be written.
        if let (Some(json), None) = (spark_ansi["json"].as_str(), &reasons[0]) {
            count[4] += 1;
            let equal = ours[0]["json"].as_str() == Some(json);
            count[5] += usize::from(equal);
            if !equal {
                let _ = writeln!(details, "{id} {group} to_json | {} | {} | {json}", escape(expr), ours[0]["json"]);
            }
        }
        let modes = match (&reasons[0], &reasons[1]) {
            (None, None) => continue,
            (Some(a), Some(b)) if a == b => vec![("both modes", a)],
            (a, b) => [("ANSI", a), ("legacy", b)].into_iter().filter_map(|(m, r)| Some((m, r.as_ref()?))).collect(),
        };
        for (mode, reason) in modes {
            lines.entry(group.to_owned()).or_default().push(format!("- `{}` ({mode}): {}", escape(expr), escape(reason)));
            let message = ours[usize::from(mode == "legacy")]["message"].as_str().unwrap_or_default();
            let _ = writeln!(details, "{id} {group} {mode} | {} | {reason} | {message}", escape(expr));
        }
    }
    let mut table = String::from(
        "| group | expressions | ANSI | legacy | both | row as `to_json`, column names included |\n|---|---|---|---|---|---|\n",
    );
    let mut total = [0; 6];
    for (group, count) in &groups {
        let share = |n: usize| format!("{n} ({:.1} %)", 100.0 * n as f64 / count[0] as f64);
        let _ = writeln!(
            table,
            "| {group} | {} | {} | {} | {} | {} of {} |",
            count[0],
            share(count[1]),
            share(count[2]),
            share(count[3]),
            count[5],
            count[4]
        );
        for (sum, n) in total.iter_mut().zip(count) {
            *sum += n;
        }
    }
    let share = |n: usize| format!("{n} ({:.1} %)", 100.0 * n as f64 / total[0] as f64);
    let _ = writeln!(
        table,
        "| all | {} | {} | {} | {} | {} of {} |",
        total[0],
        share(total[1]),
        share(total[2]),
        share(total[3]),
        total[5],
        total[4]
    );
    println!("{details}\n{table}");
    let mut page = String::from(
        "# Differences from Spark SQL\n\nGenerated by `UPDATE=1 cargo test -p weir-sql --test golden_expressions`; judged by expressions that Spark 4.2.0\n\
         evaluated with session time zone UTC. A line per expression that disagrees: what Weir gives, what Spark gives.\n\n",
    );
    page.push_str(&table);
    for (group, list) in &lines {
        let _ = write!(page, "\n## {group}\n\n{}\n", list.join("\n"));
    }
    let target = root().join("docs/spark-differences-sql.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(&target, &page).unwrap();
    }
    for (group, count) in &groups {
        let goal = if matches!(group.as_str(), "cast" | "json" | "string") { 90 } else { 75 };
        assert!(count[3] * 100 >= count[0] * goal, "{group}: {} of {} agree, the goal is {goal} %", count[3], count[0]);
    }
    assert!(total[3] * 100 >= total[0] * 75, "{} of {} agree, the goal is 75 %", total[3], total[0]);
    let written = std::fs::read_to_string(&target).unwrap_or_default();
    assert!(written == page, "{} is out of date; run with UPDATE=1", target.display());
}
