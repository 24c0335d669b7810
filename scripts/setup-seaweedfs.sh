#!/usr/bin/env bash
# Puts SeaweedFS, the S3 store of the tests, into the cache, built from its Go module, and prints its folder, which holds `weed`.
# WEIR_SEAWEEDFS names a folder of your own instead.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

instead "${WEIR_SEAWEEDFS:-}"

VERSION="$(version_in seaweedfs github.com/seaweedfs/seaweedfs)"
NAME="seaweedfs-$VERSION-$(stamp_of "$REPOSITORY"/scripts/seaweedfs/go.{mod,sum})"

build() {
    need_go
    say "building SeaweedFS from its Go module (about six minutes on two cores, once)"
    CGO_ENABLED=0 go_build seaweedfs "$1/weed" "-s -w" github.com/seaweedfs/seaweedfs/weed || return 1
    "$1/weed" version >&2
}

provide "$NAME" build
