#!/usr/bin/env python3
"""The fault bench: jobs with faults that this program injects, and who names them (`make faults`).

Each run starts ranks on the simulated runtime, which agents and an aggregator watch, and injects one fault of kinds.py at a time that its seed
decides. Hangs are judged by what the hang watch says while they stand. There is no live verdict on a slow rank yet, so these are judged by the
report of a recording. The pure core of the hang watch is judged beside them, in simulated time (tests/aggregator/hang_test.c).

A run on a busy machine is refused: its ranks waited for a CPU longer than the bound in each step. It is tried again, then counted."""
import argparse
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import job
import kinds
import score
from lib import BIN, failures, need_daemons, need_preload
from wait import pace

GOALS = """Goals: hangs: culprit named, or refused with the true reason, in 100 %; 0 wrong names; verdict at most 2 s after the deadline.
Slow: rank 99 %, class 90 %, 0 wrong but certain, named live within 20 steps of the onset (there is no live verdict yet). Controls: no alarm."""


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--kinds", help="comma-separated beginnings of names (default: all)")
    p.add_argument("--seeds", default="1-3", help="A-B or A (default: %(default)s)")
    p.add_argument("--quick", action="store_true", help=f"only {', '.join(kinds.QUICK)}, with one seed; exit status 1 if a verdict is wrong")
    p.add_argument("--noise", type=float, help="bound: how long a rank may wait for a CPU in a step, in ms (default: 1 for slow kinds, whose step is 45 ms, 100 for others)")
    p.add_argument("--tries", type=int, default=3, help="how often a run is tried on a busy machine (default: %(default)s)")
    p.add_argument("--out", help="appends one JSON object for each run to this file; runs that are in it are not repeated")
    p.add_argument("--keep", help="a folder for the answers and the steps of each run")
    p.add_argument("--score", help="adds the verdicts of another tool: a file with one JSON object on each line (score.py)")
    p.add_argument("--list", action="store_true", help="lists the kinds")
    p.add_argument("--no-core", action="store_true", help="leaves out the simulated core")
    return p.parse_args()


def seeds(text):
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def chosen(opt):
    if opt.quick:
        return [kinds.BY_NAME[name] for name in kinds.QUICK]
    return [k for k in kinds.KINDS if not opt.kinds or k.name.startswith(tuple(opt.kinds.split(",")))]


def measure(cluster, number, kind, seed, opt):
    """A line of the result, None if the machine was too busy each time."""
    bound = opt.noise or (1 if kind.name in kinds.SLOW else 100)
    for _ in range(opt.tries):
        try:
            return job.run(cluster, next(number), kind, seed, bound, opt.keep)
        except job.TooBusy as busy:
            noise = busy.args[0]
            print(f"{kind.name}/{seed}: refused, a rank waits {noise['wait_ms']} ms for a CPU in a step, bound {bound} ms, load {noise['load']:.1f}", flush=True)
            pace(5)
    return None


def core():
    """What the core's own simulation says, a row for each kind: (name, jobs, named, refused, silent, wrong, slowest)."""
    program = os.path.join(BIN, "test_aggregator_hang")
    if not os.path.exists(program):
        return []
    p = subprocess.run([program, "names_the_culprit_of_700_hangs_and_nobody_else", "refuses_where_the_reports_are_incomplete"], capture_output=True, text=True)
    return re.findall(r"^(.+?):? +(\d+) jobs: +(\d+) named, +(\d+) refused, +(\d+) silent, (\d+) wrong(?:, at most (\S+) s)?", p.stderr, re.M)


SAME = {"never enters": "H1-never-enters", "enters late": "H2-enters-late", "other operation": "H3-other-operation", "other size": "H4-other-size",
        "other model": "H5-other-model", "stuck load": "H7-stuck-load", "stuck on device": "H8-stuck-device", "all stuck": "H8-stuck-device-all",
        "stopped": "H9-stopped", "killed": "H10-killed", "exits": "H10-exits", "node gone": "H11-node-gone", "link cut": "H12-link-cut"}


def print_core(lines):
    """The simulated core, with the real ranks of the same kind beside it: the generator is right where both get the same verdicts."""
    rows = [["kind, simulated time", "jobs", "named", "refused", "silent", "wrong", "slowest s", "real: runs, named, refused, silent"]]
    for row in core():
        real = [line["verdicts"]["meridian"]["answer"] for line in lines if line["truth"]["kind"] == SAME.get(row[0].strip())]
        count = lambda *answers: sum(real.count(a) for a in answers)
        rows.append([*row, f"{len(real)}, {count('named')}, {count('nobody', 'cannot tell')}, {count('silent')}" if real else "–"])
    if len(rows) > 1:
        jobs, wrong = sum(int(r[1]) for r in rows[1:]), sum(int(r[5]) for r in rows[1:])
        print("\n" + score.markdown(rows + [["all", str(jobs), "", "", "", score.share(wrong, jobs), "", ""]]))


def add_tool(lines, path):
    """The verdicts of another tool; its name is the file's."""
    name = os.path.splitext(os.path.basename(path))[0]
    by = {(line["truth"]["kind"], line["truth"]["seed"]): line for line in lines}
    with open(path) as f:
        for n, text in enumerate(f, 1):
            try:
                v = json.loads(text)
                run = v["kind"], v["seed"]
            except (ValueError, KeyError, TypeError) as error:
                sys.exit(f"{path}:{n}: this is no JSON object with kind and seed, see bench/faults/score.py ({error})")
            if run not in by:
                sys.exit(f"{path}:{n}: there is no run {run[0]}/{run[1]}: kind and seed must be of a run of this bench")
            by[run]["verdicts"][name] = score.verdict(**{k: v[k] for k in ("answer", "ranks", "cls", "certain", "live", "onset_ns", "told_ns") if k in v})
    return name


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    return f"{os.cpu_count()} x {model}, Linux {os.uname().release}"


def show(lines, refused, tools):
    load, step = [line["noise"]["load"] for line in lines], [line["step_ms"] for line in lines]
    print(f"\n{machine()}, {kinds.RANKS} ranks on {kinds.AGENTS} agents, {len(lines)} runs, {refused} refused for noise")
    for what, slow in (("slow", True), ("hang", False)):
        waits = [line["noise"]["wait_ms"] for line in lines if (line["truth"]["kind"] in kinds.SLOW) == slow]
        if waits:
            print(f"noise, {what} kinds: a rank waits for a CPU {score.middle(waits, 2)} ms in a step (median / most of the runs)")
    print(f"load {score.middle(load)}, nice {sorted({line['noise'].get('nice', 0) for line in lines})}")
    healthy = [line["step_ms"] for line in lines if line["truth"]["kind"] == "N7-healthy"]
    print(f"healthy step: {score.middle(healthy)} ms" if healthy else f"step: {score.middle(step)} ms")
    print("\n" + score.markdown(score.table(lines, tools)) + "\n")
    for text in score.mistakes(lines):
        print("-", text)


def main():
    opt = options()
    if opt.list:
        print("\n".join(f"{k.name:24}{k.family:9}{k.what}" for k in kinds.KINDS))
        return 0
    need_daemons()
    need_preload()
    for number in (signal.SIGINT, signal.SIGTERM):  # what it started ends with it
        signal.signal(number, lambda *_: sys.exit(130))
    lines, refused, number = [], 0, iter(range(1, 1 << 30))
    if opt.out and os.path.exists(opt.out):
        lines = [json.loads(text) for text in open(opt.out)]
    done = {(line["truth"]["kind"], line["truth"]["seed"]) for line in lines}
    todo = [(k, s) for s in ([1] if opt.quick else seeds(opt.seeds)) for k in chosen(opt) if (k.name, s) not in done]
    if todo:
        with job.Watched() as cluster:
            cluster.begin()
            for n, (kind, seed) in enumerate(todo, 1):
                line = measure(cluster, number, kind, seed, opt)
                if line is None:
                    refused += 1
                    continue
                v = line["verdicts"]["meridian"]
                print(f"{n}/{len(todo)} {kind.name}/{seed}: {score.judge(line['truth'], v)}: {v['answer']} {v['ranks']} {v['cls']}, truth {line['truth']['ranks']} {line['truth']['cls']}", flush=True)
                lines.append(line)
                if opt.out:
                    with open(opt.out, "a") as f:
                        f.write(json.dumps(line) + "\n")
    tools = sorted({tool for line in lines for tool in line["verdicts"]} - {"meridian"})
    if opt.score:
        tools.append(add_tool(lines, opt.score))
    show(lines, refused, tools)
    if not opt.no_core and not opt.quick:
        print_core(lines)
    print("\n" + GOALS)
    bad = [line for line in lines if score.judge(line["truth"], line["verdicts"]["meridian"]) != "right"]
    return 1 if failures or (opt.quick and bad) else 0


if __name__ == "__main__":
    sys.exit(main())
