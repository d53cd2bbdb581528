"""Tests --align collectives with the traces of four real ranks, into which the test puts clock
errors. The clocks must be aligned again. Traces whose collectives do not match must be refused with
a reason. Without --align, all clocks must be called unaligned."""
import glob
import json
import os
import random

from fractions import Fraction

from lib import check, data, equal, finish, load_json, run, tmp

GOAL_NS = 10_000
files = sorted(glob.glob(data("param-dlrm-8rank-r0-3", "*.json.gz")))
equal(len(files), 4, "ranks in the data")
docs = [load_json(path) for path in files]
START = min(int(e["ts"]) for d in docs for e in d["traceEvents"] if "nccl" in e["name"] and e["ph"] == "X") * 1000


def local(clock, true_ns):
    """What a clock (offset ns, ppm) shows at a true time: exact, then rounded to ns."""
    offset, ppm = clock
    return true_ns + offset + round(Fraction(ppm) * (true_ns - START) / 10**6)


def true_at(clock, local_ns):
    offset, ppm = clock
    return START + round((local_ns - offset - START) / (1 + Fraction(ppm) / 10**6))


def write(out, rank, clock, edit=None):
    """One rank as its clock would have shown it; ts and dur as decimal microseconds with three digits."""
    events = []
    for e in docs[rank]["traceEvents"]:
        e = dict(e)
        if "ts" in e:
            begin = Fraction(e["ts"]) * 1000
            moved = local(clock, int(begin))
            if "dur" in e:
                dur = local(clock, int(begin + Fraction(e["dur"]) * 1000)) - moved
                e["dur"] = "%d.%03d" % divmod(dur, 1000)
            e["ts"] = "%d.%03d" % divmod(moved, 1000)
        events.append(e)
    if edit:
        events = edit(events)
    # Numbers were kept as text so that none passed through a double: take their quotes off again.
    text = json.dumps(dict(docs[rank], traceEvents=events))
    for key in ("ts", "dur"):
        text = unquote(text, key)
    path = os.path.join(out, f"rank{rank}.json")
    with open(path, "w") as f:
        f.write(text)
    return path


def unquote(text, key):
    head, *rest = text.split(f'"{key}": "')
    return head + "".join(f'"{key}": ' + part.replace('"', "", 1) for part in rest)


def write_all(clocks, edits=None):
    out = tmp()
    return [write(out, r, clocks[r], (edits or {}).get(r)) for r in range(4)]


def view(paths, *options, want=0):
    out = tmp()
    _, err = run("view", *paths, "-o", out, "--output-format", "json,summary-json,summary-text,chrome,perfetto", *options, want=want)
    with open(os.path.join(out, "system_profile.json")) as f:
        profile = json.load(f)
    return profile, out, err


def spans(profile, scope):
    mine = [e for e in profile["trace_events"] if e.get("scope") == scope and e.get("kind") != "instant"]
    return [(int(e["timestamp"]), int(e["duration"]), e["name"], e.get("clock_bound_ns", 0), e) for e in mine]


def kernels(profile, scope):
    return sorted(s for s in spans(profile, scope) if s[2].startswith("ncclKernel"))


def truth(rank):
    """(begin, end, name) of every finished span, uninjected."""
    return [(int(Fraction(e["ts"]) * 1000), int((Fraction(e["ts"]) + Fraction(e["dur"])) * 1000), e["name"])
            for e in docs[rank]["traceEvents"] if e["ph"] == "X"]


def clocks_of(profile):
    return {c["name"]: c for c in profile["meridian"]["clocks"]}


def check_aligned(name, clocks):
    paths = write_all(clocks)
    profile, out, err = view(paths, "--align", "collectives")
    ends = []
    worst = worst_all = worst_bound = 0
    for r in range(4):
        got = kernels(profile, r + 1)
        want = sorted(t for t in truth(r) if t[2].startswith("ncclKernel"))
        equal([k[2] for k in got], [k[2] for k in want], f"{name}: collectives of rank {r}")
        ends.append([at + dur for at, dur, *_ in got])
        for i, ((at, dur, _, bound, _), (begin, end, _)) in enumerate(zip(got, want)):
            # The timeline is the clock of rank 0: compare with what that clock showed.
            off = abs(at + dur - local(clocks[0], end))
            worst = max(worst, off)
            if r > 0 and i == 0:
                equal(bound, None, f"{name}: bound before the end of the first collective of rank {r}")
            else:
                check(isinstance(bound, int) and (bound > 0) == (r > 0), f"{name}: bound of a collective of rank {r}: {bound}")
            if r > 0 and isinstance(bound, int):
                worst_bound = max(worst_bound, off - bound)
        # Every span of the file, not only those that were lined up; order and durations as in the file.
        all_got = sorted(spans(profile, r + 1), key=lambda s: (s[0], s[1], s[2]))
        in_file = sorted((local(clocks[r], b), local(clocks[r], e) - local(clocks[r], b), n) for b, e, n in truth(r))
        equal(sorted((d, n) for _, d, n, *_ in all_got), sorted((d, n) for _, d, n in in_file), f"{name}: durations of rank {r}")
        shift = sorted((b, n) for b, e, n in truth(r))
        got_in_order = sorted((a, n) for a, _, n, *_ in all_got)
        for (a, _), (b, _) in zip(got_in_order, shift):
            worst_all = max(worst_all, abs(a - local(clocks[0], b)))
    spread = max(max(e[i] for e in ends) - min(e[i] for e in ends) for i in range(len(ends[0])))
    check(spread <= GOAL_NS, f"{name}: ends of one collective are up to {spread} ns apart")
    check(worst <= GOAL_NS, f"{name}: an end of a collective is {worst} ns off the truth")
    equal(worst_bound, 0, f"{name}: how far a truth is outside its bound")
    print(f"{name}: ends of a collective at most {spread} ns apart, {worst} ns from the truth; begin of any span {worst_all} ns")
    states = [c for c in clocks_of(profile).values() if c["name"] != "unaligned"]
    equal(sorted(c["quality"] for c in states), ["aligned"] * 3 + ["reference"], f"{name}: qualities")
    for r, c in enumerate(states):
        equal(c["method"], "collectives", f"{name}: method of {c['name']}")
        equal(c["violations"], 0, f"{name}: violations of {c['name']}")
        check(c["bound_ns"] >= 0, f"{name}: bound of {c['name']}: {c}")
        want = local(clocks[0], START) - local(clocks[r], START)
        check(abs(c["estimate_ns"] - want) < 20_000, f"{name}: estimate of {c['name']}: {c['estimate_ns']}, injected {want}")
    with open(os.path.join(out, "summary.txt")) as f:
        text = f.read()
    for c in states:
        check(f"{c['name']}: {c['estimate_ns']} ns, bound" in text, f"{name}: {c['name']} with its estimate in summary.txt")
    with open(os.path.join(out, "summary.json")) as f:
        equal({c["name"]: c for c in json.load(f)["meridian"]["clocks"]}, clocks_of(profile), f"{name}: clocks of summary.json")
    raw = open(os.path.join(out, "system_profile.pftrace"), "rb").read()
    for c in states:
        check(f"{c['name']}: {c['quality']} by collectives, session - local {c['estimate_ns']} ns".encode() in raw,
              f"{name}: {c['name']} in the metadata of the Perfetto file")
        check(f"clock error bound {c['name']}".encode() in raw, f"{name}: row with the bound of {c['name']} in the Perfetto file")
    notes = " ".join(profile["meridian"]["notes"])
    check("ends off by" in notes and "0.2 ppm a second" in notes, f"{name}: residuals and assumption in the notes: {notes}")
    return profile


HOUR = 3600 * 10**9
check_aligned("as recorded", [(0, 0)] * 4)
check_aligned("tens of ms", [(0, 0), (34_567_891, 5), (-61_000_017, -42), (90_123_456, 200)])
check_aligned("hours", [(0, 0), (3 * HOUR + 1, -200), (-7 * HOUR - 999_999_937, 91), (HOUR, -5)])
check_aligned("the reference is off too", [(-5 * HOUR + 123, 150), (44_000_001, -150), (2 * HOUR, 37), (-20_000_000, 0)])
seed = int(os.environ.get("MRD_SEED", "1"))
rng = random.Random(seed)
print("seed", seed)
for i in range(2):
    check_aligned(f"drawn {i} of seed {seed}",
                  [(0, 0)] + [(rng.choice([-1, 1]) * rng.randrange(10**7, 10 * HOUR), rng.choice([-1, 1]) * rng.randrange(5, 201))
                              for _ in range(3)])

# --clock raw: clocks are described, times stay; and --align none: every clock says that it is unaligned.
injected = [(0, 0), (HOUR, 20), (-HOUR, -20), (5 * HOUR, 100)]
paths = write_all(injected)
for options, align, times in ((["--align", "collectives", "--clock", "raw"], "collectives", "raw"), ([], "none", "unaligned"),
                              (["--clock", "utc"], "none", "utc")):
    profile, out, err = view(paths, *options)
    for r in range(4):
        got = sorted((a, d, n) for a, d, n, *_ in spans(profile, r + 1))
        want = sorted((local(injected[r], b), local(injected[r], e) - local(injected[r], b), n) for b, e, n in truth(r))
        equal(got == want, True, f"{options}: times of rank {r} as in the file")
    facts = profile["meridian"]["facts"]
    equal(facts["clock.align"], align, f"{options}: fact clock.align")
    check(facts["clock.times"].startswith(times), f"{options}: fact clock.times {facts}")
    if align == "none":
        for c in clocks_of(profile).values():
            equal((c["quality"], c["method"], c.get("bound_ns", -1)), ("unaligned", "none", -1), f"{options}: label of {c['name']}")
        equal(len(clocks_of(profile)), 5, f"{options}: one clock for each file")
        text = open(os.path.join(out, "summary.txt")).read()
        check("bound unknown, unaligned" in text, f"{options}: label in summary.txt")
        check(b"unaligned by none" in open(os.path.join(out, "system_profile.pftrace"), "rb").read(), f"{options}: label in the trace")
        check("unaligned" in open(os.path.join(out, "system_profile.trace.json")).read(), f"{options}: label in the chrome file")


# Sets that do not match.
def is_collective(e):
    return e["name"].startswith("ncclKernel")


def without(*numbers):
    def edit(events):
        order = sorted((e for e in events if is_collective(e)), key=lambda e: Fraction(e["ts"]))
        gone = [id(order[n]) for n in numbers]
        return [e for e in events if id(e) not in gone]
    return edit


def swapped(events):
    order = sorted((e for e in events if is_collective(e)), key=lambda e: Fraction(e["ts"]))
    i = next(k for k in range(len(order) - 1) if order[k]["name"] != order[k + 1]["name"])
    order[i]["name"], order[i + 1]["name"] = order[i + 1]["name"], order[i]["name"]
    return events


def later(first_ms, step_ms):
    """Moves the collectives: the k-th by k * 50 ms, every second one by first_ms and all by k * step_ms more."""
    def edit(events):
        order = sorted((e for e in events if is_collective(e)), key=lambda e: Fraction(e["ts"]))
        for k, e in enumerate(order):
            e["ts"] = "%d.%03d" % divmod(int(Fraction(e["ts"]) * 1000) + (k * (50 + step_ms) + k % 2 * first_ms) * 1_000_000, 1000)
        return events
    return edit


same = {r: later(0, 0) for r in range(4)}  # another truth, in which all four agree
view(write_all(injected, same), "--align", "collectives")
for name, edits, said in (("one in the middle is gone", {2: without(4)}, "do not match"),
                          ("two in the middle are gone", {2: without(3, 4)}, "do not match"),
                          ("two have changed places", {2: swapped}, "do not match"),
                          ("every second ends at another time", {**same, 2: later(9, 0)}, "do not coincide"),
                          ("the clock runs 10 % too fast", {**same, 2: later(0, 5)}, "do not coincide"),
                          ("two differ from each other and the rest", {1: without(3, 4), 2: without(4)}, "do not match"),
                          ("none is left", {2: without(*range(8))}, "no matched collectives")):
    profile, out, err = view(write_all(injected, edits), "--align", "collectives", want=3)
    check(said in err, f"{name}: the reason on stderr: {err!r}")
    check(any(said in n for n in profile["meridian"]["notes"]), f"{name}: the reason in the notes: {profile['meridian']['notes']}")
    states = {n: c for n, c in clocks_of(profile).items() if n != "unaligned"}
    unaligned = [n for n, c in states.items() if c["quality"] == "unaligned" and c["method"] == "none" and c.get("bound_ns", -1) == -1]
    odd = {1, 2} if name.startswith("two differ") else {2}
    all_refused = len(odd) == 2  # no majority is left
    equal(unaligned, [f"file clock of rank{r}.json" for r in range(4) if all_refused or r in odd], f"{name}: who is unaligned")
    equal(profile["meridian"]["facts"]["clock.align"], "refused" if all_refused else "collectives", f"{name}: fact clock.align")
    check(all_refused or "left out: file clock of rank2.json (" in err, f"{name}: who is left out: {err!r}")
    for r in range(4) if all_refused else odd:
        got = sorted(a for a, _, n, *_ in spans(profile, r + 1) if not n.startswith("ncclKernel"))
        want = sorted(local(injected[r], b) for b, e, n in truth(r) if not n.startswith("ncclKernel"))
        equal(got == want, True, f"{name}: times of rank {r} are left alone")
# One file alone, and inputs without a collective.
profile, _, err = view(paths[:1], "--align", "collectives")
check(any("nothing to align" in n for n in profile["meridian"]["notes"]), "one clock: says so")
finish()
