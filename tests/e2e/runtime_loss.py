"""Tests that every event that the runtime makes is in the profile or counted as lost, by cause and
core. The simulated runtime states in a file how many events it made of each core and type. Its
rings are too small, or the agent is away after SIGTERM or SIGKILL, or the rate is so high that all
buffers overflow. Argument: a case, or nothing for all."""
import collections
import os
import random
import re
import sys
import time

from lib import BUILD, Cluster, Program, check, equal, equation, finish, load_json, need_daemons, need_preload, until
from wait import let_it_run

LOOP, LIBRARY = os.path.join(BUILD, "bin", "train_loop"), os.path.join(BUILD, "lib", "libmeridian.so")
CORES = 2
RING = 20000       # events of a core, where a ring is to overrun
UNTIL_TOLD = 10**8
REACH = 100_000_000  # ns: what the agent leaves in the ring of the runtime's trace for a successor holds more than that of this workload
chance = random.Random(int(os.environ.get("MRD_SEED", "1")))
INSTANTS = {"timestamp_sync_point", "hw_notify", "numerical_err"}
need_daemons()
need_preload()


def loop(c, steps, exec_us, scale="1", **env):
    """A rank that executes `steps` times on each of its cores, with the calls of the runtime and its trace recorded; UNTIL_TOLD: until
    end(). Then the execution under way fails, with which the program ends."""
    if steps == UNTIL_TOLD:
        env["SIMNRT_FAULT"] = f"exec_error:file={c.path('end')}"
    return c.keep(Program(c.path("loop.log"), [
        LOOP, "--rank", "0", "--steps", str(steps), "--cores", str(CORES), "--exec-us", str(exec_us), "--cc", "4", "--quiet",
        "--checkpoint-every", "0"], env=dict(
            c.env, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), MERIDIAN_RING_DIR=c.rings(0), MERIDIAN_ENABLE="1",
            MERIDIAN_CAPTURE="systrace", SIMNRT_TRUTH=c.path("truth"), SIMNRT_EVENT_SCALE=scale, **env), stdout=-3))


def end(c, w):
    open(c.path("end"), "w").close()
    until(lambda: not w.running(), "the workload ends")


class Made:
    """How many events the runtime has made, by its truth file."""

    def __init__(self, c, w):
        self.c, self.path, self.at, self.events = c, c.path(f"truth.{w.pid}"), 0, 0
        until(lambda: os.path.exists(self.path), "the runtime is open")

    def look(self):
        with open(self.path, "rb") as f:
            f.seek(self.at)
            text = f.read()
        self.at += len(text)
        self.events += text.count(b"\n")
        return self.events

    def more(self, n):
        """Waits until it has made n more."""
        want = self.look() + n
        until(lambda: self.look() >= want, f"{n} more events are made", 300)


def truth(c, pid):
    """What the runtime made: {core: records}, {core: nc_exec_running}."""
    made, running = collections.Counter(), collections.Counter()
    with open(c.path(f"truth.{pid}")) as f:
        for line in f:
            m = re.match(r"count core=(\d+) type=(\S+) emitted=(\d+)", line)
            if m:
                made[int(m[1])] += int(m[3])
                running[int(m[1])] += int(m[3]) // 2 if m[2] == "nc_exec_running" else 0
    return made, running


def long_calls(c, pid):
    """Spans that lasted longer than REACH, as where a thread had no processor: a killed agent's successor finds the begins of those no
    more, and gives begin and end each for itself."""
    open_at, n = {}, 0
    with open(c.path(f"truth.{pid}")) as f:
        for line in f:
            m = re.match(r"([BE]) core=(\d+) type=\d+ tracking=(\d+) raw=(\d+) ", line)
            if m and m[1] == "B":
                open_at[m[2], m[3]] = int(m[4])
            elif m:
                n += int(m[4]) - open_at.pop((m[2], m[3]), int(m[4])) > REACH
    return n


def profile(c, id):
    """Of the fetched profile: {core: records}, {core: nc_exec_running}, {core: {cause: lost}}, ends without the other."""
    c.run("fetch", id, "-o", c.path(id), "--format", "summary-json,report-json,report-text", want=None)
    doc = load_json(c.path(id, "summary.json"))["summary"]
    records, running, lost, ragged = collections.Counter(), collections.Counter(), {}, 0
    for node in doc["nodes"]:
        for process in node["processes"]:
            for core in process["cores"]:
                if core["lnc_idx"] is None:
                    continue
                pairs = core.get("paired_executions", 0)  # one of the counts below, of which both physical cores recorded begin and end
                records[core["lnc_idx"]] += 2 * pairs
                running[core["lnc_idx"]] += pairs
                for t in core["event_types"]:
                    half = t.get("unfinished", 0) + t.get("no_start", 0)
                    if t["name"] in INSTANTS:
                        half = t["count"]
                    records[core["lnc_idx"]] += 2 * t["count"] - half
                    ragged += half if t["name"] not in INSTANTS else 0
                    if t["name"] == "nc_exec_running":
                        running[core["lnc_idx"]] += t["count"] - half
    for l in doc["losses"]:
        by = lost.setdefault(l["lnc_idx"], collections.Counter())
        by[l["cause"]] += l["lost"]
    return records, running, lost, ragged


def begun(c):
    """A session that records on the node."""
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    id = c.start("--require", "all")
    c.begun(id, 1)
    return id


def ended(c, id, w):
    """Stops when the workload is done and drained; the manifest, and [(made, there, lost, cause)] per core."""
    until(lambda: not w.running(), "the workload is done")
    until(lambda: [n for n in os.listdir(c.rings(0)) if n.endswith(".ring")] == [], "its rings are drained")
    end = c.session(id)["nodes"][0]["local_ns"] + 3 * 10**8
    until(lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) > end, "its last event is before the stop")
    return c.stop(id, want=None)


def account(c, id, w, what):
    """Made by the runtime = in the profile + lost by cause, exactly, of each core. Returns what was made, what is there, and what was lost."""
    made, running = truth(c, w.pid)
    records, seen, lost, ragged = profile(c, id)
    for core in range(CORES):
        gone = sum(lost.get(core, {}).values())
        equal(records[core] + gone, made[core], f"{what}: core {core}: {records[core]} there + {dict(lost.get(core, {}))} lost = made")
    print(f"{what}: made {sum(made.values())}, there {sum(records.values())}, lost {({k: dict(v) for k, v in lost.items()})}, "
          f"ends without the other {ragged}; nc_exec_running {sum(seen.values())} of {sum(running.values())}", flush=True)
    return made, records, lost, ragged


def overrun():
    """Rings of 200 events: the runtime overwrites, silently."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0)
        id = begun(c)
        w = loop(c, 200, 500, NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC="200")
        doc = ended(c, id, w)
        dropped = equation(doc, "overrun", dropped=None)
        made, records, lost, _ = account(c, id, w, "overrun")
        check(all(set(lost[core]) == {"runtime-ring"} for core in range(CORES)), f"both cores lost, and why: {lost}")
        equal(dropped, sum(sum(by.values()) for by in lost.values()), "what the manifest says was lost")
        workers = load_json(c.path(id, "report.json"))["report"]["workers"]
        for i, worker in enumerate(workers):
            equal(sum(worker["parts_ns"].values()), worker["window_ns"], "parts of the window")
            equal(worker["lost"], sum(lost[worker["lnc_idx"]].values()), "the report's count of lost events")
        check(any(worker["parts_ns"]["not_recorded"] > 0 for worker in workers), "time is not recorded")
        with open(c.path(id, "report.txt")) as f:
            check("Not recorded: events were lost" in f.read(), "the report for people says so")


def away(stop, seconds, exec_us=2000, lost=False):
    """The agent is gone for so long while the workload executes; it and its successor lose nothing. With `lost` more than the
    runtime's rings hold is made meanwhile: that is counted, and said to be not recorded."""
    what = f"{stop}, away for {seconds} s"
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        agent = c.agent(0)
        id = begun(c)
        env = {"NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC": str(RING)} if lost else {}
        w = loop(c, UNTIL_TOLD, exec_us, scale="0.2" if lost else "1", **env)
        made = Made(c, w)
        made.more(20000)
        let_it_run(chance.random() * .02)  # not for a condition: it is to be cut anywhere
        agent.end() if stop == "SIGTERM" else agent.kill()
        gone = time.clock_gettime_ns(time.CLOCK_REALTIME)
        let_it_run(seconds)
        if lost:
            made.more(4 * CORES * RING)  # of which a ring holds a quarter
        away_for = time.clock_gettime_ns(time.CLOCK_REALTIME) - gone
        c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "the successor is connected")
        made.more(5000)
        end(c, w)
        over = time.clock_gettime_ns(time.CLOCK_REALTIME)
        doc = ended(c, id, w)
        dropped = equation(doc, what, dropped=None)
        made, records, lost_by, ragged = account(c, id, w, what)
        equal(dropped, sum(sum(by.values()) for by in lost_by.values()), f"{what}: what the manifest says was lost")
        if not lost:
            apart = 2 * long_calls(c, w.pid) if stop == "SIGKILL" else 0
            equal(lost_by, {}, f"{what}: nothing is lost")
            check(ragged <= apart, f"{what}: no end without the other, but of calls that lasted too long: {ragged}, {apart}")
            return
        check(lost_by and all(set(by) == {"runtime-ring"} for by in lost_by.values()), f"{what}: it overran: {lost_by}")
        for l in load_json(c.path(id, "summary.json"))["summary"]["losses"]:
            check(gone - 10**9 < l["first_ns"] <= l["last_ns"] < over, f"{what}: lost between {gone} and {over}: {l}")
        node = doc["nodes"][0]
        check(node["window_ns"] - node["covered_ns"] > away_for // 2, f"{what}: covered_ns shrinks: {node['covered_ns']} of {node['window_ns']}, away for {away_for}")
        for worker in load_json(c.path(id, "report.json"))["report"]["workers"]:
            check(worker["parts_ns"]["not_recorded"] > away_for // 2, f"{what}: the hole is not recorded, away for {away_for}: {worker}")


def term1():
    away("SIGTERM", 1)


def term5():
    away("SIGTERM", 5)


def kill2():
    away("SIGKILL", 2)


def kill5():
    away("SIGKILL", 5)


def fast():
    """More than rings of 20,000 events hold is made while the agent is away."""
    away("SIGKILL", 1, lost=True)


def outlived():
    """The workload ends while the agent is away: what the ring does not hold is in rings of its own."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        agent = c.agent(0)
        id = begun(c)
        w = loop(c, UNTIL_TOLD, 500)
        made = Made(c, w)
        made.more(10000)
        agent.kill()
        made.more(50000)
        end(c, w)
        check(len(os.listdir(c.rings(0))) > 1, f"rings of the rest: {os.listdir(c.rings(0))}")
        c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "the successor is connected")
        doc = ended(c, id, w)
        equation(doc, "outlived")
        _, _, lost, ragged = account(c, id, w, "ended while the agent is away")
        equal(lost, {}, "nothing is lost")


def failing():
    """A call of core 1 that lasts longer than a ring holds texts back ends by an error, and with it the program, while the agent, killed, is
    away: its begin is in the profile as unfinished, with its core, and its end as an end."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        agent = c.agent(0)
        id = begun(c)
        w = c.driver(0, "failing", MERIDIAN_CAPTURE="systrace", MERIDIAN_RING_SIZE="256K", SIMNRT_TRUTH=c.path("truth"), SIMNRT_FAULT=f"exec_error:core=1:file={c.path('end')}")
        equal(w.tell("load long 1 50000"), 0, "load")
        w.say("repeat long 100000")
        until(lambda: c.session(id)["events"] > 5000, "much of it is stored")
        agent.kill()
        Made(c, w).more(20000)
        open(c.path("end"), "w").close()
        equal(w.answer(), 1004, "the execution ends by an error")
        w.p.stdin.close()
        until(lambda: not w.running(), "the program is done")
        c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "the successor is connected")
        doc = ended(c, id, w)
        equation(doc, "failing")
        _, _, lost, ragged = account(c, id, w, "ended by an error while the agent is away")
        equal((lost, ragged), ({}, 2), "nothing is lost: the begin and the end of the call are there, each for itself")


if __name__ == "__main__":
    cases = {f.__name__: f for f in (overrun, term1, term5, kill2, kill5, fast, outlived, failing)}
    for name in sys.argv[1:] or cases:
        cases[name]()
    finish()
