"""The cluster half of the command line against real daemons: what a workload emitted is what is fetched, whoever is killed in between."""
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from lib import BUILD, MERIDIAN, check, equal, finish, run, skip, tmp

BIN, LIBRARY = os.path.join(BUILD, "bin"), os.path.join(BUILD, "lib", "libmeridian.so")
NODES = 2


def workload():
    """Child: for each number on stdin, emits so many instants and answers how many there were so far."""
    lib = ctypes.CDLL(LIBRARY)
    lib.mrd_domain_create.restype = ctypes.c_void_p
    domain = ctypes.c_void_p(lib.mrd_domain_create(b"test"))
    lib.mrd_instant_(domain, b"hello", 0, None, 0)  # makes the ring
    total = 0
    print(total, flush=True)
    for line in sys.stdin:
        if line.startswith("slow"):
            steps(lib, domain)
            line = "0"
        for _ in range(int(line)):
            lib.mrd_instant_(domain, b"tick", 0, None, 0)
            total += 1
        print(total, flush=True)


def steps(lib, domain):
    """Twelve steps of a millisecond, then one of 40."""
    lib.mrd_now.restype = ctypes.c_uint64
    first = lib.mrd_now()
    time.sleep(0.01)
    millisecond = (lib.mrd_now() - first) // 10
    for length in [1] * 12 + [40]:
        end = lib.mrd_now()
        lib.mrd_span(domain, b"step", ctypes.c_uint64(end - length * millisecond), ctypes.c_uint64(end), None, ctypes.c_size_t(0))


if sys.argv[1:] == ["workload"]:
    workload()
    sys.exit(0)

for need in ("meridian-aggregator", "meridian-agent"):
    if not os.path.exists(os.path.join(BIN, need)):
        skip(f"{need} is not built")
if "libasan" in subprocess.run(["ldd", LIBRARY], capture_output=True, text=True).stdout or \
        b"__asan_init" in open(LIBRARY, "rb").read():
    skip("libmeridian.so is instrumented: it cannot be loaded into Python")

work = tmp()
started = []


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


data, control, http, probes = free_port(), free_port(), free_port(), free_port(socket.SOCK_DGRAM)
server = f"http://127.0.0.1:{http}"
# Settings of the person who runs the tests must not matter.
clean = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_", "SLURM_")) or k in ("MERIDIAN_SOURCE", "MERIDIAN_BUILD")}
os.environ.clear()
os.environ.update(clean, MERIDIAN_SERVER=server, no_proxy="127.0.0.1")


def program(log, *args, env=None, **options):
    p = subprocess.Popen(args, stderr=open(os.path.join(work, log), "ab"), env=dict(os.environ, **(env or {})), **options)
    started.append(p)
    return p


def aggregator():
    return program("aggregator.log", os.path.join(BIN, "meridian-aggregator"), "--store", os.path.join(work, "store"),
                   "--data-listen", f"tcp://127.0.0.1:{data}", "--control-listen", f"tcp://127.0.0.1:{control}",
                   "--http-listen", f"127.0.0.1:{http}", "--time-port", str(probes), "--disk-reserve", "1M", stdout=subprocess.DEVNULL)


def agent(i):
    return program(f"agent{i}.log", os.path.join(BIN, "meridian-agent"), "--aggregator", f"tcp://127.0.0.1:{data}", "--control",
                   f"tcp://127.0.0.1:{control}", "--instance-id", f"i-test{i}", "--ring-dir", rings(i), "--spool-dir",
                   os.path.join(work, f"spool{i}"), "--no-imds", "--no-containers", "--sample=0", "--sample-processes=0", "--slow-step", "5",
                   stdout=subprocess.DEVNULL)


def rings(i):
    path = os.path.join(work, f"rings{i}")
    os.makedirs(path, exist_ok=True)
    return path


class Workload:
    def __init__(self, i):
        self.total = 0
        self.p = program(f"workload{i}.log", sys.executable, os.path.abspath(__file__), "workload", text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         env={"MERIDIAN_ENABLE": "1", "MERIDIAN_CAPTURE": "annotations", "MERIDIAN_RING_DIR": rings(i)})
        self.p.stdout.readline()

    def emit(self, n):
        self.p.stdin.write(f"{n}\n")
        self.p.stdin.flush()
        before, self.total = self.total, int(self.p.stdout.readline())
        return self.total - before


def until(what, sentence, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.1)
    check(False, f"after {seconds} s still not: {sentence}")


def nodes():
    out, _ = run("nodes", "--json", "--interval", "0", want=None)
    return {n["instance_id"]: n for n in json.loads(out)["nodes"]} if out else {}


def session(id):
    out, _ = run("status", id, "--json", want=None)
    return json.loads(out)


def ticks(path):
    """Ticks by node, from the profile in JSON."""
    by = {}
    for e in json.load(open(path))["trace_events"]:
        if e["name"] == "tick":
            by[e["instance_id"]] = by.get(e["instance_id"], 0) + 1
    return by


def probed(path):
    return {c["node"] for c in json.load(open(path))["meridian"]["clocks"] if c["method"].startswith("udp")}


def fetched(id, name, *options):
    out, err = run("fetch", id, "-o", os.path.join(work, name), "--format", "json", *options, want=None)
    path = os.path.join(work, name, "system_profile.json")
    return ticks(path) if check(os.path.exists(path), f"fetch {id} {options}: {err}") else {}


def equation(doc, ids):
    for part in doc["nodes"]:
        if part["instance_id"] in ids:
            c = part["counters"]
            equal(c["begun"], part["events"] + c["dropped"] + c["held"], f"begun = delivered + dropped + held of {part['instance_id']}")


def errors():
    """Each says what to check."""
    _, err = run("nodes", "--server", f"http://127.0.0.1:{free_port()}", want=1)
    check("is meridian-aggregator running" in err, f"nobody listens: {err}")
    _, err = run("nodes", "--server", "127.0.0.1:1", want=2)
    check("http://HOST:PORT" in err, f"no URL: {err}")
    _, err = run("status", "2001", want=1)
    check("no session" in err, f"unknown session: {err}")
    _, err = run("record", "--duraton", "3s", want=2)
    check("did you mean --duration?" in err, f"mistyped option: {err}")
    _, err = run("record", "--format", "perfeto", want=2)
    check("did you mean perfetto?" in err, f"mistyped format: {err}")
    _, err = run("stop", want=2)
    check("which session" in err, f"no session given: {err}")
    _, err = run("record", "--require", "many", want=1)
    check("require" in err, f"wrong policy: {err}")
    _, err = run("record", "--duration", "1s", "--require", "3", want=1)
    check("2 of 2 nodes are ready and 3" in err, f"too few nodes: {err}")
    _, err = run("trigger", want=1)
    check("recorder" in err, f"no recorder runs: {err}")


def killed():
    """One session, in which aggregator and an agent die."""
    out, _ = run("start", "--name", "killed", "--require", "all", "--json")
    id = json.loads(out)["id"]
    for w in workloads:
        w.total = 0
    emitted = [w.emit(5000) for w in workloads]
    daemon.kill()
    daemon.wait()
    _, err = run("status", id, want=1)
    check("is meridian-aggregator running" in err, f"dead aggregator: {err}")
    emitted = [n + w.emit(3000) for n, w in zip(emitted, workloads)]
    again = aggregator()
    agents[1].kill()
    agents[1].wait()
    emitted = [n + w.emit(2000) for n, w in zip(emitted, workloads)]
    agents[1] = agent(1)
    until(lambda: len([n for n in nodes().values() if n["connected"]]) == NODES, "both agents are back")
    until(lambda: len(session(id)["nodes"]) == NODES and all(p["state"] == "recording" for p in session(id)["nodes"]),
          "the session goes on")
    emitted = [n + w.emit(1000) for n, w in zip(emitted, workloads)]
    time.sleep(0.3)  # within the session: its end is a time
    out, err = run("stop", id[:-1], "--json")
    doc = json.loads(out)
    equal(doc["state"], "complete", f"state after stop {err}")
    want = {f"i-test{i}": n for i, n in enumerate(emitted)}
    equal({p["instance_id"]: p["counters"]["dropped"] for p in doc["nodes"]}, dict.fromkeys(want, 0), "dropped")
    equation(doc, ["i-test0"])  # the other agent began to count anew
    equal(fetched(id, "killed"), want, "ticks fetched, of ticks emitted")
    equal(fetched("latest", "one-node", "--instance-id", "i-test1"), {"i-test1": want["i-test1"]}, "ticks of one node")
    return again


def all_ready():
    """After a restart the agents' control connections come back at different times."""
    out, _ = run("start", "--require", "all", "--json", want=None)
    if out and json.loads(out)["state"] == "recording":
        run("stop", json.loads(out)["id"], want=None)
        return True
    return False


def recorded():
    """record, ended by Ctrl-C."""
    p = subprocess.Popen([MERIDIAN, "record", "--duration", "0", "-o", os.path.join(work, "record"), "--format", "json,summary-text"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = p.stderr.readline()
    check("records on 2 nodes" in line, f"record says: {line}")
    time.sleep(0.1)
    emitted = {f"i-test{i}": w.emit(4000) for i, w in enumerate(workloads)}
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    equal(p.returncode, 0, f"record's exit status: {err}")
    check("summary.txt" in out and "i-test1  flushed" in out, f"record prints: {out}")
    equal(ticks(os.path.join(work, "record", "system_profile.json")), emitted, "ticks recorded, of ticks emitted")
    equation(session("latest"), emitted)
    _, err = run("fetch", "latest", "-o", os.path.join(work, "record"), "--format", "json", want=1)
    check("--force" in err, f"existing files are kept: {err}")
    run("fetch", "latest", "-o", os.path.join(work, "record"), "--format", "json", "--force")


def triggered():
    """A flight recorder, and the window around an emission."""
    out, _ = run("start", "--mode", "recorder", "--keep", "20s")
    id = out.strip()
    beside = run("start", "--name", "beside")[0].strip()
    emitted = {f"i-test{i}": w.emit(1500) for i, w in enumerate(workloads)}
    time.sleep(0.5)
    out, _ = run("trigger", id, "--last", "10s", "--reason", "test")
    check("2 nodes answered" in out and "meridian fetch" in out, f"trigger prints: {out}")
    workloads[0].emit("slow")
    until(lambda: any("step took" in t["reason"] and t["answered"] == NODES for t in session(id)["triggers"]),
          "a slow step froze the recorders of all nodes")
    equal(len(session(id)["triggers"]), 2, "triggers")
    run("stop", id)
    equal(fetched(id, "triggered"), emitted, "ticks of the window, of ticks emitted")
    run("stop", beside)
    equal(fetched(beside, "beside"), emitted, "ticks of the session beside the recorder")
    known = [probed(os.path.join(work, name, "system_profile.json")) for name in ("triggered", "beside")]
    check(known[0] <= known[1], f"nodes whose clock is known by probes, in the recorder and in the longer session beside it: {known}")


try:
    daemon = aggregator()
    until(lambda: run("sessions", want=None)[0] != "", "the aggregator answers")
    out, _ = run("nodes")
    check("no agent has connected" in out, f"no agents: {out}")
    workloads = [Workload(i) for i in range(NODES)]
    agents = [agent(i) for i in range(NODES)]
    until(lambda: len(nodes()) == NODES and all(n["rings"] for n in nodes().values()), "both agents see rings")
    errors()
    killed()
    until(all_ready, "all nodes answer again", 30)
    recorded()
    triggered()
    out, _ = run("nodes")
    check(out.startswith("node ") and len(out.splitlines()) == 1 + NODES, f"table of nodes: {out}")
    out, _ = run("sessions")
    check("killed" in out and "complete" in out, f"table of sessions: {out}")
    _, err = run("stop", "2", want=1)
    check("begin with '2'" in err, f"ambiguous session: {err}")
finally:
    for p in started:
        p.kill()
        p.wait()
    for name in sorted(os.listdir(work)) if "MERIDIAN_KEEP" in os.environ else []:
        if name.endswith(".log"):
            print("----", name, "----\n" + open(os.path.join(work, name)).read()[-3000:])
    if "MERIDIAN_KEEP" not in os.environ:
        shutil.rmtree(work, ignore_errors=True)
finish()
