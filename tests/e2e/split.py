"""A Perfetto trace split by time, judged by the real importer: each part opens alone and without an error, and all parts together,
without what they repeat, have the slices, arguments, arrows and samples of the file that is not split. For files (`view`), for a
merged session (`record`, the aggregator), for a slice that is merged while it is sent (`fetch`)."""
import collections
import functools
import json
import os
import random

from lib import Importer, check, equal, finish, need_daemons, run, tmp
from service import Service

seed = int(os.environ.get("MRD_SEED", "1"))
print(f"MRD_SEED={seed}")
work, importer = tmp(), Importer()

TRACKS = """with recursive above(id, path, up) as (select id, name, parent_id from track union all
  select a.id, t.name || '/' || a.path, t.parent_id from above a join track t on t.id = a.up)
  select id, path from above where up is null"""
SLICES = """select s.id, s.ts, s.dur, s.name, coalesce(s.category, ''), s.track_id, s.depth, s.arg_set_id,
  coalesce((select int_value from args a where a.arg_set_id = s.arg_set_id and a.key = 'debug.meridian_continued'), 0),
  coalesce((select int_value from args a where a.arg_set_id = s.arg_set_id and a.key = 'debug.meridian_begin_ns'), 0) from slice s"""
ARGS = """select s.id, a.key, a.display_value from slice s join args a using (arg_set_id)
  where a.key not in ('debug.meridian_continued', 'debug.meridian_begin_ns')"""
FLOWS = "select slice_out, slice_in from flow"
SAMPLES = "select track_id, ts, value from counter order by ts, id"


class Trace:
    """What the importer says of one file, by paths of tracks."""

    def __init__(self, path, before=()):
        bad, tracks, slices, args, flows, samples = importer.query(path, Importer.BAD, TRACKS, SLICES, ARGS, FLOWS, SAMPLES)
        equal(bad, [], f"{path}: what the importer complains of")
        at = {t[0]: t[1] for t in tracks}
        told = collections.defaultdict(list)
        for id, key, value in args:
            told[id].append((key, value))
        self.slices, self.repeated, identity = [], [], {}
        for id, ts, dur, name, category, track, depth, _, continued, begin in slices:
            row = (at[track], int(ts), int(dur), name, category, int(depth), tuple(sorted(told[id])))
            (self.repeated if int(continued) else self.slices).append((row, int(begin)))
            identity[id] = ("again", at[track], int(begin), name) if int(continued) else ("is", at[track], int(ts), int(dur), name)
        self.flows = [(identity[a], identity[b]) for a, b in flows]
        self.samples, self.again, known = [], [], {row for b in before for row, _, _ in b.samples}
        for t, ts, v in samples:  # of a counter that an earlier part has, the first one is repeated
            (self.again if at[t] in known else self.samples).append((at[t], int(ts), float(v)))
            known.discard(at[t])


def whole(points, slices):
    """The slices that an end of an arrow may stand for: a repeated one is told by its row and a time within it."""
    if points[0] == "is":
        return {points[1:]}
    return {s for s in slices[points[1]] if s[1] <= points[2] and (s[2] < 0 or points[2] <= s[1] + s[2])}


@functools.lru_cache(None)
def only(path):
    return Trace(path)


def compare(one, folder, what, stem="system_profile"):
    with open(os.path.join(folder, stem + ".parts.json")) as f:
        index = json.load(f)
    files = [os.path.join(folder, p["file"]) for p in index["parts"]]
    equal(sorted(n for n in os.listdir(folder) if n.startswith(stem + ".") and n.endswith(".pftrace")), sorted(os.path.basename(n) for n in files),
          f"{what}: the index names the parts")
    check(len(files) > 1, f"{what}: {len(files)} parts")
    reference, parts = only(one), []
    for f in files:
        parts.append(Trace(f, parts))
    for p, path, part in zip(index["parts"], files, parts):
        equal(p["bytes"], os.path.getsize(path), f"{what}: bytes of {path}")
        check(os.path.getsize(path) <= index["limit_bytes"], f"{what}: {path} has {p['bytes']} bytes")
        times = [row[1] for row, _ in part.slices] + [s[1] for s in part.samples]
        check(times and p["begin_ns"] <= min(times) and max(t for t in times) <= p["last_ns"] + 1, f"{what}: times of {path}: {p}")
        equal(len(part.repeated) + len(part.again), p["repeated"], f"{what}: repeated in {path}")
        check(p["nodes"], f"{what}: nodes of {path}")
    for before, after in zip(index["parts"], index["parts"][1:]):
        check(before["last_ns"] < before["cut_ns"] == after["begin_ns"], f"{what}: parts do not overlap: {before}, {after}")
    got = collections.Counter(row for p in parts for row, _ in p.slices)
    want = collections.Counter(row for row, _ in reference.slices)
    equal(list((want - got).items())[:3], [], f"{what}: slices lost")
    equal(list((got - want).items())[:3], [], f"{what}: slices that the whole has not")
    # clock bounds have a sample at the end of the last file, as of the only one
    got, want = collections.Counter(s for p in parts for s in p.samples), collections.Counter(reference.samples)
    equal((list((want - got).items())[:3], list((got - want).items())[:3]), ([], []), f"{what}: samples lost, and too many")
    for p, part in zip(index["parts"][1:], parts[1:]):
        equal([s for s in part.again if s[1] != p["begin_ns"]][:3], [], f"{what}: samples are repeated where the part begins")
    rows = collections.defaultdict(set)
    for row, _ in reference.slices:
        rows[row[0]].add((row[0], row[1], row[2], row[3]))
    arrows = collections.Counter(((a[1:]), (b[1:])) for a, b in reference.flows)
    found = 0
    for a, b in (flow for p in parts for flow in p.flows):
        pairs = [(x, y) for x in whole(a, rows) for y in whole(b, rows) if arrows[x, y] > 0]
        if check(pairs, f"{what}: an arrow that the whole has not: {a} {b}"):
            arrows[pairs[0]] -= 1
            found += 1
    equal(found, len(reference.flows), f"{what}: arrows")
    return reference, parts


def made(path, spans):
    """Nested spans of two ranks, counters, arrows between ranks that take long, a span around all, one that never ends."""
    r = random.Random(seed)
    events = [{"ph": "M", "pid": p, "name": "process_name", "args": {"name": f"rank {p}"}} for p in (1, 2)]
    for pid in (1, 2):
        events.append({"ph": "X", "pid": pid, "tid": 1, "ts": 0, "dur": spans * 10 + 1000, "name": "epoch", "cat": "user"})
        events.append({"ph": "B", "pid": pid, "tid": 9, "ts": 5, "name": "never ends", "cat": "user"})
        at = 10.0
        for i in range(spans):
            dur = r.choice([4, 6, 8, 40, 900]) + r.random()
            events.append({"ph": "X", "pid": pid, "tid": r.choice([1, 2, 3]), "ts": round(at, 3), "dur": round(dur, 3), "name": f"op {r.randrange(300)}",
                           "cat": r.choice(["kernel", "cpu_op"]), "args": {"size": r.randrange(1 << 40), "why": "x" * r.randrange(20)}})
            if i % 7 == 0:
                events.append({"ph": "C", "pid": pid, "tid": 1, "ts": round(at, 3), "name": f"queue {i % 3}", "args": {"depth": r.randrange(100)}})
            if i % 11 == 0:
                events += [{"ph": "X", "pid": pid, "tid": 5, "ts": round(at, 3), "dur": 2, "name": "send", "cat": "user"},
                           {"ph": "s", "pid": pid, "tid": 5, "ts": round(at + 1, 3), "name": "a", "cat": "f", "id": i * 2 + pid},
                           {"ph": "X", "pid": 3 - pid, "tid": 6 + pid, "ts": round(at + 700, 3), "dur": 2, "name": "receive", "cat": "user"},
                           {"ph": "f", "bp": "e", "pid": 3 - pid, "tid": 6 + pid, "ts": round(at + 701, 3), "name": "a", "cat": "f", "id": i * 2 + pid}]
            at += 10 + r.random()
    with open(path, "w") as f:
        json.dump({"traceEvents": events}, f)


def files():
    source = os.path.join(work, "in.json")
    made(source, 3500)
    run("view", source, "-o", os.path.join(work, "one"), "--output-format", "perfetto", "--split", "0")
    out, _ = run("view", source, "-o", os.path.join(work, "parts"), "--output-format", "perfetto", "--split", "200K")
    check("system_profile.2.pftrace" in out and "each opens alone" in out, f"view names the parts: {out}")
    reference, parts = compare(os.path.join(work, "one", "system_profile.pftrace"), os.path.join(work, "parts"), "view")
    check(len(parts) > 3 and len(reference.flows) > 300, f"{len(parts)} parts, {len(reference.flows)} arrows")
    check(sum(len(p.repeated) for p in parts) > 3 * len(parts) and all(p.again for p in parts[1:]), "spans and samples are repeated")
    check(any(a[0] == "again" for p in parts for a, _ in p.flows), "arrows across a cut")
    run("view", source, "-o", os.path.join(work, "packed"), "--output-format", "perfetto", "--split", "200K", "--compress")
    compare(os.path.join(work, "one", "system_profile.pftrace"), os.path.join(work, "packed"), "view --compress")
    run("view", source, "-o", os.path.join(work, "parts"), "--output-format", "perfetto", "--force")
    equal(os.listdir(os.path.join(work, "parts")), ["system_profile.pftrace"], "parts of an earlier run are gone")
    with open(os.path.join(work, "parts", "system_profile.pftrace"), "rb") as a, open(os.path.join(work, "one", "system_profile.pftrace"), "rb") as b:
        check(a.read() == b.read(), "a trace that fits is one file, the same as without a limit")


def cluster():
    with Service(merge_split="400K") as service:
        id = service.recorded(service.begin(agents=2), 12000)
        whole, slice, one = (service.path(n) for n in ("whole", "slice", "one"))
        run("fetch", id, "-o", one, "--format", "perfetto", "--start", "0s", "--split", "0", env=service.env)
        equal(os.listdir(one), ["system_profile.pftrace"], "--split 0: one file")
        out, _ = run("fetch", id, "-o", whole, "--format", "perfetto", env=service.env)
        check("opens alone" in out and f"meridian open {whole}/system_profile.pftrace" in out, f"fetch: {out}")
        compare(os.path.join(one, "system_profile.pftrace"), whole, "fetch of a finished profile")
        doc = service.session(id)
        equal([p["file"] for p in doc["profile_parts"]], sorted((n for n in os.listdir(whole) if n.endswith(".pftrace")),
                                                                key=lambda n: (n.count("."), len(n), n)), "the session names the parts")
        sums = service.read(f"/api/v1/sessions/{id}/profile/SHA256SUMS").body.decode()
        check(all(f"  {n}\n" in sums for n in os.listdir(whole)), f"SHA256SUMS: {sums}")
        run("fetch", id, "-o", slice, "--format", "perfetto", "--start", "0s", "--split", "300K", env=service.env)
        compare(os.path.join(one, "system_profile.pftrace"), slice, "fetch of a slice")
        equal(sorted(n for n in os.listdir(slice) if n.endswith(".tar")), [], "no archive is left")
        run("fetch", id, "-o", slice, "--format", "perfetto", "--start", "0s", "--force", env=service.env)
        equal(os.listdir(slice), ["system_profile.pftrace"], "one part leaves neither parts nor an index")
        # a fetch that ended after some parts: what is whole is not sent again, what is damaged is
        os.unlink(os.path.join(whole, "system_profile.pftrace"))
        before = os.stat(os.path.join(whole, "system_profile.2.pftrace")).st_ino
        with open(os.path.join(whole, "system_profile.3.pftrace"), "r+b") as f:
            f.write(b"x")
        run("fetch", id, "-o", whole, "--format", "perfetto", env=service.env)
        equal(os.stat(os.path.join(whole, "system_profile.2.pftrace")).st_ino, before, "a part that is there is kept")
        compare(os.path.join(one, "system_profile.pftrace"), whole, "fetch goes on")
        for query, why in (("format=json&split=5", "perfetto only"), ("split=x", "a number of bytes")):
            reply = service.ask("GET", f"/api/v1/sessions/{id}/profile?{query}")
            check(reply.status == 400 and why in reply.json()["detail"], f"{query}: {reply.status} {reply.body[:200]}")


need_daemons()
files()
cluster()
finish()
