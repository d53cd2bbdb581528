"""meridian inspect around real processes on the simulated runtime: everything they emitted is in the profile, the command
keeps its input, output and exit status, and Ctrl-C still ends with a profile."""
import collections
import glob
import json
import os
import signal
import subprocess
import sys
import time

from lib import BUILD, MERIDIAN, SOURCE, Importer, check, equal, finish, load_json, run, skip, tmp

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


left_before = set(os.listdir("/dev/shm"))
# ---- everything arrives ----
out, truth = os.path.join(work, "out"), os.path.join(work, "truth")
text, err = run("inspect", "-o", out, "--output-format", "perfetto,json,summary-text", "--sample", "50ms", "--", loop, "--ranks", "4",
                "--cores", "8", "--steps", "6", "--straggler", "5:4", "--checkpoint-every", "3", "--checkpoint-dir", work,
                env=dict(env, SIMNRT_TRUTH=truth))
check("rank 0: 6 steps" in text and "Profile" not in text, f"stdout belongs to the command: {text[:200]}")
check("SIMULATED" in err, "simulated data says so")
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
check(doc["mem_usage"] and doc["cpu_util"], "host memory and CPU were sampled")
# The straggler: worker 5's device executions are the longest, everyone else's wait in barriers is.
busy = collections.defaultdict(int)
for e in doc["trace_events"]:
    if e["name"] == "cc_exec_barrier":
        busy[e["worker_gid"]] += e["duration"]
equal(min(busy, key=busy.get), 5, "the core that waits least in barriers is the straggler")
# ---- the real importer ----
bad, flows, depth = Importer().query(os.path.join(out, "system_profile.pftrace"), Importer.BAD, "select count(*) from flow",
                                     "select max(depth) from slice")
equal(bad, [], "import errors")
check(int(flows[0][0]) >= 4 * 8 * 6, "arrows from submission to device")
check(int(depth[0][0]) >= 3, "nested runtime calls")

# ---- the command's own life ----
for command, status in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["true"], 0)):
    run("inspect", "-o", os.path.join(work, "s%d" % status), "--", *command, want=status)
_, err = run("inspect", "-o", os.path.join(work, "absent"), "--", "no-such-program", want=127)
check("no-such-program" in err, f"a command that is not there: {err}")
_, err = run("inspect", "-o", work + "/x", want=2)
check("name a command" in err, "no command")
p = subprocess.run([MERIDIAN, "inspect", "-o", os.path.join(work, "pipe"), "--", "tr", "a-z", "A-Z"], input="abc", capture_output=True, text=True)
equal(p.stdout, "ABC", "stdin and stdout pass through")
equal([n for n in os.listdir("/dev/shm") if n.startswith("meridian-inspect") and n not in left_before], [], "no rings are left behind")

# ---- SIGKILL in the middle leaves open spans, exported as unfinished ----
killed = os.path.join(work, "killed")
script = f"setsid {loop} --ranks 1 --cores 2 --steps 20000 --quiet --checkpoint-every 0 & pid=$!; sleep 0.7; kill -9 -$pid; wait"
run("inspect", "-o", killed, "--output-format", "json", "--", "sh", "-c", script, want=None, env=env)
doc = load_json(os.path.join(killed, "system_profile.json"))
check(len(doc["trace_events"]) > 500, "events of a killed process")
check(any(e.get("unfinished") for e in doc["trace_events"]), "spans that were open are unfinished")

# ---- Ctrl-C ----
stopped = os.path.join(work, "stopped")
p = subprocess.Popen([MERIDIAN, "inspect", "-o", stopped, "--output-format", "json", "--", loop, "--ranks", "2", "--cores", "2", "--steps", "20000",
                      "--quiet", "--checkpoint-every", "0"], env=dict(os.environ, **env), start_new_session=True,
                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
time.sleep(1.5)
os.killpg(p.pid, signal.SIGINT)
_, err = p.communicate(timeout=60)
check(p.returncode != 0, f"exit status of the interrupted command: {p.returncode}")
check(len(load_json(os.path.join(stopped, "system_profile.json"))["trace_events"]) > 500, f"Ctrl-C ends with a profile: {err[-300:]}")

# ---- Python, no code change, the runtime loaded late ----
python = os.path.join(SOURCE, "examples", "train_loop.py")
out = os.path.join(work, "python")
run("inspect", "-o", out, "--output-format", "json", "--", "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable, python,
    "--steps", "5", env=dict(env, PYTHONPATH=os.path.join(SOURCE, "python")))
names = collections.Counter(e["name"] for e in load_json(os.path.join(out, "system_profile.json"))["trace_events"])
check(names["nrt_execute"] > 0 and names["nc_exec_running"] > 0, f"a Python workload: {names.most_common(5)}")
finish()
