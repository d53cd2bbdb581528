"""The ways of docs/dev/ways.md, function by function, held against the sources: each function stands in the file that its row
names, and reaches the next one as the row says.

    call       calls it, directly or through at most four functions that the table leaves out
    called     is called so by the next one
    ->member   calls the member of a struct of functions, and somewhere that member is set to the next function
    table NAME is looked up in that table, which names the next function
    TOKEN      hands over what both name (they or what they call, three deep): a frame type, an effect, a file, a ring record

Usage: ways.py [--path FROM TO]: prints how one function calls another; without, checks the document."""
import collections
import os
import re
import subprocess
import sys

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("base", "trace", "capture", "hw", "sim", "timesync", "pki", "proto", "httpd", "agent", "aggregator", "webhook", "cli")
DEPTH = 5  # calls from one row to the next
NEAR = 3   # calls from a row to what it hands over

Function = collections.namedtuple("Function", "name path text body static")


def strip(text):
    """Without comments and the contents of strings; lines stay."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def load():
    functions, texts = collections.defaultdict(list), {}
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"] + [f + "/" for f in FOLDERS],
                            capture_output=True, text=True).stdout.split("\n")
    for path in listed:
        if not path.endswith((".c", ".h", ".def")) or not os.path.exists(os.path.join(ROOT, path)):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
            texts[path] = strip(f.read())
        # The house's layout: type, then the name at the beginning of a line, and braces of the body there too.
        for m in re.finditer(r"^([^\n#}/][^\n]*)\n(\w+)\(([^{};]*?)\)\n\{\n(.*?)^\}", texts[path], re.S | re.M):
            functions[m.group(2)].append(Function(m.group(2), path, m.group(0), m.group(4), m.group(1).startswith("static")))
    return functions, texts


FUNCTIONS, TEXTS = load()


def resolve(name, path):
    """The function that `name` means in a file: its own, or the one of another file that is not static."""
    here = [f for f in FUNCTIONS.get(name, ()) if f.path == path]
    there = [f for f in FUNCTIONS.get(name, ()) if not f.static or f.path.endswith(".h")]
    return (here or there or [None])[0]


def callees(f):
    for word in sorted(set(re.findall(r"\b[a-z_]\w*\b", f.body))):
        if word in FUNCTIONS and word != f.name:
            to = resolve(word, f.path)
            if to is not None:
                yield to


def reach(f, depth):
    """{function: the way to it}, f included."""
    ways, edge = {(f.path, f.name): [f]}, [f]
    for _ in range(depth):
        further = []
        for at in edge:
            for to in callees(at):
                if (to.path, to.name) not in ways:
                    ways[(to.path, to.name)] = ways[(at.path, at.name)] + [to]
                    further.append(to)
        edge = further
    return ways


def names(f, pattern):
    return any(re.search(pattern, way[-1].text) for way in reach(f, NEAR).values())


def link(how, a, b):
    """Why the row's link is not so; None when it is."""
    if how == "call":
        way = reach(a, DEPTH).get((b.path, b.name))
        return None if way else f"{a.name} does not call {b.name} through {DEPTH - 1} functions at most"
    if how == "called":
        return link("call", b, a)
    if how.startswith("->"):
        member = how[2:]
        if not names(a, rf"(->|\.){member}\("):
            return f"{a.name} calls no member {member}"
        if not any(re.search(rf"\.{member} = {b.name}\b|(->|\.){member} = {b.name};", text) for text in TEXTS.values()):
            return f"nothing sets a member {member} to {b.name}"
        return None
    if how.startswith("table "):
        table = how[6:]
        rows = [m for text in TEXTS.values() for m in re.findall(rf"\b{table}\[\] = \{{\n(.*?)^\}};", text, re.S | re.M)]
        if not any(re.search(rf"\b{b.name}\b", row) for row in rows):
            return f"the table {table} does not name {b.name}"
        return None if names(a, rf"\b{table}\b") else f"{a.name} does not look into {table}"
    for f in (a, b):
        if not names(f, rf"\b{how}\b"):
            return f"{f.name} has nothing to do with {how}"
    return None


def check():
    bad, rows, ways = [], 0, 0
    with open(os.path.join(ROOT, "docs", "dev", "ways.md"), encoding="utf-8") as f:
        text = f.read()
    for title, body in re.findall(r"^## (The way of [^\n]*)\n(.*?)(?=^## |\Z)", text, re.S | re.M):
        ways += 1
        previous = None
        for name, path, how in re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \|[^|\n]*\|(?: `([^`]*)`)? ?\|$", body, re.M):
            rows += 1
            f = next((f for f in FUNCTIONS.get(name, ()) if f.path == path), None)
            if f is None:
                bad.append(f"{title}: {path} has no function {name}")
            elif previous is not None:
                why = link(previous[1], previous[0], f)
                if why:
                    bad.append(f"{title}: {why}")
            previous = (f, how) if f is not None else None
    for line in bad:
        print("FAILED docs/dev/ways.md:", line)
    print(f"{ways} ways, {rows} functions, {len(bad)} faults")
    sys.exit(1 if bad or ways < 4 or rows < 40 else 0)


if len(sys.argv) == 4 and sys.argv[1] == "--path":
    start = FUNCTIONS[sys.argv[2]][0]
    found = [way for (path, name), way in reach(start, 9).items() if name == sys.argv[3]]
    print(" -> ".join(f"{f.name} ({f.path})" for f in found[0]) if found else "no way")
else:
    check()
