"""Functions that the tests of the HTTP API share: a cluster with tokens, a recorded session
with all kinds of data, requests with and without an HTTP library, and the server's own table of
routes."""
import http.client
import json
import os
import socket
import ssl
import subprocess

from lib import BUILD, Cluster, check, until

TOKENS = {"read": "reading-token-0123456789", "control": "control-token-0123456789", "agent": "agent-token-0123456789ab"}
PERFETTO = "https://ui.perfetto.dev"


def routes():
    """The table in aggregator/api/http.c: {"routes": [{method, path, action, roles, summary, query}], "session": [...], "trigger": [...]}."""
    return json.loads(subprocess.run([os.path.join(BUILD, "bin", "http_routes")], capture_output=True, check=True).stdout)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {}
        for name, value in headers:  # repeated fields are one list
            name = name.lower()
            self.headers[name] = self.headers[name] + ", " + value if name in self.headers else value

    def __getitem__(self, name):
        return self.headers.get(name.lower())

    def json(self):
        return json.loads(self.body)


class Service(Cluster):
    """A Cluster whose HTTP wants tokens (tokens=None: none)."""

    def __init__(self, tokens=TOKENS, **aggregator_options):
        if tokens:
            aggregator_options["tokens"] = "tokens.json"
        super().__init__(**aggregator_options)
        if tokens:
            self.options["tokens"] = self.secret("tokens.json", json.dumps({k: [v] for k, v in tokens.items()}))
            self.env["MERIDIAN_TOKEN_FILE"] = self.secret("control.token", tokens["control"])
            self.agent_token = self.secret("agent.token", tokens["agent"])
        self.tokens = tokens

    def secret(self, name, text):
        with open(self.path(name), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)
        return self.path(name)

    def agent(self, i, **options):
        if self.tokens:
            options["token_file"] = self.agent_token
        return super().agent(i, **options)

    def connect(self, port, timeout):
        host, own = self.http.rsplit(":", 1)
        if port is None and self.env["MERIDIAN_SERVER"].startswith("https:"):
            return http.client.HTTPSConnection(host, int(own), timeout=timeout, context=ssl.create_default_context(cafile=self.env["MERIDIAN_CA_FILE"]))
        return http.client.HTTPConnection(host, port or int(own), timeout=timeout)

    def ask(self, method, path, token="control", headers=None, body=None, timeout=60, port=None):
        """One request on a connection of its own. token: a role of TOKENS, a text, or None. port: of another server."""
        c = self.connect(port, timeout)
        send = dict(headers or {})
        if token and self.tokens:
            send.setdefault("Authorization", "Bearer " + self.tokens.get(token, token))
        if isinstance(body, (dict, list)):
            body, send["Content-Type"] = json.dumps(body), "application/json"
        try:
            c.putrequest(method, path, skip_host=False, skip_accept_encoding=True)
            for name, value in send.items():
                c.putheader(name, value)
            data = (body or "").encode() if not isinstance(body, bytes) else body
            if method == "POST" and data and "Content-Type" not in send:
                c.putheader("Content-Type", "application/json")
            if method in ("POST", "PUT", "PATCH") or data:
                c.putheader("Content-Length", str(len(data)))
            c.endheaders(data if data else None)
            r = c.getresponse()
            return Reply(r.status, r.getheaders(), r.read())
        except http.client.RemoteDisconnected:
            return Reply(0, [], b"")  # the server hung up
        finally:
            c.close()

    def read(self, path, **more):
        return self.ask("GET", path, **more)

    def get(self, path, port=None):
        """As a Cluster's, with the token that may control."""
        try:
            r = self.read(path, port=port)
            return r.body.decode() if r.status == 200 else None
        except OSError:
            return None

    def dial(self, timeout=60):
        host, port = self.http.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout)

    def raw(self, data, timeout=60):
        """Sends bytes as they are and reads until the server closes; what came."""
        with self.dial(timeout) as s:
            got = b""
            try:
                s.sendall(data)
                while chunk := s.recv(65536):
                    got += chunk
            except ConnectionError:
                pass
            return got

    def begin(self, agents=1, **options):
        """Starts aggregator, agents and a workload for each; returns the workloads."""
        self.aggregator()
        until(self.answers, "the aggregator answers")
        workloads = [self.workload(i) for i in range(agents)]
        for i in range(agents):
            self.agent(i, **{"watch": self.folder(f"watch{i}"), "stable": "50ms", "flush": "50ms", **options})
        names = [f"i-test{i}" for i in range(agents)]
        until(lambda: [n for n, doc in sorted(self.nodes().items()) if doc["connected"] and doc["rings"]] == names, "agents see rings")
        return workloads

    def recorded(self, workloads, ticks, name="recorded", artifact=True):
        """The id of a complete, merged session with so many ticks of each workload and one artifact."""
        id = self.start("--name", name, "--require", "all")
        self.begun(id)
        for w in workloads:
            w.emit(ticks)
        if artifact:
            folder = self.folder("watch0", "i-test0_pid_1")
            with open(os.path.join(folder, "model.neff"), "wb") as f:
                f.write(b"not a real NEFF " * 1000)
            until(lambda: [a["complete"] for a in self.session(id)["artifacts"]] == [True], "the artifact arrives")
        self.within_session(id)
        self.stop(id)
        check(until(lambda: self.session(id)["profile"]["state"] == "done", "the profile is merged"), f"session {id}")
        return id


def problem(reply):
    """True when a reply is a problem document that agrees with its status."""
    try:
        doc = reply.json()
    except ValueError:
        return False
    return (reply["Content-Type"] == "application/problem+json" and doc.get("status") == reply.status and doc.get("type") == "about:blank"
            and bool(doc.get("code")) and bool(doc.get("title")) and bool(doc.get("detail")))
