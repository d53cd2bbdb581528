#!/bin/sh
# Runs every benchmark in build/bin. Figures are for reading, never a test.
set -eu
cd "$(dirname "$0")/.."
echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(uname -sr)"
for program in build/bin/bench_*; do
    [ -x "$program" ] || continue
    case "$program" in *_stream | *_journal) continue ;; esac # their scripts run them
    echo
    echo "== $(basename "$program")"
    "$program"
done
for script in bench_uftrace.sh bench_preload.py bench_view.py bench_stream.py bench_journal.py; do
    echo
    echo "== $script"
    "bench/$script"
done
