#!/usr/bin/env python3
"""Merging a session of many nodes from its journal into one Perfetto file, beside babeltrace2 merging as many events from as many
CTF traces into one CTF trace. CPU and wall seconds, peak memory; every stream interleaves with every other.

usage: bench_journal.py [MILLION_EVENTS]   (default 4, or MERIDIAN_BENCH_MILLIONS; 64 is the whole session of 64 nodes)"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
load = os.path.join(root, "build", "bin", "bench_journal")
millions = float(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MERIDIAN_BENCH_MILLIONS", "4"))
events = int(millions * 1e6)


def measured(*command):
    """Wall and CPU seconds, peak MiB, what it printed."""
    begun = time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = p.stdout.read(), p.stderr.read()
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        sys.exit(f"{command[0]}: {err[-500:]}")
    return time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, out


def tree_bytes(path):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def row(name, streams, wall, cpu, peak, read, written):
    print(f"{name:24} {streams:4} {wall:8.2f} {cpu:8.2f} {cpu * 1e9 / events:9.0f} {peak:9.0f} {read / events:8.2f} {written / events:9.2f}", flush=True)


def compare(streams, aim, folder):
    journal, out = f"{folder}/journal", f"{folder}/out"
    measured(load, "make", journal, str(streams), str(events))
    wall, cpu, peak, text = measured(load, "merge", journal, str(streams), out + ".pftrace")
    said = dict(line.split() for line in text.splitlines())
    if int(said["events"]) != events // streams * streams:
        sys.exit(f"bench_journal: merged {said['events']} events of {events}")
    row("meridian journal", streams, wall, cpu, peak, tree_bytes(journal), int(said["bytes"]))
    shutil.rmtree(journal)
    os.unlink(out + ".pftrace")
    if shutil.which("babeltrace2") is None:
        print("babeltrace2: skipped, it is not installed (Debian package babeltrace2)")
        return
    os.mkdir(f"{folder}/ctf")
    measured(load, "ctf", f"{folder}/ctf", str(streams), str(events))
    theirs = measured("babeltrace2", f"{folder}/ctf", "-o", "ctf", "-w", out)
    row("babeltrace2 -o ctf", streams, *theirs[:3], tree_bytes(f"{folder}/ctf"), tree_bytes(out))
    shutil.rmtree(f"{folder}/ctf")
    shutil.rmtree(out)
    faster, less = theirs[1] / cpu, peak / theirs[2]
    print(f"  CPU {faster:.1f} x less (aim {aim}){'' if faster >= aim else '   missed'}; "
          f"{less:.2f} x its memory (aim 0.5){'' if less <= 0.5 else '   missed'}")


def main():
    if not os.path.exists(load):
        sys.exit("bench_journal: build first (make)")
    print(f"{millions:g} M spans, whole processes")
    print(f"{'':24} {'':4} {'wall s':>8} {'CPU s':>8} {'ns/event':>9} {'peak MiB':>9} {'B read':>8} {'B written':>9}")
    for streams, aim in ((16, 8), (64, 16)):
        with tempfile.TemporaryDirectory(prefix="mrd-bench-") as folder:
            compare(streams, aim, folder)


main()
