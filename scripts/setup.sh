#!/bin/sh
# Installs what building (build) or testing (test) Meridian needs on Debian 12 or Ubuntu, and says what; with "clocklab" also
# chrony, for the laboratory's comparison (as a package it takes the place of the machine's time daemon: so only when asked for);
# with "kubelab" and "s3lab" what `make kubelab` and `make s3lab` need; with "fuzz" clang and its libraries for fuzzing (where they are a package of their own); with "gate" all that .ci/run uses.
# Nothing is installed when nothing is missing. Uses sudo only when not root. While another program installs packages (a new
# machine's unattended upgrades), it waits: at most MERIDIAN_SETUP_WAIT seconds (900).
set -eu

build="gcc g++ make cmake ninja-build pkg-config libnng-dev libprotobuf-c-dev protobuf-c-compiler
protobuf-compiler libcurl4-openssl-dev libjansson-dev libzstd-dev zlib1g-dev libssl-dev libgnutls28-dev
libmicrohttpd-dev libsqlite3-dev python3 ca-certificates"
test="$build iproute2 procps curl openssl gzip zstd"
# Of test; a test that needs one of these says so and skips without it. liblz4-dev: the previous release, which e2e/upgrade builds.
helpful="chromium prometheus nodejs npm liblz4-dev"
# Of slurmlab (make slurmlab): a real Slurm on this machine, and on three machines below it.
slurm="slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libslurm-dev systemd-container mmdebstrap"

# Of kubelab (make kubelab): a real Kubernetes, built from Debian 12's source package. kubectl comes from elsewhere: Debian's knows no components.
kube="golang-1.19-go etcd-server containerd runc containernetworking-plugins iptables conntrack dnsmasq-base mmdebstrap openssl"

# Of s3lab (make s3lab): a strict S3 server.
ceph="ceph-common ceph-mon ceph-osd radosgw"

case "${1:-build}" in
build) wanted=$build helpful="" ;;
deb) wanted="$build debhelper fakeroot" helpful="lintian" ;; # make deb
test) wanted=$test ;;
slurmlab) wanted="$test $slurm" helpful="" ;;
kubelab) wanted="$test $kube" helpful="" ;;
s3lab) wanted="$test $ceph" helpful="npm" ;;
clocklab) wanted="$build iproute2 procps" helpful="chrony" ;;
fuzz) wanted="$build clang" helpful="libclang-rt-dev" ;;
gate) wanted="$test clang clang-format cppcheck git" ;;
*) echo "usage: scripts/setup.sh [build|test|clocklab|slurmlab|kubelab|s3lab|fuzz|gate]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "setup: this is not a Debian or Ubuntu system; install the equivalents of:" $wanted >&2
    exit 0
fi
# Those of its arguments that are not installed. A program that is there from elsewhere (node, npm) counts.
missing_of() {
    for package in "$@"; do
        status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
        case "$status" in *"ok installed"*) continue ;; esac
        case "$package" in
        nodejs) command -v node >/dev/null 2>&1 && continue ;;
        npm) command -v npm >/dev/null 2>&1 && continue ;;
        esac
        printf ' %s' "$package"
    done
}
missing=$(missing_of $wanted)
helpful=$(missing_of $helpful)
[ -n "$missing$helpful" ] || exit 0

sudo=""
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup: missing packages, and neither root nor sudo is at hand:$missing$helpful" >&2
        [ -n "$missing" ] && exit 1
        exit 0
    fi
    sudo="sudo"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# apt-get waits by itself for dpkg's lock only; those of the lists and of the archives are tried again here.
until_unlocked() {
    end=$(($(date +%s) + ${MERIDIAN_SETUP_WAIT:-900}))
    said=""
    while left=$((end - $(date +%s))); [ "$left" -gt 0 ] || left=0; do
        $sudo env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout="$left" "$@" >"$log" 2>&1 && return 0
        grep -Eq 'Could not get lock|Unable to (lock|acquire)' "$log" && [ "$left" -gt 0 ] || return 1
        [ -n "$said" ] || echo "setup: another program holds the package lock; waiting for it at most $left s:" \
            "$(grep -m 1 'Could not get lock' "$log")"
        said=yes
        sleep 2
    done
}
install() {
    echo "setup: installing$*"
    until_unlocked update -q && until_unlocked install -y -q --no-install-recommends $*
}
if [ -n "$missing" ] && ! install "$missing"; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get could not install:$missing" >&2
    exit 1
fi
if [ -n "$helpful" ] && ! install "$helpful"; then
    echo "setup: apt-get could not install:$helpful; the tests that need them will skip" >&2
fi
