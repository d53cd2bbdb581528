"""Sends a large sparse NTFF file to the aggregator, while the agent is killed once and the
aggregator twice. The transfer must continue where it was, with the same hash, and after each kill
hardly more than the missing bytes may be sent. Argument: the size of the file in megabytes."""
import hashlib
import os
import shutil
import sys

from lib import Cluster, check, equal, finish, free_port, need_daemons, skip, until

size = (int(sys.argv[1]) if len(sys.argv) > 1 else 96) << 20
need_daemons()


def sha256(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while data := f.read(4 << 20):
            h.update(data)
    return h.hexdigest()


with Cluster(node_timeout="60s", flush_timeout="600s") as c:
    free = shutil.disk_usage(c.work).free
    if free < size + (2 << 30):
        skip(f"{size >> 20} MB are needed for the stored file and 2 GB shall stay free; {free >> 20} MB are free")
    ntff = os.path.join(c.folder("capture", "i-test0_pid_42"), "profile_nc_0_session_1.ntff")
    port = free_port()

    def agent():
        slowly = {} if size > 1 << 30 else {"cpu_limit": 1}  # so that there is something left to cut, however late this is
        return c.agent(0, watch=c.folder("capture"), stable="200ms", metrics_port=port, **slowly)

    def sent():
        """Bytes of files that this run of the agent has sent, None while it does not say."""
        for line in (c.get("/metrics", port) or "").splitlines():
            if line.startswith("meridian_agent_artifact_bytes_total{"):
                return int(line.split(" ")[1])
        return None

    def arrived():
        return sum(os.path.getsize(os.path.join(store, n)) for n in os.listdir(store)) if os.path.isdir(store) else 0

    store = c.path("store", "artifacts")
    c.aggregator()
    until(c.answers, "the aggregator answers")
    agent()
    until(lambda: c.connected() == ["i-test0"], "the agent is connected")
    id = c.start()
    c.begun(id)
    with open(ntff, "wb") as f:  # holes, with something at both ends and in the middle
        f.write(b"NTFF" * 1000)
        f.seek(size // 2)
        f.write(os.urandom(1 << 20))
        f.seek(size - 4000)
        f.write(b"end!" * 1000)
    want, patience, cuts = sha256(ntff), 120 + size / 1e6, []
    for part in (1, 2, 3):
        until(lambda: arrived() >= size * part // 4, f"{part} quarters have arrived", patience)
        have = arrived()
        if part == 1:
            c.agents[0].kill()
            agent()
        else:
            c.daemon.kill()
            c.aggregator()
        cuts.append(have)
    done = until(lambda: [a for a in c.session(id).get("artifacts", []) if a["complete"]], "the file has arrived", patience)
    resumed = until(sent, "the agent tells what it sent") or 0
    equal(done and (done[0]["sha256"], done[0]["size"]), (want, size), "hash and size in the manifest")
    equal(sha256(os.path.join(store, want)), want, "hash of the stored file")
    equal(os.listdir(store), [want], "the store")
    # The second run of the agent sends what was missing, and once more what was under way when the aggregator died, twice.
    check(0 < resumed <= size - cuts[0] + (4 << 20), f"{resumed} bytes were sent after the first cut at {cuts[0]} of {size}")
    doc = c.stop(id)
    equal(doc["state"], "complete", "state")
    print(f"{size} bytes, cut at {cuts}: {resumed} bytes sent after the first cut, {resumed - (size - cuts[0])} more than were missing")
finish()
