//! The benchmark of many jobs in a small form, for its correctness only.

use std::path::Path;
use std::time::Duration;

#[path = "../../examples/fleet/measure.rs"]
mod measure;
#[path = "../../examples/fleet/percentile.rs"]
mod percentile;
#[path = "../../examples/fleet/site.rs"]
mod site;

#[tokio::test(flavor = "multi_thread")]
async fn idle_jobs_are_left_alone_and_failed_pods_are_replaced() {
    let size = measure::Size { idle: 200, streaming: 3, failures: 6, quiet: Duration::from_secs(5) };
    let figures = measure::measure(Path::new(env!("CARGO_BIN_EXE_weir-operator")), &size).await.unwrap();
    assert_eq!(figures.writes_to_idle_jobs, 0, "{figures:#?}");
    assert_eq!(figures.writes_of_others.values().sum::<usize>(), 0, "{figures:#?}");
    assert!(figures.replacements == 6 && figures.replacement_max_ms > 0.0, "{figures:#?}");
}

#[test]
fn a_percentile_is_the_nearest_rank() {
    let samples: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
    assert_eq!(percentile::percentile(&samples, 99), Duration::from_millis(198));
    assert_eq!(percentile::percentile(&samples, 100), Duration::from_millis(200));
    assert_eq!(percentile::percentile(&[], 99), Duration::ZERO);
}
