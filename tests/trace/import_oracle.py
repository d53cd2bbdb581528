"""Imports random files of exported system profiles, device profiles, neuron-monitor and XSpace. The
expected result of each row is computed here in another way from the random values. Usage:
import_oracle.py PROGRAM FILES; MRD_SEED=n repeats one."""
import json
import os
import random
import subprocess
import sys
import tempfile
from decimal import ROUND_HALF_UP, Decimal

import xplane_oracle

NONE = -1  # what a track or a process does not state
FIELDS = ("profile kind name category ts dur id value bound marks flows instance pid process place scope rank worker source track unit unit_name "
          "lnc pcore device thread sort line arrows").split()
UNITS = ["none", "ns", "count", "bytes", "percent"]
I64 = range(-2**63, 2**63)
failures = []


def scaled(text, exponent):
    """A number's text times a power of ten, rounded half away from zero; None beyond 64 bits."""
    v = int((Decimal(text) * Decimal(10) ** exponent).quantize(Decimal(1), ROUND_HALF_UP))
    return v if v in I64 else None


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def text_of(v):
    return json.dumps(v) if is_number(v) else v


def as_arg(v):
    """An argument as import_words prints it."""
    if isinstance(v, bool):
        return f"b{int(v)}"
    if isinstance(v, int):
        return f"i{v}"
    if isinstance(v, float):
        return "d%.17g" % v
    return "s" + v if isinstance(v, str) else "j" + json.dumps(v)


NUMBER_MAX = 64


def number_text(v):
    """v when it is a number, or a text that is one, and not too long."""
    if len(text_of(v) if is_number(v) or isinstance(v, str) else "") > NUMBER_MAX:
        return None
    if is_number(v):
        return text_of(v)
    try:
        return v if isinstance(v, str) and v == v.strip() and Decimal(v).is_finite() else None
    except ArithmeticError:
        return None


def integer(v):
    """v as an integer of 64 bits, also from a text; None when it is none."""
    try:
        i = int(v) if isinstance(v, str) or isinstance(v, int) and not isinstance(v, bool) else None
    except ValueError:
        return None
    return i if i is not None and i in I64 else None


class Row:
    """Members of a row in the order of the file; each is taken by its meaning once, the rest are arguments."""

    def __init__(self, members, meanings):
        self.args, self.taken = {}, {}
        for key, v in members.items():
            what = meanings.get(key)
            got = None if what is None or what[0] in self.taken else what[1](v)
            if what is not None and what[1] is sizes:
                self.args[key] = sizes(v)
            elif got is None:
                self.args[key] = as_arg(v)
            else:
                self.taken[what[0]] = got

    def get(self, what, otherwise=None):
        return self.taken.get(what, otherwise)


def sizes(v):
    i = integer(v) if isinstance(v, str) else None
    return f"i{i}" if i is not None else as_arg(v)


def string(v):
    return v if isinstance(v, str) else None


def truth(v):
    return v if isinstance(v, bool) else None


def unsigned(v):
    i = int(v) if isinstance(v, (str, int)) and not isinstance(v, bool) and str(v).isdigit() else -1
    return i if 0 <= i < 2**64 else None


def bound(v):
    if v is None:
        return 2**32 - 1
    return min(v, 2**32 - 2) if isinstance(v, int) and not isinstance(v, bool) and v >= 0 else None


def array(v):
    return v if isinstance(v, list) else None


def process(v):
    i = integer(v)
    return i if i is not None else string(v)


def marks(row, event):
    """What mrd_row_marks says; the duration was set."""
    span = row.get("kind") != "instant"
    event["kind"] = "span" if span else "instant"
    if not span:
        event["dur"] = 0
    if row.get("unfinished") and span:
        event["dur"] = -1
    event["marks"] = ("no-start " if row.get("no_start") and span else "") + ("simulated" if row.get("simulated") else "")
    event["bound"] = row.get("bound", 0)
    event["id"] = row.get("id", 0)
    event["category"] = row.get("category", "")


def sample(text):
    """A counter's value as printed."""
    if "." not in text and "e" not in text.lower():
        return f"i{int(text)}" if -2**63 <= int(text) < 2**64 else "d%.17g" % float(text)
    return "d%.17g" % float(text)


class Expected:
    def __init__(self):
        self.events, self.records, self.dropped, self.unfinished, self.no_start, self.lost = [], 0, 0, 0, 0, 0
        self.notes, self.shifts, self.says_all = [], [], False  # says_all: notes and shifts are all that there may be

    def drop(self):
        self.dropped += 1

    def add(self, event):
        self.events.append(event)
        self.unfinished += event["kind"] == "span" and event["dur"] == -1
        self.no_start += "no-start" in event["marks"]

    def last(self):
        return [str(n) for n in (self.records, len(self.events), self.dropped, self.unfinished, self.no_start, self.lost)]


def number(r):
    return r.choice([0, 1, 7, 2**31, 2**53 + 1, 2**63 - 1, -2**63, -1, r.randrange(10**12)])


def odd(r):
    """A value of a type that a member seldom has."""
    return r.choice(["", "a text", "12", "-3", "1.5", 3, -4, 2.5, True, False, {"a": 1}, [1, "b"]])


def maybe(r, members, key, draw, chance=0.5):
    if r.random() < chance:
        members[key] = odd(r) if r.random() < 0.08 else draw()


def shuffled(r, members):
    keys = list(members)
    r.shuffle(keys)
    return {k: members[k] for k in keys}


# ---- Exported system profiles, as vendors write them ----

SOURCES = ["neuron_rt", "neuron_hw", "framework", "nrt_api", "annotation", "host", "device_counter", "device_profile", "meridian"]
HARDWARE = {"nc_exec_running", "cc_running", "cc_exec_barrier", "nc_model_switch"}
EXPONENT = {None: 0, "": 0, "ns": 0, "ps": -3, "us": 3, "ms": 6, "s": 9}
WHOSE = {"instance_id": ("instance", string), "lnc_idx": ("lnc", integer), "nc_idx": ("nc", integer), "process_id": ("pid", process),
         "scope": ("scope", integer), "thread_id": ("thread", integer), "pcore_idx": ("pcore", integer), "device_idx": ("device", integer),
         "worker_gid": ("worker", integer), "trace_event_source": ("source", string), "track": ("track", string)}
TIMES = {"timestamp": ("ts", number_text), "timestamp_unit": ("unit", string)}
EVENT = {**WHOSE, **TIMES, "start_ts": ("ts", number_text), "duration": ("dur", number_text), "duration_ns": ("dur", number_text),
         "group": ("group", string), "id": ("id", unsigned), "name": ("name", string), "size": ("size", sizes), "tensor_id": ("tensor", sizes),
         "parent_id": ("parent", integer), "type": ("type", integer), "category": ("category", string), "kind": ("kind", string),
         "unfinished": ("unfinished", truth), "no_start": ("no_start", truth), "simulated": ("simulated", truth),
         "clock_bound_ns": ("bound", bound), "flow_id": ("flows", array)}
HOST = {**TIMES, "instance_id": ("instance", string), "process_id": ("pid", process), "process": ("own", truth), "track": ("track", string),
        "scope": ("scope", integer), "duration": ("dur", number_text), "simulated": ("simulated", truth), "clock_bound_ns": ("bound", bound),
        "usage": ("used", number_text), "used_bytes": ("used", number_text), "percent_usage": ("percent", number_text),
        "used_percent": ("percent", number_text), "cpu_id": ("cpu", string), "util": ("value", number_text),
        "util_percent": ("value", number_text), "hbm_idx": ("hbm", integer), "device_idx": ("device", integer)}


def draw_times(r, row):
    stamp = r.choice([r.randrange(10**15), str(r.randrange(10**18)), round(r.random() * 10**6, 3), "12.5", r.randrange(10**6),
                      "7." + "0" * r.choice([NUMBER_MAX - 2, NUMBER_MAX - 1])])
    maybe(r, row, r.choice(["timestamp", "timestamp", "start_ts"]), lambda: stamp, 0.95)
    maybe(r, row, "timestamp_unit", lambda: r.choice(["ns", "us", "ps", "ms", "s", "weeks"]), 0.3)


def draw_whose(r, row):
    maybe(r, row, "instance_id", lambda: r.choice(["i-1", "i-2"]))
    maybe(r, row, "process_id", lambda: r.choice([7, "8", 900]))
    maybe(r, row, "simulated", lambda: r.random() < 0.5, 0.2)
    maybe(r, row, "clock_bound_ns", lambda: r.choice([None, 0, 1500, 2**32 - 1, 2**40]), 0.2)
    maybe(r, row, "device_idx", lambda: r.randrange(4), 0.2)


def draw_event(r):
    row = {}
    draw_times(r, row)
    draw_whose(r, row)
    maybe(r, row, "name", lambda: r.choice(["nrt_execute", "nc_exec_running", "cc_running", "nrt_tensor_write", "aten::mm"]), 0.97)
    maybe(r, row, r.choice(["duration", "duration_ns"]), lambda: r.choice([0, 5, "17", 2.5, r.randrange(10**9), -1]), 0.8)
    for key in ("lnc_idx", "nc_idx", "thread_id", "pcore_idx"):
        maybe(r, row, key, lambda: r.choice([0, 1, "2", 12]), 0.3)
    maybe(r, row, "worker_gid", lambda: 5, 0.1)
    maybe(r, row, "trace_event_source", lambda: r.choice(SOURCES + ["somewhere"]), 0.3)
    maybe(r, row, "track", lambda: "a line", 0.2)
    maybe(r, row, "group", lambda: r.choice(["nrt-nc-000", "nrt", "framework-7", "framework", "other"]), 0.5)
    maybe(r, row, "id", lambda: r.choice([0, 3, "77", 2**64 - 1, -1]), 0.5)
    maybe(r, row, "size", lambda: r.choice([5, "4096", "many"]), 0.3)
    maybe(r, row, "tensor_id", lambda: r.choice(["7", 8]), 0.3)
    maybe(r, row, "parent_id", lambda: r.choice([0, 9]), 0.3)
    maybe(r, row, "type", lambda: r.choice([0, 11, 99999, 12]), 0.4)
    maybe(r, row, "category", lambda: "a category", 0.2)
    maybe(r, row, "kind", lambda: r.choice(["instant", "span"]), 0.3)
    maybe(r, row, "unfinished", lambda: r.random() < 0.5, 0.2)
    maybe(r, row, "no_start", lambda: r.random() < 0.5, 0.2)
    maybe(r, row, "flow_id", lambda: [r.choice([1, "2", {"no": 1}, "three"]) for _ in range(r.randrange(4))], 0.2)
    maybe(r, row, "device_core_idx", lambda: r.choice([0, 1, -1]), 0.3)
    maybe(r, row, "another", lambda: number(r), 0.4)
    return shuffled(r, row)


def times_of(row, event):
    """False: no usable time."""
    unit = row.get("unit")
    ts = scaled(row.get("ts"), EXPONENT[unit]) if unit in EXPONENT and row.get("ts") else None
    event["dur"] = scaled(row.get("dur"), EXPONENT[unit]) if ts is not None and row.get("dur") else 0
    event["ts"] = ts
    return ts is not None and event["dur"] is not None and event["dur"] >= 0


def whose(row, event):
    event["instance"] = row.get("instance") or "unknown"
    pid = row.get("pid")
    event["process"] = pid if isinstance(pid, str) else ""
    event["pid"] = None if isinstance(pid, str) else pid if pid is not None else 0
    event["place"] = "no pid" if pid is None or isinstance(pid, str) else ""
    if not row.get("instance") or isinstance(pid, int):
        event["place"] = None  # rows of one process and of its node mix there
    event["rank"] = NONE
    for key in ("pcore", "device", "thread"):
        event[key] = row.get(key, NONE)
    event["lnc"] = row.get("lnc", row.get("nc", NONE))
    event["track"] = row.get("track", "")


def expect_event(members, expected):
    row, e = Row(members, EVENT), {"profile": 0, "value": "i0", "unit": 0, "unit_name": ""}
    expected.records += 1
    if not times_of(row, e) or not row.get("name"):
        return expected.drop()
    whose(row, e)
    source, group, name, kind = row.get("source"), row.get("group"), row.get("name"), row.get("type")
    if source in SOURCES:
        e["source"] = source
    else:
        e["source"] = "framework" if kind == 99999 or (group or "").startswith("framework") else "neuron_hw" if name in HARDWARE else "neuron_rt"
        if source is not None:
            row.args["trace_event_source"] = "s" + source
    core = row.args.get("device_core_idx", "")
    if e["source"] == "neuron_hw" and e["pcore"] == NONE and core.startswith("i") and int(core[1:]) >= 0:
        e["pcore"] = int(core[1:])
    runtime = e["source"] in ("neuron_rt", "neuron_hw", "nrt_api")
    if runtime and e["lnc"] != NONE:
        usual = "nrt-nc-%03d" % e["lnc"]
    else:
        usual = ("nrt" if runtime else e["source"]) + ("" if e["thread"] == NONE else f"-{e['thread']}")
    if group is not None and group != usual:
        row.args["group"] = "s" + group
    if row.get("kind") not in (None, "instant"):
        row.args["kind"] = "s" + row.get("kind")
    if row.get("parent"):
        row.args["parent_id"] = f"i{row.get('parent')}"
    known = 99999 if e["source"] == "framework" else 11 if runtime and name == "nrt_tensor_write" else 0
    if kind and kind != known:
        row.args["type"] = f"i{kind}"
    if row.get("nc") is not None and row.get("lnc") is not None and row.get("nc") != row.get("lnc"):
        row.args["nc_idx"] = f"i{row.get('nc')}"
    marks(row, e)
    e["name"], e["args"] = name, row.args
    e["flows"] = "2" * sum(1 for f in row.get("flows", []) if unsigned(f) is not None)
    for f in row.get("flows", []):  # an arrow that is none is left out, and counted
        if f is not None and unsigned(f) is None:
            expected.records += 1
            expected.drop()
    expected.add(e)


def draw_host(r, section):
    row = {}
    draw_times(r, row)
    draw_whose(r, row)
    maybe(r, row, "process", lambda: r.random() < 0.5, 0.3)
    maybe(r, row, "duration", lambda: 5, 0.1)
    value = lambda: r.choice([0, 12, 2**63, "40", 99.5, r.randrange(10**12)])
    if "mem" in section and "device" not in section:
        maybe(r, row, r.choice(["usage", "used_bytes"]), value, 0.8)
        maybe(r, row, r.choice(["percent_usage", "used_percent"]), value, 0.5)
        maybe(r, row, "track", lambda: "memory_info memory_used_bytes", 0.2)
    elif "cpu" in section:
        maybe(r, row, "cpu_id", lambda: r.choice(["0", "11", "all"]), 0.9)
        maybe(r, row, r.choice(["util", "util_percent"]), value, 0.8)
    else:
        maybe(r, row, "hbm_idx", lambda: r.choice([0, 3, "2"]), 0.8)
    maybe(r, row, "extra", value, 0.4)
    maybe(r, row, "tensors", value, 0.4)
    return shuffled(r, row)


def expect_host(members, section, expected):
    row, base = Row(members, HOST), {}
    if not times_of(row, base):
        expected.records += 1
        return expected.drop()
    whose(row, base)
    node = not row.get("own", False)
    marks(row, base)
    base.update(profile=0, kind="counter", category="", dur=0, id=0, flows="", source="host", lnc=NONE, pcore=NONE, thread=NONE, unit_name="",
                name="", args={})
    base["category"] = row.get("category", "")
    if node:
        base["process"] = ""
        base["place"] = "node" if base["place"] is not None else None
        if row.get("pid") is None:
            base["pid"] = 0
    rows = []
    if "mem" in section and "device" not in section:
        used = "memory_info memory_used_bytes" if base["track"] == "memory_info memory_used_bytes" else "mem.used_bytes"
        rows += [(used, UNITS.index("bytes"), row.get("used")), ("mem.used_percent", UNITS.index("percent"), row.get("percent"))]
        prefix = "mem."
    elif "cpu" in section:
        rows += [(f"cpu.{row.get('cpu', '')}.util_percent", UNITS.index("percent"), row.get("value"))]
        prefix = f"cpu.{row.get('cpu', '')}."
    else:
        base["source"] = "device_counter"
        prefix = f"hbm.{row.get('hbm')}." if row.get("hbm") is not None else "hbm."
    for name, unit, value in rows:
        if value is not None:
            expected.records += 1
            expected.add({**base, "track": name, "unit": unit, "value": sample(value)})
    for key, v in row.args.items():
        expected.records += 1
        if v[0] not in "id":
            expected.drop()
            continue
        expected.add({**base, "track": prefix + key, "unit": UNITS.index("bytes") if key.endswith("_bytes") else 0, "value": v})


def system(r, expected):
    doc = {}
    for section in r.sample(["trace_events", "host_mem_usage", "mem_usage", "cpu_util", "cpu_usage", "device_mem_usage"], r.randrange(1, 5)):
        doc[section] = []
        for _ in range(r.randrange(1, 9)):
            if r.random() < 0.03:
                doc[section].append(r.choice([5, "no row", [1]]))
                expected.records += 1
                expected.drop()
                continue
            row = draw_event(r) if section == "trace_events" else draw_host(r, section)
            doc[section].append(row)
            if section == "trace_events":
                expect_event(row, expected)
            else:
                expect_host(row, section, expected)
    return doc


# ---- Exported device profiles ----

DEVICE = {"timestamp": ("ts", number_text), "start_ts": ("ts", number_text), "duration": ("dur", number_text), "name": ("name", string),
          "id": ("id", unsigned), "instance_id": ("instance", string), "process_id": ("pid", process), "nc_idx": ("nc", integer)}
SHAPES = {"instruction": (["opcode", "label", "hlo_name"], ["engine", "subgroup", "timeline_track"]),
          "dma": (["variable", "queue_type", "dma_queue"], ["dma_queue", "queue_name", "queue_type"]),
          "cc_stream": (["operation", "algorithm", "label"], ["stream_id", "stream_index"]),
          "semaphore": (["label", "opcode", "operation"], ["engine", "stream_id"])}


def device(r, expected):
    exponent = r.choice([0, -3, 3])
    doc, rows = {}, []
    for section in r.sample(sorted(SHAPES), r.randrange(1, 5)):
        doc[section] = []
        for _ in range(r.randrange(1, 7)):
            row = {}
            maybe(r, row, r.choice(["timestamp", "start_ts"]), lambda: r.randrange(10**6, 10**9) * 1000, 0.9)
            maybe(r, row, "duration", lambda: r.choice([0, 4000, r.randrange(1, 900) * 1000, -1000]), 0.8)
            maybe(r, row, "name", lambda: r.choice(["a name", ""]), 0.4)
            maybe(r, row, "id", lambda: r.randrange(50), 0.3)
            maybe(r, row, "instance_id", lambda: "i-3", 0.2)
            maybe(r, row, "process_id", lambda: r.choice([4, "5"]), 0.2)
            maybe(r, row, "nc_idx", lambda: r.randrange(3), 0.3)
            for key in sum(SHAPES[section], []):
                maybe(r, row, key, lambda: r.choice(["", "pe", "act", 3]), 0.4)
            rows.append((section, shuffled(r, row)))
            doc[section].append(rows[-1][1])
    read = [(section, Row(row, DEVICE)) for section, row in rows]
    timed = [(section, row) for section, row in read if row.get("ts")]
    main = [row for section, row in timed if section in ("instruction", "dma")] or [row for _, row in timed]
    if not timed:
        return None
    first = min((row.get("ts") for row in main), key=Decimal)
    end = max(Decimal(row.get("ts")) + max(Decimal(row.get("dur") or 0), 0) for row in main)
    if end == Decimal(first):
        return None  # no length from which the unit could be told
    doc["summary"] = [{"total_time": float(end - Decimal(first)) * 10.0**exponent / 1e9}]
    for section, row in rows + [("summary", doc["summary"][0])]:
        expect_device(section, row, exponent, scaled(first, exponent), expected)
    return doc


def named(row, keys):
    for key in keys:
        v = row.args.get(key, "")
        if v.startswith("s") and len(v) > 1:
            return v[1:]
        if v.startswith("i") and int(v[1:]) in I64:
            return f"{key} {v[1:]}"
    return ""


def expect_device(section, members, exponent, first_ns, expected):
    row = Row(members, DEVICE)
    e = {"profile": 1, "kind": "span", "category": section, "value": "i0", "bound": 0, "marks": "", "flows": "", "unit": 0, "unit_name": "",
         "pcore": NONE, "device": NONE, "thread": NONE, "source": "device_profile", "id": row.get("id", 0), "dur": 0, "args": row.args}
    expected.records += 1
    if row.get("ts") is None:
        e.update(kind="instant", ts=first_ns)
    else:
        e["ts"] = scaled(row.get("ts"), exponent)
        if row.get("dur") is not None:
            e["dur"] = scaled(row.get("dur"), exponent)
        if e["dur"] < 0:
            return expected.drop()
    names, tracks = SHAPES.get(section, SHAPES["semaphore"])
    e["name"] = row.get("name") or named(row, names) or section
    e["track"] = named(row, tracks) or section
    e["lnc"] = row.get("nc", NONE)
    expected.add(e)


# ---- neuron-monitor ----

def monitor(r, expected):
    reports = []
    for i in range(r.randrange(1, 4)):
        stamp = r.choice([1700000000 + i, 1700000000.25 + i, (1700000000 + i) * 1000, (1700000000 + i) * 10**6, (1700000000 + i) * 10**9])
        report = {"timestamp": stamp, "instance_info": {"instance_id": "i-9"}}
        now = scaled(text_of(stamp), 0 if stamp >= 10**17 else 3 if stamp >= 10**14 else 6 if stamp >= 10**11 else 9)
        base = {"profile": 0, "kind": "counter", "category": "", "ts": now, "dur": 0, "id": 0, "bound": 2**32 - 1, "marks": "", "flows": "",
                "instance": "i-9", "rank": NONE, "worker": NONE, "thread": NONE, "pcore": NONE, "lnc": NONE, "device": NONE, "args": {}}

        def counter(name, value, unit, unit_name="", **where):
            expected.records += 1
            expected.add({**base, "name": name, "track": name, "value": as_arg(value), "unit": UNITS.index(unit), "unit_name": unit_name, **where})

        def error(group, text, **where):
            expected.records += 1
            expected.add({**base, "kind": "instant", "value": "i0", "name": "neuron-monitor error", "track": "neuron-monitor error", "unit": 0,
                          "unit_name": "", "args": {"group": "s" + group, "error": "s" + text}, **where})

        runtimes = []
        for pid in r.sample(range(100, 104), r.randrange(3)):
            at = {"pid": pid, "place": "", "source": "device_counter"}
            used, flops, util = r.randrange(10**9), r.randrange(10**12), round(r.random() * 100, 4)
            core = r.choice(["0", "17"])
            said = {what: r.choice(["", "", "no access", "7"]) for what in ("neuron_runtime_data", "memory_used", "host memory")}
            if said["neuron_runtime_data"]:
                error("neuron_runtime_data", said["neuron_runtime_data"], **at)
            runtimes.append({"pid": pid, "neuron_runtime_tag": "t", "error": said["neuron_runtime_data"], "report": {
                "neuroncore_counters": {"period": 5, "neuroncores_in_use": {core: {"neuroncore_utilization": util, "effective_flops": flops}}},
                "memory_used": {"neuron_runtime_used_bytes": {"host": used, "error": said["host memory"]}, "error": said["memory_used"]},
                "execution_stats": {"latency_stats": {"total_latency": {"p50": 0.25}}, "error_summary": {"generic": 2, "numeric": 3}}}})
            counter("neuroncore_counters period", 5, "none", "s", **at)
            counter("neuroncore_counters neuroncore_utilization", util, "percent", **at, lnc=int(core))
            counter("neuroncore_counters flops", flops, "none", "flop/s", **at, lnc=int(core))
            counter("memory_used neuron_runtime_used_bytes host", used, "bytes", **at)
            for what in ("host memory", "memory_used"):
                if said[what]:
                    error("memory_used" if what == "memory_used" else "neuron_runtime_used_bytes", said[what], **at)
            counter("execution_stats latency_stats total_latency p50", 0.25, "none", "s", **at)
            counter("execution_stats error_summary generic", 2, "count", **at)
            counter("execution_stats error_summary numerical", 3, "count", **at)
        if runtimes:
            report["neuron_runtime_data"] = runtimes
        at, total, ecc = {"pid": 0, "place": "node"}, r.randrange(10**11), r.randrange(9)
        report["system_data"] = {
            "memory_info": {"memory_total_bytes": total},
            "vcpu_usage": {"usage_data": {"3": {"user": 1.5}}, "context_switch_count": 11},
            "neuron_hw_counters": {"neuron_devices": [{"neuron_device_index": 2, "mem_ecc_corrected": ecc}]}}
        counter("memory_info memory_total_bytes", total, "bytes", **at, source="host")
        counter("vcpu_usage cpu 3 user", 1.5, "percent", **at, source="host")
        counter("vcpu_usage context_switch_count", 11, "count", **at, source="host")
        counter("neuron_hw_counters mem_ecc_corrected", ecc, "count", **at, source="device_counter", device=2)
        reports.append(report)
    return reports


# ---- XSpace ----

def xspace(r, expected):
    expected.says_all = True
    return xplane_oracle.space(r, expected)


# ---- The comparison ----

def compare(what, text, expected):
    lines = [line.split("\t") for line in text.rstrip("\n").split("\n")]
    got = [line for line in lines if line[0] not in ("input", "shift", "note", "track")]
    shifts, notes = [tuple(line[1:]) for line in lines if line[0] == "shift"], [line[1] for line in lines if line[0] == "note"]
    if expected.says_all and (shifts != expected.shifts or len(notes) != len(expected.notes) or lines[-1][1] != "OK"
                              or any(not any(n.endswith(want) for n in notes) for want in expected.notes)):
        failures.append(what)
        print(f"FAILED {what}: {lines[-1][1]}, shifts {shifts}, notes {notes}; expected {expected.shifts}, {expected.notes}")
    counts = lines[-1][2:]
    if counts != expected.last():
        failures.append(what)
        print(f"FAILED {what}: counts {counts}, expected {expected.last()} ({lines[-1][1]})")
    for i, (line, e) in enumerate(zip(got, expected.events)):
        have = dict(zip(FIELDS, line))
        args = dict(a.split("=", 1) for a in line[len(FIELDS):])
        for key in FIELDS + ["args"]:
            if key not in e or e[key] is None:
                continue
            want = e[key] if key == "args" else str(e[key])
            if (args if key == "args" else have[key]) != want:
                failures.append(what)
                print(f"FAILED {what}: event {i}: {key} is {args if key == 'args' else have[key]!r}, expected {want!r}: {line}")


def main():
    program, n = sys.argv[1], int(sys.argv[2])
    seeds = [int(os.environ["MRD_SEED"])] if os.environ.get("MRD_SEED") else range(1, n + 1)
    with tempfile.TemporaryDirectory() as work:
        for name, draw in (("system-profile-json", system), ("device-profile-json", device), ("neuron-monitor", monitor),
                           ("xplane", xspace)):
            drawn = []
            for seed in seeds:
                expected = Expected()
                doc = draw(random.Random(f"{name}/{seed}"), expected)
                if doc is None:
                    continue
                path = os.path.join(work, f"{name}{seed}.json")
                text = doc if isinstance(doc, bytes) else "\n".join(map(json.dumps, doc)) if isinstance(doc, list) else json.dumps(doc)
                with open(path, "wb") as f:
                    f.write(text if isinstance(text, bytes) else text.encode())
                drawn.append((seed, path, expected))
            if not drawn:
                continue
            p = subprocess.run([program, name] + [path for _, path, _ in drawn], capture_output=True, text=True)
            if p.returncode != 0:
                raise SystemExit(f"import_words failed: {p.stderr}")
            texts = p.stdout.split("\ninput\t")
            at = 0
            lines = p.stdout.rstrip("\n").split("\n")
            for seed, _, expected in drawn:
                end = next(i for i in range(at, len(lines)) if lines[i].startswith("input\t")) + 1
                compare(f"{name}, seed {seed}", "\n".join(lines[at:end]), expected)
                at = end
            if at != len(lines) or len(texts) - 1 > len(drawn):
                raise SystemExit(f"{name}: lines left over")
            print(f"{name}: {len(drawn)} files, {sum(len(e.events) for _, _, e in drawn)} events, {sum(e.dropped for _, _, e in drawn)} left out")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
