"""The exporter and S3 servers of others: Ceph's radosgw, which is strict, and s3rver.

Usage: s3lab.py [CASE...]   (make s3lab)
"""
import hashlib
import os
import random
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e")]
import servers
from lib import BUILD, check, equal, files_of, finish, free_port, skip, tmp, until
from service import Service
from wait import let_it_run

KILLS = int(os.environ.get("S3LAB_KILLS", "12"))
PUT = os.path.join(BUILD, "bin", "s3_put")
S3RVER = os.path.join(BUILD, "s3lab", "node_modules", ".bin", "s3rver")


def made(path, size, seed):
    with open(path, "wb") as f:
        f.write(random.Random(seed).randbytes(size))
    return path


def put(server, key, *files, want=0):
    p = subprocess.run([PUT, "objects", key, *files], capture_output=True, text=True, timeout=300, env={**os.environ, **server.environment()})
    check(p.returncode == want, f"{key}: {p.returncode}, {p.stderr.strip()}")
    return [int(x) for x in p.stdout.split()], p.stderr


def objects(server):
    """Keys that need care when they are signed, objects of every kind of size, the same again, and another writer's object."""
    server.done("PUT", "objects")
    folder = tmp()
    files = [made(os.path.join(folder, str(n)), size, n) for n, size in enumerate((0, 1, 70000, (64 << 20), (64 << 20) + 1))]
    want = {}
    for key in ("plain", "table=events/date=2026-11-23", "a b/~+%41&x=y?z#", "ünïcode/日本", "end."):
        some = files if key == "plain" else files[:3]
        sent, _ = put(server, key, *some)
        equal(sent, [os.path.getsize(f) for f in some], f"{key}: bytes sent")
        for n, f in enumerate(some):
            with open(f, "rb") as data:
                want[f"{key}/{n}"] = hashlib.sha256(data.read()).hexdigest()
        equal(put(server, key, *some)[0], [0] * len(some), f"{key}: nothing is sent again")
    equal(server.objects("objects"), want, "objects")
    equal(server.uploads("objects"), [], "uploads left open")
    if not server.strict:
        return
    # Killed inside an upload in parts: the next attempt gives up what was left.
    p = subprocess.Popen([PUT, "objects", "left", files[4]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **server.environment()})
    until(lambda: server.uploads("objects"), "an upload in parts is open")
    p.kill()
    p.wait()
    equal(server.uploads("objects"), ["left/0"], "the killed upload is open")
    equal(put(server, "left", files[4])[0], [os.path.getsize(files[4])], "sent whole")
    equal(server.uploads("objects"), [], "what was left is given up")
    # Two writers of one object: one of them made it, the other says so or finds it later and replaces it; it is one of the two, whole.
    one, other = files[2], made(os.path.join(folder, "other"), 70000, 99)
    lost = 0
    for n in range(16):
        both = [subprocess.Popen([PUT, "objects", f"race{n}", f], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **server.environment()})
                for f in (one, other)]
        said = [p.communicate(timeout=120)[1] for p in both]
        for p, why in zip(both, said):
            check(p.returncode == 0 or why.startswith("EXISTS"), f"race {n}: {p.returncode}, {why}")
        lost += sum(p.returncode != 0 for p in both)
        check(any(p.returncode == 0 for p in both), f"race {n}: one of the two wrote")
        sha = list(server.objects("objects", f"race{n}/").values())
        check(sha in [[hashlib.sha256(open(f, "rb").read()).hexdigest()] for p, f in zip(both, (one, other)) if p.returncode == 0], f"race {n}: the object of one who wrote")
    check(lost > 0, "no writer met another one: the condition was not tried")
    _, error = put(servers.Client(server.port, server.key, "wrong"), "wrong", files[1], want=1)
    check("DENIED" in error and "403" in error, f"a wrong secret is refused: {error}")


def sessions(server):
    """Whole sessions, with kill -9 of the aggregator at drawn moments while it exports."""
    server.done("PUT", "sessions")
    draw = random.Random(int(os.environ.get("MRD_SEED", "1")))
    with Service(export="s3://sessions/pre=fix", export_path="{date}/{session}", export_rate="100K") as service:
        service.env.update(server.environment())
        workloads, inside = service.begin(), 0
        for kill in range(1 + (KILLS if server.strict else 0)):  # s3rver cannot list a bucket any more after an upload that was cut
            id = service.recorded(workloads, 1000)
            state = lambda: service.session(id).get("export", {}).get("state")
            if kill > 0:
                until(lambda: state() in ("running", "done"), "the export begins")
                let_it_run(draw.random())  # at that rate an export takes a second: the kill falls anywhere in it
                inside += state() == "running"
                service.daemon.kill()
                service.aggregator()
                until(service.answers, "the aggregator answers")
            until(lambda: state() == "done", f"session {kill} is exported", 120)
            keys = [k for k in server.keys("sessions") if f"/{id}/" in k]
            prefix = keys[0].split(f"/{id}/")[0] + f"/{id}/" if keys else ""
            got = {k[len(prefix):]: sha for k, sha in server.objects("sessions", prefix).items()} if keys else {}
            equal(len(keys), len(set(keys)), "each object once")
            check(got.pop("session.json", None), f"session {kill}: session.json is there")
            have = files_of(service.path("store", "sessions", id))
            equal(got, {p: h for p, h in have.items() if not p.startswith(("journal/", "clocks/")) and not p.endswith(".part") and p not in ("artifacts.log", "session.json")}, f"session {kill}: files")
        equal(server.uploads("sessions"), [], "uploads left open")
        if server.strict:
            check(inside > KILLS / 3, f"{inside} of {KILLS} kills fell into an export")
            print(f"s3lab: {KILLS} kills, {inside} while the export ran")


def main():
    cases = {"objects": objects, "sessions": sessions}
    wanted = sys.argv[1:] or list(cases)
    unknown = [w for w in wanted if w not in cases]
    if unknown:
        sys.exit(f"s3lab: no case {', '.join(unknown)}; there are {', '.join(cases)}")
    missing = [p for p in servers.Ceph.PROGRAMS if shutil.which(p) is None]
    if missing:
        skip(f"the laboratory needs Ceph's programs, {', '.join(missing)} not found: make s3lab installs ceph-common, ceph-mon, ceph-osd and radosgw")
    folder = tmp()
    labs = [servers.Ceph(os.path.join(folder, "ceph"), free_port)]
    if os.path.exists(S3RVER):
        os.mkdir(os.path.join(folder, "s3rver"))
        labs.append(servers.S3rver(os.path.join(folder, "s3rver"), free_port, S3RVER))
    else:
        print("s3rver is not there: only Ceph is asked")
    for server in labs:
        try:
            server.start(until)
            for case in wanted:
                cases[case](server)
                print(f"s3lab: {type(server).__name__} {server.version()}: {case} done", flush=True)
        finally:
            server.end()
    finish()


main()
