"""The promises of docs/howto/upgrade.md: the previous release beside this one. Arguments: what is tested.
skew      agents of the one with an aggregator of the other, workloads with the library of each, clients of each
spool     what an agent of the one has left in its spool is delivered by an agent of the other
stores    sessions that an aggregator of the one has written are read, and a recording is continued, by the other
rolling N an upgrade while recording, aggregator first: N rounds, processes ended by SIGTERM or killed
The loss equation holds with nothing dropped, and every tick is in the profile once; where going back loses, it is counted."""
import glob
import json
import os
import random
import signal
import subprocess
import sys
import time

from lib import BIN, MERIDIAN, Cluster, check, check_ticks, equal, equation, finish, need_daemons, until
from previous import previous
from wait import let_it_run, pace


class Side:
    """One of the two releases."""

    def __init__(self, name, programs, workload):
        self.name, self.programs, self.workload = name, programs, workload
        self.version = subprocess.run([os.path.join(programs, "meridian-agent"), "--version"], capture_output=True, text=True, timeout=60).stdout.split(" ", 1)[1].strip()


def both_ways():
    return ((old, new), (new, old))


def client(c, side, *args, want=0):
    p = subprocess.run([os.path.join(side.programs, "meridian"), *args], capture_output=True, text=True, timeout=300, env=c.env)
    check(p.returncode == want, f"{side.name} meridian {' '.join(args)}: exit status {p.returncode}: {p.stderr[-800:]}")
    return p.stdout


def is_old(text):
    return release.commit[:12] in json.dumps(text)


def says_its_version(c, i, side):
    """`nodes` shows which build an agent is."""
    shown = c.nodes()[f"i-test{i}"]
    check(side.version.split(" ")[0] in json.dumps(shown) and is_old(shown) == (side is old), f"{side.name}: the node's build: {shown.get('release')} {shown.get('commit')}")


def complete(c, id, emitted, what, by=None):
    """Stops a session; every tick is there once and the equation holds with nothing dropped."""
    c.within_session(id)
    if by:
        client(c, by, "stop", id)
        doc = c.session(id)
    else:
        doc = c.stop(id)
    equal(doc.get("state"), "complete", f"{what}: the session's state")
    equation(doc, what)
    total = check_ticks(c.ticks(id), emitted, what)
    check(total > 0, f"{what}: there are ticks")
    return doc, total


def skew():
    for agents, aggregator in both_ways():
        what = f"{agents.name} agents, {aggregator.name} aggregator"
        with Cluster(node_timeout="60s") as c:
            c.aggregator(programs=aggregator.programs)
            until(c.answers, "the aggregator answers")
            emitted = {}
            for i, library in enumerate((old, new)):
                c.agent(i, programs=agents.programs)
                w = c.workload(i, more=library.workload)
                emitted[(f"i-test{i}", w.pid)] = w
            until(lambda: c.connected() == ["i-test0", "i-test1"], "both agents are connected")
            until(lambda: all(n["rings"] for n in c.nodes().values()), f"{what}: they see the rings of both libraries")
            for i in range(2):
                says_its_version(c, i, agents)
            id = json.loads(client(c, agents, "start", "--json", "--require", "all"))["id"]  # a client of the other release, too
            c.begun(id, 2)
            for w in emitted.values():
                w.emit(3000)
            changes_are_refused(c, id, agents, aggregator, emitted)
            doc, total = complete(c, id, emitted, what, by=agents)
            equal(is_old({k: v for k, v in doc.items() if k != "nodes"}), aggregator is old, f"{what}: the manifest names the build that wrote it")
            out = os.path.join(c.work, "by-other")
            client(c, agents, "fetch", id, "-o", out, "--format", "json")
            check(os.path.getsize(os.path.join(out, "system_profile.json")) > 1000, f"{what}: fetched by a client of the {agents.name} release")
            print(f"{what}: {total} ticks", flush=True)


def changes_are_refused(c, id, agents, aggregator, emitted):
    """What only this release knows is refused by an agent of the previous one in a sentence; it records on, and its paused time is not
    called unrecorded."""
    if aggregator is old:
        return
    for agent in c.agents.values():  # they miss the question, and are asked again
        agent.p.send_signal(signal.SIGSTOP)
    client(c, new, "pause", id)
    began = c.session(id)["pauses"][0]["from_ns"]
    until(lambda: time.time_ns() > began + 1_500_000_000, "the question is over")
    equal([n.get("paused_ns", 0) for n in c.session(id)["nodes"]], [0, 0], "nothing is claimed of an agent that has not answered")
    for agent in c.agents.values():
        agent.p.send_signal(signal.SIGCONT)
    until(lambda: all("does not know the request" in n.get("message", "") for n in c.session(id)["nodes"]), "each node says that it cannot pause")
    for w in emitted.values():
        w.emit(500)
    c.within_session(id)
    client(c, new, "resume", id)
    equal([n.get("paused_ns", 0) for n in c.session(id)["nodes"]], [0, 0], f"paused time of {agents.name} agents, which recorded on")


def spool():
    for first, second in both_ways():
        what = f"spool of the {first.name} release, agent of the {second.name}"
        with Cluster(node_timeout="60s") as c:
            aggregator = c.aggregator()
            until(c.answers, "the aggregator answers")
            agent = c.agent(0, programs=first.programs)
            until(lambda: c.connected() == ["i-test0"], "the agent is connected")
            id = c.start("--require", "all")
            c.begun(id, 1)
            w = c.workload(0, more=first.workload)
            w.emit(2000)
            aggregator.kill()  # from now on all of it stays in the spool
            for _ in range(4):
                w.emit(2000)
                pace(.25)  # a commit each
            until(lambda: sum(os.path.getsize(p) for p in glob.glob(c.path("spool0", "spool-*.mrs"))) > 8000, "the spool has them")
            equal(agent.end(), 0, f"{what}: the agent ends")
            w.emit(500)  # meanwhile
            c.aggregator()
            until(c.answers, "the aggregator answers again")
            successor = c.agent(0, programs=second.programs)
            until(lambda: c.connected() == ["i-test0"], f"{what}: the successor is connected")
            c.recording(id, 1)
            w.emit(500)
            if second is new:
                check("AGT-SPOOL-DAMAGED" not in successor.text(), f"{what}: nothing is called damaged")
                _, total = complete(c, id, {("i-test0", w.pid): w}, what)
                print(f"{what}: {total} ticks", flush=True)
                continue
            # Going back is not promised for what a spool holds: but it is counted.
            c.within_session(id)
            doc = c.stop(id, want=None)
            lost, numbers = equation(doc, what, dropped=None), c.ticks(id).get(("i-test0", w.pid), [])
            equal(len(numbers), len(set(numbers)), f"{what}: no tick came twice")
            check(w.done <= len(numbers) + lost <= w.all, f"{what}: {len(numbers)} there and {lost} lost, of {w.done} ticks")
            print(f"{what}: {len(numbers)} ticks, {lost} counted as lost", flush=True)


def stores():
    for first, second in both_ways():
        what = f"store of the {first.name} release, aggregator of the {second.name}"
        with Cluster(node_timeout="60s") as c:
            aggregator = c.aggregator(programs=first.programs)
            until(c.answers, "the aggregator answers")
            c.agent(0, programs=first.programs)
            until(lambda: c.connected() == ["i-test0"], "the agent is connected")
            w = c.workload(0, more=first.workload)
            done = c.start("--require", "all", "--name", "before")
            c.begun(done, 1)
            w.emit(1000)
            complete(c, done, {("i-test0", w.pid): w}, what + ", before")
            until(lambda: c.session(done)["profile"]["state"] == "done", "the profile is merged")
            going = c.start("--require", "all", "--name", "during")
            c.begun(going, 1)
            first_of_second = w.done + 1
            w.emit(1000)
            equal(aggregator.end(), 0, f"{what}: the aggregator ends")
            w.emit(1000)
            successor = c.aggregator(programs=second.programs)
            until(c.answers, f"{what}: it starts: {successor.text()[-800:]}")
            listed = {s["id"]: s for s in c.run_json("sessions")["sessions"]}
            equal({id: listed.get(id, {}).get("name") for id in (done, going)}, {done: "before", going: "during"}, f"{what}: sessions")
            until(lambda: c.connected() == ["i-test0"], "the agent is connected again")
            equal(sorted(c.ticks(done, "again").get(("i-test0", w.pid), [])), list(range(1, 1001)), f"{what}: the session that was complete, fetched")
            c.recording(going, 1)
            w.emit(1000)
            c.within_session(going)
            doc = c.stop(going)
            equal(doc.get("state"), "complete", f"{what}: the session that was recording")
            equation(doc, what)
            got = c.ticks(going, "going").get(("i-test0", w.pid), [])
            equal((len(got), sorted(got)), (3000, list(range(first_of_second, w.done + 1))), f"{what}: ticks of the session that was recording")
            equal(c.run_json("sessions").get("ignored", 0), 0, f"{what}: manifests left alone")
            print(f"{what}: two sessions", flush=True)


def rolling(rounds=1):
    seed = int(os.environ.get("MRD_SEED", 1))
    print(f"seed {seed} (MRD_SEED), {rounds} rounds", flush=True)
    chance = random.Random(seed)
    for n in range(rounds):
        upgraded(chance, n)


def upgraded(chance, n):
    """A cluster of the previous release that records is replaced process by process."""
    ways = []

    def replace(program, start):
        """Ends a process as an upgrade does, or as a fault does; rings and spool hold what comes meanwhile."""
        if chance.random() < 0.3:
            ways.append("killed")
            program.kill()
        else:
            ways.append("ended")
            equal(program.end(), 0, f"{program.log}: it ends")
        let_it_run(chance.random() * 0.3)
        start()

    with Cluster(node_timeout="60s") as c:
        c.aggregator(programs=old.programs)
        until(c.answers, "the aggregator answers")
        for i in range(2):
            c.agent(i, programs=old.programs)
        until(lambda: len(c.connected()) == 2, "both agents are connected")
        id = c.start("--require", "all")
        c.begun(id, 2)
        emitted = {}

        def workload(i, side):
            w = c.workload(i, more=side.workload)
            emitted[(f"i-test{i}", w.pid)] = w
            w.run(5)

        def is_new(i):
            node = c.nodes().get(f"i-test{i}")
            return node and node["connected"] and not is_old(node)

        for i in range(2):
            workload(i, old)
        replace(c.daemon, c.aggregator)  # the aggregator first
        until(lambda: len(c.connected()) == 2, "the agents are connected to the new aggregator")
        for i in chance.sample(range(2), 2):
            replace(c.agents[i], lambda: c.agent(i))
            until(lambda: is_new(i), f"the new agent {i} is connected")
            workload(i, new)  # a process that starts now has the new library
        for w in emitted.values():
            w.pause()
        c.recording(id, 2)
        doc, total = complete(c, id, emitted, f"upgrade while recording, round {n}")
        print(f"upgrade while recording ({', '.join(ways)}): {total} ticks of {len(emitted)} processes, {doc['begun']} events begun, none lost", flush=True)


need_daemons()
release = previous()
old, new = Side("previous", release.programs, release.workload), Side("present", BIN, {})
check(is_old(old.version) and not is_old(new.version), f"the two builds differ: {old.version}, {new.version}")
words = sys.argv[1:] or ["skew"]
for k, word in enumerate(words):
    if word == "rolling":
        rolling(int(words[k + 1]))
    elif not word.isdigit():
        {"skew": skew, "spool": spool, "stores": stores}[word]()
finish()
