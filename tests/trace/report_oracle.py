"""`meridian report` on random profiles, against an account that walks through every nanosecond (tests/oracle/report.py).
Usage: report_oracle.py PROFILES; MRD_SEED=n repeats one."""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
import report as oracle

failures = []


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def reported(spans, work, *options):
    paths = []
    for rank in range(oracle.RANKS):
        paths.append(os.path.join(work, f"rank{rank}.json"))
        with open(paths[-1], "w") as f:
            f.write(oracle.kineto(spans, rank))
    p = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "report", *paths, "--json", *options], capture_output=True, text=True)
    if p.returncode != 0:
        raise SystemExit(f"meridian report failed: {p.stderr}")
    return json.loads(p.stdout)["report"]


def check_breakdown(report, spans, meetings, seed):
    told = {"waiting": 0, "transfer": 0, "unknown": 0}
    for rank, w in enumerate(report["workers"]):
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


def main():
    seeds = [int(os.environ["MRD_SEED"])] if "MRD_SEED" in os.environ else range(1, int(sys.argv[1]) + 1)
    told = {"waiting": 0, "transfer": 0, "unknown": 0}
    for seed in seeds:
        spans, meetings = oracle.made_up(seed)
        with tempfile.TemporaryDirectory() as work:
            report = reported(spans, work)
        for how, ns in check_breakdown(report, spans, meetings, seed).items():
            told[how] += ns
        check_bandwidth(report, meetings, seed)
    print(f"{len(seeds)} profiles; exposed time {told}")
    if len(seeds) > 1 and min(told.values()) == 0:
        failures.append("each kind of exposed time occurs")
    sys.exit(1 if failures else 0)


main()
