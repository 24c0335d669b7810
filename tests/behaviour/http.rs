//! The task's HTTP interface, asked over real connections: probes, metrics,
//! queries, events, live settings, stopping; and how a task ends.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use weir_testkit::process::Guarded;
use weir_testkit::wait::eventually;

use crate::support::{DEADLINE, Place, weir};

const TOKEN: &str = "the-token-of-this-epoch";

/// A task that runs, and where it listens.
struct Served {
    process: Guarded,
    address: SocketAddr,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

/// An answer: status code and body.
type Answer = (u16, String);

impl Served {
    /// Starts the task of a manifest; its queries are called by the caller.
    fn start(place: &Place, queries: &str, variables: &[(&str, &str)], listen: &str) -> Self {
        let manifest = format!(
            "apiVersion: weir.dev/v1alpha1\nkind: StreamingJob\nmetadata: {{name: served}}\nspec:\n  trigger: {{continuous: {{}}}}\n  \
             tasks:\n  - name: task\n    queries:\n{queries}"
        );
        place.write("job.yaml", &manifest);
        let mut command = weir();
        command.current_dir(place.path()).envs(variables.iter().copied()).env("WEIR_TASK_TOKEN", TOKEN);
        command.args(["task", "job.yaml", "--job", "served", "--task", "task", "--job-uid", "uid", "--epoch", "3", "--listen", listen]);
        command.args(["--termination-log", &place.at("exit.json")]);
        let process = Guarded::spawn("weir task", command).unwrap();
        let line = process.stderr.wait_for("its address", DEADLINE, |line| line.contains("the HTTP interface listens")).unwrap();
        let bound: SocketAddr = line.rsplit_once("address=").unwrap().1.trim().parse().unwrap();
        let address = if bound.ip().is_unspecified() { SocketAddr::from(([127, 0, 0, 1], bound.port())) } else { bound };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { process, address, runtime, client: reqwest::Client::new() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn send(&self, request: reqwest::RequestBuilder) -> Option<Answer> {
        self.runtime.block_on(async {
            let response = request.timeout(Duration::from_secs(30)).send().await.ok()?;
            let status = response.status().as_u16();
            Some((status, response.text().await.ok()?))
        })
    }

    fn get(&self, path: &str) -> Answer {
        self.send(self.client.get(self.url(path))).unwrap_or_else(|| panic!("no answer to {path}"))
    }

    fn json(&self, path: &str) -> Value {
        let (status, text) = self.get(path);
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    fn put_config(&self, token: Option<&str>, body: &Value) -> Answer {
        let request = self.client.put(self.url("/v1/config")).json(body);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        self.send(request).unwrap()
    }

    fn until_batch(&self, query: &str, batch: u64) {
        let path = format!("/v1/queries/{query}");
        eventually("the batch is committed", DEADLINE, || {
            self.json(&path)["query"]["batchId"].as_u64().filter(|id| *id >= batch).map(drop)
        })
        .unwrap();
    }

    /// The exit code and the report.
    fn ended(self, place: &Place) -> (Option<i32>, Value) {
        let code = self.process.wait(DEADLINE).unwrap().code();
        let report = std::fs::read_to_string(place.path().join("exit.json")).unwrap();
        (code, serde_json::from_str(&report).unwrap())
    }
}

/// A query that counts seconds.
fn rate(name: &str) -> String {
    query(name, "{name: tick, format: rate, options: {rowsPerSecond: '20'}}", "SELECT value FROM tick", "{processingTime: 50ms}")
}

fn query(name: &str, source: &str, sql: &str, trigger: &str) -> String {
    format!(
        "    - name: {name}\n      sources: [{source}]\n      sql: {sql}\n      sink: {{format: noop}}\n      trigger: {trigger}\n      \
         checkpointLocation: checkpoint-{name}\n"
    )
}

#[test]
fn http_probes_tell_starting_from_started() {
    let place = Place::new("http-probes");
    // The claim takes its time, so that the state before it can be seen.
    let served = Served::start(&place, &rate("ticks"), &[("FAILPOINTS", "claim.metadata.before=sleep(3000)")], "127.0.0.1:0");
    assert_eq!(served.get("/livez"), (200, "ok".into()));
    assert_eq!(served.get("/readyz"), (503, "starting: ticks".into()));
    let snapshot = served.json("/v1/queries/ticks");
    assert_eq!(snapshot["query"]["isStarted"], false);
    assert_eq!(snapshot["query"]["lastProgress"], Value::Null);
    eventually("the task is ready", DEADLINE, || (served.get("/readyz") == (200, "ok".into())).then_some(())).unwrap();
    served.process.terminate().unwrap();
    assert_eq!(served.ended(&place).0, Some(0));
}

#[test]
fn http_metrics_are_prometheus_text() {
    let place = Place::new("http-metrics");
    let served = Served::start(&place, &(rate("ticks") + &rate("tocks")), &[], "127.0.0.1:0");
    served.until_batch("ticks", 1);
    served.until_batch("tocks", 1);
    let (status, text) = served.get("/metrics");
    assert_eq!(status, 200);
    let samples = parse_exposition(&text);
    for query in ["ticks", "tocks"] {
        let label = format!("{{query=\"{query}\"}}");
        assert_eq!(samples[&format!("weir_query_active{label}")], 1.0);
        for counter in ["malformed_records", "bad_records"] {
            assert_eq!(samples[&format!("weir_query_{counter}_total{label}")], 0.0);
        }
        for gauge in
            ["batch_id", "last_commit_timestamp_seconds", "input_rows_per_second", "processed_rows_per_second", "batch_duration_seconds"]
        {
            assert!(samples.contains_key(&format!("weir_query_{gauge}{label}")), "{gauge} of {query}: {text}");
        }
    }
    for part in ["process", "slices", "plans", "sink_writers"] {
        assert!(samples[&format!("weir_memory_limit_bytes{{part=\"{part}\"}}")] > 0.0, "{text}");
    }
    assert!(samples["weir_process_resident_bytes"] > 1e6);
}

/// Sample to value; every line is a sample or belongs to a described family.
fn parse_exposition(text: &str) -> std::collections::BTreeMap<String, f64> {
    let mut described = std::collections::BTreeSet::new();
    let mut samples = std::collections::BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(kind, if name.ends_with("_total") { "counter" } else { "gauge" }, "{name}");
            described.insert(name.to_owned());
        } else if !line.starts_with("# HELP ") {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let family = sample.split('{').next().unwrap();
            assert!(described.contains(family), "{family} has no TYPE");
            assert!(samples.insert(sample.to_owned(), value.parse().unwrap()).is_none(), "{sample} is there twice");
        }
    }
    samples
}

#[test]
fn http_queries_have_sparks_shapes() {
    let place = Place::new("http-queries");
    let served = Served::start(&place, &(rate("ticks") + &rate("tocks")), &[], "127.0.0.1:0");
    served.until_batch("ticks", 3);
    let all = served.json("/v1/queries");
    assert_eq!(all["epoch"], 3);
    let names: Vec<&str> = all["queries"].as_array().unwrap().iter().map(|q| q["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ticks", "tocks"]);
    let one = served.json("/v1/queries/ticks");
    assert_eq!(one["epoch"], 3);
    let query = &one["query"];
    assert_eq!(query["isActive"], true);
    assert!(query["status"]["message"].is_string());
    assert!(query["status"]["isDataAvailable"].is_boolean() && query["status"]["isTriggerActive"].is_boolean());
    assert_eq!(query["status"].as_object().unwrap().len(), 3, "Spark's three fields");
    assert_eq!(keys(&query["lastProgress"]), PROGRESS_FIELDS, "{query}");
    assert_eq!(keys(&query["lastProgress"]["sources"][0]), SOURCE_FIELDS);
    assert_eq!(keys(&query["lastProgress"]["sink"]), ["description", "numOutputRows"]);
    let durations = keys(&query["lastProgress"]["durationMs"]);
    assert_eq!(durations, ["addBatch", "commitOffsets", "getBatch", "latestOffset", "queryPlanning", "triggerExecution", "walCommit"]);
    let recent = served.json("/v1/queries/ticks/progress");
    let batches = batches(&recent);
    assert!(batches.is_sorted(), "newest last: {batches:?}");
    assert!(batches.len() >= 3);
    let (status, text) = served.get("/v1/queries/tacks");
    assert_eq!((status, text.as_str()), (404, "there is no query tacks; the queries are ticks, tocks"));
    assert_eq!(served.get("/v1/queries/tacks/progress").0, 404);
}

const PROGRESS_FIELDS: [&str; 13] = [
    "id",
    "runId",
    "name",
    "timestamp",
    "batchId",
    "batchDuration",
    "numInputRows",
    "inputRowsPerSecond",
    "processedRowsPerSecond",
    "durationMs",
    "stateOperators",
    "sources",
    "sink",
];
const SOURCE_FIELDS: [&str; 7] =
    ["description", "startOffset", "endOffset", "latestOffset", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond"];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().map(String::as_str).collect()
}

fn batches(recent: &Value) -> Vec<u64> {
    recent["recentProgress"].as_array().unwrap().iter().map(|progress| progress["batchId"].as_u64().unwrap()).collect()
}

#[test]
fn http_keeps_the_99_newest_records() {
    let place = Place::new("http-recent");
    let source = "{name: tick, format: rate-micro-batch, options: {rowsPerBatch: '1', numPartitions: '1'}}";
    let served = Served::start(&place, &query("ticks", source, "SELECT value FROM tick", "{processingTime: 0s}"), &[], "127.0.0.1:0");
    served.until_batch("ticks", 110);
    let recent = batches(&served.json("/v1/queries/ticks/progress"));
    assert_eq!(recent.len(), 99);
    assert!(recent.windows(2).all(|pair| pair[1] == pair[0] + 1), "{recent:?}");
}

#[test]
fn http_events_are_a_stream() {
    let place = Place::new("http-events");
    let served = Served::start(&place, &rate("ticks"), &[], "127.0.0.1:0");
    let events: Vec<Value> = served.runtime.block_on(async {
        let mut response = served.client.get(served.url("/v1/events")).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut text = String::new();
        // Two events of progress, then the answer is dropped.
        while text.matches("\"event\":\"progress\"").count() < 2 || !text.ends_with("\n\n") {
            let chunk = tokio::time::timeout(DEADLINE, response.chunk()).await.expect("an event comes").unwrap().expect("no end");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        data.map(|json| serde_json::from_str(json).unwrap()).collect()
    });
    let progress: Vec<&Value> = events.iter().filter(|event| event["event"] == "progress").collect();
    assert_eq!(keys(&progress[0]["progress"])[..5], PROGRESS_FIELDS[..5]);
    assert_eq!(progress[1]["progress"]["batchId"].as_u64(), progress[0]["progress"]["batchId"].as_u64().map(|id| id + 1));
}

#[test]
fn http_config_needs_the_token_and_is_in_force() {
    let place = Place::new("http-config");
    // One batch of so many rows that it does not end within the test.
    let source = "{name: tick, format: rate-micro-batch, options: {rowsPerBatch: '2000000000000'}}";
    let served = Served::start(&place, &query("endless", source, "SELECT value FROM tick", "{processingTime: 0s}"), &[], "127.0.0.1:0");
    let config = json!({"generation": 7, "stopTimeoutMs": 200});
    assert_eq!(served.put_config(None, &config).0, 401);
    assert_eq!(served.put_config(Some("the-token-of-that-epoch"), &config).0, 401);
    assert_eq!(served.put_config(Some(""), &config).0, 401);
    assert_eq!(served.json("/v1/queries")["generation"], 0, "nothing was taken over");
    let (status, text) = served.put_config(Some(TOKEN), &json!({"generation": 7, "stopTimeout": "200ms"}));
    assert_eq!(status, 400);
    assert!(text.contains("stopTimeout"), "{text}");
    assert_eq!(served.put_config(Some(TOKEN), &config), (204, String::new()));
    assert_eq!(served.json("/v1/queries")["generation"], 7);
    let processing = || (served.json("/v1/queries/endless")["query"]["status"]["message"] == "Processing new data").then_some(());
    eventually("the batch runs", DEADLINE, processing).unwrap();
    // The manifest's stop timeout is a minute.
    let begun = std::time::Instant::now();
    served.process.terminate().unwrap();
    let (code, report) = served.ended(&place);
    assert_eq!((code, &report["class"]), (Some(0), &json!("stopped")));
    assert!(begun.elapsed() < Duration::from_secs(40), "the new stop timeout is not in force: {:?}", begun.elapsed());
}

#[test]
fn http_stop_ends_at_a_batch_boundary() {
    let place = Place::new("http-stop");
    let served = Served::start(&place, &rate("ticks"), &[], "127.0.0.1:0");
    served.until_batch("ticks", 1);
    for (header, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let (status, text) = served.send(served.client.post(served.url("/v1/stop")).header(header, value)).unwrap();
        assert_eq!(status, 403, "{header}: {text}");
    }
    assert_eq!(served.send(served.client.post(served.url("/v1/stop"))).unwrap().0, 202);
    let (code, report) = served.ended(&place);
    assert_eq!((code, &report["class"]), (Some(0), &json!("stopped")));
    at_a_boundary(&place, "ticks");
}

#[test]
fn http_stop_exists_on_loopback_only() {
    let place = Place::new("http-everywhere");
    let served = Served::start(&place, &rate("ticks"), &[], "0.0.0.0:0");
    served.until_batch("ticks", 0);
    assert_eq!(served.send(served.client.post(served.url("/v1/stop"))).unwrap().0, 404);
    assert_eq!(served.get("/livez").0, 200);
    assert_eq!(served.put_config(Some(TOKEN), &json!({"generation": 1})).0, 204);
    served.process.terminate().unwrap();
    assert_eq!(served.ended(&place).0, Some(0));
}

#[test]
fn http_sigterm_ends_at_a_batch_boundary() {
    let place = Place::new("http-sigterm");
    let begun = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let served = Served::start(&place, &rate("ticks"), &[], "127.0.0.1:0");
    served.until_batch("ticks", 2);
    served.process.terminate().unwrap();
    let (code, mut report) = served.ended(&place);
    assert_eq!(code, Some(0));
    let last_commit = report.as_object_mut().unwrap().remove("lastCommitMs").unwrap();
    assert!(last_commit.as_u64().unwrap() >= begun, "{last_commit}");
    assert_eq!(report, json!({"class": "stopped", "reason": "", "message": "", "epoch": 3}));
    at_a_boundary(&place, "ticks");
}

/// Whatever is planned is committed, and the claim is released.
fn at_a_boundary(place: &Place, query: &str) {
    let checkpoint = place.path().join(format!("checkpoint-{query}"));
    assert_eq!(newest(&checkpoint.join("offsets")), newest(&checkpoint.join("commits")));
    assert!(checkpoint.join("_weir/released").read_dir().unwrap().next().is_some(), "the claim is released");
}

fn newest(log: &Path) -> Option<u64> {
    let names = log.read_dir().unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).max()
}

#[test]
fn http_a_failing_query_ends_its_siblings_gracefully() {
    let place = Place::new("http-siblings");
    place.write("input/0.txt", "1\n");
    let source = "{name: lines, format: text, options: {path: input}}";
    let failing = query("divides", source, "SELECT 1 / CAST(value AS INT) AS v FROM lines", "{processingTime: 50ms}");
    let served = Served::start(&place, &(rate("ticks") + &failing), &[], "127.0.0.1:0");
    served.until_batch("ticks", 1);
    served.until_batch("divides", 0);
    place.write_at("input/1.txt", "0\n", 1_900_000_000_000);
    let (code, report) = served.ended(&place);
    assert_eq!(code, Some(10), "{report}");
    assert_eq!((&report["class"], &report["query"], &report["batch"]), (&json!("retryable"), &json!("divides"), &json!(0)));
    assert_eq!(report["reason"], "DIVIDE_BY_ZERO");
    at_a_boundary(&place, "ticks");
}
