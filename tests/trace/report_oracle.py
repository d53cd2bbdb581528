"""Runs `meridian report` on random profiles and compares with an independent count of every
nanosecond (tests/oracle/report.py). Usage: report_oracle.py PROFILES; MRD_SEED=n repeats one."""
import html.parser
import json
import os
import random
import re
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
import report as oracle
import report_shown

HIDDEN = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # what a browser or a terminal obeys
failures = []


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def reported(spans, work, *options, absent=(), groups=True):
    paths = []
    for rank in sorted(set(range(oracle.RANKS)) - set(absent)):
        paths.append(os.path.join(work, f"rank{rank}.json"))
        with open(paths[-1], "w") as f:
            f.write(oracle.kineto(spans, rank, groups))
    p = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "report", *paths, "--json", *options], capture_output=True, text=True)
    if p.returncode != 0:
        raise SystemExit(f"meridian report failed: {p.stderr}")
    return json.loads(p.stdout)["report"]


def check_breakdown(report, spans, meetings, seed):
    told = {"waiting": 0, "transfer": 0, "unknown": 0}
    for w in report["workers"]:
        rank = w["rank"]
        parts, exposed = oracle.breakdown(spans, meetings, rank)
        for part, ns in w["parts_ns"].items():
            equal(ns or 0, parts.get(part, 0), f"seed {seed}: {part} of rank {rank}")
        equal(w["exposed_ns"], exposed, f"seed {seed}: exposed time of rank {rank}")
        for how in told:
            told[how] += exposed[how]
    bound = report["bound_by_ns"]
    equal(bound["skew"], told["waiting"], f"seed {seed}: skew")
    equal(bound["communication"], told["unknown"], f"seed {seed}: communication")
    equal(sum(bound.values()), report["totals"]["window_ns"], f"seed {seed}: what bounds the time adds up")
    return told


def check_absent(seed):
    """A profile that lacks a rank: whoever came last of the others, that one may have come later. So nothing is proven of its
    groups, and behind the last of the others nothing is transfer; also where only the size of the job says that somebody is missing."""
    r = random.Random(seed)
    for absent, groups in (({r.randrange(oracle.RANKS)}, True), ({r.randrange(oracle.RANKS)}, False), ((), False)):
        spans, meetings = oracle.made_up(seed)
        if not groups:  # those of all, whom nothing names
            meetings = [m for m in meetings if len(m.ranks) == oracle.RANKS]
            spans = [s for s in spans if s.kind != "collective" or s.meeting in meetings]
        spans, meetings = oracle.without(spans, meetings, absent)
        with tempfile.TemporaryDirectory() as work:
            report = reported(spans, work, "--same-clock", absent=absent, groups=groups)
            check_files(work, sorted(set(range(oracle.RANKS)) - set(absent)), f"seed {seed} without {absent}", "--same-clock")
        what = f"seed {seed} without {absent}{'' if groups else ', no groups'}"
        check_breakdown(report, spans, meetings, what)
        totals = report["totals"]
        equal((totals["ranks"], totals["world_size"]), (oracle.RANKS - len(absent), oracle.RANKS), f"{what}: ranks")
        missing = sum(m.synchronises and len(m.parts) > 1 and bool(set(m.ranks) & set(absent)) for m in meetings)
        if absent:
            equal(totals["partial"] >= missing, True, f"{what}: {missing} collectives lack a part, {totals['partial']} are told")
            equal(totals["proven"] <= totals["collectives"] - missing, True, f"{what}: no proof of a group that lacks somebody")


def check_bandwidth(report, meetings, seed):
    rows = {}
    for c in report["collectives"]:
        b = c["bandwidth"]
        row = rows.setdefault(c["name"], [0, 0, 0, 0])
        for i, v in enumerate((b["count"], b["bytes"], b["latency_ns"], round(b["bus_gb_per_s"] * b["latency_ns"]))):
            row[i] += v
    want = oracle.bandwidth(meetings)
    equal(rows.keys(), want.keys(), f"seed {seed}: collectives")
    for name, row in want.items():
        equal(rows[name][:3], row[:3], f"seed {seed}: bytes and latency of {name}")
        if abs(rows[name][3] - row[3]) > 4 * row[0]:  # each division leaves a remainder
            equal(rows[name][3], row[3], f"seed {seed}: bytes over the links of {name}")


def check_lateness(report, spans, meetings, seed):
    for rank, (count, unknown, late, parts, began) in oracle.lateness(spans, meetings).items():
        got = report["workers"][rank]["late"]
        equal((got["count"], got["unknown"], got["late_ns"], got["began_later_ns"]), (count, unknown, late, began),
              f"seed {seed}: lateness of rank {rank}")
        for part, ns in got["parts_ns"].items():
            equal(ns, parts.get(part, 0), f"seed {seed}: {part} that made rank {rank} late")
        equal(sum(got["parts_ns"].values()) + got["began_later_ns"], got["late_ns"], f"seed {seed}: the reasons add up")


def check_path(report, spans, meetings, seed):
    process, paths = oracle.critical_paths(spans, meetings)
    got = report["critical_path"]
    equal((got["rank"], got["steps"]), (process, len(paths)), f"seed {seed}: whose steps")
    equal(got["total_ns"], sum(p[1] for p in paths), f"seed {seed}: the path is as long as the steps")
    equal(sum(got["parts_ns"].values()), got["total_ns"], f"seed {seed}: its parts add up to the steps")
    for part, ns in got["parts_ns"].items():
        equal(ns, sum(p[2].get(part, 0) for p in paths), f"seed {seed}: {part} on the path")
    for rank in range(oracle.RANKS):
        equal(report["workers"][rank]["steps"]["critical_path_ns"], sum(p[3].get(rank, 0) for p in paths),
              f"seed {seed}: the path through rank {rank}")
    longest = max(range(len(paths)), key=lambda i: (paths[i][1], -i))
    one = got["longest"]
    equal((one["step"], one["duration_ns"], {w["worker"]: w["ns"] for w in one["workers"]}),
          (longest, paths[longest][1], {r: ns for r, ns in paths[longest][3].items() if ns > 0}), f"seed {seed}: the longest step")
    series = report["steps_over_time"]["blocks"]
    equal([b["total_ns"] for b in series], [p[1] for p in paths], f"seed {seed}: lengths of steps")
    equal((got["maybe_waiting_ns"], one["maybe_waiting_ns"]), (sum(p[4] for p in paths), paths[longest][4]), f"seed {seed}: what may be waiting on the path")
    maybes.add(got["maybe_waiting_ns"] > 0)
    for b, (_, _, parts, _, _) in zip(series, paths):
        equal({k: v for k, v in b["path_ns"].items() if v > 0}, parts, f"seed {seed}: path of a step")


maybes = set()  # whether some of a path may be waiting: both have to occur


def check_queues(report, spans, seed):
    for rank, w in enumerate(report["workers"]):
        known, unknown, most, total, empty = oracle.queue(spans, rank)
        want = None if known == 0 else dict(launches=known, unknown=unknown, most=most, sum_ns=total, empty_ns=empty, cut_ns=0)
        equal(w["queue"], want, f"seed {seed}: queue of rank {rank}")


def check_unknown(seed):
    """The text counts the spans whose launch is not known of all workers, also of one without any known launch."""
    spans, _ = oracle.made_up(seed)
    for s in spans:
        if s.rank == 0 and hasattr(s, "launched"):
            s.launched = None
    with tempfile.TemporaryDirectory() as work:
        unknown = sum(oracle.queue(spans, rank)[1] for rank in range(oracle.RANKS))
        reported(spans, work)
        paths = [os.path.join(work, f"rank{rank}.json") for rank in range(oracle.RANKS)]
        text = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "report", *paths], capture_output=True, text=True).stdout
    equal(re.findall(r"the launch of (\d+) device\s+spans", text), [str(unknown)], f"seed {seed}: spans without a known launch")


def check_trend(seed, steps):
    """More steps than the other profiles have; each worker's compute grows in some."""
    spans, _ = oracle.made_up(seed, steps)
    with tempfile.TemporaryDirectory() as work:
        over = reported(spans, work)["steps_over_time"]
        check_files(work, range(oracle.RANKS), f"seed {seed} with {steps} steps")
    got, values = over["trend"], [b["total_ns"] / b["steps"] for b in over["blocks"] if b["steps"] >= over["width"]]
    equal(got["blocks"], len(values), f"seed {seed}: values of the trend")
    if len(values) < 8:
        equal(got["says"], "too few", f"seed {seed}: too few for a trend")
        return
    s, p, slope = oracle.trend(values, seed, 3000)
    equal(got["s"], s, f"seed {seed}: S of {len(values)} steps")
    if abs(got["ns_per_step"] * over["width"] - slope) > 1e-6 * abs(slope) + 1e-6:
        equal(got["ns_per_step"], slope / over["width"], f"seed {seed}: slope of the trend")
    if got["alike"] == 0 and abs(got["p"] - p) > 0.05 or got["p"] < p - 0.05:
        equal(got["p"], p, f"seed {seed}: p of the trend, alike {got['alike']}")
    means = p <= 0.001 and abs(got["change_ns"]) >= 0.005 * sum(values) / len(values)
    if not means and p > 0.01:
        equal(got["says"], "none", f"seed {seed}: the trend")


def runtime_memory(r, pid, start):
    """The runtime's trace of one process that allocates, and frees what is not of one kind: its events, samples of each counter, that kind."""
    kinds, events, held, series = ("tensor", "model_code", "scratchpad"), [], [], {}
    used, leak = dict.fromkeys(kinds, 0), r.choice(kinds)
    for i in range(r.choice((5, 60, 64, 65, 700))):
        kind = r.choice(kinds)
        if held and r.random() < 0.5:
            name, kind, size = "nrt_dma_mem_dealloc", *held.pop(r.randrange(len(held)))
            used[kind] -= size
        else:
            name, size = "nrt_dma_mem_alloc", r.randrange(1, 1 << 20)
            used[kind] += size
            if kind != leak:
                held.append((kind, size))
        at = start + 1000 * i
        data = dict(hbm_idx=0, usage_type=kind, size=size, usage_type_total_bytes=used[kind], total_bytes=sum(used.values()))
        for phase, t in (("start", at), ("stop", at + 100)):
            events.append(dict(event_type=name, phase=phase, id=len(events), nc_idx=0, tracking_id=i + 1, thread_id=9, worker_gid=0, data=data if phase == "start" else {}, timestamp_ns=t))
        for of, value in ((kind, used[kind]), ("total", sum(used.values()))):
            series.setdefault(f"hbm.0.{of}", []).append((at + 100, value))
    return dict(simulated="generated by report_oracle.py", events=events, data_version=2), {(pid, name): v for name, v in series.items()}, (pid, f"hbm.0.{leak}")


def check_memory(seed):
    """Allocations of random size, freed or not, as the runtime's traces of two processes tell them: peaks and growth computed from all samples."""
    r = random.Random(seed)
    start, series, leaks = 1_700_000_000_000_000_000, {}, []
    with tempfile.TemporaryDirectory() as work:
        for pid in (7, 8):
            doc, more, leak = runtime_memory(r, pid, start)
            series.update(more)
            leaks.append(leak)
            folder = os.path.join(work, f"i-0123456789abcdef0_pid_{pid}")
            os.makedirs(folder)
            with open(os.path.join(folder, "nrt_sys_trace.json"), "w") as f:
                json.dump(doc, f)
        p = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "report", work, "--json"], capture_output=True, text=True)
        check_shown([work], start, f"seed {seed}, memory")
    rows = json.loads(p.stdout)["report"]["memory"]
    got = {(m["process_id"], m["name"]): m for m in rows}
    equal(got.keys(), series.keys(), f"seed {seed}: categories of memory: {p.stderr}")
    equal({m["instance_id"] for m in rows}, {"i-0123456789abcdef0"}, f"seed {seed}: whose memory")
    equal([(m["process_id"], -m["peak_bytes"], m["name"]) for m in rows], sorted((m["process_id"], -m["peak_bytes"], m["name"]) for m in rows), f"seed {seed}: order")
    for name, v in series.items():
        peak, row, width = max(x for _, x in v), got[name], 1
        while len(v) > 64 * width:
            width *= 2
        blocks = [max(x for _, x in v[i:i + width]) for i in range(0, len(v) - width + 1, width)]
        equal((row["samples"], row["first_bytes"], row["last_bytes"], row["peak_bytes"], int(row["peak_ns"])),
              (len(v), v[0][1], v[-1][1], peak, min(t for t, x in v if x == peak)), f"seed {seed}: {name}")
        if len(blocks) < 8:
            equal(row["trend"], "too few", f"seed {seed}: {len(blocks)} blocks of {name}")
            continue
        _, p_by_orders, slope = oracle.trend(blocks, seed, 300)
        if abs(row["change_bytes"] - slope * (len(blocks) - 1)) > 1e-6 * abs(row["change_bytes"]) + 1e-3:
            equal(row["change_bytes"], slope * (len(blocks) - 1), f"seed {seed}: growth of {name}")
        if abs(row["p"] - p_by_orders) > 0.08:  # of 300 orders
            equal(row["p"], p_by_orders, f"seed {seed}: p of {name}")
        if name in leaks and len(blocks) > 20:
            equal(row["trend"], "up", f"seed {seed}: what is never freed grows")


def check_proven(apart, same, meetings, seed):
    """Files of unknown nodes prove nothing, but with one clock what is later by more than the noise of two stamps."""
    equal(apart["totals"]["proven"], 0, f"seed {seed}: proven without a bound")
    known, want = {}, 0
    for m in (m for m in meetings if m.synchronises):
        known.setdefault(m.ranks, set()).update(m.parts)
    for m in (m for m in meetings if m.synchronises and len(m.parts) > 1):
        come = sorted(at for at, _ in m.parts.values())
        want += set(m.parts) == known[m.ranks] == set(m.ranks) and come[-1] - come[-2] > 100
    equal(same["totals"]["proven"], want, f"seed {seed}: proven with one clock")
    equal((apart["same_clock"], same["same_clock"]), (False, True), f"seed {seed}: the assumption is in the report")


def check_last(report, meetings, seed):
    """Who came last, by more than two stamps may differ by; waiting for several that came at once is nobody's."""
    want, ties = {rank: [0, 0, 0] for rank in range(oracle.RANKS)}, 0
    for m in (m for m in meetings if m.synchronises and len(m.parts) > 1):
        come = sorted((at, rank) for rank, (at, _) in m.parts.items())
        ties += not oracle.came_alone(m)
        if oracle.came_alone(m):
            row = want[come[-1][1]]
            row[:] = row[0] + 1, row[1] + come[-1][0] - come[-2][0], row[2] + sum(come[-1][0] - at for at, _ in come)
    got = {w["rank"]: [w["collectives"][k] for k in ("last", "alone_ns", "caused_ns")] for w in report["workers"]}
    equal((got, report["totals"]["ties"]), (want, ties), f"seed {seed}: who came last")
    for w in report["workers"]:
        c = w["collectives"]
        equal(c["longest_wait_ns"] <= c["own_wait_ns"] <= c["alone_wait_ns"], True, f"seed {seed}: own waits {c}")


class Page(html.parser.HTMLParser):
    """Reads a page: parts of its bars, text by element; notes what is not closed and what would load something."""

    VOID = ("meta", "rect")

    def __init__(self, text):
        super().__init__()
        self.open, self.bad, self.bars, self.titles = [], [], [], []
        self.feed(text)
        if self.open:
            self.bad.append(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in ("script", "link", "img", "iframe", "object") or {"src", "href", "onload", "onclick", "style"} & attrs.keys():
            self.bad.append(f"<{tag} {attrs}>")
        if tag == "svg" and attrs.get("class") == "bar":
            self.bars.append((attrs["aria-label"], []))
        if tag == "rect" and "svg" in self.open and self.bars and attrs.get("height") == "18":
            self.bars[-1][1].append((attrs["class"], float(attrs["x"]), float(attrs["width"])))
        if tag == "td" and "title" in attrs:
            self.titles.append(attrs["title"])
        if tag not in self.VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"</{tag}> closes nothing")


def check_page(report, spans, work, seed):
    """The page's bars are as long as the numbers say, names are no markup, and nothing is loaded from elsewhere."""
    paths = [os.path.join(work, f"rank{rank}.json") for rank in range(oracle.RANKS)]
    p = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "report", *paths, "--html"], capture_output=True, text=True)
    page = Page(p.stdout)
    equal(page.bad, [], f"seed {seed}: the page")
    equal("http" in p.stdout, False, f"seed {seed}: addresses in the page")
    longest = max(w["window_ns"] for w in report["workers"])
    bars = [rects for label, rects in page.bars if label == "what the worker did"]
    equal(len(bars), oracle.RANKS, f"seed {seed}: bars")
    total = dict.fromkeys(report["bound_by_ns"], 0)
    for rects, w in zip(bars, report["workers"]):
        at = 0
        for kind, x, width in rects:
            if abs(x - at) > 0.02:
                equal(x, at, f"seed {seed}: a part of a bar begins where the one before ends")
            at = x + width
            total[kind] += width
        if abs(at - 1000 * w["window_ns"] / longest) > 0.05:
            equal(at, 1000 * w["window_ns"] / longest, f"seed {seed}: length of a bar")
    for kind, width in total.items():
        if abs(width - 1000 * report["bound_by_ns"][kind] / longest) > 0.1:
            equal(width, 1000 * report["bound_by_ns"][kind] / longest, f"seed {seed}: {kind} in the bars")
    equal({t for t in page.titles if t.startswith("kernel")}, {re.sub(HIDDEN, "?", s.name) for s in spans if s.name.startswith("kernel")},
          f"seed {seed}: names")
    equal(re.findall(HIDDEN, p.stdout), [], f"seed {seed}: controls and marks of direction")


def as_shown(paths, *options):
    """The report of files or of a folder: as JSON, text and page."""
    out = []
    for form in (["--json"], [], ["--html"]):
        p = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "report", *paths, *form, *options], capture_output=True, text=True)
        if p.returncode != 0:
            raise SystemExit(f"meridian report failed: {p.stderr}")
        out.append(p.stdout)
    return json.loads(out[0])["report"], out[1], out[2]


def check_files(work, ranks, title, *options):
    """Of workers' files in a folder."""
    first = min(int(us) * 1000 if "." not in us else int(us.replace(".", "")) for path in os.listdir(work)
                for us in re.findall(r'"ts": (\d+(?:\.\d{3})?)', open(os.path.join(work, path)).read()))
    check_shown([os.path.join(work, f"rank{rank}.json") for rank in ranks], first, title, *options)


def check_shown(paths, first, title, *options):
    """The text and the page show what the JSON says, no less and no more; first: when the profile's first event began."""
    report, text, page = as_shown(paths, *options)
    equal(report_shown.wrong_in_text(report, text)[:3], [], f"{title}: text")
    equal(report_shown.more_wrong_in_text(report, text, first)[:3], [], f"{title}: text")
    equal(report_shown.wrong_in_page(report, page)[:3], [], f"{title}: page")
    equal(report_shown.more_wrong_in_page(report, page)[:3], [], f"{title}: page")


def check_sizes(seed):
    """Profiles with less and with more than others: no launch, no collective, one worker; and more of all than is shown."""
    r = random.Random(seed)
    for ranks, names, meet, launched in ((2, 0, False, False), (1, 1, False, False), (2, 3, False, True), (3, 30, True, False), (80, 30, True, True)):
        with tempfile.TemporaryDirectory() as work:
            for rank in range(ranks):
                rows, now = [], 1_700_000_000_000_000 + r.randrange(50)
                for i in range(names):
                    long = 0 if i == 2 and rank > 0 else r.randrange(1, 90)
                    if launched and rank % 40 != 1:
                        rows.append(dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=9000 + rank, tid=1, ts=now - 3, dur=1, args=dict(correlation=i + 1)))
                    rows.append(dict(ph="X", cat="kernel", name=f"kernel_{i}", pid=rank, tid=7, ts=now, dur=long, args=dict(device=rank, stream=7, correlation=i + 1)))
                    now += long + r.randrange(9)
                    if meet and rank != ranks - 1:
                        rows.append(dict(ph="X", cat="kernel", name="ncclDevKernel_allreduce", pid=rank, tid=20, ts=now, dur=100 + 20 * i, args={
                            "device": rank, "stream": 20, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 100 + i, "Out msg nelems": 100 + i,
                            "Group size": ranks - 1, "Process Group Ranks": str(list(range(ranks - 1)))}))
                        now += 100 + 20 * i
                rows.append(dict(ph="X", cat="cpu_op", name="aten::mm", pid=9000 + rank, tid=1, ts=now, dur=1))
                with open(os.path.join(work, f"rank{rank}.json"), "w") as f:
                    json.dump(dict(schemaVersion=1, distributedInfo=dict(backend="nccl", rank=rank, world_size=ranks), traceEvents=rows), f)
            check_files(work, range(ranks), f"{ranks} workers with {names} kernels")


def check_many_steps(seed):
    """So many steps that a block stands for several: each is as long as its steps are, and shown so."""
    r = random.Random(seed)
    took = [[], []]
    with tempfile.TemporaryDirectory() as work:
        for rank in range(2):
            rows, now = [], 1_700_000_000_000_000
            for step in range(700):
                long = r.randrange(5, 50)
                took[rank].append(1000 * long)
                rows.append(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{step}", pid=9000 + rank, tid=1, ts=now, dur=long))
                rows.append(dict(ph="X", cat="kernel", name="kernel_0", pid=rank, tid=7, ts=now + 1, dur=r.randrange(1, long - 2), args=dict(device=rank, stream=7)))
                now += long
            with open(os.path.join(work, f"rank{rank}.json"), "w") as f:
                json.dump(dict(schemaVersion=1, distributedInfo=dict(backend="nccl", rank=rank, world_size=2), traceEvents=rows), f)
        check_files(work, range(2), f"seed {seed}, many steps")
        report, _, _ = as_shown([os.path.join(work, f"rank{rank}.json") for rank in range(2)])
    over, mine = report["steps_over_time"], took[report["critical_path"]["rank"]]
    width = over["width"]
    equal([b["total_ns"] for b in over["blocks"]], [sum(mine[i:i + width]) for i in range(0, len(mine), width)], f"seed {seed}: blocks of {width} steps")
    equal([b["steps"] for b in over["blocks"]], [len(mine[i:i + width]) for i in range(0, len(mine), width)], f"seed {seed}: steps of blocks")
    equal(width > 1, True, f"seed {seed}: several steps in a block")


def check_long_queue(seed):
    """More launches in flight than are kept: what is not counted is told. Of very many arrows some are forgotten; their spans are unknown."""
    r = random.Random(seed)
    for n, longer in ((1500, False), (9000, True)):
        rows, now, whole = [], 20_000, 0
        for i in range(n):
            rows.append(dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=9000, tid=1, ts=i, dur=0, args=dict(correlation=i + 1)))
            rows.append(dict(ph="X", cat="kernel", name="kernel_0", pid=0, tid=7, ts=now, dur=1, args=dict(device=0, stream=7, correlation=i + 1)))
            rows.append(dict(ph="s", cat="ac2g", name="ac2g", id=i + 1, pid=9000, tid=1, ts=i))
            rows.append(dict(ph="f", cat="ac2g", name="ac2g", id=i + 1, pid=0, tid=7, ts=now, bp="e"))
            whole += 1000 * (now - i)
            now += r.randrange(1, 5)
        rows.append(dict(ph="X", cat="kernel", name="kernel_0", pid=0, tid=7, ts=0, dur=1, args=dict(device=0, stream=7)))
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "rank0.json"), "w") as f:
                json.dump(dict(schemaVersion=1, distributedInfo=dict(backend="nccl", rank=0, world_size=1), traceEvents=rows), f)
            check_files(work, range(1), f"seed {seed}, {n} launches in flight")
            q = as_shown([os.path.join(work, "rank0.json")])[0]["workers"][0]["queue"]
        equal((q["launches"] + q["unknown"], q["cut_ns"] > 0), (n + 1, longer), f"seed {seed}: {n} launches in flight")
        equal(0.9 * q["launches"] / n < (q["sum_ns"] + q["cut_ns"]) / whole <= 1, True, f"seed {seed}: {n} launches are in flight for {q} of {whole} ns")


def check_open(seed):
    """Spans that have not ended: how many there are, and the one that began last with the time until the end of all."""
    r = random.Random(seed)
    for n in (0, 1, 31, 32, 33, 40):
        begun = sorted(r.sample(range(1, 5000), n))
        rows = [dict(ph="X", cat="kernel", name="kernel_0", pid=0, tid=7, ts=0.5, dur=r.randrange(1, 6000), args=dict(device=0, stream=7))]
        rows += [dict(ph="B", cat="cpu_op", name=f"open {i}", pid=9000, tid=1, ts=at) for i, at in enumerate(begun)]
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "rank0.json"), "w") as f:
                json.dump(dict(schemaVersion=1, distributedInfo=dict(backend="nccl", rank=0, world_size=1), traceEvents=rows), f)
            report, text, _ = as_shown([os.path.join(work, "rank0.json")])
        shown = report["not_ended"]
        equal((report["totals"]["not_ended"], [(o["name"], o["spans"]) for o in shown]), (n, [(f"open {n - 1}", n)] if n else []), f"seed {seed}: spans that have not ended")
        end = max([0.5 + rows[0]["dur"]] + begun)
        equal([o["for_ns"] for o in shown], [round(1000 * (end - begun[-1]))] if n else [], f"seed {seed}: how long the innermost of {n} is open")
        table = report_shown.tables_of(text).get("Open at the end", [])
        rows = [m for m in (re.match(r"  .* (open \d+) +([\d.]+ \w+) +(\d+)$", line) for line in table) if m]
        equal([(m[1], int(m[3])) for m in rows], [(o["name"], n) for o in shown], f"seed {seed}: rows of {n} open spans")
        equal([w for m, o in zip(rows, shown) for w in report_shown.cells_wrong([m[2]], [o["for_ns"]])], [], f"seed {seed}: for how long")


def check_order(seed):
    """The order in which files are given means nothing but for that of their clocks: rows are in that of the ranks, each with the steps of its own."""
    r, steps = random.Random(seed), {}
    with tempfile.TemporaryDirectory() as work:
        for rank in range(9):
            rows, now, steps[rank] = [], 1_700_000_000_000_000 + r.randrange(50), []
            for i in range(r.randrange(3) if rank == 4 else r.randrange(1, 30)):
                long = r.randrange(50, 900)
                rows.append(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{i}", pid=1 + rank, tid=1, ts=now, dur=long))
                rows.append(dict(ph="X", cat="kernel", name=f"kernel_{r.randrange(5)}", pid=9000 + rank, tid=7, ts=now, dur=r.randrange(1, 50), args=dict(device=rank, stream=7)))
                now += long + r.randrange(9)
                steps[rank].append(1000 * long)
            rows.append(dict(ph="X", cat="cpu_op", name="aten::mm", pid=1 + rank, tid=1, ts=now, dur=1))
            with open(os.path.join(work, f"rank{rank}.json"), "w") as f:
                json.dump(dict(schemaVersion=1, distributedInfo=dict(backend="nccl", rank=rank, world_size=9), traceEvents=rows), f)
        check_files(work, range(9), f"seed {seed}, names that have room")
        paths = [os.path.join(work, f"rank{rank}.json") for rank in range(9) if steps[rank]]
        first, *others = [as_shown(r.sample(paths, len(paths))) for _ in range(3)]
    equal([s["rank"] for s in first[0]["steps"]], [rank for rank in steps if steps[rank]], f"seed {seed}: order of steps")
    equal([(s["count"], s["total_ns"], s["max_ns"]) for s in first[0]["steps"]],
          [(len(v), sum(v), max(v)) for v in steps.values() if v], f"seed {seed}: steps of each rank")
    equal([w["rank"] for w in first[0]["workers"]], [rank for rank in steps if steps[rank]], f"seed {seed}: order of workers")
    for i, other in enumerate(others):
        for form, a, b in zip(("json", "text", "page"), first, other):
            equal(b if form == "json" else sorted(b.split("\n")), a if form == "json" else sorted(a.split("\n")), f"seed {seed}: {form} of files in order {i}")


def main():
    seeds = [int(os.environ["MRD_SEED"])] if "MRD_SEED" in os.environ else range(1, int(sys.argv[1]) + 1)
    told = {"waiting": 0, "transfer": 0, "unknown": 0}
    for seed in seeds:
        spans, meetings = oracle.made_up(seed)
        with tempfile.TemporaryDirectory() as work:
            report = reported(spans, work)
            same = reported(spans, work, "--same-clock")
            check_page(report, spans, work, seed)
            if seed <= 12 or len(seeds) == 1:
                check_files(work, range(oracle.RANKS), f"seed {seed}")
                check_files(work, range(oracle.RANKS), f"seed {seed}, one clock", "--same-clock")
        check_proven(report, same, meetings, seed)
        for how, ns in check_breakdown(report, spans, meetings, seed).items():
            told[how] += ns
        check_bandwidth(report, meetings, seed)
        check_lateness(report, spans, meetings, seed)
        check_last(report, meetings, seed)
        check_path(report, spans, meetings, seed)
        check_queues(report, spans, seed)
        equal({k["name"]: (k["count"], k["total_ns"], k["workers"], k["median_ns"], k["most_ns"]) for k in report["kernels"]},
              oracle.kernels(spans), f"seed {seed}: what devices ran")
    for seed in seeds[:12] if len(seeds) > 1 else seeds:
        check_memory(seed)
        check_unknown(seed)
        check_absent(seed)
    for seed in seeds[:3]:
        check_order(seed)
    check_sizes(seeds[0])
    check_many_steps(seeds[0])
    check_long_queue(seeds[0])
    check_open(seeds[0])
    for steps in (3, 9, 21, 40) if len(seeds) > 1 else (21,):
        check_trend(seeds[0] + steps, steps)
    print(f"{len(seeds)} profiles; exposed time {told}")
    if len(seeds) > 1 and min(told.values()) == 0:
        failures.append("each kind of exposed time occurs")
    if len(seeds) > 1 and len(maybes) < 2:
        failures.append(f"paths with and without what may be waiting occur: {maybes}")
    sys.exit(1 if failures else 0)


main()
