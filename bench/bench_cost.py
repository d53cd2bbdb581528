#!/usr/bin/env python3
"""What recording costs a training step: the simulated training loop (two cores, an execution of 10.9 ms with 98 collectives a step), each
recorded run beside a plain one.

Pairs: in each of REPEATS rounds plain, plain again (A/A: what two equal runs differ by), calls only, the runtime's system trace only, and everything, in an order that turns by
one each round; compared are runs of one round. "With the agent" means that an agent reads the rings, and a session records over an
aggregator: nothing is left in the rings. Printed: the median of the ratios with the middle half and the whole range of them; a cost below
what the middle half of the A/A pairs differs by is not told apart from nothing. On a machine that does other things, or with fewer processors than the loop, the agent and the
aggregator need, the figures say what that machine does, not what recording costs: the load before each round is printed.

The same with the runtime's trace alone, without Meridian (bench/runtime_trace.c): turned on and left, and fetched and thrown away. What is
behind it is Meridian's: the last row compares everything with it, round by round. Rings are in memory, as they are where nothing else is set.

    REPEATS=30 STEPS=200 bench/bench_cost.py     about 2.3 s a run, seven runs a round
    COUNT=1 STEPS=60 bench/bench_cost.py         instructions a step (valgrind), of each thread that takes part: also on a busy machine

Behind that it prints who uses the processors: CPU time of the loop's process, of the agent and of the aggregator during a run, for each way. CPU time says where
a cost comes from also where other work makes the run times useless."""
import os
import glob
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("MERIDIAN_BUILD", os.path.join(root, "build"))
sys.path.insert(0, os.path.join(root, "tests", "e2e"))
from lib import BUILD, Cluster, until  # noqa: E402

COUNT = os.environ.get("COUNT", "0") == "1"
REPEATS, STEPS = int(os.environ.get("REPEATS", "30")), os.environ.get("STEPS", "200")
LOOP = [os.path.join(BUILD, "bin", "train_loop"), "--rank", "0", "--cores", "2", "--steps", STEPS, "--exec-us", "60000" if COUNT else "10900", "--cc", "98",
        "--checkpoint-every", "0", "--quiet"]
memory = tempfile.mkdtemp(prefix="mrd-cost-", dir="/dev/shm")


class InMemory(Cluster):
    def rings(self, i):
        return memory


def run(c, turn, prefix=(), **more):
    """Seconds of one run of the loop: of the whole process."""
    env = dict(c.env, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), SIMNRT_JOB=c.job(f"cost{turn}"), **more)
    before = time.monotonic()
    subprocess.run([*prefix, *LOOP], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - before
    until(lambda: not [n for n in os.listdir(c.rings(0)) if n.endswith(".ring")], "the agent has drained the rings")
    return seconds


def cpu(program):
    """CPU seconds of a running program so far."""
    with open(f"/proc/{program.pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def used(c):
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, cpu(c.agents[0]), cpu(c.daemon)


def count(c, turn, **more):
    """Thousands of instructions a step, of each thread of the loop's process, in the order of their beginnings."""
    with tempfile.TemporaryDirectory() as out:
        run(c, turn, ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={out}/c"], **more)
        totals = []
        for path in sorted(glob.glob(f"{out}/c-*")):
            with open(path) as f:
                found = re.findall(r"^(?:totals|summary): (\d+)", f.read(), re.M)
            totals.append(int(found[-1]) / 1000 / int(STEPS) if found else 0)
    return totals


def show(name, ratios):
    cost = sorted(100 * (r - 1) for r in ratios)
    quarter = statistics.quantiles(cost, n=4) if len(cost) > 1 else cost * 3
    print(f"  {name:<41} {statistics.median(cost):+6.2f} %   middle half {quarter[0]:+.2f} .. {quarter[2]:+.2f} %   all {cost[0]:+.2f} .. {cost[-1]:+.2f} %")
    return max(abs(quarter[0]), abs(quarter[2]))


def count_all(c, ways):
    print("instructions a step, in thousands, by thread (the last two run the cores; before them a helper of the runtime; the second of a "
          "traced way fetches)")
    for turn, name in enumerate(ways):
        if name != "plain again (A/A)":
            totals = count(c, turn, **ways[name])
            print(f"  {name:<46} " + " ".join(f"{n:8.1f}" for n in totals), flush=True)


if COUNT and shutil.which("valgrind") is None:
    sys.exit("bench_cost: COUNT=1 needs valgrind (Debian package valgrind)")
with InMemory() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    id = c.start("--require", "all")
    c.begun(id, 1)
    preload = {"LD_PRELOAD": os.path.join(BUILD, "lib", "libmeridian.so"), "MERIDIAN_ENABLE": "1", "MERIDIAN_RING_DIR": c.rings(0)}
    alone = {"LD_PRELOAD": os.path.join(BUILD, "lib", "libruntime_trace.so")}
    ways = {"plain": {}, "plain again (A/A)": {}, "the runtime's trace, without Meridian": dict(alone, RUNTIME_TRACE="on"),
            "the same, fetched and thrown away": dict(alone, RUNTIME_TRACE="fetch"),
            "calls only, with the agent": dict(preload, MERIDIAN_CAPTURE="api,annotations"),
            "system trace only, with the agent": dict(preload, MERIDIAN_CAPTURE="systrace"), "everything, with the agent": preload}
    times, names, loads = {name: [] for name in ways}, list(ways), []
    cpus = {name: [] for name in ways}
    if COUNT:
        count_all(c, ways)
    for i in range(0 if COUNT else REPEATS):
        loads.append(os.getloadavg()[0])
        for k in range(len(names)):
            name = names[(i + k) % len(names)]
            before = used(c)
            times[name].append(run(c, i * len(names) + k, **ways[name]))
            cpus[name].append([b - a for a, b in zip(before, used(c))])
    doc = c.stop(id, want=None)
shutil.rmtree(memory, ignore_errors=True)
if COUNT:
    sys.exit()
node, = doc["nodes"]
lost = node["counters"]["dropped"] - node["counters"]["unwanted"]
print(f"{REPEATS} rounds of {STEPS} steps; {os.cpu_count()} processors, load {min(loads):.1f} .. {max(loads):.1f} before a round; "
      f"{node['counters']['begun']} events, lost {lost}")
print(f"  {'plain':<38} {statistics.median(times['plain']):6.3f} s a run")
base = times["plain"]
noise = show("plain again (A/A)", [t / b for t, b in zip(times["plain again (A/A)"], base)])
for name in names[2:]:
    show(name, [t / b for t, b in zip(times[name], base)])
fetched = times["the same, fetched and thrown away"]
show("Meridian's part: everything : thrown away", [t / b for t, b in zip(times["everything, with the agent"], fetched)])
print(f"  a cost below {noise:.2f} % is not told apart from nothing here")
print(f"  {'CPU of a run, medians, in ms':<38} {'loop':>8} {'agent':>8} {'aggregator':>11}")
for name in names:
    loop, agent, aggregator = (1000 * statistics.median(column) for column in zip(*cpus[name]))
    print(f"  {name:<38} {loop:8.0f} {agent:8.0f} {aggregator:11.0f}")
if max(loads) > os.cpu_count() / 2:
    print("  this machine did other things meanwhile: do not trust these figures")
