//! Rows against what a table demands of them.

use serde_json::json;

use super::*;

/// A table of `k` and `v` partitioned by `k`, whose metadata another writer changes then.
async fn partitioned(path: &str, column: serde_json::Value, configuration: serde_json::Value) {
    let mut query = Query::to(path);
    query.partition_by = vec!["k".into()];
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &[kv(&[("a", 0)])]).await.unwrap();
    let mut metadata = log(path, 0).into_iter().find_map(|line| line.get("metaData").cloned()).unwrap();
    let value = json!({"name": "v", "type": "integer", "nullable": true, "metadata": {}});
    metadata["schemaString"] = json!(json!({"type": "struct", "fields": [column, value]}).to_string());
    metadata["configuration"] = configuration;
    let protocol = json!({"minReaderVersion": 1, "minWriterVersion": 4});
    let entry = format!("{}\n{}\n", json!({"metaData": metadata}), json!({"protocol": protocol}));
    std::fs::write(format!("{path}/{}", super::super::location::commit_name(1)), entry).unwrap();
}

#[tokio::test]
async fn an_empty_text_in_a_partition_column_is_judged_as_the_null_that_it_becomes() {
    let dir = tempfile::tempdir().unwrap();
    let column =
        |nullable: bool, metadata: serde_json::Value| json!({"name": "k", "type": "string", "nullable": nullable, "metadata": metadata});
    let given = kv(&[("b", 1), ("", 2), ("__HIVE_DEFAULT_PARTITION__", 3)]);
    let lacking = rows(vec![("v", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    let generated = |expression: &str| column(false, json!({"delta.generationExpression": expression}));
    for (number, (column, configuration, batch, condition)) in [
        (column(false, json!({})), json!({}), &given, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),
        (column(true, json!({})), json!({"delta.constraints.there": "k IS NOT NULL"}), &given, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
        (generated("CASE WHEN v = 1 THEN '' ELSE 'x' END"), json!({}), &lacking, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(number.to_string()).to_str().unwrap().to_owned();
        partitioned(&path, column, configuration).await;
        for query in [Query::to(&path), Query::to(&path).upserting(&["v"], None)] {
            let sink = query.open(batch.schema()).await.unwrap();
            let error = query.write(&sink, 0, std::slice::from_ref(batch)).await.unwrap_err();
            assert_eq!((error.class(), error.condition()), (ErrorClass::Config, condition), "{number}: {error}");
            assert_eq!(count(&path).await, 1, "{number}");
        }
    }
    // Where null may be, it is: and the text that stands for it in folders is only a text.
    let path = dir.path().join("nullable").to_str().unwrap().to_owned();
    partitioned(&path, column(true, json!({})), json!({})).await;
    let query = Query::to(&path);
    let sink = query.open(given.schema()).await.unwrap();
    query.write(&sink, 0, &[given]).await.unwrap();
    let read = sql(
        &path,
        "SELECT CAST(sum(CASE WHEN k IS NULL THEN v END) AS BIGINT), CAST(sum(CASE WHEN k LIKE '%HIVE%' THEN v END) AS BIGINT) FROM t",
    )
    .await;
    assert_eq!([0, 1].map(|at| read[0].column(at).as_primitive::<Int64Type>().value(0)), [2, 3]);
}

#[tokio::test]
async fn names_with_spaces_are_left_to_the_table_that_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let (schema, storage, conf) =
        (&rows(vec![("a b", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).schema(), &storage(), &BTreeMap::new());
    let query = Query::to(&path);
    let (partition_by, upsert, expressions) = (&[], None, &expressions());
    let settings = SinkSettings { format: "delta", options: &query.options, schema, partition_by, upsert, storage, conf, expressions };
    super::super::check_sink(&settings).unwrap();
    let error = super::super::check_table(&settings).await.unwrap_err();
    assert_eq!(error.condition(), "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES");
}
