#!/usr/bin/env python3
"""What an agent costs while nobody wants what it reads: no session, no recorder, no session of a job. Ranks run the training loop of the
demonstration (two cores, executions of 8 ms), everything is enabled (MERIDIAN_ENABLE=1).

For each number of ranks the processor time of the agent and of the ranks (/proc/PID/stat) over SECONDS, first without a session, then with a
session that records everything: what an agent costs that is wanted is the reference. Processor time and not wall time, so other work on the
machine matters little. "per rank" is without what the agent needs when there is no rank.

    SECONDS=20 RANKS="1 4 8" bench/bench_idle.py"""
import os
import shutil
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("MERIDIAN_BUILD", os.path.join(root, "build"))
sys.path.insert(0, os.path.join(root, "tests", "e2e"))
from lib import BUILD, Cluster, Program, finish, until  # noqa: E402

SECONDS, RANKS = float(os.environ.get("SECONDS", "20")), [int(n) for n in os.environ.get("RANKS", "1 4 8").split()]
GOAL = 0.1  # percent of a core per rank, without a session
CALM = 3  # seconds: rings without records are read at longer intervals after two


def cpu(programs):
    """Seconds of processor time of these programs so far."""
    total = 0
    for p in programs:
        with open(f"/proc/{p.pid}/stat") as f:
            words = f.read().rsplit(")", 1)[1].split()
        total += int(words[11]) + int(words[12])
    return total / os.sysconf("SC_CLK_TCK")


def begun(c):
    """Events that the agent has counted."""
    return c.nodes()["i-test0"]["counters"]["begun"]


def measure(c, ranks):
    """(percent of a core of the agent, of all ranks, events a second)."""
    time.sleep(CALM)
    at, agent, rank, events = time.monotonic(), cpu([c.agents[0]]), cpu(ranks), begun(c)
    time.sleep(SECONDS)
    took = time.monotonic() - at
    return 100 * (cpu([c.agents[0]]) - agent) / took, 100 * (cpu(ranks) - rank) / took, (begun(c) - events) / took


def start(c, i):
    env = dict(c.env, LD_PRELOAD=os.path.join(BUILD, "lib", "libmeridian.so"), LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"),
               MERIDIAN_ENABLE="1", MERIDIAN_RING_DIR=c.rings(0), MERIDIAN_JOB="idle", SIMNRT_JOB=c.job(f"rank{i}"), RANK="0", WORLD_SIZE="1")
    return c.keep(Program(c.path(f"rank{i}.log"), [
        os.path.join(BUILD, "bin", "train_loop"), "--rank", "0", "--steps", "100000000", "--cores", "2", "--first-core", str(2 * i), "--exec-us", "8000",
        "--checkpoint-every", "0", "--quiet"], env=env))


def show(name, n, agent, base, rank, events):
    print(f"  {name:<24} agent {agent:6.2f} %, per rank {(agent - base) / n:6.3f} %; a rank itself {rank / n:6.2f} %; {events / n:8.0f} events/s of a rank", flush=True)
    return (agent - base) / n


class InMemory(Cluster):
    """Rings are in memory, as they are where nothing else is set."""

    def rings(self, i):
        return memory


memory = tempfile.mkdtemp(prefix="mrd-idle-", dir="/dev/shm")
worst, wanted = 0, 0
with InMemory() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    base = measure(c, [])[0]
    print(f"no rank: agent {base:.2f} % of a core (load {os.getloadavg()[0]:.1f})", flush=True)
    ranks = []
    for n in RANKS:
        while len(ranks) < n:
            ranks.append(start(c, len(ranks)))
        until(lambda: c.nodes()["i-test0"]["processes"] == n, f"the agent reads {n} ranks")
        print(f"{n} rank{'' if n == 1 else 's'} (load {os.getloadavg()[0]:.1f})")
        idle = show("without a session", n, (m := measure(c, ranks))[0], base, *m[1:])
        id = c.start("--require", "all")
        full = show("a session of everything", n, (m := measure(c, ranks))[0], base, *m[1:])
        c.stop(id)
        worst, wanted = max(worst, idle), max(wanted, full)
shutil.rmtree(memory, ignore_errors=True)
print(f"per rank without a session at most {worst:.3f} % of a core (goal {GOAL} %): {worst / wanted:.3f} of what it costs with a session ({wanted:.2f} %)")
finish()
