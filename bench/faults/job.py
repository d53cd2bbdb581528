"""One run of the bench: a job of real processes on the simulated runtime, agents and an aggregator that watch it, and a fault."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "e2e"))
from faulty_job import FaultyRank
from kinds import AGENTS, RANKS, SLOW, SLOW_STEP_US, draw
from lib import Cluster, until
from wait import let_it_run, pace, within
import score

HANG_WAIT = 4  # of operations whose usual length is not known
WATCHED = {"hang": 16, "control": 10}  # seconds after the onset
RECORDED = 8
WARM_UP = 15


def waited(pid):
    """For how long threads of this process were ready to run and had no CPU, in ns, since they began."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                total += int(f.read().split()[1])
    except OSError:  # it ended
        pass
    return total


class TooBusy(Exception):
    """The machine is too busy to judge short times."""


class Noise:
    """What other work on the machine does to the ranks, over some steps. Truth from outside: the kernel counts how long each rank waited for a CPU."""

    def __init__(self, ranks):
        self.ranks, self.steps, self.before, self.stat = ranks, [r.steps() for r in ranks], [waited(r.pid) for r in ranks], self.jiffies()

    @staticmethod
    def jiffies():
        with open("/proc/stat") as f:
            return [int(n) for n in f.readline().split()[1:9]]

    def result(self):
        """{"wait_ms": by how long a rank waited for a CPU in each step, the median of the ranks, "busy", "steal": shares of all processor time, "load", "nice"}."""
        each = sorted((waited(r.pid) - before) / 1e6 / max(1, r.steps() - steps) for r, before, steps in zip(self.ranks, self.before, self.steps))
        spent = [b - a for a, b in zip(self.stat, self.jiffies())]
        return {"wait_ms": round(each[len(each) // 2], 3), "busy": round(1 - (spent[3] + spent[4]) / max(sum(spent), 1), 2),
                "steal": round(spent[7] / max(sum(spent), 1), 3), "load": os.getloadavg()[0], "nice": os.nice(0)}


class Watched(Cluster):
    """The daemons, which stay for all runs. What a fault killed is started again."""

    def __init__(self):
        super().__init__(hang_wait=f"{HANG_WAIT}s", lead="100ms", node_timeout="5s")

    def begin(self):
        self.aggregator()
        until(self.answers, "the aggregator answers")
        self.heal()

    def heal(self):
        for i in range(AGENTS):
            if i in self.agents and self.agents[i].running():
                self.agents[i].p.send_signal(signal.SIGCONT)
            else:
                self.agent(i)
        until(lambda: len(self.connected()) == AGENTS, "all agents are connected")

    def restart_aggregator(self):
        self.daemon.kill()
        self.aggregator()
        until(lambda: len(self.connected()) == AGENTS, "the agents are back")

    def hangs(self, number):
        text = self.get("/api/v1/hangs")
        return [h for h in json.loads(text)["hangs"] if h["job"]["job"] == str(number)] if text else []


class Job:
    def __init__(self, cluster, number, words, more, only):
        self.number = number
        self.ranks = []
        for r in range(RANKS):
            own = more if only is None or r == only else {}
            self.ranks.append(cluster.keep(FaultyRank(cluster, number, r, RANKS, self.agent_of(r), words, **own)))

    @staticmethod
    def agent_of(rank):
        return rank * AGENTS // RANKS

    def step(self):
        return min(r.steps() for r in self.ranks)

    def kill(self):
        for rank in self.ranks:
            rank.kill()
            rank.p.stdin.close()


class Run:
    def __init__(self, cluster, number, kind, seed):
        self.cluster, self.kind, self.truth = cluster, kind, draw(kind, seed)
        self.fault_path = cluster.path(f"fault{number}")
        self.beside, self.timers, self.onset = [], [], lambda: self.truth["onset_ns"]
        env = kind.env(self.truth, self)
        only = env.pop("only", None)
        words = [SLOW_STEP_US, 8] if kind.name in SLOW else kind.words
        self.job = Job(cluster, number, words, env, only)

    def now(self):
        self.truth["onset_ns"] = time.time_ns()

    def reach(self, step):
        if not until(lambda: self.job.step() >= step or not all(r.running() for r in self.job.ranks), f"{self.kind.name}: step {step}", 120):
            raise RuntimeError("the job makes no steps: " + self.job.ranks[0].text()[-300:])

    def later(self, seconds, what):
        timer = threading.Timer(seconds, what)
        self.timers.append(timer)
        timer.start()

    def burn_beside(self, rank, programs):
        """Programs that use one CPU, to which the rank and its threads are moved."""
        cpu = {rank % os.cpu_count()}
        for task in os.listdir(f"/proc/{self.job.ranks[rank].pid}/task"):
            os.sched_setaffinity(int(task), cpu)
        for _ in range(programs):
            p = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            os.sched_setaffinity(p.pid, cpu)
            self.beside.append(p)

    # ---- Hangs: judged while they stand ----

    def watch(self, bound):
        self.reach(WARM_UP)
        noise = Noise(self.job.ranks)
        self.reach(self.truth["at_step"] - 80)
        self.noise = noise.result()
        if self.noise["wait_ms"] > bound:
            raise TooBusy(self.noise)
        self.kind.inject(self.truth, self)
        until(self.onset, f"{self.kind.name}: the fault begins", 120)
        self.truth["onset_ns"] = self.onset()
        end = time.monotonic() + WATCHED[self.kind.family]
        first = None
        while time.monotonic() < end:
            standing = [h for h in self.cluster.hangs(self.job.number) if h["standing"]]
            if standing:
                first = standing[0]
                if first["verdict"] != "cannot tell":
                    let_it_run(1)  # a verdict that is wrong may be followed by a right one, and the other way round
                    first = next((h for h in self.cluster.hangs(self.job.number) if h["id"] == first["id"]), first)
                    break
            pace(0.25)
        naive = score.naive_hang({r: rank.lines() for r, rank in enumerate(self.job.ranks)}, time.time_ns())
        told = self.cluster.hangs(self.job.number)
        verdict = score.of_hang(first, told)
        if self.kind.name.startswith("H2") and first:
            verdict["withdrawn"] = bool(within(20, lambda: all(not h["standing"] for h in self.cluster.hangs(self.job.number))))
        return {"meridian": verdict, "naive": naive}

    # ---- Slow: judged by the report of a recording ----

    def record(self, bound):
        self.reach(WARM_UP)
        noise = Noise(self.job.ranks)
        self.reach(2 * WARM_UP)
        if noise.result()["wait_ms"] > bound:
            raise TooBusy(noise.result())
        noise = Noise(self.job.ranks)
        if not self.kind.mid:
            self.kind.inject(self.truth, self)
        first = self.job.step()
        id = self.cluster.start()
        began = time.time_ns()
        if self.kind.mid:
            let_it_run(RECORDED / 2)
            self.kind.inject(self.truth, self)
            let_it_run(RECORDED / 2)
        else:
            let_it_run(RECORDED)
        self.truth["recorded_ns"], last, self.noise = began, self.job.step(), noise.result()
        for timer in self.timers:
            timer.join()
        self.cluster.stop(id, want=None)
        out, err = self.cluster.run("report", id, "--json", want=None)
        report = json.loads(out)["report"] if out else None
        pids = {rank.pid: r for r, rank in enumerate(self.job.ranks)}
        steps = {r: [w for w in rank.lines() if w[0].isdigit() and first <= int(w[0]) < last] for r, rank in enumerate(self.job.ranks)}
        return {"meridian": score.of_report(report, pids, err), "naive": score.naive_slow(steps),
                "naive-own": score.naive_parts(report, pids)}, report

    def close(self):
        for timer in self.timers:
            timer.cancel()
        for p in self.beside:
            p.kill()
            p.wait()
        self.job.kill()


def run(cluster, number, kind, seed, bound, keep):
    """One line of the result: truth, verdicts, noise. Writes the report and the steps of the ranks into the folder `keep`, if there is one.
    Raises TooBusy if a rank waits longer than `bound` ms for a CPU in a step."""
    one, report = Run(cluster, number, kind, seed), None
    try:
        if kind.name in SLOW:
            verdicts, report = one.record(bound)
        else:
            verdicts = one.watch(bound)
        if one.noise["wait_ms"] > bound:
            raise TooBusy(one.noise)
        steps = [int(w[3]) / 1e6 for w in one.job.ranks[0].lines() if w[0].isdigit()]
        line = {"truth": one.truth, "verdicts": verdicts, "noise": one.noise, "step_ms": round(sorted(steps)[len(steps) // 2], 2)}
        if keep:
            folder = os.path.join(keep, f"{kind.name}.{seed}")
            os.makedirs(folder, exist_ok=True)
            for r, rank in enumerate(one.job.ranks):
                os.link(rank.steps_path, os.path.join(folder, f"rank{r}.steps")) if not os.path.exists(os.path.join(folder, f"rank{r}.steps")) else None
            with open(os.path.join(folder, "answers.json"), "w") as f:
                json.dump({"report": report, "hangs": cluster.hangs(number), **line}, f)
        return line
    finally:
        one.close()
        cluster.heal()
