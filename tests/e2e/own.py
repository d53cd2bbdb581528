"""What a program itself does with the runtime reaches the session: a request of the asynchronous interface that ends with 1206 (network proxy failure)
triggers as a call that fails does, on a runtime with both versions of the interface and on one with the newer alone; the file of nrt_trace_stop is found, shipped and listed, wherever the program
put it and whatever it is called. Functions of a runtime that nobody here knows are named once in the log, and in the manifest."""
import os
import subprocess

from lib import BIN, BUILD, Cluster, check, equal, finish, load_json, need_daemons, need_speed, until

need_daemons()
need_speed()

with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(c.connected, "the agent is connected")

    # ---- A request that fails when it completes, long after its schedule call succeeded ----
    for runtime in ("simnrt", "simnrt-new"):
        d = c.driver(0, "fails-" + runtime, runtime=runtime, SIMNRT_FAULT="exec_error:exec=3:status=1206", NEURON_RT_INSPECT_OUTPUT_DIR="")
        until(lambda: c.nodes()["i-test0"]["processes"] == 1, "the program is seen")
        equal(d.tell("load alpha 0"), 0, "load")
        equal(d.tell("async alpha 2"), 0, "two that succeed")
        id = c.start("--mode", "recorder", "--keep", "60s", "--require", "all")
        equal(c.session(id)["triggers"], [], "nothing triggers before")
        equal(d.tell("async alpha 1"), 1206, "the program gets the status")
        got = until(lambda: c.session(id)["triggers"], "the failure triggers by itself")
        check("1206" in got[0]["reason"] and "nrta_execute" in got[0]["reason"], f"its reason names status and request: {got}")
        c.stop(id, want=None)
        c.run("fetch", id, "-o", c.path("fails-" + runtime), "--format", "json", want=None)
        events = load_json(c.path("fails-" + runtime, "system_profile.json"))["trace_events"]
        equal([e["name"] for e in events if e.get("args", {}).get("status") == 1206], ["nrta_execute"], "the request has it, once, and the schedule call has not")
        d.kill()
        until(lambda: c.nodes()["i-test0"]["processes"] == 0, "its rings are drained")

    # ---- The older trace ----
    d = c.driver(0, "traces")
    until(lambda: c.nodes()["i-test0"]["processes"] == 1, "the program is seen")
    equal(d.tell("load alpha 0"), 0, "load")
    id = c.start("--require", "all")
    path = os.path.join(c.folder("elsewhere"), "older.trace")
    with open(os.path.join(c.folder("elsewhere"), "beside.trace"), "w") as f:
        f.write("not named by anybody\n")
    equal(d.tell(f"trace {path} alpha"), 0, "the program traces")
    doc = c.stop(id)
    files = [a for a in doc["artifacts"] if a["process_id"] == d.pid]
    equal([(os.path.basename(a["name"]), a["complete"]) for a in files], [("older.trace", True)], "the file of the trace is shipped, and nothing beside it")
    check(os.path.exists(path), "and stays: it is the program's")
    c.run("fetch", id, "-o", c.path("traces"), "--artifacts", "--format", "summary-text", want=None)
    found = [os.path.join(at, n) for at, _, names in os.walk(c.path("traces")) for n in names if n == "older.trace"]
    equal(len(found), 1, "fetched")
    with open(found[0]) as f:
        check("kind=nrt_trace" in f.read(), "byte for byte what the runtime wrote")

    # ---- A runtime of the future ----
    id = c.start("--require", "all")
    for turn in range(2):
        subprocess.run([os.path.join(BIN, "nrt_prog_next")], check=True, stdout=subprocess.DEVNULL, env=dict(
            c.env, LD_PRELOAD=os.path.join(BUILD, "lib", "libmeridian.so"), LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "test-next"), MERIDIAN_ENABLE="1", MERIDIAN_RING_DIR=c.rings(0)))
        until(lambda: [n for n in os.listdir(c.rings(0)) if n.endswith(".ring") and f".{d.pid}." not in n] == [], "its rings are drained")
    until(lambda: c.session(id)["nodes"][0]["runtime"]["unknown_functions"] == ["nrta_tensor_read@NRT_4.0.0"], f"the manifest names it: {c.session(id)['nodes'][0]['runtime']}")
    equal(c.agents[0].text().count("AGT-RUNTIME"), 1, "and the log, once for two programs")
    check("functions=nrta_tensor_read@NRT_4.0.0" in c.agents[0].text(), "by its name and version")
    c.stop(id, want=None)
finish()
