"""Tests service-account tokens of Kubernetes, which the API server verifies: whose owner a token is
and which role it has, and what happens if the API server refuses, fails in any way, is slow or
down. Only the request with the token may wait for it."""
import base64
import http.client
import json
import os
import shutil
import sys
import threading
import time

from lib import SOURCE, check, equal, finish, need_daemons, run, skip, until
from service import TOKENS, Service
from wait import within

sys.path.insert(0, os.path.join(SOURCE, "tests/fake"))
from apiserver import PATH, ApiServer, b64

need_daemons()
if shutil.which("openssl") is None:
    skip("openssl is not installed")


def store_session(c, number, **job):
    id = f"20260101-000000-{number:04x}"
    with open(os.path.join(c.folder("store", "sessions", id), "session.json"), "w") as f:
        json.dump({"version": 1, "id": id, "state": "complete", "created_ns": 1767225600 * 10**9, "go_ns": 1767225600 * 10**9, "stop_ns": 1767225601 * 10**9,
                   "jobs": [{"job": str(number), **job}], "job": {"key": f"x//{number}/0", "uid": 0}}, f)
    return id


def settings(c, name="review.json", mode=0o644, **more):
    with open(c.path(name), "w") as f:
        json.dump({k: v for k, v in {"audience": "meridian", **more}.items() if v is not None}, f)
    os.chmod(c.path(name), mode)
    return c.path(name)


with Service() as c, ApiServer(c.path("."), own="aggregators-own-token-0123456789") as api:
    secrets = []
    team_a, team_b = store_session(c, 1, namespace="team-a", pod="train-0"), store_session(c, 2, namespace="team-b", pod="train-0")
    mixed = store_session(c, 3, pod="train-1")
    os.chmod(c.path("store"), 0o700)
    own = c.secret("own.token", "aggregators-own-token-0123456789")
    base = {"server": api.url, "ca-file": api.cert, "bearer-file": own, "cache-seconds": 2,
            "roles": {"admin": ["system:serviceaccount:ops:oncall"], "operator": ["hpc-ops"], "read": ["system:serviceaccounts:readers"]}}
    c.options["token-review"] = settings(c, **base)
    c.aggregator()
    until(c.answers, "the aggregator answers")
    ids = lambda token: sorted(s["id"] for s in c.read("/api/v1/sessions", token=token).json().get("sessions", []))
    once = lambda token, path="/api/v1/self": c.read(path, token=token).status

    def status(*asked):
        """Who is told that the API server could not be asked asks again: on a busy machine it may be slow."""
        return within(60, lambda: (got := once(*asked)) != 503 and got) or 503

    def give(*args, **more):
        secrets.append(api.token(*args, **more))
        return secrets[-1]

    # ---- Who they are: the first request waits for the answer and has it ----
    a, b = give("team-a", "default", pod="train-0"), give("team-b", "trainer")
    who = lambda token: until(lambda: (r := c.read("/api/v1/self", token=token)).status != 503 and r, "the API server is asked").json()
    equal(who(a), {"role": "owner", "namespace": "team-a", "may": ["list", "read", "delete"]}, "an account of team-a")
    equal((status(a), ids(a), status(b), ids(b)), (200, [team_a], 200, [team_b]), "each the sessions of its namespace")
    equal([status(a, f"/api/v1/sessions/{id}") for id in (team_a, team_b, mixed)], [200, 404, 404], "and no others")
    equal(status(a, "/api/v1/nodes"), 403, "no nodes")
    for token, role in ((give("ops", "oncall"), "admin"), (give("ops", "other", groups=["hpc-ops"]), "operator"), (give("readers", "any"), "read"),
                        (give("ops", "other"), "owner"), (give("x", "y", user="alice", groups=["hpc-ops"]), "operator")):
        equal(who(token).get("role"), role, "a role by name or group")
    equal(status(give("x", "y", user="alice")), 401, "a user that is no account, without a role")
    equal(status(give("x", "y", user="system:serviceaccount:team-a:")), 401, "an account without a name")
    equal(status(give("x", "y", user="system:serviceaccount:team-a:x:y")), 401, "a name with a colon too many")
    equal({p for m, p in api.seen if m == "POST"}, {PATH}, "nothing else is asked for")
    equal(set(api.owns), {"Bearer aggregators-own-token-0123456789"}, "with the aggregator's own token")
    env = {**c.env, "MERIDIAN_TOKEN_FILE": c.secret("a.token", a)}
    equal([s["id"] for s in json.loads(run("sessions", "--json", env=env)[0])["sessions"]], [team_a], "the command with a projected token")
    equal([c.ask("POST", f"/api/v1/sessions/{id}/stop", token=a).status for id in (team_a, team_b)], [403, 403], "nothing more than an owner may")

    # ---- What is refused without asking: another audience, expired, no token at all ----
    bad = []
    for what, token in (("another audience", give("team-a", "default", audience="https://kubernetes.default.svc")), ("expired", give("team-a", "default", expires=-5)),
                        ("no time", "e30." + b64('{"aud":["meridian"]}') + ".x"), ("no JSON", "e30.AAAA.x"), ("dots", "." * 40), ("huge", "e30." + "A" * 20000 + ".x"),
                        ("not three parts", a.rsplit(".", 1)[0])):
        r = c.read("/api/v1/sessions", token=token)
        equal(r.status, 401, f"{what}: {r.body[:200]}")
        check(token not in r.body.decode(), f"{what}: the token in the answer")
        bad.append(token)
    equal([t for t in bad if t in api.reviewed], [], "the API server was not asked about them")  # of others it may be, when their time is nearly over
    r = c.read("/api/v1/self", token=give("team-a", "default", audience="vault"))
    check("another audience than 'meridian'" in r.body.decode(), f"what to do: {r.body}")

    # ---- What the API server refuses; a refusal is remembered, and does not let in ----
    forged = a.rsplit(".", 1)[0] + "." + b64(os.urandom(256))
    begun = time.monotonic()
    equal([status(forged) for _ in range(5)], [401] * 5, "a forged signature")
    asked, took = api.reviewed.count(forged), time.monotonic() - begun
    check(1 <= asked <= 1 + took // 4, f"was asked about {asked} times in {took:.1f} s")  # a refusal counts for ten seconds, no answer came after five
    quoted = a.rsplit(".", 1)[0] + '.","audiences":[],"x":"'
    equal(status(quoted), 401, "a token with quotes is one text")
    api.audience_aware = False
    equal(status(give("team-a", "other")), 401, "an answer without audiences")
    api.audience_aware = True

    # ---- Forged tokens of one address use up its own reviews, not those of all ----
    def elsewhere(token):
        host, port = c.http.rsplit(":", 1)
        h = http.client.HTTPConnection(host, int(port), timeout=60, source_address=("127.0.0.2", 0))
        try:
            h.request("GET", "/api/v1/self", headers={"Authorization": "Bearer " + token})
            return h.getresponse().status
        finally:
            h.close()
    nonsense = [a.rsplit(".", 1)[0] + "." + b64(os.urandom(256)) for _ in range(100)]
    begun = time.monotonic()
    got = {elsewhere(token) for token in nonsense}
    asked, took = len(set(nonsense) & set(api.reviewed)), time.monotonic() - begun
    equal(got, {401, 503}, "forged tokens of another address")
    check(1 <= asked <= 17 + took, f"asked about {asked} of {len(nonsense)} forged tokens in {took:.1f} s")
    fresh = [give("team-a", f"of-{n}") for n in range(25)]
    refused = [r.body for r in (c.read("/api/v1/self", token=token) for token in fresh) if b"too many" in r.body]
    equal(refused, [], "new tokens of an address that sent few forged ones")

    # ---- A deleted pod: its token counts until the cache ends, and no longer ----
    gone = give("team-a", "default", pod="train-9")
    equal(status(gone), 200, "a pod that runs")
    api.delete_pod("train-9")
    until(lambda: status(gone) == 401, "a deleted pod's token ends")
    # A token that is used is asked about again before its time is over: nobody waits, and it is never refused.
    before, begun, seen = api.reviewed.count(a), time.monotonic(), set()
    again = lambda: api.reviewed.count(a) - before
    until(lambda: seen.add(once(a)) or again() >= 3 and time.monotonic() - begun >= 5, "it is asked about again and again", 60)
    asked, took = again(), time.monotonic() - begun
    equal(seen, {200}, "used all the time")
    check(asked <= 2.4 * took, f"asked {asked} times in {took:.1f} s")  # an answer counts for two seconds
    short = give("team-a", "default", expires=10)
    equal(status(short), 200, "a short life")
    until(lambda: status(short) == 401, "ends with its time")

    # ---- The API server fails: closed, with a reason in the log, and no longer than it fails ----
    for mode, reason in (("401", "does not accept the aggregator's own token"), ("403", "may not create tokenreviews"), ("500", "status 500"), ("redirect", "redirection"),
                         ("hangup", ""), ("half", ""), ("cut", "the API server's answer"), ("empty", "the API server's answer"), ("huge", "more than 262144 bytes"),
                         ("other kind", "no TokenReview"), ("list", "no TokenReview"), ("no status", "no TokenReview"), ("no user", "names no user")):
        api.mode = mode
        token = give("team-a", "default")
        r = c.read("/api/v1/self", token=token)
        equal((r.status, r["Retry-After"] is not None), (503, True), f"{mode}: {r.body[:200]}")
        check("could not be asked" in r.body.decode() and api.url not in r.body.decode(), f"{mode}: {r.body}")
        until(lambda: reason in c.daemon.text() and "AGG-REVIEW" in c.daemon.text(), f"{mode}: the log says '{reason}'")
        api.mode = "ok"
        until(lambda: once(token) == 200, f"{mode}: and it works again")
    check(("POST", "/elsewhere") not in api.seen and ("GET", "/elsewhere") not in api.seen, "a redirection is not followed")
    api.mode = "authenticated text"
    equal(status(give("team-a", "default")), 401, "\"true\" is not true")
    api.mode = "ok"

    # ---- Slow: whoever asks is held, all others are answered; the queue has an end ----
    api.mode = "wait"
    late, answers = [give("team-a", f"late-{i}") for i in range(100)], {}

    def one(i):
        answers[i] = c.read("/api/v1/self", token=late[i]).status
    threads = [threading.Thread(target=one, args=(i,)) for i in range(100)]
    for t in threads:
        t.start()
    until(lambda: len(answers) >= 30, "those beyond the queue are told at once")
    equal(set(answers.values()), {503}, "not now")
    equal([c.read("/api/v1/self", token=t).status for t in (TOKENS["control"], TOKENS["read"])], [200, 200], "others are answered meanwhile")
    check(api.most_at_once <= 2, f"{api.most_at_once} reviews at one time")
    api.mode = "ok"
    api.open.set()
    for t in threads:
        t.join(60)
    check(len(answers) == 100 and set(answers.values()) == {200, 503}, f"{len(answers)} answers: {set(answers.values())}")
    until(lambda: status(late[99]) == 200, "and the last gets in", 60)

    # ---- Its own token is read again each time ----
    api.own = {"rotated-token-of-the-aggregator-01"}
    token = give("team-a", "rotated")
    equal(once(token), 503, "the old one is not accepted any more")
    c.secret("own.token", "rotated-token-of-the-aggregator-01")
    until(lambda: once(token) == 200, "the new one is")

    # ---- An accepted token counts while the API server is away, but not for long ----
    api.mode = "500"
    until(lambda: once(token) == 503, "closed")
    api.mode = "ok"

    log = c.daemon.text()
    secrets += list(TOKENS.values()) + ["aggregators-own-token", "rotated-token-of"]
    check(not any(t in log or t.split(".")[-1] in log for t in secrets), "no token in the log")
    c.daemon.end()

    # ---- It stops while a review is under way ----
    api.open.clear()
    api.mode = "wait"
    c.aggregator()
    until(c.answers, "the aggregator answers")
    over = threading.Event()

    def again():
        """A review is under way for five seconds only: then who asked has his 503, and asks again."""
        while not over.is_set():
            try:
                one(0)
            except (OSError, http.client.HTTPException):
                pass  # the aggregator has ended
    threading.Thread(target=again, daemon=True).start()
    until(lambda: api.at_once > 0, "a review is under way")
    begun = time.monotonic()
    c.daemon.end()
    over.set()
    check(time.monotonic() - begun < 20, f"it took {time.monotonic() - begun:.1f} s to stop")
    api.open.set()
    api.mode = "ok"

    # ---- Another authority is not the API server; an issuer beside it ----
    from apiserver import certificate
    os.makedirs(c.path("other"))
    c.options["token-review"] = settings(c, **{**base, "ca-file": certificate(c.path("other"))[0]})
    c.aggregator()
    until(c.answers, "the aggregator answers")
    asked = len(api.reviewed)
    equal((once(a), len(api.reviewed)), (503, asked), "an API server of another authority is told no token")
    c.daemon.end()

    # ---- Settings that cannot be ----
    for what, more, mode in (("others than root", {}, 0o666), ("https://", {"server": "http://192.0.2.1"}, 0o644), ("did you mean audience", {"audiense": "x"}, 0o644),
                             ("'audience' must be text", {"audience": None}, 0o644), ("'bearer-file' must be text", {"bearer-file": None}, 0o644),
                             ("must be 1 to 300", {"cache-seconds": 0}, 0o644), ("did you mean operator", {"roles": {"operater": []}}, 0o644),
                             ("KUBERNETES_SERVICE_HOST is not set", {"server": None}, 0o644), ("no client could do anything", {"owners": False, "roles": None}, 0o644)):
        c.options["token-review"] = settings(c, mode=mode, **{**base, **more})
        p = c.aggregator()
        check(p.p.wait(60) != 0 and what in p.text(), f"{what}: {p.text()[-500:]}")
finish()
