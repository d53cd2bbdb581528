"""Tests the memory in use by scope: what a Python program and its tensors hold, by the annotation
in which it was allocated. Summary, report and Perfetto output must show the values that the program
itself counts and prints."""
import os
import sys

from lib import Importer, check, equal, failures, finish, load_json, need_preload, run, tmp

PROGRAM = """
import ctypes, json, random, sys
import meridian as m

rt = ctypes.CDLL(None)  # libmeridian is preloaded in front of the runtime
ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
dice = random.Random(int(sys.argv[1]))
scopes, held, account = [], {}, {}
assert rt.nrt_init(1, b"1", b"2") == 0


def book(key, bytes):
    a = account.setdefault(key, {"current": 0, "peak": 0, "allocated": 0, "freed": 0, "count": 0})
    a["current"] += bytes
    a["peak"] = max(a["peak"], a["current"])
    if bytes > 0:
        a["allocated"] += bytes
        a["count"] += 1
    else:
        a["freed"] -= bytes


for i in range(1500):
    what = dice.randrange(100)
    if what < 20 and len(scopes) < 12:
        name = "%s %d" % (dice.choice(["forward", "backward"]), dice.randrange(3))
        domain = dice.choice([None, "train"])
        scopes.append((m.scope(name, domain), name if domain is None else domain + "/" + name))
        scopes[-1][0].__enter__()
    elif what < 35 and scopes:
        scopes.pop()[0].__exit__(None, None, None)
    elif what < 75:
        place, bytes = dice.choice(["host", "device"]), dice.randrange(1, 1 << 20)
        key = place, scopes[-1][1] if scopes else "(no scope)"
        if place == "host":
            tensor = None
            m.memory_allocated(i, bytes)
        else:
            tensor = ctypes.c_void_p()
            assert rt.nrt_tensor_allocate(0, 0, ctypes.c_size_t(bytes), b"t", ctypes.byref(tensor)) == 0
        held[i] = key, bytes, tensor
        book(key, bytes)
    elif held:
        i = dice.choice(list(held))
        key, bytes, tensor = held.pop(i)
        m.memory_freed(i) if tensor is None else rt.nrt_tensor_free(ctypes.byref(tensor))
        book(key, -bytes)
while scopes:
    scopes.pop()[0].__exit__(None, None, None)
assert m.lost() == 0, m.lost()
print(json.dumps([[place, scope, a] for (place, scope), a in account.items()]))
"""

need_preload()
build = os.environ["MERIDIAN_BUILD"]
folder = tmp()
program, out, printed = (os.path.join(folder, n) for n in ("program.py", "out", "printed.json"))
with open(program, "w") as f:
    f.write(PROGRAM)
seed = os.environ.get("MRD_SEED", "1")
print("MRD_SEED=" + seed)
environment = dict(os.environ, PYTHONPATH=os.path.join(os.environ["MERIDIAN_SOURCE"], "python"), LD_LIBRARY_PATH=os.path.join(build, "lib", "simnrt"),
                   MERIDIAN_RING_SIZE="8M")
run("inspect", "-o", out, "--output-format", "summary-json,summary-text,report-json,report-text,perfetto,json", "--", "/bin/sh", "-c", f"{sys.executable} {program} {seed} > {printed}", env=environment)
want = {(place, scope): a for place, scope, a in load_json(printed)}
check(len(want) > 12 and any(a["freed"] > 0 for a in want.values()), "the program did something")


def rows(document):
    return {(r["place"], r["scope"]): {"current": r["current_bytes"], "peak": r["peak_bytes"], "allocated": r["allocated_bytes"],
                                       "freed": r["freed_bytes"], "count": r["count"]} for r in document["memory_by_scope"]}


equal(rows(load_json(os.path.join(out, "summary.json"))["summary"]), want, "summary.json has the program's own account")
equal(rows(load_json(os.path.join(out, "report.json"))["report"]), want, "report.json, too")
for name in ("summary.txt", "report.txt"):
    with open(os.path.join(out, name)) as f:
        text = f.read()
    check("Memory by scope" in text and "train/forward" in text and "(no scope)" in text, f"{name} has the table")

names = {"current": "current", "peak": "peak", "allocated": "allocated", "count": "allocations"}
last = {}
for e in load_json(os.path.join(out, "system_profile.json"))["counters"]:
    if e.get("track", "").startswith("memory."):
        last[e["track"]] = e["value"]
for (place, scope), a in want.items():
    for key, name in names.items():
        equal(last.get(f"memory.{place}.{name}/{scope}"), a[key], f"the last sample of {place} {name} of {scope}")

if failures:
    finish()
shown = {name: float(value) for name, value in Importer().query(
    os.path.join(out, "system_profile.pftrace"),
    "select t.name as name, c.value as value from counter c join counter_track t on c.track_id = t.id "
    "where t.name like 'memory.%' order by c.ts, c.id")[0]}
for (place, scope), a in want.items():
    equal(shown.get(f"memory.{place}.current/{scope}"), float(a["current"]), f"Perfetto's last value of {place} {scope}")
finish()
