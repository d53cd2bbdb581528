#!/bin/sh
# Usage: scripts/deb.sh [OUT]. Builds the Debian packages from the tracked files of this tree (of a source archive: from all of it)
# into OUT (build/deb). Two builds of one commit with the same compiler are equal in every byte: times are those of the commit, or of
# SOURCE_DATE_EPOCH. MERIDIAN_DEB_VERSION names another version than the project's. Uses ccache when it is there; runs no test.
set -eu
umask 022
source=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$source/build/deb}
for need in dpkg-buildpackage dh cmake ninja; do
    command -v "$need" >/dev/null 2>&1 || { echo "deb.sh: $need is not installed: apt-get install build-essential debhelper cmake ninja-build" >&2; exit 1; }
done
history=
if [ -e "$source/.git" ] && command -v git >/dev/null 2>&1; then history=yes; fi
release=$(sed -n 's/^project(meridian VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
version=${MERIDIAN_DEB_VERSION:-$release}
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    if [ -n "$history" ]; then SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct)
    else SOURCE_DATE_EPOCH=$(stat -c %Y "$source/CMakeLists.txt"); fi
fi
export SOURCE_DATE_EPOCH
if [ -n "$history" ] && [ -z "${MERIDIAN_COMMIT:-}" ]; then
    MERIDIAN_COMMIT=$(git -C "$source" describe --always --abbrev=12 --dirty --exclude '*')
    export MERIDIAN_COMMIT
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
tree=$out/meridian-$release
rm -rf "$tree"
mkdir "$tree"
if [ -n "$history" ]; then
    git -C "$source" ls-files -z | tar -C "$source" --null --ignore-failed-read -T - -cf - | tar -C "$tree" -xf -
else
    tar -C "$source" --exclude ./build --exclude './build-*' -cf - . | tar -C "$tree" -xf -
fi
chmod -R u=rwX,go=rX "$tree"
mv "$tree/deploy/debian" "$tree/debian"
cat >"$tree/debian/changelog" <<END
meridian ($version) unstable; urgency=medium

  * Release $release; the history of the repository says what changed.

 -- Meridian developers <maintainers@meridian.dev>  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
if command -v ccache >/dev/null 2>&1; then # debhelper gives the build another home
    CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
    export CCACHE_DIR
fi
rm -f "$out"/*.deb "$out"/*.buildinfo "$out"/*.changes
(cd "$tree" && LC_ALL=C.UTF-8 nice dpkg-buildpackage -us -uc -b "-j${JOBS:-1}") >"$out/build.log" 2>&1 || {
    tail -n 30 "$out/build.log" >&2
    echo "deb.sh: the packages could not be built; all of the output is in $out/build.log" >&2
    exit 1
}
rm -rf "$tree"
ls "$out"/*.deb
