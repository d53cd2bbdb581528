"""Tests the commands for clusters with real daemons. `meridian fetch` must return what a workload
emitted, whichever program is killed in between."""
import json
import os
import signal
import subprocess

from lib import MERIDIAN, Cluster, check, check_ticks, equal, equation, finish, free_port, need_daemons, ticks_in, until

NODES = 2
need_daemons()
cluster = Cluster()
run = cluster.run


def agent(i):
    return cluster.agent(i)


def probed(path):
    with open(path) as f:
        return {c["node"] for c in json.load(f)["meridian"]["clocks"] if c["method"].startswith("udp")}


def counts(by):
    """Ticks by node."""
    out = {}
    for (instance, _), numbers in by.items():
        out[instance] = out.get(instance, 0) + len(numbers)
    return out


def fetched(id, name, *options):
    out, err = run("fetch", id, "-o", cluster.path(name), "--format", "json", *options, want=None)
    path = cluster.path(name, "system_profile.json")
    return counts(ticks_in(path)) if check(os.path.exists(path), f"fetch {id} {options}: {err}") else {}


def versions():
    """--version, nodes and manifests say of which commit the programs are."""
    text = run("--version")[0].split()
    commit = text[2].strip("()") if len(text) > 2 else None
    node = json.loads(run("nodes", "--interval", "0", "--json")[0])["nodes"][0]
    equal((node["release"], node.get("commit")), (text[1], commit), "release and commit of a node")
    check(f"{text[1]} {commit[:7] if commit else ''}".strip() in run("nodes", "--interval", "0")[0], "the table says it too")
    failed = json.loads(run("sessions", "--json")[0])["sessions"][-1]["id"]
    for words, meant in ((["report", "latst"], "latest"), (["status", failed + "x"], failed)):
        _, err = run(*words, want=1)
        check(f"there is no session '{words[1]}': did you mean {meant}?" in err, f"mistyped session: {err}")
    manifest = json.loads(run("status", failed, "--json", want=None)[0])
    for what in [manifest] + manifest["nodes"]:
        equal((what["release"], what.get("commit")), (text[1], commit), "release and commit in the manifest")


def errors():
    """Each says what to check."""
    _, err = run("nodes", "--server", f"http://127.0.0.1:{free_port()}", want=1)
    check("that meridian-aggregator runs there" in err, f"nobody listens: {err}")
    _, err = run("nodes", "--server", "127.0.0.1:1", want=2)
    check("http://HOST:PORT" in err, f"no URL: {err}")
    _, err = run("status", "2001", want=1)
    check("no session" in err, f"unknown session: {err}")
    with open(cluster.path("aggregator.log")) as f:
        check("The aggregator started and created the folder of its store (--store): store=" in f.read(), "a new store is told")
    _, err = run("record", "--duraton", "3s", want=2)
    check("did you mean --duration?" in err, f"mistyped option: {err}")
    _, err = run("record", "--format", "perfeto", want=2)
    check("did you mean perfetto?" in err, f"mistyped format: {err}")
    _, err = run("stop", want=2)
    check("which session" in err, f"no session given: {err}")
    _, err = run("record", "--require", "many", want=2)
    check("require" in err, f"wrong policy: {err}")
    _, err = run("record", "--duration", "1s", "--require", "3", want=1)
    check("2 of 2 nodes are ready and 3 are required" in err, f"too few nodes: {err}")
    failed = json.loads(run("sessions", "--json")[0])["sessions"][-1]["id"]
    for command in ("fetch", "report"):
        _, err = run(command, failed, want=1)
        check(f"session {failed} failed and has no events: 2 of 2" in err, f"{command} of a failed session: {err}")
    path = cluster.path("there")
    os.mkdir(path)
    open(os.path.join(path, "summary.txt"), "w").close()
    before = len(json.loads(run("sessions", "--json")[0])["sessions"])
    _, err = run("record", "--duration", "1s", "-o", path, want=1)
    check("summary.txt exists: --force replaces it" in err, f"results that exist: {err}")
    _, err = run("record", "--duration", "1s", "-o", os.path.join(path, "a", "b"), want=1)
    check("cannot make the folder" in err, f"a folder that cannot be made: {err}")
    equal(len(json.loads(run("sessions", "--json")[0])["sessions"]), before, "nothing was recorded in vain")
    names = [n["instance_id"] for n in json.loads(run("nodes", "--interval", "0", "--json")[0])["nodes"]]
    equal(names, sorted(names), "nodes in order")
    _, err = run("trigger", want=1)
    check("recorder" in err, f"no recorder runs: {err}")


def killed():
    """One session, in which aggregator and an agent die."""
    out, _ = run("start", "--name", "killed", "--require", "all", "--json")
    id = json.loads(out)["id"]
    emitted = [w.emit(5000) for w in workloads]
    cluster.daemon.kill()
    _, err = run("status", id, want=1)
    check("that meridian-aggregator runs there" in err, f"dead aggregator: {err}")
    emitted = [n + w.emit(3000) for n, w in zip(emitted, workloads)]
    cluster.aggregator()
    cluster.agents[1].kill()
    emitted = [n + w.emit(2000) for n, w in zip(emitted, workloads)]
    agent(1)
    until(lambda: len(cluster.connected()) == NODES, "both agents are back")
    cluster.recording(id, NODES)
    emitted = [n + w.emit(1000) for n, w in zip(emitted, workloads)]
    cluster.within_session(id)
    out, err = run("stop", id[:-1], "--json")
    doc = json.loads(out)
    equal(doc["state"], "complete", f"state after stop {err}")
    want = {f"i-test{i}": n for i, n in enumerate(emitted)}
    equal({p["instance_id"]: p["counters"]["dropped"] for p in doc["nodes"]}, dict.fromkeys(want, 0), "dropped")
    doc["nodes"] = [part for part in doc["nodes"] if part["instance_id"] == "i-test0"]  # the other agent began to count anew
    equation(doc, "killed")
    equal(fetched(id, "killed"), want, "ticks fetched, of ticks emitted")
    _, err = run("fetch", "latest", "-o", cluster.path("nobody"), "--instance-id", "i-nobody", want=1)
    check("no node 'i-nobody' takes part" in err, f"a slice of a node that is none: {err}")
    equal(fetched("latest", "one-node", "--instance-id", "i-test1"), {"i-test1": want["i-test1"]}, "ticks of one node")


def all_ready():
    """After a restart the agents' control connections come back at different times."""
    out, _ = run("start", "--require", "all", "--json", want=None)
    if out and json.loads(out)["state"] == "recording":
        run("stop", json.loads(out)["id"], want=None)
        return True
    return False


def recorded():
    """record, ended by Ctrl-C."""
    p = subprocess.Popen([MERIDIAN, "record", "--duration", "0", "-o", cluster.path("record"), "--format", "json,summary-text"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cluster.env)
    line = p.stderr.readline()
    check("records on 2 nodes" in line, f"record says: {line}")
    id = json.loads(run("sessions", "--json")[0])["sessions"][-1]["id"]
    cluster.begun(id, NODES)
    emitted = {f"i-test{i}": w.emit(4000) for i, w in enumerate(workloads)}
    cluster.within_session(id)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    equal(p.returncode, 0, f"record's exit status: {err}")
    check("summary.txt" in out and "i-test1  flushed" in out, f"record prints: {out}")
    equal(counts(ticks_in(cluster.path("record", "system_profile.json"))), emitted, "ticks recorded, of ticks emitted")
    equation(json.loads(run("status", "latest", "--json")[0]), "record")
    _, err = run("fetch", "latest", "-o", cluster.path("record"), "--format", "json", want=1)
    check("--force" in err, f"existing files are kept: {err}")
    run("fetch", "latest", "-o", cluster.path("record"), "--format", "json", "--force")
    report = json.loads(run("report", "--json", want=None)[0])["report"]
    equal(report["verdict"]["kind"], "nothing to compare", "the report of a session without devices")
    check(run("report", "latest", want=None)[0].startswith("Report "), "the report in words")


def triggered():
    """A flight recorder, and the window around an emission."""
    out, _ = run("start", "--mode", "recorder", "--keep", "120s", "--slow-step", "500")  # longer than a busy machine takes from the first tick to the trigger
    id = out.strip()
    beside = run("start", "--name", "beside")[0].strip()
    emitted = {f"i-test{i}": w.emit(1500) for i, w in enumerate(workloads)}
    cluster.within_session(id)
    out, _ = run("trigger", id, "--last", "120s", "--reason", "test")
    check("2 nodes answered" in out and "meridian fetch" in out, f"trigger prints: {out}")
    workloads[0].slow_step()
    until(lambda: any("step took" in t["reason"] and t["answered"] == NODES for t in cluster.session(id)["triggers"]),
          "a slow step froze the recorders of all nodes")
    equal(len(cluster.session(id)["triggers"]), 2, "triggers")
    run("stop", id)
    equal(fetched(id, "triggered"), emitted, "ticks of the window, of ticks emitted")
    run("stop", beside)
    equal(fetched(beside, "beside"), emitted, "ticks of the session beside the recorder")
    known = [probed(cluster.path(name, "system_profile.json")) for name in ("triggered", "beside")]
    check(known[0] <= known[1], f"nodes whose clock is known by probes, in the recorder and in the longer session beside it: {known}")


with cluster:
    cluster.aggregator()
    until(cluster.answers, "the aggregator answers")
    out, _ = run("nodes")
    check("no agent has connected" in out, f"no agents: {out}")
    workloads = [cluster.workload(i) for i in range(NODES)]
    for i in range(NODES):
        agent(i)
    until(lambda: len(cluster.nodes()) == NODES and all(n["rings"] for n in cluster.nodes().values()), "both agents see rings")
    errors()
    versions()
    killed()
    until(all_ready, "all nodes answer again")
    recorded()
    triggered()
    out, _ = run("nodes")
    check(out.startswith("node ") and len(out.splitlines()) == 1 + NODES, f"table of nodes: {out}")
    out, _ = run("sessions")
    check("killed" in out and "complete" in out, f"table of sessions: {out}")
    _, err = run("stop", "2", want=2)
    check("begin with '2'" in err, f"ambiguous session: {err}")
finish()
