"""Random traces through `meridian view` into the tables `events` and `flows`: arguments that have a column are in it and nowhere else, all
others are in `args`, worked out here from the JSON; and every cell of the Parquet files, which the plain reader of python/ reads, is that
of the CSV file, whose writer shares no code with that of Parquet.
Usage: tables_test.py MERIDIAN FILES; MRD_SEED=n begins at another seed."""
import csv
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "standin"))
import parquet_read

KEYS = {"exec_id": "exec_id", "model_id": "model_id", "op_id": "op_id", "gid": "gid", "size": "size_bytes", "correlation": "correlation", "External id": "external_id",
        "external id": "external_id", "stream": "stream", "Ev Idx": "event_index", "Profiler Event Index": "event_index", "Sequence number": "sequence",
        "Record function id": "record_function_id", "Python id": "python_id", "Python parent id": "python_parent_id"}
OTHERS = ["Input Dims", "Input type", "note", "cbid", "ratio"]
csv.field_size_limit(1 << 30)


def integer(rng, i):
    return rng.choice([i, i, i, 0, 7, rng.randrange(1000), rng.randrange(1 << 40), (1 << 63) - 1, -1, -rng.randrange(1, 1 << 50)])


def value(rng, key, i):
    kind = rng.randrange(12)
    if key in KEYS and kind < 9:
        return integer(rng, i)
    return [i, rng.randrange(50), "text", "", None, True, 1.5, -0.25, [[1, rng.randrange(9)], []], {"a": [1, "b"]}, "\u00e9\"\\\n" + str(rng.randrange(3)),
            "x" * rng.randrange(300)][kind]


def draw(rng, n, long):
    """Spans that begin at different times, in any order of the file."""
    keys = rng.sample(list(KEYS), rng.randrange(len(KEYS) + 1)) + rng.sample(OTHERS, rng.randrange(1, len(OTHERS)))
    few = rng.random() < 0.3  # one argument in very few rows
    at, events = 1_700_000_000_000_000, []
    for i in range(n):
        at += rng.choice([1, 1, 3, 1000, 5_000_000]) + rng.randrange(20)
        mine = [] if few and rng.random() < 0.99 else rng.sample(keys, rng.randrange(len(keys) + 1))
        events.append({"ph": "X", "cat": rng.choice(["cpu_op", "kernel", "python_function"]), "name": f"name {rng.randrange(1 + i // 3)}", "pid": rng.choice([1, 1, 2]),
                       "tid": rng.choice([1, 1, 1, 2, 70]), "ts": at, "dur": rng.choice([0, 1, 12, rng.randrange(100_000)]), "args": {k: value(rng, k, i) for k in mine}})
        if long:
            events[-1]["args"]["note"] = "y" * rng.randrange(30_000)
    return events


def expected(args):
    """(columns, the rest) of the arguments of an event."""
    columns, rest = {}, {}
    for key, v in args.items():
        column = KEYS.get(key)
        if column is not None and isinstance(v, int) and not isinstance(v, bool) and v >= 0 and column not in columns:
            columns[column] = v
        else:
            rest[key] = v
    return columns, rest


def parquet(folder, table):
    out, groups = None, 0
    for path in sorted(glob.glob(f"{folder}/tables/table={table}/*/*/*.parquet")):
        f = parquet_read.File(path)
        groups += len(f.meta[4])
        part = f.read()
        out = part if out is None else {c: out[c] + part[c] for c in out}
    return out, groups


def same_as_csv(folder, table, cells):
    with open(f"{folder}/csv/{table}.csv", encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f))
    assert rows[0] == list(cells), f"{table}: columns {rows[0]}"
    for i, name in enumerate(rows[0]):
        for r, (a, b) in enumerate(zip((row[i] for row in rows[1:]), cells[name])):
            assert a == ("" if b is None else str(b)), f"{table}.{name}, row {r}: {a[:80]!r} in CSV, {str(b)[:80]!r} in Parquet"
    assert all(len(v) == len(rows) - 1 for v in cells.values()), f"{table}: {len(rows) - 1} rows in CSV"
    return len(rows) - 1


def counters(meridian):
    """Samples of all sizes: integers keep all their digits, whatever is above 2^63 too; memory that no integer holds is not known."""
    most = (1 << 63) - 1
    samples = [0, 1, -1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), 1 << 63, (1 << 64) - 1, 0.5, 1e300]
    memory = [5, 5.5, (1 << 63) - 1024, 1 << 63, (1 << 64) - 1, 1e300]
    with tempfile.TemporaryDirectory(prefix="tables-") as work:
        with open(f"{work}/trace.json", "w") as f:
            json.dump({"traceEvents": [{"ph": "C", "name": "c", "pid": 1, "ts": 1000 + i, "args": {"v": v}} for i, v in enumerate(samples)]}, f)
        with open(f"{work}/memory.json", "w") as f:
            json.dump({"trace_events": [], "mem_usage": [{"instance_id": "i", "timestamp": 1000 + i, "usage": v, "percent_usage": 1} for i, v in enumerate(memory)]}, f)
        for file, out in (("trace.json", "parquet"), ("memory.json", "parquet-explorer")):
            subprocess.run([meridian, "view", f"{work}/{file}", "-o", work, "--output-format", out], check=True, capture_output=True)
        cells, _ = parquet(work, "counters")
        for value, exact, kind, sample in zip(cells["value"], cells["value_int"], cells["is_int"], samples):
            assert value == float(sample) and kind == (0 if isinstance(sample, float) else 2 if sample > most else 1), f"{sample}: {value}, is_int {kind}"
            assert kind == 0 or exact + (1 << 64) * (kind - 1) == sample, f"{sample}: value_int {exact}, is_int {kind}"
        assert len(cells["value"]) == len(samples), cells["value"]
        used = parquet_read.File(f"{work}/system_profile/HostMemUsage.parquet").read()["used_bytes"]
        assert used == [int(v) if v < 1 << 63 else -1 for v in memory], used


def device_memory(meridian, seed):
    """Allocations of several processes on the memories of several devices: the vendor's table has what each memory holds, by category, after each of them."""
    rng, columns = random.Random(seed), ("tensors", "io", "scratchpad", "weights", "profiler_buffers")
    held, events, at = {}, {}, 1_700_000_000_000_000_000
    want, now = [], {}
    for i in range(400):
        node, pid, device, hbm = f"i-{rng.randrange(2):017x}", rng.randrange(3) + 1, rng.choice([0, 3, None]), rng.randrange(2)
        kind = rng.choice(columns + ("a category of tomorrow",))
        mine = held.setdefault((node, pid, device, hbm), {})
        size = rng.randrange(1, 1 << 30)
        mine[kind] = mine.get(kind, 0) + size if rng.random() < 0.7 else rng.randrange(mine.get(kind, 0) + 1)
        at += rng.choice([0, 0, 1000])
        data = {"hbm_idx": hbm, "usage_type": kind} | ({} if device is None else {"mla_idx": device})
        totals = {"usage_type_total_bytes": mine[kind], "total_bytes": sum(mine.values())}
        events.setdefault((node, pid), []).extend(
            {"event_type": "nrt_dma_mem_alloc", "phase": phase, "nc_idx": 0, "tracking_id": i + 1, "thread_id": 5, "worker_gid": 0, "data": d, "timestamp_ns": t}
            for phase, d, t in (("start", data, at - 10), ("stop", totals, at)))
        at_memory = now.setdefault((node, -1 if device is None else device, hbm), {})
        at_memory[pid] = dict(mine)
        row = {c: sum(m.get(c, 0) for m in at_memory.values()) for c in columns}
        row["unknown"] = sum(v for m in at_memory.values() for c, v in m.items() if c not in columns)
        row["total"] = sum(sum(m.values()) for m in at_memory.values())
        key = (at, node, -1 if device is None else device, hbm)
        want = [w for w in want if w[0] != key] + [(key, row)]  # one row of a time and memory
    with tempfile.TemporaryDirectory(prefix="tables-") as work:
        for (node, pid), of in events.items():
            os.makedirs(f"{work}/in/{node}_pid_{pid}")
            with open(f"{work}/in/{node}_pid_{pid}/nrt_sys_trace.json", "w") as f:
                json.dump({"data_version": 2, "events": of}, f)
        subprocess.run([meridian, "view", "-d", f"{work}/in", "-o", f"{work}/out", "--output-format", "parquet-explorer"], check=True, capture_output=True)
        cells = parquet_read.File(f"{work}/out/system_profile/SystemProfileHbmUsage.parquet").read()
        got = sorted((tuple(key), {c: cells[c + "_bytes"][i] for c in (*columns, "unknown", "total")})
                     for i, key in enumerate(zip(cells["timestamp"], cells["instance_id"], cells["device_idx"], cells["hbm_idx"])))
        want.sort(key=lambda w: w[0])
        assert [g[0] for g in got] == [w[0] for w in want], f"seed {seed}: rows {len(got)} of {len(want)}"
        for g, w in zip(got, want):
            assert g == w, f"seed {seed}: {g} is {w}"
        assert not any(cells[c][i] for c in cells if c.endswith("_bytes") and c[:-6] not in (*columns, "unknown", "total") for i in range(len(got))), "categories that nobody used"


def main():
    meridian, files, seed = sys.argv[1], int(sys.argv[2]), int(os.environ.get("MRD_SEED", "1"))
    rows = groups = 0
    for i in range(files):
        rng = random.Random(seed * 1000 + i)
        n, long = (1000, True) if i % 5 == 4 else (rng.choice([1, 2, 130, 2000]), False)  # long texts end a row group early
        events = draw(rng, n, long)
        with tempfile.TemporaryDirectory(prefix="tables-") as work:
            shuffled = events[:]
            rng.shuffle(shuffled)
            with open(f"{work}/trace.json", "w", encoding="utf-8") as f:
                json.dump({"traceEvents": shuffled}, f, ensure_ascii=rng.random() < 0.5)
            subprocess.run([meridian, "view", f"{work}/trace.json", "-o", work, "--output-format", "parquet,csv"], check=True, capture_output=True)
            cells, parts = parquet(work, "events")
            assert len(cells["row_id"]) == n, f"{len(cells['row_id'])} rows of {n} events"
            for r, e in enumerate(events):
                columns, rest = expected(e["args"])
                for column in set(KEYS.values()):
                    assert cells[column][r] == columns.get(column), f"seed {seed}, file {i}, row {r}: {column} is {cells[column][r]}, not {columns.get(column)}"
                got = cells["args"][r]
                assert (json.loads(got) if got else {}) == rest, f"seed {seed}, file {i}, row {r}: {got[:200]}, not {str(rest)[:200]}"
                assert (cells["name"][r], cells["dur_ns"][r]) == (e["name"], e["dur"] * 1000), f"seed {seed}, file {i}, row {r}: another event"
            rows += same_as_csv(work, "events", cells) + same_as_csv(work, "flows", parquet(work, "flows")[0])
            groups = max(groups, parts)
    assert groups > 1 or files < 5, "no table had two row groups"
    counters(meridian)
    device_memory(meridian, seed)
    print(f"{files} traces, {rows} rows, up to {groups} row groups: as they were made")


main()
