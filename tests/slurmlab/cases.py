"""The cases of slurmlab.py, in the order in which they run. Each case must end with all nodes idle,
all agents connected and no jobs."""
import json
import os
import re
import time

from lib import check, equal, failures, load_json, ticks_in, until
from machines import COMPUTE, HEAD, USERS, Builder
from readme import by_place

TICKS = 500
# A user's program that says what it does itself: numbered ticks, then it stays. It needs nothing of its environment, for --export=NONE.
PROGRAM = f"""import ctypes, os, sys, threading
sys.path.insert(0, "/fsx/meridian/lib/meridian/python")
os.environ.setdefault("MERIDIAN_LIBRARY", "/usr/lib/libmeridian.so")
import meridian
lib = meridian._lib
domain = ctypes.c_void_p(lib.mrd_domain_create(b"test"))
values = (meridian._Kv * 1)(meridian._Kv(b"i", meridian._I64))
for i in range(1, {TICKS} + 1):
    values[0].v.i = i
    lib.mrd_instant_(domain, b"tick", 0, values, 1)
threading.Event().wait(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""
TICK = "/usr/bin/python3 /fsx/jobs/tick.py"
STEPS = 60
TRAIN = f"""#!/bin/sh
exec /fsx/meridian/lib/meridian/train_loop --steps {STEPS} --cores 2 --exec-us 5000 --checkpoint-every 0
"""
# The runtime wants an address of the first node, and a port; the simulated runtime asks for as many descriptors as a node of a cluster allows.
JOB = """#!/bin/bash
#SBATCH -N2 --ntasks-per-node=1
ulimit -Sn $(ulimit -Hn)
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export NEURON_RT_ROOT_COMM_ID=$(getent ahostsv4 $first | awk 'NR == 1 { print $1 }'):62182 SIMNRT_JOB=$SLURM_JOB_ID
srun ./train
"""


class State:
    def __init__(self, lab):
        self.lab, self.head, self.compute = lab, lab.head, lab.compute
        self.hosts = {}  # by instance id

    # ---- installing ----

    def readme(self, where, sh, count, times=1):
        """Runs the blocks of the README that say this place; HEADNODE is what it says it is."""
        found = [text.replace("HEADNODE", HEAD) for place, text in by_place("docs/howto/slurm.md", "# Slurm and ParallelCluster") if place == where]
        equal(len(found), count, f"blocks of docs/howto/slurm.md: {where}")
        for text in found:
            for _ in range(times):
                sh("set -e; " + text)

    def installed(self):
        begun = time.monotonic()
        self.readme("on the build machine, in this repository", Builder(self.lab).sh, 2)
        print(f"slurmlab: built and put into /fsx after {time.monotonic() - begun:.0f} s")
        with open(os.path.join(self.lab.fsx, "jobs/tick.py"), "w") as f:
            f.write(PROGRAM)
        self.readme("on the head node, as root", self.head.sh, 1)
        for m in self.compute:
            self.readme("on every compute node, as root", m.sh, 1)
        if failures:
            raise RuntimeError("the installation failed: " + failures[0])
        self.lab.slurm_up()
        self.connected("after the installation")
        print(f"slurmlab: installed, Slurm and agents ready after {time.monotonic() - begun:.0f} s")

    # ---- looking ----

    def meridian(self, words, token="read", want=0, user=None):
        """The command on the head node: with a token of the secrets, or as a user with what he finds."""
        p = self.head.sh(f"meridian {words}" + ("" if user else f" --token-file /fsx/meridian/secrets/{token}.token"), user=user, want=None)
        check(want is None or p.returncode == want, f"meridian {words} of {user or token}: exit status {p.returncode}: {p.stdout[-300:]}{p.stderr[-800:]}")
        return p.stdout

    def connected(self, what, want=COMPUTE, seconds=120):
        def names():
            text = self.meridian("nodes --json", want=None)
            nodes = json.loads(text)["nodes"] if text.startswith("{") else []
            self.hosts.update({n["instance_id"]: n["host_name"] for n in nodes})
            return sorted(n["host_name"] for n in nodes if n["connected"])
        if not until(lambda: names() == want, f"{what}: {want} are connected", seconds):
            print(names(), self.head.sh("journalctl -u meridian-aggregator --no-pager | tail -5", want=None).stdout[-1500:])
            for m in self.compute:
                if m.first():
                    print(m.sh("journalctl -u meridian-agent --no-pager | tail -5", want=None).stdout[-1500:])

    def sessions(self, job, user=None):
        text = self.meridian(f"sessions --json --job {job}", user=user, want=None)
        return json.loads(text)["sessions"] if text.startswith("{") else []

    def manifest(self, id, want=0):
        """What the session says, with the nodes by the names of their machines."""
        doc = json.loads(self.meridian(f"status {id} --json", want=want))
        return {**doc, "nodes": {self.hosts[p["instance_id"]]: p for p in doc["nodes"]}}

    def idle(self, what, seconds=120):
        """No job, and no hook has drained a node."""
        free = lambda: self.lab.states() == ["idle", "idle"] and not self.head.sh("squeue -h", want=None).stdout.strip()
        if not until(free, f"{what}: both nodes are idle", seconds):
            print(self.head.sh("sinfo -R; squeue; scontrol show nodes | grep -E 'State|Reason'", want=None).stdout)

    # ---- jobs ----

    def submit(self, script, *options, user="alice"):
        """The job's number."""
        p = self.head.sh("cd /fsx/jobs && sbatch --parsable -o /fsx/out/%j.txt " + " ".join(options) + f" <<'END'\n#!/bin/bash\n{script}\nEND", user=user)
        return p.stdout.strip().split(";")[0]

    def ended(self, job, seconds=180):
        """How it ended; its record may be gone already."""
        state = lambda: re.findall(r"JobState=(\S+)", self.head.sh(f"scontrol show job {job}", want=None).stdout)
        over = lambda: (s := state()) and not {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING"} & set(s) and s
        return (until(over, f"job {job} is over", seconds) or [""])[0]

    def records(self, job, nodes, restart=0):
        """Every node has all ticks of one process of the job."""
        def so():
            line = [s for s in self.sessions(job) if s["state"] == "recording"]
            parts = self.manifest(line[0]["id"])["nodes"] if line else {}
            return sorted(n for n, p in parts.items() if p["events"] >= TICKS) == sorted(nodes) and len(self.sessions(job)) == restart + 1
        return until(so, f"job {job} is recorded on {nodes}", 90)

    def complete(self, job, want, what, user="alice", runs=1):
        """Its sessions (one per run) when all are over. want: {node: processes} of the last run, None for one process anywhere; each has all its ticks,
        and nothing is lost."""
        over = lambda: [s["state"] for s in self.sessions(job)] == ["complete"] * runs
        if not until(over, f"{what}: {runs} session of job {job}, complete", 90):
            print(self.sessions(job))
            return {}
        session = self.sessions(job)[-1]
        who = session["jobs"][0]
        equal((who["user"], who["uid"], who["cluster"], who["partition"]), (user, str(USERS[user]), "lab", "main"), f"{what}: whose job {job} is")
        equal(session.get("lost"), 0, f"{what}: lost")
        got = self.ticks(session["id"])
        by = {}
        for (node, _), numbers in got.items():
            by.setdefault(node, []).append(sorted(numbers) == list(range(1, TICKS + 1)))
        equal(by, {node: [True] * n for node, n in (want or dict.fromkeys(list(by)[:1], 1)).items()} or "a process", f"{what}: processes of job {job} on each node, with all their ticks")
        return session

    def ticks(self, id, want=0):
        self.meridian(f"fetch {id} -o /fsx/out/{id} --format json --force", want=want)
        found = ticks_in(os.path.join(self.lab.fsx, "out", id, "system_profile.json"))
        return {(self.hosts[node], process): numbers for (node, process), numbers in found.items()}


ONE, TWO = {COMPUTE[0]: 1}, {COMPUTE[0]: 1, COMPUTE[1]: 1}
FIRST = f"-w {COMPUTE[0]}"


def walk(state):
    """The README's own: a user's job on two nodes, its session and its merged profile."""
    folder = os.path.join(state.lab.fsx, "jobs/walk")
    os.makedirs(folder)
    for name, text in (("job.sh", JOB), ("train", TRAIN)):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
        os.chmod(os.path.join(folder, name), 0o755)
    os.chown(folder, USERS["alice"], USERS["alice"])
    state.readme("a user", lambda text: state.head.sh("cd /fsx/jobs/walk; " + text, user="alice"), 1)
    profile = [n for n in os.listdir(folder) if n.startswith("profile-")]
    if not equal(len(profile), 1, f"a profile: {os.listdir(folder)}"):
        return
    job = profile[0].split("-")[1]
    files = os.listdir(os.path.join(folder, profile[0]))
    check(any(n.endswith(".pftrace") for n in files), f"the profile's files: {files}")
    session = state.sessions(job)[0]
    state.meridian(f"fetch {session['id']} -o /fsx/out/walk --format json")
    runs = {}
    for e in load_json(os.path.join(state.lab.fsx, "out/walk/system_profile.json"))["trace_events"]:
        if e["name"] == "nc_exec_running":
            runs.setdefault(state.hosts[e["instance_id"]], []).append((int(e["args"]["exec_id"]), e["group"], e["pcore_idx"]))
    equal((sorted(runs), {len({core for _, core, _ in of}) for of in runs.values()}), (COMPUTE, {2}), "two cores on each node")
    with open(os.path.join(folder, f"slurm-{job}.out")) as f:
        said = f.read()
    equal(sorted(re.findall(r"rank (\d): (\d+) steps on 2 cores", said)), [("0", str(STEPS)), ("1", str(STEPS))], f"what the job says: {said[-300:]}")
    for node, of in runs.items():  # each execution on a core is there once for each of its two physical cores
        numbers = sorted({n for n, _, _ in of})
        equal((len(of), len(set(of)), len(numbers), numbers[-1] - numbers[0] + 1), (4 * STEPS, 4 * STEPS, 2 * STEPS, 2 * STEPS), f"executions of {node}: none missing, none twice")
    equal(session.get("lost"), 0, "lost")
    print(f"slurmlab: walk: {sum(len({n for n, _, _ in of}) for of in runs.values())} executions on two cores of each of two nodes; {session['events']} events, 0 lost")


def asked(state):
    """Batch with several steps; on two nodes; asked by comment, by environment, without any environment; and not asked."""
    jobs = [("two steps on two nodes", state.submit(f"srun {TICK}\nsrun {TICK}", "-N2 --ntasks-per-node=1 --meridian"), {n: 2 for n in COMPUTE}),
            ("--export=NONE", state.submit(f"srun --export=NONE {TICK}", "--meridian --export=NONE", FIRST), ONE),
            ("--comment", state.submit(f"srun {TICK}", "--comment=meridian=stream", FIRST), ONE),
            ("environment", state.submit(f"srun {TICK}", "--export=ALL,MERIDIAN_SESSION=stream", FIRST), ONE)]
    array = state.submit(f"srun {TICK} 1", "--meridian --array=1-3 -N1")
    quiet = [state.submit(f"srun {TICK}"), state.submit(f"srun {TICK}", "--meridian=off --comment=meridian=off")]
    for what, job, want in jobs:
        equal(state.ended(job), "COMPLETED", f"{what}: job {job}")
        state.complete(job, want, what)
    for task in (1, 2, 3):
        state.complete(f"{array}_{task}", None, f"task {task} of the array")
    for job in quiet:
        equal((state.ended(job), state.sessions(job)), ("COMPLETED", []), f"job {job}, which does not ask")
    state.idle("asked")


def het(state):
    """A heterogeneous job with a component on each node: one session of the first component's number, with the processes of both."""
    script = f"#SBATCH -N1 -n1 {FIRST} --meridian\n#SBATCH hetjob\n#SBATCH -N1 -n1 -w {COMPUTE[1]} --meridian\nsrun --het-group=0,1 {TICK}\nsrun --het-group=1 {TICK}"
    job = state.submit(script)
    equal(state.ended(job), "COMPLETED", f"the heterogeneous job {job}")
    state.complete(job, {COMPUTE[0]: 1, COMPUTE[1]: 2}, "a heterogeneous job")
    equal(state.sessions(str(int(job) + 1)), [], "a session of the second component alone")
    state.idle("het")


def other_clusters(state):
    """The README's lines of slurm.conf, for clusters that are not ParallelCluster's, in the place of those of the laboratory; without the plug-in."""
    conf = os.path.join(state.lab.slurm, "etc/slurm.conf")
    with open(conf) as f:
        was = f.read()
    lines = dict(by_place("docs/howto/slurm.md", "# Slurm and ParallelCluster")).get("lines of slurm.conf", "")
    names = re.findall(r"(?m)^(\w+)=", lines)
    equal(names, ["Prolog", "Epilog", "TaskProlog", "PrologFlags"], "what the README says of slurm.conf")
    kept = "".join(line + "\n" for line in was.splitlines() if line.split("=")[0] not in names)
    plugins = os.path.join(state.lab.slurm, "etc/plugstack.conf")
    os.rename(plugins, plugins + ".kept")
    for text in (kept + lines, was):
        with open(conf, "w") as f:
            f.write(text)
        state.head.sh("scontrol reconfigure")
        if text == was:
            break
        job = state.submit(f"srun {TICK}", "--comment=meridian=stream -N2 --ntasks-per-node=1")
        equal(state.ended(job), "COMPLETED", f"a job that asks by its comment: {job}")
        found = until(lambda: [s for s in state.sessions(job) if s["state"] == "complete"], f"the session of job {job}", 90)
        equal([s["lost"] for s in found or []], [0], "its session")
        job = state.submit(f"MERIDIAN_SESSION=stream srun {TICK}", FIRST)
        equal(state.ended(job), "COMPLETED", f"a job that asks by its environment: {job}")
        state.complete(job, ONE, "by its environment")
    os.rename(plugins + ".kept", plugins)
    state.idle("other_clusters")


def users(state):
    """Two users on one node at one time, and two jobs of one of them: each session has its own job only, and its owner only sees it."""
    jobs = {user: [state.submit(f"srun {TICK} 600", "--meridian", FIRST, user=user) for _ in range(n)] for user, n in (("alice", 2), ("bob", 1))}
    every = [(user, job) for user, of in jobs.items() for job in of]
    for _, job in every:
        state.records(job, ONE)
    state.head.sh("scancel " + " ".join(job for _, job in every))
    ids = {job: state.complete(job, ONE, f"of {user}", user=user).get("id") for user, job in every}
    mine = lambda user: {s["jobs"][0]["user"] for s in json.loads(state.meridian("sessions --json", user=user))["sessions"]}
    equal((mine("alice"), mine("bob")), ({"alice"}, {"bob"}), "the sessions that a user sees")
    for user, other in (("alice", "bob"), ("bob", "alice")):
        own, foreign = ids[jobs[user][0]], ids[jobs[other][0]]
        state.meridian(f"fetch {own} -o /tmp/of-{user} --force", user=user)
        p = state.head.sh(f"meridian fetch {foreign} -o /tmp/of-{other}-by-{user}", user=user, want=None)
        check(p.returncode not in (0, 3) and not os.path.exists(state.head.path(f"tmp/of-{other}-by-{user}")), f"{user} may not fetch what is of {other}: {p.returncode} {p.stderr}")
    for user, uid in USERS.items():
        st = os.stat(os.path.join(state.lab.fsx, "owner", str(uid)))
        equal((oct(st.st_mode & 0o777), st.st_uid), ("0o400", uid), f"the token of {user}")
    state.idle("users")


def ends(state):
    """However a job ends: scancel, requeue (the second run has a session of its own), the time limit."""
    late = state.submit(f"srun {TICK} 600", "--meridian -t 1", FIRST)
    job = state.submit(f"srun {TICK} 600", "--meridian -N2 --ntasks-per-node=1")
    state.records(job, TWO)
    state.head.sh(f"scancel {job}")
    equal(state.ended(job), "CANCELLED", "scancel")
    state.complete(job, TWO, "scancel")
    job = state.submit(f"srun {TICK} $([ -n \"$SLURM_RESTART_COUNT\" ] || echo 600)", "--meridian --requeue", FIRST)
    state.records(job, ONE)
    state.head.sh(f"scontrol requeue {job}")
    until(lambda: len(state.sessions(job)) == 2, "the second run has a session", 240)
    equal(state.ended(job), "COMPLETED", "the second run")
    state.complete(job, ONE, "requeue", runs=2)
    found = state.sessions(job)
    equal(sorted(s["jobs"][0].get("restart", "0") for s in found), ["0", "1"], "the runs of the sessions")
    for s in found:
        equal([sorted(v) for v in state.ticks(s["id"]).values()], [list(range(1, TICKS + 1))], f"a run's own ticks, {s['id']}")
    equal(state.ended(late, 240), "TIMEOUT", "the time limit")
    state.complete(late, ONE, "time limit")
    state.idle("ends")


def node_failure(state):
    """A node loses its power while a job runs on both: the job fails, its session ends, says whose part is lost (status 3) and keeps what came; the
    node comes back and is recorded again."""
    gone = state.compute[1]
    job = state.submit(f"srun {TICK} 600", "--meridian -N2 --ntasks-per-node=1 --no-requeue")
    state.records(job, TWO)
    gone.cut()
    equal(state.ended(job), "NODE_FAIL", "the job")
    if until(lambda: [s["state"] for s in state.sessions(job)] == ["complete"], "its session is complete", 180):
        session = state.sessions(job)[0]
        parts = state.manifest(session["id"], want=3)["nodes"]
        equal((parts[COMPUTE[0]]["state"], parts[gone.name]["state"]), ("flushed", "lost"), "what the session says of the nodes")
        equal({k[0]: sorted(v) == list(range(1, TICKS + 1)) for k, v in state.ticks(session["id"], want=3).items()}, {n: True for n in COMPUTE}, "what had come before is kept")
    gone.start()
    gone.up()
    state.connected("after the failure")
    state.idle("after the failure")
    job = state.submit(f"srun {TICK}", "--meridian -N2 --ntasks-per-node=1")
    equal(state.ended(job), "COMPLETED", "a job after the failure")
    state.complete(job, TWO, "after the failure")


def cost(state):
    """What hooks and plug-in cost a job on two nodes: nothing that is noticed, also when the aggregator is down or systemctl hangs."""
    def least(what, tries=5):
        """The shortest of some: the machine may be busy, a hook that waits is never quick."""
        times = []
        for _ in range(tries):
            begun = time.monotonic()
            state.head.sh("srun -N2 --ntasks-per-node=1 --meridian true", user="alice")
            times.append(time.monotonic() - begun)
            state.idle(what)
        return min(times)
    usual = least("usual")
    state.head.sh("systemctl stop meridian-aggregator")
    down = least("with the aggregator down")
    for m in state.compute:
        m.write("usr/sbin/systemctl", "#!/bin/sh\nsleep 600\n")
        os.chmod(m.path("usr/sbin/systemctl"), 0o755)
        equal(m.sh("command -v systemctl").stdout.strip(), "/usr/sbin/systemctl", "what the hooks find")
    hung = least("with systemctl hanging")
    for m in state.compute:
        os.unlink(m.path("usr/sbin/systemctl"))
    state.head.sh("systemctl start meridian-aggregator")
    state.connected("with the aggregator again")
    print(f"slurmlab: srun on two nodes: {usual:.2f} s, aggregator down {down:.2f} s, systemctl hanging {hung:.2f} s")
    check(down < usual + 0.5, f"with the aggregator down: {down:.2f} s, usual {usual:.2f} s")
    check(hung < usual + 1, f"with systemctl hanging: {hung:.2f} s, usual {usual:.2f} s")
    job = state.submit(f"srun {TICK}", "--meridian", FIRST)
    state.ended(job)
    state.complete(job, ONE, "afterwards")


ALL = {"walk": walk, "asked": asked, "het": het, "other_clusters": other_clusters, "users": users, "ends": ends, "node_failure": node_failure, "cost": cost}
