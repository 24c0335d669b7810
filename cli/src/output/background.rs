//! Lines written by a thread of their own, so that nobody waits for a reader.
//!
//! A terminal that is stopped or a pipe that nobody reads blocks a write for as
//! long as it likes; the supervisor must not wait for it. Lines go into a
//! bounded queue; when it is full they are dropped and counted, and the count
//! is said once there is room again. `drain` waits a bounded time for what is
//! queued. Without `start`, lines are written where they are said.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Lines that may wait.
const QUEUE: usize = 4096;
/// Longest wait of `drain`.
const DRAIN: Duration = Duration::from_secs(1);

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

enum Message {
    Line(Stream, String),
    Drained(SyncSender<()>),
}

static WRITER: OnceLock<SyncSender<Message>> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Starts the thread; lines are queued from now on.
pub fn start() {
    let (sender, receiver) = sync_channel(QUEUE);
    if WRITER.set(sender).is_ok() {
        // Without the thread the queue fills and lines are dropped, which is what it is for.
        let _ = std::thread::Builder::new().name("output".into()).spawn(move || write_all(&receiver));
    }
}

/// Writes a line, at once or from the queue.
pub fn line(stream: Stream, text: &str) {
    let Some(writer) = WRITER.get() else {
        write(stream, text);
        return;
    };
    if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = writer.try_send(Message::Line(stream, text.to_owned())) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until what is queued is written, a second at most.
pub fn drain() {
    let Some(writer) = WRITER.get() else { return };
    let (done, wait) = sync_channel(1);
    if writer.try_send(Message::Drained(done)).is_ok() {
        let _ = wait.recv_timeout(DRAIN);
    }
}

fn write_all(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Line(stream, text) => write(stream, &text),
            Message::Drained(done) => drop(done.try_send(())),
        }
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            write(Stream::Err, &format!("{dropped} lines of output were dropped, because nobody read them"));
        }
    }
}

/// A reader that has gone is no reason to fail.
fn write(stream: Stream, text: &str) {
    let _ = match stream {
        Stream::Out => writeln!(io::stdout().lock(), "{text}"),
        Stream::Err => writeln!(io::stderr().lock(), "{text}"),
    };
}
