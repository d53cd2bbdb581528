"""Counts the turns of phrase that make the comments and documents of a folder hard to read. Each folder has a limit that may only fall.

The turns are those that well-written C projects use in about 1 % of their comments. A comment of fewer than 40 characters is not
counted. The count is a floor: a sentence that has none of the turns can still be unclear.
Usage: prose.py [FOLDER]; with a folder it prints each comment that was counted there."""
import collections
import os
import re
import subprocess
import sys

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIN_LENGTH = 40
MAX_WORDS = 30

# Per cent of the comments (paragraphs in docs) with a turn of phrase, with a sentence that is too long, with a chain of ; or :.
LIMITS = {
    ".": (2, 4, 3),
    "agent": (2, 2, 3),
    "aggregator": (2, 2, 3),
    "base": (3, 2, 4),
    "bench": (2, 3, 3),
    "capture": (2, 2, 3),
    "cli": (2, 2, 3),
    "deploy": (2, 3, 3),
    "docs": (2, 5, 3),
    "examples": (2, 2, 3),
    "httpd": (2, 2, 2),
    "hw": (1, 2, 2),
    "pki": (2, 2, 2),
    "proto": (2, 3, 3),
    "sim": (3, 4, 3),
    "timesync": (2, 3, 3),
    "trace": (2, 2, 3),
    "webhook": (4, 4, 4),
}

VERBS = "is was were are has had came comes it a an the they this that no nobody others one of may can would did does do goes ran read asks ask holds hold kept took lies"
TURNS = re.compile("|".join((
    r"(?:^|[.;:,(] )[Ww](?:hat|ho)(?:ever)? (?:" + "|".join(VERBS.split()) + r")\b",
    r"\b[Tt](?:hose|hat) (?:of|that|who|which|with|whose)\b", r"\bthe ones? (?:that|who|which)\b",
    r"\bwithout (?:memory|room)\b",
    r"\b(?:is|was|are|were|be|been) (?:said|told|hea[r]d|taken for|noted|meant|given up|known|gone)\b",
    r"\b(?:who|whose|whom|nobody|somebody|anybody)\b",
    r"\b(?:as|so) (?:many|much|long|far|often|old|few)\b",
    r"\bat one time\b|\bone after the other\b|\banew\b|\b(?:beside|behind) (?:it|them|each|the)\b",
    r"(?:^|[.;:] )Of (?:an?|the|each|every|all|one|its|their|those|these|what)\b",
    r"\b(?:does? without|go(?:es)? on|given? up|put away|come up|leaves? open|left open)\b")))


def comments(text):
    for m in re.finditer(r"/\*(.*?)\*/", text, re.S):
        comment = re.sub(r"\s*\n\s*\*?\s?", " ", m.group(1)).strip()
        if not re.search("opyright|SPDX|icense", comment):
            yield text.count("\n", 0, m.start()) + 1, comment


def paragraphs(text):
    text = re.sub(r"```.*?```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    line = 1
    for part in re.split(r"(\n\s*\n|\n(?=\|)|\n(?=[-*] ))", text):
        paragraph = re.sub(r"\s+", " ", part).strip()
        if not paragraph.startswith("#"):
            yield line, paragraph
        line += part.count("\n")


def faults(text):
    """(has a turn of phrase, has a long sentence, has a chain) of one comment."""
    plain = [re.sub(r"`[^`]*`", "x", sentence) for sentence in re.split(r"(?<=[.!?]) ", text)]
    return (bool(TURNS.search(text)), any(len(sentence.split()) > MAX_WORDS for sentence in plain),
            any(len(re.findall(r"[;:] ", sentence)) >= 2 for sentence in plain))


def main():
    listed = sys.argv[1] if len(sys.argv) > 1 else None
    total, found = collections.Counter(), collections.defaultdict(lambda: [0, 0, 0])
    for path in subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines():
        split = comments if path.endswith((".c", ".h", ".def")) else paragraphs if path.endswith(".md") else None
        if not split or not os.path.exists(os.path.join(ROOT, path)):
            continue
        folder = path.split("/")[0] if "/" in path else "."
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
            text = f.read()
        for line, comment in split(text):
            if len(comment) < MIN_LENGTH:
                continue
            total[folder] += 1
            bad = faults(comment)
            for i, is_bad in enumerate(bad):
                found[folder][i] += is_bad
            if folder == listed and any(bad):
                names = [name for name, is_bad in zip(("turn", "long", "chain"), bad) if is_bad]
                print(f"{path}:{line}: {', '.join(names)}: {comment[:300]}")
    status = 0
    for folder in sorted(total):
        shares = [round(100 * n / total[folder], 1) for n in found[folder]]
        limits = LIMITS.get(folder, (2, 2, 3))
        print(f"{folder:12s} {total[folder]:5d} comments: turns {shares[0]:.1f} %, long {shares[1]:.1f} %, chains {shares[2]:.1f} %")
        if any(share > limit for share, limit in zip(shares, limits)):
            print(f"FAILED {folder}: above the limits {limits}. Look at them with tests/house/prose.py {folder} and write them as CONTRIBUTING.md says.")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
