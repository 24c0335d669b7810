#!/usr/bin/env bash
# Lets a fresh clone find the last build of the workspace's own crates: `sources.sh recall TARGET` before a build, `remember TARGET` after a good one.
#
# Cargo tells by its time whether a file changed, and a clone gives every file a new one. A file that has the content that the last good build
# saw gets back the time that it had then; any other keeps its own. What is remembered holds for a checkout at the same place, since tests are
# compiled with it, and only while nothing else has built into the folder: a build that fails or goes another way makes all sources new.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

action="${1:-}" target="${2:-}"
[ -n "$target" ] || die "usage: sources.sh recall|remember TARGET"
record="$target/.weir-sources"
names="$(mktemp)"
trap 'rm -f "$names"' EXIT
cd "$REPOSITORY"

# Time, digest and name of every file, after a line with the place.
listed() {
    echo "$REPOSITORY"
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done >"$1"
    paste -d' ' <(xargs -0 stat -c '%.9Y' <"$1") <(xargs -0 sha256sum <"$1")
}

case "$action" in
    remember)
        listed "$names" >"$record"
        ;;
    recall)
        [ -f "$record" ] || exit 0
        if [ "$(head -n 1 "$record")" = "$REPOSITORY" ] && [ -z "$(find "$target/debug/.fingerprint" -newer "$record" -print -quit 2>/dev/null)" ]; then
            # Names whose content is the same, then each with its time.
            { tail -n +2 "$record" | cut -d' ' -f2- | sha256sum --check 2>/dev/null || true; } | sed -n 's/: OK$//p' >"$names"
            awk 'NR == FNR { same[$0]; next } { time = $1; sub(/^[^ ]+ [^ ]+  /, "") } $0 in same { print time, $0 }' "$names" "$record" |
                while read -r time file; do touch -d "@$time" "$file"; done
        fi
        # Until the build to come is good.
        rm -f "$record"
        ;;
    *) die "usage: sources.sh recall|remember TARGET" ;;
esac
