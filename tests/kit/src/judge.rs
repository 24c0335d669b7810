//! Placeholder of the judge.
