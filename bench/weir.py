"""One `weir task` process and what can be seen of it from outside: events, metrics, resident memory."""

import json
import os
import subprocess
import time
import urllib.request


def manifest(source, sql, sink, trigger=None, conf=None):
    query = {"name": "query", "sources": [{"name": "raw", **source}], "sql": sql, "sink": sink, "checkpointLocation": "checkpoint"}
    if trigger:
        query["trigger"] = trigger
    spec = {"trigger": {"continuous": {}}, "conf": conf or {}, "tasks": [{"name": "task", "queries": [query]}]}
    # JSON is YAML too.
    return json.dumps({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": {"name": "bench"}, "spec": spec})


class Task:
    """Started when made, ended by `end` or by its own trigger."""

    def __init__(self, folder, text):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "job.yaml"), "w") as file:
            file.write(text)
        self.folder = folder
        self.log = open(os.path.join(folder, "log"), "w+")
        arguments = ["task", "job.yaml", "--job", "bench", "--task", "task", "--job-uid", "bench", "--epoch", "1"]
        arguments += ["--termination-log", "exit.json", "--events"]
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            [os.environ["WEIR"], *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        self.address = None

    def events(self):
        for line in self.process.stdout:
            yield json.loads(line.lstrip("\x1e"))

    def wait_for(self, kind):
        """Reads events up to the first of a kind; nothing reads them afterwards, so the task must be a quiet one or end soon."""
        for event in self.events():
            if event["event"] == "listening":
                self.address = event["address"]
            if event["event"] == kind:
                return event
        raise RuntimeError(f"weir ended early: {self.said()}")

    def counters(self):
        """Triggers so far and the seconds spent in them."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        value = lambda name: next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))
        return value("weir_query_triggers_total"), value("weir_query_trigger_seconds_total")

    def committed(self):
        """Seconds from the start until batch 0 is in the commit log."""
        path = os.path.join(self.folder, "checkpoint", "commits", "0")
        while not os.path.exists(path):
            if self.process.poll() is not None:
                raise RuntimeError(f"weir ended early: {self.said()}")
            time.sleep(0.0005)
        return time.perf_counter() - self.begun

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        self.process.kill()
        self.process.stdout.close()
        self.process.wait()
        self.log.close()
