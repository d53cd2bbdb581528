"""A working set of certificates: made, verified by openssl, renewed with the same keys and names, private files private."""
import json
import os
import stat
import subprocess

from lib import check, equal, finish, run, tmp

dir = os.path.join(tmp(), "certs")


def openssl(*args):
    return subprocess.run(["openssl", *args], capture_output=True, text=True)


def path(name):
    return os.path.join(dir, name)


run("certs", "init", "-d", dir, "--host", "agg.example,10.0.0.7")
out, _ = run("certs", "agent", "i-0abc", "-d", dir)
for name in ("aggregator", "agent-i-0abc"):
    equal(openssl("verify", "-CAfile", path("ca.pem"), path(name + ".pem")).returncode, 0, f"{name} verifies")
names = openssl("x509", "-in", path("aggregator.pem"), "-noout", "-ext", "subjectAltName").stdout
check("DNS:agg.example" in names and "10.0.0.7" in names and "127.0.0.1" in names, f"names: {names}")
check("CN = i-0abc" in openssl("x509", "-in", path("agent-i-0abc.pem"), "-noout", "-subject").stdout, "the agent's identity")
for name in os.listdir(dir):
    mode = stat.S_IMODE(os.stat(path(name)).st_mode)
    equal(mode, 0o644 if name.endswith(".pem") else 0o600, f"mode of {name}")
equal(stat.S_IMODE(os.stat(dir).st_mode), 0o700, "mode of the folder")
key, serial = open(path("aggregator.key")).read(), openssl("x509", "-in", path("aggregator.pem"), "-noout", "-serial").stdout
run("certs", "renew", "-d", dir)
equal(open(path("aggregator.key")).read(), key, "renewal keeps the key")
check(openssl("x509", "-in", path("aggregator.pem"), "-noout", "-serial").stdout != serial, "renewal makes a new certificate")
equal(openssl("x509", "-in", path("aggregator.pem"), "-noout", "-ext", "subjectAltName").stdout, names, "renewal keeps the names")
out, _ = run("certs", "show", "-d", dir)
check("365 days left" in out or "364 days left" in out, f"show: {out}")
tokens = json.load(open(path("tokens.json")))
bound = [t for t in tokens["agent"] if isinstance(t, dict)]
equal([t["instance"] for t in bound], ["i-0abc"], "the token names its node")
equal(open(path("agent-i-0abc.token")).read(), bound[0]["token"], "the node's token")
run("certs", "agent", "i-0abc", "-d", dir)
again = json.load(open(path("tokens.json")))
equal(len(again["agent"]), len(tokens["agent"]), "a second one replaces the first")
before = again
equal(open(path("operator.token")).read(), before["operator"][0], "the first operator's token")
for role in ("operator", "admin"):
    run("certs", "token", role, "-d", dir)
    after = json.load(open(path("tokens.json")))
    equal((after[role][:-1], after[role][-1]), (before.get(role, []), open(path(role + ".token")).read()), f"one more token for {role}, the others stay")
    equal({k: v for k, v in after.items() if k != role}, {k: v for k, v in before.items() if k != role}, "and those of other roles")
    equal(stat.S_IMODE(os.stat(path(role + ".token")).st_mode), 0o600, "is private")
    before = after
equal(len({t for tokens in before.values() for t in tokens if isinstance(t, str)}), 6, "no token twice")
for args, text in ((("init", "-d", dir), "exists"), (("token", "agent", "-d", dir), "read, operator or admin"), (("token", "operator", "-d", dir + "-absent"), "tokens.json"), (("agent", "../x", "-d", dir), "not an instance id"),
                   (("renew", "-d", dir + "-absent"), "meridian certs init")):
    _, err = run("certs", *args, want=1)
    check(text in err, f"{args}: {err}")
finish()
