"""Random tables that trace/table/parquet.c wrote are read by the plain reader of python/, which
also checks page checksums and every statistic. If hyparquet and DuckDB from npm are available, they
read the tables too. Usage: parquet_test.py PARQUET_MAKE TIMES"""
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "standin"))
sys.path.insert(0, os.path.join(ROOT, "tests", "trace"))
import parquet_read
import readers


def real(v):
    return float(v) if isinstance(v, str) else v


def same(a, b):
    a, b = real(a) if isinstance(a, str) and a in ("nan", "inf", "-inf") else a, b
    if isinstance(a, float) or isinstance(b, float):
        return (a is None) == (b is None) and (a is None or (math.isnan(a) and math.isnan(b)) or a == b)
    return a == b


def check(path, rows):
    got = parquet_read.File(path)
    assert got.notes["seed"], got.notes
    assert got.rows == len(rows), (got.rows, len(rows))
    at = 0
    for group in got.groups():
        columns = [group[c] for c in got.columns]
        for values in zip(*columns):
            assert all(same(a, b) for a, b in zip(rows[at], values)), f"row {at}: {rows[at]} is read as {values}"
            at += 1
    assert at == len(rows)


def check_broken(path):
    """A cut file is refused; so is one with a byte of a page changed."""
    with open(path, "rb") as f:
        data = f.read()
    for cut in (0, 3, len(data) // 2, len(data) - 1):
        try:
            parquet_read.File(data[:cut])
        except parquet_read.ParquetError:
            continue
        raise AssertionError(f"cut to {cut} bytes, the file is read")
    f = parquet_read.File(data)
    if f.rows == 0:
        return
    at = f.meta[4][0][1][0][3][9] + 40  # inside the first data page
    broken = data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
    try:
        list(parquet_read.File(broken).groups())
    except (parquet_read.ParquetError, IndexError):
        return
    raise AssertionError("a changed byte is not noticed")


def digest(rows):
    """As readers.compare_tables has DuckDB count it."""
    texts = ("\x1f".join("-" if v is None else str(v) for v in row[:6]) for row in rows)
    return hashlib.md5("\x1e".join(texts).encode()).hexdigest()


def main():
    make, times = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as work:
        made, sizes = [], [0, 0]
        for seed in range(1, times + 1):
            path, text = f"{work}/{seed}.parquet", f"{work}/{seed}.json"
            fast = f"{work}/{seed}-fast.parquet"
            subprocess.run([make, str(seed), path, text, "small"], check=True)
            subprocess.run([make, str(seed), fast, os.devnull, "fast"], check=True)
            with open(text, encoding="utf-8") as f:
                rows = [json.loads(line) for line in f]
            check(path, rows)
            made.append((path, rows))
            sizes[0] += os.path.getsize(path)
            sizes[1] += os.path.getsize(fast)
            assert os.path.getsize(path) <= os.path.getsize(fast), f"seed {seed}: larger than when written fast"
            if seed <= 3:
                check(fast, rows)
        assert sizes[0] < sizes[1], f"{sizes}: what is to be small is as large as what is to be fast"
        check_broken(made[0][0])
        again = f"{work}/again.parquet"
        subprocess.run([make, "1", again, f"{work}/again.json", "small"], check=True)
        with open(again, "rb") as a, open(made[0][0], "rb") as b:
            assert a.read() == b.read(), "equal input gives other bytes"
        print(f"{times} random tables, {sum(len(r) for _, r in made)} rows: read back whole")
        readers.compare_tables([(p, len(r), sum(x[1] for x in r), sum(x[2] or 0 for x in r), sum(len(x[9] or []) for x in r), digest(r)) for p, r in made[:12]], work)


main()
