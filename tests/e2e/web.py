"""Tests the web page in a real Chromium, with a real aggregator, two simulated nodes and a
workload. tests/e2e/web.mjs does what a user would do. Screenshots in light and dark mode remain in
build/web/ for inspection."""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

from lib import BUILD, SOURCE, check, equal, finish, free_port, need_speed, skip, tmp
from wait import within

need_speed()
chromium = os.environ.get("MERIDIAN_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
if chromium is None:
    skip("chromium is not installed (the Debian package chromium)")
modules = os.path.join(BUILD, "playwright")
p = subprocess.run(["sh", os.path.join(SOURCE, "tests/e2e/fetch_playwright.sh"), modules], capture_output=True, text=True, timeout=120)
if p.returncode == 77:
    skip(p.stdout.strip().replace("skipped: ", ""))
equal(p.returncode, 0, f"playwright-core: {p.stdout}{p.stderr}")

TOKEN = "web-test-control-token-0123456789"
READ = "web-test-reading-token-0123456789"
OWNER = "web-test-owner-token-0123456789"
work = tmp()
programs = []


def start(*args, **env):
    log = open(os.path.join(work, f"log{len(programs)}"), "w")
    programs.append(subprocess.Popen(args, stdout=log, stderr=log, env=dict(os.environ, **env), cwd=work))


def ask(path, token=TOKEN, **headers):
    r = urllib.request.Request(f"http://127.0.0.1:{http}{path}", headers={"Authorization": "Bearer " + token, **headers})
    try:
        with urllib.request.urlopen(r, timeout=60) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def wait_for(what, ready, seconds=60):
    def is_so():
        try:
            return ready()
        except OSError:
            return False
    check(within(seconds, is_so), f"waited {seconds} s for {what}")


def logs():
    for i in range(len(programs)):
        with open(os.path.join(work, f"log{i}")) as f:
            print(f"--- {programs[i].args[0]}\n{f.read()[-1500:]}")


data, control, http, clock = (free_port() for _ in range(4))
tokens = os.path.join(work, "tokens.json")
with open(tokens, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
    json.dump({"read": [READ], "control": [TOKEN], "agent": ["web-test-agent-token-0123456789"]}, f)
agent_token = os.path.join(work, "agent.token")
with open(agent_token, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
    f.write("web-test-agent-token-0123456789\n")


def store_session(id, job, nodes, **more):
    """A session that was over before the aggregator began."""
    folder = os.path.join(work, "store", "sessions", id)
    os.makedirs(folder, mode=0o700)
    with open(os.path.join(folder, "session.json"), "w") as f:
        json.dump({"version": 1, "id": id, "name": f"job {job}", "state": "complete", "created_ns": 1767225600 * 10**9, "go_ns": 1767225600 * 10**9,
                   "stop_ns": 1767225601 * 10**9, "jobs": [{"job": str(job), "user": "alice"}], "job": {"key": f"trn//{job}/0", "uid": 1000, **more},
                   "nodes": [{"instance_id": node, "state": state} for node, state in nodes.items()]}, f)


store_session("20260101-000000-0001", 4711, {}, owner_keys=[hashlib.sha256(OWNER.encode()).hexdigest()])
store_session("20260101-000000-0002", 4712, {"i-1": "flushed", "i-2": "lost"}, owner_keys=["0" * 64])
try:
    start(os.path.join(BUILD, "bin/meridian-aggregator"), "--store", os.path.join(work, "store"), "--data-listen", f"tcp://127.0.0.1:{data}",
          "--control-listen", f"tcp://127.0.0.1:{control}", "--http-listen", f"127.0.0.1:{http}", "--time-port", str(clock), "--tokens", tokens,
          "--disk-reserve", "0", "--advanced.sync", "none", "--advanced.arm-timeout", "20s")
    wait_for("the aggregator", lambda: ask("/healthz")[0] == 200)
    for node in ("sim-a", "sim-b"):
        rings, watched, written = (os.path.join(work, name + node) for name in ("rings-", "watched-", "written-"))
        for folder in (rings, watched, written):
            os.mkdir(folder, 0o700)
        start(os.path.join(BUILD, "bin/meridian-agent"), "--aggregator", f"tcp://127.0.0.1:{data}", "--control", f"tcp://127.0.0.1:{control}",
              "--instance-id", node, "--ring-dir", rings, "--no-containers", "--no-imds", "--advanced.simulated", "--token-file", agent_token, "--sample", "500ms",
              "--watch", watched, "--advanced.stable", "200ms")
        start(os.path.join(BUILD, "bin/train_loop"), "--steps", "1000000", "--cores", "4", "--quiet", "--straggler", "2:1.5",
              LD_PRELOAD=os.path.join(BUILD, "lib/libmeridian.so"), MERIDIAN_CAPTURE="all", MERIDIAN_RING_DIR=rings, MERIDIAN_JOB="job-" + node,
              SIMNRT_JOB=f"{os.path.basename(work)}.{node}", MERIDIAN_DEVICE_PROFILES=written)
    wait_for("both nodes", lambda: len(json.loads(ask("/api/v1/nodes")[2])["nodes"]) == 2)

    # ---- The files themselves ----
    status, headers, body = ask("/", token="")
    equal(status, 200, "the page needs no token")
    check("default-src 'self'" in headers["Content-Security-Policy"] and "unsafe" not in headers["Content-Security-Policy"], "the policy is strict")
    equal(ask("/", **{"If-None-Match": headers["ETag"]})[0], 304, "a known page is not sent again")
    check(b"<script>" not in body and b"style=" not in body, "nothing is inline")
    for path, status in (("/web/../http.c", 400), ("/web/%2e%2e/http.c", 400), ("/web/absent.js", 404), ("/web/", 404)):
        equal(ask(path)[0], status, path)
    equal(ask("/api/v1/nodes", token="")[0], 401, "the data needs a token")

    # A device profile as a viewer would export it: made by ours, of a generated capture directory.
    capture, viewed = os.path.join(work, "capture"), os.path.join(work, "viewed")
    subprocess.run([sys.executable, os.path.join(SOURCE, "tests/e2e/gen_capture.py"), capture, "2"], check=True, timeout=60)
    subprocess.run([os.path.join(BUILD, "bin/meridian"), "view", "-d", capture, "-o", viewed], check=True, timeout=60, stdout=subprocess.DEVNULL)
    device = sorted(glob.glob(os.path.join(viewed, "device_profile_model_*.pftrace")))[0]

    # ---- In the browser ----
    env = dict(os.environ, MODULES=modules, CHROMIUM=chromium, PAGE=f"http://127.0.0.1:{http}/", TOKEN=TOKEN, READ_TOKEN=READ, OWNER_TOKEN=OWNER,
               SHOTS=os.path.join(BUILD, "web"), WATCHED=os.path.join(work, "watched-sim-a"), DEVICE_PROFILE=device)
    p = subprocess.run(["node", os.path.join(SOURCE, "tests/e2e/web.mjs")], env=env, capture_output=True, text=True, timeout=600)
    print(p.stdout, p.stderr[-3000:])
    if p.returncode == 77:
        skip(p.stdout.strip())
    if not check(p.returncode == 0, "the page in Chromium"):
        logs()
finally:
    for program in reversed(programs):
        program.terminate()
    for program in programs:
        try:
            program.wait(60)
        except subprocess.TimeoutExpired:
            program.kill()
    shutil.rmtree(work, ignore_errors=True)
finish()
