"""The kinds of faults that the bench injects: what each does to a job, and what is true then.

draw(kind, seed) decides everything that chance decides, by random.Random("kind/seed"): so a run can be repeated, and its truth is known before
it begins. Nothing of it is read from a trace or from an answer of the product.

A truth has
    kind, seed     which run this is
    family         hang, slow, control (every answer is a false alarm)
    ranks          the culprits, [] if there is none
    cls            the class of the fault, in the words of classes() below, None if no answer has one
    expect         named (the culprit is to be named), nobody (nobody is to be named), blind (the culprit, or a refusal: evidence is missing)
    size           how strong the fault is, as text
    onset_ns       wall clock, set when the fault was injected
"""
import os
import random
import signal

RANKS, AGENTS = 8, 4
HANG_STEPS = (230, 330)  # the watch has learned its deadlines by then
SLOW_STEP_US = 40000
TP2 = (4000, 4, 2)  # words of faulty_rank.py: groups of two neighbours


class Kind:
    def __init__(self, name, family, cls, expect, inject, what, size=lambda rng: "", env=None, ranks=1, mid=False, words=()):
        self.name, self.family, self.cls, self.expect, self.inject, self.what = name, family, cls, expect, inject, what
        self.size, self.env, self.ranks, self.mid, self.words = size, env or (lambda truth, run: {}), ranks, mid, words


def draw(kind, seed):
    rng = random.Random(f"{kind.name}/{seed}")
    ranks = sorted(rng.sample(range(RANKS), kind.ranks)) if kind.ranks else []
    return {"kind": kind.name, "seed": seed, "family": kind.family, "ranks": ranks, "cls": kind.cls, "expect": kind.expect, "size": kind.size(rng),
            "at_step": rng.randrange(*HANG_STEPS), "other": rng.choice([r for r in range(RANKS) if r not in ranks]), "onset_ns": 0}


# ---- Hangs. run.job is the job, run.cluster what watches it. ----

def tell(*lines):
    """The culprits obey these lines before the step that was drawn."""
    def inject(truth, run):
        for rank in truth["ranks"]:
            for line in lines:
                run.job.ranks[rank].tell(f"at {truth['at_step']} " + line.format(size=truth["size"]))
        run.onset = lambda: min(run.job.ranks[r].did() for r in truth["ranks"])
    return inject


def tell_all(line):
    def inject(truth, run):
        for rank in run.job.ranks:
            rank.tell(f"at {truth['at_step']} " + line)
        run.onset = lambda: max(r.did() for r in run.job.ranks)
    return inject


def send(number):
    def inject(truth, run):
        run.reach(truth["at_step"])
        run.now()
        for rank in truth["ranks"]:
            os.kill(run.job.ranks[rank].pid, number)
    return inject


def fault_file(truth, run):
    """The faults of the runtime that depend on this file begin."""
    run.reach(truth["at_step"])
    run.now()
    open(run.fault_path, "w").close()


def node_gone(truth, run):
    run.reach(truth["at_step"])
    run.now()
    agent = run.job.agent_of(truth["ranks"][0])
    truth["ranks"] = [r for r in range(RANKS) if run.job.agent_of(r) == agent]
    run.cluster.agents[agent].kill()
    for rank in truth["ranks"]:
        run.job.ranks[rank].kill()


def link_cut(truth, run):
    run.reach(truth["at_step"])
    run.now()
    run.cluster.agents[run.job.agent_of(truth["other"])].p.send_signal(signal.SIGSTOP)


def fifo(truth, run):
    path = run.cluster.path(f"fifo{run.job.number}")
    os.mkfifo(path)
    tell(f"read {path}")(truth, run)


def stuck(fault, everybody=False):
    return lambda truth, run: {"SIMNRT_FAULT": ",".join(f"{fault}:file={run.fault_path}:rank={r}" for r in (range(RANKS) if everybody else truth["ranks"]))}


def blind(how):
    """Hides evidence, then injects a fault that is simple to see without the blind."""
    def inject(truth, run):
        rng = random.Random(f"blind/{truth['kind']}/{truth['seed']}")
        run.reach(truth["at_step"] - 60)
        how(truth, run)
        rng.choice([tell("sleep 3600"), tell("barrier"), send(signal.SIGSTOP), send(signal.SIGKILL)])(truth, run)
    return inject


def agent_of_another_killed(truth, run):
    run.cluster.agents[run.job.agent_of(truth["other"])].kill()


def agent_of_culprit_silent(truth, run):
    run.cluster.agents[run.job.agent_of(truth["ranks"][0])].p.send_signal(signal.SIGSTOP)


def aggregator_restarts(truth, run):
    run.cluster.restart_aggregator()


def without_library(truth, run):
    return {"only": truth["other"], "MERIDIAN_ENABLE": None, "LD_PRELOAD": None}


def small_ring(truth, run):
    return {"MERIDIAN_RING_SIZE": "64K"}


def cores(*factors, every="", ramp=""):
    """Cores of the culprits that are slower, from the moment of injection."""
    def env(truth, run):
        return {"SIMNRT_FAULT": ",".join(f"slow_core:rank={r}:factor={f}{every}{ramp}:file={run.fault_path}" for r, f in zip(truth["ranks"], factors or [truth["size"]] * 8))}
    return env


def everybody(fault):
    return lambda truth, run: {"SIMNRT_FAULT": f"{fault.format(size=truth['size'])}:file={run.fault_path}"}


def host_part(truth, run):
    return {"SIMNRT_FAULT": f"slow_host:rank={truth['ranks'][0]}:ns={int(truth['size'] * 1e6)}:file={run.fault_path}"}


def begin(truth, run):
    run.now()
    open(run.fault_path, "w").close()


def lasting(line):
    def inject(truth, run):
        run.now()
        for rank in truth["ranks"]:
            run.job.ranks[rank].tell(line.format(size=truth["size"]))
    return inject


def alternate(truth, run):
    run.now()
    for r, rank in enumerate(run.job.ranks):
        rank.tell(f"pause {RANKS} 4 lock {r}")


def burn_all(line):
    def inject(truth, run):
        run.now()
        for rank in run.job.ranks:
            rank.tell(line)
    return inject


def nothing(truth, run):
    run.now()


def neighbour(truth, run):
    run.now()
    run.burn_beside(truth["ranks"][0], 3)


def flapping(truth, run):
    """The fault of the runtime comes and goes each second."""
    begin(truth, run)
    for second in range(1, 8):
        run.later(second, lambda there=second % 2 == 0: open(run.fault_path, "w").close() if there else os.unlink(run.fault_path))


def agent_killed(truth, run):
    begin(truth, run)
    run.later(2, lambda: run.cluster.agents[run.job.agent_of(truth["ranks"][0])].kill())


def between(a, b, digits=2):
    return lambda rng: round(rng.uniform(a, b), digits)


H, S, C = "hang", "slow", "control"
KINDS = [
    Kind("H1-never-enters", H, "not entered", "named", tell("sleep 3600"), "host code waits before the execution"),
    Kind("H1-never-arrives", H, "not entered", "named", fault_file, "inside of the execution, before its barrier", env=stuck("collective_hang")),
    Kind("H2-enters-late", H, "not entered", "named", tell("sleep {size}"), "comes 7 to 12 s late", size=between(7, 12)),
    Kind("H3-other-operation", H, "other operation", "named", tell("barrier"), "a barrier, the others execute"),
    Kind("H4-other-size", H, "other operation", "named", tell("size"), "gathers another size"),
    Kind("H5-other-model", H, "other operation", "named", tell("model 1"), "executes another model"),
    Kind("H6-tensor-group", H, "not entered", "named", tell("sleep 3600"), "never enters, in a layout of TP 2 x DP 4", words=TP2),
    Kind("H6-other-group", H, "other operation", "named", tell("group"), "enters the operation of its TP group, the others that of all ranks", words=TP2),
    Kind("H7-stuck-load", H, "inside", "named", tell_all("load"), "a load does not end",
         env=lambda truth, run: {"SIMNRT_FAULT": f"stuck_load:exec=3:rank={truth['ranks'][0]}"}),
    Kind("H8-stuck-device", H, "inside", "named", fault_file, "an execution does not end on one core", env=stuck("stuck_exec")),
    Kind("H8-stuck-device-all", H, "all stuck", "nobody", fault_file, "an execution ends nowhere", env=stuck("stuck_exec", True), ranks=0),
    Kind("H9-stopped", H, "stopped", "named", send(signal.SIGSTOP), "SIGSTOP"),
    Kind("H10-killed", H, "dead", "named", send(signal.SIGKILL), "SIGKILL"),
    Kind("H10-exits", H, "dead", "named", tell("exit"), "exit status 0 in the middle of the job"),
    Kind("H10-aborts", H, "dead", "named", tell("abort"), "abort()"),
    Kind("H11-node-gone", H, "unseen", "named", node_gone, "the ranks of a node and its agent are killed"),
    Kind("H12-link-cut", C, None, "nobody", link_cut, "an agent is silent, the job goes on", ranks=0),
    Kind("H14-reads-a-fifo", H, "not entered", "named", fifo, "the host waits for a file"),
    Kind("N1-works", C, None, "nobody", tell("work 6"), "one rank computes for 6 s on the host"),
    Kind("N2-checkpoint", C, None, "nobody", tell("sleep 6 checkpoint"), "one rank writes a checkpoint for 6 s"),
    Kind("N3-evaluation", C, None, "nobody", tell_all("model 400"), "all ranks execute another model for seconds", ranks=0),
    Kind("N5-loads", C, None, "nobody", tell_all("load"), "all ranks load one more model", ranks=0),
    Kind("N6-ends", C, None, "nobody", tell_all("exit"), "the job ends", ranks=0),
    Kind("B1-without-library", H, None, "blind", blind(lambda t, r: None), "an innocent rank is not recorded", env=without_library),
    Kind("B2-agent-killed", H, None, "blind", blind(agent_of_another_killed), "the agent of an innocent rank was killed before"),
    Kind("B3-agent-silent", H, None, "blind", blind(agent_of_culprit_silent), "the agent of the culprit was silent before"),
    Kind("B4-aggregator-restarts", H, None, "blind", blind(aggregator_restarts), "the aggregator started anew before"),
    Kind("B5-small-ring", H, None, "blind", blind(lambda t, r: None), "rings of 64 KiB lose events", env=small_ring),

    Kind("C1-core-5", S, "device", "named", begin, "a core is 5 % slower", size=lambda rng: 1.05, env=cores()),
    Kind("C1-core-20", S, "device", "named", begin, "a core is 15 to 25 % slower", size=between(1.15, 1.25), env=cores()),
    Kind("C1-core-20-from-middle", S, "device", "named", begin, "the same from the middle of the recording on", size=lambda rng: 1.2, env=cores(), mid=True),
    Kind("C2-intermittent", S, "device", "named", begin, "a core is 50 % slower in every 10th execution", size=lambda rng: 1.5, env=cores(every=":every=10")),
    Kind("C6-ramp", S, "device", "named", begin, "a core becomes 20 % slower over 150 executions", size=lambda rng: 1.2, env=cores(ramp=":ramp=150")),
    Kind("X1-two-cores", S, "device", "named", begin, "two cores, 20 and 12 % slower", size=lambda rng: "1.2, 1.12", env=cores(1.2, 1.12), ranks=2),
    Kind("O1-gc", S, "gc", "named", lasting("pause 20 {size} gc.collect"), "40 ms of garbage collection in each 20th step", size=lambda rng: 40),
    Kind("O2-neighbour", S, "starved", "named", neighbour, "three other programs on the CPU of a rank"),
    Kind("O6-input", S, "input", "named", lasting("pause 1 {size} DataLoader"), "input takes 8 ms longer in each step", size=lambda rng: 8),
    Kind("O6-input-from-middle", S, "input", "named", lasting("pause 1 {size} DataLoader"), "the same from the middle of the recording on", size=lambda rng: 8, mid=True),
    Kind("O6-input-stalls", S, "input", "named", lasting("pause 25 {size} DataLoader"), "input takes 60 ms longer in each 25th step", size=lambda rng: 60),
    Kind("O7-lock", S, "host code", "named", lasting("pause 1 {size} lock"), "the host waits 4 ms for a lock in each step", size=lambda rng: 4),
    Kind("O7-host-cpu", S, "host code", "named", lasting("burn 1 {size} python"), "the host computes 3 ms more in each step", size=lambda rng: 3),
    Kind("O8-runtime-host", S, "runtime host", "named", begin, "the runtime's host part takes 3 ms longer", size=lambda rng: 3, env=host_part),
    Kind("O9-reloads", S, "load", "named", lasting("reload 50"), "a rank compiles and loads again in each 50th step"),
    Kind("D2-checkpoint", S, "checkpoint", "named", lasting("pause 40 {size} checkpoint"), "150 ms of checkpoint in each 40th step", size=lambda rng: 150),
    Kind("L1-link", S, "link", "nobody", begin, "transfers take 50 % longer, everybody pays", size=lambda rng: 1.5, env=everybody("slow_link:factor={size}"), ranks=0),
    Kind("L3-flapping", S, "link", "nobody", flapping, "transfers take twice as long in every other second", size=lambda rng: 2.0, env=everybody("slow_link:factor={size}"), ranks=0),
    Kind("M3-alternating", S, None, "nobody", alternate, "another rank is 4 ms late in each step", ranks=0),
    Kind("N7-healthy", C, None, "nobody", nothing, "nothing", ranks=0),
    Kind("N8-all-slower", C, None, "nobody", begin, "all cores are 10 % slower", size=lambda rng: 1.1, env=everybody("slow_core:factor={size}"), ranks=0),
    Kind("N9-all-load", C, None, "nobody", burn_all("reload 50"), "all ranks compile and load again in each 50th step", ranks=0),
    Kind("B6-agent-killed", S, "device", "blind", agent_killed, "the agent of the slow core's rank is killed in the recording", size=lambda rng: 1.2, env=cores()),
]
BY_NAME = {kind.name: kind for kind in KINDS}
SLOW = {kind.name for kind in KINDS if kind.family == S} | {"N7-healthy", "N8-all-slower", "N9-all-load"}  # judged by a recording's report
QUICK = ["H9-stopped", "H3-other-operation", "N5-loads"]
