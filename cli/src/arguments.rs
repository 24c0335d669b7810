//! The command line: one struct per command, an example in each help text.
//!
//! Parsing only; what a command does is in `commands`. Usage errors are clap's
//! and exit with 2.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use weir_crds::manifest::Triggers;

use crate::terminal::LogFormat;

/// Keeps streaming jobs alive: runs, checks and shows StreamingJob manifests.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = "Example:\n  weir run job.yaml")]
pub struct Arguments {
    /// Format of the log lines on stderr.
    #[arg(long, global = true, value_enum, default_value = "text", env = "WEIR_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the jobs of manifests on this machine, under the operator's own supervisor.
    Run(RunArguments),
    /// Check manifests: everything that can be known without reading data.
    Check(CheckArguments),
    /// Run one task of one job under a given epoch (the pod's entry point).
    Task(TaskArguments),
    /// Show the jobs that run, or ran, on this machine.
    Status(StatusArguments),
    /// Look into a checkpoint.
    Checkpoint(CheckpointArguments),
    /// Run a SQL query over tables that the connectors can read.
    Sql(SqlArguments),
    /// Print a shell completion script.
    #[command(after_help = "Example:\n  weir completion bash > /etc/bash_completion.d/weir")]
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// How `weir run` shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressStyle {
    /// A live line per query on a terminal, plain lines elsewhere.
    Auto,
    /// A live line per query.
    Bar,
    /// One JSON event a line on stdout.
    Json,
    /// Nothing.
    None,
}

/// Arguments of `weir run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  weir run job.yaml\n  weir run job.yaml --once --available-now -p env=dev --progress json")]
pub struct RunArguments {
    /// Manifests: StreamingJobs, and the Secrets and ConfigMaps they use; - is standard input, read once.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Run once and exit by the class of the run's last failure; also with 20 where the manifest is refused and its last good generation ran.
    #[arg(long)]
    pub once: bool,
    /// Replace every query's trigger with availableNow for this run.
    #[arg(long)]
    pub available_now: bool,
    /// Set a parameter of the manifests.
    #[arg(short = 'p', long = "parameter", value_name = "K=V", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// Where Secrets and ConfigMaps are files: DIR/<name>/<key>.
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// How to show progress.
    #[arg(long, value_enum, default_value = "auto")]
    pub progress: ProgressStyle,
    /// Where the state of jobs is kept [default: .weir beside the manifest].
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// How `weir check` prints what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckOutput {
    /// For people.
    Text,
    /// A JSON array.
    Json,
}

/// Arguments of `weir check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir check job.yaml -o json\n  helm template jobs | weir check -")]
pub struct CheckArguments {
    /// Manifests; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Format of the findings.
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: CheckOutput,
    /// Set a parameter of the manifests.
    #[arg(short = 'p', long = "parameter", value_name = "K=V", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// Judge the manifest alone: open no file and no store that it names. What depends on them is left to the task.
    #[arg(long)]
    pub sealed: bool,
    /// End when the process with this id is not the parent any more.
    #[arg(long, value_name = "PID")]
    pub die_with: Option<i32>,
    /// Judge as `weir run` does, for which this check is made: references are here or missing, and the refusal is one error.
    #[arg(long, hide = true, conflicts_with_all = ["sealed", "output"])]
    pub for_run: bool,
    /// With --for-run: where Secrets and ConfigMaps are files.
    #[arg(long, hide = true, requires = "for_run", value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// With --for-run: every query's trigger is availableNow.
    #[arg(long, hide = true, requires = "for_run")]
    pub available_now: bool,
}

/// The triggers of a run with or without `--available-now`.
pub fn triggers(available_now: bool) -> Triggers {
    if available_now { Triggers::AvailableNow } else { Triggers::AsWritten }
}

/// Arguments of `weir task`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir task --job sensors --task bronze --epoch 7 --job-uid 5f0c… job.yaml")]
pub struct TaskArguments {
    /// Manifests that hold the job and what it refers to.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The job.
    #[arg(long)]
    pub job: String,
    /// Its namespace.
    #[arg(long, default_value = "default")]
    pub namespace: String,
    /// The task.
    #[arg(long)]
    pub task: String,
    /// The epoch that the supervisor reserved for this process.
    #[arg(long)]
    pub epoch: u64,
    /// UID of the job.
    #[arg(long)]
    pub job_uid: String,
    /// UID of the pod.
    #[arg(long, env = "WEIR_POD_UID")]
    pub pod_uid: Option<String>,
    /// The highest claim of another owner's checkpoint to take over.
    #[arg(long, value_name = "EPOCH")]
    pub adopt_checkpoint: Option<u64>,
    /// Set a parameter of the manifests.
    #[arg(short = 'p', long = "parameter", value_name = "K=V", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// Where Secrets and ConfigMaps are files: DIR/<name>/<key>.
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// Replace every query's trigger with availableNow.
    #[arg(long)]
    pub available_now: bool,
    /// Address and port of the HTTP interface; an IPv6 address may stand without brackets.
    #[arg(long, default_value = "127.0.0.1:0", value_parser = socket_address)]
    pub listen: SocketAddr,
    /// Where the exit report is written.
    #[arg(long, default_value = "/dev/termination-log", value_name = "FILE")]
    pub termination_log: PathBuf,
    /// Write events as JSON text sequences (RFC 7464) to stdout, for a supervisor.
    #[arg(long)]
    pub events: bool,
    /// End when the process with this id is not the parent any more.
    #[arg(long, value_name = "PID")]
    pub die_with: Option<i32>,
    /// Most lane threads of a query [default: the machine's processors].
    #[arg(long)]
    pub lanes: Option<usize>,
}

/// How `weir status` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusOutput {
    /// The columns of `kubectl get sjob`.
    Table,
    /// More columns.
    Wide,
    /// The `.status` as YAML.
    Yaml,
    /// The `.status` as JSON.
    Json,
}

/// Arguments of `weir status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir status\n  weir status sensors -o yaml\n  weir status --context staging")]
pub struct StatusArguments {
    /// The job; all when left out.
    pub job: Option<String>,
    /// Refresh until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Format.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: StatusOutput,
    /// Read a cluster through kubectl with this context.
    #[arg(long)]
    pub context: Option<String>,
    /// Where the state of jobs is kept; `weir run` makes .weir beside the manifest.
    #[arg(long, value_name = "DIR", default_value = ".weir")]
    pub state_dir: PathBuf,
}

/// Arguments of `weir checkpoint`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir checkpoint show s3://lake/checkpoints/sensors\n  weir checkpoint verify /data/checkpoints/sensors"
)]
pub struct CheckpointArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: CheckpointAction,
}

/// What to do with a checkpoint.
#[derive(Debug, Subcommand)]
pub enum CheckpointAction {
    /// Print what a checkpoint holds.
    #[command(after_help = "Example:\n  weir checkpoint show s3://lake/checkpoints/sensors")]
    Show {
        /// The checkpoint's location.
        location: String,
    },
    /// Copy a checkpoint up to its newest committed batch; the query may be running.
    #[command(after_help = "Example:\n  weir checkpoint copy /data/checkpoints/sensors /data/checkpoints/sensors-fork --new-query-id")]
    Copy {
        /// The checkpoint's location.
        from: String,
        /// A new location.
        to: String,
        /// Make a fork: a query of its own, which no sink has recorded anything of.
        #[arg(long)]
        new_query_id: bool,
    },
    /// Look for damage; exit 21 when there is some.
    #[command(after_help = "Example:\n  weir checkpoint verify /data/checkpoints/sensors")]
    Verify {
        /// The checkpoint's location.
        location: String,
    },
}

/// How `weir sql` prints rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SqlOutput {
    /// A table.
    Table,
    /// One object a line, as Spark's `to_json` writes it.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

/// Arguments of `weir sql`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir sql \"SELECT count(*) FROM readings\" --table readings=delta:/data/readings\n  weir sql 'SELECT count(*) FROM delta.`/data/readings`'\n  weir sql \"SELECT CAST(value AS STRING) FROM t\" --table \"t=kafka:my-topic?kafka.bootstrap.servers=localhost:9092\""
)]
pub struct SqlArguments {
    /// The query, or DESCRIBE or SHOW COLUMNS IN a table; a table may also be named by its place, as in delta.`/data/readings`.
    pub query: String,
    /// A table: NAME=FORMAT:PATH, with options as NAME=FORMAT:PATH?key=value&key=value; for kafka the path is the topic. The key
    /// schema declares the columns of files, as in lines=json:/data/in?schema=id BIGINT, at TIMESTAMP.
    #[arg(long = "table", value_name = "NAME=FORMAT:PATH", value_parser = table)]
    pub tables: Vec<(String, String)>,
    /// Where the tables of a catalog are, as in a manifest's catalogs: catalog.schema.name and schema.name are Delta tables there.
    /// The first one is the default.
    #[arg(long = "catalog", value_name = "NAME=WAREHOUSE", value_parser = key_value)]
    pub catalogs: Vec<(String, String)>,
    /// A Spark setting.
    #[arg(long = "conf", value_name = "K=V", value_parser = key_value)]
    pub conf: Vec<(String, String)>,
    /// Format of the rows.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SqlOutput,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("'{text}' is not KEY=VALUE"))
}

/// A table's name and where it is; the format and its options are read where it is opened.
fn table(text: &str) -> Result<(String, String), String> {
    let name = text.split(['=', ':']).next().filter(|name| !name.is_empty()).unwrap_or("t");
    key_value(text)
        .ok()
        .filter(|(_, place)| place.contains(':'))
        .ok_or_else(|| format!("'{text}' is not NAME=FORMAT:PATH; write for example {name}=delta:/data/x"))
}

/// An address and a port. Kubernetes gives the address of a pod without brackets, whatever its family.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let split = || text.rsplit_once(':').and_then(|(address, port)| Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?)));
    text.parse().ok().or_else(split).ok_or_else(|| format!("'{text}' is not ADDRESS:PORT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_with_an_output_takes_it_in_both_forms() {
        use clap::CommandFactory;
        let command = Arguments::command();
        let with_output = |command: &&clap::Command| command.get_arguments().any(|argument| argument.get_long() == Some("output"));
        let found: Vec<_> = command.get_subcommands().filter(with_output).collect();
        assert_eq!(found.iter().map(|command| command.get_name()).collect::<Vec<_>>(), ["check", "status", "sql"]);
        for command in found {
            let output = command.get_arguments().find(|argument| argument.get_long() == Some("output"));
            assert_eq!(output.and_then(clap::Arg::get_short), Some('o'), "{}", command.get_name());
        }
    }

    #[test]
    fn a_table_has_a_name_and_a_place() {
        assert_eq!(table("t=delta:/x?a=b").as_ref().map(|(name, place)| (name.as_str(), place.as_str())), Ok(("t", "delta:/x?a=b")));
        for text in ["t", "t=/data/x", "=delta:/x", ""] {
            assert_eq!(table(text), Err(format!("'{text}' is not NAME=FORMAT:PATH; write for example t=delta:/data/x")));
        }
    }

    #[test]
    fn an_address_of_either_family_takes_a_port() {
        for (text, expected) in [
            ("10.1.2.3:8080", Some("10.1.2.3:8080")),
            ("fd00::1:8080", Some("[fd00::1]:8080")),
            ("[fd00::1]:8080", Some("[fd00::1]:8080")),
            ("fd00::1", None),
            ("10.1.2.3", None),
            (":8080", None),
            ("$(POD_IP):8080", None),
        ] {
            assert_eq!(socket_address(text).ok().map(|address| address.to_string()).as_deref(), expected, "{text}");
        }
    }
}
