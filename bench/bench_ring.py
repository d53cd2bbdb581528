#!/usr/bin/env python3
"""bench_ring with a session of LTTng (a snapshot session: its flight recorder) that records the tracepoints it compares with.

usage: bench_ring.py [ROUNDS [MILLIONS]]"""
import os
import subprocess
import sys

import lttng_session

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
program = os.path.join(root, "build", "bin", "bench_ring")


def main():
    if not os.path.exists(program):
        sys.exit("bench_ring: build first (make)")
    try:
        with lttng_session.Daemons() as d:
            d.tool("create", "bench", "--snapshot")
            d.tool("enable-event", "-u", "-s", "bench", "meridian_bench:*")
            d.tool("start", "bench")
            # The application waits until the session is known to it.
            env = dict(d.env, LTTNG_UST_REGISTER_TIMEOUT="-1")
            return subprocess.run([program, *sys.argv[1:]], env=env).returncode
    except lttng_session.Missing as why:
        print(f"no session of LTTng: {why}", flush=True)
        return subprocess.run([program, *sys.argv[1:]]).returncode


sys.exit(main())
