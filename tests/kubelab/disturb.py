"""Cases of kubelab.py in which the installation is disturbed: updates, drained nodes, killed pods,
and settings that cannot work."""
import json

from cases import NAMESPACE, Recording
from lib import check, equal, until


def restarts(state):
    """{pod: restarts of its container} of agents and aggregator."""
    return {p["metadata"]["name"]: p["status"]["containerStatuses"][0]["restartCount"]
            for name in ("meridian-agent", "meridian-aggregator") for p in state.pods(name) if p["status"].get("containerStatuses")}


def uids(state, name):
    return {p["metadata"]["uid"] for p in state.pods(name)}


def rolling_update(state):
    """Another image for the agents while a session records: one node after the other, over the same spool; no execution is missing."""
    before = uids(state, "meridian-agent")
    with Recording(state, "rolling-update") as it:
        state.kubectl("-n", NAMESPACE, "set", "image", "daemonset/meridian-agent", "agent=meridian:0.1.1")
        state.kubectl("-n", NAMESPACE, "rollout", "status", "daemonset/meridian-agent", "--timeout=180s", timeout=200)
        state.all_ready("after the update")
        equal((before & uids(state, "meridian-agent"), {p["spec"]["containers"][0]["image"] for p in state.pods("meridian-agent")}),
              (set(), {"meridian:0.1.1"}), "every agent's pod is a new one")
        it.grown("after the update")


def aggregator_killed(state):
    """The aggregator's process by SIGKILL, then its pod by force, while a session records: the claim's volume comes back, and the session goes on."""
    with Recording(state, "aggregator-killed") as it:
        pod = state.aggregator_ready()
        before = restarts(state)["meridian-aggregator-0"]
        of_node(state, pod["spec"]["nodeName"]).sh("kill -9 $(pidof meridian-aggregator)")
        until(lambda: restarts(state).get("meridian-aggregator-0", 0) > before, "the kubelet has started the aggregator anew", 60)
        state.all_ready("after SIGKILL")
        it.grown("after SIGKILL")
        state.kubectl("-n", NAMESPACE, "delete", "pod", "meridian-aggregator-0", "--force", "--grace-period=0")
        until(lambda: (state.aggregator_ready() or pod)["metadata"]["uid"] != pod["metadata"]["uid"], "another pod is Ready", 120)
        claim = state.get("pvc", "store-meridian-aggregator-0", "-n", NAMESPACE)
        equal((claim["status"]["phase"], claim["spec"]["volumeName"]), ("Bound", "store"), "its claim")
        it.grown("after the pod")


def drain(state):
    """kubectl drain of the aggregator's node: the disruption budget lets it go, it comes up on the other node with its volume; the node's agent stays
    and sends what it kept. The training's rank on the node is evicted: what both ranks did until then is all there."""
    with Recording(state, "drain", begun_again=True) as it:
        name = state.aggregator_ready()["spec"]["nodeName"]
        out = state.kubectl("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s", timeout=150)
        check("evicted" in out or "drained" in out, f"kubectl drain: {out[-600:]}")
        until(lambda: (state.aggregator_ready() or {"spec": {"nodeName": name}})["spec"]["nodeName"] != name, "the aggregator is Ready on the other node", 120)
        state.all_ready("while the node is drained")
        until(it.events, "the session is still known", 30)
        state.kubectl("uncordon", name)


def evict(state, pod):
    """What kubectl drain, descheduler and autoscaler do: the eviction API."""
    space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    asked = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name, "namespace": space}}
    state.kubectl("create", "--raw", f"/api/v1/namespaces/{space}/pods/{name}/eviction", "-f", "-", stdin=json.dumps(asked))


def eviction(state):
    """An agent's pod is evicted while a session records: its successor reads the same spool and goes on. Then a rank's on the same node: what it did until
    then is all there."""
    with Recording(state, "eviction", begun_again=True) as it:
        agent = state.pods("meridian-agent")[0]
        node, others = agent["spec"]["nodeName"], uids(state, "meridian-agent")
        evict(state, agent)
        until(lambda: state.agents_ready() and uids(state, "meridian-agent") - others, "another agent is Ready", 120)
        equal(sorted(p["spec"]["nodeName"] for p in state.pods("meridian-agent")), ["node1", "node2"], "the nodes of the agents")
        it.grown("after the agent's eviction")
        rank = next(p for p in state.pods("training", "default") if p["spec"]["nodeName"] == node)
        evict(state, rank)
        until(lambda: rank["metadata"]["uid"] not in {p["metadata"]["uid"] for p in state.pods("training", "default")}, "the rank's pod is gone", 90)


def of_node(state, name):
    return next(n for n in state.lab.nodes if n.name == name)


def no_dns(state):
    """No DNS: a new agent runs, is not Ready, and doctor says which name is not known; with DNS it is Ready without a restart."""
    state.lab.dns.end()
    pod = state.pods("meridian-agent")[0]
    node = pod["spec"]["nodeName"]
    state.kubectl("-n", NAMESPACE, "delete", "pod", pod["metadata"]["name"], "--wait=false")
    new_pod = lambda: [p for p in state.pods("meridian-agent") if p["spec"].get("nodeName") == node and p["metadata"]["uid"] != pod["metadata"]["uid"] and p["status"].get("phase") == "Running"]
    if until(new_pod, "a new agent runs", 90):
        name = new_pod()[0]["metadata"]["name"]
        until(lambda: "AGT-UNREACHED" in state.kubectl("-n", NAMESPACE, "logs", name, ok=None), "kubectl logs says that the aggregator is not reached", 60)
        check(not state.ready(new_pod()[0]), "it is not Ready")
        out = state.kubectl("-n", NAMESPACE, "exec", name, "--", "meridian", "doctor", ok=None)
        lines = [line for line in out.splitlines() if "meridian-aggregator.meridian.svc" in line]
        check(any(line.startswith("failed") and "name" in line.lower() for line in lines), f"meridian doctor says that the name is not known: {lines}")
    state.lab.dns.begin()
    state.all_ready("with DNS again")
    equal(max(restarts(state).values()), restarts(state).get("meridian-aggregator-0"), "no agent was restarted")


def no_aggregator(state):
    """No aggregator at all: agents are not Ready and not restarted, the command line says what it cannot reach; then all come back."""
    before = {k: v for k, v in restarts(state).items() if "agent" in k}
    state.kubectl("-n", NAMESPACE, "scale", "statefulset/meridian-aggregator", "--replicas=0")
    until(lambda: state.pods("meridian-aggregator") == [], "the aggregator's pod is gone", 120)
    until(lambda: not any(map(state.ready, state.pods("meridian-agent"))), "no agent is Ready", 120)
    log = state.kubectl("-n", NAMESPACE, "logs", "daemonset/meridian-agent", "--tail=3")
    check("AGT-UNREACHED" in log and "meridian-aggregator.meridian.svc:7770" in log, f"kubectl logs: {log[-600:]}")
    p = state.meridian("nodes", ok=False)
    check("127.0.0.1:7780" in p.stderr, f"meridian nodes: {p.stderr}")
    state.kubectl("-n", NAMESPACE, "scale", "statefulset/meridian-aggregator", "--replicas=1")
    state.all_ready("with the aggregator again")
    state.both_connected("with the aggregator again")
    equal({k: v for k, v in restarts(state).items() if "agent" in k}, before, "restarts of agents")


ALL = {"rolling_update": rolling_update, "aggregator_killed": aggregator_killed, "drain": drain, "eviction": eviction, "no_dns": no_dns, "no_aggregator": no_aggregator}
