#!/bin/sh
# What Meridian does, in about a minute: one node, then a cluster with clocks that are wrong. Results: ./demo-out, replaced by
# each run. Needs the build only; as root the cluster's nodes get networks of their own.
# DEMO_NODES=4; DEMO_OPTIONS=--keep leaves the cluster and its page there until Ctrl-C.
set -eu
cd "$(dirname "$0")/.."
bin=build/bin
out=demo-out
nodes=${DEMO_NODES:-4}

if [ ! -x "$bin/meridian" ]; then
    echo "$bin/meridian is missing: run make first" >&2
    exit 1
fi
rm -rf "$out"
mkdir -p "$out"
status=0

# Each command has listed its files.
results() {
    title "To look at it"
    find "$out" -name 'system_profile.pftrace' | sort | sed "s|^|$bin/meridian open |"
    echo "The programs are in $bin; where a line above says only meridian: export PATH=\$PWD/$bin:\$PATH"
}
title() { printf '\n==== %s\n\n' "$1"; }

# One node: a training loop of four processes, recorded without a change to it.
title "One node: meridian inspect -- train_loop --ranks 4 (SIMULATED runtime; NC 1 of rank 2 takes three times as long)"
checkpoints=$(mktemp -d)
env LD_LIBRARY_PATH="$PWD/build/lib/simnrt" \
    "$bin/meridian" inspect -o "$out/one-node" -- \
    "$bin/train_loop" --ranks 4 --cores 2 --steps 60 --exec-us 8000 --straggler 5:3 --checkpoint-dir "$checkpoints" --quiet ||
    status=$?
rm -rf "$checkpoints"

# A cluster: aggregator, agents, a distributed job, one session.
title "A cluster of $nodes nodes: meridian demo"
# shellcheck disable=SC2086 # several options
"$bin/meridian" demo --nodes "$nodes" --duration 5s -o "$out/cluster" ${DEMO_OPTIONS:-} || status=$?

results
if [ "$status" -ne 0 ]; then
    echo
    echo "The demonstration did not go through: exit status $status." >&2
fi
exit "$status"
