"""A hostile aggregator (hostile_aggregator: valid frames, absurd contents, in any order) and a real agent with a workload:
hostile_aggregator.py [SECONDS]. MRD_SEED is where it begins to draw. Whatever it was told,
the agent answers /healthz all the time, within its memory and its spool; when an honest aggregator is there again it is back within
seconds, with a clock within its bound, and records a session without a loss; its own account balances; SIGTERM ends it; and after a
kill and a start it does all of that again."""
import json
import os
import subprocess
import sys
import time
import urllib.error

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from lib import BIN, Cluster, built_with, check, equal, equation, finish, free_port, need_daemons, until
from wait import pace
from watch import ANSWER_S, OWN, Watch, rss

HOSTILE = os.path.join(BIN, "hostile_aggregator")
BACK_S = 75     # the longest that an agent may be told to wait is a minute
CLOCK_BOUND_NS = 20000000
SPOOL = 16 << 20


def answers(c, port):
    try:
        c.open("/healthz", port).read()
    except urllib.error.HTTPError:
        pass  # "not connected" is an answer
    except OSError:
        return False
    return True


def size(folder):
    return sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(folder) for f in files)


def attack(c, seed, seconds, load, port, *more):
    """The hostile aggregator on the addresses of the real one, while the workload emits."""
    agent = c.agents[0]
    watch = Watch(lambda: answers(c, port), lambda: rss(agent))
    watch.start()
    p = subprocess.Popen([HOSTILE, str(seed), str(seconds), c.data, c.control, str(c.probes), *more],
                         stdout=subprocess.PIPE, text=True, env=OWN)
    n = 0
    while p.poll() is None:
        load.emit(300)
        n += 1
        with open(os.path.join(c.folder("capture", "i-test0_pid_7"), f"{seed}-{n}.ntff"), "wb") as f:
            f.write(os.urandom(3000))
        pace(0.2)
    print(p.stdout.read().strip())
    equal(p.returncode, 0, "the hostile aggregator's own status")
    check(c.agents[0].running(), "the agent runs")
    watch.stop()
    equal(watch.silent, 0, "times that the agent's /healthz had no answer")
    check(watch.longest < ANSWER_S, f"the agent's longest answer took {watch.longest:.1f} s")
    limit = (2 << 30) if built_with(os.path.join(BIN, "meridian-agent"), "asan", "tsan") else (400 << 20)
    check(watch.rss < limit, f"the agent took {watch.rss >> 20} MiB")
    check(size(c.path("spool0")) < 2 * SPOOL, f"the spool holds {size(c.path('spool0'))} bytes")
    print(f"longest answer {watch.longest * 1000:.0f} ms, memory {watch.rss >> 20} MiB", flush=True)


def started(c):
    """The id of a session that records; a control connection may come back later than that of data."""
    doc = json.loads(c.run("start", "--json", "--require", "all", want=None)[0] or "{}")
    return doc.get("state") == "recording" and doc["id"]


def honest(c, load, what):
    """The real aggregator, in the same place: a session without a loss."""
    c.aggregator()
    begun = time.monotonic()
    until(c.answers, "the aggregator answers")
    if not until(lambda: c.connected() == ["i-test0"], f"{what}: the agent is back", BACK_S):
        return
    print(f"{what}: back after {time.monotonic() - begun:.1f} s", flush=True)
    until(lambda: 0 <= c.nodes().get("i-test0", {}).get("clock", {}).get("bound_ns", -1) < CLOCK_BOUND_NS, f"{what}: its clock is known")
    k = c.nodes().get("i-test0", {}).get("clock", {})
    before = load.done
    id = until(lambda: started(c), f"{what}: a session starts", BACK_S) or ""
    c.begun(id, 1)
    load.emit(2000)
    doc = c.stop(id, want=None)
    equation(doc, what)
    got = c.ticks(id, what)
    numbers = sorted(x for x in got.get(("i-test0", load.pid), []) if x > before)
    equal((len(numbers), numbers[:1]), (load.done - before, [before + 1]), f"{what}: ticks of the session")
    n = c.nodes().get("i-test0", {}).get("counters", {})
    if n:
        equal(n["begun"], n["delivered"] + n["dropped"] + n["held"], f"{what}: the agent's own begun = delivered + dropped + held: {n}")
    check(c.daemon.running() and c.agents[0].running(), f"{what}: both run: clock {k}")
    equal(c.daemon.end(), 0, f"{what}: the aggregator's status at SIGTERM")


def main():
    need_daemons()
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    seed = int(os.environ.get("MRD_SEED", "1"))
    print(f"seed {seed} (MRD_SEED), {seconds} s", flush=True)
    port = free_port()
    with Cluster() as c:
        def agent():
            c.agent(0, metrics_port=port, watch=c.folder("capture"), stable="200ms", spool_size=SPOOL)

        agent()
        until(lambda: answers(c, port), "the agent answers")
        load = c.workload(0)
        attack(c, seed, seconds, load, port)
        honest(c, load, "afterwards")
        attack(c, seed + 7, max(2, seconds // 2), load, port, "--lie")
        c.agents[0].kill()
        agent()
        honest(c, load, "after-a-kill")
        attack(c, seed + 14, max(2, seconds // 2), load, port)
        equal(c.agents[0].end(), 0, "the agent's status at SIGTERM")
    finish()


main()
