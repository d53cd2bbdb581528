"""Tests meridian-webhook with requests as the API server sends them: HTTPS with a certificate of
`meridian certs`, reviews of pods that request a recording and of others, and thousands of reviews
that no API server would send. The test applies the returned patch by RFC 6902 and checks the
resulting pod."""
import base64
import copy
import http.client
import json
import os
import random
import socket
import ssl
import subprocess
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from kinds import POD  # noqa: E402
from lib import BIN, Program, check, equal, finish, free_port, run, skip, tmp, until  # noqa: E402
from schema_faults import faults  # noqa: E402

WEBHOOK = os.path.join(BIN, "meridian-webhook")
if not os.path.exists(WEBHOOK):
    skip("meridian-webhook is not built")
dir, port, HOST = tmp(), free_port(), "meridian-webhook.meridian.svc"
certs = os.path.join(dir, "certs")
run("certs", "init", "-d", certs, "--host", HOST)

OURS = "/meridian/libmeridian.so"
TRAIN = {"name": "train", "image": "training:1", "resources": {"limits": {"aws.amazon.com/neuron": "1"}}}
SIDE = {"name": "side", "image": "side:1"}


def pod(*containers, labels=None, annotations=None, **spec):
    meta = {"generateName": "training-", "labels": {"meridian.dev/inject": "true", **(labels or {})}}
    if annotations is not None:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": list(containers), **spec}}


def review(object, **request):
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default", "operation": "CREATE", "object": object, **request}}


class Client:
    def __init__(self):
        self.tls, self.c = ssl.create_default_context(cafile=certs + "/ca.pem"), None

    def post(self, body, path="/inject?timeout=5s", headers=None, method="POST"):
        if self.c is None:
            self.c = http.client.HTTPSConnection(HOST, port, context=self.tls, timeout=30)
            self.c.sock = self.tls.wrap_socket(socket.create_connection(("127.0.0.1", port), 30), server_hostname=HOST)
        try:
            self.c.request(method, path, body, {"Host": HOST, "Content-Type": "application/json", **(headers or {})})
            r = self.c.getresponse()
            return r.status, r.read()
        except (OSError, http.client.HTTPException):
            self.c.close()
            self.c = None
            raise


def apply(doc, patch):
    """RFC 6902, add and replace; a path that is not there is an error."""
    doc = copy.deepcopy(doc)
    for o in patch:
        parts = [p.replace("~1", "/").replace("~0", "~") for p in o["path"].split("/")[1:]]
        at = doc
        for p in parts[:-1]:
            at = at[int(p)] if isinstance(at, list) else at[p]
        last = parts[-1]
        if isinstance(at, list):
            at.insert(len(at) if last == "-" else int(last), o["value"]) if o["op"] == "add" else at.__setitem__(int(last), o["value"])
        else:
            if o["op"] == "replace":
                at[last]
            at[last] = o["value"]
    return doc


client = Client()


def ask(object, what, **request):
    """(the pod that comes out, warnings)."""
    status, text = client.post(json.dumps(review(object, **request)))
    if not equal(status, 200, f"{what}: {text[:300]}"):
        return object, []
    answer = json.loads(text)
    response = answer["response"]
    equal((answer["kind"], answer["apiVersion"], response["uid"], response["allowed"]),
          ("AdmissionReview", "admission.k8s.io/v1", "705ab4f5-6393-11e8-b7cc-42010a800002", True), f"{what}: the answer")
    if "patch" not in response:
        return object, response.get("warnings", [])
    equal(response["patchType"], "JSONPatch", f"{what}: the kind of patch")
    return apply(object, json.loads(base64.b64decode(response["patch"], validate=True))), response.get("warnings", [])


def env(container):
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container.get("env", [])}


def mounts(container):
    return {m["mountPath"]: m["name"] for m in container.get("volumeMounts", [])}


def injected(out, names, what):
    """What every pod that is recorded has; names are of the containers that are."""
    spec = out["spec"]
    equal(spec["initContainers"][0]["name"], "meridian-library", f"{what}: the library comes first")
    for c in spec["containers"]:
        there = env(c).get("LD_PRELOAD", "").startswith(OURS)
        equal((there, "/meridian" in mounts(c)), (c["name"] in names, c["name"] in names), f"{what}: {c['name']}")
        volumes = [v["name"] for v in spec.get("volumes", [])]
        check(all(n in volumes for n in mounts(c).values() if n.startswith("meridian-")) and len(set(volumes)) == len(volumes), f"{what}: volumes {volumes}")
        equal(len(env(c)), len(c.get("env", [])), f"{what}: no variable twice")
        equal(len(mounts(c)), len(c.get("volumeMounts", [])), f"{what}: nothing mounted twice")
    equal(faults(spec, POD, what), [], f"{what}: the pod is one that the API takes")


def good():
    out, warnings = ask(pod(TRAIN, SIDE), "a pod with devices")
    injected(out, ["train"], "a pod with devices")
    e = env(out["spec"]["containers"][0])
    equal((e["MERIDIAN_CAPTURE"], e["POD_UID"]["fieldRef"]["fieldPath"], "MERIDIAN_JOB" in e, warnings), ("all", "metadata.uid", False, []), "its variables")
    equal(mounts(out["spec"]["containers"][0])["/dev/shm"], "meridian-rings", "its rings")
    equal(out["metadata"]["annotations"], {"meridian.dev/injected": "true"}, "its annotation")
    equal(ask(out, "the same once more")[0], out, "a pod that has it stays as it is")
    out, _ = ask(pod(SIDE, dict(SIDE, name="other")), "no devices")
    injected(out, ["side", "other"], "without devices all containers")
    own = dict(TRAIN, env=[{"name": "LD_PRELOAD", "value": "libjemalloc.so.2"}, {"name": "MERIDIAN_CAPTURE", "value": "annotations"}, {"name": "MERIDIAN_JOB", "value": "mine"}],
               volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}])
    out, _ = ask(pod(own, labels={"job-name": "j"}, annotations={"a": "b"}, volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}], initContainers=[SIDE]), "a pod with its own")
    injected(out, ["train"], "a pod with its own")
    e = env(out["spec"]["containers"][0])
    equal((e["LD_PRELOAD"], e["MERIDIAN_CAPTURE"], e["MERIDIAN_JOB"]), (OURS + ":libjemalloc.so.2", "annotations", "mine"), "what the pod says stays")
    equal(([v["name"] for v in out["spec"]["volumes"]], out["metadata"]["annotations"]["a"]), (["shm", "meridian-library"], "b"), "its volumes and annotations")
    out, _ = ask(pod(TRAIN, SIDE, labels={"batch.kubernetes.io/job-name": "j4"}, annotations={"meridian.dev/containers": " side ,x", "meridian.dev/capture": "annotations"}), "by annotations")
    injected(out, ["side"], "by annotations")
    e = env(out["spec"]["containers"][1])
    equal((e["MERIDIAN_CAPTURE"], e["MERIDIAN_JOB"]), ("annotations", "j4"), "annotations and the job's label")
    out, _ = ask(pod(dict(TRAIN, env=None, volumeMounts=None), volumes=None, initContainers=None), "null")
    injected(out, ["train"], "null for what is not there")


def never_worse():
    """What the pod has keeps working: shared memory, its class of service, its user, its own library."""
    out, _ = ask(pod(TRAIN, SIDE, initContainers=[dict(SIDE, name="first")]), "containers that share memory")
    spec = out["spec"]
    equal([(c["name"], mounts(c).get("/dev/shm")) for c in spec["initContainers"] + spec["containers"]],
          [("meridian-library", None), ("first", "meridian-rings"), ("train", "meridian-rings"), ("side", "meridian-rings")], "one /dev/shm for all")
    injected(out, ["train"], "containers that share memory")
    shm = {"name": "shm", "mountPath": "/dev/shm"}
    out, _ = ask(pod(TRAIN, dict(SIDE, volumeMounts=[shm]), volumes=[{"name": "shm", "emptyDir": {}}]), "one with its own")
    equal([mounts(c).get("/dev/shm") for c in out["spec"]["containers"]], ["meridian-rings", "shm"], "who has its own keeps it")
    for what, own, more in (("the host's", {}, {"hostIPC": True}), ("/dev", {"volumeMounts": [dict(shm, mountPath="/dev")]}, {}),
                            ("no slash", {"volumeMounts": [dict(shm, mountPath="dev/shm/")]}, {}), ("below", {"volumeMounts": [dict(shm, mountPath="/dev/shm/cache")]}, {})):
        out, warnings = ask(pod(dict(TRAIN, **own), volumes=[{"name": "shm", "hostPath": {"path": "/dev"}}], **more), what)
        equal(([v["name"] for v in out["spec"]["volumes"]], "/meridian" in mounts(out["spec"]["containers"][0])), (["shm", "meridian-library"], True), f"/dev/shm: {what}")
    init = ask(pod(TRAIN), "its init container")[0]["spec"]["initContainers"][0]
    equal(init["resources"]["requests"], init["resources"]["limits"], "a pod of class Guaranteed remains one")
    equal("runAsUser" in init["securityContext"], False, "the user of the image or the pod")
    init = ask(pod(TRAIN, securityContext={"runAsUser": 0}), "all are root")[0]["spec"]["initContainers"][0]
    equal((init["securityContext"]["runAsNonRoot"], init["securityContext"]["runAsUser"]), (True, 65534), "the kubelet starts no root that is to be none")
    twice = dict(TRAIN, env=[{"name": "LD_PRELOAD", "value": "a.so"}, {"name": "X", "value": "1"}, {"name": "LD_PRELOAD", "value": "b.so"}])
    out, _ = ask(pod(twice), "said twice")
    equal([e.get("value") for e in out["spec"]["containers"][0]["env"] if e["name"] == "LD_PRELOAD"], ["a.so", OURS + ":b.so"], "of two variables the last counts")


def left_alone():
    """Pods that stay as they are, some with a warning."""
    for what, object, request, word in (
            ("not asked", {**pod(TRAIN), "metadata": {"name": "x"}}, {}, None), ("asked with no", pod(TRAIN, labels={"meridian.dev/inject": "false"}), {}, None),
            ("an update", pod(TRAIN), {"operation": "UPDATE"}, None), ("no pod", pod(TRAIN), {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}, None),
            ("a part of a pod", pod(TRAIN), {"subResource": "ephemeralcontainers"}, None), ("nothing", None, {}, None),
            ("our mount", pod(dict(TRAIN, volumeMounts=[{"name": "x", "mountPath": "/meridian/"}])), {}, "mounted at /meridian"),
            ("LD_PRELOAD from elsewhere", pod(dict(TRAIN, env=[{"name": "LD_PRELOAD", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}])), {}, "LD_PRELOAD"),
            ("our volume", pod(TRAIN, volumes=[{"name": "meridian-rings", "emptyDir": {}}]), {}, "already"),
            ("Windows", pod(TRAIN, os={"name": "windows"}), {}, "Linux"), ("no such container", pod(TRAIN, annotations={"meridian.dev/containers": "x"}), {}, "no container has a name"),
            ("too many", pod(*[dict(SIDE, name=f"c{i}") for i in range(65)]), {}, "more than 64")):
        out, warnings = ask(object, what, **request)
        equal(out, object, f"{what}: it stays as it is")
        check([w for w in warnings if word in w] if word else warnings == [], f"{what}: warnings {warnings}")


ODD = [None, True, 0, -1, 1.5, 10**30, "", "x" * 5000, "\u0000\n\u202e", [], [None], [[]], [{}], {}, {"": None}, {"name": []}]


def places(value, at=()):
    yield at
    for k, v in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(v, at + (k,))


def hostile():
    """Each member of a review replaced by each odd value, one and two at a time: an answer that allows, or a refusal with a reason, and never a patch that does not apply."""
    seed = int(os.environ.get("MRD_SEED", 1))
    dice, counts = random.Random(seed), {}
    print("seed", seed)
    whole = review(pod(dict(TRAIN, env=[{"name": "LD_PRELOAD", "value": "a"}], volumeMounts=[{"name": "v", "mountPath": "/v"}]), SIDE, labels={"job-name": "j"},
                       annotations={"meridian.dev/capture": "all"}, volumes=[{"name": "v", "emptyDir": {}}], initContainers=[SIDE]))
    where = [p for p in places(whole) if p]
    pairs = [[(p, o)] for p in where for o in ODD] + [[(dice.choice(where), dice.choice(ODD)) for _ in range(2)] for _ in range(400)]
    for changes in pairs:
        bad = copy.deepcopy(whole)
        for path, odd in changes:
            at = bad
            try:
                for k in path[:-1]:
                    at = at[k]
                at[path[-1]] = copy.deepcopy(odd)
            except (KeyError, IndexError, TypeError):
                pass  # the first change took it away
        status, text = client.post(json.dumps(bad))
        counts[status] = counts.get(status, 0) + 1
        answer = json.loads(text)
        if status != 200:
            check(400 <= status < 500 and len(json.dumps(answer)) > 40, f"{changes}: {status} {text[:200]}")
            continue
        response = answer["response"]
        if not check(response["allowed"] is True and response["uid"] == bad["request"]["uid"], f"{changes}: {text[:200]}"):
            continue
        if "patch" in response:
            try:
                apply(bad["request"]["object"], json.loads(base64.b64decode(response["patch"])))
            except (KeyError, IndexError, TypeError, ValueError) as e:
                check(False, f"{changes}: the patch does not apply: {type(e).__name__} {e}")
    print("answers by status:", counts)
    check(counts.get(200, 0) > 300 and sum(counts.values()) == len(pairs), f"{len(pairs)} reviews: {counts}")
    for what, body, status in (("no JSON", b"{", 422), ("no object", b"[]", 422), ("nothing", b"", 400), ("deep", b"[" * 100000, 422), ("no UTF-8", b'{"kind":"\xff"}', 422),
                               ("large", b'{"a":"' + b"x" * (2 << 20) + b'"}', 413)):
        try:
            got, text = client.post(body)
        except (OSError, http.client.HTTPException):
            got = 413 if status == 413 else 0  # closed while it was sent
        equal(got, status, f"body: {what}")
    equal(client.post(json.dumps(whole), path="/other")[0], 404, "another path")
    equal(client.post(None, method="GET")[0], 405, "another method")
    equal(client.post(json.dumps(whole), headers={"Content-Type": "text/plain"})[0], 415, "another type")
    many = Client()
    for n in (64, 65):
        out = json.loads(many.post(json.dumps(review(pod(*[dict(SIDE, name=f"c{i}") for i in range(n)]))))[1])["response"]
        equal("patch" in out, n == 64, f"{n} containers")


def metrics():
    """{sample: value}."""
    status, text = Client().post(None, "/metrics", method="GET")
    equal(status, 200, "/metrics")
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in (text if isinstance(text, str) else text.decode()).splitlines() if not line.startswith("#")}


def ends():
    """By /metrics, and by openssl's own reading of the file: when the certificate ends."""
    told = {k: v for k, v in metrics().items() if k.startswith("meridian_certificate_expiry_timestamp_seconds{") and 'option="cert"' in k and 'number="1"' in k}
    said = subprocess.run(["openssl", "x509", "-in", certs + "/aggregator.pem", "-noout", "-enddate"], capture_output=True, text=True, check=True).stdout
    equal(list(told.values()), [float(ssl.cert_time_to_seconds(said.strip().split("=")[1]))], f"the certificate's end: {told}")
    return list(told.values())[0]


def certificates():
    """A new certificate is used without a restart; one that cannot be read leaves the old one, and is told once."""
    def subject():
        try:
            return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)
        except OSError:
            return ""
    before = subject()
    ends()
    count = metrics()
    check(count["meridian_webhook_pods_total"] > count["meridian_webhook_warned_total"] > 0, f"pods that asked: {count}")
    Client().post(json.dumps(review(pod(TRAIN))))
    equal(metrics()["meridian_webhook_pods_total"], count["meridian_webhook_pods_total"] + 1, "one more")
    run("certs", "renew", "-d", certs)
    until(lambda: subject() not in ("", before), "the renewed certificate is used")
    after = subject()
    ends()
    with open(certs + "/aggregator.pem", "w") as f:
        f.write("no certificate\n")
    until(lambda: "cannot be read again" in p.text(), "a broken one is told")
    equal(subject(), after, "the certificate before it stays")
    equal(metrics()['meridian_certificate_file_readable{option="cert"}'], 0, "and it is told that its file cannot be read")
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        s.settimeout(20)
        try:
            s.recv(100)
        except OSError:
            pass
    Client().post(json.dumps(review(pod(TRAIN))))
    try:
        ssl.create_default_context().wrap_socket(socket.create_connection(("127.0.0.1", port), 30), server_hostname=HOST)
        check(False, "a client that does not know the authority")
    except ssl.SSLError:
        pass
    until(lambda: "rejected this server's certificate" in p.text(), "who rejects it is told")
    p.p.send_signal(15)
    equal(p.p.wait(30), 0, "SIGTERM")


def refusals():
    """What is missing is said, with status 2."""
    ok = ["--image", "meridian:1", "--cert", certs + "/aggregator.pem", "--key", certs + "/aggregator.key", "--listen", f"127.0.0.1:{port}"]
    for what, words, word in (("no image", ok[2:], "--image is missing"), ("no certificate", ok[:2], "--cert and --key"), ("an address", ok + ["--listen", "x"], "is not HOST:PORT"),
                              ("a size", ok + ["--rings-size", '1"'], "not a Kubernetes quantity"), ("a library", ok + ["--library", "x"], "not an absolute path"), ("a word", ok + ["x"], "unexpected argument")):
        q = subprocess.run([WEBHOOK, *words], capture_output=True, text=True, timeout=30)
        check(q.returncode == 2 and word in q.stderr, f"{what}: {q.returncode} {q.stderr}")


refusals()
p = Program(os.path.join(dir, "webhook.log"), [WEBHOOK, "--image", "meridian:1", "--cert", certs + "/aggregator.pem", "--key", certs + "/aggregator.key", "--listen", f"127.0.0.1:{port}"])
try:
    def answers():
        try:
            return Client().post(None, "/healthz", method="GET")[0] == 200
        except OSError:
            return False
    if until(answers, "it answers"):
        good()
        never_worse()
        left_alone()
        hostile()
        certificates()
    check(len(p.text()) < 2 << 20, "its log is bounded")
finally:
    p.kill()
    if os.environ.get("MERIDIAN_KEEP"):
        print(p.text()[-2000:])
finish()
