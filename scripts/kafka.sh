#!/usr/bin/env bash
# One Kafka broker in the foreground, to try Weir with: `kafka.sh [PORT]` until Ctrl-C, which removes its data.
# `kafka.sh send TOPIC [SERVERS]` sends each line of its input as a message; the broker makes topics as they are asked for.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need java "install a Java 17 runtime (Debian: apt-get install openjdk-17-jre-headless)"
LIBS="$("$REPOSITORY/scripts/setup-kafka.sh")"
JAVA=(java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$REPOSITORY/tests/kit/resources/kafka-log4j2.properties" -cp "$LIBS/*")

if [ "${1:-}" = send ]; then
    [ -n "${2:-}" ] || die "usage: kafka.sh send TOPIC [SERVERS] < lines"
    # Its log is of interest only where it fails.
    said="$("${JAVA[@]}" org.apache.kafka.tools.ConsoleProducer --bootstrap-server "${3:-localhost:9092}" --topic "$2" 2>&1)" \
        || die "the messages were not sent: $(tail -n 3 <<<"$said")"
    exit 0
fi

port="${1:-9092}"
[[ "$port" =~ ^[0-9]{1,5}$ ]] && [ "$port" -ge 1 ] && [ "$port" -le 65534 ] || die "'$port' is no port; give a number such as 9092"
controller=$((port + 1))
for taken in "$port" "$controller"; do
    if (exec 3<>"/dev/tcp/127.0.0.1/$taken") 2>/dev/null; then
        die "something listens on port $taken already; stop it, or choose another port: make kafka KAFKA_PORT=19092"
    fi
done

folder="$(mktemp -d "${TMPDIR:-/tmp}/weir-kafka.XXXXXX")"
broker=""
stop() { [ -z "$broker" ] || kill "$broker" 2>/dev/null || true; }
trap stop INT TERM HUP
trap 'rm -rf "$folder"' EXIT

cat >"$folder/server.properties" <<EOF
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:$controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.dirs=$folder/data
EOF

log="$folder/log"
"${JAVA[@]}" kafka.tools.StorageTool format --standalone -t weirweirweirweirweir-g -c "$folder/server.properties" >"$log" 2>&1 \
    || die "Kafka's storage could not be formatted: $(tail -n 5 "$log")"
say "starting Kafka on localhost:$port"
"${JAVA[@]}" kafka.Kafka "$folder/server.properties" >"$log" 2>&1 &
broker=$!
until grep -q "Kafka Server started" "$log"; do
    kill -0 "$broker" 2>/dev/null || { grep -E "ERROR|Exception" "$log" | tail -n 5 >&2; die "Kafka ended while it started; the lines above are the last errors of its log"; }
    sleep 0.2
done
echo "Kafka serves on localhost:$port. Ctrl-C stops it and removes its data."
echo "In another terminal: echo '{\"device_id\": \"a\"}' | scripts/kafka.sh send sensor-readings localhost:$port"
# A signal interrupts the wait, not the broker's own way to its end.
while kill -0 "$broker" 2>/dev/null; do wait "$broker" || true; done
say "Kafka is stopped and its data is removed"
