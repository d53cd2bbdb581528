"""Tests service accounts on the API server of the Kubernetes laboratory. Owners read the sessions
of their namespace, the pod of an agent gets the certificate of its own node only, and the authority
of the agents' certificates is replaced."""
import json
import re

from cases import NAMESPACE
from disturb import of_node, restarts
from lib import check, equal, until

ACCOUNT = "system:serviceaccount:meridian:meridian-agent"
CURL = "curl -s --cacert certs/ca.pem -w '\\n%{http_code}' -H \"Authorization: Bearer $(cat asks.token)\" "


def answer(state, token, path, body=None):
    """(status, body) for whoever has this token."""
    with open(state.lab.work + "/asks.token", "w") as f:
        f.write(token)
    data = ""
    if body is not None:
        with open(state.lab.work + "/asks.json", "w") as f:
            json.dump(body, f)
        data = "-H 'Content-Type: application/json' --data-binary @asks.json "
    out = state.shell(CURL + data + "https://127.0.0.1:7780" + path, ok=False)
    text, status = out.strip().rsplit("\n", 1) if "\n" in out.strip() else ("", out.strip())
    return int(status) if status.isdigit() else 0, text


def create_token(state, account, space, *more):
    return state.kubectl("-n", space, "create", "token", account, *more).strip()


def signed(state):
    """Whom the aggregator has signed, by what, from its log."""
    lines = state.kubectl("-n", NAMESPACE, "logs", "meridian-aggregator-0", ok=None).splitlines()
    return [(m.group(1), m.group(2)) for line in lines if "AGG-SIGNED" in line for m in [re.search(r'instance"?[=:] ?"?([\w.-]+).*by"?[=:] ?"?(\w+)', line)] if m]


def issuer(state, node):
    return of_node(state, node).sh("openssl x509 -noout -subject -ext authorityKeyIdentifier -in /proc/$(pidof meridian-agent)/root/var/lib/meridian-agent/agent.pem", check_it=False)


def owners(state):
    """An owner's token by TokenReview: its namespace's sessions; a token for the API server, of no account any more, or of another cluster is none."""
    state.kubectl("create", "namespace", "team-a")
    state.kubectl("-n", "team-a", "create", "serviceaccount", "trainer")
    token = create_token(state, "trainer", "team-a", "--audience", "meridian", "--duration", "20m")
    got = until(lambda: (lambda a: a if a[0] else None)(answer(state, token, "/api/v1/self")), "the aggregator answers", 60)
    status, text = got
    if equal(status, 200, f"an account's own token: {text}"):
        equal((json.loads(text)["role"], json.loads(text)["namespace"]), ("owner", "team-a"), "who that is")
    equal(json.loads(answer(state, token, "/api/v1/sessions")[1] or "{}").get("sessions"), [], "none of the sessions is of its namespace")
    equal(answer(state, token, "/api/v1/nodes")[0], 403, "no nodes")
    equal(answer(state, create_token(state, "trainer", "team-a"), "/api/v1/self")[0], 401, "a token for the API server itself")
    forged = token[:-8] + ("A" * 8 if not token.endswith("A" * 8) else "B" * 8)
    equal(answer(state, forged, "/api/v1/self")[0], 401, "a forged signature")
    state.kubectl("-n", "team-a", "delete", "serviceaccount", "trainer")
    until(lambda: answer(state, token, "/api/v1/self")[0] == 401, "the deleted account's token ends", 90)
    state.kubectl("delete", "namespace", "team-a", "--wait=false")


def identities(state):
    """Each agent has proven its node by its pod's account; a pod of one node gets no certificate of another, and others get none at all."""
    equal(sorted({line.split("CN = ")[-1].strip() for node in ("node1", "node2") for line in issuer(state, node).splitlines() if "CN = " in line}), ["node1", "node2"], "the agents' certificates")
    check({("node1", "account"), ("node2", "account")} <= set(signed(state)) or restarts(state)["meridian-aggregator-0"] > 0, f"the aggregator signed them by their accounts: {signed(state)}")
    pods = {p["spec"]["nodeName"]: p["metadata"]["name"] for p in state.pods("meridian-agent")}
    csr = {name: state.shell(f"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout asks.key -subj /CN={name} 2>/dev/null") for name in ("node1", "node2")}
    bound = create_token(state, "meridian-agent", NAMESPACE, "--audience", "meridian", "--bound-object-kind", "Pod", "--bound-object-name", pods["node1"])
    ask = lambda token, name: answer(state, token, "/api/v1/certificates/account", {"instance": name, "request": csr[name]})
    status, text = ask(bound, "node1")
    equal(status, 201, f"the pod's own node, which this API server has to be asked for: {text}")
    status, text = ask(bound, "node2")
    check(status == 403 and "runs on node 'node1'" in text, f"another node: {status} {text}")
    status, text = ask(create_token(state, "meridian-agent", NAMESPACE, "--audience", "meridian"), "node1")
    check(status == 401 and "bound to no pod" in text, f"a token of no pod: {status} {text}")
    status, text = ask(create_token(state, "meridian-aggregator", NAMESPACE, "--audience", "meridian", "--bound-object-kind", "Pod", "--bound-object-name", "meridian-aggregator-0"), "node1")
    equal(status, 403, f"another account's pod: {text}")
    equal(answer(state, bound, "/api/v1/sessions")[0], 403, "an agent's account reads nothing")
    state.kubectl("-n", NAMESPACE, "delete", "pod", pods["node1"])
    state.all_ready("with another agent on node1")
    until(lambda: ask(bound, "node1")[0] == 401, "the deleted pod's token ends", 90)
    print(f"kubelab: the API server proves accounts; pods of {sorted(pods)} have certificates of their node only")


def secret(state, *authorities, key):
    """The aggregator's Secret with these authorities of agents, the first of which signs; returns when the kubelet has written it."""
    state.shell(f"cat {' '.join(f'{a}/ca.pem' for a in authorities)} >agents-now.pem")
    state.shell("kubectl -n meridian create secret generic meridian-aggregator --from-file=certs/aggregator.pem --from-file=certs/aggregator.key --from-file=certs/tokens.json "
                f"--from-file=agents.pem=agents-now.pem --from-file=agents.key={key}/ca.key --dry-run=client -o yaml | kubectl apply -f -")
    with open(state.lab.work + "/agents-now.pem") as f:
        text = f.read()
    node = of_node(state, state.aggregator_ready()["spec"]["nodeName"])
    until(lambda: node.sh("cat /proc/$(pidof meridian-aggregator)/root/etc/meridian/agents.pem", check_it=False) == text, "the kubelet has written the aggregator's new Secret", 150)


def kill_aggregator(state):
    before = restarts(state)["meridian-aggregator-0"]
    of_node(state, state.aggregator_ready()["spec"]["nodeName"]).sh("kill -9 $(pidof meridian-aggregator)")
    until(lambda: restarts(state).get("meridian-aggregator-0", 0) > before, "the kubelet has started the aggregator anew", 60)


def rotation(state):
    """Another authority for the agents' certificates: both count for a while, then only the new one. No agent is restarted; each gets a certificate of
    the new one when its own is refused, by its account."""
    before = {k: v for k, v in restarts(state).items() if "agent" in k}
    state.shell("meridian certs init -d agents-2")
    old = {node: issuer(state, node) for node in ("node1", "node2")}
    secret(state, "agents-2", "agents", key="agents-2")
    kill_aggregator(state)
    state.all_ready("with both authorities")
    equal({node: issuer(state, node) for node in old}, old, "certificates of the first authority count")
    secret(state, "agents-2", key="agents-2")
    kill_aggregator(state)
    state.all_ready("with the second authority only", 240)
    state.both_connected("with the second authority only")
    now = {node: issuer(state, node) for node in old}
    check(all(now[node] != old[node] and f"CN = {node}" in now[node] for node in old), f"new certificates: {old} {now}")
    equal({k: v for k, v in restarts(state).items() if "agent" in k}, before, "restarts of agents")


def refused(state):
    """The aggregator may not ask which node a pod runs on, and the agents' certificates count no more: they run on and say so, in the log and by readiness;
    with the right again they are Ready without a restart."""
    before = {k: v for k, v in restarts(state).items() if "agent" in k}
    binding = state.kubectl("-n", NAMESPACE, "get", "rolebinding", "meridian-agent-pods", "-o", "json")
    state.kubectl("-n", NAMESPACE, "delete", "rolebinding", "meridian-agent-pods")
    state.shell("meridian certs init -d agents-3")
    secret(state, "agents-3", key="agents-3")
    kill_aggregator(state)
    if until(lambda: not any(map(state.ready, state.pods("meridian-agent"))), "with certificates that count no more no agent is Ready", 150):
        until(lambda: "could not be asked" in state.kubectl("-n", NAMESPACE, "logs", "daemonset/meridian-agent", "--tail=-1", ok=None), "kubectl logs of an agent says why it gets no other", 90)
        until(lambda: "may not get pods in namespace meridian" in state.kubectl("-n", NAMESPACE, "logs", "meridian-aggregator-0", ok=None), "and the aggregator's which right is missing", 90)
        events = state.kubectl("-n", NAMESPACE, "describe", "pods", "-l", "app.kubernetes.io/name=meridian-agent")
        check("Readiness probe failed" in events and "Liveness probe failed" not in events, "kubectl describe: readiness, not liveness, fails")
    state.kubectl("apply", "-f", "-", stdin=json.dumps({k: v for k, v in json.loads(binding).items() if k != "metadata"} | {"metadata": {"name": "meridian-agent-pods", "namespace": NAMESPACE}}))
    state.all_ready("with the right again", 300)
    equal({k: v for k, v in restarts(state).items() if "agent" in k}, before, "restarts of agents")


ALL = {"owners": owners, "identities": identities, "rotation": rotation, "refused": refused}
