#!/usr/bin/env bash
# Sends three readings to the topic sensor-readings of the broker $BOOTSTRAP (default localhost:9092, where `make kafka` serves).
set -euo pipefail
cd "$(dirname "$0")"
kafka=${KAFKA:-../../scripts/kafka.sh}

for n in 1 2 3; do
    printf '{"device_id": "sensor-%d", "temperature": 2%d.5, "timestamp": "%s"}\n' "$n" "$n" "$(date -u +'%Y-%m-%d %H:%M:%S')"
done | "$kafka" send sensor-readings "${BOOTSTRAP:-localhost:9092}"
