"""The watch for slow ranks with real ranks on two agents: a rank with 12 ms more of host code in each step, then a rank with a slow core that a
collective hides. The API, `meridian jobs`, `meridian watch`, the log and the metrics name the rank and the part, the exit status is 4. The
same job without a delay gets no verdict."""
import hashlib
import os
import re
import subprocess
import time

from lib import BIN, BUILD, MERIDIAN, Program, check, equal, finish, need_daemons, need_preload, until, without_none
from service import Service
from wait import let_it_run

need_daemons()
need_preload()
AGENTS, WORLD = 2, 4
OWNER = "owner-token-of-alice-000001"


class Job:
    """A job of train_loop with one core in each rank. words: further arguments of its ranks."""

    def __init__(self, c, number, *words):
        self.c, self.number = c, number
        for i in range(AGENTS):
            path = os.path.join(c.folder(f"jobs{i}"), str(number))
            with open(path + ".new", "w") as f:
                f.write(f"job={number}\nuid={os.getuid()}\nuser=alice\ncluster=trn\nrequest=recorder\nowner_key={hashlib.sha256(OWNER.encode()).hexdigest()}\n")
            os.chmod(path + ".new", 0o600)
            os.rename(path + ".new", path)
        self.ranks = [c.keep(Program(c.path(f"{number}.{r}.log"), [
            os.path.join(BIN, "train_loop"), "--steps", "100000000", "--cores", "1", "--exec-us", "20000", "--checkpoint-dir", c.folder(f"checkpoints{number}"), "--quiet", *words],
            env=without_none(c.env, LD_PRELOAD=os.path.join(BUILD, "lib", "libmeridian.so"), LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), MERIDIAN_ENABLE="1",
                             MERIDIAN_RING_DIR=c.rings(r * AGENTS // WORLD), SIMNRT_JOB=c.job(str(number)), SIMNRT_NODE="together", RANK=str(r), WORLD_SIZE=str(WORLD),
                             SLURM_JOB_ID=str(number), SLURM_CLUSTER_NAME="trn"))) for r in range(WORLD)]

    def now(self):
        """The job in the list, with its ranks."""
        jobs = [j for j in self.c.read("/api/v1/jobs").json()["jobs"] if j["job"].get("job") == str(self.number)]
        return self.c.read(f"/api/v1/jobs/{jobs[0]['id']}").json() if jobs else {}

    def named(self, verdict, part, rank):
        """The only rank that the verdict names."""
        began = time.monotonic()
        until(lambda: "slow" in self.now(), f"job {self.number}: a verdict: {self.now()}", 90)
        took = time.monotonic() - began
        job = self.now()
        slow = job["slow"]
        equal((job["state"], slow["verdict"], [(x["rank"], x["part"]) for x in slow["culprits"]]), ("slow", verdict, [(rank, part)]), f"job {self.number}: {slow}")
        equal((slow["culprits"][0]["process_id"], slow["culprits"][0]["instance_id"]), (self.ranks[rank].pid, f"i-test{rank * AGENTS // WORLD}"), "its process and node")
        print(f"job {self.number}: {slow['verdict']}: {slow['reason']}; loss {slow['loss_ns'] / 1e6:.1f} of {slow['step_ns'] / 1e6:.1f} ms, told {took:.1f} s after the fault", flush=True)
        return job, took

    def kill(self):
        for r in self.ranks:
            r.kill()


with Service(lead="100ms") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(AGENTS):
        os.chmod(c.folder(f"jobs{i}"), 0o755)
        c.agent(i, job_dir=c.folder(f"jobs{i}"))
    until(lambda: len(c.connected()) == AGENTS, "the agents are connected")

    # ---- Healthy ----
    a = Job(c, 31)
    until(lambda: a.now().get("step_ns", 0) > 0, f"the time of a step is known: {a.now()}", 60)
    let_it_run(12)
    job = a.now()
    equal((job["state"], "slow" in job), ("running", False), f"no verdict about a healthy job: {job}")
    check(15e6 < job["step_ns"] < 200e6, f"a step takes 20 ms and what the machine adds: {job['step_ns']}")
    check(any(v > 0 for v in job["series_ns"]), "a line of step times")
    equal([r["rank"] for r in job["rank_list"] if r.get("step_ns", 0) > 0], list(range(WORLD)), "the steps of each rank")
    c.run("jobs", "31")

    # ---- 12 ms more of host code in each step of rank 2, from its start ----
    a.kill()
    watch = subprocess.Popen([MERIDIAN, "watch", "32", "--first"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=c.env)
    a = Job(c, 32, "--late", "2:12")
    job, took = a.named("host", "host", 2)
    slow = job["slow"]
    check(8e6 < slow["culprits"][0]["own_ns"] - slow["culprits"][0]["peers_ns"] < 60e6, f"the delay of 12 ms: {slow['culprits']}")
    check(0 < slow["loss_ns"] < slow["step_ns"], f"the loss is a part of the step: {slow}")
    said = watch.communicate(timeout=60)[0]
    equal(watch.returncode, 4, f"watch --first: {said}")
    check("is slow since" in said and "rank 2" in said, f"watch names it: {said}")
    check("rank 2" in c.run("jobs", want=4)[0], "the table names it")
    check("rank 2" in c.run("jobs", "32", want=4)[0], "so does the table of one job")
    check(re.search(r"AGG-SLOW .*rank 2", open(c.path("aggregator.log")).read()), "the log names it")
    text = c.read("/metrics").body.decode()
    check('meridian_slow_verdicts_total{verdict="host"} 1\n' in text, "metrics of verdicts")
    for family in ("state{", "step_seconds{", "part_seconds{", "slow_loss_seconds{", "last_step_age_seconds{"):
        check(f"meridian_job_{family}job_key=\"{job['job_key']}\"" in text, f"meridian_job_{family}")
    check(re.search(r'meridian_job_state\{[^}]*state="slow"\} 1\n', text), "the state in the metrics")
    a.kill()

    # ---- A slow core of rank 1, whose time the collective of each execution makes equal in all ranks ----
    b = Job(c, 33, "--straggler", "1:1.6")
    job, _ = b.named("device", "device", 1)
    c.run("jobs", "33", want=4)
    b.kill()
    print(f"the host verdict took {took:.1f} s")
finish()
