#!/bin/sh
# Random faults for SOAK_SECONDS (3600): the tests labelled slow (kills at random instants, long clock simulations) and the
# cluster's fault test, again and again with new seeds. Stops at the first failure and says which.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh test
until=$(($(date +%s) + ${SOAK_SECONDS:-3600}))
round=0
while [ "$(date +%s)" -lt "$until" ]; do
    round=$((round + 1))
    echo "== round $round, $((until - $(date +%s))) s left"
    ctest --test-dir build -L slow --output-on-failure
    ctest --test-dir build -R '^(e2e/cluster|e2e/inspect|aggregator/kill|agent/)' --output-on-failure
done
echo "soak: $round rounds without a failure"
