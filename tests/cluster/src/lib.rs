//! A real Kubernetes API server for tests, with a kubelet that is a process table and faults on demand.
//!
//! etcd and kube-apiserver are the real ones. The kubelet is played by a table
//! of real processes, so that overlap of two runs is judged on processes and
//! not on pod objects. Faults sit between a client and the API server.

pub mod control_plane;
pub mod faults;
pub mod invariants;
pub mod kubelet;
pub mod operator_process;
pub mod proxy;
pub mod standin;
pub mod wait;

pub use control_plane::{ControlPlane, Options, User};
