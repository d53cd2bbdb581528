"""What a session chooses is what is in it: event types and their groups, jobs, ranks, cores; with the counters of the node, also those
that never change. A session of nothing says why and ends with 3. What `nodes` shows of a node that nobody records, and `latest`."""
import collections
import json
import os
import subprocess

from lib import BIN, BUILD, Cluster, Program, check, equal, finish, load_json, need_preload, skip, until

library, loop, runtime = need_preload(), os.path.join(BIN, "train_loop"), os.path.join(BUILD, "lib", "simnrt")
if not os.path.exists(loop):
    skip("the example workload is not built")
HARDWARE = {"nc_exec_running", "cc_running", "cc_exec_barrier", "numerical_err", "nrt_model_switch", "nc_model_switch", "timestamp_sync_point", "hw_notify"}
CONSTANT = "neuron0.stats.hardware.sram_ecc"


def agent(c, i, *options):
    c.agents[i] = c.keep(Program(c.path(f"agent{i}.log"), [
        os.path.join(BIN, "meridian-agent"), "--aggregator", c.data, "--control", c.control, "--instance-id", f"i-test{i}", "--ring-dir", c.rings(i),
        "--spool-dir", c.path(f"spool{i}"), "--no-imds", "--no-containers", "--sys-root", c.path("sys"), *options],
        env=c.env, stdout=subprocess.DEVNULL))


def workload(c, i, **more):
    folder = c.folder(f"steps{i}")
    c.keep(Program(c.path(f"loop{i}.log"), [loop, "--ranks", "2", "--cores", "2", "--steps", "2000000", "--quiet", "--checkpoint-every", "20",
                                            "--checkpoint-dir", folder],
                   env=dict(c.env, LD_PRELOAD=library, LD_LIBRARY_PATH=runtime, MERIDIAN_ENABLE="1", MERIDIAN_RING_DIR=c.rings(i), SIMNRT_JOB=c.job(f"loop{i}"), **more),
                   stdout=subprocess.DEVNULL))
    until(lambda: os.listdir(folder), f"workload {i} has done some steps")


def recorded(c, name, *options, events=5000):
    """Events of a session with so many of each node, by source: {(source, name): n}; the counters' names; the whole document and what was said."""
    out, err = c.record(name, lambda part: part["events"] >= events, "--format", "json", *options)
    doc = load_json(c.path(name, "system_profile.json"))
    events = collections.Counter((e["trace_event_source"], e["name"]) for e in doc["trace_events"])
    return events, {s["track"] for s in doc["counters"]} | ({"mem.used_bytes"} if doc["mem_usage"] else set()), doc, out + err


def sources(events):
    return {source for source, _ in events}


with Cluster() as c:
    with open(os.path.join(c.folder("sys/devices/virtual/neuron_device/neuron0/stats/hardware"), "sram_ecc"), "w") as f:
        f.write("7\n")
    c.aggregator()
    until(c.answers, "the aggregator answers")
    agent(c, 0)
    agent(c, 1, "--job", "night")  # its workload does not say its job
    until(lambda: len(c.connected()) == 2, "the agents are connected")
    workload(c, 0, MERIDIAN_JOB="day")
    workload(c, 1)

    # ---- a busy node that nobody records ----
    def rates():
        table = c.run("nodes")[0].splitlines()
        column = table[0].index("events/s") + len("events/s")
        return [int(row[:column].split()[-1].replace(",", "")) for row in table[1:]]
    until(lambda: min(rates()) > 100, "nodes that nobody records have more than 100 events/s")  # a node whose heartbeat is late has none

    # ---- event types ----
    events, counters, _, _ = recorded(c, "hardware", "--event-type", "hardware", events=500)
    check(events and {name for _, name in events} <= HARDWARE, f"the hardware group only: {events}")
    check(CONSTANT in counters, f"counters have no event type and stay: {counters}")
    events, _, _, _ = recorded(c, "others", "--event-type", "^hardware,^nrt_tensor_free,=step", events=20)
    equal(set(events), {("annotation", "step")}, "a program's own event type")
    _, err = c.run("record", "--duration", "1s", "--event-type", "nc_exec_runing", want=2)
    check("did you mean nc_exec_running?" in err, f"an event type that there is not: {err}")
    _, err = c.run("fetch", "latest", "--event-type", "hardwrae", want=2)
    check("did you mean hardware?" in err, f"in a slice: {err}")

    # ---- jobs, ranks, cores ----
    for name, options, node in (("day", ["--job", "day"], "i-test0"), ("night", ["--job", "night"], "i-test1"), ("rank", ["--rank", "1"], None)):
        events, counters, doc, _ = recorded(c, name, *options)
        who = {(e["instance_id"], e["process_id"]) for e in doc["trace_events"]}
        check(("annotation", "step") in events and ("neuron_hw", "nc_exec_running") in events, f"{options}: {events}")
        check(CONSTANT in counters and {"load.1min", "mem.used_bytes"} <= counters, f"{options}: counters of host and device: {counters}")
        equal(len(who), 2, f"{options}: processes")
        check(node is None or {instance for instance, _ in who} == {node}, f"{options}: {who}")
        labels = {p.get("job") for p in doc["meridian"].get("processes", []) if p.get("job")}
        check(node is None or not labels or labels == {name}, f"{options}: jobs {labels}")
    events, counters, doc, _ = recorded(c, "core", "--core", "0")
    equal({e["lnc_idx"] for e in doc["trace_events"] if e["trace_event_source"] == "neuron_hw"}, {"0"}, "events of one core")
    check(("annotation", "step") in events and CONSTANT in counters, f"a choice of cores keeps steps and counters: {events} {counters}")

    # ---- nothing ----
    agent(c, 2)
    until(lambda: len(c.connected()) == 3, "an agent without a workload")
    for options, why in ((["--event-type", "=nothing"], "is of the selected event types"), (["--core", "7", "--source", "neuron_hw"], "is of the selected cores"),
                         (["--instance-id", "i-test2"], "no process recorded: check that libmeridian.so is loaded"),
                         (["--source", "framework"], "is of the selected sources")):
        # something has to be left out, but on the node that has no workload
        out, err = c.record("nothing" + options[1], lambda part: part["instance_id"] == "i-test2" or part["tally"]["left_out"] > 50, *options, want=3)
        check("nothing was recorded: " in err and why in err, f"{options}: {err}")
    id = json.loads(c.run("status", "--json", "latest", want=3)[0])["id"]
    check("is of the selected" in c.session(id)["empty"] and c.session(id)["state"] == "complete", f"the manifest says it: {c.session(id).get('empty')}")
    for command in ("report", "fetch"):
        _, err = c.run(command, id, *(["-o", c.path("nothing-fetched")] if command == "fetch" else []), want=3)
        check("nothing was recorded: " in err, f"{command}: {err}")
    _, err = c.run("record", "--duration", "300ms", "-o", c.path("nobody"), "--job", "nobody", want=1)
    check("did not start" in err, f"a job that nobody has: {err}")
    recorded(c, "only-counters", "--source", "host", events=0)
    # counters by name, on a node without a program: they are what was asked for
    out, err = c.record("named", lambda part: part["events"] > 3, "--counters", "mem.*", "--counter-period", "100ms", "--instance-id", "i-test2")
    check("nothing was recorded" not in err, f"counters that were asked for by name are something: {err}")
    recorder = c.start("--mode", "recorder", "--keep", "5s", "--no-merge")
    _, err = c.run("stop", recorder)
    check("no trigger asked for a window" in err, f"a recorder without a trigger: {err}")

    # ---- latest ----
    open_one = c.start("--no-merge")
    _, err = c.run("start", "--require", "9", want=1)
    states = [(s["id"], s["state"]) for s in json.loads(c.run("sessions", "--json")[0])["sessions"]]
    equal(states[-1][1], "failed", "the last session has failed")
    equal(c.stop("latest")["id"], open_one, "stop latest means the one that records")
    equal(json.loads(c.run("status", "latest", "--json", want=1)[0])["id"], states[-1][0], "status latest is the last one")
finish()
