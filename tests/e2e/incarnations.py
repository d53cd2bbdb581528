"""What interrupts a clock in one session: an agent that is stopped (SIGSTOP; argument: seconds), an agent and an aggregator that start
again, and an aggregator that goes on elsewhere, on a clock that is three seconds ahead and 50 ppm fast. Every event stays where it happened,
within its bound, and within that of the link behind the move; the manifest and the table say how both incarnations are linked."""
import json
import os
import sys
import time

from lib import BUILD, Cluster, check, equal, equation, finish, need_daemons, skip, until
from wait import pace

SEC = 10**9
STOPPED = float(sys.argv[1]) if len(sys.argv) > 1 else 3
AHEAD, FAST = 3 * SEC, 50e-6             # of the aggregator's second clock
OFFSET, RATE = SEC // 4, -40e-6          # of node 1's. No more: timed waits of its agent end later by that
need_daemons()
shim = os.path.join(BUILD, "lib", "simnrt", "libsimclock.so")
if not os.path.exists(shim):
    skip(f"{shim} is not built")


def raw_now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def profile(c, id, name, *options):
    """Per node the times of its ticks, with their bounds, in order."""
    c.run("fetch", id, "-o", c.path(name), "--format", "json", *options, want=None)
    with open(c.path(name, "system_profile.json")) as f:
        doc = json.load(f)
    out = {}
    for e in doc["trace_events"]:
        out.setdefault(e["instance_id"], []).append((int(e["timestamp"]), int(e.get("clock_bound_ns") or 0)))
    return {n: sorted(v) for n, v in out.items()}, doc["meridian"]


with Cluster(node_timeout="60s") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    epoch = raw_now()
    wrong = {"LD_PRELOAD": shim, "MERIDIAN_SIM_CLOCK": f"epoch={epoch},offset={OFFSET // 10**6}ms,ppm={RATE * 1e6:g}"}
    c.agent(0)
    c.agent(1, more=wrong)
    work = [c.workload(0), c.workload(1, more=wrong)]
    until(lambda: len(c.connected()) == 2, "both agents are connected")
    id = c.start("--require", "all")
    c.recording(id, 2)
    with open(c.path("store", "clock.json")) as f:
        clock = json.load(f)

    def some(seconds):
        """Events all along, and a clock that is known on both sides of them."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for w in work:
                w.emit(20)
            pace(0.1)

    def back(who):
        until(lambda: len(c.connected()) == 2, f"both agents are connected after {who}")

    def known():
        """Events go on until both clocks are known by probes: one that a busy machine keeps from them would not link anything."""
        until(lambda: some(.5) or all(p["clock"]["method"].startswith("udp") for p in c.session(id)["nodes"]), "both clocks are known by probes")

    some(3)
    c.agents[0].p.send_signal(19)  # SIGSTOP
    some(STOPPED)
    c.agents[0].p.send_signal(18)  # SIGCONT
    some(2)
    c.agents[1].kill()
    c.agent(1, more=wrong)
    back("a restart of one")
    some(2)
    c.daemon.kill()
    c.aggregator()
    until(c.answers, "the aggregator answers again")
    back("a restart of the aggregator")
    some(3)
    known()
    c.daemon.kill()
    moved = raw_now()
    with open(c.path("store", "clock.json"), "w") as f:
        json.dump(dict(clock, boot_id="another machine", timeline="another machine"), f)
    c.aggregator(prefix=["env", f"LD_PRELOAD={shim}", f"MERIDIAN_SIM_CLOCK=epoch={moved},offset={AHEAD // SEC}s,ppm={FAST * 1e6:g}"])
    until(c.answers, "the aggregator answers elsewhere")
    back("a move of the aggregator")
    some(5)
    known()
    # What a session lasted is counted from its start on one timeline to its stop on the other: here it seems to last 3 s more.
    doc = c.stop(id, want=None)
    equal(doc["state"], "complete", "state")
    equation(doc, "incarnations")
    check(all(n["clock"]["frame_violations"] == 0 for n in doc["nodes"]), "no frame contradicts a clock")

    checks = doc["clocks"]
    check(checks["trusted"] and checks["violations"] == 0, f"nothing contradicts the clocks: {checks}")
    incarnations = checks.get("timeline", [])
    equal([x["linked_by"] for x in incarnations], ["first", "nodes"], "how the incarnations are linked")
    link = incarnations[-1] if incarnations else {}
    equal((link.get("clocks"), link.get("contradicting")), (2, 0), "clocks that link them")
    with open(c.path("store", "clock.json")) as f:
        check("#1" in json.load(f)["timeline"], "another timeline began")
    text = c.run("clocks", id)[0]
    check("linked to those before within +-" in text and "aggregator moved" in text, f"the table says so:\n{text}")

    aligned, about = profile(c, id, "aligned")
    raw, _ = profile(c, id, "raw", "--clock", "raw")
    check("by 2 clocks that ran on" in about["facts"].get("clock.link.2", ""), f"facts {about['facts']}")
    for node in ("i-test0", "i-test1"):
        equal(len(aligned[node]), len(raw[node]), f"events of {node}")
        wrongly, late, worst = 0, 0, 0
        for (at, bound), (local, _) in zip(aligned[node], raw[node]):
            true = local if node == "i-test0" else epoch + round((local - epoch - OFFSET) / (1 + RATE))
            error = abs(at - true - clock["session_offset_ns"])
            if true > moved:  # on the second incarnation's clock, which runs at its own rate from the link on
                bound += link["bound_ns"] + round(FAST * (true + clock["session_offset_ns"] - link["at_ns"])) + 1000
                late += 1
            wrongly += error > bound
            worst = max(worst, error)
        equal(wrongly, 0, f"events of {node} outside their bound")
        check(late > 100 and len(raw[node]) - late > 100, f"{node}: {late} of {len(raw[node])} events behind the move")
        print(f"{node}: {len(raw[node])} events, off by at most {worst / 1000:.1f} us; link within {link.get('bound_ns', 0) / 1000:.0f} us, "
              f"{link.get('shift_ns', 0) / SEC:.6f} s")
finish()
