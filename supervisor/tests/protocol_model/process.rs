//! A pod's process: claim a query's checkpoint, then run its batches.
//!
//! One step is one request to the store or the sink. Source logs, progress and
//! slices are left out. A plan begins where the plan before it ended; processes
//! of even epochs plan twice as much, so that a plan made twice shows.
//! Retention is one batch. Deleting lower claims is one step.

use crate::actions::Answer;
use crate::protocol::{Mutant, Protocol, SinkKind};
use crate::state::{Checkpoint, Effect, Facts, Process, State, Step};

/// Whether a step writes, so that its answer can be lost.
pub fn changes_something(step: Step) -> bool {
    matches!(step, Step::Owner | Step::Epoch | Step::Plan | Step::Execute | Step::Commit)
}

/// The process is over.
pub fn end(process: &mut Process, report: u8) {
    let given_up = process.given_up;
    let (job, epoch, node) = (process.job, process.epoch, process.node);
    *process = Process { job, epoch, node, given_up, report, ..Process::gone() };
}

/// Takes the process's next step; false where it would change nothing.
pub fn step(protocol: &Protocol, state: &mut State, uid: u8, answer: Answer) -> bool {
    let before = *state.process(uid);
    let (store, sink) = (state.checkpoint.clone(), state.sink.len());
    walk(protocol, state, uid);
    if answer == Answer::Heard {
        return before != *state.process(uid);
    }
    state.left.lost_answers -= 1;
    *state.process(uid) = before;
    store != state.checkpoint || sink != state.sink.len()
}

fn walk(protocol: &Protocol, state: &mut State, uid: u8) {
    let mut me = *state.process(uid);
    let store = &mut state.checkpoint;
    let fenced = store.highest_claim() > me.epoch;
    let looks = !protocol.is(Mutant::WithoutLooks) && !protocol.is(Mutant::ListBeforeSink);
    let mut exit = None;
    match me.step {
        Step::NotStarted | Step::Ended => {}
        Step::Owner if take_owner(store, me.job) => me.step = Step::Epoch,
        // Exit 21: another job's. It is not counted as a wrong refusal.
        Step::Owner => exit = Some(0),
        Step::Epoch => match &mut store.epochs[usize::from(me.epoch)] {
            0 => {
                store.epochs[usize::from(me.epoch)] = uid;
                me.step = Step::Recheck;
            }
            instance if *instance == uid => me.step = Step::Recheck,
            _ => exit = Some(store.highest_claim()),
        },
        Step::Recheck if fenced => exit = Some(store.highest_claim()),
        Step::Recheck if store.owners.last() != Some(&me.job) => exit = Some(0),
        Step::Recheck => me.step = if protocol.is(Mutant::ListBeforeSink) { Step::List } else { Step::ReadSink },
        Step::ReadSink => {
            me.facts.recorded = state.sink.last().map_or(0, |effect| effect.batch + 1);
            me.step = Step::List;
            if protocol.is(Mutant::ListBeforeSink) {
                exit = recover(protocol, state, &mut me);
            }
        }
        Step::List => {
            (me.facts.planned, me.facts.committed) = (store.planned(), store.committed());
            me.step = Step::ReadSink;
            if !protocol.is(Mutant::ListBeforeSink) {
                exit = recover(protocol, state, &mut me);
            }
        }
        Step::CleanUp => {
            let own = usize::from(me.epoch);
            store.epochs[..own].fill(0);
            store.released &= !0 << own;
            me.step = Step::Look;
        }
        // A batch boundary: a clean stop is written down.
        Step::Look if me.stop => {
            store.released |= 1 << me.epoch;
            exit = Some(0);
        }
        Step::Look | Step::LookAgain if fenced && looks => exit = Some(store.highest_claim()),
        Step::PlanTaken | Step::CommitTaken if fenced => exit = Some(store.highest_claim()),
        Step::Look if me.end > 0 => me.step = Step::LookAgain,
        Step::Look if me.batch < protocol.bounds.batches => me.step = Step::Plan,
        Step::Look => {}
        Step::Plan => {
            let entry = &mut store.offsets[usize::from(me.batch)];
            if entry.is_none() {
                me.end = me.start + 2 - me.epoch % 2;
                *entry = Some((me.start, me.end));
                planned(store, &mut me);
            } else {
                me.step = Step::PlanTaken;
            }
        }
        Step::PlanTaken => match store.offsets[usize::from(me.batch)] {
            Some(plan) => {
                (me.start, me.end) = plan;
                planned(store, &mut me);
            }
            None => me.step = Step::Plan,
        },
        Step::LookAgain => me.step = Step::Execute,
        Step::Execute => {
            let recorded = state.sink.last().is_some_and(|effect| effect.batch >= me.batch);
            let skips = recorded && protocol.sink == SinkKind::Fenced && !protocol.is(Mutant::SinkWithoutRecord);
            if !skips {
                state.sink.push(Effect { batch: me.batch, start: me.start, end: me.end, epoch: me.epoch });
            }
            me.step = Step::Commit;
        }
        Step::Commit if store.commits & 1 << me.batch != 0 => me.step = Step::CommitTaken,
        Step::Commit => {
            store.commits |= 1 << me.batch;
            next_batch(&mut me);
        }
        Step::CommitTaken => next_batch(&mut me),
    }
    if let Some(report) = exit {
        state.history.fenced |= report > me.epoch;
        end(&mut me, report);
    }
    *state.process(uid) = me;
}

/// 3.2, with the look and the create in one step; the look of 3.4 makes up for what lies between.
fn take_owner(store: &mut Checkpoint, job: u8) -> bool {
    let released = match store.highest_claim() {
        0 => true,
        claim => store.released & 1 << claim != 0,
    };
    match store.owners.last() {
        Some(owner) if *owner == job => true,
        Some(_) if !released => false,
        _ => {
            store.owners.push(job);
            true
        }
    }
}

fn planned(store: &mut Checkpoint, me: &mut Process) {
    if let Some(purged) = me.batch.checked_sub(2) {
        store.offsets[usize::from(purged)] = None;
        store.commits &= !(1 << purged);
    }
    me.step = Step::LookAgain;
}

fn next_batch(me: &mut Process) {
    (me.batch, me.start, me.end) = (me.batch + 1, me.end, 0);
    me.step = Step::Look;
}

/// 3.6 once everything is read; a refusal of one that is fenced is a fence (exit 22), as the engine has it.
fn recover(protocol: &Protocol, state: &mut State, me: &mut Process) -> Option<u8> {
    let Facts { recorded, planned, committed } = std::mem::take(&mut me.facts);
    let behind = protocol.is(Mutant::BehindReadOnce) && recorded < committed;
    let newest = planned.checked_sub(1).map(|newest| state.checkpoint.offsets[usize::from(newest)]);
    let refused = recorded > planned || committed > planned || behind || newest == Some(None);
    if refused {
        let highest = state.checkpoint.highest_claim();
        state.history.refused |= highest <= me.epoch;
        return Some(if highest > me.epoch { highest } else { 0 });
    }
    me.step = Step::CleanUp;
    if let Some(Some((start, end))) = newest {
        let done = committed == planned;
        (me.batch, me.start, me.end) = if done { (planned, end, 0) } else { (planned - 1, start, end) };
    }
    None
}
