//! Placeholder of the memory limits.
