"""Tests what python/meridian_data.py refuses. Names in a file do not become SQL. A profile that cannot be opened leaves no file and no
descriptor behind. An aggregator's session is opened with the certificates and tokens that the commands use, and an answer that is cut
off or does not arrive is an error.
Usage: reader_test.py MERIDIAN"""
import glob
import http.server
import json
import os
import shutil
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import warnings

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
sys.path.insert(0, os.path.join(ROOT, "tests", "standin"))
import meridian
import meridian_data
import parquet_read


def trace(path):
    args = {"device": 0, "stream": 20, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10, "Group size": 2}
    events = [{"ph": "X", "cat": "kernel", "name": f"ncclDevKernel_AllReduce {i % 3}", "pid": d, "tid": 20, "ts": 100 * i + 10 * d, "dur": 70, "args": {**args, "device": d}}
              for i in range(200) for d in (0, 1)]
    events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 7, "tid": 7, "ts": 1000 * i, "dur": 900} for i in range(20)]
    events += [{"ph": "X", "cat": "user_annotation", "name": "train_step", "pid": 7, "tid": 7, "ts": 1000 * i + 50, "dur": 100} for i in range(20)]
    with open(path, "w") as f:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0}, {"id": 1}], "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}, f)


def without_packages(tables):
    """No reader of Parquet is installed: the message names those that can be, and what works without."""
    had = {name: sys.modules.get(name) for name in ("pyarrow", "pyarrow.parquet", "duckdb", "polars")}
    sys.modules.update(dict.fromkeys(had))
    refused("Parquet without a reader", ImportError, "--output-format sqlite", meridian_data.open_profile, tables)
    for name, module in had.items():
        sys.modules.pop(name)
        if module is not None:
            sys.modules[name] = module


def left_behind(work, tables):
    """What opening fails with, and what it leaves."""
    tempfile.tempdir = os.path.join(work, "temporary")
    os.mkdir(tempfile.tempdir)
    broken = os.path.join(work, "broken")
    shutil.copytree(tables, broken)
    with open(sorted(glob.glob(f"{broken}/table=events/*/*/*.parquet"))[0], "r+b") as f:
        f.seek(20)
        f.write(b"\xff" * 40)
    os.mkdir(os.path.join(work, "empty"))
    before = len(os.listdir("/proc/self/fd"))
    for where, error in ((broken, parquet_read.ParquetError), (os.path.join(work, "empty"), FileNotFoundError),
                         ("http://127.0.0.1:1/api/v1/sessions/latest", OSError)):
        for _ in range(3):
            try:
                meridian_data.open_profile(where)
                raise AssertionError(f"{where} was opened")
            except error:
                pass
    assert os.listdir(tempfile.tempdir) == [], os.listdir(tempfile.tempdir)
    assert len(os.listdir("/proc/self/fd")) == before, "descriptors are left open"
    os.unlink(os.path.join(broken, "_manifest.json"))
    for table in glob.glob(f"{broken}/table=*"):
        if not table.endswith("=steps"):
            shutil.rmtree(table)
    with meridian_data.open_profile(broken) as profile:  # a part of the tables, without their manifest
        assert profile.tables == ["steps"], profile.tables
    assert os.listdir(tempfile.tempdir) == [], "a closed profile left its database"
    with meridian_data.open_profile(tables) as profile:
        squares = profile.plot_lateness().svg.count("behind the first")
    assert squares == 2 * 20, f"{squares} squares of 2 devices and 20 steps, which hold 20 others"


def refused(what, error, said, call, *args):
    try:
        call(*args)
    except error as e:
        assert said in str(e), f"{what}: {e}"
        return
    raise AssertionError(f"{what} was taken")


def names(work, tables):
    """Of a manifest, and of the columns of a file: they become SQL."""
    other = os.path.join(work, "names")
    shutil.copytree(tables, other)
    with open(os.path.join(other, "_manifest.json")) as f:
        manifest = json.load(f)
    for what, key, value, said in (("a table's name", "table", "x AS SELECT 1 --", "has the name"), ("a path upwards", "path", "../tables/table=steps/x", "outside"),
                                   ("a path from the top", "path", "/etc/passwd", "outside")):
        changed = json.loads(json.dumps(manifest))
        (changed["tables"][0] if key == "table" else changed["tables"][0]["parts"][0])[key] = value
        with open(os.path.join(other, "_manifest.json"), "w") as f:
            json.dump(changed, f)
        refused(what, ValueError, said, meridian_data.open_profile, other)
    refused("a column's name", ValueError, "has the name", meridian_data._named, "a); DROP TABLE events; --", "x.parquet")


def as_pandas(work, tables):
    """Integers among which one is NULL keep all digits. A stand-in for pandas, which tests do not need, shows what it is given."""
    other = os.path.join(work, "wide")
    os.makedirs(other)
    with open(os.path.join(other, "pandas.py"), "w") as f:
        f.write("class DataFrame(dict):\n    def __init__(self, data, dtype):\n        super().__init__(data)\n\n\ndef array(values, dtype):\n    return (dtype, values)\n")
    sys.path.insert(0, other)
    most = (1 << 63) - 1
    with meridian_data.open_profile(tables) as profile:
        ask = f"SELECT {most} AS id, NULL AS none, 'a' AS text, 1.5 AS real UNION ALL SELECT NULL, NULL, NULL, NULL UNION ALL SELECT 7, NULL, 'b', 2"
        frame = profile.sql(ask)
        assert list(frame.columns) == ["id", "none", "text", "real"] and list(frame.values()) == [("Int64", [most, None, 7]), [None] * 3, ["a", None, "b"], [1.5, None, 2]], frame
        frame = profile.sql("SELECT ts_ns, ts_ns FROM steps")
        assert len(frame) == 2 and all(len(column) == 40 for column in frame.values()), "two columns of one name"
        assert profile.sql("SELECT ts_ns FROM steps WHERE 0")[0] == [], "no rows"
    sys.path.remove(other)
    sys.modules.pop("pandas")


def hostile_texts(work, tables):
    """What a file has in the place of a number does not become markup of a picture."""
    with meridian_data.open_profile(tables) as profile:
        db = sqlite3.connect(os.path.join(work, "hostile.sqlite"))
        profile._db.backup(db)
    db.executescript("UPDATE workers SET rank = -1, worker = '<script>x</script>' || worker; UPDATE verdicts SET rank = -1, worker = '<script>x</script>' || worker; UPDATE events SET worker = '<script>x</script>' || worker WHERE worker >= 0;"
                     "UPDATE collectives SET rank = -1, worker = '<script>x</script>' || worker; UPDATE clocks SET name = '<script>', quality = '<script>'")
    db.close()
    with meridian_data.open_profile(os.path.join(work, "hostile.sqlite")) as profile:
        for picture in (profile.plot_time(), profile.plot_lateness(), profile.plot_bounds()):
            assert "<script" not in picture.svg and "&lt;script" in picture.svg, picture.svg[:300]


def without_manifest(work, tables):
    """Files that may not be all of a profile: read, with a warning."""
    other = os.path.join(work, "unlisted")
    shutil.copytree(tables, other)
    os.unlink(os.path.join(other, "_manifest.json"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        meridian_data.open_profile(tables).close()
        assert told == [], told
        with meridian_data.open_profile(other) as profile:
            assert len(profile.table("steps", as_="rows")) == 40
    assert len(told) == 1 and "_manifest.json" in str(told[0].message) and told[0].filename == __file__, told


class Aggregator(http.server.BaseHTTPRequestHandler):
    """What the reader asks for, answered in the way that `does` says."""
    does, body, go, asked = "whole", b"", threading.Event(), ""
    sessions = [{"id": f"20261124-00000{n}-aaaa", "state": state, "created_ns": created}
                for n, state, created in ((0, "complete", 5), (1, "recording", 7), (2, "complete", 6), (3, "failed", 9), (4, "arming", 10))]

    def do_GET(self):
        does, body, Aggregator.asked = Aggregator.does, Aggregator.body, self.path
        if does == "silent":
            Aggregator.go.wait(60)
            return
        if self.headers.get("Authorization") != "Bearer t0ken":
            self.send_response(403)
            body = b"read is not among the rights of this token"
        elif self.path == "/api/v1/sessions":
            self.send_response(200)
            body = json.dumps({"sessions": Aggregator.sessions}).encode()
        elif "/sessions/20261124-000001-aaaa/" not in self.path:
            self.send_response(404)
            body = json.dumps({"status": 404, "title": "no such thing", "detail": "there is no such session"}).encode()
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if does == "cut" else body)

    def log_message(self, *_):
        pass


def over_https(program, work):
    """As with the commands: the variables that `meridian demo` prints are all that it takes."""
    subprocess.run([program, "view", f"{work}/trace.json", "-o", f"{work}/database", "--output-format", "sqlite"], check=True, capture_output=True)
    subprocess.run([program, "certs", "init", "--dir", f"{work}/certs"], check=True, capture_output=True)
    with open(f"{work}/database/profile.sqlite", "rb") as f:
        Aggregator.body = f.read()
    with open(f"{work}/token", "w") as f:
        f.write("t0ken\n")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Aggregator)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{work}/certs/aggregator.pem", f"{work}/certs/aggregator.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_port}/api/v1/sessions/latest"
    for key in [k for k in os.environ if k.startswith("MERIDIAN_") or k.lower().endswith("_proxy")]:
        del os.environ[key]
    refused("an unknown authority", ConnectionError, "MERIDIAN_CA_FILE", meridian_data.open_profile, url)
    os.environ["MERIDIAN_CA_FILE"] = f"{work}/certs/ca.pem"
    refused("no token", PermissionError, "403 Forbidden: read is not among", meridian_data.open_profile, url)
    os.environ["MERIDIAN_TOKEN_FILE"] = f"{work}/token"
    with meridian_data.open_profile(url) as profile:
        assert len(profile.table("steps", as_="rows")) == 40
    meridian.open(url, start="1.5s", end="2s", instance_id="i-1", process_id=7, lnc_idx="0-3", event_type="nc_exec_running").close()
    assert Aggregator.asked.split("?")[1] == "format=sqlite&start=1.5s&end=2s&instance_id=i-1&process_id=7&lnc_idx=0-3&event_type=nc_exec_running", Aggregator.asked
    refused("another session", OSError, "404 Not Found: there is no such session", meridian_data.open_profile, url.replace("latest", "20261124-000009-bbbb"))
    had, Aggregator.sessions = Aggregator.sessions, []
    refused("the latest of none", FileNotFoundError, "no session yet", meridian_data.open_profile, url)
    Aggregator.sessions, url = had, url.replace("latest", "20261124-000001-aaaa")
    Aggregator.does = "cut"
    refused("half of a database", ConnectionError, f"of {len(Aggregator.body)} bytes", meridian_data.open_profile, url)
    Aggregator.does, meridian_data._QUIET = "silent", 0.3
    refused("an aggregator that is silent", ConnectionError, "timed out", meridian_data.open_profile, url)
    Aggregator.go.set()
    server.shutdown()
    server.server_close()
    assert os.listdir(tempfile.tempdir) == [], os.listdir(tempfile.tempdir)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="reader-") as work:
        trace(f"{work}/trace.json")
        subprocess.run([program, "view", f"{work}/trace.json", "-o", f"{work}/profile", "--output-format", "parquet"], check=True, capture_output=True)
        without_packages(f"{work}/profile/tables")
        left_behind(work, f"{work}/profile/tables")
        names(work, f"{work}/profile/tables")
        as_pandas(work, f"{work}/profile/tables")
        hostile_texts(work, f"{work}/profile/tables")
        without_manifest(work, f"{work}/profile/tables")
        over_https(program, work)


main()
