"""Tests meridian report. On real traces the parts of the time must equal those of an independent
count, and on the simulated runtime the slow rank must be named. tests/e2e/cluster.py tests reports
of sessions."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess

from lib import BUILD, DATA, MERIDIAN, check, equal, finish, load_json, run, tmp

work = tmp()


def union(spans):
    """Merged, sorted intervals."""
    out = []
    for a, b in sorted(spans):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def length(merged):
    return sum(b - a for a, b in merged)


def ns(text):
    """Microseconds with decimals as integer nanoseconds."""
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def account(path):
    """Of one Kineto file: window, and lengths of unions of collectives, of computation, and of both at once."""
    kinds = collections.defaultdict(list)
    for e in load_json(path)["traceEvents"]:
        if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            kind = "copy" if e["cat"] != "kernel" else "collective" if e["name"].startswith("nccl") else "compute"
            start = ns(e["ts"])
            kinds[kind].append((start, start + ns(e["dur"])))
    every = [s for spans in kinds.values() for s in spans]
    collective, compute = length(union(kinds["collective"])), length(union(kinds["compute"]))
    both = collective + compute - length(union(kinds["collective"] + kinds["compute"]))
    return {"window_ns": max(b for _, b in every) - min(a for a, _ in every), "both": both, "exposed": collective - both,
            "compute": compute - both, "busy": length(union(every))}


def idle(path):
    """Idle time of one Kineto file by cause: gaps between device events, what loaded data within them, and whether the event
    behind a gap was launched (by its correlation id) before the gap began."""
    device, launched, loading = [], {}, []
    for e in load_json(path)["traceEvents"]:
        if e.get("ph") != "X":
            continue
        start, args = ns(e["ts"]), e.get("args", {})
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            device.append((start, -ns(e["dur"]), args.get("correlation")))
        elif "DataLoader" in e["name"]:
            loading.append((start, start + ns(e["dur"])))
        elif e.get("cat") == "cuda_runtime":
            launched[args.get("correlation")] = start
    out = dict.fromkeys(("loading", "launch", "short", "queued", "unknown"), 0)
    busy_until, loading = None, union(loading)
    for start, minus_dur, correlation in sorted(device, key=lambda d: d[:2]):
        if busy_until is not None and start > busy_until:
            load = sum(max(0, min(b, start) - max(a, busy_until)) for a, b in loading)
            cause = "unknown" if correlation not in launched else "launch" if launched[correlation] > busy_until else \
                "short" if start - busy_until <= 30 else "queued"
            out["loading"] += load
            out[cause] += start - busy_until - load
        busy_until = max(busy_until or 0, start - minus_dur)
    return out


# ---- real traces ----
files = sorted(glob.glob(os.path.join(DATA, "param-dlrm-8rank-r0-3", "*.gz")))
if files:
    text, _ = run("report", *files, "--align", "collectives", "--json")
    report = json.loads(text)["report"]
    equal([w["rank"] for w in report["workers"]], [0, 1, 2, 3], "workers in the order of ranks")
    for path, w in zip(files, report["workers"]):
        want, parts = account(path), w["parts_ns"]
        for part in ("both", "exposed", "compute"):
            equal(parts[part], want[part], f"{part} of rank {w['rank']}")
        equal(w["window_ns"], want["window_ns"], f"window of rank {w['rank']}")
        equal(sum(v or 0 for v in parts.values()), w["window_ns"], "the parts add up")
        equal(parts["idle"], want["window_ns"] - want["busy"], f"idle of rank {w['rank']}")
        equal(sum(w["idle_ns"].values()), parts["idle"], "idle is told by cause, whole")
        causes = idle(path)
        print(f"rank {w['rank']}: idle by cause {w['idle_ns']}, read a second way {causes}")
        equal(w["idle_ns"], causes, f"idle by cause of rank {w['rank']}")
    equal(report["totals"]["collectives"], 8, "collectives of four ranks")
    bound = report["bound_by_ns"]
    equal(sum(bound.values()), report["totals"]["window_ns"], "what bounds the time adds up to all windows")
    equal(max(bound, key=bound.get), "host", "mostly late launches")
    equal(sum(w["collectives"]["last"] for w in report["workers"]), 8, "each has one last")
    text, _ = run("report", *files)
    check("came last" in text or "stands out" in text, "a verdict")
    check("\nBottleneck host-bound: " in text and text.index("Bottleneck") < text.index("Verdict"), f"the largest loss first: {text[:400]}")
    equal(json.loads(run("report", *files, "--json")[0])["report"]["totals"]["proven"], 0, "clocks that are not aligned prove nothing")
else:
    print(f"skipped in part: no real traces at {DATA}")

# ---- the simulated runtime, one slow core ----
loop = os.path.join(BUILD, "bin", "train_loop")
out = os.path.join(work, "out")
_, err = run("inspect", "-o", out, "--output-format", "json,report-json", "--", loop, "--ranks", "2", "--cores", "2", "--steps", "12", "--quiet",
             "--straggler", "3:20", env={"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "simnrt")})
doc = load_json(os.path.join(out, "report.json"))
report = doc["report"]
equal(len(report["workers"]), 4, "workers")
late = report["workers"][report["verdict"]["worker"]] if report["verdict"]["worker"] is not None else {}
equal((report["verdict"]["kind"], late.get("rank"), late.get("lnc_idx")), ("late", 1, 1), "who is late")
for w in report["workers"]:
    equal(sum(v or 0 for v in w["parts_ns"].values()), w["window_ns"], "the parts add up")
equal(sum(s["count"] for s in report["steps"]), 24, "steps")
text, _ = run("report", os.path.join(out, "system_profile.json"))
check("Verdict    rank 1 NC 1" in text and "SIMULATED" in text, f"from our own JSON: {text[:300]}")

# ---- by default, and what is kept in a folder of results ----
default = os.path.join(work, "default")
_, err = run("inspect", "-o", default, "--", loop, "--ranks", "1", "--cores", "2", "--steps", "8", "--quiet", "--straggler", "1:20",
              env={"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "simnrt")})
check("\nVerdict    rank 0 NC 1 " in err, f"inspect says who was late: {err[-1500:]}")
with open(os.path.join(default, "report.txt")) as f:
    kept = f.read()
equal(run("report", default)[0], kept, "the report that inspect left")
below = os.path.join(default, "again")
os.mkdir(below)
shutil.copy(os.path.join(default, "report.txt"), below)
with open(os.path.join(below, "session.json"), "w") as f:
    f.write('{"id":"20261121-x","release":"0.1.0"}')
equal(run("report", default)[0], kept, "results in a folder below are no input")
os.symlink(default, os.path.join(work, "linked"))
equal(run("report", os.path.join(work, "linked"))[0], kept, "a folder by its link")
full = os.path.join(work, "full")  # results of every kind
run("view", os.path.join(out, "system_profile.json"), "--output-format", "report-text,report-json,parquet,parquet-explorer,sqlite,csv,steps-json,perfetto", "-o", full)
with open(os.path.join(full, "report.txt"), "a") as f:
    f.write("the report that stands here\n")
check("the report that stands here" in run("report", full)[0], "tables and a database among the results are no input")
exported = os.path.join(work, "exported")  # a session as the aggregator exports it
os.makedirs(os.path.join(exported, "i-a_pid_7", "neff"))
shutil.copytree(full, os.path.join(exported, "profile"))
for name, text in (("session.json", '{"id":"20261121-x","release":"0.1.0"}'), ("i-a_pid_7/neff/model.neff", "x"), ("profile/SHA256SUMS", "")):
    with open(os.path.join(exported, name), "w") as f:
        f.write(text)
check("the report that stands here" in run("report", exported)[0], "the report of an exported session")
with open(os.path.join(below, "rank0.json"), "w") as f:
    json.dump([dict(ph="X", name="only_below", pid=1, tid=1, ts=1000, dur=2000)], f)
text, _ = run("report", default, want=None)
check(text != kept and "only_below" in text, f"a trace among the results in a folder below is read: {text[:600]}")
shutil.rmtree(below)
os.makedirs(os.path.join(below, "deeper"))
with open(os.path.join(below, "deeper", "rank0.json"), "w") as f:
    json.dump([dict(ph="X", name="only_below", pid=1, tid=1, ts=1000, dur=2000)], f)
check("only_below" in run("report", default, want=None)[0], "a trace two folders below is read")

# ---- memory without spans: its times count from the first sample ----
with open(os.path.join(work, "monitor.json"), "w") as f:
    for at, system, runtime in ((0, 9000, None), (2, 5, 10), (5, 5, 700)):
        of = [dict(pid=7, report=dict(memory_used=dict(neuron_runtime_used_bytes=dict(host=runtime))))] if runtime else []
        json.dump(dict(timestamp=1700000000 + at, neuron_runtime_data=of, system_data=dict(memory_info=dict(memory_used_bytes=system))), f)
        f.write("\n")
text, _ = run("report", os.path.join(work, "monitor.json"))
check(re.search(r"memory_info memory_used_bytes +8.79 KiB +0 ns +5 B", text) and re.search(r"neuron_runtime_used_byt.* 700 B +5.000 s +700 B", text),
      f"peaks at the first sample and 5 s later: {text}")

# ---- sentences, by inputs of which a stronger one would be false ----
def rank_file(name, rank, world, *events):
    path = os.path.join(work, name)
    with open(path, "w") as f:
        json.dump(dict(schemaVersion=1, deviceProperties=[dict(id=0)], distributedInfo=dict(rank=rank, world_size=world), traceEvents=events), f)
    return path


def kernel(ts, dur, device=0):
    return dict(ph="X", cat="kernel", name="gemm", pid=device, tid=7, ts=ts, dur=dur, args=dict(device=device, stream=7))


def plain(*args):
    return " ".join(run("report", *args)[0].split())


both = plain(rank_file("here.json", 0, 2, kernel(100, 50)), rank_file("host.json", 1, 2, dict(ph="X", cat="cpu_op", name="aten::mm", pid=9, tid=1, ts=100, dur=50)))
check("Of the job's 2 ranks, 1 has device work in this profile, but not rank 1" in both, f"a rank that is there without device work: {both[:600]}")
apart = plain(rank_file("apart.json", 0, 1, kernel(0, 50), kernel(2 * 3600 * 10**6, 50, device=1)))
check("they may be of several runs" in apart, f"devices of one run, used one after the other: {apart[:600]}")
early = plain(rank_file("early.json", 0, 1, dict(ph="i", name="early", pid=9, tid=1, ts=0, s="t"), kernel(10**6, 50), kernel(10**6 + 100, 50)))
check("device 0 pid 9 50.00 us 50.00 us - gemm, gemm at: after the begin of the first span" in early, f"an instant before the first span: {early[-600:]}")

# ---- mistakes ----
_, err = run("report", os.path.join(work, "none.json"), want=1)
check("cannot read" in err and "none.json" in err and "session" not in err, f"a path that is none: {err}")
_, err = run("report", "none.json", "--server", "http://127.0.0.1:1", want=1)
check("there is no file" in err and "cannot connect" in err, f"neither file nor session: {err}")
_, err = run("report", "latst", "--server", "http://127.0.0.1:1", want=1)
check("there is no file 'latst': did you mean latest?" in err, f"a mistyped word, without an aggregator: {err}")
_, err = run("report", "--aling", "x", want=2)
check("did you mean --align" in err, err)
p = subprocess.run(f"{MERIDIAN} report {out}/system_profile.json | head -1", shell=True, capture_output=True, text=True)
check("Traceback" not in p.stderr and p.stdout.startswith("Report"), "a reader that leaves early")
finish()
