"""The switches of the profiler guide on a capture directory of two nodes: groups, filters, slices and formats, each against an independent
reading of the files. GENERATED input, checked in Perfetto's own importer."""
import collections
import glob
import json
import os
import subprocess
import sys

from lib import SOURCE, Importer, check, equal, finish, load_json, run, tmp

sys.path.insert(0, os.path.join(SOURCE, "tests", "standin"))
from parquet_read import File  # noqa: E402

work = tmp()
capture = os.path.join(work, "capture")
subprocess.run([sys.executable, os.path.join(SOURCE, "tests/e2e/gen_capture.py"), capture, "6"], check=True)
truth = {p["process_id"]: p for p in json.load(open(capture + ".truth.json"))["processes"]}
HARDWARE = {"nc_exec_running", "cc_running", "timestamp_sync_point"}


def read_by_hand():
    """[(instance, pid, core or None, worker or None, thread, name, start ns, duration ns)] of the folder."""
    events = []
    for path in sorted(glob.glob(os.path.join(capture, "**", "nrt_sys_trace.json"), recursive=True)):
        place = next(part for part in path.split(os.sep) if "_pid_" in part)
        instance, pid = place.split("_pid_")
        began = {}
        for e in json.load(open(path))["events"]:
            at, key = e["timestamp_ns"], e["tracking_id"]
            row = (instance, int(pid), e["nc_idx"], e["worker_gid"], e["thread_id"], e["event_type"])
            if e["phase"] == "start":
                began[key] = at
            else:
                begin = began.pop(key) if e["phase"] == "stop" else at
                events.append((*row, begin, at - begin))
    for path in sorted(glob.glob(os.path.join(capture, "**", "neuron_framework_trace_rank_*.json"), recursive=True)):
        instance, pid = next(part for part in path.split(os.sep) if "_pid_" in part).split("_pid_")
        for e in load_json(path)["traceEvents"]:
            if e["ph"] == "X":
                ns = [int(e[k].replace(".", "")) for k in ("ts", "dur")]
                events.append((instance, int(pid), None, None, e["tid"], e["name"], *ns))
    return events


ALL = read_by_hand()
FIRST = min(e[6] for e in ALL)


def names(events):
    return collections.Counter((e[0], e[1], e[5]) for e in events)


def view(*options, formats="json", want=0):
    out = os.path.join(work, f"out{view.n}")
    view.n += 1
    _, err = run("view", "-d", capture, "-o", out, "--output-format", formats, *options, want=want)
    return out, err


view.n = 0


def seen(out):
    return load_json(os.path.join(out, "system_profile.json"))["trace_events"]


def same(options, expected, what):
    out, _ = view(*options)
    got = collections.Counter((e["instance_id"], int(e["process_id"]), e["name"]) for e in seen(out))
    equal(got - names(expected), collections.Counter(), f"{what}: too much")
    equal(names(expected) - got, collections.Counter(), f"{what}: missing")
    return seen(out)


# ---- Times and durations, of everything ----
everything = same([], ALL, "everything")
equal(sorted((e["name"], int(e["timestamp"]), int(e["duration"])) for e in everything if e["name"] not in HARDWARE),
      sorted((e[5], e[6], e[7]) for e in ALL if e[5] not in HARDWARE), "start and duration of each host event, to the nanosecond")
equal(sorted((e["name"], int(e["duration"])) for e in everything if e["name"] == "nc_exec_running"),
      sorted((e[5], e[7]) for e in ALL if e[5] == "nc_exec_running"), "the duration of each execution on a device")

# ---- Filters ----
core = "--system-trace-filter-neuron-core"
kinds = "--system-trace-filter-event-type"
nodes = "--system-trace-filter-instance-id"
same([core, "1"], [e for e in ALL if e[2] == 1], "one core")
same([core, "0-1"], [e for e in ALL if e[2] in (0, 1)], "a range of cores: what is of no core stays out")
_, err = view(core, "1-0", want=2)
check("1-0" in err, f"a range that is backwards: {err}")
same([kinds, "nrt_execute,cc_running"], [e for e in ALL if e[5] in ("nrt_execute", "cc_running")], "two types")
same([kinds, "hardware"], [e for e in ALL if e[5] in HARDWARE], "the group hardware")
same([kinds, "^nrt_tensor_free"], [e for e in ALL if e[5] != "nrt_tensor_free"], "all but one type")
same([kinds, "hardware,^cc_running"], [e for e in ALL if e[5] in HARDWARE - {"cc_running"}], "a group without one of its types")
same([nodes, "i-0bbbbbbbbbbbbbbb2"], [e for e in ALL if e[0] == "i-0bbbbbbbbbbbbbbb2"], "one instance")
same(["--filter-process", "1002,1003"], [e for e in ALL if e[1] in (1002, 1003)], "two processes")
same([nodes, "i-0aaaaaaaaaaaaaaa1", core, "0", kinds, "kbl_exec_wait"],
     [e for e in ALL if (e[0], e[2], e[5]) == ("i-0aaaaaaaaaaaaaaa1", 0, "kbl_exec_wait")], "filters together are an and")
_, err = view(nodes, "i-nobody", want=3)
check("the slice is empty" in err, f"an instance that is not there: {err}")
begin, end = FIRST + 20_000_000, FIRST + 40_000_000
host = [e for e in ALL if e[5] not in HARDWARE]
got = collections.Counter((e["instance_id"], int(e["process_id"]), e["name"]) for e in seen(view("--start", "20ms", "--end", "40ms")[0])
                          if e["name"] not in HARDWARE)
equal(got, names([e for e in host if e[6] < end and (e[6] + e[7] > begin or e[6] >= begin)]), "a slice: everything that touches it")

# ---- Groups of rows ----
importer = Importer()
FIELDS = {"instance_id": lambda e: e[0], "process_id": lambda e: f"pid {e[1]}", "lnc_idx": lambda e: f"NC {e[2]:03}",
          "thread_id": lambda e: f"tid {e[4]}", "worker_gid": lambda e: f"worker {e[3]:03}"}
runtime = [e for e in ALL if e[2] is not None and e[5] not in HARDWARE]
for primary, secondary in (("instance_id,process_id", "lnc_idx,thread_id"), ("instance_id", "thread_id"), ("lnc_idx", "instance_id,process_id"),
                           ("process_id", "lnc_idx"), ("worker_gid", "thread_id"), ("thread_id", "lnc_idx,process_id")):
    out, _ = view("--system-trace-primary-group", primary, "--system-trace-secondary-group", secondary, formats="perfetto")
    bad, tracks, rows = importer.query(os.path.join(out, "system_profile.pftrace"), Importer.BAD, "select id, parent_id, name from track",
                                       "select track_id, name, count(*) from slice group by 1, 2")
    tracks = {id: (parent, name) for id, parent, name in tracks}
    equal(bad, [], f"{primary} | {secondary}: import errors")
    wanted = collections.Counter()
    for e in runtime:
        wanted[tuple(tuple(FIELDS[f](e) for f in group.split(",")) for group in (primary, secondary)) + (e[5],)] += 1
    found = collections.Counter()
    for track, name, count in rows:
        path = []  # from the outermost row, which is the profile's
        while track is not None:
            track, label = tracks[track]
            path.insert(0, label or "")
        for key in wanted:
            if key[2] == name and len(path) >= 3 and all(f in path[1] for f in key[0]) and all(f in path[2] for f in key[1]):
                found[key] += int(count)
                break
    equal(wanted - found, collections.Counter(), f"rows grouped by {primary} | {secondary}")
for wrong in ("instance", "process_id,process_id", ""):
    _, err = view("--system-trace-primary-group", wrong, want=2)
    check("system-trace-primary-group" in err and ("instance_id" in err or wrong == "" or "twice" in err), f"a wrong group {wrong!r}: {err}")

# ---- Formats and records ----
out, _ = view("--json-layout", "explorer", formats="json,summary-json,summary-text,perfetto")
equal({f for f in os.listdir(out) if f.startswith("system_profile")} >= {"system_profile.json", "system_profile.pftrace"}, True, f"files: {os.listdir(out)}")
for e in everything:
    needed = {"duration", "group", "instance_id", "name", "process_id", "timestamp", "type"} | (set() if e["name"] in HARDWARE else {"thread_id"})
    if not needed <= set(e):
        check(False, f"a record without its fields: {e}")
        break
out, _ = view(formats="parquet-explorer")
tables = {os.path.basename(f)[:-len(".parquet")]: File(f) for f in glob.glob(os.path.join(out, "system_profile", "*.parquet"))}
rows = tables["SystemProfileEvents"].read(["name", "instance_id", "process_id", "nc_idx", "worker_gid", "start_ts", "end_ts", "duration_ns"])
equal(collections.Counter(zip(rows["instance_id"], rows["process_id"], rows["nc_idx"], rows["worker_gid"], rows["name"], rows["start_ts"], rows["duration_ns"])) -
      collections.Counter((e[0], e[1], e[2], e[3], e[5], e[6], e[7]) for e in ALL if e[5] not in HARDWARE and e[2] is not None) -
      collections.Counter(r for r in zip(rows["instance_id"], rows["process_id"], rows["nc_idx"], rows["worker_gid"], rows["name"], rows["start_ts"], rows["duration_ns"])
                          if r[4] in HARDWARE or r[2] is None), collections.Counter(), "the newer tool's table of events")
equal(len(rows["name"]), len(ALL), "its rows")
check(all(end - start == length for start, end, length in zip(rows["start_ts"], rows["end_ts"], rows["duration_ns"])), "start, end and duration agree")
listed = tables["DeviceProfileList"].read()
equal(sorted(zip(listed["instance_id"], listed["process_id"])), sorted((p["instance_id"], pid) for pid, p in truth.items()), "its list of device profiles")
fields = tables["SchemaFields"].read()
of = next(c for c in fields if "table" in c)
name = next(c for c in fields if c in ("field_name", "field"))
for table, file in tables.items():
    equal([f for t, f in zip(fields[of], fields[name]) if t == table], file.columns, f"SchemaFields describes {table}")
check(any("not decoded" in m or ".pb" in m for m in tables["Warning"].read()["message"]), f"warnings: {tables['Warning'].read()}")
equal({e["name"] for e in everything if str(e["type"]) == "99999"}, {"train_step", "forward", "backward", "optimizer"}, "framework records have their type")
finish()
