"""Reads the tables of a profile: a SQLite database, a directory of Parquet files, or a session on an aggregator.

    import meridian
    profile = meridian.open("profile")                       # or profile.sqlite, or tables/
    profile.query("late_ranks")                              # a shipped query
    profile.sql("SELECT name, SUM(dur_ns) AS ns FROM events GROUP BY name ORDER BY ns DESC LIMIT 5")
    profile.table("steps")
    profile.plot_time()                                      # a picture; notebooks show it

Rows are a pandas DataFrame if pandas is installed, otherwise a list of dicts. as_="rows" always gives dicts, and as_="arrow" a pyarrow
Table. Times and durations are integers in nanoseconds, in columns whose names end in _ns. A column of integers that contains NULL stays
a column of integers in pandas (dtype Int64). docs/reference/data.md describes the tables. The module needs Python 3.8 or later. A
database and a session need no other package. A directory of Parquet files needs pyarrow, duckdb or polars.
"""

import bisect
import glob
import html
import http.client
import io
import json
import os
import re
import socket
import sqlite3
import ssl
import stat
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

__all__ = ["open_profile", "Profile", "Picture"]

PARTS = ("compute", "both", "exposed", "copy", "waiting", "host", "idle", "not_recorded")
COLOURS = {"compute": "#2f7d4f", "both": "#3b6fb6", "exposed": "#d1495b", "copy": "#8d6a9f", "waiting": "#e9a23b", "host": "#777777",
           "idle": "#dddddd", "not_recorded": "#ffffff"}
Rows = List[Dict[str, Any]]
_QUIET = 300  # timeout in seconds; an aggregator sends nothing until it has written the whole database


def _shipped(name: str) -> str:
    """Returns the SQL text of a query that is part of Meridian (sql/)."""
    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "..", "..", "..", "share", "meridian", "sql")
    folders = [os.path.join(here, "meridian_sql"), os.path.join(here, "..", "sql"), installed, "/usr/share/meridian/sql"]
    for folder in [os.environ["MERIDIAN_SQL"]] if "MERIDIAN_SQL" in os.environ else folders:
        path = os.path.join(folder, name + ".sql")
        if re.fullmatch(r"\w+", name) and os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                return f.read()
    raise KeyError(f"there is no shipped query '{name}' (looked in {', '.join(folders)}; MERIDIAN_SQL names another folder)")


class Picture:
    """An SVG picture. Notebooks display it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.svg)


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> Picture:
    return Picture(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                   f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
                   f'<text x="10" y="20" font-size="14">{html.escape(title)}</text>{"".join(parts)}</svg>')


def _column(pandas: Any, values: List[Any]) -> Any:
    """Returns a column for pandas. If integers and NULL are mixed, it has the type Int64, because pandas would otherwise convert the integers
    to doubles, which lose digits."""
    if None in values and {type(v) for v in values} == {int, type(None)}:
        return pandas.array(values, dtype="Int64")
    return values


def _who(row: Dict[str, Any]) -> str:
    """Returns the label of a rank or worker in a picture. It is escaped, because the file may contain any text."""
    return html.escape(f"rank {row['rank']}" if row["rank"] >= 0 else f"worker {row['worker']}")


_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"}


def _allow_reading(action: int, one: Optional[str], two: Optional[str], *_: Any) -> int:
    """Decides which actions a statement and its views may perform. Only reading is allowed, because the database may come from anywhere.
    SQLite declares the columns of json_each() by an update of sqlite_master, which writes nothing."""
    allowed = action in _READING or (action == sqlite3.SQLITE_FUNCTION and two != "load_extension") or \
        (action == sqlite3.SQLITE_UPDATE and one == "sqlite_master") or (action == sqlite3.SQLITE_PRAGMA and (one in _PRAGMAS or (one == "user_version" and two is None)))
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class Profile:
    """The tables of one profile. Close it, or use it in a with statement. Closing also removes a temporary database."""

    def __init__(self, connection: sqlite3.Connection, where: str, temporary: Optional[str] = None) -> None:
        self._db, self.where, self._temporary = connection, where, temporary
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._db.execute("PRAGMA cell_size_check = ON")
        self._db.execute("PRAGMA query_only = ON")
        self._db.set_authorizer(_allow_reading)
        self._db.set_progress_handler(lambda: 0, 100000)  # lets Python handle Ctrl-C during a query, because a view may never end

    def __enter__(self) -> "Profile":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()
        if self._temporary and os.path.exists(self._temporary):
            os.unlink(self._temporary)

    @property
    def tables(self) -> List[str]:
        """The names of the tables."""
        shipped = {r[0] for r in self._db.execute("SELECT name FROM sqlite_master WHERE name LIKE '%\\_data' ESCAPE '\\'")}
        names = [r[0] for r in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'strings' ORDER BY name")]
        return sorted(n[:-5] if n in shipped else n for n in names)

    def sql(self, query: str, parameters: Union[Sequence[Any], Dict[str, Any]] = (), as_: str = "auto") -> Any:
        """Returns the rows of a query. `as_` is "auto" (pandas if it is installed, otherwise rows), "rows" (dicts), "pandas" or "arrow"."""
        try:
            cursor = self._db.execute(query, parameters)
            names = [d[0] for d in cursor.description or ()]
            rows = [tuple(r) for r in cursor]
        except sqlite3.OperationalError as e:
            if str(e) == "interrupted":
                raise KeyboardInterrupt from None
            raise
        return self._give(names, rows, as_)

    def query(self, name: str, as_: str = "auto") -> Any:
        """Returns the rows of a query of Meridian: late_ranks, exposed_communication, step_breakdown, slow_links, top_kernels, losses, bounds."""
        return self.sql(_shipped(name), as_=as_)

    def table(self, name: str, columns: Optional[Sequence[str]] = None, where: str = "", as_: str = "auto") -> Any:
        """Returns the rows of a table. `where` is a condition in SQL, such as "ts_ns >= 5 AND rank = 3"."""
        if name not in self.tables:
            raise KeyError(f"there is no table '{name}': {', '.join(self.tables)}")
        return self.sql(f"SELECT {', '.join(columns) if columns else '*'} FROM {name}{' WHERE ' + where if where else ''}", as_=as_)

    @staticmethod
    def _give(names: List[str], rows: List[tuple], as_: str) -> Any:
        if as_ in ("auto", "pandas"):
            try:
                import pandas
            except ImportError:
                if as_ == "pandas":
                    raise
            else:
                frame = pandas.DataFrame({i: _column(pandas, [r[i] for r in rows]) for i in range(len(names))}, dtype=None if rows else object)
                frame.columns = names
                return frame
        if as_ == "arrow":
            import pyarrow
            return pyarrow.table({n: [r[i] for r in rows] for i, n in enumerate(names)})
        return [dict(zip(names, r)) for r in rows]

    # ---- Pictures ----

    def plot_time(self) -> Picture:
        """Draws how each worker spent its time: one bar per worker, with the parts of the query exposed_communication."""
        rows: Rows = self.query("exposed_communication", as_="rows")
        parts, left, width = [], 110, 760
        for i, r in enumerate(rows):
            y, x = 40 + 20 * i, float(left)
            total = sum(r[p + "_ns"] for p in PARTS) or 1
            parts.append(f'<text x="10" y="{y + 12}">{_who(r)}</text>')
            for p in PARTS:
                w = (width - left - 20) * r[p + "_ns"] / total
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{w:.2f}" height="15" fill="{COLOURS[p]}"><title>{p} {r[p + "_ns"] / 1e6:.3f} ms</title></rect>')
                x += w
        y = 55 + 20 * len(rows)
        for i, p in enumerate(PARTS):
            parts.append(f'<rect x="{10 + 92 * i}" y="{y}" width="10" height="10" fill="{COLOURS[p]}" stroke="#999"/><text x="{24 + 92 * i}" y="{y + 10}">{p}</text>')
        return _svg(width, y + 25, "Where the time goes, by worker", parts)

    def plot_lateness(self) -> Picture:
        """Draws how late each rank entered the collectives of each step: one square per rank (row) and step (column). Darker is later. The
        lateness is the mean time in ns after the first participant. Without steps, a column is a twentieth of the time."""
        parts: Rows = self.sql("SELECT c.worker AS worker, c.rank AS rank, c.collective_id AS id, c.ts_ns AS ts, c.ts_ns - f.ts_ns AS late "
                               "FROM collectives c JOIN collectives f ON f.collective_id = c.collective_id AND f.pos = 0 AND f.session_id = c.session_id "
                               "ORDER BY c.ts_ns", as_="rows")
        begins, reached = [], None
        for r in self.sql("SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM steps WHERE dur_ns > 0 AND process_key = (SELECT MIN(process_key) FROM steps) "
                          "ORDER BY ts_ns, dur_ns DESC", as_="rows"):
            if reached is None or r["ts_ns"] >= reached:  # skip a step inside another step
                begins.append(r["ts_ns"])
                reached = r["end_ns"]
        if not begins and parts:
            first, last = parts[0]["ts"], parts[-1]["ts"]
            begins = [first + (last - first) * i // 20 for i in range(20)]
        workers = sorted({(r["rank"], r["worker"]) for r in parts})
        cells: Dict[tuple, List[int]] = {}
        for r in parts:
            step = max(bisect.bisect_right(begins, r["ts"]) - 1, 0)
            cells.setdefault((r["worker"], step), []).append(r["late"])
        means = {k: sum(v) / len(v) for k, v in cells.items()}
        most = max(means.values(), default=1) or 1
        out = []
        for y, (rank, worker) in enumerate(workers):
            out.append(f'<text x="10" y="{52 + 16 * y}">{_who({"rank": rank, "worker": worker})}</text>')
            for step in range(len(begins)):
                if (worker, step) in means:
                    v = means[worker, step]
                    out.append(f'<rect x="{90 + 16 * step}" y="{40 + 16 * y}" width="15" height="15" fill="#d1495b" fill-opacity="{0.05 + 0.95 * v / most:.3f}">'
                               f'<title>{v:.0f} ns behind the first</title></rect>')
        return _svg(max(400, 110 + 16 * len(begins)), 60 + 16 * len(workers), f"Lateness by rank and step (darkest: {most / 1e3:.1f} us)", out)

    def plot_bounds(self) -> Picture:
        """Draws the stated error bound of each clock (in ns, logarithmic). Clocks without a bound are marked."""
        import math
        rows: Rows = [r for r in self.query("bounds", as_="rows") if r["clock_id"] > 0]
        most = max([r["stated_ns"] for r in rows] + [10])
        out = []
        for i, r in enumerate(rows):
            y = 40 + 20 * i
            out.append(f'<text x="10" y="{y + 12}">{html.escape((r["name"] or str(r["clock_id"]))[:40])}</text>')
            if r["stated_ns"] < 0:
                out.append(f'<text x="300" y="{y + 12}" fill="#d1495b">no bound: {html.escape(r["quality"])}</text>')
                continue
            w = 380 * math.log10(max(r["stated_ns"], 1)) / math.log10(most)
            colour = "#d1495b" if r["violations"] else "#3b6fb6"
            out.append(f'<rect x="300" y="{y}" width="{max(w, 1):.1f}" height="14" fill="{colour}"/><text x="{305 + w:.0f}" y="{y + 12}">{r["stated_ns"]:,} ns</text>')
        return _svg(800, 60 + 20 * len(rows), "Bounds of the clocks", out)


# ---- Opening ----

def _database(path: str, temporary: bool = False) -> Profile:
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:  # O_NONBLOCK, because opening a pipe without a writer would block
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode) or f.read(15) != b"SQLite format 3":
            raise ValueError(f"{path} is no SQLite database: write one with --output-format sqlite")
    # immutable, because otherwise a journal file next to the database makes SQLite change this file and remove others
    uri = "file:" + urllib.parse.quote(os.path.abspath(path)) + "?mode=ro&immutable=1"
    return Profile(sqlite3.connect(uri, uri=True), path, path if temporary else None)


def _named(name: Any, where: str) -> str:
    """Returns a name from a file if it is safe in SQL: a letter or underscore, then letters, digits and underscores. Otherwise raises
    ValueError."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError(f"{where} has the name {name!r:.80}, which no table and no column has")
    return name


def _inside(folder: str, path: str) -> str:
    if os.path.isabs(path) or ".." in path.split("/"):
        raise ValueError(f"{folder}/_manifest.json lists {path!r:.200}, which is outside of its folder")
    return os.path.join(folder, path)


def _parts(folder: str) -> Dict[str, List[str]]:
    """Returns the files of each table, as the manifest lists them. Without a manifest, searches for files and warns, because the profile may
    be incomplete."""
    manifest = os.path.join(folder, "_manifest.json")
    if os.path.exists(manifest):
        with open(manifest, encoding="utf-8") as f:
            listed = json.load(f)
        if listed.get("format") != "meridian tables" or listed.get("dialect") != "meridian":
            raise ValueError(f"{folder} holds other files ({listed.get('format')}): open a folder written with --output-format parquet")
        return {_named(t["table"], manifest): [_inside(folder, p["path"]) for p in t["parts"]] for t in listed["tables"]}
    found: Dict[str, List[str]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "table=*", "date=*", "session=*", "part-*.parquet"))):
        found.setdefault(re.search(r"table=(\w+)", path).group(1), []).append(path)  # type: ignore[union-attr]
    if not found:
        raise FileNotFoundError(f"{folder} holds neither profile.sqlite nor tables: write them with --output-format sqlite or parquet")
    warnings.warn(f"{folder} has no _manifest.json, which is written last: whether these are all files of the profile cannot be told", stacklevel=5)
    return found


def _parquet(path: str) -> Tuple[List[str], Iterator[List[tuple]]]:
    """Returns the column names of a Parquet file, and an iterator over batches of rows. Uses the first installed reader."""
    try:
        import pyarrow.parquet
    except ImportError:
        pass
    else:
        file = pyarrow.parquet.ParquetFile(path)
        return file.schema_arrow.names, (list(zip(*b.to_pydict().values())) for b in file.iter_batches())
    try:
        import duckdb
    except ImportError:
        pass
    else:
        cursor = duckdb.connect().execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [path])
        return [d[0] for d in cursor.description], iter(lambda: cursor.fetchmany(65536), [])
    try:
        import polars
    except ImportError:
        raise ImportError(f"{path}: reading Parquet needs pyarrow, duckdb or polars, and none is installed; without them, write the profile "
                          "with --output-format sqlite") from None
    frame = polars.read_parquet(path, hive_partitioning=False)
    return frame.columns, (s.rows() for s in frame.iter_slices(65536))


def _folder(folder: str) -> Profile:
    """Copies the Parquet files of a directory to a temporary database and opens it."""
    tables = _parts(folder)
    handle, path = tempfile.mkstemp(suffix=".sqlite", prefix="meridian-")
    os.close(handle)
    db = sqlite3.connect(path)
    try:
        db.execute("PRAGMA journal_mode = off")
        db.execute("PRAGMA synchronous = off")
        for name, files in tables.items():
            made = False
            for file in files:
                columns, batches = _parquet(file)
                if not made:
                    db.execute(f"CREATE TABLE {name} ({', '.join(_named(c, file) for c in columns)})")
                    made = True
                for rows in batches:
                    db.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(columns))})", rows)
        if tables.get("collectives"):
            db.execute("CREATE INDEX collectives_id ON collectives (collective_id)")
        db.commit()
    except BaseException:
        db.close()
        os.unlink(path)
        raise
    return Profile(db, folder, path)


def _url(url: str, token: Optional[str], slice_: Dict[str, Any]) -> Profile:
    """Downloads and opens a session of an aggregator. `url` is https://HOST:PORT/api/v1/sessions/ID, or another address that contains the id
    of a session. ID may be "latest"."""
    parts = urllib.parse.urlsplit(url)
    session = next((w for w in reversed(re.split(r"[/#=?&]", url)) if re.fullmatch(r"\d{8}-\d{6}-\w+|latest", w)), None)
    if session is None:
        raise ValueError(f"{url} names no session: https://HOST:PORT/api/v1/sessions/ID")
    base, token = f"{parts.scheme}://{parts.netloc}/api/v1/sessions", token or _token()
    if session == "latest":
        session = _latest(base, token)
    query = urllib.parse.urlencode({"format": "sqlite", **{k: v for k, v in slice_.items() if v is not None}})
    request = _request(f"{base}/{session}/profile?{query}", token)
    handle, path = tempfile.mkstemp(suffix=".sqlite", prefix="meridian-")
    try:
        with os.fdopen(handle, "wb") as f:
            _download(request, f)
        return _database(path, temporary=True)
    except BaseException:
        os.unlink(path)
        raise


def _request(url: str, token: Optional[str]) -> urllib.request.Request:
    request = urllib.request.Request(url)
    if token:
        request.add_unredirected_header("Authorization", "Bearer " + token)
    return request


def _latest(url: str, token: Optional[str]) -> str:
    """Returns the id of the session that began last, as the commands choose it. A session that has failed or has not begun is returned only
    if there is no other."""
    answer = io.BytesIO()
    _download(_request(url, token), answer)
    sessions = json.loads(answer.getvalue())["sessions"]
    if not sessions:
        raise FileNotFoundError(f"{url}: the aggregator has no session yet: `meridian record` makes one")
    return max(sessions, key=lambda s: (s["state"] not in ("arming", "failed"), s["created_ns"]))["id"]


def _detail(body: bytes) -> str:
    """Returns the detail text of an error reply (application/problem+json), or else the whole text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, LookupError, TypeError):
        return text[:500]


def _token() -> Optional[str]:
    """Returns the token: the value of MERIDIAN_TOKEN, or the first line of the file that MERIDIAN_TOKEN_FILE names."""
    if os.environ.get("MERIDIAN_TOKEN") or not os.environ.get("MERIDIAN_TOKEN_FILE"):
        return os.environ.get("MERIDIAN_TOKEN")
    with open(os.environ["MERIDIAN_TOKEN_FILE"], encoding="utf-8") as f:
        return f.readline().strip()


def _download(request: urllib.request.Request, to: Any) -> None:
    """Writes the whole reply to the file `to`. Raises an OSError that names the address and the reason."""
    ca = os.environ.get("MERIDIAN_CA_FILE") or None
    url = request.full_url.split("?")[0]
    try:
        with urllib.request.urlopen(request, timeout=_QUIET, context=ssl.create_default_context(cafile=ca) if url.startswith("https:") else None) as answer:
            length, got = answer.headers.get("Content-Length"), 0
            while True:
                chunk = answer.read(1 << 20)
                if not chunk:
                    break
                got += to.write(chunk)
        if length is not None and int(length) != got:
            raise ConnectionError(f"{url}: the connection ended after {got} of {length} bytes")
    except urllib.error.HTTPError as e:
        said = _detail(e.read(5000))
        kind, advice = (PermissionError, " (MERIDIAN_TOKEN_FILE names the file with a token)") if e.code in (401, 403) else (OSError, "")
        raise kind(f"{url}: {e.code} {e.reason}: {said}{advice}") from None
    except urllib.error.URLError as e:
        advice = " (MERIDIAN_CA_FILE names the file of the authority that signed its certificate)" if isinstance(e.reason, ssl.SSLCertVerificationError) else ""
        raise ConnectionError(f"{url}: {e.reason}{advice}") from None
    except (http.client.HTTPException, socket.timeout) as e:
        raise ConnectionError(f"{url}: {e!r}") from None


def open_profile(where: str, *, token: Optional[str] = None, start: Optional[str] = None, end: Optional[str] = None, instance_id: Optional[str] = None,
                 process_id: Union[str, int, None] = None, lnc_idx: Union[str, int, None] = None, event_type: Optional[str] = None) -> Profile:
    """Opens a profile. `where` is the path of a profile.sqlite, a directory with profile.sqlite or with tables (Parquet), or the URL of a
    session on an aggregator. The default of `token` is MERIDIAN_TOKEN or the file that MERIDIAN_TOKEN_FILE names. MERIDIAN_CA_FILE names
    the authority of the aggregator's certificate. The other arguments select a part of a session, with the values of the parameters in
    docs/reference/http.md, such as "12.5s" or "0-3,7". They are refused for files."""
    slice_ = {"start": start, "end": end, "instance_id": instance_id, "process_id": process_id, "lnc_idx": lnc_idx, "event_type": event_type}
    if re.match(r"https?://", where):
        return _url(where, token, slice_)
    if any(v is not None for v in slice_.values()):
        raise ValueError("slices are made by the aggregator: of files, use table(where=...) or sql")
    if os.path.isdir(where):
        inside = os.path.join(where, "profile.sqlite")
        if os.path.exists(inside):
            return _database(inside)
        return _folder(os.path.join(where, "tables") if os.path.isdir(os.path.join(where, "tables")) else where)
    return _database(where)
