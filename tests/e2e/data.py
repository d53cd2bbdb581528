"""Tests that docs/reference/data.md is true. Its commands, its DuckDB query and its Python are run
as printed, on a small cluster. The Python reader must give the same rows from SQLite, from Parquet,
and from the aggregator's address."""
import json
import os
import re
import subprocess
import sys
import threading

from lib import BIN, BUILD, MERIDIAN, SOURCE, check, equal, finish, need_preload, until
from service import TOKENS, Service

sys.path.insert(0, os.path.join(SOURCE, "tests", "trace"))
sys.path.insert(0, os.path.join(SOURCE, "python"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "standin"))
import meridian
import parquet_read
import readers

with open(os.path.join(SOURCE, "docs", "reference", "data.md"), encoding="utf-8") as f:
    blocks = re.findall(r"```(\w+)\n(.*?)```", f.read(), re.S)


def trace(path, rank):
    """One rank of a made-up Kineto trace: ten steps of a kernel and an all-reduce."""
    events = [{"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}}]
    for step in range(10):
        at = 1_700_000_000_000_000 + step * 1000
        events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 9, "tid": 9, "ts": at, "dur": 900},
                   {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 10, "dur": 300 + rank * 50, "args": {"device": 0, "stream": 7}},
                   {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce_RING_LL_Sum_float", "pid": 0, "tid": 8, "ts": at + 320 + rank * 50, "dur": 200 - rank * 50,
                    "args": {"device": 0, "stream": 8, "Collective name": "allreduce", "Group size": 2, "In msg nelems": 1024, "Process Group Ranks": "[0, 1]", "Process Group Name": "0"}}]
    with open(path, "w") as f:
        json.dump({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}, f)


def same_everywhere(service, folder):
    id = json.loads(subprocess.run([MERIDIAN, "sessions", "--json"], capture_output=True, text=True, env=env, check=True).stdout)["sessions"][0]["id"]
    url = f"http://{service.http}/api/v1/sessions/{id}"
    with meridian.open(os.path.join(folder, "profile.sqlite")) as a, meridian.open(os.path.join(folder, "tables")) as b, meridian.open(url, token=TOKENS["control"]) as c:
        for table in a.tables:
            want = a.table(table, as_="rows")
            equal(sorted(map(str, b.table(table, as_="rows"))), sorted(map(str, want)), f"{table} from Parquet")
            equal(c.table(table, as_="rows"), want, f"{table} from the aggregator")
        events = len(a.table("events", as_="rows"))
        check(events > 0, "events were recorded")
        for query in ("late_ranks", "losses", "bounds"):
            equal(b.query(query, as_="rows"), a.query(query, as_="rows"), f"{query} from both")
    with meridian.open(url, token=TOKENS["control"], start="0s", end="1ns") as nothing:
        check(len(nothing.table("events", as_="rows")) < events, "a slice over HTTP has fewer events")
    for wrong, said in ((dict(where="/nowhere"), FileNotFoundError), (dict(where=os.path.join(folder, "csv")), ValueError), (dict(where=folder, start="1s"), ValueError)):
        try:
            meridian.open(**wrong).close()
            check(False, f"meridian.open({wrong}) works")
        except said:
            pass


def explorer(folder):
    """Rows of SystemProfileEvents, however flows are numbered and arguments are ordered, and what each number joins."""
    columns = parquet_read.File(os.path.join(folder, "system_profile", "SystemProfileEvents.parquet")).read()
    rows, flows = [], {}
    for row in zip(*columns.values()):
        row = dict(zip(columns, row))
        del row["id"]
        ids = row.pop("flow_id") or []
        row["extra_attributes_json"] = sorted(json.loads(row["extra_attributes_json"] or "{}").items(), key=str)
        rows.append((str(sorted(row.items(), key=str)), len(ids)))
        for id in ids:
            flows.setdefault(id, []).append(rows[-1][0])
    return sorted(rows), sorted(sorted(f) for f in flows.values())


def way_round(env, work):
    """A session in another version of the vendor's schema: through JSON, since the aggregator reads no dump."""
    for command in (["fetch", "latest", "--format", "parquet-explorer", "-o", "direct"], ["fetch", "latest", "--format", "json", "-o", "session"],
                    ["view", "session/system_profile.json", "--output-format", "parquet-explorer", "-o", "round"]):
        subprocess.run([MERIDIAN, *command], cwd=work, env=env, check=True, capture_output=True, timeout=120)
    (rows, flows), (rows_round, flows_round) = explorer(os.path.join(work, "direct")), explorer(os.path.join(work, "round"))
    check(len(rows) > 100 and len(flows) > 0, f"the session has {len(rows)} rows and {len(flows)} flows")
    equal(len(rows_round), len(rows), "rows through JSON")
    equal([(a, b) for a, b in zip(rows_round, rows) if a != b][:1], [], "each row through JSON")
    check(flows_round == flows, "flows through JSON join the same events")


with Service() as service:
    workload = service.begin()[0]
    running = threading.Event()
    busy = threading.Thread(target=lambda: [workload.emit(200) for _ in iter(lambda: running.wait(0.05), True)], daemon=True)
    busy.start()
    # the job that the page speaks of: train_loop on the simulated runtime, which has steps, kernels and collectives
    job = subprocess.Popen([os.path.join(BIN, "train_loop"), "--steps", "1000000", "--checkpoint-every", "0", "--quiet"], stdout=subprocess.DEVNULL, cwd=service.folder("job"),
                           env={**service.env, "LD_PRELOAD": need_preload(), "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "simnrt"), "MERIDIAN_ENABLE": "1",
                                "MERIDIAN_RING_DIR": service.rings(0), "SIMNRT_JOB": service.job("train")})
    until(lambda: sum(n["rings"] for n in service.nodes().values()) > 1, "the agent sees the rings of the job")
    work = service.folder("work")
    env = {**os.environ, **service.env, "PATH": BIN + ":" + os.environ["PATH"], "PYTHONPATH": os.path.join(SOURCE, "python")}
    for rank in (0, 1):
        trace(os.path.join(work, f"rank{rank}.json"), rank)
    for language, text in blocks:
        if language == "sh":
            p = subprocess.run(["sh", "-e", "-c", text], cwd=work, env=env, capture_output=True, text=True, timeout=120)
            check(p.returncode in ((0, 4) if text.splitlines()[-1].startswith("meridian diff ") else (0,)), f"{text.splitlines()[0]} ...: {p.returncode}: {p.stdout[-300:]} {p.stderr[-900:]}")
        elif language == "python":
            p = subprocess.run([sys.executable, "-c", text], cwd=work, env=env, capture_output=True, text=True, timeout=120)
            check(p.returncode == 0 and "kind" in p.stdout, f"the Python of the page: {p.stdout[-300:]} {p.stderr[-900:]}")
        elif language == "duckdb":
            got = readers.duckdb("", text.replace("'profile/", f"'{work}/profile/"))
            if got is None:
                print("skipped in part: DuckDB is not to be had here, the query of the page did not run")
            check(got is None or got[0], f"the DuckDB query of the page: {got}")
    for picture in ("time.svg", "late.svg", "bounds.svg"):
        with open(os.path.join(work, picture)) as f:
            check(f.read().startswith("<svg"), picture)
    for name in ("profile/tables/_manifest.json", "fetched/tables/_manifest.json", "before/steps.json", "after/steps.json", "profile/csv/events.csv", "profile/profile.sqlite"):
        check(os.path.exists(os.path.join(work, name)), f"{name} is there")
    check(not os.path.exists(os.path.join(work, "fetched", "tables.tar")), "the archive is gone")
    with open(os.path.join(work, "before", "steps.json")) as f:
        steps = json.load(f)["steps"]
        check(steps["unit"] == "step" and sum(p["steps"] for p in steps["processes"]) > 3, f"steps were recorded: {str(steps)[:300]}")
    job.terminate()
    job.wait()
    running.set()
    busy.join()
    way_round(env, work)
    same_everywhere(service, os.path.join(work, "profile"))
finish()
