#!/usr/bin/env bash
# Removes what run.sh and repair.sh made; fine when there is nothing.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf out .weir input/mended.csv
