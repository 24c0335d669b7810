//! Ports on loopback that stay ours until the process ends.
//!
//! A service that is restarted on its port must find it free, and two test processes must not choose the same one. So ports come from below
//! the range from which the kernel gives out ports by itself, and a lock on a file named after the port keeps other test processes away.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

const FIRST: u16 = 15_000;
const LAST: u16 = 29_999;

/// A port on 127.0.0.1 that nothing listens on, reserved for this process.
pub fn reserve() -> Result<u16> {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let locks = std::env::temp_dir().join("weir-test-ports");
    std::fs::create_dir_all(&locks).with_context(|| format!("creating {}", locks.display()))?;
    let count = usize::from(LAST - FIRST) + 1;
    let start = uuid::Uuid::new_v4().as_u128() as usize % count;
    for port in (0..count).map(|step| FIRST + ((start + step) % count) as u16) {
        let path = locks.join(port.to_string());
        let file = OpenOptions::new().create(true).append(true).open(&path).with_context(|| format!("opening {}", path.display()))?;
        let ours = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if ours && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            HELD.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(file);
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {LAST} on 127.0.0.1")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reserved_ports_differ() {
        let mut ports: Vec<u16> = (0..50).map(|_| reserve().unwrap()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
    }
}
