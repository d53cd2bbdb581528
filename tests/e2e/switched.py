"""A program runs with libmeridian preloaded, but not enabled. A session that selects it must turn
recording on and, at its end, off again. A program that is forbidden to record must not be recorded,
and what the program itself requests takes precedence."""
from lib import Cluster, check, equal, finish, load_json, need_daemons, need_speed, until

need_daemons()
need_speed()


def recorded(c, id, name):
    """{(process, source): executions} of a session."""
    c.run("fetch", id, "-o", c.path(name), "--format", "json", want=None, empty=True)
    found = {}
    for e in load_json(c.path(name, "system_profile.json"))["trace_events"]:
        if e["name"] in ("nrt_execute", "nc_exec_running"):
            key = int(e["process_id"]), e["name"], e["trace_event_source"]
            found[key] = found.get(key, 0) + 1
    return found


def executions(d, n):
    return {(d.pid, "nrt_execute", "nrt_api"): n, (d.pid, "nrt_execute", "neuron_rt"): n}


def of_host(found):
    return {k: n for k, n in found.items() if k[1] == "nrt_execute"}


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(c.connected, "the agent is connected")
    waits = c.driver(0, "waits", MERIDIAN_ENABLE=None)
    never = c.driver(0, "never", MERIDIAN_ENABLE="0")
    enabled = c.driver(0, "enabled")
    for d in (waits, never, enabled):
        for line in ("load alpha 0", "exec alpha 2"):
            equal(d.tell(line), 0, line)
    until(lambda: c.nodes()["i-test0"]["processes"] == 2, "the agent knows the one that waits, and the enabled one")
    quiet = c.nodes()["i-test0"]
    check(not any(l["process_id"] == waits.pid for m in c.run_json("models")["models"] for l in m["loads"]), "what waits tells nothing")

    # ---- On for a session, off behind it, on for the next ----
    for turn in range(2):
        id = c.start("--require", "all", "--process-id", f"{waits.pid},{never.pid}")
        until(lambda: any(l["process_id"] == waits.pid for m in c.run_json("models", id)["models"] for l in m["loads"]), "its model, which was loaded before, is told")
        for d in (waits, never):
            equal(d.tell(f"exec alpha {5 + turn}"), 0, "it executes")
        c.stop(id)
        found = recorded(c, id, f"on{turn}")
        equal(of_host(found), executions(waits, 5 + turn), "all that it did in the session, and nothing of the one that may not be recorded")
        check(found.get((waits.pid, "nc_exec_running", "neuron_hw"), 0) >= 5 + turn, f"of the device, too: {found}")
        equal(waits.tell("exec alpha 50"), 0, "behind the session")

    # ---- It is not on for a session that does not select it; the agent that switched it on is gone and comes back ----
    id = c.start("--require", "all", "--process-id", str(enabled.pid))
    for d in (waits, enabled):
        equal(d.tell("exec alpha 3"), 0, "it executes")
    c.stop(id)
    equal(of_host(recorded(c, id, "other")), executions(enabled, 3), "not selected, not recorded")
    id = c.start("--require", "all", "--process-id", str(waits.pid))
    equal(waits.tell("exec alpha 2"), 0, "it executes")
    c.agents[0].kill()
    equal(waits.tell("exec alpha 2"), 0, "while no agent is there")
    c.agent(0)
    until(lambda: [n["state"] for n in c.session(id)["nodes"]] == ["recording"] and c.nodes()["i-test0"]["processes"] == 2, "its successor goes on")
    equal(waits.tell("exec alpha 2"), 0, "it executes")
    c.stop(id)
    equal(of_host(recorded(c, id, "killed")), executions(waits, 6), "it stayed on")
    equal(waits.tell("close"), 0, "it closes the runtime")
finish()
