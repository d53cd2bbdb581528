"""Imports generated Trace Event files and compares with the independent reading of tests/oracle:
every span, instant, counter and arrow, its track and device, and what was dropped. Usage:
import_lines.py PROGRAM FILES; MRD_SEED=n repeats one."""
import collections
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))
import trace_event
import trace_event_make

FIELDS = ("profile kind name category ts dur id value bound marks flows instance pid process place scope rank worker source track unit unit_name "
          "lnc pcore device thread sort line arrows").split()
PLACE = FIELDS.index("instance"), FIELDS.index("line")
failures = 0


def check(ok, text):
    global failures
    if not ok:
        failures += 1
        print("FAILED", text[:600])


class Ours:
    """What import_words printed of a file."""

    def __init__(self, lines):
        tracks = {line[1]: dict(zip(FIELDS[PLACE[0]:PLACE[1]], line[2:])) for line in lines if line[0] == "track"}
        by = sum(int(line[2]) for line in lines if line[0] == "shift")
        self.spans, self.counters, self.arrows, self.notes = [], collections.Counter(), collections.defaultdict(list), []
        for line in lines:
            if line[0] in ("track", "shift", "input"):
                continue
            if line[0] == "note":
                self.notes.append(line[1])
                continue
            e = dict(zip(FIELDS, line))
            e.update(tracks[e["line"]])  # as they are in the end
            e["ts"] = int(e["ts"]) + by
            e["dur"] = int(e["dur"])
            for point in e["arrows"].split():
                way, number = point.split(":")
                self.arrows[number].append("stf"[int(way) - 1])
            if e["kind"] == "flow":
                self.arrows[e["id"]].append("?")
            elif e["kind"] == "counter":
                self.counters[(e["track"], e["ts"], float(e["value"][1:]))] += 1
            else:
                self.spans.append(e)
        self.dropped, self.state = int(lines[-1][4]), lines[-1][1]


def key_of(e):
    state = trace_event.NO_START if "no-start" in e["marks"] else ""
    return (e["name"], e["category"], e["ts"], trace_event.OPEN if e["dur"] < 0 else e["dur"], e["kind"] == "instant", state)


READ = "XBEiIRstfCbneSTpFM"


def not_read(path):
    """How many records are of kinds that no line of time has, and which."""
    kinds = [e["ph"] for e in trace_event.load(path)[1] if isinstance(e, dict) and isinstance(e.get("ph"), str) and len(e["ph"]) == 1]
    kinds = [k for k in kinds if k not in READ]
    return len(kinds), "".join(dict.fromkeys(kinds))


def tidy(text):
    """As import_words prints it."""
    return re.sub(r"[\0-\x1f]", " ", text)


def span_key(s):
    name, category, *rest = s.key()[1:]
    return (tidy(name), tidy(category), *rest)


def compare(title, path, ours):
    want = trace_event.File(path)
    number, kinds = not_read(path)
    said = [n for n in ours.notes if "were left out" in n]
    check(not said if number == 0 else len(said) == 1 and f": {number} records of phases that are not events on a timeline ({kinds})" in said[0],
          f"{title}: {number} records ({kinds}) are not read; said: {said}")
    spans, got = collections.Counter(span_key(s) for s in want.spans), collections.Counter(key_of(e) for e in ours.spans)
    check(spans == got, f"{title}: events: missing {list((spans - got).items())[:2]}, too many {list((got - spans).items())[:2]}")
    counters = collections.Counter((tidy(name), ts, value) for _, name, ts, value in want.counters)
    if not any(k in want.top for k in trace_event.KINETO):  # else the line is named after its pid, too
        check(counters == ours.counters, f"{title}: counters: missing {counters - ours.counters}, too many {ours.counters - counters}")
    check(sum(counters.values()) == sum(ours.counters.values()), f"{title}: {sum(ours.counters.values())} counters")
    check(want.dropped == ours.dropped, f"{title}: {ours.dropped} dropped, expected {want.dropped}")
    points = collections.Counter(len(v) for v in want.flows.values() if v)
    got = collections.Counter(len(v) for v in ours.arrows.values())
    check(points == got, f"{title}: arrows by the number of their points: {got}, expected {points}")
    places(title, want, ours)


def places(title, want, ours):
    """The process, thread and device of what one line has alone."""
    folded = any(k in want.top for k in trace_event.KINETO)
    device, lines = want.device_of(), collections.defaultdict(list)
    for s in want.spans:
        lines[s.line].append(s)
    alone = collections.Counter(span_key(s) for s in want.spans)
    found, ways = {key_of(e): e for e in ours.spans}, collections.defaultdict(set)
    order = []  # of the lines of a folded file: its own pid's, then those of numbers before those of words, each by tid
    for line, spans in lines.items():
        numbers = {device[s] for s in spans if s in device}
        for s in spans:
            e = found.get(span_key(s))
            if alone[span_key(s)] > 1 or e is None or line[0] != "thread":
                continue
            where = f"{title}: {s.key()} on {line}: {e}"
            tid, title_of = line[2], want.lines.get(line[1:], "")
            check(e["thread"] == (str(tid) if isinstance(tid, int) else "-1"), f"thread of {where}")
            if not folded:
                pid, word = s.pid, want.names.get(s.pid, "")
                check(e["pid"] == str(pid) and e["place"] == "" if isinstance(pid, int) else e["place"] == "no pid", f"process of {where}")
                check(e["process"] == (word or (pid if isinstance(pid, str) else "")), f"process's name of {where}")
                check(e["track"] == (title_of or (tid if isinstance(tid, str) else "")), f"line's name of {where}")
            else:
                own = tidy(title_of or (tid if isinstance(tid, str) else ""))
                whose = tidy(want.labels.get(s.pid) or (s.pid if isinstance(s.pid, str) else want.names.get(s.pid) or f"pid {s.pid}"))
                foreign = whose + " " + tidy(title_of or str(tid))
                check(e["track"] in (own, foreign), f"line's name of {where}")
                ways[s.pid].add(e["track"] == foreign)
                order.append((int(e["sort"]), e["track"] == foreign, isinstance(s.pid, str), isinstance(tid, str), 0 if isinstance(tid, str) else tid,
                              line))
            if numbers:
                number = numbers.pop() if len(numbers) == 1 else None
                numbers = {number}
                check(e["device"] == str(-1 if number is None else number), f"device of {where}")
            elif not any(trace_event.where(x.cat) in ("over", "device") or x.instant for x in spans):
                check(e["device"] == "-1", f"no device of {where}")
    check(all(len(way) == 1 for way in ways.values()) and sum(False in way for way in ways.values()) <= 1,
          f"{title}: one pid is the process of the file: {dict(ways)}")
    order = sorted(set(order))
    check([o[1:5] for o in order] == sorted(o[1:5] for o in order), f"{title}: order of the lines: {order}")


def main():
    program, n = sys.argv[1], int(sys.argv[2])
    seeds = [int(os.environ["MRD_SEED"])] if os.environ.get("MRD_SEED") else range(1, n + 1)
    with tempfile.TemporaryDirectory() as work:
        paths, count = [], 0
        for seed in seeds:
            paths.append(os.path.join(work, f"{seed}.json"))
            with open(paths[-1], "wb") as f:
                f.write(trace_event_make.Generator(seed).text())
        p = subprocess.run([program, "trace-event-json"] + paths, capture_output=True)
        if p.returncode != 0:
            raise SystemExit(f"import_words failed: {p.stderr.decode()}")
        lines, at = [line.split("\t") for line in p.stdout.decode().rstrip("\n").split("\n")], 0
        for seed, path in zip(seeds, paths):
            end = next(i for i in range(at, len(lines)) if lines[i][0] == "input") + 1
            ours = Ours(lines[at:end])
            compare(f"seed {seed}", path, ours)
            count += len(ours.spans)
            at = end
        if at != len(lines):
            raise SystemExit("lines left over")
    print(f"{len(paths)} files, {count} events")
    sys.exit(1 if failures else 0)


main()
