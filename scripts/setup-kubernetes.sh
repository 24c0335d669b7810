#!/usr/bin/env bash
# Puts the Kubernetes programs that the tests run into the cache, built from their Go modules, and prints their folder.
# KUBEBUILDER_ASSETS names a folder of your own instead, if all of them are in it. A program on the PATH is taken when its version is exactly ours.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# One word more here is one program more; the modules know kube-scheduler and kubelet too.
PROGRAMS=(etcd kube-apiserver kube-controller-manager kubectl)

KUBERNETES="$(version_in kubernetes k8s.io/kubernetes)"
ETCD="$(version_in etcd go.etcd.io/etcd/server/v3)"
NAME="kubernetes-$KUBERNETES-etcd-$ETCD-$({ cat "$REPOSITORY"/scripts/{kubernetes,etcd}/go.{mod,sum}; echo "${PROGRAMS[@]}"; } | sha256sum | cut -c1-10)"

# What a program of the right version says about itself. etcd and kubectl have their own ways. It is read to its end before it is looked at:
# a reader that stops at the line it wants ends a program that still writes, and with pipefail that is a failure.
has_our_version() { # FILE NAME
    local arguments=(--version) line="Kubernetes v$KUBERNETES" said
    case "$2" in
        etcd) line="etcd Version: $ETCD" ;;
        kubectl) arguments=(version --client) line="Client Version: v$KUBERNETES" ;;
    esac
    said="$("$1" "${arguments[@]}" 2>/dev/null)" && grep -qxF "$line" <<<"$said"
}

# Without these, the server says v0.0.0 and clients that check versions refuse it.
link_flags() {
    local package=k8s.io/component-base/version
    echo "-s -w -X $package.gitVersion=v$KUBERNETES -X $package.gitMajor=$(cut -d. -f1 <<<"$KUBERNETES") -X $package.gitMinor=$(cut -d. -f2 <<<"$KUBERNETES")"
}

build() {
    local folder="$1" program found cgo packages=()
    for program in "${PROGRAMS[@]}"; do
        found="$(command -v "$program" || true)"
        if [ -n "$found" ] && has_our_version "$found" "$program"; then
            say "$program is taken from $found"
            cp -L "$found" "$folder/$program"
        fi
    done
    if [ ! -e "$folder/etcd" ]; then
        need_go
        say "building etcd $ETCD from its Go module (about one minute, once)"
        CGO_ENABLED=0 go_build etcd "$folder/etcd" "-s -w" go.etcd.io/etcd/server/v3 || return 1
    fi
    for program in "${PROGRAMS[@]}"; do
        # The kubelet needs cgo; the others must not be compiled again for its sake.
        [ -e "$folder/$program" ] || packages["$([ "$program" = kubelet ] && echo 1 || echo 0)"]+=" k8s.io/kubernetes/cmd/$program"
    done
    for cgo in "${!packages[@]}"; do
        need_go
        say "building$(sed 's: [^ ]*/: :g' <<<"${packages[cgo]}") $KUBERNETES from Go modules (about eight minutes on two cores, once)"
        # Split into words on purpose.
        # shellcheck disable=SC2086
        CGO_ENABLED="$cgo" go_build kubernetes "$folder/" "$(link_flags)" ${packages[cgo]} || return 1
    done
    for program in "${PROGRAMS[@]}"; do
        has_our_version "$folder/$program" "$program" || { say "$folder/$program does not say the version that it was built from"; return 1; }
    done
}

holds_all() { # FOLDER
    local program
    for program in "${PROGRAMS[@]}"; do
        [ -x "$1/$program" ] || { say "KUBEBUILDER_ASSETS ($1) has no $program, so the cache is used"; return 1; }
    done
}

if [ -n "${KUBEBUILDER_ASSETS:-}" ] && holds_all "$KUBEBUILDER_ASSETS"; then
    instead "$KUBEBUILDER_ASSETS"
fi

provide "$NAME" build
