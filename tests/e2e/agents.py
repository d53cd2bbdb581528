"""Tests agents without an aggregator: what they log while they cannot send, and which processes
their triggers reach."""
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import BIN, BUILD, SOURCE, Cluster, Program, check, check_ticks, equal, finish, free_port, need_daemons, until

AGENT = os.path.join(BIN, "meridian-agent")


def start(tmp, name, *options, env=None):
    """An agent whose log goes to a file; no port, no metadata service."""
    log = open(os.path.join(tmp, name + ".log"), "w+", encoding="utf-8")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MERIDIAN_")}
    p = subprocess.Popen([AGENT, "--instance-id", "i-" + name, *options], stdout=log, stderr=log, env={**clean, **(env or {})})
    return p, log.name


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def end(p):
    if p.poll() is None:
        p.send_signal(signal.SIGTERM)
    p.wait(60)


def alone(tmp):
    """Every option as it is by default: the folder is there, so no word of it; that all is thrown away is a warning."""
    p, log = start(tmp, "alone")
    until(lambda: "AGT-START" in text(log), "the agent runs")
    until(lambda: "AGT-ALONE" in text(log), "an agent without aggregator says so")
    end(p)
    said = text(log)
    check("AGT-RINGS" not in said and "(null)" not in said, "no complaint about a ring folder that is there:\n" + said)
    line = next((x for x in said.splitlines() if "AGT-ALONE" in x), "")
    check("WARN" in line and "--aggregator" in line, f"it is a warning that says what to do: {line!r}")
    p, log = start(tmp, "nodir", "--ring-dir", os.path.join(tmp, "none"))
    until(lambda: "AGT-RINGS" in text(log), "a folder that is not there is said")
    end(p)
    check(f"dir={tmp}/none" in text(log) and "No such file" in text(log), "... with its name and the reason")


FAULTS = """
import sys, meridian
for line in sys.stdin:
    with meridian.scope("nrt_execute", status=5):
        pass
    print(flush=True)
"""


def quiet_time():
    """The same fault in two flight recorders within seconds: each of them is triggered by it."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0)
        until(lambda: c.connected(), "the agent is connected")
        p = c.keep(Program(c.path("faults.log"), [sys.executable, "-c", FAULTS], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           env={**c.env, "PYTHONPATH": os.path.join(SOURCE, "python"), "MERIDIAN_RING_DIR": c.rings(0),
                                "MERIDIAN_LIBRARY": os.path.join(BUILD, "lib", "libmeridian.so"), "MERIDIAN_ENABLE": "1"}))

        def fault():
            p.p.stdin.write("\n")
            p.p.stdin.flush()
            p.p.stdout.readline()

        for name in ("first", "second"):
            id = c.start("--mode", "recorder", "--keep", "30s")
            c.begun(id, 1)
            fault()
            until(lambda: c.session(id)["triggers"], f"the {name} session is triggered")
            reasons = [t["reason"] for t in c.session(id)["triggers"]]
            equal(reasons, ["i-test0: nrt_execute returned 5 (time-out)"], f"why the {name} one is")
            c.stop(id, want=None)


def two_agents():
    """Two agents of one user on one folder of rings: the second says so and stands back; it takes over when the first is killed."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        first = c.agent(0)
        until(lambda: "i-test0" in c.connected(), "the first agent is connected")
        second = c.keep(Program(c.path("second.log"), [AGENT, "--aggregator", c.data, "--control", c.control, "--instance-id", "i-second", "--ring-dir",
                                                       c.rings(0), "--no-imds", "--no-containers", "--sample=0", "--advanced.sample-processes=0"],
                                env=c.env, stdout=subprocess.DEVNULL))
        until(lambda: "AGT-SECOND" in second.text(), "the second says so")
        check(f"pid={first.pid}" in second.text(), "... and who has them")
        until(lambda: c.nodes().get("i-second", {}).get("state") == "standing-back", "nodes shows it")
        w = c.workload(0)
        w.emit(10)
        until(lambda: c.nodes()["i-test0"]["rings"] >= 1, "the first reads the ring")
        equal(c.nodes()["i-second"]["rings"], 0, "rings of the second")
        first.kill()
        until(lambda: c.nodes()["i-second"]["rings"] >= 1, "the second takes over")
        until(lambda: c.nodes()["i-second"]["state"] == "ok", "and nodes shows that")


THREADS = """
import sys, threading, meridian
ready = threading.Barrier(61)
def work():
    with meridian.scope("work"):
        pass
    ready.wait()
    ready.wait()
for _ in range(60):
    threading.Thread(target=work, daemon=True).start()
ready.wait()
print(flush=True)
sys.stdin.readline()
"""


def left_out():
    """An agent that may open few files: the rings that it leaves out are counted, and the session does not pass for whole."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0, prefix=("prlimit", "--nofile=64"), metrics_port=(port := free_port()))
        until(lambda: c.connected(), "the agent is connected")
        id = c.start()
        p = c.keep(Program(c.path("threads.log"), [sys.executable, "-c", THREADS], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           env={**c.env, "PYTHONPATH": os.path.join(SOURCE, "python"), "MERIDIAN_RING_DIR": c.rings(0),
                                "MERIDIAN_LIBRARY": os.path.join(BUILD, "lib", "libmeridian.so"), "MERIDIAN_ENABLE": "1"}))
        p.p.stdout.readline()
        files = [f for f in os.listdir(c.rings(0)) if f.endswith(".ring")]
        old = os.path.join(c.rings(0), files[0].replace(files[0].split(".")[1], "0" * 31 + "1"))
        with open(os.path.join(c.rings(0), files[0]), "rb") as f:  # one of another boot: its name and its header say so
            ring = bytearray(f.read())
        ring[72:88] = bytes(15) + b"\x01"
        with open(old, "wb") as f:
            f.write(ring)
        unread = until(lambda: (u := c.nodes()["i-test0"].get("unread", {})) and u["rings_beyond"] > 30 and u["rings_other_boot"] == 1 and u,
                       "the node says how many it leaves out")
        check(unread and c.nodes()["i-test0"]["rings"] + unread["rings_beyond"] == len(files), f"read + left out = {len(files)}: {unread}")
        out, _ = c.run("nodes", "--interval", "0")
        check("rings were not read" in out and "of another boot" in out, f"`meridian nodes` says so:\n{out}")
        metrics = c.get("/metrics", port=port) or ""
        check(re.search(rf"^meridian_agent_rings_beyond\{{instance_id=\"[^\"]+\"\}} {unread['rings_beyond']}$", metrics, re.M), "the metrics have it")
        doc = c.stop(id, want=3)
        check("rings were not read" in doc.get("message", ""), f"the session is not whole: {doc.get('message')}")
        equal(doc["nodes"][0]["unread"]["rings_beyond"], unread["rings_beyond"], "the manifest has it")
        equal(doc["nodes"][0]["unread"]["rings_other_boot"], 0, "... without those of another boot, which are no part of it")
        p.p.stdin.close()


def hostile_lock(tmp):
    """What somebody else may put where an agent's lock is, and hold a lock on: it takes the agent no rings, and the agent nothing of his."""
    victim = os.path.join(tmp, "victim")

    def symlink(path):
        os.symlink(victim, path)

    def hard_link(path):
        os.link(victim, path)

    def of_others(path):
        with open(path, "w", encoding="utf-8"):
            os.chmod(path, 0o666)
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)

    for kind in (symlink, hard_link, os.mkfifo, of_others):
        rings = os.path.join(tmp, "rings-" + kind.__name__)
        lock = os.path.join(rings, f"meridian.agent.{os.geteuid()}.lock")
        os.mkdir(rings)
        with open(victim, "w", encoding="utf-8") as f:
            f.write("as it was")
        kind(lock)
        held = os.open(lock, os.O_RDWR)
        fcntl.flock(held, fcntl.LOCK_EX)
        p, log = start(tmp, "lock-" + kind.__name__, "--ring-dir", rings)

        def is_own():
            try:
                st = os.lstat(lock)
            except FileNotFoundError:
                return False
            return stat.S_ISREG(st.st_mode) and (st.st_uid, st.st_nlink, st.st_mode & 0o777) == (os.geteuid(), 1, 0o600) and st.st_size > 0

        until(is_own, f"{kind.__name__}: the agent has a lock of its own")
        check("AGT-SECOND" not in text(log), f"{kind.__name__}: it does not stand back:\n{text(log)}")
        equal(text(victim), "as it was", f"{kind.__name__}: the file of somebody else")
        end(p)
        os.close(held)
        check(not os.path.lexists(lock), f"{kind.__name__}: the lock goes with the agent")


def knows_nothing():
    """An agent is killed and its spool folder removed, in the middle of a session. Its successor does not know the session and may reach the
    aggregator only later: all that the program emits meanwhile is in the session, once."""
    with Cluster() as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start("--require", "all")
        c.begun(id, 1)
        w = c.workload(0)
        for n in range(3):
            w.emit(500)
            until(lambda: (p := c.session(id)["nodes"][0])["counters"]["held"] == 0 and p["events"] >= w.all, f"{n}: all of it is stored")
            c.agents[0].kill()
            shutil.rmtree(c.path("spool0"))
            if n == 1:
                c.daemon.kill()
            w.emit(300)
            c.agent(0)
            w.emit(300)
            if n == 1:
                until(lambda: "AGT-UNREACHED" in c.agents[0].text(), "the successor does not reach the aggregator")
                w.emit(300)
                c.agents[0].end()  # and is ended in order: what it has not read waits for the next
                c.aggregator()
                c.agent(0)
            c.recording(id, 1)
            w.emit(300)
        c.within_session(id)
        doc = c.stop(id)
        check_ticks(c.ticks(id), {("i-test0", w.pid): w}, "behind an agent that knows nothing")
        equal([d for d in doc["nodes"][0]["counters"]["drops"] if d["count"]], [], "nothing is lost")
        equal(doc["nodes"][0]["counters"]["begun"], w.all, f"begun: {doc['nodes'][0]['counters']} events {doc['nodes'][0]['events']}")


def main():
    with tempfile.TemporaryDirectory() as tmp:
        alone(tmp)
        hostile_lock(tmp)
    need_daemons()
    quiet_time()
    two_agents()
    left_out()
    knows_nothing()
    finish()


main()
