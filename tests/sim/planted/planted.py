"""Writes the simulation's copies of product sources, with the bugs of the tables *.bugs in them.

planted.py ROOT SOURCE OUT TABLE... copies ROOT/SOURCE to the file OUT, with the bugs that the tables have for it. The source planted.def is the
list of all bugs, with one row for each. A table has these lines:

    bug NAME: what is wrong
    in aggregator/journal/journal.c
    -the lines of the product
    +the lines of the copy

The lines must occur exactly once in the source; white space and comments do not count. In the copy, PLANTED is true while mrd_planted is the bug's number.
A bug may have several places. A place that does not apply fails the build. With MRD_PLANT_IF_ABLE=1 it is left out.
"""

import os
import re
import sys


def places(table):
    """Yields the bug, its sentence, the source, the product's lines, the copy's lines and the line number of each place."""
    bug = text = None
    with open(table) as f:
        lines = [*f.read().split("\n"), ""]
    for at, line in enumerate(lines):
        if m := re.fullmatch(r"bug (\w+): (.+)", line):
            bug, text, old, new = m[1], m[2], [], []
        elif line.startswith("in "):
            source, old, new = line[3:], [], []
        elif line[:1] == "-":
            old.append(line[1:])
        elif line[:1] == "+":
            new.append(line[1:])
            if lines[at + 1][:1] != "+":
                yield bug, text, source, old, new, at + 1
        elif line:
            sys.exit(f"{table}:{at + 1}: begin the line with 'bug NAME: ', 'in ', '-' or '+'")


def plant(table, at, bug, number, source, code, old, new):
    comment = r"/\*(?:[^*]|\*(?!/))*\*/"
    words = rf"(?:\s|{comment})+".join(re.escape(w) for w in re.sub(comment, " ", " ".join(old)).split())
    found = len(re.findall(words, code))
    if found != 1 and os.environ.get("MRD_PLANT_IF_ABLE"):
        return code
    if found != 1:
        sys.exit(f"{table}:{at}: the bug {bug} cannot be planted: {source} has its lines {found} times, not once:\n" + "\n".join(old)
                 + "\nIf this code has changed, change the lines of the table in the same way. If the code was removed, remove the bug.")
    return re.sub(words, lambda m: "\n".join(new).strip().replace("PLANTED", f"is_planted({number}u)"), code)


def main(root, wanted, out, *tables):
    code, bugs = "", {}
    if wanted != "planted.def":
        with open(os.path.join(root, wanted)) as f:
            code = "extern unsigned mrd_planted;\nstatic inline _Bool is_planted(unsigned bug) { return mrd_planted == bug; }\n" + f.read()
    for table in tables:
        for bug, text, source, old, new, at in places(table):
            bugs[bug] = text
            if source == wanted:
                code = plant(table, at, bug, len(bugs), source, code, old, new)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "w") as f:
        f.write(code or "".join(f'PLANT({bug}, "{text}")\n' for bug, text in bugs.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
