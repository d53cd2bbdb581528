"""Hostile agents (hostile_agent: valid frames, absurd contents, in any order) beside honest ones, against the real aggregator:
hostile_agents.py [SECONDS [AGENTS]]. MRD_SEED is where they begin to draw. However they behave:
the aggregator answers all the time, within its memory; what honest nodes recorded is in the merged profile, all of it and nothing
under their names that is not theirs; their clocks keep their bounds; the manifest's equation holds for them; the session can be merged,
sliced, overviewed, reported; and all of that again after a kill and a start, and after the end of the hostile agents."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from lib import BIN, Cluster, MERIDIAN, built_with, check, check_ticks, equal, finish, load_json, local_now, need_daemons, until
from wait import pace
from watch import ANSWER_S, OWN, Watch, rss

HOSTILE = os.path.join(BIN, "hostile_agent")
HONEST = 2
CLOCK_BOUND_NS = 20000000  # honest nodes are on this machine; alone they state some 10 us


def mine(c, id, name, *options):
    """The honest nodes' ticks of a profile; the fetch may say that something is incomplete, and nothing else."""
    out = c.path(name)
    p = subprocess.run([MERIDIAN, "fetch", id, "-o", out, "--format", "json", *options], capture_output=True, text=True, env=c.env, timeout=300)
    check(p.returncode in (0, 3), f"fetch {id} {options}: status {p.returncode}: {p.stderr[-500:]}")
    path, by = os.path.join(out, "system_profile.json"), {}
    if not os.path.exists(path):
        return by
    for e in load_json(path)["trace_events"]:
        if e["instance_id"].startswith("i-test") and e["name"] in ("tick", "hostile"):
            by.setdefault((e["instance_id"], int(e["process_id"])), []).append(int(e.get("args", {}).get("i", -1)))
    return by


def readable(c, id, want, what):
    """Merged, sliced, overviewed and reported."""
    check_ticks(mine(c, id, what + "-whole"), want, what)
    for query in ("format=json&instance_id=i-test0", "format=perfetto&event_type=tick", "format=json&start=0s&end=1s", "format=chrome&start=-1s",
                  "format=summary-json", "format=report-json", "format=overview-json", "format=overview-json&start=1s&end=2s",
                  "format=summary-text&start=9223372036854775807", "format=json&end=1"):
        try:
            with c.open(f"/api/v1/sessions/{id}/profile?{query}") as r:
                r.read()
        except OSError as e:
            check(getattr(e, "code", 0) in (400, 404, 409), f"{what}: slice {query}: {e} {getattr(e, 'read', lambda: b'')()[:300]}")
    for path in ("", "/clocks", "/artifacts", "/journal"):
        text = c.get(f"/api/v1/sessions/{id}{path}")
        check(text is not None, f"{what}: {path or 'the manifest'} cannot be read")
        json.loads(text or "{}")
    json.loads(c.get("/api/v1/nodes") or "{}")
    p = subprocess.run([MERIDIAN, "report", id], capture_output=True, text=True, env=c.env, timeout=300)
    check(p.returncode in (0, 3), f"{what}: report: status {p.returncode}: {p.stderr[-500:]}")


def honest_part(doc, what):
    """The manifest's account of the honest nodes, nothing lost."""
    parts = {p["instance_id"]: p for p in doc.get("nodes", [])}
    for i in range(HONEST):
        p = parts.get(f"i-test{i}")
        if not check(p is not None, f"{what}: i-test{i} is in the manifest: {sorted(parts)}"):
            continue
        n = p["counters"]
        equal(n["begun"], n["delivered"] + n["dropped"] + n["held"], f"{what}: i-test{i}: begun = delivered + dropped + held")
        equal((n["dropped"], n["held"], p["missing_batches"]), (0, 0, 0), f"{what}: i-test{i}: dropped, held, missing")
        equal(p["events"], n["delivered"], f"{what}: i-test{i}: stored, of delivered")
    for p in parts.values():
        for key, value in p["counters"].items():
            check(not isinstance(value, int) or value >= 0, f"{what}: {p['instance_id']}: {key} is {value}")


def honest_record(c, id):
    """They record, and their start has passed: as Cluster.begun(), which would wait for the others."""
    recording = {p["instance_id"] for p in c.session(id).get("nodes", []) if p["state"] == "recording" and p["started_local_ns"]
                 and local_now() > p["started_local_ns"] + max(p["start_bound_ns"], 0) + 20_000_000}
    return all(f"i-test{i}" in recording for i in range(HONEST))


def clocks(c, what):
    """Honest clocks are one clock: their offsets differ by no more than both bounds say."""
    def known():
        found = [c.nodes().get(f"i-test{i}", {}).get("clock", {}) for i in range(HONEST)]
        return all(0 <= k.get("bound_ns", -1) < CLOCK_BOUND_NS for k in found) and found
    seen = until(known, f"{what}: the clocks of honest nodes are known") or [{}] * HONEST
    apart = abs(seen[0].get("offset_ns", 0) - seen[1].get("offset_ns", 0))
    check(apart <= seen[0].get("bound_ns", 0) + seen[1].get("bound_ns", 0), f"{what}: two readings of one clock: {seen}")


def main():
    need_daemons()
    seconds, agents = (int(x) for x in (sys.argv[1:] + ["6", "4"][len(sys.argv) - 1:])[:2])
    seed = int(os.environ.get("MRD_SEED", "1"))
    print(f"seed {seed} (MRD_SEED), {agents} hostile agents for {seconds} s", flush=True)
    limit = (3 << 30) if built_with(os.path.join(BIN, "meridian-aggregator"), "asan", "tsan") else (400 << 20)
    with Cluster(flush_timeout="20s") as c:
        c.aggregator().rss = lambda: rss(c.daemon)
        until(c.answers, "the aggregator answers")
        for i in range(HONEST):
            c.agent(i)
        until(lambda: len(c.connected()) == HONEST, "honest agents are connected")
        until(lambda: all(0 <= c.nodes()[f"i-test{i}"]["clock"].get("bound_ns", -1) < CLOCK_BOUND_NS for i in range(HONEST)), "their clocks are known")
        loads = [c.workload(i) for i in range(HONEST)]
        until(lambda: all(c.nodes()[f"i-test{i}"]["processes"] == 1 for i in range(HONEST)), "their workloads are seen")
        watch = Watch(lambda: c.get("/healthz") is not None, lambda: c.daemon.rss())
        watch.start()
        hostile = [subprocess.Popen([HOSTILE, str(seed + k), str(seconds), c.data, c.control, *[f"i-test{i}" for i in range(HONEST)]],
                                    stdout=subprocess.PIPE, text=True, env=OWN) for k in range(agents)]
        first = c.start("--require", "any")
        until(lambda: honest_record(c, first), "honest agents record")
        for _ in range(seconds):
            for w in loads:
                w.emit(500)
            pace(0.5)
        clocks(c, "under attack")
        p = subprocess.run([MERIDIAN, "stop", first, "--json"], capture_output=True, text=True, env=c.env, timeout=300)
        check(p.returncode in (0, 3), f"stop: status {p.returncode}: {p.stderr[-1500:]}")
        doc = c.session(first)
        answered = 0
        for h in hostile:
            text, _ = h.communicate(timeout=seconds + 60)
            print(text.strip())
            equal(h.returncode, 0, "a hostile agent's own status")
            answered += int(text.rpartition("time probes, ")[2].split()[0])
        check(answered > 0, "some of their time probes were good enough to be answered")
        done = {f"i-test{i}": loads[i] for i in range(HONEST)}
        want = {(n, w.pid): w.done for n, w in done.items()}
        honest_part(doc, "first")
        readable(c, first, want, "first")
        check(c.daemon.running(), "the aggregator runs")
        watch.stop()
        equal(watch.silent, 0, "times that /healthz had no answer")
        check(watch.longest < ANSWER_S, f"the longest answer took {watch.longest:.1f} s")
        check(watch.rss < limit, f"the aggregator took {watch.rss >> 20} MiB")
        print(f"longest answer {watch.longest * 1000:.0f} ms, memory {watch.rss >> 20} MiB")

        c.daemon.kill()
        c.aggregator()
        until(c.answers, "the aggregator answers after a kill")
        until(lambda: set(c.connected()) >= set(done), "honest agents are back")
        honest_part(c.session(first), "after-the-kill")
        readable(c, first, want, "after-the-kill")
        before = {n: w.done for n, w in done.items()}
        second = c.start("--require", "any")
        until(lambda: honest_record(c, second), "honest agents record again")
        for w in loads:
            w.emit(1000)
        doc = c.stop(second, want=None)
        honest_part(doc, "second")
        got = mine(c, second, "second")
        for n, w in done.items():
            equal(sorted(x for x in got.get((n, w.pid), []) if x > before[n]), list(range(before[n] + 1, w.done + 1)), f"second: ticks of {n}")
        clocks(c, "afterwards")
        equal(c.daemon.end(), 0, "the aggregator's status at SIGTERM")
    finish()


main()
