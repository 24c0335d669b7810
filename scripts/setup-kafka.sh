#!/usr/bin/env bash
# Puts the jars of one Kafka broker into the cache and prints their folder. WEIR_KAFKA_LIBS names a folder of your own instead.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

instead "${WEIR_KAFKA_LIBS:-}"

POM="$REPOSITORY/scripts/kafka/pom.xml"
VERSION="$(version_of kafka "$POM")"
NAME="kafka-$VERSION-$(stamp_of "$POM")"

build() {
    say "fetching Kafka $VERSION from Maven (about one minute, once)"
    copy_jars "$POM" "$1"
    ls "$1"/kafka_2.13-*.jar >/dev/null
}

provide "$NAME" build
