#!/usr/bin/env bash
# Builds the tests with cargo's arguments (those before `--`), runs them with the test harness's (those after it), several binaries at a time,
# shows their output, and ends with one line of sums: N passed, N failed[, N skipped].
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=()
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do build+=("$1"); shift; done
[ "$#" = 0 ] || shift

messages="$(mktemp)"
log="$(mktemp)"
trap 'rm -f "$messages" "$log"' EXIT

cd "$REPOSITORY"
# Programs that tests start are built together with the tests.
export WEIR_TEST_BUILT=1

target="${CARGO_TARGET_DIR:-target}"

run() {
    # Only where clones share a folder that is kept.
    [ -z "${CARGO_TARGET_DIR:-}" ] || scripts/sources.sh recall "$target" || return
    cargo test --no-run --message-format=json-render-diagnostics "${build[@]}" >"$messages" || return
    [ -z "${CARGO_TARGET_DIR:-}" ] || scripts/sources.sh remember "$target" || return
    "$target/debug/xtask" suite "$@" <"$messages"
    local status="$?"
    cargo test --doc --no-fail-fast "${build[@]}" -- "$@" || status="$?"
    return "$status"
}

run "$@" 2>&1 | tee "$log"
status="${PIPESTATUS[0]}"

"$REPOSITORY/scripts/sum-tests.sh" "$status" <"$log"
exit "$?"
