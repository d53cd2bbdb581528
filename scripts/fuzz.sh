#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS (60) from its corpus, or those named as arguments ("journal align"). The first finding
# stops it: the target's log is shown, the input is in build-fuzz/found. What is learned on the way stays in build-fuzz/corpus.
# FUZZ_MERGE=1 adds to tests/fuzz/corpus what covers more than it does, and nothing else.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzz_targets
mkdir -p build-fuzz/found build-fuzz/log
[ $# -gt 0 ] || set -- $(cd build-fuzz/bin && ls -d fuzz_* | sed 's/^fuzz_//')
for name in "$@"; do
    target=build-fuzz/bin/fuzz_$name corpus=tests/fuzz/corpus/$name grown=build-fuzz/corpus/$name log=build-fuzz/log/$name
    [ -x "$target" ] || { echo "fuzz: there is no target '$name'; there are $(cd build-fuzz/bin && ls -d fuzz_* | sed 's/^fuzz_//' | tr '\n' ' ')" >&2; exit 2; }
    mkdir -p "$grown"
    echo "== $name"
    if [ -n "${FUZZ_MERGE:-}" ]; then
        "$target" -merge=1 -max_len=16384 "$corpus" "$grown" >"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 1; }
        continue
    fi
    if ! "$target" -max_total_time="${FUZZ_SECONDS:-60}" -artifact_prefix="build-fuzz/found/$name-" -print_final_stats=1 \
        -rss_limit_mb=2048 "$grown" "$corpus" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "fuzz: $name failed; its log is $log, its input is in build-fuzz/found" >&2
        exit 1
    fi
    grep -E '^stat::(number_of_executed_units|new_units_added|peak_rss_mb)' "$log"
done
