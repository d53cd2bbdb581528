"""Tests the arrows from an annotation to nrt_execute, to the runtime's own events and to the cores.
Four threads use two logical cores of two physical cores each. The simulated runtime states which
execution belongs to each call, and every arrow of the JSON output must lead to this execution, also
while events are lost."""
import collections
import glob
import json
import os
import sys

from lib import BUILD, Importer, check, equal, failures, finish, load_json, need_preload, run, tmp
from neffs import neff

sys.path.insert(0, os.path.join(os.environ["MERIDIAN_SOURCE"], "tests", "trace"))
from xplane_oracle import data, number

PROGRAM = """
import ctypes, sys, threading
import meridian as m

P = ctypes.c_void_p
nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
assert nrt.nrt_init(1, b"2.0", b"2.0") == 0
models = []
for core in (0, 1):
    for us in (300, 900):
        text, model = open(sys.argv[1] + str(us), "rb").read(), P()
        assert nrt.nrt_load(text, ctypes.c_size_t(len(text)), core, -1, ctypes.byref(model)) == 0
        models.append((text, model))
ins, outs = P(), P()
nrt.nrt_allocate_tensor_set(ctypes.byref(ins)), nrt.nrt_allocate_tensor_set(ctypes.byref(outs))


def work(t):
    for n in range(int(sys.argv[2])):
        with m.scope("call", "test", thread=threading.get_native_id(), number=n):
            with m.scope("around", "test"):
                pass
            assert nrt.nrt_execute(models[(n * 7 + t) % 4][1], ins, outs) == 0


threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
nrt.nrt_close()
"""

need_preload()
folder = tmp()
program = os.path.join(folder, "program.py")
with open(program, "w") as f:
    f.write(PROGRAM)
for us in (300, 900):
    with open(os.path.join(folder, "neff%d" % us), "wb") as f:
        f.write(neff("n%d" % us, us))


def executions(prefix):
    """{(thread, number of its call): execution}."""
    out, calls = {}, collections.Counter()
    for path in glob.glob(prefix + ".*"):
        with open(path) as f:
            for line in f:
                if line.startswith("exec "):
                    w = dict(x.split("=") for x in line.split()[1:])
                    out[w["tid"], calls[w["tid"]]] = int(w["exec_id"]), int(w["core"])
                    calls[w["tid"]] += 1
    return out


def follow(name, n, **env):
    """The arrows of a run: {call: executions of the cores that they lead to}, checked on the way."""
    out, truth = os.path.join(folder, name), os.path.join(folder, name + ".truth")
    run("inspect", "-o", out, "--output-format", "json,perfetto", "--", sys.executable, program, os.path.join(folder, "neff"), str(n), env=dict(
        os.environ, PYTHONPATH=os.path.join(os.environ["MERIDIAN_SOURCE"], "python"), LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"),
        NEURON_LOGICAL_NC_CONFIG="2", SIMNRT_TRUTH=truth, **env), want=None)
    rows = load_json(os.path.join(out, "system_profile.json"))["trace_events"]
    spans = [r for r in rows if r.get("kind", "span") == "span" and "unfinished" not in r and "no_start" not in r]
    starts, ends = collections.defaultdict(list), collections.defaultdict(list)
    for r in rows:
        for id, way in zip(r.get("flow_id", []), r.get("flow_dir", [])):
            (starts if way == "start" else ends)[id].append(r)
    calls = [r for r in spans if r["name"] == "call" and r["trace_event_source"] == "annotation"]
    leads, pairs = {}, collections.Counter()
    for id, points in ends.items():
        check(len(starts[id]) <= 1, f"arrow {id} begins once: {starts[id]}")
        for a in starts[id]:
            for b in points:
                pairs[a["name"], a["trace_event_source"], b["name"], b["trace_event_source"]] += 1

    def next_of(r):
        return [b for id, way in zip(r.get("flow_id", []), r.get("flow_dir", [])) if way == "start" for b in ends[id]]
    points = collections.defaultdict(list)
    for r in rows:
        if r["trace_event_source"] == "annotation" and r["name"] == "calls nrt_execute":
            points[r["thread_id"]].append(r)
    for call in calls:
        at, to = int(call["timestamp"]), int(call["timestamp"]) + int(call["duration"])
        here = [p for p in points[call["thread_id"]] if at <= int(p["timestamp"]) <= to]
        check(len(here) <= 1, f"one call, one arrow: {here}")
        found = set()
        for hook in (b for p in here for b in next_of(p)):
            equal((hook["name"], hook["trace_event_source"], hook["thread_id"]), ("nrt_execute", "nrt_api", call["thread_id"]), "from an annotation to its call")
            for runtime in next_of(hook):
                equal((runtime["name"], runtime["trace_event_source"]), ("nrt_execute", "neuron_rt"), "from the call to the runtime's")
                for pre in next_of(runtime):
                    equal((pre["name"], pre["lnc_idx"]), ("kbl_exec_pre", runtime["lnc_idx"]), "to the submission")
                    for hw in next_of(pre):
                        equal(hw["name"], "nc_exec_running", "to the core")
                        found.add((int(hw["args"]["exec_id"]), int(hw["lnc_idx"])))
        leads[str(call["args"]["thread"]), int(call["args"]["number"])] = found
    return leads, executions(truth), pairs, out


CHAIN = [("nrt_execute", "nrt_api", "nrt_execute", "neuron_rt"), ("nrt_execute", "neuron_rt", "kbl_exec_pre", "neuron_rt")]
leads, truth, pairs, out = follow("whole", 60)
equal(len(truth), 240, "executions made")
wrong = {c: (f, truth[c]) for c, f in leads.items() if f and f != {truth[c]}}
equal(wrong, {}, "every arrow leads to the execution of its call")
led = sum(1 for f in leads.values() if f)
check(led >= 230, f"nearly every call has its arrows: {led} of 240; {pairs}")
for kind in CHAIN:
    check(pairs[kind] >= 230, f"{kind}: {pairs[kind]}")



def jax(out):
    """The same calls with what JAX leaves of them instead of annotations: the arrows begin at its operations, which say when they were by the epoch of their profile."""
    doc = load_json(os.path.join(out, "system_profile.json"))
    calls = [r for r in doc["trace_events"] if r["name"] == "call" and r["trace_event_source"] == "annotation"]
    rest = [{k: v for k, v in r.items() if k not in ("flow_id", "flow_dir")} for r in doc["trace_events"] if r["trace_event_source"] != "annotation"]
    start = min(int(c["timestamp"]) for c in calls) - 10**6
    lines = b""
    for thread in sorted({c["thread_id"] for c in calls}):
        events = b""
        for c in (c for c in calls if c["thread_id"] == thread):
            events += data(4, number(1, 1) + number(2, 1000 * (int(c["timestamp"]) - start - 2000)) + number(3, 1000 * (int(c["duration"]) + 4000)))
        lines += data(3, number(1, thread) + data(2, "python") + events)
    space = data(1, data(2, "/host:CPU") + lines + data(4, number(1, 1) + data(2, number(1, 1) + data(2, "PjitFunction(step)"))))
    space += data(1, data(2, "Task Environment") + data(5, number(1, 1) + data(2, number(1, 1) + data(2, "profile_start_time"))) + data(6, number(1, 1) + number(3, start)))
    where = os.path.join(folder, "jax")
    left = os.path.join(where, f"{calls[0]['instance_id']}_pid_{calls[0]['process_id']}", "plugins", "profile", "2026_01_02_03_04_05")
    os.makedirs(left)
    with open(os.path.join(left, "host.xplane.pb"), "wb") as f:
        f.write(space)
    with open(os.path.join(left, "host.trace.json"), "w") as f:  # of the same events, without a date
        json.dump({"displayTimeUnit": "ns", "traceEvents": [{"ph": "X", "pid": 701, "tid": c["thread_id"], "name": "PjitFunction(step)", "ts": (int(c["timestamp"]) - start) / 1000,
                                                             "dur": int(c["duration"]) / 1000} for c in calls]}, f)
    with open(os.path.join(folder, "runtime.json"), "w") as f:
        json.dump({**doc, "trace_events": rest}, f)
    run("view", os.path.join(folder, "runtime.json"), "-d", where, "-o", os.path.join(folder, "joined"), "--output-format", "json")
    rows = load_json(os.path.join(folder, "joined", "system_profile.json"))["trace_events"]
    equal(sum(r["name"] == "PjitFunction(step)" for r in rows), len(calls), "operations, each once")
    ends = collections.defaultdict(list)
    for r in rows:
        for id, way in zip(r.get("flow_id", []), r.get("flow_dir", [])):
            if way != "start":
                ends[id].append(r)
    found = collections.Counter((b["name"], b["trace_event_source"]) for r in rows if r["name"] == "calls nrt_execute" and r["trace_event_source"] == "framework"
                                for id in r["flow_id"] for b in ends[id])
    check(found["nrt_execute", "nrt_api"] >= 230 and len(found) == 1, f"from JAX's operations to the calls: {found} of {len(calls)}")


jax(out)
leads, truth, pairs, _ = follow("lossy", 400, NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC="30", MERIDIAN_RING_SIZE="16K")
wrong = {c: (f, truth[c]) for c, f in leads.items() if f and f != {truth[c]}}
equal(wrong, {}, "no arrow joins the events of two calls where some were lost")
print(f"lossy: {len(leads)} of {len(truth)} calls seen, {sum(1 for f in leads.values() if f)} with all arrows")
if failures:
    finish()
tp = Importer()
shown = tp.query(os.path.join(out, "system_profile.pftrace"),
                 "select a.name as a, b.name as b, count(*) as n from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id "
                 "group by 1, 2", Importer.BAD)
drawn = {(a, b): int(n) for a, b, n in shown[0]}
check(drawn.get(("nrt_execute", "nrt_execute"), 0) >= 230, f"from the call to the runtime: {drawn}")
check(drawn.get(("calls nrt_execute", "nrt_execute"), 0) >= 230, f"from the annotation to the call: {drawn}")
check(drawn.get(("nrt_execute", "kbl_exec_pre"), 0) >= 230, f"Perfetto draws them: {drawn}")
check(drawn.get(("kbl_exec_pre", "nc_exec_running"), 0) >= 230, f"Perfetto draws them: {drawn}")
equal(shown[1], [], "without complaints")

# ---- The two physical cores of an execution are one slice, with the times of both ----
rows = load_json(os.path.join(out, "system_profile.json"))["trace_events"]
halves = collections.defaultdict(dict)
for r in rows:
    if r["name"] == "nc_exec_running" and "unfinished" not in r and "no_start" not in r:
        halves[r["args"]["exec_id"]][int(r["pcore_idx"])] = int(r["timestamp"]), int(r["duration"])
pairs = {e: h for e, h in halves.items() if len(h) == 2}
check(len(pairs) >= 230, f"executions with both halves: {len(pairs)}")
slices = tp.query(os.path.join(out, "system_profile.pftrace"),
                  "select extract_arg(arg_set_id, 'debug.exec_id') as e, dur, "
                  + ", ".join(f"extract_arg(arg_set_id, 'debug.pcore{n}_{k}')" for n in range(4) for k in ("timestamp", "duration"))
                  + " from slice where name = 'nc_exec_running'")[0]
equal(len(slices), len(halves), "one slice for an execution")
for s in slices:
    exec, dur, times = str(s[0]), int(s[1]), s[2:]
    if exec in pairs:
        got = {n: (int(times[2 * n]), int(times[2 * n + 1])) for n in range(4) if times[2 * n] is not None}
        equal(got, pairs[exec], f"the halves of execution {exec}")
        first, last = min(a for a, _ in got.values()), max(a + d for a, d in got.values())
        equal(dur, last - first, f"the union of execution {exec}")
finish()
