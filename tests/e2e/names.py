"""Tests names that attack their reader: escape sequences, marks of writing direction, HTML and
formulas. They are names of events, threads, arguments and files, and are shown on a terminal (20
and 400 columns wide), and in text, HTML, CSV and SQL output."""
import csv
import fcntl
import glob
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata

from lib import MERIDIAN, check, equal, finish, run, tmp

EVIL = ['=HYPERLINK("http://x")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "'=1+1", "<script>window.pwn=1</script>", '"><img src=x onerror=pwn()>',
        "</title></script><script>pwn()</script>", "a\nb\r\nc", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u202egnp.exe", "\u2066x\u2069", "\x9b31m", "\x7f", "\ttab",
        "\u2028\u2029", "]]>", "<!--", "%s%n", "é" * 3000]
work = tmp()
rows = []
for pid in (11, 12):
    for i, name in enumerate(EVIL):
        rows.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": i + 1, "args": {"name": name}})
        rows += [{"ph": "X", "name": name, "cat": EVIL[i - 3], "ts": i * 1000 + k * 100 + pid, "dur": 80, "pid": pid, "tid": i + 1, "args": {name: EVIL[i - 1], "x": k}} for k in range(3)]
trace = os.path.join(work, "\x1b[31mevil\x1b]0;pwn\x07\u202e<script>x<!-- =1.json")
with open(trace, "w") as f:
    json.dump({"traceEvents": rows}, f)


def hidden(text, but="\n"):
    """What a terminal obeys, or reorders text by."""
    return sorted({c for c in text if c not in but and (ord(c) < 32 or 127 <= ord(c) < 160 or unicodedata.category(c) == "Cf")})


def on_terminal(columns, *args):
    """What the program writes when stderr is a terminal of that width."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([MERIDIAN, *args], stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    text = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    equal(p.wait(60), 0, f"meridian {args[0]} on a terminal")
    os.close(main)
    return text.decode("utf-8", "replace")


out = os.path.join(work, "out")
text, err = run("view", trace, "-o", out, "--output-format", "perfetto,summary-text,report-text,report-html,sqlite,csv")
equal(hidden(text + err), [], "view writes what a terminal obeys")


def rank(n):
    """A rank of two with steps, kernels and collectives, so that the report has every part, and every name in it attacks."""
    evil = EVIL[9] + EVIL[11] + EVIL[5]
    ev = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": evil}}]
    for step in range(8):
        at = 1000 + step * 1000
        for name, cat, ts, dur, tid in (("ProfilerStep#%d" % step, "user_annotation", 0, 990, 1), ("cudaLaunchKernel" + evil, "cuda_runtime", 5, 3, 1),
                                        ("k" + evil, "kernel", 10, 300, 7), ("ncclDevKernel_AllReduce_Sum" + evil, "kernel", 400 + n * 50, 300 - n * 50, 8)):
            args = {"correlation": step, "stream": tid, "device": 0, "dtype": evil, "Group size": 2, "Process Group Name": evil, "In msg nelems": 10}
            ev.append({"name": name, "ph": "X", "ts": at + ts, "dur": dur, "pid": 1 if tid == 1 else 0, "tid": tid, "cat": cat, "args": args if tid > 1 else {"correlation": step}})
        ev.append({"name": "[memory]", "ph": "i", "ts": at + 3, "pid": 1, "tid": 1, "args": {"Total Allocated": step, "Device Type": 1, "Device Id": 0, "Addr": 1, "Bytes": 10}})
    path = os.path.join(work, "rank%d.json" % n)
    with open(path, "w") as f:
        json.dump({"traceEvents": ev, "deviceProperties": [{"name": evil, "id": 0}], "distributedInfo": {"rank": n, "world_size": 2, "backend": evil}}, f)
    return path


ranks = [rank(n) for n in range(2)]
check("Critical path through 8 steps" in run("report", *ranks)[0], "the report of two ranks has all parts")
for words in (["report", trace], ["report", *ranks], ["diff", *ranks], ["view", *ranks, "-o", os.path.join(work, "ranks")], ["sql", "SELECT name, track, args FROM events", os.path.join(out, "profile.sqlite")]):
    text, err = run(*words)
    equal(hidden(text + err), [], f"{words[0]} writes what a terminal obeys")
for columns in (20, 400):
    text = on_terminal(columns, "view", trace, "-o", out, "--force")
    check("reading" in text, f"progress on a terminal of {columns} columns: {text!r}")
    equal(hidden(text, "\r\n"), [], f"progress on a terminal of {columns} columns")
    for line in re.split("[\r\n]", text):
        if line.startswith("reading"):
            check(len(line.rstrip()) < columns, f"a line of progress of {len(line)} on {columns} columns: {line!r}")
for path in glob.glob(os.path.join(out, "*.html")):
    with open(path) as f:
        html = f.read()
    equal([bad for bad in ("<script>window.pwn", "<img src=x", "<script>pwn()", "<script>x") if bad in html], [], "what the HTML report runs")

names = set()
for path in glob.glob(os.path.join(out, "csv", "*.csv")):
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            for column, cell in row.items():
                check(not re.match(r"[=+@\t\r].|-[^0-9]", cell), f"a formula in {os.path.basename(path)}, {column}: {cell!r}")
            if os.path.basename(path) == "events.csv":
                names.add(re.sub(r"^'(?='*[=+@\t\r-].)", "", row["name"]))
check({n for n in EVIL if "\n" not in n} <= names, f"names come back from CSV: {sorted({n for n in EVIL} - names)}")
text, _ = run("sql", "SELECT name, -5 AS n FROM events WHERE name LIKE '%cmd%' LIMIT 1", os.path.join(out, "profile.sqlite"), "--format", "csv")
equal(text.splitlines()[1], "'" + EVIL[1] + ",-5", "sql --format csv")
finish()
