"""The agent requests its own certificate and renews it, with an invitation or with a service
account, while it records into its spool. Requests are lost, refused or expired, disks are full, and
programs are killed in between. No event and no certificate may be lost."""
import http.client
import http.server
import json
import os
import shutil
import ssl
import stat
import subprocess
import sys
import threading
import time

from lib import BIN, SOURCE, Cluster, check, equal, finish, need_daemons, run, skip, until
from small_disk import SmallDisk

sys.path.insert(0, os.path.join(SOURCE, "tests/fake"))
from apiserver import ApiServer

need_daemons()
if shutil.which("openssl") is None:
    skip("openssl is not installed")


class Middle(http.server.ThreadingHTTPServer):
    """Between an agent and the aggregator's HTTPS: `mode` is what becomes of the next answers. seen: (path, status)."""
    daemon_threads = True

    def __init__(self, certs, to):
        super().__init__(("127.0.0.1", 0), Between)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(certs, "aggregator.pem"), os.path.join(certs, "aggregator.key"))
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.to, self.ca, self.mode, self.seen, self.go, self.other = to, os.path.join(certs, "ca.pem"), "ok", [], threading.Event(), ""
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


class Between(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        s, mode = self.server, self.server.mode
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = 503, b'{"detail": "down"}'
        if mode != "down":
            host, port = s.to.rsplit(":", 1)
            c = http.client.HTTPSConnection(host, int(port), timeout=60, context=ssl.create_default_context(cafile=s.ca))
            keep = {k: v for k, v in self.headers.items() if k.lower() in ("authorization", "content-type")}
            c.request("POST", self.path, body=body, headers=keep)
            r = c.getresponse()
            status, answer = r.status, r.read()
            c.close()
        s.seen.append((self.path, status))
        if mode == "lost":
            self.close_connection = True
            return
        if mode == "hold":
            s.go.wait(120)
        answer = {"nonsense": b"<html>", "none": b'{"certificate": 5}', "other": json.dumps({"certificate": s.other}).encode(), "huge": b"{" + b" " * (1 << 20) + b"}"}.get(mode, answer)
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            pass


class Node:
    """A cluster with TLS whose one agent enrols through a Middle."""

    def __init__(self, **options):
        self.c = c = Cluster()
        run("certs", "init", "-d", self.cert(), "--host", "127.0.0.1")
        c.data, c.control = "tls+" + c.data, "tls+" + c.control
        c.env.update(MERIDIAN_SERVER="https://" + c.http, MERIDIAN_CA_FILE=self.cert("ca.pem"), MERIDIAN_TOKEN_FILE=self.cert("control.token"))
        shutil.copy(self.cert("ca.pem"), self.cert("agents.pem"))
        self.options = dict(tls_cert=self.cert("aggregator.pem"), tls_key=self.cert("aggregator.key"), tls_ca=self.cert("agents.pem"), tokens=self.cert("tokens.json"),
                            http_cert=self.cert("aggregator.pem"), http_key=self.cert("aggregator.key"), agent_ca=self.cert("ca.pem"), agent_ca_key=self.cert("ca.key"), **options)
        self.middle = Middle(self.cert(), c.http)
        self.token = c.path("join.token")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.middle.go.set()
        self.middle.shutdown()
        self.middle.server_close()
        self.c.close()

    def cert(self, *name):
        return self.c.path("certs", *name)

    def up(self):
        self.c.aggregator(**self.options)
        until(self.c.answers, "the aggregator answers")

    def agent(self, spool=None, **more):
        env = self.c.env.pop("MERIDIAN_TOKEN_FILE")
        try:
            return self.c.agent(0, spool=spool, **{**dict(tls_ca=self.cert("ca.pem"), join_token_file=self.token, join_server=self.middle.url), **more})
        finally:
            self.c.env["MERIDIAN_TOKEN_FILE"] = env

    def give(self, text):
        with open(self.token + ".new", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)
        os.rename(self.token + ".new", self.token)

    def invite(self, *args):
        return run("invite", *(args or ("i-test0",)), env=self.c.env)[0].strip()

    def pem(self, name="agent.pem", spool="spool0"):
        return self.c.path(spool, name)

    def text(self, name="agent.pem", spool="spool0"):
        try:
            with open(self.pem(name, spool)) as f:
                return f.read()
        except FileNotFoundError:
            return None

    def said(self, what):
        return what in self.c.agents[0].text()

    def joined(self, what):
        return until(lambda: self.c.connected() == ["i-test0"], what)


def openssl(*args, want=0, **more):
    p = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=60, **more)
    check(p.returncode == want, f"openssl {' '.join(args)}: {p.stderr}")
    return p.stdout


def sign(n, authority, begin, end, to, key=None):
    """A certificate of i-test0 for the agent's key, from that day to that one. Its text: the agent may renew it before anybody reads it."""
    csr = openssl("req", "-new", "-key", key or n.pem("agent.key"), "-subj", "/CN=i-test0")
    base = n.c.folder("by-hand")
    day = lambda days: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + days * 86400))
    for name, value in (("index.txt", ""), ("serial", "%016x\n" % time.time_ns()), ("ext", "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=clientAuth\n"),
                        ("conf", f"[ca]\ndefault_ca=d\n[d]\ndatabase={base}/index.txt\nserial={base}/serial\nnew_certs_dir={base}\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")):
        with open(os.path.join(base, name), "w") as f:
            f.write(value)
    with open(os.path.join(base, "csr"), "w") as f:
        f.write(csr)
    openssl("ca", "-batch", "-notext", "-config", os.path.join(base, "conf"), "-cert", n.cert(authority + ".pem"), "-keyfile", n.cert(authority + ".key"), "-in", os.path.join(base, "csr"),
            "-out", os.path.join(base, "out"), "-startdate", day(begin), "-enddate", day(end), "-extfile", os.path.join(base, "ext"))
    stamp = time.time() + begin * 86400
    shutil.copy(os.path.join(base, "out"), to + ".hand")
    os.utime(to + ".hand", (stamp, stamp))
    with open(to + ".hand") as f:
        text = f.read()
    os.rename(to + ".hand", to)
    return text


def crl(n, *revoked):
    """The authority's revocation list with these certificates (texts)."""
    base = n.c.folder("crl")
    for name, value in (("index.txt", ""), ("crlnumber", "01\n"), ("conf", f"[ca]\ndefault_ca=d\n[d]\ndatabase={base}/index.txt\ncrlnumber={base}/crlnumber\ndefault_md=sha256\ndefault_crl_days=9\n")):
        with open(os.path.join(base, name), "w") as f:
            f.write(value)
    ca = ["ca", "-config", os.path.join(base, "conf"), "-cert", n.cert("ca.pem"), "-keyfile", n.cert("ca.key")]
    for text in revoked:
        with open(os.path.join(base, "one"), "w") as f:
            f.write(text)
        openssl(*ca, "-revoke", os.path.join(base, "one"))
    return openssl(*ca, "-gencrl")


def end_of(text):
    """When a certificate ends, seconds since 1970."""
    return ssl.cert_time_to_seconds(openssl("x509", "-noout", "-enddate", input=text).strip().removeprefix("notAfter="))


def known_end(n, text, what):
    """The aggregator tells the end of this certificate: in the node's JSON, in `meridian nodes` and as a metric."""
    end = end_of(text)
    until(lambda: n.c.nodes().get("i-test0", {}).get("certificate", {}).get("end_ns") == end * 10**9, what)
    check(n.c.nodes()["i-test0"]["certificate"]["end"].startswith(time.strftime("%Y-%m-%d", time.gmtime(end))), f"{what}: as text")
    check(time.strftime("%Y-%m-%d", time.gmtime(end)) in run("nodes", "--interval", "0", env=n.c.env)[0].split(), f"{what}: in the table")
    equal(n.c.metric('meridian_node_certificate_expiry_timestamp_seconds{instance_id="i-test0"}'), end, f"{what}: the metric")


def first():
    """Nothing is there: no aggregator, then no token, then a wrong one, then answers that are lost and wrong. Then the certificate; the invitation is
    used once, whatever was lost."""
    with Node() as n:
        n.middle.mode = "down"
        agent = n.agent()
        until(lambda: n.said("AGT-CERT") and n.said("join.token"), "it says that the token file is not there")
        check(n.text() is None, "and has no certificate")
        until(lambda: n.said("AGT-UNREACHED") and n.said("there is no certificate yet"), "who is not reached, and why")
        n.up()
        token = n.invite()
        n.give("0" * 64)
        until(lambda: n.said("answers with status 503"), "the aggregator is down")
        n.middle.mode = "ok"
        n.give("1" * 64)
        until(lambda: n.said("no invitation that the aggregator knows"), "a wrong invitation")
        n.middle.other = openssl("x509", "-in", n.cert("aggregator.pem"))
        for mode, says in (("nonsense", "status 201"), ("none", "without a certificate"), ("other", "for another key"), ("huge", "more than 65536 bytes"), ("lost", "")):
            n.middle.mode, before = mode, len(n.middle.seen)
            n.give(token)
            until(lambda: len(n.middle.seen) > before, f"{mode}: asked")
            if mode not in ("nonsense",):
                until(lambda: says in agent.text(), f"{mode}: the log says '{says}'")
            os.utime(n.token)
        check(n.text() is None and n.text("agent.pem.next") is None, "no answer of those was written")
        equal({path for path, _ in n.middle.seen}, {"/api/v1/certificates"}, "what was asked")
        check(("/api/v1/certificates", 201) in n.middle.seen, "the aggregator had signed")
        n.middle.mode = "ok"
        os.utime(n.token)
        n.joined("with the certificate")
        equal([stat.S_IMODE(os.stat(n.pem(name)).st_mode) for name in ("agent.key", "agent.pem")], [0o600, 0o600], "modes")
        check("by=invitation" in agent.text() and token not in agent.text() and "1" * 64 not in agent.text(), "the log has no token")
        agent.end()
        mine = n.text()
        os.unlink(n.token)
        n.middle.mode = "down"
        agent = n.agent()
        n.joined("again, with what it has: no token, and the HTTP port is down")
        equal(n.text(), mine, "the same certificate")


def killed():
    """SIGKILL while the answer is on the way, with half files of the one before: the next agent has the certificate of the same invitation."""
    with Node() as n:
        n.up()
        n.give(n.invite())
        for round in range(3):
            n.middle.mode, before = "hold", len(n.middle.seen)
            agent = n.agent()
            until(lambda: len(n.middle.seen) > before, "the aggregator has signed")
            agent.kill()
            n.middle.go.set()
            check(n.text() is None, "nothing is there")
            with open(n.pem("agent.pem.next"), "w") as f:
                f.write("half a certif")
            n.middle.go = threading.Event()
        n.middle.mode = "ok"
        n.agent()
        n.joined("the next one joins with the same invitation")
        check(n.text("agent.pem.next") is None, "the half file is gone")
        # While a renewal is on the way: the old one counts.
        n.middle.mode, before = "hold", len(n.middle.seen)
        mine = sign(n, "ca", -8, 2, n.pem())
        until(lambda: len(n.middle.seen) > before, "two thirds are over: it asks")
        n.c.agents[0].kill()
        equal(n.text(), mine, "the old one is there")
        until(lambda: n.c.connected() == [], "it is gone")
        n.middle.mode = "down"
        n.agent()
        n.joined("with the old one")
        n.middle.go.set()


def renewed():
    """Two thirds are over while a session records: the new certificate is taken into use without losing an event; the old one then counts no more."""
    with Node() as n:
        c = n.c
        n.up()
        n.give(n.invite())
        agent = n.agent()
        n.joined("with an invitation")
        w = c.workload(0)
        id = c.start("--name", "renewed")
        c.begun(id, 1)
        w.emit(500)
        before, old = n.text("agent.key"), None
        for round in range(3):
            old = sign(n, "ca", -8, 2, n.pem())
            until(lambda: n.text() != old, f"renewal {round}")
            until(lambda: agent.text().count("AGT-RELOAD") > round, "it is read without a restart")
            known_end(n, n.text(), f"renewal {round} is known to the aggregator")
            w.emit(500)
        for option, name in (("tls-cert", "aggregator.pem"), ("tls-ca", "ca.pem"), ("http-cert", "aggregator.pem"), ("agent-ca", "ca.pem")):
            with open(n.cert(name)) as f:
                text = f.read()
            said = [line for line in c.get("/metrics").splitlines() if line.startswith(f'meridian_certificate_expiry_timestamp_seconds{{option="{option}",')]
            equal([int(line.split()[-1]) for line in said], [end_of(text)], f"the aggregator's own --{option}: {said}")
        check("by=certificate" in agent.text() and n.text("agent.key") == before and n.text("agent.pem.next") is None, "with the same key; nothing lies about")
        equal(c.connected(), ["i-test0"], "it stayed connected")
        # Only the new one counts now: the old one is revoked, and the agent has to show what it has.
        with open(n.cert("agents.pem"), "a") as f:
            f.write(crl(n, old))
        c.daemon.kill()
        w.emit(500)
        n.up()
        n.joined("with the new certificate")
        w.emit(500)
        c.within_session(id)
        c.stop(id)
        equal([len(v) for v in c.ticks(id).values()], [3000], "every event is there")


def not_accepted():
    """Another authority: while the data port does not take the new certificate, the old one stays in use; when it does, nodes go over to the new one by
    renewals. Without --tls-ca's old one, a node whose renewal is refused needs its token."""
    with Node() as n:
        c = n.c
        run("certs", "init", "-d", c.path("next"), "--host", "127.0.0.1")
        for name in ("pem", "key"):
            shutil.copy(c.path("next", "ca." + name), n.cert("second." + name))
        n.up()
        n.give(n.invite())
        agent = n.agent()
        n.joined("with the first authority")
        n.options.update(agent_ca=n.cert("second.pem"), agent_ca_key=n.cert("second.key"))
        c.daemon.end()
        n.up()
        n.joined("the second one signs, the data port takes the first one only")
        old = sign(n, "ca", -8, 2, n.pem())
        until(lambda: "does not accept the new certificate, the old one stays" in agent.text(), "the new one is tried and not used")
        equal((n.text(), n.text("agent.pem.next")), (old, None), "the old one stays")
        equal(c.connected(), ["i-test0"], "and is in use")
        with open(n.cert("agents.pem"), "a") as f, open(n.cert("second.pem")) as second:
            f.write(second.read())
        until(lambda: "RELOAD" in c.daemon.text(), "the aggregator reads it")
        os.utime(n.pem(), (time.time() - 8 * 86400,) * 2)
        until(lambda: n.text() != old, "a renewal by the second authority")
        openssl("verify", "-CAfile", n.cert("second.pem"), n.pem())
        shutil.copy(n.cert("second.pem"), n.cert("agents.pem"))
        c.daemon.end()
        n.up()
        n.joined("the first authority is gone")
        os.unlink(n.token)
        # All at once: certificates of the authority before count nowhere, and a connection with them fails.
        shutil.copy(n.cert("ca.pem"), n.cert("agents.pem"))
        n.options.update(agent_ca=n.cert("ca.pem"), agent_ca_key=n.cert("ca.key"))
        c.daemon.end()
        n.up()
        until(lambda: "does not count" in agent.text() and "and with the token: join token file" in agent.text(), "it says that neither certificate nor token help")
        n.give(n.invite())
        n.joined("a new invitation does")
        openssl("verify", "-CAfile", n.cert("ca.pem"), n.pem())


def expired():
    """A certificate that ended while the aggregator was away: it says so, keeps what sessions record, and goes on with a new invitation."""
    with Node() as n:
        c = n.c
        n.up()
        used = n.invite()
        n.give(used)
        agent = n.agent()
        n.joined("with an invitation")
        w = c.workload(0)
        id = c.start("--name", "expired")
        c.begun(id, 1)
        w.emit(400)
        until(lambda: (c.session(id).get("events") or 0) >= 400, "stored")
        c.daemon.kill()
        old = sign(n, "ca", -10, -0.01, n.pem())
        until(lambda: n.said("this node's certificate ended at") and n.said("meridian invite i-test0"), "an error says what to do")
        w.emit(400)
        n.up()
        # The same key may use the same invitation again, as long as that counts: whoever has neither stays out. The agent may be
        # connected before, with the certificate that it read last: that one has not ended.
        until(lambda: n.text() != old, "another one with the invitation of its key")
        n.joined("with the invitation of its key")
        os.unlink(n.token)
        c.daemon.kill()
        sign(n, "ca", -10, -0.01, n.pem())
        w.emit(400)
        agent.kill()
        agent = n.agent(log="agent-2.log")
        n.up()
        until(lambda: n.said("AGT-CERT") and n.said("ended at"), "after a restart, too")
        w.emit(400)
        equal(c.connected(), [], "it stays out")
        n.give(n.invite())
        n.joined("with a new invitation")
        c.within_session(id)
        c.stop(id)
        equal([len(v) for v in c.ticks(id).values()], [1600], "every event is there")


def empty(folder):
    """Of its files, but for the one that fills it, whether each is empty or was there a moment ago."""
    for e in os.scandir(folder):
        try:
            yield e.name != "filler" and e.stat().st_size == 0
        except FileNotFoundError:
            yield True


def full():
    """No room for a key, then none for a certificate: nothing is half written, and it goes on when there is."""
    with Node() as n:
        disk = SmallDisk(n.c.path("small"), 1)
        try:
            n.up()
            n.give(n.invite())
            disk.fill()
            agent = n.agent(tls_cert=os.path.join(disk.path, "agent.pem"), tls_key=os.path.join(disk.path, "agent.key"))
            until(lambda: "AGT-CERT" in agent.text() and "No space left" in agent.text(), "no room for the key")
            until(lambda: not any(empty(disk.path)), "no empty file stays")  # there is one for a moment, each time it tries
            disk.empty()
            os.utime(n.token)
            n.joined("with room")
            n.pem = lambda name="agent.pem", spool=None: os.path.join(disk.path, name)
            sign(n, "ca", -8, 2, n.c.path("by-hand-agent.pem"))
            shutil.copy2(n.c.path("by-hand-agent.pem"), n.pem())
            old = n.text()
            disk.fill()
            said = agent.text().count("No space left")
            os.utime(n.pem(), (time.time() - 8 * 86400,) * 2)
            until(lambda: agent.text().count("No space left") > said or n.text() != old, "no room for a renewal")
            check(n.text() in (old,) or "END CERTIFICATE" in n.text(), "the file is whole")
            disk.empty()
            os.utime(n.pem(), (time.time() - 8 * 86400,) * 2)
            until(lambda: n.text() != old, "renewed with room")
        finally:
            n.c.agents[0].kill()
            disk.close()


def account():
    """On Kubernetes: the pod's projected token instead of an invitation, also when the certificate is refused; another node's name is refused."""
    with Node() as n, ApiServer(n.c.path(".")) as api:
        c = n.c
        own = c.path("own.token")
        with open(own, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write("aggregators-own-token-0123456789")
        with open(c.path("review.json"), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            json.dump({"server": api.url, "ca-file": api.cert, "bearer-file": own, "audience": "meridian", "agents": ["system:serviceaccount:meridian:meridian-agent"]}, f)
        n.options["token_review"] = c.path("review.json")
        n.up()
        n.give(api.token("meridian", "meridian-agent", pod="agent-x2", node="another"))
        agent = n.agent()
        until(lambda: n.said("runs on node 'another'"), "another node's pod stays out")
        n.give(api.token("meridian", "meridian-agent", pod="agent-x1", node="i-test0"))
        n.joined("with its account")
        check("by=account" in agent.text(), "by its account")
        equal(sorted({path for path, _ in n.middle.seen}), ["/api/v1/certificates/account"], "what was asked")
        # Its certificate is revoked: the pod is still on that node.
        old = n.text()
        with open(n.cert("agents.pem"), "a") as f:
            f.write(crl(n, old))  # from now on the agent may have another one at any time
        c.daemon.kill()
        n.up()
        n.joined("with a new certificate, by its account")
        check(n.text() != old, "another one")
        # It ended while nobody looked.
        agent.kill()
        until(lambda: c.connected() == [], "it is gone")
        sign(n, "ca", -10, -0.01, n.pem())
        n.agent(log="agent-2.log")
        n.joined("after its end, by its account")


def settings():
    """What cannot be is refused at the start."""
    with Node() as n:
        for what, more in (("expected https://", dict(join_server="http://192.0.2.1:7780")), ("where is this node's certificate", dict(spool=False)), ("go together", dict(tls_cert="/x.pem")),
                           ("has no TLS", dict(url="tcp://127.0.0.1:1"))):
            args = ["--aggregator", more.pop("url", "tls+tcp://127.0.0.1:1"), "--instance-id", "i-x", "--no-imds", "--join-token-file", n.token, "--tls-ca", n.cert("ca.pem")]
            if more.pop("spool", True):
                args += ["--spool-dir", n.c.path("spool-x")]
            p = subprocess.run([os.path.join(BIN, "meridian-agent"), *args, *Cluster.words(more)], capture_output=True, text=True, timeout=60, env=n.c.env)
            check(p.returncode == 1 and what in p.stderr, f"{what}: {p.returncode} {p.stderr[-400:]}")


CASES = {f.__name__: f for f in (first, killed, renewed, not_accepted, expired, full, account, settings)}
if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        print("----", name)
        CASES[name]()
    finish()
