"""A program writes a Kineto trace while it is recorded. The trace is a real one with its
correlation ids, moved to the time of the recording, with operations around calls of the simulated
runtime. In the merged profile every arrow of the trace must be present, and an arrow must lead from
each operation to the call inside of it."""
import collections
import glob
import json
import os
import sys
from decimal import Decimal

from lib import BUILD, DATA, Cluster, Program, check, equal, finish, load_json, need_daemons, skip, until
from neffs import neff

need_daemons()
REAL = next(iter(sorted(glob.glob(os.path.join(DATA, "param-dlrm-8rank-r0-3", "worker0_*.json.gz")))), None)
if REAL is None:
    skip(f"no real Kineto trace at {DATA}")
CALLS = 40
PROGRAM = r"""
import ctypes, json, os, sys, threading, time

P = ctypes.c_void_p
nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
assert nrt.nrt_init(1, b"2.0", b"2.0") == 0
text, model, ins, outs = open(sys.argv[1], "rb").read(), P(), P(), P()
assert nrt.nrt_load(text, ctypes.c_size_t(len(text)), 0, -1, ctypes.byref(model)) == 0
nrt.nrt_allocate_tensor_set(ctypes.byref(ins)), nrt.nrt_allocate_tensor_set(ctypes.byref(outs))
tell = threading.Event()


def wait_for(name):
    while not os.path.exists(os.path.join(sys.argv[2], name)):
        tell.wait(0.01)


wait_for("go")
operations = []
for n in range(int(sys.argv[4])):
    begin = time.time_ns()
    tell.wait(0.0005)  # the speed of a program that prepares its inputs
    assert nrt.nrt_execute(model, ins, outs) == 0
    operations.append((begin, time.time_ns(), "neuron::step_%d" % n))
with open(sys.argv[3]) as f:
    rows = json.load(f)
pid, tid = os.getpid(), threading.get_native_id()
last = max(row[0] + row[1] for row in rows)
move = time.time_ns() - last - 1000000
us = lambda ns: "%d.%03d" % (ns // 1000, ns % 1000)
lines = []
for at, dur, row in rows:  # as this process would have written them
    if row.get("pid") == "SELF":
        row["pid"] = pid
    own = json.dumps(row)[:-1]
    lines.append('%s, "ts": %s%s}' % (own, us(at + move), ', "dur": %s' % us(dur) if row["ph"] == "X" else ""))
for begin, end, name in operations:
    lines.append('{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": %d, "tid": %d, "ts": %s, "dur": %s, "args": {}}' % (name, pid, tid, us(begin), us(end - begin)))
folder = os.path.join(sys.argv[5], "i-test0_pid_%d" % pid, "1700000000000000000")
os.makedirs(folder)
with open(os.path.join(sys.argv[2], "half"), "w") as f:
    f.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n")
os.rename(os.path.join(sys.argv[2], "half"), os.path.join(folder, "rank0.json"))
with open(os.path.join(sys.argv[2], "moved"), "w") as f:
    f.write(str(move))
wait_for("end")
nrt.nrt_close()
"""


def nanoseconds(us):
    return int(Decimal(str(us)) * 1000)


def real_rows():
    """[(begin, length, row without times)] of the trace, the pid of its host side as SELF."""
    doc = load_json(REAL)
    own = collections.Counter(e["pid"] for e in doc["traceEvents"] if e.get("cat") == "cpu_op").most_common(1)[0][0]
    rows = []
    for e in doc["traceEvents"]:
        if e.get("ph") not in ("X", "s", "f") or e.get("cat") == "Trace":
            continue
        row = {k: v for k, v in e.items() if k not in ("ts", "dur")}
        if row["pid"] == own:
            row["pid"] = "SELF"
        rows.append((nanoseconds(e["ts"]), nanoseconds(e.get("dur", 0)), row))
    return rows


def correlated(rows, move):
    """{(name and begin of the runtime's call, name and begin of what ran on the device)} by correlation id."""
    calls, ran = {}, collections.defaultdict(list)
    drawn = {row["id"] for _, _, row in rows if row["ph"] == "s" and row["cat"] == "ac2g"}
    for at, _, row in rows:
        id = row.get("args", {}).get("correlation")
        if row["ph"] != "X" or id not in drawn:
            continue
        if row["cat"] == "cuda_runtime":
            calls[id] = (row["name"], at + move)
        elif row["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            ran[id].append((row["name"], at + move))
    return {(calls[id], b) for id, ends in ran.items() if id in calls for b in ends}


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0, watch=c.folder("capture"), stable="200ms")
    until(lambda: len(c.nodes()) == 1, "the agent is there")
    shared = c.folder("shared")
    with open(c.path("program.py"), "w") as f:
        f.write(PROGRAM)
    with open(c.path("model.neff"), "wb") as f:
        f.write(neff("live", 900))
    rows = real_rows()
    with open(c.path("rows.json"), "w") as f:
        json.dump(rows, f)
    program = c.keep(Program(c.path("program.log"), [sys.executable, c.path("program.py"), c.path("model.neff"), shared, c.path("rows.json"), str(CALLS), c.folder("capture")],
                             env=dict(c.env, LD_PRELOAD=os.path.join(BUILD, "lib", "libmeridian.so"), LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"),
                                      MERIDIAN_RING_DIR=c.rings(0), MERIDIAN_ENABLE="1", SIMNRT_JOB=c.job("live"), SIMNRT_EVENT_SCALE="0"), stdout=-3))
    until(lambda: sum(n["processes"] for n in c.nodes().values()) == 1, "the agent sees the program")
    id = c.start("--name", "live")
    c.begun(id, 1)
    open(os.path.join(shared, "go"), "w").close()
    until(lambda: os.path.exists(os.path.join(shared, "moved")), f"the trace is written: {program.text()}")
    until(lambda: any(a["complete"] and a["name"].endswith("rank0.json") for a in c.session(id).get("artifacts", [])), "the trace file has arrived")
    c.stop(id)
    open(os.path.join(shared, "end"), "w").close()
    with open(os.path.join(shared, "moved")) as f:
        move = int(f.read())
    c.run("fetch", id, "-o", c.path("out"), "--format", "json")
    events = load_json(c.path("out", "system_profile.json"))["trace_events"]

starts, ends = {}, collections.defaultdict(list)
for e in events:
    for flow, way in zip(e.get("flow_id", []), e.get("flow_dir", [])):
        if way == "start":
            starts[flow] = e
        else:
            ends[flow].append(e)
pairs = [(starts[flow], b) for flow, points in ends.items() if flow in starts for b in points]
want = correlated(rows, move)
check(len(want) > 200, f"the real trace has arrows: {len(want)}")
names = {name for pair in want for name, _ in pair}
got = {((a["name"], int(a["timestamp"])), (b["name"], int(b["timestamp"]))) for a, b in pairs if a["name"] in names and b["name"] in names}
shift = sorted(b[1] - w[1] for (_, b), (_, w) in zip(sorted(got, key=lambda p: p[1][1]), sorted(want, key=lambda p: p[1][1])))
check(len(got) == len(want) and shift and shift[-1] - shift[0] < 100, f"{len(got)} of {len(want)} arrows, one clock moves them alike: {shift[:3]} to {shift[-3:]}")
by = shift[len(shift) // 2] if shift else 0
near = {((a, round((at - by - move) / 1000)), (b, round((to - by - move) / 1000))) for (a, at), (b, to) in got}  # the trace counts whole microseconds
exact = {((a, round((at - move) / 1000)), (b, round((to - move) / 1000))) for (a, at), (b, to) in want}
check(near == exact, f"from each runtime call to what it launched, as the correlation ids say: {len(near ^ exact)} differ: {str(sorted(near ^ exact)[:2])[:300]}")
led = {}
for a, b in pairs:
    if a["name"] == "calls nrt_execute" and b["name"] == "nrt_execute":
        inside = [e for e in events if e["name"].startswith("neuron::step_") and int(e["timestamp"]) <= int(b["timestamp"])
                  and int(b["timestamp"]) + int(b["duration"]) <= int(e["timestamp"]) + int(e["duration"])]
        equal(len(inside), 1, "the call is inside one operation")
        led[inside[0]["name"]] = b
equal(len(led), CALLS, f"an arrow from each operation to its call: {sorted(led)}")
finish()
