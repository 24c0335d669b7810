#!/usr/bin/env bash
# Measures a release build of Weir, beside PySpark where that can be compared. WEIR names the binary. Arguments go to bench.py: names of
# measurements, all when left out. `make bench` calls this with everything it needs built.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

[ -x "${WEIR:-}" ] || die "WEIR must name a release build of weir: run make bench"
TARGET="${CARGO_TARGET_DIR:-$REPOSITORY/target}"
(cd "$REPOSITORY" && cargo build --quiet --release -p weir-testkit --example bench_topics)
JUDGE="$("$REPOSITORY/scripts/setup-judge.sh" | tail -n 1)"
export WEIR JUDGE TOPICS="$TARGET/release/examples/bench_topics"
exec python3 "$REPOSITORY/bench/bench.py" "$@"
