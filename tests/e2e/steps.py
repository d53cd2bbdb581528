"""Tests sessions that record each process from one step to another. The steps are the numbers that
a program states, or its executions. Some programs begin long after the session, and each process
counts its own steps. No event of these steps may be missing."""
import json

from lib import Cluster, check, equal, finish, load_json, need_daemons, until
from wait import let_it_run

need_daemons()
FROM, TO, LAST = 30, 40, 70


def recorded(c, id):
    """{process: (numbers of its steps, calls of nrt_execute, executions on the device)}"""
    c.run("fetch", id, "-o", c.path(id), "--format", "json", want=None)
    found = {}
    for e in load_json(c.path(id, "system_profile.json"))["trace_events"]:
        steps, counts = found.setdefault(int(e["process_id"]), ([], {}))
        if e["name"] == "step":
            steps.append(int(e["args"]["step"]))
        of = (e["name"], e["trace_event_source"])
        counts[of] = counts.get(of, 0) + 1
    return {pid: (sorted(steps), counts.get(("nrt_execute", "nrt_api"), 0), counts.get(("nc_exec_running", "neuron_hw"), 0) // 2)
            for pid, (steps, counts) in found.items()}


def run_steps(c, driver, first, last):
    equal(driver.tell(f"step alpha {first} {last}"), 0, "steps")


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    _, err = c.run("start", "--from-step", "9", "--to-step", "8", want=2)
    check("from_step" in err and "to_step" in err, f"a range that is none: {err}")

    # ---- Armed for what does not run yet; two programs at different steps ----
    id = c.start("--require", "0", "--from-step", str(FROM), "--to-step", str(TO))
    doc = c.session(id)
    equal((doc["from_step"], doc["to_step"]), (FROM, TO), "the manifest says so")
    by_execution = c.start("--require", "0", "--from-step", str(FROM), "--to-step", str(TO), "--steps", "execution")
    never = c.start("--require", "0", "--rank", "0", "--from-step", "1000000")
    a, b = c.driver(0, "a", SIMNRT_TIME_SCALE="1", RANK="0"), c.driver(0, "b", SIMNRT_TIME_SCALE="1")
    for d in (a, b):
        equal(d.tell("load alpha 0 5000"), 0, "load")
    until(lambda: sum(n["processes"] for n in c.nodes().values()) == 2, "the agent sees both")
    run_steps(c, a, 0, LAST)
    run_steps(c, b, 0, 10)
    let_it_run(1)  # b is at its own step all the time
    run_steps(c, b, 11, LAST)
    let_it_run(1)  # what was executed is fetched
    for s in (id, by_execution):
        c.stop(s)
    _, err = c.run("stop", never, want=3)
    check("is of the selected steps" in err, f"steps that nobody came to are the reason, not whose they are: {err}")
    found = recorded(c, id)
    for d in (a, b):
        steps, calls, device = found[d.pid]
        check(set(range(FROM, TO + 1)) <= set(steps) <= set(range(FROM - 2, TO + 2)), f"these steps, and one beside: {steps}")
        check(TO - FROM + 1 <= calls <= TO - FROM + 4, f"their calls: {calls}")
        check(TO - FROM + 1 <= device <= TO - FROM + 4, f"and what the device did: {device}")
    found = recorded(c, by_execution)
    for d in (a, b):
        _, calls, device = found[d.pid]
        check(TO - FROM + 1 <= calls <= TO - FROM + 4 and TO - FROM + 1 <= device <= TO - FROM + 4, f"by executions: {calls} {device}")
    for s in (id, by_execution):
        for n in c.session(s)["nodes"]:
            counts = n["counters"]
            equal(counts["begun"], counts["delivered"] + counts["dropped"] + counts["held"], "nothing is lost uncounted")
            equal([x for x in counts["drops"] if x["cause"] != "not-recorded"], [], f"and nothing is lost: {json.dumps(counts['drops'])}")
finish()
