"""What the end-to-end tests share: running the programs, the real importer, and saying why a test skipped."""
import gzip
import json
import os
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(SOURCE, "build")
DATA = os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(SOURCE, "..", "shared", "data")
MERIDIAN = os.path.join(BUILD, "bin", "meridian")

failures = []


def check(ok, what):
    """Notes a failure and goes on, so that one run shows all of them."""
    if not ok:
        failures.append(what)
        print("FAILED", what)
    return ok


def equal(got, want, what):
    return check(got == want, f"{what}: got {got!r}, expected {want!r}")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def finish():
    print("%d checks failed" % len(failures) if failures else "all checks passed")
    sys.exit(1 if failures else 0)


def data(*parts):
    """A file of real traces; skips the whole test when the collection is absent."""
    if not os.path.isdir(DATA):
        skip(f"no real traces at {DATA} (MERIDIAN_TEST_DATA names their folder)")
    return os.path.join(DATA, *parts)


def run(*args, want=0, env=None, timeout=300):
    """Runs meridian; checks the exit status; returns (stdout, stderr)."""
    full = dict(os.environ, **(env or {}))
    p = subprocess.run([MERIDIAN, *args], capture_output=True, text=True, timeout=timeout, env=full)
    if want is not None:
        check(p.returncode == want, f"meridian {' '.join(args)}: exit status {p.returncode}, expected {want}: {p.stderr[-600:]}")
    return p.stdout, p.stderr


def tmp():
    return tempfile.mkdtemp(prefix="mrd-e2e-")


def load_json(path):
    """A possibly compressed JSON file, decimals kept as text so that nothing passes through a double."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as f:
        text = f.read().decode("utf-8", "replace")
    return json.loads(text, parse_float=str, strict=False)


class Importer:
    """Perfetto's trace_processor. Importer().query(trace, sql...) gives one list of rows per statement."""

    def __init__(self):
        self.assets = os.path.join(BUILD, "tp")
        p = subprocess.run(["sh", os.path.join(SOURCE, "tests/e2e/fetch_trace_processor.sh"), self.assets],
                           capture_output=True, text=True)
        if p.returncode == 77:
            skip(p.stdout.strip().replace("skipped: ", ""))
        if p.returncode != 0:
            print(p.stdout, p.stderr)
            sys.exit(1)

    def query(self, trace, *sql):
        p = subprocess.run(["node", os.path.join(SOURCE, "tests/e2e/trace_processor.mjs")], text=True, capture_output=True,
                           input=json.dumps({"trace": trace, "sql": sql}) + "\n", env=dict(os.environ, TP_ASSETS=self.assets))
        if p.returncode != 0 or not p.stdout:
            raise RuntimeError(p.stderr[-2000:])
        reply = json.loads(p.stdout.splitlines()[-1])
        if "error" in reply:
            raise RuntimeError(f"{trace}: {reply['error']}")
        return reply["rows"]

    BAD = "select name, idx, severity, value from stats where value > 0 and severity in ('error', 'data_loss')"
