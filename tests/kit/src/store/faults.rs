//! A proxy before a store that fails as stores do: on the request, on the way back, or late.
//!
//! Which request fails how is decided by a seed and the number of the request among those of its kind. The most dangerous faults are those in which the store did
//! what it was asked and the client does not learn it: the client asks again, and what it creates is there already.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::http::{self, Request};
use crate::ports;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 503, and nothing was done.
    SlowDown,
    /// 409 to a conditional write, and nothing was done: another one is said to be under way.
    Conflict,
    /// The connection ends without an answer, and nothing was done.
    CutBefore,
    /// It is answered late.
    Late,
    /// It is done, and the connection ends without an answer.
    CutAfter,
    /// It is done, and the connection is reset.
    ResetAfter,
    /// It is done, and the answer is 500.
    ErrorAfter,
    /// The answer breaks off.
    HalfAnAnswer,
}

use Fault::{Conflict, CutAfter, CutBefore, ErrorAfter, HalfAnAnswer, Late, ResetAfter, SlowDown};

const TO_READS: &[Fault] = &[SlowDown, CutBefore, Late, HalfAnAnswer];
const TO_WRITES: &[Fault] = &[SlowDown, CutBefore, Late, CutAfter, ResetAfter, ErrorAfter];
const TO_CREATIONS: &[Fault] = &[SlowDown, Conflict, CutBefore, Late, CutAfter, ResetAfter, ErrorAfter];

const UNSEEN: &[Fault] = &[CutAfter, ResetAfter, ErrorAfter];
/// Of so many creations one takes effect unseen.
const UNSEEN_OF: u64 = 8;

const LATENESS: Duration = Duration::from_millis(200);

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    /// A write that must not overwrite.
    Create,
}

impl Kind {
    fn of(request: &Request) -> Kind {
        match request.method.as_str() {
            "GET" | "HEAD" => Kind::Read,
            _ if request.is_conditional => Kind::Create,
            _ => Kind::Write,
        }
    }
}

/// How many requests of a hundred fail, and which.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub percent: u64,
}

impl Plan {
    /// What happens to request number `number` of its kind.
    fn fault(self, kind: Kind, number: u64) -> Option<Fault> {
        let drawn = mixed(self.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let (fails, among) = match kind {
            Kind::Read => (drawn % 100 < self.percent, TO_READS),
            Kind::Write => (drawn % 100 < self.percent, TO_WRITES),
            // In whichever order the requests come, some take effect unseen.
            Kind::Create if number % UNSEEN_OF == 2 => (self.percent > 0, UNSEEN),
            Kind::Create => (drawn % 100 < self.percent, TO_CREATIONS),
        };
        fails.then(|| among[(drawn / 100 % among.len() as u64) as usize])
    }
}

/// The finalizer of SplitMix64: every bit of the input moves every bit of the output.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A running proxy; it takes no more connections when the handle is dropped.
pub struct Faulty {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    store: u16,
    plan: Plan,
    /// Requests so far, of each kind.
    requests: [AtomicU64; 3],
    ended: AtomicBool,
    done: Mutex<BTreeMap<Fault, u64>>,
}

impl Faulty {
    /// Before the store at this port.
    pub fn before(store: u16, plan: Plan) -> Result<Faulty> {
        let port = ports::reserve()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("listening on port {port}"))?;
        let shared = Arc::new(Shared { store, plan, requests: Default::default(), ended: false.into(), done: Mutex::default() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.ended.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                // A client that is gone is no failure of the proxy.
                thread::spawn(move || shared.serve(client).unwrap_or_default());
            }
        });
        Ok(Faulty { port, shared })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// How often each fault has happened.
    pub fn done(&self) -> BTreeMap<Fault, u64> {
        self.shared.done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let Some(request) = http::read(&mut client)? else { return Ok(()) };
        let kind = Kind::of(&request);
        let fault = self.plan.fault(kind, self.requests[kind as usize].fetch_add(1, Ordering::Relaxed));
        if let Some(fault) = fault {
            *self.done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).entry(fault).or_default() += 1;
        }
        let pass_on = |request: &Request| http::pass_on(self.store, request).map(|answer| answer.bytes);
        match fault {
            None => client.write_all(&pass_on(&request)?),
            Some(Late) => {
                thread::sleep(LATENESS);
                client.write_all(&pass_on(&request)?)
            }
            Some(SlowDown) => client.write_all(&refusal("503 Slow Down", "SlowDown")),
            Some(Conflict) => client.write_all(&refusal("409 Conflict", "ConditionalRequestConflict")),
            Some(CutBefore) => Ok(()),
            Some(CutAfter) => pass_on(&request).map(drop),
            Some(ResetAfter) => {
                pass_on(&request)?;
                reset_at_the_end(&client)
            }
            Some(ErrorAfter) => {
                pass_on(&request)?;
                client.write_all(&refusal("500 Internal Server Error", "InternalError"))
            }
            Some(HalfAnAnswer) => {
                let answer = pass_on(&request)?;
                client.write_all(&answer[..answer.len() - answer.len() / 4])
            }
        }
    }
}

/// Makes the end of a connection a reset: it is given no time to linger. The standard library has no stable name for that.
fn reset_at_the_end(connection: &TcpStream) -> io::Result<()> {
    const SOL_SOCKET: c_int = 1;
    const SO_LINGER: c_int = 13;
    let no_time: [c_int; 2] = [1, 0];
    let size = std::mem::size_of_val(&no_time) as u32;
    // SAFETY: the descriptor is open as long as `connection` is borrowed, and the option's value is a `struct linger`, two ints, that is only read.
    match unsafe { setsockopt(connection.as_raw_fd(), SOL_SOCKET, SO_LINGER, no_time.as_ptr().cast(), size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

unsafe extern "C" {
    fn setsockopt(socket: c_int, level: c_int, name: c_int, value: *const c_void, size: u32) -> c_int;
}

fn refusal(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>injected</Message></Error>");
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head, body].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_what_fails_and_every_fault_comes() {
        let plan = Plan { seed: 7, percent: 20 };
        let faults = |plan: Plan, kind| -> Vec<Option<Fault>> { (0..2000).map(|number| plan.fault(kind, number)).collect() };
        for (kind, among) in [(Kind::Read, TO_READS), (Kind::Write, TO_WRITES), (Kind::Create, TO_CREATIONS)] {
            let found = faults(plan, kind);
            assert_eq!(found, faults(plan, kind));
            assert_ne!(found, faults(Plan { seed: 8, ..plan }, kind));
            let failed = found.iter().flatten().count();
            assert!((300..700).contains(&failed), "{failed}");
            assert!(among.iter().all(|fault| found.contains(&Some(*fault))), "{kind:?}");
        }
        let first = &faults(plan, Kind::Create)[..UNSEEN_OF as usize];
        assert!(first.iter().flatten().any(|fault| UNSEEN.contains(fault)));
        assert!(faults(Plan { seed: 7, percent: 0 }, Kind::Create).iter().all(Option::is_none));
    }
}
