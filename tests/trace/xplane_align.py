"""XSpaces of several hosts with wrong clocks, through `meridian view --align collectives`: collectives of XLA match by program, operation and
execution, with HLO protos or without, and clocks are aligned rightly or not at all. Then real traces of four JAX processes with known sums or
clocks.
Usage: xplane_align.py JOBS; MRD_SEED=n repeats one."""
import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile

from xplane_oracle import data, number, varint

MERIDIAN = os.path.join(os.environ.get("MERIDIAN_BUILD") or "build", "bin", "meridian")
DATA = os.path.join(os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(os.environ.get("MERIDIAN_SOURCE") or ".", "..", "shared", "data"), "framework-cases")
US, MS, BEGAN = 1_000, 1_000_000, 1_700_000_000 * 10**9
KINDS = {"plain": True, "loop": True, "windows": True, "no run_id": True, "no protos": True, "halves": False, "groups": False, "other runs": False}
failures = []


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def plane(name, line, began, events, metadata=()):
    """`events`: (name, begin, end, {statistic: int or text}) in ns; `metadata`: (name, HLO proto) of programs."""
    names, stats = {}, {}

    def key(table, text):
        return table.setdefault(text, len(table) + 1)

    def stat(k, v):
        return number(1, key(stats, k)) + (number(4, v) if isinstance(v, int) else number(7, key(stats, v)) if isinstance(v, str) else data(6, v))

    out = data(2, name)
    if events:
        spans = [number(1, key(names, n)) + number(2, b * 1000) + number(3, (e - b) * 1000) + b"".join(data(4, stat(*s)) for s in of.items()) for n, b, e, of in events]
        out += data(3, number(1, 1) + data(2, line) + number(3, began) + b"".join(data(4, s) for s in spans))
    out += b"".join(data(4, number(1, i) + data(2, number(1, i) + data(2, n))) for n, i in names.items())
    out += b"".join(data(4, number(1, 100 + i) + data(2, data(2, n) + data(5, stat("Hlo Proto", proto)))) for i, (n, proto) in enumerate(metadata))
    return data(1, out + b"".join(data(5, number(1, i) + data(2, number(1, i) + data(2, n))) for n, i in stats.items()))


def proto(instructions, groups):
    """An HloProto of one computation."""
    groups = b"".join(data(1, data(1, b"".join(varint(i) for i in group))) for group in groups)
    return data(1, data(1, "jit_step") + data(3, b"".join(data(2, data(1, name) + data(2, opcode) + data(87, groups)) for name, opcode in instructions)))


def job(r, kind, hosts):
    """Events of each host on the true clock, and the communicating instructions."""
    groups = [[i for i in range(hosts) if i % 2 == k] for k in range(2)] if kind == "groups" else [list(range(hosts))]
    word = "all-reduce" if kind == "no protos" or r.random() < 0.5 else "psum_invariant"
    operations = [f"{word}.{10 + i}" for i in range(r.choice([1, 2, 3]))]
    events, at = [[] for _ in range(hosts)], [10 * MS] * hosts
    first = [r.randrange(4) if kind == "windows" else 0 for _ in range(hosts)]
    for step in range(20):
        def put(host, name, begin, end):
            of = {"hlo_op": name, "hlo_module": "jit_step", "program_id": 7}
            if kind != "no run_id":
                of["run_id"] = 1000 + step + (10**6 * host if kind == "other runs" else 0)
            if step >= first[host]:
                events[host].append((name, begin, end, of))

        for host in range(hosts):
            begin = at[host]
            at[host] += r.randint(2 * MS, 6 * MS)
            put(host, "fusion.1", begin, at[host])
        for operation in operations:
            for _ in range(3 if kind == "loop" else 1):
                for group in groups:
                    end = max(at[host] for host in group) + r.randint(50, 200) * US
                    for host in group:
                        begin, done = at[host], end + r.randrange(3 * US)
                        if kind == "halves":  # the second half begins late: its begin is not when the host came
                            put(host, operation.replace(".", "-start."), begin, begin + 2 * US)
                            begin += r.randint(10 * US, 4 * MS)
                            done = max(done, begin + US)
                        put(host, operation.replace(".", "-done.") if kind == "halves" else operation, begin, done)
                        at[host] = done + r.randint(20 * US, 500 * US)
    halves = [(o.replace(".", f"-{half}."), f"all-reduce-{half}") for o in operations for half in ("start", "done")]
    return events, halves if kind == "halves" else [(o, "all-reduce") for o in operations], groups


def aligned(paths):
    """Returns (estimate, bound) of each file's clock in ns. The bound is negative if the clock is not aligned."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([MERIDIAN, "view", *paths, "--align", "collectives", "-o", os.path.join(out, "out"), "--output-format", "sqlite"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with contextlib.closing(sqlite3.connect(os.path.join(out, "out", "profile.sqlite"))) as database:
            clocks = {n: (e, b) for n, e, b in database.execute("SELECT name, estimate_ns, bound_ns FROM clocks")}
    return [next(c for n, c in clocks.items() if n.endswith(os.path.basename(p)) or n == os.path.basename(p).split(".")[0] + " clock") for p in paths]


def generated(seed):
    r = random.Random(seed)
    kind, hosts = list(KINDS)[seed % len(KINDS)], r.choice([2, 4, 8])
    hosts = 4 if kind == "groups" else hosts
    events, instructions, groups = job(r, kind, hosts)
    offsets = [0] + [r.randint(-10**9, 10**9) for _ in range(hosts - 1)]
    with tempfile.TemporaryDirectory() as work:
        paths = [os.path.join(work, f"host{i}.xplane.pb") for i in range(hosts)]
        for path, own, offset in zip(paths, events, offsets):
            programs = [] if kind == "no protos" else [("jit_step(7)", proto(instructions, groups))]
            with open(path, "wb") as f:
                f.write(plane("/host:metadata", "", 0, [], programs) + plane("/device:TPU:0", "XLA Ops", BEGAN + offset, own)
                        + plane("/host:CPU", "python", BEGAN + offset, [("x", 0, 100, {})]))
        rows = aligned(paths)
    what = f"seed {seed}, {kind} of {hosts}"
    equal([bound >= 0 for _, bound in rows], [KINDS[kind]] * hosts, f"{what}: aligned")
    for (e, b), offset in zip(rows, offsets):
        equal(b < 0 or abs(e - rows[0][0] + offset) <= b + rows[0][1] + 1000, True, f"{what}: {offset} ns as {e - rows[0][0]} within {b}")


def nodes(folder):
    """Returns the paths of four processes on CPUs (gloo), or none if the data are not there."""
    paths = [os.path.join(DATA, folder, f"node{i}.xplane.pb") for i in range(4)]
    if os.path.exists(paths[0]):
        return paths
    print(f"skipped {folder}: {paths[0]} is missing (MERIDIAN_TEST_DATA names the folder of test data)")
    return []


def shifted(folder):
    """The clocks of this trace were shifted by known times. Its ends are off by 228 to 315 us in the median."""
    paths = nodes(folder)
    for (e, b), offset in zip(aligned(paths) if paths else [], [0, 3_000 * MS, -1_500 * MS, 7 * MS]):
        equal(0 <= b <= 20 * MS and abs(e + offset) <= min(b, MS), True, f"{folder}: {offset} ns as {e} within {b}")


def real(folder):
    """The sums were counted by another reader of the files."""
    paths = nodes(folder)
    if not paths:
        return
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([MERIDIAN, "view", *paths, "--same-clock", "-o", os.path.join(out, "out"), "--output-format", "report-json"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "out", "report.json"), encoding="utf-8") as f:
            report = json.load(f)["report"]
    totals, workers = report["totals"], report["workers"]
    equal((totals["collectives"], totals["without_partner"], round(totals["wait_ns"] / 1e5)), (32, 0, 6020), f"{folder}: collectives, and their waits in 100 us")
    equal([round(w["collectives"]["caused_ns"] / 1e5) for w in workers[2:3]], [5232], f"{folder}: waits for the third of {len(workers)}")
    equal(all(w["parts_ns"]["compute"] < 0.005 * w["window_ns"] for w in workers), True, f"{folder}: computation")


def tables(paths, *queries):
    """Returns the rows of these queries over a profile of the paths."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([MERIDIAN, "view", *paths, "--same-clock", "-o", os.path.join(out, "out"), "--output-format", "sqlite"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with contextlib.closing(sqlite3.connect(os.path.join(out, "out", "profile.sqlite"))) as database:
            return [database.execute(query).fetchall() for query in queries]


def identity():
    """Hosts and pids stand in the files. One clock is assumed for the files of one host only."""
    paths = nodes("jax-xspace-identity")
    if paths:
        processes, clocks = tables(paths, "SELECT instance_id, process_id FROM processes ORDER BY 1", "SELECT DISTINCT name FROM clocks WHERE name LIKE 'node%'")
        equal(processes, [("node0", 27323), ("node1", 27324), ("node2", 27325), ("node3", 27327)], "identity of XSpaces")
        equal(len(clocks), 4, "clocks of four hosts with --same-clock")


def one(path):
    """Returns the path of a file of the test data in a list, or an empty list."""
    path = os.path.join(DATA, path)
    if os.path.exists(path):
        return [path]
    print(f"skipped: {path} is missing (MERIDIAN_TEST_DATA names the folder of test data)")
    return []


def steps():
    """A span with step_num is a step, whatever its name."""
    paths = one("jax-steps/vm.xplane.pb")
    if paths:
        rows, = tables(paths, "SELECT step, dur_ns / 10000 FROM steps WHERE counts = 1 ORDER BY step")
        want = [1.28, 0.58, 0.54, 0.56, 52.02, 0.82, 0.39, 51.77, 1.76, 0.82, 0.43, 0.36]
        equal([(i, True) for i in range(12)], [(step, abs(ms / 100 - w) < 0.02) for (step, ms), w in zip(rows, want)], f"steps of {rows}")


def launches():
    """XLA's correlation_id joins launches and kernels."""
    paths = one("jax-gpu-correlation/host0.xplane.pb")
    if paths:
        text = subprocess.run([MERIDIAN, "report", *paths, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        worker, = json.loads(text)["report"]["workers"]
        equal((worker["queue"]["launches"], worker["idle_ns"]["unknown"] * 100 < worker["window_ns"]), (25, True), "launches of kernels")


def twin():
    """JAX writes the JSON of its own host twice with create_perfetto_trace."""
    folder = os.path.join(DATA, "jax-perfetto-beside")
    if not os.path.isdir(folder):
        print(f"skipped: {folder} is missing (MERIDIAN_TEST_DATA names the folder of test data)")
        return
    rows, = tables(["-d", folder], "SELECT COUNT(*) FROM events")
    equal(rows[0][0], 466, "events of a run with create_perfetto_trace")


if __name__ == "__main__":
    identity()
    steps()
    launches()
    twin()
    real("jax-late-host-cpu")
    real("jax-xla-collectives-device")
    shifted("jax-align-xla")
    only = os.environ.get("MRD_SEED")
    for job_seed in [int(only)] if only else range(int(sys.argv[1])):
        generated(job_seed)
    print(f"{len(failures)} wrong")
    sys.exit(1 if failures else 0)
