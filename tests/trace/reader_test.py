"""The Python readers on what they must refuse: damaged Parquet files are a ParquetError and nothing else, whatever byte is wrong, and a folder
that cannot be opened leaves no file and no descriptor behind.
Usage: reader_test.py MERIDIAN FILES; MRD_SEED=n begins at another seed."""
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import meridian_data
import meridian_parquet


def trace(path):
    args = {"device": 0, "stream": 20, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10, "Group size": 2}
    events = [{"ph": "X", "cat": "kernel", "name": f"ncclDevKernel_AllReduce {i % 3}", "pid": d, "tid": 20, "ts": 100 * i + 10 * d, "dur": 70, "args": {**args, "device": d}}
              for i in range(200) for d in (0, 1)]
    events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 7, "tid": 7, "ts": 1000 * i, "dur": 900} for i in range(20)]
    events += [{"ph": "X", "cat": "user_annotation", "name": "train_step", "pid": 7, "tid": 7, "ts": 1000 * i + 50, "dur": 100} for i in range(20)]
    with open(path, "w") as f:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0}, {"id": 1}], "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}, f)


def damaged_files(files, seed, n):
    rng, refused = random.Random(seed), 0
    for i in range(n):
        path = rng.choice(files)
        with open(path, "rb") as f:
            data = bytearray(f.read())
        for _ in range(rng.choice((1, 2, 8))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)):]
        try:
            meridian_parquet.File(bytes(data), verify=rng.random() < 0.5).read()
        except meridian_parquet.ParquetError:
            refused += 1
        except Exception as e:
            raise AssertionError(f"seed {seed}, file {i} ({os.path.basename(path)}): {e!r}") from e
    for codec in (0, 2, 6):
        for size in (-1, -(1 << 31), (1 << 30) + 1):  # of a page's header, which no checksum covers: it was the room that zstd was told
            try:
                meridian_parquet._unpack(codec, bytes(64), size)
                raise AssertionError(f"a page of {size} bytes was taken")
            except meridian_parquet.ParquetError as e:
                assert str(size) in str(e), e
    assert refused > n // 2, f"{refused} of {n} damaged files were refused"
    print(f"{refused} of {n} damaged files refused")


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
    for where, error in ((broken, meridian_parquet.ParquetError), (os.path.join(work, "empty"), FileNotFoundError),
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


def main():
    meridian, files, seed = sys.argv[1], int(sys.argv[2]), int(os.environ.get("MRD_SEED", "1"))
    with tempfile.TemporaryDirectory(prefix="reader-") as work:
        trace(f"{work}/trace.json")
        subprocess.run([meridian, "view", f"{work}/trace.json", "-o", f"{work}/profile", "--output-format", "parquet"], check=True, capture_output=True)
        damaged_files(sorted(glob.glob(f"{work}/profile/tables/*/*/*/*.parquet")), seed, files)
        left_behind(work, f"{work}/profile/tables")


main()
