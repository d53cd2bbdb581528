"""A Trace Event file and its twin as a Perfetto trace are read as the same rows, and the trace that Meridian writes of either is read as what it
was written of. The twins are made here, field by field, from the public layout: threads and processes as tracks, spans as begins and ends.
    perfetto_twin.py [FILE]...      real files of MERIDIAN_TEST_DATA, besides the generated ones"""
import collections
import gzip
import json
import os
import random
import re
import shutil
import struct
import sys
from decimal import Decimal

from lib import DATA, check, equal, finish, run, tmp



def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def fixed(field, form, value):
    return varint(field << 3 | 1) + struct.pack(form, value)


class Twin:
    """The Perfetto trace of a Trace Event document."""

    def __init__(self, doc):
        self.out, self.pids, self.tids, self.names, self.arrows = [], {}, {}, {}, {}
        self.base = int(doc.get("baseTimeNanoseconds", 0))
        events = doc["traceEvents"]
        for e in events:
            if e["ph"] == "M":
                self.names[(e["name"], e["pid"], e.get("tid") if e["name"].startswith("thread") else None)] = e["args"]
        self.head(doc)
        for order in sorted(self.ordered(events, self.bound_arrows(events)), key=lambda o: o[:4]):
            self.put(*order[4:])

    def packet(self, body, ts=None):
        self.out.append(data(1, (number(8, ts) if ts is not None else b"") + number(10, 1) + body))

    def head(self, doc):
        reading = b"".join(data(1, number(1, clock) + number(2, 1000)) for clock in (6, 1))
        self.packet(number(13, 1) + data(6, reading + number(2, 1)))
        facts = {k: v for k, v in doc.get("distributedInfo", {}).items() if k in ("rank", "world_size")}
        attributes = b"".join(data(1, data(1, k) + number(2, v)) for k, v in facts.items())
        if "host_name" in doc:
            attributes += data(1, data(1, "host_name") + data(3, doc["host_name"]))
        self.packet(data(126, attributes))

    def rank(self, what, pid, tid=None):
        index = self.names.get((what, pid, tid), {}).get("sort_index")
        return b"" if index is None else number(12, index)

    def process(self, pid):
        if pid not in self.pids:
            uuid, n = len(self.pids) + 1, pid if isinstance(pid, int) else 2000000 + len(self.pids)
            name = self.names.get(("process_name", pid, None), {}).get("name", "" if isinstance(pid, int) else pid)
            label = self.names.get(("process_labels", pid, None), {}).get("labels")
            self.packet(data(60, number(1, uuid) + data(3, number(1, n) + data(6, name) + (data(8, label) if label else b""))
                             + self.rank("process_sort_index", pid)))
            self.pids[pid] = (uuid, n)
        return self.pids[pid]

    def thread(self, pid, tid):
        if (pid, tid) not in self.tids:
            parent, n = self.process(pid)
            uuid = 1000 + len(self.tids)
            name = self.names.get(("thread_name", pid, tid), {}).get("name", "" if isinstance(tid, int) else tid)
            rank = self.rank("thread_sort_index", pid, tid)
            if isinstance(tid, int):
                self.packet(data(60, number(1, uuid) + rank + data(4, number(1, n) + number(2, tid) + data(5, name))))
            else:
                self.packet(data(60, number(1, uuid) + number(5, parent) + rank + data(2, name)))
            self.tids[pid, tid] = uuid
        return self.tids[pid, tid]

    def bound_arrows(self, events):
        """The arrows of each span, by its place in the file: those that begin or end at its time."""
        points = collections.defaultdict(list)
        for e in events:
            if e["ph"] in "sf":
                points[e["pid"], e["tid"], e["ts"]].append(self.arrows.setdefault((e["id"], e.get("name"), e.get("cat")), len(self.arrows) + 1))
        bound = {}
        for i, e in enumerate(events):
            if e["ph"] == "X":
                bound[i] = points.pop((e["pid"], e["tid"], e["ts"]), [])
        return bound

    def ordered(self, events, arrows):
        """Ends before begins of one time, outer spans before inner ones, a span of no length as a whole."""
        for i, e in enumerate(events):
            if e["ph"] not in "Xi":
                continue
            ts, dur = int(e["ts"] * 1000) + self.base, int(e.get("dur", 0) * 1000)
            yield ts, 1, -dur, i, ts, e, 3 if e["ph"] == "i" else 1, arrows.get(i, []), e["ph"] == "X" and dur == 0
            if dur > 0:
                yield ts + dur, 0, -ts, -i, ts + dur, e, 2, [], False

    def put(self, ts, e, kind, arrows, ends):
        track = self.thread(e["pid"], e["tid"])
        body = number(9, kind) + number(11, track)
        if kind != 2:
            body += data(23, e["name"]) + (data(22, e["cat"]) if e.get("cat") else b"")
            body += b"".join(data(4, data(10, k) + self.value(v)) for k, v in e.get("args", {}).items())
            body += b"".join(fixed(47, "<Q", a) for a in arrows)
        self.packet(data(11, body), ts)
        if ends:
            self.packet(data(11, number(9, 2) + number(11, track)), ts)

    @staticmethod
    def value(v):
        if isinstance(v, bool):
            return number(2, v)
        if isinstance(v, int):
            return number(3 if v > 0 else 4, v)
        if isinstance(v, Decimal):
            return fixed(5, "<d", float(v))
        return data(6, v) if isinstance(v, str) else data(9, json.dumps(v, default=float))

    def write(self, path, packed):
        with gzip.open(path, "wb", 1) if packed else open(path, "wb") as f:
            f.write(b"".join(self.out))


def generated(seed):
    """A small trace in the shape of Kineto's: nested host spans, kernels on streams, arrows between them, marks."""
    rng = random.Random(seed)
    events = [{"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
              {"ph": "M", "name": "process_labels", "pid": 100, "tid": 0, "args": {"labels": "CPU"}},
              {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
              {"ph": "M", "name": "thread_name", "pid": 100, "tid": 101, "args": {"name": "main"}},
              {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}}]
    at = Decimal(5000)
    for i in range(rng.randint(5, 60)):
        length = Decimal(rng.randint(2000, 9000)) / 1000 * 10
        args = {"External id": i, "Input Dims": [[rng.randint(1, 9), 2], []], "share": Decimal("0.25"), "fast": True, "note": "say \"x\""}
        events.append({"ph": "X", "cat": "cpu_op", "name": rng.choice(["aten::mm", "aten::add"]), "pid": 100, "tid": 101, "ts": at, "dur": length, "args": args})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 101, "ts": at + 1, "dur": Decimal("1.5"), "args": {"correlation": i}})
        begin = at + length + Decimal(rng.randint(0, 5000)) / 1000
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": begin, "dur": Decimal(rng.randint(0, 800)) / 1000,
                       "args": {"device": 0, "stream": 7, "correlation": i}})
        for ph, pid, tid, ts in (("s", 100, 101, at + 1), ("f", 0, 7, begin)):
            events.append({"ph": ph, "id": i, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g", **({"bp": "e"} if ph == "f" else {})})
        at = begin + rng.randint(1, 9)
        if rng.random() < 0.2:
            events.append({"ph": "i", "s": "t", "name": "mark", "pid": 100, "tid": 101, "ts": at, "args": {}})
    return {"schemaVersion": 1, "distributedInfo": {"rank": seed % 4, "world_size": 4}, "host_name": "node-a",
            "baseTimeNanoseconds": 1700000000000000000, "traceEvents": events}


def dump(doc, path):
    """Writes decimals with all their digits, which the json module cannot."""
    text = json.dumps(doc, default=lambda decimal: f"@@{decimal}@@")
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub('"@@([^@]*)@@"', r"\1", text))


def rows(path):
    """The rows of an input in JSON, in order, with arrows numbered by their first point; and its report."""
    out = tmp()
    run("view", path, "-o", out, "--output-format", "json,report-text,perfetto")
    with open(os.path.join(out, "system_profile.json"), encoding="utf-8") as f:
        doc = json.load(f)
    events = sorted(doc["trace_events"], key=lambda e: (e["timestamp"], -e["duration"], e["name"], json.dumps(e.get("args"), sort_keys=True)))
    ids = {}
    for e in events:
        if "flow_id" in e:
            e["flow_id"] = [ids.setdefault(i, len(ids)) for i in e["flow_id"]]
    with open(os.path.join(out, "report.txt"), encoding="utf-8") as f:
        report = [line for line in f if path not in line]
    return events, doc["meridian"], report, os.path.join(out, "system_profile.pftrace")


def compare(what, got, want):
    equal(len(got), len(want), f"{what}: events")
    different = [(g, w) for g, w in zip(got, want) if g != w]
    check(not different, f"{what}: {len(different)} rows differ, first {different[:1]}")


def twins(what, path, packed):
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as f:
        doc = json.loads(f.read(), strict=False, parse_float=Decimal)
    begun = {e["id"] for e in doc["traceEvents"] if e["ph"] == "s"}
    # A row without any name, and an arrow without a begin, have no twin.
    doc["traceEvents"] = [e for e in doc["traceEvents"] if e.get("pid") != "" and not (e["ph"] == "f" and e["id"] not in begun)]
    folder = tmp()
    source, twin = os.path.join(folder, "a.json"), os.path.join(folder, "a.pftrace.gz" if packed else "of any name")
    dump(doc, source)
    Twin(doc).write(twin, packed)
    events, about, report, own = rows(source)
    theirs, them, their_report, again = rows(twin)
    compare(what, theirs, events)
    for part in ("processes", "tracks"):
        got, want = ({json.dumps(v, sort_keys=True) for v in m[part]} for m in (them, about))
        check(got == want, f"{what}: {part}: {got - want} instead of {want - got}")
    equal(their_report, report, f"{what}: report")
    alone = tmp()
    shutil.copy(own, os.path.join(alone, "job42.pftrace"))
    for name, trace in (("its own trace", own), ("the twin's own trace", again), ("its own trace, renamed, in a folder", alone)):
        ours, _, our_report, _ = rows(trace)
        compare(f"{what}, {name}", ours, events)
        equal(our_report, report, f"{what}, {name}: report")


for seed in range(1, 5):
    made = os.path.join(tmp(), "made.json")
    dump(generated(seed), made)
    twins(f"generated {seed}", made, seed % 2 == 0)
for name in sys.argv[1:]:
    if os.path.exists(os.path.join(DATA, name)):
        twins(name, os.path.join(DATA, name), False)
finish()
