//! Starts children from one thread that lives as long as the process.
//!
//! The kernel sends the parent-death signal when the *thread* that made the child ends, and the test harness runs each test in a thread of
//! its own; a broker shared by several tests would die with the first of them. So this thread makes all children. It ends only with the
//! process, by whatever death, and then the kernel kills what is left.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;

use rustix::fs::{Access, access};

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

/// Starts the command in a process group of its own, its three streams piped, to be killed when this process ends.
/// Program, arguments, folder and variables are taken from the command; `env_clear` is not, since nothing tells of it.
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

/// util-linux's `setpriv` asks for the signal and becomes the program. Asking in a `pre_exec` of ours would copy the page tables of the whole
/// test process for each child, which took a tenth of the time of the tests that start hundreds.
fn start(command: Command) -> io::Result<Child> {
    let program = Path::new(command.get_program());
    // Else it would be setpriv that fails, as a child that was started.
    if program.components().count() > 1 {
        access(program, Access::EXEC_OK)?;
    }
    let mut guarded = Command::new("/usr/bin/setpriv");
    guarded.args(["--pdeathsig", "KILL", "--"]).arg(program).args(command.get_args());
    guarded.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if let Some(folder) = command.get_current_dir() {
        guarded.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    guarded.spawn()
}
