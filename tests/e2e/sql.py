"""The shipped queries give the same rows in SQLite, in the engines over the Parquet files that `make engines` installs, and what the report
says: on real traces, a generated capture directory, and random profiles in the layout of the system profile."""
import contextlib
import glob
import gzip
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time

from lib import DATA, SOURCE, check, equal, finish, run, tmp

sys.path.insert(0, os.path.join(SOURCE, "tests", "trace"))
sys.path.insert(0, os.path.join(SOURCE, "python"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "standin"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "engines"))
import parquet_read
import readers
from ask import MODULES

QUERIES = sorted(os.path.basename(f)[:-4] for f in glob.glob(os.path.join(SOURCE, "sql", "*.sql")))
work = tmp()


def random_system_profile(path, seed):
    """Spans of a few cores that overlap at will, collectives, host calls and steps that overlap, too: nothing that a runtime would do. The last core has calls only."""
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
                    args = {"gid": 1 + k % 2, "op_id": k // 4, "size": 4096} if name == "cc_running" else {"exec_id": k} if name == "nc_exec_running" else {}
                    half = {"pcore_idx": 2 * core + k % 2} if source == "neuron_hw" else {}
                    events.append({"duration": r.choice((0, 50, 700, 4000, 20000)), "instance_id": f"i-{node}", "lnc_idx": str(core), "process_id": str(100 + pid),
                                   "thread_id": core, "name": name, "timestamp": at + r.randrange(3000), "trace_event_source": source, "worker_gid": node * 4 + pid * 2 + core,
                                   **half, **({"args": args} if args else {})})
                    if name == "nc_exec_running" and r.random() < 0.6:  # the other half of an execution on two physical cores
                        events.append({**events[-1], "pcore_idx": 2 * core + 1 - k % 2, "timestamp": events[-1]["timestamp"] + r.choice((0, 40, 3000)), "duration": r.choice((10, 900))})
            for k in range(10):
                events.append({"duration": r.choice((0, 1000, 30000, 60000)), "instance_id": f"i-{node}", "process_id": str(100 + pid), "thread_id": 90 + k % 3,
                               "name": r.choice((f"ProfilerStep#{k}", f"step {k}", "train_step")), "timestamp": start + r.randrange(200000), "trace_event_source": "framework", "category": "user_annotation"})
    for k in range(20):
        events.append({"duration": 700, "instance_id": "i-1", "lnc_idx": "2", "process_id": "101", "thread_id": 2, "name": "nrt_execute", "timestamp": start + 1000 * k, "trace_event_source": "neuron_rt"})
    for source in ("nrt_api", "annotation"):
        events.append({"duration": 5, "instance_id": "i-1", "process_id": "101", "thread_id": 7, "name": f"of {source}", "timestamp": start, "trace_event_source": source})
    with open(path, "w") as f:
        json.dump({"trace_events": sorted(events, key=lambda e: e["timestamp"])}, f)


def rows(profiles, query):
    """Of one profile, or of several together."""
    out, _ = run("sql", query, *([profiles] if isinstance(profiles, str) else profiles), "--format", "json")
    return [json.loads(line) for line in out.splitlines()]


def text(rows_):
    return [[None if v is None else str(v) for v in row] for row in rows_]


def sqlite_text(value):
    """Any text as a literal of SQL."""
    return "CAST(x'" + value.encode().hex() + "' AS TEXT)"


def tsv_value(cell):
    """As ClickHouse's TabSeparated, MySQL's LOAD DATA and PostgreSQL's COPY read it."""
    return None if cell == "\\N" else re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[m[1]], cell)


def markdown_cells(line):
    """By CommonMark's rule: a backslash takes its meaning from the punctuation behind it; what has one left would be read as more than text."""
    cells = re.split(r"(?<!\\)((?:\\\\)*) ?\|", line)
    cells = ["".join(pair) for pair in zip(cells[0::2], [*cells[1::2], ""])]
    check(cells[0] == "" and cells[-1] == "", f"a row between bars: {line!r}")
    for cell in cells[1:-1]:
        check(not re.search(r"[<>*`&~$\[\]\\]|(?<!\w)_|_(?!\w)", re.sub(r"\\.", "", cell)), f"what Markdown reads as more than text: {cell!r}")
    return [re.sub(r"\\(.)", r"\1", cell[1:]) for cell in cells[1:-1]]


def against_report(where, what):
    """late_ranks and exposed_communication against report.json and against the table of verdicts."""
    with open(os.path.join(where, "report.json")) as f:
        report = json.load(f)["report"]
    verdicts = rows(where, "SELECT * FROM verdicts ORDER BY worker")
    equal(len(verdicts), len(report["workers"]), f"{what}: workers")
    parts = {r["worker"]: r for r in rows(where, "exposed_communication")}
    equal(list(parts.values()), rows(where, os.path.join(SOURCE, "tests", "oracle", "exposed_communication.sql")), f"{what}: exposed_communication, counted from the events")
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
    theirs = [(k["name"], k["count"], k["total_ns"], k["workers"], k["median_ns"], k["most_ns"], k["most_worker"]) for k in report["kernels"]]
    mine = [(r["name"], r["spans"], r["total_ns"], r["workers"], r["median_ns"], r["slowest_ns"], r["slowest_worker"]) for r in rows(where, "top_kernels")]
    check(len(mine) > 0, f"{what}: no kernels")
    equal(mine, theirs, f"{what}: top_kernels and the kernels of report.json")
    return sum(v["last_n"] for v in verdicts), sum(v["proven_n"] for v in verdicts)


FOLDER = os.environ.get("MERIDIAN_ENGINES") or os.path.join(SOURCE, "build-engines")


def asks(engine):
    """A function that runs queries in the engine: the one that `make engines` installed, or one that npm has. None if there is none."""
    only = os.environ.get("MERIDIAN_ENGINES_ONLY") # set by make engines; Spark takes minutes, and runs only there
    if only is None and engine == "spark":
        return None
    if only is not None and engine not in only.split(","):
        return None
    if os.path.isdir(os.path.join(FOLDER, MODULES[engine])):
        def ask(setup, *queries):
            got = subprocess.run([sys.executable, os.path.join(SOURCE, "tests", "engines", "ask.py"), engine], input=json.dumps({"setup": setup, "queries": queries}),
                                 capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": FOLDER})
            check(got.returncode == 0, f"{engine}: {got.stderr[-1500:]}")
            return json.loads(got.stdout) if got.returncode == 0 else None
        return ask
    if only is None and engine in ("duckdb", "clickhouse"):
        return getattr(readers, engine)
    return None


def note(engine, what, query, same, seconds):
    """Writes a line of the table of `make engines`."""
    if "MERIDIAN_ENGINES_LOG" in os.environ:
        with open(os.environ["MERIDIAN_ENGINES_LOG"], "a") as f:
            f.write(json.dumps({"engine": engine, "profile": what, "query": query, "equal": same, "seconds": seconds}) + "\n")


def against_engines(where, what, engines=("duckdb", "clickhouse", "polars", "datafusion")):
    """The shipped queries, unchanged, give in each engine the rows that they give in SQLite."""
    mine = {}
    for engine in engines:
        ask = asks(engine)
        if ask is None:
            left_out.add(engine)
            continue
        setup, queries = "", []
        for q in QUERIES:
            out, _ = run("sql", q, *([where] if isinstance(where, str) else where), "--print", "--engine", engine)
            views, _, sql = out.partition(";\n--")
            setup = views + ";"
            queries.append("--" + sql.rstrip().rstrip(";"))
        began = time.monotonic()
        got = ask(setup, *queries)
        took = time.monotonic() - began
        for i, q in enumerate(QUERIES):
            if got is None:
                note(engine, what, q, False, took / len(QUERIES))
                continue
            if q not in mine:
                mine[q] = text(list(r.values()) for r in rows(where, q))
            note(engine, what, q, equal(text(got[i]), mine[q], f"{what}: {q} in {engine} and in SQLite"), took / len(QUERIES))


PARTS = ("compute", "both", "exposed", "copy", "waiting", "host", "idle", "not_recorded")


def steps_add_up(where, what):
    """The parts of each step add up to it, and those of all steps are what steps.json counts. Returns how many steps there are, and what of them was not recorded."""
    first = {r["worker"]: r["first_ns"] for r in rows(where, "SELECT worker, first_ns FROM workers")}
    sums, steps = dict.fromkeys(PARTS, 0), set()
    for r in rows(where, "step_breakdown"):
        equal(sum(r[p + "_ns"] for p in PARTS), r["length_ns"], f"{what}: parts of step {r['name']} of worker {r['worker']}")
        steps.add((r["worker"], r["begin_ns"]))
        if first[r["worker"]] <= r["begin_ns"]:  # before its first span nothing is known of a worker: steps.json leaves the step out
            for p in PARTS:
                sums[p] += r[p + "_ns"]
    with open(os.path.join(where, "steps.json")) as f:
        theirs = {o["name"]: o["total_ns"] for o in json.load(f)["steps"]["operations"] if o["kind"] == "part"}
    equal({p: n for p, n in sums.items() if n > 0}, {p: n for p, n in theirs.items() if n > 0}, f"{what}: parts of all steps in steps.json")
    return len(steps), sums["not_recorded"]


def tables_agree(where, what):
    """Every table: the Parquet parts, read by the plain reader, and SQLite hold the same rows."""
    with open(os.path.join(where, "tables", "_manifest.json")) as f:
        manifest = json.load(f)
    listed = set()
    for t in manifest["tables"]:
        columns, theirs = None, []
        for part in t["parts"]:
            listed.add(part["path"])
            f = parquet_read.File(os.path.join(where, "tables", part["path"]))
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


ours = set()  # rows of sources that the vendor does not have


def vendor_readers(where, what):
    """The vendor's users: executions of a core by name and source, their windows and flow ids."""
    f = parquet_read.File(os.path.join(where, "system_profile", "SystemProfileEvents.parquet"))
    got = f.read(["name", "trace_event_source", "start_ts", "end_ts", "flow_id", "pcore_idx", "instance_id", "process_id", "nc_idx", "extra_attributes_json", "duration_ns", "source"])
    check(set(got["trace_event_source"]) <= {"neuron_rt", "neuron_hw", "framework"}, f"{what}: the words of the vendor's schema: {set(got['trace_event_source'])}")
    ours.update((n, v, s) for n, v, s in zip(got["name"], got["trace_event_source"], got["source"]) if n.startswith("of "))
    picked = [i for i, (n, s) in enumerate(zip(got["name"], got["trace_event_source"])) if n == "nc_exec_running" and s == "neuron_hw"]
    for i in picked:
        check(got["end_ts"][i] - got["start_ts"][i] == got["duration_ns"][i], f"{what}: duration of {i}")
    mine = rows(where, "SELECT args, dur_ns FROM events WHERE name = 'nc_exec_running' AND source = 'neuron_hw'")
    lengths = []  # of halves: the vendor's table has both of an execution on two physical cores, ours one row that names them
    for row in mine:
        halves = [v for k, v in json.loads(row["args"] or "{}").items() if k.startswith("pcore") and k.endswith("_duration")]
        lengths += halves if halves else [row["dur_ns"]]
    equal(sorted(got["duration_ns"][i] for i in picked), sorted(lengths), f"{what}: executions in both dialects")
    pairs.append(len(lengths) - len(mine))
    fields = parquet_read.File(os.path.join(where, "system_profile", "SchemaFields.parquet")).read()
    equal([n for t, n in zip(fields["table_name"], fields["field_name"]) if t == "SystemProfileEvents"], f.columns, f"{what}: SchemaFields and the file")


def profile(name, *words):
    where = os.path.join(work, name)
    run("view", *words, "--output-format", "parquet,parquet-explorer,sqlite,csv,report-json,steps-json", "-o", where, "--vendor-tool", "none", want=None)
    last, proven = against_report(where, name)
    against_engines(where, name)
    if name in ("generated", "dlrm", "random1"):
        against_engines(where, name, ("spark",))
    steps[name] = steps_add_up(where, name)
    tables_agree(where, name)
    vendor_readers(where, name)
    return where, last, proven


def nested_steps(path):
    """Steps inside steps of one process, of which the outer ones count: a job whose loop is annotated twice."""
    events = []
    for step in range(6):
        at = 1000 + 1000 * step
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7, "ts": at, "dur": 900})
        events += [{"ph": "X", "cat": "user_annotation", "name": "train_step", "pid": 7, "tid": 7, "ts": at + k, "dur": 200} for k in (100, 250, 800)]
        events += [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 20, "ts": at + k, "dur": 60 + 13 * step, "args": {"device": 0, "stream": 20}} for k in (0, 210, 700)]
    with open(path, "w") as f:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}, f)


def crossing_steps(path):
    """Steps of one process that overlap in part, as of a loop and of a thread that prepares the next batch: each begins before the one before has ended."""
    events = []
    for step in range(6):
        at = 1000 + 1000 * step
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7, "ts": at, "dur": 1000})
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 1}", "pid": 7, "tid": 8, "ts": at + 500, "dur": 1000})
        events += [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 20, "ts": at + k, "dur": 60 + 13 * step, "args": {"device": 0, "stream": 20}} for k in (0, 210, 700)]
    with open(path, "w") as f:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}, f)


def one_machine(folder):
    """Kineto files of two ranks, of which the second comes 300 us late to each of six all-reduces."""
    paths = []
    for rank in (0, 1):
        args = {"device": rank, "stream": 20, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2,
                "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
        events = [{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": rank, "tid": 20, "ts": 1000 * k + 300 * rank, "dur": 800 - 300 * rank, "args": args}
                  for k in range(1, 7)]
        paths.append(os.path.join(folder, f"rank{rank}.json"))
        with open(paths[-1], "w") as f:
            json.dump({"schemaVersion": 1, "deviceProperties": [{"id": rank}], "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}, f)
    return paths


steps, pairs, left_out = {}, [], set()
capture = os.path.join(work, "capture")
subprocess.run([sys.executable, os.path.join(SOURCE, "tests/e2e/gen_capture.py"), capture, "6"], check=True)
where, _, _ = profile("generated", "-d", capture)
for seed in (1, 2, 3):
    random_system_profile(os.path.join(work, f"random{seed}.json"), seed)
    profile(f"random{seed}", os.path.join(work, f"random{seed}.json"))
check(sum(pairs) > 50, f"executions on two physical cores: {pairs}")
nested_steps(os.path.join(work, "nested.json"))
profile("nested", os.path.join(work, "nested.json"))
equal(steps["nested"][0], 6, "steps, without those inside others")
crossing_steps(os.path.join(work, "crossing.json"))
profile("crossing", os.path.join(work, "crossing.json"))
equal(steps["crossing"][0], 6, "steps, without those of the other thread that begin inside them")
two = one_machine(work)
_, last, proven = profile("two_clocks", *two)
equal((last, proven), (6, 0), "two files without bounds: last, proven")
where, last, proven = profile("same_clock", *two, "--same-clock")
equal((last, proven), (6, 6), "two files of one clock: last, proven")
with contextlib.closing(sqlite3.connect(os.path.join(where, "profile.sqlite"))) as db, db:  # as a merge whose check finds a contradiction at its end writes it
    db.execute("UPDATE collectives SET node = pos, bound_ns = 10")
    ask = "SELECT SUM(proven_n) FROM late_ranks"
    equal(db.execute(ask).fetchone()[0], 6, "proven between nodes")
    db.execute("UPDATE collective_groups SET contradicted = 1")
    equal(db.execute(ask).fetchone()[0], 0, "proven between nodes whose clocks are contradicted")
where = os.path.join(work, "generated")
files = sorted(glob.glob(os.path.join(DATA, "param-dlrm-8rank-r0-3", "*.gz")))
if files:
    _, last, proven = profile("dlrm", *files, "--align", "collectives")
    check(last > 0 and proven == 0, f"dlrm: {proven} of {last} proven, and half of the ranks may have come later")
    for i, path in enumerate(files):  # as if these four were all
        with gzip.open(path, "rt") as f, open(os.path.join(work, f"four{i}.json"), "w") as to:
            to.write(f.read().replace('"world_size": 8', '"world_size": 4'))
    _, last, proven = profile("four", *sorted(glob.glob(os.path.join(work, "four*.json"))), "--align", "collectives")
    check(0 < proven < last, f"dlrm as of four ranks: {proven} of {last} proven")
    both, _ = run("sql", "SELECT session_id, COUNT(*) AS n FROM events GROUP BY session_id ORDER BY 1", where, os.path.join(work, "dlrm"), "--format", "csv")
    named = [line.split(",")[0] for line in both.splitlines()]
    check(len(named) == 3 and all(re.fullmatch("s-files-[0-9a-f]{16}(#2)?", n) for n in named[1:]), f"two profiles in one query: {named}")
several = [os.path.join(work, name) for name in ("generated", "two_clocks", "random1")]
against_engines(several, "several profiles")
against_engines(several[:2], "two profiles", ("spark",))
for engine in MODULES:
    out, _ = run("sql", "late_ranks", where, "--print", "--engine", engine)
    equal(re.findall(r"^CREATE .*?(?:VIEW|TABLE) (\w+) AS ", out, re.M), [t["table"] for t in json.load(open(os.path.join(where, "tables", "_manifest.json")))["tables"]], f"the views of {engine}")
out, _ = run("sql", "late_ranks", where, "--print", "--engine", "trino")
check(re.search(r"^CREATE TABLE p1_verdicts \(worker BIGINT, .*share DOUBLE, .*session_id VARCHAR\) WITH \(format = 'PARQUET', external_location = 'file:///", out, re.M), f"Trino's tables: {out[-3000:]}")
one, _ = run("sql", "late_ranks", where, "--print", "--engine", "duckdb")
equal(run("sql", "late_ranks", os.path.join(where, "tables"), "--print", "--engine", "duckdb")[0], one, "the folder of a profile, or of its tables")
check("read_parquet('s3://runs/a/table=events/*/*/*.parquet')" in run("sql", "late_ranks", "s3://runs/a", "--print", "--engine", "duckdb")[0], "tables elsewhere")
with contextlib.closing(sqlite3.connect(os.path.join(where, "profile.sqlite"))) as db:
    with open(os.path.join(where, "tables", "_manifest.json")) as f:
        equal(str(db.execute("PRAGMA user_version").fetchone()[0]), json.load(f)["version"], "version of the tables")

# ---- session_id of files: the same for the same input and slice, and never one for all ----
def session_of(name, *words):
    """Returns the session_id of a profile, which is also the name of its folders of tables."""
    to = os.path.join(work, name)
    run("view", *words, "--output-format", "parquet,sqlite", "-o", to, "--vendor-tool", "none")
    [row] = rows(to, "SELECT DISTINCT session_id FROM events")
    equal({f.split(os.sep)[-2] for f in glob.glob(os.path.join(to, "tables", "*", "*", "*", "*"))}, {f"session={row['session_id']}"}, f"{name}: folders with files")
    return row["session_id"]


of_two = session_of("named1", *two)
copies = [shutil.copy(path, os.path.join(work, f"copy-{os.path.basename(path)}")) for path in two]
equal(session_of("named2", *reversed(copies)), of_two, "copies of the same files, in another order")
others = {session_of("named3", two[0]), session_of("named4", *two, "--clock", "raw"), session_of("named5", *two, "--start", "1ms"), of_two}
equal(len(others), 4, "another file, other clocks and another slice")
equal(session_of("named6", *two, "--session-id", "run-7"), "s-run-7", "--session-id")
again = session_of("named1", two[0], "--force")
check(again != of_two, "another import into the same folder has its own name, and session_of found no files of the first one")
check("letters, digits" in run("view", *two, "--session-id", "a b", "-o", os.path.join(work, "named7"), want=2)[1], "a name that cannot be a folder")
check(not os.path.exists(os.path.join(work, "named7")), "refused before any work")

# ---- the rows as other formats, read back by rules of those formats ----
EVIL = ["a\tb", "c\nd\re", "\\N", "back\\", "x|y", "<b>&amp;</b>", "_it_", "nc_exec_running", "*a*`b`[c](d)~~$e$", "", "quote\"'", "é☃"]
ask = "SELECT column1 AS 'a|b\tc', column2 AS n, NULL AS none, column1 || '' AS again FROM (VALUES " + ", ".join(f"({sqlite_text(v)}, {i - 3})" for i, v in enumerate(EVIL)) + ")"
out, _ = run("sql", ask, where, "--format", "tsv")
lines = [[tsv_value(cell) for cell in line.split("\t")] for line in out.removesuffix("\n").split("\n")]
equal(lines, [["a|b\tc", "n", "none", "again"], *[[v, str(i - 3), None, v] for i, v in enumerate(EVIL)]], "rows as TSV")
out, _ = run("sql", ask, where, "--format", "markdown")
lines = out.removesuffix("\n").split("\n")
equal(lines[1], "|---|---|---|---|", "what makes it a table")
shown = [v.replace("\t", "\\x09").replace("\n", "\\x0a").replace("\r", "\\x0d") for v in EVIL]
equal([markdown_cells(line) for line in lines[2:]], [[v, str(i - 3), "", v] for i, v in enumerate(shown)], "rows as Markdown")
check("| nc_exec_running |" in out and "| \\_it\\_ |" in out, f"underscores: {out}")
equal(markdown_cells(lines[0]), ["a|b\\x09c", "n", "none", "again"], "the names of the columns as Markdown")
for words in (("--format", "tsv"), ("--format", "markdown")):
    out, _ = run("sql", "SELECT name FROM events WHERE 0", where, *words)
    equal(out, "name\n" if "tsv" in words else "| name |\n|---|\n", f"no rows, {words}")

# ---- what is wrong is said ----
for words, status, said in ((("late_rank", where), 2, "late_ranks"), (("SELECT nothing FROM events", where), 2, "nothing"), (("late_ranks", "/nowhere"), 1, "/nowhere"),
                            (("late_ranks", os.path.join(work, "capture")), 1, "--output-format sqlite"), (("late_ranks", os.path.abspath(__file__)), 1, "is no SQLite file: make one with --output-format sqlite"),
                            (("DELETE FROM steps", where), 2, "only read"), (("late_ranks", where, "--engine", "duckdb"), 2, "--print --engine duckdb"),
                            (("late_ranks", os.path.join(where, "profile.sqlite"), "--print", "--engine", "duckdb"), 2, "is a file: give the folder")):
    _, err = run("sql", *words, want=status)
    check(said in err, f"meridian sql {words[0]}: {err!r} does not name {said}")
old = os.path.join(work, "old.sqlite")
shutil.copy(os.path.join(where, "profile.sqlite"), old)
with contextlib.closing(sqlite3.connect(old)) as db, db:  # as the version of the tables before this one
    db.execute("DROP VIEW step_breakdown")
    db.execute("ALTER TABLE steps DROP COLUMN counts")
    db.execute("PRAGMA user_version = 2")
_, err = run("sql", "step_breakdown", old, want=2)
check("counts" in err and "(2, this one's is 3" in err and "again" in err, err)
check("another version" in run("sql", "step_breakdown", where, old, want=2)[1], "beside one of this version")
check(run("sql", "bounds", old)[0], "a query that needs nothing new")
out, _ = run("sql", "--list")
equal([line.split()[0] for line in out.splitlines()], QUERIES, "the list of queries")
equal(ours, {(f"of {s}", "framework", s) for s in ("nrt_api", "annotation")}, "their words in the vendor's table, and in ours")
if left_out:
    print(f"left out: {', '.join(sorted(left_out))}: make engines installs them")
finish()
