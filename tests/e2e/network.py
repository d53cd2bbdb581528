"""The network between two nodes and the aggregator is cut for longer than memory and rings can hold
the events. The agents must then use their spools and deliver everything once when the network is
back. Nodes are network namespaces, so the test needs root. Argument: how many cuts."""
import ctypes
import json
import os
import subprocess
import sys

from lib import MERIDIAN, Cluster, check, check_ticks, equal, equation, finish, need_daemons, skip, until

NODES, NETWORK = 2, "10.92.8"
need_daemons()
cuts = int(sys.argv[1]) if len(sys.argv) > 1 else 1


def ip(*words, must=True):
    p = subprocess.run(["ip", *words], capture_output=True, text=True)
    if must and p.returncode != 0:
        skip(f"no network namespaces can be made (root and ip are needed): ip {' '.join(words)}: {p.stderr.strip()}")


class Network:
    """A hub's namespace with a bridge, and one namespace per node on a link of its own."""

    def __init__(self, nodes):
        self.hub, self.nodes = f"mrdf{os.getpid()}", [f"mrdf{os.getpid()}-{i}" for i in range(nodes)]
        ip("netns", "add", self.hub)
        try:
            ip("-n", self.hub, "link", "set", "lo", "up")
            ip("-n", self.hub, "link", "add", "br0", "type", "bridge")
            ip("-n", self.hub, "addr", "add", NETWORK + ".1/24", "dev", "br0")
            ip("-n", self.hub, "link", "set", "br0", "up")
            for i, name in enumerate(self.nodes):
                ip("netns", "add", name)
                ip("-n", self.hub, "link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("-n", self.hub, "link", "set", f"v{i}", "master", "br0", "up")
                ip("-n", name, "addr", "add", f"{NETWORK}.{10 + i}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.close()
            raise

    def inside(self, space):
        return ["ip", "netns", "exec", space]

    def link(self, i, state):
        ip("-n", self.hub, "link", "set", f"v{i}", state)

    def close(self):
        for name in [*self.nodes, self.hub]:
            ip("netns", "del", name, must=False)


def enter(space):
    """This process, and what it starts, is in that namespace from now on."""
    with open(f"/run/netns/{space}") as f:
        if ctypes.CDLL(None, use_errno=True).setns(f.fileno(), 0x40000000) != 0:  # CLONE_NEWNET
            skip(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")


def stored(id, i):
    return c.session(id)["nodes"][order.index(f"i-test{i}")]["events"]


net = Network(NODES)
try:
    enter(net.hub)
    with Cluster(host=NETWORK + ".1", insecure=True, node_timeout="5s", flush_timeout="120s") as c:
        c.aggregator()
        until(c.answers, "the aggregator answers")
        for i in range(NODES):
            c.agent(i, prefix=net.inside(net.nodes[i]), insecure=True)
        until(lambda: len(c.connected()) == NODES, "all agents are connected")
        id = c.start("--require", "all")
        order = [part["instance_id"] for part in c.session(id)["nodes"]]
        c.begun(id, NODES)
        workloads = [c.workload(i, ring_size="4M", text=200) for i in range(NODES)]
        for w in workloads:
            w.emit(1000)
        for cut in range(cuts):
            # The node that keeps its link shows that one node's failure is not the others'.
            off = cut % NODES
            w, other = workloads[off], workloads[1 - off]
            before = w.done
            net.link(off, "down")
            # More than the ring holds, so that only the spool can have it.
            while w.done - before < 25000:
                w.emit(500)
                other.emit(100)
                w.taken()
            until(lambda: c.connected() == [f"i-test{1 - off}"], "the cut node is gone, the other is not")
            until(lambda: stored(id, 1 - off) == other.all, "the other's ticks arrive meanwhile")
            check(stored(id, off) < w.all, "the cut node's ticks cannot have arrived")
            net.link(off, "up")
            until(lambda: len(c.connected()) == NODES, "the node is back", 120)
            until(lambda: stored(id, off) == w.all, "what was spooled arrives", 120)
        # A session that ends while a node is cut off waits for it.
        net.link(0, "down")
        workloads[0].emit(2000)
        stopping = subprocess.Popen([MERIDIAN, "stop", id, "--json"], env=c.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: c.session(id)["state"] == "stopping", "the session waits for the node that is cut off")
        net.link(0, "up")
        out, err = stopping.communicate(timeout=200)
        equal(stopping.returncode, 0, f"stop: {err}")
        doc = json.loads(out)
        equal(doc["state"], "complete", "state")
        equation(doc, "network")
        equal(doc["begun"], sum(w.all for w in workloads), "begun, of what the workloads say they emitted")
        total = check_ticks(c.ticks(id), {(f"i-test{i}", w.pid): w for i, w in enumerate(workloads)}, "network")
        print(f"{cuts} cuts: {total} ticks, each there once")
finally:
    net.close()
finish()
