#!/usr/bin/env python3
"""The whole way, file to file: generated Kineto JSON through `meridian view` into a Perfetto file, and the same file into
Perfetto's trace_processor. CPU seconds (user + system), peak memory, bytes per span; the last column is the ratio.

usage: bench_view.py [EVENTS]   (default 1000000; the importer's part is skipped where npm or node is absent)"""
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
meridian = os.path.join(root, "build", "bin", "meridian")
events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000


def generate(path):
    """Kineto-like: nested CPU operators with shapes, device kernels, correlation ids."""
    rng = random.Random(1)
    names = ["aten::" + w for w in ("mm", "add_", "copy_", "linear", "relu", "layer_norm", "empty", "view")] + ["train_step"]
    with open(path, "w") as f:
        f.write('{"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,"traceEvents":[\n')
        now = 0
        for i in range(events):
            now += rng.randrange(200, 4000)
            tid, name = (7, "kernel_%d" % rng.randrange(40)) if i % 4 == 3 else (100 + i % 3, names[rng.randrange(len(names))])
            f.write('{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":%d,"ts":%d.%03d,"dur":%d.%03d,"args":{"External id":%d,"Input Dims":[[%d,64],[]],'
                    '"correlation":%d}},\n' % (name, tid, now // 1000, now % 1000, rng.randrange(1, 60), rng.randrange(1000), i, rng.randrange(512), i // 2))
        f.write('{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}}]}\n')


def measured(command, **more):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(command, capture_output=True, text=True, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode != 0:
        sys.exit(f"{command[0]}: {p.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


with tempfile.TemporaryDirectory(prefix="mrd-bench-") as work:
    source = os.path.join(work, "trace.json")
    generate(source)
    size = os.path.getsize(source) / 1e6
    print(f"{events} events, {size:.0f} MB of Kineto JSON")
    for label, flags in (("plain", []), ("--compress", ["--compress"])):
        out = os.path.join(work, label)
        cpu, rss = measured([meridian, "view", source, "-o", out, "--output-format", "perfetto", *flags])
        written = os.path.getsize(os.path.join(out, "system_profile.pftrace"))
        print(f"  meridian view, {label:<11} {cpu:6.2f} s  {size / cpu:5.0f} MB/s  {events / cpu / 1e6:5.2f} M events/s  peak {rss:4.0f} MiB  "
              f"{written / events:5.1f} bytes per span")
        if label == "plain":
            ours = cpu
    assets = os.path.join(root, "build", "tp")
    fetched = subprocess.run(["sh", os.path.join(root, "tests/e2e/fetch_trace_processor.sh"), assets], capture_output=True, text=True)
    if fetched.returncode != 0:
        print("  trace_processor:", fetched.stdout.strip())
        sys.exit(0)
    for label, path in (("our Perfetto file", os.path.join(work, "plain", "system_profile.pftrace")), ("the JSON itself", source)):
        cpu, rss = measured(["node", os.path.join(root, "tests/e2e/trace_processor.mjs")], env=dict(os.environ, TP_ASSETS=assets),
                            input=json.dumps({"trace": path, "sql": ["select count(*) from slice"]}) + "\n")
        print(f"  trace_processor (wasm) importing {label:<18} {cpu:6.2f} s  peak {rss:5.0f} MiB  {cpu / ours:5.1f} x our conversion")
