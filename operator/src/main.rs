//! `weir-operator`: the controller, and what is needed to install it without Helm.
//!
//! Reads arguments and environment once and hands them on as values.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use weir_operator::authority::Authority;
use weir_operator::clock::{Clock, SystemClock};
use weir_operator::events::EventSink;
use weir_operator::http::{self, Health};
use weir_operator::install::{self, InstallOptions};
use weir_operator::lease::{Durations, Identity, KubeLease, LeaseHolder};
use weir_operator::metrics::Metrics;
use weir_operator::operator::{self, Services};
use weir_operator::rbac::{Installation, LEASE, Scope, SecretAccess};
use weir_operator::settings::Settings;
use weir_operator::telemetry::{self, LogFormat};
use weir_operator::{budget, key, schema, values};

/// Keeps StreamingJobs running: the controller, and what is needed to install it.
#[derive(Debug, Parser)]
#[command(
    name = "weir-operator",
    version,
    after_help = "Example:\n  weir-operator manifests --image weir:0.1.0 | kubectl apply --server-side -f -"
)]
struct Arguments {
    /// The command.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller, with in-cluster credentials or KUBECONFIG.
    Run(Box<RunArguments>),
    /// Print the CustomResourceDefinition.
    Crd,
    /// Print the rights that the controller needs.
    Rbac(InstallArguments),
    /// Print a whole installation.
    Manifests {
        /// Image of the operator, and of jobs that name none.
        #[arg(long, env = "WEIR_IMAGE", value_parser = values::image)]
        image: String,
        /// Where and for whom.
        #[command(flatten)]
        install: InstallArguments,
    },
}

#[derive(Debug, Args)]
struct InstallArguments {
    /// The operator's own namespace.
    #[arg(long, default_value = install::DEFAULT_NAMESPACE, value_parser = values::namespace)]
    namespace: String,
    /// Namespaces whose jobs are looked after [default: all].
    #[arg(long, value_delimiter = ',', value_parser = values::namespace)]
    namespaces: Vec<String>,
    /// Let the operator read Secrets, for `onChange: Restart`.
    #[arg(long)]
    watch_secrets: bool,
}

impl InstallArguments {
    fn installation(&self) -> Installation {
        Installation { namespace: self.namespace.clone(), scope: scope(&self.namespaces), secrets: secrets(self.watch_secrets) }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir-operator run --image weir:0.1.0 --namespaces analytics,ingest --no-leader-election")]
struct RunArguments {
    /// Namespaces whose jobs are looked after [default: all].
    #[arg(long, value_delimiter = ',', value_parser = values::namespace)]
    namespaces: Vec<String>,
    /// Read Secrets, for `onChange: Restart`.
    #[arg(long)]
    watch_secrets: bool,
    /// Address of /metrics, /livez and /readyz.
    #[arg(long, default_value = http::DEFAULT_ADDRESS)]
    metrics_address: SocketAddr,
    /// Image of jobs that name none.
    #[arg(long, env = "WEIR_IMAGE", value_parser = values::image)]
    image: String,
    /// The operator's own namespace.
    #[arg(long, env = "POD_NAMESPACE", default_value = install::DEFAULT_NAMESPACE, value_parser = values::namespace)]
    namespace: String,
    /// Name of this process among the candidates.
    #[arg(long, env = "POD_NAME", default_value = "weir-operator", value_parser = values::instance)]
    instance: String,
    /// The program that checks manifests.
    #[arg(long, env = "WEIR_CHECKER", default_value = "weir", value_name = "FILE")]
    checker: PathBuf,
    /// Checks of manifests that run at once. The memory limit of the container has to hold them.
    #[arg(long, default_value_t = budget::CHECKS, value_parser = clap::value_parser!(u16).range(1..=256))]
    checks_at_once: u16,
    /// Act without an election: for a single process.
    #[arg(long)]
    no_leader_election: bool,
    /// How long a leader that falls silent keeps the lease; it stops by itself after two thirds of that.
    #[arg(long, default_value = "15s", conflicts_with = "no_leader_election", value_parser = values::lease)]
    lease_duration: Durations,
    /// How often a running task is asked for its progress.
    #[arg(long, default_value = "10s", value_parser = values::poll_interval)]
    poll_interval: Duration,
    /// Least time between two status writes whose progress alone has changed.
    #[arg(long, default_value = "30s", value_parser = values::progress_interval)]
    progress_interval: Duration,
    /// Jobs that are looked at side by side.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// Format of the log lines on stderr.
    #[arg(long, value_enum, default_value = "json", env = "WEIR_LOG_FORMAT")]
    log_format: LogFormat,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => run(*arguments),
        Command::Crd => print(&install::crd()),
        Command::Rbac(install) => print(&install::rbac(&install.installation())),
        Command::Manifests { image, install } => {
            print(&install::manifests(&InstallOptions { image, installation: install.installation() }))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Also where nobody reads it, the exit code is told.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(10)
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    weir_crds::departing::print(text).context("writing to stdout")
}

fn scope(namespaces: &[String]) -> Scope {
    if namespaces.is_empty() { Scope::Cluster } else { Scope::Namespaces(namespaces.iter().cloned().collect()) }
}

fn secrets(watch: bool) -> SecretAccess {
    if watch { SecretAccess::Watch } else { SecretAccess::None }
}

fn run(arguments: RunArguments) -> anyhow::Result<()> {
    telemetry::init(arguments.log_format, std::env::var(telemetry::FILTER_VARIABLE).ok().as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the async runtime")?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: RunArguments) -> anyhow::Result<()> {
    let client = kube::Client::try_default().await.context("no credentials: run in a pod with a service account, or set KUBECONFIG")?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(obey(stop));
    let settings = Settings {
        secrets: secrets(arguments.watch_secrets),
        checker: arguments.checker,
        checks_at_once: arguments.checks_at_once.into(),
        poll_interval: arguments.poll_interval,
        progress_interval: arguments.progress_interval,
        concurrency: arguments.concurrency,
        ..Settings::new(format!("{}/{}", arguments.namespace, LEASE), scope(&arguments.namespaces), arguments.image)
    };
    let metrics = Metrics::default();
    let health = Arc::new(Health::default());
    let (listener, address) = http::listen(arguments.metrics_address).await?;
    tracing::info!(%address, "metrics and health");
    let events = EventSink::start(client.clone(), &arguments.instance);
    let told = events.clone();
    let totals: http::BeforeScrape = Arc::new(move |metrics| metrics.operator.events(told.dropped(), told.failed()));
    tokio::spawn(http::serve(listener, metrics.clone(), Arc::clone(&health), totals));
    let asked = async {
        schema::report(&client, &metrics).await;
        key::read_or_create(client.clone(), &arguments.namespace, rand::random()).await
    };
    let mut told = stopped.clone();
    let key = tokio::select! {
        key = asked => key?,
        // An API server that does not answer is no reason to ignore an order to stop.
        _ = told.wait_for(|stop| *stop) => return Ok(()),
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (_jumps, jumps) = watch::channel(0);
    let (done, finished) = watch::channel(false);
    let (authority, election) = if arguments.no_leader_election {
        health.leadership(&operator::endless());
        metrics.operator.leads(true);
        (Authority::Alone, None)
    } else {
        let lease = KubeLease::new(client.clone(), &arguments.namespace, LEASE);
        let me = Identity::new(&arguments.instance, rand::random());
        let mut finished = finished;
        let over = async move {
            // The lease is released once nothing acts on it any more.
            let _ = finished.wait_for(|done| *done).await;
        };
        let (leadership, holder) = LeaseHolder::run(lease, me, arguments.lease_duration, Arc::clone(&clock), over);
        tokio::spawn(operator::tell_leadership(leadership.clone(), metrics.clone(), Arc::clone(&health)));
        (Authority::Elected(leadership), Some(holder))
    };
    let services = Services { client, settings, clock, jumps, key, authority, instance: arguments.instance, metrics, health };
    operator::run_telling(services, events, stopped).await?;
    done.send_replace(true);
    if let Some(holder) = election {
        let _ = holder.await;
    }
    Ok(())
}

async fn obey(stop: watch::Sender<bool>) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else { return };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping; jobs go on, the next operator finds them");
    stop.send_replace(true);
    // Held, so that the operator's receiver stays open until the end.
    stop.closed().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the command line says to a refused value.
    fn refusal(line: &str) -> String {
        let words = line.split(' ').map(|word| if word == "''" { "" } else { word });
        Arguments::try_parse_from(words).expect_err(line).to_string()
    }

    #[test]
    fn values_without_sense_are_refused_with_what_is_allowed() {
        for (line, allowed) in [
            ("weir-operator manifests --image ''", "[REGISTRY[:PORT]/]NAME"),
            ("weir-operator manifests --image weir --namespace A_B", "a namespace is 1 to 63 lower-case letters"),
            ("weir-operator manifests --image weir --namespaces a,,b", "a namespace is"),
            ("weir-operator rbac --namespaces ''", "a namespace is"),
            ("weir-operator rbac --namespace x.y", "a namespace is"),
            ("weir-operator run --image we@ir", "[REGISTRY[:PORT]/]NAME"),
            ("weir-operator run --image weir --namespaces A", "a namespace is"),
            ("weir-operator run --image weir --instance A_B", "the name of a pod is"),
            ("weir-operator run --image weir --poll-interval 0s", "it must be 100ms to 3600s"),
            ("weir-operator run --image weir --progress-interval 0s", "it must be 1s to 3600s"),
            ("weir-operator run --image weir --lease-duration 0s", "it must be 1s to 3600s"),
            ("weir-operator run --image weir --concurrency 0", "1..=1024"),
            ("weir-operator run --image weir --checks-at-once 0", "1..=256"),
            ("weir-operator run --image weir --checker ''", "a value is required"),
            ("weir-operator run --image weir --metrics-address 8081", "invalid socket address"),
        ] {
            let said = refusal(line);
            assert!(said.contains(allowed), "{line}: {said}");
        }
        let line = ["weir-operator", "manifests", "--image", "weir", "--namespace", "A B"];
        assert!(Arguments::try_parse_from(line).is_err(), "a name with a blank");
    }

    #[test]
    fn values_that_make_sense_are_taken() {
        let line =
            "weir-operator run --image r.example:5000/weir:1 --namespaces a,b --poll-interval 300ms --lease-duration 12s --concurrency 8";
        let Command::Run(run) = Arguments::try_parse_from(line.split(' ')).expect(line).command else { panic!("{line}") };
        assert_eq!((run.namespaces, run.poll_interval), (vec!["a".to_owned(), "b".to_owned()], Duration::from_millis(300)));
        assert_eq!(run.lease_duration.lease(), Duration::from_secs(12));
    }
}
