"""Reads a capture directory of two nodes in both layouts. Every file must get its node and process,
starts and stops must become spans with the start's data, and files in closed formats must be hashed
and listed. The vendor's viewer is used if it is installed."""
import collections
import hashlib
import json
import os
import stat
import subprocess
import sys

from lib import SOURCE, Importer, check, equal, finish, load_json, run, tmp

sys.path.insert(0, os.path.join(SOURCE, "tests", "standin"))
from parquet_read import File  # noqa: E402

work = tmp()
capture = os.path.join(work, "capture")
subprocess.run([sys.executable, os.path.join(SOURCE, "tests/e2e/gen_capture.py"), capture, "20"], check=True)
truth = json.load(open(capture + ".truth.json"))

# ---- spans and identity ----
out = os.path.join(work, "out")
_, err = run("view", "-d", capture, "-o", out, "--output-format", "json,perfetto,summary-json,summary-text,chrome")
check("not decoded: 8 .pb files" in err, f"closed formats are named: {err}")
doc = load_json(os.path.join(out, "system_profile.json"))
events = doc["trace_events"]
per = collections.defaultdict(collections.Counter)
for e in events:
    per[(e["instance_id"], int(e["process_id"]))][e["name"]] += 1
for p in truth["processes"]:
    got = per[(p["instance_id"], p["process_id"])]
    for name, count in {**p["spans"], **p["instants"]}.items():
        equal(got[name], count, f"{p['instance_id']} pid {p['process_id']}: {name}")
    equal(got["train_step"] + got["forward"] + got["backward"] + got["optimizer"], p["framework"], "framework spans")
equal(len(per), 4, f"processes: {sorted(per)}")
hardware = [e for e in events if e["name"] == "nc_exec_running"]
equal(len({e["device_core_idx"] if "device_core_idx" in e else e.get("args", {}).get("device_core_idx") for e in hardware}), 4,
      "LNC 2: both physical cores of both logical cores")
check(all(e["duration"] > 7_000_000 for e in hardware), "device executions have their duration")

# ---- the real importer ----
importer = Importer()
bad, count, models, threads, paired = importer.query(
    os.path.join(out, "system_profile.pftrace"), Importer.BAD,
    "select count(*) from slice where category is null or category != 'meridian'",
    "select count(*) from args where key = 'debug.model_name' and string_value = 'demo_model'",
    "select count(distinct track_id) from slice",
    "select count(*) from slice s where name = 'nc_exec_running' and (select count(*) from args a where a.arg_set_id = s.arg_set_id and a.key glob 'debug.pcore*_duration') = 2")
equal(bad, [], "import errors")
tables, threads, nameless, rows = importer.query(
    os.path.join(out, "system_profile.pftrace"), "select pid, name from process where pid > 0 order by pid", "select count(*) from thread where tid > 0",
    "select count(*) from slice s where (select count(*) from args a where a.arg_set_id = s.arg_set_id and a.key in ('debug.instance_id', 'debug.process_id', 'debug.rank')) < 3",
    "select parent_id, name from track where name is not null group by 1, 2 having count(*) > 1")
equal([(int(pid), name) for pid, name in tables],
      [(p["process_id"], f"rank {p['rank']}, {p['instance_id']} pid {p['process_id']}: python train.py") for p in truth["processes"]], "Perfetto's process table")
equal(int(threads[0][0]), 4 * 3, "its thread table: two of the runtime and Python in each process")
equal((int(nameless[0][0]), rows), (0, []), "slices say whose they are, and no two rows beside each other have one name")
equal(int(paired[0][0]), len(hardware) // 2, "the halves of an execution are one slice")
equal(int(count[0][0]), len(events) - len(hardware) // 2, "all other slices are events")
check(int(models[0][0]) > 0, "start data is on the merged span")
device = [n for n in sorted(os.listdir(out)) if n.startswith("device_profile_model_") and n.endswith(".pftrace")]
check(device, f"device profiles in {os.listdir(out)}")
total = 0
for name in device:
    bad, count = importer.query(os.path.join(out, name), Importer.BAD, "select count(*) from slice where dur > 0")
    equal(bad, [], f"{name}: import errors")
    total += int(count[0][0])
equal(total, 4 * (900 + 200), "instructions and DMA of four device profiles")

# ---- halves, and results inside the input ----
half = os.path.join(work, "half")
run("view", "-d", capture, "-o", half, "--ignore-system-profile", "--output-format", "json")
check(not os.path.exists(os.path.join(half, "system_profile.json")), "--ignore-system-profile")
half = os.path.join(work, "half2")
run("view", "-d", capture, "-o", half, "--ignore-device-profile", "--output-format", "json")
equal([n for n in os.listdir(half) if n.startswith("device")], [], "--ignore-device-profile")
inside = os.path.join(capture, "profile")
run("view", "-d", capture, "-o", inside, "--output-format", "json")
_, err = run("view", "-d", capture, "-o", inside, "--output-format", "json", "--force")
check("2 results of Meridian" in err, f"own results are no input: {err}")
equal(len(load_json(os.path.join(inside, "system_profile.json"))["trace_events"]), len(events), "nothing counted twice")

# ---- nothing but closed formats, and no viewer ----
carried = os.path.join(work, "carried")
folder = os.path.join(carried, "i-0ccccccccccccccc3_pid_77", "1700000000")
os.makedirs(folder)
names = ["neff_abc.neff", "ntrace.pb", "profile_nc_3_session_9.ntff"]
for name in names:
    with open(os.path.join(folder, name), "wb") as f:
        f.write(name.encode())
for formats, ends in (("json", 0), ("perfetto,summary-text", 0), ("parquet-explorer,sqlite", 0), ("perfetto", 1)):
    out = os.path.join(work, "listed-" + formats.replace(",", "-"))
    _, err = run("view", "-d", carried, "-o", out, "--output-format", formats, "--json-layout", "explorer", want=ends)
    check("1 NTFF with 1 NEFF and 1 .pb files" in err, f"{formats}: what was not decoded is named: {err}")
    check("the output lists 3 files" in err if ends == 0 else "no output was written" in err, f"{formats}: what was written: {err}")
    equal(os.path.exists(os.path.join(out, "system_profile.pftrace")), False, "a trace without events")
doc = load_json(os.path.join(work, "listed-json", "system_profile.json"))
equal(sorted((os.path.basename(a["path"]), a["sha256"]) for a in doc["meridian"]["artifacts"]), [(n, hashlib.sha256(n.encode()).hexdigest()) for n in names], "the list of files")
profile = {"device_profile_name": "profile_nc_3_session_9", "instance_id": "i-0ccccccccccccccc3", "process_id": 77, "nc_id": 3, "session_id": 9}
equal(doc["device_profile_list"], [profile], "the list of device profiles")
table = File(os.path.join(work, "listed-parquet-explorer-sqlite", "system_profile", "DeviceProfileList.parquet")).read()
equal({k: table[k][0] for k in profile}, profile, "the table of device profiles")
with open(os.path.join(work, "listed-perfetto-summary-text", "summary.txt")) as f:
    check("Carried, not decoded (3)" in f.read(), "the summary lists them")

# ---- the vendor's viewer ----
closed = os.path.join(work, "closed")
folder = os.path.join(closed, "i-0ccccccccccccccc3_pid_77")
os.makedirs(folder)
with open(os.path.join(folder, "ntrace.pb"), "wb") as f:
    f.write(b"\x0a\x00closed")
tool = os.path.join(work, "neuron-explorer")


def script(body):
    with open(tool, "w") as f:
        f.write("#!/bin/sh\n" + body)
    os.chmod(tool, os.stat(tool).st_mode | stat.S_IXUSR)


script("""[ "$1 $2 $4 $5" = "view -d --output-format json" ] || { echo "bad usage: $*" >&2; exit 2; }
cat >system_profile.json <<X
{"trace_events":[{"name":"nrt_execute","timestamp":1700000000000000000,"duration":5,"instance_id":"i-0ccccccccccccccc3","process_id":"77","thread_id":1,"lnc_idx":"0"}]}
X
""")
dest = os.path.join(work, "v1")
run("view", "-d", closed, "-o", dest, "--vendor-tool", tool, "--output-format", "json,summary-json")
made = load_json(os.path.join(dest, "system_profile.json"))
equal([e["name"] for e in made["trace_events"]], ["nrt_execute"], "the viewer's JSON is read")
digest = hashlib.sha256(b"\x0a\x00closed").hexdigest()
check(digest in json.dumps(made), "artifacts are hashed")
script("echo 'cannot open NTFF version 115' >&2; exit 4\n")
_, err = run("view", "-d", closed, "-o", os.path.join(work, "v2"), "--vendor-tool", tool, "--output-format", "json", want=3)
check("cannot open NTFF version 115" in err and "exit status 4" in err, f"the viewer's own error is shown: {err}")
script("sleep 600\n")
_, err = run("view", "-d", closed, "-o", os.path.join(work, "v3"), "--vendor-tool", tool, "--vendor-timeout", "300ms", "--output-format", "json", want=3, timeout=300)
check("did not finish" in err, f"time limit: {err}")
finish()
