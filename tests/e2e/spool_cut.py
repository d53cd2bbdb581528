"""The files of an agent's spool are cut by another program. Committed events that are neither
answered nor still there must be counted as lost with the cause spool-damaged, and every event must
be in the profile or in this count. Prints its seed."""
import glob
import os
import random

from lib import Cluster, check, equal, equation, finish, load_json, need_daemons, until
from wait import pace

seed = int(os.environ.get("MRD_SEED", "1"))
print(f"seed {seed} (MRD_SEED)", flush=True)
chance = random.Random(seed)
need_daemons()

with Cluster(node_timeout="60s") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    agent = c.agent(0)
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    id = c.start("--require", "all")
    c.begun(id, 1)
    w = c.workload(0)
    w.emit(2000)
    c.daemon.kill()  # from now on all of it stays in the spool
    for _ in range(10):
        w.emit(2000)
        pace(.25)  # a commit each
    until(lambda: sum(os.path.getsize(p) for p in glob.glob(c.path("spool0", "spool-*.mrs"))) > 20000, "the spool has them")
    agent.kill()
    last = sorted(glob.glob(c.path("spool0", "spool-*.mrs")))[-1]
    whole = os.path.getsize(last)
    os.truncate(last, chance.randrange(whole // 8, whole // 2))
    c.aggregator()
    until(c.answers, "the aggregator answers again")
    agent = c.agent(0)
    until(lambda: "AGT-SPOOL-DAMAGED" in agent.text(), "the agent says that its spool was cut")
    until(lambda: c.connected() == ["i-test0"], "the successor is connected")
    c.recording(id, 1)
    w.emit(100)
    c.within_session(id)
    doc = c.stop(id, want=3)
    lost = equation(doc, "cut", dropped=None)
    drops = {d["cause"]: d for d in doc["nodes"][0]["counters"]["drops"]}
    equal(set(drops), {"spool-damaged"}, "why")
    check(drops["spool-damaged"]["last_local_ns"] > drops["spool-damaged"]["first_local_ns"] >= doc["nodes"][0]["started_local_ns"], f"when: {drops}")
    check(doc["nodes"][0]["covered_ns"] < doc["nodes"][0]["window_ns"] - drops["spool-damaged"]["last_local_ns"] +
          drops["spool-damaged"]["first_local_ns"] + 10**9, "covered_ns shrinks")
    c.run("fetch", id, "-o", c.path("sum"), "--format", "summary-json", want=None)
    losses = load_json(c.path("sum", "summary.json"))["summary"]["losses"]
    equal([(l["cause"], l["lost"]) for l in losses], [("spool-damaged", lost)], "the profile has a mark of it")
    c.run("fetch", id, "-o", c.path("rep"), "--format", "report-text", want=None)
    with open(c.path("rep", "report.txt")) as f:
        check("spool-damaged" in " ".join(f.read().split()), "the report says so")
    out, _ = c.run("nodes")
    check(f"i-test0 lost {lost} events with its spool" in out, f"nodes says so: {out}")
    out, _ = c.run("doctor", "--spool-dir", c.path("spool0"), want=None)
    check(f"{lost} events went with the spool" in " ".join(out.split()), f"doctor says so: {out}")
    there = sum(len(numbers) for numbers in c.ticks(id).values())
    print(f"{w.done} emitted, {there} there, {lost} counted as lost")
    check(w.done <= there + lost <= w.done + 2, f"every tick is there or lost, and at most two events besides: {there} + {lost}, of {w.done}")
    check(lost > 0, "something was cut")
finish()
