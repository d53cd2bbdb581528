#!/bin/sh
# Builds the Kubernetes of the laboratory (make kubelab) from Debian 12's own source package: kube-apiserver, controller-manager,
# scheduler, kubelet and kube-proxy 1.20.2. Once: some 25 minutes of one core and 4 GB of disk while it builds, 0.4 GB after. All
# of it lies in a cache outside of every source tree ($MERIDIAN_KUBELAB, else ~/.cache/meridian-kubelab):
#   bin/           the five programs
#   swagger.json   the API's OpenAPI description, which the strict check of the manifests reads
#   built          what was built, of what, with what; a build of other sources, compiler or flags is made again
# Nothing here is ever committed or installed. The machine's own package lists stay as they are. exit 77: something is missing,
# said in a sentence.
set -eu

LAB=${MERIDIAN_KUBELAB:-${XDG_CACHE_HOME:-$HOME/.cache}/meridian-kubelab}
GO=${MERIDIAN_KUBELAB_GO:-/usr/lib/go-1.19/bin}
VERSION=1.20.2
PROGRAMS="kube-apiserver kubelet kube-controller-manager kube-scheduler kube-proxy"
REFLECT=golang-github-modern-go-reflect2-dev
LDFLAGS="-s -w -X k8s.io/component-base/version.gitVersion=v$VERSION -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=20"

skip() {
    echo "skipped: $*"
    exit 77
}
[ -x "$GO/go" ] || skip "no Go 1.19 compiler at $GO/go; apt-get install golang-1.19-go"
key="$VERSION $REFLECT $("$GO/go" version) $LDFLAGS"
if [ -f "$LAB/built" ] && [ "$(cat "$LAB/built")" = "$key" ]; then
    exit 0
fi
mkdir -p "$LAB"
exec 9>"$LAB/lock"
flock -n 9 || { echo "kubelab: another build holds $LAB/lock; waiting for it"; flock 9; }
[ -f "$LAB/built" ] && [ "$(cat "$LAB/built")" = "$key" ] && exit 0
free=$(df -Pk "$LAB" | awk 'NR == 2 { print int($4 / 1048576) }')
[ "$free" -ge 6 ] || skip "$LAB has $free GB free, the build needs 6"

fetch() {
    command -v apt-get >/dev/null || skip "the source package comes from Debian 12's mirror by apt-get, which is not here"
    mkdir -p "$LAB/parts" "$LAB/lists/partial" "$LAB/cache/archives/partial" "$LAB/src"
    # The machine's own mirror and keys of bookworm, as sources of sources; no other repository that it may have.
    from=""
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] && grep -q bookworm "$file" && { from=$file; break; }
    done
    if [ -n "$from" ]; then
        sed 's/^Types:.*/Types: deb-src/' "$from" >"$LAB/parts/src.sources"
    else
        echo "deb-src http://deb.debian.org/debian bookworm main" >"$LAB/parts/src.list"
    fi
    options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$LAB/parts -o Dir::State::lists=$LAB/lists -o Dir::Cache=$LAB/cache"
    apt-get -q $options update >"$LAB/fetch.log" 2>&1 &&
        (cd "$LAB/src" && apt-get -q $options source --download-only kubernetes >>"$LAB/fetch.log" 2>&1) ||
        skip "the source package kubernetes could not be fetched; see $LAB/fetch.log"
    set -- "$LAB"/src/kubernetes_*"$VERSION".orig.tar.*
    [ -f "$1" ] || skip "the mirror has no kubernetes $VERSION, but $(cd "$LAB/src" && ls kubernetes_*.orig.tar.* 2>/dev/null || echo nothing)"
    echo "kubelab: unpacking $(basename "$1")"
    tar -C "$LAB/src" -xf "$1"
}
[ -d "$LAB/src/kubernetes-$VERSION/cmd/kubelet" ] || fetch

# The tree's copy of reflect2 (1.0.1) walks over maps by a structure that Go has changed since 1.18: the API server died when a webhook's patch was
# written into its audit annotation. Debian's package of it is newer.
reflect="$LAB/src/kubernetes-$VERSION/vendor/github.com/modern-go/reflect2"
if [ ! -f "$reflect/go_above_118.go" ]; then
    rm -rf "$LAB/reflect" && mkdir -p "$LAB/reflect"
    (cd "$LAB/reflect" && apt-get -q download "$REFLECT" >>"$LAB/fetch.log" 2>&1 && dpkg-deb -x "$REFLECT"_*.deb .) ||
        skip "the package $REFLECT could not be fetched; see $LAB/fetch.log"
    rm "$reflect"/*.go
    cp "$LAB"/reflect/usr/share/gocode/src/github.com/modern-go/reflect2/*.go "$reflect/"
fi

# GOPATH mode: module mode refuses the tree ("updates to go.mod needed, disabled by -mod=vendor").
export PATH="$GO:$PATH" GOPATH="$LAB/gopath" GOCACHE="$LAB/gocache" CGO_ENABLED=0 GO111MODULE=off GOFLAGS=
mkdir -p "$GOPATH/src/k8s.io" "$LAB/bin"
ln -sfn "$LAB/src/kubernetes-$VERSION" "$GOPATH/src/k8s.io/kubernetes"
cd "$GOPATH/src/k8s.io/kubernetes"

# kube-apiserver needs one generated source. The tree's make would generate it and then compile all again in a build cache of its
# own; running the generator as that make does lets the five programs share one.
generated=pkg/generated/openapi/zz_generated.openapi.go
if [ ! -s "$generated" ]; then
    echo "kubelab: generating $generated"
    nice -n 19 go build -p 1 -o "$LAB/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
    packages=$(grep --include='*.go' -rlE '^// *\+k8s:openapi-gen=' pkg staging/src cmd plugin | grep -v '/zz_generated' |
        xargs -n 1 dirname | sed -e 's,^staging/src/,k8s.io/kubernetes/vendor/,' -e 's,^\(pkg\|cmd\|plugin\)/,k8s.io/kubernetes/\1/,' |
        sort -u | grep -vE 'sample-apiserver|apiextensions-apiserver/examples|code-generator' | paste -sd,)
    nice -n 19 "$LAB/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi \
        -O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt -r "$LAB/openapi-violations" -o "$GOPATH/src" >"$LAB/openapi-gen.log" 2>&1 ||
        { tail -5 "$LAB/openapi-gen.log" >&2; exit 1; }
fi
for program in $PROGRAMS; do
    start=$(date +%s)
    nice -n 19 go build -p 1 -ldflags "$LDFLAGS" -o "$LAB/bin/$program" "k8s.io/kubernetes/cmd/$program"
    echo "kubelab: built $program in $(($(date +%s) - start)) s"
done
cp api/openapi-spec/swagger.json "$LAB/swagger.json"
echo "$key" >"$LAB/built"
# What is only needed while building: some 3 GB.
chmod -R u+w "$LAB/gocache" && rm -rf "$LAB/gocache" "$LAB/reflect" "$LAB/openapi-gen" "$LAB/gopath" "$LAB/src" "$LAB/lists" "$LAB/cache"
