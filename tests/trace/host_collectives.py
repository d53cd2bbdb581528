"""Traces of PyTorch on CPUs, through the command: collectives that Gloo executes on the host match by order, the late rank and its cause are
named, and clocks are aligned by them rightly or not at all. Real traces with known sums, then drawn jobs.
Usage: host_collectives.py JOBS; MRD_SEED=n repeats one."""
import contextlib
import glob
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile

MERIDIAN = os.path.join(os.environ.get("MERIDIAN_BUILD") or "build", "bin", "meridian")
DATA = os.path.join(os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(os.environ.get("MERIDIAN_SOURCE") or ".", "..", "shared", "data"), "framework-cases")
US, MS, BEGAN = 1_000, 1_000_000, 1_700_000_000 * 10**9
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
failures = []


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def report(paths, *options):
    """Returns the report as JSON and as text."""
    outs = []
    for form in (["--json"], []):
        done = subprocess.run([MERIDIAN, "report", *paths, *options, *form], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        equal(done.returncode, 0, f"status of the report of {paths[0]}: {done.stderr}")
        outs.append(done.stdout)
    return json.loads(outs[0])["report"], " ".join(outs[1].split())


def aligned(paths):
    """Returns (estimate, bound) of each file's clock in ns. The bound is negative if the clock is not aligned."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([MERIDIAN, "view", *paths, "--align", "collectives", "-o", os.path.join(out, "out"), "--output-format", "sqlite"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with contextlib.closing(sqlite3.connect(os.path.join(out, "out", "profile.sqlite"))) as database:
            clocks = {n: (e, b) for n, e, b in database.execute("SELECT name, estimate_ns, bound_ns FROM clocks")}
    return [next(c for n, c in clocks.items() if n.split()[0] == os.path.basename(p).split(".")[0]) for p in paths]


# ---- Real traces ----


def case(folder):
    """Returns the paths of a case's traces, or none if the data are not there."""
    paths = sorted(glob.glob(os.path.join(DATA, folder, "*.json.gz")))
    if not paths:
        print(f"skipped {folder}: it is not in {DATA} (MERIDIAN_TEST_DATA names the folder of test data)")
    return paths


def late_loader():
    paths = case("torch-late-loader")
    if not paths:
        return
    found, text = report(paths, "--same-clock")
    workers = found["workers"]
    equal((found["totals"]["collectives"], round(found["totals"]["wait_ns"] / 1e5)), (17, 8827), "late loader: collectives, and their waits in 100 us")
    equal([w["collectives"]["last"] for w in workers][2], 10, "late loader: rank 2 came last")
    equal(round(workers[2]["collectives"]["caused_ns"] / 1e5), 6938, "late loader: waits for rank 2 in 100 us")
    equal("Verdict rank 2 pid 15414 was late now and then: it came last to 10 of its 17 collectives" in text, True, "late loader: verdict")
    equal(f"rank 2 pid 15414: between its collectives it was in {LOADER} for 82." in text, True, "late loader: cause")
    equal(["ProfilerStep#5 " in text, "step 1 " in text], [True, False], "late loader: steps keep their names")


def healthy():
    paths = case("torch-nothing-wrong")
    if not paths:
        return
    found, text = report(paths, "--same-clock")
    equal(sorted(w["collectives"]["last"] for w in found["workers"]), [7, 7], "nothing wrong: who came last")
    equal(round(found["totals"]["wait_ns"] / 1e5), 109, "nothing wrong: waits in 100 us")
    equal("Verdict no worker stands out in 14 collectives" in text, True, "nothing wrong: verdict")


def others():
    paths = case("torch-fsdp2")
    if paths:
        found, _ = report(paths, "--same-clock")
        equal((found["totals"]["collectives"], len(found["workers"])), (11, 4), "fsdp2: collectives and workers")
        equal(sum(c["count"] for c in found["collectives"] if c["name"] == "gloo:all_gather"), 6, "fsdp2: all-gathers")
    paths = case("torch-two-cycles")
    if paths:
        found, _ = report(paths, "--same-clock")
        equal([len(found["workers"]), [s["count"] for s in found["steps"]]], [4, [4] * 4], "two cycles: processes and their steps")
    paths = case("torch-no-host-2.6")
    if paths:
        _, text = report(paths, "--same-clock")
        equal("Verdict rank 2 pid 19866 was late" in text, True, "2.6: verdict")
    paths = case("torch-hang-rank3-missing")
    if paths:
        _, text = report(paths, "--same-clock")
        equal("all recorded ranks spent 20.0" in text and "rank 3 of the job is not in this profile" in text, True, f"hang: verdict of {text[:600]}")
        equal("Of the job's 4 ranks, 3 have collectives in this profile, but not rank 3" in text, True, "hang: coverage")


# ---- Drawn jobs ----


def job(r, ranks, steps, late):
    """Returns spans (name, category, thread, begin, end) of each rank in ns on the true clock, and the waits for each rank. Two threads of each
    rank execute the collectives, so that two of them run at a time. Rank `late` loads data for longer."""
    spans, free, at, caused = [[] for _ in range(ranks)], [[0, 0] for _ in range(ranks)], [0] * ranks, [0] * ranks
    for step in range(steps):
        begins = list(at)
        for rank in range(ranks):
            loading = r.randint(1, 2) * MS + (r.randint(15, 25) * MS if rank == late else 0)
            spans[rank].append((LOADER, "user_annotation", 1, at[rank], at[rank] + loading))
            at[rank] += loading
        last = 0
        for _ in range(r.choice([3, 4, 5])):
            entered = []
            for rank in range(ranks):
                begin = at[rank] + r.randint(200 * US, 900 * US)
                spans[rank].append(("aten::mm", "cpu_op", 1, at[rank], begin))
                at[rank] = begin
                thread = free[rank].index(min(free[rank]))
                entered.append((max(begin + 10 * US, free[rank][thread] + 10 * US), thread))
            end = max(b for b, _ in entered)
            order = sorted((b, rank) for rank, (b, _) in enumerate(entered))
            if order[-1][0] - order[-2][0] > 100:  # ns, within which nobody is last
                caused[order[-1][1]] += sum(order[-1][0] - b for b, _ in order)
            for rank, (begin, thread) in enumerate(entered):
                done = end + r.randint(800 * US, 820 * US)
                free[rank][thread] = done
                spans[rank].append(("gloo:all_reduce", "user_annotation", 10 + thread, begin, done))
                last = max(last, done)
        for rank in range(ranks):
            at[rank] = max(free[rank]) + r.randint(50 * US, 300 * US)
            spans[rank].append((f"ProfilerStep#{step}", "user_annotation", 1, begins[rank], at[rank]))
    return spans, caused


def write(path, rank, ranks, host, spans, offset, groups=1):
    events = [{"ph": "X", "cat": c, "name": n, "pid": 100 + rank, "tid": t, "ts": (10 * 10**9 + offset + b) / 1000, "dur": (e - b) / 1000} for n, c, t, b, e in spans]
    info = {"backend": "gloo", "rank": rank, "world_size": ranks, "pg_count": groups}
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"schemaVersion": 1, "distributedInfo": info, "host_name": host, "baseTimeNanoseconds": BEGAN, "traceEvents": events}, f)


def generated(seed):
    r = random.Random(seed)
    ranks, late = r.choice([2, 3, 4, 8]), None if seed % 4 == 3 else r.randrange(2)
    spans, caused = job(r, ranks, 40, late)
    what = f"seed {seed}, {ranks} ranks, late {late}"
    with tempfile.TemporaryDirectory() as work:
        def paths(folder, host, offsets, groups=1):
            os.mkdir(os.path.join(work, folder))
            names = [os.path.join(work, folder, f"rank{i}.json") for i in range(ranks)]
            for i, name in enumerate(names):
                write(name, i, ranks, host(i), spans[i], offsets[i], groups)
            return names

        same = paths("same", lambda i: "node0", [0] * ranks)
        found, text = report(same, "--same-clock")
        total = sum(1 for s in spans[0] if s[0] == "gloo:all_reduce")
        equal((found["totals"]["collectives"], found["totals"]["without_partner"]), (total, 0), f"{what}: collectives")
        equal([w["collectives"]["caused_ns"] for w in found["workers"]], caused, f"{what}: waits")
        if late is not None:
            equal(f"Verdict rank {late} pid {100 + late} " in text, True, f"{what}: {text[:600]}")
            equal(f"rank {late} pid {100 + late}: between its collectives it was in {LOADER}" in text, True, f"{what}: cause")
        if seed % 4 == 0:  # which of several groups a collective belongs to is unknown
            found, _ = report(paths("groups", lambda i: "node0", [0] * ranks, 2), "--same-clock")
            equal(found["totals"]["collectives"], 0, f"{what}: several groups")
        offsets = [0] + [r.randint(-10**9, 10**9) for _ in range(ranks - 1)]
        rows = aligned(paths("shifted", lambda i: f"rank{i}", offsets))
    equal([bound >= 0 for _, bound in rows], [True] * ranks, f"{what}: aligned")
    for (e, b), offset in zip(rows, offsets):
        equal(b < 0 or abs(e - rows[0][0] + offset) <= b + rows[0][1] + 1000, True, f"{what}: {offset} ns as {e - rows[0][0]} within {b}")


if __name__ == "__main__":
    late_loader()
    healthy()
    others()
    only = os.environ.get("MRD_SEED")
    for job_seed in [int(only)] if only else range(int(sys.argv[1])):
        generated(job_seed)
    print(f"{len(failures)} wrong")
    sys.exit(1 if failures else 0)
