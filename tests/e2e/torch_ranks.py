"""Tests a real framework. Two processes of PyTorch make an all-reduce over gloo, with annotations
from Python, under `meridian inspect`. PyTorch must compute the same result as without it, and the
profile must have the steps of both ranks in order."""
import collections
import os
import subprocess
import sys

from lib import SOURCE, check, equal, finish, load_json, need_preload, run, skip, tmp

need_preload()
python = next((p for p in (sys.executable, "/usr/bin/python3")
               if subprocess.run([p, "-c", "import torch.distributed as d; assert d.is_gloo_available()"], capture_output=True).returncode == 0), None)
if python is None:
    skip("no Python with PyTorch and gloo (Debian's package is python3-torch)")

STEPS = 5
PROGRAM = r"""
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import meridian

def rank_main(rank, world, path):
    meridian.thread_name("rank %d" % rank)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=world)
    weights = torch.full((1000,), float(rank))
    for step in range({steps}):
        with meridian.scope("step", domain="train", step=step, rank=rank):
            with meridian.scope("forward", domain="train"):
                weights = weights * 2 + step
            with meridian.scope("all_reduce", domain="train", bytes=weights.numel() * 4):
                dist.all_reduce(weights)
    os.write(1, b"rank %d %f\n" % (rank, weights.sum()))  # one write: lines of two processes stay whole
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(rank_main, args=(2, sys.argv[1]), nprocs=2)
""".replace("{steps}", str(STEPS))

work = tmp()
program = os.path.join(work, "reduce.py")
with open(program, "w") as f:
    f.write(PROGRAM)
env = {"PYTHONPATH": os.path.join(SOURCE, "python"), "OMP_NUM_THREADS": "1"}
plain = subprocess.run([python, program, os.path.join(work, "plain")], capture_output=True, text=True, timeout=240, env=dict(os.environ, **env))
equal(plain.returncode, 0, f"the program by itself: {plain.stderr[-400:]}")
out = os.path.join(work, "out")
text, _ = run("inspect", "-o", out, "--output-format", "json", "--", python, program, os.path.join(work, "traced"), env=env)
equal(sorted(text.splitlines()), sorted(plain.stdout.splitlines()), "what PyTorch computed")

events = load_json(os.path.join(out, "system_profile.json"))["trace_events"]
spans = collections.defaultdict(list)
for e in events:
    if e["trace_event_source"] == "annotation":
        spans[e["process_id"], e["name"]].append((int(e["timestamp"]), int(e["duration"])))
ranks = {process for process, name in spans if name == "step"}
equal(len(ranks), 2, "processes with steps")
for process in ranks:
    for name in ("step", "forward", "all_reduce"):
        equal(len(spans[process, name]), STEPS, f"{name} spans of process {process}")
    steps = sorted(spans[process, "step"])
    check(all(a[0] + a[1] <= b[0] for a, b in zip(steps, steps[1:])), "steps do not overlap")
    for (at, length), (start, duration) in zip(sorted(spans[process, "all_reduce"]), steps):
        check(start <= at and at + length <= start + duration, "an all_reduce lies inside its step")
# An all_reduce ends after every rank has begun it: both clocks are this machine's.
a, b = (sorted(spans[process, "all_reduce"]) for process in sorted(ranks))
for one, other in zip(a, b):
    check(one[0] + one[1] > other[0] and other[0] + other[1] > one[0], "all_reduce of the two ranks overlap in time")
finish()
