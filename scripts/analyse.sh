#!/bin/sh
# Static analysis of every C source with cppcheck: no finding is allowed. A false one is suppressed where it stands, with its reason:
# /* cppcheck-suppress uninitvar ; only its address is taken */. Classes: warning, performance and portability; "style" repeats what
# the compilers' warnings say, and "information" speaks of cppcheck. LTTng's macros, a benchmark's, are not ours to analyse.
set -eu
cd "$(dirname "$0")/.."
command -v cppcheck >/dev/null 2>&1 || { echo "analyse: cppcheck is missing: run scripts/setup.sh gate" >&2; exit 1; }
# By two processes at least: with one cppcheck also follows calls between sources, and takes what a callee fills in for not filled in.
jobs=${JOBS:-$(nproc)}
[ "$jobs" -ge 2 ] || jobs=2
timeout 900 cppcheck --enable=warning,performance,portability --inline-suppr --std=c11 --platform=unix64 --quiet -j "$jobs" \
    --template=gcc --error-exitcode=1 -I . -D_GNU_SOURCE=1 -D__x86_64__=1 '-DMRD_RELEASE="0"' '-DLTTNG_UST_TRACEPOINT_EVENT(...)=' \
    base proto timesync trace capture hw sim pki httpd agent aggregator cli examples bench tests
