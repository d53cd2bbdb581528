"""Tests tokens of an OpenID Connect issuer, whose server of keys is down, starts, replaces its
keys, and sends wrong data. The tokens are signed by openssl. The test checks whom each token
identifies (an owner by name, number or namespace, an operator by group), and that invalid tokens of
every kind are refused."""
import base64
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time

from lib import check, equal, finish, need_daemons, run, skip, until
from service import TOKENS, Service

need_daemons()
if shutil.which("openssl") is None:
    skip("openssl is not installed")
ISSUER, AUDIENCE = "https://login.example", "meridian"


def b64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else data.encode()).rstrip(b"=").decode()


class Key:
    """An RSA key that openssl made."""

    def __init__(self, c, kid, bits=2048):
        self.kid, self.path = kid, c.path(kid + ".key")
        subprocess.run(["openssl", "genrsa", "-out", self.path, str(bits)], check=True, capture_output=True, timeout=60)
        n = subprocess.run(["openssl", "rsa", "-in", self.path, "-noout", "-modulus"], check=True, capture_output=True, text=True, timeout=60).stdout
        self.jwk = {"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "n": b64(bytes.fromhex(n.strip().split("=")[1])), "e": "AQAB"}

    def token(self, head=None, expires=3600, **claims):
        claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + expires, **claims}
        text = b64(json.dumps({"alg": "RS256", "typ": "JWT", "kid": self.kid, **(head or {})})) + "." + b64(json.dumps({k: v for k, v in claims.items() if v is not None}))
        sig = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.path], input=text.encode(), check=True, capture_output=True, timeout=60).stdout
        return text + "." + b64(sig)


class Issuer(http.server.ThreadingHTTPServer):
    """GET /keys: what `answer` is now: a key set, bytes, or a status."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.asked, self.bearers = 500, 0, set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/keys"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked += 1
        self.server.bearers.add(self.headers["Authorization"])
        answer = self.server.answer
        body = json.dumps({"keys": [k.jwk for k in answer]}).encode() if isinstance(answer, list) else b"" if isinstance(answer, int) else answer
        try:
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass


def store_session(c, number, uid, **job):
    id = f"20260101-000000-{number:04x}"
    with open(os.path.join(c.folder("store", "sessions", id), "session.json"), "w") as f:
        json.dump({"version": 1, "id": id, "state": "complete", "created_ns": 1767225600 * 10**9, "go_ns": 1767225600 * 10**9, "stop_ns": 1767225601 * 10**9,
                   "jobs": [{"job": str(number), **job}], "job": {"key": f"x//{number}/0", "uid": uid}}, f)
    return id


def settings(c, name="oidc.json", mode=0o644, **more):
    with open(c.path(name), "w") as f:
        json.dump({"issuer": ISSUER, "audience": AUDIENCE, **more}, f)
    os.chmod(c.path(name), mode)
    return c.path(name)


issuer = Issuer()
PEOPLE = {"user-claim": "preferred_username", "users": {"alice@example": "alice", "bob@example": "bob"}, "roles-claim": "groups",
          "roles": {"admin": ["hpc-admins"], "operator": ["hpc-ops"], "read": ["hpc-readers"]}}
with Service() as c:
    old, new, foreign = Key(c, "old"), Key(c, "new"), Key(c, "old-too")
    foreign.kid = "old"  # by its name
    alices, bobs = store_session(c, 1, 1000, user="alice"), store_session(c, 2, 1001, user="bob")
    os.chmod(c.path("store"), 0o700)
    secret = c.secret("bearer", "bearer-of-the-aggregator-0123456789")
    c.options["oidc"] = settings(c, jwks=issuer.url, **{"bearer-file": secret}, **PEOPLE)
    c.aggregator()
    until(c.answers, "the aggregator answers")

    # ---- The issuer is down: tokens are not proven, and nobody gets in; other tokens work ----
    alice = old.token(preferred_username="alice@example")
    r = c.read("/api/v1/sessions", token=alice)
    equal((r.status, r["Retry-After"] is not None), (503, True), f"without keys: {r.body}")
    equal(c.read("/api/v1/sessions", token="control").status, 200, "the file's tokens need no issuer")
    until(lambda: "AGG-OIDC" in c.daemon.text() and "status 500" in c.daemon.text(), "the log says why")
    issuer.answer = b"<html>"
    until(lambda: "key set" in c.daemon.text(), "no key set")
    issuer.answer = [old]
    ids = lambda token: sorted(s["id"] for s in c.read("/api/v1/sessions", token=token).json().get("sessions", []))
    until(lambda: c.read("/api/v1/self", token=alice).status == 200, "the keys came", 60)
    equal(issuer.bearers, {"Bearer bearer-of-the-aggregator-0123456789"}, "the aggregator's own token, to the issuer")

    # ---- Who they are ----
    equal(c.read("/api/v1/self", token=alice).json(), {"role": "owner", "user": "alice", "may": ["list", "read", "delete"]}, "alice")
    equal(ids(alice), [alices], "her sessions")
    equal([c.read(f"/api/v1/sessions/{id}", token=alice).status for id in (alices, bobs)], [200, 404], "and no others")
    equal(c.read("/api/v1/nodes", token=alice).status, 403, "no nodes")
    for groups, role in ((["x", "hpc-ops"], "operator"), ("hpc-readers", "read"), (["hpc-readers", "hpc-admins"], "admin")):
        equal(c.read("/api/v1/self", token=old.token(groups=groups)).json()["role"], role, f"groups {groups}")
    env = {**c.env, "MERIDIAN_TOKEN_FILE": c.secret("alice.token", alice)}
    equal([s["id"] for s in json.loads(run("sessions", "--json", env=env)[0])["sessions"]], [alices], "the command with her token")

    # ---- Who they are not ----
    wrong = {
        "expired": old.token(preferred_username="alice@example", expires=-60), "no end": old.token(preferred_username="alice@example", exp=None),
        "not yet": old.token(preferred_username="alice@example", nbf=int(time.time()) + 600), "another issuer": old.token(preferred_username="alice@example", iss=ISSUER + "/"),
        "another audience": old.token(preferred_username="alice@example", aud=["other"]), "another key": foreign.token(preferred_username="alice@example"),
        "nobody": old.token(preferred_username="mallory@example"), "no user": old.token(), "a list": old.token(preferred_username=["alice@example"]), "a group of no role": old.token(groups=["hpc"]),
        "a role's name": old.token(groups=["admin"]), "none": alice.rsplit(".", 1)[0] + ".", "cut": alice[:-4], "longer": alice + "A",
        "alg none": b64('{"alg":"none"}') + "." + alice.split(".")[1] + ".", "huge": alice.split(".")[0] + "." + "A" * 20000 + "." + alice.split(".")[2], "dots": "." * 40,
        "of another": alice.split(".")[0] + "." + b64(json.dumps({"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600, "groups": ["hpc-admins"]})) + "." + alice.split(".")[2]}
    for what, token in wrong.items():
        r = c.read("/api/v1/sessions", token=token)
        equal(r.status, 401, f"{what}: {r.body[:200]}")
        check(token not in r.body.decode() and alice.split(".")[2] not in r.body.decode(), f"{what}: the token in the answer")
    equal(c.read(f"/api/v1/sessions?access_token={alice}", token=None).status, 401, "a token in the address is none")

    # ---- The issuer turns its keys over; it is asked at most every 10 s, whatever comes ----
    asked, begun = issuer.asked, time.monotonic()
    for _ in range(30):
        check(c.read("/api/v1/self", token=new.token(preferred_username="bob@example")).status in (401, 503), "a key that nobody has")
    took = time.monotonic() - begun
    check(issuer.asked - asked <= 2 + took // 10, f"asked {issuer.asked - asked} times for 30 tokens, in {took:.1f} s")
    issuer.answer = [new]
    bob = new.token(preferred_username="bob@example")
    until(lambda: c.read("/api/v1/self", token=bob).status == 200, "the new key counts", 60)
    equal(ids(bob), [bobs], "bob's sessions")
    equal(c.read("/api/v1/self", token=alice).status in (401, 503), True, "the old key does not")
    # A key that the issuer takes back counts until the next fetch: SIGHUP is one, without the 10 s between two.
    issuer.answer, asked, begun = [old], issuer.asked, time.monotonic()
    c.daemon.p.send_signal(signal.SIGHUP)
    until(lambda: issuer.asked > asked, "asked again")
    check(time.monotonic() - begun < 8, "at once")
    until(lambda: c.read("/api/v1/self", token=alice).status == 200, "the key that is there now counts")
    issuer.answer = [new]
    c.daemon.p.send_signal(signal.SIGHUP)
    until(lambda: c.read("/api/v1/self", token=bob).status == 200, "and the other one again")
    issuer.answer = 500
    equal(c.read("/api/v1/self", token=bob).status, 200, "keys that are there count while the issuer is down")
    log = c.daemon.text()
    check(not any(t in log for t in (alice, bob, alice.split(".")[2], "bearer-of-the-aggregator", *TOKENS.values())), "no token in the log")
    c.daemon.end()

    # ---- Service accounts of Kubernetes, by their namespace; numbers of users ----
    team = store_session(c, 3, 0, namespace="team-a", pod="train-0")
    issuer.answer = [new]
    for more, token, want in (({"service-accounts": True}, {"sub": "system:serviceaccount:team-a:default"}, [team]),
                              ({"service-accounts": True}, {"sub": "system:serviceaccount:team-b:default"}, []),
                              ({"service-accounts": True}, {"sub": "team-a"}, None), ({"service-accounts": True}, {"sub": "system:serviceaccount:team-a:"}, None),
                              ({"uid-claim": "uid"}, {"uid": 1000}, [alices]), ({"uid-claim": "uid"}, {"uid": "1000"}, None), ({"uid-claim": "uid"}, {"uid": -1}, None)):
        c.options["oidc"] = settings(c, jwks=issuer.url, **more)
        c.aggregator()
        until(c.answers, "the aggregator answers")
        token = new.token(**token)
        until(lambda: c.read("/api/v1/self", token=token).status != 503, "the keys came", 60)
        equal(ids(token) if want is not None else c.read("/api/v1/sessions", token=token).status, 401 if want is None else want, f"{more} {want}")
        c.daemon.end()

    # ---- Settings that cannot be ----
    for what, more, mode in (("others than root", {}, 0o666), ("https://", {"jwks": "http://192.0.2.1/keys"}, 0o644), ("did you mean user-claim", {"user-clam": "x"}, 0o644),
                             ("'audience' must be text", {"audience": 7}, 0o644), ("name the claim that identifies", {"user-claim": None}, 0o644)):
        values = {"jwks": issuer.url, "user-claim": "sub", **more}
        c.options["oidc"] = settings(c, mode=mode, **{k: v for k, v in values.items() if v is not None})
        p = c.aggregator()
        check(p.p.wait(60) != 0 and what in p.text(), f"{what}: {p.text()[-500:]}")
issuer.shutdown()
finish()
