"""Tests workloads in Linux time namespaces, whose clocks (boottime, monotonic) are ahead of the
node's or behind. They must be recorded from begin to end with the node's times, and their losses
counted, both while they run and if they ended before an agent reads their rings."""
import os
import subprocess
import time

from lib import Cluster, check, equal, equation, finish, load_json, need_daemons, skip, until

need_daemons()
SPACES = {"ahead": ("100000", "200000"), "behind": ("-4", "-3")}  # monotonic, boottime: seconds
SLACK = 10**9  # the clocks are another by three seconds at least


def prefix(name):
    monotonic, boottime = SPACES[name]
    return ("unshare", "--time", "--fork", "--kill-child", "--monotonic", monotonic, "--boottime", boottime)


def may():
    try:
        return os.geteuid() == 0 and all(subprocess.run([*prefix(name), "true"], capture_output=True, timeout=60).returncode == 0 for name in SPACES)
    except OSError:
        return False


if not may():
    skip("time namespaces cannot be made here (they need root, Linux 5.6 and unshare of util-linux 2.36)")


def emit(w, n, windows):
    begun = time.time_ns()
    equal(w.emit(n), n, "it emits")
    windows.append((w.done - n, w.done, begun - SLACK, time.time_ns() + SLACK))


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(c.connected, "the agent is connected")
    id = c.start("--require", "all")
    begun = {name: c.workload(0, prefix=prefix(name)) for name in SPACES}
    windows = {name: [] for name in SPACES}
    for name, w in begun.items():
        emit(w, 500, windows[name])
    until(lambda: c.nodes()["i-test0"]["processes"] == 2, "both processes are found")
    until(lambda: c.agents[0].running() and c.session(id)["nodes"][0]["events"] >= 2 * 501, "and read")
    for name, w in begun.items():
        emit(w, 500, windows[name])  # the agent has not taken them for dead in the meantime
    equal(c.nodes()["i-test0"]["processes"], 2, "they live")
    for w in begun.values():
        w.p.stdin.close()
        w.p.wait(60)
    until(lambda: os.listdir(c.rings(0)) == [n for n in os.listdir(c.rings(0)) if not n.endswith(".ring")], "their rings are drained and removed")

    # ---- Begun and over while no agent is there ----
    c.agents[0].end()
    for name in SPACES:
        w = c.workload(0, prefix=prefix(name))
        begun["early " + name], windows["early " + name] = w, []
        emit(w, 500, windows["early " + name])
        w.p.stdin.close()
        w.p.wait(60)
    c.agent(0)
    until(lambda: not [n for n in os.listdir(c.rings(0)) if n.endswith(".ring")], "the agent that comes drains them")
    doc = c.stop(id)
    equal(doc["state"], "complete", "the session")
    equal(equation(doc, "the session"), 0, "nothing is lost")
    c.run("fetch", id, "-o", c.path("out"), "--format", "json")
    by = {}
    for e in load_json(c.path("out", "system_profile.json"))["trace_events"]:
        if e["name"] == "tick":
            by.setdefault(int(e["process_id"]), []).append((int(e["args"]["i"]), e["timestamp"]))
    equal(sorted(len(ticks) for ticks in by.values()), [500, 500, 1000, 1000], "ticks of each process")
    for ticks in by.values():
        equal(sorted(n for n, _ in ticks), list(range(1, len(ticks) + 1)), "each once")
        fits = [name for name, w in windows.items() if all(any(first < n <= last and low <= at <= high for first, last, low, high in w) for n, at in ticks)]
        check(fits, f"its times are those of no workload: {sorted(ticks)[:2]} {windows}")
finish()
