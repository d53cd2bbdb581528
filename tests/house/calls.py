"""Which unit calls which, by the relocations of the built objects (what a table of functions names is no call).
circles: no two units call each other, by whatever way, but those of CIRCLES, each with its reason; a row that no circle needs is refused, too.
unused:  a function or a table with an external name is used outside its unit, or a test or a benchmark names it; UNUSED has the others.
Usage: calls.py [BUILD]; prints each breach with what to do."""
import collections
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(HERE))
BUILD = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
FOLDERS = ("base", "trace", "capture", "hw", "sim", "timesync", "pki", "proto", "httpd", "agent", "aggregator", "webhook", "cli")
GUESTS = ("sim/nrt/", "sim/simclock_preload")  # another vendor's library, and what stands in front of the C library

CIRCLES = [  # (units that may call each other, why)
    ({"aggregator/loop/loop", "aggregator/loop/loop_effects", "aggregator/loop/loop_requests", "aggregator/loop/loop_results"},
     "one loop: an effect may have its result at once, and a result has effects"),
    ({"trace/store/stream", "trace/store/stream_bind", "trace/store/stream_read"}, "a stream with arrows is bound by a second stream of points"),
]
UNUSED = {  # name: why it stays
    "mrd_nrt_pick": "called by the assembly of nrt_real.c",
    "mrd_nrt_real_dlsym": "called by the assembly of nrt_real.c",
}


def relocated(obj):
    """(names that the code of an object needs, names that its data needs)."""
    code, data, into = set(), set(), None
    for line in subprocess.run(["readelf", "-rW", obj], capture_output=True, text=True).stdout.splitlines():
        section = re.match(r"Relocation section '\.rela?(\.\S+)'", line)
        if section:
            into = None if section.group(1).startswith(".debug") else code if section.group(1).startswith(".text") else data
        elif into is not None and len(line.split()) >= 5:
            into.add(line.split()[4].split("@")[0])
    return code, data


def defined(obj):
    return {line.split()[-1] for line in subprocess.run(["nm", "-g", "--defined-only", obj], capture_output=True, text=True).stdout.splitlines() if line}


def objects():
    """(unit, object, source) of each source that the build compiles now; what an earlier build left there does not count."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    for one in commands:
        unit = os.path.splitext(os.path.relpath(one["file"], ROOT))[0]
        made = re.search(r" -o (\S+)", one["command"])
        if made and unit.startswith(tuple(f + "/" for f in FOLDERS)) and not unit.startswith(GUESTS):
            yield unit, os.path.join(one["directory"], made.group(1)), one["file"]


def stale(built):
    """Why the objects are not those of the sources; None: they are."""
    for _, made, source in built:
        if not os.path.exists(made):
            return f"{os.path.relpath(made, BUILD)} is missing"
        if os.path.getmtime(made) < os.path.getmtime(source):
            return f"{os.path.relpath(made, BUILD)} is older than {os.path.relpath(source, ROOT)}"
    return None


def components(graph):
    """Sets of more than one unit that reach each other."""
    def reach(start, edges):
        seen, todo = {start}, [start]
        while todo:
            for to in edges.get(todo.pop(), ()):
                if to not in seen:
                    seen.add(to)
                    todo.append(to)
        return seen
    back = collections.defaultdict(set)
    for a, tos in graph.items():
        for b in tos:
            back[b].add(a)
    left, found = set(graph), []
    while left:
        one = next(iter(left))
        part = reach(one, graph) & reach(one, back)
        left -= part
        if len(part) > 1:
            found.append(part)
    return found


def circles(calls):
    """Breaches: circles that no row of the list allows, and rows without a circle."""
    found = components(calls)
    for part in found:
        if not any(part <= allowed for allowed, _ in CIRCLES):
            edges = [f"{a} -> {b}" for a in sorted(part) for b in sorted(calls[a] & part)]
            yield f"{min(part)}: stands in a circle of calls with {', '.join(sorted(part - {min(part)}))} ({'; '.join(edges)}): move what both need below them"
    for allowed, _ in CIRCLES:
        for unit in sorted(allowed - set().union(*[part for part in found if part <= allowed])):
            yield f"{unit}: stands in a row of CIRCLES and calls nobody who calls it: take it out of the row"


def finds_planted(calls):
    """That one call more, from a unit to one that calls it, is found."""
    for a in sorted(calls):
        for b in sorted(calls[a]):
            if a not in calls[b] and not any({a, b} <= allowed for allowed, _ in CIRCLES):
                return any("circle of calls" in breach for breach in circles({**calls, b: calls[b] | {a}}))
    return False


def named_in_tests():
    """Names in the sources of tests, benchmarks and examples, and in the public header."""
    words = set()
    for path in subprocess.run(["git", "-C", ROOT, "ls-files", "tests", "bench", "examples", "capture/meridian.h"], capture_output=True, text=True).stdout.split("\n"):
        if path.endswith((".c", ".h", ".cc", ".cpp", ".py")) and not path.startswith("tests/house/"):
            with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
                words.update(re.findall(r"\bmrd_\w+", f.read()))
    return words


def main():
    owner, code, needs = {}, collections.defaultdict(set), collections.defaultdict(set)
    if not os.path.exists(os.path.join(BUILD, "compile_commands.json")):
        print("calls: skipped, nothing is built in", BUILD)
        sys.exit(77)
    built = list(objects())
    if not built or stale(built):
        print(f"FAILED {stale(built) or 'no object is of this repository'}: build everything before this check (cmake --build {BUILD})")
        sys.exit(1)
    for unit, path, _ in built:
        of_code, of_data = relocated(path)
        code[unit] |= of_code
        owner.update((name, unit) for name in defined(path) if name.startswith("mrd_"))
        for name in of_code | of_data:
            needs[name].add(unit)
    calls = {unit: {owner[name] for name in names if name in owner} - {unit} for unit, names in code.items()}
    breaches = list(circles(calls))
    if not finds_planted(calls):
        breaches.append("tests/house/calls.py: does not find a circle that was planted")
    unused = {name for name, unit in owner.items() if not needs[name] - {unit} and not name.startswith("mrd__")} - named_in_tests()
    for name in sorted(unused - set(UNUSED)):
        breaches.append(f"{owner[name]}: {name} is used by no other unit and by no test: make it static, or remove it")
    for name in sorted(set(UNUSED) - unused):
        breaches.append(f"tests/house/calls.py: {name} of UNUSED is used: take it out")
    print(f"{len(calls)} units, {sum(map(len, calls.values()))} pairs of them call, {len(owner)} names; {len(breaches)} breaches")
    for b in breaches:
        print("FAILED", b)
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
