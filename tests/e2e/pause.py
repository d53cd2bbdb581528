"""A session is paused, continued and changed by a user while it records. All nodes must apply each
change at the same time, even if the agent and the aggregator are killed in between. Afterwards the
session must record what was requested last."""
import glob
import json
import os
import time

from lib import Cluster, check, equal, finish, load_json, need_daemons, need_speed, until

need_daemons()
need_speed()


def recorded(c, id, name):
    """{process: {event: how many}} of a session, of calls and device."""
    c.run("fetch", id, "-o", c.path(name), "--format", "json", want=None)
    found = {}
    for e in load_json(c.path(name, "system_profile.json"))["trace_events"]:
        if (e["name"], e["trace_event_source"]) in (("nrt_execute", "nrt_api"), ("nc_exec_running", "neuron_hw")):
            of = found.setdefault(int(e["process_id"]), {})
            of[e["name"]] = of.get(e["name"], 0) + 1
    return found


def traced(c, d):
    """Whether the runtime's trace takes all that it does now: the events of a load are not left out."""
    for line in ("load probe 0", "unload probe", "flush"):
        equal(d.tell(line), 0, line)
    with open(c.path(f"truth.{d.pid}")) as f:
        return [line for line in f if line[0] in "BEI"][-1].rstrip().endswith("kept=1")


def told(c, id):
    """All nodes have carried out the last change; its time has come."""
    doc = c.session(id)
    last = doc["pauses"][-1] if doc.get("pauses") else {}
    at = last.get("to_ns", last.get("from_ns", 0))
    until(lambda: time.time_ns() > at + 100_000_000, "the time of the change has come")


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(2):
        c.agent(i)
    a, b = c.driver(0, "a", SIMNRT_TRUTH=c.path("truth")), c.driver(1, "b", MERIDIAN_ENABLE=None, SIMNRT_TRUTH=c.path("truth"))
    for d in (a, b):
        equal(d.tell("load alpha 0"), 0, "load")
    until(lambda: sum(n["processes"] for n in c.nodes().values()) == 2, "agents see both")
    settings = lambda i: "".join(open(p).read() for p in glob.glob(os.path.join(c.rings(i), "*.settings")))

    id = c.start("--require", "all")
    until(lambda: "recording=on" in settings(1), "the one that waits is switched on")
    until(lambda: any(l["process_id"] == b.pid for m in c.run_json("models", id)["models"] for l in m["loads"]), "and records")
    for d in (a, b):
        d.tell("exec alpha 3")
    _, err = c.run("resume", id, want=1)
    check("is not paused" in err, f"nothing to resume: {err}")
    c.within_session(id)  # what is under way when the pause is asked for lies before it
    c.run("pause", id)
    _, err = c.run("pause", id, want=1)
    check("is paused already" in err, f"twice: {err}")
    doc = c.session(id)
    equal((doc["paused"], doc["revision"], len(doc["pauses"])), (True, 1, 1), "the manifest says so")
    until(lambda: all("recording=off" in settings(i) for i in range(2)), "workloads are told")
    told(c, id)
    until(lambda: not any(d.tell("recording") for d in (a, b)), "and have seen it")
    for d in (a, b):
        equal(d.tell("exec alpha 20"), 0, "it executes")

    # ---- Whoever dies comes back to a paused session ----
    c.agents[0].kill()
    c.agent(0)
    until(lambda: sorted(n["state"] for n in c.session(id)["nodes"]) == ["recording"] * 2, "the agent is back")
    c.daemon.kill()
    c.aggregator()
    until(lambda: c.answers() and c.connected() == ["i-test0", "i-test1"], "the aggregator is back")
    equal((c.session(id)["paused"], c.session(id)["revision"]), (True, 1), "it is still paused")
    until(lambda: all("recording=off" in settings(i) for i in range(2)), "and so are the workloads")
    for d in (a, b):
        equal(d.tell("exec alpha 20"), 0, "it executes")

    # ---- It goes on ----
    c.run("resume", id)
    equal((c.session(id)["paused"], c.session(id)["revision"]), (False, 2), "the manifest says so")
    until(lambda: all("recording=on" in settings(i) for i in range(2)), "workloads are told")
    told(c, id)
    until(lambda: all(d.tell("recording") for d in (a, b)), "and have seen it")
    until(lambda: all([traced(c, d) for d in (a, b)]), "with which the runtime's trace begins")
    for d in (a, b):
        equal(d.tell("exec alpha 4"), 0, "it executes")

    # ---- It is changed: calls of the program only, from now on ----
    def executed(n):
        found = recorded(c, id, f"so-far-{time.monotonic_ns()}")
        return all(found.get(d.pid) == {"nrt_execute": n, "nc_exec_running": 2 * n} for d in (a, b))
    until(lambda: executed(3 + 4), "what was executed is fetched")
    _, err = c.run("change", id, want=2)
    check("nothing to change" in err, f"nothing: {err}")
    _, err = c.run("change", id, "--event-type", "nc_exec_runing", want=None)
    check("nc_exec_running" in err, f"a type that does not exist, with the nearest: {err}")
    c.run("change", id, "--event-type", "nrt_execute")
    equal(c.session(id)["select"]["event_type"], ["nrt_execute"], "the manifest has the new choice")
    until(lambda: all("trace_types=nrt_execute" in settings(i) for i in range(2)), "the runtimes are told")
    until(lambda: not any([traced(c, d) for d in (a, b)]), "and leave out all else")
    for d in (a, b):
        equal(d.tell("exec alpha 5"), 0, "it executes")
    doc = c.stop(id)
    _, err = c.run("pause", id, want=1)
    check("only one that records can be changed" in err, f"it is over: {err}")
    found = recorded(c, id, "paused")
    for d in (a, b):
        equal(found.get(d.pid, {}).get("nrt_execute"), 3 + 4 + 5, f"executions outside of the pause, and all of them: {found}")
        equal(found.get(d.pid, {}).get("nc_exec_running"), 2 * (3 + 4), f"the device's until the change, two physical cores each: {found}")

    # ---- The paused time is told as such, everywhere, and every part adds up to the window ----
    pause, = doc["pauses"]
    paused = pause["to_ns"] - pause["from_ns"]
    for n in doc["nodes"]:
        equal(n["paused_ns"], paused, "the manifest")
        equal(n["covered_ns"] + n["paused_ns"] + n.get("not_recorded_ns", 0), n["covered_to_ns"] - n["covered_from_ns"], "adds up")
    _, err = c.run("status", id, want=None)
    check("incomplete" not in err, f"it was asked for: {err}")
    known = 2 * 10**6 + 2 * max(n["clock"]["bound_ns"] for n in doc["nodes"])  # to that, the times of both ends are known on two nodes' clocks
    near = lambda ns: abs(ns - paused) < known
    losses = [l for l in load_json(c.path("paused", "system_profile.json"))["losses"] if l["cause"] == "paused"]
    equal(sorted(l["instance_id"] for l in losses), ["i-test0", "i-test1"], "a record on each node's line")
    check(all(near(l["duration"]) and l["lost"] == 0 and abs(l["timestamp"] - pause["from_ns"]) < known for l in losses), f"when it was: {losses} {pause}")
    c.run("fetch", id, "-o", c.path("told"), "--format", "report-json", "--format", "report-text", "--format", "summary-json", "--format", "summary-text", "--format", "perfetto", want=None)
    read = lambda ending: b"".join(open(p, "rb").read() for p in glob.glob(c.path("told", "*")) if p.endswith(ending))
    workers = json.loads(read("report.json"))["report"]["workers"]
    check(len(workers) == 2 and all(near(w["paused_ns"]) and w["parts_ns"]["not_recorded"] == w["paused_ns"] for w in workers), f"the report: {workers}")
    check(all(sum(v or 0 for v in w["parts_ns"].values()) == w["window_ns"] for w in workers), f"its parts: {workers}")
    check(b"Not recorded (paused)" in read("report.txt"), "and in words")
    told_of = [l for l in json.loads(read("summary.json"))["summary"]["losses"] if l["cause"] == "paused"]
    check(len(told_of) == 2 and all(near(l["paused_ns"]) and l["lost"] == 0 for l in told_of), f"the summary: {told_of}")
    check(b"not recorded (paused): " in read("summary.txt"), "and in words")
    check(b"not recorded (paused)" in read(".pftrace"), "the timeline")
    equal([p["counters"]["begun"] - p["counters"]["delivered"] - p["counters"]["dropped"] for p in doc["nodes"]], [0, 0], "nothing is lost uncounted")
finish()
