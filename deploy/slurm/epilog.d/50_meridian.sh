#!/bin/sh
# slurmd's Epilog (root, no PATH), however the job ended. The job's file says so: its session ends. A running agent drains and
# removes the rings of processes that ended; without one they would stay in memory: here those of the job's user go whose process
# is gone. Always succeeds, and waits for nothing that can hang.
trap 'exit 0' EXIT
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
if (. /etc/meridian/slurm.env; :) >/dev/null 2>&1; then . /etc/meridian/slurm.env; fi
jobs=${MERIDIAN_JOB_DIR:-/run/meridian/jobs}

case ${SLURM_JOB_ID:-} in '' | *[!0-9]*) exit 0 ;; esac
case ${SLURM_JOB_UID:-} in '' | *[!0-9]*) exit 0 ;; esac
if [ -f "$jobs/$SLURM_JOB_ID" ]; then
    new=$jobs/.$SLURM_JOB_ID.$$
    { { sed '/^ended=/d' "$jobs/$SLURM_JOB_ID" && echo ended=1; } >"$new" && mv "$new" "$jobs/$SLURM_JOB_ID"; } 2>/dev/null ||
        rm -f "$new" "$jobs/$SLURM_JOB_ID" # no room: a file that is gone says so, too
fi
find "$jobs" -xdev -maxdepth 1 -type f -mmin +10 -exec grep -q '^ended=1$' {} \; -exec rm -f {} + 2>/dev/null

setsid sh -c '
case $(timeout -k 1 20 systemctl show -p ActiveState --value meridian-agent.service 2>/dev/null) in
active | activating | reloading) exit 0 ;; # also one that is being restarted: it goes on where it was
esac
timeout -k 1 10 find "$1" -xdev -maxdepth 1 -type f -uid "$2" -name "meridian.*.ring" 2>/dev/null |
    while IFS= read -r ring; do
        pid=${ring##*/meridian.} # meridian.<boot>.<pid>.<start>.<tid>.ring
        pid=${pid#*.}
        pid=${pid%%.*}
        case $pid in "" | *[!0-9]*) continue ;; esac
        [ -e "/proc/$pid" ] || rm -f -- "$ring"
    done' sh "${MERIDIAN_RING_DIR:-/dev/shm}" "$SLURM_JOB_UID" </dev/null >/dev/null 2>&1 &
exit 0
