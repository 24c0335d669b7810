//! One attempt of one task: all its queries, until they end or one fails.
//!
//! A query that fails ends the attempt: its siblings stop at a batch boundary
//! within the stop timeout. The attempt is `completed` only when every query
//! ended by itself; told to stop, it is `stopped`. The exit report says which
//! query failed, why, and how far it had come (design section 3).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use uuid::Uuid;
use weir_core::progress::QueryEvent;
use weir_core::{Error, ErrorClass};
use weir_crds::exit::{ExitClass, ExitReport};

use crate::environment::TaskEnvironment;
use crate::query::driver::{self, QueryEnd, StopRequest};
use crate::query::{QueryDefinition, QueryState};

/// The exit class of an error.
fn class_of(class: ErrorClass) -> ExitClass {
    match class {
        ErrorClass::Retryable => ExitClass::Retryable,
        ErrorClass::Config => ExitClass::Config,
        ErrorClass::Incompatible => ExitClass::Incompatible,
        ErrorClass::Fenced => ExitClass::Fenced,
    }
}

/// Longest message of an exit report, bytes.
const MESSAGE_BYTES: usize = 2048;

/// The report of a failure.
pub fn failed(error: &Error, epoch: u64) -> ExitReport {
    let mut message = error.to_string();
    let mut end = MESSAGE_BYTES.min(message.len());
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    ExitReport {
        reason: error.condition().to_owned(),
        message,
        highest_epoch_seen: error.highest_epoch(),
        source_version: error.source_version().map(str::to_owned),
        ..ExitReport::new(class_of(error.class()), epoch)
    }
}

/// A task's queries and the means to watch and stop them.
#[derive(Debug)]
pub struct Task {
    environment: TaskEnvironment,
    queries: Vec<(QueryDefinition, Arc<QueryState>, Uuid)>,
    events: broadcast::Sender<QueryEvent>,
    stop: watch::Sender<StopRequest>,
}

/// Events kept for a listener that lags, before it loses the oldest.
const EVENT_QUEUE: usize = 1024;

impl Task {
    /// A task that is about to run.
    pub fn new(environment: TaskEnvironment, definitions: Vec<QueryDefinition>) -> Self {
        let (events, _) = broadcast::channel(EVENT_QUEUE);
        let queries = definitions
            .into_iter()
            .map(|definition| {
                let run_id = Uuid::new_v4();
                let recent = definition.session.num_recent_progress_updates as usize;
                let state = Arc::new(QueryState::new(&definition.name, run_id, recent, events.clone()));
                (definition, state, run_id)
            })
            .collect();
        Self { environment, queries, events, stop: watch::Sender::new(StopRequest::None) }
    }

    /// The states of all queries, in manifest order.
    pub fn states(&self) -> Vec<Arc<QueryState>> {
        self.queries.iter().map(|(_, state, _)| Arc::clone(state)).collect()
    }

    /// A receiver of all events from now on.
    pub fn events(&self) -> broadcast::Receiver<QueryEvent> {
        self.events.subscribe()
    }

    /// The sender that events come from, for interfaces that subscribe later.
    pub fn event_source(&self) -> broadcast::Sender<QueryEvent> {
        self.events.clone()
    }

    /// The switch that ends the task at batch boundaries.
    pub fn stopper(&self) -> watch::Sender<StopRequest> {
        self.stop.clone()
    }

    /// Runs all queries to the end of the attempt. `stop_timeout` bounds the
    /// wait for siblings and for a stop; what is still running then is dropped.
    pub async fn run(self, stop_timeout: watch::Receiver<Duration>) -> ExitReport {
        let epoch = self.environment.epoch;
        let mut running = JoinSet::new();
        for (definition, state, run_id) in &self.queries {
            let (definition, environment) = (definition.clone(), self.environment.clone());
            let (state, run_id, stop) = (Arc::clone(state), *run_id, self.stop.subscribe());
            running.spawn(run_query(definition, environment, state, run_id, stop));
        }
        let mut report: Option<ExitReport> = None;
        let mut is_stopped = false;
        let mut stopped = self.stop.subscribe();
        let mut deadline: Option<tokio::time::Instant> = None;
        loop {
            let wait_deadline = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let asked = async {
                let _ = stopped.wait_for(|request| *request != StopRequest::None).await;
            };
            tokio::select! {
                joined = running.join_next() => match joined {
                    None => break,
                    Some(joined) => match outcome(joined) {
                        Ok((_, QueryEnd::Completed)) => {}
                        Ok((_, QueryEnd::Stopped)) => is_stopped = true,
                        Err((query, batch, error)) => {
                            report.get_or_insert_with(|| ExitReport { query, batch, ..failed(&error, epoch) });
                            self.stop.send_replace(StopRequest::AtBoundary);
                        }
                    },
                },
                () = asked, if deadline.is_none() => {
                    deadline = Some(tokio::time::Instant::now() + *stop_timeout.borrow());
                }
                () = wait_deadline => {
                    tracing::warn!("queries did not reach a batch boundary within the stop timeout; they are dropped");
                    running.abort_all();
                    is_stopped = true;
                    break;
                }
            }
        }
        let class = if is_stopped { ExitClass::Stopped } else { ExitClass::Completed };
        let last_commit_ms = self.queries.iter().filter_map(|(_, state, _)| state.snapshot().last_commit_ms).min();
        ExitReport { last_commit_ms, ..report.unwrap_or_else(|| ExitReport::new(class, epoch)) }
    }
}

type QueryOutcome = std::result::Result<(String, QueryEnd), (Option<String>, Option<u64>, Error)>;

fn outcome(joined: std::result::Result<QueryOutcome, tokio::task::JoinError>) -> QueryOutcome {
    joined.unwrap_or_else(|error| {
        let failure = Error::retryable("QUERY_PANICKED", "a query ended by a panic; see the log").with_source(error);
        tracing::error!(error = %failure, "query failed");
        Err((None, None, failure))
    })
}

async fn run_query(
    definition: QueryDefinition,
    environment: TaskEnvironment,
    state: Arc<QueryState>,
    run_id: Uuid,
    stop: watch::Receiver<StopRequest>,
) -> QueryOutcome {
    let ended = driver::run(&definition, &environment, Arc::clone(&state), run_id, stop).await;
    let message = match &ended {
        Ok(_) => "Stopped".to_owned(),
        Err(error) => format!("Terminated with exception: {error}"),
    };
    state.update(|snapshot| {
        snapshot.is_active = false;
        snapshot.status.message = message;
        snapshot.status.is_data_available = false;
        snapshot.status.is_trigger_active = false;
        snapshot.exception = ended.as_ref().err().map(ToString::to_string);
    });
    let snapshot = state.snapshot();
    state.publish(QueryEvent::Terminated {
        id: snapshot.id.unwrap_or_default(),
        run_id,
        exception: snapshot.exception.clone(),
        error_class_on_exception: ended.as_ref().err().map(|e| e.condition().to_owned()),
    });
    match ended {
        Ok(end) => Ok((definition.name, end)),
        Err(error) => {
            tracing::error!(query = definition.name, %error, "query failed");
            Err((Some(definition.name), snapshot.batch_id, error))
        }
    }
}
