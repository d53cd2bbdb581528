"""One folder of public reports as a case: its files, and what `meridian` says about them.

A module of this package describes folders in functions:

    @row("cuda-sync")
    def sync_records_are_no_work(case):
        case.equal(case.view().parts(0)["compute"], 1_000_000, "computation")

A function that does not hold yet has `fails="B.19"`, the point of the issue that it waits for. It then has to fail: when it begins
to hold, the test fails until the word is taken away."""
import contextlib
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
DATA = os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(ROOT, "..", "shared", "data")
MERIDIAN = os.path.join(BUILD, "bin", "meridian")
US, MS, S = 1_000, 1_000_000, 1_000_000_000

rows = []


class Row:
    """A function of a folder. `fails` names the point that it waits for; None: it holds."""

    def __init__(self, folder, check, fails):
        self.folder, self.check, self.fails = folder, check, fails


def row(folder, fails=None):
    """Registers a function for a folder. A folder may have several."""
    def register(check):
        rows.append(Row(folder, check, fails))
        return check
    return register


class Reading:
    """The outputs of one `meridian view`, and what it printed."""

    def __init__(self, status, said, folder):
        self.status, self.said, self.folder = status, said, folder

    def text(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as f:
            return f.read()

    @property
    def report_text(self):
        """The report on one line, so that a sentence can be searched for."""
        return " ".join(self.text("report.txt").split())

    @property
    def report(self):
        return json.loads(self.text("report.json"))["report"]

    @property
    def events(self):
        return json.loads(self.text("system_profile.json"))["trace_events"]

    @property
    def counters(self):
        return json.loads(self.text("system_profile.json"))["counters"]

    @property
    def inputs(self):
        """{file name: its row of the inputs}"""
        return {os.path.basename(i["path"]): i for i in json.loads(self.text("system_profile.json"))["meridian"]["inputs"]}

    @property
    def chrome(self):
        return [e for e in json.loads(self.text("system_profile.trace.json"))["traceEvents"] if e["ph"] != "M"]

    def sql(self, statement):
        with contextlib.closing(sqlite3.connect(os.path.join(self.folder, "profile.sqlite"))) as database:
            return database.execute(statement).fetchall()

    def spans(self):
        """(name, begin, duration) of all spans in ns, by begin. The duration of an unfinished span is None."""
        return sorted(((e["name"], e["timestamp"], None if e.get("unfinished") else e["duration"]) for e in self.events
                       if e.get("kind") != "instant"), key=lambda s: s[1])

    def named(self, name):
        return [s for s in self.spans() if s[0] == name]

    def worker(self, rank):
        return next(w for w in self.report["workers"] if w["rank"] == rank)

    def kernels(self):
        return {k["name"]: k for k in self.report["kernels"]}

    def dropped(self):
        return sum(i["dropped"] + i["lost"] for i in self.inputs.values())


class Case:
    """A folder while its checks run."""

    def __init__(self, folder):
        self.folder, self.failures, self.readings = folder, [], {}
        self.work = tempfile.mkdtemp(prefix="mrd-public-")

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def check(self, ok, what):
        if not ok:
            self.failures.append(what)
        return ok

    def equal(self, got, want, what):
        return self.check(got == want, f"{what}: got {got!r}, expected {want!r}")

    def says(self, text, *words):
        """All words stand in the text, whatever their case."""
        for word in words:
            self.check(word.lower() in text.lower(), f"does not say {word!r}: {text[:1500]}")

    def path(self, *names):
        return os.path.join(DATA, "public-reports", self.folder, *names)

    def files(self):
        return sorted(p for p in glob.glob(self.path("*")) if os.path.basename(p) != "expected.txt")

    def meridian(self, *args):
        """Runs the program. Returns (exit status, standard output, standard error)."""
        p = subprocess.run([MERIDIAN, *args], capture_output=True, text=True, timeout=120)
        self.check(p.returncode in (0, 1, 2, 3), f"meridian {' '.join(args)}: exit status {p.returncode}")
        return p.returncode, p.stdout, p.stderr

    def view(self, *options, files=None):
        """Reads files (default: all of the folder) with these options into every output that the checks look at."""
        paths = self.files() if files is None else files
        key = (options, tuple(paths))
        if key not in self.readings:
            out = os.path.join(self.work, str(len(self.readings)))
            status, printed, errors = self.meridian("view", *paths, *options, "-o", out, "--output-format",
                                                    "json,chrome,perfetto,sqlite,summary-text,report-json,report-text")
            self.readings[key] = Reading(status, printed + errors, out)
        return self.readings[key]


def run_rows(folders):
    """Runs the rows of these folders (none named: of all). Returns what is wrong as messages; None if the data are absent."""
    top = os.path.join(DATA, "public-reports")
    if not os.path.isdir(top):
        return None
    wrong = []
    there = {name for name in os.listdir(top) if os.path.isdir(os.path.join(top, name))}
    for name in sorted(there - {r.folder for r in rows}):
        wrong.append(f"{name}: no row checks this folder")
    for r in sorted(rows, key=lambda r: r.folder):
        if folders and r.folder not in folders:
            continue
        if r.folder not in there:
            wrong.append(f"{r.folder}: the folder is missing in {top}")
            continue
        case = Case(r.folder)
        try:
            r.check(case)
        except Exception as e:  # an output that is absent, a key that is absent
            case.failures.append(f"{type(e).__name__}: {e}")
        finally:
            case.close()
        what = f"{r.folder}: {r.check.__name__}"
        if r.fails is None:
            wrong += [f"{what}: {f}" for f in case.failures]
        elif not case.failures:
            wrong.append(f"{what} holds now: take fails={r.fails!r} away")
        else:
            print(f"waits for {r.fails}: {what}: {case.failures[0][:300]}")
    return wrong


def main(folders):
    wrong = run_rows(folders)
    if wrong is None:
        print(f"skipped: no public reports in {DATA} (MERIDIAN_TEST_DATA names the folder of test data)")
        sys.exit(77)
    for message in wrong:
        print("FAILED", message)
    waiting = sum(r.fails is not None for r in rows)
    print(f"{len(rows)} rows, {waiting} wait for a point, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)
