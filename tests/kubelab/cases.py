"""The cases of kubelab.py, in the order in which they run: each leaves the cluster with both agents and the aggregator Ready."""
import json
import os
import re
import subprocess
import time

from lib import SOURCE, check, equal, until
from wait import within

HERE = os.path.dirname(os.path.abspath(__file__))
DEPLOY = os.path.join(SOURCE, "deploy")
NAMESPACE = "meridian"
VOLUME = """apiVersion: v1
kind: PersistentVolume
metadata: {{name: store}}
spec:
  capacity: {{storage: 200Gi}}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: meridian-gp3
  hostPath: {{path: {path}, type: Directory}}
"""


def readme_commands():
    """The commands of deploy/README.md for Kubernetes, one per element, without comments."""
    with open(os.path.join(DEPLOY, "README.md")) as f:
        text = f.read().split("\n## Kubernetes\n", 1)[1].split("\n## ", 1)[0]
    block = re.search(r"```sh\n(.*?)```", text, re.S).group(1).replace("\\\n", " ")
    return [line for line in (re.sub(r"\s+#.*", "", line).strip() for line in block.splitlines()) if line and not line.startswith("#")]


class State:
    def __init__(self, lab):
        self.lab, self.kubectl, self.get = lab, lab.kubectl, lab.get
        self.forward = None

    # ---- looking ----

    def pods(self, name, space=NAMESPACE):
        found = self.get("pods", "-n", space, "-l", f"app.kubernetes.io/name={name}")
        return [] if found is None else [p for p in found["items"]]

    @staticmethod
    def ready(pod):
        return "deletionTimestamp" not in pod["metadata"] and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))

    def agents_ready(self, count=2):
        pods = self.pods("meridian-agent")
        return len(pods) == count and all(map(self.ready, pods)) and sorted(p["spec"]["nodeName"] for p in pods)

    def aggregator_ready(self):
        pods = self.pods("meridian-aggregator")
        return len(pods) == 1 and self.ready(pods[0]) and pods[0]

    def all_ready(self, what, seconds=180):
        ok = until(lambda: self.aggregator_ready() and self.agents_ready(), f"{what}: aggregator and both agents are Ready", seconds)
        if not ok:
            print(self.kubectl("get", "pods", "-A", "-o", "wide", ok=None))
            for name in ("aggregator", "agent"):
                print(self.kubectl("-n", NAMESPACE, "logs", "-l", f"app.kubernetes.io/name=meridian-{name}", "--tail=3", ok=None)[-2500:])
        return ok

    # ---- doing ----

    def shell(self, line, ok=True):
        p = subprocess.run(["sh", "-ec", line], env=self.lab.env, cwd=self.lab.work, capture_output=True, text=True, timeout=180)
        check(p.returncode == 0 or not ok, f"{line}: exit status {p.returncode}: {p.stderr[-1500:]}")
        return p.stdout + p.stderr

    def port_forward(self):
        """The README's own, begun again when its pod has gone."""
        if self.forward is not None:
            self.forward.kill()
            self.forward.wait()
        self.forward = self.lab.start("port-forward", ["kubectl", "-n", NAMESPACE, "port-forward", "svc/meridian-http", "7780"])

    def meridian(self, *words, ok=True, token="control", timeout=300):
        """The command line through the port-forward, with the files that `certs init` made."""
        p = subprocess.run(["meridian", *words, "--server", "https://127.0.0.1:7780", "--ca-file", "certs/ca.pem", "--token-file", f"certs/{token}.token"], env=self.lab.env,
                           cwd=self.lab.work, capture_output=True, text=True, timeout=timeout)
        if ok is not None:
            check((p.returncode == 0) == ok, f"meridian {' '.join(words)}: exit status {p.returncode}: {p.stderr[-1500:]}")
        return p

    def nodes(self):
        p = self.meridian("nodes", "--json", ok=None)
        if p.returncode != 0:
            if self.forward is None or self.forward.poll() is not None or "refused" in p.stderr or "reset" in p.stderr:
                self.port_forward()
            return []
        return [n for n in json.loads(p.stdout)["nodes"] if n.get("connected")]

    def both_connected(self, what, seconds=90):
        names = lambda: sorted(n.get("instance_id") or n.get("instance") for n in self.nodes())
        return until(lambda: names() == ["node1", "node2"], f"{what}: the aggregator sees node1 and node2", seconds)

    def installed(self):
        """deploy/README.md, command by command."""
        lab = self.lab
        done = []
        for line in readme_commands():
            if line.startswith("docker build"):  # the same files by tests/kubelab/image.py: no engine and no registry here
                done.append("image")
            elif "port-forward" in line:
                self.forward_line = line
                done.append("port-forward")
            elif "apply -k" in line:
                for node in lab.nodes:  # as EKS labels and, with its device plugin, equips them
                    self.kubectl("label", "node", node.name, "node.kubernetes.io/instance-type=trn2.48xlarge")
                    self.neuron(node.name, 16)
                path = os.path.join(lab.dir, "store")
                os.makedirs(path, exist_ok=True)
                os.chown(path, 10001, 10001)
                self.kubectl("apply", "-f", "-", stdin=VOLUME.format(path=path))
                refused = lab.kubectl_raw("apply", "-k", os.path.join(SOURCE, line.split()[-1]), "--dry-run=server")
                others = [e for e in refused.stderr.splitlines() if not e.startswith("Warning:") and "policy/v1" not in e and "namespaces \"meridian\" not found" not in e and "ensure CRDs" not in e]
                equal(others, [], "what Kubernetes 1.20 refuses of the unmodified overlay, besides policy/v1")
                out = self.kubectl("apply", "-k", os.path.join(HERE, "overlay"))
                check("daemonset.apps/meridian-agent created" in out and "poddisruptionbudget.policy/meridian-aggregator created" in out, f"apply: {out}")
                done.append("apply")
            else:
                self.shell(line)
                done.append("command")
        equal((done[0], done.count("apply"), done[-1], len(done)), ("image", 1, "port-forward", len(done)), f"the README's commands: {done}")
        check(done.count("command") >= 6, f"commands of the README that ran: {done}")
        begun = time.monotonic()
        if not self.all_ready("after apply"):
            raise RuntimeError("the installation did not become Ready")
        self.port_forward()
        self.both_connected("after apply")
        print(f"kubelab: aggregator and two agents Ready {time.monotonic() - begun:.0f} s after apply -k")

    def neuron(self, node, count):
        """The device plugin's resource, which a node without devices does not have, by a patch of its status."""
        patch = [{"op": "add", "path": "/status/capacity/aws.amazon.com~1neuron", "value": str(count)}]
        with open(os.path.join(self.lab.work, "patch.json"), "w") as f:
            json.dump(patch, f)
        return self.lab.kubectl_raw("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch)).returncode == 0 or check(False, "patch of the node's status")

    def training(self, what):
        """The example on two nodes; returns when both processes run."""
        for i in (0, 1):
            self.kubectl("apply", "-k", os.path.join(HERE, "example", f"rank{i}"))
        running = lambda: sorted(p["spec"].get("nodeName", "") for p in self.pods("training", "default") if p["status"].get("phase") == "Running") == ["node1", "node2"]
        if not until(running, f"{what}: the training runs on both nodes", 120):
            print(self.kubectl("describe", "pods", "-l", "app.kubernetes.io/name=training", ok=None)[-5000:])

    def training_gone(self):
        self.kubectl("delete", "job", "training-0", "training-1", "--wait=false")
        until(lambda: self.pods("training", "default") == [], "the training's pods are gone", 90)


def daemonset(state):
    """A pod on each node, by the instance type; uid 0 with exactly two capabilities; identity is the node's name."""
    equal(state.agents_ready(), ["node1", "node2"], "a Ready agent on each node")
    out = state.kubectl("-n", NAMESPACE, "exec", "daemonset/meridian-agent", "--", "cat", "/proc/1/status", "/proc/self/status")
    equal(re.findall(r"CapEff:\s+(\w+)", out)[-1:], ["0000000000080002"], "capabilities of the agent")
    out = state.kubectl("-n", NAMESPACE, "exec", "daemonset/meridian-agent", "--", "meridian", "doctor", ok=None)
    print(out[-1500:])
    check("agent" in out, f"meridian doctor in the agent's pod: {out[-500:]}")
    pod = state.pods("meridian-agent")[0]
    text = state.kubectl("-n", NAMESPACE, "logs", pod["metadata"]["name"])
    check(all(json.loads(line) for line in text.splitlines() if line), "the agent's log is JSON, line by line")


def record(state, seconds=5):
    """The two-node Job, its image untouched, recorded: both ranks, their lanes, nothing lost."""
    state.training("record")
    p = state.meridian("record", "--job", "training", "--duration", f"{seconds}s", "-o", "job.pftrace", ok=None)
    check(p.returncode == 0, f"meridian record: exit status {p.returncode}: {p.stderr[-1500:]}")
    print(p.stdout[-1500:], p.stderr[-1500:])
    session = state.meridian("sessions", "--json", token="read")
    found = json.loads(session.stdout)["sessions"][-1]
    equal((found["state"], found.get("lost")), ("complete", 0), "the session")
    flushed = {n["instance"]: n for n in found["nodes"]}
    equal(sorted(flushed), ["node1", "node2"], "nodes of the session")
    state.training_gone()


ALL = {"daemonset": daemonset, "record": record}
