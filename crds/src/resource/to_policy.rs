//! From the spec to the typed policy that the supervisor decides by.
//!
//! Total for every spec that passed `weir check`; what is left to fail are texts that the
//! schema alone cannot judge (the interval of a query, the number of triggers).

use super::{HealthMetricSpec, NodeLostPolicySpec, QuerySpec, QueryTriggerSpec, StreamingJobSpec, TaskRetryModeSpec, TriggerSpec};
use crate::duration::parse_processing_time;
use crate::policy::{
    BacklogMetric, BacklogRule, HealthPolicy, JobPolicy, JobTrigger, NodeLostPolicy, QueryPolicy, QueryTrigger, RestartPolicy,
    SchedulePolicy, TaskPolicy, TaskRetryMode, TaskRetryPolicy,
};

/// A part of the spec that has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct PolicyError {
    /// Path of the field.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl StreamingJobSpec {
    /// The rules of the job's life.
    pub fn policy(&self) -> Result<JobPolicy, PolicyError> {
        let trigger = self.trigger.policy()?;
        let never = matches!(trigger, JobTrigger::Continuous { task_retry_mode: TaskRetryMode::Never });
        let retry = self.task_retry.clone().unwrap_or_default();
        let task_retry = (!never).then(|| TaskRetryPolicy {
            max_retries: at_least_zero(retry.max_retries),
            initial_delay: retry.initial_delay.as_duration(),
            multiplier: at_least_zero(retry.multiplier).max(1),
            max_delay: retry.max_delay.as_duration(),
        });
        let mut tasks = Vec::with_capacity(self.tasks.len());
        for task in &self.tasks {
            let mut queries = Vec::with_capacity(task.queries.len());
            for query in &task.queries {
                let trigger = query.trigger().map_err(|message| PolicyError {
                    path: format!("spec.tasks[{}].queries[{}].trigger", task.name, query.name),
                    message,
                })?;
                queries.push(QueryPolicy { name: query.name.clone(), trigger });
            }
            tasks.push(TaskPolicy { name: task.name.clone(), queries });
        }
        Ok(JobPolicy {
            trigger,
            restart: RestartPolicy {
                initial_delay: self.restart.initial_delay.as_duration(),
                multiplier: at_least_zero(self.restart.multiplier).max(1),
                max_delay: self.restart.max_delay.as_duration(),
                jitter_percent: at_least_zero(self.restart.jitter_percent),
                stable_after: self.restart.stable_after.as_duration(),
                failure_threshold: at_least_zero(self.restart.failure_threshold).max(1),
                min_interval: self.restart.min_interval.as_duration(),
            },
            task_retry,
            start_deadline: self.start_deadline.as_duration(),
            stop_timeout: self.stop_timeout.as_duration(),
            keep_failed_for: self.keep_failed_for.as_duration(),
            node_lost_policy: match self.node_lost_policy {
                NodeLostPolicySpec::ReplaceWhenFenced => NodeLostPolicy::ReplaceWhenFenced,
                NodeLostPolicySpec::Wait => NodeLostPolicy::Wait,
            },
            suspend: self.suspend,
            restart_nonce: self.restart_nonce,
            health: self.health_policy(),
            tasks,
        })
    }

    fn health_policy(&self) -> HealthPolicy {
        let metric = |metric| match metric {
            HealthMetricSpec::StreamingBacklogSeconds => BacklogMetric::Seconds,
            HealthMetricSpec::StreamingBacklogRecords => BacklogMetric::Records,
            HealthMetricSpec::StreamingBacklogBytes => BacklogMetric::Bytes,
            HealthMetricSpec::StreamingBacklogFiles => BacklogMetric::Files,
        };
        HealthPolicy {
            falling_behind_batches: at_least_zero(self.health.falling_behind_batches).max(1),
            stale_after: self.health.stale_after.as_duration(),
            fail_after: self.health.fail_after.as_duration(),
            rules: self
                .health
                .rules
                .iter()
                .map(|rule| BacklogRule { metric: metric(rule.metric), greater_than: rule.greater_than })
                .collect(),
        }
    }
}

impl TriggerSpec {
    fn policy(&self) -> Result<JobTrigger, PolicyError> {
        match (&self.continuous, &self.schedule, &self.manual) {
            (Some(continuous), None, None) => Ok(JobTrigger::Continuous {
                task_retry_mode: match continuous.task_retry_mode {
                    TaskRetryModeSpec::OnFailure => TaskRetryMode::OnFailure,
                    TaskRetryModeSpec::Never => TaskRetryMode::Never,
                },
            }),
            (None, Some(schedule), None) => Ok(JobTrigger::Schedule(SchedulePolicy {
                cron: crate::manifest::five_fields(&schedule.cron).to_owned(),
                time_zone: schedule.time_zone.clone(),
                starting_deadline: schedule.starting_deadline.as_ref().map(|deadline| deadline.as_duration()),
            })),
            (None, None, Some(_)) => Ok(JobTrigger::Manual),
            _ => {
                Err(PolicyError { path: "spec.trigger".to_owned(), message: "give exactly one of continuous, schedule, manual".to_owned() })
            }
        }
    }
}

impl QuerySpec {
    /// When batches of this query start.
    pub fn trigger(&self) -> Result<QueryTrigger, String> {
        self.trigger.as_ref().map_or(Ok(QueryTrigger::Default), QueryTriggerSpec::resolve)
    }
}

impl QueryTriggerSpec {
    /// The one kind that is given; none is the default trigger.
    pub fn resolve(&self) -> Result<QueryTrigger, String> {
        match (&self.processing_time, &self.available_now, &self.once) {
            (None, None, None) => Ok(QueryTrigger::Default),
            (Some(interval), None, None) => {
                parse_processing_time(interval).map(QueryTrigger::ProcessingTime).map_err(|error| error.to_string())
            }
            (None, Some(_), None) => Ok(QueryTrigger::AvailableNow),
            (None, None, Some(_)) => Ok(QueryTrigger::Once),
            _ => Err("give at most one of processingTime, availableNow, once".to_owned()),
        }
    }
}

fn at_least_zero(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn defaults_of_the_resource_are_those_of_the_policy() {
        let spec: StreamingJobSpec = serde_json::from_value(json!({"trigger": {"continuous": {}}, "tasks": []})).unwrap();
        let policy = spec.policy().unwrap();
        assert_eq!(policy.restart, RestartPolicy::default());
        assert_eq!(policy.task_retry, Some(TaskRetryPolicy::default()));
        assert_eq!(policy.health, HealthPolicy::default());
        assert_eq!(policy.stop_timeout, Duration::from_secs(60));
    }

    #[test]
    fn never_has_no_task_retries() {
        let spec: StreamingJobSpec =
            serde_json::from_value(json!({"trigger": {"continuous": {"taskRetryMode": "Never"}}, "tasks": []})).unwrap();
        assert_eq!(spec.policy().unwrap().task_retry, None);
    }

    #[test]
    fn two_triggers_have_no_meaning() {
        let spec: StreamingJobSpec = serde_json::from_value(json!({"trigger": {"continuous": {}, "manual": {}}, "tasks": []})).unwrap();
        assert_eq!(spec.policy().unwrap_err().path, "spec.trigger");
    }
}
