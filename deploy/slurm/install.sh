#!/bin/sh
# Installs Meridian on a cluster node, as root; again is harmless. ParallelCluster: OnNodeConfigured.
#   install.sh agent PREFIX tls+tcp://HEAD:7770    compute node
#   install.sh aggregator PREFIX                   head node
#   install.sh client PREFIX tls+tcp://HEAD:7770   login node: the command, and where it finds the aggregator
# PREFIX is a shared folder made on a machine of the same distribution: `make install PREFIX=...`, and in
# PREFIX/secrets what `meridian certs init` wrote.
set -eu
role=${1:-} prefix=${2:-} url=${3:-}
here=$prefix/share/meridian/deploy

fail() { echo "install.sh: $*" >&2; exit 1; }
case "$role" in
agent | client) [ -n "$url" ] || fail "the aggregator's address is missing: install.sh $role PREFIX tls+tcp://HOST:7770" ;;
aggregator) ;;
*) fail "usage: install.sh agent PREFIX URL | install.sh client PREFIX URL | install.sh aggregator PREFIX" ;;
esac
program=meridian-$role
[ "$role" != client ] || program=meridian
[ -x "$prefix/bin/$program" ] || fail "$prefix/bin/$program is not there"
[ "$(id -u)" = 0 ] || fail "must run as root"

if command -v apt-get >/dev/null 2>&1; then
    if ldd "$prefix/bin/$program" | grep -q 'not found'; then
        timeout 300 apt-get update -q
        DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -q --no-install-recommends libnng1 \
            libprotobuf-c1 libjansson4 libmicrohttpd12 liblz4-1 libzstd1 libcurl4 libsqlite3-0
    fi
fi
missing=$(ldd "$prefix/bin/$program" | grep 'not found' || true)
[ -z "$missing" ] || fail "libraries are missing: $missing"

# Everybody may read where the aggregator is and by which authority it is known: `meridian` then needs no options.
client() {
    install -m 0644 "$prefix/secrets/ca.pem" /etc/meridian/ca.pem
    owners=$(. /etc/meridian/slurm.env 2>/dev/null && printf %s "${MERIDIAN_OWNER_DIR:-}") || owners=
    printf '{"server": "https://%s:7780", "ca-file": "/etc/meridian/ca.pem", "token-file": "%s/{uid}"}\n' "$1" "${owners:-/run/meridian/owner}" \
        >/etc/meridian/client.json
    chmod 0644 /etc/meridian/client.json
}
host=${url#*://}
host=${host%:*}
if [ "$role" = client ]; then
    install -d -m 0755 /etc/meridian
    install -m 0755 "$prefix/bin/meridian" /usr/bin/
    client "$host"
    exit 0
fi

id meridian >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin meridian
install -d -o root -g meridian -m 0755 /etc/meridian # secrets in it are 0400
secret() { install -o meridian -g meridian -m 0400 "$prefix/secrets/$1" "/etc/meridian/$1"; }
install -m 0755 "$prefix/bin/meridian-$role" "$prefix/bin/meridian" /usr/bin/
if [ "$role" = agent ]; then
    install -m 0755 "$prefix/lib/libmeridian.so" /usr/lib/libmeridian.so
    client "$host"
    # A certificate of this node (`meridian certs agent ID`) if there is one, else the token of all agents.
    id=$(timeout 20 "$prefix/bin/meridian-agent" --check 2>/dev/null | sed -n 's/^node \([A-Za-z0-9._-]*\) .*/\1/p')
    if [ -n "$id" ] && [ -r "$prefix/secrets/agent-$id.pem" ]; then
        for kind in pem key token; do
            install -o meridian -g meridian -m 0400 "$prefix/secrets/agent-$id.$kind" "/etc/meridian/agent.$kind"
        done
    else
        secret agent.token
    fi
    cat >/etc/meridian/agent.env <<EOF
MERIDIAN_AGGREGATOR=$url
MERIDIAN_TLS_CA=/etc/meridian/ca.pem
MERIDIAN_TOKEN_FILE=/etc/meridian/agent.token
EOF
    if [ -r /etc/meridian/agent.pem ]; then
        printf '%s\n' MERIDIAN_TLS_CERT=/etc/meridian/agent.pem MERIDIAN_TLS_KEY=/etc/meridian/agent.key >>/etc/meridian/agent.env
    fi
else
    for name in aggregator.pem aggregator.key tokens.json; do secret "$name"; done
    client "$(hostname -f 2>/dev/null || hostname)"
    cat >/etc/meridian/aggregator.env <<EOF
MERIDIAN_DATA_LISTEN=tls+tcp://0.0.0.0:7770
MERIDIAN_CONTROL_LISTEN=tls+tcp://0.0.0.0:7771
MERIDIAN_HTTP_LISTEN=0.0.0.0:7780
MERIDIAN_TLS_CERT=/etc/meridian/aggregator.pem
MERIDIAN_TLS_KEY=/etc/meridian/aggregator.key
MERIDIAN_HTTP_CERT=/etc/meridian/aggregator.pem
MERIDIAN_HTTP_KEY=/etc/meridian/aggregator.key
MERIDIAN_TOKENS=/etc/meridian/tokens.json
EOF
    # /opt/slurm is shared by the head node: the hooks once for all. Elsewhere set Prolog and Epilog in slurm.conf.
    scripts=/opt/slurm/etc/scripts
    if [ -d "$scripts" ]; then
        install -D -m 0755 "$here/slurm/prolog.d/50_meridian.sh" "$scripts/prolog.d/50_meridian.sh"
        install -D -m 0755 "$here/slurm/epilog.d/50_meridian.sh" "$scripts/epilog.d/50_meridian.sh"
        install -D -m 0755 "$here/slurm/task_prolog.sh" "$scripts/meridian_task_prolog.sh"
    fi
fi
install -m 0644 "$here/systemd/meridian-$role.service" /etc/systemd/system/
systemctl daemon-reload
systemctl enable "meridian-$role.service"
systemctl restart "meridian-$role.service"
# What is not fine on this node goes to the log of the installation, which does not fail for it.
[ "$role" != agent ] || timeout 60 runuser -u meridian -- /usr/bin/meridian doctor --quiet || true
