#!/usr/bin/env bash
# Measures a release build of weir-operator with many jobs on a real API server and prints the figures as JSON; they are kept in
# bench/results/. WEIR_OPERATOR names the binary. Arguments: idle jobs, streaming jobs, failures, idle seconds. `make bench-operator`
# calls this with everything it needs built.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

[ -x "${WEIR_OPERATOR:-}" ] || die "WEIR_OPERATOR must name a release build of weir-operator: run make bench-operator"
mkdir -p "$REPOSITORY/bench/results"
RESULT="$REPOSITORY/bench/results/operator-$(date -u +%Y%m%dT%H%M%SZ).json"
# The load is made by a development build: only the operator is measured.
(cd "$REPOSITORY" && cargo run --quiet -p weir-operator --example fleet -- "$@") | tee "$RESULT"
say "kept in $RESULT"
