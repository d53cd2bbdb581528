#!/bin/sh
# Usage: scripts/thirdparty.sh PREFIX. Builds NNG, protobuf-c and libmicrohttpd as static libraries into PREFIX, for distributions without
# packages of them (Amazon Linux 2023) or with older ones (Ubuntu 22.04). Then:
#   PKG_CONFIG_PATH=PREFIX/lib/pkgconfig cmake --preset release -DMRD_THIRDPARTY=PREFIX && cmake --build --preset release --target programs
# The sources are those of Debian 12, checked by SHA-256: from the folder MERIDIAN_TARBALLS, else fetched with curl. Needs a C compiler, cmake,
# ninja, make, pkg-config, GnuTLS's headers, and for protoc-c, where the distribution has none, protobuf's headers and a C++ compiler.
set -eu
prefix=${1:?usage: scripts/thirdparty.sh PREFIX}
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
pool=${MERIDIAN_POOL:-https://deb.debian.org/debian/pool/main}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jobs=${JOBS:-$(nproc)}

unpack() { # name, path below the pool, SHA-256: into $work/name
    file=${MERIDIAN_TARBALLS:-$work}/${2##*/}
    if [ ! -r "$file" ]; then
        [ -z "${MERIDIAN_TARBALLS:-}" ] || { echo "thirdparty.sh: $file is not there" >&2; exit 1; }
        echo "thirdparty.sh: fetching $2"
        curl -fsSL --retry 3 -o "$file" "$pool/$2"
    fi
    if [ "$(sha256sum "$file" | cut -d ' ' -f 1)" != "$3" ]; then
        echo "thirdparty.sh: $file is not what it should be: its SHA-256 differs from $3" >&2
        exit 1
    fi
    mkdir "$work/$1"
    tar -xf "$file" -C "$work/$1" --strip-components=1
}
step() { # what, command
    what=$1
    shift
    "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; echo "thirdparty.sh: $what failed" >&2; exit 1; }
}

unpack nng n/nng/nng_1.5.2.orig.tar.gz f8b25ab86738864b1f2e3128e8badab581510fa8085ff5ca9bb980d317334c46
# TLS without an engine of its own: proto/nng/tls.c brings one.
step "configuring NNG" cmake -S "$work/nng" -B "$work/nng/obj" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DBUILD_SHARED_LIBS=OFF -DNNG_ENABLE_TLS=ON -DNNG_TLS_ENGINE=none -DNNG_TESTS=OFF -DNNG_TOOLS=OFF -DNNG_ENABLE_NNGCAT=OFF \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$prefix"
step "building NNG" cmake --build "$work/nng/obj" -j "$jobs" --target install

unpack protobuf-c p/protobuf-c/protobuf-c_1.4.1.orig.tar.gz 4cc4facd508172f3e0a4d3a8736225d472418aee35b4ad053384b137b220339f
compiler=
if command -v protoc-c >/dev/null 2>&1; then compiler=--disable-protoc; fi
(
    cd "$work/protobuf-c"
    step "configuring protobuf-c" ./configure --prefix="$prefix" --libdir="$prefix/lib" --disable-shared --enable-static --with-pic $compiler
    step "building protobuf-c" make -j "$jobs" install
)

unpack libmicrohttpd libm/libmicrohttpd/libmicrohttpd_0.9.75.orig.tar.xz 796e7e217a4802679fcac667a4e98501c53185dcf50ca0583870e84192620131
(
    cd "$work/libmicrohttpd"
    step "configuring libmicrohttpd" ./configure --prefix="$prefix" --libdir="$prefix/lib" --disable-shared --enable-static --with-pic \
        --enable-https=yes --disable-examples --disable-doc --disable-curl
    step "building libmicrohttpd" make -j "$jobs" install
)
echo "thirdparty.sh: NNG 1.5.2, protobuf-c 1.4.1 and libmicrohttpd 0.9.75 are in $prefix"
