"""Tests meridian diff of runs with several ranks. It must name the rank that became slower and the
part of its time, and no rank if none became slower."""
import json
import os
import random
import re
import subprocess
import sys

from lib import MERIDIAN, check, equal, finish, run, tmp

work = tmp()
RANKS, STEPS, STEP_US = 6, 60, 5000
KERNELS = (("gemm_fwd", 900), ("softmax", 200), ("gemm_bwd", 1500), ("adam", 400))
PART = {"compute": "computation", "loader": "idle time", "collective": "exposed communication"}


def write_run(name, seed, slow=None, cause=None, us=0, skew=False):
    """A run of synchronous steps: data is loaded, kernels run, an all-reduce ends everywhere after its last begin. In each step the slow rank
    has so many microseconds more of the cause; without a slow rank, every rank has."""
    r, events, t = random.Random(seed), [[] for _ in range(RANKS)], 1_000_000.0
    offset = [r.uniform(-20e3, 20e3) if skew else 0 for _ in range(RANKS)]
    starts = [t] * RANKS
    placement = [1 + 0.01 * r.gauss(0, 1) for _ in range(RANKS)]  # what is constant in a run
    for s in range(STEPS):
        hit = lambda rank, what: us if cause == what and slow in (None, rank) else 0
        begins = []
        for rank in range(RANKS):
            out, odd = events[rank], 3 if r.random() < 0.01 else 1
            t = starts[rank]
            load = (600 + hit(rank, "loader")) * (1 + 0.03 * r.gauss(0, 1))
            out.append(dict(ph="X", cat="user_annotation", name="load_batch", pid=100, tid=100, ts=t + 5, dur=load))
            d = t + 10 + load
            for kernel, k in KERNELS:
                k = (k * placement[rank] + (hit(rank, "compute") if kernel == "gemm_bwd" else 0)) * (1 + 0.02 * r.gauss(0, 1)) * odd
                out.append(dict(ph="X", cat="kernel", name=kernel, pid=0, tid=7, ts=d, dur=k, args=dict(device=0, stream=7)))
                d += k + 5
            out.append(dict(ph="X", cat="cpu_op", name="forward_backward", pid=100, tid=100, ts=t + 10 + load, dur=d - t - 10 - load))
            begins.append(d)
        transfer, met = 800 * (1 + 0.03 * r.gauss(0, 1)), max(begins)
        ends = [met + transfer + hit(rank, "collective") * (1 + 0.02 * r.gauss(0, 1)) for rank in range(RANKS)]
        for rank in range(RANKS):
            events[rank].append(dict(ph="X", cat="kernel", name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", pid=0, tid=20, ts=begins[rank],
                                     dur=ends[rank] - begins[rank], args={"device": 0, "stream": 20, "Collective name": "allreduce", "In msg nelems": 1 << 20,
                                                                          "Group size": RANKS, "Process Group Name": "0", "Seq": s}))
            t, end = starts[rank], ends[rank] + 10
            events[rank].append(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{s}", pid=100, tid=100, ts=t, dur=end - t))
        starts = [end + 20 for end in ends]  # a rank that leaves the all-reduce late begins its next step late, and the others wait for it
    folder = os.path.join(work, name)
    os.makedirs(folder)
    for rank in range(RANKS):
        for e in events[rank]:
            e["ts"], e["dur"] = round(e["ts"] + offset[rank], 3), round(e["dur"], 3)
        with open(os.path.join(folder, f"rank{rank}.json"), "w") as f:
            json.dump(dict(schemaVersion=1, deviceProperties=[dict(id=0)], distributedInfo=dict(rank=rank, world_size=RANKS), traceEvents=events[rank]), f)
    return folder


def series(name, folder, *options):
    run("view", folder, "-o", os.path.join(work, name + "-steps"), "--output-format", "steps-json", *options, want=None)
    return os.path.join(work, name + "-steps", "steps.json")


def diff(a, b, *options):
    p = subprocess.run([MERIDIAN, "diff", a, b, "--json", *options], capture_output=True, text=True, timeout=60)
    check(p.returncode in (0, 3, 4), f"diff of {a} and {b}: {p.returncode} {p.stderr}")
    return json.loads(p.stdout)


def pair(i, slow, cause, us, skew=False):
    """The differences of a run from an equal one whose clocks agree (skew: are unknown, and aligned by the collectives)."""
    how = ["--align", "collectives"] if skew else ["--same-clock"]
    return diff(*(series(name, write_run(name, 1000 * (side + 1) + i, *of, skew=skew), *how)
                  for side, (name, of) in enumerate(((f"{i}-base", (None, None, 0)), (f"{i}-new", (slow, cause, us))))))


def slow_ranks(pairs):
    """Pairs with one slow rank: the rank and the part are named in nearly all, another rank in none. Clocks that are aligned by the ends of
    collectives do not show which rank leaves them late."""
    r, right, missed, could = random.Random(int(os.environ.get("SEED", 7))), 0, 0, 0
    for i in range(pairs):
        cause, slow, us, skew = list(PART)[i % 3], r.randrange(RANKS), STEP_US * r.choice((0.05, 0.1, 0.2)), r.random() < 0.5
        d = pair(i, slow, cause, us, skew)
        got = [(c["rank"], c["part"]) for c in d["changed_ranks"]]
        right += got == [(slow, PART[cause])]
        missed += got == []
        could += cause != "collective" or not skew
        check(got in ([], [(slow, PART[cause])]), f"rank {slow}, {cause}, {us:.0f} us, skew {skew}: {d['verdict']}, named {d['changed_ranks']}")
        if got:  # the host's span around the kernels grows with them, and explains nothing
            equal(d["changed_ranks"][0]["host"], "load_batch" if cause == "loader" else None, f"the span that covers the idle time, {cause}")
    print(f"{pairs} pairs with a slow rank, {could} of which show it: {right} named with their part, {missed} not named")
    check(right >= 0.9 * could, f"{right} of {could} named")


def equal_ranks(pairs):
    """Pairs without a slow rank: equal runs, and runs in which all ranks became slower. None is named."""
    r = random.Random(8)
    for i in range(pairs):
        cause = list(PART)[i % 3]
        d = pair(500 + i, None, cause, STEP_US * (0.2 if i % 2 else 0), r.random() < 0.5)
        equal(d["changed_ranks"], [], f"pair {i}: no single rank changed ({cause}, {d['verdict']})")
        equal(d["verdict"], "slower" if i % 2 else "no difference", f"pair {i}, {cause}")


def sentences():
    """What people read, in both directions; and that --same-clock counts when traces are compared, too."""
    usual, loads, exits = write_run("usual", 1), write_run("loads", 2, 4, "loader", 500), write_run("exits", 3, 2, "collective", 500)
    a, b = series("usual", usual), series("loads", loads)
    out, _ = run("diff", a, b, want=4)
    check(re.search(r"\nRank 4 became slower in its idle time: \+\d+\.\d+ us per step \(host load_batch \+\d+\.\d+ us\)\n", out), out)
    check("No single operation explains it" not in out and out.count("became") == 1, out)
    out, _ = run("diff", b, a)
    check(re.search(r"\nRank 4 became faster in its idle time: -\d+\.\d+ us per step \(host load_batch -\d+\.\d+ us\)\n", out), out)
    d = diff(a, b)
    equal([r["rank"] for r in d["ranks"]], list(range(RANKS)), "ranks that are compared")
    check(all(4e6 < r["base_ns"] < r["new_ns"] < 6e6 for r in d["ranks"]), f"the step of each rank: {d['ranks']}")
    check("Rank 2 became slower in its exposed communication" in run("diff", usual, exits, "--same-clock", want=4)[0], "one clock, by the option of diff")
    check("became slower" not in run("diff", usual, exits, want=4)[0], "clocks of which nothing is known do not show it")
    old = json.load(open(b))
    for p in old["steps"]["processes"]:
        del p["own_ns"], p["own_count"]
    with open(os.path.join(work, "old.json"), "w") as f:
        json.dump(old, f)
    equal(diff(a, os.path.join(work, "old.json"))["changed_ranks"], [], "a file of an earlier version has no own times")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    slow_ranks(count)
    equal_ranks(count)
    sentences()
    finish()
