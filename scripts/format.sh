#!/bin/sh
# Formats every C source of the repository (scripts/format.sh), or names those that are not and fails (scripts/format.sh check).
# Another version of clang-format lays some things out differently: 14, of Debian 12, is the one that counts.
set -eu
cd "$(dirname "$0")/.."
format=${CLANG_FORMAT:-$(command -v clang-format-14 || command -v clang-format)} || { echo "format: clang-format is missing: run scripts/setup.sh gate" >&2; exit 1; }
"$format" --version | grep -q 'version 14\.' || echo "format: $("$format" --version); the sources follow version 14" >&2
case "${1:-write}" in
write) git ls-files -z '*.c' '*.h' | xargs -0 -n 40 -P "$(nproc)" "$format" -i ;;
check)
    git ls-files -z '*.c' '*.h' | xargs -0 -n 40 -P "$(nproc)" "$format" --dry-run -Werror 2>&1 |
        sed -n 's/^\([^:]*\):[0-9:]* error: .*/\1/p' | sort -u >"${TMPDIR:-/tmp}/format.$$" || true
    list=$(cat "${TMPDIR:-/tmp}/format.$$"); rm -f "${TMPDIR:-/tmp}/format.$$"
    [ -z "$list" ] || { echo "$list"; echo "format: $(echo "$list" | wc -l) files are not formatted: run make format" >&2; exit 1; } ;;
*) echo "usage: scripts/format.sh [write|check]" >&2; exit 2 ;;
esac
