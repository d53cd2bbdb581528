"""Tests meridian inspect with real processes on the simulated runtime. Everything that they emitted
must be in the profile. The command must have its input, output and exit status, and a profile must
be written even after Ctrl-C."""
import collections
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys

from lib import BUILD, MERIDIAN, SOURCE, Importer, built_with, check, equal, failures, finish, load_json, run, skip, tmp
from small_disk import SmallDisk
from wait import within

work = tmp()
loop = os.path.join(BUILD, "bin", "train_loop")
runtime = os.path.join(BUILD, "lib", "simnrt")
if not os.path.exists(loop):
    skip("the example workload is not built")
env = {"LD_LIBRARY_PATH": runtime, "MERIDIAN_INSTANCE_ID": "i-0test"}


def emitted(prefix):
    """Per process: spans and instants that the runtime says it handed to its rings. A span that began before the
    trace was on has only its end there."""
    out = {}
    for path in glob.glob(prefix + ".*"):
        kept = {"B": set(), "E": set(), "I": 0}
        with open(path) as f:
            for line in f:
                if line[0] in "BEI" and "kept=1" in line:
                    words = dict(w.split("=") for w in line[2:].split())
                    if line[0] == "I":
                        kept["I"] += 1
                    else:
                        kept[line[0]].add((words["core"], words["tracking"]))
        out[int(path.rsplit(".", 1)[1])] = len(kept["B"] | kept["E"]) + kept["I"]
    return out


folders = os.path.join(work, "folders")


def noted(*command):
    """The command, in a shell that first notes the folder which `inspect` made for its rings."""
    return ["sh", "-c", f'echo "$MERIDIAN_RING_DIR" >>{folders}; exec "$@"', "sh", *command]


# ---- everything arrives ----
out, truth = os.path.join(work, "out"), os.path.join(work, "truth")
text, err = run("inspect", "-o", out, "--output-format", "perfetto,json,summary-text,summary-json", "--sample", "50ms", "--", *noted(
    loop, "--ranks", "4", "--cores", "8", "--steps", "6", "--straggler", "5:40", "--checkpoint-every", "3", "--checkpoint-dir", work),
                env=dict(env, SIMNRT_TRUTH=truth))
check("rank 0: 6 steps" in text and "Profile" not in text, f"stdout belongs to the command: {text[:200]}")
check("SIMULATED" in err, "simulated data says so")
check(re.search(r"is open 2\.\S+ \S+/libnrt\.so\.1, [3-9]\d event types$", err, re.M), f"what the runtime is, in a line that can be read: {err[:600]}")
doc = load_json(os.path.join(out, "system_profile.json"))
got = collections.Counter()
for e in doc["trace_events"]:
    if e["trace_event_source"] in ("neuron_rt", "neuron_hw"):
        got[int(e["process_id"])] += 1
want = emitted(truth)
equal(len(want), 4, "processes that recorded")
equal(dict(got), want, "runtime events per process against what the runtime says it emitted")
live = [i for i in doc["meridian"]["inputs"] if i["format"] == "rings"]
check(live and live[0]["records"] == live[0]["events"] + live[0]["dropped"] and live[0]["dropped"] == 0, f"the equation: {live}")
names = collections.Counter((e["trace_event_source"], e["name"]) for e in doc["trace_events"])
for source, name in (("nrt_api", "nrt_execute"), ("neuron_rt", "nrt_execute"), ("neuron_hw", "nc_exec_running"), ("neuron_hw", "cc_running"),
                     ("annotation", "step")):
    check(names[(source, name)] > 0, f"{source} {name}")
# A call that both the hook and the runtime's trace recorded counts once; the profile has both rows.
calls = collections.Counter()
for path in glob.glob(truth + ".*"):
    with open(path) as f:
        for m in re.finditer(r"count core=\d+ type=(nrt_\w+) emitted=(\d+)", f.read()):
            calls[m[1]] += int(m[2]) // 2
summary = load_json(os.path.join(out, "summary.json"))
block, totals = next(v for k, v in summary.items() if k.startswith("s_")), summary["summary"]
both = [name for name in calls if names["nrt_api", name] > 0]
check(len(both) > 1 and totals["recorded_twice"] > 0, f"calls that both recorded: {both}")
for name in both:
    equal(block["event_type_count"][name], max(calls[name], names["nrt_api", name]), f"{name} counts once")
equal(block["event_type_count"]["nrt_execute"], calls["nrt_execute"], "executions made")
equal(sum(block["event_type_count"].values()) + totals["recorded_twice"] + totals.get("paired_executions", 0), totals["spans"] + totals["instants"], "all counts those made twice and pairs")
check(doc["mem_usage"] and doc["cpu_util"], "host memory and CPU were sampled")
# The straggler: worker 5's core computes longest, however busy this machine is; and in most steps everybody waits for it.
starts = {(e["worker_gid"], e["args"]["exec_id"]): int(e["timestamp"]) for e in doc["trace_events"] if e["name"] == "nc_exec_running"}
computed, waited = collections.defaultdict(list), collections.defaultdict(list)
for e in doc["trace_events"]:
    if e["name"] == "cc_exec_barrier":
        computed[e["worker_gid"]].append(int(e["timestamp"]) - starts[e["worker_gid"], e["args"]["exec_id"]])
        waited[e["worker_gid"]].append(e["duration"])
equal(len(computed), 32, "workers with barriers")
others = [n for worker, all_of in computed.items() if worker != 5 for n in all_of]
check(min(computed[5]) > 30 * max(others), f"worker 5 computes 40 times as long: {min(computed[5])} ns, the others up to {max(others)} ns")
waited = {worker: statistics.median(all_of) for worker, all_of in waited.items()}
equal(min(waited, key=waited.get), 5, "the core that usually waits least in barriers is the straggler")
# ---- the real importer ----
bad, flows, depth = Importer().query(os.path.join(out, "system_profile.pftrace"), Importer.BAD, "select count(*) from flow",
                                     "select max(depth) from slice")
equal(bad, [], "import errors")
check(int(flows[0][0]) >= 4 * 8 * 6, "arrows from submission to device")
check(int(depth[0][0]) >= 3, "nested runtime calls")

# ---- an output directory with results of an earlier run ----
names, ran = sorted(os.listdir(out)), os.path.join(work, "ran")
before = {n: os.stat(os.path.join(out, n)).st_mtime_ns for n in names}
_, err = run("inspect", "-o", out, "--", "touch", ran, want=1)
check("--force" in err and out + "/s" in err, f"results of an earlier run: {err}")
check(not os.path.exists(ran), "the command is not started")
here = os.path.join(work, "here")
os.makedirs(os.path.join(here, "output"))
open(os.path.join(here, "output", "device_profile_model_1.pftrace"), "w").close()
p = subprocess.run([MERIDIAN, "inspect", "--", "touch", ran], capture_output=True, text=True, cwd=here)
check(p.returncode == 1 and "device_profile_model_1.pftrace exists" in p.stderr and not os.path.exists(ran), f"the default directory: {p.stderr}")
p = subprocess.run([MERIDIAN, "inspect", "--verbose", "-n", "77", "-o", os.path.join(work, "told"), "--", "sh", "-c", "env > $0", ran + ".env"], capture_output=True, text=True)
with open(ran + ".env") as f:
    given = {line.split("=", 1)[0]: line.rstrip() for line in f if "=" in line}
told = next((line for line in p.stderr.splitlines() if line.startswith("starting: ")), "")
check(f'Running command: "sh -c env > $0 {ran}.env" with profiling enabled' in p.stderr, f"inspect says what it runs: {p.stderr}")
for ask in (["inspect", "-v"], ["-v"], ["--version"]):
    p = subprocess.run([MERIDIAN, *ask], capture_output=True, text=True)
    check(p.returncode == 0 and p.stdout.startswith("meridian "), f"{ask}: {p.stdout}{p.stderr}")
check(given["NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC"].endswith("=77"), "the size of the runtime's ring")
for name in ("LD_PRELOAD", "MERIDIAN_ENABLE", "MERIDIAN_RING_DIR", "NEURON_RT_INSPECT_OUTPUT_DIR", "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC"):
    check(given[name] in told, f"inspect --verbose says {given[name]}: {p.stderr}")
check(told.endswith(f"sh -c env > $0 {ran}.env"), f"inspect --verbose says the command: {p.stderr}")
# With --force they are replaced, and what an earlier run captured is not mixed in.
capture, again = os.path.join(out, "i-0old_pid_1"), ["sh", "-c", f"mkdir -p {out}/i-0new_pid_2 && cp {out}/i-0old_pid_1/x.ntff {out}/i-0new_pid_2/"]
os.mkdir(capture)
open(os.path.join(capture, "x.ntff"), "w").close()
run("inspect", "-o", out, "--force", "--vendor-tool", "none", "--output-format", "json,summary-text", "--", *again)
doc = load_json(os.path.join(out, "system_profile.json"))
equal([a["path"] for a in doc["meridian"]["artifacts"]], [f"{out}/i-0new_pid_2/x.ntff"], "artifacts of this run only")
check(any("files of earlier runs" in n for n in doc["meridian"]["notes"]), f"and a note: {doc['meridian']['notes']}")
# Two that run at one time in one directory: both recordings are kept.
both = os.path.join(work, "both")
_, err = run("inspect", "-o", both, "--output-format", "json", "--", "sh", "-c", f'"$@" && echo other > {both}/system_profile.json', "sh",
             loop, "--steps", "2", "--quiet", "--checkpoint-every", "0", env=env, want=3)  # the other file is not a profile
there = re.search(r"so the results go to (\S+)", err)
if check(there, f"results that appeared meanwhile: {err}"):
    equal(open(os.path.join(both, "system_profile.json")).read(), "other\n", "the other's results stay")
    check("trace_events" in load_json(os.path.join(there[1], "system_profile.json")), "and these are beside them")

# ---- a small ring of the runtime: each loss is counted once ----
_, err = run("inspect", "-n", "100", "-o", os.path.join(work, "small"), "--output-format", "summary-text,json", "--", loop, "--steps", "300", "--cores", "1", "--quiet",
             "--checkpoint-every", "0", env=env, want=3)
doc = load_json(os.path.join(work, "small", "system_profile.json"))
lost, input = sum(e["lost"] for e in doc["losses"]), doc["meridian"]["inputs"][0]
check(lost > 0 and f"live capture lost events: {lost} runtime-ring" in err, f"what is lost: {lost}, {err[-600:]}")
equal((input["lost"], input["dropped"], input["records"]), (lost, 0, input["events"]), "losses that the profile has are not records that could not be read")
with open(os.path.join(work, "small", "summary.txt")) as f:
    check(re.search(rf"^Lost +{lost} events \(see Losses\)$", f.read(), re.M), "nor in the summary")

# ---- the command's own lifecycle ----
for command, status in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["true"], 0)):
    run("inspect", "-o", os.path.join(work, "s%d" % status), "--", *noted(*command), want=status)
_, err = run("inspect", "-o", os.path.join(work, "absent"), "--", "no-such-program", want=127)
check("no-such-program" in err, f"a command that is not there: {err}")
_, err = run("inspect", "-o", work + "/x", want=2)
check("name a command" in err, "no command")
p = subprocess.run([MERIDIAN, "inspect", "-o", os.path.join(work, "pipe"), "--", "tr", "a-z", "A-Z"], input="abc", capture_output=True, text=True)
equal(p.stdout, "ABC", "stdin and stdout pass through")
with open(folders) as f:
    made = f.read().split()
equal((len(set(made)), [d for d in made if os.path.exists(d)]), (4, []), "a folder for the rings of each, and none is left behind")

def runs_until_checkpoint(folder, p):
    """A workload that has done some steps, however slowly, says so by a file."""
    checkpoint = within(60, lambda: glob.glob(os.path.join(folder, "checkpoint_*")) or p.poll() is not None)
    check(checkpoint and p.poll() is None, f"no checkpoint in {folder} yet, exit status {p.poll()}")


def long_loop(ranks, folder):
    os.mkdir(folder)
    return [loop, "--ranks", str(ranks), "--cores", "2", "--steps", "200000", "--quiet", "--checkpoint-every", "20", "--checkpoint-dir", folder]


# ---- SIGKILL in the middle leaves open spans, exported as unfinished ----
killed, folder = os.path.join(work, "killed"), os.path.join(work, "killed-steps")
script = "setsid \"$@\" & while ! ls " + folder + "/checkpoint_* >/dev/null 2>&1; do sleep 0.02; done; kill -9 -$!; wait"
run("inspect", "-o", killed, "--output-format", "json", "--", "timeout", "60", "sh", "-c", script, "sh", *long_loop(1, folder), want=None, env=env)
doc = load_json(os.path.join(killed, "system_profile.json"))
check(len(doc["trace_events"]) > 500, "events of a killed process")
check(any(e.get("unfinished") for e in doc["trace_events"]), "spans that were open are unfinished")
check(sum(e["name"].startswith("the process ended without closing the Neuron runtime") for e in doc["trace_events"]) == 1, "what was lost with it is said")

# ---- Ctrl-C ----
stopped, folder = os.path.join(work, "stopped"), os.path.join(work, "stopped-steps")
p = subprocess.Popen([MERIDIAN, "inspect", "-o", stopped, "--output-format", "json", "--", *long_loop(2, folder)], env=dict(os.environ, **env),
                     start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
runs_until_checkpoint(folder, p)
os.killpg(p.pid, signal.SIGINT)
_, err = p.communicate(timeout=60)
check(p.returncode != 0, f"exit status of the interrupted command: {p.returncode}")
check(len(load_json(os.path.join(stopped, "system_profile.json"))["trace_events"]) > 500, f"Ctrl-C ends with a profile: {err[-300:]}")

# ---- Signals that meridian alone gets go on to the command; twice the same is once ----
for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    alone, folder = os.path.join(work, f"alone{sig}"), os.path.join(work, f"alone{sig}-steps")
    p = subprocess.Popen([MERIDIAN, "inspect", "-o", alone, "--output-format", "json", "--", *long_loop(1, folder)], env=dict(os.environ, **env),
                         start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    runs_until_checkpoint(folder, p)
    p.send_signal(sig)
    _, err = p.communicate(timeout=60)
    equal(p.returncode, 128 + sig, f"the command ended by signal {sig}: {err[-300:]}")
    if check(os.path.exists(os.path.join(alone, "system_profile.json")), f"signal {sig} ends with a profile: {err[-300:]}"):
        check(len(load_json(os.path.join(alone, "system_profile.json"))["trace_events"]) > 500, f"signal {sig}: events")

# ---- Killed, it leaves its rings to the next one, which leaves alone those of others that run ----
def rings_of(name, *command):
    """(meridian inspect around the command, its folder of rings)"""
    told = os.path.join(work, name + "-rings")
    q = subprocess.Popen([MERIDIAN, "inspect", "-o", os.path.join(work, name), "--", "sh", "-c", f'echo "$MERIDIAN_RING_DIR" >{told}.part; mv {told}.part {told}; exec "$@"', "sh",
                          *command], env=dict(os.environ, **env), start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check(within(60, lambda: os.path.exists(told)), f"{name}: a folder of rings")
    return q, open(told).read().strip()


folder = os.path.join(work, "left-steps")
p, left = rings_of("left", *long_loop(1, folder))
runs_until_checkpoint(folder, p)
os.kill(p.pid, signal.SIGKILL)
p.wait()
os.killpg(p.pid, signal.SIGKILL)  # the command
check(glob.glob(left + "/*.ring"), "its rings stay")
q, own = rings_of("other", "cat")
check(not os.path.exists(left), "the next inspect removes what nobody reads")
run("inspect", "-o", os.path.join(work, "third"), "--", "true")
check(os.path.exists(own), "one that runs keeps its folder")
q.communicate(b"")
check(not os.path.exists(own), "and removes it")

# ---- Python, no code change, the runtime loaded late ----
if built_with(os.path.join(BUILD, "lib", "simnrt", "libnrt.so.1"), "tsan"):
    print("left out: a plain Python cannot load a runtime that ThreadSanitizer has instrumented")
else:
    python = os.path.join(SOURCE, "examples", "train_loop.py")
    out = os.path.join(work, "python")
    run("inspect", "-o", out, "--output-format", "json", "--", "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable, python,
        "--steps", "5", env=dict(env, PYTHONPATH=os.path.join(SOURCE, "python")))
    names = collections.Counter(e["name"] for e in load_json(os.path.join(out, "system_profile.json"))["trace_events"])
    check(names["nrt_execute"] > 0 and names["nc_exec_running"] > 0, f"a Python workload: {names.most_common(5)}")

# ---- A framework's trace in the folder of the run, as docs/howto/pytorch.md has it: it is of the process that was recorded ----
TRACED = r"""
import ctypes, gzip, json, os, threading, time
P = ctypes.c_void_p
nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
assert nrt.nrt_init(1, b"2.0", b"2.0") == 0
neff, model, ins, outs = b"SIMNEFF 1\nname=live\nexec_us=900\ncc=0\ntensor_frees=0\ncopyins=0\n", P(), P(), P()
assert nrt.nrt_load(neff, ctypes.c_size_t(len(neff)), 0, -1, ctypes.byref(model)) == 0
nrt.nrt_allocate_tensor_set(ctypes.byref(ins)), nrt.nrt_allocate_tensor_set(ctypes.byref(outs))
rows = [{"ph": "X", "cat": "kernel", "name": "gpu", "pid": 0, "tid": 7, "ts": time.time_ns() / 1000, "dur": 1}]
for n in range(20):
    begin = time.time_ns()
    assert nrt.nrt_execute(model, ins, outs) == 0
    end = time.time_ns()
    rows.append({"ph": "X", "cat": "cpu_op", "name": "neuron::step", "pid": os.getpid(), "tid": threading.get_native_id(), "ts": begin / 1000, "dur": (end - begin) / 1000})
folder = os.environ["NEURON_RT_INSPECT_OUTPUT_DIR"]
with gzip.open(f"{folder}/rank0.json.gz", "wt") as f:
    json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": rows}, f)
nrt.nrt_close()
"""
if not built_with(os.path.join(BUILD, "lib", "simnrt", "libnrt.so.1"), "tsan"):
    out = os.path.join(work, "traced")
    run("inspect", "-o", out, "--output-format", "json", "--", "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable, "-c", TRACED, env=env)
    doc = load_json(os.path.join(out, "system_profile.json"))
    events = doc["trace_events"]
    processes = {name: {(e["instance_id"], e["process_id"]) for e in events if e["name"] == name} for name in ("neuron::step", "nrt_execute")}
    equal(processes["neuron::step"], processes["nrt_execute"], "the operations are of the process that executes")
    equal(len({(p["instance_id"], p["process_id"]) for p in doc["meridian"]["processes"] if not p.get("node")}), 1, "and of no other")
    equal(sum(e["name"] == "neuron::step" for e in events), 20, "all of them")
# ---- The folder that a program's own profiler named to the runtime: its files are the process's, and arrows lead to its calls ----
NAMED = r"""
import ctypes, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from xplane_oracle import data, number
P = ctypes.c_void_p
nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
assert nrt.nrt_init(1, b"2.0", b"2.0") == 0
neff, model, ins, outs, config = b"SIMNEFF 1\nname=live\nexec_us=900\ncc=0\ntensor_frees=0\ncopyins=0\n", P(), P(), P(), P()
assert nrt.nrt_load(neff, ctypes.c_size_t(len(neff)), 0, -1, ctypes.byref(model)) == 0
nrt.nrt_allocate_tensor_set(ctypes.byref(ins)), nrt.nrt_allocate_tensor_set(ctypes.byref(outs))
assert nrt.nrt_inspect_config_allocate(ctypes.byref(config)) == 0
nrt.nrt_inspect_config_set_output_dir(config, sys.argv[2].encode())
nrt.nrt_inspect_config_set_enable_inspect(config, ctypes.c_bool(True))
assert nrt.nrt_inspect_begin_with_options(config) == 0
start, events = time.time_ns() - 10**6, b""
for n in range(20):
    begin = time.time_ns()
    assert nrt.nrt_execute(model, ins, outs) == 0
    events += data(4, number(1, 1) + number(2, 1000 * (begin - start)) + number(3, 1000 * (time.time_ns() - begin)))
nrt.nrt_inspect_stop()
line = data(3, number(1, threading.get_native_id()) + data(2, "python") + events)
space = data(1, data(2, "/host:CPU") + line + data(4, number(1, 1) + data(2, number(1, 1) + data(2, "PjitFunction(step)"))))
space += data(1, data(2, "Task Environment") + data(5, number(1, 1) + data(2, number(1, 1) + data(2, "profile_start_time"))) + data(6, number(1, 1) + number(3, start)))
where = os.path.join(sys.argv[2], "plugins", "profile", "2026_01_02_03_04_05")
os.makedirs(where)
with open(os.path.join(where, "host.xplane.pb"), "wb") as f:
    f.write(space)
nrt.nrt_close()
"""
if not built_with(os.path.join(BUILD, "lib", "simnrt", "libnrt.so.1"), "tsan"):
    for name in ("chosen", "within"):
        out = os.path.join(work, "named-" + name)
        own_folder = os.path.join(out, "traces") if name == "within" else os.path.join(work, "chosen-traces")
        os.makedirs(own_folder)
        with open(os.path.join(own_folder, "old.json"), "w") as f:  # of an earlier run
            f.write('{"traceEvents": [{"ph": "X", "name": "old", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}')
        # Another process records, too: what lies there is not everybody's.
        script = '"$0" -c "$1" "$2" "$3" && "$0" -c "$4"'
        run("inspect", "-o", out, "--vendor-tool", "none", "--output-format", "json", "--", "sh", "-c", script, "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable,
            NAMED, os.path.join(SOURCE, "tests", "trace"), own_folder, TRACED.replace('folder = os', 'nrt.nrt_close(); raise SystemExit(0); folder = os'), env=env)
        rows = load_json(os.path.join(out, "system_profile.json"))["trace_events"]
        steps = [r for r in rows if r["name"] == "PjitFunction(step)"]
        equal(len(steps), 20, f"{name}: operations of the XSpace")
        pids = {r["process_id"] for r in rows if r["name"] == "nrt_inspect_begin_with_options"}
        equal({r["process_id"] for r in steps}, pids, f"{name}: they are of the process that named the folder")
        equal(len({r["process_id"] for r in rows if r["name"] == "nrt_execute"}), 2, f"{name}: of two that execute")
        equal([r for r in rows if r["name"] == "old"], [], f"{name}: what lay there before is left alone")
        ends = collections.defaultdict(list)
        for r in rows:
            for id, way in zip(r.get("flow_id", []), r.get("flow_dir", [])):
                if way != "start":
                    ends[id].append(r)
        led = [b for r in rows if r["name"] == "calls nrt_execute" and r["trace_event_source"] == "framework" for id in r.get("flow_id", []) for b in ends[id]]
        equal(collections.Counter(b["name"] for b in led), {"nrt_execute": 20}, f"{name}: arrows from the operations to the calls")

# ---- A disk that is full while it records: what came before is in the profile, and the reason is said ----
if failures or os.geteuid() != 0:
    finish()
small = SmallDisk(os.path.join(work, "small"), 3)
try:
    out = os.path.join(work, "full")
    _, err = run("inspect", "-o", out, "--memory", "1M", "--sample", "1h", "--output-format", "json", "--", loop, "--ranks", "1", "--cores", "8", "--steps", "1500", "--quiet",
                 "--checkpoint-every", "0", env=dict(env, TMPDIR=small.path), want=3)
    said = re.search(r"live capture lost events: (\d+) disk full \((\d+) of (\d+) records are lost\)$", err, re.M)
    check(said and said[1] == said[2], f"what is lost, and why: {err[-900:]}")
    check("set TMPDIR to a larger folder" in err and small.path in err, f"and what to do: {err[-900:]}")
    doc = load_json(os.path.join(out, "system_profile.json"))
    if said:
        live = next(i for i in doc["meridian"]["inputs"] if i["format"] == "rings")
        equal(live["records"], live["events"] + live["dropped"], "the equation")
        equal(live["dropped"], int(said[1]), "as it was said")
        check(live["events"] > 10000, f"events that came before: {live}")
finally:
    small.close()
shutil.rmtree(work, ignore_errors=True)
finish()
