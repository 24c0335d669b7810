//! Readiness by the container's own probe: a real HTTP GET, thresholds included.
//!
//! Only `httpGet` is played; a container without one is ready when it runs.
//! Liveness and start-up probes are not played.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::sync::{Notify, watch};

/// A readiness probe, with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    pub url: String,
    pub delay: Duration,
    pub period: Duration,
    pub timeout: Duration,
    pub failures: u32,
    pub successes: u32,
}

/// The container's probe; `interval` replaces delay and period, so that tests need not wait for seconds.
pub fn of(container: &Container, ip: Ipv4Addr, interval: Option<Duration>) -> Option<Probe> {
    let probe = container.readiness_probe.as_ref()?;
    let get = probe.http_get.as_ref()?;
    let ports = container.ports.iter().flatten();
    let port = match &get.port {
        IntOrString::Int(port) => *port,
        IntOrString::String(name) => {
            let named = ports.clone().find(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port);
            named.or_else(|| name.parse().ok())?
        }
    };
    let seconds =
        |value: Option<i32>, default: u64| Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default));
    let count = |value: Option<i32>, default: u32| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default);
    let path = get.path.as_deref().unwrap_or("/");
    let host = get.host.clone().unwrap_or_else(|| ip.to_string());
    Some(Probe {
        url: format!("http://{host}:{port}/{}", path.trim_start_matches('/')),
        delay: interval.map_or_else(|| seconds(probe.initial_delay_seconds, 0), |_| Duration::ZERO),
        period: interval.unwrap_or_else(|| seconds(probe.period_seconds, 10)),
        timeout: seconds(probe.timeout_seconds, 1),
        failures: count(probe.failure_threshold, 3),
        successes: count(probe.success_threshold, 1),
    })
}

/// Probes for ever; tells changes.
pub async fn follow(probe: Probe, client: reqwest::Client, ready: watch::Sender<bool>, wake: Arc<Notify>) {
    tokio::time::sleep(probe.delay).await;
    let (mut failures, mut successes) = (0, 0);
    loop {
        let answer = client.get(&probe.url).timeout(probe.timeout).send().await;
        if answer.is_ok_and(|answer| (200..400).contains(&answer.status().as_u16())) {
            (failures, successes) = (0, successes + 1);
        } else {
            (failures, successes) = (failures + 1, 0);
        }
        let was = *ready.borrow();
        let is = if was { failures < probe.failures } else { successes >= probe.successes };
        if was != is {
            ready.send_replace(is);
            wake.notify_one();
        }
        tokio::time::sleep(probe.period).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_probe_names_its_address() {
        let container: Container = serde_json::from_value(json!({
            "name": "engine",
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 2},
        }))
        .unwrap();
        let probe = of(&container, Ipv4Addr::new(127, 1, 2, 3), None).unwrap();
        assert_eq!((probe.url.as_str(), probe.period.as_secs(), probe.failures), ("http://127.1.2.3:8080/readyz", 2, 3));
        let quick = of(&container, Ipv4Addr::LOCALHOST, Some(Duration::from_millis(5))).unwrap();
        assert_eq!(quick.period, Duration::from_millis(5));
        assert_eq!(of(&Container::default(), Ipv4Addr::LOCALHOST, None), None);
    }
}
