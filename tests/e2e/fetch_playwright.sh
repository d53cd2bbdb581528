#!/bin/sh
# Puts playwright-core, which drives Chromium in the test of the web page, into the folder named.
# For tests only. Exit 77 with the reason when it cannot be had here.
set -eu
to=$1
version=1.55.0

[ -f "$to/.complete" ] && exit 0
command -v node >/dev/null 2>&1 || { echo "skipped: node is not installed"; exit 77; }
command -v npm >/dev/null 2>&1 || { echo "skipped: npm is not installed"; exit 77; }
mkdir -p "$to"
# One test fetches, and the others wait.
exec 9>"$to/.lock"
flock 9
[ -f "$to/.complete" ] && exit 0
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$to" "playwright-core@$version" >"$to/log" 2>&1 ||
    { echo "skipped: npm cannot fetch playwright-core: $(tail -n 1 "$to/log")"; exit 77; }
touch "$to/.complete"
