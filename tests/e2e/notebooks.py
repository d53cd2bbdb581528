"""Tests that the notebooks of docs/tutorial/notebooks contain exactly what executing them gives:
every output of every cell, including the pictures, byte for byte. What their text says of the
outputs must be true."""
import json
import os
import re
import subprocess
import sys

from lib import BIN, SOURCE, check, equal, finish, tmp

folder, work = os.path.join(SOURCE, "docs", "tutorial", "notebooks"), tmp()
env = {**os.environ, "PATH": BIN + ":" + os.environ["PATH"]}
p = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts", "notebooks.py"), "--to", work], capture_output=True, text=True, env=env, timeout=300)
check(p.returncode == 0, f"executing them: {p.returncode}: {p.stderr[-900:]}")
names = sorted(n for n in os.listdir(folder) if n.endswith(".ipynb"))
equal(names, ["late_ranks.ipynb", "where_the_time_goes.ipynb"], "notebooks")
said = {}
for name in names:
    with open(os.path.join(folder, name), encoding="utf-8") as a, open(os.path.join(work, name), encoding="utf-8") as b:
        want, got = json.load(a), json.load(b)
    equal((want["nbformat"], want["nbformat_minor"] >= 5, len({c["id"] for c in want["cells"]})), (4, True, len(want["cells"])), f"{name}: form")
    code = [c for c in want["cells"] if c["cell_type"] == "code"]
    equal([c["execution_count"] for c in code], list(range(1, len(code) + 1)), f"{name}: all cells were executed, in order")
    check(any("image/svg+xml" in o.get("data", {}) for c in code for o in c["outputs"]), f"{name}: pictures")
    for number, (x, y) in enumerate(zip(want["cells"], got["cells"])):
        check(x == y, f"{name}, cell {number}: the output is another now; PATH={BIN}:$PATH python3 scripts/notebooks.py executes them again")
    said[name] = ["".join(o.get("text", [])) for c in code for o in c["outputs"]]

late = [[re.split(r"\s{2,}", line.strip()) for line in text.splitlines()] for text in said["late_ranks.ipynb"] if "proven_n" in text]
proven = [{row[2]: int(row[5]) for row in rows[1:]} for rows in late]
equal(proven[0], {"0": 0, "1": 0, "2": 0, "3": 0}, "of clocks without bounds nothing is proven")
check(proven[1]["2"] >= 20 and sum(proven[1].values()) == proven[1]["2"], f"aligned, rank 2 is proven late and no other: {proven[1]}")
finish()
