"""Tests the wheel of the Python modules. It is built without a network, and a second build must
give the same bytes. Installed in a new environment without access to the sources, it must annotate
(or do nothing if there is no library) and read a profile with a query."""
import json
import os
import subprocess
import sys
import zipfile

from lib import SOURCE, check, equal, finish, run, skip, tmp

work = tmp()
env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_", "MERIDIAN"))}
env.update(PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_CONFIG_FILE=os.devnull)


def call(*args):
    p = subprocess.run(args, capture_output=True, text=True, env=env, cwd=work, timeout=300)
    check(p.returncode == 0, f"{' '.join(args)[:120]}: {p.returncode}: {p.stdout[-300:]} {p.stderr[-600:]}")
    return p.stdout


if subprocess.run([sys.executable, "-c", "import ensurepip, venv, pip"], capture_output=True).returncode != 0:
    skip("this Python has no pip or no venv")
wheels = []
for folder in ("one", "two"):
    call(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", os.path.join(work, folder), os.path.join(SOURCE, "python"))
    wheels += [os.path.join(work, folder, n) for n in os.listdir(os.path.join(work, folder))]
equal(len(wheels), 2, f"wheels: {wheels}")
with open(wheels[0], "rb") as a, open(wheels[1], "rb") as b:
    check(a.read() == b.read(), "equal sources give equal bytes")
names = zipfile.ZipFile(wheels[0]).namelist()
equal({n.split("/")[1] for n in names if n.startswith("meridian_sql/")}, {n for n in os.listdir(os.path.join(SOURCE, "sql")) if n.endswith(".sql")},
      "all shipped queries are in it")

source = os.path.join(work, "in.json")
with open(source, "w") as f:
    json.dump({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "work", "pid": 1, "tid": 1, "ts": 10 * i, "dur": 5} for i in range(7)]}, f)
run("view", source, "-o", os.path.join(work, "profile"), "--output-format", "sqlite,parquet")
call(sys.executable, "-m", "venv", os.path.join(work, "venv"))
python = os.path.join(work, "venv", "bin", "python")
call(python, "-m", "pip", "install", "--no-deps", wheels[0])
out = call(python, "-c", """
import meridian, meridian_data, os, sys
sys.path.append(sys.argv[1])  # in place of pyarrow
assert meridian.__file__.startswith(sys.prefix), meridian.__file__
with meridian.scope("nothing listens"):
    pass
for where in ("profile", "profile/tables"):
    with meridian.open(where) as p:
        print(p.sql("SELECT COUNT(*) AS n, SUM(dur_ns) AS ns FROM events", as_="rows"), p.query("losses", as_="rows"), len(p.query("bounds", as_="rows")) >= 0)
""", os.path.join(SOURCE, "tests", "standin"))
equal(out.count("[{'n': 7, 'ns': 35000}] [] True"), 2, f"what was read: {out}")
call(python, "-m", "pip", "uninstall", "-y", "meridian-profiler")
p = subprocess.run([python, "-c", "import meridian"], capture_output=True, env=env, cwd=work)
check(p.returncode != 0, "uninstalled, it is gone")
equal([n for at, _, files in os.walk(os.path.join(work, "venv", "lib")) for n in files if "meridian" in n and n.endswith((".py", ".sql"))], [], "nothing stays")
finish()
