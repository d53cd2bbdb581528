"""Tests the metrics of both daemons: text 0.0.4 and OpenMetrics by the Accept header, protected by
tokens. promtool must accept them, and a real Prometheus scrapes them and loads the alert rules.
deploy/monitoring must name only metrics that exist."""
import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

from lib import SOURCE, Program, check, equal, finish, free_port, need_daemons, tmp, until
from service import Service, problem

OPEN = "application/openmetrics-text"
# What Prometheus 2.42 sends.
PROMETHEUS = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
ACCEPTS = ((None, False), ("*/*", False), ("text/plain", False), (OPEN, True), (OPEN + ";version=1.0.0", True), (PROMETHEUS, True),
           ("text/plain;version=0.0.4;q=0.5, application/openmetrics-text;q=0.4", False), (OPEN + ";q=0", False), ("APPLICATION/OPENMETRICS-TEXT", True),
           ("application/json", False), (";;;,,q=,", False), ("text/*;q=0.9, " + OPEN + ";q=0.8", False))
TOKEN = "metrics-token-0123456789"
need_daemons()
monitoring = os.path.join(SOURCE, "deploy/monitoring")


def parse(text, open_metrics, who):
    """{sample name: labels seen}; complains about what the format forbids."""
    samples, family, kind, unit, seen, done = {}, None, None, None, set(), set()
    lines = text.split("\n")
    equal(lines.pop(), "", f"{who}: ends with a line end")
    if open_metrics:
        equal(lines.pop(), "# EOF", f"{who}: the last line")
    for line in lines:
        if m := re.fullmatch(r"# (HELP|TYPE|UNIT) (\w+) (.+)", line):
            if m[2] != family:
                check(m[2] not in done, f"{who}: {m[2]} comes twice")
                family, kind, unit = m[2], None, None
                done.add(family)
            kind = m[3] if m[1] == "TYPE" else kind
            unit = m[3] if m[1] == "UNIT" else unit
            check(m[1] != "UNIT" or open_metrics and family.endswith("_" + m[3]), f"{who}: {line}")
            continue
        m = re.fullmatch(r"(\w+)(?:\{(.*)\})? (-?[0-9.]+)", line)
        if not check(m, f"{who}: {line!r}"):
            continue
        want = {"gauge": [family], "counter": [family + "_total" if open_metrics else family], "histogram": [family + s for s in ("_bucket", "_sum", "_count")]}
        check(kind in want and m[1] in want[kind], f"{who}: {line} in the {kind} {family}")
        check(kind != "counter" or m[1].endswith("_total"), f"{who}: counter {m[1]} without _total")
        check(not re.search(r"_(seconds|bytes)(_total|_sum|_bucket|_count)?$", m[1]) or not open_metrics or unit, f"{who}: {m[1]} has no # UNIT")
        check((m[1], m[2]) not in seen, f"{who}: {m[1]}{{{m[2]}}} comes twice")
        seen.add((m[1], m[2]))
        samples.setdefault(m[1], set()).update(re.findall(r'(\w+)="', m[2] or ""))
    return samples


def samples_of(text):
    return set(re.findall(r"^((?:meridian|process)_\w+)", text, re.M))


def told_by(text):
    """Also the families of certificates and jobs that are announced: without TLS there is no certificate (tests/e2e/enrol.py has some), and
    without ranks there is no job (tests/e2e/job_list.py has some)."""
    return samples_of(text) | set(re.findall(r"^# TYPE (meridian_(?:(?:node_)?certificate|job)_\w+) gauge$", text, re.M))


def negotiate(get, who):
    """The texts in both formats."""
    texts = {}
    for accept, open_metrics in ACCEPTS:
        r = get({} if accept is None else {"Accept": accept})
        equal(r.status, 200, f"{who}: {accept}")
        want = OPEN + "; version=1.0.0; charset=utf-8" if open_metrics else "text/plain; version=0.0.4; charset=utf-8"
        equal(r["Content-Type"], want, f"{who}: type for {accept}")
        check("accept" in (r["Vary"] or "").lower(), f"{who}: Vary")
        texts[open_metrics] = r.body.decode()

    def alike():
        texts.update({o: get({"Accept": OPEN} if o else {}).body.decode() for o in (False, True)})
        return samples_of(texts[False]) == samples_of(texts[True])
    until(alike, f"{who}: no metric begins between two scrapes")
    samples = [parse(texts[o], o, f"{who}{' as OpenMetrics' if o else ''}") for o in (False, True)]
    equal(sorted(samples[0]), sorted(samples[1]), f"{who}: both formats have the same samples")
    return texts, samples[0]


def bound_in(text):
    found = re.search(r'^meridian_node_clock_bound_seconds\{instance_id="i-test0"\} (\S+)$', text, re.M)
    return float(found[1]) if found else 0


def prometheus():
    """A real one scrapes both daemons."""
    program = shutil.which("prometheus")
    if program is None:
        print("prometheus is not installed (the Debian package prometheus): no real scrape")
        return
    port = free_port()
    config = {"global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}, "rule_files": [os.path.join(monitoring, "alerts.yml")],
              "scrape_configs": [{"job_name": "aggregator", "authorization": {"credentials_file": service.path("control.token")}, "static_configs": [{"targets": [service.http]}]},
                                 {"job_name": "agent", "authorization": {"credentials_file": service.path("metrics.token")}, "static_configs": [{"targets": [f"127.0.0.1:{agent}"]}]}]}
    with open(service.path("prometheus.yml"), "w") as f:
        json.dump(config, f)  # JSON is YAML
    p = service.keep(Program(service.path("prometheus.log"), [program, "--config.file", service.path("prometheus.yml"), "--storage.tsdb.path", service.folder("tsdb"),
                                                              "--web.listen-address", f"127.0.0.1:{port}", "--log.level=warn"], stdout=subprocess.DEVNULL))

    def api(path, **query):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as r:
                return json.load(r)["data"]
        except OSError:
            check(p.running(), "Prometheus runs")
            return None

    def value(expr):
        data = api("query", query=expr)
        return [float(r["value"][1]) for r in data["result"]] if data else []

    until(lambda: value("sum(up)") == [2.0], "Prometheus scrapes both")
    until(lambda: value('meridian_node_up{instance_id="i-test0"}') == [1.0], "the node is up")
    until(lambda: value("sum(meridian_agent_acknowledgement_seconds_count)") > [0.0], "acknowledgements are measured")
    check(value("max(meridian_node_clock_bound_seconds)") < [1.0], "the clock's bound is in seconds")
    q = until(lambda: value("histogram_quantile(0.99, sum by (le) (meridian_agent_acknowledgement_seconds_bucket))"), "a quantile of them")
    check(q and 0 < q[0] < 60, f"99 of 100 acknowledgements within {q} s")
    until(lambda: {t["labels"]["job"]: (t["health"], t["lastError"]) for t in (api("targets") or {"activeTargets": []})["activeTargets"]} == {"aggregator": ("up", ""), "agent": ("up", "")},
          "both targets are up, without an error")
    units = until(lambda: (api("metadata", metric="meridian_stored_bytes") or {}).get("meridian_stored_bytes"), "metadata")[0]
    equal((units["type"], units["unit"]), ("counter", "bytes"), "what Prometheus learned from OpenMetrics")
    until(lambda: {r["health"] for g in (api("rules") or {"groups": []})["groups"] for r in g["rules"]} == {"ok"}, "every alert rule is evaluated")
    equal(value('sum(ALERTS{alertstate="firing"})'), [], "no alert fires on a healthy cluster")


with Service() as service:
    agent = free_port()
    service.aggregator()
    until(service.answers, "the aggregator answers")
    workload = service.workload(0)
    service.agent(0, metrics_port=agent, metrics_token_file=service.secret("metrics.token", TOKEN))
    until(lambda: b"meridian_node_clock_bound_seconds{" in service.read("/metrics").body, "the aggregator knows the node's clock")

    def of_agent(headers=None, path="/metrics", method="GET", token=TOKEN):
        return service.ask(method, path, token=token, headers=headers, port=agent)

    # The agent's port: loopback only, or a token.
    equal([r.status for r in (of_agent(token=None), of_agent(token="wrong-" + TOKEN), of_agent(token=TOKEN[:-1]), of_agent())], [401, 401, 401, 200], "tokens of the agent's port")
    check(problem(of_agent(token=None)) and of_agent(token=None)["WWW-Authenticate"], "what a scraper without a token is told")
    equal(of_agent(path="/healthz", token=None).body, b"ok\n", "health needs no token")
    equal(of_agent(path="/readyz", token=None).body, b"ok\n", "nor does readiness")
    check(problem(of_agent(path="/x")) and problem(of_agent(method="POST")), "other paths, other methods")
    head, whole = of_agent(method="HEAD"), of_agent()
    equal((head.status, head.body, head["Content-Type"]), (200, b"", whole["Content-Type"]), "HEAD")
    for address, token, said in (("0.0.0.0", None, "--metrics-token-file"), ("::", None, "--insecure"), ("localhost", None, "token"), ("nowhere", "metrics.token", "numeric")):
        p = service.agent(9, instance="i-refused", metrics_port=free_port(), metrics_address=address, **({"metrics_token_file": service.path(token)} if token else {}), log="refused.log")
        until(lambda: not p.running(), f"an agent with metrics on {address} ends")
        check(p.p.returncode == 1 and said in p.text(), f"metrics on {address}: {p.p.returncode} {p.text()}")
        os.remove(p.log)
    id = service.start()
    workload.emit(1000)
    until(lambda: service.session(id)["events"] >= 1000, "events are stored")
    service.stop(id)
    until(lambda: not re.search(rb"^meridian_agent_acknowledgement_seconds_count\S* 0$", of_agent().body, re.M), "frames were acknowledged")
    for wanted in (os.path.join(monitoring, name) for name in ("alerts.yml", "grafana-dashboard.json")):
        with open(wanted) as f:
            names = set(re.findall(r"\b(?:meridian|process)_\w+", f.read()))
        until(lambda: not names - told_by(service.read("/metrics").body.decode()) - told_by(of_agent().body.decode()), f"what {wanted} names is served")
    until(lambda: 0 < bound_in(service.read("/metrics").body.decode()) < 1, "the clock of the node is known within a second")
    texts, served = {}, {}
    for who, get in (("aggregator", lambda h: service.read("/metrics", headers=h)), ("agent", of_agent)):
        texts[who], samples = negotiate(get, who)
        served.update(samples)
        served.update({name: set() for name in told_by(texts[who][False]) if name not in served})
    # Slow or silent clients hold neither the agent's loop nor each other up.
    idle = []
    for i in range(20):
        http, service.http = service.http, f"127.0.0.1:{agent}"
        idle.append(service.dial())
        service.http = http
        idle[-1].sendall(b"GET /metrics HTT")
    equal(of_agent().status, 200, "with 20 connections that say half a request")
    for s in idle:
        s.close()
    prometheus()

check(0 < bound_in(texts["aggregator"][False]) < 1, f"the bound of a clock on this machine, in seconds: {bound_in(texts['aggregator'][False])}")
alerts = open(os.path.join(monitoring, "alerts.yml")).read()
dashboard = json.load(open(os.path.join(monitoring, "grafana-dashboard.json")))
panels = [p for p in dashboard["panels"] if p["type"] != "row"]
expressions = [t["expr"] for p in panels for t in p["targets"]] + re.findall(r"expr: *(?:>-\n)?((?:.|\n(?! *for:))*)", alerts)
check(len(expressions) > 20, "expressions were found")
for e in expressions:
    names = re.findall(r"\b(?:meridian|process)_\w+", e)
    check(names and all(n in served for n in names), f"served: {[n for n in names if n not in served]} in {e}")
    for by in re.findall(r"by \((\w+)\)", e):
        check(any(by in served[n] for n in names if n in served), f"label {by} in {e}")
    check("rate(" not in e or re.search(r"_total|_bucket", e), f"a rate of something that is no counter: {e}")
equal(dashboard["uid"], "meridian", "stable uid")
check(all(t["datasource"]["uid"] == "${datasource}" for p in panels for t in p["targets"]), "the data source is chosen")
equal(len({p["id"] for p in dashboard["panels"]}), len(dashboard["panels"]), "panel ids differ")

promtool = shutil.which("promtool")
if promtool is None:
    print("promtool is not installed (the Debian package prometheus): its checks were left out")
else:
    p = subprocess.run([promtool, "check", "rules", os.path.join(monitoring, "alerts.yml")], capture_output=True, text=True)
    equal(p.returncode, 0, f"promtool check rules: {p.stdout}{p.stderr}")
    p = subprocess.run([promtool, "test", "rules", os.path.join(monitoring, "alerts_test.yml")], capture_output=True, text=True)
    equal(p.returncode, 0, f"promtool test rules of the shipped cases: {p.stdout}{p.stderr}")
    # Certificates a day after the epoch of promtool's clock: which of them are told, by the days that they began before and end after.
    rows = {"fine": (100, 40), "renewed-late": (1, 6), "short": (1, 2), "third": (60, 20), "soon": (80, 6), "over": (80, -1)}
    series, days = [], 1
    for name, (before, after) in rows.items():
        for family in ('meridian_certificate_{}_timestamp_seconds{{kind="certificate",name="%s"}}', 'meridian_certificate_{}_timestamp_seconds{{kind="authority",name="%s"}}',
                       'meridian_node_certificate_{}_timestamp_seconds{{instance_id="%s"}}'):
            for which, at in (("begin", days - before), ("expiry", days + after)):
                series.append({"series": family.format(which) % name, "values": f"{at * 86400}x{days * 288 + 1}"})
    series += [{"series": 'meridian_certificate_file_readable{option="tls-ca"}', "values": f"0x{days * 288 + 1}"}, {"series": 'meridian_certificate_file_readable{option="tls-cert"}', "values": f"1x{days * 288 + 1}"}]
    fires = {"MeridianCertificateExpires": {"soon", "over"}, "MeridianNodeCertificateExpires": {"soon", "over"}, "MeridianAuthorityExpires": set(rows) - {"fine"}, "MeridianCertificateFileUnreadable": {"tls-ca"}}
    tests = [{"expr": f'count by (alertname, name, instance_id, option) (ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": f"{days * 24}h",
              "exp_samples": [{"labels": f'{{alertname="{alert}",{"instance_id" if "Node" in alert else "option" if "File" in alert else "name"}="{name}"}}', "value": 1} for name in sorted(names)]}
             for alert, names in fires.items()]
    work = tmp()
    with open(os.path.join(work, "rules.json"), "w") as f:
        json.dump({"rule_files": [os.path.join(monitoring, "alerts.yml")], "evaluation_interval": "5m", "tests": [{"interval": "5m", "input_series": series, "promql_expr_test": tests}]}, f)
    p = subprocess.run([promtool, "test", "rules", f.name], capture_output=True, text=True)
    shutil.rmtree(work)
    equal(p.returncode, 0, f"promtool test rules: {p.stdout}{p.stderr}")
    for daemon, text in texts.items():
        p = subprocess.run([promtool, "check", "metrics"], input=text[False], capture_output=True, text=True)
        equal(p.returncode, 0, f"promtool check metrics of the {daemon}: {p.stdout}{p.stderr}")
    for t in [t["expr"] for q in panels for t in q["targets"]]:
        e = re.sub(r"\$__rate_interval", "5m", t)
        p = subprocess.run([promtool, "promql", "--experimental", "format", e], capture_output=True, text=True)
        check(p.returncode == 0 or "experimental" in p.stderr or "expected command" in p.stderr, f"promql: {e}: {p.stderr}")
finish()
