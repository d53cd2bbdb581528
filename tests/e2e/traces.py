"""The real traces of the folders convert, and the real importer finds in each exactly what an independent
reading of the input (Python's json, decimals as text) finds: spans, times, arguments, arrows.
usage: traces.py [small] FOLDER...    small: those below 1 MB"""
import collections
import glob
import os
import re
import sys
from decimal import Decimal

from lib import Importer, check, data, equal, finish, load_json, run, tmp


def nanoseconds(value, base):
    """Microseconds in decimal text to integer nanoseconds, exactly, rounding half away from zero."""
    text = str(value)
    if "e" in text or "E" in text:
        text = format(Decimal(text), "f")
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    whole, _, frac = text.partition(".")
    ns = int(whole) * 1000 + int((frac + "000")[:3])
    if len(frac) > 3 and frac[3] >= "5":
        ns += 1
    return base + sign * ns


class Expected:
    def __init__(self, path):
        doc = load_json(path)
        events = doc if isinstance(doc, list) else doc["traceEvents"]
        base = 0 if isinstance(doc, list) else int(doc.get("baseTimeNanoseconds", 0))
        self.slices = collections.Counter()
        self.keys = collections.Counter()
        self.records = len(events)
        flows = collections.defaultdict(list)
        for e in events:
            ph = e.get("ph")
            if ph == "X":
                dur = nanoseconds(e.get("dur", 0), 0)
                self.slices[(e["name"], nanoseconds(e["ts"], base), dur)] += 1
            elif ph in ("i", "I", "R"):
                self.slices[(e["name"], nanoseconds(e["ts"], base), 0)] += 1
            elif ph in ("s", "t", "f"):
                flows[(e.get("cat"), e.get("name"), str(e["id"]))].append((nanoseconds(e["ts"], base), ph))
            if ph in ("X", "i", "I", "R"):
                for key, value in (e.get("args") or {}).items():
                    self.keys["debug." + re.sub(r"[.\[\]]", "_", key)] += 1  # as the importer spells it
        # An arrow needs a start, and an end at the same time or later.
        self.arrow_ids = sum(1 for points in flows.values()
                             if any(p == "s" for _, p in points) and any(p in "tf" for _, p in points))


def compare(importer, path):
    name = os.path.basename(path)
    want = Expected(path)
    out = tmp()
    run("view", path, "-o", out, "--output-format", "perfetto")
    trace = os.path.join(out, "system_profile.pftrace")
    slices, bad, keys, unfinished, flows = importer.query(
        trace,
        "select s.name, s.ts, s.dur, count(*) from slice s where s.category is null or s.category != 'meridian' group by 1, 2, 3",
        Importer.BAD,
        # equal sets of arguments are stored once: count the slices that refer to them
        "select key, sum(n) from (select arg_set_id, count(*) n from slice where arg_set_id is not null group by 1) s "
        "cross join args a where a.arg_set_id = s.arg_set_id and a.key like 'debug.%' group by 1",
        "select count(*) from slice where dur = -1",
        "select count(*) from (select distinct slice_out, slice_in from flow)")
    got = collections.Counter({(n, int(t), int(d)): int(c) for n, t, d, c in slices})
    equal(bad, [], f"{name}: import errors")
    equal(unfinished, [["0"]], f"{name}: unfinished")
    equal(sum(got.values()), sum(want.slices.values()), f"{name}: number of slices")
    equal(sum(d * c for (_, _, d), c in got.items()), sum(d * c for (_, _, d), c in want.slices.items()), f"{name}: total duration")
    if want.slices:
        equal(min(t for _, t, _ in got), min(t for _, t, _ in want.slices), f"{name}: first start")
        equal(max(t + d for _, t, d in got), max(t + d for _, t, d in want.slices), f"{name}: last end")
    missing, extra = want.slices - got, got - want.slices
    check(not missing and not extra, f"{name}: slices differ: missing {list(missing)[:3]}, extra {list(extra)[:3]}")
    counted = {k: int(c) for k, c in keys}
    wrong = {k: (counted.get(k), c) for k, c in want.keys.items() if counted.get(k) != c}
    check(not wrong, f"{name}: arguments (got, expected): {dict(list(wrong.items())[:5])}")
    check((int(flows[0][0]) > 0) == (want.arrow_ids > 0), f"{name}: {flows[0][0]} arrows from {want.arrow_ids} ids with both ends")
    return sum(want.slices.values())


def main():
    importer = Importer()
    total = 0
    small = sys.argv[1] == "small"
    for folder in sys.argv[1 + small:]:
        files = sorted(path for path in glob.glob(data(folder, "*.json.gz")) if not small or os.path.getsize(path) < 10**6)
        check(files, f"no traces in {folder}")
        for path in files:
            total += compare(importer, path)
    print(total, "slices compared one by one")
    finish()


main()
