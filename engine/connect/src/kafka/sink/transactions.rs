//! Exactly once: each batch is a transaction that carries its own record (protocol.md section 5).
//!
//! Decides when a transaction begins and ends and what its marker says. A batch
//! that takes long is committed in steps: at a moment when every lane is between
//! two slices (`gate`), with the positions that the source's partitions have
//! reached, from which a later run goes on.
//!
//! Invariants: a transaction is committed only together with a marker that
//! accounts for all of its records; a producer that was displaced is never made
//! ready again in its process; where it is not known whether a transaction was
//! committed, nothing is sent after it: the process ends, its successor reads
//! the marker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use weir_core::checkpoint::Fence;
use weir_core::{Error, Result};

use super::marker::{Marker, PartOfBatch, cut_of};
use super::session::Session;
use super::trouble;
use crate::sink::{BatchId, Standing};

/// The transactional id, and the name of the group that holds the marker.
pub fn transactional_id(query_id: uuid::Uuid) -> String {
    format!("weir-{query_id}")
}

/// The transactions of one query's producer.
pub struct Transactions {
    session: Session,
    fence: Fence,
    /// How long a transaction may be open before its batch takes a step.
    step_after: Duration,
    state: Mutex<State>,
    /// Held for reading by each lane within a slice.
    gate: Arc<RwLock<()>>,
}

#[derive(Default)]
struct State {
    /// Since when a transaction is open.
    open_since: Option<Instant>,
    /// Whether that is a renewal which failed: it holds no records.
    is_renewing: bool,
    /// The newest marker that is known to be committed.
    marker: Option<Marker>,
    /// When it was written by this process.
    written: Option<Instant>,
    /// How far the batch that is written has come.
    under_way: Option<PartOfBatch>,
    /// Whether no marker can hold how far it has come.
    is_too_large: bool,
}

impl Transactions {
    /// The transactions of a session that has not begun.
    pub fn new(session: Session, fence: Fence, step_after: Duration) -> Self {
        Self { session, fence, step_after, state: Mutex::default(), gate: Arc::default() }
    }

    /// Runs what may wait for brokers on a thread of its own, and says why it failed: a producer that lost its place to a
    /// successor is fenced, whatever the client says.
    pub async fn run<T: Send + 'static>(self: &Arc<Self>, step: impl FnOnce(&Self) -> Result<T> + Send + 'static) -> Result<T> {
        let transactions = Arc::clone(self);
        let ended = tokio::task::spawn_blocking(move || step(&transactions)).await;
        let died = |e| Err(Error::retryable("KAFKA_TRANSACTION_FAILED", "the thread of a transaction ended early").with_source(e));
        match ended.unwrap_or_else(died) {
            Ok(done) => Ok(done),
            Err(error) => Err(self.reason_of(error).await),
        }
    }

    /// The fence's word, where it has one.
    pub async fn reason_of(&self, error: Error) -> Error {
        match self.fence.check().await {
            Err(fenced) if fenced.highest_epoch().is_some() => fenced,
            _ => error,
        }
    }

    /// Whether the coordinator has not answered for a while.
    pub fn is_silent(&self) -> bool {
        self.session.is_silent()
    }

    /// Makes this producer the only one of the query.
    pub fn begin_session(&self) -> Result<()> {
        self.session.displace_others()
    }

    /// Which topic it is that has the name.
    pub fn topic_id(&self) -> Result<Option<String>> {
        self.session.topic_id()
    }

    /// The newest batch that took effect as a whole.
    pub fn recorded(&self) -> Result<Option<u64>> {
        let marker = self.session.read_marker()?;
        let recorded = marker.as_ref().and_then(|marker| marker.batch);
        self.state().marker = marker;
        Ok(recorded)
    }

    /// Takes the record up where the checkpoint stands. Where there is none yet, one is written before the first batch, so
    /// that a later look can tell a record that was lost from a batch that was never committed.
    pub fn resume(&self, standing: Standing) -> Result<()> {
        let mut state = self.state();
        let (id, topic) = (&self.session.id, &self.session.topic);
        let Standing { committed, in_doubt, is_new } = standing;
        match (&state.marker, in_doubt) {
            (Some(marker), _) if marker.batch < committed && !is_new => Err(trouble::marker_behind(id, topic, marker.batch, committed)),
            (Some(_), _) => Ok(()),
            (None, Some(batch)) if !is_new => Err(trouble::marker_lost(id, topic, batch)),
            (None, _) => {
                self.open(&mut state)?;
                self.write(&mut state, Marker { epoch: self.fence.epoch(), batch: committed, part: None })
            }
        }
    }

    /// Begins a batch, or goes on with it: how far it has come in earlier steps.
    pub fn begin_batch(&self, batch: u64, partitions: &[String]) -> Result<BTreeMap<usize, u64>> {
        let mut state = self.state();
        let cut = cut_of(partitions);
        let earlier = state.marker.as_ref().and_then(|marker| marker.part.as_ref()).filter(|part| part.batch == batch);
        if earlier.is_some_and(|part| part.cut != cut) {
            return Err(trouble::cut_otherwise(batch));
        }
        let reached = earlier.map(|part| part.reached.clone()).unwrap_or_default();
        state.under_way = Some(PartOfBatch { batch, cut, reached: reached.clone() });
        state.is_too_large = false;
        Ok(reached)
    }

    /// Makes sure that a transaction is open for the records to come.
    pub fn make_ready(&self) -> Result<()> {
        self.open(&mut self.state())
    }

    /// A lane begins a slice; it ends when the guard is dropped.
    pub async fn within_a_slice(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.gate).read_owned().await
    }

    /// The records sent so far are all of a partition up to a position. Says whether a step is due.
    pub fn reached(&self, partition: usize, position: u64) -> bool {
        let mut state = self.state();
        let Some(part) = &mut state.under_way else { return false };
        part.reached.insert(partition, position);
        self.is_step_due(&state)
    }

    /// Commits what the lanes have sent, once each of them is between two slices.
    pub async fn take_step(self: &Arc<Self>) -> Result<()> {
        let _between_slices = Arc::clone(&self.gate).write_owned().await;
        self.run(Self::step).await
    }

    fn step(&self) -> Result<()> {
        let mut state = self.state();
        // Another lane may have been here before.
        if !self.is_step_due(&state) {
            return Ok(());
        }
        let batch = state.marker.as_ref().and_then(|marker| marker.batch);
        let marker = Marker { epoch: self.fence.epoch(), batch, part: state.under_way.clone() };
        if marker.to_offsets(&self.session.topic)?.is_none() {
            tracing::warn!("the batch has too many partitions to take effect in steps; it must be over within transaction.timeout.ms");
            state.is_too_large = true;
            return Ok(());
        }
        self.write(&mut state, marker)?;
        self.open(&mut state)
    }

    fn is_step_due(&self, state: &State) -> bool {
        !state.is_too_large && state.under_way.is_some() && state.open_since.is_some_and(|since| since.elapsed() >= self.step_after)
    }

    /// Commits what is left of the batch. False when the batch had been committed before: then nothing more becomes visible.
    pub fn commit(&self, batch: &BatchId) -> Result<bool> {
        let mut state = self.state();
        self.open(&mut state)?;
        if state.marker.as_ref().and_then(|marker| marker.batch).is_some_and(|recorded| recorded >= batch.batch) {
            state.open_since = None;
            self.session.abort(None)?;
            return Ok(false);
        }
        self.write(&mut state, Marker { epoch: batch.epoch, batch: Some(batch.batch), part: None })?;
        state.under_way = None;
        Ok(true)
    }

    /// Writes the marker again when the last writing is longer ago than `age`; says whether it did.
    pub fn renew(&self, age: Duration) -> Result<bool> {
        let mut state = self.state();
        let is_due = state.written.is_none_or(|written| written.elapsed() >= age);
        let is_free = state.open_since.is_none() || state.is_renewing;
        let Some(marker) = state.marker.clone().filter(|_| is_due && is_free) else { return Ok(false) };
        self.open(&mut state)?;
        state.is_renewing = true;
        self.write(&mut state, marker)?;
        Ok(true)
    }

    /// Ends a renewal that failed. Its commit may have been begun, and may even have taken effect, so it is gone on with: a renewal says
    /// nothing new. Only what cannot be committed is aborted.
    fn end_renewal(&self, state: &mut State) -> Result<()> {
        self.session.commit().or_else(|_| self.session.abort(None))?;
        (state.open_since, state.is_renewing) = (None, false);
        Ok(())
    }

    /// Ends an open transaction without effect, unless a call is under way; the next session ends it otherwise.
    pub fn abandon(&self, patience: Duration) -> Result<()> {
        let Ok(mut state) = self.state.try_lock() else { return Ok(()) };
        if state.open_since.take().is_some() { self.session.abort(Some(patience)) } else { Ok(()) }
    }

    fn open(&self, state: &mut State) -> Result<()> {
        if state.is_renewing {
            self.end_renewal(state)?;
        }
        if state.open_since.is_none() {
            self.session.begin()?;
            state.open_since = Some(Instant::now());
        }
        Ok(())
    }

    fn write(&self, state: &mut State, marker: Marker) -> Result<()> {
        let offsets = marker.to_offsets(&self.session.topic)?;
        let offsets =
            offsets.ok_or_else(|| Error::config("KAFKA_MARKER_TOO_LARGE", "the record of a batch is larger than brokers take"))?;
        self.session.commit_with(&offsets)?;
        (state.open_since, state.is_renewing) = (None, false);
        state.marker = Some(marker);
        state.written = Some(Instant::now());
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
