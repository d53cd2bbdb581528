"""Tests mrd_s3_put with a server that checks every signature and hash: large files in parts,
faults, other writers, and each source of credentials. Usage: s3_test.py S3_PUT"""
import concurrent.futures
import hashlib
import http.server
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import s3_server
from lib import check, equal, finish, until

PUT, work = sys.argv[1], tempfile.mkdtemp(prefix="mrd-s3-")
SOON = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
OVER = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
small, large, empty, whole, two_parts = (os.path.join(work, n) for n in ("small", "large", "empty", "whole", "two_parts"))
for path, size in ((small, 1000), (large, (64 << 20) + 12345), (empty, 0), (whole, 32 << 20), (two_parts, (16 << 20) + 12345)):
    with open(path, "wb") as f:
        f.write((b"0123456789abcdef" * 4096 * 17)[:1 << 20] * (size >> 20) + b"x" * (size & 0xfffff))


def put(server, *files, want=0, key="a b/table=x/~+ä", env=None, keys=True):
    more = dict(AWS_ACCESS_KEY_ID=s3_server.KEY, AWS_SECRET_ACCESS_KEY=s3_server.SECRET) if keys else {}
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    p = subprocess.run([PUT, "bucket", key, *files], capture_output=True, text=True, timeout=200,
                       env={**clean, "AWS_REGION": s3_server.REGION, "AWS_ENDPOINT_URL": server.url, "no_proxy": "*", **more, **(env or {})})
    check(want is None or p.returncode == want, f"{files}: {p.returncode}, {p.stderr.strip()}")
    return [int(x) for x in p.stdout.split()], p.stderr


def objects():
    server = s3_server.Server()
    sent, _ = put(server, small, empty, large)
    equal(sent, [1000, 0, os.path.getsize(large)], "bytes sent")
    equal(server.refused, [], "signatures")
    for n, path in enumerate((small, empty, large)):
        with open(path, "rb") as f:
            equal(hashlib.sha256(server.objects[f"bucket/a b/table=x/~+ä/{n}"][0]).hexdigest(), hashlib.sha256(f.read()).hexdigest(), path)
    check(sum("partNumber" in p for _, p in server.log) == 5, "parts of 16 MiB")
    equal(put(server, small, empty, large)[0], [0, 0, 0], "the same again")
    equal(server.uploads, {}, "no upload stays open")


def faults():
    server = s3_server.Server()
    server.unavailable = 3
    equal(put(server, small)[0], [1000], "503 three times")
    server.cut = 2
    equal(put(server, large, key="cut")[0], [os.path.getsize(large)], "cut twice")
    server.unavailable = 1000
    _, err = put(server, small, key="down", want=1)
    check("NET" in err and "503" in err, err)
    server.unavailable = 0
    with open(small, "rb") as f:
        server.raced["bucket/race/0"] = f.read()
    equal(put(server, small, key="race")[0], [0], "another writer made the same object")
    server.raced["bucket/other/0"] = b"something else"
    _, err = put(server, small, key="other", want=1)
    check("EXISTS" in err, err)
    equal(server.objects["bucket/other/0"][0], b"something else", "the other's object stays")
    _, err = put(server, os.path.join(work, "absent"), want=1)
    check("absent" in err, err)
    server.keys = {"other": "x"}
    _, err = put(server, small, key="denied", want=1)
    check("DENIED" in err, err)
    equal(server.refused[-1][2], "InvalidAccessKeyId", "asked once more with the same, then given up")


def memory():
    """Without one allocation: it is told, or done, and what is there is the whole file with its headers."""
    told = 0
    for path, step in ((small, 1), (large, 17)):
        with open(path, "rb") as f:
            wanted = hashlib.sha256(f.read()).hexdigest()
        asked = put(s3_server.Server(), path, env={"S3_PUT_WITHOUT": "0"})[0][-1]
        check(asked > 10, f"allocations: {asked}")
        for n in range(1, asked + 1, step):
            server = s3_server.Server()
            sent, err = put(server, path, key="k", env={"S3_PUT_WITHOUT": str(n)}, want=None)
            what = f"without allocation {n} of {os.path.basename(path)}"
            told += "NOMEM" in err
            check(len(sent) == 2 or (err and "k/0" not in "".join(server.objects)), f"{what}: {sent} {err}")
            equal({(hashlib.sha256(d).hexdigest(), m) for d, m in server.objects.values()} - {(wanted, wanted)}, set(), f"{what}: the object")
            check(len(sent) == 2 or not server.uploads or step > 1, f"{what}: no upload is open")
    check(told > 5, f"told: {told}")


def kills():
    """Killed before and after each request of three files, then done again: nothing is missing, made twice or left open."""
    files, killed, n = (small, empty, two_parts), 0, 1
    wanted = {f"bucket/killed/{i}": hashlib.sha256(open(path, "rb").read()).hexdigest() for i, path in enumerate(files)}
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    while True:
        for when in ("before", "after"):
            server = s3_server.Server()
            env = {**clean, "AWS_REGION": s3_server.REGION, "AWS_ENDPOINT_URL": server.url, "no_proxy": "*", "AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET}
            with server.lock:  # no request is carried out before it is known whom to kill
                p = subprocess.Popen([PUT, "bucket", "killed", *files], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
                server.victim = p, n, when
            status = p.wait(200)
            what = f"killed {when} request {n}"
            with server.lock:
                for key, (data, _) in server.objects.items():
                    equal(hashlib.sha256(data).hexdigest(), wanted[key], f"{what}: what is there is whole")
            if status == 0:
                print(f"{killed} uploads were killed")
                return check(killed >= 11, "it was killed before and after each of its six requests")  # after the last one it may end first
            killed += 1
            server.victim = None
            put(server, *files, key="killed")
            equal({k: hashlib.sha256(d).hexdigest() for k, (d, _) in server.objects.items()}, wanted, f"{what}: all is there")
            equal(sorted(server.made), sorted(wanted), f"{what}: each object is made once")
            equal(server.uploads, {}, f"{what}: no upload stays open")
            server.shutdown()
            server.server_close()
        n += 1


def replaced():
    """A file that is replaced all the time, as session.json is: each copy is one of its versions, whole."""
    server, path, over = s3_server.Server(), os.path.join(work, "replaced"), threading.Event()
    versions = [b"a" * 200000, b"b" * 100000]

    def replace():
        for n in itertools.count():
            with open(path + ".new", "wb") as f:
                f.write(versions[n % 2])
            os.rename(path + ".new", path)
            if over.is_set():
                return

    shutil.copy(small, path)
    versions.append(open(path, "rb").read())
    thread = threading.Thread(target=replace)
    thread.start()
    put(server, *[path] * 150, key="replaced")
    over.set()
    thread.join()
    equal(server.refused, [], "no body differs from its hash")
    check(all(data in versions for data, _ in server.objects.values()) and len(server.objects) == 150, "whole versions")


def clocks():
    """A clock that is wrong is told as such, not as wrong credentials; within a quarter of an hour it does not matter."""
    for ahead, word in ((7200, "behind"), (-7200, "ahead of"), (800, None), (-800, None)):
        server = s3_server.Server()
        server.ahead = ahead
        _, err = put(server, small, want=1 if word else 0)
        told = re.search(r"the clock of this machine is (\d+) s (behind|ahead of) that of the service", err)
        check((told and told[2]) == word and (not told or abs(int(told[1]) - 7200) < 60), f"{ahead}: {err}")


def elsewhere():
    """A bucket of another region answers with a redirection, which is signed for nowhere: nothing was stored, and nothing counts as sent."""
    for status in (301, 302, 307, 308):
        for writes in (False, True):
            server = s3_server.Server()
            server.moved = (status, writes)
            for path in (small, large):
                sent, err = put(server, path, want=1)
                equal((sent, server.objects), ([], {}), f"{status}, {path}: sent, stored")
                check(str(status) in err and "eu-north-9" in err and "AWS_REGION" in err, err)
            server.moved = None
            equal(put(server, small)[0], [1000], "the right region")


def regions():
    """The bucket's region is told by the service: it is signed for, and asked where the address names the region. One that is no name of a region is not."""
    server = s3_server.Server()
    server.at = f"s3.{s3_server.REGION}."
    port = server.url.rsplit(":", 1)[1]
    equal(put(server, small, large, env=dict(AWS_REGION="us-east-1", AWS_ENDPOINT_URL=f"http://s3.us-east-1.localhost:{port}"))[0], [1000, os.path.getsize(large)], "another region's address")
    check(sum(method == "HEAD" for method, _ in server.log) == 3 and server.refused == [], f"asked there once: {server.log}")
    _, err = put(server, small, key="private", env=dict(AWS_REGION="us-east-1", AWS_ENDPOINT_URL=server.url), want=1)
    check("301" in err and s3_server.REGION in err, err)
    server = s3_server.Server()
    equal(put(server, small, small, key="signed", env=dict(AWS_REGION="us-east-1"))[0], [1000, 1000], "an address without a region")
    equal([why for _, _, why in server.refused], ["AuthorizationHeaderMalformed"], "signed for another region once")
    server.moved, port = (301, False), server.url.rsplit(":", 1)[1]
    for told in ("example.org/", "eu_1", "", "x" * 200):
        s3_server.TOLD = told
        _, err = put(server, small, key="hostile", env=dict(AWS_ENDPOINT_URL=f"http://s3.{s3_server.REGION}.localhost:{port}"), want=1)
        check("301" in err, err)
    s3_server.TOLD = "eu-north-9"


def ended():
    """The end of an upload in parts is answered 409, by which that upload is over: another one is made, unless the object is there by then."""
    server, size = s3_server.Server(), os.path.getsize(large)
    for answer, carried, sent in ((409, False, size), (404, True, 0)):
        server.ends, before, key = [(answer, carried)], server.begun, f"ended {answer} {carried}"
        equal(put(server, large, key=key)[0], [sent], key)
        equal(server.begun - before, 1 if carried else 2, f"{key}: uploads")
        equal(server.uploads, {}, f"{key}: no upload stays open")
        with open(large, "rb") as f:
            check(server.objects[f"bucket/{key}/0"][0] == f.read(), key)
    server.ends = [(409, b"another's")]
    _, err = put(server, large, key="theirs", want=1)
    check("EXISTS" in err, err)
    equal(server.objects["bucket/theirs/0"][0], b"another's", "the other's object stays")
    equal((server.uploads, server.refused), ({}, []), "no upload stays open")


class Proxy(http.server.BaseHTTPRequestHandler):
    """Writes down to whom connections are asked for, and makes none."""
    asked = []

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        Proxy.asked.append(self.path)
        self.send_error(403)


def partitions():
    """Without an endpoint Amazon's are asked, in the domain of the region's partition."""
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    token = os.path.join(work, "token")
    with open(token, "w") as f:
        f.write("a.b")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    for region, domain in (("us-east-2", "amazonaws.com"), ("us-gov-west-1", "amazonaws.com"), ("cn-north-1", "amazonaws.com.cn"), ("cn-northwest-1", "amazonaws.com.cn"),
                           ("eusc-de-east-1", "amazonaws.eu"), ("us-iso-east-1", "c2s.ic.gov"), ("us-isob-east-1", "sc2s.sgov.gov"), ("us-isof-south-1", "csp.hci.ic.gov"),
                           ("eu-isoe-west-1", "cloud.adc-e.uk")):
        env = dict(AWS_REGION=region, AWS_ENDPOINT_URL="", AWS_ENDPOINT_URL_STS="", https_proxy=f"http://127.0.0.1:{proxy.server_address[1]}", no_proxy="")
        for service, keys, more in (("s3", dict(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b"), {}), ("sts", {}, dict(AWS_WEB_IDENTITY_TOKEN_FILE=token, AWS_ROLE_ARN="arn:aws:iam::1:role/r"))):
            Proxy.asked.clear()
            p = subprocess.Popen([PUT, "bucket", "key", small], stderr=subprocess.DEVNULL, env={**clean, **keys, **env, **more})
            until(lambda: Proxy.asked, f"{service} of {region} is asked")
            p.kill()  # it would ask again, with pauses
            p.wait()
            equal(Proxy.asked[0], f"{service}.{region}.{domain}:443", f"{service} of {region}")
    proxy.shutdown()


def conditions():
    """A service that does not know If-None-Match is written without it."""
    server = s3_server.Server()
    server.conditions = False
    equal(put(server, small, large, empty, key="plain")[0], [1000, os.path.getsize(large), 0], "bytes sent")
    equal(server.uploads, {}, "no upload stays open")
    check(sum(method == "PUT" for method, _ in server.log) == 2 + 1 + 5, "refused once")


class Fake(http.server.BaseHTTPRequestHandler):
    """STS, the container's endpoint and the instance's, each with its own rules."""
    asked = []
    sessions = ["session"]  # tokens of those who ask; the last one again and again

    def log_message(self, *_):
        pass

    def give(self, text, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        fine = self.path == "/latest/api/token" and "X-aws-ec2-metadata-token-ttl-seconds" in self.headers
        self.give("imds-token" if fine else "", 200 if fine else 400)

    def do_GET(self):
        Fake.asked.append(self.path.split("?")[0])
        keys = {"AccessKeyId": s3_server.KEY, "SecretAccessKey": s3_server.SECRET, "Token": Fake.sessions.pop(0) if len(Fake.sessions) > 1 else Fake.sessions[0], "Expiration": SOON}
        if "Action=AssumeRoleWithWebIdentity" in self.path:
            fine = "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr" in self.path and "WebIdentityToken=a.b%2Bc" in self.path
            self.give("<Credentials>" + "".join(f"<{k}>{v}</{k}>" for k, v in {**keys, "SessionToken": "session"}.items()) + "</Credentials>", 200 if fine else 403)
        elif self.path == "/pod":
            self.give(json.dumps(keys), 200 if self.headers.get("Authorization") == "pod-token" else 403)
        elif self.path == "/short":
            self.give(json.dumps({**keys, "Expiration": OVER}))
        elif self.headers.get("X-aws-ec2-metadata-token") != "imds-token":
            self.give("", 401)
        elif self.path.endswith("/security-credentials/"):
            self.give("the-role")
        elif self.path.endswith("/the-role"):
            self.give(json.dumps(keys))
        else:
            self.give("", 404)


def credentials():
    fake = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    threading.Thread(target=fake.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{fake.server_address[1]}"
    server = s3_server.Server(token="session")
    tokens = {}
    for name, text in (("web", "a.b+c\n"), ("pod", "pod-token")):
        tokens[name] = os.path.join(work, name)
        with open(tokens[name], "w") as f:
            f.write(text)
    web = dict(AWS_WEB_IDENTITY_TOKEN_FILE=tokens["web"], AWS_ROLE_ARN="arn:aws:iam::1:role/r", AWS_ENDPOINT_URL_STS=base)
    pod = dict(AWS_CONTAINER_CREDENTIALS_FULL_URI=base + "/pod", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=tokens["pod"], AWS_CONTAINER_AUTHORIZATION_TOKEN="old")
    for name, env in (("web", web), ("pod", pod), ("instance", dict(AWS_EC2_METADATA_SERVICE_ENDPOINT=base))):
        equal(put(server, small, key=name, env=env, keys=False)[0], [1000], f"credentials: {name}")
    before = len(Fake.asked)
    equal(put(server, small, small, key="short", env={**pod, "AWS_CONTAINER_CREDENTIALS_FULL_URI": base + "/short"}, keys=False)[0], [1000, 1000], "credentials that end soon")
    check(len(Fake.asked) - before >= 4, "they are asked for again for each request")
    for refused in ("http://10.0.0.1/keys", "http://[fd00:ec2::24]/keys", "http://[::2]/"):
        _, err = put(server, small, env=dict(AWS_CONTAINER_CREDENTIALS_FULL_URI=refused), keys=False, want=1)
        check("neither https nor" in err, err)
    _, err = put(server, small, env=dict(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://[fd00:ec2::23]/v1/credentials"), keys=False, want=1)
    check("neither https nor" not in err and "[fd00:ec2::23]" in err, err)  # Pod Identity of a cluster that has IPv6 only
    _, err = put(server, small, env=dict(AWS_EC2_METADATA_DISABLED="true"), keys=False, want=1)
    check("AWS_ACCESS_KEY_ID" in err, err)
    equal(server.refused, [], "signatures with a session's token")
    # expired before their time, as by a clock that is slow or a role that was revoked: 400, and the answer to a HEAD does not say why
    server.expired, server.token = {"session"}, "session 2"
    Fake.sessions, before = ["session", "session 2"], len(Fake.asked)
    equal(put(server, small, key="expired", env=pod, keys=False)[0], [1000], "credentials that expired")
    Fake.sessions = ["session"]
    _, err = put(server, small, key="never", env=pod, keys=False, want=1)
    check("400" in err and "expired" in err, err)
    equal(len(Fake.asked) - before, 4, "each asked for once more")


def drip(conn, _):
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        conn.sendall(b"x")
        threading.Event().wait(0.05)


def drip_headers(conn, _):
    conn.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        conn.sendall(b"A: b\r\n")
        threading.Event().wait(0.05)


def flood(text):
    def write(conn, _):
        conn.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            conn.sendall(text)
    return write


def flood_body(conn, head):
    # the answer to a HEAD has no body
    conn.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n" if head.startswith(b"HEAD") else b"HTTP/1.1 200 OK\r\n\r\n")
    while not head.startswith(b"HEAD"):
        conn.sendall(b"x" * 65536)


def read_slowly(conn, head):
    if head.startswith(b"HEAD"):
        conn.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return
    conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while conn.recv(100):
        threading.Event().wait(0.05)


class Hostile:
    """A service that answers each connection with `answer`, until its client closes it."""

    def __init__(self, answer):
        self.answer, self.listener = answer, socket.create_server(("127.0.0.1", 0))
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            threading.Thread(target=self.talk, args=(self.listener.accept()[0],), daemon=True).start()

    def talk(self, conn):
        with conn:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    more = conn.recv(1)
                    if not more:
                        return
                    head += more
                self.answer(conn, head)
            except OSError:
                pass


def hostile():
    """A service that sends slowly, reads slowly, or sends without an end fails the export with the reason, after one try."""
    large_answer, large_headers, slow = "more than 1 MiB", "headers of the answer", "too slow"
    cases = [(drip_headers, small, slow), (drip, small, slow), (read_slowly, whole, slow), (flood(b"A: " + b"b" * 1000 + b"\r\n"), small, large_headers), (flood_body, small, large_answer)]
    threads = []

    def attack(answer, path, reason):
        began = time.monotonic()
        _, err = put(Hostile(answer), path, want=1, env=dict(S3_PUT_TIMEOUT_MS="1500"))
        check("NET" in err and reason in err, f"{answer.__name__}: {reason}: {err}")
        check(time.monotonic() - began < 60, f"{answer.__name__}: {time.monotonic() - began:.0f} s")
    for case in cases:
        threads.append(threading.Thread(target=attack, args=case))
        threads[-1].start()
    for thread in threads:
        thread.join()


# These mostly wait for the next try. The other cases run meanwhile.
with concurrent.futures.ThreadPoolExecutor() as pool:
    waiting = [pool.submit(case) for case in (hostile, faults, ended, memory)]
    for case in (objects, kills, replaced, clocks, elsewhere, regions, partitions, conditions, credentials):
        case()
    for case in waiting:
        case.result()
shutil.rmtree(work)
finish()
