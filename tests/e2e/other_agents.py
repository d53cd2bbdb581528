"""What a laboratory says of agents that run on this machine beside it, and the rings that agents of tests read: a test's agent that looks into
containers takes rings of every program on the machine, also of another test's."""
import io
import os
from contextlib import redirect_stdout

import namespaces
from lib import Cluster, check, equal, finish, need_daemons, until

need_daemons()
with Cluster() as cluster:
    cluster.aggregator()
    agent = cluster.agent(0)
    until(lambda: cluster.connected() == ["i-test0"], "the agent connects")
    pid = agent.p.pid
    check(pid in namespaces.other_agents(), "an agent is found")
    said = io.StringIO()
    with redirect_stdout(said):
        namespaces.say_other_agents("lab")
    lines = [line for line in said.getvalue().splitlines() if f"process {pid} " in line]
    equal(len(lines), 1, f"it is said once: {said.getvalue()}")
    check(lines[0].startswith("lab: another meridian-agent runs on this machine") and "i-test0" in lines[0] and lines[0].endswith("does not look into containers"), f"what is said: {lines}")
    known = namespaces.other_agents
    namespaces.other_agents = lambda: {5: "/bin/meridian-agent --ring-dir /x"}
    said = io.StringIO()
    with redirect_stdout(said):
        namespaces.say_other_agents("lab")
    namespaces.other_agents = known
    check("process 5 (/bin/meridian-agent --ring-dir /x): it reads rings of containers" in said.getvalue(), f"one with containers: {said.getvalue()}")
    agent.end()
    check(pid not in namespaces.other_agents(), "an agent that has ended is not")
finish()
