"""A session is started for a rank of a job that does not run yet. It must begin without this
process, record it when it starts, and record nothing else."""
from lib import Cluster, check, equal, finish, load_json, need_daemons, need_speed, until

need_daemons()
need_speed()

with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    _, err = c.run("start", "--rank", "5", want=1)
    check("--require 0 waits for what does not run yet" in err, f"without it nothing starts, and it is said how: {err}")
    id = c.start("--require", "0", "--rank", "5")
    equal(c.session(id)["nodes"], [], "it records, on no node")
    nobody = c.start("--require", "0", "--job", "4711")
    _, err = c.run("stop", nobody, want=3)
    check("no node took part: no process of the selected job 4711 was there" in err, f"one that nobody came for says whom it waited for: {err}")
    three, five = c.driver(0, "three", RANK="3"), c.driver(0, "five", RANK="5", MERIDIAN_ENABLE=None)
    for d in (three, five):
        equal(d.tell("load alpha 0"), 0, "load")
    until(lambda: [n["state"] for n in c.session(id)["nodes"]] == ["recording"], "the node takes part when the rank is there")
    until(lambda: any(l["process_id"] == five.pid for m in c.run_json("models", id)["models"] for l in m["loads"]), "and is switched on")
    c.agent(1)
    later = c.driver(1, "later", RANK="5")
    equal(later.tell("load alpha 0"), 0, "load")
    until(lambda: [n["state"] for n in c.session(id)["nodes"]] == ["recording"] * 2, "a node that came later, too")
    c.begun(id, 2)
    for d in (three, five, later):
        equal(d.tell("exec alpha 4"), 0, "it executes")
    c.within_session(id)
    c.stop(id, want=None)
    c.run("fetch", id, "-o", c.path("rank"), "--format", "json", want=None)
    found = {}
    for e in load_json(c.path("rank", "system_profile.json"))["trace_events"]:
        if (e["name"], e["trace_event_source"]) == ("nrt_execute", "nrt_api"):
            found[int(e["process_id"])] = found.get(int(e["process_id"]), 0) + 1
    equal(found, {five.pid: 4, later.pid: 4}, "that rank's executions, and all of them")
finish()
