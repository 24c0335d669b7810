//! Who may use how much memory in the operator's container: one table.
//!
//! The limit of a check, the checks that run at once, and what the container
//! asks for and may use all come from here, so that checks which use up their
//! limits side by side end by these, and never by the container's, which would
//! take the operator with them.

/// What the operator itself needs, in bytes: 10 000 jobs take 143 MiB (`docs/performance.md`).
pub const OWN: u64 = 256 << 20;
/// What one check may use, in bytes.
pub const CHECK: u64 = 1 << 30;
/// Checks that run at once, unless an installation says otherwise.
pub const CHECKS: u16 = 2;
/// Checks beside them of manifests that used up a limit before.
pub const COSTLY_CHECKS: u16 = 1;

/// What the container of that many checks may use, in bytes.
pub fn container(checks: u16) -> u64 {
    OWN + CHECK * (u64::from(checks) + u64::from(COSTLY_CHECKS))
}

/// Bytes as Kubernetes writes them.
pub fn quantity(bytes: u64) -> String {
    format!("{}Mi", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_numbers_of_the_table() {
        let documentation = include_str!("../../docs/operator.md");
        let limit = format!("limits of {} MiB: {} MiB for itself", container(CHECKS) >> 20, OWN >> 20);
        let checks = format!("{} MiB for each of {} checks", CHECK >> 20, CHECKS + COSTLY_CHECKS);
        for words in [limit, checks] {
            assert!(documentation.contains(&words), "{words}");
        }
    }
}
