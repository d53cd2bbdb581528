"""Generates random XSpace files (xplane.proto of the XLA profiler), field by field, and states the
expected result of each event."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))
import trace_event

NONE = -1
I64 = 2**63 - 1
PLANES = ["/host:CPU", "/device:TPU:0", "/device:NEURON:3", "/device:CUSTOM:Megascale Trace", "/host:metadata", "GPU 2", "/host:python-tracer",
          "a plane", "/device:CPU:1", "/device:TPU:4 " + "p" * 120]
LINES = ["python", "Stream #1", "Steps", "XLA Modules", "XLA Ops", "steps of mine", "", "tf_Compute/7", "l" * 250]


# ---- Wire format ----

def varint(v):
    out = bytearray()
    while True:
        out.append(v & 127 | (128 if v > 127 else 0))
        v >>= 7
        if v == 0:
            return bytes(out)


def number(field, v):
    return varint(field << 3) + varint(v % 2**64)


def data(field, v):
    v = v.encode() if isinstance(v, str) else v
    return varint(field << 3 | 2) + varint(len(v)) + v


def double(field, v):
    return varint(field << 3 | 1) + struct.pack("<d", v)


def others(r):
    """Fields that nobody knows, of every kind."""
    return r.choice([number(90, r.randrange(2**64)), data(91, "else"), double(92, 1.5), varint(93 << 3 | 5) + b"abcd"])


def mixed(r, parts):
    """A message: its fields in any order, with some that nobody knows."""
    parts = parts + [others(r) for _ in range(r.choice([0, 0, 0, 1, 2]))]
    r.shuffle(parts)
    return b"".join(parts)


# ---- What is drawn ----

def draw_text(r):
    return r.choice(["train", "a longer text of a statistic", "\u00e4\u00f6", "x" * 300])


def stat(r, key, stat_names):
    """(its bytes, the argument as import_words prints it or None)"""
    what = r.randrange(6)
    if what == 0:
        v = r.choice([0.0, 1.5, -2e300, r.random()])
        return mixed(r, [number(1, key), double(2, v)]), "d%.17g" % v
    if what == 1:
        v = r.choice([0, 2**64 - 1, 2**63, r.randrange(10**9)])
        return mixed(r, [number(1, key), number(3, v)]), f"i{v}"
    if what == 2:
        v = r.choice([0, -1, -2**63, r.randrange(10**9)])
        return mixed(r, [number(1, key), number(4, v)]), f"i{v}"
    if what == 3:
        v = draw_text(r)
        return mixed(r, [number(1, key), data(5, v)]), "s" + v
    if what == 4:
        return mixed(r, [number(1, key), data(6, b"\x00\x01")]), None
    to = r.choice(list(stat_names) + [999])
    return mixed(r, [number(1, key), number(7, to)]), "s" + stat_names.get(to, "")


def exact(parts):
    return b"".join(parts)


def event(r, line_start, names, stat_names, base, expected):
    ident, offset, dur = r.choice(list(names) + [77777]), r.randrange(10**12), r.choice([0, 999, 1000, 1001, r.randrange(10**10)])
    parts, args, counted, damaged = [number(1, ident)], {}, r.random() < 0.1, r.random() < 0.05
    huge = r.random() < 0.03
    if counted:
        parts.append(number(5, 12))
    elif huge:
        offset = r.choice([2**63, 2**64 - 1])
        parts += [number(2, offset)]
    if not counted and not huge:
        parts.append(number(2, offset))
    parts.append(number(3, dur))
    keys = r.sample(sorted(stat_names), r.randrange(len(stat_names) + 1))
    if r.random() < 0.1:
        keys.append(888)  # in no table
    stats = []
    for key in keys:
        body, arg = stat(r, key, stat_names)
        stats.append(data(4, body))
        if arg is not None and stat_names.get(key):
            args[stat_names[key]] = arg
    body = mixed(r, parts) + exact(stats)
    if damaged:
        body += r.choice([varint(3 << 3 | 3), varint(9 << 3 | 2) + varint(50) + b"short", varint(9 << 3 | 1) + b"1234567", b"\xff" * 11, b"\x00",
                          varint(9 << 3 | 5) + b"123", varint(2 << 3)])
    expected.records += 1
    if damaged or counted or huge:
        expected.drop()
    else:
        expected.add({**base, "name": names.get(ident) or f"event {ident}", "ts": line_start + offset // 1000, "args": args,
                      "dur": (offset + dur) // 1000 - offset // 1000})
    return body


def table(r, field, names):
    """The entries of a map, of which a later one with the same key counts."""
    out = []
    for ident, name in names.items():
        if r.random() < 0.1:
            out.append(data(field, exact([number(1, ident), data(2, mixed(r, [number(1, ident), data(2, "an older name")]))])))
        value = [data(2, name)] if name else []
        if field == 4 and name and r.random() < 0.3:
            value = [data(2, "the long name"), data(4, name)]  # what people are shown
        key = [] if r.random() < 0.1 else [number(1, ident)]
        if not key or r.random() < 0.5:
            value.append(number(1, ident))
        out.append(data(field, mixed(r, key + [data(2, mixed(r, value))])))
    return out


def draw_names(r, words):
    return {r.choice([0, 1, 300, 2**40, i + 5]): r.choice(words + [""]) for i in range(r.randrange(1, 6))}


def plane(r, absolute, expected, state):
    name = r.choice(PLANES)
    names = draw_names(r, ["fusion.1", "all-reduce.7", "dot", "copy-start"])
    stat_names = dict(zip(r.sample([0, 3, 9, 2**33, 50], r.randrange(1, 4)), ["step", "phase", "kind"]))
    device = trace_event.device_number(name)
    out, tables = [data(2, name)], table(r, 4, names) + table(r, 5, stat_names)
    for _ in range(r.randrange(3)):
        line_name, ident = r.choice(LINES), r.choice([0, 583, 2**63 - 1, 2**63, 2**64 - 1])
        start = r.randrange(10**9) + (1_700_000_000 * 10**9 if absolute else 0)
        sent = r.choice([start, start, start, 2**63 + 5])
        start = start if sent == start else 0
        state["absolute"] |= start > 10**18
        parts = [number(1, ident), number(3, sent)]
        if line_name and r.random() < 0.3:
            parts += [data(11, line_name)]
        elif line_name:
            parts += [data(2, line_name)]
        overlay = line_name.lower().startswith(trace_event.OVERLAY)
        base = {"profile": 0, "kind": "span", "value": "i0", "id": 0, "bound": 0, "marks": "", "flows": "", "instance": "unknown", "pid": 0, "process": "",
                "place": "no pid", "scope": 2, "rank": NONE, "worker": NONE, "source": "framework", "unit": 0, "unit_name": "", "lnc": NONE, "pcore": NONE,
                "device": NONE if device is None else device,
                "thread": NONE if device is not None or ident > I64 else ident,
                "track": line_name[:200] if device is None else f"{name[:100]} {line_name[:100]}",
                "category": "host" if device is None else "xla overlay" if overlay else "kernel"}
        events = [data(4, event(r, start, names, stat_names, base, expected)) for _ in range(r.randrange(6))]
        out.append(data(3, mixed(r, parts) + exact(events)))
    if name == "a plane":  # a statistic of a plane that is not the environment
        out.append(data(6, mixed(r, [number(1, 3), number(3, 5)])))
    lines = out[1:]
    return data(1, exact(out[:1] + (lines + tables if r.random() < 0.7 else tables + lines)))


def environment(r, state):
    at, name = r.choice([1_600_000_000 * 10**9, 2**63, 5]), r.choice(["profile_start_time", "profile_start_time", "profile_stop_time"])
    if name == "profile_start_time" and at <= I64:
        state["start"] = at
    body = [data(2, "Task Environment"), data(5, exact([number(1, 4), data(2, data(2, name))])),
            data(6, mixed(r, [number(1, 4), number(r.choice([3, 4]), at)])), data(6, mixed(r, [number(1, 9), number(3, 77)]))]
    r.shuffle(body)
    return data(1, exact(body))


def space(r, expected):
    """The bytes of a file; what is expected of it, its shift and notes included."""
    state, absolute, out = {"start": 0, "absolute": False}, r.random() < 0.3, []
    for _ in range(r.randrange(1, 5)):
        out.append(plane(r, absolute, expected, state))
    if r.random() < 0.6:
        out.insert(r.randrange(len(out) + 1), environment(r, state))
    for field in (2, 3, 4):  # errors, warnings, host names
        if r.random() < 0.2:
            text = r.choice(["something is wrong", "w" * 400])
            out.insert(r.randrange(len(out) + 1), data(field, text))
            if field < 4 and f"the profiler says: {text[:300]}" not in expected.notes:
                expected.notes.append(f"the profiler says: {text[:300]}")
    if expected.events and not state["absolute"]:
        if state["start"] > 0:
            expected.shifts.append(("0", str(state["start"])))
        else:
            expected.notes.append("does not say when the profile began: it stays on its own time")
    return exact(out)
