#!/usr/bin/env bash
# Reads all that is in the topic sensor-readings of the broker $BOOTSTRAP (default localhost:9092) and shows the table.
# Any broker will do; `make kafka` runs one, and send.sh sends readings such as {"device_id": "a", "temperature": 21.5, "timestamp": "2024-06-01 10:00:00"};
# without --available-now the same job goes on for ever.
set -euo pipefail
cd "$(dirname "$0")"
weir=${WEIR:-../../bin/weir}

"$weir" check job.yaml
"$weir" run job.yaml --once --available-now -p "bootstrap=${BOOTSTRAP:-localhost:9092}"
"$weir" sql "SELECT count(*) AS readings, count(DISTINCT device_id) AS devices, round(avg(temperature), 2) AS temperature
             FROM readings" --table readings=delta:out/sensor_readings
