"""Tests `meridian demo` without namespaces, as any user can run it: what it prints about truth,
bound, order and loss, its files, and what --keep serves over HTTPS with a token. The limit of open
files is 1,024, as in a login shell. A busy machine may be too slow, in which case the demo prints a
message and ends with status 3."""
import json
import os
import re
import resource
import shutil
import signal
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request

from lib import MERIDIAN, Importer, check, equal, finish, load_json, need_daemons, run, tmp, until

need_daemons()
NODES, CORES, SECONDS = 3, 2, 2
work = tmp()
out, log = os.path.join(work, "out"), os.path.join(work, "log")
env = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_", "SIMNRT_"))}

# What a shell gives by default. The hard limit too: nothing may help itself to more.
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
_, err = run("demo", "--nodez", "2", want=2)
check("did you mean --nodes?" in err, f"mistyped option: {err}")

with open(log, "wb") as f:
    p = subprocess.Popen([MERIDIAN, "demo", "--no-namespaces", "--keep", "--nodes", str(NODES), "--cores", str(CORES), "--duration", f"{SECONDS}s",
                          "--timeout", "180s", "-o", out], stdout=f, stderr=subprocess.STDOUT, env=dict(env, TMPDIR=tempfile.mkdtemp(dir="/tmp")))


def text():
    with open(log, errors="replace") as f:
        return f.read()


try:
    until(lambda: "Ctrl-C ends" in text() or p.poll() is not None, "the demo has come to its end", 600)
    said = text()
    print(said)
    late = "slow here" in said
    check(re.search(r"^stands +stopped: rank 2 is stopped", said, re.M) or "no verdict about a stopped rank" in said, "the stopped rank is named while the job stands")
    check("no network namespaces" in said and "SIMULATED" in said, "what it is")
    check("DOES NOT HOLD" not in said and said.count(" holds") == NODES, "the equation of every node")
    names = [f"i-sim{i + 1:04d}" for i in range(NODES)]
    equal(re.findall(r"^(i-sim\d+) .* holds$", said, re.M), names, "the equation, node by node")
    rows = [line.split() for line in said.splitlines() if re.match(r"i-sim\d+ +-?\d{1,3}(,\d{3})+ +-?\d{1,3}(,\d{3})+ .* ns ", line)]
    equal([row[0] for row in rows], names, "nodes with a compared clock")
    check(all(" yes " in " ".join(row) + " " for row in rows), f"the bound holds the truth: {rows}")
    ahead = [[int(v.replace(",", "")) for v in row[1:3]] for row in rows]
    equal([round(true / 1e9) for true, _ in ahead], [0, -1, 1020], "the clocks are as wrong as they were made")
    check(all(abs(true - found) < 10**6 for true, found in ahead), f"and found to be: {ahead}")
    m = re.search(r"Order: (\d+) collectives of all (\d+) cores.*?wall clocks +(\d+)\n +as merged +(\d+)", said, re.S)
    if check(m, "the order of collectives"):
        whole, cores, by_wall, merged = map(int, m.groups())
        check(whole > 0 and cores == NODES * CORES, f"{whole} collectives of {cores} cores")
        equal(by_wall, whole, "collectives out of order by the nodes' wall clocks")
        check(merged * 20 <= whole, f"{merged} of {whole} collectives out of order as merged")
    for name in ("summary.txt", "report.txt"):
        with open(os.path.join(out, name)) as f:
            head = f.read().split("\n\n")[0]
        check(head in said, f"the beginning of {name}")
    check(f"core 0 of {names[1]} takes twice as long" in said and f"Straggler: core 0 of {names[1]} came last" in said, "the core that was made slow is the straggler")
    equal(said.count("open it with: "), len(re.findall("the same 10.000 s, because", said)) + 1, "each profile is said to open, once")
    check("is a part by time" not in said, "two profiles are not parts of one")
    profile = load_json(os.path.join(out, "summary.json"))
    notes = " ".join(profile["meridian"]["notes"])
    check(late or "was set by 1.0 hours" in notes, f"the step of a wall clock is reported: {notes}")
    profiles = [os.path.join(out, "system_profile.pftrace")]
    if "trigger     none" not in said:
        # On a busy machine a slow step may take so long that the job stands still. The recorders also freeze when the slow rank is named.
        check(re.search(rf"trigger +{NODES} nodes kept the same 10.000 s, because: .*(step took|stands still|the job is slow)", said), "why the recorders were frozen")
        profiles.append(os.path.join(out, "trigger", "system_profile.pftrace"))
    importer = Importer()
    for path, longest in zip(profiles, (SECONDS, 10)):
        bad, times, nodes = importer.query(path, Importer.BAD, "select max(ts) - min(ts), max(dur) from slice where dur >= 0",
                                           "select count(distinct upid) from process where name like '%train_loop%'")
        equal(bad, [], f"import errors of {path}")
        check(int(times[0][0]) < (longest + 3) * 10**9 and int(times[0][1]) < 60 * 10**9, f"{path}: no time is off by the step: {times}")
    # ---- What --keep serves, and where its files are, while it runs ----
    there = re.search(r"The results, also while this runs: (\S+)\nThe store, the certificates and the logs: (\S+)\nCtrl-C ends", said)
    if check(there, "where results, store and logs are, before Ctrl-C"):
        equal(there[1], out, "where the results are")
        missing = [f for f in ("store", "certs", "aggregator.log", "i-sim0001/agent.log") if not os.path.exists(os.path.join(there[2], f))]
        equal(missing, [], f"of {there[2]}")
    url, token, ca = (re.search(pattern, said)[1] for pattern in (r"The page: (\S+)", r"asks for a token: (\S+)", r"certificate is by: (\S+)"))
    tls = ssl.create_default_context(cafile=ca)

    def get(path, word=None):
        r = urllib.request.Request(url + path, headers={} if word is None else {"Authorization": "Bearer " + word})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)).open(r, timeout=60) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    equal(get("api/v1/nodes")[0], 401, "without a token")
    status, body = get("api/v1/nodes", open(token).read().strip())
    equal((status, len(json.loads(body or "{}").get("nodes", []))), (200, NODES), "with the token")
    check(b"<title>Meridian" in get("")[1], "the page")
    shell = dict(env, no_proxy="127.0.0.1,localhost", **dict(re.findall(r"(MERIDIAN_\w+)=(\S+)", said[said.index("export MERIDIAN_"):])))
    nodes = subprocess.run([MERIDIAN, "nodes", "--interval", "0"], capture_output=True, text=True, env=shell, timeout=60)
    equal((nodes.returncode, len(nodes.stdout.splitlines())), (0, NODES + 1), f"the commands, as it says: {nodes.stderr}")
finally:
    p.send_signal(signal.SIGINT)
    try:
        code = p.wait(60)
    except subprocess.TimeoutExpired:
        p.kill()
        code = p.wait()
check(code == 0 or code == 3 and (late or "trigger     none" in said or "INCOMPLETE" in said), f"exit status {code}: {text()[-400:]}")
kept = re.search(r"store, certificates and logs: (\S+)", text())
if check(kept and os.path.isdir(kept[1]), "where the rest is"):
    for name in names:  # whose processes have ended before
        with open(os.path.join(kept[1], name, "agent.log")) as f:
            check("AGT-END" in f.read().splitlines()[-1], f"the agent of {name} ends in order: its last words")
shutil.rmtree(work, ignore_errors=True)
if kept:
    shutil.rmtree(os.path.dirname(kept[1]), ignore_errors=True)
finish()
