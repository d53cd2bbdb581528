"""Tests the sessions of jobs. A file of the scheduler's hook, or the statement of a process, begins
the session on every node of the job, and the end of the job ends it. The session must be complete
from its first event. The aggregator decides by its policy."""
import datetime
import json
import os
import subprocess
import time

from lib import MERIDIAN, Cluster, Program, check, check_ticks, equal, finish, need_daemons, ticks_in, until

need_daemons()
UID = os.getuid()


def job_file(c, i, job, ended=False, **more):
    """What the scheduler's hook writes on node i: by rename, as the hook does."""
    lines = {"job": job, "uid": UID, "user": "alice", "cluster": "trn", **more, **({"ended": 1} if ended else {})}
    path = os.path.join(c.folder(f"jobs{i}"), f".{job}.new")
    with open(path, "w") as f:
        f.write("".join(f"{k}={v}\n" for k, v in lines.items()))
    os.chmod(path, 0o600)
    os.rename(path, os.path.join(c.folder(f"jobs{i}"), str(job)))


def agent(c, i, **options):
    os.chmod(c.folder(f"jobs{i}"), 0o755)
    return c.agent(i, job_dir=c.folder(f"jobs{i}"), **options)


def work(c, i, job, ticks=3000, **more):
    """A workload of the job that emits at once and is gone."""
    w = c.workload(i, more={"SLURM_JOB_ID": str(job), "SLURM_CLUSTER_NAME": "trn", **more})
    w.emit(ticks)
    w.tell("")
    w.p.stdin.close()
    w.end()
    return w


def sessions(c, *options):
    return json.loads(c.run("sessions", "--json", *options)[0])["sessions"]


def session_of(c, job):
    """Its session when it is complete."""
    until(lambda: [s["state"] for s in sessions(c, "--job", str(job))] == ["complete"], f"the session of job {job} is complete", 60 + 12 * 6)  # a node is given up after 12 times --advanced.node-timeout
    found = sessions(c, "--job", str(job))
    return found[0]["id"] if found else ""


def whole(c, job, workloads):
    """Every tick of the job is in its session, nothing else is, and nothing of it was lost."""
    id = session_of(c, job)
    check_ticks(c.ticks(id, f"profile{job}"), workloads, f"job {job}")
    doc = c.session(id)
    for part in doc["nodes"]:
        equal(part["counters"].get("dropped", 0) if "dropped" in part["counters"] else 0, 0, f"job {job}: lost on {part['instance_id']}")
        check(part["covered_ns"] == part["window_ns"] or part.get("job_ended"), f"job {job}: covers {part['covered_ns']} of {part['window_ns']}")
    return id, doc


with Cluster(node_timeout="6s", job_sessions_user=3, lead="100ms") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(2):
        agent(c, i)
    until(lambda: len(c.connected()) == 2, "the agents are connected")

    # ---- two nodes, short, beside a job that did not ask ----
    for i in range(2):
        job_file(c, i, 101, request="stream", nodes=2, job_name="short")
    other = c.workload(0, more={"SLURM_JOB_ID": "999", "SLURM_CLUSTER_NAME": "trn"})
    other.emit(10)
    a, b = work(c, 0, 101), work(c, 1, 101)
    for i in range(2):
        job_file(c, i, 101, request="stream", nodes=2, job_name="short", ended=True)
    id, doc = whole(c, 101, {("i-test0", a.pid): a, ("i-test1", b.pid): b})
    equal((doc["job"]["key"], doc["job"]["uid"], doc["job"]["nodes"], doc["name"]), ("trn//101/0", UID, 2, "job 101"), "whose it is")
    equal([s["jobs"][0]["user"] for s in sessions(c, "--user", "alice")], ["alice"], "found by its user")
    parts = sorted(doc["nodes"], key=lambda part: part["instance_id"])  # in any order: as the nodes answered
    remarks = [part["tally"].get("unselected", {}).get("message", "") for part in parts]
    check(remarks[0].startswith("1 process ran there that no session selected") and f"pid {other.pid}, job 999" in remarks[0] and not remarks[1],
          f"each node's processes that no session selected: {remarks}")
    out, err = c.run("status", id)
    check(remarks[0] in doc["message"] and remarks[0] in out and remarks[0] in err, f"the session and the command name the process: {out}{err}")
    other.end()

    # ---- the file is gone instead of ended; a requeued job is another session ----
    job_file(c, 0, 102, request="", restart=1)
    w = work(c, 0, 102)
    until(lambda: "job 102" in c.agents[0].text(), "the agent has seen the file")
    os.unlink(os.path.join(c.folder("jobs0"), "102"))
    whole(c, 102, {("i-test0", w.pid): w})
    job_file(c, 0, 102, request="", restart=2)
    w2 = work(c, 0, 102)
    job_file(c, 0, 102, request="", restart=2, ended=True)
    until(lambda: [s["state"] for s in sessions(c, "--job", "102")] == ["complete"] * 2, "the second run has a session of its own")
    second = sessions(c, "--job", "102", "--restart", "2")[0]["id"]
    check_ticks(c.ticks(second, "second"), {("i-test0", w2.pid): w2}, "second run")

    # ---- a process says it, without a hook ----
    w = work(c, 1, 103, MERIDIAN_SESSION="stream,name=by hand")
    id, doc = whole(c, 103, {("i-test1", w.pid): w})
    equal(doc["name"], "by hand", "options of the request")

    # ---- somebody waits for a job that has not begun, and does not ask ----
    def at_once(id, since):
        """Whether each agent had its answer so soon that rings of a job that does not ask still waited for it: no more than a second."""
        at = [[line.split()[0] for line in c.agents[i].text().splitlines() if "AGT-GO" in line and id in line] for i in range(2)]
        return all(found and datetime.datetime.fromisoformat(found[0].replace("Z", "+00:00")).timestamp() - t < 0.9 for found, t in zip(at, since))

    for attempt in range(10):  # a machine that did something else in between is asked again
        job, to = 150 + 2 * attempt, f"waited{attempt}"
        waiting = c.keep(Program(c.path(to + ".log"), [MERIDIAN, "record", "--job", str(job), "--wait-job", "--duration", "0", "-o", c.path(to), "--format", "json"],
                                 env=c.env, stdout=subprocess.DEVNULL))
        id = until(lambda: [s["id"] for s in sessions(c, "--state", "arming")], "it waits")[0]
        before = work(c, 0, job - 1)
        since = [time.time()]
        job_file(c, 0, job)
        a = work(c, 0, job)
        since.append(time.time())
        b = work(c, 1, job)  # the second node has no hook
        job_file(c, 0, job, ended=True)
        until(lambda: not waiting.running(), "record --wait-job ends with the job")
        if at_once(id, since):
            break
    equal(waiting.p.wait(), 0, f"record --wait-job ends with the job: {waiting.text()[-500:]}")
    check_ticks(ticks_in(c.path(to, "system_profile.json")), {("i-test0", a.pid): a, ("i-test1", b.pid): b}, "the job that was waited for")
    _, err = c.run("record", "--wait-job", want=2)
    check("one job in select.job" in err, f"which job: {err}")

    # ---- a process that claims the job does not begin it; the hook's job on another node does ----
    waiting = c.keep(Program(c.path("claimed.log"), [MERIDIAN, "record", "--job", "190", "--wait-job", "--duration", "0", "-o", c.path("claimed"), "--format", "json"],
                             env=c.env, stdout=subprocess.DEVNULL))
    until(lambda: sessions(c, "--state", "arming"), "it waits")
    work(c, 1, 190)
    until(lambda: f"still waiting: a process on node i-test1" in waiting.text() and f"--uid {UID}" in waiting.text(), "the command names the claim")
    equal([s["state"] for s in sessions(c, "--state", "arming")], ["arming"], "it goes on waiting")
    job_file(c, 0, 190)
    a = work(c, 0, 190)
    job_file(c, 0, 190, ended=True)
    until(lambda: not waiting.running(), "record --wait-job ends with the hook's job")
    check_ticks(ticks_in(c.path("claimed", "system_profile.json")), {("i-test0", a.pid): a}, "the hook's job and no other")

    # ---- jobs of one name and user in two namespaces, at one time on one node ----
    pods = {space: c.workload(0, more={"MERIDIAN_JOB": "train", "POD_NAMESPACE": space, "MERIDIAN_SESSION": "stream"}) for space in ("team-a", "team-m")}
    for w in pods.values():
        w.emit(1000)
    until(lambda: [s["state"] for s in sessions(c, "--job", "train")] == ["recording"] * 2, "a session for each")
    for w in pods.values():
        w.tell("")
        w.p.stdin.close()
        w.end()
    until(lambda: [s["state"] for s in sessions(c, "--job", "train")] == ["complete"] * 2, "both are complete")
    for space, w in pods.items():
        found = sessions(c, "--namespace", space)
        equal([[j["namespace"] for j in s["jobs"]] for s in found], [[space]], f"the sessions of {space}")
        check_ticks(c.ticks(found[0]["id"], space), {("i-test0", w.pid): w}, f"the session of {space}")

    # ---- policy ----
    log = lambda i: c.agents[i].text()
    for job, request, reason in [(104, "off", "has switched its recording off"), (105, "stream,counters=x", "may not be requested by a job here"),
                                 (106, "steam", "is not an option of a session"), (107, "recorder,keep=-1", "must be a duration")]:
        job_file(c, 0, job, request=request)
        until(lambda: any(f"job={job} " in line and reason in line for line in log(0).splitlines()), f"job {job} with {request} is refused: {reason}")
        equal(sessions(c, "--job", str(job)), [], f"job {job} has no session")
        job_file(c, 0, job, request=request, ended=True)
    for job in range(110, 114):
        job_file(c, 0, job, request="recorder,keep=10s")
    until(lambda: "jobs of user" in log(0), "the fourth job of one user has to wait")
    until(lambda: [s["mode"] for s in sessions(c, "--state", "recording")] == ["recorder"] * 3, "three are recorded")
    for job in range(110, 114):
        job_file(c, 0, job, request="recorder,keep=10s", ended=True)
    # There is room then: the fourth, which is over, is recorded, or, on a machine that takes longer than a minute for that, said to be left.
    left = lambda: any("AGT-JOB-LEFT" in line and "jobs of user" in line for line in log(0).splitlines())
    until(lambda: left() or len([s for job in range(110, 114) for s in sessions(c, "--job", str(job))]) == 4, "the fourth is recorded when there is room", 90)
    until(lambda: {s["state"] for s in sessions(c)} == {"complete"}, "they end with their jobs")

    # ---- nobody but root's file counts ----
    job_file(c, 1, 120, request="stream")
    session_open = until(lambda: sessions(c, "--job", "120"), "a job of a trusted file")
    path = os.path.join(c.folder("jobs1"), ".121.new")
    with open(path, "w") as f:
        f.write(f"job=121\nuid={UID}\nrequest=stream\n")
    os.chmod(path, 0o666)
    os.rename(path, os.path.join(c.folder("jobs1"), "121"))
    job_file(c, 1, 122, request="stream")
    until(lambda: sessions(c, "--job", "122"), "a later one")
    equal(sessions(c, "--job", "121"), [], "a file that others may write")
    for job in (120, 122):
        job_file(c, 1, job, request="stream", ended=True)

    # ---- the aggregator is down when the job begins ----
    c.daemon.kill()
    job_file(c, 0, 140, request="stream")
    w = work(c, 0, 140)
    job_file(c, 0, 140, request="stream", ended=True)
    c.aggregator(node_timeout="2s")  # a dead node is given up after 12 times this
    until(c.answers, "the aggregator answers again")
    whole(c, 140, {("i-test0", w.pid): w})

    # ---- the node of a job dies: the session ends when the others have ended ----
    job_file(c, 0, 130, request="stream", nodes=2)
    job_file(c, 1, 130, request="stream", nodes=2)
    until(lambda: [s["nodes"] for s in sessions(c, "--job", "130")] == [2], "both nodes record")
    a = work(c, 0, 130)
    c.agents[1].kill()
    job_file(c, 0, 130, request="stream", nodes=2, ended=True)
    id = session_of(c, 130)
    states = {p["instance_id"]: p["state"] for p in c.session(id)["nodes"]}
    equal(states, {"i-test0": "flushed", "i-test1": "lost"}, "the dead node is given up")
    check_ticks(c.ticks(id, "dead"), {("i-test0", a.pid): a}, "what the other recorded")
finish()
