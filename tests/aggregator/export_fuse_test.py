"""Tests exports into a file system that fails at each of its calls, maps root to nobody, stores
whole seconds only, and hangs. The aggregator also runs as a user other than root. Failures must be
reported with the system's reason, and what is reported as done must be complete. When the file
system works again, the exports continue. Usage: export_fuse_test.py EXPORT_RUN"""
import errno
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
from lib import check, equal, files_of, finish, skip

RUN = sys.argv[1]
OWNER, SELF = 54321, 54323
FILES = {"profile/system_profile.pftrace": 300000, "profile/tables/events.parquet": 1, "profile/tables/_manifest.json": 2, "i-a_pid_1/model.neff": 0, "session.json": 3}
CALLS = ("lookup", "getattr", "setattr", "mkdir", "create", "write", "fsync", "rename", "rename2", "unlink", "opendir", "readdir", "fsyncdir", "flush", "release")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ESTALE, errno.EDQUOT, errno.ENOTCONN)

if os.geteuid() != 0:
    skip(fusefs.available())
seed = int(os.environ.get("MRD_SEED", "1"))
print(f"MRD_SEED={seed}")
draw = random.Random(seed)
work = tempfile.mkdtemp(prefix="mrd-fuse-")
store, backing, at = (os.path.join(work, n) for n in ("store", "backing", "mounted"))
source = os.path.join(store, "sessions", "s-1")
for name, size in FILES.items():
    os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
    with open(os.path.join(source, name), "wb") as f:
        f.write(draw.randbytes(size))
os.makedirs(backing)
os.makedirs(at)
copy = os.path.join(backing, "runs", "s-1")


def export(whose, ms=60000, env=None):
    p = subprocess.run([RUN, store, "s-1", at, whose, str(ms)], capture_output=True, text=True, timeout=120, env=env)
    check(p.returncode == 0, f"export_run: {p.returncode} {p.stderr}")
    return p.stdout.rstrip("\n")


def done(text, what):
    ok = check(text.startswith(f"done {len(FILES)} "), f"{what}: {text}")
    return ok and equal(files_of(copy), files_of(source), f"{what}: the copy")


def clear():
    shutil.rmtree(os.path.join(backing, "runs"), ignore_errors=True)


def fails(fs):
    told = through = 0
    for call in CALLS:
        for _ in range(6):
            code, after, whose = draw.choice(ERRORS), draw.choice((0, 0, 1, 2, 5, 9)), draw.choice(("owner", "target"))
            what = f"{call} {errno.errorcode[code]} after {after}, {whose}"
            clear()
            fs.fail(call, code, after)
            text = export(whose)
            fs.heal()
            if text.startswith("done"):
                done(text, what)
                through += 1
            else:
                told += check(text.startswith("failed ") and os.strerror(code) in text and at in text, f"{what}: {text}")
                check(not os.path.exists(os.path.join(copy, "session.json")) or files_of(copy) == files_of(source), f"{what}: session.json is last")
            done(export(whose), f"{what}: and again")
            if whose == "owner":
                s = os.lstat(copy)
                equal((s.st_uid, s.st_mode & 0o7777), (OWNER, 0o700), f"{what}: whose it is")
    print(f"{told} failures told, {through} exports came through")
    check(told > 40, "most failures are told")


def nobody(fs):
    clear()
    fs.squash()
    done(export("target"), "root is nobody")
    equal(export("target"), f"done {len(FILES)} 0", "again: nothing is written twice")
    clear()
    text = export("owner")
    check(text.startswith("failed ") and "CAP_CHOWN" in text, text)
    fs.heal()


def seconds(fs):
    fs.seconds()
    name = "profile/tables/events.parquet"
    for whose in ("target", "owner"):
        clear()
        for file in FILES:
            os.utime(os.path.join(source, file), ns=(0, 1700000000 * 10**9 + draw.randrange(1000, 10**9)))
        done(export(whose), f"whole seconds, {whose}")
        equal(export(whose), f"done {len(FILES)} 0", f"whole seconds, {whose}: nothing is written twice")
        with open(os.path.join(source, name), "wb") as f:
            f.write(draw.randbytes(FILES[name]))
        text = export(whose)
        if whose == "owner":
            check(text.startswith("failed ") and name in text, f"what was given is another one: {text}")
        else:
            done(text, "whole seconds: of another second")
            check(text.endswith(f" {FILES[name]}"), f"and no other file: {text}")
    fs.heal()


def hangs(fs):
    clear()
    fs.freeze()
    began = time.monotonic()
    # Built with the address sanitizer, the search for leaks would wait at the end for the thread that hangs.
    env = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    equal(export("target", 300, env), "left", "the file system does not answer")
    check(time.monotonic() - began < 40, f"the exporter ends without it: {time.monotonic() - began:.1f} s")
    fs.thaw()
    done(export("target"), "it answers again")


def rights():
    """An aggregator that is not root, with the capabilities that docs/reference/data.md names, into a folder of its own on the disk."""
    def become(*caps):
        words = ",".join("+" + c for c in caps)
        return ["setpriv", f"--reuid={SELF}", f"--regid={SELF}", "--clear-groups", *([f"--inh-caps={words}", f"--ambient-caps={words}"] if caps else ["--bounding-set=-all"])]

    program = os.path.join(work, "export_run")  # where that user may read it
    shutil.copy(RUN, program)
    os.chmod(work, 0o755)
    os.chmod(program, 0o755)
    if subprocess.run([*become("chown"), program], capture_output=True).returncode != 2:
        print("skipped in part: setpriv cannot pass CAP_CHOWN on here")
        return
    for folder, folders, names in os.walk(store):
        for n in ["."] + names:
            os.chown(os.path.join(folder, n), SELF, SELF)
    clear()
    os.chown(backing, SELF, SELF)

    def run(*caps):
        p = subprocess.run([*become(*caps), program, store, "s-1", backing, "owner", "60000"], capture_output=True, text=True, timeout=120)
        return p.stdout.rstrip("\n") or p.stderr

    text = run()
    check(text.startswith("failed ") and "CAP_CHOWN" in text and os.lstat(copy).st_uid == SELF, f"without a right: {text}")
    # As a kill leaves it that came while it was given: what is inside is the user's already.
    for folder in ("profile", "profile/tables", "profile/system_profile.pftrace"):
        os.chown(os.path.join(copy, folder), OWNER, -1)
    done(run("chown"), "the rest is given")
    equal({os.lstat(os.path.join(folder, n)).st_uid for folder, _, names in os.walk(copy) for n in ["."] + names}, {OWNER}, "all of it is the user's")
    text = run("chown")
    check(text.startswith("failed ") and "already" in text and os.strerror(errno.EACCES) in text, f"it may not look into it: {text}")
    equal(run("chown", "dac_read_search"), f"done {len(FILES)} 0", "what was given is compared")


rights()
clear()
os.chown(backing, 0, 0)
if fusefs.available():
    print("skipped in part:", fusefs.available())
else:
    fs = fusefs.Fuse(backing, at)
    try:
        fails(fs)
        nobody(fs)
        seconds(fs)
        hangs(fs)
    finally:
        fs.close()
shutil.rmtree(work, ignore_errors=True)
finish()
