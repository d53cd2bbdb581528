"""Meridian on a real Slurm of a head node and two compute nodes (machines.py): installed by the commands of deploy/README.md, and what jobs do there.
Usage: slurmlab.py [case ...]; without one, all. MERIDIAN_KEEP leaves the machines' files in the cache's folder run."""
import os
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import cases  # noqa: E402
import machines  # noqa: E402
from lib import check, finish, need_daemons, need_preload  # noqa: E402

need_daemons()
need_preload()
sys.stdout.reconfigure(line_buffering=True)
asked = sys.argv[1:]
unknown = [a for a in asked if a not in cases.ALL]
if unknown:
    sys.exit(f"slurmlab: no case {', '.join(unknown)}; there are: {', '.join(cases.ALL)}")
machines.enter()
with machines.Lab() as lab:
    state = cases.State(lab)
    state.installed()
    for name, case in cases.ALL.items():
        if not asked or name in asked:
            begun = time.monotonic()
            try:
                case(state)
            except (RuntimeError, OSError, ValueError, KeyError, IndexError, TypeError) as e:
                check(False, f"{name}: {type(e).__name__}: {e}")
            print(f"slurmlab: case {name} took {time.monotonic() - begun:.0f} s")
finish()
