"""PySpark's side of the comparison: one warm session, one streaming query for each line on standard input.

A request and an answer are a line of JSON each. The answer's `wall` is from starting the query to its end; Spark's own start is not in it.
`count` asks for the rows of a Delta table instead.
"""

import json
import os
import sys
import time

ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
os.environ["TZ"] = "UTC"
time.tzset()

from pyspark.sql import SparkSession  # noqa: E402

SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
}


def start(jars):
    builder = SparkSession.builder.master("local[*]").appName("bench")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder.config("spark.jars", ",".join(sorted(os.path.join(jars, name) for name in os.listdir(jars)))).getOrCreate()


def stream(spark, request):
    begun = time.perf_counter()
    spark.readStream.format("kafka").options(**request["options"]).load().createOrReplaceTempView("raw")
    writer = spark.sql(request["sql"]).writeStream.format("delta").option("checkpointLocation", request["checkpoint"])
    query = writer.trigger(availableNow=True).start(request["table"])
    query.awaitTermination()
    wall = time.perf_counter() - begun
    records = [json.loads(record.json) for record in query.recentProgress]
    busy = [record for record in records if record["numInputRows"] > 0]
    return {
        "wall": wall,
        "rows": sum(record["numInputRows"] for record in busy),
        "triggers": sum(record["durationMs"]["triggerExecution"] for record in busy) / 1000,
    }


def main():
    spark = start(sys.argv[1])
    ANSWERS.write(json.dumps({"version": spark.version}) + "\n")
    ANSWERS.flush()
    for line in sys.stdin:
        request = json.loads(line)
        if "count" in request:
            answer = {"rows": spark.read.format("delta").load(request["count"]).count()}
        else:
            answer = stream(spark, request)
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()
    spark.stop()


if __name__ == "__main__":
    main()
