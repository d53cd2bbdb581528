"""Tests the webhook on the Kubernetes laboratory: the section "Pods that ask by a label" of
docs/howto/kubernetes.md, run as printed, and pods with this label."""
import json
import os
import re

from cases import NAMESPACE
from lib import check, equal, load_json, until

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"meridian.dev/inject": "true", "app.kubernetes.io/name": "asks"}}, "spec": {
    "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000},
    "containers": [{"name": "train", "image": "training:1", "command": ["/opt/train_loop", "--ranks=1", "--cores=2", "--steps=100000", "--exec-us=100000", "--checkpoint-every=0"],
                    "env": [{"name": "LD_LIBRARY_PATH", "value": "/opt/simnrt"}], "securityContext": {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False},
                    "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "1Gi", "aws.amazon.com/neuron": "1"}}},
                   {"name": "side", "image": "training:1", "command": ["/bin/sleep", "100000"], "resources": {"requests": {"cpu": "1m"}}}]}}


def made(state, name, **container):
    """(the pod as the API server keeps it, what kubectl says)."""
    pod = json.loads(json.dumps(POD))
    pod["metadata"]["name"] = name
    pod["spec"]["containers"][0].update(container)
    p = state.lab.kubectl_raw("apply", "-f", "-", stdin=json.dumps(pod))
    check(p.returncode == 0, f"apply {name}: {p.stderr}")
    return state.get("pod", name), p.stderr


def preloads(pod):
    return [any(e["name"] == "LD_PRELOAD" for e in c.get("env", [])) for c in pod["spec"]["containers"]]


def webhook(state):
    state.readme("an administrator of the cluster, for the webhook", REGISTRY="registry.example.com/ml")  # as the installation's shell has it
    pods = state.pods("meridian-webhook")
    equal(sorted({p["spec"]["nodeName"] for p in pods}), ["node1", "node2"], "a webhook on each node")
    pod, said = made(state, "asks")
    equal((preloads(pod), pod["metadata"].get("annotations", {}).get("meridian.dev/injected"), "Warning" in said), ([True, False], "true", False), "the pod that asks")
    equal([c["name"] for c in pod["spec"]["initContainers"]], ["meridian-library"], "its init container")
    if until(lambda: state.ready(state.get("pod", "asks")), "it runs", 120):
        state.seen(1, "asks")
        p = state.meridian("record", "--job", "asks", "--duration", "3s", "-o", "asks", ok=None)
        check(p.returncode == 0, f"it is recorded: exit status {p.returncode}: {p.stdout[-500:]}{p.stderr[-800:]}")
        session = re.search(r"session (\S+)", p.stdout + p.stderr).group(1)
        state.meridian("fetch", session, "-o", "asks-json", "--format", "json", token="read", ok=None)
        events = load_json(os.path.join(state.lab.work, "asks-json", "system_profile.json"))["trace_events"]
        runs = [e for e in events if e["name"] == "nc_exec_running"]
        check(len(runs) > 20, f"its executions: {len(runs)}")
        print(f"kubelab: a pod with a label and nothing else: {len(events)} events of {len({e['process_id'] for e in runs})} process")
    else:
        print(state.kubectl("describe", "pod", "asks", ok=None)[-3000:])
    pod, said = made(state, "in-the-way", env=[{"name": "LD_PRELOAD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])
    check("initContainers" not in pod["spec"] and "LD_PRELOAD comes from elsewhere" in said, f"kubectl shows why a pod is not recorded: {said}")
    state.kubectl("-n", NAMESPACE, "scale", "deployment/meridian-webhook", "--replicas=0")
    until(lambda: state.pods("meridian-webhook") == [], "no webhook runs", 90)
    pod, said = made(state, "without-one")
    equal(preloads(pod), [False, False], "without a webhook the pod is made as it is")
    state.kubectl("delete", "pod", "asks", "in-the-way", "without-one", "--force", "--grace-period=0")


ALL = {"webhook": webhook}
