"""Tests that only authorised peers get access: identities, HTTPS, certificates and tokens that
change at run time, and dropped privileges. No secret may be where other users can read it."""
import glob
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess

from lib import BIN, Cluster, check, equal, finish, need_daemons, run, until

need_daemons()
cluster = Cluster()
certs = cluster.path("certs")
NOBODY = 65534
ROOT = os.getuid() == 0


def cert(name):
    return os.path.join(certs, name)


def secret(name):
    with open(cert(name)) as f:
        return f.read()


def own(*paths):
    """The daemons, when they have become nobody, must be able to read their files again."""
    for p in paths:
        if ROOT:
            os.chown(p, NOBODY, NOBODY)


def make_certificates():
    run("certs", "init", "-d", certs, "--host", "127.0.0.1")
    for id in ("i-test0", "i-test1"):
        run("certs", "agent", id, "-d", certs)
    run("certs", "init", "-d", cluster.path("others"))


def identity(certificate, token):
    """Options of an agent that shows this certificate and this token."""
    shown = dict(tls_cert=cert(f"agent-{certificate}.pem"), tls_key=cert(f"agent-{certificate}.key")) if certificate else {}
    return dict(tls_ca=cert("ca.pem"), token_file=cert(token + ".token"), **shown)


def said(program, *texts, seconds=60):
    """The log line with all the texts."""
    def line():
        return next((l for l in program.text().splitlines() if all(t in l for t in texts)), "")
    return until(line, f"{os.path.basename(program.log)} says {texts}: {program.text()[-600:]}", seconds) or ""


# ---- Agents ----

def identities():
    """A certificate is good for the instance it names and no other, whatever token comes with it."""
    cluster.agent(0, **identity("i-test0", "agent-i-test0"))
    until(lambda: cluster.connected() == ["i-test0"], "the agent with its own certificate and token is in")
    for name, certificate, token, instance, text in (
            ("stolen-token", "i-test1", "agent-i-test0", "i-test0", "shows the certificate of 'i-test1': an agent may publish only as an instance"),
            ("stolen-both", "i-test0", "agent-i-test0", "i-test1", "shows the certificate of 'i-test0'"),
            ("shared-token", "i-test1", "agent", "i-other", "shows the certificate of 'i-test1'"),
            ("wrong-token", "i-test1", "agent-i-test0", "i-test1", "a token that does not allow it to publish"),
            ("read-token", "i-test1", "read", "i-test1", "a token that does not allow it to publish")):
        thief = cluster.agent(1, log=name + ".log", spool=name, instance=instance, **identity(certificate, token))
        said(thief, "AGT-HELLO-REFUSED", text)
        said(cluster.daemon, "AGG-HELLO-REFUSED", f"agent '{instance}' shows", text)
        thief.kill()
    thief = cluster.agent(1, log="none.log", **identity(None, "agent"))
    said(thief, "AGT-TLS", "the aggregator requires a certificate of this node: --tls-cert and --tls-key")
    said(cluster.daemon, "AGG-TLS", "an agent sent no certificate")
    thief.kill()
    thief = cluster.agent(1, log="plain.log", aggregator=cluster.data[4:], control=cluster.control[4:], token_file=cert("agent.token"))
    said(cluster.daemon, "AGG-TLS", "a client without TLS connected to this address")
    thief.kill()
    equal(cluster.connected(), ["i-test0"], "nobody else came in")
    check((cluster.metric("meridian_tls_failures_total") or 0) >= 2, "failed TLS connections are counted")


# ---- HTTPS ----

def handshake(version=None, name="127.0.0.1", trust="certs", port=None):
    """The protocol agreed upon, or the error."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cluster.path(trust, "ca.pem"))
    if version:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
    try:
        with socket.create_connection(("127.0.0.1", port or int(cluster.http.split(":")[1])), timeout=60) as s:
            with context.wrap_socket(s, server_hostname=name) as t:
                return t.version()
    except OSError as e:
        return str(e)


def https():
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    equal([handshake(v) for v in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)], ["TLSv1.2", "TLSv1.3"], "versions spoken")
    for old in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        check(not handshake(old).startswith("TLSv"), f"{old} is refused: {handshake(old)}")
    check("verify failed" in handshake(trust="others"), "wrong authority")
    check("mismatch" in handshake(name="elsewhere.example"), "wrong name")
    port = int(cluster.http.split(":")[1])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:  # plain HTTP to the TLS port
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        check(not s.recv(100).startswith(b"HTTP/"), "no answer in the clear")
    for option, value, text in (("MERIDIAN_CA_FILE", cluster.path("others", "ca.pem"), "certificate"), ("MERIDIAN_CA_FILE", "", "certificate"),
                                ("MERIDIAN_SERVER", "http://" + cluster.http, "https")):
        _, err = run("nodes", env=dict(cluster.env, **{option: value}), want=1)
        check(text in err, f"nodes with {option}={value}: {err}")
    for token, status in (("read", 200), ("control", 200), ("agent", 403), (None, 401)):
        equal(get("/api/v1/nodes", token)[0], status, f"nodes with the token {token}")
    said(cluster.daemon, "AGG-HTTPS", "connected without TLS (http:// instead of https://?), or supports only TLS older than 1.2")
    said(cluster.daemon, "AGG-HTTPS", "rejected this server's certificate")


def connection():
    context = ssl.create_default_context(cafile=cert("ca.pem"))
    return http.client.HTTPSConnection(cluster.http, timeout=60, context=context)


def get(path, token=None, over=None):
    c = over or connection()
    c.request("GET", path, headers={"Authorization": "Bearer " + (token if token and len(token) > 32 else secret(token + ".token"))} if token else {})
    r = c.getresponse()
    return r.status, r.read().decode(errors="replace")


def serial():
    pem = ssl.get_server_certificate(tuple(cluster.http.split(":")), timeout=60)
    return subprocess.run(["openssl", "x509", "-noout", "-serial"], input=pem, capture_output=True, text=True).stdout


# ---- While everything runs ----

def reconnects(program):
    return program.text().count("AGT-DOWN")


def reload():
    """New certificates and tokens are taken up without a restart, a lost connection, or a lost event."""
    agent, work = cluster.agents[0], cluster.workload(0)
    id = cluster.start("--no-merge", "--instance-id", "i-test0")
    cluster.begun(id, 1)
    work.run(2)
    held = connection()
    equal(get("/api/v1/nodes", "read", held)[0], 200, "a connection of before")
    old = serial()
    run("certs", "renew", "-d", certs)
    until(lambda: serial() != old, "the new certificate is shown")
    equal(get("/api/v1/nodes", "read", held)[0], 200, "the connection of before goes on")
    said(agent, "AGT-RELOAD", "read again")
    said(cluster.daemon, "AGG-RELOAD ", "read again")
    cluster.agent(1, **identity("i-test1", "agent-i-test1"))
    until(lambda: cluster.connected() == ["i-test0", "i-test1"], "a new agent with a new certificate")
    # a token of the agent is replaced: first the aggregator, then the agent learns of it
    run("certs", "agent", "i-test0", "-d", certs)
    until(lambda: agent.text().count("AGT-RELOAD") >= 2, "the agent has its new token")
    until(lambda: cluster.connected() == ["i-test0", "i-test1"], "both are still in")
    # tokens of people
    tokens = json.loads(secret("tokens.json"))
    tokens["read"].append("a-new-token-0123456789abcdef0123456789abcdef")
    write_tokens(tokens)
    until(lambda: get("/api/v1/nodes", tokens["read"][-1])[0] == 200, "a new token is known")
    gone = tokens["read"].pop()
    write_tokens(tokens)
    until(lambda: get("/api/v1/nodes", gone)[0] == 401, "a token that was taken away is not")
    with open(cert("tokens.json"), "w") as f:
        f.write("{ this is no JSON")
    said(cluster.daemon, "AGG-RELOAD-TOKENS", "the one in use stays", "tokens.json")
    equal(get("/api/v1/nodes", "read")[0], 200, "the old tokens stay")
    # one node's token is taken away: it is out, the other stays
    tokens["agent"] = [t for t in tokens["agent"] if not isinstance(t, dict) or t["instance"] != "i-test1"]
    tokens["agent"] = [t for t in tokens["agent"] if isinstance(t, dict)]
    write_tokens(tokens)
    said(cluster.agents[1], "AGT-HELLO-REFUSED", "a token that does not allow it to publish")
    cluster.agents[1].kill()
    before = cluster.daemon.text().count("AGG-RELOAD ")
    for program, word in ((cluster.daemon, "AGG-RELOAD "), (agent, "AGT-RELOAD ")):
        n = program.text().count(word)
        program.p.send_signal(signal.SIGHUP)
        until(lambda: program.text().count(word) > n, f"{word} on SIGHUP")
    check(cluster.daemon.text().count("AGG-RELOAD ") > before, "reloads are logged")
    done = work.pause()
    cluster.within_session(id)
    cluster.stop(id, want=None)
    counts = {k[0]: len(v) for k, v in cluster.ticks(id).items()}
    equal(counts.get("i-test0"), done, "every event arrived once")
    equal(reconnects(agent), 0, "connections that were lost")


def write_tokens(tokens):
    with open(cert("tokens.tmp"), "w") as f:
        json.dump(tokens, f)
    os.chmod(cert("tokens.tmp"), 0o600)
    own(cert("tokens.tmp"))
    os.rename(cert("tokens.tmp"), cert("tokens.json"))


# ---- Programs ----

def status_of(pid, task=None):
    with open(f"/proc/{pid}/task/{task}/status" if task else f"/proc/{pid}/status") as f:
        return dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)


def processes():
    """No core files, no memory for others; what was started as root has become somebody else."""
    keep = {"CAP_SYS_PTRACE": 19, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3}
    for program in (cluster.daemon, cluster.agents[0]):
        name, pid = os.path.basename(program.log), program.pid
        with open(f"/proc/{pid}/limits") as f:
            equal(re.search(r"Max core file size\s+(\d+)\s+(\d+)", f.read()).groups(), ("0", "0"), f"{name}: core files")
        if not ROOT:
            continue
        equal(status_of(pid)["Uid"].split(), [str(NOBODY)] * 4, f"{name}: user")
        equal(os.stat(f"/proc/{pid}/mem").st_uid, 0, f"{name}: not dumpable, so that its memory is root's")
        denied = subprocess.run(["cat", f"/proc/{pid}/environ"], capture_output=True, user=NOBODY, group=NOBODY, extra_groups=[])
        check(denied.returncode != 0, f"{name}: another process of its user reads its environment")
        allowed = sum(1 << bit for bit in keep.values()) & int(status_of(os.getpid())["CapEff"], 16) if program is not cluster.daemon else 0
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                rights = int(status_of(pid, task)["CapEff"], 16)
            except (FileNotFoundError, ProcessLookupError):
                continue  # a thread that has ended
            equal(rights, allowed if task == str(pid) else 0, f"{name}: rights of thread {task}")
        equal(status_of(pid)["CapBnd"] != "", True, name)


def files_are_private():
    for top in (cluster.path("store"), cluster.path("spool0")):
        for root, folders, files in os.walk(top):
            for name in folders + files + ["."]:
                try:
                    s = os.lstat(os.path.join(root, name))
                except FileNotFoundError:
                    continue  # the programs go on, and remove files
                check(s.st_mode & 0o077 == 0, f"{os.path.join(root, name)} has mode {s.st_mode & 0o777:o}")
                check(not ROOT or s.st_uid == NOBODY, f"{os.path.join(root, name)} belongs to {s.st_uid}")


def no_secret_is_seen():
    """Tokens and lines of keys, in everything that is written, answered or shown by ps."""
    secrets = {secret(os.path.basename(p)).strip() for p in glob.glob(cert("*.token"))}
    for p in glob.glob(cert("*.key")):
        secrets.update(l for l in secret(os.path.basename(p)).splitlines() if not l.startswith("-"))
    check(len(secrets) >= 8, f"{len(secrets)} secrets to look for")
    seen = {}
    for root, _, files in os.walk(cluster.work):
        for name in files:
            if not os.path.join(root, name).startswith((certs, cluster.path("others"))):
                try:
                    with open(os.path.join(root, name), "rb") as f:
                        seen[os.path.join(root, name)] = f.read().decode(errors="replace")
                except FileNotFoundError:
                    pass
    for path in ("/api/v1/nodes", "/api/v1/sessions", "/metrics", "/api/v1/nodes/i-test0", "/api/v1/none"):
        seen[path] = get(path, "control")[1]
    for s in json.loads(seen["/api/v1/sessions"])["sessions"]:
        seen[s["id"]] = get("/api/v1/sessions/" + s["id"], "control")[1]
    for program in (cluster.daemon, cluster.agents[0]):
        with open(f"/proc/{program.pid}/cmdline") as f:
            seen["command line of " + program.log] = f.read()
    for where, text in seen.items():
        check(not any(s in text for s in secrets), f"a secret is seen in {where}")
    check(any("AGG-UP" in t for t in seen.values()) and len(seen) > 10, "what was looked at")


def command_line():
    """A token on a command line, or on its way in the clear, is refused and not repeated."""
    token = secret("read.token")
    for args, text in ((("nodes", "--token=" + token), "did you mean --token-file"), (("nodes", "--token-file", token), "expected the name of a token file"),
                       (("nodes", "--server", "https://user:" + token + "@" + cluster.http), "may not contain a name or password"),
                       (("nodes", "--server", "http://192.0.2.1:1", "--token-file", cert("read.token")), "unencrypted")):
        out, err = run(*args, env=cluster.env, want=None)
        check(text in err and token not in out + err, f"{args[1]}: {err}")
    os.chmod(cert("read.token"), 0o644)
    _, err = run("nodes", "--token-file", cert("read.token"), env=cluster.env, want=1)
    check("chmod 600" in err, f"token for everybody: {err}")
    os.chmod(cert("read.token"), 0o600)
    for program, args in (("meridian-agent", ["--token-file", token, "--aggregator", cluster.data, "--tls-ca", cert("ca.pem"), "--no-imds"]),
                          ("meridian-aggregator", ["--tokens", token, "--store", cluster.path("x")]), ("meridian-agent", ["--token=" + token])):
        p = subprocess.run([os.path.join(BIN, program), *args], capture_output=True, text=True, timeout=60,
                           env={"PATH": os.environ["PATH"]})
        check(p.returncode in (1, 2) and token not in p.stdout + p.stderr, f"{program} {args[0]}: {p.stderr}")
    for args in (["--user", "no-such-user"], ["--user", "root"]):
        p = subprocess.run([os.path.join(BIN, "meridian-aggregator"), "--store", cluster.path("y"), *args],
                           capture_output=True, text=True, timeout=60)
        check(p.returncode == 2 and "user" in p.stderr or "root" in p.stderr, f"--user {args}: {p.stderr}")


def options_without_effect():
    """A certificate that nothing uses is refused: who gives it expects TLS. The old name of a setting is read, with a warning."""
    plain = ["--store", cluster.path("z"), "--http-listen", "127.0.0.1:0", "--data-listen", "tcp://127.0.0.1:0", "--control-listen", "tcp://127.0.0.1:0"]
    pem, key = cert("aggregator.pem"), cert("aggregator.key")
    agent = ["--aggregator", "tcp://127.0.0.1:1", "--no-imds", "--ring-dir", cluster.work]
    for program, args, text in (("meridian-aggregator", [*plain, "--tls-cert", pem, "--tls-key", key], "--tls-cert is given, but neither --data-listen"),
                                ("meridian-aggregator", [*plain, "--tls-ca", pem], "--tls-ca is given"),
                                ("meridian-aggregator", [*plain, "--http-cert", pem], "give both or neither"),
                                ("meridian-aggregator", [*plain, "--http-key", key], "give both or neither"),
                                ("meridian-aggregator", [*plain[:2], *plain[4:], "--http-listen", "none", "--http-cert", pem, "--http-key", key], "--http-listen is none"),
                                ("meridian-agent", [*agent, "--tls-cert", pem], "--tls-cert is given, but --aggregator"),
                                ("meridian-webhook", ["--image", "i:1", "--listen", "127.0.0.1:0", "--insecure", "--cert", pem, "--key", key], "--insecure serves plain HTTP")):
        p = subprocess.run([os.path.join(BIN, program), *args], capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"]})
        check(p.returncode in (1, 2) and text in p.stderr, f"{program} {args[-2:]}: {p.returncode} {p.stderr}")
    for names, level in (({"MERIDIAN_LOG": "lots"}, "MERIDIAN_LOG_LEVEL"), ({"MERIDIAN_LOG": "info"}, "AGT-OLD-NAME"),
                         ({"MERIDIAN_LOG": "lots", "MERIDIAN_LOG_LEVEL": "info"}, None)):
        p = subprocess.run([os.path.join(BIN, "meridian-agent"), "--check", "--no-imds", "--ring-dir", cluster.work], capture_output=True, text=True,
                           timeout=60, env={"PATH": os.environ["PATH"], **names})
        check(level in p.stderr if level else p.returncode == 0 and "AGT-OLD-NAME" not in p.stderr, f"{names}: {p.returncode} {p.stderr}")


def any_certificate():
    """--no-advanced.cert-identity: the authority vouches for membership, tokens for names."""
    cluster.daemon.end()
    cluster.aggregator(**dict(secured, no_cert_identity=True))
    until(cluster.answers, "the aggregator is back")
    cluster.agent(1, **identity("i-test0", "agent-i-test1"))
    run("certs", "agent", "i-test1", "-d", certs)
    until(lambda: "i-test1" in cluster.connected(), "an agent with another's certificate and its own token")


try:
    make_certificates()
    own(certs, *glob.glob(cert("*")))
    os.chmod(cluster.work, 0o755)
    cluster.data, cluster.control = "tls+" + cluster.data, "tls+" + cluster.control
    cluster.env.update(MERIDIAN_SERVER="https://" + cluster.http, MERIDIAN_CA_FILE=cert("ca.pem"), MERIDIAN_TOKEN_FILE=cert("control.token"))
    secured = dict(tls_cert=cert("aggregator.pem"), tls_key=cert("aggregator.key"), tls_ca=cert("ca.pem"), tokens=cert("tokens.json"),
                   http_cert=cert("aggregator.pem"), http_key=cert("aggregator.key"))
    become = dict(user="nobody") if ROOT else {}
    cluster.aggregator(**secured, **become)
    until(cluster.answers, "the aggregator answers over HTTPS")
    identities()
    https()
    cluster.agents[0].end()
    cluster.agent(0, log="agent-nobody.log", **identity("i-test0", "agent-i-test0"), **become)
    until(lambda: cluster.connected() == ["i-test0"], "the agent that became nobody is in")
    reload()
    processes()
    files_are_private()
    no_secret_is_seen()
    command_line()
    options_without_effect()
    any_certificate()
finally:
    cluster.close()
finish()
