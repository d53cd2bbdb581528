#!/bin/sh
# Writes the header that says which commit is built: commit.sh SOURCE HEADER. Untouched when nothing changed.
# A source archive has no history: MERIDIAN_COMMIT, or the file .commit in it, says the commit then.
set -eu
source=$1 header=$2
commit=${MERIDIAN_COMMIT:-}
if [ -z "$commit" ] && [ -r "$source/.commit" ]; then
    commit=$(head -n 1 "$source/.commit")
fi
if [ -z "$commit" ] && [ -e "$source/.git" ] && command -v git >/dev/null 2>&1; then
    commit=$(git -C "$source" describe --always --abbrev=12 --dirty --exclude '*' 2>/dev/null || true)
fi
text="#define MRD_COMMIT \"$(printf %s "$commit" | tr -cd 'A-Za-z0-9-' | cut -c 1-60)\""
[ "$(cat "$header" 2>/dev/null || true)" = "$text" ] && exit 0
mkdir -p "$(dirname "$header")"
printf '%s\n' "$text" >"$header.$$"
mv "$header.$$" "$header"
