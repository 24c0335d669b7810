#!/usr/bin/env bash
# Puts PySpark (a virtual environment) and the Kafka and Delta jars it needs into the cache and prints their folder.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

POM="$REPOSITORY/scripts/judge/pom.xml"
PYSPARK="$(version_of spark "$POM")"
NAME="judge-$PYSPARK-$(stamp_of "$POM")"

build() {
    need python3 "install Python 3.10 or later with its venv module (Debian: apt-get install python3 python3-venv)"
    say "fetching PySpark $PYSPARK with Delta from PyPI and Maven (about two minutes, once)"
    copy_jars "$POM" "$1/jars"
    ls "$1"/jars/delta-spark_*.jar "$1"/jars/spark-sql-kafka-*.jar >/dev/null
    # Installed as a plain folder: a virtual environment knows its own path and could not be renamed afterwards.
    retried python3 -m pip install --quiet --disable-pip-version-check --no-warn-script-location --root-user-action=ignore --target "$1/python" "pyspark==$PYSPARK" >&2
}

provide "$NAME" build
