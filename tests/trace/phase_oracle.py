"""Traces of program phases through the command, against sums in plain Python: two production jobs with a known cause, then random jobs whose
processes or threads are the workers. Usage: phase_oracle.py JOBS; MRD_SEED=n repeats one job."""
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


def view(path, *options):
    """The report of a trace, as JSON and as text on one line."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([os.path.join(BUILD, "bin", "meridian"), "view", path, "--output-dir", out, "--output-format", "report-json,report-text", *options],
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


def generated(seed):
    """A job of processes or of threads with ranks, steps with or without numbers; in some jobs one worker is slow."""
    r = random.Random(seed)
    threads, numbered = r.random() < 0.5, r.random() < 0.6
    slow = r.choice([None, r.randrange(6)])
    records, names = [], {}
    for w in range(6):
        pid, tid = (1, w) if threads else (10 + w, 1)
        names[(pid, tid)] = f"stage {w}" if threads else ""
        records.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": f"stage {w} work" if threads else "MainThread"}})
        for step in range(16):
            at = 1000 + step * 10_000
            for mb in range(3):
                for phase, long in (("forward-compute", 400), ("forward-send", 50), ("backward-compute", 700), ("backward-recv", 60)):
                    long = long * (1.5 if w == slow and "compute" in phase else 1) + r.randrange(5)
                    args = {"step": step, "mb_id": mb} if numbered else {}
                    records.append({"ph": "X", "name": phase if numbered else f"{phase} {mb}", "cat": "timer", "pid": pid, "tid": tid, "ts": at, "dur": long, "args": args})
                    at += long
            records.append({"ph": "X", "name": "gc", "cat": "timer", "pid": pid, "tid": tid, "ts": at, "dur": 30, "args": {}})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(records, f)
        f.flush()
        report, _ = view(f.name)
    what = f"seed {seed}"
    check_shares(report, [x for x in records if x["ph"] == "X"], names, what)
    order = sorted(names)
    equal([(w["process_id"], w["ranks"]) for w in report["workers"] if w["more_work"]],
          [] if slow is None else [(order[slow][0], names[order[slow]])], f"{what}: who")


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
