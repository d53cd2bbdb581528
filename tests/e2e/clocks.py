"""Tests the clocks of a cluster on one machine, so that the true times are known. Every transport
of probes is used and must be named in every output, and bounds must hold. The test also checks the
clock table and the picture over HTTP, and the output times that a user can request."""
import json
import os
import time
import urllib.request

from lib import Cluster, check, equal, finish, need_daemons, ticks_in, until
from wait import let_it_run

TRANSPORTS = ("auto", "udp", "nng", "heartbeat")
STAMPS = {"auto": ("udp-kernel", "udp-user"), "udp": ("udp-kernel", "udp-user"), "nng": ("nng",), "heartbeat": ("batch",)}
need_daemons()
cluster = Cluster()
run = cluster.run


def true_offset():
    """Session time minus RAW: on one machine the same for every node, and written down by the aggregator."""
    with open(cluster.path("store", "clock.json")) as f:
        return json.load(f)["session_offset_ns"]


def by_node(doc):
    return {n["instance_id"]: n for n in doc["nodes"]}


def get(path):
    with urllib.request.urlopen(f"http://{cluster.http}{path}", timeout=30) as r:
        return r.read().decode()


def profile(name, *options):
    """Timestamps of the ticks of every node, and the clocks of the file."""
    run("fetch", session, "-o", cluster.path(name), "--format", "json", *options)
    path = cluster.path(name, "system_profile.json")
    with open(path) as f:
        doc = json.load(f)
    times = {}
    for e in doc["trace_events"]:
        times.setdefault(e["instance_id"], []).append(int(e["timestamp"]))
    return times, doc["meridian"]


def transports_are_labelled():
    doc = json.loads(run("clocks", session, "--json")[0])
    nodes, truth = by_node(doc), true_offset()
    equal(sorted(nodes), sorted(names), "nodes with a clock")
    equal(doc["violations"], 0, "violations of the bound")
    for name, transport in names.items():
        last = nodes[name]["segments"][-1] if check(nodes[name]["segments"], f"{name}: {nodes[name]}") else {}
        check(last.get("stamps") in STAMPS[transport], f"{name} by {transport}: stamps {last.get('stamps')}")
        error = abs(last.get("estimate_ns", 0) - truth)
        check(error <= nodes[name]["bound_ns"], f"{name} by {transport}: off by {error} ns, more than its bound {nodes[name]['bound_ns']}")
        host = nodes[name].get("host", {})
        check(host.get("wall_ns", 0) > 0 and host["wall_state"] in ("synchronized", "unsynchronized", "unknown"), f"host clock {host}")
    text = run("clocks", session)[0]
    for word in ("nng", "batch", "udp-", "wall clock", "0 violations of the bound"):
        check(word in text, f"'{word}' in the table:\n{text}")
    local = run("clocks", cluster.path("store", "sessions", session))[0]
    equal(text, local, "the aggregator's table, and that of its store")
    run("clocks", session, "--plot", cluster.path("clock.svg"))
    for name in names:
        path = cluster.path(f"clock-{name}.svg")
        check(os.path.exists(path) and open(path).read(4) == "<svg", f"picture {path}")
    run("clocks", session, "--instance-id", "i-nobody", want=1)
    one = json.loads(run("clocks", session, "--instance-id", "i-test2", "--json")[0])
    equal(list(by_node(one)), ["i-test2"], "one node asked for")


def manifest_and_metrics_publish_the_checks():
    doc = cluster.session(session)
    equal(doc["clocks"]["violations"], 0, f"violations in the manifest {doc['clocks']}")
    check(doc["clocks"]["trusted"] and doc["clocks"]["merged"], f"manifest {doc['clocks']}")
    check(doc["clocks"]["frames_checked"] > 0, f"batches against the bound {doc['clocks']}")
    for p in doc["nodes"]:
        check("host" in p["clock"], f"manifest of {p['instance_id']}: {p['clock']}")
        check(p["clock"]["method"] in STAMPS[names[p["instance_id"]]], f"manifest of {p['instance_id']}: {p['clock']}")
    for line in get("/metrics").splitlines():
        if line.startswith("meridian_clock_violations_total"):
            equal(line.rsplit(" ", 1)[1], "0", line)
    check('meridian_clock_checks_total{kind="frame"}' in get("/metrics"), "checks in the metrics")


def times_can_be_chosen():
    now, up = time.time_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    aligned, about = profile("aligned")
    methods = {c["node"]: c["method"] for c in about["clocks"] if c.get("node")}
    for name, transport in names.items():
        check(methods.get(name) in STAMPS[transport], f"profile: {name} by {transport} says {methods.get(name)}")
    for clock, reference in (("utc", now), ("raw", up)):
        times, about = profile(clock, "--clock", clock)
        check(about["facts"]["clock.times"].startswith(clock), f"fact {about['facts']}")
        for name in names:
            check(all(0 < reference - t < 600 * 10**9 for t in times.get(name, [0])), f"{clock} times of {name}: {times.get(name, [])[:3]}")
            equal(len(times.get(name, [])), len(aligned.get(name, [])), f"events of {name} in {clock} and aligned times")
            check(all(c.get("bound_ns", -1) < 0 for c in about["clocks"] if c.get("node") == name), f"no bound {about['clocks']}")
    first, last = min(min(t) for t in aligned.values()), max(max(t) for t in aligned.values())
    middle = str((first + last) // 2)
    part = profile("part", "--end", middle)[0]
    raw = profile("part-raw", "--end", middle, "--clock", "raw")[0]
    equal({n: len(t) for n, t in raw.items()}, {n: len(t) for n, t in part.items()}, "a slice in session time, whatever times are written")
    _, err = run("fetch", session, "-o", cluster.path("no"), "--clock", "wall", want=2)
    check("aligned" in err, f"mistyped clock: {err}")


with cluster:
    cluster.aggregator()
    names = {f"i-test{i}": transport for i, transport in enumerate(TRANSPORTS)}
    for i, transport in enumerate(TRANSPORTS):
        cluster.agent(i, clock_probes=transport)
    workloads = [cluster.workload(i) for i in range(len(TRANSPORTS))]
    until(lambda: len(cluster.connected()) == len(TRANSPORTS), "the agents are connected")
    session = cluster.start("--require", "all")
    cluster.recording(session, len(TRANSPORTS))
    for n in range(5):
        for w in workloads:
            w.emit(200)
        let_it_run(1)  # a session of some seconds: heartbeats come once a second
    until(lambda: all(p["clock"]["method"] in STAMPS[names[p["instance_id"]]] for p in cluster.session(session)["nodes"]),
          "every clock is known by its transport")  # after at least three seconds of probes; until then by heartbeats
    cluster.stop(session)
    transports_are_labelled()
    manifest_and_metrics_publish_the_checks()
    times_can_be_chosen()
finish()
