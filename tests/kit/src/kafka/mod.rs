//! One real Kafka broker: Apache Kafka in KRaft mode, broker and controller in one process.
//!
//! [`Broker::start`] is ready for clients when it returns. The broker keeps its port and its data over [`Broker::stop`], [`Broker::kill`] and
//! [`Broker::start_again`], so a test can take it away and bring it back. [`Broker::shared`] is one broker for all tests of a test binary;
//! tests that stop or reconfigure the broker must start their own. Topics have unique names, so tests never see each other's.

mod admin;
mod config;
mod issuer;
mod messages;
mod secured;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use tempfile::TempDir;

pub use config::BrokerOptions;
pub use issuer::Issuer;
pub use messages::{Message, ReceivedMessage, Transaction, numbered_messages};
pub use secured::{CHANGING_PASSWORD, CHANGING_USER, CONNECTION_STRING, CONNECTION_USER, SCRAM_PASSWORD, SCRAM_USER, Secured};

use crate::process::{self, Guarded};
use crate::wait::GENEROUS;
use crate::{ports, scratch, setup};

const LOG_CONFIGURATION: &str = include_str!("../../resources/kafka-log4j2.properties");
/// What `kafka-configs.sh` runs.
const CONFIGS: &str = "kafka.admin.ConfigCommand";
const STARTED: &str = "Kafka Server started";

/// A broker of this test, or of the whole test binary.
pub struct Broker {
    port: u16,
    folder: TempDir,
    heap: String,
    secured: Option<Secured>,
    process: Mutex<Option<Guarded>>,
}

impl Broker {
    /// A broker with the default options.
    pub fn start() -> Result<Broker> {
        Broker::start_with(BrokerOptions::default())
    }

    /// Formats new storage and starts a broker on it.
    pub fn start_with(options: BrokerOptions) -> Result<Broker> {
        let folder = scratch::folder("kafka")?;
        let (port, controller_port) = (ports::reserve()?, ports::reserve()?);
        let secured = options.secured.then(Secured::new).transpose()?;
        let mut own = match &secured {
            Some(secured) => secured.properties(port, controller_port, folder.path())?,
            None => BTreeMap::new(),
        };
        own.extend(options.properties);
        let properties = config::server_properties(port, controller_port, &folder.path().join("data"), &own);
        std::fs::write(folder.path().join("server.properties"), properties).context("writing server.properties")?;
        std::fs::write(folder.path().join("log4j2.properties"), LOG_CONFIGURATION).context("writing log4j2.properties")?;
        let broker = Broker { port, folder, heap: options.heap, secured, process: Mutex::new(None) };
        broker.format()?;
        broker.start_again()?;
        Ok(broker)
    }

    /// The one broker of this test binary, started by the first test that asks and ended when the process exits.
    pub fn shared() -> &'static Broker {
        static SHARED: OnceLock<Result<Broker, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let broker = Broker::start_with(BrokerOptions { secured: true, ..BrokerOptions::default() });
            let broker = broker.map_err(|error| format!("{error:#}"))?;
            scratch::at_exit(|| {
                if let Some(process) = SHARED.get().and_then(|shared| shared.as_ref().ok()?.process().take()) {
                    if scratch::a_thread_panicked() {
                        scratch::keep_log(process.name(), &process.output.lines());
                    }
                    drop(process);
                }
            });
            Ok(broker)
        });
        shared.as_ref().unwrap_or_else(|error| panic!("the shared broker did not start: {error}"))
    }

    /// `127.0.0.1:<port>`, the value for `bootstrap.servers`.
    pub fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its listeners for clients that log in; the shared broker has them.
    pub fn secured(&self) -> &Secured {
        self.secured.as_ref().expect("the broker was started with `secured`")
    }

    /// The process id while the broker runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process().as_ref().map(Guarded::id)
    }

    /// librdkafka settings that reach this broker.
    pub fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.bootstrap_servers());
        client
    }

    /// SIGTERM, and waits for the end: a controlled shutdown.
    pub fn stop(&self) -> Result<()> {
        let process = self.process().take().context("the broker is not running")?;
        process.terminate()?;
        process.wait(GENEROUS)?;
        Ok(())
    }

    /// SIGKILL: the machine is gone.
    pub fn kill(&self) -> Result<()> {
        let process = self.process().take().context("the broker is not running")?;
        process.kill_hard()?;
        Ok(())
    }

    /// SIGSTOP: connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.process().as_ref().context("the broker is not running")?.freeze()
    }

    /// SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.process().as_ref().context("the broker is not running")?.thaw()
    }

    /// Starts the broker on its old port and data, and waits until clients are served.
    pub fn start_again(&self) -> Result<()> {
        let mut slot = self.process();
        if slot.is_some() {
            bail!("the broker is running already");
        }
        let mut command = self.java()?;
        command.arg("kafka.Kafka").arg(self.folder.path().join("server.properties"));
        let process = Guarded::spawn("kafka", command)?;
        let started = process.output.wait_for("Kafka's start", GENEROUS, |line| line.contains(STARTED));
        if let Err(error) = started {
            scratch::keep_log("kafka", &process.output.lines());
            return Err(error);
        }
        *slot = Some(process);
        drop(slot);
        self.wait_until_served()
    }

    /// What the broker has logged since it was started last.
    pub fn log(&self) -> Vec<String> {
        self.process().as_ref().map(|process| process.output.lines()).unwrap_or_default()
    }

    /// Runs one of Kafka's own command line tools, such as `org.apache.kafka.tools.GetOffsetShell`; `--bootstrap-server` is added.
    pub fn tool(&self, class: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.java()?;
        command.arg(class).arg("--bootstrap-server").arg(self.bootstrap_servers()).args(arguments);
        let finished = process::run(class, command, GENEROUS)?;
        if !finished.status.success() {
            bail!("{class} ended with {}:\n{}{}", finished.status, finished.stdout, finished.stderr);
        }
        Ok(finished.stdout)
    }

    /// Gives a user of the listener with SCRAM another password.
    pub fn set_scram_password(&self, user: &str, password: &str) -> Result<()> {
        let config = format!("SCRAM-SHA-512=[password={password}]");
        let arguments = ["--alter", "--add-config", &config, "--entity-type", "users", "--entity-name", user];
        self.tool(CONFIGS, &arguments).map(drop)
    }

    fn process(&self) -> MutexGuard<'_, Option<Guarded>> {
        self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn format(&self) -> Result<()> {
        let mut command = self.java()?;
        let id = "weirweirweirweirweir-g";
        command.args(["kafka.tools.StorageTool", "format", "--standalone", "-t", id, "-c"]);
        command.arg(self.folder.path().join("server.properties"));
        if self.secured.is_some() {
            command.args(Secured::format_arguments());
        }
        let finished = process::run("kafka-format", command, GENEROUS)?;
        if !finished.status.success() {
            bail!("formatting Kafka's storage ended with {}:\n{}{}", finished.status, finished.stdout, finished.stderr);
        }
        Ok(())
    }

    fn java(&self) -> Result<Command> {
        let jars = setup::kafka_jars()?;
        let mut log_configuration = std::ffi::OsString::from("-Dlog4j2.configurationFile=");
        log_configuration.push(self.folder.path().join("log4j2.properties"));
        let mut command = Command::new("java");
        command.arg(format!("-Xmx{}", self.heap)).args(["-XX:+UseSerialGC", "-Xshare:auto", "-XX:TieredStopAtLevel=1"]);
        command.arg(log_configuration).arg("-cp").arg(jars.join("*"));
        Ok(command)
    }

    fn wait_until_served(&self) -> Result<()> {
        crate::eventually("Kafka to answer a metadata request", GENEROUS, || {
            self.brokers(Duration::from_secs(5)).ok().filter(|count| *count > 0)
        })?;
        Ok(())
    }
}
