"""Kills `meridian view --output-format parquet,parquet-explorer,csv` with SIGKILL at random times
and starts it again in the same directory. A manifest that exists must list only files that exist
and are complete. At the end every file must be as from an undisturbed run, and there must be no
others. Usage: table_kills.py TIMES [SEED]"""
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time

from lib import MERIDIAN, check, equal, files_of, finish, tmp

TIMES, SEED = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
FOLDERS = ("tables", "system_profile", "csv")
rng, work = random.Random(SEED), tmp()


def trace(path, n=60000):
    events = [{"ph": "X", "name": f"op{i % 97}", "cat": "cpu_op", "pid": 1 + i % 3, "tid": i % 7, "ts": 1700000000000000 + 3 * i, "dur": i % 11, "args": {"i": i, "text": f"{i * 7919 % 10007}"}}
              for i in range(n)]
    with open(path, "w") as f:
        json.dump({"traceEvents": events}, f)


def command(to):
    return [MERIDIAN, "view", os.path.join(work, "trace.json"), "--output-format", "parquet,parquet-explorer,csv", "-o", to, "--force"]


def whole(to, when):
    """What a manifest lists is there as it says. How many manifests there are."""
    n = 0
    for folder in FOLDERS:
        manifest = os.path.join(to, folder, "_manifest.json")
        if not os.path.exists(manifest):
            continue
        n += 1
        with open(manifest) as f:
            doc = json.load(f)
        for table in doc["tables"]:
            for part in table["parts"]:
                path = os.path.join(to, folder, part["path"])
                if check(os.path.exists(path), f"{when}: {folder} lists {part['path']}, which is not there"):
                    with open(path, "rb") as f:
                        equal(hashlib.sha256(f.read()).hexdigest(), part["sha256"], f"{when}: {part['path']}")
    return n


trace(os.path.join(work, "trace.json"))
good, bad = os.path.join(work, "good"), os.path.join(work, "bad")
began = time.monotonic()
subprocess.run(command(good), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
took = time.monotonic() - began
want, killed, seen, runs = files_of(good), 0, 0, 0
while killed < TIMES and runs < 20 * TIMES:
    began, runs = time.monotonic(), runs + 1
    p = subprocess.Popen(command(bad), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        p.wait(rng.uniform(0, 1.2 * took))
        took = time.monotonic() - began  # the machine is as fast as it is now
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
        killed += 1
    seen += whole(bad, f"seed {SEED}, run {runs}")
equal(killed, TIMES, "runs that were killed")
subprocess.run(command(bad), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
got = {k: v for k, v in files_of(bad).items() if not re.fullmatch(r".*/_manifest\.json\.\w+\.part", k)}  # of the killed, empty
equal({k: v for k, v in got.items() if want.get(k) != v}, {}, "files that an undisturbed run does not write")
equal([k for k in want if k not in got], [], "files that are missing")
print(f"killed {killed} of {runs} runs of {took:.2f} s; {seen} manifests were there in between, all whole")
finish()
