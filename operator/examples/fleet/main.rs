//! Measures the operator with many jobs on a real API server and prints one JSON object: `bench/operator.sh` runs it.
//!
//! `WEIR_OPERATOR` names the operator's binary, the arguments the size:
//! `fleet [IDLE JOBS] [STREAMING JOBS] [FAILURES] [IDLE SECONDS]`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

mod measure;
mod percentile;
mod site;

use measure::{Size, measure};

#[tokio::main]
async fn main() -> Result<()> {
    let operator = PathBuf::from(std::env::var_os("WEIR_OPERATOR").context("WEIR_OPERATOR must name a release build of weir-operator")?);
    let given = std::env::args().skip(1).map(|argument| argument.parse::<usize>().with_context(|| format!("{argument:?} is no number")));
    let given = given.collect::<Result<Vec<usize>>>()?;
    let nth = |place: usize, default: usize| given.get(place).copied().unwrap_or(default);
    let size = Size { idle: nth(0, 10_000), streaming: nth(1, 50), failures: nth(2, 200), quiet: Duration::from_secs(nth(3, 60) as u64) };
    let figures = measure(&operator, &size).await?;
    println!("{}", serde_json::to_string_pretty(&figures)?);
    Ok(())
}
