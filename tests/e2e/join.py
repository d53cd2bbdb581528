"""Tests a node's own certificate. An administrator invites the node, the node requests the
certificate once with its own key, and its agent connects with nothing else and renews it. Refused
are a second use of the invitation, an expired one, another node, requests for more than a name,
invalid requests, and revoked certificates."""
import base64
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess

from lib import Cluster, check, equal, finish, need_daemons, run, skip, until

need_daemons()
if shutil.which("openssl") is None:
    skip("openssl is not installed")
c = Cluster()
certs = c.path("certs")
secrets = []


def cert(name):
    return os.path.join(certs, name)


def openssl(*args, want=0, **more):
    p = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=60, **more)
    check(p.returncode == want, f"openssl {' '.join(args)}: {p.stderr}")
    return p.stdout


def text(path):
    with open(path) as f:
        return f.read()


def private(name, value):
    with open(c.path(name), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(value)
    return c.path(name)


def invite(*args):
    token = run("invite", *args, env=c.env)[0].strip()
    check(re.fullmatch("[0-9a-f]{64}", token), f"an invitation: {token!r}")
    secrets.append(token)
    return token


def join(id, *args, want=0, token=None):
    """The command on the node `id`: what it says."""
    folder = c.folder("node-" + id)
    if token:
        args += ("--invitation", private("invitation", token))
    out, err = run("join", "--instance-id", id, "-d", folder, *args, want=want, env={**c.env, "MERIDIAN_TOKEN_FILE": ""})
    return out + err


def node(id, name="agent.pem"):
    return os.path.join(c.folder("node-" + id), name)


def request(subject="/CN=i-a", *more, key="ec"):
    """A signing request that openssl makes."""
    path = c.path(f"key-{key}.pem")
    if not os.path.exists(path):
        kind = {"ec": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "weak": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime192v1"],
                "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], "other": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"]}[key]
        openssl("genpkey", *kind, "-out", path)
    return openssl("req", "-new", "-key", path, "-subj", subject, *more)


def agent(i, **options):
    """An agent that has no token but the one that options name."""
    token = c.env.pop("MERIDIAN_TOKEN_FILE")
    try:
        return c.agent(i, **options)
    finally:
        c.env["MERIDIAN_TOKEN_FILE"] = token


def post(path="certificates", token=None, **body):
    """(status, detail or certificate)."""
    with open(c.path("body"), "w") as f:
        json.dump(body, f)
    p = subprocess.run(["curl", "-s", "--cacert", cert("ca.pem"), "-w", "\n%{http_code}", "-H", "Content-Type: application/json",
                        *(["-H", "Authorization: Bearer " + token] if token else []), "--data-binary", "@" + c.path("body"), f"https://{c.http}/api/v1/{path}"], capture_output=True, text=True, timeout=60)
    reply, status = p.stdout.rsplit("\n", 1)
    doc = json.loads(reply or "{}")
    return int(status), doc.get("certificate") or doc.get("detail", "")


def refused(what, status, says, **body):
    got = post(**body)
    check(got[0] == status and says in got[1], f"{what}: expected {status} and '{says}': {got}")
    check(not any(s in got[1] for s in secrets), f"{what}: the invitation is repeated")


try:
    run("certs", "init", "-d", certs, "--host", "127.0.0.1")
    run("certs", "init", "-d", c.path("others"))
    c.data, c.control = "tls+" + c.data, "tls+" + c.control
    c.env.update(MERIDIAN_SERVER="https://" + c.http, MERIDIAN_CA_FILE=cert("ca.pem"), MERIDIAN_TOKEN_FILE=cert("control.token"))
    shutil.copy(cert("ca.pem"), cert("agents.pem"))
    options = dict(tls_cert=cert("aggregator.pem"), tls_key=cert("aggregator.key"), tls_ca=cert("agents.pem"), tokens=cert("tokens.json"), http_cert=cert("aggregator.pem"),
                   http_key=cert("aggregator.key"), agent_ca=cert("ca.pem"), agent_ca_key=cert("ca.key"))
    c.aggregator(**options)
    until(c.answers, "the aggregator answers")

    # ---- A node is invited and asks; its agent needs nothing else ----
    token = invite("i-test0")
    said = join("i-test0", token=token)
    check("was signed, and is valid for 7" in said, f"signed for 30 days: {said}")
    equal([stat.S_IMODE(os.stat(node("i-test0", n)).st_mode) for n in ("agent.key", "agent.pem")], [0o600, 0o644], "modes")
    openssl("verify", "-CAfile", cert("ca.pem"), "-purpose", "sslclient", node("i-test0"))
    openssl("verify", "-CAfile", cert("ca.pem"), "-purpose", "sslserver", node("i-test0"), want=2)
    shown = openssl("x509", "-in", node("i-test0"), "-noout", "-subject", "-ext", "basicConstraints,keyUsage,extendedKeyUsage")
    check("CN = i-test0" in shown and "CA:FALSE" in shown and "TLS Web Client Authentication" in shown and "Server" not in shown, f"what it says: {shown}")
    own = dict(tls_ca=cert("ca.pem"), tls_cert=node("i-test0"), tls_key=node("i-test0", "agent.key"))
    agent(0, **own)
    until(lambda: c.connected() == ["i-test0"], "the agent with its certificate and no token is in")
    thief = agent(1, log="thief.log", instance="i-test1", **own)
    until(lambda: "shows the certificate of 'i-test0'" in thief.text(), "it cannot speak for another instance")
    thief.kill()
    thief = agent(1, log="thief2.log", instance="i-test1", tls_ca=cert("ca.pem"), token_file=cert("agent.token"))
    until(lambda: "requires a certificate of this node" in thief.text(), "nor can one with the shared token and no certificate")
    thief.kill()
    equal(c.connected(), ["i-test0"], "nobody else came in")
    check("nothing to do" in join("i-test0"), "while two thirds of its life are left")

    # ---- Used once; the same key may ask again, as an answer can be lost ----
    before = text(node("i-test0"))
    os.rename(node("i-test0"), node("i-test0") + ".lost")
    check("was signed" in join("i-test0", token=token), "the same key again")
    check(text(node("i-test0")) != before, "another certificate")
    refused("a second use with another key", 401, "was used already, with another key", invitation=token, instance="i-test0", request=request("/CN=i-test0"))
    said = join("i-thief", token=token, want=1)
    check("for another instance id" in said and not os.path.exists(node("i-thief")), f"a used one for another node: {said}")

    # ---- Refused ----
    with open(cert("control.token")) as f:  # a name that somebody forgot is not any name
        got = post("invitations", f.read().strip(), instance="")
    check(got[0] == 400 and "leave it out for an invitation that any node can use" in got[1], f"an invitation of nobody: {got}")
    bound, free = invite("i-a", "--expires", "10min"), invite()
    refused("another node", 401, "for another instance id", invitation=bound, instance="i-b", request=request("/CN=i-b"))
    refused("an unknown one", 401, "no invitation that the aggregator knows", invitation="0" * 64, instance="i-a", request=request())
    refused("a part of one", 401, "no invitation", invitation=bound[:63], instance="i-a", request=request())
    refused("its hash", 401, "no invitation", invitation=hashlib.sha256(bound.encode()).hexdigest(), instance="i-a", request=request())
    good = request()
    der = bytearray(base64.b64decode("".join(good.splitlines()[1:-1])))
    der[-5] ^= 1
    forged = "-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bytes(der)).decode() + "-----END CERTIFICATE REQUEST-----\n"
    for what, status, says, csr in (
            ("another name", 400, "another subject than CN=i-a", request("/CN=i-b")), ("one more part", 400, "another subject", request("/O=x/CN=i-a")),
            ("two names", 400, "another subject", request("/CN=i-a/CN=i-b")), ("no common name", 400, "another subject", request("/O=i-a")),
            ("other DNS names", 400, "extensions", request("/CN=i-a", "-addext", "subjectAltName=DNS:i-b")), ("an authority", 400, "extensions", request("/CN=i-a", "-addext", "basicConstraints=CA:TRUE")),
            ("RSA", 400, "not P-256 or P-384", request(key="rsa")), ("a weak curve", 400, "not P-256 or P-384", request(key="weak")), ("a broken signature", 401, "not signed with its own key", forged),
            ("no request", 422, "no signing request", "x"), ("empty", 422, "no signing request", ""), ("cut", 422, "no signing request", good[:200]),
            ("a certificate", 422, "no signing request", before), ("a key", 422, "no signing request", text(node("i-test0", "agent.key"))), ("huge", 413, "at most 8192", good + "x" * 9000),
            ("huge base64", 413, "at most 8192", good.replace("\n-----END", "\n" + "A" * 300000 + "\n-----END"))):
        refused(what, status, says, invitation=bound, instance="i-a", request=csr)
    for what, id in (("a path", "../x"), ("a space", "i a"), ("too long", "x" * 65), ("empty", ""), ("a line", "i\nCN=x")):
        refused(f"an instance of {what}", 400, "'instance' must be", invitation=free, instance=id, request=request())
    equal(post(invitation=bound, instance="i-a", request=good)[0], 201, "what was refused has not used the invitation")
    equal(post(invitation=free, instance="i-c", request=request("/CN=i-c"))[0], 201, "one for any node")
    refused("and then for no other", 401, "was used already", invitation=free, instance="i-d", request=request("/CN=i-d"))
    anonymous = invite("i-e")
    equal(post(invitation=anonymous, instance="i-e", request=request("/"))[0], 201, "a request without a subject")
    short = invite("i-f", "--expires", "1s")
    ended = request("/CN=i-g")  # names another node, so that asking uses nothing
    until(lambda: "has ended" in post(invitation=short, instance="i-f", request=ended)[1], "its end")
    for role in ("read", "operator", "agent"):
        _, err = run("invite", "i-x", want=1, env={**c.env, "MERIDIAN_TOKEN_FILE": cert(role + ".token")})
        check("may not" in err or "DENIED" in err or "not permitted" in err, f"{role} invites nobody: {err}")

    # ---- Renewal: with the certificate and its key, nothing else ----
    before, serial = text(node("i-test0", "agent.key")), openssl("x509", "-in", node("i-test0"), "-noout", "-serial")
    check("was renewed" in join("i-test0", "--renew"), "renewed")
    check(openssl("x509", "-in", node("i-test0"), "-noout", "-serial") != serial and text(node("i-test0", "agent.key")) == before, "a new certificate for the same key")
    until(lambda: "AGT-RELOAD" in c.agents[0].text(), "the agent reads it without a restart")
    until(lambda: c.connected() == ["i-test0"], "and stays")
    mine = text(node("i-test0"))
    csr = openssl("req", "-new", "-key", node("i-test0", "agent.key"), "-subj", "/CN=i-test0")
    status, other = post(certificate=mine, request=csr)
    equal(status, 201, "renewed by hand")
    refused("with another key", 401, "not signed with the certificate's key", certificate=mine, request=request("/CN=i-test0", key="other"))
    refused("for another name", 400, "another subject", certificate=mine, request=openssl("req", "-new", "-key", node("i-test0", "agent.key"), "-subj", "/CN=i-test1"))
    refused("both", 400, "either", certificate=mine, invitation=free, request=csr)
    refused("neither", 400, "either", request=csr)
    refused("no certificate", 422, "no certificate", certificate="x", request=csr)
    run("certs", "agent", "i-test0", "-d", c.path("others"))
    foreign = os.path.join(c.path("others"), "agent-i-test0")
    refused("of another authority", 401, "does not count", certificate=text(foreign + ".pem"), request=openssl("req", "-new", "-key", foreign + ".key", "-subj", "/CN=i-test0"))
    refused("of the authority itself", 401, "", certificate=text(cert("ca.pem")), request=openssl("req", "-new", "-key", cert("ca.key"), "-subj", "/CN=meridian CA"))
    openssl("x509", "-req", "-in", "/dev/stdin", "-CA", cert("ca.pem"), "-CAkey", cert("ca.key"), "-days", "-1", "-out", c.path("old.pem"), input=csr)
    refused("an expired one", 401, "expired", certificate=text(c.path("old.pem")), request=csr)
    said = join("i-new", want=2)
    check("meridian invite i-new" in said, f"a node without certificate is told what to do: {said}")
    key = node("i-test0", "agent.key")
    shutil.copy(c.path("key-ec.pem"), key)
    check("for another key" in join("i-test0", want=1), "a key that is not the certificate's")
    with open(key, "w") as f:
        f.write(before)

    # ---- A revoked certificate is not renewed ----
    base = c.folder("crl")
    for name, value in (("index.txt", ""), ("crlnumber", "01\n"), ("conf", f"[ca]\ndefault_ca=d\n[d]\ndatabase={base}/index.txt\ncrlnumber={base}/crlnumber\ndefault_md=sha256\ndefault_crl_days=9\n")):
        with open(os.path.join(base, name), "w") as f:
            f.write(value)
    ca = ["ca", "-config", os.path.join(base, "conf"), "-cert", cert("ca.pem"), "-keyfile", cert("ca.key")]
    with open(c.path("mine.pem"), "w") as f:
        f.write(mine)
    openssl(*ca, "-revoke", c.path("mine.pem"), "-crl_reason", "superseded")
    crl = openssl(*ca, "-gencrl")
    with open(cert("agents.pem"), "a") as f:
        f.write(crl)
    refused("a revoked one", 401, "revoked", certificate=mine, request=csr)
    status, third = post(certificate=other, request=csr)
    equal(status, 201, "the other one of that node counts, as nothing is said of its key")

    # ---- Nor is any certificate of a key of which one was revoked for another reason ----
    with open(c.path("third.pem"), "w") as f:
        f.write(third)
    openssl(*ca, "-revoke", c.path("third.pem"), "-crl_reason", "keyCompromise")
    with open(cert("agents.pem"), "w") as f:
        f.write(text(cert("ca.pem")) + openssl(*ca, "-gencrl"))
    refused("another one of a revoked key", 401, "of this key was revoked", certificate=other, request=csr)

    # ---- Nor is it had anew with its invitation, which has not ended ----
    stolen = invite("i-s")
    lost = request("/CN=i-s", key="other")
    equal(post(invitation=stolen, instance="i-s", request=lost)[0], 201, "the first one of an invitation")
    status, got = post(invitation=stolen, instance="i-s", request=lost)
    equal(status, 201, "asked again, while nothing of it is revoked")
    with open(c.path("stolen.pem"), "w") as f:
        f.write(got)
    openssl(*ca, "-revoke", c.path("stolen.pem"))
    with open(cert("agents.pem"), "w") as f:
        f.write(text(cert("ca.pem")) + openssl(*ca, "-gencrl"))
    refused("by an invitation whose certificate was revoked", 401, "was revoked", invitation=stolen, instance="i-s", request=lost)

    # ---- At rest: hashes; used stays used after a restart; no secret where others can read it ----
    kept = text(c.path("store", "invitations.json"))
    check(not any(s in kept for s in secrets) and len(json.loads(kept)["invitations"]) >= 4, "only hashes are kept")
    equal(stat.S_IMODE(os.stat(c.path("store", "invitations.json")).st_mode), 0o600, "and private")
    unused = invite("i-z")
    log = c.daemon.text()
    c.daemon.kill()
    c.aggregator(**options)
    until(c.answers, "the aggregator answers again")
    refused("after a restart", 401, "was used already", invitation=token, instance="i-test0", request=request("/CN=i-test0"))
    refused("a revoked one after a restart", 401, "was revoked", invitation=stolen, instance="i-s", request=lost)
    equal(post(invitation=unused, instance="i-z", request=request("/CN=i-z"))[0], 201, "an unused one still counts")
    for _ in range(22):
        equal(post(invitation=unused, instance="i-z", request=request("/CN=i-z"))[0], 201, "answers may be lost often")
    log += c.daemon.text()
    check(not any(s in log for s in secrets), "no invitation in the log")
    check("AGG-INVITE" in log and "AGG-SIGNED" in log and "by=invitation" in log and "by=certificate" in log, "who was invited and signed is logged")
    c.daemon.end()

    # ---- Settings that cannot be ----
    for what, more in (("belong together", dict(agent_ca_key=None)), ("needs --tokens", dict(tls_ca=None)), ("is not the key of", dict(agent_ca_key=cert("aggregator.key"))),
                       ("not the certificate of an authority", dict(agent_ca=cert("aggregator.pem"), agent_ca_key=cert("aggregator.key")))):
        p = c.aggregator(**{k: v for k, v in {**options, **more}.items() if v is not None})
        check(p.p.wait(60) != 0 and what in p.text(), f"{what}: {p.text()[-500:]}")
    with open(c.path("store", "invitations.json"), "w") as f:
        f.write('{"invitations": [{"hash": 1}]}')
    p = c.aggregator(**options)
    check(p.p.wait(60) != 0 and "invitation 0 cannot be read" in p.text(), f"a damaged file: {p.text()[-500:]}")
finally:
    c.close()
finish()
