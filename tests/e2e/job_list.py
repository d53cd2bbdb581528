"""Tests the list of jobs with real ranks on two agents. The API, `meridian jobs`, `meridian
watch` and the metrics show state, ranks and owner of each job. A job that stands still must
show no step time, and its rank must be named. Exit statuses must agree. An owner must see only
their own jobs."""
import hashlib
import json
import os
import signal
import subprocess

from faulty_job import FaultyRank
from lib import MERIDIAN, check, equal, finish, need_daemons, need_preload, until
from service import Service

need_daemons()
need_preload()
AGENTS, WORLD = 2, 2
OWNER = {"alice": "owner-token-of-alice-000001", "bob": "owner-token-of-bob-00000002"}


def hook(c, number, user):
    """What the scheduler's hook writes on each node."""
    for i in range(AGENTS):
        path = os.path.join(c.folder(f"jobs{i}"), str(number))
        with open(path + ".new", "w") as f:
            f.write(f"job={number}\nuid={os.getuid()}\nuser={user}\ncluster=trn\nrequest=recorder\nowner_key={hashlib.sha256(OWNER[user].encode()).hexdigest()}\n")
        os.chmod(path + ".new", 0o600)
        os.rename(path + ".new", path)


def start(c, number, user):
    hook(c, number, user)
    ranks = [c.keep(FaultyRank(c, number, r, WORLD, r)) for r in range(WORLD)]
    until(lambda: min(r.steps() for r in ranks) > 260, f"job {number} makes steps", 120)
    return ranks


def jobs(c, token=None, query=""):
    return c.read("/api/v1/jobs" + query, **({"token": token} if token else {})).json()["jobs"]


def of(c, number):
    """A job, or {} if it is not listed."""
    return next((j for j in jobs(c) if j["job"].get("job") == str(number)), {})


def state_in(text, state):
    """The keys of the jobs that the metrics show in this state."""
    return {line.split('job_key="')[1].split('"')[0] for line in text.splitlines() if line.startswith("meridian_job_state{") and f'state="{state}"' in line}


with Service(hang_wait="4s", lead="100ms") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    equal((jobs(c), c.run("jobs")[0]), ([], "no job is known\n"), "no job")
    for i in range(AGENTS):
        os.chmod(c.folder(f"jobs{i}"), 0o755)
        c.agent(i, job_dir=c.folder(f"jobs{i}"))
    until(lambda: len(c.connected()) == AGENTS, "the agents are connected")
    watch = subprocess.Popen([MERIDIAN, "watch", "21"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=c.env)
    stands = subprocess.Popen([MERIDIAN, "watch", "21", "--first", "--json"], stdout=subprocess.PIPE, text=True, env=c.env)
    check("'21' yet; waiting" in watch.stderr.readline(), "a job that does not exist yet is waited for")

    # ---- Two healthy jobs of two owners ----
    ranks = start(c, 21, "alice")
    others = start(c, 22, "bob")
    until(lambda: of(c, 21).get("ranks") == WORLD and of(c, 22).get("ranks") == WORLD, f"all ranks are listed: {jobs(c)}")
    job = of(c, 21)
    equal((job["state"], job["world"], job["job"]["user"], job["uid"]), ("running", WORLD, "alice", os.getuid()), "what the list says")
    one = c.read(f"/api/v1/jobs/{job['id']}").json()
    equal([(r["rank"], r["instance_id"], r["process_id"]) for r in one["rank_list"]], [(r, f"i-test{r}", ranks[r].pid) for r in range(WORLD)], "its ranks")
    rows = [line.split()[:3] for line in c.run("jobs")[0].splitlines()]
    equal((rows[0], sorted(rows[1:])), (["job", "user", "state"], [["21", "alice", "running"], ["22", "bob", "running"]]), "the table")
    table = c.run("jobs", "22")[0]
    check(str(others[1].pid) in table and str(ranks[1].pid) not in table, f"one job, rank by rank: {table}")
    equal(c.run_json("jobs", job["id"])["jobs"][0]["rank_list"][1]["process_id"], ranks[1].pid, "by its id")
    check("'99'" in c.run("jobs", "99", want=1)[1], "a job that is not known")
    for user, number in (("alice", "21"), ("bob", "22")):
        equal([j["job"]["job"] for j in jobs(c, OWNER[user])], [number], f"what {user} sees")
    equal((c.read(f"/api/v1/jobs/{job['id']}", token=OWNER["alice"]).status, c.read(f"/api/v1/jobs/{job['id']}", token=OWNER["bob"]).status), (200, 404), "a job of another owner")
    check(" job 21 runs: " in watch.stdout.readline(), "watch says that it runs")
    equal(json.loads(stands.stdout.readline())["state"], "running", "as JSON")

    # ---- One stands ----
    os.kill(ranks[1].pid, signal.SIGSTOP)
    until(lambda: of(c, 21).get("state") == "standing", "the job stands", 60)
    job = of(c, 21)
    equal((job["hang"]["verdict"], [x["rank"] for x in job["hang"]["culprits"]], job.get("step_ns")), ("stopped", [1], None), "its verdict, and no step time")
    equal((job["ranks_by_state"].get("stopped"), jobs(c)[0]["id"]), (1, job["id"]), "the first in the list")
    equal([j["job"]["job"] for j in jobs(c, query="?state=standing")], ["21"], "selected by state")
    table = c.run("jobs", want=3)[0]
    check("stopped: rank 1" in table, f"the table names the rank: {table}")
    c.run("jobs", "22")
    c.run("jobs", "21", want=3)
    check("stopped: rank 1" in watch.stdout.readline(), "watch names the rank")
    found = json.loads(stands.communicate(timeout=30)[0].splitlines()[-1])
    equal((stands.returncode, found["state"], found["hang"]["culprits"][0]["rank"]), (3, "standing", 1), "--first ends with the verdict")
    text = c.read("/metrics").body.decode()
    equal((state_in(text, "standing"), state_in(text, "running")), ({job["job_key"]}, {of(c, 22)["job_key"]}), "metrics of the states")
    check(f'meridian_job_ranks{{job_key="{job["job_key"]}",uid="{os.getuid()}",confirmed="{str(job["confirmed"]).lower()}",state="stopped"}} 1\n' in text, "metrics of the ranks")
    check('meridian_jobs{state="standing"} 1\n' in text and "meridian_jobs_left_out 0\n" in text, "metrics of all jobs")

    # ---- It goes on, and ends ----
    os.kill(ranks[1].pid, signal.SIGCONT)
    until(lambda: of(c, 21).get("state") == "running", "it goes on", 60)
    check(" job 21 goes on" in watch.stdout.readline(), "watch says that it goes on")
    for r in ranks:
        r.tell("exit")
    until(lambda: of(c, 21).get("state", "finished") == "finished", "it ends", 60)
    said = watch.communicate(timeout=60)[0]
    equal(watch.returncode, 0, f"watch ends with the job: {said}")
    check(" job 21 has ended" in said, f"what watch says at the end: {said}")
    equal(of(c, 22)["state"], "running", "the other job runs")
    for r in others:
        r.kill()
finish()
