"""--align collectives and the report's proofs against the truth: Kineto files generated with clocks that are stepped, slewed or
wander, collectives that are missing, late or of two groups of one name. No bound may exclude the truth and nobody may be proven
late more often than he truly was; honest jobs are aligned and real lateness is proven. The solver alone has 1,000 seeds in
tests/timesync/collective_truth_test.c; MRD_SEED and MRD_SEEDS choose others here."""
import json
import math
import os
import random

from lib import check, equal, finish, run, tmp

ZERO = 1694128201 * 10**9  # true time of the start
US, MS, S = 1000, 10**6, 10**9


class Clock:
    """Shows true time + offset + ppm + oddities: ("step", at, size), ("slew", at, size, ppm), ("wander", period, ppm)."""
    def __init__(self, offset=0, ppm=0, *odd):
        self.offset, self.ppm, self.odd = offset, ppm, odd

    def shows(self, t):
        e = self.offset + self.ppm * t / 1e6
        for kind, *v in self.odd:
            if kind == "step":
                e += v[1] if t > v[0] else 0
            elif kind == "slew":
                e += math.copysign(min(max(t - v[0], 0) * v[2] / 1e6, abs(v[1])), v[1])
            else:
                e += v[1] * 1e-6 * v[0] / math.tau * math.sin(math.tau * t / v[0])
        return ZERO + t + round(e)


class Job:
    """parts[i][rank] = (true begin, true end) or None; groups[rank] = (name, size, ranks text or None)."""
    def __init__(self, clocks, parts, groups=None, name="allreduce"):
        n = len(clocks)
        self.clocks, self.parts, self.name = clocks, parts, name
        self.groups = groups or [("0", n, json.dumps(list(range(n))))] * n

    def write(self, out):
        paths = []
        for r, clock in enumerate(self.clocks):
            events = [{"ph": "M", "name": "process_name", "pid": p, "tid": 0, "args": {"name": "python"}} for p in (r, 4000 + r)]
            events += [{"ph": "M", "name": "process_labels", "pid": p, "tid": 0, "args": {"labels": label}}
                       for p, label in ((r, f"GPU {r}"), (4000 + r, "CPU"))]
            at = clock.shows(min(p[r][0] for p in self.parts if p[r]))
            events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4000 + r, "tid": 4000 + r, "ts": f"@{at // 1000}@", "dur": 3})
            group, size, ranks = self.groups[r]
            for i, at in enumerate(self.parts):
                if at[r] is None:
                    continue
                begin, end = (clock.shows(t) for t in at[r])
                if end < begin:
                    continue
                args = {"device": r, "stream": 7, "Collective name": self.name, "dtype": "Float", "In msg nelems": 1000 + i % 5,
                        "Process Group Name": group, "Group size": size}
                if ranks:
                    args["Process Group Ranks"] = ranks
                events.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": r, "tid": 7,
                               "ts": f"@{begin // 1000}.{begin % 1000:03}@", "dur": f"@{(end - begin) // 1000}.{(end - begin) % 1000:03}@",
                               "args": args})
            doc = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": r, "world_size": len(self.clocks)}, "traceEvents": events}
            paths.append(os.path.join(out, f"rank{r}.json"))
            with open(paths[-1], "w") as f:
                f.write(json.dumps(doc).replace('"@', "").replace('@"', ""))
        return paths


def draw_parts(rng, ranks, steps, period, late=-1, early=100 * US, latency=40 * US, scatter=6 * US, lateness=0):
    parts, at = [], period
    for _ in range(steps):
        at += round(period * rng.uniform(0.8, 1.2))
        begins = [at - round(rng.random() * early) + (lateness if r == late else 0) for r in range(ranks)]
        leave = max(begins) + latency
        parts.append([(b, leave + round(rng.random() * scatter)) for b in begins])
    return parts


def judge(name, job):
    """Runs view; returns (report, clocks, what stderr said, bounds stated). Checks each bound that is stated, and each worker's proofs."""
    out = tmp()
    paths = job.write(out)
    _, err = run("view", *paths, "-o", os.path.join(out, "o"), "--align", "collectives", "--output-format", "json,report-json", want=None)
    with open(os.path.join(out, "o", "system_profile.json")) as f:
        profile = json.load(f)
    with open(os.path.join(out, "o", "report.json")) as f:
        report = json.load(f)["report"]
    clocks = {c["name"]: c for c in profile["meridian"]["clocks"] if c["name"] != "unaligned"}
    stated = 0
    session = next((r for r in range(len(job.clocks)) if clocks[f"file clock of rank{r}.json"]["quality"] == "reference"), 0)
    for r in set(range(len(job.clocks))) - {session}:
        if clocks[f"file clock of rank{r}.json"]["quality"] == "unaligned":
            continue  # without a clock there is no bound
        got = sorted(((int(e["timestamp"]), e.get("clock_bound_ns", 0))
                      for e in profile["trace_events"] if e.get("scope") == r + 1 and e["name"].startswith("nccl")), key=lambda e: e[0])
        # A clock set back shows times twice: what it showed before its first collective ended is not judged.
        mine = [p[r] for p in job.parts if p[r] is not None and job.clocks[r].shows(p[r][1]) >= job.clocks[r].shows(p[r][0])]
        want = sorted((job.clocks[r].shows(b), b) for b, _ in mine)
        check(len(got) == len(want), f"{name}: {len(got)} events of rank {r}, {len(want)} written")
        for (at, bound), (_, true) in zip(got, want):
            if bound is None or true < mine[0][1]:
                continue
            stated += 1
            off = abs(at - job.clocks[session].shows(true))
            check(off <= bound + 2, f"{name}: rank {r} is off by {off} ns with a bound of {bound}")
    for w in report["workers"]:
        ranks = job.groups[w["rank"]][2]
        group = json.loads(ranks) if ranks else range(len(job.clocks))
        truly = sum(1 for p in job.parts if all(p[k] is not None for k in group) and max(group, key=lambda k: p[k][0]) == w["rank"])
        check(w["collectives"]["proven"] <= truly, f"{name}: rank {w['rank']} proven last {w['collectives']['proven']} times, was {truly} times")
    return report, clocks, err, stated


def qualities(clocks):
    return sorted(c["quality"] for c in clocks.values())


# ---- what was reported: nobody is late, one clock is not straight ----
first = int(os.environ.get("MRD_SEED", "1"))
seeds = int(os.environ.get("MRD_SEEDS", "100"))
print("seeds from", first)
rng = random.Random(first)
for odd in (("step", 1500 * MS, 200 * US), ("step", 1500 * MS, -200 * US), ("slew", 1200 * MS, 200 * US, 500), ("slew", 1500 * MS, 200 * US, 83333)):
    for who in (0, 2):
        clocks = [Clock(0, 0), Clock(5 * MS, 20), Clock(-7 * MS, -35), Clock(0, 10)]
        clocks[who].odd = (odd,)
        report, states, err, stated = judge(f"{odd} of rank {who}", Job(clocks, draw_parts(rng, 4, 300, 10 * MS)))
        check(report["verdict"]["kind"] != "late", f"{odd} of rank {who}: verdict {report['verdict']}")
        check(stated > 500 or "refused" in err or "not all aligned" in err, f"{odd} of rank {who}: {stated} bounds are stated: {err}")
clocks = [Clock(0, 0), Clock(5 * MS, 20, ("wander", 600 * S, 1)), Clock(-7 * MS, -35), Clock(0, 10)]
report, states, err, stated = judge("1 ppm over 600 s", Job(clocks, draw_parts(rng, 4, 200, 6 * S)))
check(stated > 300, f"1 ppm over 600 s: {stated} bounds are stated: {err}")
check(report["verdict"]["kind"] != "late", f"1 ppm over 600 s: {report['verdict']}")

# ---- two communicators of one name, over {0, 2} and {1, 3}, 4 ms apart ----
one, two = draw_parts(rng, 4, 60, 10 * MS), 4 * MS
parts = [[p[0], (p[1][0] + two, p[1][1] + two), p[2], (p[3][0] + two, p[3][1] + two)] for p in one]
clocks = [Clock(0, 0), Clock(-two, 0), Clock(1 * MS, 0), Clock(-two, 0)]
report, states, err, stated = judge("two groups of one name", Job(clocks, parts, [("1", 2, None)] * 4))
check("several communicators of one name" in err, f"two groups of one name: {err}")
equal(stated, 0, "two groups of one name: bounds stated")
equal(report["totals"]["proven"], 0, "two groups of one name: proofs")
report, states, err, stated = judge("another's group", Job(clocks, parts, [("1", 2, "[0, 2]")] * 4))
equal(qualities(states), ["aligned", "reference", "unaligned", "unaligned"], "ranks that are not in their group are not believed")
named = [("1", 2, "[0, 2]"), ("1", 2, "[1, 3]")] * 2
report, states, err, stated = judge("ranks tell groups apart", Job(clocks, parts, named))
check(stated > 50, f"groups with their ranks: {stated} bounds of rank 2: {err}")
equal(qualities(states), ["aligned", "reference", "unaligned", "unaligned"], "groups with their ranks: only those that meet are aligned")

# ---- kinds that do not synchronise ----
for kind in ("broadcast", "reduce", "gather", "scatter", "send"):
    _, states, err, stated = judge(kind, Job([Clock(), Clock(3 * MS)], draw_parts(rng, 2, 30, 10 * MS), name=kind))
    equal((stated, qualities(states)), (0, ["unaligned", "unaligned"]), f"{kind}: not believed")

# ---- recorded one apart: as many at both, each paired with its neighbour ----
regular = [[(i * 10 * MS, i * 10 * MS + 50 * US), (i * 10 * MS, i * 10 * MS + 50 * US)] for i in range(1, 41)]
for i in range(5):
    regular[i][0] = regular[-1 - i][1] = None  # five apart, as the sizes repeat every five
_, states, err, stated = judge("recorded five apart", Job([Clock(), Clock(3 * MS)], regular))
equal(stated, 0, "recorded five apart: bounds stated")
check("too regular" in err, f"recorded five apart: {err}")

# ---- drawn jobs ----
count = dict.fromkeys(("aligned", "refused", "stated", "proven", "late", "honest", "honest aligned"), 0)
for seed in range(first, first + seeds):
    rng = random.Random(seed)
    ranks, steps, period = rng.randint(2, 4), rng.randint(20, 50), round(math.exp(rng.uniform(math.log(3 * MS), math.log(2 * S))))
    late = rng.choice([-1, rng.randrange(ranks)])
    # Every third one would be late to is no use: the others must sometimes be the last, or nothing bounds them.
    parts = draw_parts(rng, ranks, steps, period, early=period // 8, latency=rng.randint(15, 100) * US)
    if late >= 0:
        for p in rng.sample(parts, steps // 3):
            wait = period // 6
            leave = max(b for b, _ in p) + wait
            for r in range(ranks):
                p[r] = (p[r][0] + (wait + period // 8 if r == late else 0), p[r][1] + wait + period // 8)
    honest = seed % 3 == 0
    clocks = [Clock(rng.randint(-S, S), rng.uniform(-100, 100)) for _ in range(ranks)]
    if not honest:
        who, at, size = rng.randrange(ranks), rng.uniform(0.1, 0.9) * steps * period, rng.choice([-1, 1]) * round(10 ** rng.uniform(3.5, 6))
        clocks[who].odd = (rng.choice([("step", at, size), ("slew", at, size, 500), ("slew", at, size, 83333),
                                       ("wander", rng.uniform(20, 600) * S, rng.uniform(0.05, 2))]),)
        for _ in range(rng.choice([0, 0, 1, 3])):
            rng.choice(parts)[rng.randrange(ranks)] = None
    report, states, err, stated = judge(f"seed {seed}", Job(clocks, parts))
    aligned = "aligned" in qualities(states)
    count["stated"] += stated
    count["proven"] += report["totals"]["proven"]
    count["honest"] += honest
    count["aligned" if aligned else "refused"] += 1
    if honest:
        count["honest aligned"] += aligned and qualities(states) == ["aligned"] * (ranks - 1) + ["reference"]
        count["late"] += steps // 3 if late >= 0 else 0
print(count)
equal(count["honest aligned"], count["honest"], "honest jobs that are aligned")
check(count["proven"] > count["late"] // 2, f"lateness that is proven: {count}")
finish()
