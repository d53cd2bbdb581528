"""Generates jobs at the limits of the report's verdicts and compares with sums in plain Python:
ties, overlapping collectives on several streams, messages, graph launches, runs of different ranks,
other files in a directory, and missing ranks. Usage: verdict_oracle.py JOBS; MRD_SEED=n repeats one
job."""
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

MERIDIAN = os.path.join(os.environ.get("MERIDIAN_BUILD") or "build", "bin", "meridian")
US, MS, ZERO, TIE = 1_000, 1_000_000, 1_750_000_000 * 10**9, 100
KERNELS = {"allreduce": "AllReduce_Sum_f32_RING_LL", "send": "SendRecv", "recv": "SendRecv", "broadcast": "Broadcast_RING_LL"}
failures = []


class Trace:
    """Kineto's files of a job, one for each rank. Times are in ns from the begin."""

    def __init__(self, ranks):
        self.events = [[] for _ in range(ranks)]

    def put(self, rank, pid, tid, at, **more):
        at += ZERO
        self.events[rank].append({"pid": pid, "tid": tid, "ts": f"@{at // 1000}.{at % 1000:03}@", **more})

    def span(self, rank, pid, tid, begin, end, name, cat, **args):
        length = end - begin
        self.put(rank, pid, tid, begin, ph="X", cat=cat, name=name, dur=f"@{length // 1000}.{length % 1000:03}@", args=args)

    def kernel(self, rank, stream, begin, end, name, **args):
        self.span(rank, rank, stream, begin, end, name, "kernel", device=rank, stream=stream, **args)

    def collective(self, rank, stream, begin, end, operation, group, members, elements=1 << 20):
        self.kernel(rank, stream, begin, end, f"ncclDevKernel_{KERNELS[operation]}(x)",
                    **{"Collective name": operation, "Group size": len(members), "Process Group Name": group, "Process Group Ranks": str(list(members)),
                       "In msg nelems": elements, "dtype": "Float"})

    def write(self, folder, ranks=None):
        os.makedirs(folder, exist_ok=True)
        for rank in range(len(self.events)) if ranks is None else ranks:
            labels = [{"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}} for pid, label in ((4000 + rank, "CPU"), (rank, f"GPU {rank}"))]
            document = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(self.events)}, "traceEvents": labels + self.events[rank]}
            with open(os.path.join(folder, f"rank{rank}.json"), "w", encoding="utf-8") as f:
                f.write(json.dumps(document).replace('"@', "").replace('@"', ""))


class View:
    """What `meridian view` says of a trace, and of other files beside it."""

    def __init__(self, trace, others=()):
        with tempfile.TemporaryDirectory() as work:
            trace.write(os.path.join(work, "in"))
            for name, content in others:
                with open(os.path.join(work, "in", name), "wb") as f:
                    f.write(content)
            p = subprocess.run([MERIDIAN, "view", "-d", os.path.join(work, "in"), "--same-clock", "--output-dir", os.path.join(work, "out"), "--output-format",
                                "report-json,report-text,chrome"], capture_output=True, text=True)
            self.status, self.said = p.returncode, p.stdout + p.stderr
            with open(os.path.join(work, "out", "report.json"), encoding="utf-8") as f:
                self.report = json.load(f)["report"]
            with open(os.path.join(work, "out", "report.txt"), encoding="utf-8") as f:
                self.text = " ".join(f.read().split())
            with open(os.path.join(work, "out", "system_profile.trace.json"), encoding="utf-8") as f:
                self.chrome = json.load(f)["traceEvents"]
        self.kind, self.workers = self.report["verdict"]["kind"], {w["rank"]: w for w in self.report["workers"]}

    @property
    def verdict_text(self):
        return self.text[self.text.find("Verdict"):].split("Coverage")[0].split("Where the time")[0]


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def check_account(view, collectives, what):
    """`collectives`: [{rank: begin}]"""
    last, caused, waited, ties = collections.Counter(), collections.Counter(), collections.Counter(), 0
    for c in collectives:
        (end, late), (before, _) = sorted(((at, rank) for rank, at in c.items()), reverse=True)[:2]
        for rank, at in c.items():
            waited[rank] += end - at
        if end - before <= TIE:
            ties += 1
        else:
            last[late] += 1
            caused[late] += sum(end - at for at in c.values())
    equal((view.report["totals"]["collectives"], view.report["totals"]["ties"]), (len(collectives), ties), f"{what}: collectives and ties")
    for rank, w in view.workers.items():
        equal([w["collectives"][k] for k in ("last", "caused_ns", "wait_ns")], [last[rank], caused[rank], waited[rank]], f"{what}: rank {rank}")


def ties(r, what):
    n, mode, late, much = r.choice([2, 3, 4, 8]), r.choice(["ties", "pair", "rotating", "one"]), r.randrange(2), r.choice([101, 5 * US, 300 * US])
    trace, collectives = Trace(n), []
    for i in range(20):
        at = (i + 1) * 10 * MS
        begins = {rank: at + r.randrange(40) for rank in range(n)}
        if mode in ("rotating", "one"):
            begins[late if mode == "one" else i % n] = at + 40 + much
        elif mode == "pair":
            begins[late], begins[late ^ 1] = at + 40 + much, at + 40 + much + r.choice([0, 50, 100])
        for rank in range(n):
            trace.kernel(rank, 7, at - 6 * MS, at - MS, "gemm")
            trace.collective(rank, 20, begins[rank], max(begins.values()) + 200 * US + r.randrange(100), "allreduce", "dp", range(n))
        collectives.append(begins)
    view = View(trace)
    check_account(view, collectives, what)
    if mode in ("ties", "pair") or (mode == "rotating" and n > 2) or much <= 5 * US:
        equal(view.kind in ("late", "indistinguishable"), False, f"{what}: {mode}, nobody is late")
    elif mode == "one":
        equal(view.kind, "late", f"{what}: one is late")


def onset(r, what):
    """One rank is late in all collectives, since one, until one, or from one to another. The others are last by noise."""
    n, count, mode = r.choice([2, 4, 8]), r.choice([150, 300, 500]), r.choice(["no change", "since", "until", "between"])
    first, late, much = r.randrange(count // 5, count // 2), r.randrange(n), r.choice([400 * US, 2 * MS])
    begin, end = {"no change": (0, count), "since": (first, count), "until": (0, first), "between": (first, first + count // 3)}[mode]
    trace = Trace(n)
    for i in range(count):
        at = (i + 1) * 10 * MS
        begins = {rank: at + r.randrange(20 * US) for rank in range(n)}
        if begin <= i < end:
            begins[late] += much
        for rank in range(n):
            trace.kernel(rank, 7, at - 6 * MS, begins[rank] - US, "gemm")
            trace.collective(rank, 20, begins[rank], max(begins.values()) + 200 * US, "allreduce", "dp", range(n))
    view = View(trace)
    worker = view.report["verdict"]["worker"]
    if worker is None and mode in ("until", "between"):  # this was too little to name anybody
        return
    equal(None if worker is None else view.report["workers"][worker]["rank"], late, f"{what}: who is late")
    since = view.report["verdict"]["since"]
    equal(since and since["kind"], mode, f"{what}: since when, of {count} collectives in [{begin}, {end})")
    if since and since["kind"] == mode:
        at = [round((int(c["at_ns"]) - ZERO) / (10 * MS)) - 1 for c in since["changes"]]
        want = [i for i in (begin, end) if 0 < i < count]
        equal(len(at) == len(want) and all(abs(a - b) <= 2 for a, b in zip(at, want)), True, f"{what}: {mode} at {at}, it was {want}")


def streams(r, what):
    """Several groups meet at once, begun in another order by each rank."""
    n, groups, late, much = r.choice([2, 4]), r.choice([2, 3]), r.choice([None, 0, 1]), r.choice([300 * US, 2 * MS])
    trace, collectives = Trace(n), []
    for i in range(20):
        at = i * 12 * MS
        ends = [at + 5 * MS + (much if rank == late else 0) for rank in range(n)]
        begins = [{} for _ in range(groups)]
        for rank in range(n):
            trace.kernel(rank, 7, at, ends[rank], "gemm")
            for place, group in enumerate(r.sample(range(groups), groups)):
                begins[group][rank] = ends[rank] + r.randrange(300) + place * r.choice([100, 200]) * US
        for group in range(groups):
            end = max(begins[group].values()) + r.choice([300, 700]) * US
            for rank in range(n):
                trace.collective(rank, 20 + group, begins[group][rank], end, "allreduce", f"g{group}", range(n))
            collectives.append(begins[group])
    view = View(trace)
    check_account(view, collectives, what)
    for rank, w in view.workers.items():
        why = w["late"]
        equal(sum(why["parts_ns"].values()) + why["began_later_ns"], why["late_ns"], f"{what}: the reasons of rank {rank} add up")
        # Of two ranks, each can be up to 400 us ahead in the order of its groups.
        most = 1.6 * why["late_ns"] + 500 * US * why["count"]
        equal([k for k, v in why["parts_ns"].items() if abs(v) > most], [], f"{what}: no reason of rank {rank} exceeds what happened: {why}")
    if late is not None and much == 2 * MS:
        equal((view.kind, view.report["workers"][view.report["verdict"]["worker"]]["rank"]), ("late", late), f"{what}: who is late")
        why = view.workers[late]["late"]
        equal(why["parts_ns"]["compute"] > 0.6 * why["late_ns"], True, f"{what}: computation is the reason: {why}")


def messages(r, what):
    n, kind = r.choice([2, 4, 6]), r.choice(["arguments", "names", "broadcast"])
    trace = Trace(n)

    def message(rank, stream, begin, end, operation):
        if kind == "names":
            trace.kernel(rank, stream, begin, end, "ncclDevKernel_SendRecv(x)")
        else:
            trace.collective(rank, stream, begin, end, operation, "pp", range(n))

    for i in range(10):
        at = i * 20 * MS
        for rank in range(n):
            begin = at + rank * 2 * MS
            trace.kernel(rank, 7, begin, begin + 1500 * US, "gemm")
            if kind == "broadcast":
                trace.collective(rank, 20, at + (r.randrange(MS) if rank else 0), at + (2 * MS if rank else 50 * US), "broadcast", "dp", range(n))
                continue
            if rank + 1 < n:
                message(rank, 21, begin + 1500 * US, begin + 1550 * US, "send")
            if rank > 0:
                message(rank, 22, at + 10, begin - 100 * US, "recv")
    view = View(trace)
    equal("missing" in view.text.split("for the last: until")[0], False, f"{what}: {kind}: no part is missing")
    equal((view.kind, sum(w["collectives"]["last"] for w in view.workers.values())), ("nothing to compare", 0), f"{what}: {kind}: nobody is late")


def graphs(r, what):
    """Each launch of a graph has an arrow to each of its kernels."""
    trace, want, at = Trace(1), [], 0
    nodes, lines = r.choice([3, 10, 40]), r.choice([1, 2])
    for launch in range(r.randint(2, 6)):
        at += 10 * MS
        trace.span(0, 4000, 4000, at, at + 50 * US, "cudaGraphLaunch", "cuda_runtime", correlation=500 + launch)
        trace.put(0, 4000, 4000, at, ph="s", id=500 + launch, cat="ac2g", name="ac2g")
        for node in range(nodes):
            begin = at + 100 * US + node // lines * 200 * US + node % lines * 30 * US
            trace.kernel(0, 7 + node % lines, begin, begin + 150 * US, f"n{node}", correlation=500 + launch, **{"graph node id": node})
            trace.put(0, 0, 7 + node % lines, begin, ph="f", bp="e", id=500 + launch, cat="ac2g", name="ac2g")
            want.append((at, begin))
        at += nodes * 200 * US
    if r.random() < 0.5:
        r.shuffle(trace.events[0])
    begins, ends = collections.defaultdict(list), []
    for e in View(trace).chrome:
        if e["ph"] == "s":
            begins[e["id"]].append(round(e["ts"] * 1000))
        elif e["ph"] in "tf":
            ends.append((e["ph"], e["id"], round(e["ts"] * 1000)))
    got = sorted((begin, at) for ph, id, at in ends for begin in begins[id])
    first = got[0][0] - want[0][0] if got else 0
    equal([(a - first, b - first) for a, b in got], sorted(want), f"{what}: arrows")


def runs(r, what):
    """Two runs with other ranks. In the new one the kernels of all ranks may be longer."""
    n, longer = r.choice([2, 3, 4, 8]), r.choice([1.0, 1.3])
    sides = []
    for factor in (1.0, longer):
        trace, at = Trace(n), 0
        for i in range(20):
            begins = [at + round(5 * MS * factor) + r.randrange(5 * US) for _ in range(n)]
            end = max(begins) + 300 * US
            for rank in range(n):
                trace.kernel(rank, 7, at, begins[rank] - 5 * US, "gemm")
                trace.collective(rank, 20, begins[rank], end, "allreduce", "dp", range(n))
                trace.span(rank, 4000 + rank, 4000 + rank, at - 10 * US, end, f"ProfilerStep#{i}", "user_annotation")
            at = end + 50 * US
        sides.append((trace, sorted(r.sample(range(n), r.randint(1, n)))))
    with tempfile.TemporaryDirectory() as work:
        for (trace, ranks), name in zip(sides, ("base", "new")):
            trace.write(os.path.join(work, name), ranks)
        d = json.loads(subprocess.run([MERIDIAN, "diff", "--json", os.path.join(work, "base"), os.path.join(work, "new")], capture_output=True, text=True).stdout)
    base, new = (set(ranks) for _, ranks in sides)
    equal([d[side][0]["missing_ranks"] for side in ("base", "new")], [sorted(new - base), sorted(base - new)], f"{what}: missing ranks")
    if base & new:
        equal((d["verdict"], d["cause"] and d["cause"]["name"]), ("no difference", None) if longer == 1 else ("slower", "gemm"), f"{what}: verdict")


FOREIGN = [("config.json", b'{"model": "x", "layers": 3}'), ("list.json", b"[1, 2, 3]"), ("empty.json", b"{}"), ("emptylist.json", b"[]"), ("text.json", b'"hello"'),
           ("metrics.jsonl", b'{"step": 1, "loss": 1.5}\n' * 5), ("state.json", b'{"step": 10, "events": {"a": 1}}'), ("rows.json", b'[{"a": 1}, {"a": 2}]'),
           ("run.log", b"hello\n" * 20), ("model.bin", bytes(range(256))), ("et.json", b'{"schema": "1.0.1", "pid": 1, "nodes": [{"id": 1, "name": "x", "ctrl_deps": 0}]}')]


def folders(r, what):
    trace = Trace(2)
    for i in range(10):
        for rank in range(2):
            at = i * 10 * MS
            trace.kernel(rank, 7, at, at + 4 * MS, "gemm")
            trace.collective(rank, 20, at + 4 * MS + rank * 300 * US, at + 5 * MS, "allreduce", "dp", range(2))
    view = View(trace, r.sample(FOREIGN, r.randint(1, 6)))
    equal((view.status, len(view.workers), view.report["totals"]["collectives"]), (0, 2, 10), f"{what}: {view.said[-500:]}")


def absent(r, what):
    """Some ranks never come to the last collective, or their recordings end before it."""
    n, kind = r.choice([2, 3, 4, 8]), r.choice(["hang", "hang", "all", "cut"])
    gone = set() if kind == "all" else set(r.sample(range(n), r.choice([1, 2]) if n > 2 else 1))
    half = range(n // 2) if n > 3 and r.random() < 0.5 else range(n)  # the last collective is one of half the ranks
    gone = {rank for rank in gone if rank in half} or ({0} if gone else gone)
    trace = Trace(n)
    for i in range(11):
        at = (i + 1) * 10 * MS
        begins = [at + r.randrange(200 * US) for _ in range(n)]
        for rank in range(n):
            trace.kernel(rank, 7, at - 6 * MS, at - (3 if i == 10 and rank in gone else 1) * MS, "gemm")
            if i < 10:
                trace.collective(rank, 20, begins[rank], max(begins) + 300 * US, "allreduce", "dp", range(n))
            if rank in half and len(half) < n and i < 10:
                trace.collective(rank, 21, at + 2 * MS + rank, at + 3 * MS, "allreduce", "tp", half)
            if i == 10 and rank in half and rank not in gone:
                trace.collective(rank, 20 + (len(half) < n), at + rank * US, at + (5000 * MS if kind == "hang" else 500 * US), "allreduce", "tp" if len(half) < n else "dp", half)
    view = View(trace)
    if kind == "hang" and gone != set(half):
        equal((view.kind, {rank for rank in range(n) if f"rank {rank} " in view.verdict_text}), ("absent", gone), f"{what}: who did not come: {view.verdict_text[:300]}")
    else:
        equal(view.kind == "absent", False, f"{what}: {kind}: everybody came")


def ascend(r, what):
    """A file of torch_npu: the device's computation and its communication are different pids of one device."""
    label, name = r.random() < 0.5, r.choice(["HCCL", "Communication"])
    records = []
    for pid, title, labels in ((1, "CANN", "CPU"), (2, "Ascend Hardware", "NPU"), (3, name, "NPU")):
        records.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": title}})
        if label:
            records.append({"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": labels}})
    records += [{"ph": "M", "name": "thread_name", "pid": 3, "tid": tid, "args": {"name": line}} for tid, line in ((0, "Group 0 Communication"), (1, "Plane 0"))]
    on, at = {2: set(), 3: set()}, 0  # us in which each works
    for i in range(20):
        at += r.randrange(300, 600)
        for pid, tid, span, begin, long in ((2, 5, "MatMul", at, r.randrange(50, 250)), (3, 0, "hcom_allReduce__1_0", at + r.randrange(200), r.randrange(50, 90)), (1, 1, "aclnnMatmul", at - 50, 20)):
            records.append({"ph": "X", "name": span, "pid": pid, "tid": tid, "ts": f"{ZERO // 1000 + begin}.000", "dur": f"{long}.000", "args": {"Task Type": "AI_CORE"} if pid == 2 else {}})
            on.get(pid, set()).update(range(begin, begin + long))
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "trace_view.json"), "w", encoding="utf-8") as f:
            json.dump(records, f)
        subprocess.run([MERIDIAN, "view", os.path.join(work, "trace_view.json"), "-o", os.path.join(work, "out"), "--output-format", "report-json"], stdout=subprocess.DEVNULL)
        with open(os.path.join(work, "out", "report.json"), encoding="utf-8") as f:
            workers = json.load(f)["report"]["workers"]
    equal([[w["parts_ns"][part] for part in ("compute", "both", "exposed")] for w in workers],
          [[len(x) * US for x in (on[2] - on[3], on[2] & on[3], on[3] - on[2])]], f"{what}: labels {label}, {name}")


only = os.environ.get("MRD_SEED")
for family in (ties, onset, streams, messages, graphs, runs, folders, absent, ascend):
    for seed in [int(only)] if only else range(int(sys.argv[1])):
        family(random.Random(f"{family.__name__} {seed}"), f"{family.__name__}, seed {seed}")
print(f"{len(failures)} wrong")
sys.exit(1 if failures else 0)
