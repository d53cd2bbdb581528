"""Tests the HTTP server under load and abuse: many clients at once, slow clients, clients that
disconnect, and floods. Memory must stay bounded, data must still be stored, and everything must be
served afterwards. The argument `full` selects the long version of `make soak`, while the short one
takes seconds."""
import concurrent.futures
import json
import os
import random
import re
import socket
import sys
import time

from lib import check, equal, finish, free_port, need_daemons, until
from wait import pace
from service import Service

need_daemons()
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"  # freed memory that it keeps is no growth
FULL = "full" in sys.argv
CLIENTS, SECONDS, TICKS = (64, 60, 400000) if FULL else (64, 4, 40000)
GROWTH = 64 << 20  # bytes; 512 connections of 32 KiB, 8 streams of a few MiB, and room
SEED = int(os.environ.get("MRD_SEED", "1"))
random.seed(SEED)


def rss():
    with open(f"/proc/{service.daemon.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) << 10


def threads():
    return len(os.listdir(f"/proc/{service.daemon.pid}/task"))


def files():
    return len(os.listdir(f"/proc/{service.daemon.pid}/fd"))


class Watch:
    """The aggregator's memory while something is done to it."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        self.first = self.peak = rss()
        self.over = False
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.done = self.pool.submit(self.look)
        return self

    def look(self):
        while not self.over:
            self.peak = max(self.peak, rss())
            pace(0.02)

    def __exit__(self, *error):
        self.over = True
        self.done.result()
        grown = self.peak - self.first
        print(f"{self.what}: memory {self.first >> 20} MiB, at most {self.peak >> 20} MiB")
        check(grown < GROWTH, f"{self.what}: memory grew by {grown >> 20} MiB")
        equal(service.read("/healthz").status, 200, f"{self.what}: serves afterwards")


class Acknowledgements:
    """The agent's histogram of acknowledgement times, between two looks."""

    def __init__(self):
        self.first = self.look()

    @staticmethod
    def look():
        text = service.read("/metrics", port=agent_port).body.decode()
        found = {float(le): int(n) for le, n in re.findall(r'^meridian_agent_acknowledgement_seconds_bucket\{le="([^"]+)",instance_id="[^"]*"\} (\d+)$', text, re.M)}
        return found, float(re.search(r"^meridian_agent_acknowledgement_seconds_sum\S* (\S+)$", text, re.M)[1])

    def say(self, what):
        (before, sum_before), (after, sum_after) = self.first, self.look()
        n = after[float("inf")] - before[float("inf")]
        within = {le: after[le] - before[le] for le in sorted(after)}
        share = [next((le for le in within if within[le] >= n * q), None) for q in (0.5, 0.99)]
        mean = (sum_after - sum_before) / n if n else 0
        print(f"{what}: {n} frames acknowledged, mean {mean * 1e3:.2f} ms, half within {share[0]} s, 99 % within {share[1]} s")
        check(n > 0, f"{what}: ingest goes on")
        return n


# ---- Well-behaved clients ----

def some_request(n):
    """One of the things clients do; each says what it expects."""
    path, headers, want = random.choice([
        ("/api/v1/nodes", {}, {200}), ("/api/v1/sessions", {}, {200}), (at, {}, {200}), ("/metrics", {}, {200}), ("/", {}, {200}), (f"{at}/profile", {}, {200}),
        (f"{at}/profile", {"Range": "bytes=1000-1999"}, {206}), (f"{at}/profile", {"Accept-Encoding": "gzip"}, {200}), (f"{at}/profile", {"Accept-Encoding": "zstd"}, {200}),
        (f"{at}/profile?format=overview-json&start=0s", {}, {200, 503}), (f"{at}/profile?format=summary-json&start=1ms", {}, {200, 503}), (f"{at}/journal/i-test0/000001.mrj", {}, {200})])
    r = service.read(path, headers=headers)
    if path.endswith("/profile") and not headers:
        check(r.body == profile, f"a whole profile, {len(r.body)} of {len(profile)} bytes")
    if headers.get("Range"):
        check(r.body == profile[1000:2000], "a range of the profile")
    if path.endswith("s") and r.status == 200 and path.startswith("/api"):
        json.loads(r.body)
    check(r.status in want, f"{path}: {r.status} {r.body[:200]}")
    return r.status


def crowd():
    end = time.monotonic() + SECONDS
    counts = {}

    def client(i):
        while time.monotonic() < end:
            status = some_request(i)
            counts[status] = counts.get(status, 0) + 1
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for f in [pool.submit(client, i) for i in range(CLIENTS)]:
            f.result()
    print(f"{CLIENTS} clients for {SECONDS} s: replies by status {dict(sorted(counts.items()))}")
    check(sum(counts.values()) >= CLIENTS and counts.get(200, 0) >= CLIENTS // 4, "every client had an answer")


# ---- Clients that read slowly, or leave ----

def ask_and_hold(path, n):
    """Connections that ask for much and read nothing."""
    held = []
    for _ in range(n):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = service.http.split(":")
        s.connect((host, int(port)))
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.tokens['control']}\r\n\r\n".encode())
        held.append(s)
    return held


def slow_readers():
    held = ask_and_hold(f"{at}/profile", CLIENTS) + ask_and_hold(f"{at}/profile?format=json&start=0s", CLIENTS)
    until(lambda: service.metric("meridian_http_streams") == 8, "the allowed slices are being made")
    r = service.read(f"{at}/profile?start=0s")
    check(r.status == 503 and r["Retry-After"], f"one more is asked to come again: {r.status}")
    r = service.read(f"{at}/profile", headers={"Accept-Encoding": "zstd"})
    equal((r.status, r["Content-Encoding"], r.body == profile), (200, None, True), "a finished file needs no slice: it comes as it is")
    equal(service.read("/api/v1/nodes").status, 200, "others are served")
    for s in held:
        s.close()
    until(lambda: service.metric("meridian_http_streams") == 0, "slices of clients that left are given up")


def leave_early():
    before = service.metric("meridian_http_streams_cancelled_total")
    rounds = 40 if FULL else 8
    for _ in range(rounds):
        held = ask_and_hold(f"{at}/profile?format=json&start=0s", 8)
        until(lambda: service.metric("meridian_http_streams") == 8, "slices begin")
        for s in held:
            if random.random() < 0.5:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # RST instead of FIN
            s.close()
        until(lambda: service.metric("meridian_http_streams") == 0, "slices end with their clients")
    until(lambda: service.metric("meridian_http_streams_cancelled_total") - before == rounds * 8, "each is counted as cancelled")


# ---- Hostile ones ----

def send_all(data, n):
    """The same bytes on n connections at once."""
    socks = []
    for _ in range(n):
        try:
            s = service.dial(10)
            s.setblocking(False)
            socks.append(s)
            s.send(data)
        except OSError:
            pass
    for s in socks:
        s.close()


def floods():
    n = 400 if FULL else 60
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    for what, data in (("many fields", head + b"X-Flood: 1\r\n" * 20000), ("one long field", head + b"X-Flood: " + b"y" * (1 << 20)), ("a long path", b"GET /" + b"a" * (1 << 20)),
                       ("many parameters", b"GET /healthz?" + b"a=b&" * 200000 + b" HTTP/1.1\r\n\r\n"), ("noise", os.urandom(1 << 16)), ("empty lines", b"\r\n" * 100000),
                       ("many cookies", head + b"Cookie: " + b"a=b;" * 100000 + b"\r\n\r\n"), ("half a request", head[:20]),
                       ("a body without end", b"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"z" * 65536 + b"\r\n") * 20),
                       ("a body announced", b"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b" " * 900000)):
        send_all(data, n)
        equal(service.read("/healthz").status, 200, f"after {what}")


def endless_body():
    """More than is read to be polite: the connection ends."""
    with service.dial(120) as s:
        s.sendall(b"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 256 << 20:
                s.sendall(b"10000\r\n" + b"z" * 65536 + b"\r\n")
                sent += 65536
        except OSError:
            pass
    check(1 << 20 < sent < 128 << 20, f"an endless body was cut after {sent >> 20} MiB")


def slowloris():
    """More connections than are allowed, each of which says a byte now and then: they are ended, others come through."""
    conns, end = [], time.monotonic() + 120
    for _ in range(600):
        try:
            s = service.dial(5)
            s.sendall(b"GET /healthz HTTP/1.1\r\n")
            conns.append(s)
        except OSError:
            break
    print(f"slowloris: {len(conns)} connections")
    first, served = len(conns), 0
    while time.monotonic() < end and not (len(conns) <= first - 500 and served >= 3):
        for s in conns:
            try:
                s.send(b"X")
            except OSError:
                pass
        conns = [s for s in conns if alive(s)]
        try:
            served += service.read("/healthz", timeout=2).status == 200
        except OSError:
            pass
        pace(0.5)
    gone = first - len(conns)
    check(gone >= 500 and served >= 3, f"slowloris: {gone} were ended, {served} others served")
    for s in conns:
        s.close()


def alive(s):
    try:
        s.setblocking(False)
        return s.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def drip_readers():
    """A whole profile at a few bytes per second: ended, by whichever limit comes first."""
    before = service.metric("meridian_http_connections")
    held = ask_and_hold(f"{at}/profile", 16)
    until(lambda: service.metric("meridian_http_connections") >= before + 16, "they are connected")
    end = time.monotonic() + 180
    while service.metric("meridian_http_connections") > before and time.monotonic() < end:
        for s in held:
            try:
                s.setblocking(False)
                s.recv(16)
            except OSError:
                pass
        pace(1)
    check(service.metric("meridian_http_connections") <= before, "readers of a few bytes per second are ended")
    for s in held:
        s.close()


with Service(sync="none") as service:
    agent_port = free_port()
    workload = service.begin(metrics_port=agent_port, flush="20ms")[0]
    print(f"seed {SEED}")
    id = service.recorded([workload], TICKS, artifact=False)
    at = f"/api/v1/sessions/{id}"
    profile = service.read(f"{at}/profile").body
    check(len(profile) > 100000, f"a profile of {len(profile)} bytes")
    live = service.start("--name", "ingest")
    workload.run(20)  # ticks per millisecond
    alone = Acknowledgements()
    first = time.monotonic()
    until(lambda: sum(alone.look()[0].values()) > sum(alone.first[0].values()) and time.monotonic() - first > 2, "frames are acknowledged")
    alone.say("ingest alone")
    under = Acknowledgements()
    open_files, open_threads = files(), threads()
    for what, abuse in (("crowd", crowd), ("slow readers", slow_readers), ("clients that leave", leave_early), ("floods", floods), ("endless body", endless_body),
                        *((("slowloris", slowloris), ("drip readers", drip_readers)) if FULL else ())):
        with Watch(what):
            abuse()
    until(lambda: files() <= open_files + 2 and threads() <= open_threads, "no file and no thread is left over")
    equal((files() <= open_files + 2, threads() <= open_threads), (True, True), f"files {open_files} to {files()}, threads {open_threads} to {threads()}")
    under.say("ingest under HTTP load")
    workload.pause()
    doc = service.stop(live, want=None)
    part = doc["nodes"][0]
    equal((doc["state"], part["state"], part["missing_batches"]), ("complete", "flushed", 0), "the session that was recorded meanwhile")
    equal(part["counters"]["begun"], part["events"] + part["counters"]["dropped"] + part["counters"]["held"], "begun = delivered + dropped + held")
    print(f"recorded meanwhile: {part['events']} events, {part['counters']['dropped']} dropped by full rings")
    equal(service.daemon.running(), True, "the aggregator runs")
finish()
