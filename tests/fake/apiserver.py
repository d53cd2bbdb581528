"""The part of a Kubernetes API server that answers TokenReviews (authentication.k8s.io/v1), over TLS, and can be made to fail in every
way: `mode` is what it does next. Tokens are JWTs in form; their signature is not what decides, but whether this server gave them out.

    with ApiServer(folder) as api:
        token = api.token("team-a", "default", pod="train-0")
        token = api.token("meridian", "meridian-agent", pod="agent-0", node="node1")   # of 1.30 and newer: it says the node
        api.pods["meridian", "agent-0"] = {"uid": ..., "node": "node1", "account": "meridian-agent"}   # what it knows of pods (GET); before 1.30 the only way
        api.delete_pod("train-0")
        api.mode = "500"
"""
import base64
import http.server
import json
import os
import ssl
import subprocess
import threading
import time

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


def b64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else data.encode()).rstrip(b"=").decode()


def certificate(folder, name="apiserver"):
    """(certificate, key): self-signed, for 127.0.0.1."""
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=kube-apiserver", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
    return cert, key


class ApiServer(http.server.ThreadingHTTPServer):
    """`own`: the token that callers must show (a set: any of them); `audience_aware` False: it leaves audiences out, as old authenticators do."""
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder, own="aggregators-own-token-0123456789"):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cert, key = certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self.own, self.mode, self.audience_aware = {own}, "ok", True
        self.given, self.pods_gone, self.pods, self.extra = {}, set(), {}, {}  # extra: further members of "extra" of a review
        self.reviewed, self.seen, self.owns, self.at_once, self.most_at_once = [], [], [], 0, 0  # reviewed: the token of each question
        self.lock, self.open = threading.Lock(), threading.Event()  # open: ends what mode "wait" waits for
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):  # a client that left
        pass

    def token(self, namespace, account, audience="meridian", expires=600, pod=None, node=None, groups=(), user=None, uid=None):
        """A projected token; pod: it dies with that pod, whose uid is `uid`."""
        user = user or f"system:serviceaccount:{namespace}:{account}"
        claims = {"iss": "https://kubernetes.default.svc", "sub": user, "aud": [audience], "exp": int(time.time() + expires), "jti": os.urandom(8).hex()}
        token = b64('{"alg":"RS256","kid":"k"}') + "." + b64(json.dumps(claims)) + "." + b64(os.urandom(256))
        groups = [*groups, "system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        with self.lock:
            self.given[token] = {"audience": audience, "until": time.time() + expires, "pod": pod, "user": user, "groups": groups, "node": node, "uid": uid or f"uid-of-{pod}"}
        return token

    def delete_pod(self, pod):
        with self.lock:
            self.pods_gone.add(pod)

    def review(self, body):
        """The status of one review."""
        spec = body["spec"]
        t = self.given.get(spec["token"])
        if t is None or time.time() >= t["until"] or t["pod"] in self.pods_gone:
            return {"user": {}, "error": "[invalid bearer token]"}
        if t["audience"] not in spec["audiences"] and self.audience_aware:
            return {"user": {}, "error": f'token audiences ["{t["audience"]}"] is invalid for the target audiences {spec["audiences"]}'}
        extra = {"authentication.kubernetes.io/pod-name": [t["pod"]], "authentication.kubernetes.io/pod-uid": [t["uid"]]} if t["pod"] else {}
        if t["node"]:
            extra["authentication.kubernetes.io/node-name"] = [t["node"]]
        extra.update(self.extra)
        status = {"authenticated": True, "user": {"username": t["user"], "uid": "1", "groups": t["groups"], "extra": extra}}
        if self.audience_aware:
            status["audiences"] = [a for a in spec["audiences"] if a == t["audience"]]
        return status


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", length=None, **headers):
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def refuse(self, status, reason):
        self.send(status, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}).encode())

    def do_GET(self):
        s = self.server
        s.seen.append(("GET", self.path))
        if self.headers.get("Authorization") not in {f"Bearer {t}" for t in s.own}:
            return self.refuse(401, "Unauthorized")
        part = self.path.split("/")
        pod = s.pods.get((part[4], part[6])) if part[:4] == ["", "api", "v1", "namespaces"] and part[5:6] == ["pods"] and len(part) == 7 else None
        if isinstance(pod, int):
            return self.refuse(pod, "Forbidden")
        if pod is None:
            return self.refuse(404, "NotFound")
        return self.send(200, json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": part[4], "name": part[6], "uid": pod["uid"]},
                                          "spec": {"serviceAccountName": pod["account"], "nodeName": pod["node"]}, "status": {}}).encode())

    def do_POST(self):
        s = self.server
        text = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        with s.lock:
            s.reviewed.append(json.loads(text).get("spec", {}).get("token"))
            s.at_once += 1
            s.most_at_once = max(s.most_at_once, s.at_once)
            s.seen.append(("POST", self.path))
            s.owns.append(self.headers.get("Authorization"))
        try:
            self.answer(s.mode, text)
        finally:
            with s.lock:
                s.at_once -= 1

    def answer(self, mode, text):
        s = self.server
        if self.headers.get("Authorization") not in {f"Bearer {t}" for t in s.own}:
            return self.refuse(401, "Unauthorized")
        if self.path != PATH:
            return self.refuse(404, "NotFound")
        if mode.isdigit():
            return self.refuse(int(mode), "Forbidden" if mode == "403" else "InternalError")
        if mode == "redirect":
            return self.send(307, Location=s.url + "/elsewhere")
        if mode == "wait":
            s.open.wait(60)
        if mode == "hangup":
            self.close_connection = True
            return None
        body = json.loads(text)
        answer = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": body["spec"], "status": s.review(body)}
        if mode == "other kind":
            answer["kind"] = "TokenRequest"
        if mode == "no status":
            del answer["status"]
        if mode == "authenticated text":
            answer["status"]["authenticated"] = "true"
        if mode == "no user":
            answer["status"].pop("user", None)
        text = json.dumps(answer).encode()
        if mode == "huge":
            text = text[:-1] + b', "more": "' + b"x" * (1 << 20) + b'"}'
        if mode == "half":
            return self.send(201, text[:len(text) // 2], length=len(text)) or setattr(self, "close_connection", True)
        if mode == "cut":
            text = text[:len(text) // 2]
        if mode == "list":
            text = b"[" + text + b"]"
        if mode == "empty":
            text = b""
        return self.send(201, text)
