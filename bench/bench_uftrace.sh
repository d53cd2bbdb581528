#!/bin/sh
# What uftrace pays for recording a call (entry and exit), beside a scope of libmeridian in the same minute: CPU nanoseconds per
# call above the same program untraced. Needs uftrace and gcc; says so and ends when they are absent.
set -eu
cd "$(dirname "$0")/.."
command -v uftrace >/dev/null 2>&1 || { echo "skipped: uftrace is not installed (Debian package uftrace)"; exit 0; }
calls=2000000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/calls.c" <<C
#include <stdio.h>
#include <sys/resource.h>
__attribute__((noinline)) int leaf(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
int main(void)
{
    struct rusage a, b;
    int v = 0;
    getrusage(RUSAGE_THREAD, &a);
    for (int i = 0; i < $calls; i++)
        v = leaf(v);
    getrusage(RUSAGE_THREAD, &b);
    fprintf(stderr, "%.1f\n", ((b.ru_utime.tv_sec - a.ru_utime.tv_sec + b.ru_stime.tv_sec - a.ru_stime.tv_sec) * 1e9 +
            (b.ru_utime.tv_usec - a.ru_utime.tv_usec + b.ru_stime.tv_usec - a.ru_stime.tv_usec) * 1e3) / $calls);
    return v != $calls;
}
C
gcc -O2 -D_GNU_SOURCE -o "$work/plain" "$work/calls.c"
gcc -O2 -D_GNU_SOURCE -pg -o "$work/traced" "$work/calls.c"
for round in 1 2 3 4 5; do
    "$work/plain" 2>>"$work/plain.ns"
    (cd "$work" && uftrace record --no-libcall -b 64m -d "data.$round" ./traced 2>>traced.ns)
    rm -rf "$work/data.$round"
done
median() { grep -E '^[0-9.]+$' "$1" | sort -n | sed -n 3p; }
awk -v a="$(median "$work/plain.ns")" -v b="$(median "$work/traced.ns")" \
    'BEGIN { printf "uftrace -pg, one call recorded    %6.1f ns above the bare call (%.1f ns); median of 5\n", b - a, a }'
echo "a scope of libmeridian is the row 'scope' of bench_ring above"
