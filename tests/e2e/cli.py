"""Tests what a new user of the command line meets: help, typing errors, results that already exist,
broken input, and the exit status."""
import fcntl
import gzip
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

from lib import MERIDIAN, SOURCE, check, equal, finish, free_port, run, tmp

work = tmp()


def manual():
    """docs/reference/cli.md names every command's options as they are."""
    with open(os.path.join(SOURCE, "docs/reference/cli.md")) as f:
        text = f.read()
    examples = re.findall(r"(?m)`(meridian [^`]+)`|^(meridian .+)$", text)
    for example in (a or b for a, b in examples):
        words = example.split("#")[0].split()
        if not words[1].isalpha() or not words[1].islower():
            continue
        out, _ = run(words[1], "--help")
        for option in (w.split("=")[0] for w in words[2:] if w.startswith("--") and not w.startswith("--help=")):
            check(option in out, f"docs/reference/cli.md: meridian {words[1]} has no {option}")
    check(len(examples) >= 14, f"{len(examples)} examples")
    for command in ("nodes", "sessions", "start", "status", "stop", "record", "trigger", "fetch", "clocks", "doctor", "certs"):
        check(f"| `{command}`" in text, f"docs/reference/cli.md has a row for {command}")




def write(name, content):
    path = os.path.join(work, name)
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    return path


def events(n, start=1700000000000000):
    return [{"ph": "X", "name": f"op{i % 7}", "cat": "cpu_op", "pid": 1, "tid": 2, "ts": start + 10 * i, "dur": 5,
             "args": {"big": 9007199254740993 + i}} for i in range(n)]


good = write("good.json", json.dumps({"traceEvents": events(1000)}))

# ---- help and typing errors ----
manual()
out, _ = run("--version")
check(out.startswith("meridian "), "version")
out, _ = run("--help")
check("view" in out and "open" in out, "help lists commands")
out, _ = run("view", "--help")
for option in ("--session-dir", "--output-format", "--system-trace-primary-group", "--force", "--start"):
    check(option in out, f"view --help names {option}")
equal(run("help", "view")[0], out, "meridian help view")
_, err = run("help", "veiw", want=2)
check("did you mean view?" in err, f"help of a mistyped command: {err}")
commands = [line.split()[0] for line in run("--help")[0].splitlines() if line.startswith("  ")]
check(len(commands) >= 16, f"commands: {commands}")
for words in [[MERIDIAN, c] for c in commands] + [[os.path.join(os.path.dirname(MERIDIAN), p)] for p in ("meridian-agent", "meridian-aggregator")]:
    if os.path.exists(words[0]):
        text = subprocess.run([*words, "--help"], capture_output=True, text=True, timeout=60)
        equal((text.returncode, text.stderr, [line for line in text.stdout.splitlines() if len(line) > 100]), (0, "", []), f"{words}: lines beyond 100 columns")
        p = subprocess.run([*words, "--no-such-option"], capture_output=True, text=True, timeout=60)
        check(p.returncode == 2 and "--no-such-option" in p.stderr, f"{words}: an unknown option: {p.returncode} {p.stderr}")
_, err = run("join", want=2)
check("--instance-id" in err, f"join without a node: {err}")
for words, said in ((["certs", "agent"], "needs the node's instance id"), (["certs", "shwo"], "did you mean show?"),
                    (["record", "-o", good], f"{good} is a file"), (["nodes", "--ca-file", "/nonexistent/ca.pem"], "cannot read --ca-file /nonexistent/ca.pem"),
                    (["report", "/nonexistent/x.json"], "/nonexistent/x.json")):
    _, err = run(*words, want=None)
    check(said in err and "session" not in err, f"meridian {words}: {err}")
# What others call an option: the vendor's tools, other commands of ours, and what one would guess.
for words, said in ((["view", good, "--format", "json"], "--output-format"), (["record", "--nodes", "i-1"], "--instance-id"), (["record", "--job-id", "3"], "--job"),
                    (["record", "--time", "10s"], "--duration"), (["record", "--wait-for", "3s"], "--wait"), (["record", "--neuron-core", "0"], "--core"),
                    (["fetch", "1", "--start-time", "2"], "--start"), (["fetch", "1", "--from", "2"], "--start"), (["fetch", "1", "--to", "2"], "--end"),
                    (["fetch", "1", "--pid", "2"], "--process-id"), (["fetch", "1", "--filter-process", "2"], "--process-id"), (["view", good, "--pid", "2"], "--filter-process"), (["fetch", "1", "--outdir", "x"], "--output-dir"),
                    (["report", good, "--output-format", "json"], "--json or --html"), (["report", good, "--format", "html"], "--json or --html"), (["sessions", "--format", "json"], "--json"), (["models", "--output", "json"], "--json"),
                    (["sql", "q", good, "--output-format", "csv"], "--format"), (["sql", "q", good, "--fmt", "csv"], "--format"),
                    (["sql", "q", good, "--csv"], "--format csv"), (["sql", "q", good, "-markdown"], "--format markdown"),
                    (["sessions", "--last", "3"], "--limit"), (["sessions", "--lmt", "3"], "--limit"), (["stop", "--al"], "--all"), (["stop", "--every"], "--all"), (["inspect", "--num-events", "3", "--", "true"], "--num-trace-events"),
                    (["view", good, "--system-trace-filter-core", "0"], "--system-trace-filter-neuron-core")):
    _, err = run(*words, want=2)
    check(err.strip().endswith(f": did you mean {said}?"), f"meridian {words}: {err!r} does not name {said} alone")
for command in (["record"], ["fetch", "1"]):  # the vendor's name of --format is known there
    _, err = run(*command, "--output-format", "jsn,csv", want=2)
    check("jsn" in err and "did you mean json" in err, f"meridian {command} --output-format: {err}")
_, err = run("view", good, "--data-viewer", "neuron", want=2)
check("coming from neuron-profile" in err and "--output-format" in err, f"view --data-viewer: {err}")
with socket.create_server(("127.0.0.1", 0)) as other:  # it speaks something else
    def speak():
        with other.accept()[0] as s:
            s.recv(1000)
            s.sendall(b"\0SP\0\0\x31\0\0")
    speaker = threading.Thread(target=speak)
    speaker.start()
    _, err = run("nodes", "--server", f"http://127.0.0.1:{other.getsockname()[1]}", want=1)
    speaker.join()
    check("did not answer with HTTP" in err, f"a wrong port: {err}")
for path, said, status in (("/nonexistent/session", "cannot read /nonexistent/session: No such file", 1),
                           (good, "is a file: give the directory of a session", 2), (work, "has no clocks", 1)):
    _, err = run("clocks", path, want=status)
    check(path in err and said in err, f"clocks of a path that is no session: {err}")
# The words of neuron-profile and neuron-explorer are answered with what to do here.
for words, said in ((["capture", "-n", "x.neff"], "meridian inspect -o DIR -- COMMAND"), (["view", "-n", "x.neff", "-s", "x.ntff"], "meridian view -d DIR"),
                    (["view", good, "--port", "3001", "--output-format", "json"], "add perfetto"), (["view", "-d", work, "--output-format", "db"], "no database"),
                    (["view", "--db-endpoint=x"], "no database"), (["db"], "no database")):
    _, err = run(*words, want=2)
    check(said in err, f"meridian {words}: {err}")
_, err = run("veiw", want=2)
check("did you mean view?" in err, f"mistyped command: {err}")
_, err = run("view", "--ouput-dir", "x", good, want=2)
check("did you mean --output-dir?" in err, f"mistyped option: {err}")
_, err = run("view", "--ouput", "x", good, want=2)
check("did you mean --output-format or --output-dir?" in err, f"mistyped part of an option: {err}")
for program, word, near in (("meridian-agent", "--agregator", "--aggregator"), ("meridian-aggregator", "--listn", "--data-listen")):
    p = subprocess.run([os.path.join(os.path.dirname(MERIDIAN), program), word, "x"], capture_output=True, text=True, timeout=60)
    check(p.returncode == 2 and f"did you mean {near}" in p.stderr, f"{program} {word}: {p.stderr}")
for program in [[MERIDIAN], *[[MERIDIAN, c] for c in commands], *[[os.path.join(os.path.dirname(MERIDIAN), p)] for p in ("meridian-agent", "meridian-aggregator")]]:
    for word, near in (("--hepl", "--help"), ("--halp", "--help"), ("--verison", "--version"), ("-hepl", "--help"), ("-help", "--help"), ("-version", "--version")):
        p = subprocess.run([*program, word], capture_output=True, text=True, timeout=60)
        check(p.returncode == 2 and f"did you mean {near}" in p.stderr, f"{program} {word}: {p.returncode} {p.stderr}")
    p = subprocess.run([*program, "--version"], capture_output=True, text=True, timeout=60)
    check(p.returncode == 0 and p.stdout.startswith("meridian"), f"{program} --version: {p.stdout} {p.stderr}")
for program, words, wanted in (("meridian-aggregator", ["--merge-formats", "parket"], "'parket' is not an output format: did you mean parquet?"),
                               ("meridian-aggregator", ["--http-listen", "17"], "--http-listen 17 is not HOST:PORT"),
                               ("meridian-aggregator", ["--data-listen", "elsewhere"], "--data-listen 'elsewhere' is not an address: expected tcp://HOST:PORT"),
                               ("meridian-agent", ["--aggregator", "tls+tcp://127.0.0.1:1", "--tls-ca", work + "/no-ca.pem"], "no-ca.pem: No such file or directory")):
    p = subprocess.run([os.path.join(os.path.dirname(MERIDIAN), program), *words, *(["--store", work + "/mistyped"] if program == "meridian-aggregator" else ["--no-imds"])],
                       capture_output=True, text=True, timeout=60)
    check(p.returncode != 0 and wanted in p.stderr, f"{program} {words}: {p.returncode} {p.stderr}")
_, err = run("view", "--output-format", "perfeto", good, want=2)
check("did you mean perfetto" in err, f"mistyped format: {err}")
_, err = run("view", "--system-trace-primary-group", "instance", good, want=2)
check("instance_id" in err, f"mistyped group: {err}")
_, err = run("view", want=2)
check("nothing to read" in err, f"no input: {err}")
_, err = run("view", os.path.join(work, "absent.json"), want=1)
check("absent.json" in err, f"absent file: {err}")

# ---- "$NAME" of a shell that has no NAME: never everything, never another folder ----
for words in (["view", good, "-o", ""], ["start", "--job", ""], ["record", "--rank=", "--duration", "1s"], ["fetch", "latest", "--instance-id", ","],
              ["nodes", "--forget", ""], ["invite", "", "--server", "http://127.0.0.1:1"]):
    _, err = run(*words, want=2)
    check("empty" in err, f"{' '.join(words)}: {err}")
_, err = run("stop", "", "--server", "http://127.0.0.1:1", want=2)
check("the session's name is empty" in err, f"stop without a name: {err}")
os.symlink(os.path.join(work, "nowhere"), os.path.join(work, "dangling"))
_, err = run("view", good, "-o", os.path.join(work, "dangling"), want=1)
check("is a link to a folder that does not exist" in err, f"a link to nothing: {err}")

# ---- results ----
dest = os.path.join(work, "p")
out, _ = run("view", good, "-o", dest, "--output-format", "perfetto,json,summary-text")
check("system_profile.pftrace" in out and "meridian open" in out, "says what was written and how to open it")
check("op3" in out, "the summary is on the terminal")
_, err = run("view", good, "-o", dest, "--output-format", "perfetto", want=1)
check("--force" in err, f"existing results are kept: {err}")
run("view", good, "-o", dest, "--output-format", "perfetto", "--force")
doc = json.load(open(os.path.join(dest, "system_profile.json")))
equal(len(doc["trace_events"]), 1000, "events in the JSON")
check(not [n for n in os.listdir(dest) if n.endswith(".part")], "no partial files")
left = ["system_profile.pftrace.0123abcd.part", "system_profile.2.pftrace.0123abcd.part", "profile.sqlite.0123abcd.part"]  # of a run that was killed
mine = ["system_profile.pftrace.part", "notes.0123abcd.part", "system_profile.json.0123abcd.part"]  # the user's, and a format that is not written now
for name in left + mine:
    open(os.path.join(dest, name), "w").close()
run("view", good, "-o", dest, "--output-format", "perfetto,sqlite", "--split", "20k", "--force")
equal(sorted(n for n in os.listdir(dest) if n.endswith(".part")), sorted(mine), "what a killed run left of the same files is gone")

# ---- one command writes into a folder at a time: what is there is of one run ----
shared = os.path.join(work, "shared")
os.mkdir(shared)
held = os.open(shared, os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
for words in (["view", good, "-o", shared], ["inspect", "-o", shared, "--", "touch", os.path.join(work, "ran")]):
    _, err = run(*words, want=1 if words[0] == "view" else None)
    check(f"another command writes into '{shared}'" in err, f"{words[0]} into a folder that another writes into: {err}")
check(not os.path.exists(os.path.join(work, "ran")), "inspect refuses before it runs the command")
os.close(held)
inputs = [write(f"of{n}.json", json.dumps({"traceEvents": events(n)})) for n in (3000, 5000)]
both = [subprocess.Popen([MERIDIAN, "view", inputs[i % 2], "-o", shared, "--force", "--output-format", "json,chrome,summary-json"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True) for i in range(6)]
ends = [(p.communicate()[1], p.returncode) for p in both]
check(all(code == 0 or (code == 1 and "another command writes" in err) for err, code in ends) and (("", 0) in ends), f"six at one time: {ends}")
of = [len(json.load(open(os.path.join(shared, "system_profile.json")))["trace_events"]),
      sum(e["ph"] == "X" for e in json.load(open(os.path.join(shared, "system_profile.trace.json")))["traceEvents"]),
      sum(t["count"] for t in json.load(open(os.path.join(shared, "summary.json")))["summary"]["event_types"])]
check(of in ([3000] * 3, [5000] * 3), f"files of two runs in one folder: {of}")

# ---- a slice that cannot have anything, and one that has nothing ----
for slice in (["--start", "5s", "--end", "1s"], ["--start", "1s", "--end", "1s"], ["--start", "2026-01-02T00:00:00Z", "--end", "2026-01-01T00:00:00Z"]):
    _, err = run("view", good, "-o", os.path.join(work, "turned"), *slice, want=2)
    check("is not before --end" in err, f"{slice}: {err}")
_, err = run("view", good, "-o", os.path.join(work, "turned"), "--start", "2036-01-01T00:00:00Z", "--end", "1s", want=1)
check("is not before --end" in err, f"known after reading: {err}")
check(not os.path.exists(os.path.join(work, "turned")), "no folder for what was refused")
for slice in (["--start", "1h"], ["--end", "2001-01-01T00:00:00Z"], ["--filter-process", "77"], ["--system-trace-filter-instance-id", "i-none"]):
    _, err = run("view", good, "-o", os.path.join(work, "nothing"), "--force", *slice, want=3)
    check("the slice is empty: all 1000 events lie outside" in err, f"{slice}: {err}")

# ---- broken input costs that file only ----
text = json.dumps({"traceEvents": events(1000)})
rows = [
    ("truncated.json", text[: len(text) // 2], 3),
    ("truncated.json.gz", gzip.compress(text.encode())[:-400], 3),
    ("empty.json", "", 1),
    ("garbage.json", "this is no trace", 1),
    ("nan.json", '{"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":NaN,"dur":1},' + json.dumps(events(1)[0]) + "]}", 3),
    ("deep.json", '{"traceEvents":[' + json.dumps(events(1)[0]) + "," + "[" * 100000 + "]}", 3),
    ("badutf8.json", b'{"traceEvents":[' + json.dumps(events(1)[0]).encode() + b',{"ph":"X","name":"\xff\xfe","pid":1,"tid":1,"ts":5,"dur":1}]}', 0),
    ("range.json", '{"traceEvents":[' + json.dumps(events(1)[0]) + ',{"ph":"X","name":"a","pid":1,"tid":1,"ts":1e300,"dur":1}]}', 3),
]
for name, content, status in rows:
    path = write(name, content)
    dest = os.path.join(work, "out-" + name)
    _, err = run("view", path, "-o", dest, "--output-format", "json", want=status)
    check(name in err, f"{name}: the error names the file: {err}")
    if status == 3:
        check("offset" in err or "byte" in err or "record" in err, f"{name}: the error says where: {err}")
        check(json.load(open(os.path.join(dest, "system_profile.json")))["trace_events"], f"{name}: what was read is kept")
    both = os.path.join(work, "both-" + name)
    run("view", path, good, "-o", both, "--output-format", "json", want=3 if status else 0)
    check(len(json.load(open(os.path.join(both, "system_profile.json")))["trace_events"]) >= 1000, f"{name}: the good file is whole")

# ---- more processes and tracks than a file may have: memory does not follow them, what fits is kept ----
many, most = 150000, 65536
rows = {"te": '{"traceEvents":[%s]}' % ",".join('{"ph":"X","name":"a","pid":%d,"tid":1,"ts":%d,"dur":1}' % (i, i) for i in range(many)),
        "counters": '{"traceEvents":[%s]}' % ",".join('{"ph":"C","name":"a%d","pid":1,"ts":%d,"args":{"v":1}}' % (i, i) for i in range(many)),
        "sysprof": '{"trace_events":[%s],"mem_usage":[],"cpu_util":[]}' % ",".join(
            '{"name":"a","timestamp":%d,"duration":1,"process_id":"%d","thread_id":%d,"instance_id":"i-1","trace_event_source":"neuron_rt"}' % (1729888371056667613 + i, i, i)
            for i in range(many))}
for name, text in rows.items():
    path, dest = write(f"many-{name}.json", text), os.path.join(work, "many-" + name)
    p = subprocess.run(["/usr/bin/env", "python3", "-c", "import resource, subprocess, sys; p = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
                        "print(p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", MERIDIAN, "view", path, "-o", dest, "--output-format", "chrome"],
                       capture_output=True, text=True, timeout=120)
    code, peak = map(int, p.stdout.split())
    check(code == 3 and "more different " in p.stderr and f"many-{name}.json" in p.stderr, f"{name}: {code} {p.stderr}")
    check(peak < 160 * 1024, f"{name}: {peak} KiB for {many} tracks")
    kept = [e for e in json.load(open(os.path.join(dest, "system_profile.trace.json")))["traceEvents"] if e["ph"] in "XC"]
    equal(len(kept), most, f"{name}: the first are kept")

# ---- Names of others on a terminal, and a disk that is full behind `>` ----
name = "a\nnote: forged\x1b[31m\u009b31m\u202eb"
path = write("named\nnote: forged\x1b[31m.json", json.dumps([{"ph": "X", "name": name, "ts": 1, "dur": 1, "pid": 1, "tid": 1}]) + "x")
out, err = run("view", path, "-o", os.path.join(work, "named"), want=3)
for text in (out, err):
    equal([hex(ord(c)) for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e"], [], f"what a terminal obeys in {text!r}")
    check("\nnote: forged" not in text, f"a forged line in {text!r}")
with open("/dev/full", "w") as full:
    for words in (["--help"], ["view", "--help"], ["view", path, "-o", os.path.join(work, "full")]):
        p = subprocess.run([MERIDIAN, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        check(p.returncode in (1, 3) and "could not be written" in p.stderr, f"{words} into a full disk: {p.returncode} {p.stderr}")

# ---- Links that lead back and files that are given twice: each file is read once ----
again = os.path.join(work, "again")
os.makedirs(os.path.join(again, "i-1_pid_7"))
for i in range(6):  # followed 16 deep they would be 6**16 folders
    os.symlink(".", os.path.join(again, f"back{i}"))
path = os.path.join(again, "one.json")
with open(path, "w") as f:
    json.dump([{"ph": "X", "name": "x", "ts": i, "dur": 1, "pid": 1, "tid": 1} for i in range(5)], f)
os.link(path, os.path.join(again, "i-1_pid_7", "one.json"))  # of that process too
for words in (["-d", again], [path, os.path.join(again, "back1", "one.json"), path, os.path.join(again, "i-1_pid_7")]):
    _, err = run("view", *words, "-o", os.path.join(work, "once"), "--force", "--output-format", "summary-json", timeout=60)
    with open(os.path.join(work, "once", "summary.json")) as f:
        equal([t["count"] for t in json.load(f)["summary"]["event_types"]], [10], f"events of {words}")
    check("read once: " in err, f"what is said of {words}: {err}")

# ---- the usage of all CPUs has the vendor's cpu_id, and is the same counter again ----
usage = write("usage.json", json.dumps({"trace_event": [], "cpu_util": [{"timestamp": 30 + i, "cpu_id": "average", "util_percent": 2 + i, "instance_id": "i-0"} for i in range(2)]}))
for layout in ("guide", "explorer"):
    run("view", usage, "-o", os.path.join(work, layout), "--output-format", "json", "--json-layout", layout)
    with open(os.path.join(work, layout, "system_profile.json")) as f:
        text = f.read()
    equal([r["cpu_id"] for r in json.loads(text)["cpu_util"]], ["average"] * 2, f"cpu_id in the layout {layout}")
    check('"cpu.all.util_percent"' in text, f"the counter in the layout {layout}")

# ---- open: served once, to this machine, with the headers the page needs ----
port = free_port()
trace = os.path.join(work, "p", "system_profile.pftrace")
p = subprocess.Popen([MERIDIAN, "open", "--port", str(port), trace], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
link = p.stdout.readline().strip()
equal(link, f"https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{port}/system_profile.pftrace", "link")
request = urllib.request.Request(f"http://127.0.0.1:{port}/system_profile.pftrace", method="OPTIONS")
reply = urllib.request.urlopen(request)
equal(reply.headers["Access-Control-Allow-Private-Network"], "true", "preflight")
try:
    urllib.request.urlopen(f"http://127.0.0.1:{port}/other")
    check(False, "another path must not be served")
except urllib.error.HTTPError as e:
    equal(e.code, 404, "another path")
reply = urllib.request.urlopen(f"http://127.0.0.1:{port}/system_profile.pftrace")
equal(reply.headers["Access-Control-Allow-Origin"], "https://ui.perfetto.dev", "origin")
equal(reply.read(), open(trace, "rb").read(), "bytes served")
equal(p.wait(60), 0, "open ends after the download")
for variable, hint in ((None, False), ("SSH_CONNECTION", True)):
    p = subprocess.Popen([MERIDIAN, "open", "--port", str(port), "--keep", os.path.dirname(trace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={k: v for k, v in os.environ.items() if k != "SSH_CONNECTION"} | ({variable: "10.0.0.1 1 10.0.0.2 22"} if variable else {}))
    equal(p.stdout.readline().strip(), link, "a folder stands for its system profile")
    p.send_signal(signal.SIGINT)
    equal((p.wait(60), f"ssh -L {port}:127.0.0.1:{port} HOST" in p.stderr.read()), (0, hint), f"Ctrl-C ends open; the hint with {variable}")
p = subprocess.Popen([MERIDIAN, "view", good, "-o", os.path.join(work, "shown"), "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
until_link = next(line for line in p.stdout if line.startswith("https://"))
equal(until_link.strip(), link, "view --port shows what it wrote")
p.send_signal(signal.SIGINT)
equal(p.wait(60), 0, "Ctrl-C ends it")
_, err = run("open", again, want=1)
check(f"'{again}' has no system_profile.pftrace: name a .pftrace file" in err, f"a folder without one: {err}")
picture = os.path.join(work, "picture.png")
with open(picture, "wb") as f:
    f.write(b"\x89PNG\r\n\x1a\n")
p = subprocess.Popen([MERIDIAN, "open", "--port", str(port), picture], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
equal(p.stdout.readline().strip(), f"https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{port}/picture.png", "it is served")
p.send_signal(signal.SIGINT)
check(f"'{picture}' is of no format that Meridian knows" in p.communicate(timeout=60)[1], "a file that is no trace gets a note")

# ---- A program on the aggregator's port that is no aggregator ----
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
_, err = run("sessions", "--server", f"http://127.0.0.1:{server.server_port}", want=1)
check("answered with HTTP status 404, not as an aggregator does: check --server" in err, f"another program's answer: {err}")
server.shutdown()
finish()
