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
find "$jobs" -xdev -mindepth 1 -maxdepth 1 -type f -mmin +10 -exec grep -q '^ended=1$' {} \; -delete 2>/dev/null

# Anybody may put files with any name into the ring directory. find passes each name as an argument, takes only rings and notes of losses
# (docs/reference/ring.md) by name and type, and removes a name from the directory that it has open, without following links. A ring of another pid namespace (its number
# is at byte 56 of the file) stays while a process maps it, because its pid means nothing here.
setsid sh -c '
case $(timeout -k 1 20 systemctl show -p ActiveState --value meridian-agent.service 2>/dev/null) in
active | activating | reloading) exit 0 ;; # also one that is being restarted: it goes on where it was
esac
timeout -k 1 10 find "$1" -xdev -mindepth 1 -maxdepth 1 -uid "$2" -regextype posix-extended \
    \( -type f -regex ".*/meridian\.[0-9a-f]{32}(\.[0-9]{1,20}){3,4}\.ring" -o \
    -type l -regex ".*/meridian\.[0-9a-f]{32}(\.[0-9]{1,20}){2}\.lost(\.[0-9]+|\.new)?" \) -exec sh -c '\''
        name=${2##*/}
        pid=${name#meridian.*.}
        space=$(dd if="$2" iflag=nofollow,nonblock bs=8 skip=7 count=1 2>/dev/null | od -An -tu8 | tr -d " ")
        case $space in
        "" | 0 | "$1") [ ! -e "/proc/${pid%%.*}" ] ;;
        *) ! grep -qsF -e "/$name" /proc/[0-9]*/maps ;;
        esac'\'' sh "$(stat -Lc %i /proc/self/ns/pid)" {} \; -delete' sh "${MERIDIAN_RING_DIR:-/dev/shm}" "$SLURM_JOB_UID" </dev/null >/dev/null 2>&1 &
exit 0
