#!/usr/bin/env bash
# Writes one of the bad lines, mended, into the input folder, where run.sh takes it as any other file.
set -euo pipefail
cd "$(dirname "$0")"
weir=${WEIR:-../../bin/weir}

"$weir" sql "SELECT 'order_id,customer,amount,ordered_at' AS line, 0 AS number
             UNION ALL SELECT replace(record, 'yesterday', '2024-06-01 10:20:00'), record_number FROM bad WHERE record LIKE '%yesterday'
             ORDER BY number" --table bad=delta:out/bad_records --output json |
  python3 -c 'import json, sys; [print(json.loads(row)["line"]) for row in sys.stdin]' | tee input/mended.csv
