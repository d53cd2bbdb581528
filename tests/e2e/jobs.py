"""Tests that sessions and profiles state which job, step and pod was recorded, and that users can
list, search and delete them by these properties."""
import json

from lib import Cluster, check, equal, finish, load_json, need_daemons, until

need_daemons()
ALICE = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train", "SLURM_JOB_USER": "alice", "SLURM_ARRAY_JOB_ID": "4708", "SLURM_ARRAY_TASK_ID": "3",
         "SLURM_STEP_ID": "0", "SLURM_JOB_PARTITION": "main", "SLURM_CLUSTER_NAME": "trn", "SLURM_RESTART_COUNT": "1"}
POD = {"POD_NAME": "train-0", "POD_NAMESPACE": "ml", "MERIDIAN_JOB": "night", "MERIDIAN_LABELS": "app=dlrm,team=x"}


def found(c, *options):
    return [s["id"] for s in json.loads(c.run("sessions", "--json", *options)[0])["sessions"]]


def record(c, i, *options):
    c.record(f"out{i}", lambda part: part["events"] > 100, "--instance-id", f"i-test{i}", "--format", "json", *options)
    return json.loads(c.run("sessions", "--json")[0])["sessions"][-1]["id"]


def without_kernel(job):
    return {k: v for k, v in job.items() if k != "uid"}


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0)
    c.agent(1)
    until(lambda: len(c.connected()) == 2, "the agents are connected")
    a, b = c.workload(0, more=ALICE), c.workload(1, more=POD)
    a.run(1)
    b.run(1)
    first, second = record(c, 0, "--job", "4708_3"), record(c, 1, "--job", "night")

    jobs = [without_kernel(j) for j in c.session(first)["jobs"]]
    equal(jobs, [{"job": "4711", "job_name": "train", "user": "alice", "cluster": "trn", "partition": "main", "array_job": "4708", "array_task": "3",
                  "step": "0", "restart": "1"}], "who was recorded, of Slurm")
    jobs = [without_kernel(j) for j in c.session(second)["jobs"]]
    equal(jobs, [{"job": "night", "namespace": "ml", "pod": "train-0", "label.app": "dlrm", "label.team": "x"}], "who was recorded, of a pod")
    check(c.session(first)["jobs"][0]["uid"].isdigit(), "whose the processes are says the kernel")
    process = [p for p in load_json(c.path("out0", "system_profile.json"))["meridian"]["processes"] if not p.get("node")][0]
    check({"user=alice", "partition=main", "restart=1", "step=0"} <= set(process["labels"].split(",")), f"the profile says it: {process}")

    for options, want in [(["--job", "4711"], [first]), (["--job", "4708_3"], [first]), (["--user", "alice", "--partition", "main"], [first]),
                          (["--user", "alice", "--restart", "0"], []), (["--restart", "1"], [first]), (["--namespace", "ml"], [second]),
                          (["--label", "app=dlrm"], [second]), (["--label", "app=other"], []), (["--search", "DLRM"], [second]),
                          (["--search", "train"], [first, second]), (["--pod", "train-0", "--state", "complete"], [second]), ([], [first, second])]:
        equal(found(c, *options), want, f"sessions {options}")
    check("4708_3 alice train" in c.run("sessions")[0], "the table says whose they are")
    for limit, options, want in ((1, [], [second]), (2, [], [first, second]), (9, [], [first, second]), (1, ["--user", "alice"], [first]), (1, ["--user", "bob"], [])):
        equal(found(c, *options, "--limit", str(limit)), want, f"sessions {options} --limit {limit}")
    out, err = c.run("sessions", "--limit", "1")
    equal((len(out.splitlines()), second in out, err), (2, True, "the newest 1 of 2 sessions\n"), "a table of the newest")
    equal(c.run("sessions", "--limit", "2")[1], "", "nothing is left out")

    # The manifest has it over a restart of the aggregator.
    c.daemon.kill()
    c.aggregator()
    until(lambda: len(c.connected()) == 2, "the agents are connected again")
    equal(found(c, "--user", "alice"), [first], "after a restart")

    _, err = c.run("sessions", "--delete", want=2)
    check("needs at least one filter" in err, f"delete of everything: {err}")
    _, err = c.run("sessions", "--delete", "--job", "4711", "--limit", "1", want=2)
    check("--delete and --limit exclude each other" in err, f"delete of the newest: {err}")
    out, _ = c.run("sessions", "--delete", "--user", "bob")
    equal(out, "", "nothing of bob")
    out, _ = c.run("sessions", "--delete", "--job", "4711")
    equal(out.split(), [first], "deleted by its job")
    until(lambda: found(c) == [second], "one is left")
    open_one = c.start("--name", "open")
    out, _ = c.run("sessions", "--delete", "--search", "open", want=3)
    equal(out, "", "what is open stays")

    # All that is open is stopped, and nothing else.
    beside = c.start("--name", "beside")
    _, err = c.run("stop", "--all", open_one, want=2)
    check("leave the session out" in err, f"all and one: {err}")
    equal({c.session(i)["state"] for i in (open_one, beside)}, {"recording"}, "a wrong usage stops nothing")
    stopped = json.loads(c.run("stop", "--all", "--json", empty=True)[0])["sessions"]
    equal([(s["id"], s["state"]) for s in stopped], [(open_one, "complete"), (beside, "complete")], "all that were open")
    out, _ = c.run("stop", "--all")
    equal(out, "no session is open\n", "nothing is left to stop")
    equal(json.loads(c.run("stop", "--all", "--json")[0]), {"sessions": []}, "nothing is left to stop, as JSON")
    third = c.start("--name", "third")
    out, _ = c.run("stop", "--all", empty=True)
    check(f"meridian fetch {third}" in out, f"what to do next: {out}")

    # The oldest come first, also when one of them is deleted, and as they are found by a start.
    equal(found(c), [second, open_one, beside, third], "sessions by age")
    c.run("sessions", "--delete", "--name", "open")
    until(lambda: open_one not in found(c), "one of them is gone")
    equal(found(c), [second, beside, third], "by age without one of them")
    equal(found(c, "--limit", "2"), [beside, third], "the newest of them")
    more = [c.start("--name", f"s{i}") for i in range(8)]
    c.run("stop", "--all", empty=True)
    c.daemon.kill()
    c.aggregator()
    until(c.answers, "the aggregator answers again")
    equal(found(c), [second, beside, third, *more], "by age after a restart")
finish()
