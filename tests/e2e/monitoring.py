"""deploy/monitoring names only metrics that the daemons serve, and Prometheus's own promtool accepts all of it."""
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request

from lib import BUILD, SOURCE, check, equal, finish, skip, tmp

work = tmp()
monitoring = os.path.join(SOURCE, "deploy/monitoring")
programs = []


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(name, *args):
    log = open(os.path.join(work, name + ".log"), "w")
    programs.append(subprocess.Popen([os.path.join(BUILD, "bin", name), *args], stdout=log, stderr=log))


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        return reply.read().decode()


def wait_for(what, ready, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.1)
    check(False, f"waited {seconds} s for {what}")


for need in ("meridian-aggregator", "meridian-agent"):
    if not os.path.exists(os.path.join(BUILD, "bin", need)):
        skip(f"{need} is not built")
data, control, http, agent, probes = free_port(), free_port(), free_port(), free_port(), free_port(socket.SOCK_DGRAM)
os.mkdir(os.path.join(work, "rings"), 0o700)
try:
    start("meridian-aggregator", "--store", os.path.join(work, "store"), "--data-listen", f"tcp://127.0.0.1:{data}", "--control-listen",
          f"tcp://127.0.0.1:{control}", "--http-listen", f"127.0.0.1:{http}", "--time-port", str(probes), "--disk-reserve", "0")
    start("meridian-agent", "--aggregator", f"tcp://127.0.0.1:{data}", "--control", f"tcp://127.0.0.1:{control}", "--instance-id", "sim-m",
          "--ring-dir", os.path.join(work, "rings"), "--simulated", "--metrics-port", str(agent))
    wait_for("the aggregator to know the node's clock", lambda: "meridian_node_clock_bound_seconds{" in metrics(http))
    wait_for("the agent", lambda: "meridian_agent_connected 1" in metrics(agent))
    texts = {"aggregator": metrics(http), "agent": metrics(agent)}
finally:
    for p in programs:
        p.terminate()
    for p in programs:
        p.wait(10)
    shutil.rmtree(work, ignore_errors=True)

bound = re.search(r'^meridian_node_clock_bound_seconds\{instance_id="sim-m"\} (\S+)$', texts["aggregator"], re.M)
check(bound and 0 < float(bound[1]) < 1, f"the bound of a clock on this machine, in seconds: {bound and bound[1]}")
served = {}  # name -> labels seen
for text in texts.values():
    for name, labels in re.findall(r"^(meridian_\w+)(?:\{(.*)\})? ", text, re.M):
        served.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
alerts = open(os.path.join(monitoring, "alerts.yml")).read()
dashboard = json.load(open(os.path.join(monitoring, "grafana-dashboard.json")))
panels = [p for p in dashboard["panels"] if p["type"] != "row"]
expressions = [t["expr"] for p in panels for t in p["targets"]] + re.findall(r"expr: *(?:>-\n)?((?:.|\n(?! *for:))*)", alerts)
check(len(expressions) > 20, "expressions were found")
for e in expressions:
    names = re.findall(r"\bmeridian_\w+", e)
    check(names and all(n in served for n in names), f"served: {[n for n in names if n not in served]} in {e}")
    for by in re.findall(r"by \((\w+)\)", e):
        check(any(by in served[n] for n in names if n in served), f"label {by} in {e}")
    check("rate(" not in e or "_total" in e, f"a rate of something that is no counter: {e}")
equal(dashboard["uid"], "meridian", "stable uid")
check(all(t["datasource"]["uid"] == "${datasource}" for p in panels for t in p["targets"]), "the data source is chosen")
equal(len({p["id"] for p in dashboard["panels"]}), len(dashboard["panels"]), "panel ids differ")

promtool = shutil.which("promtool")
if promtool is None:
    print("promtool is not installed (the Debian package prometheus): its checks were left out")
else:
    p = subprocess.run([promtool, "check", "rules", os.path.join(monitoring, "alerts.yml")], capture_output=True, text=True)
    equal(p.returncode, 0, f"promtool check rules: {p.stdout}{p.stderr}")
    for daemon, text in texts.items():
        p = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
        equal(p.returncode, 0, f"promtool check metrics of the {daemon}: {p.stdout}{p.stderr}")
    for t in [t["expr"] for q in panels for t in q["targets"]]:
        e = re.sub(r"\$__rate_interval", "5m", t)
        p = subprocess.run([promtool, "promql", "--experimental", "format", e], capture_output=True, text=True)
        check(p.returncode == 0 or "experimental" in p.stderr or "expected command" in p.stderr, f"promql: {e}: {p.stderr}")
finish()
