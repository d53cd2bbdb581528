"""The aggregator continues with another copy of its store (cp -a), a recent or an old one. Two
agents also use the same instance id. Missing events must be counted and shown to users."""
import json
import os
import pathlib
import shutil
import sys

from lib import Cluster, check, check_ticks, equal, equation, finish, need_daemons, until

need_daemons()


def running(c, nodes=1, **options):
    """A cluster that records; the session's id."""
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(nodes):
        c.agent(i, **options)
    until(lambda: len(c.connected()) == nodes, "all agents are connected")
    id = c.start("--require", "all")
    c.begun(id, nodes)
    return id


def stored(c, id, n):
    until(lambda: c.session(id).get("events") == n, f"{n} events are stored")


def fresh_copy():
    """Killed, copied, started on the copy; agents have what was not acknowledged."""
    with Cluster() as c:
        id = running(c)
        w = c.workload(0)
        w.emit(5000)
        stored(c, id, w.all)
        for n in range(3):
            w.emit(3000)
            c.daemon.kill()
            shutil.copytree(c.path("store" if n == 0 else f"copy{n - 1}"), c.path(f"copy{n}"), symlinks=True, ignore=shutil.ignore_patterns("*.part"))
            c.aggregator(store=f"copy{n}")
            w.emit(1000)
            stored(c, id, w.all)
        c.within_session(id)
        doc = c.stop(id)
        equation(doc, "copy")
        equal(doc["begun"], w.all, "begun, of what the workload says it emitted")
        check_ticks(c.ticks(id), {("i-test0", w.pid): w}, "copy")


def stale_copy():
    """What was acknowledged after the copy was made is not in it, and nobody else has it any more: the manifest says so."""
    with Cluster() as c:
        id = running(c)
        w = c.workload(0)
        w.emit(5000)
        stored(c, id, w.all)
        shutil.copytree(c.path("store"), c.path("copy"), symlinks=True, ignore=shutil.ignore_patterns("*.part"))
        w.emit(3000)
        stored(c, id, w.all)
        c.daemon.end()
        c.aggregator(store="copy")
        until(lambda: c.connected() == ["i-test0"], "the agent is back")
        w.emit(2000)
        stored(c, id, w.all - 3000)
        c.within_session(id)
        doc = c.stop(id, want=3)  # incomplete
        part = doc["nodes"][0]
        counters = part["counters"]
        equal((doc["begun"], doc["dropped"], doc["held"]), (w.all, 3000, 0), "begun, dropped, held")
        equal((counters["begun"], counters["delivered"], counters["dropped"], counters["held"]), (w.all, w.all - 3000, 3000, 0), "the node's equation")
        equal([(d["cause"], d["count"]) for d in counters["drops"]], [("store-missing", 3000)], "the cause")
        equal(part["events"], w.all - 3000, "stored")
        check("at least 3000 events" in doc["message"], f"the session says that it is not whole: {doc['message']}")
        check(part["missing_batches"] > 0, "the manifest counts the batches that are missing")
        got = sorted(c.ticks(id)[("i-test0", w.pid)])
        equal(got, [*range(1, 5001), *range(8001, 10001)], "ticks in the copy")
        missing = part["missing_batches"]
        equal([s["lost"] for s in c.run_json("sessions")["sessions"]], [3000], "lost in the list of sessions")
        text = c.run("status", id, want=3)[0]
        check(f"{missing} batch{'' if missing == 1 else 'es'} missing" in text, "status says that batches are missing")
        check("3,000" in text and "store-missing" in text, f"status says how many events are missing: {text}")
        c.daemon.end()
        c.aggregator(store="copy")
        until(c.answers, "the aggregator answers")
        equal(c.session(id)["nodes"][0]["counters"], counters, "counters after a restart")


def removed():
    """The store's folder is moved away while a session records: nothing more is acknowledged, and /readyz, metrics, status and a start
    say why. Moved back, all of it arrives."""
    with Cluster() as c:
        id = running(c)
        w = c.workload(0)
        w.emit(5000)
        stored(c, id, w.all)
        os.rename(c.path("store"), c.path("elsewhere"))
        w.emit(3000)
        until(lambda: c.session(id)["nodes"][0]["counters"]["held"] == 3000, "the manifest says what is held")
        until(lambda: c.get("/readyz") is None, "/readyz fails while the store is away")
        try:
            c.open("/readyz")
        except OSError as e:
            text = e.read().decode()
        check("cannot be found" in text and c.path("store") in text, f"/readyz says why: {text}")
        equal((c.metric("meridian_store_failing"), c.session(id)["nodes"][0]["events"]), (1, w.all - 3000), "failing, events stored")
        text = c.run("status", id, want=None)[0]
        check("nothing is stored now" in text and "cannot be found" in text, f"status says it: {text}")
        out, err = c.run("start", want=1)
        check("cannot be found" in err, f"no new session without a store: {err}")
        equal(os.path.exists(c.path("store")), False, "a store in the place of the one that is away")
        os.rename(c.path("elsewhere"), c.path("store"))
        stored(c, id, w.all)
        until(lambda: (c.get("/readyz"), c.metric("meridian_store_failing")) == ("ready\n", 0), "/readyz, failing")
        doc = c.stop(id)
        equation(doc, "store away and back")
        check_ticks(c.ticks(id), {("i-test0", w.pid): w}, "store away and back")


def damaged():
    """A bit flips in a closed segment, then the segment is gone: each answer says how many of the stored events are not in it."""
    with Cluster() as c:
        id = running(c, 2)
        w = [c.workload(0), c.workload(1)]
        w[0].emit(20000)
        w[1].emit(7000)
        stored(c, id, w[0].all + w[1].all)
        c.within_session(id)
        equation(c.stop(id), "before")
        c.run("report", id, want=0)
        c.run("fetch", id, "-o", c.path("whole"), want=0)
        segment = max((pathlib.Path(c.path("store")) / "sessions" / id / "journal" / "i-test0").iterdir(), key=lambda p: p.stat().st_size)
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 4
        segment.write_bytes(data)

        def asked(what, lost):
            out, err = c.run("fetch", id, "--start", "0s", "-o", c.path(what), "--format", "summary-json", want=3)
            summary = json.loads(next(pathlib.Path(c.path(what)).rglob("*summary*.json")).read_text())["meridian"]
            row = next(i for i in summary["inputs"] if i["path"] == "journal/i-test0")
            check(summary["incomplete"] and row["state"] == "incomplete", f"{what}: the summary says that it is incomplete")
            check("cannot be read back" in row["error"] and "cannot be read back" in err, f"{what}: the reason is said")
            equal(row["dropped"], lost or row["dropped"], f"{what}: events that cannot be read")
            check(row["dropped"] > 0 and row["events"] + row["dropped"] == w[0].all, f"{what}: read and lost are what was stored")
            part = next(n for n in c.session(id)["nodes"] if n["instance_id"] == "i-test0")
            equal((part["events"], part["damaged_events"]), (w[0].all, row["dropped"]), f"{what}: stored and damaged in the manifest")
            c.run("report", id, want=3)
            out, err = c.run("status", id, want=3)
            check("cannot be read back" in out + err, f"{what}: status says it")
            check("AGG-JOURNAL-DAMAGE" in c.daemon.text(), f"{what}: the aggregator's log says it")
            return row["dropped"]

        check(asked("flipped", None) < w[0].all, "one bit costs a batch")
        segment.unlink()
        asked("gone", w[0].all)
        c.daemon.end()
        c.aggregator()
        until(c.answers, "the aggregator answers")
        asked("restarted", w[0].all)


def damaged_while_down():
    """Journals are removed, emptied or cut while the aggregator is down. It starts, its log names the session, and the session of
    which stored events are missing is incomplete. Also when the session was still recording."""
    def remove(path):
        path.unlink()

    def empty(path):
        os.truncate(path, 0)

    def halve(path):
        os.truncate(path, path.stat().st_size // 2)

    for damage in (remove, empty, halve):
        for recording in (False, True):
            what = f"{damage.__name__}, {'recording' if recording else 'finished'}"
            with Cluster() as c:
                id = running(c)
                w = c.workload(0)
                w.emit(5000)
                stored(c, id, w.all)
                c.within_session(id)
                if not recording:
                    c.stop(id)
                c.daemon.end()
                for path in (pathlib.Path(c.path("store")) / "sessions" / id / "journal" / "i-test0").iterdir():
                    damage(path)
                c.aggregator()
                until(c.answers, f"{what}: the aggregator answers")
                check("AGG-JOURNAL-DAMAGE" in c.daemon.text(), f"{what}: the aggregator's log says it")
                until(lambda: c.connected() == ["i-test0"], f"{what}: the agent is back")
                if recording:
                    c.stop(id, want=3)
                doc = c.session(id)
                part = doc["nodes"][0]
                check(part["damaged_events"] > 0, f"{what}: the manifest counts the missing events")
                c.run("status", id, want=3)


def claimed_id():
    """The second agent under one instance id is refused, and both sides say so; it takes over when the first is gone."""
    with Cluster(node_timeout="60s") as c:  # a busy machine does not make the first one look gone
        id = running(c)
        first = c.agents[0]
        w = [c.workload(0), c.workload(1)]
        w[0].emit(5000)
        second = c.agent(1, instance="i-test0", spool="spool1")
        until(lambda: "is in use by another agent" in second.text(), "the second agent says why it is refused")
        check("AGG-HELLO-REFUSED" in c.daemon.text() and "--instance-id" in c.daemon.text(), "the aggregator says what to do")
        w[1].emit(4000)  # waits in its rings until the agent is told which sessions there are
        w[0].emit(3000)
        stored(c, id, w[0].all)
        equal(len(c.nodes()), 1, "nodes")
        first.kill()
        until(lambda: "AGT-CONNECTED" in second.text(), "the second agent is taken when the first is gone")
        until(lambda: "AGT-GO" in second.text(), "it joins the session")
        w[1].emit(2000)
        w[0].emit(1000)  # nobody reads this node's rings now
        stored(c, id, w[0].all - 1000 + w[1].all)
        second.kill()
        c.agent(0)
        until(lambda: "AGT-CONNECTED" in c.agents[0].text().split("AGT-START")[-1], "the first one's successor is taken")
        stored(c, id, w[0].all + w[1].all)
        c.within_session(id)
        doc = c.stop(id, want=None)
        got = c.ticks(id)
        check_ticks({("i-test0", w[0].pid): got.get(("i-test0", w[0].pid), [])}, {("i-test0", w[0].pid): w[0]}, "claimed id")
        equal(sorted(got.get(("i-test0", w[1].pid), [])), [*range(1, w[1].done + 1)], "ticks of the second node, also those before it was taken")
        part = doc["nodes"][0]
        equal(part["events"], w[0].all + w[1].all, "stored")
        equal(part["missing_batches"], 0, "missing batches")
        equation(doc, "claimed id")
        equal(part["uncounted"]["runs"], 1, "agents that are away, and may have read more than they told")
        check("in no count" in doc["message"] and 0 < part["uncounted"]["within_ns"] < 60e9, f"the session says so: {doc['message']}")
        equal(part["counters"]["begun"], w[0].all + w[1].all, "begun, of what the workloads say they emitted")


for test in (fresh_copy, stale_copy, removed, damaged, damaged_while_down, claimed_id):
    if len(sys.argv) < 2 or sys.argv[1] == test.__name__:
        test()
finish()
