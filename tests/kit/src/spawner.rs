//! Starts children from one thread that lives as long as the process.
//!
//! The kernel sends the parent-death signal when the *thread* that made the child ends, and the test harness runs each test in a thread of
//! its own; a broker shared by several tests would die with the first of them. So this thread makes all children. It ends only with the
//! process, by whatever death, and then the kernel kills what is left.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

/// Starts the command in a process group of its own, to be killed when this process ends.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = channel::<Order>();
        thread::Builder::new()
            .name("spawner".into())
            .spawn(move || {
                for Order { command, answer } in receiver {
                    // The asking thread may have panicked meanwhile; then the child's handle is dropped and the parent-death signal cares.
                    let _ = answer.send(start(command));
                }
            })
            .expect("a test process can start one thread");
        Mutex::new(sender)
    });
    let (answer, result) = channel();
    orders
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .send(Order { command, answer })
        .expect("the spawner's thread never ends");
    result.recv().expect("the spawner answers every order")
}

fn start(mut command: Command) -> io::Result<Child> {
    let parent = getpid();
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes only two direct system calls and allocates nothing on the way to success.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
    command.spawn()
}
