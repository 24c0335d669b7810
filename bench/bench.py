"""Measures Weir and prints medians of five; every single value is kept in bench/results/.

Each measurement is a function that yields one figure a round. What is compared with Spark runs in turn, Weir first, then Spark, so that a
machine whose speed drifts is as slow for one as for the other.
"""

import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from weir import Task, manifest

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
RECORDS = int(os.environ.get("RECORDS", "1000000"))
WINDOW = 3.0
RATE = {"format": "rate-micro-batch", "options": {"rowsPerBatch": "10", "numPartitions": "1"}}
NOOP = {"format": "noop"}
DELTA = {"format": "delta", "options": {"path": "table"}}


class Service:
    """A child that answers a line with a line."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.hello = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended early")
        return json.loads(line)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Bench:
    def __init__(self, scratch):
        self.scratch, self.rounds, self.topics, self.spark = scratch, 0, None, None

    def folder(self):
        self.rounds += 1
        return os.path.join(self.scratch, str(self.rounds))

    def kafka(self, topic):
        if self.topics is None:
            say(f"starting Kafka and writing {RECORDS} records")
            self.topics = Service([os.environ["TOPICS"], str(RECORDS), "4"])
        servers = self.topics.hello["servers"]
        return {"format": "kafka", "options": {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}}

    def files(self, folder, rows):
        os.makedirs(os.path.join(folder, "in"))
        with open(os.path.join(folder, "in", "rows.json"), "w") as file:
            file.writelines(f'{{"n":{n}}}\n' for n in range(rows))
        return {"format": "json", "options": {"path": "in"}, "schema": "n BIGINT"}

    def cold_start(self):
        for _ in range(ROUNDS + 1):
            folder = self.folder()
            task = Task(folder, manifest(self.files(folder, 100), "SELECT n FROM raw", DELTA))
            yield {"seconds": task.committed()}
            task.end()

    def idle_memory(self):
        for _ in range(ROUNDS):
            task = Task(self.folder(), manifest(self.kafka("idle"), "SELECT value FROM raw", DELTA, {"processingTime": "1s"}))
            task.wait_for("started")
            time.sleep(5)
            yield {"mebibytes": task.resident()}
            task.end()

    def triggers(self, make_source, sql, sink, settle, conf=None):
        for _ in range(ROUNDS):
            folder = self.folder()
            task = Task(folder, manifest(make_source(folder), sql, sink, conf=conf))
            task.wait_for("started")
            # Nobody may have to wait for a full pipe.
            drain = subprocess.Popen(["cat"], stdin=task.process.stdout, stdout=subprocess.DEVNULL)
            time.sleep(settle)
            count, busy = task.counters()
            begun = time.perf_counter()
            time.sleep(WINDOW)
            more, busier = task.counters()
            took = time.perf_counter() - begun
            yield {"milliseconds": (busier - busy) / (more - count) * 1000, "triggers_per_second": (more - count) / took}
            task.end()
            drain.wait()

    def empty_files(self):
        return self.triggers(lambda folder: self.files(folder, 1), "SELECT n FROM raw", NOOP, 2)

    def empty_kafka(self):
        return self.triggers(lambda _: self.kafka("idle"), "SELECT value FROM raw", NOOP, 2)

    def small(self, sink, fsync):
        return self.triggers(lambda _: RATE, "SELECT timestamp, value FROM raw", sink, 1, {"weir.checkpoint.fsync": fsync})

    def throughput(self):
        with open(os.path.join(HERE, "bids.sql")) as file:
            sql = file.read()
        source = self.kafka("bids")
        if self.spark is None:
            say("starting Spark")
            python = {**os.environ, "PYTHONPATH": os.path.join(os.environ["JUDGE"], "python")}
            self.spark = Service([sys.executable, os.path.join(HERE, "spark.py"), os.path.join(os.environ["JUDGE"], "jars")], env=python)
        tables = []
        for round in range(ROUNDS + 1):
            ours, theirs = self.folder(), self.folder()
            weir = self.drain_topic(ours, manifest(source, sql, DELTA, {"availableNow": {}}))
            request = {"sql": sql, "options": source["options"], "table": f"{theirs}/table", "checkpoint": f"{theirs}/checkpoint"}
            spark = self.spark.ask(request)
            tables = [self.spark.ask({"count": f"{folder}/table"})["rows"] for folder in (ours, theirs)]
            if tables[0] != tables[1] or weir["rows"] != RECORDS or spark["rows"] != RECORDS:
                raise RuntimeError(f"Weir and Spark do not agree: {tables} rows in the tables, {weir} {spark}")
            for folder in (ours, theirs):
                shutil.rmtree(folder)
            rate = lambda side, key: side["rows"] / side[key]
            yield {
                "weir_rows_per_second": rate(weir, "triggers"),
                "spark_rows_per_second": rate(spark, "triggers"),
                "times_spark": rate(weir, "triggers") / rate(spark, "triggers"),
                "weir_wall_rows_per_second": rate(weir, "wall"),
                "spark_wall_rows_per_second": rate(spark, "wall"),
                "times_spark_wall": rate(weir, "wall") / rate(spark, "wall"),
            }

    def drain_topic(self, folder, text):
        task = Task(folder, text)
        records = [event["progress"] for event in task.events() if event["event"] == "progress"]
        if task.process.wait() != 0:
            raise RuntimeError(task.said())
        wall = time.perf_counter() - task.begun
        rows = sum(record["numInputRows"] for record in records)
        return {"rows": rows, "wall": wall, "triggers": sum(record["durationMs"]["triggerExecution"] for record in records) / 1000}

    def end(self):
        for service in (self.spark, self.topics):
            if service:
                service.end()


# Name, what it is, how it is measured, whether the first round only warms up.
MEASUREMENTS = [
    ("cold-start", "process start to first committed batch, files to Delta (goal 0.3 s)", Bench.cold_start, True),
    ("idle-memory", "resident memory, idle Kafka source (goal 60 MiB)", Bench.idle_memory, False),
    ("empty-files", "an empty trigger, idle file source (goal 1 ms)", Bench.empty_files, False),
    ("empty-kafka", "an empty trigger, idle Kafka source (goal 1 ms)", Bench.empty_kafka, False),
    ("small-noop", "a batch of 10 rows to noop, fsync (goal 3 ms)", lambda b: b.small(NOOP, "true"), False),
    ("small-noop-no-fsync", "the same without fsync", lambda b: b.small(NOOP, "false"), False),
    ("small-delta", "a batch of 10 rows to Delta, fsync (goal 3 ms)", lambda b: b.small(DELTA, "true"), False),
    ("small-delta-no-fsync", "the same without fsync", lambda b: b.small(DELTA, "false"), False),
    ("throughput", f"{RECORDS} Kafka records of 200 bytes, from_json, filter, Delta", Bench.throughput, True),
]


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def main():
    chosen = [entry for entry in MEASUREMENTS if not sys.argv[1:] or entry[0] in sys.argv[1:]]
    unknown = set(sys.argv[1:]) - {entry[0] for entry in MEASUREMENTS}
    if unknown or not chosen:
        sys.exit(f"no such measurement: {', '.join(sorted(unknown))}; there are {', '.join(entry[0] for entry in MEASUREMENTS)}")
    results = {"machine": f"{os.cpu_count()} processors, {platform.platform()}", "at": datetime.datetime.now().isoformat(timespec="seconds")}
    scratch = tempfile.mkdtemp(prefix="weir-bench-")
    bench = Bench(scratch)
    try:
        for name, what, measure, warms_up in chosen:
            say(what)
            rounds = list(measure(bench))[1 if warms_up else 0 :]
            results[name] = rounds
            for figure in rounds[0]:
                values = sorted(round[figure] for round in rounds)
                print(f"{name:21} {figure:27} {statistics.median(values):12.3f}   ({values[0]:.3f} to {values[-1]:.3f})", flush=True)
    finally:
        bench.end()
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(os.path.join(HERE, "results"), exist_ok=True)
        with open(os.path.join(HERE, "results", f"{results['at'].replace(':', '')}.json"), "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
