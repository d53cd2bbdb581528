"""The cases of kubelab.py, in the order in which they run. Each case must end with both agents and
the aggregator in the state Ready."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from lib import SOURCE, check, equal, load_json, until
from readme import by_place
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


# In the place of an engine and a registry: what was built and pushed is what image.py made, under the name that was asked for.
DOCKER = """#!/bin/sh
set -eu
case $1 in
build)
    [ "$2" = -f ] && [ -f "$3" ] && [ "$4" = -t ] && [ -d "$6" ] || { echo "docker $*: not as expected" >&2; exit 1; }
    echo "$5" >>"$0.built" ;;
push)
    grep -qx "$2" "$0.built"
    {tags} ;;
*) exit 1 ;;
esac
"""


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
        """As the README's, begun again when its pod has gone."""
        self.no_forward()
        self.forward = self.lab.start("port-forward", ["kubectl", "-n", NAMESPACE, "port-forward", "svc/meridian-http", "7780"])

    def no_forward(self):
        if self.forward is not None:
            self.forward.kill()
            self.forward.wait()
        self.forward = None

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

    def copy_of_the_repository(self):
        """What an operator has: deploy/, and in it what Kubernetes 1.20 lacks. Budgets are those of the component; an Indexed Job is a Job for each rank."""
        work = self.lab.work
        k8s = os.path.join(work, "deploy/k8s")
        shutil.copytree(DEPLOY, os.path.join(work, "deploy"))
        with open(os.path.join(k8s, "base/kustomization.yaml"), "a") as f:
            f.write("components: [../components/pdb-v1beta1]\n")
        os.rename(os.path.join(k8s, "example-two-nodes"), os.path.join(k8s, "example-indexed"))
        shutil.copytree(os.path.join(HERE, "example"), os.path.join(k8s, "of-1.20"))
        for rank in ("rank0", "rank1"):
            self.edit(os.path.join(k8s, "of-1.20", rank, "kustomization.yaml"), "../../../../deploy/k8s/example-two-nodes", "../../example-indexed")
        os.rename(os.path.join(k8s, "of-1.20/both"), os.path.join(k8s, "example-two-nodes"))
        for rank in ("rank0", "rank1"):
            self.edit(os.path.join(k8s, "example-two-nodes/kustomization.yaml"), f"- ../{rank}", f"- ../of-1.20/{rank}")

    @staticmethod
    def edit(path, old, new):
        with open(path) as f:
            text = f.read()
        if old not in text:
            raise RuntimeError(f"{path} has no {old}")
        with open(path, "w") as f:
            f.write(text.replace(old, new))

    def docker(self):
        tags = [" ".join(node.ctr("-n", "k8s.io", "images", "tag", "docker.io/library/meridian:0.1.0", '"$2"')) for node in self.lab.nodes]
        folder = os.path.join(self.lab.dir, "programs")
        os.makedirs(folder)
        with open(os.path.join(folder, "docker"), "w") as f:
            f.write(DOCKER.replace("{tags}", "\n    ".join(tags)))
        os.chmod(os.path.join(folder, "docker"), 0o755)
        self.lab.env["PATH"] = folder + ":" + self.lab.env["PATH"]

    def readme(self, place, title="# Kubernetes", seconds=900, **more):
        """Runs the block of docs/howto/kubernetes.md that says this place, as it stands there, in the copy of the repository; ends what it left in the background."""
        found = [text for where, text in by_place("docs/howto/kubernetes.md", title) if where == place]
        if not equal(len(found), 1, f"blocks of docs/howto/kubernetes.md below {title}: {place}"):
            raise RuntimeError("nothing to run")
        with tempfile.TemporaryFile("w+") as said:
            p = subprocess.Popen(["bash", "-ec", found[0]], env={**self.lab.env, **more}, cwd=self.lab.work, stdout=said, stderr=said, stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                p.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
            finally:
                status = p.poll()
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                p.wait()
            said.seek(0)
            text = said.read()
        check(status == 0, f"docs/howto/kubernetes.md, {place}: exit status {status}: {text[-2500:]}")
        return text

    def installed(self):
        """docs/howto/kubernetes.md, as it stands there. What is there before: a cluster with labelled nodes and devices, and a volume, which on EKS its driver makes."""
        lab = self.lab
        for node in lab.nodes:
            self.kubectl("label", "node", node.name, "node.kubernetes.io/instance-type=trn2.48xlarge")
            self.neuron(node.name, 16)
        path = os.path.join(lab.dir, "store")
        os.makedirs(path, exist_ok=True)
        os.chown(path, 10001, 10001)
        self.kubectl("apply", "-f", "-", stdin=VOLUME.format(path=path))
        refused = lab.kubectl_raw("apply", "-k", os.path.join(DEPLOY, "k8s/overlays/eks"), "--dry-run=server")
        others = [e for e in refused.stderr.splitlines() if not e.startswith("Warning:") and "policy/v1" not in e and "namespaces \"meridian\" not found" not in e and "ensure CRDs" not in e]
        equal(others, [], "what Kubernetes 1.20 refuses of the unmodified overlay, besides policy/v1")
        self.copy_of_the_repository()
        self.docker()
        begun = time.monotonic()
        out = self.readme("an administrator of the cluster, for the installation")
        check("daemonset.apps/meridian-agent created" in out and "poddisruptionbudget.policy/meridian-aggregator created" in out, f"apply: {out[-2000:]}")
        if not self.all_ready("after the installation"):
            raise RuntimeError("the installation did not become Ready")
        self.port_forward()
        self.both_connected("after the installation")
        print(f"kubelab: aggregator and two agents Ready {time.monotonic() - begun:.0f} s after the first of the README's commands")

    def neuron(self, node, count):
        """The device plugin's resource, which a node without devices does not have, by a patch of its status."""
        patch = [{"op": "add", "path": "/status/capacity/aws.amazon.com~1neuron", "value": str(count)}]
        with open(os.path.join(self.lab.work, "patch.json"), "w") as f:
            json.dump(patch, f)
        return self.lab.kubectl_raw("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch)).returncode == 0 or check(False, "patch of the node's status")

    def seen(self, nodes, what):
        """A pod is Ready when its program has begun; the agent sees it when the program has a ring."""
        until(lambda: sum(n["processes"] > 0 for n in self.nodes()) >= nodes, f"{what}: the agents see processes on {nodes} nodes", 90)

    def training(self, what):
        """The example on two nodes; returns when both processes run and the agents see them."""
        self.kubectl("apply", "-k", "deploy/k8s/example-two-nodes")
        running = lambda: sorted(p["spec"].get("nodeName", "") for p in self.pods("training", "default") if self.ready(p)) == ["node1", "node2"]
        if not until(running, f"{what}: the training runs on both nodes", 120):
            print(self.kubectl("describe", "pods", "-l", "app.kubernetes.io/name=training", ok=None)[-5000:])
        self.seen(2, what)

    def training_gone(self):
        """The Jobs first, and wholly: what is applied while one of them still waits for the garbage collector goes with it, and no pod comes of it."""
        jobs = ("job", "training-0", "training-1")
        self.kubectl("delete", *jobs, "--cascade=orphan", "--wait=false")
        until(lambda: self.kubectl("get", *jobs, "--ignore-not-found", "-o", "name", ok=None).strip() == "", "the training's Jobs are gone", 90)
        self.kubectl("delete", "pods", "-l", "app.kubernetes.io/name=training", "--force", "--grace-period=0")
        until(lambda: self.pods("training", "default") == [], "the training's pods are gone", 90)


def daemonset(state):
    """A pod on each node, by the instance type; uid 0 with exactly two capabilities; identity is the node's name."""
    equal(state.agents_ready(), ["node1", "node2"], "a Ready agent on each node")
    out = state.kubectl("-n", NAMESPACE, "exec", "daemonset/meridian-agent", "--", "cat", "/proc/1/status", "/proc/self/status")
    equal(re.findall(r"CapEff:\s+(\w+)", out)[-1:], ["0000000000080002"], "capabilities of the agent")
    out = state.kubectl("-n", NAMESPACE, "exec", "daemonset/meridian-agent", "--", "meridian", "doctor", ok=None)
    lines = {tuple(line.split()[:2]): line for line in out.splitlines() if line.startswith(("ok ", "warning ", "failed "))}
    check(("ok", "aggregator") in lines and ("ok", "spool") in lines, f"meridian doctor in the agent's pod: {out[-1500:]}")
    faults = {name: line for (kind, name), line in lines.items() if kind != "ok"}
    # Of this machine: nobody sets its clock, and a node is below a process namespace.
    equal(sorted(set(faults) - {"wall-clock", "containers"}), [], f"what meridian doctor has against a node: {faults}")
    pod = state.pods("meridian-agent")[0]
    text = state.kubectl("-n", NAMESPACE, "logs", pod["metadata"]["name"])
    check(all(json.loads(line) for line in text.splitlines() if line), "the agent's log is JSON, line by line")


def executions(state, session, what):
    """{(node, process): [(the runtime's number of an execution, core, which of the core's two physical ones)]} of a session, fetched as JSON. The runtime counts the executions of a process one
    by one, so that one that is missing in the middle is a number that is missing: nothing here comes from Meridian's own counting."""
    out = f"fetched-{session}"
    p = state.meridian("fetch", session, "-o", out, "--format", "json", token="read", ok=None)
    check(p.returncode == 0, f"{what}: fetch: exit status {p.returncode}: {p.stderr[-800:]}")
    found = {}
    for e in load_json(os.path.join(state.lab.work, out, "system_profile.json"))["trace_events"]:
        if e["name"] == "nc_exec_running":
            found.setdefault((e["instance_id"], e["process_id"]), []).append((int(e["args"]["exec_id"]), e["group"], e["pcore_idx"]))
    return {key: sorted(numbers) for key, numbers in found.items()}


def nothing_missing(state, session, what, least=20, begun_again=False):
    """A process with two cores on each node, and every execution between its first and its last; the session says that nothing is lost. begun_again: the
    Job may have made another pod for one that was evicted, and least is of the first one of each node."""
    found = executions(state, session, what)
    first = {node: min((key for key in found if key[0] == node), key=lambda key: int(key[1])) for node in {key[0] for key in found}}
    good = equal(sorted(first) if begun_again else sorted(key[0] for key in found), ["node1", "node2"], f"{what}: processes that were recorded")
    for key, of in found.items():
        numbers = [n for n, _, _ in of]
        missing = sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))
        good &= equal((len(missing), missing[:5], len(of) - len(set(of)), len(of) - 2 * len(set(numbers))), (0, [], 0, 0), f"{what}: executions of {key} that are missing, or there twice, of {numbers[0]} to {numbers[-1]}")
        good &= equal(len({core for _, core, _ in of}), 2 if len(set(numbers)) > 1 else 1, f"{what}: cores of {key}") and check(len(numbers) >= least or key not in first.values(), f"{what}: {key} has only {len(numbers)} executions")
    line = next(s for s in json.loads(state.meridian("sessions", "--json", token="read").stdout)["sessions"] if s["id"] == session)
    good &= equal((line["state"], line.get("lost")), ("complete", 0), f"{what}: what the session says: {line}")
    if good:
        print(f"kubelab: {what}: {sum(len({n for n, _, _ in of}) for of in found.values())} executions of {len(found)} processes, none missing, none twice; {line['events']} events, 0 lost")


def walk(state):
    """The README's own: a user's job is recorded, and its merged profile is there."""
    state.no_forward()
    said = state.readme("a recording of a user's job")
    state.port_forward()
    state.both_connected("after the walk")
    files = os.listdir(os.path.join(state.lab.work, "training-profile")) if os.path.isdir(os.path.join(state.lab.work, "training-profile")) else []
    check([n for n in files if n.endswith(".pftrace")], f"the merged profile: {files}: {said[-1500:]}")
    nothing_missing(state, re.search(r"session (\S+)", said).group(1), "walk")
    state.training_gone()


def record(state, seconds=5):
    """The two-node Job, its image untouched, recorded: both ranks, their lanes, nothing lost."""
    state.training("record")
    p = state.meridian("record", "--job", "training", "--duration", f"{seconds}s", "-o", "job.pftrace", ok=None)
    check(p.returncode == 0, f"meridian record: exit status {p.returncode}: {p.stdout[-800:]}{p.stderr[-800:]}")
    nothing_missing(state, re.search(r"session (\S+)", p.stdout + p.stderr).group(1), "record", least=10)
    state.training_gone()


class Recording:
    """A session over the training of both nodes: with Recording(state, "drain") as it: disturb; then all executions are there."""

    def __init__(self, state, what, **expected):
        self.state, self.what, self.expected = state, what, expected

    def __enter__(self):
        self.state.training(self.what)
        self.begun()
        return self

    def begun(self):
        start = lambda: (lambda p: p if p.returncode == 0 else None)(self.state.meridian("start", "--job", "training", "--name", self.what, "--require", "2", ok=None))
        p = until(start, f"{self.what}: a session begins on both nodes", 60)
        self.id = re.search(r"\d{8}-\d{6}-[0-9a-f]{4}", p.stdout + p.stderr).group(0)
        self.grown("it records")

    def events(self):
        p = self.state.meridian("sessions", "--json", token="read", ok=None)
        if p.returncode != 0:
            self.state.nodes()  # begins the port-forward again
            return {}
        line = next((s for s in json.loads(p.stdout)["sessions"] if s["id"] == self.id), {})
        return {n["instance_id"]: n["events"] for n in line.get("nodes", [])} if isinstance(line.get("nodes"), list) else {"all": line.get("events", 0)}

    def grown(self, what, seconds=90):
        """Every node has sent more events than now."""
        before = within(30, self.events) or {}
        until(lambda: [k for k, v in self.events().items() if v > before.get(k, 0) + 100] and all(v > before.get(k, 0) for k, v in self.events().items()),
              f"{self.what}: {what}: more events come", seconds)

    def __exit__(self, kind, *_):
        if kind is None:
            self.state.both_connected(self.what)
            self.state.meridian("stop", self.id, ok=None)
            nothing_missing(self.state, self.id, self.what, **self.expected)
        self.state.training_gone()


ALL = {"daemonset": daemonset, "walk": walk, "record": record}
