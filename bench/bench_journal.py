#!/usr/bin/env python3
"""Merging a session of many nodes from its journal, beside babeltrace2 merging as many events from CTF.

What is compared: both read binary streams from disk, bring all events into one order of time, and write them
to disk in a format that viewers open. Ours reads the journal (zstd, checksums checked), maps every time to session time, and writes
one Perfetto file: two packets a span, lanes found, 32 bytes (46 in a session of at most two million events, where each slice
says its node and process; MILLION_EVENTS 1 shows it). babeltrace2 (-o ctf) reads one trace per node with one packed stream
(as LTTng leaves them), merges, and writes CTF: one event a span, 32 bytes; it does not align clocks and writes one folder per node.
So ours does more, on one thread as babeltrace2 does; both are whole processes, the better of ROUNDS runs in turn. Every stream
interleaves with every other, event by event, which is the worst case of a merge.

usage: bench_journal.py [MILLION_EVENTS [STREAMS,...]]   (default 4, or MERIDIAN_BENCH_MILLIONS, and 16,64,1024; 64 million over 64
streams is the whole session of 64 nodes). With more than 64 streams babeltrace2 is left out: its merge looks at every stream for
every event."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
load = os.path.join(root, "build", "bin", "bench_journal")
millions = float(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MERIDIAN_BENCH_MILLIONS", "4"))
wanted = [int(n) for n in (sys.argv[2] if len(sys.argv) > 2 else "16,64,1024").split(",")]
events = int(millions * 1e6)
ROUNDS = 3 if millions <= 8 else 1
AIMS = {16: 8, 64: 16}


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


def row(name, streams, run, read):
    cpu, wall, peak, written = run
    print(f"{name:24} {streams:4} {wall:8.2f} {cpu:8.2f} {cpu * 1e9 / events:9.0f} {peak:9.0f} {read / events:8.2f} {written / events:9.2f}", flush=True)


def ours(streams, folder):
    wall, cpu, _, text = measured(load, "merge", f"{folder}/journal", str(streams), f"{folder}/out.pftrace", str(events))
    said = dict(line.split() for line in text.splitlines())
    if int(said["events"]) != events // streams * streams:
        sys.exit(f"bench_journal: merged {said['events']} events of {events}")
    os.unlink(f"{folder}/out.pftrace")
    return cpu, wall, int(said["peak_kib"]) / 1024, int(said["bytes"])


def theirs(folder):
    wall, cpu, peak, _ = measured("babeltrace2", f"{folder}/ctf", "-o", "ctf", "-w", f"{folder}/out")
    written = tree_bytes(f"{folder}/out")
    shutil.rmtree(f"{folder}/out")
    return cpu, wall, peak, written


def compare(streams, folder):
    both = shutil.which("babeltrace2") is not None and streams <= 64
    measured(load, "make", f"{folder}/journal", str(streams), str(events))
    if both:
        os.mkdir(f"{folder}/ctf")
        measured(load, "ctf", f"{folder}/ctf", str(streams), str(events))
    runs = [(ours(streams, folder), theirs(folder) if both else None) for _ in range(ROUNDS)]
    best = min(mine for mine, _ in runs)
    row("meridian journal", streams, best, tree_bytes(f"{folder}/journal"))
    if not both:
        if streams <= 64:
            print("babeltrace2: skipped, it is not installed (Debian package babeltrace2)")
        return
    peer = min(other for _, other in runs)
    row("babeltrace2 -o ctf", streams, peer, tree_bytes(f"{folder}/ctf"))
    faster, less, aim = peer[0] / best[0], best[2] / peer[2], AIMS.get(streams, 0)
    print(f"  CPU {faster:.1f} x less (aim {aim}){'' if faster >= aim else '   missed'}, wall {peer[1] / best[1]:.1f} x; "
          f"{less:.2f} x its memory (aim 0.5){'' if less <= 0.5 else '   missed'}")


def main():
    if not os.path.exists(load):
        sys.exit("bench_journal: build first (make)")
    print(f"{millions:g} M spans, whole processes, the better of {ROUNDS} runs in turn")
    print(f"{'':24} {'':4} {'wall s':>8} {'CPU s':>8} {'ns/event':>9} {'peak MiB':>9} {'B read':>8} {'B written':>9}")
    for streams in wanted:
        with tempfile.TemporaryDirectory(prefix="mrd-bench-") as folder:
            compare(streams, folder)


main()
