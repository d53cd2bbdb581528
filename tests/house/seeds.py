"""docs/dev/seeds.md: every row of the documents once, with a state and tests that exist. Usage: seeds.py; MERIDIAN_BUILD says where ctest looks."""
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
ROWS = {f"{letter}-{n:02}" for letter, last in (("A", 44), ("B", 48), ("C", 31), ("D", 14), ("E", 12)) for n in range(1, last + 1)}
STATES = ("works", "better", "partly", "open")


def rows_of(words):
    """{"A-03", …} of "A-03 … A-05, A-09"."""
    found = []
    for part in words.split(","):
        ends = re.findall(r"([A-E])-(\d\d)", part)
        if not ends or ends[0][0] != ends[-1][0]:
            return None
        found += [f"{ends[0][0]}-{n:02}" for n in range(int(ends[0][1]), int(ends[-1][1]) + 1)]
    return found


def breaches(text, tests, cases):
    """What is wrong with that text. tests: names of ctest; cases: {test: names of its cases}."""
    seen, wrong = {}, []
    for n, line in enumerate(text.splitlines(), 1):
        m = re.match(r"\| ([A-E]-\d\d[^|]*) \| [^|]+ \| ([^|]+) \| (.+) \|$", line)
        if not m:
            if re.match(r"\| [A-E]-", line):
                wrong.append(f"line {n}: a row has four columns")
            continue
        ids, state, why = rows_of(m[1]), m[2], m[3]
        if ids is None:
            wrong.append(f"line {n}: {m[1]} is no list of rows")
            continue
        for id in ids:
            if id in seen:
                wrong.append(f"line {n}: {id} stands in line {seen[id]}, too")
            seen[id] = n
        if state not in STATES:
            wrong.append(f"line {n}: the state is one of {', '.join(STATES)}, not {state}")
        named, last = 0, None
        for word in re.findall(r"`([^`]+)`", why):
            if re.fullmatch(r"[a-z0-9]+/[\w-]+", word):
                named, last = named + 1, word
                if word not in tests:
                    wrong.append(f"line {n}: there is no test {word}")
            elif last in cases and re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+|[a-z]{5,}", word) and word not in cases[last]:
                wrong.append(f"line {n}: {last} has no case {word}")
        if named == 0:
            wrong.append(f"line {n}: names no test")
    wrong += [f"{id} is missing" for id in sorted(ROWS - set(seen))] + [f"{id} is no row" for id in sorted(set(seen) - ROWS)]
    return wrong


def main():
    with tempfile.TemporaryDirectory() as tmp: # ctest opens the log of its directory anew, and BUILD's belongs to the run that this test is part of
        with open(os.path.join(tmp, "CTestTestfile.cmake"), "w") as f:
            f.write(f'subdirs("{os.path.abspath(BUILD)}")\n')
        listed = subprocess.run(["ctest", "--test-dir", tmp, "-N"], capture_output=True, text=True, check=True).stdout
    tests = set(re.findall(r"^ +Test +#\d+: (\S+)", listed, re.M))
    cases = {}
    for path in glob.glob(os.path.join(ROOT, "tests", "*", "*_test.c")):
        room, name = os.path.basename(os.path.dirname(path)), os.path.basename(path)[:-len("_test.c")]
        with open(path, encoding="utf-8") as f:
            cases[f"{room}/{name}"] = set(re.findall(r"^TEST\((\w+)\)", f.read(), re.M))
    with open(os.path.join(ROOT, "docs/dev/seeds.md"), encoding="utf-8") as f:
        text = f.read()
    wrong = breaches(text, tests, cases)
    # The check itself: each of these makes the text false.
    for change, expected in ((("| A-01, A-02 |", "| A-01 |"), "A-02 is missing"), (("`e2e/devprof`", "`e2e/no-such-test`"), "no test e2e/no-such-test"),
                             (("`what_is_seldom_called`", "`what_is_never_called`"), "no case what_is_never_called"),
                             (("| A-44 |", "| A-43 |"), "A-43 stands"), (("| better |", "| perhaps |"), "not perhaps")):
        if not any(expected in w for w in breaches(text.replace(*change), tests, cases)):
            wrong.append(f"the check does not see {expected}")
    for w in wrong:
        print("FAILED docs/dev/seeds.md:", w)
    states = [s for s in re.findall(r"^\| [A-E]-\d\d[^|]* \| [^|]+ \| ([^|]+) \|", text, re.M)]
    print(f"{len(ROWS)} rows; lines that work: {states.count('works')}, better: {states.count('better')}, partly: {states.count('partly')}, open: {states.count('open')}")
    return 1 if wrong else 0


sys.exit(main())
