"""Tests sessions in which nodes are absent, come late, are lost or cannot take part. The manifest,
every command and its exit status must state this. Data that has not arrived yet does not count as
missing."""
import http.server
import json
import os
import threading
import time

from lib import Cluster, check, equal, finish, need_daemons, run, until
from wait import let_it_run

need_daemons()


def part(doc, i):
    return next((p for p in doc.get("nodes", []) if p["instance_id"] == f"i-test{i}"), {})


def records(c, id, n):
    until(lambda: [p["state"] for p in c.session(id).get("nodes", [])].count("recording") == n, f"{n} nodes record")


def lost_and_late():
    with Cluster(node_timeout="60s", flush_timeout="15s") as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        for i in range(3):
            c.agent(i)
        until(lambda: len(c.connected()) == 3, "all agents are connected")
        c.agents[2].kill()
        until(lambda: len(c.connected()) == 2, "one is gone")

        # Known, not connected when the session is armed.
        out, err = c.run("start", "--json", want=3)
        doc = json.loads(out)
        id = doc["id"]
        equal(part(doc, 2)["state"], "missing", "state")
        check("not connected when the session began, last seen " in part(doc, 2)["message"], f"why: {part(doc, 2)}")
        check("node i-test2 is missing" in err, f"start says who is missing: {err}")
        text, err = c.run("status", id, want=3)
        check("missing" in text and "not connected when the session began" in text, f"status: {text}")
        check("2 of 3" in c.run("sessions")[0], "sessions shows 2 of 3 nodes")
        records(c, id, 2)

        # Back in the middle: its part covers less.
        let_it_run(1.5)
        c.agent(2)
        until(lambda: part(c.session(id), 2).get("state") == "recording", "the missing node joins late")
        equal(part(c.session(id), 2)["message"], "joined late", "message")

        # Lost: nothing of it arrives until the time to flush is over.
        c.agents[1].kill()
        killed = time.time()
        let_it_run(2.5)
        out, err = c.run("stop", id, "--json", want=3)
        doc = json.loads(out)
        window = part(doc, 0)["window_ns"]
        equal([part(doc, i)["state"] for i in range(3)], ["flushed", "lost", "flushed"], "states")
        check(window - part(doc, 0)["covered_ns"] < 1e9, "a node that was there covers the window")
        check(abs(part(doc, 1)["lost_ns"] / 1e9 - killed) < 60 and part(doc, 1)["message"] == "the agent disconnected before all of its data had arrived", f"lost: {part(doc, 1)}")
        for i in (1, 2):
            check(0 < part(doc, i)["covered_ns"] < window - 1e9, f"node {i} covers {part(doc, i)['covered_ns']} of {window}")
            check(f"node i-test{i} covers " in err, f"stop says how much: {err}")
        check("node i-test1 is lost" in err, f"stop says who was lost: {err}")
        for command in (["status", id], ["fetch", id, "-o", c.path("profile"), "--format", "json"]):
            check("i-test1" in c.run(*command, want=3)[1], f"{command[0]} says so, too")

        # A named node that nobody knows; record says it and ends with 3.
        c.agent(1)
        until(lambda: len(c.connected()) == 3, "all are back")
        out, err = until(lambda: record(c, "--instance-id", "i-test0,i-nobody"), "a recording of a node that nobody knows") or ("", "")
        check("1 of 2 nodes" in err and "node i-nobody is missing" in err and "no agent of this name" in out, f"record: {out} {err}")
        # Everybody there, under load: nothing is missing while it is on its way.
        w = c.workload(0)
        w.run(20)
        id = c.start("--require", "all")
        for _ in range(10):
            c.run("status", id)
        until(lambda: c.session(id).get("events"), "events arrive")
        w.pause()
        c.within_session(id)
        c.stop(id)
        c.run("status", id)

        # Long gone is not expected any more.
        c.agents[2].kill()
        c.daemon.end()
        c.aggregator(node_forget="1s")
        until(lambda: c.connected() == ["i-test0", "i-test1"], "two are back")
        until(lambda: c.run("start", "--duration", "100ms", "--require", "all", want=None)[1].startswith("recording on 2 nodes"), "a session without the third")


def known(c):
    """What the list of nodes in the store says: {instance_id: when it was seen}."""
    try:
        with open(c.path("store", "nodes.json")) as f:
            return {n["instance_id"]: n["seen_ns"] for n in json.load(f)["nodes"]}
    except FileNotFoundError:
        return {}


def remembered():
    """After a restart who does not come back is missing, counts for --require all, and can be forgotten."""
    with Cluster() as c:
        def restart(connected):
            c.daemon.kill()
            c.aggregator()
            until(lambda: c.connected() == connected, f"{connected} are back")

        c.aggregator()
        until(c.answers, "the aggregator answers")
        for i in range(3):
            c.agent(i)
        both, three = ["i-test0", "i-test1"], ["i-test0", "i-test1", "i-test2"]
        until(lambda: c.connected() == three, "all agents are connected")
        until(lambda: sorted(known(c)) == three, "the list has all")
        c.agents[2].kill()
        killed = time.time()
        until(lambda: c.connected() == both, "one is gone")
        restart(both)
        node = c.nodes()["i-test2"]
        equal((node["state"], node["connected"], node["reported"]), ("missing", False, False), "who did not come back")
        check(abs(node["seen_ns"] / 1e9 - killed) < 60, f"missing since: {node['seen']}")
        row = next(line for line in c.run("nodes", "--interval", "0")[0].splitlines() if line.startswith("i-test2"))
        check(row.split()[1] == "missing" and row.split()[-1] == node["seen"][:19], f"`meridian nodes`: {row}")

        _, err = c.run("start", "--require", "all", want=1)
        for word in ("2 of 3 nodes are ready and all are required", "i-test2 is missing", "--require 2 or any", "nodes --forget i-test2"):
            check(word in err, f"--require all: {word}: {err}")
        id = json.loads(c.run("start", "--require", "2", "--json", want=3)[0])["id"]
        equal(part(c.session(id), 2)["state"], "missing", "it is in the manifest")
        c.stop(id, want=3)

        check("stop its meridian-agent first" in c.run("nodes", "--forget", "i-test0", want=1)[1], "one that is connected")
        check("no node 'i-nobody'" in c.run("nodes", "--forget", "i-nobody", want=1)[1], "one that nobody knows")
        equal(c.run("nodes", "--forget", "i-test2")[0], "i-test2 is forgotten until it connects again\n", "forget")
        equal(sorted(c.nodes()), both, "nodes after that")
        c.stop(c.start("--require", "all"))
        until(lambda: sorted(known(c)) == both, "the list has two")
        restart(both)
        c.agent(2)
        until(lambda: c.connected() == three, "who comes back is known again")

        # A list that cannot be read costs the list; a long one is cut to those seen last.
        for i in range(3):
            c.agents[i].kill()
        c.daemon.end()
        path = c.path("store", "nodes.json")
        with open(path, "w") as f:
            f.write('{"nodes": [{"instance_id"')
        c.aggregator()
        until(c.answers, "the aggregator answers")
        check("AGG-NODES-UNREADABLE" in c.daemon.text() and path in c.daemon.text() and c.nodes() == {}, "a broken list is named")
        c.daemon.end()
        now = time.time_ns()
        minutes = {"i-1": 3, "i-2": 1, "i-3": 70, "i-4": 2, "i-5": 4, "../i-6": 1}
        with open(path, "w") as f:
            json.dump({"version": 1, "nodes": [{"instance_id": id, "seen_ns": now - m * 60 * 10**9} for id, m in minutes.items()]}, f)
        c.aggregator(max_nodes=3)
        until(c.answers, "the aggregator answers")
        equal(sorted(c.nodes()), ["i-1", "i-2", "i-4"], "the last three seen within --advanced.node-forget")


def record(c, *options):
    """(stdout, stderr) of `meridian record` when it ended with 3; control connections come back a little later than those of data."""
    out, err = c.run("record", "--duration", "200ms", "--no-fetch", *options, want=None)
    return (out, err) if "incomplete" in err and "did not answer" not in err else None


def refused():
    """A late joiner that cannot serve the session says why in the manifest, once, and is asked again by nobody."""
    with Cluster() as c:
        device = c.folder("sys/devices/virtual/neuron_device/neuron0/stats/hardware")
        with open(os.path.join(device, "sram_ecc"), "w") as f:
            f.write("7\n")
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0, sys_root=c.path("sys"))
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start("--counters", "neuron0.stats.hardware.sram_ecc")
        records(c, id, 1)
        late = c.agent(1)
        until(lambda: part(c.session(id), 1).get("state") == "refused", "the late node refuses")
        check("neuron0.stats.hardware.sram_ecc" in part(c.session(id), 1)["message"], f"why: {part(c.session(id), 1)}")
        text, err = c.run("status", id, want=3)
        check("refused" in text and "neuron0.stats.hardware.sram_ecc" in err, f"status: {text} {err}")
        beats = c.metric("meridian_heartbeats_total")
        until(lambda: c.metric("meridian_heartbeats_total") > beats + 6, "some heartbeats pass")
        equal(late.text().count("AGT-CONTROL"), 1, "how often it was asked")
        # The aggregator's restart does not forget it.
        c.daemon.kill()
        c.aggregator()
        until(lambda: c.connected() == ["i-test0", "i-test1"], "both are back")
        beats = c.metric("meridian_heartbeats_total")
        until(lambda: c.metric("meridian_heartbeats_total") > beats + 6, "some heartbeats pass")
        equal((part(c.session(id), 1)["state"], late.text().count("AGT-CONTROL")), ("refused", 1), "after a restart")
        doc = c.stop(id, want=3)
        equal((part(doc, 0)["state"], part(doc, 1)["state"]), ("flushed", "refused"), "states at the end")
        check(part(doc, 1)["covered_ns"] == 0, "it covers nothing")


def triggers():
    """A trigger that a node misses is told again and counted; one that it never hears of is named."""
    with Cluster(node_timeout="60s", flush_timeout="15s") as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        for i in range(2):
            c.agent(i)
        until(lambda: len(c.connected()) == 2, "both agents are connected")
        id = c.start("--mode", "recorder", "--keep", "30s", "--require", "all")
        records(c, id, 2)
        c.begun(id, 2)
        c.agents[1].p.send_signal(19)  # SIGSTOP: it cannot answer
        out, err = c.run("trigger", id, "--last", "1s")
        check("1 node answered" in out and "node i-test1 has not answered yet" in err, f"trigger says who did not: {out} {err}")
        until(lambda: [t["answered"] for t in c.session(id)["triggers"]] == [1], "one node answered")
        equal([t.get("unacknowledged") for t in c.session(id)["triggers"]], [["i-test1"]], "who did not")
        c.agents[1].p.send_signal(18)  # SIGCONT
        until(lambda: [t["answered"] for t in c.session(id)["triggers"]] == [2], "the other is told again and counts")
        c.agents[1].kill()
        c.run("trigger", id, "--last", "1s")
        until(lambda: [t["answered"] for t in c.session(id)["triggers"]] == [2, 1], "one node answered the second")
        c.daemon.kill()
        c.aggregator()
        until(lambda: c.connected() == ["i-test0"], "one agent is back")
        # Its heartbeat says again what it answered, if the manifest did not have it yet.
        until(lambda: [(t["answered"], t.get("unacknowledged")) for t in c.session(id)["triggers"]] == [(2, None), (1, ["i-test1"])], "after a restart")
        out, err = c.run("stop", id, want=3)
        check("node i-test1 did not acknowledge trigger" in err, f"stop says so: {err}")
        check("1 node answered, 1 did not acknowledge it" in c.run("status", id, want=3)[0], "status says so")


def in_flight():
    """Against a server that answers with one manifest: batches on their way are missing only when the session is over."""
    node = {"instance_id": "i-1", "host_name": "h", "state": "recording", "events": 5, "missing_batches": 2,
            "counters": {"begun": 9, "delivered": 5, "held": 4, "dropped": 0, "unwanted": 0, "drops": []}, "clock": {}}
    doc = {"id": "20260101-000000-0001", "name": "", "mode": "stream", "state": "recording", "created_ns": 1, "nodes": [node]}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = {"sessions": [dict(doc, nodes=1)]} if self.path == "/api/v1/sessions" else doc
            data = json.dumps(body).encode()
            self.send_response(200 if self.command == "GET" else 201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {"MERIDIAN_SERVER": f"http://127.0.0.1:{server.server_address[1]}", "no_proxy": "127.0.0.1", "MERIDIAN_TOKEN_FILE": "", "MERIDIAN_CA_FILE": ""}
    run("start", env=env)
    check("2 batches on their way" in run("status", env=env)[0], "status tells what has not arrived yet")
    node["state"], node["message"] = "refused", "it says no"
    check("it says no" in run("start", want=3, env=env)[1], "what is really missing is said at the start")
    node["state"], doc["state"] = "flushed", "complete"
    check("2 batches missing" in run("status", want=3, env=env)[1], "at the end they are missing")
    server.shutdown()


for test in (in_flight, lost_and_late, remembered, refused, triggers):
    test()
finish()
