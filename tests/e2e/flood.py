"""A process floods its rings, and the agent has too little CPU time for all of its events. Other
processes must lose nothing. The losses of this process must be counted, and the number of begun
events must be what it emitted. Argument: the duration of the flood in seconds."""
import ctypes
import mmap
import os
import sys
import time

from lib import BIN, Cluster, Program, check, check_ticks, equal, equation, finish, need_daemons, skip, until
from wait import let_it_run

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3
QUIET = 3
need_daemons()
flooder = os.path.join(BIN, "capture_workload")
if not os.path.exists(flooder):
    skip(f"{flooder} is not built")

with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0, cpu_limit=25)
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    id = c.start()
    c.begun(id)
    quiet = [c.workload(0, ring_size="512K") for _ in range(QUIET)]
    with open(c.path("counts"), "w+b") as f:  # tests/capture/counts.h: begun, done, ...
        f.truncate(mmap.PAGESIZE)
        shared = mmap.mmap(f.fileno(), mmap.PAGESIZE)
    begun, done = (ctypes.c_uint64 * 2).from_buffer(shared), 0
    flooded = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    flood = c.keep(Program(c.path("flood.log"), [flooder, c.path("counts"), "threads", str(10**12)], env=dict(
        c.env, MERIDIAN_ENABLE="1", MERIDIAN_CAPTURE="annotations", MERIDIAN_RING_DIR=c.rings(0), MERIDIAN_RING_SIZE="1M")))
    until(lambda: begun[1] > 100000, "the flood has begun")
    for w in quiet:
        w.run(0.5)
    let_it_run(seconds)
    until(lambda: c.nodes()["i-test0"]["counters"]["dropped"] > 0, "the flood is more than the agent can take")
    # Their batches arrive while it floods, not only afterwards.
    mark = [w.done for w in quiet]
    before = c.nodes()["i-test0"]["counters"]["delivered"]
    until(lambda: c.nodes()["i-test0"]["counters"]["delivered"] > before, "events arrive during the flood")
    for w in quiet:
        w.pause()
    flood.kill()
    ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    emitted = [w.all for w in quiet]
    c.within_session(id)
    doc = c.stop(id, want=None)
    equal(doc["state"], "complete", "state")
    lost = equation(doc, "flood", dropped=None)
    low, high = begun[1] + sum(emitted), begun[0] + sum(emitted)
    check(low <= doc["begun"] <= high, f"begun {doc['begun']}, of {low} to {high} that the processes say they emitted")
    check(lost > 0, "the flood was more than the agent could take")
    equal(sorted({d["cause"] for d in doc["nodes"][0]["counters"]["drops"]}), ["ring-full"], "causes")
    full = doc["nodes"][0]["counters"]["drops"][0]
    equal(sum(g["count"] for g in full["gaps"]), lost, "the gaps hold all of them")
    check(all(flooded <= g["first_local_ns"] <= g["last_local_ns"] <= ended for g in full["gaps"]), f"it was while it flooded, {flooded} to {ended}: {full}")
    got = c.ticks(id, "profile", "--process-id", ",".join(str(w.pid) for w in quiet))
    check_ticks(got, {("i-test0", w.pid): w for w in quiet}, "quiet processes")
    print(f"{begun[1]} events of a flood in {seconds} s, {lost} of them lost and counted; {sum(emitted)} of {QUIET} quiet processes, none lost")
finish()
