#!/usr/bin/env python3
"""The same events from memory to the disk of a receiver over loopback TCP: Meridian's agent and aggregator, LTTng's consumerd
and relayd, and a plain copy of Meridian's bytes. CPU per event (of the node's daemon and of the receiver) is what a core pays;
its inverse is what one core each can carry. Wall time is limited by whoever is slowest, the workload included.

usage: bench_stream.py [MILLION_EVENTS]   (default 8)"""
import glob
import os
import re
import subprocess
import sys
import time

import lttng_session

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
load = os.path.join(os.environ.get("MERIDIAN_BUILD") or os.path.join(root, "build"), "bin", "bench_stream")
events = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 8_000_000


def run(*args):
    done = subprocess.run([load, *map(str, args)], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit(f"bench_stream {args[0]}: exit status {done.returncode}: {done.stderr.strip()}")
    return {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}


# ---- LTTng ----

def lttng():
    if subprocess.run([load, "lttng", "0"], capture_output=True).returncode == 77:
        raise lttng_session.Missing("built without LTTng-UST: install liblttng-ust-dev and build again")
    with lttng_session.Daemons(relay=True) as d:
        d.tool("create", "bench", f"--ctrl-url={d.control}", f"--data-url={d.data}")
        d.tool("enable-channel", "-u", "-s", "bench", "--subbuf-size=4M", "--num-subbuf=8", "ch")
        d.tool("enable-event", "-u", "-s", "bench", "-c", "ch", "meridian_bench:slice")
        d.tool("start", "bench")
        node = d.consumer()
        before = cpu_ns(node), cpu_ns(d.relayd.pid)
        begun = time.monotonic_ns()
        subprocess.run([load, "lttng", str(events)], env=d.env, check=True, timeout=900)
        d.tool("stop", "bench")
        took = time.monotonic_ns() - begun
        result = {"wall_ns": took, "agent_ns": cpu_ns(node) - before[0], "receiver_ns": cpu_ns(d.relayd.pid) - before[1]}
        lost = re.search(r"Discarded events: (\d+)", d.tool("list", "bench"))
        result["lost"] = int(lost.group(1)) if lost else 0
        d.tool("destroy", "bench")
        result["bytes"] = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(d.home + "/out")
                              for name in names if name.startswith("ch"))
        return result


def cpu_ns(pid):
    """CPU time of the threads of a process, in the scheduler's nanoseconds; those that ended are left out (LTTng's daemons keep theirs)."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as f:
            total += int(f.read().split()[0])
    return total


def row(name, r):
    print(f"{name:34} {r['bytes'] / events:7.2f} {r['agent_ns'] / events:8.1f} {r['receiver_ns'] / events:9.1f}"
          f" {1e3 * events / r['agent_ns']:9.1f} {1e3 * events / r['receiver_ns']:9.1f} {1e3 * r['bytes'] / r['receiver_ns']:9.0f}"
          f" {1e3 * events / r['wall_ns']:9.1f}" + (f"   ({r['lost']} events lost)" if r.get("lost") else ""))


def ratio(what, mine, theirs, aim):
    print(f"  {what:44} {mine / theirs:5.2f} x  ({aim})" + ("" if mine <= theirs else "   we lose"))


def main():
    if not os.path.exists(load):
        sys.exit("bench_stream: build first (make)")
    mine = run("ours", events)
    block = mine["bytes"] // max(1, mine["frames"])
    plain = dict(run("copy", mine["bytes"], block), bytes=mine["bytes"])
    print(f"{events / 1e6:g} M spans (time, duration, name, track) to a receiver's disk over loopback TCP; CPU times")
    print(f"{'':34} {'':7} {'node':>8} {'receiver':>9} {'node':>9} {'receiver':>9} {'receiver':>9} {'wall':>9}")
    print(f"{'':34} {'B/event':>7} {'ns/event':>8} {'ns/event':>9} {'M ev/s/c':>9} {'M ev/s/c':>9} {'MB/s/c':>9} {'M ev/s':>9}")
    row("meridian-agent -> aggregator", mine)
    row(f"TCP copy of those bytes ({block // 1024} KiB sends)", plain)
    try:
        peer = lttng()
        row("LTTng consumerd -> relayd", peer)
        print("ratios to LTTng (its probes write packets in the application; its daemons only move them):")
        ratio("bytes per event", mine["bytes"], peer["bytes"], "aim 0.3")
        ratio("CPU of the receiver per event", mine["receiver_ns"], peer["receiver_ns"], "aim 1")
        ratio("CPU of the node's daemon per event", mine["agent_ns"], peer["agent_ns"], "aim 2 at a fifth of the bytes: it encodes")
    except lttng_session.Missing as why:
        print(f"LTTng consumerd -> relayd: skipped, {why}")
    print("from recording to acknowledged (1,000 events/s, one node, disk synced in groups):")
    for flush in (200, 10):
        r = run("latency", 5, flush)
        print(f"  batches closed after {flush:3} ms: p50 {r['p50_us'] / 1e3:.1f} ms, p99 {r['p99_us'] / 1e3:.1f} ms")


main()
