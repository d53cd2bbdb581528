"""Tests `meridian certs`: the certificates are verified by openssl, a renewal keeps keys and names,
and private files are readable by their owner only."""
import http.server
import json
import os
import shutil
import ssl
import stat
import subprocess
import threading

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
if os.geteuid() == 0:
    # ---- as root: the group of the daemons' user may read what they need, and nothing else ----
    run("certs", "init", "-d", path("root"), "--user", "daemon")
    run("certs", "agent", "i-1", "-d", path("root"), "--user", "daemon")
    run("certs", "token", "operator", "-d", path("root"), "--user", "daemon")
    run("certs", "renew", "-d", path("root"), "--user", "daemon")
    shared = {"tokens.json", "aggregator.key", "agent.token", "agent-i-1.key", "agent-i-1.token"}
    os.chmod(os.path.dirname(dir), 0o755)
    os.chmod(dir, 0o755)
    for name in sorted(os.listdir(path("root"))):
        got = subprocess.run(["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "cat", path(f"root/{name}")], capture_output=True)
        equal(got.returncode == 0, name in shared or name.endswith(".pem"), f"the daemon's user reads {name}")
        equal(os.stat(path(f"root/{name}")).st_uid, 0, f"owner of {name}")
    equal(subprocess.run(["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "touch", path("root/new")], capture_output=True).returncode, 1, "and writes nothing")
    _, err = run("certs", "init", "-d", path("nobodys"), "--user", "no-such-user", want=1)
    check("no user 'no-such-user'" in err, err)
    os.chmod(dir, 0o700)
    shutil.rmtree(path("root"))
    shutil.rmtree(path("nobodys"))
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
                   (("renew", "-d", dir + "-absent"), "meridian certs init"), (("show", "-d", os.path.dirname(dir)), "no certificates in")):
    _, err = run("certs", *args, want=1)
    check(text in err, f"{args}: {err}")

# ---- A server whose certificate has expired: said as that, not as one that nobody knows ----
ca = os.path.join(os.path.dirname(dir), "ca")
os.mkdir(ca)
for name, text in (("index.txt", ""), ("serial", "01\n"), ("ext", "subjectAltName=IP:127.0.0.1\n"), ("cnf", f"[ca]\ndefault_ca=d\n[d]\nnew_certs_dir={ca}\ndatabase={ca}/index.txt\nserial={ca}/serial\n"
                                                                                                      "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")):
    with open(os.path.join(ca, name), "w") as f:
        f.write(text)
openssl("req", "-new", "-key", path("aggregator.key"), "-subj", "/CN=aggregator", "-out", os.path.join(ca, "csr"))
made = openssl("ca", "-batch", "-notext", "-config", os.path.join(ca, "cnf"), "-cert", path("ca.pem"), "-keyfile", path("ca.key"), "-in", os.path.join(ca, "csr"), "-startdate", "20200101000000Z",
               "-enddate", "20200201000000Z", "-extfile", os.path.join(ca, "ext"), "-out", os.path.join(ca, "expired.pem"))
equal(made.returncode, 0, f"an expired certificate: {made.stderr}")
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(os.path.join(ca, "expired.pem"), path("aggregator.key"))
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
_, err = run("nodes", "--server", f"https://127.0.0.1:{server.server_address[1]}", "--ca-file", path("ca.pem"), want=1, env=dict(os.environ, no_proxy="127.0.0.1"))
check("has expired" in err and "meridian certs renew" in err and "not trusted" not in err, f"an expired certificate: {err}")
server.shutdown()
finish()
