"""Runs queries in one engine, in a process of its own: ask.py ENGINE, with {"setup": TEXT, "queries": [TEXT]} on stdin.
The setup is what `meridian sql --print --engine ENGINE` prints before the query. The rows of each query go to stdout as JSON."""
import json
import os
import sys
import tempfile


def duckdb(setup, queries):
    import duckdb as engine
    db = engine.connect()
    db.execute(setup)
    return [db.execute(q).fetchall() for q in queries]


def clickhouse(setup, queries):
    from chdb import session
    with tempfile.TemporaryDirectory() as folder:
        db = session.Session(folder)
        for view in statements(setup):
            db.query(view)
        plain = "\nSETTINGS output_format_json_quote_64bit_integers = 1"
        out = [[json.loads(line) for line in str(db.query(q + plain, "JSONCompactEachRow")).splitlines() if line] for q in queries]
        db.close()
    return out


def polars(setup, queries):
    import polars as engine
    with engine.SQLContext() as db:
        for view in statements(setup):
            db.execute(view).collect()
        return [db.execute(q).collect().rows() for q in queries]


def datafusion(setup, queries):
    import datafusion as engine
    db = engine.SessionContext()
    for view in statements(setup):
        db.sql(view).collect()
    return [[tuple(row.values()) for batch in db.sql(q).collect() for row in batch.to_pylist()] for q in queries]


def spark(setup, queries):
    from pyspark.sql import SparkSession
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    db = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
          .config("spark.driver.host", "127.0.0.1").config("spark.sql.warehouse.dir", tempfile.gettempdir()).getOrCreate())
    db.sparkContext.setLogLevel("ERROR")
    for view in statements(setup):
        db.sql(view)
    out = [[tuple(row) for row in db.sql(q).collect()] for q in queries]
    db.stop()
    return out


def statements(setup):
    return [s for s in setup.split(";\n") if s.strip(" ;\n")]


MODULES = {"duckdb": "duckdb", "clickhouse": "chdb", "polars": "polars", "datafusion": "datafusion", "spark": "pyspark"}
ENGINES = {"duckdb": duckdb, "clickhouse": clickhouse, "polars": polars, "datafusion": datafusion, "spark": spark}

if __name__ == "__main__":
    request = json.load(sys.stdin)
    rows = ENGINES[sys.argv[1]](request["setup"].strip().rstrip(";"), request["queries"])
    json.dump([[[None if v is None else str(v) for v in row] for row in one] for one in rows], sys.stdout)
