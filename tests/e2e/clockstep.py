"""The wall clock of one node jumps by an hour, forwards and back, while a session records. The
order and the distances of the node's events must stay the same, also for events of the runtime,
which have wall-clock times. Times that are uncertain must have a wide bound."""
import glob
import json
import os
import re
import subprocess
import time

from lib import BIN, BUILD, Cluster, Program, check, check_ticks, equal, equation, finish, need_daemons, skip, until

HOUR = 3600 * 10**9
need_daemons()
loop, clock = os.path.join(BIN, "train_loop"), os.path.join(BUILD, "lib", "simnrt", "libsimclock.so")
for need in (loop, clock):
    if not os.path.exists(need):
        skip(f"{need} is not built")


def emitted(prefix):
    """True times of the spans' begins and the instants that the simulated runtime says it handed out, per process, in order."""
    out = {}
    for path in glob.glob(prefix + ".*"):
        times = []
        with open(path) as f:
            for line in f:
                if line[0] in "BI" and "kept=1" in line:
                    times.append(int(dict(w.split("=") for w in line[2:].split())["raw"]))
        out[int(path.rsplit(".", 1)[1])] = sorted(times)
    return out


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    for lead in (6, 30, 90):  # seconds until the first step, more on a machine that does much else
        raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        # Node 0 keeps good time; node 1 jumps ahead by an hour and, three seconds later, back.
        wrong = {"MERIDIAN_SIM_CLOCK": f"epoch={raw},wallstep=3600s@{lead}s,wallstep=-3600s@{lead + 3}s"}
        c.agent(1, more=dict(wrong, LD_PRELOAD=clock))
        until(lambda: len(c.connected()) == 2, "both agents are connected")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        id = c.start("--require", "all")
        c.begun(id)
        if time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) < raw + (lead - 3) * 10**9:
            break
        c.agents[1].kill()
        c.stop(id, want=None)
    ticking = [c.workload(0), c.workload(1, more=dict(wrong, LD_PRELOAD=clock))]
    for w in ticking:
        w.run(1)
    truth, jobs = c.path("truth"), []
    while time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) < raw + (lead + 5) * 10**9:  # one after the other: what ends has told the truth
        job = c.keep(Program(c.path("job.log"), [loop, "--ranks", "1", "--cores", "2", "--steps", "20", "--exec-us", "20000", "--quiet",
                                                 "--checkpoint-every", "0"], stdin=subprocess.DEVNULL, env=dict(
            c.env, **wrong, LD_PRELOAD=f"{clock}:{BUILD}/lib/libmeridian.so", LD_LIBRARY_PATH=f"{BUILD}/lib/simnrt", MERIDIAN_ENABLE="1",
            MERIDIAN_CAPTURE="all", MERIDIAN_RING_DIR=c.rings(1), MERIDIAN_CLOCK="raw", SIMNRT_TRUTH=truth)))
        equal(job.p.wait(120), 0, "the job's exit status")
        jobs.append(job.pid)
    for w in ticking:
        w.pause()
    c.within_session(id)
    doc, lasted = c.stop(id), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - before
    equal(doc["state"], "complete", "state")
    equation(doc, "clock step")
    got = c.ticks(id)
    check_ticks(got, {(f"i-test{i}", w.pid): w for i, w in enumerate(ticking)}, "clock step")
    for key, numbers in got.items():
        equal(numbers, sorted(numbers), f"ticks of {key} in the order of the timeline")
    with open(c.path("profile", "system_profile.json")) as f:
        profile = json.load(f)
    # A device's time in an execution during which the clock jumped has no bound, because the device's clock could have jumped as well.
    unknown = {(e["process_id"], e["args"].get("exec_id")) for e in profile["trace_events"] if e.get("clock_bound_ns", 0) is None}
    check(len(unknown) <= 4, f"only executions near a jump have times without a bound: {unknown}")
    spread = [int(e["timestamp"]) for e in profile["trace_events"]]
    check(max(spread) - min(spread) <= lasted, f"everything lies within the session of {lasted / 1e9} s: {(max(spread) - min(spread)) / 1e9} s")
    # The runtime's events, against their true times: session time is the node's clock plus a constant. A span that ended at an
    # earlier wall time than it began at is there as its two ends, both marked.
    want, offset = emitted(truth), int(next(x for x in profile["meridian"]["clocks"] if x.get("node") == "i-test1")["estimate_ns"])
    got = {}
    for e in profile["trace_events"]:
        if e["trace_event_source"] in ("neuron_rt", "neuron_hw") and not e.get("no_start"):
            got.setdefault(int(e["process_id"]), []).append((int(e["timestamp"]) - offset, int(e.get("clock_bound_ns") or 0)))
    check(sorted(got) == sorted(want) and len(want) >= 2, f"processes of the job: {sorted(got)}, {sorted(want)}")
    total, wide = 0, []
    for pid, times in want.items():
        events = sorted(got.get(pid, []))
        equal(len(events), len(times), f"runtime events of {pid}")
        off, bound = max(abs(t - r) for (t, _), r in zip(events, times)), max(b for _, b in events)
        # Each may be off by the bound and by two readings of its clocks, also without a bound.
        check(off <= bound + 10**6, f"events of {pid} are off by at most {off} ns, and say at most {bound} ns")
        wide += [(off, bound)] if bound > 10**6 or off > 10**6 else []
        total += len(events)
    check(len(wide) <= 4, f"only what ran near a step is less well known: {wide}")
    notes = [n for n in profile["meridian"]["notes"] if re.search("wall clock of i-test1 was set 2 times.* by up to 1.0 hours", n)]
    check(notes, f"the profile says that the clock was set: {profile['meridian']['notes']}")
    print(f"{total} runtime events of {len(want)} processes; near a step: (off, bound) {wide}; {len(notes)} notes")
finish()
