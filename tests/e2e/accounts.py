"""The pod of an agent proves by its service account's token on which node it runs, and gets a
certificate for this node. The test uses an API server that states the node, one that must be asked
for the pod, and a hostile pod that wants the certificate of another node."""
import json
import os
import shutil
import subprocess
import sys

from lib import SOURCE, check, equal, finish, need_daemons, run, skip, until
from service import Service
from wait import within

sys.path.insert(0, os.path.join(SOURCE, "tests/fake"))
from apiserver import ApiServer

need_daemons()
if shutil.which("openssl") is None:
    skip("openssl is not installed")
ACCOUNT, ROUTE = "system:serviceaccount:meridian:meridian-agent", "/api/v1/certificates/account"
EXTRA = "authentication.kubernetes.io/"


def openssl(*args, **more):
    return subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=60, check=True, **more).stdout


with Service() as c, ApiServer(c.path(".")) as api:
    run("certs", "init", "-d", c.path("certs"), "--host", "127.0.0.1")
    cert = lambda name: c.path("certs", name)
    c.data, c.control = "tls+" + c.data, "tls+" + c.control
    review = {"server": api.url, "ca-file": api.cert, "bearer-file": c.secret("own.token", "aggregators-own-token-0123456789"), "audience": "meridian", "cache-seconds": 1,
              "agents": [ACCOUNT], "roles": {"admin": [ACCOUNT, "system:serviceaccount:ops:oncall"]}}

    def settings(**more):
        return c.secret("review.json", json.dumps({k: v for k, v in {**review, **more}.items() if v is not None}))

    c.env.update(MERIDIAN_SERVER="https://" + c.http, MERIDIAN_CA_FILE=cert("ca.pem"))
    c.options.update(tls_cert=cert("aggregator.pem"), tls_key=cert("aggregator.key"), tls_ca=cert("ca.pem"), http_cert=cert("aggregator.pem"), http_key=cert("aggregator.key"),
                     agent_ca=cert("ca.pem"), agent_ca_key=cert("ca.key"), token_review=settings())
    c.aggregator()
    until(c.answers, "the aggregator answers")
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", c.path("key.pem"))

    def ask(token, instance="node1", subject=None, **more):
        """(status, certificate or detail)."""
        csr = openssl("req", "-new", "-key", c.path("key.pem"), "-subj", subject or f"/CN={instance}")
        r = c.ask("POST", ROUTE, token=token, body={"request": csr, "instance": instance, **more})
        doc = r.json()
        check(token is None or "." not in token or token not in r.body.decode(), "the token in an answer")
        return r.status, doc.get("certificate") or doc.get("detail", "")

    def refused(what, status, says, token, **more):
        # Who is told that the API server could not be asked asks again: on a busy machine it may be slow.
        got = within(60, lambda: (got := ask(token, **more)) and (status == 503 or got[0] != 503) and got) or ask(token, **more)
        check(got[0] == status and says in got[1], f"{what}: expected {status} and '{says}': {got}")

    def pod(name, **more):
        return api.token("meridian", "meridian-agent", pod=name, **more)

    # ---- An API server that says the node (1.30 and newer) ----
    one = pod("agent-x1", node="node1")
    status, got = until(lambda: (got := ask(one))[0] != 503 and got, "the API server is asked") or (503, "")
    if equal(status, 201, f"its own node: {got}"):
        with open(c.path("got.pem"), "w") as f:
            f.write(got)
        shown = openssl("x509", "-in", c.path("got.pem"), "-noout", "-subject", "-ext", "extendedKeyUsage,basicConstraints")
        check("CN = node1" in shown and "CA:FALSE" in shown and "Client" in shown and "Server" not in shown, f"what it says: {shown}")
    refused("another node", 403, "runs on node 'node1'", one, instance="node2")
    refused("a part of its name", 403, "runs on node 'node1'", one, instance="node")
    refused("no node", 403, "runs on node 'node1'", one, instance="")
    refused("another node's subject", 400, "another subject", one, subject="/CN=node2")
    equal([m for m, _ in api.seen].count("GET"), 0, "it was not asked for pods")
    refused("more members", 400, "", one, invitation="x")
    equal([c.ask("GET", path, token=one).status for path in ("/api/v1/self", "/api/v1/sessions", "/api/v1/nodes", "/metrics")], [403] * 4, "an agent's account reads nothing, though it has a role")
    equal(c.ask("POST", "/api/v1/invitations", token=one, body={}).status, 403, "and invites nobody")

    # ---- An older one: the pod is asked for ----
    old = pod("agent-x2")
    refused("a pod that is gone", 401, "pod is gone", old, instance="node2")
    for what, known, status, says in (
            ("right", {"uid": "uid-of-agent-x3", "node": "node2", "account": "meridian-agent"}, 201, "BEGIN CERTIFICATE"),
            ("a namesake", {"uid": "another", "node": "node2", "account": "meridian-agent"}, 401, "another pod"),
            ("another account", {"uid": "uid-of-agent-x3", "node": "node2", "account": "default"}, 401, "another service account"),
            ("on no node", {"uid": "uid-of-agent-x3", "node": "", "account": "meridian-agent"}, 401, "on no node"),
            ("elsewhere", {"uid": "uid-of-agent-x3", "node": "node1", "account": "meridian-agent"}, 403, "runs on node 'node1'"),
            ("an impossible name", {"uid": "uid-of-agent-x3", "node": "../node2", "account": "meridian-agent"}, 401, "cannot be an instance id"),
            ("a long name", {"uid": "uid-of-agent-x3", "node": "n" * 65, "account": "meridian-agent"}, 401, "at most 64"),
            ("a huge name", {"uid": "uid-of-agent-x3", "node": "n" * 5000, "account": "meridian-agent"}, 401, ""),
            ("the aggregator may not", 403, 503, "could not be asked"), ("it fails", 500, 503, "could not be asked")):
        api.pods["meridian", "agent-x3"] = known
        token = pod("agent-x3")
        refused(what, status, says, token, instance="node2")
    until(lambda: "may not get pods in namespace meridian" in c.daemon.text(), "the log says which right is missing")

    # ---- Hostile ----
    refused("no token", 401, "", None)
    refused("the agents' shared token", 403, "proves no node", "agent")
    refused("an administrator's", 403, "", "control")
    refused("a token of no pod, as `kubectl create token` makes it", 401, "bound to no pod", api.token("meridian", "meridian-agent"))
    refused("of no pod, though it says a node", 401, "bound to no pod", api.token("meridian", "meridian-agent", node="node1"))
    refused("another account of the namespace", 403, "", api.token("meridian", "default", pod="p", node="node1"))
    refused("an account of that name elsewhere", 403, "", api.token("team-a", "meridian-agent", pod="p", node="node1"))
    refused("an administrator by review", 403, "", api.token("ops", "oncall", pod="p", node="node1"))
    refused("another audience", 401, "another audience", pod("agent-x1", node="node1", audience="vault"))
    refused("expired", 401, "expired", pod("agent-x1", node="node1", expires=-5))
    for what, extra in (("two nodes", {EXTRA + "node-name": ["node1", "node2"]}), ("two pods", {EXTRA + "pod-name": ["agent-x1", "agent-x2"]}), ("no text", {EXTRA + "pod-name": [7]}),
                        ("no list", {EXTRA + "pod-name": "agent-x1"}), ("a pod of a path", {EXTRA + "pod-name": ["../secrets/x"], EXTRA + "node-name": []})):
        api.extra = extra
        refused(what, 401, "", pod("agent-x1", node="node1"))
    api.extra = {}
    check(not any(".." in path for _, path in api.seen), "no path of a pod's making")
    api.delete_pod("agent-x1")
    until(lambda: ask(one)[0] == 401, "a deleted pod's token ends")
    log = c.daemon.text()
    check("by=account" in log and "instance=node1" in log and not any(t.split(".")[-1] in log for t in api.given), "who was signed is logged, and no token")

    # ---- Settings that cannot be; without an authority ----
    c.daemon.end()
    for what, agents in (("a list of accounts", "x"), ("a list of accounts", ["meridian-agent"]), ("a list of accounts", [ACCOUNT + ":x"]), ("a list of accounts", [5])):
        p = c.aggregator(token_review=settings(agents=agents))
        check(p.p.wait(60) != 0 and what in p.text(), f"{agents}: {p.text()[-500:]}")
    for name in ("agent_ca", "agent_ca_key"):
        del c.options[name]
    c.aggregator(token_review=settings(owners=False, roles=None))
    until(c.answers, "the aggregator answers")
    refused("no authority", 501, "signs no certificates", pod("agent-x9", node="node1"))
finish()
