"""Tests that an artifact is removed with the last session that lists it. Artifacts are shared by
sessions and nodes, are deleted while the aggregator is killed, and count for --retain-size."""
import hashlib
import json
import os

from lib import Cluster, check, equal, finish, need_daemons, until
from wait import let_it_run

need_daemons()
SHARED, OWN = b"NEFF" * 50000, b"NTFF" * 100000


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def put(c, node, pid, name, data):
    path = os.path.join(c.folder(f"capture{node}", f"i-test{node}_pid_{pid}"), name)
    with open(path, "wb") as f:
        f.write(data)


def record(c, pid, files):
    """A session in which each (node, name, bytes) is written; its id."""
    # After a restart of the aggregator the control connections come back after those of data.
    out = until(lambda: c.run("start", "--json", "--require", "all", want=None)[0], "a session starts")
    id = json.loads(out)["id"]
    c.begun(id)
    for node, name, data in files:
        put(c, node, pid, name, data)
    until(lambda: len([a for a in c.session(id).get("artifacts", []) if a["complete"]]) == len(files), f"{len(files)} files have arrived")
    doc = c.stop(id)
    equal(doc["artifact_bytes"], sum(len(d) for d in {d for _, _, d in files}), "bytes of artifacts, each once")
    return id


def stored(c):
    return sorted(os.listdir(c.path("store", "artifacts")))


def sessions(c):
    return sorted(os.listdir(c.path("store", "sessions")))


def gone(c, id):
    until(lambda: id not in sessions(c) and not os.listdir(c.path("store", "removed")), f"session {id} is removed")


with Cluster(node_timeout="60s") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(2):
        c.agent(i, watch=c.folder(f"capture{i}"), stable="200ms")
    until(lambda: len(c.connected()) == 2, "both agents are connected")

    one = record(c, 1, [(0, "model.neff", SHARED), (1, "model.neff", SHARED), (0, "own.ntff", OWN + b"1")])
    two = record(c, 2, [(0, "model.neff", SHARED), (1, "own.ntff", OWN + b"2")])
    equal(stored(c), sorted(sha256(d) for d in (SHARED, OWN + b"1", OWN + b"2")), "the store holds each file once")
    folders = sum(s.get("store_bytes", 0) for s in (c.session(one), c.session(two)))
    total = c.metric("meridian_store_bytes")
    files = len(SHARED) + 2 * (len(OWN) + 1)
    check(total >= files + folders // 2, f"meridian_store_bytes {total} is about {files} + {folders}")

    equal(c.delete(one), 202, "DELETE")
    gone(c, one)
    until(lambda: stored(c) == sorted(sha256(d) for d in (SHARED, OWN + b"2")), "what the first session alone had is removed")
    c.run("fetch", two, "-o", c.path("two"), "--artifacts")
    fetched = {sha256(open(os.path.join(d, n), "rb").read()): n for d, _, names in os.walk(c.path("two")) for n in names}
    check({sha256(SHARED), sha256(OWN + b"2")} <= set(fetched), f"the artifacts of the second session are fetched: {fetched}")

    # As a capture directory: a folder for each process, the same contents once on disk; what is there already is not asked for again.
    four = record(c, 4, [(0, "model.neff", SHARED), (1, "model.neff", SHARED), (0, "a.ntff", OWN + b"4"), (1, "a.ntff", OWN + b"5")])
    tree = {f"i-test{n}_pid_4/{name}": data for n, name, data in ((0, "model.neff", SHARED), (1, "model.neff", SHARED), (0, "a.ntff", OWN + b"4"), (1, "a.ntff", OWN + b"5"))}

    def in_tree(d):
        return {os.path.relpath(os.path.join(at, n), d): open(os.path.join(at, n), "rb").read() for at, _, names in os.walk(d) for n in names if at != d}

    c.run("fetch", four, "-o", c.path("four"), "--artifacts")
    equal({k: sha256(v) for k, v in in_tree(c.path("four")).items()}, {k: sha256(v) for k, v in tree.items()}, "the vendor's tree")
    equal(os.stat(c.path("four", "i-test0_pid_4", "model.neff")).st_ino, os.stat(c.path("four", "i-test1_pid_4", "model.neff")).st_ino, "one copy, linked")
    os.unlink(c.path("four", "i-test1_pid_4", "a.ntff"))
    for name in os.listdir(c.path("four")):
        if os.path.isfile(c.path("four", name)):
            os.unlink(c.path("four", name))
    for options in ([], ["--force"]):
        c.run("fetch", four, "-o", c.path("four"), "--artifacts", *options)
        equal(set(in_tree(c.path("four"))), set(tree), f"goes on where it was interrupted {options}")
    with open(c.path("four", "i-test0_pid_4", "a.ntff"), "wb") as f:
        f.write(b"mine")
    _, err = c.run("fetch", four, "-o", c.path("four"), "--artifacts", "--format", "summary-json", want=1)
    check("i-test0_pid_4/a.ntff exists: --force replaces it" in err, f"another file is not replaced: {err}")
    c.run("fetch", four, "-o", c.path("four"), "--artifacts", "--force")
    equal({k: sha256(v) for k, v in in_tree(c.path("four")).items()}, {k: sha256(v) for k, v in tree.items()}, "replaced")
    equal(c.delete(four), 202, "DELETE")
    gone(c, four)

    # From the deepest folder that is looked into; and a name that becomes no path, which the session says it lacks.
    five = json.loads(c.run("start", "--json", "--require", "all")[0])["id"]
    c.begun(five)
    deep = os.path.join(*(f"d{i}" for i in range(11)))
    os.makedirs(c.path("capture0", "i-test0_pid_5", deep))
    put(c, 0, 5, os.path.join(deep, "x.ntff"), OWN + b"6")
    put(c, 0, 5, "a\nb.ntff", OWN + b"7")
    until(lambda: [a["name"] for a in c.session(five)["artifacts"] if a["complete"]] == [f"{deep}/x.ntff"] and
          {n["instance_id"]: n.get("refused_files", 0) for n in c.session(five)["nodes"]} == {"i-test0": 1, "i-test1": 0}, "one file is there, and one refused")
    _, err = c.run("stop", five, want=3)
    check("incomplete: node i-test0: 1 file was refused, the last: 'a?b.ntff': the name has a control character" in err, f"stop says what is missing: {err}")
    equal(c.delete(five), 202, "DELETE")
    gone(c, five)

    # Sent again when a later session wants it: the agent believes no answer of before.
    three = record(c, 3, [(0, "own.ntff", OWN + b"1")])
    equal(len(stored(c)), 3, "files")

    # Killed at once after it agreed to delete: the session is whole or gone.
    for n in range(4):
        equal(c.delete(two), 202, "DELETE")
        let_it_run(0.1 * n)
        c.daemon.kill()
        if two in sessions(c):
            check({sha256(SHARED), sha256(OWN + b"2")} <= set(stored(c)), "a session that is there has its artifacts")
        c.aggregator()
        until(c.answers, "the aggregator is back")
        if two not in sessions(c):
            break
        equal({a["complete"] for a in c.session(two).get("artifacts", [])}, {True}, "its artifacts are complete")
    else:
        c.delete(two)
    gone(c, two)
    until(lambda: stored(c) == [sha256(OWN + b"1")], "only what the third session lists is left")

    # A manifest that cannot be read may list anything: nothing is removed until it can be read.
    with open(c.path("store", "artifacts", sha256(b"stray")), "wb") as f:
        f.write(b"stray")
    os.makedirs(c.path("store", "sessions", "20200101-000000-0001"))
    with open(c.path("store", "sessions", "20200101-000000-0001", "session.json"), "w") as f:
        f.write("{")
    c.daemon.end()
    c.aggregator()
    until(c.answers, "the aggregator is back")
    until(lambda: "AGG-ARTIFACTS-KEPT" in c.daemon.text(), "the log says that artifacts are kept")
    equal(len(stored(c)), 2, "files while a manifest cannot be read")
    os.remove(c.path("store", "sessions", "20200101-000000-0001", "session.json"))
    c.daemon.end()

    # The journals alone are far below the limit.
    c.aggregator(retain_size="600K")
    until(c.answers, "the aggregator is back")
    until(lambda: stored(c) == [sha256(OWN + b"1")], "what nobody lists is removed at the start")
    until(lambda: len(c.connected()) == 2, "both agents are connected")
    four = record(c, 4, [(1, "own.ntff", OWN + b"4")])
    until(lambda: three not in sessions(c), "the older session goes for want of room")
    until(lambda: stored(c) == [sha256(OWN + b"4")], "with its artifact")
    check(four in sessions(c), "the younger one stays")
    until(lambda: c.metric("meridian_artifacts_removed_total") >= 2, "both artifacts are counted")
    until(lambda: "the oldest beyond --retain-size" in c.daemon.text(), "the log says why")
finish()
