"""Nodes whose clocks are all wrong start at one time, and a trigger takes one window from all of them. What each clock truly
shows is known here, so the promise is checked against the truth: every node starts within the bound it states, and of each
flight recorder exactly the batches arrive that overlap the window. A node that hears of the start too late is Meridian's fault
unless the kernel kept its agent or the aggregator waiting for a CPU that long. START_SPREAD_NODES (8) agents."""
import json
import math
import os
import struct
import sys
import time

from lib import BUILD, Cluster, check, equal, finish, need_daemons, skip, until
from wait import let_it_run

NODES = int(os.environ.get("START_SPREAD_NODES", "8"))
SHIM = os.path.join(BUILD, "lib", "libmrd_clockshim.so")
MS, SEC = 10**6, 10**9
LATE = 20 * MS  # no clock is so far beyond its bound: the node received the start too late
EDGE = 20 * MS  # what is so near to an end of the window may be in or out


class Clock:
    """One node's wrong clock, as sim/simclock.c computes it."""

    def __init__(self, i, epoch):
        self.epoch, self.offset = epoch, i * 37 * SEC + i * i * 1234567
        self.ppm, self.wander, self.period = (i * 7 % 21 - 10) * 9, 10_000, 60 * SEC

    def text(self):
        return f"offset={self.offset}ns,ppm={self.ppm},wander={self.wander}ns/{self.period}ns,epoch={self.epoch}"

    def local(self, raw):
        age = raw - self.epoch
        return raw + self.offset + age * self.ppm // 10**6 + round(self.wander * math.sin(2 * math.pi * (age % self.period) / self.period))

    def raw(self, local):
        at = local - self.offset
        for _ in range(4):
            at -= self.local(at) - local
        return at


def frames(c, session, node):
    """{(first, last, events)} of the batches in a journal, times local."""
    found, folder = set(), c.path("store", "sessions", session, "journal", node)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        at = 256
        while data[at:at + 4] == b"MRDF":
            body, events = struct.unpack_from("<I", data, at + 8)[0], struct.unpack_from("<I", data, at + 24)[0]
            if data[at + 5] == 6:
                found.add((*struct.unpack_from("<qq", data, at + 72), events))
            at += 96 + body
    return found


def aligned(c):
    known = [n for n in c.nodes().values() if n["clock"]["method"].startswith("udp") and 0 <= n["clock"]["bound_ns"] < 10 * MS]
    return len(known) == NODES


def started(c, doc, clocks, offset):
    """Of each node the error of its start and the bound it states, ns."""
    return {p["instance_id"]: (clocks[p["instance_id"]].raw(p["started_local_ns"]) + offset - doc["go_ns"], p["start_bound_ns"])
            for p in doc["nodes"]}


def text(ns):
    return f"{ns / 1000:.1f} us"


def waited(program):
    """How long the threads of a program have waited for a CPU so far, ns."""
    total, folder = 0, f"/proc/{program.pid}/task"
    for task in os.listdir(folder):
        try:
            with open(f"{folder}/{task}/schedstat") as f:
                total += int(f.read().split()[1])
        except OSError:  # it ended
            pass
    return total


def spread(c, clocks, offset):
    programs = {"aggregator": c.daemon, **{f"i-test{i}": a for i, a in c.agents.items()}}
    for attempt in range(5):
        before = {name: waited(p) for name, p in programs.items()}
        id = c.start("--require", "all", "--name", "spread")
        if not c.recording(id, NODES):
            return
        delay = {name: waited(p) - before[name] for name, p in programs.items()}
        starts = started(c, c.session(id), clocks, offset)
        c.stop(id)
        late = {n: error for n, (error, _) in starts.items() if error > LATE}
        ours = {n: (error, delay[n], delay["aggregator"]) for n, error in late.items() if delay[n] + delay["aggregator"] < error / 2}
        equal(ours, {}, "nodes that began late while there was CPU (late by; their agent, the aggregator waited for a CPU, ns)")
        if not late:
            break
        print(f"attempt {attempt}: late, because the machine was: {len(late)} nodes, by up to {max(late.values()) // MS} ms")
    starts = {n: s for n, s in starts.items() if n not in late}
    clocks = {n: clock for n, clock in clocks.items() if n not in late}
    if not starts:
        print("late: every node in every attempt, by this machine; the bounds at the start were not checked")
        return
    equal(sorted(starts), sorted(clocks), "nodes that started")
    wrong = {n: s for n, s in starts.items() if not 0 <= abs(s[0]) <= s[1]}
    equal(wrong, {}, "nodes outside the bound they state (error, bound in ns)")
    errors, bounds = sorted(abs(e) for e, _ in starts.values()), sorted(b for _, b in starts.values())
    print(f"start of {len(starts)} nodes: error median {text(errors[len(errors) // 2])}, largest {text(errors[-1])}, "
          f"first to last {text(max(e for e, _ in starts.values()) - min(e for e, _ in starts.values()))}; "
          f"bound stated median {text(bounds[len(bounds) // 2])}, largest {text(bounds[-1])}")


def window(c, clocks, offset):
    recorder = c.run("start", "--mode", "recorder", "--keep", "30s", "--require", "all", want=None)[0].strip()
    beside = c.start("--require", "all", "--name", "beside")
    if not c.recording(recorder, NODES) or not c.recording(beside, NODES):
        return
    let_it_run(3)  # something to look back on
    for _ in range(5):  # a node that has no CPU for a second misses the question
        c.run("trigger", recorder, "--last", "1500ms", "--reason", "test")
        let_it_run(1.5)  # the answers, and something behind the window
        if c.session(recorder)["triggers"][-1]["answered"] == NODES:
            break
    c.stop(beside)
    doc = c.stop(recorder)
    windows = [(t["from_ns"] - offset, t["to_ns"] - offset) for t in doc["triggers"]]
    equal(doc["triggers"][-1]["answered"], NODES, "nodes that answered the trigger")
    start, end = windows[-1]
    batches = events = 0
    for node, clock in clocks.items():
        true = {f: (clock.raw(f[0]), clock.raw(f[1])) for f in frames(c, beside, node) | frames(c, recorder, node)}
        got, all = frames(c, recorder, node), frames(c, beside, node)
        must = {f for f in all if true[f][1] > start + EDGE and true[f][0] < end - EDGE}
        may = {f for f in all if any(true[f][1] > w[0] - EDGE and true[f][0] < w[1] + EDGE for w in windows)}
        check(must, f"{node} recorded nothing in the window")
        equal((len(must - got), len(got - may)), (0, 0), f"{node}: batches of the window that are missing, others that came")
        batches += len(got)
        events += sum(f[2] for f in got)
    print(f"trigger: the same window of {(end - start) / SEC:.1f} s from {len(clocks)} nodes, {batches} batches, {events} events")


if not os.path.exists(SHIM):
    skip("libmrd_clockshim.so is not built")
need_daemons()
with Cluster() as c:
    # Patience that no load of this machine exhausts: what is promised is the same time, not a fast answer.
    c.aggregator(arm_timeout="60s", node_timeout="60s", lead="500ms" if NODES <= 16 else "3s")
    until(c.answers, "the aggregator answers")
    epoch = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    clocks = {f"i-test{i}": Clock(i, epoch) for i in range(NODES)}
    for i in range(NODES):
        c.agent(i, prefix=["env", f"LD_PRELOAD={SHIM}", f"MERIDIAN_TEST_CLOCK={clocks[f'i-test{i}'].text()}"],
                sample="50ms", counters="mem.*", flush="100ms", log_level="warn", simulated=True)
    if until(lambda: aligned(c), "the clocks of all nodes are known", 300):
        with open(c.path("store", "clock.json")) as f:
            session_offset = json.load(f)["session_offset_ns"]
        spread(c, clocks, session_offset)
        window(c, clocks, session_offset)
finish()
