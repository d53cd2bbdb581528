"""What `view` and `report` make of foreign Trace Event files, against an independent reading (tests/oracle/trace_event.py):
    foreign.py data FOLDER...       every real trace of these folders
    foreign.py small FOLDER...      those below 1 MB
    foreign.py imported FOLDER...   those below 100 kB (imported-large: all below 1 MB): spans and durations against
                                    trace_processor's own import of the same file
    foreign.py generated N [SEED]   N generated files of every shape of the format, damage included
    foreign.py messages            what is said in words
    foreign.py importer N [SEED]    well-formed generated files against trace_processor's own import of the same JSON
Compared are spans, instants, counters, arrows and what was dropped, and for each device where its time went."""
import collections
import glob
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))
import trace_event
from lib import Importer, check, data, equal, finish, run, tmp

WAY = {"start": "s", "step": "t", "end": "f"}


# ---- Our side ----

class Ours:
    """A file as `meridian view --output-format json,report-json` has it, in the words of the other reading."""

    def __init__(self, path, formats="json,report-json"):
        out = tmp()
        run("view", path, "-o", out, "--output-format", formats, want=None)
        self.trace = os.path.join(out, "system_profile.pftrace")
        name = os.path.join(out, "system_profile.json")
        self.any = os.path.exists(name)
        if not self.any:
            return
        with open(name, encoding="utf-8") as f:
            doc = json.load(f)
        self.dropped = sum(i["dropped"] for i in doc["meridian"]["inputs"])
        self.spans, flows = collections.Counter(), collections.defaultdict(list)
        for e in doc["trace_events"]:
            state = trace_event.NO_START if e.get("no_start") else ""
            dur = trace_event.OPEN if e.get("unfinished") else e["duration"]
            key = (e["name"], e.get("category", ""), e["timestamp"], dur, e.get("kind") == "instant", state)
            for number, way in zip(e.get("flow_id", []), e.get("flow_dir", [])):
                flows[number].append((WAY.get(way, way), key[:4]))
            self.spans[key] += 1
        self.flows = flows
        self.counters = collections.Counter((c["name"], c["timestamp"], float(c["value"])) for c in doc["counters"])
        self.parts = []
        report = os.path.join(out, "report.json")
        if os.path.exists(report):
            with open(report, encoding="utf-8") as f:
                workers = json.load(f)["report"]["workers"]
            for w in workers:
                parts = {k: w["parts_ns"][k] for k in ("compute", "both", "exposed", "copy", "idle")}
                check(w["parts_ns"]["host"] is None and w["parts_ns"]["waiting"] is None, f"{os.path.basename(path)}: measured what no trace tells")
                self.parts.append((w["device_idx"], {"window": w["window_ns"], **parts}))
        self.parts.sort(key=repr)


def arrows(flows):
    """Multiset of arrows, each by the events its points are on; points on nothing are counted apart."""
    return collections.Counter(tuple(sorted(map(repr, points))) for points in flows.values() if points)


def compare(path, title):
    """Whether all is equal; says what is not."""
    want, got = trace_event.File(path), Ours(path)
    spans = collections.Counter(s.key()[1:] for s in want.spans)
    if not got.any:
        return check(not spans and not want.counters, f"{title}: nothing was read, {sum(spans.values())} events are there")
    lone = collections.Counter()  # points on no event are written as instants of the flow's name
    bound = {}
    for number, points in want.flows.items():
        bound[number] = []
        for way, span in points:
            if isinstance(span, trace_event.Span):
                bound[number].append((way, span.key()[1:5]))
            else:
                key = span + (0, True, "")
                lone[key] += 1
                bound[number].append((way, key[:4]))
    spans += lone
    counters = collections.Counter((name, ts, value) for _, name, ts, value in want.counters)
    ok = True
    for what, a, b in (("events", got.spans, spans), ("counters", got.counters, counters),
                       ("arrows", arrows(got.flows), arrows(bound))):
        missing, extra = b - a, a - b
        ok = check(not missing and not extra, f"{title}: {what}: {sum(missing.values())} missing {list(missing)[:2]}, "
                                              f"{sum(extra.values())} too many {list(extra)[:2]}") and ok
    ok = equal(got.dropped, want.dropped, f"{title}: dropped") and ok
    return equal(got.parts, want.breakdown(), f"{title}: where the time went") and ok


# ---- Generated files ----

NAMES = ["aten::mm", "step", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "Memcpy HtoD", "fusion.1", "all-reduce.2", "dma_request",
         "\u6f22\u5b57", "a\"b\\c", "x" * 70, ""]
CATEGORIES = ["kernel", "gpu_memcpy", "cpu_op", "python_function", "cuda_runtime", "mtia_runtime", "user_annotation",
              "gpu_user_annotation", "cuda_profiler_range", "mtia_ccp_events", None, "other"]


class Generator:
    """One file from a seed. tame: only what trace_processor reads the same way."""

    def __init__(self, seed, tame=False):
        self.r, self.tame, self.events = random.Random(seed), tame, []
        self.origin = self.r.choice([0, 1000, 10**6, 1712195495 * 10**6])
        self.labels = {}

    def time(self, ns):
        """Microseconds as a file may have them: integers, decimals, in quotes."""
        ns += self.origin * 1000
        whole, frac = divmod(abs(ns), 1000)
        text = str(whole) + (f".{frac:03d}" if frac else self.r.choice(["", "", ".0"]))
        text = "-" + text if ns < 0 else text
        return Raw(text) if self.tame or self.r.random() < 0.9 else text

    def event(self, ph, ts, **more):
        e = {"ph": ph, "ts": self.time(ts), "pid": self.pid(), "tid": self.r.choice([1, 2, 7])}
        e.update({k: v for k, v in more.items() if v is not None})
        if not self.tame and self.r.random() < 0.1:
            keys = list(e)
            self.r.shuffle(keys)
            e = {k: e[k] for k in keys}
        self.events.append(e)
        return e

    def pid(self):
        return self.r.choice([10, 20] if self.tame else [0, 1, 10, 20, "Spans"])

    def args(self):
        out = {}
        if self.r.random() < 0.4:
            out["device"] = self.r.choice([0, 2])
        if self.r.random() < 0.4:
            out["stream"] = 7
        if self.r.random() < 0.3:
            out["text"] = self.r.choice(NAMES)
        return out or None

    def when(self):
        return self.r.randrange(0, 3000) * self.r.choice([1, 10, 100])

    def complete(self):
        dur = self.r.choice([0, 1, 50, 1000, 20000])
        self.event("X", self.when(), dur=Raw(f"{dur // 1000}.{dur % 1000:03d}"), name=self.r.choice(NAMES),
                   cat=self.r.choice(CATEGORIES), args=self.args())

    def pair(self):
        start, name = self.when(), self.r.choice(NAMES[:8])
        where = {"pid": self.pid(), "tid": self.r.choice([1, 2])}
        if self.r.random() < 0.9:
            self.event("B", start, **where, name=name, cat="c", args=self.args())
        if self.r.random() < 0.9:
            self.event("E", start + self.r.randrange(1, 5000), **where, name=self.r.choice([name, name, None, "x"]), cat="c")

    def asynchronous(self):
        start, name = self.when(), self.r.choice(["req", "part"])
        number = self.r.randrange(3)
        who = self.r.choice([{"id": number}, {"id": hex(number)}, {"id2": {"local": number}}, {"id2": {"global": number}},
                             {"id": number, "scope": "s"}])
        begin, mark, end = self.r.choice(["bne", "bne", "STF"])
        for ph, at in ((begin, 0), (mark, 10), (end, 100)):
            if self.r.random() < 0.9:
                self.event(ph, start + at, name=name, cat="async", pid=self.r.choice([10, 10, 20]), **who)

    def flow(self):
        number, start = self.r.randrange(1, 6), self.when()
        for ph, at in (("s", 0), ("t", 500), ("f", 1000)):
            if self.r.random() < 0.8:
                self.event(ph, start + at * self.r.randrange(3), name="flow", cat="f", id=number,
                           bp="e" if ph == "f" and self.r.random() < 0.5 else None)

    def bound(self):
        """An arrow between spans that name it."""
        number = self.r.choice([7, "0x7"])
        self.event("X", self.when(), dur=5, name="out", bind_id=number, flow_out=True)
        self.event("X", self.when(), dur=5, name="in", bind_id=number, flow_in=True)

    def other(self):
        kind = self.r.randrange(4)
        if kind == 0:
            self.event(self.r.choice("iIR"), self.when(), name="mark", s=self.r.choice("gpt"))
        elif kind == 1:
            self.event("C", self.when(), name="mem", args=self.r.choice([{"value": 1}, {"a": 1.5, "b": "7"}, {"mem": True, "x": "y"},
                                                                         {"u": 2**64 - 1}]), id=self.r.choice([None, 3]))
        elif kind == 2:
            self.events.append(self.r.choice([{"ph": "X"}, {"ts": 1}, {"ph": "X", "ts": "no"}, {"ph": "X", "ts": 1, "dur": -1},
                                              {"ph": "D", "ts": 1}, 7, {"ph": "i", "ts": Raw("1e30")}, {"ph": "s", "ts": 1}]))
        else:
            self.event("X", self.when(), name="open")

    def rare(self):
        """What the format has and hardly anybody writes, and numbers at the edge of what a number may be."""
        kind = self.r.randrange(6)
        if kind == 0:  # samples, contexts, marks of navigation, dumps, clock syncs: read or dropped, the file goes on
            ph = self.r.choice(["P", "(", ")", "v", "V", "c", "a", "p", "q"])
            self.event(ph, self.when(), name="rare", id=self.r.choice([None, 1, "0x2"]), args=self.args())
        elif kind == 1:  # an object from creation to deletion
            number, start = self.r.randrange(3), self.when()
            for ph, at in (("N", 0), ("O", 10), ("D", 20)):
                if self.r.random() < 0.8:
                    self.event(ph, start + at, name="object", cat="o", id=hex(number), args={"snapshot": {"x": [1, {}]}} if ph == "O" else None)
        elif kind == 2:
            self.event("X", self.when(), dur=Raw(self.r.choice(["1e3", "2.5e1", "0.0004", "12.3456789", "1E0", "-0", "0e5"])), name="float")
        elif kind == 3:
            self.event("X", self.when(), dur=1, name="big", args={"n": Raw(self.r.choice([str(2**63), str(2**64), str(-2**63), "1" + "0" * 60, "1e400", "-1e-400"]))})
        elif kind == 4:
            e = self.event("X", self.when(), dur=1, name="who")
            e["pid"], e["tid"] = Raw(self.r.choice([str(2**31), str(2**53 + 1), str(2**63 - 1), "0"])), Raw(self.r.choice([str(2**63 - 1), "0", "4294967296"]))
        else:
            e = self.event("X", 0, dur=1, name="when")
            e["ts"] = Raw(self.r.choice(["1e400", str(2**63), str(10**40), "-1e30", "9223372036854774.5"]))

    def metadata(self):
        for pid, label in self.r.choice([{0: "GPU 0", 10: "CPU"}, {1: "MTIA 1"}, {}, {0: "GPU 0", 1: "GPU 1", 10: "CPU"}]).items():
            self.events.append({"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": label}})
        if self.r.random() < 0.3:
            self.events.append({"ph": "M", "name": "process_name", "pid": 20, "args": {"name": "/device:TPU:3"}})
            self.events.append({"ph": "M", "name": "thread_name", "pid": 20, "tid": 1, "args": {"name": "Steps"}})

    def text(self):
        for _ in range(self.r.randrange(5, 60)):
            self.r.choice([self.complete, self.complete, self.pair, self.asynchronous, self.flow, self.bound, self.other, self.rare])()
        if self.r.random() < 0.7:
            self.metadata()
        order = self.r.randrange(3)
        if order == 0:
            self.r.shuffle(self.events)
        elif order == 1:
            self.events.sort(key=lambda e: float(e["ts"]) if isinstance(e, dict) and isinstance(e.get("ts"), Raw) else -1)
        lines = ",\n".join(dump(e) for e in self.events)
        shape = self.r.randrange(5)
        if shape == 0:
            text = "[" + lines + self.r.choice(["]", "", ",", ",]"])
        else:
            head = self.r.choice(['"schemaVersion":1,', '"distributedInfo":{"rank":1,"world_size":2},', "",
                                  '"baseTimeNanoseconds":1700000000000000000,'])
            text = "{" + head + '"traceEvents":[' + lines + "]" + self.r.choice(["", ',"displayTimeUnit":"ns"']) + "}"
        raw = text.encode()
        if self.r.random() < 0.15:  # cut behind a record, so that both readings have the same records
            raw = raw[:raw.rfind(b",\n", 0, self.r.randrange(len(raw) // 2, len(raw))) + 1] or raw
        elif self.r.random() < 0.1:  # something behind the end
            raw += self.r.choice([b"x", b"\n]]}", b'{"traceEvents":[]}', b"\0\0\0", b"\n\n \t"])
        return self.damage(raw)

    def damage(self, raw):
        """Bytes that are no text, inside names."""
        if self.r.random() < 0.2:
            raw = raw.replace(b"aten::mm", self.r.choice([b"at\xffen", b"at\\ud83den", b"at\xe6\xbcen", b"a\ten", b"\\udc00"]))
        return b"\xef\xbb\xbf" + raw if self.r.random() < 0.1 else raw


class Raw(str):
    """Text that stands in the file as it is."""


def dump(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + dump(v) for k, v in value.items()) + "}"
    return json.dumps(value)


SHAPES = {**{f"ph {ph}": f'"ph": *"{re.escape(ph)}"'.encode() for ph in "XBEbneSTFstfiIRCMPNODvVc"}, "decimals in ts": rb'"ts": ?\d+\.\d', "ts in quotes": rb'"ts": ?"\d',
          "ts below zero": rb'"ts": ?-', "integers of more than 64 bits": rb"[ :]\d{20}", "exponents": rb"\de\d", "byte order mark": rb"^\xef\xbb\xbf",
          "a byte that is no UTF-8": rb"\xff|\xe6\xbc", "half a surrogate pair": rb"\\ud[8-f]", "a control character": rb"\x09en",
          "something behind the end": rb"[\]}](x|\n\]\]\}|\{\"|\x00)", "a bare array": rb"^\[", "an array that does not end": rb"[,}]$"}


def generated(n, seed):
    print(f"{n} generated files from seed {seed}")
    folder, agreed, seen = tmp(), 0, set()
    for i in range(n):
        path = os.path.join(folder, f"{seed + i}.json")
        with open(path, "wb") as f:
            raw = Generator(seed + i).text()
            f.write(raw)
        seen |= {name for name, pattern in SHAPES.items() if re.search(pattern, raw)}
        if compare(path, f"seed {seed + i}"):
            os.remove(path)
            agreed += 1
        else:
            print("kept", path)
    print(f"{agreed} of {n} generated files agree")
    check(n < 60 or seen == set(SHAPES), f"shapes that no file had: {sorted(set(SHAPES) - seen)}")


def messages():
    """What is said in words of files that are not what they seem."""
    folder = tmp()

    def view(*texts, command=("view", "--output-format", "summary-json")):
        paths = []
        for i, text in enumerate(texts):
            paths.append(os.path.join(folder, f"{i}.json"))
            with open(paths[-1], "wb") as f:
                f.write(text.encode("utf-8", "surrogateescape"))
        out = ["-o", tmp()] if command[0] == "view" else []
        text, err = run(command[0], *paths, *command[1:], *out, want=None)
        return text + err

    day = 86400 * 10**6
    first, later = (f'[{{"ph":"X","name":"a","ts":{at},"dur":5}}]' for at in (1600000000 * 10**6, 1600000000 * 10**6 + 986 * day))
    check("begins 985 days after all inputs before it" in view(first, later), "inputs 986 days apart are merged with words")
    check("after all inputs" not in view(first, first), "inputs of one time need none")
    check("times before zero" in view('[{"ph":"X","name":"a","ts":-5,"dur":1}]'), "times before zero are said")
    check("1 damaged place in texts" in view('[{"ph":"i","ts":1,"name":"\udcff"}]'), "damaged text is said")
    jax = ('{"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:TPU:0"}},'
           '{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},'
           '{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"XLA Modules"}},'
           '{"ph":"M","pid":1,"tid":3,"name":"thread_name","args":{"name":"XLA Ops"}},'
           '{"ph":"X","pid":1,"tid":2,"ts":0,"dur":90,"name":"jit_f"},'
           '{"ph":"X","pid":1,"tid":3,"ts":10,"dur":30,"name":"fusion.1"},{"ph":"X","pid":1,"tid":3,"ts":40,"dur":20,"name":"all-reduce"},'
           '{"ph":"X","pid":1,"tid":3,"ts":70,"dur":10,"name":"copy-start"},{"ph":"X","pid":701,"tid":1,"ts":0,"dur":90,"name":"py"}]}')
    text = view(jax, command=("report",))
    rows = [line.split() for line in text.splitlines() if line.startswith("  device 0 ")]
    check(rows and rows[0][-7:] == ["42.86", "0.00", "28.57", "14.29", "-", "-", "14.29"], f"a JAX trace has a report: {text}")


# ---- Real files ----

MB = 10**6


def files_of(folders, below=None):
    paths = [p for folder in folders for p in sorted(glob.glob(data(folder, "*.json.gz")))
             if below is None or os.path.getsize(p) < below]
    check(paths, f"no traces in {folders}")
    return paths


def real(folders, below):
    paths, agreed = files_of(folders, below), 0
    for path in paths:
        agreed += compare(path, os.path.basename(path))
    print(f"{agreed} of {len(paths)} files agree")


# ---- trace_processor's own import ----

class Tame(Generator):
    """Spans that nest, pairs with names, arrows from inside one span to inside another: no room for taste."""

    def text(self):
        self.origin, ids = 1000, iter(range(1, 1000))
        for pid in (10, 20):
            for tid in (1, 2):
                self.nest(pid, tid, 0, 40 * 10**6, 0)
        spans = [e for e in self.events if e["ph"] == "X" and float(e["dur"]) > 20]
        for _ in range(min(8, len(spans))):
            a, b = sorted(self.r.sample(spans, 2), key=lambda e: float(e["ts"]))
            if (a["pid"], a["tid"]) == (b["pid"], b["tid"]) or float(a["ts"]) == float(b["ts"]):
                continue
            number = next(ids)
            for e, ph in ((a, "s"), (b, "f")):
                self.events.append({"ph": ph, "ts": Raw(e["ts"]), "pid": e["pid"], "tid": e["tid"], "name": "flow", "cat": "f",
                                    "id": number, **({"bp": "e"} if ph == "f" else {})})
        self.events.sort(key=lambda e: float(e["ts"]))
        return ('{"traceEvents":[' + ",\n".join(map(dump, self.events)) + "]}").encode()

    def nest(self, pid, tid, start, end, depth):
        at = start
        while depth < 4 and end - at > 4000:
            begin = at + 1000 * self.r.randrange(1, max(2, (end - at) // 3000))
            stop = begin + 1000 * self.r.randrange(1, max(2, (end - begin) // 2000))
            if stop >= end - 1000:
                return
            self.nest(pid, tid, begin, stop, depth + 1) if self.r.random() < 0.6 else None
            head = {"pid": pid, "tid": tid, "name": self.r.choice(NAMES[:6]), "cat": "c"}
            if self.r.random() < 0.7:
                self.events.append({"ph": "X", "ts": self.time(begin), "dur": Raw(f"{(stop - begin) // 1000}"), **head})
            else:
                self.events.append({"ph": "B", "ts": self.time(begin), **head})
                self.events.append({"ph": "E", "ts": self.time(stop), **head})
            at = stop + 1000


PARENTS = ("select s.name, s.ts, s.dur, ifnull(p.name, ''), ifnull(p.ts, 0), count(*) from slice s left join slice p on s.parent_id = p.id "
           "group by 1, 2, 3, 4, 5")
FLOWS = ("select o.name, o.ts, i.name, i.ts, count(*) from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id "
         "group by 1, 2, 3, 4")


def importer(n, seed):
    print(f"{n} generated files from seed {seed}, as trace_processor imports them")
    engine, folder, agreed = Importer(), tmp(), 0
    for i in range(n):
        path = os.path.join(folder, f"{seed + i}.json")
        with open(path, "wb") as f:
            f.write(Tame(seed + i, True).text())
        theirs, ours = engine.query(path, PARENTS, FLOWS), engine.query(Ours(path, "perfetto").trace, PARENTS, FLOWS)
        ok = True
        for what, a, b in zip(("spans with their parents", "arrows"), ours, theirs):
            ok = equal(sorted(a), sorted(b), f"seed {seed + i}: {what}") and ok
        agreed += ok
    print(f"{agreed} of {n} files agree with trace_processor's own import")


SPANS = "select name, dur, count(*) from slice group by 1, 2"


def imported(folders, below):
    """Real files: how many spans of which name and duration. All of them agree (November 2026, v55.3): nothing is excepted."""
    paths = files_of(folders, below)
    engine = Importer()
    for path in paths:
        a, b = ({(name, int(dur)): int(n) for name, dur, n in engine.query(trace, SPANS)[0]}
                for trace in (path, Ours(path, "perfetto").trace))
        odd = [(k, a.get(k, 0), b.get(k, 0)) for k in a.keys() | b.keys() if a.get(k) != b.get(k)]
        check(not odd, f"{os.path.basename(path)}: {len(odd)} kinds of spans are not as trace_processor imports them: {odd[:3]}")
        print(f"{os.path.basename(path)}: {sum(a.values())} spans")


if __name__ == "__main__":
    mode, words = sys.argv[1], sys.argv[2:]
    if mode in ("data", "small"):
        real(words, MB if mode == "small" else None)
    elif mode in ("imported", "imported-large"):
        imported(words, MB if mode == "imported-large" else MB // 10)
    elif mode == "messages":
        messages()
    else:
        (generated if mode == "generated" else importer)(int(words[0]), int(words[1]) if len(words) > 1 else 20261122)
    finish()
