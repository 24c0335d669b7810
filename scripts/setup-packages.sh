#!/usr/bin/env bash
# Installs the Debian packages that building and testing Weir needs, only those that are missing. `--build` leaves out what only tests need: Java, Maven, Python, Go, OpenSSL.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PACKAGES=(build-essential clang lld mold cmake pkg-config libssl-dev libcurl4-openssl-dev zlib1g-dev)

missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

# A program that is on the PATH counts, wherever it came from.
missing_programs() {
    command -v java >/dev/null 2>&1 || echo openjdk-17-jre-headless
    command -v mvn >/dev/null 2>&1 || echo maven
    # Debian 12's Go is too old to build Kubernetes; setup-kubernetes.sh looks at the version and says what to do.
    command -v go >/dev/null 2>&1 || echo golang-go
    command -v openssl >/dev/null 2>&1 || echo openssl
    python3 -m pip --version >/dev/null 2>&1 || printf '%s\n' python3 python3-pip
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else
        need sudo "run this script as root, or install by hand: ${missing[*]}"
        sudo "$@"
    fi
}

case "${1:-}" in
    "" | --build) ;;
    *) die "usage: setup-packages.sh [--build]" ;;
esac

need cargo "install Rust 1.95 or later with rustup (https://rustup.rs)"

if ! command -v apt-get >/dev/null 2>&1; then
    say "this is no Debian; install by your own means what these Debian packages contain: ${PACKAGES[*]} and, for the tests, Java 17, Maven, Python 3 with pip, Go 1.21 or later, OpenSSL"
    exit 0
fi

mapfile -t missing < <(missing_packages "${PACKAGES[@]}"; [ "${1:-}" = --build ] || missing_programs)
[ "${#missing[@]}" -gt 0 ] || exit 0

say "installing Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
retried as_root apt-get update -qq >&2
retried as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
