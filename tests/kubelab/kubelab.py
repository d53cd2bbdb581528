"""Meridian on a real Kubernetes of two nodes (lab.py): the manifests of deploy/k8s by the commands of docs/howto/kubernetes.md, and what an operator meets.
Usage: kubelab.py [case ...]; without one, all. MERIDIAN_KEEP leaves the logs in the cache's folder run."""
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import accounts  # noqa: E402
import cases  # noqa: E402
import disturb  # noqa: E402
import hook  # noqa: E402
import lab  # noqa: E402
from lib import BUILD, finish, need_daemons, need_preload  # noqa: E402
from namespaces import asked_cases, run_cases  # noqa: E402

need_daemons()
need_preload()
sys.stdout.reconfigure(line_buffering=True)
ALL = {**cases.ALL, **accounts.ALL, **disturb.ALL, **hook.ALL}  # identities: in the log of the first aggregator
asked = asked_cases("kubelab", ALL)
os.environ["MERIDIAN_BUILD"] = BUILD
lab.enter()
with lab.Lab() as cluster:
    state = cases.State(cluster)
    state.installed()
    run_cases("kubelab", ALL, asked, state)
finish()
