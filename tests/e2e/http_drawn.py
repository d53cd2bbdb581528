"""Requests drawn from MRD_SEED (1) at every operation of docs/reference/openapi.json: paths, queries, ranges, conditions, encodings and bodies that
mean something, and that mean nothing. Every answer is one that the document names or a problem document, every JSON body fits its schema,
nothing is answered with 5xx but 503 (and 501 where no certificates are signed), no header or body of a request appears in a header of its answer; requests in one packet are answered
each, in their order. Arguments: how many."""
import json
import os
import random
import re
import sys
import urllib.parse

import schema
from lib import SOURCE, check, equal, finish, need_daemons, until
from service import Service, problem

need_daemons()
schema.self_test()
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
SEED = int(os.environ.get("MRD_SEED", "1"))
draw = random.Random(SEED)
print("seed", SEED)
doc = json.load(open(os.path.join(SOURCE, "docs", "reference", "openapi.json")))
operations = [(m.upper(), path, op) for path, item in sorted(doc["paths"].items()) for m, op in sorted(item.items()) if m in ("get", "post", "delete")]
HOSTILE = ["", "..", "../../../etc/passwd", "%2e%2e%2f", "%00", "%0d%0aX-Planted: yes", "\u202e", "é☃", "%ff%fe", "a" * 3000, "-1", "0", "9223372036854775807", "9223372036854775808",
           "-9223372036854775808", "1e400", "nan", "null", "*", ",", "a,,b", "%", "%zz", "+", "<script>alert(1)</script>", "'", '"', ";", "//", "latest", "=x", "^x", "0-99999999999"]
GOOD = {"format": ["json", "perfetto", "chrome", "summary-json", "summary-text", "report-json", "report-text", "report-html", "overview-json", "text", "json,perfetto"],
        "clock": ["session", "raw", "utc", "aligned"], "start": ["0s", "1s", "-1s", "2020-01-01T00:00:00Z"], "end": ["1s", "10s", "0s"], "split": ["0", "1M", "1G"],
        "event_type": ["tick", "hardware", "software", "^tick", "=tick"], "instance_id": ["i-test0", "i-none"], "process_id": ["1", "4711"], "lnc_idx": ["0", "0-3"],
        "boot": ["1", "2"], "state": ["complete", "failed", "recording"], "mode": ["session", "recorder"], "label": ["a=b"], "uid": ["0", "1000"]}
MEMBERS = sorted(doc["components"]["schemas"]["SessionRequest"]["properties"]) + sorted(doc["components"]["schemas"]["TriggerRequest"]["properties"])
VALUES = [None, True, 0, -1, 1, 10**18, -2**63, 2**64, 1.5, 1e300, "", "all", "5s", "-5s", "é", "a" * 5000, "\x1b[31m", "../x", [], [1], ["tick"], [[[]]], {}, {"a": {"b": []}},
          {"event_type": ["nope"]}, {"core": [-1]}, {"core": [0]}]
RANGES = ["bytes=0-0", "bytes=0-", "bytes=-1", "bytes=5-2", "bytes=99999999999999999999-", "bytes=0-1,5-6", "bytes=", "lines=1-2", "bytes=-0", "bytes=1-18446744073709551616"]
CONDITIONS = [("If-None-Match", "*"), ("If-None-Match", '"x"'), ("If-None-Match", "W/\"x\", \"y\""), ("If-Match", '"x"'), ("If-Range", '"x"'), ("If-Modified-Since", "never"),
              ("Accept-Encoding", "gzip"), ("Accept-Encoding", "zstd;q=1, gzip;q=0"), ("Accept-Encoding", "*;q=0"), ("Accept", "text/html"), ("Origin", "https://evil.example"),
              ("X-Forwarded-For", "127.0.0.1"), ("Content-Encoding", "gzip"), ("Expect", "100-continue"), ("Content-Type", "text/plain"), ("Sec-Fetch-Site", "cross-site")]
statuses = {}


def value_of(name, ids):
    if name in ("id",) and draw.random() < 0.8:
        return draw.choice(ids)
    if name == "file" and draw.random() < 0.6:
        return draw.choice(["system_profile.pftrace", "summary.json", "app.js", "index.html"])
    if name == "node" and draw.random() < 0.7:
        return "i-test0"
    if name == "segment" and draw.random() < 0.5:
        return "000001.mrj"
    return draw.choice(HOSTILE)


def body_drawn():
    kind = draw.random()
    if kind < 0.15:
        return draw.choice(["", "{", "[]", "null", '{"a":1}{"b":2}', '{"name":"a","name":"b"}', "[" * 2000, '"\\ud800"', "\xff", '{"duration":1e999}'])
    return json.dumps({draw.choice(MEMBERS): draw.choice(VALUES) for _ in range(draw.randrange(4))})


def ask_drawn(ids):
    method, path, op = draw.choice(operations)
    url = path
    for name in re.findall(r"\{(\w+)\}", path):
        url = url.replace("{" + name + "}", urllib.parse.quote(value_of(name, ids), safe="%/" if draw.random() < 0.3 else "%"))
    if method == "DELETE" and any(i in url for i in ids):
        return  # they are still needed
    names = [p["name"] for p in op.get("parameters", []) if p["in"] == "query"] + ["nope"]
    query = []
    for _ in range(draw.choice([0, 0, 1, 1, 2, 3])):
        name = draw.choice(names)
        value = draw.choice(GOOD[name]) if name in GOOD and draw.random() < 0.6 else draw.choice(HOSTILE)
        query.append(name + ("=" if draw.random() < 0.95 else "") + urllib.parse.quote(value, safe="%,:^=*+"))
    if method == "DELETE" and path.endswith("/sessions") and not any(q.split("=")[0] in ("name", "user", "id") for q in query):
        query.append("name=nobody")
    if query:
        url += "?" + "&".join(query)
    headers = dict(draw.sample(CONDITIONS, draw.choice([0, 0, 1, 2])))
    if draw.random() < 0.3:
        headers["Range"] = draw.choice(RANGES)
    body = body_drawn().encode("utf-8", "surrogateescape") if method == "POST" and draw.random() < 0.9 else None
    try:
        r = service.ask(method, url, token=draw.choice(["control", "control", "control", "read", "agent", None, "wrong"]), headers=headers, body=body)
    except UnicodeEncodeError:
        return
    where = f"{method} {url[:200]} {headers} {(body or b'')[:120]}: {r.status}"
    statuses[r.status] = statuses.get(r.status, 0) + 1
    judge(method, path, op, r, where)
    if method == "POST" and r.status == 201 and path == "/api/v1/sessions":
        service.ask("POST", f"/api/v1/sessions/{r.json()['id']}/stop")


def judge(method, path, op, r, where):
    allowed = r.status == 503 or r.status == 501 and re.search("certificates|invitations", path)
    if not check(0 < r.status < 500 or allowed, f"{where}: {r.body[:300] or 'the server hung up'}"):
        return
    planted = [n for n in r.headers if n.startswith("x-planted")]
    equal(planted, [], f"{where}: headers of the request")
    described = op["responses"].get(str(r.status))
    if described is None:
        check(r.status >= 400 and problem(r), f"{where} is neither described nor a problem: {r.body[:200]}")
        return
    content = schema.resolve(doc, described).get("content", {})
    if r.status >= 400:
        check(problem(r), f"{where}: {r.body[:200]}")
    elif content and r.status in (200, 201, 202):
        kind = r["Content-Type"]
        if check(kind in content, f"{where}: type {kind} is not among {list(content)}") and "json" in kind and not r["Content-Encoding"]:
            for e in list(schema.errors(doc, content[kind]["schema"], r.json()))[:5]:
                check(False, f"{where}: {e}")


def pipelined(id):
    """Requests of one packet: as many answers, in their order, and what follows a refused one is not taken for a part of it."""
    asks = [("/healthz", 200), ("/api/v1/nope", 404), (f"/api/v1/sessions/{id}", 200), ("/api/v1/nodes", 200), ("/api/v1/sessions/nope", 404), ("/readyz", 200)]
    auth = f"Authorization: Bearer {service.tokens['control']}\r\n"
    for _ in range(20):
        chosen = [draw.choice(asks) for _ in range(draw.randrange(2, 9))]
        data = "".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n{auth}{'Connection: close' + chr(13) + chr(10) if i + 1 == len(chosen) else ''}\r\n" for i, (path, _) in enumerate(chosen))
        got = service.raw(data.encode())
        equal([int(s) for s in re.findall(rb"HTTP/1\.1 (\d+) ", got)], [status for _, status in chosen], f"answers to {chosen}")


with Service() as service:
    workloads = service.begin()
    id = service.recorded(workloads, 3000)
    recorder = service.start("--name", "<script>alert(1)</script>", "--require", "all")
    ids = [id, id, id, recorder, "latest", "20200101-000000-0000", id[:8]]
    for i in range(COUNT):
        ask_drawn(ids)
    pipelined(id)
    check(until(lambda: service.answers() and service.read("/readyz", token=None).status == 200, "it is ready afterwards"), "ready")
    r = service.read(f"/api/v1/sessions/{id}/profile?format=json")
    check(r.status == 200 and r.body.count(b'"tick"') >= 3000, f"the profile afterwards: {r.status} {len(r.body)}")
    print("answers:", dict(sorted(statuses.items())))
    check(statuses.get(200, 0) > COUNT // 20 and statuses.get(404, 0) > 0 and statuses.get(400, 0) > 0, f"all kinds were drawn: {statuses}")
finish()
