"""Real engines on Meridian's tables: installs them, runs e2e/sql with them, and prints what was tried.

Usage: engines.py [ENGINE...]   (make engines; ENGINES='duckdb polars' for some)
An engine that cannot be installed is skipped with a sentence. Exit status: 0 if all that ran was right, 77 if no engine ran."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.environ.get("MERIDIAN_ENGINES") or os.path.join(ROOT, "build-engines")
PACKAGES = {"duckdb": "duckdb==2.0.1", "clickhouse": "chdb==4.4.0", "polars": "polars==2.1.0", "datafusion": "datafusion==55.0.0", "spark": "pyspark==4.0.1"}


def is_there(engine):
    """Whether the pinned version is in the folder."""
    return os.path.isdir(os.path.join(FOLDER, PACKAGES[engine].replace("==", "-") + ".dist-info"))


def install(engine):
    """Returns None when the engine is in the folder, otherwise why it is not."""
    if is_there(engine):
        return None
    if engine == "spark" and shutil.which("java") is None:
        return "it needs Java (Debian: default-jre-headless)"
    os.makedirs(FOLDER, exist_ok=True)
    got = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "30", "--upgrade",
                          "--target", FOLDER, PACKAGES[engine]], capture_output=True, text=True)
    if got.returncode != 0 or not is_there(engine):
        return f"pip cannot install {PACKAGES[engine]}: {(got.stderr.strip().splitlines() or ['no message'])[-1]}"
    return None


def table(lines, skipped):
    """Prints one row for each engine: which queries gave SQLite's rows on how many profiles."""
    print(f"{'engine':<22} {'profiles':>8} {'queries':>8} {'equal':>6} {'seconds':>8}")
    for engine, package in PACKAGES.items():
        mine = [line for line in lines if line["engine"] == engine]
        if engine in skipped or not mine:
            print(f"{package:<22} skipped: {skipped.get(engine, 'not asked for')}")
            continue
        print(f"{package:<22} {len({line['profile'] for line in mine}):>8} {len(mine):>8} {sum(line['equal'] for line in mine):>6} {sum(line['seconds'] for line in mine):>8.1f}")
    print(f"{'trino':<22} skipped: no package of it can be installed here; --print --engine trino prints its statements")


def main():
    skipped = {}
    wanted = sys.argv[1:] or list(PACKAGES)
    for engine in wanted:
        if engine not in PACKAGES:
            sys.exit(f"engines: '{engine}' is no engine; there are {', '.join(PACKAGES)}")
        why = install(engine)
        if why is not None:
            skipped[engine] = why
    with tempfile.NamedTemporaryFile("r", suffix=".json") as log:
        environment = {**os.environ, "MERIDIAN_ENGINES": FOLDER, "MERIDIAN_ENGINES_LOG": log.name, "MERIDIAN_ENGINES_ONLY": ",".join(wanted)}
        test = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "e2e", "sql.py")], env=environment, capture_output=True, text=True)
        lines = [json.loads(line) for line in log]
    if test.returncode != 0:
        print(test.stdout + test.stderr)
    table(lines, skipped)
    if test.returncode == 0 and not lines:
        sys.exit(77)
    sys.exit(0 if test.returncode == 0 and all(line["equal"] for line in lines) else 1)


if __name__ == "__main__":
    main()
