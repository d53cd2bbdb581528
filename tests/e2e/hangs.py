"""Tests the hang watch with real ranks on several agents. A rank that is stopped, killed, asleep,
or in another operation must be named within seconds, and no other rank. A job that works or
continues must not be reported, and jobs of other owners must not be shown."""
import hashlib
import json
import os
import signal
import time

from faulty_job import FaultyRank
from lib import check, equal, finish, need_daemons, need_preload, until
from service import Service
from wait import let_it_run

need_daemons()
need_preload()
AGENTS, WORLD, DEADLINE = 2, 4, 4
OWNER = {"alice": "owner-token-of-alice-000001", "bob": "owner-token-of-bob-00000002"}


class Job:
    """A job of an owner, with a flight recorder, whose ranks have made more steps than the watch has to learn."""

    def __init__(self, c, number, user, fault="", **more):
        self.c, self.number = c, number
        for i in range(AGENTS):
            path = os.path.join(c.folder(f"jobs{i}"), str(number))
            with open(path + ".new", "w") as f:
                f.write(f"job={number}\nuid={os.getuid()}\nuser={user}\ncluster=trn\nrequest=recorder\nowner_key={hashlib.sha256(OWNER[user].encode()).hexdigest()}\n")
            os.chmod(path + ".new", 0o600)
            os.rename(path + ".new", path)
        self.ranks = [c.keep(FaultyRank(c, number, r, WORLD, r * AGENTS // WORLD, SIMNRT_FAULT=fault, **more)) for r in range(WORLD)]
        until(lambda: min(r.steps() for r in self.ranks) > 260, f"job {number} makes steps: {[r.text()[-200:] for r in self.ranks]}", 120)

    def verdicts(self, *words):
        return self.c.run_json("hangs", "--job", str(self.number), *words)["hangs"]

    def named(self, verdict, rank, state=None):
        """The only rank that a verdict names, which is told in time."""
        began = time.monotonic()
        until(lambda: self.verdicts(), f"job {self.number}: a verdict", 40)
        took = time.monotonic() - began
        v = self.verdicts()[0]
        equal((v["verdict"], [x["rank"] for x in v["culprits"]]), (verdict, [rank]), f"job {self.number}: {v}")
        equal(v["culprits"][0]["process_id"], self.ranks[rank].pid, "its process")
        equal(v["culprits"][0]["instance_id"], f"i-test{rank * AGENTS // WORLD}", "its node")
        if state:
            equal(v["culprits"][0]["state"], state, "its state")
        after = (v["told_ns"] - v["since_ns"] - v["deadline_ns"]) / 1e9
        print(f"job {self.number}: {v['verdict']}: {v['reason']}; deadline {v['deadline_ns'] / 1e9:.1f} s, told {after:.1f} s after it, {took:.1f} s after the fault", flush=True)
        return v, after

    def stacks(self, *words):
        """The stacks of the verdict, by rank, when all are there."""
        until(lambda: len(self.verdicts(*words)[0]["stacks"]) == WORLD, f"job {self.number}: stacks of the named rank and three others: {self.verdicts(*words)}", 20)
        return {s["rank"]: s for s in self.verdicts(*words)[0]["stacks"]}

    def kill(self):
        for r in self.ranks:
            r.kill()


def silent(job, message):
    """No verdict is given in the next seconds."""
    let_it_run(6)
    equal(job.verdicts("--all"), [], message)


with Service(hang_wait=f"{DEADLINE}s", lead="100ms") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(AGENTS):
        os.chmod(c.folder(f"jobs{i}"), 0o755)
        c.agent(i, job_dir=c.folder(f"jobs{i}"))
    until(lambda: len(c.connected()) == AGENTS, "the agents are connected")
    times = []

    # ---- Healthy, with a rank that works for longer than the deadline ----
    a = Job(c, 11, "alice")
    silent(a, "no alarm for a healthy job")
    a.ranks[1].tell("work 5")
    silent(a, "no alarm while a rank works")

    # ---- SIGSTOP, and what follows ----
    steps = [r.steps() for r in a.ranks]
    os.kill(a.ranks[2].pid, signal.SIGSTOP)
    times.append(a.named("stopped", 2, "stopped")[1])
    check(all("<module>, " in s["text"] for s in a.stacks().values()), f"also of a process that is stopped: {a.stacks()}")
    check("rank 2" in c.run("hangs")[0], "the table names it")
    text = c.read("/metrics").body.decode()
    check("meridian_hang_standing 1" in text and 'meridian_hang_verdicts_total{verdict="stopped"} 1' in text, "metrics")
    check("AGG-HANG" in open(c.path("aggregator.log")).read(), "the log says it")
    session = json.loads(c.run("sessions", "--job", "11", "--json")[0])["sessions"][0]["id"]
    until(lambda: any("stands still: rank 2" in t["reason"] and t["answered"] == AGENTS for t in c.session(session)["triggers"]), "the recorders of all nodes keep their window")
    os.kill(a.ranks[2].pid, signal.SIGCONT)
    until(lambda: not a.verdicts() and a.verdicts("--all")[0]["standing"] is False, "it is withdrawn when the job goes on")

    # ---- Asleep before the operation; of another owner meanwhile ----
    b = Job(c, 12, "bob")
    b.ranks[3].tell("sleep 12")
    v, after = b.named("not entered", 3, "sleeping")
    times.append(after)
    stacks = b.stacks()
    equal([r for r in sorted(stacks) if stacks[r]["culprit"]], [3], "whose stacks are those of the named rank")
    frames = [line.strip() for line in stacks[3]["text"].splitlines() if ".py:" in line]
    check(frames and "let_it_run" in frames[0] and any("faulty_rank.py:" in f for f in frames), f"the named rank sleeps in its host code: {stacks[3]['text']}")
    check("in system call clock_nanosleep" in stacks[3]["text"] or "select" in stacks[3]["text"], stacks[3]["text"])
    for r in range(3):
        check("  nrt_execute, libnrt.so.1\n" in stacks[r]["text"], f"the others are in the runtime: {stacks[r]['text']}")
        check("faulty_rank.py:" in stacks[r]["text"], stacks[r]["text"])
    print(stacks[3]["text"], stacks[0]["text"], sep="\n")
    check("rank 3, pid" in c.run("hangs", "--stacks", "--job", "12")[0] and "let_it_run, " in c.run("hangs", "--stacks", "--job", "12")[0], "the command shows them")
    mine = lambda user: {h["job"]["job"] for h in c.read("/api/v1/hangs", token=OWNER[user]).json()["hangs"]}
    equal((mine("alice"), mine("bob")), ({"11"}, {"12"}), "owners see the verdicts of their jobs")
    equal(c.read("/api/v1/hangs", token="nobody-knows-this-token-0").status, 401, "nobody")
    equal(len(c.session(session)["triggers"]), 1, "the recorder of the other job is left alone")
    until(lambda: not b.verdicts(), "it went on")

    # ---- Another operation: its deadline is not learned ----
    b.kill()
    b = Job(c, 13, "bob")
    b.ranks[1].tell("barrier")
    v, after = b.named("other operation", 1)
    times.append(after - DEADLINE + v["deadline_ns"] / 1e9)
    b.kill()

    # ---- One rank is inside of the execution, and does not enter its collective ----
    b = Job(c, 14, "bob", fault="collective_hang:rank=2:exec=300")
    until(lambda: b.verdicts(), "a verdict about an execution that no rank leaves", 40)
    v = b.verdicts()[0]
    equal((v["verdict"], v["culprits"]), ("all stuck", []), f"nobody is named: {v}")
    check("in the runtime's trace all but rank 2 are in enc_barrier" in v["reason"], f"the runtime's trace shows who is not in the collective: {v['reason']}")
    print(v["reason"], flush=True)
    b.kill()

    # ---- The calls of the waiting ranks fail by a time-out, and the ranks end: the verdict stays ----
    b = Job(c, 15, "bob", NEURON_RT_EXEC_TIMEOUT="10", ENDS_ON_FAILURE="1")
    os.kill(b.ranks[2].pid, signal.SIGSTOP)
    v, _ = b.named("stopped", 2, "stopped")
    until(lambda: all(b.ranks[r].p.poll() is not None for r in (0, 1, 3)), "the other ranks end after their time-out", 60)
    let_it_run(4)
    last = b.verdicts("--all")
    equal([(h["id"], h["verdict"], h["standing"], h["reason"]) for h in last], [(v["id"], "stopped", True, v["reason"])], "one verdict, which stays")
    b.kill()

    # ---- SIGKILL ----
    a.ranks[1].kill()
    times.append(a.named("dead", 1, "gone")[1])
    a.kill()
    until(lambda: all(h["standing"] is False for h in c.run_json("hangs", "--all")["hangs"]) or not c.run_json("hangs")["hangs"], "jobs that ended stand no more", 60)
    # A busy machine delays every program. aggregator/hang checks the time of a verdict in simulated time.
    print("seconds from the deadline to the verdict:", *(f"{t:.1f}" for t in times))
    check(max(times) < 60, f"told in time after the deadline: {times}")
finish()
