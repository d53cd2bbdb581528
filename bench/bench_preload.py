#!/usr/bin/env python3
"""What recording costs a workload: wall time of the simulated training loop, plain and under the preload,
interleaved, medians of five."""
import os
import statistics
import subprocess
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
build = os.path.join(root, "build")
loop = [os.path.join(build, "bin", "train_loop"), "--ranks", "1", "--cores", "2", "--steps", "200", "--exec-us", "10900", "--cc", "98",
        "--checkpoint-every", "0", "--quiet"]
env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(build, "lib", "simnrt"))
library = os.path.join(build, "lib", "libmeridian.so")


def wall(command, more):
    start = time.monotonic()
    subprocess.run(command, env=dict(env, **more), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start


with tempfile.TemporaryDirectory(prefix="mrd-bench-") as work, tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
    preload = {"LD_PRELOAD": library, "MERIDIAN_ENABLE": "1", "MERIDIAN_RING_DIR": rings}
    ways = {"plain": (loop, {}),
            "preload, calls only, no reader": (loop, dict(preload, MERIDIAN_CAPTURE="api,annotations")),
            "preload, all data sources, no reader": (loop, preload)}
    times = {name: [] for name in ways}
    for _ in range(5):
        for name, (command, more) in ways.items():
            times[name].append(wall(command, more))
            for ring in os.listdir(rings):
                os.unlink(os.path.join(rings, ring))
    base = statistics.median(times["plain"])
    for name, measured in times.items():
        t = statistics.median(measured)
        print(f"  {name:<32} {t:6.3f} s  {100 * (t - base) / base:+5.2f} %   [{min(measured):.3f} .. {max(measured):.3f}]")
