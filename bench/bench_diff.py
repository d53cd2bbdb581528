"""How often `meridian diff` is right about recordings of the simulated runtime: false alarms over pairs of equal runs, pairs in which the
device computes 1, 2, 5 or 10 % longer, and how often it names that.

    python3 bench/bench_diff.py [--pairs 200] [--steps 150] [--exec-us 4000] [--factors 1.01,1.05] [--keep DIR]

Each pair is two recordings of its own, made one after the other as a user makes them: `meridian inspect` of train_loop. Also with several
recordings a side. The
machine's own noise is in them: the figures are of the machine and its load, which are printed. Recordings of --keep that are there already are
not made again. Ends with status 1 when of the pairs of single recordings more than 1 % are false alarms."""
import argparse
import collections
import json
import os
import shutil
import subprocess
import tempfile
import time

BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build")
MERIDIAN, LOOP = os.path.join(BUILD, "bin", "meridian"), os.path.join(BUILD, "bin", "train_loop")

options = argparse.ArgumentParser()
options.add_argument("--pairs", type=int, default=200)
options.add_argument("--steps", type=int, default=150)
options.add_argument("--exec-us", type=int, default=4000)
options.add_argument("--factors", default="1.01,1.02,1.05,1.1", help="how much longer the device computes in what is compared with the first of a pair")
options.add_argument("--cores", type=int, default=2)
options.add_argument("--keep", help="folder of the steps.json files")
options.add_argument("--confidence", default="99.9")
set_ = options.parse_args()
work = set_.keep or tempfile.mkdtemp(prefix="mrd-bench-diff-")


def record(name, factor, seed):
    """steps.json of one run; made once."""
    steps = os.path.join(work, name + ".json")
    if os.path.exists(steps):
        return steps
    out = os.path.join(work, name)
    exec_us = round(set_.exec_us * factor)
    subprocess.run([MERIDIAN, "inspect", "-o", out, "--force", "--output-format", "steps-json", "--", LOOP, "--ranks", "1", "--cores", str(set_.cores),
                    "--steps", str(set_.steps), "--exec-us", str(exec_us), "--checkpoint-every", "0", "--quiet"],
                   env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), SIMNRT_SEED=str(seed)),
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.rename(os.path.join(out, "steps.json"), steps)
    shutil.rmtree(out)
    return steps


def diff(a, b):
    p = subprocess.run([MERIDIAN, "diff", "--base", a, "--new", b, "--json", "--confidence", set_.confidence], capture_output=True, text=True)
    assert p.returncode in (0, 3, 4), p.stderr
    return json.loads(p.stdout)


def judged(pairs, label):
    """Verdicts and causes of comparisons. How many were called slower or faster."""
    verdicts, causes, changes = collections.Counter(), collections.Counter(), []
    for base, now in pairs:
        d = diff(",".join(base), ",".join(now))
        verdicts[d["verdict"]] += 1
        causes[" ".join((d["cause"]["kind"], d["cause"]["name"])) if d["cause"] else "none"] += 1
        if d["verdict"] in ("slower", "faster"):
            changes.append(100 * d["step"]["change_ns"] / max(1, d["step"]["base_ns"]))
    print(f"  {label}: {dict(verdicts)}; named: {causes.most_common(4)}; changes called so: {[f'{x:+.1f} %' for x in changes[:8]]}", flush=True)
    return len(changes)


factors = [float(f) for f in set_.factors.split(",") if f]
kinds = [("a", 1.0), ("b", 1.0)] + [(f"x{f:g}-", f) for f in factors]
began, load = time.time(), os.getloadavg()[0]
runs = [[record(f"{kind}{i}", factor, len(kinds) * i + n + 1) for n, (kind, factor) in enumerate(kinds)] for i in range(set_.pairs)]
print(f"{set_.pairs} pairs of {set_.steps} steps, {set_.cores} cores, exec {set_.exec_us} us, load {load:.1f} to {os.getloadavg()[0]:.1f}, {time.time() - began:.0f} s")
alarms = 0
for side in (1, 3, 5, 10):  # recordings a side, those made one after the other, so that both sides see the same machine
    groups = [runs[i:i + side] for i in (range(set_.pairs) if side == 1 else range(0, set_.pairs - side + 1, max(1, side // 2)))]
    if not groups:
        continue
    print(f"{side} a side, {len(groups)} comparisons")
    equal = judged([([r[0] for r in g], [r[1] for r in g]) for g in groups], "equal runs")
    alarms = equal if side == 1 else alarms
    for n, factor in enumerate(factors):
        judged([([r[0] for r in g], [r[2 + n] for r in g]) for g in groups], f"{100 * (factor - 1):.0f} % longer")
if not set_.keep:
    shutil.rmtree(work)
raise SystemExit(alarms > max(1, set_.pairs / 100))
