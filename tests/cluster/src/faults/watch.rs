//! Watch streams under rules: late, silent, lost, repeated or ended.
//!
//! A pump reads the real stream line by line as it comes; the disturbed stream
//! hands lines on by the rules of the moment, so a rule that is added while a
//! watch is open applies to it. One line is one event.

use std::pin::pin;

use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::Response;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch as channel;
use tokio::time::Instant;

use super::rule::WatchEffect;
use super::{Faults, Target};

type Piece = Result<Bytes, axum::Error>;

/// The response with its events under the rules.
pub fn disturb(response: Response<Body>, faults: Faults, target: Target, path: String) -> Response<Body> {
    response.map(|body| {
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(pump(body, sender));
        let rules = faults.shared.rules_changed.subscribe();
        Body::from_stream(disturbed(Gate { faults, target, path, receiver, rules, again: None }))
    })
}

/// Cuts the body into lines, each with the time of its arrival.
async fn pump(body: Body, sender: UnboundedSender<(Instant, Piece)>) {
    let mut stream = pin!(body.into_data_stream());
    let mut buffered = Vec::new();
    loop {
        let next = tokio::select! {
            () = sender.closed() => return,
            next = stream.next() => next,
        };
        match next {
            Some(Ok(bytes)) => buffered.extend_from_slice(&bytes),
            Some(Err(error)) => {
                // A reader that is gone needs no error.
                let _ = sender.send((Instant::now(), Err(error)));
                return;
            }
            None => return,
        }
        while let Some(end) = buffered.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffered.drain(..=end).collect();
            if sender.send((Instant::now(), Ok(line.into()))).is_err() {
                return;
            }
        }
    }
}

struct Gate {
    faults: Faults,
    target: Target,
    path: String,
    receiver: UnboundedReceiver<(Instant, Piece)>,
    rules: channel::Receiver<u64>,
    again: Option<Bytes>,
}

fn disturbed(gate: Gate) -> impl Stream<Item = Piece> + Send {
    stream::unfold(gate, |mut gate| async move {
        let faults = gate.faults.clone();
        tokio::select! {
            biased;
            () = faults.reached() => std::future::pending().await,
            piece = gate.next() => piece.map(|piece| (piece, gate)),
        }
    })
}

impl Gate {
    async fn next(&mut self) -> Option<Piece> {
        if let Some(line) = self.again.take() {
            return Some(Ok(line));
        }
        loop {
            let closed = closed(self.faults.clone(), self.target.clone(), self.path.clone(), self.rules.clone());
            let received = tokio::select! {
                received = self.receiver.recv() => received,
                () = closed => return None,
            };
            let Some((arrived, piece)) = received else {
                self.end().await;
                return None;
            };
            match self.admit(arrived).await {
                Admission::Ended => return None,
                Admission::Lost => {}
                Admission::Passed(copies) => {
                    if let (Copies::Two, Ok(line)) = (copies, &piece) {
                        self.again = Some(line.clone());
                    }
                    return Some(piece);
                }
            }
        }
    }

    /// Waits until the rules let the end of the stream through, which is as silent as all else.
    async fn end(&mut self) {
        loop {
            self.rules.mark_unchanged();
            if !self.effects().contains(&WatchEffect::Stall) {
                return;
            }
            // The sender lives in `self.faults`.
            let _ = self.rules.changed().await;
        }
    }

    /// Waits until the rules let an event through, or decide otherwise.
    async fn admit(&mut self, arrived: Instant) -> Admission {
        loop {
            self.rules.mark_unchanged();
            let effects = self.effects();
            if effects.contains(&WatchEffect::Close) {
                return Admission::Ended;
            }
            if effects.contains(&WatchEffect::Drop) {
                return Admission::Lost;
            }
            let delay = effects.iter().filter_map(|effect| match effect {
                WatchEffect::Delay(time) => Some(*time),
                _ => None,
            });
            let due = arrived + delay.max().unwrap_or_default();
            if effects.contains(&WatchEffect::Stall) {
                // The sender lives in `self.faults`.
                let _ = self.rules.changed().await;
                continue;
            }
            if due <= Instant::now() {
                let copies = if effects.contains(&WatchEffect::Duplicate) { Copies::Two } else { Copies::One };
                return Admission::Passed(copies);
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                _ = self.rules.changed() => {}
            }
        }
    }

    fn effects(&self) -> Vec<WatchEffect> {
        self.faults.watch_effects(&self.target, &self.path)
    }
}

/// Waits until a rule ends the stream.
async fn closed(faults: Faults, target: Target, path: String, mut rules: channel::Receiver<u64>) {
    while !faults.watch_effects(&target, &path).contains(&WatchEffect::Close) {
        // The sender lives in `faults`.
        let _ = rules.changed().await;
    }
}

enum Copies {
    One,
    Two,
}

enum Admission {
    Passed(Copies),
    Lost,
    Ended,
}
