#!/bin/sh
# Usage: scripts/image.sh TAG [OCI-ARCHIVE]. Builds the image of deploy/image/Containerfile with buildah, else with docker (buildx), from the
# tracked files of this tree, all times those of the commit (or SOURCE_DATE_EPOCH). MERIDIAN_BASE, MERIDIAN_BUILD_BASE: other base images;
# name them by digest where every build has to be equal, because the packages of their archive are then the only input that moves.
# MERIDIAN_IMAGE_OPTIONS: more options of the builder (buildah: --isolation chroot --pull-never).
set -eu
tag=${1:?usage: scripts/image.sh TAG [OCI-ARCHIVE]} archive=${2:-}
source=$(cd "$(dirname "$0")/.." && pwd)
release=$(sed -n 's/^project(meridian VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
if [ -e "$source/.git" ] && command -v git >/dev/null 2>&1; then
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
    commit=${MERIDIAN_COMMIT:-$(git -C "$source" describe --always --abbrev=12 --dirty --exclude '*')}
    files() { git -C "$source" ls-files -z; }
else
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y "$source/CMakeLists.txt")}
    commit=${MERIDIAN_COMMIT:-$(head -n 1 "$source/.commit" 2>/dev/null || true)}
    files() { (cd "$source" && find . -type f ! -path './build*' -print0); }
fi
export SOURCE_DATE_EPOCH
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
files | tar -C "$source" --null --ignore-failed-read -T - -cf - | tar -C "$context" -xf -
set -- -f "$context/deploy/image/Containerfile" --build-arg "VERSION=$release" --build-arg "MERIDIAN_COMMIT=$commit" \
    --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" --build-arg "JOBS=${JOBS:-}"
[ -z "${MERIDIAN_BASE:-}" ] || set -- "$@" --build-arg "BASE=$MERIDIAN_BASE"
[ -z "${MERIDIAN_BUILD_BASE:-}" ] || set -- "$@" --build-arg "BUILD_BASE=$MERIDIAN_BUILD_BASE"
if command -v buildah >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # options are words
    buildah bud --timestamp "$SOURCE_DATE_EPOCH" ${MERIDIAN_IMAGE_OPTIONS:-} "$@" -t "$tag" "$context"
    [ -z "$archive" ] || buildah push -q "$tag" "oci-archive:$archive"
elif command -v docker >/dev/null 2>&1; then
    kind=image,name=$tag
    [ -z "$archive" ] || kind=oci,dest=$archive
    # shellcheck disable=SC2086
    docker buildx build ${MERIDIAN_IMAGE_OPTIONS:-} "$@" -t "$tag" --output "type=$kind,rewrite-timestamp=true" "$context"
else
    echo "image.sh: neither buildah nor docker is installed" >&2
    exit 1
fi
