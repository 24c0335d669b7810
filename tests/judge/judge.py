"""Spark as the judge: one request in JSON per line on standard input, one answer in JSON per line on standard output.

The process lives as long as its standard input. Every answer has `ok`; a refused request has `error` and, where Spark names one, `condition`.
The Rust side is `weir_testkit::judge`, which also documents the requests.
"""

import json
import os
import sys
import time

# The answers get a descriptor of their own: the Java process writes to standard output too, and that goes to standard error from here on.
ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

os.environ["TZ"] = "UTC"
time.tzset()

from pyspark.sql import SparkSession  # noqa: E402

# Many small queries once each: what compiling them well costs is never earned back. The code of one level alone fills the cache that the JVM
# gives it, and what is then swept out is compiled again; a heap that begins large is rarely collected.
JAVA_OPTIONS = [
    "-Duser.timezone=UTC",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-Xms1g",
    "-Xmn600m",
]

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    # What is only for people who look at the plans.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def start(jars, scratch):
    builder = SparkSession.builder.master("local[2]").appName("judge")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    # Whatever libraries unpack goes with the scratch folder.
    java_options = " ".join([*JAVA_OPTIONS, f"-Djava.io.tmpdir={scratch}"])
    builder = builder.config("spark.driver.extraJavaOptions", java_options)
    builder = builder.config("spark.jars", ",".join(sorted(os.path.join(jars, name) for name in os.listdir(jars))))
    builder = builder.config("spark.sql.warehouse.dir", os.path.join(scratch, "warehouse"))
    builder = builder.config("spark.local.dir", os.path.join(scratch, "local"))
    return builder.getOrCreate()


def rows_of(frame):
    names = frame.columns
    # Numbered on the way, so that rows with equal or odd column names survive the way through JSON.
    numbered = frame.toDF(*[f"c{index}" for index in range(len(names))])
    texts = numbered.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS row").collect() if names else []
    rows = sorted(text.row for text in texts)
    return {
        "count": len(rows),
        "columns": names,
        "types": [field.dataType.simpleString() for field in frame.schema.fields],
        "rows": [list(json.loads(row).values()) for row in rows],
    }


def loaded(reader, source):
    reader = reader.format(source["format"]).options(**source.get("options", {}))
    if source.get("schema"):
        reader = reader.schema(source["schema"])
    return reader.load(source["path"]) if source.get("path") else reader.load()


def transformed(spark, frame, sql):
    if not sql:
        return frame
    frame.createOrReplaceTempView("source")
    return spark.sql(sql)


def read(spark, request):
    return rows_of(transformed(spark, loaded(spark.read, request), request.get("sql")))


def sql(spark, request):
    return rows_of(spark.sql(request["sql"]))


def write(spark, request):
    writer = spark.sql(request["sql"]).write.format(request["format"]).options(**request.get("options", {}))
    writer = writer.mode(request.get("mode", "append"))
    if request.get("partitionBy"):
        writer = writer.partitionBy(*request["partitionBy"])
    writer.save(request["path"]) if request.get("path") else writer.save()
    return {}


def stream(spark, request):
    """Runs a streaming query until it has processed what is there, and returns its progress records."""
    frame = transformed(spark, loaded(spark.readStream, request["source"]), request.get("sql"))
    sink = request["sink"]
    writer = frame.writeStream.format(sink["format"]).options(**sink.get("options", {}))
    writer = writer.outputMode(request.get("outputMode", "append")).option("checkpointLocation", request["checkpoint"])
    if sink.get("partitionBy"):
        writer = writer.partitionBy(*sink["partitionBy"])
    trigger = request.get("trigger", {"availableNow": True})
    query = writer.trigger(**trigger).start(sink["path"]) if sink.get("path") else writer.trigger(**trigger).start()
    try:
        if "availableNow" in trigger or "once" in trigger:
            query.awaitTermination()
        else:
            query.processAllAvailable()
    finally:
        query.stop()
    progress = [json.loads(record.json) for record in query.recentProgress]
    return {"id": str(query.id), "runId": str(query.runId), "progress": progress}


def delta_log(spark, path):
    jvm = spark.sparkContext._jvm
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)


def history(spark, request):
    escaped = request["path"].replace("`", "``")
    return rows_of(spark.sql(f"DESCRIBE HISTORY delta.`{escaped}`"))


def transactions(spark, request):
    """The transaction identifiers of a Delta table: application to version."""
    found = delta_log(spark, request["path"]).unsafeVolatileSnapshot().setTransactions()
    pairs = [found.apply(index) for index in range(found.size())]
    return {"transactions": {pair.appId(): pair.version() for pair in pairs}}


OPERATIONS = {
    "read": read,
    "sql": sql,
    "write": write,
    "stream": stream,
    "history": history,
    "transactions": transactions,
}


def answer(spark, request):
    operation = OPERATIONS[request["op"]]
    changed = {key: spark.conf.get(key, None) for key in request.get("conf", {})}
    try:
        for key, value in request.get("conf", {}).items():
            spark.conf.set(key, value)
        return {"ok": True, **operation(spark, request)}
    except Exception as error:  # Whatever Spark throws is the answer.
        condition = getattr(error, "getCondition", lambda: None)()
        return {"ok": False, "error": str(error), "type": type(error).__name__, "condition": condition}
    finally:
        for key, value in changed.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def say(value):
    ANSWERS.write(json.dumps(value) + "\n")
    ANSWERS.flush()


def main():
    spark = start(sys.argv[1], sys.argv[2])
    say({"ok": True, "version": spark.version})
    for line in sys.stdin:
        say(answer(spark, json.loads(line)))
    # Nothing of Spark's is kept, so it need not end in good order; but it is waited for.
    java = spark.sparkContext._gateway.proc
    java.kill()
    java.wait()


if __name__ == "__main__":
    main()
