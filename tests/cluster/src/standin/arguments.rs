//! The arguments of `weir task` and `weir check` as far as the stand-in uses them.
//!
//! What it does not know is passed over, so that the engine may gain arguments.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Command {
    Task(TaskArguments),
    Check(Vec<PathBuf>),
}

/// `weir task`.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskArguments {
    pub files: Vec<PathBuf>,
    pub job: String,
    pub namespace: String,
    pub task: String,
    pub epoch: u64,
    pub job_uid: String,
    pub pod_uid: Option<String>,
    pub listen: SocketAddr,
    pub termination_log: PathBuf,
}

const FLAGS: [&str; 5] = ["--events", "--available-now", "--sealed", "--help", "--version"];

/// Reads them.
pub fn parse(arguments: Vec<String>) -> Result<Command, String> {
    let mut words = arguments.into_iter();
    let mut command = None;
    let mut files = Vec::new();
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        if let Some((name, value)) = word.strip_prefix("--").and_then(|rest| rest.split_once('=')) {
            options.push((format!("--{name}"), value.to_owned()));
        } else if FLAGS.contains(&word.as_str()) {
        } else if word.starts_with('-') && word != "-" {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            options.push((word, value));
        } else if command.is_none() {
            command = Some(word);
        } else {
            files.push(PathBuf::from(word));
        }
    }
    let option = |name: &str| options.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let needed = |name: &str| option(name).ok_or_else(|| format!("{name} is needed"));
    match command.as_deref() {
        Some("check") => Ok(Command::Check(files)),
        Some("task") => Ok(Command::Task(TaskArguments {
            files,
            job: needed("--job")?,
            namespace: option("--namespace").unwrap_or_else(|| "default".to_owned()),
            task: needed("--task")?,
            epoch: needed("--epoch")?.parse().map_err(|_| "--epoch is no number".to_owned())?,
            job_uid: needed("--job-uid")?,
            pod_uid: option("--pod-uid").or_else(|| std::env::var("WEIR_POD_UID").ok()),
            listen: option("--listen")
                .unwrap_or_else(|| "127.0.0.1:0".to_owned())
                .parse()
                .map_err(|_| "--listen is no address".to_owned())?,
            termination_log: option("--termination-log").unwrap_or_else(|| "/dev/termination-log".to_owned()).into(),
        })),
        other => Err(format!("the stand-in knows `task` and `check`, not {other:?}")),
    }
}
