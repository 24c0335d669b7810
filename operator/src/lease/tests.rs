//! Leader election: the rule, two candidates in a world that loses and delays, and the shell on a clock of its own.

#![allow(clippy::unwrap_used)]

mod rule;
mod shell;
mod world;
