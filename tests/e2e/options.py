"""Gives every option of every command invalid values, drawn from MRD_SEED (1). A command must not
end by a signal, hang, fail without a message, print control characters, or return a status that
docs/reference/cli.md does not list. An invalid number must be wrong usage (2), and for a mistyped
option the right one must be suggested."""
import json
import os
import random
import re
import resource
import subprocess

from lib import BIN, MERIDIAN, check, finish, tmp

SEED = int(os.environ.get("MRD_SEED", "1"))
draw = random.Random(SEED)
print("seed", SEED)
work = tmp()
env = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_"))}
env["MERIDIAN_SERVER"] = "http://127.0.0.1:9"  # nobody is there
# For every option, and those that no number, size or duration is.
HOSTILE = ["\x1b[2J\x07", "\u202eabc", b"\xff\xfe", b"\x9b31m", "a\nb\r", "a" * 5000, "%s%n%d", "\u061c", "\x7f"]
ODD = ["", "-1", "0", "+5", "99999999999999999999", "18446744073709551616", "nan", "inf", "-inf", "0x10", "1.5.5", "5s5", "1e400", "1E", "é☃", "../../x", " ",
       ",", "=", "*", "[]", "null", "tcp://", "http://[::1", "1-", "5-3", "0-99999999999", "/dev/null"]
OBEYED = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]|\xd8\x9c")
STATUSES = (0, 1, 2, 3)
# What makes a command end soon where an option is fine, and comes behind it.
BEHIND = {"meridian-agent": ["--aggregator", "tcp://127.0.0.1:9", "--spool-dir", "/proc/none/spool"], "meridian-aggregator": ["--store", "/proc/none/store"],
          "demo": ["--timeout", "0"], "inspect": ["-o", "/proc/none/out", "--", "/bin/true"], "report": ["/proc/none/in"], "view": ["-o", "/proc/none/out", "/proc/none/in"],
          "open": ["/proc/none/in"], "sql": ["/proc/none/in", "select 1"], "diff": ["/proc/none/a", "/proc/none/b"], "join": ["-d", "/proc/none/dir"]}
BEHIND.update({c: ["latest"] for c in ("change", "stop", "pause", "resume", "status", "fetch", "trigger", "convert", "models")})
SLOW = ("doctor",)  # looks at the whole node each time; few values suffice


def run(argv):
    try:
        p = subprocess.run(argv, capture_output=True, timeout=60, env=env, cwd=work, stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout, p.stderr
    except subprocess.TimeoutExpired:
        return "no end", b"", b""


def judge(argv):
    status, out, err = run(argv)
    shown = [a if len(a) < 60 else a[:20] for a in argv]
    check(status in STATUSES, f"{shown}: status {status}: {err[-300:]}")
    check(status == 0 or err.strip() or out.strip(), f"{shown}: silent failure, status {status}")
    for text in (out, err):
        check(not OBEYED.search(text), f"{shown}: a terminal obeys {OBEYED.search(text)} of {text[:200]}")
        check(text.decode("utf-8", "replace").encode() == text, f"{shown}: not UTF-8: {text[:200]}")
    return status, out, err


def options_of(program):
    status, out, _ = run([*program, "--help=options"])
    check(status == 0, f"{program} --help=options")
    return [o for o in out.decode().split() if o.startswith("--") and o not in ("--help", "--version")]


commands = [w for w in run([MERIDIAN, "--help=options"])[1].decode().split() if not w.startswith("-")]
programs = [[MERIDIAN, c] for c in commands] + [[os.path.join(BIN, "meridian-agent")], [os.path.join(BIN, "meridian-aggregator")]]
tried = 0
for program in programs:
    behind, flags = BEHIND.get(os.path.basename(program[-1]), []), options_of(program)
    rows = run([*program, "--help"])[1].decode()
    for flag in flags:
        name = flag.rstrip("=")
        if program[-1] in SLOW and draw.random() < 0.8:
            continue
        if not flag.endswith("="):
            status, _, err = judge([*program, name + "=" + draw.choice(["\x1b[2J", "\u202e", "maybe", "-1", "99999999999999999999", " "])] + behind)
            check(status == 2, f"{program} {name} takes no value: status {status}: {err[:200]}")
            continue
        values = [draw.choice(HOSTILE), draw.choice(ODD), draw.choice(ODD)]
        for value in values:
            judge([*program, name.encode() + b"=" + value if isinstance(value, bytes) else name + "=" + value] + behind)
            tried += 1
        if name != "--restart" and re.search(rf"{re.escape(name)}[ =](N|SIZE|DURATION|PORT|BYTES|PPM|COUNT)\b", rows):
            for value in ("five", "-"):
                status, _, err = judge([*program, f"{name}={value}"] + behind)
                check(status == 2 and name.encode() in err, f"{program} {name}={value}: status {status}: {err[:200]}")
        status, _, err = judge([*program, name])
        check(status == 2, f"{program} {name} without its value: status {status}: {err[:200]}")
        # Two letters the wrong way round.
        at = draw.randrange(2, len(name) - 1)
        wrong = name[:at] + name[at + 1] + name[at] + name[at + 2:]
        if wrong != name and wrong + "=" not in flags and len(name) > 6:
            status, _, err = judge([*program, wrong + "=1"] + behind)
            check(status == 2 and b"did you mean" in err, f"{program} {wrong}: status {status}: {err[:200]}")
    for word in ("--", "-", "---", "-\x1b", "--\x1b[31m", "--=5", "\u202e"):
        if program[-1] not in ("inspect", *SLOW):  # inspect would run it
            judge([*program, word] + behind)
for words, said in ((["inspect", "--start", "soon", "--", "/bin/true"], "--start"), (["inspect", "--output-format", "png", "--", "/bin/true"], "--output-format"),
                    (["inspect", "--system-trace-filter-neuron-core", "x", "--", "/bin/true"], "is not a core"), (["change", "latest"], "--event-type"),
                    (["clocks", "--store", work], "id of a session"), (["\x1b[31mview"], "unknown command")):
    status, _, err = judge([MERIDIAN, *words])
    check(status == 2 and said.encode() in err, f"{words}: wrong usage is 2: {status} {err[:200]}")
check(tried > 500, f"{tried} values tried")
# A file whose name or content a terminal obeys.
evil = os.path.join(work, "rank\x1b[2J\x9b\u202e.json")
for content in (b"{", b'{"traceEvents":[{"ph":"X","name":"\\u001b[2J\\u202e\xff","pid":1,"tid":2,"ts":1,"dur":5}]}'):
    with open(evil, "wb") as f:
        f.write(content)
    for words in (["view", "-o", work + "/out", "--force", evil], ["report", evil], ["diff", evil, evil], ["sql", evil, "select 1"], ["clocks", evil],
                  ["view", "-d", evil], ["nodes", "--ca-file", evil], ["nodes", "--token-file", evil]):
        judge([MERIDIAN, *words])
    judge([os.path.join(BIN, "meridian-aggregator"), "--tokens", evil, "--store", work + "/s"])
    judge([os.path.join(BIN, "meridian-agent"), "--config", evil])
# A file limit (`ulimit -f`) is an error of the write, said, and nothing incomplete is left.
good = os.path.join(work, "good.json")
with open(good, "w") as f:
    json.dump([{"ph": "X", "name": f"op{i % 7}", "pid": 1, "tid": 2, "ts": 10 * i, "dur": 5} for i in range(5000)], f)
p = subprocess.run([MERIDIAN, "view", "-o", work + "/limited", good], capture_output=True, env=env, cwd=work, timeout=60,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
check(p.returncode == 1 and b"File too large" in p.stderr, f"view under a file limit: status {p.returncode}: {p.stderr[-300:]}")
left = [n for n in os.listdir(work + "/limited") if n.endswith(".pftrace")] if os.path.isdir(work + "/limited") else []
check(left == [], f"what is left under a file limit: {left}")
# Nobody reads, or the disk is full: a failure where something had to be said.
for program in programs:
    for option in ("--help", "--help=man", "--help=options"):
        for to in (">&-", ">/dev/full"):
            p = subprocess.run(["bash", "-c", f'"$@" {to}', "-", *program, option], capture_output=True, env=env, cwd=work, timeout=60)
            check(p.returncode == 1 and p.stderr.strip(), f"{program} {option} {to}: status {p.returncode}: {p.stderr[:200]}")
finish()
