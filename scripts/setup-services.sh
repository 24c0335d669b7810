#!/usr/bin/env bash
# Puts all services that the tests start into the cache, side by side: some wait for downloads while others compile.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

builders=()
for service in kafka judge kubernetes seaweedfs; do
    "$REPOSITORY/scripts/setup-$service.sh" >/dev/null &
    builders+=("$!")
done
failed=0
for builder in "${builders[@]}"; do
    wait "$builder" || failed=1
done
[ "$failed" = 0 ] || die "a service could not be set up; its messages are above"
