"""Runs the command's estimate of the slowdown by slow ranks on two production jobs with published
results and on random pipelines with a known result. A second computation follows the schedule from
the last operation backwards. Usage: what_if_oracle.py JOBS; MRD_SEED=n repeats one job."""
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ.get("MERIDIAN_BUILD") or "build"
SOURCE = os.environ.get("MERIDIAN_SOURCE") or "."
DATA = os.path.join(os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(SOURCE, "..", "shared", "data"), "straggler-analysis")
MEAN = ("forward-compute", "backward-compute", "optimizer")
ACROSS = ("params-all-gather", "grads-reduce-scatter", "optimizer-clip-main-grad")
STEPS = 3
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print(f"FAILED {what}")


def near(got, want, what, error=0.01):
    check(got is not None and abs(got - want) <= error * max(abs(want), 0.05), f"{what}: got {got}, expected {want}")


def view(path):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([os.path.join(BUILD, "bin", "meridian"), "view", path, "--output-dir", out, "--output-format", "report-json,report-text"],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "report.json"), encoding="utf-8") as f, open(os.path.join(out, "report.txt"), encoding="utf-8") as text:
            return json.load(f)["report"]["what_if"], " ".join(text.read().split())


def production(job, words):
    path = os.path.join(DATA, f"timeline-{job}.json.gz")
    if not os.path.exists(path):
        print(f"skipped {job}: {path} is missing (MERIDIAN_TEST_DATA names the folder of test data)")
        return
    got, text = view(path)
    with open(os.path.join(DATA, f"mw-{job}.json"), encoding="utf-8") as mw, open(os.path.join(DATA, f"ms-{job}.json"), encoding="utf-8") as ms:
        workers, stage = json.load(mw), json.load(ms)
    near(got["step_ns"] / 1e9, workers["tori"], f"{job}: step")
    near(got["ideal_step_ns"] / 1e9, workers["tideal"], f"{job}: ideal step")
    near(got["slowdown"], workers["tori"] / workers["tideal"], f"{job}: slowdown")
    near(got["slowest_share"], workers["Mw"], f"{job}: share of the slowest worker")
    near(got["last_stage_share"], stage["Ms"], f"{job}: share of the last stage")
    check(words in text, f"{job}: the report says {words!r}")


class Job:
    """One forward, one backward: the usual schedule of a pipeline."""

    def __init__(self, r, stages, replicas, microbatches, slow, factor):
        self.stages, self.replicas, self.own, self.order, self.before = stages, replicas, {}, {}, {}
        for s in range(stages):
            warm = min(microbatches, stages - s)
            self.order[s] = [("forward-compute", i) for i in range(warm)]
            for i in range(microbatches):
                self.order[s].append(("backward-compute", i))
                if warm + i < microbatches:
                    self.order[s].append(("forward-compute", warm + i))
        for step in range(STEPS):
            for k in range(replicas):
                for s in range(stages):
                    for name, i in self.operations(s):
                        base = {"forward-compute": 40000, "backward-compute": 80000, "optimizer": 3000}.get(name, 700)
                        times = factor if name.endswith("-compute") and slow(k, s) else 1
                        self.own[(step, k, s, name, i)] = round(base * times * r.uniform(0.995, 1.005))
        self.ideal = {name: (statistics.mean if name in MEAN else statistics.median)(t for x, t in self.own.items() if x[3] == name)
                      for name in {x[3] for x in self.own}}

    def operations(self, s):
        microbatches = len(self.order[s]) // 2
        kinds = [(x, s > 0) for x in ("forward-recv", "backward-send")] + [(x, s < self.stages - 1) for x in ("forward-send", "backward-recv")]
        single = ["params-all-gather", "grads-reduce-scatter", "optimizer-clip-main-grad", "optimizer"]
        return self.order[s] + [(x, i) for x, there in kinds if there for i in range(microbatches)] + [(x, 0) for x in single]

    def needs(self, s, name, i):
        """What an operation waits for on its own worker."""
        order, kind = self.order[s], name.split("-")[0] + "-compute"
        if name.endswith("-compute"):
            at = order.index((name, i))
            found = [order[at - 1]] if at > 0 else [("params-all-gather", 0)]
            message = name.split("-")[0] + "-recv"
            return found + [(message, i)] * ((message, i) in self.operations(s))
        if name.endswith(("send", "recv")):
            found = [(name, i - 1)] if i > 0 else []
            found += [(kind, i)] if name.endswith("send") else [(kind, i - 1)] if i > 0 else []
            first = order.index(("backward-compute", 0))
            return found + ([order[first - 2]] if kind == "backward-compute" and i == 0 and first >= 2 else [])
        single = [None, "grads-reduce-scatter", "optimizer-clip-main-grad", "optimizer"]
        return [] if name not in single else [order[-1]] if single.index(name) == 1 else [(single[single.index(name) - 1], 0)]

    def times(self, step, repaired):
        """The begin and end of each operation, if workers (replica, stage) in `repaired` take ideal times."""

        @functools.cache
        def begin(k, s, name, i):
            return max((end(k, s, *x) for x in self.needs(s, name, i)), default=0)

        @functools.cache
        def meets(k, s, name, i):
            peer = {"forward-send": (1, "forward-recv"), "forward-recv": (-1, "forward-send"),
                    "backward-send": (-1, "backward-recv"), "backward-recv": (1, "backward-send")}.get(name)
            who = [(k, s, name)] + ([(k, s + peer[0], peer[1])] if peer else [])
            if name in ACROSS:
                who = [(j, t, name) for j in range(self.replicas) for t in (range(self.stages) if "clip" in name else [s])]
            return max(begin(*x, i) for x in who)

        @functools.cache
        def end(k, s, name, i):
            return meets(k, s, name, i) + (self.ideal[name] if (k, s) in repaired else self.own[(step, k, s, name, i)])

        return {x[1:]: (begin(*x[1:]), end(*x[1:])) for x in self.own if x[0] == step}

    def long(self, repaired):
        return statistics.mean(max(e for _, e in self.times(step, repaired).values()) for step in range(STEPS))

    def records(self):
        at = 0
        for s in range(self.stages):
            for k in range(self.replicas):
                yield {"ph": "M", "name": "thread_name", "pid": k, "tid": s, "args": {"name": f"PP rank {s}, TP rank 0"}}
        for step in range(STEPS):
            found = self.times(step, ())
            for (k, s, name, i), (b, e) in found.items():
                yield {"ph": "X", "name": name, "pid": k, "tid": s, "ts": at + b, "dur": e - b, "args": {"step": step}}
            at += max(e for _, e in found.values()) + 1000


def generated(seed):
    r = random.Random(seed)
    stages, replicas = r.choice([2, 3, 4]), r.choice([2, 3, 4])
    kind, who = r.choice(["balanced", "worker", "stage"]), (r.randrange(replicas), r.randrange(stages))
    slow = {"balanced": lambda k, s: False, "worker": lambda k, s: (k, s) == who, "stage": lambda k, s: s == stages - 1}[kind]
    job = Job(r, stages, replicas, r.randrange(3 * stages, 4 * stages + 2), slow, r.choice([2, 2.5, 3]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(list(job.records()), f)
        got, text = view(path)
    what = f"seed {seed}, {kind}, {stages} stages, {replicas} replicas"
    everybody = {(k, s) for k in range(replicas) for s in range(stages)}
    long, ideal = job.long(()), job.long(everybody)
    check(got is not None, f"{what}: the replay is possible")
    if got is None:
        return
    near(got["slowdown"], long / ideal, f"{what}: slowdown")
    check(("without stragglers, with" in text) == (kind != "balanced"), f"{what}: the report's sentence")
    if kind == "balanced":
        check(got["slowdown"] < 1.03 and got["slowest_share"] is None, f"{what}: nobody is slow")
        return
    near(got["last_stage_share"], (long - job.long({x for x in everybody if x[1] == stages - 1})) / (long - ideal), f"{what}: last stage")
    if kind == "worker":
        check(got["worker"] == who[0] * stages + who[1], f"{what}: who: {got['worker']}, not {who}")
        near(got["slowest_share"], (long - job.long({who})) / (long - ideal), f"{what}: slowest worker")
        check(got["slowest_share"] > 0.9, f"{what}: the slow worker explains it")
    else:
        check(got["last_stage_share"] > 0.9, f"{what}: the last stage explains it")


production("AR", "shrink by 100 % if only the slowest worker (PP rank 0, TP rank 0 pid 0) took the usual times, and by 0 % if only pipeline stage 3, the last, did.")
production("ST", "shrink by 3 % if only the slowest worker (PP rank 3, TP rank 0 pid 1) took the usual times, and by 100 % if only pipeline stage 3, the last, did.")
only = os.environ.get("MRD_SEED")
for seed in [int(only)] if only else range(int(sys.argv[1])):
    generated(seed)
print(f"{len(failures)} wrong")
sys.exit(1 if failures else 0)
