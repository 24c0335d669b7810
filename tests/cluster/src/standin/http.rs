//! The stand-in's HTTP interface, in the shapes of the engine's.
//!
//! Probes, `/v1/queries`, and `PUT /v1/config` with the bearer token. All
//! queries of the task report the same figures.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::control::{Control, Hang};

const RECENT: usize = 32;

/// What the interface shows.
pub struct View {
    epoch: u64,
    token: Option<String>,
    state: Mutex<Shown>,
}

struct Shown {
    generation: i64,
    claimed: bool,
    control: Control,
    queries: Vec<(String, Option<Uuid>, Uuid)>,
    batch: Option<u64>,
    last_commit_ms: Option<i64>,
    recent: VecDeque<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LiveConfig {
    generation: i64,
    #[serde(rename = "stopTimeoutMs")]
    _stop_timeout_ms: Option<u64>,
}

impl View {
    pub fn new(epoch: u64, queries: &[String]) -> Self {
        let state = Shown {
            generation: 0,
            claimed: false,
            control: Control::default(),
            queries: queries.iter().map(|name| (name.clone(), None, Uuid::new_v4())).collect(),
            batch: None,
            last_commit_ms: None,
            recent: VecDeque::new(),
        };
        Self { epoch, token: std::env::var("WEIR_TASK_TOKEN").ok(), state: Mutex::new(state) }
    }

    pub fn identified(&self, at: usize, id: Uuid) {
        self.state.lock().queries[at].1 = Some(id);
    }

    /// The claim holds, and this is how to behave.
    pub fn follow(&self, control: &Control) {
        let mut state = self.state.lock();
        state.claimed = true;
        state.control = control.clone();
    }

    pub fn committed(&self, batch: u64, at_ms: i64, control: &Control) {
        let mut state = self.state.lock();
        state.batch = Some(batch);
        state.last_commit_ms = Some(at_ms);
        state.recent.push_back(json!({
            "batchId": batch,
            "durationMs": control.reported_duration_ms,
            "triggerIntervalMs": control.batch_interval_ms,
            "previousHadData": true,
            "inputRowsPerSecond": control.input_rows_per_second,
            "processedRowsPerSecond": control.processed_rows_per_second,
            "costliestStage": "addBatch",
        }));
        while state.recent.len() > RECENT {
            state.recent.pop_front();
        }
    }
}

impl Shown {
    fn query(&self, (name, id, run_id): &(String, Option<Uuid>, Uuid)) -> Value {
        let control = &self.control;
        json!({
            "name": name,
            "id": id,
            "runId": run_id,
            "isActive": true,
            "isStarted": self.claimed && control.gets_ready,
            "status": {
                "message": if control.input_available { "Processing new data" } else { "Waiting for data to arrive" },
                "isDataAvailable": control.input_available,
                "isTriggerActive": control.input_available,
            },
            "batchId": self.batch,
            "lastCommitMs": self.last_commit_ms,
            "watermarkMs": null,
            "malformedRecords": 0,
            "backlog": control.backlog,
            "exception": null,
            "recentBatches": self.recent,
            "lastProgress": self.batch.map(|batch| json!({
                "id": id,
                "runId": run_id,
                "name": name,
                "timestamp": "1970-01-01T00:00:00.000Z",
                "batchId": batch,
                "batchDuration": control.reported_duration_ms,
                "numInputRows": 1,
                "inputRowsPerSecond": control.input_rows_per_second,
                "processedRowsPerSecond": control.processed_rows_per_second,
                "durationMs": {"addBatch": control.reported_duration_ms, "triggerExecution": control.reported_duration_ms},
                "stateOperators": [],
                "sources": [],
                "sink": {"description": "standin", "numOutputRows": 1},
            })),
        })
    }
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, view: Arc<View>) {
    let router = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/v1/queries", get(queries))
        .route("/v1/config", put(configure))
        .with_state(view);
    if let Err(error) = axum::serve(listener, router).await {
        eprintln!("the HTTP interface ended: {error}");
    }
}

/// A hanging process keeps the connection and says nothing.
async fn breathe(view: &View) {
    let hang = view.state.lock().control.hang;
    if matches!(hang, Hang::Http | Hang::Everything) {
        std::future::pending().await
    }
}

async fn live(State(view): State<Arc<View>>) -> &'static str {
    breathe(&view).await;
    "ok"
}

async fn ready(State(view): State<Arc<View>>) -> Response {
    breathe(&view).await;
    let state = view.state.lock();
    if state.claimed && state.control.gets_ready {
        (StatusCode::OK, "ok").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting").into_response()
    }
}

async fn queries(State(view): State<Arc<View>>) -> Json<Value> {
    breathe(&view).await;
    let state = view.state.lock();
    let queries: Vec<Value> = state.queries.iter().map(|query| state.query(query)).collect();
    Json(json!({"epoch": view.epoch, "generation": state.generation, "queries": queries}))
}

async fn configure(State(view): State<Arc<View>>, headers: HeaderMap, body: String) -> Response {
    breathe(&view).await;
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.strip_prefix("Bearer "));
    if given.is_none() || given != view.token.as_deref() {
        return (StatusCode::UNAUTHORIZED, "the bearer token of this task's epoch is needed").into_response();
    }
    match serde_json::from_str::<LiveConfig>(&body) {
        Ok(config) => {
            view.state.lock().generation = config.generation;
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("not a live configuration: {error}")).into_response(),
    }
}
