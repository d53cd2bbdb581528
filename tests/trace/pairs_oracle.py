"""Generates executions on logical cores of two physical cores and of one. The number of executions
and their durations in each output are compared with a count that compares every half with every
other. Usage: pairs_oracle.py PROFILES; MRD_SEED=n repeats one."""
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

BUILD = os.environ.get("MERIDIAN_BUILD") or "build"
WAIT = 1_000_000  # ns between the begins of two halves, at most
START = 1_760_000_000_000_000_000
RUNNING = "nc_exec_running"
failures = []


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def generate(seed):
    """Spans of cores of one and of two physical cores: halves alone, late, of other lengths, of one exec_id again, and others between them."""
    r = random.Random(seed)
    spans, taken = [], set()

    def span(core, pcore, name, at, length, exec_id=None):
        while at in taken:  # one order only
            at += 1
        taken.add(at)
        spans.append({"node": core[0], "pid": core[1], "lnc": core[2], "pcore": pcore, "name": name, "ts": at, "dur": length, "exec": exec_id})

    for node in range(2):
        for pid in (100, 101):
            for lnc in range(2):
                core, two, at = (node, pid, lnc), r.random() < 0.7, START + r.randrange(5000)
                both = (2 * lnc, 2 * lnc + 1) if two else (lnc,)
                for exec_id in range(r.randrange(60)):
                    shown = [p for p in both if r.random() < 0.85]
                    r.shuffle(shown)
                    first = r.choice((0, 1, 300, 20_000, 20_000, 3_000_000, 3_000_000))
                    late = r.choice((0, 1, 1, 2, 250, 500, first, first + 1, WAIT, WAIT + 1))
                    for k, p in enumerate(shown):
                        span(core, p, RUNNING, at + k * late, first if k == 0 else r.choice((0, 7, 400, 50_000, 2_000_000)), exec_id // r.choice((1, 1, 1, 2)))
                    for _ in range(r.randrange(3)):
                        span(core, both[0], r.choice(("cc_running", "cc_exec_barrier")), at + r.randrange(30_000), r.randrange(5_000))
                    at += r.choice((1, 900, 40_000, 4_000_000))
    spans.sort(key=lambda s: s["ts"])
    return spans


def joined(spans):
    """Executions: each span with the number of halves it stands for. A second half belongs to the first that is open, of the other physical core."""
    out, groups = [], collections.defaultdict(list)
    lines = collections.defaultdict(set)
    for s in spans:
        lines[s["node"], s["pid"], s["lnc"], s["pcore"] // 2].add(s["pcore"])
    for s in spans:
        group = s["node"], s["pid"], s["lnc"], s["pcore"] // 2
        if s["name"] == RUNNING and len(lines[group]) == 2:
            for f in groups[group]:
                if f["halves"] == 1 and f["exec"] == s["exec"] and f["pcore"] != s["pcore"] and s["ts"] <= f["ts"] + f["own"] and s["ts"] - f["ts"] <= WAIT:
                    f["halves"], f["dur"] = 2, max(f["dur"], s["ts"] + s["dur"] - f["ts"])
                    break
            else:
                groups[group].append(dict(s, halves=1, own=s["dur"]))
                out.append(groups[group][-1])
        else:
            out.append(dict(s, halves=1))
    return out


def write(spans, path):
    with open(path, "w") as f:
        json.dump({"trace_events": [{"duration": s["dur"], "instance_id": f"i-{s['node']}", "lnc_idx": str(s["lnc"]), "process_id": str(s["pid"]), "thread_id": s["lnc"],
                                     "pcore_idx": s["pcore"], "name": s["name"], "timestamp": s["ts"], "trace_event_source": "neuron_hw",
                                     "args": {} if s["exec"] is None else {"exec_id": s["exec"]}} for s in spans]}, f)


def meridian(*words):
    p = subprocess.run([os.path.join(BUILD, "bin", "meridian"), *words], capture_output=True, text=True)
    if p.returncode != 0:
        raise SystemExit(f"meridian {' '.join(words)} failed: {p.stderr}")
    return p.stdout


def load(where, name):
    with open(os.path.join(where, name)) as f:
        return json.load(f)


def check_kernels(where, out, seed):
    """The report and the query: the same rows, which are those of the executions."""
    sums = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
    for e in out:
        cell = sums[e["name"]][e["node"], e["pid"], e["lnc"]]
        cell[0] += 1
        cell[1] += e["dur"]
    workers = sorted({(e["node"], e["pid"], e["lnc"]) for e in out})
    want = []
    for name, cells in sums.items():
        by_time = sorted(v[1] for v in cells.values())
        most = min(cells, key=lambda who: (-cells[who][1], who))
        want.append({"name": name, "spans": sum(v[0] for v in cells.values()), "total_ns": sum(by_time), "workers": len(cells), "median_ns": by_time[(len(by_time) - 1) // 2],
                     "slowest_ns": cells[most][1], "slowest_worker": workers.index(most)})
    want.sort(key=lambda k: (-k["total_ns"], k["name"]))
    keys = list(want[0]) if want else []
    asked = [json.loads(line) for line in meridian("sql", "top_kernels", where, "--format", "json").splitlines()]
    equal([{k: row[k] for k in keys} for row in asked], want, f"seed {seed}: top_kernels.sql")
    theirs = {"name": "name", "spans": "count", "total_ns": "total_ns", "workers": "workers", "median_ns": "median_ns", "slowest_ns": "most_ns", "slowest_worker": "most_worker"}
    equal([{k: row[theirs[k]] for k in keys} for row in load(where, "report.json")["report"]["kernels"]], want, f"seed {seed}: kernels of the report")


def check_summary(where, spans, out, seed):
    summary = load(where, "summary.json")["summary"]
    pairs = sum(e["halves"] == 2 for e in out)
    equal((summary["events"], summary["spans"], summary.get("paired_executions", 0)), (len(spans), len(spans), pairs), f"seed {seed}: events, spans, pairs")
    equal(sum(t["count"] for t in summary["event_types"]) + pairs, len(spans), f"seed {seed}: counts of all types and pairs")
    took = [e["dur"] for e in out if e["name"] == RUNNING]
    equal([(t["count"], t["total_ns"], t["min_ns"], t["max_ns"]) for t in summary["event_types"] if t["name"] == RUNNING],
          [(len(took), sum(took), min(took), max(took))] if took else [], f"seed {seed}: executions among the event types")
    cores = {}
    for n in summary["nodes"]:
        for p in n["processes"]:
            for c in p["cores"]:
                if "executions" in c:
                    cores[int(n["instance_id"][2:]), int(p["process_id"]), c["lnc_idx"]] = c["executions"], c["paired_executions"]
    want = collections.Counter((e["node"], e["pid"], e["lnc"]) for e in out if e["name"] == RUNNING)
    paired = collections.Counter((e["node"], e["pid"], e["lnc"]) for e in out if e["halves"] == 2)
    equal(cores, {c: (want[c], paired[c]) for c in paired}, f"seed {seed}: executions of cores")


def check(seed, work):
    spans = generate(seed)
    out = joined(spans)
    where = os.path.join(work, str(seed))
    write(spans, where + ".json")
    meridian("view", where + ".json", "--output-format", "report-json,summary-json,sqlite,chrome,json", "-o", where, "--vendor-tool", "none")
    check_kernels(where, out, seed)
    check_summary(where, spans, out, seed)
    rows = [json.loads(line) for line in meridian("sql", f"SELECT instance_id AS i, process_id AS p, lnc_idx AS c, ts_ns AS t, dur_ns AS d FROM events WHERE name = '{RUNNING}'", where,
                                                  "--format", "json").splitlines()]
    equal(sorted((r["i"], r["p"], r["c"], r["t"], r["d"]) for r in rows),
          sorted((f"i-{e['node']}", e["pid"], e["lnc"], e["ts"], e["dur"]) for e in out if e["name"] == RUNNING), f"seed {seed}: rows of the table")
    drawn = [f for f in os.listdir(where) if "trace" in f and f.endswith(".json")]
    equal(sum(e.get("name") == RUNNING and e.get("ph") == "X" for e in load(where, drawn[0])["traceEvents"]), sum(e["name"] == RUNNING for e in out), f"seed {seed}: drawn in {drawn}")
    theirs = load(where, "system_profile.json")["trace_events"]
    equal(sorted((int(e["timestamp"]), int(e["duration"]), int(e["pcore_idx"])) for e in theirs if e["name"] == RUNNING),
          sorted((s["ts"], s["dur"], s["pcore"]) for s in spans if s["name"] == RUNNING), f"seed {seed}: halves in the vendor's layout")
    return sum(e["halves"] == 2 for e in out), sum(e["name"] == RUNNING and e["halves"] == 1 for e in out)


seeds = [int(os.environ["MRD_SEED"])] if "MRD_SEED" in os.environ else range(1, int(sys.argv[1]) + 1)
pairs = alone = 0
with tempfile.TemporaryDirectory() as folder:
    for n in seeds:
        got = check(n, folder)
        pairs, alone = pairs + got[0], alone + got[1]
        if failures:
            break
print(f"{pairs} pairs, {alone} executions of one span")
if "MRD_SEED" not in os.environ and not failures:
    equal(pairs > 100 and alone > 100, True, "both kinds were generated")
sys.exit(1 if failures else 0)
