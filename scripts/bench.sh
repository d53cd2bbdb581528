#!/bin/sh
# Runs every benchmark in build/bin. Figures are for reading, never a test.
set -eu
cd "$(dirname "$0")/.."
echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(uname -sr)"
for program in build/bin/bench_*; do
    [ -x "$program" ] || continue
    echo
    echo "== $(basename "$program")"
    "$program"
done
for script in bench_uftrace.sh bench_preload.py bench_view.py; do
    echo
    echo "== $script"
    "bench/$script"
done
