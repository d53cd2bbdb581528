#!/usr/bin/env python3
"""Writes the generated pages of docs/reference from the programs and from the tables in the sources: commands.md and options.md (the help of
the programs in BIN), metrics.md, log-codes.md, and the table of losses.md. Usage: scripts/reference.py [--check] BIN. With --check nothing is
written, and the exit status is 1 if a page is not current."""
import os
import re
import subprocess
import sys

TOP = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(TOP, "docs", "reference")
NOTE = "<!-- Made by scripts/reference.py. Do not edit: change the source of a text and run the script again. -->\n"
TEXT = r'"(?:[^"\\]|\\.)*"'  # a string literal of C
TEXTS = rf"(?:(?:{TEXT}|PRI\w+|MRD_\w+_FMT)\s*)+"
EFFECTS = {"HOLE": "events of the node in this time", "THREAD": "annotations and calls of the thread", "UNWANTED": "nothing: nobody requested them",
           "NONE": "nothing: no event was lost"}


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def sources(*folders):
    """[(path, text)] of the C sources below the folders, in order."""
    found = []
    for folder in folders:
        for at, _, names in os.walk(os.path.join(TOP, folder)):
            found += [os.path.relpath(os.path.join(at, n), TOP) for n in names if n.endswith(".c")]
    return [(path, read(path)) for path in sorted(found)]


def joined(literals):
    """The text of adjacent literals; a macro between them stands for a value."""
    return "".join(p[1:-1].replace('\\"', '"') if p[0] == '"' else "s" for p in re.findall(rf"{TEXT}|\w+", literals))


def cell(text):
    return text.replace("|", "\\|").strip()


# ---- Help of the programs ----
def help_of(*command):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.rstrip("\n")


def commands(bin):
    meridian = os.path.join(bin, "meridian")
    names = [n for n in help_of(meridian, "--help=options").split() if not n.startswith("-")]
    page = ["# Commands\n", NOTE, "The help of `meridian` and of each of its commands. [The cluster's commands](cli.md) explains how they work together.\n",
            f"```\n{help_of(meridian, '--help')}\n```\n"]
    for name in names:
        page.append(f"## meridian {name}\n\n```\n{help_of(meridian, name, '--help')}\n```\n")
    return "\n".join(page)


def options(bin):
    page = ["# Options of the daemons\n", NOTE, "Each option can also be set by the variable in parentheses, or as a member of the JSON file of `--config`.\n"]
    for name in ("meridian-agent", "meridian-aggregator", "meridian-webhook"):
        page.append(f"## {name}\n\n```\n{help_of(os.path.join(bin, name), '--help')}\n```\n")
        if advanced := help_of(os.path.join(bin, name), "--help=advanced").partition("\n\nAdvanced\n")[2]:
            page.append(f"For rare cases (`{name} --help=advanced`):\n\n```\n{advanced}\n```\n")
    return "\n".join(page)


# ---- Metrics ----
def families():
    """{program: {family: help}} by the calls that write a family's head."""
    found = {"aggregator": {}, "agent": {}, "webhook": {}, "certificates": {}}
    whose = {"agent": "agent", "aggregator": "aggregator", "webhook": "webhook", "pki": "certificates", "base": "certificates"}
    for path, text in sources("agent", "aggregator", "webhook", "pki", "base"):
        into = found[whose[path.split("/")[0]]]
        for name, words in re.findall(rf'"(meridian_[a-z0-9_]+)",\s*({TEXTS})', text):
            into[name] = joined(words)
        if '"meridian_agent_" name' in text:
            for name, words in re.findall(rf'\b[A-Z_]+\(\s*"([a-z0-9_]+)",\s*({TEXTS})', text):
                into["meridian_agent_" + name] = joined(words)
        for first, other, words in re.findall(rf'ends \? "(meridian_\w+)"\s*: "(meridian_\w+)",\s*(.*?)\);', text, re.S):
            ends, begins = (re.findall(rf"\? ({TEXTS})\s*: ({TEXTS})", words) or [(words, words)])[0]
            into[first], into[other] = joined(ends), joined(begins)
    return found


def metrics():
    titles = (("aggregator", "meridian-aggregator"), ("agent", "meridian-agent"), ("webhook", "meridian-webhook"), ("certificates", "Of all three"))
    page = ["# Metrics\n", NOTE, "[Monitoring](../howto/monitoring.md) says where they are served and which alerts use them. A name that ends in `_total` is a counter.\n"]
    found = families()
    for key, title in titles:
        page.append(f"## {title}\n\n| Metric | Meaning |\n|---|---|\n" + "".join(f"| `{n}` | {cell(t)} |\n" for n, t in sorted(found[key].items())))
    return "\n".join(page)


# ---- Log codes ----
def log_codes():
    """[(code, level, sentence)] of every message; the sentence ends where its values begin."""
    rows = {}
    for _, text in sources("agent", "aggregator", "httpd", "webhook", "base", "pki", "proto"):
        for m in re.finditer(rf'"((?:AGG|AGT|HOOK)-[A-Z0-9-]+)"(?:,\s*({TEXTS}))?', text):
            before = text[max(0, m.start() - 160):m.start()]
            call = before[max(before.rfind(";"), before.rfind("{"), before.rfind("}")) + 1:]
            levels = re.findall(r"MRD_LOG_(ERROR|WARN|INFO|DEBUG)", call)
            if re.search(r"strn?cmp\([^;]*$", call) and not levels:
                continue  # a comparison, not a message
            text_only = re.split(r":?\s+\w+=", joined(m[2] or '""'))[0]
            sentence = re.sub(r"%[-0-9.*l]*[a-z]", "…", text_only).rstrip(" :(")
            rows.setdefault(m[1], set()).add(("/".join(levels), sentence))
    return rows


def log_page():
    page = ["# Log codes\n", NOTE,
            "A line of a log is *time level program code sentence: key=value …*. Programs can rely on the code, which does not change between\n"
            "releases. [Troubleshooting](../howto/troubleshooting.md) has the remedies.\n"]
    rows = log_codes()
    for prefix, title in (("AGG", "meridian-aggregator"), ("AGT", "meridian-agent")):
        page.append(f"## {title}\n\n| Code | Level | Sentence |\n|---|---|---|")
        for code in sorted(c for c in rows if c.startswith(prefix)):
            said = sorted(rows[code], key=lambda r: r[1])
            levels = [w for w in ("ERROR", "WARN", "INFO", "DEBUG") if any(w in r[0].split("/") for r in said)]
            sentences = [s for _, s in said if s] or ["the message is the reason"]
            page[-1] += f"\n| `{code}` | {', '.join(levels) or 'by the case'} | {cell(' / '.join(dict.fromkeys(sentences)))} |"
        page[-1] += "\n"
    return "\n".join(page)


# ---- Causes of loss ----
def losses():
    text = re.sub(r"/\*.*?\*/", "", read("base/loss_cause.def"), flags=re.S)
    rows = re.findall(rf'LOSS_CAUSE\((\w+), "([^"]+)", (\w+),\s*"([^"]+)",\s*({TEXTS})\)', text)
    if len(rows) != text.count("LOSS_CAUSE("):
        sys.exit(f"FAILED base/loss_cause.def: {text.count('LOSS_CAUSE(')} causes, of which {len(rows)} can be read")
    head = "| Cause | What happened to the events | Counted by | Makes unknown |\n|---|---|---|---|\n"
    table = head + "".join(f"| `{name}` | {joined(words)} | {where} | {EFFECTS[effect]} |\n" for _, name, effect, where, words in rows)
    page = read("docs/reference/losses.md")
    now = re.search(re.escape(head) + r"(?:\|.*\n)*", page)
    if now is None:
        sys.exit("FAILED docs/reference/losses.md: it has no table with the head of this script")
    return page.replace(now[0], table)


# ---- Pages that are written by hand, against the same sources ----
def faults():
    """Codes that a document names and no program has, and states of a node that troubleshooting.md lacks."""
    codes, found = set(log_codes()), []
    for at, _, names in os.walk(os.path.join(TOP, "docs")):
        for name in (n for n in names if n.endswith(".md")):
            path = os.path.relpath(os.path.join(at, name), TOP)
            found += [f"{path} names {code}, which no program logs" for code in sorted(set(re.findall(r"`(AG[GT]-[A-Z0-9-]+)`", read(path))) - codes)]
    states = re.search(r"\nstate_word\(.*?\n}", read("agent/daemon/heartbeat.c"), re.S)[0]
    page = read("docs/howto/troubleshooting.md")
    return found + [f"docs/howto/troubleshooting.md lacks the state {s} of a node" for s in re.findall(r'"([a-z-]+)"', states) if f"| `{s}`" not in page]


def broken_links():
    """Links of the documents to files or headings that do not exist."""
    pages = ["README.md", "CONTRIBUTING.md", "deploy/README.md", "tests/README.md"]
    for at, _, names in os.walk(os.path.join(TOP, "docs")):
        pages += [os.path.relpath(os.path.join(at, n), TOP) for n in names if n.endswith(".md")]
    found = []
    for page in sorted(pages):
        for link in re.findall(r"\]\(([^)\s]+)\)", read(page)):
            path, _, heading = link.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if "://" in link:
                continue
            if not os.path.exists(os.path.join(TOP, file)):
                found.append(f"{page} links to {link}, which does not exist")
            elif heading and heading not in (re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"(?m)^#+ (.*)$", read(file))):
                found.append(f"{page} links to {link}, and that page has no such heading")
    return found


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    if len(args) != 1:
        sys.exit(__doc__)
    if not os.access(os.path.join(args[0], "meridian"), os.X_OK):
        sys.exit(f"{args[0]}/meridian is missing: build the programs first (make)")
    pages = {"commands.md": commands(args[0]), "options.md": options(args[0]), "metrics.md": metrics(), "log-codes.md": log_page(), "losses.md": losses()}
    stale = []
    for name, text in pages.items():
        path = os.path.join(FOLDER, name)
        now = read(path) if os.path.exists(path) else None
        if now == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    for fault in faults() + broken_links() if "--check" in sys.argv else []:
        sys.exit(f"FAILED {fault}")
    if "--check" in sys.argv and stale:
        sys.exit(f"FAILED docs/reference: {', '.join(stale)} not current: make reference")
    print(f"{len(pages)} pages, {len(stale)} {'written' if '--check' not in sys.argv else 'not current'}")


if __name__ == "__main__":
    main()
