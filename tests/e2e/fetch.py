"""Tests `meridian fetch`. After a cut it must continue, or start again if the file is another one.
The result is verified by SHA-256. The test also checks the progress on a terminal, forwarding and
tunnelling proxies, a bearer token, and HTTPS."""
import hashlib
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading

from lib import MERIDIAN, check, equal, finish, need_daemons, run, until
from service import Service

need_daemons()


class Proxy:
    """Forwards requests with whole addresses, tunnels CONNECT; can cut a reply after so many bytes. Notes what it was asked."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.heads, self.cut_after, self.slow = [], None, False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                chunk = client.recv(65536)
                if not chunk:
                    return
                head += chunk
            text = head.decode("latin-1")
            self.heads.append(text)
            method, target = text.split(" ")[:2]
            host = target if method == "CONNECT" else target.split("/")[2]
            with socket.create_connection(host.rsplit(":", 1)) as server:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    path = "/" + target.split("/", 3)[3]
                    server.sendall(text.replace(target, path, 1).replace("Proxy-Connection: Keep-Alive", "Connection: close").encode("latin-1"))
                self.relay(client, server)

    def relay(self, client, server):
        left = self.cut_after
        while True:
            for s in select.select([client, server], [], [])[0]:
                data = s.recv(16384)
                if not data:
                    return
                if s is server and left is not None:
                    if len(data) > left:
                        return
                    left -= len(data)
                (client if s is server else server).sendall(data)

    def asked(self, field):
        """The values of a field in what was asked since the last look, by request."""
        heads, self.heads = self.heads, []
        return [m[1] if (m := re.search(rf"^{field}: (.*?)\r$", h, re.M | re.I)) else None for h in heads if "/profile" in h.split("\r\n")[0]]


def fetch(name, *options, want=0, env=None):
    return run("fetch", id, "-o", service.path(name), "--format", "perfetto", *options, want=want, env={**service.env, **(env or {})})


def through(proxy, **more):
    return {"http_proxy": proxy.url, "https_proxy": proxy.url, "no_proxy": "", "NO_PROXY": "", **more}


def content(name):
    path = service.path(name, "system_profile.pftrace")
    return open(path, "rb").read() if os.path.exists(path) else None


def cut_and_resumed(proxy):
    proxy.cut_after = len(profile) // 2
    _, err = fetch("cut", want=1, env=through(proxy))
    part = service.path("cut", "system_profile.pftrace.part")
    kept = os.path.getsize(part)
    check(content("cut") is None and 0 < kept < len(profile), f"what came is kept under another name: {kept} bytes; {err}")
    proxy.asked("Range")
    proxy.cut_after = None
    fetch("cut", env=through(proxy))
    equal(proxy.asked("Range")[0], f"bytes={kept}-", "the rest is asked for")
    equal(content("cut") == profile, True, "the whole file, in two parts")
    equal(sorted(os.listdir(service.path("cut"))), ["system_profile.pftrace"], "nothing else is left")


def of_another_version(proxy):
    """The session is merged again between two attempts: its old half must not be glued to the new one."""
    proxy.cut_after = len(profile) // 2
    fetch("changed", want=1, env=through(proxy))
    proxy.cut_after = None
    part = service.path("changed", "system_profile.pftrace.part")
    with open(part, "r+b") as f:  # so that it would show
        f.write(b"\0" * 1000)
    etag = service.read(f"/api/v1/sessions/{id}/profile")["ETag"]
    service.ask("POST", f"/api/v1/sessions/{id}/merge")
    until(lambda: service.session(id)["profile"]["state"] == "done" and service.read(f"/api/v1/sessions/{id}/profile")["ETag"] != etag, "merged again")
    proxy.asked("Range")
    fetch("changed", env=through(proxy))
    check(proxy.asked("If-Range"), "a resumed fetch says of which version")
    equal(content("changed") == profile, True, "equal input gives an equal profile, from the start")


def of_a_damaged_part(proxy):
    proxy.cut_after = len(profile) // 2
    fetch("damaged", want=1, env=through(proxy))
    proxy.cut_after = None
    part = service.path("damaged", "system_profile.pftrace.part")
    with open(part, "r+b") as f:
        f.seek(100)
        f.write(b"damage")
    _, err = fetch("damaged", want=1)
    check("SHA-256" in err and content("damaged") is None, f"damage is noticed: {err}")
    fetch("damaged")
    equal(content("damaged") == profile, True, "and the next attempt starts over")
    fetch("long", want=0)
    os.rename(service.path("long", "system_profile.pftrace"), service.path("long", "system_profile.pftrace.part"))
    with open(service.path("long", "system_profile.pftrace.part"), "ab") as f:
        f.write(b"too much")
    with open(service.path("long", "system_profile.pftrace.part.etag"), "w") as f:
        f.write(service.read(f"/api/v1/sessions/{id}/profile")["ETag"])
    run("fetch", id, "-o", service.path("long"), "--format", "perfetto", want=None, env=service.env)
    if content("long") is None:
        fetch("long")
    equal(content("long") == profile, True, "a part that is longer than the file")


def whole_part():
    """All had come, only the end was not reached."""
    fetch("whole")
    at = service.path("whole", "system_profile.pftrace")
    os.rename(at, at + ".part")
    with open(at + ".part.etag", "w") as f:
        f.write(service.read(f"/api/v1/sessions/{id}/profile")["ETag"])
    fetch("whole")
    equal(content("whole") == profile, True, "nothing more to fetch")


def on_a_terminal(proxy):
    """Progress, and Ctrl-C in the middle of a slice that takes its time."""
    master, slave = pty.openpty()
    p = subprocess.Popen([MERIDIAN, "fetch", id, "-o", service.path("tty"), "--format", "json", "--start", "0s"], stderr=slave, stdout=subprocess.PIPE, env=service.env)
    os.close(slave)
    text = b""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        text += data
    equal(p.wait(120), 0, "fetch on a terminal")
    check(re.search(rb"fetched [\d.]+ \w+, .*/s .*system_profile.json", text), f"progress: {text[:300]}")
    check(b"fetched" not in fetch("quiet")[1].encode(), "none where nobody looks")
    p = subprocess.Popen([MERIDIAN, "fetch", id, "-o", service.path("stopped"), "--format", "perfetto"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env={**service.env, **through(stalled)})
    until(lambda: os.path.exists(service.path("stopped", "system_profile.pftrace.part")) and os.path.getsize(service.path("stopped", "system_profile.pftrace.part")) > 0, "some of it is there")
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    check(p.returncode == 1 and "goes on with" in err, f"Ctrl-C: {p.returncode} {err}")
    fetch("stopped")
    equal(content("stopped") == profile, True, "it goes on")


class Stalled(Proxy):
    """Lets the first half of a profile through and then nothing."""

    def relay(self, client, server):
        if "/profile" not in self.heads[-1].split("\r\n")[0]:
            return super().relay(client, server)
        left = len(profile) // 2
        while left > 0 and (data := server.recv(min(left, 16384))):
            client.sendall(data)
            left -= len(data)
        client.recv(1)
        return None


def tokens(proxy):
    _, err = fetch("t0", want=1, env={"MERIDIAN_TOKEN_FILE": ""})
    check("requires a token" in err and "--token-file" in err, f"without a token: {err}")
    wrong = service.secret("wrong.token", "wrong-token-0123456789\n")
    _, err = fetch("t1", "--token-file", wrong, want=1)
    check(f"does not know the token in {wrong} (--token-file)" in err and "Bearer" not in err and "wrong-token" not in err, f"with a wrong token: {err}")
    _, err = fetch("t2", "--token-file", service.secret("a.token", service.tokens["agent"]), want=1)
    check("role" in err, f"with an agent's token: {err}")
    fetch("t3", "--token-file", service.secret("r.token", service.tokens["read"] + "\n"))
    equal(content("t3") == profile, True, "with a reader's token")
    proxy.asked("x")
    fetch("t4", env=through(proxy))
    equal(set(proxy.asked("Authorization")), {"Bearer " + service.tokens["control"]}, "the token goes through a proxy")
    _, err = fetch("t5", want=1, env=through(proxy, http_proxy="http://127.0.0.1:9"))
    check("proxy" in err.lower() or "cannot connect" in err, f"a proxy that is not there: {err}")


with Service() as service:
    workloads = service.begin()
    id = service.recorded(workloads, 30000)
    profile = service.read(f"/api/v1/sessions/{id}/profile").body
    sums = service.read(f"/api/v1/sessions/{id}/profile/SHA256SUMS").body.decode()
    check(f"{hashlib.sha256(profile).hexdigest()}  system_profile.pftrace\n" in sums, f"SHA256SUMS: {sums}")
    proxy, stalled = Proxy(), Stalled()
    fetch("plain")
    equal(content("plain") == profile, True, "a plain fetch")
    _, err = fetch("plain", want=1)
    check("--force" in err, f"what exists is kept: {err}")
    fetch("plain", "--force")
    fetch("proxied", env=through(proxy))
    equal(content("proxied") == profile, True, "through a proxy")
    check(all(h.split(" ")[1].startswith(f"http://{service.http}/") for h in proxy.heads), f"the proxy was asked: {[h[:80] for h in proxy.heads]}")
    cut_and_resumed(proxy)
    of_another_version(proxy)
    of_a_damaged_part(proxy)
    whole_part()
    on_a_terminal(proxy)
    tokens(proxy)
    # One that is not over: what is there, or all of it.
    going = service.start("--duration", "2s")
    service.begun(going, 1)
    workloads[0].emit(100)
    of = lambda name, *options, want: run("fetch", going, "-o", service.path(name), "--format", "json", *options, want=want, env=service.env)
    _, err = of("early", "--wait", "1ms", want=3)
    check("so far" in err, f"a wait that is too short: {err}")
    _, err = of("waited", "--wait", "60s", want=0)
    equal(("so far" in err, service.session(going)["state"]), (False, "complete"), "a session that was waited for")
    out, _ = fetch("all", "--artifacts")
    names = sorted(os.path.relpath(os.path.join(at, n), service.path("all")) for at, _, files in os.walk(service.path("all")) for n in files)
    check(len(names) == 2 and any(n.endswith("/model.neff") for n in names), f"artifacts: {names}")

# HTTPS, and a tunnel through the proxy.
with Service() as service:
    run("certs", "init", "-d", service.path("certs"), "--host", "127.0.0.1")
    service.options.update(http_cert=service.path("certs", "aggregator.pem"), http_key=service.path("certs", "aggregator.key"))
    service.env.update(MERIDIAN_SERVER=f"https://{service.http}", MERIDIAN_CA_FILE=service.path("certs", "ca.pem"))
    workloads = service.begin()
    id = service.recorded(workloads, 3000)
    fetch("tls")
    profile = content("tls")
    check(profile, "over HTTPS")
    _, err = fetch("tls-untrusted", want=1, env={"MERIDIAN_CA_FILE": ""})
    check("not trusted" in err and "--ca-file" in err, f"an authority that is not known: {err}")
    proxy = Proxy()
    fetch("tunnel", env=through(proxy))
    equal(content("tunnel") == profile, True, "through a tunnel")
    check(proxy.heads and all(h.startswith(f"CONNECT {service.http} ") and "Bearer" not in h for h in proxy.heads), "the proxy saw CONNECT and no token")
finish()
