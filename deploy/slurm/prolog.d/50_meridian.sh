#!/bin/sh
# slurmd's Prolog (root, no PATH): the agent runs before a job starts. A failing prolog would drain the
# node, so this one always succeeds, waits for nothing, and says in the system log what went wrong.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH

if ! timeout -k 1 5 systemctl --no-block start meridian-agent.service >/dev/null 2>&1; then
    timeout -k 1 2 logger -t meridian "job ${SLURM_JOB_ID:-?}: meridian-agent could not be started" >/dev/null 2>&1
fi
exit 0
