"""Tests exports (into a directory and into S3) and conversions of a store whose disk fails at
single system calls. A failure must be reported with the system's reason. What is reported as done
must be complete, no object or artifact may be a part of a file, and the next attempt must succeed
when the disk works again. Usage: copies_fuse_test.py EXPORT_RUN CONVERT_RUN S3_PUT"""
import errno
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tests", "fake")]
import fusefs
import s3_server
from lib import check, equal, files_of, finish, skip

EXPORT, CONVERT, PUT = sys.argv[1:4]
FILES = {"profile/system_profile.pftrace": 600000, "profile/tables/events.parquet": 1, "profile/tables/_manifest.json": 2, "i-a_pid_7/model.neff": 0, "session.json": 3}
READS = ("lookup", "getattr", "open", "read", "opendir", "readdir")
WRITES = ("mkdir", "create", "write", "fsync", "fsyncdir", "rename", "rename2", "link", "setattr", "statfs", "unlink", "rmdir", "flush")
READ_ERRORS = (errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE)
WRITE_ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.ENOMEM, errno.EDQUOT)
RESULTS = {"viewer/device_profile_model_1.pftrace": b"trace\n" * 9000, "viewer/tables/p/T.parquet": b"table\n" * 9000}

if fusefs.available():
    skip(fusefs.available())
seed = int(os.environ.get("MRD_SEED", "1"))
print(f"MRD_SEED={seed}")
draw = random.Random(seed)
work = tempfile.mkdtemp(prefix="mrd-copies-")
backing, store, target = (os.path.join(work, n) for n in ("backing", "mounted", "target"))
source = os.path.join(backing, "sessions", "s-1")


def fill(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def run(*command, env=None, status=0):
    p = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, **(env or {})})
    check(p.returncode == status, f"{command[0]}: {p.returncode} {p.stderr}")
    return (p.stdout + p.stderr).rstrip("\n")


def environment(server):
    return {"AWS_REGION": s3_server.REGION, "AWS_ENDPOINT_URL": server.url, "no_proxy": "*", "AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET}


def attempts(fs, calls, codes, n):
    """n times for each kind of call, refuses one drawn call, or all from there on. Yields what it is, and the error."""
    for call in calls:
        for _ in range(n):
            code, after, times = draw.choice(codes), int(1.2 ** draw.randrange(25)) - 1, draw.choice((1, None))
            fs.fail(call, code, after, times)
            yield f"{call} {errno.errorcode[code]} after {after}{'' if times is None else ', once'}", code
            fs.heal()


def whole(server, wanted, what):
    for key, (data, meta) in server.objects.items():
        equal(hashlib.sha256(data).hexdigest(), wanted[key.split("s-1/", 1)[1]], f"{what}: the object {key} is whole")
        equal(meta, hashlib.sha256(data).hexdigest(), f"{what}: the hash that {key} states")


def exports(fs):
    wanted = {n: hashlib.sha256(open(os.path.join(source, n), "rb").read()).hexdigest() for n in FILES}
    told = through = 0
    for what, code in attempts(fs, READS, READ_ERRORS, 3):
        began = time.monotonic()
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        server = s3_server.Server()
        for to in (target, "s3://bucket/x"):
            text = run(EXPORT, store, "s-1", to, "target", "60000", env=environment(server))
            if text.startswith("done "):
                check(text.startswith(f"done {len(FILES)} "), f"{what}: {to}: {text}")
                through += 1
            else:
                told += check(text.startswith("failed ") and os.strerror(code) in text, f"{what}: {to}: {text}")
        copy = os.path.join(target, "runs", "s-1")
        check(not os.path.exists(os.path.join(copy, "session.json")) or files_of(copy) == files_of(source), f"{what}: session.json is last")
        whole(server, wanted, what)
        check(time.monotonic() - began < 20, f"{what}: told at once, not after a timeout: {time.monotonic() - began:.1f} s")
        fs.heal()
        for to in (target, "s3://bucket/x"):
            text = run(EXPORT, store, "s-1", to, "target", "60000", env=environment(server))
            check(text.startswith(f"done {len(FILES)} "), f"{what}: {to}: and again: {text}")
        equal(files_of(copy), files_of(source), f"{what}: the copy")
        whole(server, wanted, what)
        equal(len(server.objects), len(FILES), f"{what}: objects")
        server.shutdown()
        server.server_close()
    print(f"exports: {told} failures told, {through} came through")
    check(told > 5, "some failures are told")


def parts(fs):
    """A large file, which is read twice and sent in parts, and cannot be read in the middle."""
    large = os.path.join(backing, "large")
    fill(large, b"m" * ((64 << 20) + 5))
    server = s3_server.Server()
    for after in (0, 500, 1100, 1300, 1700, 2600):
        fs.fail("read", errno.EIO, after)
        text = run(PUT, "bucket", "large", os.path.join(store, "large"), env=environment(server), status=1)
        check("IO: " in text and os.strerror(errno.EIO) in text, f"read {after}: {text}")
        equal((server.objects, server.uploads), ({}, {}), f"read {after}: nothing is there, no upload is open")
    fs.heal()
    equal(run(PUT, "bucket", "large", os.path.join(store, "large"), env=environment(server)), str(os.path.getsize(large)), "and again")


def conversions(fs):
    inputs = {"a.ntff": b"profile", "b.neff": b"model"}
    hashes = {n: hashlib.sha256(d).hexdigest() for n, d in inputs.items()}
    for n, data in inputs.items():
        fill(os.path.join(backing, "artifacts", hashes[n]), data)
    viewer = os.path.join(work, "viewer")
    # cat fails where an input cannot be read
    fill(viewer, b"#!/bin/sh\nset -e\ncat \"$1\"/i-a_pid_7/a.ntff > /dev/null\nif [ $2 = trace ]; then yes trace | head -9000 > device_profile_model_1.pftrace\n"
         b"else mkdir p; yes table | head -9000 > p/T.parquet; fi\n")
    os.chmod(viewer, 0o755)
    made = os.path.join(source, "i-a_pid_7")
    told = through = partly = 0

    def convert():
        return run(CONVERT, store, "s-1", "60000", f"{viewer} {{input}} trace", f"{viewer} {{input}} table", *(f"{n}={h}" for n, h in hashes.items()))

    def results():
        return {n: d for n, d in ((n, open(os.path.join(made, n), "rb").read()) for n in RESULTS if os.path.exists(os.path.join(made, n)))}

    for what, code in attempts(fs, READS + WRITES + ("lookup",) * 5, READ_ERRORS + WRITE_ERRORS, 2):
        text = convert()
        fs.heal()
        if text.startswith("done "):
            n = int(text.split()[1])
            got = results()
            check(n == len(RESULTS) or (n == 1 and "no " in text and os.strerror(code) in text), f"{what}: {text}")
            check(len(got) == n and all(RESULTS[k] == d for k, d in got.items()), f"{what}: {text}: {({k: len(d) for k, d in got.items()})}")
            through += n == len(RESULTS)
            partly += n == 1
        else:
            told += check(text.startswith("failed ") and os.strerror(code) in text, f"{what}: {text}")
        for name in os.listdir(os.path.join(backing, "artifacts")):
            with open(os.path.join(backing, "artifacts", name), "rb") as f:
                equal(hashlib.sha256(f.read()).hexdigest(), name, f"{what}: an artifact is what its name says")
        equal(convert().rstrip(), f"done {len(RESULTS)}", f"{what}: and again")
        equal(results(), RESULTS, f"{what}: and again")
        equal(os.listdir(os.path.join(backing, "converting")), [], f"{what}: no folder of a run is left")
    print(f"conversions: {told} failures told, {partly} partly, {through} came through")
    check(told > 5, "some failures are told")


for name, size in FILES.items():
    fill(os.path.join(source, name), draw.randbytes(size))
os.makedirs(store)
fs = fusefs.Fuse(backing, store)
try:
    for test in (exports, parts, conversions):
        if len(sys.argv) < 5 or sys.argv[4] == test.__name__:
            test(fs)
finally:
    fs.close()
shutil.rmtree(work, ignore_errors=True)
finish()
