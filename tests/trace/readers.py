"""Independent readers of tables from npm, if available: hyparquet and DuckDB. A reader that is not
available is reported and left out. MERIDIAN_READERS names a directory with node_modules to use
instead of downloading."""
import fcntl
import json
import os
import shutil
import subprocess
import tempfile

PACKAGES = ["@duckdb/node-api@1.5.6-r.1", "hyparquet@1.31.5", "hyparquet-compressors@1.1.2"]
BUILD = os.environ.get("MERIDIAN_BUILD", "build")
_folder = None


def folder():
    """Where node_modules with the readers is, None (and why is printed) when they cannot be had."""
    global _folder
    if _folder is not None:
        return _folder or None
    _folder = ""
    at = os.environ.get("MERIDIAN_READERS") or os.path.join(os.path.abspath(BUILD), "readers")
    is_there = lambda: os.path.isdir(os.path.join(at, "node_modules", "@duckdb", "node-api"))
    if is_there():
        _folder = at
        return at
    if shutil.which("node") is None or shutil.which("npm") is None:
        print("left out: DuckDB and hyparquet: node or npm is not installed")
        return None
    with open(at + ".lock", "w", encoding="utf-8") as lock: # one test fetches, and the others wait
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there():
            part = tempfile.mkdtemp(prefix="readers.", dir=os.path.dirname(at))
            got = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", part, *PACKAGES],
                                 capture_output=True, text=True, timeout=300)
            if got.returncode != 0:
                shutil.rmtree(part, ignore_errors=True)
                print(f"left out: DuckDB and hyparquet: npm cannot fetch them: {(got.stderr.strip() or str(got.returncode)).splitlines()[-1]}")
                return None
            os.rename(part, at) # complete
    _folder = at
    return at


def node(script, *args):
    """Runs an ES module with the readers; its output as JSON. None where there are none."""
    at = folder()
    if at is None:
        return None
    path = os.path.join(at, f"script-{os.getpid()}.mjs")
    with open(path, "w", encoding="utf-8") as f:
        f.write(script)
    try:
        got = subprocess.run(["node", path, *args], capture_output=True, text=True, timeout=280)
    finally:
        os.unlink(path)
    assert got.returncode == 0, got.stderr[-2000:]
    return json.loads(got.stdout)


DUCKDB = """
import { DuckDBInstance } from '@duckdb/node-api';
import { readFileSync } from 'node:fs';
const [, , setup, ...queries] = process.argv;
const db = await (await DuckDBInstance.create(':memory:')).connect();
if (setup) await db.run(setup);
const out = [];
for (const q of queries) {
    const r = await db.runAndReadAll(q);
    out.push(r.getRowsJson());
}
console.log(JSON.stringify(out));
"""

CLICKHOUSE = """
import { Session } from 'chdb';
const [, , setup, ...queries] = process.argv;
const s = new Session(), out = [];
for (const view of setup.split(';\\n')) if (view.trim()) s.query(view);
for (const q of queries) {
    const text = String(s.query(q + '\\nSETTINGS output_format_json_quote_64bit_integers = 1', 'JSONCompactEachRow'));
    out.push(text.split('\\n').filter((line) => line).map((line) => JSON.parse(line)));
}
console.log(JSON.stringify(out));
s.cleanup();
"""

HYPARQUET = """
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
const out = [];
for (const path of process.argv.slice(2)) {
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors });
    let a = 0n, maybe = 0n, flows = 0;
    for (const r of rows) { a += BigInt(r.a); maybe += r.maybe === null || r.maybe === undefined ? 0n : BigInt(r.maybe); flows += r.flows ? r.flows.length : 0; }
    out.push([rows.length, String(a), String(maybe), flows]);
}
console.log(JSON.stringify(out));
"""


def duckdb(setup, *queries):
    """Rows of each query, values as text (DuckDB's own JSON of them); None where DuckDB is not to be had."""
    return node(DUCKDB, setup, *queries)


def clickhouse(setup, *queries):
    """The same in ClickHouse, where npm's chdb is in the folder of the readers; it is half a gigabyte, so it is not fetched unasked."""
    at = folder()
    if at is None or not os.path.isdir(os.path.join(at, "node_modules", "chdb")):
        print("left out: ClickHouse: npm install --prefix", at or "FOLDER", "chdb@3.4.0 adds it")
        return None
    return node(CLICKHOUSE, setup, *queries)


def compare_tables(tables, work):
    """tables: (path, rows, sum of a, sum of maybe, elements of flows, values) of files of parquet_make; values is the MD5 of every
    integer and text in the order of rows."""
    files, values = [t[0] for t in tables], [t[5] for t in tables]
    tables = [t[:5] for t in tables]
    row = "concat_ws('\x1f', \"at\", a, COALESCE(maybe::VARCHAR, '-'), name, COALESCE(label, '-'), COALESCE(text, '-'))"
    got = duckdb("", *[f"SELECT md5(COALESCE(string_agg({row}, '\x1e' ORDER BY file_row_number), '')) FROM read_parquet('{p}', file_row_number=true)" for p in files])
    if got is not None:
        for path, wanted, rows in zip(files, values, got):
            assert rows[0][0] == wanted, f"DuckDB reads other values in {path}"
    queries = [f"SELECT COUNT(*), COALESCE(SUM(a::HUGEINT), 0), COALESCE(SUM(maybe::HUGEINT), 0), COALESCE(SUM(LEN(flows)), 0) FROM read_parquet('{p}')" for p in files]
    got = duckdb("", *queries)
    if got is not None:
        for t, rows in zip(tables, got):
            assert [int(x) for x in rows[0]] == list(t[1:]), f"DuckDB reads {t[0]} as {rows[0]}, not {t[1:]}"
        print(f"DuckDB: {len(files)} files agree")
    got = node(HYPARQUET, *files)
    if got is not None:
        for t, row in zip(tables, got):
            assert [int(x) for x in row] == list(t[1:]), f"hyparquet reads {t[0]} as {row}, not {t[1:]}"
        print(f"hyparquet: {len(files)} files agree")
