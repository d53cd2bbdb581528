"""The shipped queries give the same rows in SQLite, in DuckDB over the Parquet files (where npm has it), and what the report
says: on real traces, a generated capture directory, and random profiles in the layout of the system profile."""
import glob
import json
import os
import random
import subprocess
import sys

from lib import DATA, SOURCE, check, equal, finish, run, tmp

sys.path.insert(0, os.path.join(SOURCE, "tests", "trace"))
sys.path.insert(0, os.path.join(SOURCE, "python"))
import meridian_parquet
import readers

QUERIES = sorted(os.path.basename(f)[:-4] for f in glob.glob(os.path.join(SOURCE, "sql", "*.sql")))
work = tmp()


def random_system_profile(path, seed):
    """Spans of a few cores that overlap at will, collectives, host calls and losses: nothing that a runtime would do."""
    r = random.Random(seed)
    start = 1_760_000_000_000_000_000
    events = []
    for node in range(2):
        for pid in range(2):
            for core in range(2):
                at = start
                for k in range(40):
                    at += r.choice((0, 0, 100, 1000, 5000))
                    name = r.choice(("nc_exec_running", "cc_running", "cc_exec_barrier", "dmem_buf_copyin", "nrt_execute", "kbl_exec_pre"))
                    source = "neuron_hw" if name in ("nc_exec_running", "cc_running", "cc_exec_barrier") else "neuron_rt"
                    args = {"gid": 1 + k % 2, "op_id": k // 4, "size": 4096} if name == "cc_running" else {}
                    events.append({"duration": r.choice((0, 50, 700, 4000, 20000)), "instance_id": f"i-{node}", "lnc_idx": str(core), "process_id": str(100 + pid),
                                   "thread_id": core, "name": name, "timestamp": at + r.randrange(3000), "trace_event_source": source, "worker_gid": node * 4 + pid * 2 + core,
                                   **({"args": args} if args else {})})
    with open(path, "w") as f:
        json.dump({"trace_events": sorted(events, key=lambda e: e["timestamp"])}, f)


def rows(profile, query):
    out, _ = run("sql", query, profile, "--format", "json")
    return [json.loads(line) for line in out.splitlines()]


def text(rows_):
    return [[None if v is None else str(v) for v in row] for row in rows_]


def against_report(where, what):
    """late_ranks and exposed_communication against report.json and against the table of verdicts."""
    with open(os.path.join(where, "report.json")) as f:
        report = json.load(f)["report"]
    verdicts = rows(where, "SELECT * FROM verdicts ORDER BY worker")
    equal(len(verdicts), len(report["workers"]), f"{what}: workers")
    parts = {r["worker"]: r for r in rows(where, "exposed_communication")}
    late = {r["worker"]: r for r in rows(where, "late_ranks")}
    for v, w in zip(verdicts, report["workers"]):
        who = f"{what}: worker {v['worker']}"
        for part in ("compute", "both", "exposed", "copy", "waiting", "host", "idle", "not_recorded"):
            got = parts.get(v["worker"], {}).get(part + "_ns", 0)
            equal(got, v[part + "_ns"], f"{who}: {part} of the query and of the report")
            if w["parts_ns"].get(part) is not None:  # null: the trace cannot tell
                equal(v[part + "_ns"], w["parts_ns"][part], f"{who}: {part} of the table and of report.json")
        mine = late.get(v["worker"], {})
        for name in ("took_part", "last_n", "proven_n", "alone_ns", "caused_ns", "proven_ns"):
            equal(mine.get(name, 0), v[name], f"{who}: {name}")
    return sum(v["last_n"] for v in verdicts), sum(v["proven_n"] for v in verdicts)


def against_engine(where, what, engine, ask):
    tables = os.path.join(where, "tables")
    setup, queries = "", []
    for q in QUERIES:
        out, _ = run("sql", q, tables, "--print", "--engine", engine)
        views, _, sql = out.partition(";\n--")
        setup = views + ";"
        queries.append("--" + sql.rstrip().rstrip(";"))
    got = ask(setup, *queries)
    if got is None:
        return
    for q, theirs in zip(QUERIES, got):
        mine = [list(r.values()) for r in rows(where, q)]
        equal(text(mine), text(theirs), f"{what}: {q} in SQLite and in {engine}")


def steps_add_up(where, what):
    for r in rows(where, "step_breakdown"):
        total = sum(r[p + "_ns"] for p in ("compute", "both", "exposed", "copy", "waiting", "host", "idle"))
        equal(total, r["length_ns"], f"{what}: parts of step {r['name']} of worker {r['worker']}")


def tables_agree(where, what):
    """Every table: the Parquet parts, read by the plain reader, and SQLite hold the same rows."""
    with open(os.path.join(where, "tables", "_manifest.json")) as f:
        manifest = json.load(f)
    listed = set()
    for t in manifest["tables"]:
        columns, theirs = None, []
        for part in t["parts"]:
            listed.add(part["path"])
            f = meridian_parquet.File(os.path.join(where, "tables", part["path"]))
            equal(f.rows, part["rows"], f"{what}: rows of {part['path']}")
            columns = f.columns
            got = f.read()
            theirs += list(zip(*(got[c] for c in columns)))
        mine = [tuple(r[c] for c in columns) for r in rows(where, f"SELECT * FROM {t['table']}")]
        equal(len(mine), t["rows"], f"{what}: rows of {t['table']}")
        whole = lambda row: repr([int(v) if isinstance(v, float) and v.is_integer() else v for v in row])
        if sorted(map(whole, mine)) != sorted(map(whole, theirs)):
            odd = [(a, b) for a, b in zip(mine, theirs) if a != b][:1]
            check(False, f"{what}: {t['table']} differs between SQLite and Parquet: {odd}")
    found = {os.path.relpath(f, os.path.join(where, "tables")) for f in glob.glob(os.path.join(where, "tables", "**", "*.parquet"), recursive=True)}
    equal(found, listed, f"{what}: files and manifest")


def vendor_readers(where, what):
    """The vendor's users: executions of a core by name and source, their windows and flow ids."""
    f = meridian_parquet.File(os.path.join(where, "system_profile", "SystemProfileEvents.parquet"))
    got = f.read(["name", "trace_event_source", "start_ts", "end_ts", "flow_id", "pcore_idx", "instance_id", "process_id", "nc_idx", "extra_attributes_json", "duration_ns"])
    picked = [i for i, (n, s) in enumerate(zip(got["name"], got["trace_event_source"])) if n == "nc_exec_running" and s == "neuron_hw"]
    for i in picked:
        check(got["end_ts"][i] - got["start_ts"][i] == got["duration_ns"][i], f"{what}: duration of {i}")
    mine = rows(where, "SELECT COUNT(*) AS n, SUM(dur_ns) AS ns FROM events WHERE name = 'nc_exec_running' AND source = 'neuron_hw'")[0]
    equal((len(picked), sum(got["duration_ns"][i] for i in picked)), (mine["n"], mine["ns"] or 0), f"{what}: executions in both dialects")
    fields = meridian_parquet.File(os.path.join(where, "system_profile", "SchemaFields.parquet")).read()
    equal([n for t, n in zip(fields["table_name"], fields["field_name"]) if t == "SystemProfileEvents"], f.columns, f"{what}: SchemaFields and the file")


def profile(name, *words):
    where = os.path.join(work, name)
    run("view", *words, "--output-format", "parquet,parquet-explorer,sqlite,csv,report-json", "-o", where, "--vendor-tool", "none", want=None)
    last, proven = against_report(where, name)
    against_engine(where, name, "duckdb", readers.duckdb)
    if name in ("generated", "dlrm"):
        against_engine(where, name, "clickhouse", readers.clickhouse)
    steps_add_up(where, name)
    tables_agree(where, name)
    vendor_readers(where, name)
    return where, last, proven


capture = os.path.join(work, "capture")
subprocess.run([sys.executable, os.path.join(SOURCE, "tests/e2e/gen_capture.py"), capture, "6"], check=True)
where, _, _ = profile("generated", "-d", capture)
for seed in (1, 2, 3):
    random_system_profile(os.path.join(work, f"random{seed}.json"), seed)
    profile(f"random{seed}", os.path.join(work, f"random{seed}.json"))
files = sorted(glob.glob(os.path.join(DATA, "param-dlrm-8rank-r0-3", "*.gz")))
if files:
    _, last, proven = profile("dlrm", *files, "--align", "collectives")
    check(last > 0 and 0 < proven < last, f"dlrm: {proven} of {last} proven")
    both, _ = run("sql", "SELECT session_id, COUNT(*) AS n FROM events GROUP BY session_id ORDER BY 1", where, os.path.join(work, "dlrm"), "--format", "csv")
    equal([line.split(",")[0] for line in both.splitlines()], ["session_id", "s-files", "s-files#2"], "two profiles in one query")

# ---- what is wrong is said ----
for words, status, said in ((("late_rank", where), 2, "late_ranks"), (("SELECT nothing FROM events", where), 2, "nothing"), (("late_ranks", "/nowhere"), 1, "/nowhere"),
                            (("late_ranks", os.path.join(work, "capture")), 1, "--output-format sqlite"), (("DELETE FROM steps", where), 2, "readonly")):
    _, err = run("sql", *words, want=status)
    check(said in err, f"meridian sql {words[0]}: {err!r} does not name {said}")
out, _ = run("sql", "--list")
equal([line.split()[0] for line in out.splitlines()], QUERIES, "the list of queries")
finish()
