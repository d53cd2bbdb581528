#!/bin/sh
# Installs or upgrades Meridian on a cluster node, as root; again is harmless. ParallelCluster: OnNodeConfigured.
#   install.sh aggregator PREFIX [STORE]           head node; STORE: folder of the sessions (MERIDIAN_STORE in its environment, too)
#   install.sh agent PREFIX tls+tcp://HEAD:7770    compute node
#   install.sh client PREFIX tls+tcp://HEAD:7770   login node: the command, and where it finds the aggregator
#   install.sh uninstall [purge]                 ends and removes what it installed; purge: settings and secrets, too
# PREFIX is a shared folder made on a machine of the same distribution: `make install PREFIX=...`, and in
# PREFIX/secrets what `meridian certs init` wrote. PREFIX/slurm.env: the hooks' settings, for /etc/meridian/slurm.env of each node that has none.
# Settings that stand in /etc/meridian/*.env stay as they are, also those that are commented out; only the aggregator's
# address is that of the command line. Sessions, spools and the user `meridian` are never removed. Upgrades: docs/howto/upgrade.md.
set -eu
role=${1:-} prefix=${2:-} url=${3:-}
here=$prefix/share/meridian/deploy
etc=/etc/meridian
units=/etc/systemd/system scripts=/opt/slurm/etc/scripts

fail() { echo "install.sh: $*" >&2; exit 1; }
usage="usage: install.sh agent PREFIX URL | client PREFIX URL | aggregator PREFIX [STORE] | uninstall [purge]"
case "$role" in
agent | client) [ -n "$url" ] || fail "the aggregator's address is missing: install.sh $role PREFIX tls+tcp://HOST:7770" ;;
aggregator) ;;
uninstall) case "$prefix" in "" | purge) ;; *) fail "$usage" ;; esac ;;
*) fail "$usage" ;;
esac
[ "$(id -u)" = 0 ] || fail "must run as root"
for file in /usr/bin/meridian /usr/bin/meridian-agent /usr/bin/meridian-aggregator; do
    ! dpkg-query -S "$file" >/dev/null 2>&1 || fail "$file belongs to a package: upgrade or remove it by apt-get"
done

if [ "$role" = uninstall ]; then
    found=no
    for file in "$units/meridian-agent.service" "$units/meridian-aggregator.service" /usr/bin/meridian /usr/bin/meridian-agent \
        /usr/bin/meridian-aggregator /usr/lib/libmeridian.so; do
        [ ! -e "$file" ] || found=yes
    done
    [ "$found" = yes ] || echo "install.sh: nothing is installed on this machine"
    # The hooks are on a folder of the whole cluster: they go with the head node's part, not with that of a compute node.
    if [ -e "$units/meridian-aggregator.service" ]; then
        rm -f "$scripts/prolog.d/50_meridian.sh" "$scripts/epilog.d/50_meridian.sh"
        hook=$scripts/meridian_task_prolog.sh
        if [ -e "$hook" ]; then # slurm.conf names it, and a TaskProlog that is not there fails every task of every job
            printf '#!/bin/sh\n# Meridian was removed. Take TaskProlog out of slurm.conf, then remove this file.\nexit 0\n' >"$hook.new"
            chmod 0755 "$hook.new"
            mv -f "$hook.new" "$hook"
            echo "install.sh: $hook stays and does nothing, because tasks fail without it: take TaskProlog out of slurm.conf, then remove it"
        fi
    fi
    for name in meridian-agent meridian-aggregator; do
        [ -e "$units/$name.service" ] || continue
        systemctl disable --now "$name.service" || echo "install.sh: systemctl could not end $name" >&2
        rm -rf "$units/$name.service" "$units/$name.service.d/10-folder.conf"
        rmdir "$units/$name.service.d" 2>/dev/null || true
    done
    systemctl daemon-reload || true
    # Processes that have the library mapped keep it.
    rm -f /usr/bin/meridian /usr/bin/meridian-agent /usr/bin/meridian-aggregator /usr/lib/libmeridian.so
    # The Prolog made the tokens of the jobs' owners on this node. MERIDIAN_OWNER_DIR on a shared folder belongs to the cluster and stays.
    if [ "$prefix" = purge ]; then rm -rf "$etc" /run/meridian; else echo "install.sh: settings and secrets stay in $etc"; fi
    exit 0
fi

programs=meridian
[ "$role" = client ] || programs="meridian-$role meridian"
for program in $programs; do [ -x "$prefix/bin/$program" ] || fail "$prefix/bin/$program is not there"; done
lacking() { for program in $programs; do ldd "$prefix/bin/$program" | grep 'not found' || true; done; }
if [ -n "$(lacking)" ] && command -v apt-get >/dev/null 2>&1; then
    timeout 300 apt-get update -q
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -q --no-install-recommends libnng1 \
        libprotobuf-c1 libjansson4 libmicrohttpd12 libzstd1 libsqlite3-0 libcurl4
fi
missing=$(lacking)
[ -z "$missing" ] || fail "libraries are missing: $missing"
for program in $programs; do # before anything is replaced
    "$prefix/bin/$program" --version >/dev/null || fail "$prefix/bin/$program does not run on this machine"
done

# A new file in the place of the old one: what runs keeps the one that it has mapped.
place() { # mode, source, target
    mkdir -p "$(dirname "$3")"
    install -m "$1" "$2" "$3.new"
    mv -f "$3.new" "$3"
}

# Everybody may read where the aggregator is and by which authority it is known: `meridian` then needs no options.
# What somebody changed stays; .client.json.installed is what was written last.
client() {
    place 0644 "$prefix/secrets/ca.pem" $etc/ca.pem
    owners=$(. $etc/slurm.env 2>/dev/null && printf %s "${MERIDIAN_OWNER_DIR:-}") || owners=
    fresh=$etc/.client.json.fresh written=$etc/.client.json.installed
    printf '{"server": "https://%s:7780", "ca-file": "/etc/meridian/ca.pem", "token-file": "%s/{uid}"}\n' "$1" "${owners:-/run/meridian/owner}" >$fresh
    if [ ! -e $etc/client.json ] || cmp -s $etc/client.json $written; then
        place 0644 $fresh $etc/client.json
    elif ! cmp -s $etc/client.json $fresh; then
        echo "install.sh: $etc/client.json was changed and stays as it is; this release would write: $(cat $fresh)"
    fi
    place 0644 $fresh $written
    rm -f $fresh
}

# A setting that is not there yet, not even commented out.
put() { # file, name, value
    if ! grep -Eq "^[#[:space:]]*$2=" "$1"; then printf '%s=%s\n' "$2" "$3" >>"$1"; fi
}
value() { sed -n "s/^$2=//p" "$1" | tail -n 1; } # file, name

# A folder other than the unit's own: it is made, and the unit may write there.
folder() { # unit, file of settings, name, folders that the unit does not see
    dir=$(value "$2" "$3") conf=$units/$1.service.d/10-folder.conf
    rm -f "$conf"
    [ -n "$dir" ] || return 0
    case "$dir" in /*) ;; *) fail "$3=$dir in $2: name a whole path" ;; esac
    case "$dir" in *[!A-Za-z0-9/._-]*) fail "$3=$dir in $2: only letters, digits and / . _ -" ;; esac
    for hidden in $4; do
        case "$dir/" in "$hidden"/*) fail "$3=$dir in $2: the unit cannot write below $hidden (ProtectHome in $1.service)" ;; esac
    done
    [ -d "$dir" ] || install -d -o meridian -g meridian -m 0700 "$dir"
    mkdir -p "$(dirname "$conf")"
    printf '# Of install.sh, for %s\n[Unit]\nRequiresMountsFor=%s\n[Service]\nReadWritePaths=%s\n' "$3" "$dir" "$dir" >"$conf"
}

# As the unit runs: its user, rights, limits and view of the file system, its settings; so it finds what the agent would.
doctor() {
    # shellcheck disable=SC2046 # no property of the unit that is taken has a blank in it but in its value
    set -- --quiet --wait --pipe --collect --service-type=oneshot
    while IFS= read -r line; do
        case "$line" in
        '[Install]') break ;;
        Exec* | Type=* | Restart* | KillSignal=* | TimeoutStopSec=* | \#* | \[* | Description=* | After=* | Wants=* | Documentation=*) ;;
        *%S*) set -- "$@" -p "$(printf %s "$line" | sed 's|%S|/var/lib|')" ;;
        *=*) set -- "$@" -p "$line" ;;
        esac
    done <"$units/meridian-agent.service"
    if [ -e "$units/meridian-agent.service.d/10-folder.conf" ]; then
        set -- "$@" -p "$(grep '^ReadWritePaths=' "$units/meridian-agent.service.d/10-folder.conf")"
    fi
    timeout 60 systemd-run "$@" /usr/bin/meridian doctor --quiet
}

host=${url#*://}
host=${host%:*}
install -d -m 0755 $etc
[ -e $etc/slurm.env ] || [ ! -r "$prefix/slurm.env" ] || place 0644 "$prefix/slurm.env" $etc/slurm.env
if [ "$role" = client ]; then
    place 0755 "$prefix/bin/meridian" /usr/bin/meridian
    client "$host"
    exit 0
fi

id meridian >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin meridian
chown root:meridian $etc # secrets in it are 0400
secret() { install -o meridian -g meridian -m 0400 "$prefix/secrets/$1" "$etc/${2:-$1}"; }
before=$("/usr/bin/meridian-$role" --version 2>/dev/null) || before=
for program in $programs; do place 0755 "$prefix/bin/$program" "/usr/bin/$program"; done
env=$etc/$role.env
[ -e "$env" ] || install -m 0644 /dev/null "$env"
if [ "$role" = agent ]; then
    place 0755 "$prefix/lib/libmeridian.so" /usr/lib/libmeridian.so
    client "$host"
    # An invitation (`meridian invite ID` into secrets/join-ID.token) or a certificate of this node (`meridian certs agent ID`) if there is one, else the
    # token of all agents.
    id=$(timeout 20 "$prefix/bin/meridian-agent" --check 2>/dev/null | sed -n 's/^node \([A-Za-z0-9._-]*\) .*/\1/p')
    own='' join=''
    if [ -n "$id" ] && [ -r "$prefix/secrets/join-$id.token" ]; then
        join=yes
        secret "join-$id.token" join.token
    elif [ -n "$id" ] && [ -r "$prefix/secrets/agent-$id.pem" ]; then
        own=yes
        for kind in pem key token; do secret "agent-$id.$kind" "agent.$kind"; done
    else
        secret agent.token
    fi
    old=$(value "$env" MERIDIAN_AGGREGATOR)
    if [ -n "$old" ] && [ "$old" != "$url" ]; then
        echo "install.sh: the aggregator was $old and is $url now"
        grep -v '^MERIDIAN_AGGREGATOR=' "$env" >"$env.new" || true
        chmod 0644 "$env.new"
        mv -f "$env.new" "$env"
    fi
    [ "$old" = "$url" ] || printf 'MERIDIAN_AGGREGATOR=%s\n' "$url" >>"$env"
    put "$env" MERIDIAN_TLS_CA $etc/ca.pem
    if [ -n "$join" ]; then
        put "$env" MERIDIAN_JOIN_TOKEN_FILE $etc/join.token
    elif ! grep -q '^MERIDIAN_JOIN_TOKEN_FILE=' "$env"; then
        put "$env" MERIDIAN_TOKEN_FILE $etc/agent.token
    fi
    if [ -n "$own" ]; then
        put "$env" MERIDIAN_TLS_CERT $etc/agent.pem
        put "$env" MERIDIAN_TLS_KEY $etc/agent.key
    fi
    folder meridian-agent "$env" MERIDIAN_SPOOL_DIR "/home /root /run/user"
else
    for name in aggregator.pem aggregator.key tokens.json; do secret "$name"; done
    client "$(hostname -f 2>/dev/null || hostname)"
    put "$env" MERIDIAN_DATA_LISTEN tls+tcp://0.0.0.0:7770
    put "$env" MERIDIAN_CONTROL_LISTEN tls+tcp://0.0.0.0:7771
    put "$env" MERIDIAN_HTTP_LISTEN 0.0.0.0:7780
    put "$env" MERIDIAN_TLS_CERT $etc/aggregator.pem
    put "$env" MERIDIAN_TLS_KEY $etc/aggregator.key
    put "$env" MERIDIAN_HTTP_CERT $etc/aggregator.pem
    put "$env" MERIDIAN_HTTP_KEY $etc/aggregator.key
    put "$env" MERIDIAN_TOKENS $etc/tokens.json
    # An authority of the agents' certificates (`meridian certs init -d DIR`: ca.pem, ca.key as agents.pem, agents.key): nodes are invited, and the
    # data port takes no agent without a certificate.
    if [ -r "$prefix/secrets/agents.key" ]; then
        for name in agents.pem agents.key; do secret "$name"; done
        put "$env" MERIDIAN_TLS_CA $etc/agents.pem
        put "$env" MERIDIAN_AGENT_CA $etc/agents.pem
        put "$env" MERIDIAN_AGENT_CA_KEY $etc/agents.key
    fi
    store=${url:-${MERIDIAN_STORE:-}}
    [ -z "$store" ] || put "$env" MERIDIAN_STORE "$store"
    folder meridian-aggregator "$env" MERIDIAN_STORE "/home /root /run/user /tmp /var/tmp"
    # /opt/slurm is shared by the head node: the hooks once for all. Elsewhere set Prolog and Epilog in slurm.conf.
    if [ -d "$scripts" ]; then
        place 0755 "$here/slurm/prolog.d/50_meridian.sh" "$scripts/prolog.d/50_meridian.sh"
        place 0755 "$here/slurm/epilog.d/50_meridian.sh" "$scripts/epilog.d/50_meridian.sh"
        place 0755 "$here/slurm/task_prolog.sh" "$scripts/meridian_task_prolog.sh"
    fi
fi
place 0644 "$here/systemd/meridian-$role.service" "$units/meridian-$role.service"
systemctl daemon-reload
systemctl enable "meridian-$role.service"
systemctl restart "meridian-$role.service"
after=$("/usr/bin/meridian-$role" --version)
[ -z "$before" ] || [ "$before" = "$after" ] || echo "install.sh: upgraded from $before to $after"
# What is not fine on this node goes to the log of the installation, which does not fail for it.
[ "$role" != agent ] || doctor || true
