"""Tests meridian diff. Its series must equal those of an independent reading, false alarms must be
rare, a planted change must be named, and wrong usage must be reported."""
import collections
import json
import math
import os
import random
import subprocess

from lib import BUILD, DATA, MERIDIAN, check, equal, finish, load_json, run, tmp

work = tmp()
KERNELS = (("gemm_fwd", 900), ("softmax", 200), ("gemm_bwd", 1500), ("adam", 400), ("layernorm", 120))
PAIRS, RUNS = 200, 40


def path(name):
    return os.path.join(work, name)


def trace(name, seed, change=None, factor=1.0, steps=150, warmup=0.0, rank=0):
    """A trace of one rank: steps of five kernels with 2 % noise each, one step in 50 three times as long. The first takes so much longer, which falls to 1/e in 8 steps."""
    r, events, t = random.Random(seed), [], 1_000_000_000
    for s in range(steps):
        slow, begin, d = (3 if r.random() < 0.02 else 1) * (1 + warmup * math.exp(-s / 8)), t, t + 50_000
        for kernel, us in KERNELS:
            k = int(1000 * us * (1 + 0.02 * r.gauss(0, 1)) * (factor if kernel == change else 1) * slow)
            events.append(dict(ph="X", cat="cpu_op", name="aten::" + kernel, pid=100, tid=100, ts=(d - 40_000) / 1000, dur=30))
            events.append(dict(ph="X", cat="kernel", name=kernel, pid=0, tid=7, ts=d / 1000, dur=k / 1000, args=dict(device=0, stream=7)))
            d += k + 5000
        events.append(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{s}", pid=100, tid=100, ts=begin / 1000, dur=(d - begin) / 1000))
        t = d + 20_000
    r.shuffle(events)
    with open(path(name), "w") as f:
        json.dump(dict(schemaVersion=1, deviceProperties=[dict(id=0)], distributedInfo=dict(rank=rank, world_size=rank + 1), traceEvents=events), f)
    return path(name)


def series(name, *inputs):
    run("view", *inputs, "-o", path(name), "--output-format", "steps-json", want=None)
    return os.path.join(path(name), "steps.json")


def diff(a, b, *options):
    p = subprocess.run([MERIDIAN, "diff", a, b, "--json", *options], capture_output=True, text=True, timeout=60)
    check(p.returncode in (0, 3, 4), f"diff of {a} and {b}: {p.returncode} {p.stderr}")
    doc = json.loads(p.stdout)
    equal(p.returncode == 4, doc["verdict"] == "slower", "the exit status says the verdict")
    return doc


# ---- what an operation costs per step, read a second way ----
def ns(us):
    """Microseconds with decimals as integer nanoseconds."""
    whole, _, part = str(us).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def oracle(file):
    """Steps of the process, and for each kernel its calls and time within them."""
    events = load_json(file)["traceEvents"]
    steps = sorted((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in events if e["name"].startswith("ProfilerStep#"))
    ops = collections.defaultdict(lambda: [0] * len(steps))
    for e in events:
        if e.get("cat") == "kernel":
            inside = [i for i, (a, b) in enumerate(steps) if a <= ns(e["ts"]) < b]
            if inside:
                ops[e["name"]][inside[0]] += ns(e["dur"])
    return steps, ops


first = trace("oracle.json", 11)
doc = load_json(series("oracle", first))["steps"]
steps, ops = oracle(first)
equal(doc["unit"], "step", "unit")
equal(doc["processes"][0]["blocks_ns"], [b - a for a, b in steps], "the steps")
compute = {o["name"]: o for o in doc["operations"] if o["kind"] == "compute"}
equal({n: o["blocks_ns"] for n, o in compute.items()}, dict(ops), "each kernel, step by step")
parts = [o for o in doc["operations"] if o["kind"] == "part"]
equal([sum(p["blocks_ns"][i] for p in parts) for i in range(1, len(steps))], [b - a for a, b in steps][1:], "the parts add up to the step")

def own(process):
    """Own time of a process, block by block: all its parts."""
    return [sum(v) for v in zip(*process["own_ns"].values())]


equal(own(doc["processes"][0])[1:], [b - a for a, b in steps][1:], "without collectives all time is the process's own")
equal(doc["processes"][0]["own_count"], [0] + [1] * (len(steps) - 1), "steps whose begin has an account")

# ---- more steps than blocks: neighbours are added up, nothing is lost ----
long = trace("long.json", 12, steps=700)
doc = load_json(series("long", long))["steps"]
steps, ops = oracle(long)
equal(doc["width"], 4, "four steps in a block")
equal(doc["processes"][0]["blocks_ns"], [sum(b - a for a, b in steps[i:i + 4]) for i in range(0, 700, 4)], "blocks of steps")
equal({o["name"]: sum(o["blocks_ns"]) for o in doc["operations"] if o["kind"] == "compute"}, {n: sum(v) for n, v in ops.items()}, "time of kernels")
equal(own(doc["processes"][0])[1:], doc["processes"][0]["blocks_ns"][1:], "own time in blocks")

# ---- false alarms, and what is found ----
SHARE = (("gemm_bwd", 1500), ("gemm_fwd", 900), ("adam", 400), ("softmax", 200))  # microseconds of a step of 3145


def longer(i, percent):
    """A run whose step is so much longer, by one kernel; and that kernel."""
    kernel, us = r.choice(SHARE)
    return kernel, series(f"b{percent}-{i}", trace(f"b{percent}-{i}.json", 1000 * (percent + 1) + i, kernel, 1 + percent / 100 * 3145 / us))


def group(of, n):
    return ",".join(r.sample(of, n))


r = random.Random(5)
same = [series(f"a{i}", trace(f"a{i}.json", 1000 + i)) for i in range(RUNS)]
alarms = named_in_alarm = 0
for i in range(PAIRS):
    d = diff(*r.sample(same, 2))
    alarms += d["verdict"] != "no difference"
    named_in_alarm += d["cause"] is not None
print(f"{PAIRS} pairs of equal runs: {alarms} false alarms, {named_in_alarm} operations named")
check(alarms <= PAIRS / 100, f"{alarms} false alarms in {PAIRS} pairs")
check(named_in_alarm <= PAIRS / 100, f"{named_in_alarm} operations named in {PAIRS} equal pairs")
changed = {percent: [longer(i, percent) for i in range(RUNS)] for percent in (1, 2, 5)}
found, named = collections.Counter(), collections.Counter()
for percent, runs in changed.items():
    for side in (1, 3, 5):
        for _ in range(RUNS):
            kernel = r.choice(runs)[0]
            of = [f for k, f in runs if k == kernel]
            n = min(side, len(of))
            d = diff("--base=" + group(same, side), "--new=" + group(of, n))
            found[percent, side] += d["verdict"] == "slower"
            named[percent, side] += d["cause"] is not None and (d["cause"]["kind"], d["cause"]["name"]) == ("compute", kernel)
        print(f"{percent} % longer, {side} a side: {found[percent, side]} of {RUNS} found, the operation named in {named[percent, side]}")
for percent, side in ((1, 5), (2, 3), (5, 1)):
    check(found[percent, side] >= 0.95 * RUNS, f"{percent} % with {side} a side: {found[percent, side]} of {RUNS} found")
    check(named[percent, side] >= 0.9 * RUNS, f"{percent} % with {side} a side: named in {named[percent, side]} of {RUNS}")
slower = changed[5]
d = diff(slower[0][1], same[0])
equal(d["verdict"], "faster", "the other way round")

# ---- several runs a side, and people's output ----
out, _ = run("diff", "--base", ",".join(same[:4]), "--new", ",".join(f for k, f in slower[:4]), want=4)
check("SLOWER" in out and "One run on each side" not in out, out)
out, _ = run("diff", same[0], slower[0][1], want=4)
check(f"compute {slower[0][0]}" in out and "One run on each side" in out, out)
out, _ = run("diff", same[0], path("a1.json"))
check("No difference that the data can show" in out, out)

# ---- without steps: the text does not call largest what other rows exceed ----
def without_steps(name, of):
    events = load_json(path(of))
    events["traceEvents"] = [e for e in events["traceEvents"] if e["cat"] != "user_annotation"]
    with open(path(name), "w") as f:
        json.dump(events, f)
    return path(name)


out, _ = run("diff", without_steps("c0.json", "a0.json"), without_steps("c1.json", "b5-0.json"))
check(f"Look first at: compute {slower[0][0]}" in out and "largest" not in out, out)

# ---- a warm-up is left out, and said ----
warm = [series(f"w{i}", trace(f"w{i}.json", 2000 + i, *longer_by, warmup=2)) for i, longer_by in enumerate(((), ("gemm_bwd", 1 + 0.1 * 3145 / 1500)))]
d = diff(*warm)
equal((d["verdict"], d["cause"]["name"]), ("slower", "gemm_bwd"), "behind a warm-up")
check(all(20 <= side[0]["warmup_steps"] <= 50 for side in (d["base"], d["new"])), f"warm-up: {d['base']}, {d['new']}")
out, _ = run("diff", *warm, want=4)
check(f"the first {d['new'][0]['warmup_steps']} of each process left out: a warm-up" in out, out)
equal(diff(same[0], same[1])["base"][0]["warmup_steps"], 0, "without one")

# ---- what is no chance, but too small to count ----
# ---- runs that lack ranks: the ranks are named, and only those of all runs are compared ----
def ranks(name, seed, factors):
    """A run with these ranks, as {rank: how much longer its gemm_bwd takes}."""
    return series(name, *(trace(f"{name}-{rank}.json", seed + 100 * rank, "gemm_bwd", factor, rank=rank) for rank, factor in factors.items()))


def missing(d):
    return [[run["missing_ranks"] for run in d[side]] for side in ("base", "new")]


both = [ranks(f"both{i}", 9000 + i, {0: 1.0, 1: 2.0}) for i in range(5)]
zero = [ranks(f"zero{i}", 9010 + i, {0: 1.0}) for i in range(5)]
slow = [ranks(f"zslow{i}", 9020 + i, {0: 1.3, 2: 1.0}) for i in range(5)]
d = diff(both[0], zero[0])
equal((d["verdict"], missing(d)), ("no difference", [[[]], [[1]]]), "rank 1 is only in the base, where it is slow")
check(all(abs(o["change_ns"]) < 0.03 * o["base_ns"] for o in d["operations"] if o["kind"] == "compute"), "kernels of rank 0 alone")
d = diff("--base=" + ",".join(both), "--new=" + ",".join(slow))
equal((d["verdict"], d["cause"] and d["cause"]["name"], missing(d)), ("slower", "gemm_bwd", [[[2]] * 5, [[1]] * 5]), "rank 0 is slower")
d = diff(both[0], slow[0])
equal((d["verdict"], d["cause"] and (d["cause"]["name"], d["cause"]["differs"])), ("slower", ("gemm_bwd", False)), "one run a side: the operation with most of the change")
equal(diff("--base=" + ",".join(both), "--new=" + ",".join(zero))["cause"], None, "five runs a side of which rank 0 is the same")
apart = subprocess.run([MERIDIAN, "diff", zero[0], ranks("two", 9030, {2: 1.0})], capture_output=True, text=True, timeout=60).stdout
check("No rank is in all runs" in apart and "Rank 0 of the other runs is missing in" in apart, f"nothing in common: {apart}")


def steady(name, us):
    at, events = 1000.0, []
    for s in range(100):
        d = us + r.gauss(0, us / 5000)
        events += [dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{s}", pid=100, tid=100, ts=at, dur=round(d, 3)),
                   dict(ph="X", cat="kernel", name="gemm", pid=0, tid=7, ts=at, dur=round(d - 5, 3), args=dict(device=0, stream=7))]
        at = round(at + d + 1, 3)
    with open(path(name), "w") as f:
        json.dump(dict(schemaVersion=1, deviceProperties=[dict(id=0)], distributedInfo=dict(rank=0, world_size=1), traceEvents=events), f)
    return series(name[:-5], path(name))


near = steady("near.json", 1000), steady("far.json", 1004)
out, _ = run("diff", *near)
check("A difference too small to count" in out and "is not chance, but below 0.5 % (--threshold)" in out and "cannot be distinguished" not in out, out)
out, _ = run("diff", near[0], near[0])
check("cannot be distinguished from chance, and one below 0.5 % does not count" in out, out)
run("diff", *near, "--threshold", "0.1", want=4)

# ---- a real pair: a trace that another tool compares, too ----
real = [os.path.join(DATA, "hta-kineto", n) for n in ("trace_diff_control_rank3_of_8.json.gz", "trace_diff_test_rank1_of_2.json.gz")]
if os.path.exists(real[0]):
    d = diff(*real)
    equal([s[0]["steps"] for s in (d["base"], d["new"])], [6, 6], "steps of the real traces")
    check(any(o["name"] == "CompiledFunctionBackward" and not o["in_base"] for o in d["operations"]), "what only the second has")
else:
    print(f"skipped in part: no real traces at {DATA}")

# ---- the simulated runtime: one core made slower ----
loop = os.path.join(BUILD, "bin", "train_loop")
for name, more in (("fast", []), ("late", ["--straggler", "1:20"])):
    run("inspect", "-o", path(name), "--output-format", "steps-json", "--", loop, "--ranks", "1", "--cores", "2", "--steps", "20", "--quiet", *more,
        env={"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "simnrt")})
parts = [o for o in load_json(os.path.join(path("late"), "steps.json"))["steps"]["operations"] if o["kind"] == "part" and o["name"] in ("compute", "both")]
busiest = load_json(os.path.join(path("late"), "steps.json"))["steps"]["processes"][0]["own_ns"]
check(sum(busiest["compute"]) + sum(busiest.get("both", [])) > 0.8 * sum(o["total_ns"] for o in parts), "own time is that of the busiest core, which is 20 times as slow")
d = diff(path("fast"), path("late"))
equal(d["base"][0]["steps"], 20, "steps of the simulated runtime")
check(d["base"][0]["simulated"], "said to be simulated")
check(any(o["kind"] == "waiting" and o["differs"] and o["change_ns"] > 0 for o in d["operations"]), "the others wait longer")

# ---- traces are read by as many processes as there are processors, and that is all that differs ----
def on(processors, *args):
    p = subprocess.run([MERIDIAN, "diff", *args], capture_output=True, text=True, timeout=60, preexec_fn=lambda: os.sched_setaffinity(0, processors))
    return p.returncode, p.stdout, p.stderr


with open(path("cut.json"), "w") as f:
    with open(path("a2.json")) as whole:
        f.write(whole.read()[:-4000])
every = os.sched_getaffinity(0)
one = {min(every)}
for what, args in (("traces", ["--base", path("a0.json") + "," + path("a1.json"), "--new", path("a3.json")]),
                   ("a trace that is cut off, and series", ["--base", path("cut.json") + "," + same[0], "--new", path("a1.json") + "," + same[3]]),
                   ("little memory", [path("a0.json"), path("a1.json"), "--memory", "1M"]),
                   ("a file that is none", ["--base", path("a0.json"), "--new", path("a1.json") + ",/etc/passwd," + path("a3.json")]),
                   ("no such file", [path("a0.json"), os.path.join(path("nowhere"), "x.json")])):
    equal(on(every, *args), on(one, *args), f"{what}: with {len(every)} processors and with one")

# ---- a baseline that another writer of JSON wrote again ----
for name, layout in (("spaced.json", {}), ("indented.json", {"indent": 2})):
    with open(path(name), "w") as f:
        json.dump(load_json(same[0]), f, **layout)
    equal(diff(path(name), slower[0][1]), diff(same[0], slower[0][1]) | {"base": [diff(same[0], same[0])["base"][0] | {"run": path(name)}]}, f"{name}: as it was")

# ---- mistakes ----
with open(path("none.json"), "w") as f:
    json.dump({"traceEvents": []}, f)
for args, status, text in ((["diff", same[0]], 2, "give two runs"), (["diff", same[0], path("gone.json"), "--server", "http://127.0.0.1:1"], 1, "gone.json"),
                           (["diff", same[0], same[1], "--confidence", "100"], 2, "--confidence is from 50"),
                           (["diff", same[0], path("none.json")], 1, "none.json"), (["diff", same[0], same[1], "--treshold", "1"], 2, "--threshold")):
    _, err = run(*args, want=status)
    check(text in err, f"{args}: {err}")
with open(same[0]) as f:
    broken = f.read().replace('"unit":"step"', '"unit":"mile"')
with open(path("broken.json"), "w") as f:
    f.write(broken)
_, err = run("diff", path("broken.json"), same[0], want=1)
check("is not a steps.json" in err, err)
finish()
