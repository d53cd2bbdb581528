"""`meridian view` on a full disk and on a file system whose calls fail, for each output format. The exit status is 1. The message names the
file and the system's reason. No file of the failed run stays. The same command succeeds when the fault is over.
Usage: output_faults_test.py MERIDIAN"""
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tests", "fake")]
import fusefs
from lib import check, equal, files_of, finish
from small_disk import SmallDisk

MERIDIAN = sys.argv[1]
FORMATS = ("perfetto", "json", "summary-text", "summary-json", "report-text", "report-json", "report-html", "chrome", "overview-json", "parquet",
           "parquet-explorer", "sqlite", "csv", "steps-json")
CASES = [["--output-format", name] for name in FORMATS] + [["--output-format", "perfetto", "--split", "64K"],
                                                           ["--output-format", ",".join(name for name in FORMATS if name not in ("parquet", "parquet-explorer"))]]
CODES = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT)
PAGE = 4096
seed = int(os.environ.get("MRD_SEED", "1"))
print(f"MRD_SEED={seed}")
draw = random.Random(seed)


def make_trace(path, rank):
    """A trace of a rank, large enough for several Perfetto files with --split 64K."""
    events = [{"name": f"op_{k}_{draw.randrange(10**6)}", "ph": "X", "cat": "cpu_op", "pid": rank, "tid": 1, "ts": 1000000 + k * 100, "dur": 50,
               "args": {"text": f"{draw.getrandbits(120):x}"}} for k in range(900)]
    with open(path, "w") as f:
        json.dump({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}, f)


def view(inputs, out, options):
    p = subprocess.run([MERIDIAN, "view", *inputs, "-o", out, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
    return p.returncode, p.stderr


def under(folder):
    return files_of(folder) if os.path.exists(folder) else {}


def judge(what, inputs, out, options, whole, heal, codes):
    """Runs with the fault, checks what it says and leaves, and runs again without the fault. Returns whether the fault ended the first run."""
    status, said = view(inputs, out, options)
    heal()
    left = under(out)
    if status == 0:
        equal(left, whole, f"{what}: the outputs of a success")
        return False
    equal(status, 1, f"{what}: exit status")
    check(any(os.strerror(code) in said for code in codes) and os.path.dirname(out) in said, f"{what}: the message names file and reason: {said}")
    equal(sorted(left), [], f"{what}: files of the failed run")
    equal(view(inputs, out, options)[0], 0, f"{what}: exit status of the second try")
    equal(under(out), whole, f"{what}: the outputs of the second try")
    return True


def full_disk(disk, inputs):
    out, filler, failed = os.path.join(disk.path, "out"), os.path.join(disk.path, "filler"), 0
    wholes = []
    for options in CASES:
        shutil.rmtree(out, ignore_errors=True)
        equal(view(inputs, out, options)[0], 0, f"{options}: exit status with room")
        whole = files_of(out)
        wholes.append(whole)
        pages = sum(-(-os.path.getsize(os.path.join(out, name)) // PAGE) for name in whole)
        for room in sorted({0, pages // 2, pages - 1}):
            shutil.rmtree(out, ignore_errors=True)
            disk.fill()
            os.truncate(filler, max(0, os.path.getsize(filler) - room * PAGE))
            failed += judge(f"{room} free pages, {options}", inputs, out, options, whole, disk.empty, (errno.ENOSPC,))
    check(failed > 2 * len(CASES), f"most runs meet the full disk: {failed}")
    return wholes


def failing_calls(fs, backing, inputs, wholes):
    out, failed = os.path.join(fs.at, "out"), 0
    for options, whole in zip(CASES, wholes):
        for call, after in (("mkdir", 0), ("create", 0), ("create", 2), ("write", 0), ("flush", 1), ("getattr", 0)):
            code = draw.choice(CODES)
            shutil.rmtree(os.path.join(backing, "out"), ignore_errors=True)
            fs.fail(call, code, after)
            failed += judge(f"{call} {errno.errorcode[code]} after {after}, {options}", inputs, out, options, whole, fs.heal, (code,))
    check(failed > 3 * len(CASES), f"most runs meet the failing call: {failed}")


def full_stdout(inputs):
    for options in ([], ["--html"], ["--json"]):
        with open("/dev/full", "w") as full:
            p = subprocess.run([MERIDIAN, "report", *inputs, *options], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        check(p.returncode == 1 and os.strerror(errno.ENOSPC) in p.stderr, f"report {options} into /dev/full: {p.returncode} {p.stderr}")


work = tempfile.mkdtemp(prefix="mrd-output-")
disk = None
try:
    inputs = [os.path.join(work, f"rank{rank}.json") for rank in range(2)]
    for rank, path in enumerate(inputs):
        make_trace(path, rank)
    full_stdout(inputs)
    disk = SmallDisk(os.path.join(work, "disk"), 16)
    wholes = full_disk(disk, inputs)
    if fusefs.available():
        print("skipped in part:", fusefs.available())
    else:
        backing, at = os.path.join(work, "backing"), os.path.join(work, "mounted")
        os.makedirs(backing)
        os.makedirs(at)
        fs = fusefs.Fuse(backing, at)
        try:
            failing_calls(fs, backing, inputs, wholes)
        finally:
            fs.close()
finally:
    if disk is not None:
        disk.close()
    shutil.rmtree(work, ignore_errors=True)
finish()
