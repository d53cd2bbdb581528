"""Runs the command on traces with phases of training programs, and compares with sums in plain
Python. Two production jobs have a known cause, and the processes or threads of random jobs are the
workers. Usage: phase_oracle.py JOBS; MRD_SEED=n repeats one job."""
import collections
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile

BUILD = os.environ.get("MERIDIAN_BUILD") or "build"
SOURCE = os.environ.get("MERIDIAN_SOURCE") or "."
DATA = os.path.join(os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(SOURCE, "..", "shared", "data"), "straggler-analysis")
failures = []


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def view(*paths):
    """The report of traces, as JSON and as text on one line. Options may stand between the paths."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([os.path.join(BUILD, "bin", "meridian"), "view", *paths, "--output-dir", out, "--output-format", "report-json,report-text"],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "report.json"), encoding="utf-8") as f:
            report = json.load(f)["report"]
        with open(os.path.join(out, "report.txt"), encoding="utf-8") as f:
            return report, " ".join(f.read().split())


def ns(us):
    return round(us * 1000)


def shares(records, names):
    """Time in which a worker computes, and in which it only communicates: by counting what is open between any two times."""
    of = collections.defaultdict(list)
    for r in records:
        label = names[(r["pid"], r["tid"])]
        kind = "compute" if re.match("(forward|backward)-compute|optimizer", r["name"]) else "exposed" if re.search("send|recv|all-|scatter", r["name"]) else None
        if kind:
            begin = ns(r["ts"])
            of[(r["pid"], label)] += [(begin, 1, kind), (begin + ns(r["dur"]), -1, kind)]
    sums = {}
    for worker, points in of.items():
        opened, before, total = collections.Counter(), None, collections.Counter()
        for at, change, kind in sorted(points):
            if before is not None and at > before:
                total["compute" if opened["compute"] and not opened["exposed"] else "both" if opened["compute"] else "exposed" if opened["exposed"] else "idle"] += at - before
            opened[kind] += change
            before = at
        sums[worker] = total
    return sums


def check_shares(report, records, names, what):
    want = shares(records, names)
    got = {(w["process_id"], w["ranks"]): w["parts_ns"] for w in report["workers"]}
    equal(sorted(got), sorted(want), f"{what}: workers")
    for worker, parts in got.items():
        for part in ("compute", "both", "exposed"):
            close = abs(parts[part] - want[worker][part]) <= len(records)  # times in us with fractions are rounded once each
            equal(close, True, f"{what}: {part} of {worker}: {parts[part]}, {want[worker][part]}")


def production(job, worker, words):
    path = os.path.join(DATA, f"timeline-{job}.json.gz")
    if not os.path.exists(path):
        print(f"skipped {job}: {path} is missing (MERIDIAN_TEST_DATA names the folder of test data)")
        return
    with gzip.open(path) as f:
        records = json.load(f)
    names = {(r["pid"], r["tid"]): re.match(r"(PP rank \d+, TP rank \d+)", r["args"]["name"])[1] if r["args"]["name"].startswith("PP") else ""
             for r in records if r.get("name") == "thread_name"}
    report, text = view(path)
    equal(report["verdict"]["kind"], "more work", f"{job}: verdict")
    equal([(w["process_id"], w["ranks"]) for w in report["workers"] if w["more_work"]], worker, f"{job}: who")
    equal(words in text, True, f"{job}: the report says {words!r}")
    check_shares(report, [r for r in records if r["ph"] == "X"], names, job)


RANKS = ("threads", "processes", "workers", "args", "args of threads", "files")
STEPS = ("nothing", "step", "iter", "train_step", "step_num", "span step %d", "span Iteration-%d", "span train_step #%d", "around iteration", "name %s step %d", "name %s (iter %d)")
MICROBATCHES = ("mb_id", "%s %d", "%s-%d", "%s[%d]", "%s (mb %d)", "%s/micro-batch=%d")


def generated(seed):
    """A job whose ranks, steps and microbatches are in arguments or in names; in some jobs one worker is slow, in each step or in one."""
    r = random.Random(seed)
    ranks, steps, mbs = r.choice(RANKS), r.choice(STEPS), r.choice(MICROBATCHES)
    slow, always = r.choice([None, r.randrange(6)]), r.random() < 0.8
    pids = r.sample(range(100, 9000), 6)
    kind, _, form = steps.partition(" ")
    files, records, names = {}, [], {}
    for w in range(6):
        threads = ranks in ("threads", "args of threads")
        pid, tid = (1, pids[w]) if threads else (pids[w], 1)
        own = files.setdefault(f"megatron-rank_{w}.json" if ranks == "files" else "trace.json", [])
        names[(pid, tid)] = {"threads": f"stage {w}", "workers": f"Worker-{w}", "args of threads": f"rank {w}"}.get(ranks, "")
        own.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": {"processes": f"[Rank {w}]", "workers": f"Worker-{w} step"}.get(ranks, "train")}})
        if ranks != "args of threads":
            own.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": f"stage {w} work" if threads else "MainThread"}})
        for step in range(16):
            began = at = 1000 + step * 10_000

            def put(name, long, mb):
                nonlocal at
                args = {"rank": w} if ranks.startswith("args") else {}
                if mb is not None and mbs == "mb_id":
                    args["mb_id"] = mb
                elif mb is not None:
                    name = mbs % (name, mb)
                if kind == "name":
                    name = form % (name, 100 + step)
                elif not form and kind != "nothing":
                    args[kind] = 100 + step
                own.append({"ph": "X", "name": name, "cat": "timer", "pid": pid, "tid": tid, "ts": at, "dur": long, "args": args})
                at += long

            for mb in range(3):
                for phase, long in (("forward-compute", 400), ("forward-send", 50), ("backward-compute", 700), ("backward-recv", 60)):
                    put(phase, long * (1.5 if w == slow and (always or step == 8) and "compute" in phase else 1) + r.randrange(5), mb)
            put("optimizer", 90, None)
            put("gc", 30, None)
            if kind in ("span", "around"):
                around = {"name": form % (100 + step), "args": {}} if kind == "span" else {"name": "forward-backward", "args": {form: 100 + step}}
                own.append({"ph": "X", "cat": "timer", "pid": pid, "tid": tid, "ts": began - 1, "dur": at - began + 2, **around})
        records += own if ranks == "files" else []
    with tempfile.TemporaryDirectory() as folder:
        for name, own in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                json.dump(own, f)
        report, text = view(*(os.path.join(folder, name) for name in files), "--same-clock")
    records = records or files["trace.json"]
    what = f"seed {seed}, {ranks}, {steps}, {mbs}"
    check_shares(report, [x for x in records if x["ph"] == "X"], names, what)
    order = sorted(names, key=lambda x: (pids.index(x[0]) if x[0] != 1 else pids.index(x[1])))
    equal([(w["process_id"], w["ranks"]) for w in report["workers"]], [(x[0], names[x]) for x in order], f"{what}: order")
    if ranks in ("processes", "args", "files"):
        equal([w["rank"] for w in report["workers"]], list(range(6)), f"{what}: ranks")
    equal([(w["process_id"], w["ranks"]) for w in report["workers"] if w["more_work"]],
          [] if slow is None or not always else [(order[slow][0], names[order[slow]])], f"{what}: who")
    if slow is not None and always:
        equal(("in 8 of 8" if kind == "nothing" else "in 16 of 16") in text, True, f"{what}: steps")
    else:
        equal("no worker computes at least 10 %" in text, True, f"{what}: nobody")
    equal("Critical path" in text, False, f"{what}: no path")


def unknown():
    """Spans that are no phases: their labels are listed, and a rule makes them work."""
    records = [{"ph": "X", "name": f"quux{i % 2}", "cat": "custom", "pid": i % 3, "tid": 1, "ts": 10 * i, "dur": 5} for i in range(90)]
    with tempfile.TemporaryDirectory() as folder:
        path, rules = os.path.join(folder, "t.json"), os.path.join(folder, "rules")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(records, f)
        with open(rules, "w", encoding="utf-8") as f:
            f.write("compute quux0\nmessage quux1\n")
        report, text = view(path)
        equal((report["workers"], "Its spans are labelled custom" in text), ([], True), "labels without work")
        report, _ = view(path, "--classify", rules)
        equal([w["parts_ns"]["compute"] for w in report["workers"]], [5 * 15 * 1000] * 3, "computation by rules")


production("AR", [(0, "PP rank 0, TP rank 0")], "PP rank 0, TP rank 0 pid 0 computes more than the others")
production("ST", [(0, "PP rank 3, TP rank 0"), (1, "PP rank 3, TP rank 0")], "pipeline stage 3 computes more than the others")
unknown()
only = os.environ.get("MRD_SEED")
for seed in [int(only)] if only else range(int(sys.argv[1])):
    generated(seed)
print(f"{len(failures)} wrong")
sys.exit(1 if failures else 0)
