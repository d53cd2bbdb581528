#!/bin/sh
# Usage: scripts/manual.sh BIN OUT. Writes the manual pages of the programs in BIN to OUT/*.1: each program prints its own, from its
# option table (base/conf/manual.h).
set -eu
bin=$1 out=$2
mkdir -p "$out"
page() { # name of the page, command
    name=$1
    shift
    "$@" --help=man >"$out/$name.1.part"
    mv "$out/$name.1.part" "$out/$name.1"
}
page meridian "$bin/meridian"
for command in $("$bin/meridian" --help=options | grep -v '^-'); do
    page "meridian-$command" "$bin/meridian" "$command"
done
page meridian-agent "$bin/meridian-agent"
page meridian-aggregator "$bin/meridian-aggregator"
page meridian-webhook "$bin/meridian-webhook"
