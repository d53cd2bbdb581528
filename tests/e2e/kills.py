"""Programs are killed by SIGKILL at random times while a session records. Arguments: which program
is killed (aggregator, agent, workload, or a random one), how often, and the size of the rings. What
a workload emitted must be in the profile once, and begun = delivered + dropped + held. If the rings
are so small that they overflow, exactly the events counted as dropped may be missing."""
import os
import random
import sys

from lib import Cluster, check, check_ticks, equal, equation, finish, need_daemons, until
from wait import let_it_run

NODES = 2
who, rounds, ring = (sys.argv[1:] + ["any", "12", "8M"][len(sys.argv) - 1:])[:3]
rounds, overflow = int(rounds), ring != "8M"
seed = int(os.environ.get("MRD_SEED", "1"))
print(f"seed {seed} (MRD_SEED), {rounds} kills of {who}", flush=True)
chance = random.Random(seed)
need_daemons()


def some_time(longest_ms):
    let_it_run(chance.random() * longest_ms / 1000)


def connected():
    """All agents are connected and said so since the aggregator started."""
    return len(cluster.connected()) == NODES


def workload(i):
    w = cluster.workload(i, ring_size=ring)
    emitted[(f"i-test{i}", w.pid)] = w
    w.run(50 if overflow else 5)
    return w


with Cluster(node_timeout="60s") as cluster:
    emitted, workloads, kills = {}, {}, dict.fromkeys(("aggregator", "agent", "workload"), 0)
    cluster.aggregator()
    until(cluster.answers, "the aggregator answers")
    for i in range(NODES):
        cluster.agent(i)
    until(connected, "both agents are connected")
    id = cluster.start("--require", "all")
    cluster.begun(id, NODES)
    workloads = {i: workload(i) for i in range(NODES)}
    for n in range(rounds):
        if n % 10 == 0:
            until(connected, f"both agents are connected again after {n} kills")
        victim = who if who != "any" else chance.choice(list(kills))
        i = chance.randrange(NODES)
        some_time(60)
        kills[victim] += 1
        if victim == "aggregator":
            cluster.daemon.kill()
            some_time(20)
            cluster.aggregator()
        elif victim == "agent":
            cluster.agents[i].kill()
            some_time(20)
            cluster.agent(i)
        else:
            workloads[i].kill()
            workloads[i] = workload(i)
    for w in workloads.values():
        w.pause()
    until(connected, "both agents are connected again")
    cluster.recording(id, NODES)
    cluster.within_session(id)
    doc = cluster.stop(id, want=None if overflow else 0)
    equal(doc.get("state"), "complete", "the session's state")
    lost = equation(doc, f"{kills}", dropped=None if overflow else 0)
    got = cluster.ticks(id)
    if overflow:
        total = sum(len(numbers) for numbers in got.values())
        equal([key for key, numbers in got.items() if len(numbers) != len(set(numbers))], [], "processes with a tick that came twice")
        check(kills["workload"] > 0 or doc["begun"] == sum(w.all for w in emitted.values()),
              f"begun {doc['begun']}, of {sum(w.all for w in emitted.values())} emitted")
        check(kills["workload"] > 0 or total + lost == sum(w.done for w in emitted.values()), f"{total} there, {lost} lost")
        check(lost > 0, "rings overflowed")
        print(f"{lost} lost and counted")
    else:
        total = check_ticks(got, emitted, f"{kills}")
    for w in workloads.values():
        w.end()
    until(lambda: [n for i in range(NODES) for n in os.listdir(cluster.rings(i)) if n.endswith(".ring")] == [], "rings of the dead are removed")
    check(total > 0, "there were ticks")
    print(f"{kills}: {total} ticks of {len(emitted)} processes, each there once")
finish()
