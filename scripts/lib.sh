# Shared by the set-up scripts: where the cache is, and how a folder in it is made once.
#
# A cached folder is named after the versions inside it, built under a temporary name and renamed, so that it is either whole or absent.
# A lock beside it keeps two builders apart; the second one waits and finds the work done.

REPOSITORY="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CACHE="${WEIR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir}"

say() { printf '==> %s\n' "$*" >&2; }

die() { printf 'error: %s\n' "$*" >&2; exit 1; }

need() { # COMMAND REMEDY
    command -v "$1" >/dev/null 2>&1 || die "$1 is not on the PATH: $2"
}

# The first characters of a digest over files that decide what a cached folder contains.
stamp_of() { cat "$@" | sha256sum | cut -c1-10; }

# cached NAME BUILD_FUNCTION: prints nothing; afterwards $CACHE/NAME exists. BUILD_FUNCTION fills the empty folder that it is given.
cached() {
    local name="$1" build="$2" target="$CACHE/$1" work
    [ -d "$target" ] && return 0
    mkdir -p "$CACHE"
    exec 9>"$CACHE/.$name.lock"
    flock 9
    if [ ! -d "$target" ]; then
        work="$(mktemp -d "$CACHE/.$name.XXXXXX")"
        # The lock's descriptor is closed for the builder, so that nothing it leaves running can hold the lock.
        if ! "$build" "$work" 9>&-; then
            rm -rf "$work"
            die "building $target failed; its output is above"
        fi
        chmod 755 "$work"
        mv "$work" "$target"
    fi
    exec 9>&-
}

# provide NAME BUILD_FUNCTION: what every set-up script ends with: the cached folder, made if need be, as its last line.
provide() {
    cached "$1" "$2"
    echo "$CACHE/$1"
}

# instead FOLDER: where the user has a folder of his own, it is the answer and nothing is set up.
instead() {
    [ -z "$1" ] || { echo "$1"; exit 0; }
}

# Downloads over a registry fail now and then; three tries with growing pauses.
retried() {
    local try
    for try in 1 2 3; do
        "$@" && return 0
        [ "$try" = 3 ] || { say "try $try of: $1 failed, again in $((try * 5)) s"; sleep $((try * 5)); }
    done
    return 1
}

# copy_jars POM FOLDER: the dependencies of a Maven project as jar files.
copy_jars() {
    need mvn "install Maven 3.8 or later (Debian: apt-get install maven)"
    need java "install a Java 17 runtime (Debian: apt-get install openjdk-17-jdk-headless)"
    local project
    project="$(mktemp -d)"
    cp "$1" "$project/pom.xml"
    retried mvn -B -q -ntp -Dstyle.color=never -f "$project/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$2" -DincludeScope=runtime >&2 || { rm -rf "$project"; return 1; }
    rm -rf "$project"
}

# version_of NAME POM: what a Maven project calls `<NAME.version>`.
version_of() { sed -n "s:.*<$1\.version>\(.*\)</$1\.version>.*:\1:p" "$2"; }

# version_in MODULE PACKAGE: the version that a Go module of scripts/ requires.
version_in() { sed -n "s:^require $2 v::p" "$REPOSITORY/scripts/$1/go.mod"; }

need_go() {
    local remedy="install Go 1.21 or later (https://go.dev/dl/); it fetches the version that the modules ask for by itself"
    need go "$remedy"
    # Go 1.20 and before know no toolchain line and would try, and fail after minutes.
    go version | grep -Eq 'go1\.(2[1-9]|[3-9][0-9])|go[2-9]' || die "$(go version) is too old: $remedy"
}

# go_build MODULE FOLDER LINK_FLAGS PACKAGES: nobody debugs these, so no debug information is made; that is some of the time and most of the disk.
go_build() {
    local module="$1" folder="$2" flags="$3"
    shift 3
    retried go -C "$REPOSITORY/scripts/$module" build -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false -ldflags "$flags" -o "$folder" "$@" >&2
}
