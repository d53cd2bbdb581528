"""Events that no session selects must not even be made. The cores and event types of a session
reach the runtime of every process, as long as it records and no other session selects more. Without
a session only events that name models are made. The simulated runtime states for each event whether
its trace recorded it."""
import collections
import glob
import os
import re
import signal
import time

from lib import BUILD, Cluster, Program, check, equal, finish, load_json, need_daemons, until

need_daemons()
LOOP, LIBRARY = os.path.join(BUILD, "bin", "train_loop"), os.path.join(BUILD, "lib", "libmeridian.so")


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def taken(path, core, want, since):
    """Waits until the trace took 20 events of the core after `since` (want "1"), or none of 20 any more ("0"); the time."""
    def is_so():
        with open(path) as f:
            found = [m[2] for m in re.finditer(rf"^[BEI] core={core} .*?raw=(\d+) .*kept=(\d)", f.read(), re.M) if int(m[1]) > since]
        return found.count(want) >= 20 and (want == "1" or found[-20:] == [want] * 20)
    until(is_so, f"events of core {core} are {'' if want == '1' else 'not '}traced")
    return now()


def kept(path, first, last):
    """Of the events between two moments: {(core, type): how many the trace took}."""
    by = collections.Counter()
    with open(path) as f:
        for line in f:
            m = re.match(r"[BEI] core=(\d+) type=(\d+) .*?raw=(\d+) .*kept=(\d)", line)
            if m and m[4] == "1" and first <= int(m[3]) <= last:
                by[int(m[1]), int(m[2])] += 1
    return by


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    w = c.keep(Program(c.path("loop.log"), [LOOP, "--rank", "0", "--steps", "100000000", "--cores", "2", "--exec-us", "2000", "--cc", "0", "--quiet", "--checkpoint-every", "0"],
                       env=dict(c.env, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), MERIDIAN_RING_DIR=c.rings(0), MERIDIAN_ENABLE="1",
                                SIMNRT_TRUTH=c.path("truth"), SIMNRT_EVENT_SCALE="0"), stdout=-3))
    truth = c.path(f"truth.{w.pid}")
    until(lambda: c.nodes()["i-test0"]["processes"] == 1, "the workload is seen")
    settings = lambda: glob.glob(os.path.join(c.rings(0), "*.settings"))

    def only_loads():
        """The process is asked only for the events that name models."""
        try:
            return [open(path).read() for path in settings()] == ["trace_types=nrt_load,nrt_load_collectives\n"]
        except FileNotFoundError:
            return False

    def late(stopped=False):
        """A session of all events: the time from its start in which events were not made, which it counts as lost; 0 without."""
        until(only_loads, "nobody wants its events")
        if stopped:
            os.kill(w.pid, signal.SIGSTOP)
        id = c.start("--require", "all")
        c.begun(id, 1)
        os.kill(w.pid, signal.SIGCONT)
        last = taken(truth, 0, "1", now())
        part, = c.stop(id, want=None)["nodes"]
        until_ns = max([drop["last_local_ns"] for drop in part["counters"]["drops"] if drop["cause"] == "started-late"], default=part["started_local_ns"])
        with open(truth) as f:
            made = [m[2] for m in re.finditer(r"^[BEI] .*?raw=(\d+) .*kept=(\d)", f.read(), re.M) if until_ns <= int(m[1]) <= last]
        check(made and set(made) == {"1"}, f"each event is made from {until_ns} on: {collections.Counter(made)}")
        return until_ns - part["started_local_ns"]

    until(only_loads, "while nobody wants its events, the process is told")
    quiet = taken(truth, 0, "0", now())

    def filtered():
        """Cores and types are asked of the process."""
        try:
            return any("trace_cores=" in open(path).read() for path in settings())
        except FileNotFoundError:
            return False

    until(lambda: now() > quiet + 300_000_000, "a part of a second passes")
    equal(kept(truth, quiet, now()), {}, "the runtime makes nothing of what is only executed")
    check(not late(), "a session has all events from its start on, for the runtime is told before")
    check(late(stopped=True), "what the runtime did not make of a session, because its process did not run, is counted")

    id = c.start("--require", "all", "--core", "1", "--event-type", "device_exec")
    until(filtered, "the process is told")
    first = taken(truth, 0, "0", now())
    last = taken(truth, 1, "1", first)
    wide = c.start("--require", "all")  # a second session that wants everything
    until(lambda: not filtered(), "the filters are taken back")
    both = taken(truth, 0, "1", now())
    until(lambda: len({t for _, t in kept(truth, both, now())}) > 6, "all types of events are traced")
    end = now()
    c.stop(wide)
    until(filtered, "the process is told again")
    c.stop(id)
    until(only_loads, "and of it nothing is left when no session is")
    w.kill()
    narrow, full = kept(truth, first, last), kept(truth, both, end)
    equal({core for core, _ in narrow}, {1}, "only core 1 was traced")
    types = {t for _, t in narrow}
    check(1 <= len(types) <= 2, f"nc_exec_running and sync points only: {narrow}")
    check({core for core, _ in full} == {0, 1} and len({t for _, t in full}) > 6, f"everything while a session wants it: {full}")
    c.run("fetch", id, "-o", c.path("out"), "--format", "json", want=None)
    events = [e for e in load_json(c.path("out", "system_profile.json"))["trace_events"] if e.get("kind") != "loss"]
    equal({e["name"] for e in events if e["trace_event_source"] in ("neuron_rt", "neuron_hw")}, {"nc_exec_running"}, "what the session chose")
    lost = sum(d["count"] for d in c.session(id)["nodes"][0]["counters"]["drops"])
    equal(lost, 0, "changing filters loses nothing")
finish()
