//! What a pod's state means for its job: the whole matrix of phase, pod reason,
//! `DisruptionTarget`, container list, exit code, deletion and sidecar, judged
//! by an oracle of its own and then by the supervisor's decision.
#![allow(clippy::unwrap_used)]

#[path = "classification/matrix.rs"]
mod matrix;
#[path = "classification/pods.rs"]
mod pods;
#[path = "classification/rows.rs"]
mod rows;
#[path = "classification/stage.rs"]
mod stage;
#[path = "classification/trouble.rs"]
mod trouble;
