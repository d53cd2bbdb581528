"""Tests the fault benchmark (bench/faults): its scores for verdicts with a known result, the faults
that its seeds draw, and its short version on real ranks."""
import json
import os
import subprocess
import sys

from lib import BUILD, SOURCE, check, equal, finish, need_daemons, need_preload, tmp

sys.path.insert(0, os.path.join(SOURCE, "bench", "faults"))
import faults
import kinds
import score

TRUTH = {"kind": "K", "seed": 1, "family": "hang", "ranks": [2, 3], "cls": "dead", "expect": "named", "size": "", "onset_ns": 10_000_000_000}
say = score.verdict
ROWS = [  # (what differs in the truth, verdict, outcome, whether an innocent is named)
    ({}, say("named", [2], "dead"), "right", False),
    ({}, say("named", [3, 2], "stopped"), "right", False),
    ({}, say("named", [3, 4], "dead"), "right", True),
    ({}, say("named", [4, 3], "dead", certain=True), "wrong", True),
    ({}, say("cannot tell"), "refused", False),
    ({}, say("nobody", cls="all stuck"), "refused", False),
    ({}, say("silent"), "missed", False),
    ({"family": "slow"}, say("nobody"), "missed", False),
    ({"expect": "blind"}, say("cannot tell"), "refused", False),
    ({"expect": "nobody", "ranks": [], "cls": "all stuck"}, say("nobody", cls="all stuck"), "right", False),
    ({"expect": "nobody", "ranks": [], "cls": "all stuck"}, say("silent"), "missed", False),
    ({"expect": "nobody", "ranks": [], "cls": None, "family": "slow"}, say("nobody"), "right", False),
    ({"expect": "nobody", "ranks": [], "cls": "link", "family": "slow"}, say("named", [0]), "wrong", True),
    ({"family": "control", "ranks": []}, say("silent"), "right", False),
    ({"family": "control", "ranks": []}, say("nobody", cls="all stuck", live=True), "alarm", False),
    ({"family": "control", "ranks": []}, say("named", [0], certain=True), "alarm", True),
]


def scores():
    for n, (more, verdict, outcome, innocent) in enumerate(ROWS):
        truth = {**TRUTH, **more}
        equal((score.judge(truth, verdict), score.blames_innocent(truth, verdict)), (outcome, innocent), f"row {n}: {verdict}")
    s = score.Sum()
    s.add(TRUTH, say("named", [2], "dead", True, True, onset_ns=9_500_000_000, told_ns=12_000_000_000))
    s.add(TRUTH, say("named", [4], "dead", True, True))
    equal((s.n, s.outcomes["right"], s.classes, s.live, s.wrong, s.certain, s.onset, s.took), (2, 1, 1, 1, 1, 1, [0.5], [2.0]), "sums")
    low, high = score.wilson(0, 500)  # (the rule of three gives 0.6 %)
    check(low == 0 and 0.007 < high < 0.008, f"0 of 500: {low} {high}")
    low, high = score.wilson(63, 68)
    check(abs(low - 0.839) < 0.002 and abs(high - 0.968) < 0.002, f"63 of 68: {low} {high}")
    equal(score.outliers({0: 10, 1: 11, 2: 10.5, 3: 30, 4: 10, 5: 20}), [3, 5], "the naive detector")
    equal(score.outliers({0: 1, 1: 1, 2: 1, 3: 1}), [], "equal ranks have no outlier")
    steps = lambda last: [["loaded", "0"], ["1", "0", str(last), "5", "1"]]
    equal(score.naive_hang({0: steps(0), 1: steps(10), 2: steps(0)}, 1000)["answer"], "silent", "the job makes steps")
    equal(score.naive_hang({0: steps(8_000_000), 1: steps(0), 2: steps(8_000_001), 3: steps(8_000_002)}, 9_000_000_000)["ranks"], [1], "the rank whose last step is the oldest")


def draws():
    """A seed gives the same truth each time, and a name or a class means one thing."""
    classes = {"dead", "unseen", "stopped", "not entered", "other operation", "inside", "all stuck", "device", "gc", "starved", "input", "host code", "runtime host", "load",
               "checkpoint", "link", None}
    for kind in kinds.KINDS:
        equal(kinds.draw(kind, 7), kinds.draw(kind, 7), f"{kind.name}: a seed")
        check(kind.cls in classes and (kind.expect != "named" or kind.ranks), f"{kind.name}: class and culprits")
    equal(len(kinds.BY_NAME), len(kinds.KINDS), "names of kinds")
    drawn = {tuple(kinds.draw(kinds.BY_NAME["H9-stopped"], seed)["ranks"]) for seed in range(50)}
    equal(len(drawn), kinds.RANKS, "each rank is drawn")


def other_tools():
    """Verdicts of another tool are read from a file, and judged like ours."""
    path, line = os.path.join(tmp(), "other.jsonl"), {"truth": TRUTH, "verdicts": {"meridian": say("silent")}}
    for seed, answer in ((1, "named"), (2, "named")):
        with open(path, "w") as f:
            f.write(json.dumps({"kind": "K", "seed": seed, "answer": answer, "ranks": [3], "certain": True}) + "\n")
        try:
            equal(faults.add_tool([line], path), "other", "the tool has the name of the file")
            check(seed == 1, "a run that is not of the bench is refused")
        except SystemExit as refused:
            check(seed == 2 and "there is no run K/2" in str(refused), f"refused: {refused}")
    equal(score.judge(TRUTH, line["verdicts"]["other"]), "right", "the other tool is right")
    rows = score.table([{**line, "noise": {}, "step_ms": 5}], ["other"])
    equal((rows[1][0], rows[1][1], rows[1][-1]), ("K", "1", "1, 0"), f"its column: {rows}")


scores()
draws()
other_tools()
need_daemons()
need_preload()
p = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "faults", "faults.py"), "--quick", "--noise", "10000"], env=dict(os.environ, MERIDIAN_BUILD=BUILD))
equal(p.returncode, 0, "the quick part: each verdict is right")
finish()
