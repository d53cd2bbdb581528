"""What is running when a session stops, or when the window of a trigger ends, must be in the
profile. This includes calls, operations that the runtime has begun, and spans of the program, each
with its start, even if it began before the session. If the end of a span arrives later, the
finished span replaces the unfinished one."""
import os
import time

from lib import BUILD, Cluster, Program, check, equal, equation, finish, load_json, need_daemons, until
from wait import let_it_run

need_daemons()
LOOP, LIBRARY = os.path.join(BUILD, "bin", "train_loop"), os.path.join(BUILD, "lib", "libmeridian.so")


def loop(c, i, exec_us, **env):
    """A rank with one core whose every execution takes so long."""
    return c.keep(Program(c.path(f"loop{i}.log"), [LOOP, "--rank", "0", "--steps", "1000", "--cores", "1", "--exec-us", str(exec_us), "--cc", "0", "--quiet",
                                                   "--checkpoint-every", "0"],
                          env=dict(c.env, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), MERIDIAN_RING_DIR=c.rings(i),
                                   MERIDIAN_ENABLE="1", SIMNRT_JOB=c.job(f"loop{i}"), SIMNRT_EVENT_SCALE="0", SIMNRT_TRUTH=c.path("truth"), **env), stdout=-3))


def executes(c, w):
    """Waits until its first execution is on the device: the runtime's truth file is written so far before one that takes long."""
    def is_so():
        try:
            with open(c.path(f"truth.{w.pid}")) as f:
                return "\nB core=0" in f.read()
        except FileNotFoundError:
            return False
    until(is_so, "the workload executes")


def fetched(c, id, name):
    c.run("fetch", id, "-o", c.path(name), "--format", "json,summary-json,report-text,report-json,perfetto", want=None)
    return load_json(c.path(name, "system_profile.json"))


def spans(doc, name):
    return [e for e in doc["trace_events"] if e["name"] == name]


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")

    # ---- stopped in the middle of an execution that began before the session ----
    w = loop(c, 0, 600_000_000)
    until(lambda: c.nodes()["i-test0"]["processes"] == 1, "the workload is seen")
    executes(c, w)
    let_it_run(0.2)  # so that its begin lies clearly before the session
    id = c.start("--require", "all")
    begun = time.time_ns()
    doc = c.stop(id)
    part = doc["nodes"][0]
    equation(doc, "stopped")
    profile = fetched(c, id, "stopped")
    for name, sources in (("nrt_execute", ["neuron_rt", "nrt_api"]), ("kbl_exec_wait", ["neuron_rt"]), ("step", ["annotation"])):
        found = spans(profile, name)
        equal(sorted(e["trace_event_source"] for e in found), sources, f"{name}: {found}")
        for e in found:
            check(e.get("unfinished") and e["duration"] == 0, f"{name} is unfinished: {e}")
            check(e["timestamp"] < begun - 10**8, f"{name} began before the session: {e['timestamp']}, {begun}")
            equal(e["args"].get("in_flight"), "stop", f"{name} says so")
    equal(part["tally"]["in_flight"], sum(1 for e in profile["trace_events"] if e.get("unfinished")), "the manifest counts them")
    check({"nrt_execute", "nc_exec_running"} <= set(part["runtime"]["event_types"]), f"what the runtime can do: {part.get('runtime')}")
    equal(part["runtime"]["unknown_functions"], [], "and all of its functions are known")
    labels = "instance_type=trn2.48xlarge,arch=NCv3,core_count=64,logical_core_count=64"
    equal(part["runtime"].get("labels"), labels, "what it says about the node")
    check(all(("," + p["labels"]).endswith("," + labels) for p in profile["meridian"]["processes"]), f"and its process in the profile: {profile['meridian']['processes']}")
    summary = load_json(c.path("stopped", "summary.json"))["summary"]
    equal(summary["unfinished"], part["tally"]["in_flight"], "and the summary")
    report = load_json(c.path("stopped", "report.json"))["report"]
    equal(report["totals"]["not_ended"], part["tally"]["in_flight"], "and the report")
    inner = report["not_ended"][0]
    latest = max((e for e in profile["trace_events"] if e.get("unfinished")), key=lambda e: e["timestamp"])
    equal((len(report["not_ended"]), inner["name"], int(inner["start_ns"])), (1, latest["name"], latest["timestamp"]), "the innermost of the process")
    equal(inner["spans"], part["tally"]["in_flight"], "and how many there are")
    check(inner["for_ns"] > 10**8, f"open until the stop: {inner}")
    with open(c.path("stopped", "report.txt")) as f:
        text = f.read()
    check("Open at the end" in text and inner["name"] in text, f"the report for people: {text}")
    w.kill()

    # ---- a trigger while one runs that will fail; the error comes before the next trigger ----
    until(lambda: c.nodes()["i-test0"]["processes"] == 0, "its rings are drained")
    id = c.start("--mode", "recorder", "--keep", "60s", "--require", "all")
    w = loop(c, 0, 20_000_000, SIMNRT_FAULT="exec_error:exec=1:status=1206")
    until(lambda: c.nodes()["i-test0"]["processes"] == 1, "the workload is seen")
    executes(c, w)
    c.run("trigger", id, "--reason", "early", want=None)
    early = until(lambda: c.session(id)["nodes"][0]["tally"]["in_flight"], "spans in flight at the trigger")
    check(w.running(), "the execution was still running")
    until(lambda: any("1206" in t["reason"] for t in c.session(id)["triggers"]), "the failure triggers by itself")
    doc = c.stop(id, want=None)
    profile = fetched(c, id, "failed")
    calls = [e for e in spans(profile, "nrt_execute") if e["trace_event_source"] == "nrt_api"]
    failed = [e for e in calls if e.get("args", {}).get("status") == 1206]
    equal(len(failed), 1, f"the call that failed is there once: {calls}")
    equal([e["timestamp"] for e in calls].count(failed[0]["timestamp"] if failed else 0), 1, "and not unfinished beside it")
    check(early > 0 and doc["nodes"][0]["tally"]["in_flight"] >= early, f"counted: {early}")
    w.kill()
finish()
