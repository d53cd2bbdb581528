"""Meridian on a real Kubernetes of two nodes (lab.py): the manifests of deploy/k8s by the commands of deploy/README.md, and what an operator meets.
Usage: kubelab.py [case ...]; without one, all. MERIDIAN_KEEP leaves the logs in the cache's folder run."""
import os
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import cases  # noqa: E402
import disturb  # noqa: E402
import hook  # noqa: E402
import lab  # noqa: E402
from lib import BUILD, check, finish, need_daemons, need_preload  # noqa: E402

need_daemons()
need_preload()
sys.stdout.reconfigure(line_buffering=True)
ALL = {**cases.ALL, **disturb.ALL, **hook.ALL}
asked = sys.argv[1:]
unknown = [a for a in asked if a not in ALL]
if unknown:
    sys.exit(f"kubelab: no case {', '.join(unknown)}; there are: {', '.join(ALL)}")
os.environ["MERIDIAN_BUILD"] = BUILD
lab.enter()
with lab.Lab() as cluster:
    state = cases.State(cluster)
    state.installed()
    for name, case in ALL.items():
        if not asked or name in asked:
            begun = time.monotonic()
            try:
                case(state)
            except (RuntimeError, OSError, ValueError, KeyError, IndexError, TypeError) as e:
                check(False, f"{name}: {type(e).__name__}: {e}")
            print(f"kubelab: case {name} took {time.monotonic() - begun:.0f} s", flush=True)
finish()
