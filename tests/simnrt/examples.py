#!/usr/bin/env python3
"""Both training loops run on the simulated runtime, and the straggler is where it was put.

The truth files say how long each worker waited for the others in enc_barrier (type 13): the one that
makes them wait hardly waits itself.
"""
import collections
import os
import re
import statistics
import subprocess
import sys
import tempfile

BUILD, SOURCE = os.environ["MERIDIAN_BUILD"], os.environ["MERIDIAN_SOURCE"]
LINE = re.compile(r"([BE]) core=(\d+) type=13 tracking=(\d+) raw=(\d+)")


def waits(folder):
    """Median wait in ns by (first core of the process + core): the first step also waits for starts."""
    each = collections.defaultdict(list)
    for name in os.listdir(folder):
        if not name.startswith("truth."):
            continue
        begun, first = {}, 0
        with open(os.path.join(folder, name)) as f:
            for line in f:
                if line.startswith("node "):
                    first = int(re.search(r"first=(\d+)", line).group(1))
                match = LINE.match(line)
                if match is None:
                    continue
                kind, core, tracking, raw = match.group(1), int(match.group(2)), match.group(3), int(match.group(4))
                if kind == "B":
                    begun[core, tracking] = raw
                else:
                    each[first + core].append(raw - begun[core, tracking])
    return {worker: statistics.median(found) for worker, found in each.items()}


def check(command, straggler, workers, ranks, extra):
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, LD_LIBRARY_PATH=f"{BUILD}/lib/simnrt", SIMNRT_TRUTH=f"{folder}/truth",
                   SIMNRT_JITTER="0", NEURON_RT_EXEC_TIMEOUT="30", **extra)
        for name in ("RANK", "WORLD_SIZE"):
            env.pop(name, None)
        out = subprocess.run([*command, "--ranks", str(ranks), "--cores", str(workers // ranks), "--steps", "6",
                              "--exec-us", "8000", "--straggler", f"{straggler}:20", "--checkpoint-every", "3",
                              "--checkpoint-dir", folder], env=env, text=True, capture_output=True, timeout=100)
        lines = sorted(out.stdout.splitlines())
        want = [f"rank {rank}: 6 steps on {workers // ranks} cores" for rank in range(ranks)]
        assert out.returncode == 0 and lines == want, (out.returncode, out.stdout, out.stderr)
        for step in (3, 6):
            assert os.path.getsize(f"{folder}/checkpoint_{step:06d}.bin") == 16384
        wait = waits(folder)
        assert sorted(wait) == list(range(workers)), wait
        others = [wait[worker] for worker in wait if worker != straggler]
        assert min(others) > wait[straggler], wait  # how much depends on who else uses the machine
        print(f"{command[-1]}: worker {straggler} waits {wait[straggler] / 1e6:.2f} ms, the others "
              f"{min(others) / 1e6:.2f} to {max(others) / 1e6:.2f} ms")


preload = {"LD_PRELOAD": f"{BUILD}/lib/libmeridian.so", "MERIDIAN_CAPTURE": "all"}
for hooked in ({}, preload):
    with tempfile.TemporaryDirectory() as rings:
        if hooked:
            hooked["MERIDIAN_RING_DIR"] = rings
        check([f"{BUILD}/bin/train_loop"], 5, 8, 2, hooked)
        check([sys.executable, f"{SOURCE}/examples/train_loop.py"], 1, 4, 2, hooked)
        assert not hooked or any(name.endswith(".ring") for name in os.listdir(rings))
