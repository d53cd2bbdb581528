"""Tests that a real aggregator follows RFC 9110 and serves what the Perfetto page requires: ranges,
conditions, encodings, HEAD, OPTIONS, CORS, and problem documents. Every path of the API is
requested with every kind of token."""
import email.utils
import gzip
import json
import os
import subprocess
import time

from lib import check, equal, finish, need_daemons, until
from service import PERFETTO, TOKENS, Service, problem, routes

need_daemons()


def unzstd(data):
    return subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout


def statuses(rows, call):
    for what, want, *args in rows:
        got = call(*args)
        equal(got.status, want, what)
        check(want < 400 or problem(got), f"{what}: {got.body[:200]}")


# ---- Files ----

def ranges(path, whole):
    size = len(whole)
    for text, status, first, last in (
            ("bytes=0-0", 206, 0, 0), ("bytes=0-99", 206, 0, 99), ("bytes=5-5", 206, 5, 5), (f"bytes={size - 1}-", 206, size - 1, size - 1),
            ("bytes=100-", 206, 100, size - 1), ("bytes=-7", 206, size - 7, size - 1), (f"bytes=-{size * 2}", 206, 0, size - 1),
            (f"bytes=0-{size * 9}", 206, 0, size - 1), ("BYTES=1-2", 206, 1, 2), (f"bytes={size}-", 416, 0, 0), (f"bytes={size}-{size + 5}", 416, 0, 0), ("bytes=-0", 416, 0, 0),
            # Several ranges, other units and nonsense: the field is ignored (RFC 9110, 14.2).
            ("bytes=0-1,5-6", 200, 0, 0), ("bytes=0-1, -1", 200, 0, 0), ("lines=1-2", 200, 0, 0), ("bytes=b-a", 200, 0, 0), ("bytes=9-3", 200, 0, 0),
            ("bytes=", 200, 0, 0), ("bytes=-", 200, 0, 0), ("bytes=1", 200, 0, 0), ("bytes=+1-2", 200, 0, 0), ("bytes=1--2", 200, 0, 0), ("bytes=0x1-0x2", 200, 0, 0),
            ("bytes=99999999999999999999-", 200, 0, 0), ("bytes=1-2junk", 200, 0, 0)):
        r = service.read(path, headers={"Range": text})
        if not equal(r.status, status, f"{path}: Range: {text}"):
            continue
        if status == 206:
            equal(r.body, whole[first:last + 1], f"{path}: bytes of {text}")
            equal(r["Content-Range"], f"bytes {first}-{last}/{size}", f"{path}: {text}: Content-Range")
            equal(r["Content-Length"], str(last + 1 - first), f"{path}: {text}: Content-Length")
        elif status == 416:
            equal(r["Content-Range"], f"bytes */{size}", f"{path}: {text}: Content-Range")
            check(problem(r), f"{path}: {text}: {r.body}")
        else:
            equal(r.body, whole, f"{path}: {text}: the whole file")
            check(r["Content-Range"] is None, f"{path}: {text}: no Content-Range")


def conditions(path, whole, etag):
    check(etag.startswith('"') and etag.endswith('"'), f"{path}: a strong tag: {etag}")
    for name, value, status in (
            ("If-None-Match", etag, 304), ("If-None-Match", f'"x", {etag} , "y"', 304), ("If-None-Match", "W/" + etag, 304), ("If-None-Match", "*", 304),
            ("If-None-Match", '"x"', 200), ("If-None-Match", etag.strip('"'), 200), ("If-None-Match", etag[:-1], 200), ("If-None-Match", '"' + etag + '"', 200),
            ("If-Match", etag, 200), ("If-Match", f'"x", {etag}', 200), ("If-Match", "*", 200), ("If-Match", '"x"', 412), ("If-Match", "W/" + etag, 412),
            ("If-Modified-Since", "Sat, 01 Jan 2050 00:00:00 GMT", 200)):
        r = service.read(path, headers={name: value})
        equal(r.status, status, f"{path}: {name}: {value}")
        equal(r["ETag"], etag, f"{path}: {name}: {value}: ETag")
        check(status != 304 or r.body == b"" and r["Vary"] and r["Cache-Control"] and r["Content-Length"] is None, f"{path}: 304 has what a cache needs, and no length: {r.headers}")
        check(status < 400 or problem(r), f"{path}: {name}: {r.body[:200]}")
    for value, status in ((etag, 206), ('"x"', 200), ("W/" + etag, 200), ("Sat, 01 Jan 2050 00:00:00 GMT", 200), ("junk", 200)):
        r = service.read(path, headers={"Range": "bytes=3-4", "If-Range": value})
        equal((r.status, r.body), (status, whole[3:5] if status == 206 else whole), f"{path}: If-Range: {value}")
    equal(service.read(path, headers={"Range": "bytes=3-4", "If-None-Match": etag}).status, 304, f"{path}: If-None-Match comes before Range")


def page():
    """The page's own files have a tag and conditions too."""
    for path in ("/", "/web/app.js"):
        whole = service.read(path, token=None)
        for name, value, status in (("If-None-Match", whole["ETag"], 304), ("If-None-Match", '"x"', 200), ("If-Match", whole["ETag"], 200), ("If-Match", "*", 200), ("If-Match", '"x"', 412)):
            r = service.read(path, token=None, headers={name: value})
            equal((r.status, r["ETag"]), (status, whole["ETag"]), f"{path}: {name}: {value}")
            check(r.body == whole.body if status == 200 else r.body == b"" if status == 304 else problem(r), f"{path}: {name}: {value}: {r.body[:100]}")


def encodings(path, whole, etag):
    for accept, want in ((None, None), ("gzip", "gzip"), ("zstd", "zstd"), ("gzip, zstd", "zstd"), ("gzip;q=1.0, zstd;q=0.5", "gzip"), ("gzip;q=0", None),
                         ("gzip;q=0, zstd;q=0", None), ("identity", None), ("br", None), ("GZIP", "gzip"), ("gzip;q=0.001", "gzip"), ("gzip; q=0.5 , br", "gzip"), (";q=,,", None),
                         ("gzip;q=nan", None), ("*;q=0, gzip", "gzip"), ("gzipx, xgzip", None)):
        headers = {} if accept is None else {"Accept-Encoding": accept}
        r = service.read(path, headers=headers)
        what = f"{path}: Accept-Encoding: {accept}"
        equal((r.status, r["Content-Encoding"]), (200, want), what)
        check("accept-encoding" in r["Vary"].lower(), f"{what}: Vary")
        plain = gzip.decompress(r.body) if want == "gzip" else unzstd(r.body) if want == "zstd" else r.body
        equal(plain == whole, True, f"{what}: the bytes")
        equal(r["ETag"] == etag, want is None, f"{what}: another encoding has another tag: {r['ETag']}")
        head = service.ask("HEAD", path, headers=headers)
        names = ("Content-Encoding", "Content-Type", "ETag", "Vary", "Content-Length", "Transfer-Encoding", "Content-Disposition", "Cache-Control")
        equal([head.status, head.body] + [head[n] for n in names], [200, b""] + [r[n] for n in names], f"{what}: HEAD")
        equal(service.read(path, headers={**headers, "If-None-Match": r["ETag"]}).status, 304, f"{what}: known")
    # What Vary promises holds for JSON and metrics, too, if they are long enough.
    for text in ("/metrics",):
        entire = service.read(text)
        check(len(entire.body) >= 1024 and entire["Content-Encoding"] is None, f"{text}: {len(entire.body)} bytes, {entire['Content-Encoding']}")
        for accept, unpack in (("gzip", gzip.decompress), ("zstd, gzip;q=0.5", unzstd)):
            r = service.read(text, headers={"Accept-Encoding": accept})
            equal(r["Content-Encoding"], accept.split(",")[0], f"{text}: encoding for {accept}")
            check("Accept-Encoding" in r["Vary"] and len(r.body) < len(entire.body) / 2, f"{text}: {r['Vary']}, {len(r.body)} of {len(entire.body)} bytes")
            equal([line.split(" ")[0] for line in unpack(r.body).decode().splitlines()], [line.split(" ")[0] for line in entire.body.decode().splitlines()], f"{text} through {accept}")
    check(email.utils.parsedate_to_datetime(service.read(path)["Last-Modified"]).timestamp() > time.time() - 3600, "Last-Modified of a file")
    r = service.read(path, headers={"Accept-Encoding": "gzip", "Range": "bytes=0-9"})
    equal((r.status, r["Content-Encoding"], r.body), (206, None, whole[:10]), f"{path}: a range is of the plain bytes")


# ---- Heads and methods ----

def cors(path):
    ours = service.read(path, headers={"Origin": PERFETTO})
    equal(ours["Access-Control-Allow-Origin"], PERFETTO, f"{path}: the Perfetto page may read it")
    check(ours["Access-Control-Allow-Credentials"] is None, f"{path}: without credentials")
    for origin in ("https://evil.example", "http://ui.perfetto.dev", PERFETTO + ".evil.example", PERFETTO + ":444", "null", "https://UI.perfetto.dev", PERFETTO + "/"):
        r = service.read(path, headers={"Origin": origin})
        equal((r.status, r["Access-Control-Allow-Origin"]), (200, None), f"{path}: {origin} may not")
        check("origin" in r["Vary"].lower(), f"{path}: Vary")
    denied = service.read(path, token=None, headers={"Origin": PERFETTO})
    equal((denied.status, denied["Access-Control-Allow-Origin"]), (401, PERFETTO), f"{path}: the page may read why not")
    ask = {"Origin": PERFETTO, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "range", "Access-Control-Request-Private-Network": "true"}
    r = service.ask("OPTIONS", path, token=None, headers=ask)
    equal((r.status, r.body, r["Access-Control-Allow-Origin"], r["Access-Control-Allow-Private-Network"]), (204, b"", PERFETTO, "true"), f"{path}: preflight")
    check("GET" in r["Access-Control-Allow-Methods"] and "POST" not in r["Access-Control-Allow-Methods"], f"{path}: it may read, nothing else")
    check("range" in r["Access-Control-Allow-Headers"].lower(), f"{path}: and ask for ranges")
    r = service.ask("OPTIONS", path, token=None, headers={**ask, "Origin": "https://evil.example"})
    equal([v for v in r.headers if v.startswith("access-control")], [], f"{path}: nothing for others")


def methods(table, example):
    """OPTIONS, HEAD and wrong methods of each path."""
    by = {}
    for r in table:
        by.setdefault(example(r["path"]), set()).add(r["method"])
    for path, known in by.items():
        allow = known | {"OPTIONS"} | ({"HEAD"} if "GET" in known else set())
        r = service.ask("OPTIONS", path, token=None)
        equal((r.status, set(r["Allow"].split(", "))), (204, allow), f"OPTIONS {path}")
        for method in ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "TRACE", "BREW"):
            if method in allow:
                continue
            r = service.ask(method, path)
            equal((r.status, set((r["Allow"] or "").split(", "))), (405, allow), f"{method} {path}")
            check(method == "HEAD" or problem(r), f"{method} {path}: {r.body[:200]}")
        if "GET" in known:
            get, head = service.read(path), service.ask("HEAD", path)
            equal((head.status, head.body, head["Content-Type"], head["Content-Disposition"]), (get.status, b"", get["Content-Type"], get["Content-Disposition"]), f"HEAD {path}")
            check(get["X-Content-Type-Options"] == "nosniff", f"{path}: nosniff")
    equal(service.ask("OPTIONS", "*").status, 204, "OPTIONS *")
    equal(service.ask("OPTIONS", "/nothing").status, 404, "OPTIONS of what is not there")


def paths():
    """What is no path of ours never reaches a file."""
    for path, status in (("/../etc/passwd", 400), ("/web/../../etc/passwd", 400), ("/web/%2e%2e/%2e%2e/etc/passwd", 400), ("/web/..%2f..%2fetc/passwd", 400),
                         ("/web/%252e%252e/x", 404), ("//web/app.js", 400), ("/web//app.js", 400), ("/./healthz", 400), ("/web/app.js%00.css", 404), ("/healthz%0d%0aX-Evil:%201", 400),
                         ("/web/..\\..\\x", 400), ("/web/.hidden", 404), ("/healthz/", 404), ("/HEALTHZ", 404), ("/%68ealthz", 200), ("/healthz?x=%zz", 200), ("/healthz?" + "a=b&" * 100, 200), ("/healthz?" + "a=b&" * 3000, 414),
                         ("/" + "a" * 3000, 400), ("/api/v1/sessions?state=gone", 400), ("/api/v1/sessions?mode=tape", 400), ("/api/v1/sessions?state=failed&mode=stream", 200), ("/api/v1/sessions/%00", 404), ("/api/v1/sessions/%2500", 404), (f"/api/v1/sessions/{id}/profile/..%2fsession.json", 400), (f"/api/v1/sessions/{id}/profile/%2e%2e", 400),
                         (f"/api/v1/sessions/{id}/profile/session.json", 404), (f"/api/v1/sessions/{id}/journal/../session.json", 400), (f"/api/v1/sessions/{id}/journal/i-test0/000001.mrj/", 404),
                         (f"/api/v1/sessions/{id}%20/profile", 404), (f"/api/v1/sessions/{id.upper()}x", 404), ("/api/v1/nodes/" + "n" * 1500, 404), ("/api/v1/nodes/%ff%fe", 404)):
        r = service.read(path)
        equal(r.status, status, f"GET {path[:80]}")
        check(r.status < 400 or problem(r), f"GET {path[:80]}: {r.body[:200]}")
        check(b"root:" not in r.body and r["X-Evil"] is None, f"GET {path[:80]} gave something away")


def bodies():
    start = "/api/v1/sessions"
    statuses((
        ("no JSON", 422, "POST", start, "control", None, "x"), ("a list", 422, "POST", start, "control", None, "[]"), ("cut", 422, "POST", start, "control", None, '{"name": "x'),
        ("twice", 422, "POST", start, "control", None, '{"name": "a", "name": "b"}'), ("not UTF-8", 422, "POST", start, "control", None, b'{"name": "\xff"}'),
        ("deep", 422, "POST", start, "control", None, "[" * 100000), ("of a wrong type", 422, "POST", start, "control", None, {"select": {"rank": "x"}}),
        ("unknown member", 400, "POST", start, "control", None, {"nam": "x"}), ("too large", 413, "POST", start, "control", None, " " * (1 << 20) + "{}"),
        ("on a path without one", 422, "POST", f"{start}/{id}/stop", "control", None, "{"), ("with GET", 200, "GET", "/api/v1/nodes", "control", None, "{}")),
        lambda method, path, token, headers, body: service.ask(method, path, token=token, headers=headers, body=body))
    nobody = json.loads(service.ask("POST", start, token="control", body={"select": {"instance_id": ["i-absent"]}}).body)["id"]
    r = service.read(f"{start}/{nobody}/clocks")
    check(r.status == 404 and b"nothing of any node was recorded" in r.body, f"clocks of a session in which nobody took part: {r.status} {r.body}")
    auth = f"Authorization: Bearer {TOKENS['control']}\r\n"
    chunks = b"10000\r\n" + b" " * 65536 + b"\r\n"
    r = service.raw(f"POST {start} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{auth}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks * 17 + b"0\r\n\r\n")
    check(r.startswith(b"HTTP/1.1 413 ") and b"problem+json" in r, f"a chunked body that is too large: {r[:100]}")
    r = service.raw(f"POST {start} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{auth}Connection: close\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n".encode())
    check(r.startswith(b"HTTP/1.1 413 "), f"a body that is announced too large is not waited for: {r[:100]}")
    r = service.raw(f"GET /api/v1/nodes HTTP/1.0\r\n{auth}\r\n".encode())
    check(b" 200 " in r[:20] and b'"nodes"' in r, f"HTTP/1.0: {r[:100]}")
    r = service.raw(f"GET /api/v1/sessions/{id}/profile?start=0s HTTP/1.0\r\n{auth}\r\n".encode())
    check(b" 200 " in r[:20] and b"chunked" not in r.split(b"\r\n\r\n")[0], f"a stream over HTTP/1.0 ends with the connection: {r[:100]}")
    two = f"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    equal(service.raw(two).count(b"HTTP/1.1 200 OK"), 2, "two requests in one packet")
    for junk in (b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET /healthz HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00" * 20, b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\nHost: x\r\n\r\n",
                 b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 65536 + b"\r\n\r\n",
                 b"GET /healthz HTTP/1.1\r\n" + b"X-Y: z\r\n" * 10000 + b"\r\n"):
        with service.dial() as s:
            try:
                s.sendall(junk + b"\r\n\r\n")
                s.shutdown(1)
                s.recv(65536)
            except OSError:
                pass
        equal(service.read("/healthz").status, 200, f"still serves after {junk[:60]}")


# ---- Tokens ----

def matrix(table, example):
    """Every row of the table with every kind of token; a request that is let in gets what the role's owner gets."""
    wrong = {"missing": None, "empty": "", "unknown": "wrong-token-0123456789", "cut": TOKENS["control"][:-1], "longer": TOKENS["control"] + "x", "in capitals": TOKENS["control"].upper(),
             "of two": TOKENS["read"] + " " + TOKENS["control"], "huge": "x" * 8000}
    role_of = {"read": "read", "control": "admin", "agent": "agent", **{kind: "none" for kind in wrong}}
    for row in table:
        path = example(row["path"], row["method"] != "GET")  # what changes something names what is not there
        body = "{}" if row["method"] == "POST" else None
        for kind in [*TOKENS, *wrong]:
            token = TOKENS.get(kind, wrong.get(kind))
            r = service.ask(row["method"], path, token=None, headers={} if token is None else {"Authorization": "Bearer " + token}, body="nonsense" if body else None)
            what = f"{row['method']} {row['path']} ({row['roles']}) with a token {kind}: {r.status}"
            if role_of[kind] in row["roles"]:
                check(r.status not in (401, 403), what)
            else:
                equal(r.status, 403 if kind in TOKENS else 401, what)
                check(problem(r) and r["WWW-Authenticate"].startswith("Bearer"), f"{what}: {r.body[:100]}")
                check(all(t not in r.body.decode() for t in TOKENS.values()), f"{what}: a token in the answer")
    for value in ("Basic " + TOKENS["control"], TOKENS["control"], "Bearer", "bearer  " + TOKENS["control"], "Bearer\t" + TOKENS["control"]):
        want = 200 if value.startswith("bearer  ") else 401
        equal(service.read("/api/v1/nodes", token=None, headers={"Authorization": value}).status, want, f"Authorization: {value[:12]!r}")
    equal(service.read("/api/v1/nodes?access_token=" + TOKENS["control"], token=None).status, 401, "a token in the address is none")


def withdrawn(table, example):
    """A token that is in the file no more is none, on every path, without a restart; its successor counts."""
    old, new = TOKENS["read"], "reading-token-of-the-next-day"
    equal(service.read("/api/v1/nodes", token=old).status, 200, "before it is withdrawn")
    os.rename(service.secret("next.json", json.dumps({**{k: [v] for k, v in TOKENS.items()}, "read": [new]})), service.path("tokens.json"))
    until(lambda: service.read("/api/v1/nodes", token=new).status == 200, "the new token counts")
    for row in [r for r in table if "none" not in r["roles"]]:
        path = example(row["path"], row["method"] != "GET")
        equal(service.ask(row["method"], path, token=old).status, 401, f"{row['method']} {row['path']} with a withdrawn token")
        equal(service.ask(row["method"], path, token=new).status in (401, 403), "read" not in row["roles"], f"{row['method']} {row['path']} with its successor")


with Service() as service:
    workloads = service.begin()
    id = service.recorded(workloads, 3000)
    session = service.session(id)
    values = {"id": id, "file": "system_profile.pftrace", "file*": "app.js", "sha256": session["artifacts"][0]["sha256"], "node": "i-test0", "segment": "000001.mrj"}

    def example(pattern, absent=False):
        for name, value in values.items():
            value = "20200101-000000-0000" if absent and name == "id" else value
            if "/nodes/" in pattern and name == "id":
                value = "i-test0"
            pattern = pattern.replace("{" + name + "}", value)
        check("{" not in pattern, f"a value for {pattern}")
        return pattern

    table = routes()["routes"]
    at = f"/api/v1/sessions/{id}"
    for path in (f"{at}/profile", f"{at}/profile?format=json", f"{at}/profile/system_profile.pftrace", f"{at}/artifacts/{values['sha256']}", f"{at}/journal/i-test0/000001.mrj"):
        r = service.read(path)
        equal((r.status, r["Accept-Ranges"], r["Content-Length"]), (200, "bytes", str(len(r.body))), path)
        ranges(path, r.body)
        conditions(path, r.body, r["ETag"])
        encodings(path, r.body, r["ETag"])
        cors(path)
    whole = service.read(f"{at}/profile")
    equal(whole["Content-Disposition"], f'attachment; filename="{id}.pftrace"', "name of a download")
    equal(whole.body, service.read(f"{at}/profile/system_profile.pftrace").body, "one file under two addresses")
    slice = service.read(f"{at}/profile?format=json&start=0s", headers={"Range": "bytes=0-9"})
    equal((slice.status, slice["Transfer-Encoding"], slice["Accept-Ranges"], slice["ETag"]), (200, "chunked", None, None), "a slice has no ranges")
    check(json.loads(slice.body)["trace_events"], "a slice is whole")
    for accept, unpack in (("gzip", gzip.decompress), ("zstd, gzip;q=0.5", unzstd)):
        r, head = (service.ask(method, f"{at}/profile?format=json&start=0s", headers={"Accept-Encoding": accept}) for method in ("GET", "HEAD"))
        equal((r.status, r["Content-Encoding"], head["Content-Encoding"]), (200, accept[:4], accept[:4]), f"a slice with {accept}")
        equal(unpack(r.body) == slice.body, True, f"a slice with {accept} is the same slice")
        check(len(r.body) < len(slice.body) / 3, f"and smaller: {len(r.body)} of {len(slice.body)} bytes")
    for query, said in (("process_id=99999999", b"no process 99999999 is in this profile"), ("lnc_idx=77-99", b"no core 77-99 is in this profile"), ("instance_id=i-none", b"no node 'i-none' takes part")):
        r = service.read(f"{at}/profile?format=json&{query}")
        check(r.status == 404 and said in r.body and problem(r), f"{query}: {r.status} {r.body[:200]}")
    for path in ("/api/v1/nodes", "/api/v1/models", f"{at}/models", f"{at}/artifacts", f"{at}/journal"):
        r = service.read(path + "?process_id=1")
        check(r.status == 400 and b"unknown query parameter 'process_id'" in r.body and problem(r), f"{path}: a filter that it does not have: {r.status} {r.body[:200]}")
    busy = [service.ask("HEAD", f"{at}/profile?start=0s") for _ in range(20)]
    equal({(r.status, r.body, r["Content-Type"]) for r in busy}, {(200, b"", "application/octet-stream")}, "HEAD of a slice makes nothing, however often")
    for accept in ("application/json", "text/html", "*/*", "image/png;q=0", ";;,"):
        r = service.read("/api/v1/nodes", headers={"Accept": accept})
        equal((r.status, r["Content-Type"]), (200, "application/json"), f"Accept: {accept}: there is one representation")
    page()
    methods(table, example)
    paths()
    bodies()
    matrix(table, example)
    withdrawn(table, example)
    equal(service.session(id)["state"], "complete", "nothing of this changed the session")
    log = service.daemon.text()
    check(not any(t in log for t in TOKENS.values()), "no token in the log")
finish()
