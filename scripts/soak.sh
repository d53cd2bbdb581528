#!/bin/bash
# Random faults for SOAK_SECONDS (3600): the tests labelled slow (hundreds of kills, cuts, full disks, floods, long clock simulations)
# and the short fault tests, in an order drawn anew every round; every test draws its own seed and prints it. Stops at the first
# failure and says which. SOAK_SEED repeats an order.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh test
until=$(($(date +%s) + ${SOAK_SECONDS:-3600}))
seed=${SOAK_SEED:-$RANDOM}
short='^(e2e/(cluster|inspect|kills.*|disks|store|network|reconnect|clockstep|flood|files|bigfile|align_truth)|timesync/collective_truth|aggregator/kill|agent/.*)$'
names() { ctest --test-dir build -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p'; }
tests=$( (names -L slow; names -R "$short" -LE slow) | sort)
count=0
round=0
echo "soak: seed $seed"
while [ "$(date +%s)" -lt "$until" ]; do
    round=$((round + 1))
    for test in $(shuf --random-source=<(yes "$seed $round") <<<"$tests"); do
        left=$((until - $(date +%s)))
        [ "$left" -gt 0 ] || break
        echo "== round $round, $left s left: $test"
        case $test in
        *_truth | sim/cluster_soak | sim/agents_soak | e2e/kills-* | e2e/hostile-* | e2e/upgrade-slow) MRD_SEED=$((RANDOM * 32768 + RANDOM)) ctest --test-dir build -R "^$test\$" --output-on-failure ;;
        *) ctest --test-dir build -R "^$test\$" --output-on-failure ;;
        esac
        count=$((count + 1))
    done
done
echo "soak: $count tests in $round rounds without a failure"
