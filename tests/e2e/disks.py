"""Tests full disks. When the aggregator's store is full, nothing may be overwritten or lost, agents
use their spools, and storing continues when there is space. When an agent's spool is full, the
oldest frames are dropped and counted. A spool may also be unwritable. Commands and manifest must
show each state. Needs root for small file systems."""
import errno
import os
import resource
import shutil
import subprocess
import sys

from lib import MERIDIAN, SOURCE, Cluster, Program, check, check_ticks, equal, equation, finish, load_json, need_daemons, skip, until
from small_disk import SmallDisk

sys.path.insert(0, os.path.join(SOURCE, "tests", "fake"))
import fusefs

need_daemons()


def stored(c, id, n):
    until(lambda: c.session(id).get("events") == n, f"{n} events are stored")


def store_full():
    """Full by the reserve, then full to the last byte."""
    with Cluster() as c:
        c.options["disk_reserve"] = "8M"
        disk = SmallDisk(c.path("disk"), 48)
        try:
            c.aggregator(store=os.path.join(disk.path, "store"))
            until(c.answers, "the aggregator answers")
            c.agent(0)
            until(lambda: c.connected() == ["i-test0"], "the agent is connected")
            id = c.start()
            c.begun(id)
            w = c.workload(0)
            w.emit(20000)
            stored(c, id, w.all)
            disk.fill()
            until(lambda: c.session(id).get("store_message"), "the manifest says that the disk is full")
            text = c.run("status", id, want=None)[0]
            check("nothing is stored now" in text and "delete sessions or enlarge it" in text, f"status says what to do: {text}")
            w.emit(30000)
            until(lambda: c.nodes()["i-test0"]["state"] == "throttled" and c.nodes()["i-test0"]["spool_bytes"] > 0,
                  "the agent is throttled and holds what it has")
            equal(c.session(id)["nodes"][0]["events"], w.all - 30000, "nothing is stored on a full disk")
            until(lambda: c.session(id)["nodes"][0]["counters"]["held"] == 30000, "the manifest says what is held")
            out, err = c.run("start", want=1)
            check("delete sessions or enlarge it" in err, f"no new session on a full disk: {err}")
            disk.empty()
            stored(c, id, w.all)
            # To the last byte, with a frame under way: without a reserve only the write itself finds out.
            c.daemon.end()
            c.aggregator(store=os.path.join(disk.path, "store"), disk_reserve="0")
            until(lambda: c.connected() == ["i-test0"], "the agent is connected again")
            disk.fill()
            w.emit(30000)
            until(lambda: c.metric("meridian_disk_full") == 1, "a failed write says that the disk is full")
            check(c.daemon.running(), "the aggregator runs")
            c.daemon.kill()
            w.emit(10000)
            disk.empty()
            c.aggregator(store=os.path.join(disk.path, "store"))
            stored(c, id, w.all)
            c.within_session(id)
            doc = c.stop(id)
            equation(doc, "store full")
            equal(doc["begun"], w.all, "begun, of what the workload says it emitted")
            check(0 < doc["store_full_ns"] < doc["store_room_ns"], "the manifest keeps when the disk was full")
            check_ticks(c.ticks(id), {("i-test0", w.pid): w}, "store full")
            text = c.daemon.text()
            check("AGG-DISK-FULL" in text and "AGG-DISK-ROOM" in text, "the log tells both")
        finally:
            c.daemon.kill()
            disk.close()


def store_unread():
    """The store's disk refuses reads while the aggregator starts and while it merges. Nothing is refused or taken for damage meanwhile."""
    why = fusefs.available()
    if why:
        print("store_unread skipped:", why)
        return
    with Cluster() as c:
        disk = fusefs.Fuse(c.folder("backing"), c.folder("disk"))
        store = os.path.join(c.path("disk"), "store")
        try:
            c.aggregator(store=store)
            until(c.answers, "the aggregator answers")
            c.agent(0)
            until(lambda: c.connected() == ["i-test0"], "the agent is connected")
            id = c.start()
            c.begun(id)
            w = c.workload(0)
            w.emit(2000)
            stored(c, id, w.all)
            c.daemon.kill()
            w.emit(2000)
            disk.fail("read", errno.EIO)
            c.aggregator(store=store)
            until(lambda: c.connected() == ["i-test0"], "the agent is connected again")
            until(lambda: "cannot be read now" in c.agents[0].text(), "the agent says why nothing is stored")
            text = c.daemon.text()
            check("AGG-SESSION-UNREADABLE" in text and "Input/output error" in text, f"the log says why: {text[-600:]}")
            disk.heal()
            stored(c, id, w.all)
            c.within_session(id)
            disk.fail("read", errno.EIO)
            p = c.keep(Program(c.path("stop.err"), [MERIDIAN, "stop", id], env=c.env, stdout=subprocess.DEVNULL))
            until(lambda: c.session(id)["state"] == "merging", "it is merged")
            disk.heal()
            equal(p.p.wait(60), 0, f"stop: {p.text()}")
            doc = c.session(id)
            equation(doc, "store unread")
            equal((doc["begun"], doc["damaged_events"]), (w.all, 0), "begun, damaged")
            check_ticks(c.ticks(id), {("i-test0", w.pid): w}, "store unread")
        finally:
            c.daemon.kill()
            disk.close()


def spool_full():
    """The aggregator is away for longer than the spool lasts."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0, spool_size="8M")
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start()
        c.begun(id)
        w = c.workload(0, text=400)
        first, last, portion = 4000, 10000, 2000
        for _ in range(0, first, portion):
            w.emit(portion)
            w.taken()
        stored(c, id, w.all)
        c.daemon.kill()
        log = c.agents[0]
        while "AGT-SPOOL-FULL" not in log.text() and w.done < 300000:
            w.emit(portion)
            w.taken()
        for _ in range(0, last, portion):
            w.emit(portion)
            w.taken()
        c.aggregator()
        until(lambda: c.connected() == ["i-test0"], "the agent is connected again")
        until(lambda: c.nodes()["i-test0"]["counters"]["dropped"] > 0, "the loss is to be seen while the session records")
        c.within_session(id)
        doc = c.stop(id, want=None)
        part = doc["nodes"][0]
        counters = part["counters"]
        equal(counters["begun"], w.all, "begun, of what the workload says it emitted")
        equal(counters["begun"], counters["delivered"] + counters["dropped"] + counters["held"], "begun = delivered + dropped + held")
        equal(counters["delivered"], part["events"], "delivered, of stored")
        equal([d["cause"] for d in counters["drops"]], ["spool-full"], "causes")
        check(part["missing_batches"] > 0, "missing batches are told")
        check(0 < counters["drops"][0]["first_local_ns"] < counters["drops"][0]["last_local_ns"], "the gap has two times")
        got = c.ticks(id).get(("i-test0", w.pid), [])
        equal(len(got), len(set(got)), "ticks that came twice")
        equal(len(got), w.done - counters["dropped"], "ticks in the profile")
        # The oldest went: what is missing lies between what was stored before and what came last.
        missing = sorted(set(range(1, w.done + 1)) - set(got))
        check(missing and missing[0] > first and missing[-1] <= w.done - last, f"the oldest were dropped: {missing[:1]} .. {missing[-1:]}")
        text = c.run("status", id, want=None)[0]
        check("spool-full" in text and f"{counters['dropped']:,}" in text, f"status shows the loss: {text}")
        # The profile has a mark of it, at its times, though no stored event tells of it.
        c.run("fetch", id, "-o", c.path("sum"), "--format", "summary-json", want=None)
        losses = load_json(c.path("sum", "summary.json"))["summary"]["losses"]
        equal([(l["cause"], l["process_id"]) for l in losses], [("spool-full", 0)], "marks of losses")
        equal(sum(l["lost"] for l in losses), counters["dropped"], "what the marks say was lost")
        gaps = counters["drops"][0]["gaps"]
        equal(sum(g["count"] for g in gaps), counters["dropped"], "the gaps' counts")
        check(all(not g["marked"] for g in gaps), f"no event of the node tells of it: {gaps}")
        hole = sum(g["last_local_ns"] - g["first_local_ns"] for g in gaps)
        check(abs(part["not_recorded_ns"] - hole) < 10**6, f"not recorded is the gaps' union: {part['not_recorded_ns']} of {gaps}")
        print(f"spool full: {len(got)} of {w.done} ticks there, {counters['dropped']} dropped and counted")


def ring_folder_full():
    """A program that can make no ring says how many events it lost, and why; with room it gets a ring."""
    with Cluster() as c:
        disk = SmallDisk(c.rings(0), 4)
        try:
            c.aggregator()
            until(c.answers, "the aggregator answers")
            c.agent(0)
            until(lambda: c.connected() == ["i-test0"], "the agent is connected")
            id = c.start()
            c.begun(id)
            dropped = lambda: c.nodes()["i-test0"]["counters"]["dropped"]
            disk.fill()
            w, short = c.workload(0), c.workload(0)
            w.emit(3000)
            short.emit(2000)
            until(lambda: dropped() >= (w.all + short.all) // 2, "losses are counted while the programs run")
            short.p.stdin.close()
            short.p.wait()
            until(lambda: dropped() >= short.all + w.all // 2, "one that ended has told all")
            disk.empty()
            until(lambda: w.emit(1) and w.unread() + c.session(id).get("events", 0) > 100, "with room there is a ring")
            w.emit(1000)
            c.within_session(id)
            doc = c.stop(id, want=None)
            lost = equation(doc, "no room for rings", dropped=None)
            got = len(c.ticks(id).get(("i-test0", w.pid), []))
            equal(got + lost, w.all + short.all, "ticks in the profile and lost ones, of what the programs emitted")
            check(got >= 1000, f"ticks in the profile: {got}")
            equal([d["cause"] for d in doc["nodes"][0]["counters"]["drops"]], ["ring-other"], "causes")
            c.run("fetch", id, "-o", c.path("sum"), "--format", "summary-text", want=None)
            with open(c.path("sum", "summary.txt")) as f:
                check("cannot make a ring: there is no room" in f.read().replace("\n    ", " "), "the profile says why")
        finally:
            disk.close()


def spool_fails():
    """No file may grow beyond a size, as with a bad place of a disk: what is refused is said, counted, and over when it is over."""
    def limit(size):
        resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        agent = c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start()
        c.begun(id)
        w = c.workload(0, ring_size="4M")
        limit(400000)  # the rest of each segment
        for _ in range(10):
            w.emit(10000)
            w.taken()
        stored(c, id, w.all)
        limit(20000)  # all that is no small record
        w.emit(20000)
        until(lambda: c.nodes()["i-test0"]["state"] == "spool-failing", "nodes says that the spool fails")
        text = agent.text()
        check("AGT-SPOOL-FAILS" in text and "File too large" in text, f"the log says why: {text[-600:]}")
        w.taken(0)
        limit(resource.RLIM_INFINITY)
        until(lambda: "AGT-SPOOL-WRITES" in agent.text() and c.nodes()["i-test0"]["state"] == "ok", "it is written again, and that is said")
        w.emit(1000)
        c.within_session(id)
        doc = c.stop(id, want=None)
        check(agent.running() and agent.text().count("AGT-SPOOL-FAILS") == 1, "the agent runs, and said it once")
        lost = equation(doc, "spool fails", dropped=None)
        equal(doc["begun"], w.all, "begun, of what the workload says it emitted")
        check(0 < lost <= 20000, f"dropped, of what was emitted while nothing could be written: {lost}")
        equal([d["cause"] for d in doc["nodes"][0]["counters"]["drops"]], ["spool-full"], "causes")


def spool_removed():
    """Somebody removes the spool's folder while the agent runs, and the agent is killed after that: its successor knows the session."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        agent = c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start()
        c.begun(id)
        w = c.workload(0)
        w.emit(2000)
        stored(c, id, w.all)
        shutil.rmtree(c.path("spool0"))
        w.emit(2000)
        until(lambda: os.path.exists(c.path("spool0", "sessions")), "the folder is there again, with the sessions")
        check({"lock", "counts"} <= set(os.listdir(c.path("spool0"))), f"and with all else: {os.listdir(c.path('spool0'))}")
        stored(c, id, w.all)
        agent.kill()
        w.emit(3000)
        c.agent(0)
        c.within_session(id)
        doc = c.stop(id)
        equation(doc, "spool removed")
        equal(doc["begun"], w.all, "begun, of what the workload says it emitted")
        check_ticks(c.ticks(id), {("i-test0", w.pid): w}, "spool removed")


for test in (store_full, store_unread, spool_full, ring_folder_full, spool_fails, spool_removed):
    if len(sys.argv) < 2 or sys.argv[1] == test.__name__:
        test()
finish()
