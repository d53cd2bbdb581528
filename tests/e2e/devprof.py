"""Tests device profiles that a session requests, from the command line through aggregator, agent
and libmeridian to the simulated runtime. The files must come back as artifacts. The manifest must
have a message for each process that refused."""
import glob
import json
import os
import re
import shutil

from lib import BUILD, SOURCE, Cluster, Program, check, equal, finish, need_daemons, need_speed, until

need_daemons()
need_speed()
LOOP, LIBRARY = os.path.join(BUILD, "bin", "train_loop"), os.path.join(BUILD, "lib", "libmeridian.so")


def loop(c, i, name, runtime="simnrt", capture="all", neffs="16M", **env):
    """A rank with two cores that executes for ever on node i."""
    p = Program(c.path(f"{name}.log"), [LOOP, "--rank", "0", "--steps", "100000000", "--cores", "2", "--exec-us", "2000", "--cc", "0", "--quiet", "--checkpoint-every", "0"],
                env=dict(c.env, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", runtime), MERIDIAN_RING_DIR=c.rings(i),
                         MERIDIAN_ENABLE="1", MERIDIAN_CAPTURE=capture, MERIDIAN_DEVICE_PROFILES=c.folder(f"written{i}"), MERIDIAN_NEFFS=neffs, SIMNRT_JOB=c.job(name),
                         SIMNRT_EVENT_SCALE="0", NEURON_RT_INSPECT_OUTPUT_DIR=c.folder(f"inspect{i}"), **env), stdout=-3)
    return c.keep(p)


def profiles(c, id, pid=None):
    """{core: (state, written, message)} of one process, core None for the process as a whole."""
    return {p.get("lnc_idx"): (p["state"], p["written"], p.get("message", "")) for node in c.session(id).get("nodes", [])
            for p in node.get("device_profiles", []) if pid in (None, p["process_id"])}


def states(c, id, pid):
    return {core: state for core, (state, _, _) in profiles(c, id, pid).items()}


def shipped(doc, kind="NTFF"):
    """[(process, core)] of the files of that kind, all complete."""
    files = [a for a in doc["artifacts"] if a["kind"] == kind]
    check(all(a["complete"] for a in files), f"whole files: {files}")
    return sorted((a["process_id"], a["nc_idx"]) for a in files)


with Cluster() as c:
    viewer = c.path("neuron-explorer")  # stands in for the vendor's: what it makes is made up, what it is given is not
    shutil.copy(os.path.join(SOURCE, "tests/fake/viewer.py"), viewer)
    os.chmod(viewer, 0o755)
    c.aggregator(viewer=viewer)
    until(c.answers, "the aggregator answers")
    _, err = c.run("start", "--device-profiles", "yes", want=2)
    check("none,model,continuous,on-fail" in err, f"a wrong mode: {err}")
    for i in range(3):
        c.agent(i)
    until(lambda: len(c.connected()) == 3, "the agents are connected")
    plain, inspected, old, deaf = (loop(c, 0, "plain"), loop(c, 1, "inspected", NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1"),
                                   loop(c, 1, "old", runtime="simnrt-old"), loop(c, 2, "deaf", capture="annotations,api"))
    until(lambda: [n.get("processes") for n in c.nodes().values()] == [1, 2, 1] or sum(n["processes"] for n in c.nodes().values()) == 4,
          "agents see four processes")

    # ---- The first execution of each model on one core, everywhere ----
    deaf_id = c.start("--name", "deaf", "--device-profiles", "continuous", "--instance-id", "i-test2")  # looked at again below
    id = c.start("--name", "model", "--device-profiles", "model", "--core", "1", "--instance-id", "i-test0,i-test1")
    for p in (plain, inspected, old):
        until(lambda: states(c, id, p.pid).get(1) == "written", f"a profile of core 1 of {p.pid}: {profiles(c, id)}")
        equal(states(c, id, p.pid), {None: "armed", 1: "written"}, "one core, and the process is armed")
    second = c.start("--name", "second", "--device-profiles", "model", "--instance-id", "i-test0")
    until(lambda: states(c, second, plain.pid).get(None) == "refused", "a second session at once is refused")
    check("another session" in profiles(c, second)[None][2], f"why: {profiles(c, second)}")
    _, err = c.run("stop", second, want=3)
    check(f"no device profile of i-test0 pid {plain.pid}: another session" in err, f"the command line says so: {err}")
    doc = c.stop(id)
    equal(shipped(doc), sorted((p.pid, 1) for p in (plain, inspected, old)), "one NTFF for each process, of core 1")
    equal({state for p in doc["nodes"] for state in [q["state"] for q in p["device_profiles"] if "lnc_idx" not in q]}, {"ended"}, "all ended")
    names = {a["process_id"]: a["name"] for a in doc["artifacts"] if a["kind"] == "NTFF"}
    check(all(re.fullmatch(r"\d{19}/profile_nc_1_session_\d+\.ntff", name) for name in names.values()), f"the vendor's layout: {names}")
    equal({a["kind"] for a in doc["artifacts"] if not a["kind"].startswith("device-")}, {"NTFF", "NEFF"}, "the models come with them")
    until(lambda: [v["state"] for v in c.session(id).get("conversions", [])] == ["done"] * 3, f"the viewer gets each NTFF with its NEFF: {c.session(id).get('conversions')}")
    left = lambda: [os.path.join(at, f) for i in range(2) for at, _, files in os.walk(c.path(f"written{i}")) for f in files if f.endswith(".ntff")]
    until(lambda: left() == [], "what was delivered is not left behind")  # the agent removes it when it knows that it arrived
    out, _ = c.run("fetch", id, "-o", c.path("model"), "--artifacts", "--format", "summary-text")
    for p, i in ((plain, 0), (inspected, 1), (old, 1)):
        check(os.path.exists(c.path("model", f"i-test{i}_pid_{p.pid}", names[p.pid])), f"<instance>_pid_<pid>/<time>/ of {p.pid}: {out}")
        check(glob.glob(c.path("model", f"i-test{i}_pid_{p.pid}", "viewer", "device_profile_model_*.pftrace")), f"what the viewer made of {p.pid}")
    c.run("fetch", id, "-o", c.path("calls"), "--format", "json")
    with open(c.path("calls", "system_profile.json")) as f:
        calls = [e for e in json.load(f)["trace_events"] if e["trace_event_source"] == "nrt_api"]
    equal(sorted((e["process_id"], e["name"], e["args"]["ntff"]) for e in calls if "ntff" in e["args"]), sorted((str(pid), "nrt_execute", name) for pid, name in names.items()),
          "the execution that it shows names its file, and no other does")
    with open(c.path("calls", "system_profile.json")) as f:
        running = [e for e in json.load(f)["trace_events"] if e["name"] == "nc_exec_running"]
    inside = {(e["process_id"], e["args"]["ntff"]) for e in running if "ntff" in e["args"]}
    equal(inside, {(str(p.pid), names[p.pid]) for p in (plain, inspected)}, f"so do executions on the core, of {len(running)}; an old runtime draws no arrows")
    equal({e["args"].get("lnc_idx") for e in calls}, {1}, "calls that name the core are recorded, and no others")
    found = glob.glob(c.path("model", "**", "*.ntff"), recursive=True)
    equal(len(found), 3, f"NTFF files fetched: {out}")
    for path in found:
        with open(path) as f:
            text = f.read()
        check("SIMULATED" in text and "executions=1\n" in text, f"one execution, and it says that it is simulated: {text}")

    # ---- Continuous: saved at the end, refused in words ----
    id = c.start("--name", "continuous", "--device-profiles", "continuous", "--instance-id", "i-test0,i-test1")
    until(lambda: states(c, id, plain.pid).get(None) == "armed" and states(c, id, inspected.pid).get(None) == "refused"
          and states(c, id, old.pid).get(None) == "refused", "one armed, two refused")
    check("inspect device profiling is on" in profiles(c, id, inspected.pid)[None][2], f"inspect: {profiles(c, id, inspected.pid)}")
    check("older than continuous" in profiles(c, id, old.pid)[None][2], f"an old runtime: {profiles(c, id, old.pid)}")
    doc = c.stop(id, want=3)
    equal(shipped(doc), [(plain.pid, 0), (plain.pid, 1)], "both cores were saved")
    equal(len({a["sha256"] for a in doc["artifacts"] if a["kind"] == "NEFF"}), 1, "and the model with them")
    equal(profiles(c, id, plain.pid), {None: ("ended", 0, ""), 0: ("written", 1, ""), 1: ("written", 1, "")}, "what became of it")

    # ---- A flight recorder saves at its trigger, and goes on ----
    id = c.start("--name", "recorder", "--mode", "recorder", "--device-profiles", "continuous", "--core", "0", "--instance-id", "i-test0")
    until(lambda: states(c, id, plain.pid).get(None) == "armed", "armed")
    c.run("trigger", id, "--last", "2s")
    until(lambda: profiles(c, id, plain.pid).get(0, ("", 0))[1] == 1, f"saved by the trigger: {profiles(c, id)}")
    doc = c.stop(id)
    equal(profiles(c, id, plain.pid)[0], ("written", 2, ""), "and once more at the end")

    # ---- The aggregator and the agent die in the middle: the manifest is whole, the workload still armed ----
    id = c.start("--name", "killed", "--device-profiles", "continuous", "--core", "1", "--instance-id", "i-test0")
    until(lambda: states(c, id, plain.pid).get(None) == "armed", "armed")
    c.agents[0].kill()
    c.daemon.kill()
    c.aggregator()
    c.agent(0)
    until(c.answers, "the aggregator answers again")
    equal(c.session(id).get("device_profiles"), "continuous", "the request outlives the aggregator")
    until(lambda: states(c, id, plain.pid).get(None) == "armed" and c.session(id)["nodes"][0]["state"] == "recording", "armed again")
    doc = c.stop(id)
    equal(shipped(doc), [(plain.pid, 1)], "saved after all")

    # ---- What fails ----
    broken = c.path("broken")
    failing = loop(c, 0, "failing", SIMNRT_FAULT=f"exec_error:file={broken}")
    until(lambda: c.nodes()["i-test0"]["processes"] == 2, "one more process")
    id = c.start("--name", "on-fail", "--device-profiles", "on-fail", "--process-id", str(failing.pid))
    until(lambda: states(c, id, failing.pid).get(None) == "armed", "armed")
    open(broken, "w").close()
    until(lambda: not failing.running(), "an execution failed, and the program ended")
    until(lambda: states(c, id, failing.pid).get(None) == "ended", "the request ends with it")
    doc = c.stop(id)
    check(shipped(doc) and {pid for pid, _ in shipped(doc)} == {failing.pid}, f"what failed was profiled: {doc['artifacts']}")

    # ---- Who may ask: a file of another user is not believed ----
    if os.geteuid() == 0:
        ring = glob.glob(c.rings(0) + f"/*.{plain.pid}.*.ring")[0]
        forged = ".".join(ring.split(".")[:-2]) + ".control"
        with open(forged, "w") as f:
            f.write("request=7\nseq=1\ndo=arm\nmode=model\ncores=\n")
            os.fchown(f.fileno(), 65534, 65534)
        until(lambda: "a control file of another user was ignored" in c.agents[0].text(), "a forged control file is told of")
        check(not glob.glob(c.folder("written0") + f"/*/node_pid_{plain.pid}*"), "and nothing was profiled for it")
        os.unlink(forged)

    # ---- A process that ends, one that dies, one that does not answer ----
    brief = loop(c, 0, "brief")
    until(lambda: c.nodes()["i-test0"]["processes"] == 2, "one more process")
    id = c.start("--name", "ends", "--device-profiles", "continuous", "--instance-id", "i-test0")
    until(lambda: states(c, id, brief.pid).get(None) == "armed", "armed")
    brief.kill()
    until(lambda: "the process has ended" in profiles(c, id, brief.pid)[None][2], "a killed process is told")
    late = loop(c, 0, "late")
    until(lambda: states(c, id, late.pid).get(None) == "armed", "a process that comes late is armed too")
    c.stop(id)
    check("NEFFs are not kept" not in c.run("status", id, want=None)[0], "programs that keep their models")
    bare = loop(c, 0, "bare", neffs="0")
    id = c.start("--name", "bare", "--device-profiles", "model", "--instance-id", "i-test0")
    until(lambda: "written" in states(c, id, bare.pid).values(), f"a profile of a program that keeps no models: {profiles(c, id)}")
    c.stop(id)
    out, _ = c.run("status", id, want=None)
    check("their NEFFs are not kept" in out and "MERIDIAN_NEFFS=1G" in out, f"what the profiles lack, and what to do: {out}")
    check(re.search(r": written$", out, re.M), f"a state without a message: {out}")
    until(lambda: states(c, deaf_id, deaf.pid).get(None) == "refused", f"who does not listen is refused: {profiles(c, deaf_id)}")
    check("does not answer" in profiles(c, deaf_id)[None][2], f"why: {profiles(c, deaf_id)}")
    c.stop(deaf_id, want=3)
    until(lambda: [n for i in range(3) for n in os.listdir(c.rings(i)) if "control" in n] == [], "no control files are left")
finish()
