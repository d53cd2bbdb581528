"""Tests `meridian mcp` with a client of the Model Context Protocol: both revisions of the protocol,
each tool, wrong requests, long answers, and texts of traces that must not reach a terminal."""
import json
import os
import subprocess

from lib import MERIDIAN, Cluster, check, equal, finish, need_daemons, run, tmp, until

need_daemons()
CURRENT, BEFORE = "2026-07-28", "2025-11-25"
META = {"io.modelcontextprotocol/protocolVersion": CURRENT, "io.modelcontextprotocol/clientCapabilities": {}}
place = tmp()


class Client:
    """A client on the standard input and output of `meridian mcp`."""

    def __init__(self, *options):
        self.p = subprocess.Popen([MERIDIAN, "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place)
        self.id = 0

    def send(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def raw(self, line):
        self.send(line)
        return json.loads(self.p.stdout.readline())

    def ask(self, method, **params):
        self.id += 1
        reply = self.raw(json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}))
        equal((reply.get("jsonrpc"), reply.get("id")), ("2.0", self.id), f"{method}: the frame of the answer")
        return reply

    def call(self, tool, meta=True, **arguments):
        reply = self.ask("tools/call", name=tool, arguments=arguments, **({"_meta": META} if meta else {}))
        result = reply.get("result")
        if not check(result is not None, f"{tool} {arguments}: {reply}"):
            return "", True
        equal([c["type"] for c in result["content"]], ["text"], f"{tool}: content")
        return result["content"][0]["text"], result["isError"]

    def refused(self, code, text, method, **params):
        reply = self.ask(method, **params)
        error = reply.get("error", {})
        check(error.get("code") == code and text in error.get("message", ""), f"{method} {params}: {reply}")
        return error

    def end(self):
        self.p.stdin.close()
        equal(self.p.wait(30), 0, "the server ends with its input")
        equal(self.p.stderr.read(), "", "nothing is written beside the protocol")


def trace(rank, late_us):
    """A trace of one rank: steps with a kernel each; one name has control characters."""
    events = [{"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}}]
    for i in range(300):
        at = 1000 * i
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": rank, "tid": 1, "ts": at, "dur": 990})
        events.append({"ph": "X", "cat": "kernel", "name": "matmul" if i != 7 else "red \x1b[31mkernel\x07", "pid": rank, "tid": 7, "ts": at + 10,
                       "dur": 300 + late_us, "args": {"stream": 7, "device": rank}})
    path = os.path.join(place, f"rank{rank}.json")
    with open(path, "w") as f:
        json.dump({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}, f)
    return path


def revisions(c):
    result = c.ask("server/discover", _meta=META)["result"]
    equal(result["supportedVersions"], [CURRENT, BEFORE], "revisions")
    check(result["resultType"] == "complete" and result["ttlMs"] >= 0 and result["cacheScope"] in ("public", "private"), f"discover: {result}")
    equal(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "meridian", "who answers")
    check("list_jobs" in result["instructions"], "instructions")
    error = c.refused(-32022, "not supported", "tools/list", _meta={**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"})
    equal(error["data"], {"supported": [CURRENT, BEFORE], "requested": "2031-01-01"}, "what to use instead")
    old = c.ask("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "t", "version": "1"})["result"]
    equal((old["protocolVersion"], old["serverInfo"]["name"], "tools" in old["capabilities"]), (BEFORE, "meridian", True), "initialize")
    c.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')  # no answer follows, or the next id is wrong
    equal(c.ask("ping")["result"], {}, "ping")
    modern, legacy = c.ask("tools/list", _meta=META)["result"], c.ask("tools/list")["result"]
    check("resultType" in modern and "resultType" not in legacy and "_meta" not in legacy, "each revision gets its own members")
    equal(modern["tools"], legacy["tools"], "the same tools")
    return modern["tools"]


def described(tools):
    for t in tools:
        schema = t["inputSchema"]
        check(t["description"].endswith(".") and schema["type"] == "object" and schema["additionalProperties"] is False, f"{t}")
        check(all(p["type"] in ("string", "integer") and p["description"] for p in schema["properties"].values()), f"{t}")
        check(set(schema["required"]) <= set(schema["properties"]), f"{t}")
        equal(t["annotations"]["readOnlyHint"], t["name"] != "fetch_profile", f"{t['name']} only reads")


def wrong(c):
    equal(c.raw("{nonsense")["error"]["code"], -32700, "no JSON")
    equal(c.raw("[1]")["error"]["code"], -32600, "no object")
    equal(c.raw('{"jsonrpc":"2.0","id":5}')["error"]["code"], -32600, "no method")
    equal(c.raw('{"x":"' + "a" * (1 << 20) + '"}')["error"]["code"], -32600, "a line of more than 1 MiB")
    c.refused(-32601, "no such method", "resources/list")
    c.refused(-32602, "did you mean", "tools/call", name="list_job", arguments={})
    c.refused(-32602, "no argument 'jobb'", "tools/call", name="show_job", arguments={"jobb": "x"})
    c.refused(-32602, "needs the argument 'job'", "tools/call", name="show_job", arguments={})
    c.refused(-32602, "has to be a text", "tools/call", name="show_job", arguments={"job": 5})
    c.refused(-32602, "must not begin with '-'", "tools/call", name="report", arguments={"source": "--output-dir=/tmp/x"})
    c.refused(-32602, "is no object", "tools/call", name="list_jobs", arguments=[1])
    c.refused(-32602, "not the id of a session", "tools/call", name="fetch_profile", arguments={"session": "../../x"})
    c.refused(-32602, "at least 0", "tools/call", name="list_queries", arguments={"offset": -1})
    text, failed = c.call("report", source="no-such-session")
    check(failed and text.strip(), f"a source that does not exist: {text}")


def files(c):
    paths = [trace(0, 0), trace(1, 200)]
    profile = os.path.join(place, "profile")
    run("view", *paths, "--same-clock", "--output-format", "sqlite", "-o", profile)
    text, failed = c.call("report", source=paths[1])
    check(not failed and "matmul" in text, f"report: {text[:300]}")
    text, failed = c.call("query", query="SELECT COUNT(*) AS n FROM events WHERE name = 'matmul'", profile=profile)
    equal((text.split(), failed), (["n", "598"], False), "a query")
    for statement in ("DELETE FROM events", "ATTACH '/tmp/other.db' AS o", "SELECT 1; DROP TABLE events"):
        text, failed = c.call("query", query=statement, profile=profile)
        check(failed, f"{statement}: {text}")
    text, failed = c.call("query", query="SELECT name FROM events WHERE name LIKE 'red%' LIMIT 1", profile=profile)
    check(not failed and "red" in text and "\x1b" not in text and "\x07" not in text, f"control characters: {text!r}")
    names, failed = c.call("list_queries")
    check(not failed and "late_ranks" in names, f"queries: {names}")
    for name in (line.split()[0] for line in names.splitlines()):
        text, failed = c.call("query", query=name, profile=profile)
        check(not failed, f"{name}: {text[:300]}")
    text, failed = c.call("diff", base=paths[0], new=paths[1])
    check(text.strip() and "usage" not in text, f"diff: {text[:300]}")
    return profile


def long_answers(c, profile):
    sql = "SELECT worker, name, ts_ns, dur_ns FROM events ORDER BY worker, ts_ns"
    whole, _ = run("sql", sql, profile, "--format", "csv")
    got, at, calls = "", 0, 0
    while True:
        text, failed = c.call("query", query=sql, profile=profile, **({"offset": at} if at else {}))
        calls += 1
        check(not failed and len(text.encode()) <= 10200, f"an answer of {len(text.encode())} bytes")
        if "(cut: " not in text.splitlines()[-1]:
            got += text
            break
        got += text[:text.rindex("(cut: ")]
        at = int(text.split("with offset ")[-1].split(")")[0])
    check(calls > 2, f"{calls} calls")
    plain = "".join(ch for ch in whole if ch >= " " or ch == "\n")
    equal(len(got.splitlines()), len(plain.splitlines()), "the parts together are the whole answer")
    equal([l for l in got.splitlines() if "matmul" in l], [l for l in plain.splitlines() if "matmul" in l], "line by line")


def cluster():
    cluster = Cluster()
    cluster.aggregator()
    cluster.agent(0)
    cluster.workload(0).run(5)
    c = Client("--server", f"http://{cluster.http}", "--dir", os.path.join(place, "fetched"))
    until(lambda: "i-test0" in c.call("list_nodes")[0], "the node is in the list")
    for tool in ("list_jobs", "list_hangs", "list_sessions", "list_models"):
        text, failed = c.call(tool, meta=False)
        check(not failed and isinstance(json.loads(text), (dict, list)), f"{tool}: {text[:300]}")
    text, failed = c.call("show_job", job="none")
    check(failed and "none" in text, f"a job that does not exist: {text}")
    cluster.run("record", "--duration", "1s", "-o", os.path.join(place, "record"))
    text, failed = c.call("show_session", session="latest")
    check(not failed and "i-test0" in text, f"session: {text[:300]}")
    text, failed = c.call("show_clocks", session="latest")
    check(not failed and "i-test0" in text, f"clocks: {text[:300]}")
    text, failed = c.call("report", source="latest")
    check(not failed and "Verdict" in text, f"report: {text[:300]}")
    text, failed = c.call("fetch_profile", session="latest")
    if check(not failed and "The profile is in " in text, f"fetch: {text[:300]}"):
        text, failed = c.call("query", query="SELECT instance_id FROM clocks", profile=text.split("The profile is in ")[1].strip())
        check(not failed and "i-test0" in text, f"query: {text[:300]}")
    c.end()


def main():
    c = Client("--server", "http://127.0.0.1:1")
    described(revisions(c))
    wrong(c)
    long_answers(c, files(c))
    text, failed = c.call("list_sessions")
    check(failed and "127.0.0.1:1" in text, f"no aggregator: {text}")
    c.end()
    cluster()
    finish()


main()
