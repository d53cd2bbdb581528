"""How often `meridian diff` is right about made traces whose steps vary as machines let them: correlated from step to step, with heavy tails, with a warm-up,
in bursts, with a slow step now and then, with a speed of its own in each run. Two ranks, 110 to 190 steps, clocks of different origin.

    python3 bench/bench_diff_noise.py [--runs 60] [--pairs 200] [NOISE...]

Prints how many pairs of equal runs are called different, and of 40 comparisons with runs that one kernel makes longer how many are found and how often it is
named. Ends with status 1 when more than 1 % of the equal pairs are called different."""
import argparse
import collections
import json
import math
import os
import random
import shutil
import subprocess
import tempfile

MERIDIAN = os.path.join(os.environ.get("MERIDIAN_BUILD") or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build"), "bin", "meridian")
KERNELS = (("fprop", 700), ("attn", 1100), ("bprop", 1900), ("opt", 250))  # microseconds of a step
STEP = sum(us for _, us in KERNELS) + 90


def correlated(r, n):
    x = 0.0
    for _ in range(n):
        x = 0.9 * x + 0.03 * math.sqrt(1 - 0.81) * r.gauss(0, 1)
        yield 1 + x


def tails(r, n):
    for _ in range(n):  # Student's t with two degrees of freedom, the half above zero
        yield 1 + min(5, abs(0.01 * r.gauss(0, 1) / math.sqrt(max(1e-6, r.gammavariate(1, 1)))))


def warmup(r, n):
    for i in range(n):
        yield 1 + 2 * math.exp(-i / 8) + 0.02 * r.gauss(0, 1)


def bursts(r, n):
    left = 0
    for _ in range(n):
        if left == 0 and r.random() < 0.02:
            left = r.randrange(10, 40)
        left = max(0, left - 1)
        yield (1.3 if left else 1) * (1 + 0.01 * r.gauss(0, 1))


def slow_steps(r, n):
    for i in range(n):
        yield (8 if i % 50 == 49 else 1) * (1 + 0.01 * r.gauss(0, 1))


def own_speed(r, n):
    speed = 1 + 0.02 * r.gauss(0, 1)
    for _ in range(n):
        yield speed * (1 + 0.01 * r.gauss(0, 1))


NOISES = {f.__name__: f for f in (correlated, tails, warmup, bursts, slow_steps, own_speed)}


def series(work, name, noise, seed, change=None, factor=1.0):
    """steps.json of one run, in which one kernel may take longer by a factor."""
    r = random.Random(f"{noise} {seed}")
    lengths, origin, files = list(NOISES[noise](r, r.randrange(110, 190))), r.randrange(10**9, 10**12), []
    for rank in range(2):
        events, at = [], origin + r.randrange(1000)
        for step, length in enumerate(lengths):
            begin, at = at, at + 40000
            for kernel, us in KERNELS:
                ns = int(1000 * us * max(0.2, length) * (1 + 0.005 * r.gauss(0, 1)) * (factor if kernel == change else 1))
                events.append(dict(ph="X", cat="kernel", name=kernel, pid=0, tid=7, ts=at / 1000, dur=ns / 1000, args=dict(device=0, stream=7)))
                at += ns + 3000
            events.append(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{step}", pid=10, tid=10, ts=begin / 1000, dur=(at - begin) / 1000))
            at += 10000
        files.append(os.path.join(work, f"{rank}.json"))
        with open(files[-1], "w") as f:
            json.dump(dict(schemaVersion=1, deviceProperties=[dict(id=0)], distributedInfo=dict(rank=rank, world_size=2), traceEvents=events), f)
    to = os.path.join(work, name)
    subprocess.run([MERIDIAN, "view", *files, "-o", to, "--output-format", "steps-json", "--force"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.path.join(to, "steps.json")


def diff(base, now):
    p = subprocess.run([MERIDIAN, "diff", "--base=" + ",".join(base), "--new=" + ",".join(now), "--json"], capture_output=True, text=True)
    assert p.returncode in (0, 4), p.stderr
    d = json.loads(p.stdout)
    return d["verdict"], d["cause"]["name"] if d["cause"] else None


options = argparse.ArgumentParser()
options.add_argument("--runs", type=int, default=60)
options.add_argument("--pairs", type=int, default=200)
options.add_argument("noises", nargs="*", metavar="NOISE", help=", ".join(NOISES))
set_ = options.parse_args()
alarms = pairs = 0
for noise in set_.noises or NOISES:
    work, r = tempfile.mkdtemp(prefix="mrd-bench-noise-"), random.Random(noise)
    same = [series(work, f"a{i}", noise, i) for i in range(set_.runs)]
    for side in (1, 3):
        verdicts = collections.Counter()
        for _ in range(set_.pairs):
            chosen = r.sample(same, 2 * side)
            verdicts[diff(chosen[:side], chosen[side:])[0]] += 1
        print(f"{noise}, equal, {side} a side: {dict(verdicts)}", flush=True)
        pairs += set_.pairs
        alarms += verdicts["slower"] + verdicts["faster"]
    for percent in (1, 2, 5):
        longer = [(k, series(work, f"b{percent}-{i}", noise, 1000 * percent + i, k, 1 + percent / 100 * STEP / us)) for i, (k, us) in enumerate(KERNELS * 3)]
        for side in (1, 3):
            found = named = 0
            for _ in range(40):
                kernel = r.choice(KERNELS)[0]
                verdict, cause = diff(r.sample(same, side), r.sample([f for k, f in longer if k == kernel], side))
                found += verdict == "slower"
                named += cause == kernel
            print(f"{noise}, {percent} % longer, {side} a side: {found} of 40 found, the kernel named in {named}", flush=True)
    shutil.rmtree(work)
raise SystemExit(alarms > pairs / 100)
