#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS (60) from its corpus; new findings stop it with the input's path.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang >/dev/null 2>&1; then
    echo "fuzz: clang is needed (apt-get install clang libclang-rt-14-dev)" >&2
    exit 1
fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
mkdir -p build-fuzz/found
for target in build-fuzz/bin/fuzz_*; do
    name=$(basename "$target" | sed 's/^fuzz_//')
    mkdir -p "build-fuzz/corpus/$name"
    echo "== $name"
    "$target" -max_total_time="${FUZZ_SECONDS:-60}" -artifact_prefix="build-fuzz/found/$name-" -print_final_stats=1 \
        -rss_limit_mb=2048 "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" 2>&1 | grep -E '^stat::|ERROR|SUMMARY|Test unit' || true
    if ls "build-fuzz/found/$name-"* >/dev/null 2>&1; then
        echo "fuzz: $name found something in build-fuzz/found" >&2
        exit 1
    fi
done
