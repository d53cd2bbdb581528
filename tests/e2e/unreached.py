"""Tests an agent that cannot reach its aggregator. Within seconds it must log a message, show it in
a metric, and report it in /readyz. When the aggregator can be reached, all of these must be normal
again."""
import re
import socket
import urllib.error
import urllib.request

from lib import Cluster, check, equal, finish, free_port, need_daemons, until

need_daemons()


def ask(port, path):
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{port}{path}", timeout=30) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return 0, ""


def seconds(port):
    lines = [line.split()[1] for line in ask(port, "/metrics")[1].splitlines() if line.startswith("meridian_agent_unreached_seconds{")]
    return float(lines[0]) if lines else -1


with Cluster() as c:
    port = free_port()
    c.agent(0, metrics_port=port)  # before there is an aggregator
    until(lambda: "AGT-UNREACHED" in c.agents[0].text(), "a line")
    line = [text for text in c.agents[0].text().splitlines() if "AGT-UNREACHED" in text]
    equal(len(line), 1, "once, not once a turn")
    check(c.data in line[0] and re.search(r"for_s=([3-9]|\d\d)\b", line[0]) and "doctor" in line[0], f"what it says: {line}")
    until(lambda: seconds(port) >= 3, "the metric")
    status, text = ask(port, "/readyz")
    check(status == 503 and "the aggregator has not been reached" in text, f"readiness: {status} {text}")
    status, text = ask(port, "/healthz")
    check(status == 200 and "ok, but the aggregator has not been reached" in text, f"it answers: {status} {text}")
    c.aggregator()
    until(lambda: ask(port, "/readyz") == (200, "ok\n"), "ready when it is reached")
    equal(seconds(port), 0, "the metric when it is reached")
    c.daemon.kill()
    until(lambda: c.agents[0].text().count("AGT-UNREACHED") == 2, "a line when it is lost")
    equal(ask(port, "/readyz")[0], 503, "readiness when it is lost")
    # Somebody else's port.
    with socket.create_server(("127.0.0.1", 0)) as other:
        c.data = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        c.agent(1)
        until(lambda: "AGT-UNREACHED" in c.agents[1].text(), "a line about a port that does not answer")
finish()
