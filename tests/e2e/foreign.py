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
from trace_event_make import NAMES, Generator, Raw, dump
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
