"""Tests losses that occurred when batches were already closed, so that no stored event states them.
Between two windows of a flight recorder the profile must have a mark, and the report must call the
time "not recorded" and not idle. The same applies if the spool was full while the aggregator was
away."""
import os
import time

from lib import BUILD, Cluster, Program, check, equal, equation, finish, load_json, local_now, need_daemons, need_preload, until
from wait import let_it_run

need_daemons()
need_preload()
LOOP, LIBRARY = os.path.join(BUILD, "bin", "train_loop"), os.path.join(BUILD, "lib", "libmeridian.so")


def loop(c, exec_us):
    """A rank on two cores that executes until it is ended."""
    return c.keep(Program(c.path("loop.log"), [
        LOOP, "--rank", "0", "--steps", "1000000", "--cores", "2", "--exec-us", str(exec_us), "--cc", "4", "--quiet", "--checkpoint-every", "0"],
        env=dict(c.env, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), MERIDIAN_RING_DIR=c.rings(0),
                 MERIDIAN_ENABLE="1", MERIDIAN_CAPTURE="systrace"), stdout=-3))


def results(c, id):
    c.run("fetch", id, "-o", c.path("out"), "--format", "summary-json,report-json,report-text", want=None)
    return load_json(c.path("out", "summary.json"))["summary"]["losses"], load_json(c.path("out", "report.json"))["report"]["workers"]


def unrecorded(c, workers, hole, what):
    """What each worker's parts say of a hole of so many ns."""
    check(workers, f"{what}: workers")
    for w in workers:
        parts = w["parts_ns"]
        equal(sum(v or 0 for v in parts.values()), w["window_ns"], f"{what}: parts of the window")
        check(parts["not_recorded"] > .9 * hole, f"{what}: {parts['not_recorded']} ns not recorded, of a hole of {hole}")
        check(parts["idle"] < w["window_ns"] - parts["not_recorded"], f"{what}: the hole is not idle: {parts}")
    with open(c.path("out", "report.txt")) as f:
        check("Not recorded: events were lost" in f.read(), f"{what}: the report for people says so")


def windows():
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start("--mode", "recorder", "--keep", "2s", "--require", "all")
        w = loop(c, 2000)
        before = until(lambda: c.session(id)["nodes"][0]["counters"]["begun"] > 2000 and c.session(id)["nodes"][0]["counters"]["begun"], "events come")
        asked, at = time.monotonic(), local_now()
        c.run("trigger", id, "--last", "500ms")

        def let_go():
            """Events that nobody wants, of so many seconds, however slow the workload is."""
            drops = [d for d in c.session(id)["nodes"][0]["counters"]["drops"] if d["cause"] == "recorder-window"]
            return any(g["first_local_ns"] > at and g["last_local_ns"] - g["first_local_ns"] > 35 * 10**8 for d in drops for g in d["gaps"])
        until(let_go, "seconds between the windows are let go")
        c.run("trigger", id, "--last", "500ms")
        between = (time.monotonic() - asked) * 10**9
        until(lambda: [t["answered"] for t in c.session(id)["triggers"]] == [1, 1], "both windows are answered")
        w.kill()
        doc = c.stop(id, want=None)
        equation(doc, "windows", dropped=None)
        drops = {d["cause"]: d for d in doc["nodes"][0]["counters"]["drops"]}
        check("recorder-window" in drops and drops["recorder-window"]["count"] > before // 4, f"the recorder let go: {drops}")
        losses, workers = results(c, id)
        equal({l["cause"] for l in losses}, {"recorder-window"}, "marks")
        hole = sum(l["last_ns"] - l["first_ns"] for l in losses)
        check(3 * 10**9 < hole < between, f"the time between the windows is marked, of {between}: {losses}")
        unrecorded(c, workers, hole, "windows")


def memory():
    """A window that reaches back further than the recorder had memory for."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0, recorder_memory="1M")
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start("--mode", "recorder", "--keep", "60s", "--require", "all")
        w = loop(c, 200)
        until(lambda: sum(d["count"] for d in c.session(id)["nodes"][0]["counters"]["drops"] if d["cause"] == "recorder-window") > 5000,
              "the memory is too small")
        held = until(lambda: c.session(id)["nodes"][0]["recorder"], "what the recorder holds is reported")
        check(0 < held["bytes"] <= 1 << 20 and 0 < held["reach_ns"] < 60 * 10**9, f"what the recorder holds: {held}")
        check("holds " in c.run("status", id)[0], "status says how far back the recorder reaches")
        sets = [(c.session(id)["event_set"], "event types: diagnosis" in c.run("status", id)[0], len(c.session(id)["select"]["event_type"]))]
        for types in ("all", "diagnosis", "diagnosis,nrt_tensor_free"):
            c.run("change", id, "--event-type", types)
            sets.append((c.session(id)["event_set"], "event types: " in c.run("status", id)[0], len(c.session(id)["select"].get("event_type", []))))
        equal(sets, [("diagnosis", True, 4), ("all", False, 0), ("diagnosis", True, 4), ("selected", True, 3)], "which events it has, at first and after each change")
        c.run("trigger", id, "--last", "60s")
        until(lambda: [t["answered"] for t in c.session(id)["triggers"]] == [1], "the window is answered")
        w.kill()
        doc = c.stop(id, want=None)
        equation(doc, "memory", dropped=None)
        node = doc["nodes"][0]
        check("recorder" not in node, "nothing is held after the stop")
        drops = {d["cause"]: d for d in node["counters"]["drops"]}
        check(drops.get("recorder-memory", {}).get("count", 0) > 5000, f"the window misses what was forced out: {drops}")
        lost = drops["recorder-memory"]
        hole = lost["last_local_ns"] - lost["first_local_ns"]
        check(node["started_local_ns"] <= lost["first_local_ns"] < lost["last_local_ns"] < node["stopped_local_ns"], f"when it was: {lost}")
        check(abs(node["window_ns"] - node["covered_ns"] - hole) < 10**7, f"covered {node['covered_ns']} of {node['window_ns']}, a hole of {hole}")
        losses, workers = results(c, id)
        check(("recorder-memory", lost["count"]) in [(l["cause"], l["lost"]) for l in losses], f"the profile has a mark: {losses}")
        for w in workers:  # they begin behind the hole
            check(w["window_ns"] < node["window_ns"] - hole, f"memory: the hole is no part of what {w['worker'] if 'worker' in w else 'it'} did")
        with open(c.path("out", "report.txt")) as f:
            check("Not recorded: events were lost" in f.read(), "memory: the report for people says so")


def spool():
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        agent = c.agent(0, spool_size="8M")
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start("--require", "all")
        w = loop(c, 200)
        until(lambda: c.session(id)["nodes"][0]["events"] > 2000, "events are stored")
        c.daemon.kill()
        until(lambda: "AGT-SPOOL-FULL" in agent.text(), "the spool is full", seconds=120)
        let_it_run(1)  # more is forced out
        c.aggregator()
        until(lambda: c.connected() == ["i-test0"], "the agent is connected again")
        c.recording(id, 1)
        w.kill()
        doc = c.stop(id, want=None)
        counters = doc["nodes"][0]["counters"]
        equal(counters["begun"], counters["delivered"] + counters["dropped"], "begun = delivered + dropped")
        drops = {d["cause"]: d for d in doc["nodes"][0]["counters"]["drops"]}
        losses, workers = results(c, id)
        full = [l for l in losses if l["cause"] == "spool-full"]
        equal(sum(l["lost"] for l in full), drops["spool-full"]["count"], "the marks say how many")
        hole = sum(g["last_local_ns"] - g["first_local_ns"] for g in drops["spool-full"]["gaps"])
        unrecorded(c, workers, hole, "spool")


for test in (windows, memory, spool):
    test()
finish()
