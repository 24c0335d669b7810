#!/usr/bin/env bash
# Starts the job, kills one task with SIGKILL, waits until it runs again, stops the job and shows that no number is
# missing or there twice.
set -euo pipefail
cd "$(dirname "$0")"
weir=${WEIR:-../../bin/weir}

"$weir" check job.yaml
"$weir" run job.yaml --progress none &
runner=$!
trap 'kill "$runner" 2>/dev/null || true' EXIT

# Waits until the status has the given text in a task's row; fails after a minute.
field() { "$weir" status two-tasks -o json 2>/dev/null | python3 -c '
import json, sys
tasks = {t["name"]: t for t in json.load(sys.stdin).get("tasks", [])}
print(tasks.get(sys.argv[1], {}).get(sys.argv[2], ""))' "$1" "$2" 2>/dev/null || true; }
wait_for() {
  for _ in $(seq 240); do [ "$(field "$1" "$2")" = "$3" ] && return 0; sleep 0.25; done
  echo "task $1 never had $2 = $3" >&2; "$weir" status -o json >&2; return 1
}

wait_for odd state Running
wait_for even state Running
before=$(field even epoch)
victim=$(field odd pod)
echo "killing the task odd (process $victim)"
kill -9 "$victim"
wait_for odd attempt 2
wait_for odd state Running
echo "odd runs again, attempt 2; even is still in its epoch $before: $(field even epoch)"
[ "$before" = "$(field even epoch)" ]

kill -INT "$runner"
wait "$runner"
trap - EXIT
"$weir" sql "SELECT 'even' AS task, count(*) AS numbers, count(DISTINCT value) AS different, max(value) AS greatest FROM even
             UNION ALL SELECT 'odd', count(*), count(DISTINCT value), max(value) FROM odd" \
  --table even=delta:out/even --table odd=delta:out/odd
