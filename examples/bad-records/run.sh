#!/usr/bin/env bash
# Streams the order files into a Delta table and shows which lines were set apart, and why.
# Needs bin/weir (make build). Runs as often as you like; clean.sh starts over.
set -euo pipefail
cd "$(dirname "$0")"
weir=${WEIR:-../../bin/weir}

"$weir" check job.yaml
"$weir" run job.yaml --once
"$weir" sql "SELECT day, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY day ORDER BY day" --table orders=delta:out/orders
"$weir" sql "SELECT substring_index(file_path, '/', -1) AS file, record_number AS line, record, reason FROM bad ORDER BY file, line" \
  --table bad=delta:out/bad_records
