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

has() { "$bin/meridian" --help | grep -q "^  $1 "; }
# The files below a folder, and how to open the profiles among them. Of each part at its end: the cluster stays there with --keep.
results() {
    title "Results: $1"
    find "$1" -type f ! -path "$out/capture*/i-*" ! -name '*.truth.json' | sort | while read -r file; do
        printf '%12d bytes  %s\n' "$(wc -c <"$file")" "$file"
    done
    echo
    find "$1" -name 'system_profile.pftrace' | sort | sed "s|^|open it with: $bin/meridian open |"
    echo "The programs are in $bin; where a line above says only meridian: export PATH=\$PWD/$bin:\$PATH"
}
title() { printf '\n==== %s\n\n' "$1"; }

# One node: a training loop of four processes, recorded without a change to it.
if has inspect && [ -x "$bin/train_loop" ]; then
    title "One node: meridian inspect -- train_loop --ranks 4 (SIMULATED runtime)"
    checkpoints=$(mktemp -d)
    env LD_LIBRARY_PATH="$PWD/build/lib/simnrt" \
        "$bin/meridian" inspect -o "$out/one-node" -- \
        "$bin/train_loop" --ranks 4 --cores 8 --steps 20 --straggler 5:3 --checkpoint-dir "$checkpoints" --quiet ||
        status=$?
    rm -rf "$checkpoints"
    results "$out/one-node"
elif command -v python3 >/dev/null; then
    title "Two nodes' capture directories: meridian view (GENERATED data)"
    python3 tests/e2e/gen_capture.py "$out/capture" 40
    "$bin/meridian" view -d "$out/capture" -o "$out/capture-profile" >"$out/capture-profile.txt" || status=$?
    head -n 60 "$out/capture-profile.txt"
    results "$out"
fi

# A cluster: aggregator, agents, a distributed job, one session.
title "A cluster of $nodes nodes: meridian demo"
# shellcheck disable=SC2086 # several options
"$bin/meridian" demo --nodes "$nodes" --duration 5s -o "$out/cluster" ${DEMO_OPTIONS:-} || status=$?

results "$out"
if [ "$status" -ne 0 ]; then
    echo
    echo "The demonstration did not go through: exit status $status." >&2
fi
exit "$status"
