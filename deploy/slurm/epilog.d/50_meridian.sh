#!/bin/sh
# slurmd's Epilog (root, no PATH). A running agent drains and removes the rings of processes that ended. Without
# one they would stay in memory: here those of the job's user go whose process is gone. Always succeeds.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
rings=${MERIDIAN_RING_DIR:-/dev/shm}

case ${SLURM_JOB_UID:-} in '' | *[!0-9]*) exit 0 ;; esac
case $(timeout -k 1 5 systemctl show -p ActiveState --value meridian-agent.service 2>/dev/null) in
active | activating | reloading) exit 0 ;; # also one that is being restarted: it goes on where it was
esac
timeout -k 1 10 find "$rings" -xdev -maxdepth 1 -type f -uid "$SLURM_JOB_UID" -name 'meridian.*.ring' 2>/dev/null |
    while IFS= read -r ring; do
        pid=${ring##*/meridian.} # meridian.<boot>.<pid>.<start>.<tid>.ring
        pid=${pid#*.}
        pid=${pid%%.*}
        case $pid in '' | *[!0-9]*) continue ;; esac
        [ -e "/proc/$pid" ] || rm -f -- "$ring"
    done
exit 0
