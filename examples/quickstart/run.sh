#!/usr/bin/env bash
# Streams the weather files into a Delta table and shows what came out.
# Needs bin/weir (make build). Runs as often as you like; clean.sh starts over.
set -euo pipefail
cd "$(dirname "$0")"
weir=${WEIR:-../../bin/weir}

"$weir" check job.yaml
"$weir" run job.yaml --once
"$weir" sql "SELECT origin, count(*) AS readings, round(avg(celsius), 1) AS celsius, max(wind_speed) AS strongest_wind
             FROM readings GROUP BY origin ORDER BY origin" --table readings=delta:out/readings
