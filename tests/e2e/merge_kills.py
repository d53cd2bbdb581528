"""The aggregator, killed with SIGKILL (one time in five ended by SIGTERM) while it merges a session into tables and exports them, and started again: a manifest that is there lists parts that
are all there and whole, a database that is there is whole; in the end store and copy have each event once, no file that no manifest lists, and the merge
is said to be done. DuckDB reads the tables, where it is to be had.
Usage: merge_kills.py TIMES [SEED]"""
import hashlib
import json
import os
import random
import re
import sqlite3
import sys

from lib import SOURCE, check, equal, finish, until
from service import Service
from wait import let_it_run

sys.path[:0] = [os.path.join(SOURCE, "tests", d) for d in ("trace", "standin")] + [os.path.join(SOURCE, "python")]
import meridian
import readers

TIMES, SEED = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
TICKS, IN_A_ROW = 20000, 10  # of a session; kills of it
rng = random.Random(SEED)


def parts_of(tables):
    """The parts that the manifest lists; None without one."""
    path = os.path.join(tables, "_manifest.json")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return [p for t in json.load(f)["tables"] for p in t["parts"]]


def whole(profile, want, when):
    """What is there of tables and database is whole. Which of the two are there."""
    parts, database = parts_of(os.path.join(profile, "tables")), os.path.join(profile, "profile.sqlite")
    for part in parts or []:
        path = os.path.join(profile, "tables", part["path"])
        if check(os.path.exists(path), f"{when}: {part['path']} is listed and not there"):
            with open(path, "rb") as f:
                equal(hashlib.sha256(f.read()).hexdigest(), part["sha256"], f"{when}: {part['path']}")
    if os.path.exists(database):
        db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        equal(db.execute("PRAGMA integrity_check").fetchone()[0], "ok", f"{when}: the database")
        got = [json.loads(args)["i"] for (args,) in db.execute("SELECT args FROM events WHERE name = 'tick'")]
        db.close()
        check(sorted(got) == want, f"{when}: {len(got)} ticks in the database, {len(set(got))} different ones of {len(want)}")
    return parts is not None, os.path.exists(database)


def complete(profile, want, when):
    tables = os.path.join(profile, "tables")
    equal(whole(profile, want, when), (True, True), f"{when}: tables and database")
    have = {os.path.relpath(os.path.join(at, name), tables) for at, _, names in os.walk(tables) for name in names if name.endswith(".parquet")}
    equal(have, {p["path"] for p in parts_of(tables) or []}, f"{when}: parts")
    equal([n for _, _, names in os.walk(profile) for n in names if re.search(r"part$|-journal$|-wal$", n)], [], f"{when}: what killed ones left")
    with meridian.open(tables) as p:
        got = [json.loads(e["args"])["i"] for e in p.table("events", as_="rows") if e["name"] == "tick"]
    check(sorted(got) == want, f"{when}: {len(got)} ticks, {len(set(got))} different ones of {len(want)}")
    rows = readers.duckdb("", "SELECT COUNT(*), COUNT(DISTINCT i), MIN(i), MAX(i) FROM (SELECT regexp_extract(args, '\"i\":(\\d+)', 1)::BIGINT AS i "
                              f"FROM read_parquet('{tables}/table=events/*/*/*.parquet') WHERE name = 'tick')")
    if rows is not None:
        equal([int(x) for x in rows[0][0]], [len(want), len(want), want[0], want[-1]], f"{when}: DuckDB")


killed, ticks, inside, there = 0, 0, 0, [0, 0]
with Service(export="unset", export_path="{session}", merge_formats="parquet,sqlite") as service:
    service.options["export"] = service.folder("shared")
    workload = service.begin()[0]
    while killed < TIMES:
        id = service.start("--name", "killed", "--require", "all")
        service.begun(id)
        workload.emit(TICKS)
        want, ticks = list(range(ticks + 1, ticks + TICKS + 1)), ticks + TICKS
        service.within_session(id)
        service.stop(id)
        stored, copy = service.path("store", "sessions", id, "profile"), service.path("shared", id, "profile")
        for n in range(min(IN_A_ROW, TIMES - killed)):
            if n > 0:
                until(lambda: service.session(id).get("profile", {}).get("state") == "done", f"seed {SEED}, kill {killed}: merged, and said so")
                equal(service.ask("POST", f"/api/v1/sessions/{id}/merge").status, 202, "merged again")
            let_it_run(rng.uniform(0, 0.6))
            doc = service.session(id)
            inside += doc["profile"]["state"] in ("waiting", "running") or doc["export"]["state"] != "done"
            (service.daemon.end if rng.random() < 0.2 else service.daemon.kill)()  # some end in order
            killed += 1
            there = [a + b for a, b in zip(there, whole(stored, want, f"seed {SEED}, kill {killed}"))]
            whole(copy, want, f"seed {SEED}, kill {killed}, the copy")
            service.aggregator()
            until(service.answers, "the aggregator answers")
        until(lambda: service.session(id).get("profile", {}).get("state") == "done", f"seed {SEED}, kill {killed}: merged, and said so")
        until(lambda: service.session(id).get("export", {}).get("state") == "done", f"seed {SEED}, kill {killed}: exported", 180)
        complete(stored, want, f"seed {SEED}, kill {killed}")
        complete(copy, want, f"seed {SEED}, kill {killed}, the copy")
        print(f"killed {killed} times, {inside} of them before the end of merge and export; {there[0]} manifests and {there[1]} databases were there, all whole", flush=True)
finish()
