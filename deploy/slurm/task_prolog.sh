#!/bin/sh
# TaskProlog (the job's user, every task): jobs that ask for it get libmeridian.so preloaded, others are left alone.
# They ask by MERIDIAN_CAPTURE or MERIDIAN_ENABLE in their environment: MERIDIAN_CAPTURE=all srun ./train
# All jobs learn where the token of their user is, so that `meridian fetch` works in a job.
# slurmstepd reads the lines "export NAME=value" from here. Always succeeds.
trap 'exit 0' EXIT
asked=${MERIDIAN_LIBRARY:-}
if (. /etc/meridian/slurm.env; :) >/dev/null 2>&1; then . /etc/meridian/slurm.env; fi
library=${asked:-${MERIDIAN_LIBRARY:-/usr/lib/libmeridian.so}}
if [ "$library" = /usr/lib/libmeridian.so ] && [ ! -r "$library" ]; then # Debian's packages have it in a folder of the architecture
    for packaged in /usr/lib/*-linux-gnu/libmeridian.so.0; do [ ! -r "$packaged" ] || library=$packaged; done
fi
token=${MERIDIAN_OWNER_DIR:-/run/meridian/owner}/${SLURM_JOB_UID:-}
case "$token" in
*/ | *[!A-Za-z0-9/._-]*) ;;
*) [ -n "${MERIDIAN_TOKEN_FILE:-}" ] || [ ! -r "$token" ] || echo "export MERIDIAN_TOKEN_FILE=$token" ;;
esac

[ "${MERIDIAN_SESSION:-}" != off ] || exit 0
[ -n "${MERIDIAN_CAPTURE:-}${MERIDIAN_ENABLE:-}${MERIDIAN_SESSION:-}" ] || exit 0
[ -n "${MERIDIAN_CAPTURE:-}${MERIDIAN_ENABLE:-}" ] || echo "export MERIDIAN_CAPTURE=all"
[ "${MERIDIAN_ENABLE:-}" != 0 ] || exit 0
case "$library" in *[!A-Za-z0-9/._-]*) exit 0 ;; esac # a list, or no path
if [ ! -r "$library" ]; then
    echo "print meridian: $library is not on this node; this task is not recorded"
    exit 0
fi
case ":${LD_PRELOAD:-}:" in
*[[:space:]]*) echo "print meridian: LD_PRELOAD has blanks; this task is not recorded" ;;
*":$library:"*) ;;
*) echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
esac
exit 0
