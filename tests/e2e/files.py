"""Many files in a capture directory reach the store, each once, with its name and its bytes. Argument: how many."""
import hashlib
import os
import sys
import time

from lib import Cluster, check, equal, finish, need_daemons, until

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
need_daemons()

with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0, watch=c.folder("capture"), stable="200ms")
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    id = c.start()
    c.begun(id)
    want = {}
    for n in range(count):
        folder = c.folder("capture", f"i-test0_pid_{100 + n % 7}", f"part{n % 13}")
        name = f"profile_nc_{n % 8}_session_{n}.ntff"
        text = hashlib.sha256(str(n).encode()).hexdigest().encode() * (n % 50 + 1)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(text)
        want[(f"part{n % 13}/{name}", 100 + n % 7)] = hashlib.sha256(text).hexdigest()
    started = time.monotonic()
    w = c.workload(0)  # events go on beside them
    w.run(0.5)
    until(lambda: c.metric("meridian_artifacts_stored_total") == count, f"{count} files have arrived", 60 + count / 10)
    took = time.monotonic() - started
    w.pause()
    c.within_session(id)
    doc = c.stop(id)
    got = {(a["name"], a["process_id"]): a["sha256"] for a in doc["artifacts"] if a["kind"] == "NTFF" and a["complete"]}
    equal(len(doc["artifacts"]), count, "files in the manifest")
    equal(got, want, "names and hashes")
    for (name, pid), sha in list(want.items()):
        for path in (c.path("store", "artifacts", sha), c.path("store", "sessions", id, f"i-test0_pid_{pid}", name)):
            with open(path, "rb") as f:
                if not equal(hashlib.sha256(f.read()).hexdigest(), sha, path):
                    break
    equal(len([n for n in os.listdir(c.path("store", "artifacts")) if not n.endswith(".part")]), count, "files in the store")
    numbers = c.ticks(id).get(("i-test0", w.pid), [])
    equal(numbers, list(range(1, w.done + 1)), "ticks beside the files")
    print(f"{count} files in {took:.1f} s, {count / took:.0f} a second")
finish()
