"""Files of our own (their heads, events, counters and losses), facts at the top of device profiles, collectives of these, and trees of
neuron-monitor, all drawn: the importers fill a catalog, and what must be in it is worked out here from the values as they were drawn.
Usage: heads_oracle.py PROGRAM FILES; MRD_SEED=n repeats one."""
import json
import os
import random
import subprocess
import sys
import tempfile

import import_oracle as base

UNSET = base.NONE
FIRST, LAST = -2**61, 2**62
failures = []


# ---- Members of heads ----

def kept(members, key, kind, otherwise):
    """A member by its type; of another type it is not there."""
    v = members.get(key)
    fits = {"text": isinstance(v, str), "int": isinstance(v, int) and not isinstance(v, bool), "truth": isinstance(v, bool)}[kind]
    return v if fits else otherwise


def text(r):
    return r.choice(["", "a name", "x", "\u00e9t\u00e9", "7"])


def whole(r):
    return r.choice([0, 1, -1, 5, 70000, 2**40])


def draw_members(r, fields):
    members = {}
    for key, draw in fields:
        base.maybe(r, members, key, lambda draw=draw: draw(r), 0.75)
    return base.shuffled(r, members)


def truth(r):
    return r.random() < 0.5


def pid_of(v):
    try:
        return int(v) if v.strip() == v and v not in ("", "x", "a name") and not v.startswith("+") else 0
    except ValueError:
        return 0


class Catalog:
    """What a catalog must hold, as import_words prints it."""

    def __init__(self, path):
        self.facts, self.clocks, self.processes, self.artifacts, self.profiles, self.captures, self.notes = {}, [], {}, [], [], [], []
        self.tracks, self.path = {}, path

    def process(self, instance, pid, scope, profile=0, **more):
        """Identities are met again: what is known then is kept."""
        p = self.processes.setdefault((instance or "unknown", pid, scope, profile), dict(
            name="", container=UNSET, job="", pod="", labels="", rank=UNSET, world=UNSET, worker=UNSET, sort=UNSET, clock=0, flags=set(), several=False))
        for key, v in more.items():
            if key == "flags":
                p["flags"] |= v
            elif key == "worker":
                if v != UNSET and p["worker"] not in (UNSET, v):
                    p["several"] = True
                p["worker"] = v if p["worker"] == UNSET else p["worker"]
            elif key == "labels":
                p[key] = v if len(v) > len(p[key]) else p[key]  # a process gets more when it opens a runtime
            elif p[key] in ((0,) if key == "clock" else (UNSET, "")):
                p[key] = v
        return p

    def lines(self):
        out = [["fact", k, v] for k, v in self.facts.items()]
        out += [["track"] + [str(x) for x in t] for t in self.tracks.values()]
        for (instance, pid, scope, profile), p in self.processes.items():
            flags = "".join(f + " " for f in ("simulated", "no_pid", "node") if f in p["flags"])
            worker = UNSET if p["several"] else p["worker"]
            out.append(["process", instance, str(pid), p["name"]] + [str(p[k]) for k in ("container", "job", "pod", "labels", "rank", "world")]
                       + [str(worker), str(p["sort"]), str(p["clock"]), flags, str(profile), str(scope)])
        for kind, rows in (("clock", self.clocks), ("artifact", self.artifacts), ("profile", self.profiles), ("capture", self.captures)):
            out += [[kind] + [str(x) for x in row] for row in rows]
        return out


# ---- The head of a system profile ----

CLOCK = [("name", text), ("node", text), ("quality", text), ("method", text), ("estimate_ns", whole), ("bound_ns", whole), ("noise_ns", whole),
         ("epochs", lambda r: r.choice([0, 3, -1, 2**32 - 1, 2**32])), ("violations", lambda r: r.choice([0, 2, -1]))]
WHO = [("instance_id", text), ("process_id", lambda r: r.choice(["7", "-3", "x", "", "4711"])), ("scope", lambda r: r.choice([0, 1, 65535, 65536, -1]))]
PROCESS = WHO + [("name", text), ("container_pid", whole), ("job", text), ("pod", text), ("labels", text), ("rank", whole), ("world_size", whole),
                 ("worker_gid", whole), ("sort_index", whole), ("clock", lambda r: r.choice([0, 1, 2, 3, -1])), ("simulated", truth), ("no_pid", truth), ("node", truth)]
TRACK = WHO + [("trace_event_source", lambda r: r.choice(base.SOURCES + ["somewhere"])), ("counter", truth), ("lnc_idx", whole), ("pcore_idx", whole),
               ("device_idx", whole), ("thread_id", whole), ("worker_gid", lambda r: 4), ("sort_index", whole), ("track", text),
               ("unit", lambda r: r.choice(base.UNITS + ["furlongs"])), ("unit_name", text)]
ARTIFACT = [("path", text), ("kind", text), ("instance_id", text), ("process_id", whole), ("nc_idx", whole), ("decoded_by", text),
            ("size", lambda r: r.choice([0, 12, -5])), ("sha256", lambda r: r.choice(["", "ab" * 32, "ab" * 32 + "cd"]))]


def who(v):
    scope = kept(v, "scope", "int", 0)
    return kept(v, "instance_id", "text", ""), pid_of(kept(v, "process_id", "text", "")), (2 << 16 | scope) if 0 < scope <= 65535 else 0


def expect_process(cat, v, clocks):
    clock = kept(v, "clock", "int", 0)
    cat.process(*who(v), name=kept(v, "name", "text", ""), container=kept(v, "container_pid", "int", UNSET), job=kept(v, "job", "text", ""),
                pod=kept(v, "pod", "text", ""), labels=kept(v, "labels", "text", ""), rank=kept(v, "rank", "int", UNSET),
                world=kept(v, "world_size", "int", UNSET), worker=kept(v, "worker_gid", "int", UNSET), sort=kept(v, "sort_index", "int", UNSET),
                clock=clock if 0 < clock < clocks else 0,
                flags={f for f in ("simulated", "no_pid", "node") if kept(v, f, "truth", False)})


def put_track(cat, key, unit, unit_name, sort, worker, process):
    """key: instance, pid, scope, profile, source, counter, lnc, pcore, device, thread, name."""
    t = cat.tracks.setdefault(key, dict(unit=0, unit_name="", sort=UNSET, worker=UNSET))
    for k, v in (("unit", unit), ("unit_name", unit_name), ("sort", sort), ("worker", worker)):
        t[k] = v if t[k] in ((0,) if k == "unit" else (UNSET, "")) else t[k]
    if worker != UNSET:
        cat.process(*process, worker=worker)


def expect_track(cat, v):
    instance, pid, scope = who(v)
    source = kept(v, "trace_event_source", "text", "")
    cat.process(instance, pid, scope)
    unit = kept(v, "unit", "text", "")
    put_track(cat, (instance or "unknown", pid, scope, 0, source if source in base.SOURCES else "neuron_rt", kept(v, "counter", "truth", False))
              + tuple(kept(v, k, "int", UNSET) for k in ("lnc_idx", "pcore_idx", "device_idx", "thread_id")) + (kept(v, "track", "text", ""),),
              base.UNITS.index(unit) if unit in base.UNITS else 0, kept(v, "unit_name", "text", ""), kept(v, "sort_index", "int", UNSET),
              kept(v, "worker_gid", "int", UNSET), (instance, pid, scope))


def draw_note(r):
    return r.choice(["a note", "another note", 5, 1.5, True, None, {"no": "text"}])


def expect_head(head, cat):
    clocks = head.get("clocks", [])
    for v in clocks[1:]:
        epochs, violations = kept(v, "epochs", "int", 0), kept(v, "violations", "int", 0)
        cat.clocks.append([kept(v, k, "text", "") for k in ("name", "node", "quality", "method")]
                          + [kept(v, "estimate_ns", "int", 0), kept(v, "bound_ns", "int", -1), kept(v, "noise_ns", "int", -1),
                             epochs if 0 <= epochs < 2**32 else 0, max(violations, 0)])
    for v in head.get("processes", []):
        expect_process(cat, v, len(clocks))
    for v in head.get("tracks", []):
        expect_track(cat, v)
    for v in head.get("artifacts", []):
        cat.artifacts.append([kept(v, "path", "text", ""), kept(v, "kind", "text", ""), kept(v, "sha256", "text", "")[:64], max(kept(v, "size", "int", 0), 0),
                              kept(v, "instance_id", "text", ""), kept(v, "process_id", "int", UNSET), kept(v, "nc_idx", "int", UNSET), kept(v, "decoded_by", "text", "")])
    for v in head.get("notes", []):
        said = v if isinstance(v, str) else str(int(v)) if isinstance(v, (bool, int)) else "%.17g" % v if isinstance(v, float) else None
        if said is not None and said not in cat.notes:
            cat.notes.append(said)
    if kept(head, "simulated", "truth", False):
        cat.facts["simulated"] = cat.path
    if kept(head, "incomplete", "truth", False):
        cat.notes.append(f"'{cat.path}' was written from incomplete inputs")


def draw_head(r):
    head = {"format": "system_profile"}
    for key, fields, most in (("clocks", CLOCK, 4), ("processes", PROCESS, 5), ("tracks", TRACK, 6), ("artifacts", ARTIFACT, 3)):
        if r.random() < 0.8:
            head[key] = [draw_members(r, fields) for _ in range(r.randrange(most))]
    if r.random() < 0.6:
        head["notes"] = [draw_note(r) for _ in range(r.randrange(5))]
    for key in ("simulated", "incomplete"):
        base.maybe(r, head, key, lambda: truth(r), 0.7)
    return head


# ---- Rows of a system profile of ours ----

COUNTER = {"value": ("value", base.number_text), **base.WHOSE, "node": ("node", base.truth), "unit": ("unit", base.string), "unit_name": ("unit_name", base.string),
           "name": ("name", base.string), "category": ("category", base.string), "timestamp": ("ts", base.number_text), "simulated": ("simulated", base.truth),
           "clock_bound_ns": ("bound", base.bound)}
LOSS = {"lost": ("lost", base.integer), "group": ("group", base.string), **base.WHOSE, "cause": ("name", base.string), "category": ("category", base.string),
        "unfinished": ("unfinished", base.truth), "duration": ("dur", base.number_text), "timestamp": ("ts", base.number_text), "simulated": ("simulated", base.truth),
        "clock_bound_ns": ("bound", base.bound)}


def draw_place(r, row):
    base.draw_whose(r, row)
    for key in ("lnc_idx", "nc_idx", "thread_id", "pcore_idx"):
        base.maybe(r, row, key, lambda: r.choice([0, 1, "2"]), 0.3)
    base.maybe(r, row, "worker_gid", lambda: 5, 0.2)
    base.maybe(r, row, "scope", lambda: r.choice([0, 1, 9, 65535, 65536, -2]), 0.3)
    base.maybe(r, row, "trace_event_source", lambda: r.choice(base.SOURCES + ["somewhere"]), 0.7)
    base.maybe(r, row, "track", lambda: r.choice(["a line", ""]), 0.5)
    base.maybe(r, row, "category", lambda: "a category", 0.3)


def stamp(r):
    return r.choice([r.randrange(10**15), str(r.randrange(10**18)), "12.5", r.randrange(10**6)] * 4 + [FIRST, FIRST - 1, LAST, LAST + 1])


def draw_counter(r):
    row = {}
    base.maybe(r, row, "timestamp", lambda: stamp(r), 0.95)
    base.maybe(r, row, "value", lambda: r.choice([0, 12, 2**63, "40", 99.5, -5, "0x10", "no number"]), 0.9)
    base.maybe(r, row, "name", lambda: r.choice(["a counter", ""]), 0.8)
    base.maybe(r, row, "unit", lambda: r.choice(base.UNITS + ["furlongs"]), 0.6)
    base.maybe(r, row, "unit_name", lambda: r.choice(["flop/s", ""]), 0.3)
    base.maybe(r, row, "node", lambda: truth(r), 0.4)
    draw_place(r, row)
    return base.shuffled(r, row)


def draw_loss(r):
    row = {}
    base.maybe(r, row, "timestamp", lambda: stamp(r), 0.95)
    base.maybe(r, row, "duration", lambda: r.choice([0, 5, "17", 2.5, 9, 12, -1, LAST]), 0.8)
    base.maybe(r, row, "lost", lambda: r.choice([0, 1, "12", 2**40, 5, 6, -1]), 0.95)
    base.maybe(r, row, "cause", lambda: r.choice(["ring full", "x", ""]), 0.9)
    base.maybe(r, row, "unfinished", lambda: truth(r), 0.4)
    base.maybe(r, row, "group", lambda: "nrt", 0.2)
    draw_place(r, row)
    return base.shuffled(r, row)


def in_range(e):
    return FIRST <= e["ts"] <= LAST and (e["kind"] not in ("span", "loss") or e["dur"] < 0 or e["dur"] <= LAST - e["ts"])


def place_row(row, e, cat, source, counter, unit=0, unit_name=""):
    """Whose a row is, in a folder that says whose it is: the track, and its process."""
    instance, pid, name = row.get("instance") or "i-place", row.get("pid"), ""
    scope = row.get("scope", 0)
    scope = (2 << 16 | scope) if 0 < scope <= 65535 else 0
    flags = {"node"} if row.get("node") else set()
    if isinstance(pid, str):
        pid, name = (None, pid) if pid else (77, "")
    elif pid is None:
        pid = 77
    if pid is None and not flags:
        flags, scope = {"no_pid"}, scope or 2
        pid = None  # a number that only this name has
    elif pid is None:
        pid = 0
    said = row.get("source")
    e.update(source=said if said in base.SOURCES else source, track=row.get("track", ""), instance=instance, process=name if flags == {"no_pid"} else None,
             pid=pid, scope=scope, unit=None, lnc=row.get("lnc", row.get("nc", UNSET)), **{k: row.get(k, UNSET) for k in ("pcore", "device", "thread")})
    if name and not flags:
        e["process"] = None
    return e


def expect_counter(members, expected, cat):
    row, e = base.Row(members, COUNTER), {"profile": 0}
    expected.records += 1
    ts = base.scaled(row.get("ts"), 0) if row.get("ts") else None
    if ts is None or row.get("value") is None or not sampled(row.get("value")):
        return expected.drop()
    e["ts"] = ts
    base.marks(row, e)
    e.update(kind="counter", dur=0, id=0, flows="", value=base.sample(row.get("value")), name=row.get("name", ""), args={})
    place_row(row, e, cat, "host", True)
    return expected.add(e) if in_range(e) else expected.drop()


def sampled(v):
    return not v.startswith("0x")


def expect_loss(members, expected, cat):
    row, e = base.Row(members, LOSS), {"profile": 0}
    expected.records += 1
    ts = base.scaled(row.get("ts"), 0) if row.get("ts") else None
    dur = base.scaled(row.get("dur"), 0) if row.get("dur") else 0
    if ts is None or dur is None or dur < 0 or row.get("lost", -1) < 0 or not row.get("name"):
        return expected.drop()
    e.update(ts=ts, dur=dur)
    base.marks(row, e)
    e.update(kind="loss", id=0, flows="", value=f"i{row.get('lost')}", name=row.get("name"), args={})
    place_row(row, e, cat, "meridian", False)
    expected.lost += row.get("lost")
    return expected.add(e) if in_range(e) else expected.drop()


def system(r, expected, cat):
    doc = {"meridian": draw_head(r)}
    expect_head(doc["meridian"], cat)
    for section, draw, expect in (("counters", draw_counter, expect_counter), ("losses", draw_loss, expect_loss)):
        doc[section] = [draw(r) for _ in range(r.randrange(9))]
        for row in doc[section]:
            expect(row, expected, cat)
    expected.partly = True  # tracks and processes of rows are with those of the head
    return doc


# ---- Device profiles ----

OWN = {"timestamp": ("ts", base.number_text), "duration": ("dur", base.number_text), "name": ("name", base.string), "track": ("track", base.string),
       "id": ("id", base.unsigned), "instance_id": ("instance", base.string), "process_id": ("pid", base.process), "nc_idx": ("nc", base.integer),
       "kind": ("kind", base.string), "unfinished": ("unfinished", base.truth), "no_start": ("no_start", base.truth), "simulated": ("simulated", base.truth),
       "clock_bound_ns": ("bound", base.bound), "category": ("category", base.string), "flow_id": ("flows", base.array), "flow_dir": ("dirs", base.array)}
EXTRA = {k: OWN[k] for k in ("timestamp", "duration", "name", "track", "instance_id", "process_id", "nc_idx", "simulated", "clock_bound_ns")}
EXTRA.update(value=("value", base.number_text), lost=("lost", base.integer))


def draw_device_row(r, section):
    row = {}
    base.maybe(r, row, "timestamp", lambda: r.choice([r.randrange(10**12), str(r.randrange(10**15))]), 0.9)
    base.maybe(r, row, "duration", lambda: r.choice([0, 400, "17", -1]), 0.8)
    base.maybe(r, row, "name", lambda: r.choice(["a name", ""]), 0.6)
    base.maybe(r, row, "track", lambda: r.choice(["a line", ""]), 0.5)
    base.maybe(r, row, "nc_idx", lambda: r.randrange(3), 0.3)
    base.maybe(r, row, "instance_id", lambda: "i-3", 0.2)
    base.maybe(r, row, "process_id", lambda: r.choice([4, "5"]), 0.2)
    base.maybe(r, row, "simulated", lambda: truth(r), 0.3)
    base.maybe(r, row, "clock_bound_ns", lambda: r.choice([None, 0, 1500]), 0.3)
    if section == "counters":
        base.maybe(r, row, "value", lambda: r.choice([0, 12, 2**63, "40", 99.5]), 0.9)
    elif section == "losses":
        base.maybe(r, row, "lost", lambda: r.choice([0, 1, "12", -1]), 0.9)
    else:
        base.maybe(r, row, "id", lambda: r.randrange(50), 0.3)
        base.maybe(r, row, "kind", lambda: r.choice(["instant", "span"]), 0.3)
        base.maybe(r, row, "category", lambda: "a category", 0.3)
        for key in ("unfinished", "no_start"):
            base.maybe(r, row, key, lambda: truth(r), 0.3)
        for key in ("opcode", "label", "engine", "stream_id", "dma_queue"):
            base.maybe(r, row, key, lambda: r.choice(["", "pe", 3]), 0.3)
        base.maybe(r, row, "args", lambda: {k: base.number(r) for k in r.sample(["deep", "wide", "x"], r.randrange(4))}, 0.4)
        base.maybe(r, row, "flow_id", lambda: [r.choice([1, "2", 2**63, "three", None, {"no": 1}]) for _ in range(r.randrange(5))], 0.4)
        if isinstance(row.get("flow_id"), list):
            base.maybe(r, row, "flow_dir", lambda: [r.choice(["start", "end", "step", 7]) for _ in range(r.randrange(5))], 0.7)
    return base.shuffled(r, row)


FACTS = [("a_fact", lambda r: r.choice(["a text", 5, 2.5, True, False, None])), ("long", lambda r: "y" * r.choice([199, 200, 201])),
         ("k" * 85, lambda r: 1), ("simulated", lambda r: "by a test")]


def fact_text(v):
    return {True: "true", False: "false", None: "null"}[v] if v is None or isinstance(v, bool) else str(v)


def draw_facts(r, doc, cat):
    for key, draw in r.sample(FACTS, r.randrange(4)):
        doc[key] = draw(r)
        if key == "simulated":
            cat.facts.setdefault("simulated", cat.path)
        else:
            cat.facts[f"input.1.{key[:80]}"] = fact_text(doc[key])[:200]


def own_device(r, expected, cat):
    first = draw_members(r, [("name", text), ("model_id", text), ("instance_id", text), ("process_id", whole), ("nc_id", whole), ("session_id", whole)])
    head = {"format": "device_profile", "device_profiles": [first, {"name": "not this one"}]}
    if r.random() < 0.15:
        head["device_profiles"] = []
        first = {}
    base.maybe(r, head, "simulated", lambda: truth(r), 0.6)
    doc = {"meridian": head}
    if kept(head, "simulated", "truth", False):
        cat.facts["simulated"] = cat.path
    draw_facts(r, doc, cat)
    stem = os.path.basename(cat.path).removesuffix(".json")
    said = {k: kept(first, k, "text", "") for k in ("name", "model_id", "instance_id")}
    number = {k: kept(first, k, "int", UNSET) for k in ("process_id", "nc_id", "session_id")}
    mine = [said["name"] or stem, said["model_id"] or "8", said["instance_id"] or "i-place"] + \
           [v if v != UNSET else place for v, place in zip(number.values(), (77, 5, 6))]
    cat.profiles.append(mine + ["0"])
    for section in r.sample(["event", "instruction", "dma", "other", "counters", "losses"], r.randrange(1, 6)):
        doc[section] = [draw_device_row(r, section) for _ in range(r.randrange(1, 6))]
    rows = [(section, row) for section, value in doc.items() if isinstance(value, list) for row in value]
    stamps = [(section, base.Row(row, EXTRA).get("ts") if "timestamp" in row else None) for section, row in rows]
    main = [t for s, t in stamps if s in ("instruction", "dma") and t] or [t for _, t in stamps if t]
    begin = base.scaled(min(main, key=base.Decimal), 0) if main else 0
    cat.process(mine[2], mine[3], 0, 1, rank=3, job="a job", flags=set())
    for section, members in rows:
        expect_own_row(section, members, begin, mine, expected, cat)
    expected.partly = True
    return doc


def expect_arrows(row, e, expected):
    """A way for each arrow by its place; what is no number is left out, and counted."""
    ways = {"start": "1", "end": "3"}
    dirs = [ways.get(d, "2") if isinstance(d, str) else "2" for d in row.get("dirs", [])]
    for i, v in enumerate(row.get("flows", [])):
        if base.unsigned(v) is not None:
            e["flows"] += dirs[i] if i < len(dirs) else "2"
        elif v is not None:
            expected.records += 1
            expected.drop()


def expect_own_row(section, members, begin, mine, expected, cat):
    extra = section in ("counters", "losses")
    row, e = base.Row(members, EXTRA if extra else OWN), {"profile": 1}
    expected.records += 1
    base.marks(row, e)
    e["dur"] = -1 if e["kind"] == "span" and row.get("unfinished") else 0
    if row.get("ts") is None:
        e.update(ts=begin, kind="instant", dur=0)
    else:
        e["ts"] = base.scaled(row.get("ts"), 0)
        if e["kind"] == "span" and e["dur"] == 0 and row.get("dur") is not None:
            e["dur"] = base.scaled(row.get("dur"), 0)
            if e["dur"] is None or e["dur"] < 0:
                return expected.drop()
    shape = base.SHAPES.get(section, base.SHAPES["semaphore"])
    e["name"] = row.get("name", "")
    e["id"], e["flows"], e["args"], e["value"] = row.get("id", 0), "", row.args, "i0"
    if section == "counters":
        if row.get("value") is None:
            return expected.drop()
        e.update(kind="counter", dur=0, value=base.sample(row.get("value")), args={})
    elif section == "losses":
        if row.get("lost", -1) < 0 or not e["name"]:
            return expected.drop()
        e.update(kind="loss", value=f"i{row.get('lost')}", args={})
        expected.lost += row.get("lost")
    else:
        e["category"] = row.get("category", "") if section == "event" else section
        e["name"] = e["name"] or base.named(row, shape[0]) or section
        if isinstance(members.get("args"), dict):
            row.args.pop("args")
            row.args.update({k: base.as_arg(v) for k, v in members["args"].items()})
        expect_arrows(row, e, expected)
    at = base.SHAPES["instruction"] if extra else shape
    e.update(track=row.get("track") or base.named(row, at[1]) or section, lnc=row.get("nc", mine[4]), source="device_profile", unit=0,
             instance=row.get("instance") or ("unknown" if row.get("instance") == "" else mine[2]),
             pid=row.get("pid") if isinstance(row.get("pid"), int) else mine[3])
    return expected.add(e) if in_range(e) else expected.drop()


# ---- Collectives of a device profile, and what is known of its time ----

MOVES = {"allreduce": 2, "allgather": 1, "reducescatter": 1, "alltoall": 1, "broadcast": 0, "sendrecv": 0, "permute": 0, "send": 0, "recv": 0}


def group_size(v):
    """Members of each group, where all have as many."""
    try:
        groups = json.loads(v) if isinstance(v, str) else v
    except ValueError:
        return 0
    if not isinstance(groups, list) or not groups:
        return 0
    groups = groups if isinstance(groups[0], list) else [groups]
    if not all(isinstance(g, list) and all(isinstance(x, int) for x in g) for g in groups):
        return 0
    sizes = {len(g) for g in groups if g}
    return sizes.pop() if len(sizes) == 1 else 0


def collectives(r, expected, cat):
    """Rows of cc_op with sizes, groups and triggers; the unit of time is told by total_time."""
    exponent, doc, rows = r.choice([0, -3, 3]), {"cc_op": []}, []
    unit = {0: 1, -3: 1000, 3: 1}[exponent]
    for _ in range(r.randrange(2, 8)):
        row = {"timestamp": (10**6 + r.randrange(10**6)) * unit, "duration": r.choice([0, 1, 40, 900]) * unit}
        base.maybe(r, row, "operation", lambda: r.choice(["AllReduce", "all-gather", "Reduce_Scatter", "all to all", "Broadcast", "SENDRECV", "permute", "Send", "recv", "reduce", "allreducex"]), 0.9)
        base.maybe(r, row, "input_size", lambda: r.choice([0, 1, 4096, 10**9, 2**62, -1]), 0.8)
        base.maybe(r, row, "output_size", lambda: r.choice([0, 4096, 3 * 10**9, 2**62]), 0.8)
        base.maybe(r, row, "replica_group", lambda: r.choice(["[[0,1],[2,3]]", "[0, 1, 2]", "[[0,10],[2]]", "[[0,1],[2,3", "0,1", "[]", "[[0,1],[]]", "[7]", "[[0,1,2,30],[4,5,6,7]]", "[0..3]", [[0, 1], [2, 3]]]), 0.9)
        base.maybe(r, row, "trigger_start_ts", lambda: r.choice([row["timestamp"], row["timestamp"] - unit, 0, row["timestamp"] + unit, -1]), 0.7)
        base.maybe(r, row, "algorithm_bandwidth", lambda: 77, 0.1)
        rows.append(base.shuffled(r, row))
    doc["cc_op"] = rows
    first, end = min(x["timestamp"] for x in rows), max(x["timestamp"] + x["duration"] for x in rows)
    if end == first:
        return None
    doc["total_time"] = float(end - first) * 10.0**exponent / 1e9
    doc = {"summary": [{"total_time": doc.pop("total_time")}], **doc}
    if r.random() < 0.5:
        doc["summary"][0].update(first_hw_timestamp=1000, last_hw_timestamp=1000 + base.scaled(str(end - first), exponent))
    draw_facts(r, doc, cat)
    total, begin = doc["summary"][0]["total_time"], base.scaled(str(first), exponent)
    stem = os.path.basename(cat.path).removesuffix(".json")
    cat.profiles.append([stem, "8", "i-place", 77, 5, 6, "%.17g" % total])
    cat.process("i-place", 77, 0, 1, rank=3, job="a job")
    hw = [doc["summary"][0].get(k, UNSET) for k in ("first_hw_timestamp", "last_hw_timestamp")]
    cat.captures.append([cat.path, 1, 0, 5, begin, base.scaled(str(end), exponent)] + hw + [round(total * 1e9)])
    for section, members in [("summary", doc["summary"][0])] + [("cc_op", row) for row in rows]:
        row = base.Row(members, base.DEVICE)
        expected.records += 1
        e = {"profile": 1, "kind": "span", "category": section, "marks": "", "ts": begin, "dur": 0, "args": row.args, "lnc": 5, "instance": "i-place", "pid": 77}
        if section == "summary":
            e.update(kind="instant")
        else:
            e.update(ts=base.scaled(row.get("ts"), exponent), dur=base.scaled(row.get("dur"), exponent))
            e["args"] = {**bandwidths(members, e), **row.args}
        expected.add(e)
    return doc


def amount(members, key):
    v = members.get(key)
    return v if isinstance(v, int) and not isinstance(v, bool) and v >= 0 else None


def bandwidths(members, e):
    out, name = {}, members.get("operation")
    what = MOVES.get("".join(c for c in name if c.isalnum()).lower()) if isinstance(name, str) else None
    sizes = [amount(members, k) for k in ("input_size", "output_size")]
    known = [s for s in sizes if s is not None]
    if e["dur"] > 0 and what is not None and known and (len(known) == 2 or what == 2):
        n = group_size(members.get("replica_group"))
        out["algorithm_bandwidth"] = min(max(known) * 10**9 // e["dur"], 2**63 - 1)
        if n >= 2:
            out["bus_bandwidth"] = min(max(known) * 10**9 * ((n - 1) * what or n) // (n * e["dur"]), 2**63 - 1)
    trigger = amount(members, "trigger_start_ts")
    if trigger is not None:
        at = e["ts"] - round(trigger * e["ts"] / members["timestamp"])
        if at >= 0:
            out["cc_trigger_start_delay"] = at
    return {k: f"i{v}" for k, v in out.items()}


# ---- Trees of neuron-monitor ----

ALIASES = {"numeric": "numerical", "effective_flops": "flops"}
NOT_NAMED = ("v3d", "neuroncores_in_use", "usage_data", "neuron_devices", "loaded_models", "subgraphs")


def draw_tree(r, depth):
    tree = {}
    for _ in range(r.randrange(1, 5)):
        key = r.choice(["period", "a_latency", "used_bytes", "memory_x", "flops", "effective_flops", "numeric", "neuroncore_utilization", "vcpu_time", "count",
                        "context_switch_count", "neuroncores_in_use", "usage_data", "neuron_devices", "loaded_models", "subgraphs", "v3d", "0", "17", "nc_v3.7",
                        "nc_v3", "error", "neuron_device_index", "neuroncore_index", "model_id", "some_index", "w" * 70])
        if key == "error":
            tree[key] = r.choice(["", "no access", 5])
        elif key.endswith("_index") or key == "model_id":
            tree[key] = r.choice([0, 3, -1])
        elif depth < 5 and (r.random() < 0.45 or key in NOT_NAMED):
            tree[key] = draw_tree(r, depth + 1) if r.random() < 0.7 else [r.choice([draw_tree(r, depth + 1), 5, "text", [1], [], {}]) for _ in range(r.randrange(3))]
        else:
            tree[key] = r.choice([5, 0, 2.5, -1, 2**40, "a text", "12", True, None])
    return tree


def unit_of(name, key):
    """What a counter is measured in, by the words in its name."""
    if key == "context_switch_count":
        return "count", ""
    if "utilization" in name or "vcpu" in name:
        plain = "percent"
    elif "bytes" in name:
        plain = "bytes"
    else:
        plain = None
    if plain == "percent":
        return plain, ""
    for word, unit_name in (("latency", "s"), ("period", "s"), ("flops", "flop/s")):
        if plain == "bytes" and "memory" not in name and word in name:
            return "none", unit_name
    if plain == "bytes" or "memory" in name:
        return "bytes", ""
    for word, unit_name in (("latency", "s"), ("period", "s"), ("flops", "flop/s")):
        if word in name:
            return "none", unit_name
    return "count", ""


class Tree:
    def __init__(self, expected, now):
        self.expected, self.now = expected, now

    def put(self, at, key, v):
        key = ALIASES.get(key, key)
        name = " ".join(at["path"] + [key]) if at["path"] else key
        unit, unit_name = unit_of(name, key)
        self.expected.records += 1
        self.expected.add({"profile": 0, "kind": "counter", "category": "", "ts": self.now, "dur": 0, "id": 0, "bound": 2**32 - 1, "marks": "", "value": base.as_arg(v), "name": name, "track": name,
                           "unit": base.UNITS.index(unit), "unit_name": unit_name, "args": {}, **at["of"]})

    def error(self, at, group, said):
        if said:
            self.expected.records += 1
            self.expected.add({"profile": 0, "kind": "instant", "marks": "", "ts": self.now, "dur": 0, "name": "neuron-monitor error", "track": "neuron-monitor error",
                               "args": {"group": "s" + group, "error": "s" + said}, **at["of"]})

    def walk(self, at, group, v, depth):
        if not isinstance(v, dict):
            if isinstance(v, list) and v or isinstance(v, (int, float)) and not isinstance(v, bool):
                self.expected.records += 1
                self.expected.drop()
            return
        for key, member in v.items():
            if isinstance(member, (dict, list)):
                self.descend(at, group, key, member, depth)
            elif key == "error":
                self.error(at, group, member if isinstance(member, str) else "")
            elif not key.endswith("_index") and key != "model_id" and isinstance(member, (bool, int, float)):
                self.put(at, key, int(member) if isinstance(member, bool) else member)

    def descend(self, at, group, key, v, depth):
        below = {"path": list(at["path"]), "of": dict(at["of"])}
        if key.startswith("nc_v") and "." in key:
            below["of"]["pcore"] = int(key.rsplit(".")[-1])
        elif key.isdigit() and group.startswith("neuroncore"):
            below["of"]["lnc"] = int(key)
        elif key.isdigit() and group == "usage_data":
            below["path"] += ["cpu", key]
        elif key not in NOT_NAMED:
            below["path"].append(key[:60])
        for element in v if isinstance(v, list) else [v]:
            each = {"path": list(below["path"]), "of": dict(below["of"])}
            own = element if isinstance(element, dict) else {}
            for name, what in (("neuron_device_index", "device"), ("neuroncore_index", "lnc")):
                if kept(own, name, "int", -1) >= 0:
                    each["of"][what] = own[name]
            if key == "loaded_models":
                each["path"].append(f"model {kept(own, 'model_id', 'int', UNSET)}")
            self.walk(each, group if isinstance(v, list) else key, element, depth + 1)


def shortest(v, depth=0):
    found = []
    if isinstance(v, dict):
        found = [v["period"]] if base.is_number(v.get("period")) and v["period"] > 0 else []
    if depth < 5 and isinstance(v, (dict, list)):
        for x in v.values() if isinstance(v, dict) else v:
            found += shortest(x, depth + 1)
    return found


def scale_of(said):
    """Seconds, milli-, micro- or nanoseconds of the epoch."""
    return 1 if said >= 10**17 else 10**3 if said >= 10**14 else 10**6 if said >= 10**11 else 10**9


def monitor(r, expected, cat):
    reports, now, period, untimed = [], 0, 5.0, 0
    for i in range(r.randrange(1, 4)):
        report = {}
        if r.random() < 0.6:
            report[r.choice(["timestamp", "timestamp_ns", "timestamp_ms", "time"])] = r.choice([1700000000 + i, 999999999, 10**9, 10**11, 10**11 - 1, 10**14, 10**14 - 1, 10**17, 10**17 - 1, "1700000000"])
        if r.random() < 0.5:
            report["instance_info"] = {"instance_id": "i-9", "type": r.choice(["trn1", "", "z" * 201]), "n": 5}
        if r.random() < 0.7:
            report["neuron_runtime_data"] = [{"pid": 100 + k, "neuron_runtime_tag": "t", "error": r.choice(["", "down"]), "report": draw_tree(r, 0)} for k in range(r.randrange(3))]
        if r.random() < 0.7:
            report["system_data"] = {key: draw_tree(r, 0) for key in r.sample(["memory_info", "vcpu_usage", "neuron_hw_counters", "disk"], r.randrange(1, 4))}
        said = [v for k, v in report.items() if k in ("timestamp", "timestamp_ns", "timestamp_ms", "time")]
        said = int(said[0]) if said and int(said[0]) >= 10**9 else None
        if said is None or scale_of(said) * said >= 2**63:
            untimed += 1
            found = [p for p in shortest(report) if p > 0]
            period = min(found) if found and min(found) < 10**6 else period
            now += int(period * 1e9)
        else:
            now = said * scale_of(said)
        if i == 0:
            cat.facts.update({f"input.1.{k}": str(v)[:200] for k, v in report.get("instance_info", {}).items() if v != ""})
        tree, unset = Tree(expected, now), {"lnc": UNSET, "pcore": UNSET, "device": UNSET, "instance": "i-place"}
        for rt in report.get("neuron_runtime_data", []):
            at = {"path": [], "of": {**unset, "pid": rt["pid"], "place": "", "source": "device_counter"}}
            tree.error(at, "neuron_runtime_data", rt["error"])
            tree.walk(at, "report", rt["report"], 0)
        for key, v in report.get("system_data", {}).items():
            tree.walk({"path": [key], "of": {**unset, "pid": 0, "place": "node", "source": "device_counter" if key == "neuron_hw_counters" else "host"}}, key, v, 0)
        reports.append(report)
    if untimed:
        cat.notes.append(f"'{cat.path}': {untimed} of {len(reports)} reports state no time; they are placed one period apart, from zero")
    expected.partly = True
    return reports


# ---- The comparison ----

def wrong_in_catalog(what, lines, cat, partly):
    """Partly: tracks and processes may be more, of rows."""
    whole_lines = [line[1:] for line in lines if line[0] == "whole"]
    have = [line for line in whole_lines if line[0] != "track"]
    want = [line for line in cat.lines() if line[0] != "track"]
    if partly:
        cut = len(cat.processes)
        have = [line for line in have if line[0] != "process"] + [line for line in have if line[0] == "process"][:cut]
        want = [line for line in want if line[0] != "process"] + [line for line in want if line[0] == "process"]
    if have != want and not (partly and same_but_flags(have, want)):
        failures.append(what)
        print(f"FAILED {what}: catalog")
        for a, b in [(a, b) for a, b in zip(have + [None] * len(want), want + [None] * len(have)) if a != b][:3]:
            print(f"  has {a}\n  not {b}")
    tracks = [line[1:] for line in whole_lines if line[0] == "track"][:len(cat.tracks)]
    for got, (key, t) in zip(tracks, cat.tracks.items()):
        instance, pid, scope, _, source, counter, lnc, pcore, device, thread, name = key
        short = [got[0], got[1], got[2], got[3], got[6], got[9], got[10], got[11], got[12]] + got[13:18]
        full = [str(x) for x in ("counter" if counter else "spans", t["worker"], instance, pid, scope, source, name, t["unit"], t["unit_name"], lnc, pcore, device, thread, t["sort"])]
        if short != full:
            failures.append(what)
            print(f"FAILED {what}: track {short}, expected {full}")
    if len(tracks) != len(cat.tracks):
        failures.append(what)
        print(f"FAILED {what}: {len(tracks)} tracks of {len(cat.tracks)}")
    notes = [line[1] for line in lines if line[0] == "note"]
    if notes != cat.notes:
        failures.append(what)
        print(f"FAILED {what}: notes {notes}, expected {cat.notes}")


def same_but_flags(have, want):
    """Rows may add to processes of the head: whether they are of the node, their worker."""
    def short(line):
        return line[:11] + line[12:13] + line[14:] if line[0] == "process" else line
    def flags(line):
        return set(line[13].split())
    return len(have) == len(want) and all(short(a) == short(b) and (a[0] != "process" or flags(a) >= flags(b)) for a, b in zip(have, want))


def main():
    program, n = sys.argv[1], int(sys.argv[2])
    seeds = [int(os.environ["MRD_SEED"])] if os.environ.get("MRD_SEED") else range(1, n + 1)
    with tempfile.TemporaryDirectory() as work:
        for name, form, draw in (("system", "system-profile-json", system), ("device", "device-profile-json", own_device),
                                 ("collectives", "device-profile-json", collectives), ("monitor", "neuron-monitor", monitor)):
            drawn = []
            for seed in seeds:
                path = os.path.join(work, f"{name}{seed}.json")
                expected, cat = base.Expected(), Catalog(path)
                expected.partly = False
                doc = draw(random.Random(f"{name}/{seed}"), expected, cat)
                if doc is not None:
                    with open(path, "w") as f:
                        f.write("\n".join(map(json.dumps, doc)) if isinstance(doc, list) else json.dumps(doc))
                    drawn.append((seed, path, expected, cat))
            p = subprocess.run([program, "--whole", form] + [path for _, path, _, _ in drawn], capture_output=True, text=True)
            if p.returncode != 0:
                raise SystemExit(f"import_words failed: {p.stderr}")
            lines, at = p.stdout.rstrip("\n").split("\n"), 0
            for seed, _, expected, cat in drawn:
                end = next(i for i in range(at, len(lines)) if lines[i].startswith("input\t")) + 1
                mine = [line.split("\t") for line in lines[at:end]]
                wrong_in_catalog(f"{name}, seed {seed}", mine, cat, expected.partly)
                base.compare(f"{name}, seed {seed}", "\n".join(line for line in lines[at:end] if not line.startswith("whole\t")), expected)
                at = end
            print(f"{name}: {len(drawn)} files, {sum(len(e.events) for _, _, e, _ in drawn)} events, {sum(e.dropped for _, _, e, _ in drawn)} left out")
    sys.exit(1 if failures or base.failures else 0)


main()
