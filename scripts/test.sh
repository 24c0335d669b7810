#!/usr/bin/env bash
# Runs `cargo test` with the arguments given, shows its output, and ends with one line of sums: N passed, N failed[, N skipped].
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

log="$(mktemp)"
trap 'rm -f "$log"' EXIT

cd "$REPOSITORY"
cargo test --no-fail-fast "$@" 2>&1 | tee "$log"
status="${PIPESTATUS[0]}"

"$REPOSITORY/scripts/sum-tests.sh" "$status" <"$log"
exit "$?"
