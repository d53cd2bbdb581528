"""Meridian on a real Slurm of a head node and two compute nodes (machines.py): installed by the commands of docs/howto/slurm.md, and what jobs do there.
Usage: slurmlab.py [case ...]; without one, all. MERIDIAN_KEEP leaves the machines' files in the cache's folder run."""
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import cases  # noqa: E402
import machines  # noqa: E402
from lib import finish, need_daemons, need_preload  # noqa: E402
from namespaces import asked_cases, run_cases  # noqa: E402

need_daemons()
need_preload()
sys.stdout.reconfigure(line_buffering=True)
asked = asked_cases("slurmlab", cases.ALL)
machines.enter()
with machines.Lab() as lab:
    state = cases.State(lab)
    state.installed()
    run_cases("slurmlab", cases.ALL, asked, state)
finish()
