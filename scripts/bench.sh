#!/bin/sh
# Runs every benchmark in build/bin. Figures are for reading, never a test; one that fails does not keep the others from running.
set -eu
cd "$(dirname "$0")/.."
failed=""
run() {
    echo
    echo "== $(basename "$1")"
    "$1" || failed="$failed $(basename "$1")"
}
echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(uname -sr)"
for program in build/bin/bench_*; do
    [ -x "$program" ] || continue
    case "$program" in *_stream | *_journal | *_ring) continue ;; esac # their scripts run them
    run "$program"
done
for script in ring.py uftrace.sh cost.py view.py stream.py journal.py; do
    run "bench/bench_$script"
done
if [ -n "$failed" ]; then
    echo
    echo "failed:$failed" >&2
    exit 1
fi
