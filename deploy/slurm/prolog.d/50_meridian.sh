#!/bin/sh
# slurmd's Prolog (root, no PATH), on every node of a job. A failing prolog would drain the node and a slow one delay the job, so
# this one always succeeds and waits for nothing that can hang: what asks systemd runs by itself.
#   - the agent runs;
#   - the job's owner has a token of mode 0400 that opens the sessions of his jobs: $MERIDIAN_OWNER_DIR/UID;
#   - /run/meridian/jobs/JOB says whose the job is and, when the job asks by --comment=meridian=..., how it is recorded.
# Settings: /etc/meridian/slurm.env (MERIDIAN_OWNER_DIR on a shared folder, MERIDIAN_JOB_COMMENT=no). One that a shell cannot read is left alone.
trap 'exit 0' EXIT
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
if (. /etc/meridian/slurm.env; :) >/dev/null 2>&1; then . /etc/meridian/slurm.env; fi
jobs=${MERIDIAN_JOB_DIR:-/run/meridian/jobs}
owners=${MERIDIAN_OWNER_DIR:-/run/meridian/owner}

setsid sh -c 'timeout -k 1 20 systemctl --no-block start meridian-agent.service ||
    timeout -k 1 2 logger -t meridian "job $1: meridian-agent could not be started"' sh "${SLURM_JOB_ID:-?}" </dev/null >/dev/null 2>&1 &

case ${SLURM_JOB_ID:-} in '' | *[!0-9]*) exit 0 ;; esac
case ${SLURM_JOB_UID:-} in '' | *[!0-9]*) exit 0 ;; esac
mkdir -p "$jobs" 2>/dev/null || exit 0

# The token of this user: made once. Several nodes may do so at one moment on a shared folder: one link wins. A folder that hangs costs the
# job its token; an empty file is what a crash has left of one. Somebody else may have put links into the folder, so none
# is followed: set -C makes a file that was not there, and a token counts when it is a file of this user.
key=$(timeout -k 0.2 2 sh -c '
    mkdir -p "$1" && token=$1/$2 new=$1/.$2.$$.$3
    find "$token" -maxdepth 0 -type f -empty -delete
    if [ ! -e "$token" ]; then
        text=$(od -An -v -tx1 -N32 /dev/urandom | tr -d " \n") && [ ${#text} = 64 ] &&
            (umask 0377 && set -C && printf "%s\n" "$text" >"$new") && chown -h "$2" "$new" && ln -P "$new" "$token"
        rm -f "$new"
    fi
    [ -n "$(find "$token" -maxdepth 0 -type f -uid "$2" -size +0c)" ] && tr -d "\n" <"$token" | sha256sum | cut -c 1-64' sh "$owners" "$SLURM_JOB_UID" "${SLURMD_NODENAME:-node}" </dev/null 2>/dev/null)
[ -n "$key" ] || setsid timeout -k 1 2 logger -t meridian "job $SLURM_JOB_ID: $owners has no token for user $SLURM_JOB_UID: its sessions have no owner" </dev/null >/dev/null 2>&1 &

# meridian=recorder in the job's comment, which Slurm tells prologs from 23.02 on; before, the controller is asked. Of a heterogeneous job it prints
# all components, each on a line.
comment=${SLURM_JOB_COMMENT:-}
if [ -z "$comment${SPANK_MERIDIAN_REQUEST:-}" ] && [ "${MERIDIAN_JOB_COMMENT:-yes}" = yes ]; then
    comment=$(timeout -k 0.1 0.3 scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null | sed -n "/^JobId=$SLURM_JOB_ID /s/.* Comment=\([^ ]*\).*/\1/p")
fi
request=
asked=${SPANK_MERIDIAN_REQUEST:-} # of --meridian, by the plug-in: "=" and the request
[ -z "$asked" ] || comment="meridian$(printf %s "$asked" | tr -cd 'A-Za-z0-9=,._*+:-')"
case " $(printf %s "$comment" | tr ';' ' ') " in
*' meridian '*) request=request= ;;
*' meridian='*) request=request=$(printf ' %s ' "$comment" | tr ';' ' ' | sed -n 's/.* meridian=\([^ ]*\) .*/\1/p' | tr -cd 'A-Za-z0-9=,._*+:-' | cut -c 1-250) ;;
esac
[ "$request" != request=off ] || request=

# Each component of a heterogeneous job has a prolog with the component's own number, but SLURM_JOB_ID of its processes is the number of
# the first component. That number is the job's.
whole=${SLURM_HET_JOB_ID:-}
case $whole in *[!0-9]* | 0) whole= ;; esac
line() { [ -z "$2" ] || printf '%s=%s\n' "$1" "$(printf %s "$2" | tr -d '\r\n')"; }
text=$(
    line job "${whole:-$SLURM_JOB_ID}"
    [ -z "$whole" ] || line component "$SLURM_JOB_ID"
    line uid "$SLURM_JOB_UID"
    line user "${SLURM_JOB_USER:-}"
    line cluster "${SLURM_CLUSTER_NAME:-}"
    line partition "${SLURM_JOB_PARTITION:-}"
    line restart "${SLURM_JOB_RESTART_COUNT:-}"
    line array_job "${SLURM_ARRAY_JOB_ID:-}"
    line array_task "${SLURM_ARRAY_TASK_ID:-}"
    line owner_key "$key"
    [ -z "$request" ] || printf '%s\n' "$request"
)
new=$jobs/.$SLURM_JOB_ID.$$
{ printf '%s\n' "$text" >"$new" && mv "$new" "$jobs/$SLURM_JOB_ID"; } 2>/dev/null || rm -f "$new"
exit 0
