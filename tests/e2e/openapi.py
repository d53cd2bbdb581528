"""Compares docs/reference/openapi.json with the running server. Both must have the same paths,
methods, roles and parameters. Every documented status must occur, every status that occurs must be
documented, and every JSON body must match its schema."""
import json
import os
import re
import subprocess
import sys

import schema
from concurrent.futures import ThreadPoolExecutor
from faulty_job import FaultyRank
from lib import SOURCE, check, equal, finish, need_daemons, need_preload, run, until
from service import Service, problem, routes

sys.path.insert(0, os.path.join(SOURCE, "tests/fake"))
from apiserver import ApiServer

need_daemons()
need_preload()
schema.self_test()
doc = json.load(open(os.path.join(SOURCE, "docs", "reference", "openapi.json")))
table = routes()
METHODS = ("get", "post", "delete", "put", "patch")
operations = {(m.upper(), path): op for path, item in doc["paths"].items() for m, op in item.items() if m in METHODS}
seen = {}  # (method, path) -> statuses


def spec_path(path):
    return path.replace("*}", "}")


# ---- The document itself ----

def references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for v in value.values():
            yield from references(v)
    elif isinstance(value, list):
        for v in value:
            yield from references(v)


check(doc["openapi"].startswith("3."), "version of OpenAPI")
equal(doc["info"]["version"], run("--version")[0].split()[1], "version of the program")
named = set(references(doc))
for ref in named:
    schema.resolve(doc, {"$ref": ref})
for kind, words in doc["components"].items():
    if kind != "securitySchemes":
        equal([w for w in words if f"#/components/{kind}/{w}" not in named], [], f"{kind} that nothing uses")
equal(len({op["operationId"] for op in operations.values()}), len(operations), "operation ids differ")
for (method, path), op in operations.items():
    where = f"{method} {path}"
    in_path = [p["name"] for p in op.get("parameters", []) if p["in"] == "path"]
    equal(sorted(in_path), sorted(re.findall(r"\{(\w+)\}", path)), f"{where}: parameters of the path")
    check(all(p["required"] for p in op.get("parameters", []) if p["in"] == "path"), f"{where}: they are required")
    check(op["summary"] and set(op["responses"]) - {"default"}, f"{where}: summary and responses")

# ---- The table of routes ----

equal(sorted(operations), sorted((r["method"], spec_path(r["path"])) for r in table["routes"]), "paths and methods")
for r in table["routes"]:
    op, where = operations.get((r["method"], spec_path(r["path"])), {}), f"{r['method']} {r['path']}"
    equal(op.get("summary"), r["summary"], f"{where}: summary")
    equal(op.get("x-roles"), r["roles"], f"{where}: roles")
    equal(op.get("security"), [] if "none" in r["roles"] else [{"bearer": []}], f"{where}: security")
    equal(sorted(p["name"] for p in op.get("parameters", []) if p["in"] == "query"), sorted(r["query"]), f"{where}: query")
schemas = doc["components"]["schemas"]
equal(sorted(schemas["SessionRequest"]["properties"]), sorted(table["session"]), "members that start a session")
equal(sorted(schemas["TriggerRequest"]["properties"]), sorted(table["trigger"]), "members of a trigger")


# ---- The running server ----

def call(method, path, values=None, query="", token="control", headers=None, body=None, want=None):
    """Calls an operation and holds the reply against its description."""
    op = operations[method, path]
    url = path
    for name, value in (values or {}).items():
        url = url.replace("{" + name + "}", value)
    r = service.ask(method, url + query, token=token, headers=headers, body=body)
    where = f"{method} {url}{query} {body if body is not None and len(str(body)) < 200 else ''} as {token}: {r.status}"
    if want is not None:
        check(r.status == want, f"{where}, expected {want}: {r.body[:300]}")
    seen.setdefault((method, path), set()).add(str(r.status))
    described = op["responses"].get(str(r.status))
    if not check(described, f"{where} is not described"):
        return r
    described = schema.resolve(doc, described)
    content = described.get("content", {})
    if not content:
        equal(r.body, b"", f"{where}: no body is described")
        return r
    if check(r["Content-Type"] in content, f"{where}: type {r['Content-Type']} is not among {list(content)}") and "json" in r["Content-Type"] and r.status != 206:
        for e in list(schema.errors(doc, content[r["Content-Type"]]["schema"], r.json()))[:10]:
            check(False, f"{where}: {e}")
    for name in described.get("headers", {}):
        check(r[name], f"{where}: {name}")
    check(r.status < 400 or problem(r), f"{where}: {r.body[:200]}")
    return r


def example(parameter):
    return str(parameter.get("example", parameter["schema"].get("default", "")))


SESSION = "/api/v1/sessions/{id}"
with Service(viewer="/bin/false") as service, ApiServer(service.path(".")) as api:
    cert = lambda name: service.path("certs", name)
    run("certs", "init", "-d", service.path("certs"), "--host", "127.0.0.1")
    run("certs", "agent", "i-test0", "-d", service.path("certs"))
    service.data, service.control = "tls+" + service.data, "tls+" + service.control
    service.options.update(tls_cert=cert("aggregator.pem"), tls_key=cert("aggregator.key"), tls_ca=cert("ca.pem"), agent_ca=cert("ca.pem"), agent_ca_key=cert("ca.key"))
    with open(service.path("review.json"), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        json.dump({"server": api.url, "ca-file": api.cert, "bearer-file": service.secret("own.token", "aggregators-own-token-0123456789"), "audience": "meridian",
                   "agents": ["system:serviceaccount:meridian:meridian-agent"]}, f)
    service.options["token-review"] = service.path("review.json")
    workloads = service.begin(tls_ca=cert("ca.pem"), tls_cert=cert("agent-i-test0.pem"), tls_key=cert("agent-i-test0.key"))
    id = service.recorded(workloads, 30000)
    sid = {"id": id}
    absent = {"id": "20200101-000000-0000"}
    equal(service.read("/api/v1/openapi.json", token=None).json(), doc, "it is served as it is in docs/")

    # What everybody may call, and with the wrong role.
    for (method, path), op in operations.items():
        values = {**absent, "file": "system_profile.pftrace", "sha256": "0" * 64, "node": "i-x", "segment": "000001.mrj"}
        if "none" not in op["x-roles"]:
            call(method, path, values, token=None, want=401)
            call(method, path, values, token="agent", want=403)

    page = call("GET", "/", token=None, want=200)
    call("GET", "/", token=None, headers={"If-None-Match": page["ETag"]}, want=304)
    for name in ("app.css", "app.js", "icon.svg", "chart.js", "index.html"):
        part = call("GET", "/web/{file}", {"file": name}, token=None, want=200)
    call("GET", "/web/{file}", {"file": "index.html"}, token=None, headers={"If-None-Match": part["ETag"]}, want=304)
    call("GET", "/web/{file}", {"file": "absent.js"}, token=None, want=404)
    spec = call("GET", "/api/v1/openapi.json", token=None, want=200)
    call("GET", "/api/v1/openapi.json", token=None, headers={"If-None-Match": spec["ETag"]}, want=304)
    call("GET", "/healthz", token=None, want=200)
    call("GET", "/readyz", token=None, want=200)
    call("GET", "/metrics", want=200)
    call("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}, want=200)
    formats = call("GET", "/api/v1/formats", want=200).json()["formats"]
    equal({f["name"] for f in formats if "title" in f} - {"perfetto", "json", "chrome", "summary-text", "report-text", "report-html", "sqlite"}, set(), "formats for people")
    call("GET", "/api/v1/nodes", token="read", want=200)
    equal(call("GET", "/api/v1/self", token="read", want=200).json(), {"role": "read", "may": ["list", "read", "cluster"]}, "what a reader is told")
    call("GET", "/api/v1/models", token="read", want=200)
    call("GET", "/api/v1/hangs", token="read", want=200)
    call("GET", "/api/v1/jobs", token="read", want=200)
    call("GET", "/api/v1/jobs", query="?state=nothing", want=400)
    call("GET", "/api/v1/jobs", query="?process_id=1", want=400)
    call("GET", "/api/v1/jobs/{id}", {"id": "0123456789abcdef"}, want=404)
    rank = service.keep(FaultyRank(service, 77, 0, 1, 0))
    jobs = until(lambda: call("GET", "/api/v1/jobs", query="?job=77", want=200).json()["jobs"], "the job of a rank is listed")
    equal(len(call("GET", "/api/v1/jobs/{id}", {"id": jobs[0]["id"]}, want=200).json()["rank_list"]), 1, "its rank")
    rank.kill()
    call("GET", "/api/v1/nodes/{id}", {"id": "i-test0"}, token="read", want=200)
    call("GET", "/api/v1/nodes/{id}", {"id": "i-absent"}, want=404)
    call("DELETE", "/api/v1/nodes/{id}", {"id": "i-absent"}, want=404)
    call("DELETE", "/api/v1/nodes/{id}", {"id": "i-test0"}, want=409)

    # What breaks a rule of HTTP is refused wherever it is sent.
    for path in ("/", "/api/v1/openapi.json", "/healthz", "/readyz", "/api/v1/formats"):
        head = service.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\nConnection: close\r\n\r\n".encode())
        check(head.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in head, f"{path}: {head[:200]}")
        seen["GET", path].add("400")

    # Sessions.
    call("GET", "/api/v1/sessions", want=200)
    call("GET", SESSION, sid, want=200)
    equal(call("GET", SESSION, {"id": "latest"}, want=200).json()["id"], id, "the newest session")
    call("GET", SESSION + "/profile", {"id": "latest"}, query="?format=summary-text", want=200)
    equal(call("GET", "/api/v1/hangs", want=200).json()["hangs"], [], "no job stands still")
    call("GET", "/api/v1/hangs", query="?process_id=1", want=400)
    call("POST", SESSION + "/stop", {"id": "latest"}, want=404)  # only what reads takes it
    call("DELETE", SESSION, {"id": "latest"}, want=404)
    for path, values in (("/api/v1/nodes", {}), ("/api/v1/models", {}), ("/api/v1/hangs", {}), (SESSION + "/models", {"id": "latest"}), (SESSION + "/artifacts", {"id": "latest"}), (SESSION + "/journal", {"id": "latest"})):
        call("GET", path, values, query="?process_id=1", want=400)
    for query in ("?order=size", "?limit=0", "?limit=x", "?after=latest", "?state=nothing"):
        call("GET", "/api/v1/sessions", query=query, want=400)
    call("GET", SESSION, absent, want=404)
    for body, status in (("[]", 422), ("{", 422), ({"nam": 1}, 400), ({"mode": "x"}, 400), ({"name": "x" * 256}, 413), ({"select": {"rank": 1}}, 422)):
        call("POST", "/api/v1/sessions", body=body, want=status)
    whole = {**schemas["SessionRequest"]["example"], "mode": "recorder", "require": "any", "select": {"instance_id": ["i-test0"]}, "duration": "1h"}
    equal(list(schema.errors(doc, schemas["SessionRequest"], whole)), [], "the request's example")
    equal(sorted(whole), sorted(table["session"]), "the example has every member")
    made = call("POST", "/api/v1/sessions", body=whole, want=201)
    recorder = {"id": made.json()["id"]}
    equal(made["Location"], "/api/v1/sessions/" + recorder["id"], "Location")
    call("POST", SESSION + "/trigger", {"id": id}, body={}, want=409)  # no recorder
    until(lambda: service.session(recorder["id"])["state"] == "recording", "the recorder records")
    for body, status in (({"last": "x"}, 400), ("[]", 422), ({"lst": 1}, 400), (schemas["TriggerRequest"]["example"], 202)):
        call("POST", SESSION + "/trigger", recorder, body=body, want=status)
        call("POST", "/api/v1/trigger", body=body, want=status)
    for body, status in (("[]", 422), ("{", 422), ({}, 400), ({"select": {}}, 400), ({"select": {"rank": [1]}}, 400), ({"select": {"core": 1}}, 422),
                         ({"select": {"event_type": ["nc_exec_runing"]}}, 400), (schemas["ChangeRequest"]["example"], 202)):
        call("POST", SESSION + "/change", recorder, body=body, want=status)
    call("POST", SESSION + "/resume", recorder, want=409)  # it is not paused
    call("POST", SESSION + "/pause", recorder, want=202)
    call("POST", SESSION + "/pause", recorder, want=409)
    call("POST", SESSION + "/resume", recorder, want=202)
    call("DELETE", SESSION, recorder, want=409)
    until(lambda: service.session(recorder["id"])["triggers"][0]["answered"] == 1, "the trigger is answered")
    call("GET", SESSION, recorder, want=200)
    call("POST", SESSION + "/stop", recorder, want=202)
    until(lambda: service.session(recorder["id"])["state"] in ("complete", "failed"), "the recorder is over")
    call("POST", "/api/v1/trigger", body={}, want=409)
    call("POST", SESSION + "/stop", sid, want=409)
    for path in ("/stop", "/trigger", "/merge", "/convert", "/pause", "/resume"):
        call("POST", SESSION + path, absent, want=404)
    call("POST", SESSION + "/change", absent, body=schemas["ChangeRequest"]["example"], want=404)
    call("POST", SESSION + "/change", sid, body=schemas["ChangeRequest"]["example"], want=409)
    call("DELETE", SESSION, absent, want=404)
    invited = call("POST", "/api/v1/invitations", body={"instance": "i-0abc", "expires": "1h"}, want=201).json()["invitation"]
    for body, status in (({"instance": "-x"}, 400), ({"expires": "31d"}, 400), ({"expires": []}, 422), ("[", 422)):
        call("POST", "/api/v1/invitations", body=body, want=status)
    made = subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", service.path("k.pem"), "-subj", "/CN=i-0abc"],
                          capture_output=True, text=True, check=True, timeout=60).stdout
    signed = call("POST", "/api/v1/certificates", token=None, body={"instance": "i-0abc", "request": made, "invitation": invited}, want=201).json()["certificate"]
    call("POST", "/api/v1/certificates", token=None, body={"request": made, "certificate": signed}, want=201)
    for body, status in (({"request": made}, 400), ({"request": made, "instance": "i-0abc", "invitation": "0" * 64}, 401), ({"request": 1}, 422)):
        call("POST", "/api/v1/certificates", token=None, body=body, want=status)
    account = api.token("meridian", "meridian-agent", pod="agent-0", node="i-0abc")
    for body, status in (({"request": made, "instance": "i-0abc"}, 201), ({"request": made, "instance": "i-1"}, 403), ({"request": "-" * 9000, "instance": "i-0abc"}, 413),
                         ({"request": made.replace("A", "B"), "instance": "i-0abc"}, 422), ({"request": made, "instance": "i-0abc", "x": 1}, 400)):
        call("POST", "/api/v1/certificates/account", token=account, body=body, want=status)
    big = "{" + " " * (1 << 20) + "}"
    for path, values in (("/api/v1/sessions", {}), ("/api/v1/trigger", {}), ("/api/v1/invitations", {}), ("/api/v1/certificates", {}), (SESSION + "/stop", sid), (SESSION + "/trigger", sid), (SESSION + "/merge", sid), (SESSION + "/convert", sid),
                         (SESSION + "/pause", sid), (SESSION + "/resume", sid), (SESSION + "/change", sid)):
        call("POST", path, values, body=big, want=413)

    # Pages of sessions: together they are the list, in either order, also behind one that is not there any more.
    whole = [s["id"] for s in call("GET", "/api/v1/sessions", want=200).json()["sessions"]]
    check(len(whole) > 1, f"several sessions: {whole}")
    for order, want in (("oldest", whole), ("newest", whole[::-1])):
        for limit in range(1, len(whole) + 2):
            got, query = [], f"?order={order}&limit={limit}"
            after = ""
            while after is not None:
                page = call("GET", "/api/v1/sessions", query=query + (f"&after={after}" if after else ""), want=200).json()
                check(0 < len(page["sessions"]) <= limit, f"{query}: {len(page['sessions'])} on a page")
                got += [s["id"] for s in page["sessions"]]
                after = page.get("next")
            equal(got, want, f"pages of {query}")
    equal([s["id"] for s in call("GET", "/api/v1/sessions", query=f"?after={absent['id']}", want=200).json()["sessions"]], whole, "behind one that was older than all")
    equal(call("GET", "/api/v1/sessions", query=f"?order=newest&after={absent['id']}", want=200).json()["sessions"], [], "and in the other order")
    equal([s["id"] for s in call("GET", "/api/v1/sessions", query="?order=newest&limit=1&mode=recorder", want=200).json()["sessions"]], [recorder["id"]], "a filter and a page")

    # Profiles: each parameter with its example, ranges and conditions of each kind of file.
    profile = operations["GET", SESSION + "/profile"]
    parameters = [p for p in profile["parameters"] if p["in"] == "query"]
    for p in parameters:
        if p["name"] == "lnc_idx":  # this session has no cores
            continue
        there = {"instance_id": "i-test0", "process_id": str(workloads[0].pid)}.get(p["name"], example(p))
        call("GET", SESSION + "/profile", sid, query=f"?{p['name']}={there}", token="read", want=200)
    call("GET", SESSION + "/profile", sid, query="?instance_id=" + example(next(p for p in parameters if p["name"] == "instance_id")), want=404)
    call("GET", SESSION + "/profile", sid, query=f"?format=json&process_id={workloads[0].pid},1", want=404)
    call("GET", SESSION + "/profile", sid, query="?lnc_idx=" + example(next(p for p in parameters if p["name"] == "lnc_idx")), want=404)
    for query in ("?primary_group=colour", "?secondary_group=lnc_idx,", "?format=json&primary_group=process_id"):
        call("GET", SESSION + "/profile", sid, query=query, want=400)
    # Each format of a finished profile is a file: with length, tag, ranges and conditions; also when it is asked for by several at one time.
    for name in next(p for p in parameters if p["name"] == "format")["schema"]["enum"]:
        with ThreadPoolExecutor(4) as several:
            whole, *rest = several.map(lambda _: service.read(f"/api/v1/sessions/{id}/profile?format={name}"), range(4))
        check(all(r.status == 200 and r.body == whole.body and r["ETag"] == whole["ETag"] for r in rest), f"{name}: equal answers")
        equal(whole["Content-Length"], str(len(whole.body)), f"{name}: length")
        part = call("GET", SESSION + "/profile", sid, query=f"?format={name}", headers={"Range": "bytes=10-59", "If-Range": whole["ETag"]}, want=206)
        equal((part.body, part["Content-Range"]), (whole.body[10:60], f"bytes 10-59/{len(whole.body)}"), f"{name}: a range")
        call("GET", SESSION + "/profile", sid, query=f"?format={name}", headers={"If-None-Match": whole["ETag"]}, want=304)
        head = service.ask("HEAD", f"/api/v1/sessions/{id}/profile?format={name}")
        equal((head.status, head["Content-Length"], head["ETag"]), (200, whole["Content-Length"], whole["ETag"]), f"{name}: HEAD")
        call("GET", SESSION + "/profile", sid, query=f"?format={name}", want=200)
    check(os.listdir(service.path("store", "sessions", id, "made")), "files are kept")
    told = call("GET", SESSION + "/profile", sid, query="?format=nothing", want=400).json()["detail"]
    equal(re.findall(r"[\w-]+", told.split("one of ")[1]), next(p for p in parameters if p["name"] == "format")["schema"]["enum"], "formats")
    call("GET", SESSION + "/profile", sid, query="?formt=json", want=400)
    files = [("/profile", {}, {}), ("/profile/{file}", {"file": "system_profile.pftrace"}, {"file": "absent"}),
             ("/artifacts/{sha256}", {"sha256": service.session(id)["artifacts"][0]["sha256"]}, {"sha256": "0" * 64}),
             ("/journal/{node}/{segment}", {"node": "i-test0", "segment": "000001.mrj"}, {"node": "i-test0", "segment": "000099.mrj"})]
    for path, values, none in files:
        r = call("GET", SESSION + path, {**sid, **values}, want=200)
        check(len(r.body) > 100, f"{path}: {len(r.body)} bytes")
        call("GET", SESSION + path, {**sid, **values}, headers={"Range": "bytes=0-9"}, want=206)
        call("GET", SESSION + path, {**sid, **values}, headers={"Range": "bytes=99999999999-"}, want=416)
        call("GET", SESSION + path, {**sid, **values}, headers={"If-None-Match": r["ETag"]}, want=304)
        call("GET", SESSION + path, {**sid, **values}, headers={"If-Match": '"another"'}, want=412)
        call("GET", SESSION + path, {**(sid if none else absent), **none}, want=404)
    call("GET", SESSION + "/artifacts", sid, want=200)
    call("GET", SESSION + "/artifacts", absent, want=404)
    call("GET", SESSION + "/models", sid, token="read", want=200)
    call("GET", SESSION + "/models", absent, want=404)
    call("GET", SESSION + "/clocks", sid, token="read", want=200)
    call("GET", SESSION + "/clocks", sid, query="?format=text&instance_id=i-test0", want=200)
    call("GET", SESSION + "/clocks", sid, query="?format=yaml", want=400)
    call("GET", SESSION + "/clocks", sid, query="?instance_id=i-absent", want=404)
    call("GET", SESSION + "/clocks/{node}", {**sid, "node": "i-absent"}, want=404)
    call("GET", SESSION + "/clocks/{node}", {**sid, "node": "i-test0"}, query="?boot=7", want=400)
    until(lambda: call("GET", SESSION + "/clocks/{node}", {**sid, "node": "i-test0"}).status == 200, "the clock is drawn")
    call("GET", SESSION + "/journal", sid, want=200)
    call("GET", SESSION + "/journal", absent, want=404)
    call("POST", SESSION + "/merge", sid, want=202)
    again = call("POST", SESSION + "/merge", sid)
    check(again.status in (202, 409), f"while it merges, or after: {again.status}")
    until(lambda: service.session(id)["profile"]["state"] == "done", "merged again")
    check(not os.path.exists(service.path("store", "sessions", id, "made")), "a merge removes what was made of the one before")
    call("GET", SESSION + "/profile", sid, query="?format=json", want=200)
    live = service.start("--name", "live")
    call("POST", SESSION + "/merge", {"id": live}, want=409)
    call("POST", SESSION + "/convert", {"id": live}, want=409)
    with open(os.path.join(service.folder("watch0", "i-test0_pid_1"), "profile_nc_0_session_0.ntff"), "w") as f:
        f.write("not a real NTFF\n")
    until(lambda: [a["complete"] for a in service.session(live)["artifacts"] if a["kind"] == "NTFF"] == [True], "an NTFF arrives")
    call("GET", SESSION, {"id": live}, want=200)
    service.stop(live)
    for _ in range(2):  # the viewer is /bin/false
        until(lambda: [v["state"] for v in service.session(live).get("conversions", [])] == ["failed"], "its conversion fails")
        call("GET", SESSION, {"id": live}, want=200)
        call("POST", SESSION + "/convert", {"id": live}, want=202)
    call("DELETE", SESSION, recorder, want=202)
    call("DELETE", "/api/v1/sessions", {}, want=400)
    call("DELETE", "/api/v1/sessions", query="?name=nobody", want=200)
    equal(call("DELETE", "/api/v1/sessions", query=f"?id={live}&name=live", want=200).json()["deleted"], [live], "deleted by its name")

    # More streams than are allowed at one time: readers that do not read.
    slow = []
    for _ in range(8):
        s = service.dial()
        s.setsockopt(1, 8, 4096)  # SO_RCVBUF
        s.sendall(f"GET /api/v1/sessions/{id}/profile?format=json&instance_id=i-test0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.tokens['control']}\r\n\r\n".encode())
        slow.append(s)
    until(lambda: b"meridian_http_streams 8\n" in service.read("/metrics").body or call("GET", SESSION + "/profile", sid, query="?start=0s").status == 503, "all streams are taken")
    refused = call("GET", SESSION + "/profile", sid, query="?start=0s")
    check(refused.status in (200, 503) and (refused.status == 200 or refused["Retry-After"]), f"Retry-After: {refused.headers}")
    for s in slow:
        s.close()

    service.agents[0].kill()
    until(lambda: not service.connected(), "the agent is gone")
    call("GET", "/api/v1/nodes/{id}", {"id": "i-test0"}, want=200)
    call("DELETE", "/api/v1/nodes/{id}", {"id": "i-test0"}, want=200)
    equal(call("GET", "/api/v1/nodes", want=200).json()["nodes"], [], "nodes after one was forgotten")

# Disk full is the one state that this test does not make.
for key, op in operations.items():
    named = set(op["responses"]) - {"default"} - ({"503"} if key[1] in ("/readyz",) else set())
    equal(sorted(named - seen.get(key, set())), [], f"{key}: statuses that were never seen")
finish()
