"""Compares verdicts with the truth, and prints the table.

A verdict of any tool is a JSON object; faults.py --score reads a file with one on each line:

    kind, seed     the run that it is about
    answer         named, nobody, cannot tell, or silent (no alarm)
    ranks          the ranks that it blames, the likeliest first. Empty unless `answer` is named
    cls            the class, in the words of kinds.py, or null
    certain        true: the tool calls it proven. A wrong rank then counts as wrong but certain
    live           true: it was given while the fault stood
    onset_ns       since when, in ns of the wall clock, or null
    told_ns        when the verdict was given, in the same clock, or null

Columns of the table: `right` and `class` count runs whose first named rank, and whose class, are true; `live` those that were named right while
the fault stood; `refused` those without a name, but with an alarm; `missed` those without both; `wrong` runs in which an innocent rank is
named, `certain` those of them that the tool calls proven. `onset s` is the error of "since when", `verdict s` the time from the fault to the
verdict, `after deadline s` from the deadline of the operation: median / most.

The naive detector names the ranks that lie more than k = 2 scaled median absolute deviations beyond the median of the ranks: by the mean
step, by the time since the last step in a hang, and (naive-own) by the own time of a rank in the recording."""
import collections
import math

Z = 1.96  # 95 %


def wilson(good, n):
    """The 95 % confidence interval of a share."""
    if n == 0:
        return 0.0, 1.0
    p, z2 = good / n, Z * Z
    middle, half = (p + z2 / (2 * n)) / (1 + z2 / n), Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def verdict(answer, ranks=(), cls=None, certain=False, live=False, onset_ns=None, told_ns=None, **more):
    return {"answer": answer, "ranks": list(ranks), "cls": cls, "certain": certain, "live": live, "onset_ns": onset_ns, "told_ns": told_ns, **more}


# ---- Ours ----

def of_hang(hang, told):
    """Of a verdict of the hang watch, None if there was none; told: all that it said of the job."""
    if hang is None:
        return verdict("silent", said=[h["verdict"] for h in told])
    ranks = [c["rank"] for c in hang["culprits"]]
    answer = "named" if ranks else "cannot tell" if hang["verdict"] == "cannot tell" else "nobody"
    return verdict(answer, ranks, hang["verdict"], hang["verdict"] != "unseen", hang["standing"], hang["since_ns"], hang["told_ns"], said=[hang["reason"]],
                   deadline_ns=hang["deadline_ns"])


WORK = [("gc", "gc"), ("load", "input"), ("data", "input"), ("checkpoint", "checkpoint"), ("compile", "load"), ("nrt_load", "load")]


def class_of(worker):
    """The class that the report's own numbers of a late worker say: the part with the largest excess, and what its host did meanwhile."""
    late, work = worker["late"], worker["late"].get("host_work")
    parts = {**(late.get("parts_ns") or {}), "began": late.get("began_later_ns") or 0}
    part = max(parts, key=lambda p: parts[p]) if parts else None
    if part == "compute":
        return "device"
    if part == "host":
        return "runtime host"
    if work and work.get("name"):
        name = work["name"].lower()
        if name.startswith("nrt_load"):
            return "load"
        return next((cls for word, cls in WORK if word in name), "host code")
    return {"idle": "host code", "copy": "copy"}.get(part)


def rank_of(worker, pids):
    if worker.get("ranks"):
        return worker["ranks"][0]
    return pids.get(worker.get("process_id"))


def of_report(report, pids, error):
    if report is None:
        return verdict("cannot tell", said=[error.strip()[-200:]])
    v = report["verdict"]
    said = [v["kind"], report.get("bottleneck")]
    if v["worker"] is None:
        cls = "link" if report.get("bottleneck") in ("transfer", "communication") else None
        return verdict("cannot tell" if v["kind"] in ("stands still", "nothing to compare") else "nobody", cls=cls, said=said)
    worker = report["workers"][v["worker"]]
    since = v["since"] if v["since"] and v["since"]["kind"] in ("since", "between") else None
    return verdict("named", [rank_of(worker, pids)], class_of(worker), v["kind"] in ("late", "more work", "absent"), said=said + [(worker["late"].get("host_work") or {}).get("name"), round(v["impact"], 4)],
                   onset_ns=int(since["changes"][0]["at_ns"]) if since else None)


# ---- The naive detector ----

def outliers(values, k=2):
    """Ranks whose value lies more than k scaled MADs above the median, the largest first."""
    middle = sorted(values.values())[(len(values) - 1) // 2]
    deviations = sorted(abs(v - middle) for v in values.values())
    mad = max(1.4826 * deviations[(len(deviations) - 1) // 2], 1e-9)
    return [r for r in sorted(values, key=lambda r: -values[r]) if values[r] - middle > k * mad]


def named(ranks):
    return verdict("named" if ranks else "nobody", ranks, certain=bool(ranks))


def naive_hang(lines, now_ns):
    """lines: what each rank printed. Alarms if no rank finished a step in the last second, and blames those that finished theirs first."""
    ends = {}
    for rank, words in lines.items():
        last = next((w for w in reversed(words) if w[0].isdigit()), None)
        ends[rank] = int(last[2]) + int(last[3]) if last else 0
    if now_ns - max(ends.values()) < 1e9:
        return verdict("silent")
    return {**named(outliers({r: (now_ns - end) / 1e9 for r, end in ends.items()})), "live": True}


def naive_slow(steps):
    means = {r: sum(int(w[3]) for w in words) / len(words) for r, words in steps.items() if words}
    return named(outliers(means)) if means else verdict("cannot tell")


def naive_parts(report, pids):
    """By the time in which a worker did not wait, as the same recording has it."""
    own = {}
    for worker in (report or {}).get("workers", []):
        parts = worker.get("parts_ns") or {}
        own[rank_of(worker, pids)] = sum(ns for part, ns in parts.items() if ns and part not in ("waiting", "exposed", "both", "not_recorded")) / max(1, worker["window_ns"])
    return named(outliers(own)) if len(own) > 2 else verdict("cannot tell")


# ---- Against the truth ----

def judge(truth, v):
    """By the first rank that is named: right, wrong, refused or missed; of a control right or alarm."""
    names = v["answer"] == "named"
    if truth["family"] == "control":
        return "alarm" if names or (v["answer"] != "silent" and v["live"]) else "right"
    if names:
        return "right" if v["ranks"] and v["ranks"][0] in truth["ranks"] else "wrong"
    if truth["expect"] == "nobody":
        return "right" if v["answer"] != "silent" or v["cls"] or truth["cls"] is None else "missed"
    unnamed = v["answer"] == "nobody" and truth["family"] == "hang"  # all stuck: an alarm that names nobody
    return "refused" if v["answer"] == "cannot tell" or unnamed else "missed"


def blames_innocent(truth, v):
    """Whether any of the ranks that it names is none of the culprits."""
    return v["answer"] == "named" and not set(v["ranks"]) <= set(truth["ranks"])


class Sum:
    """Counts of the runs of a kind, or of several."""

    def __init__(self):
        self.n, self.outcomes, self.wrong, self.certain, self.classes, self.classed, self.live = 0, collections.Counter(), 0, 0, 0, 0, 0
        self.onset, self.took, self.after = [], [], []

    def add(self, truth, v):
        outcome = judge(truth, v)
        self.n += 1
        self.outcomes[outcome] += 1
        self.wrong += outcome == "alarm" or blames_innocent(truth, v)
        self.certain += blames_innocent(truth, v) and bool(v["certain"])
        if truth["cls"]:
            self.classed += 1
            self.classes += outcome == "right" and v["cls"] == truth["cls"]
        if outcome == "right" and v["answer"] == "named":
            self.live += bool(v["live"])
        if outcome == "right" and truth["family"] != "control" and truth["onset_ns"]:
            if v["onset_ns"] is not None:
                self.onset.append(abs(v["onset_ns"] - truth["onset_ns"]) / 1e9)
            if v["told_ns"] is not None:
                self.took.append((v["told_ns"] - truth["onset_ns"]) / 1e9)
                if v["onset_ns"] is not None and "deadline_ns" in v:
                    self.after.append((v["told_ns"] - v["onset_ns"] - v["deadline_ns"]) / 1e9)


def share(good, n):
    low, high = wilson(good, n)
    digits = 0 if n < 200 else 1
    return f"{good}/{n} ({100 * low:.{digits}f}–{100 * high:.{digits}f} %)"


def middle(values, digits=1):
    return f"{sorted(values)[len(values) // 2]:.{digits}f} / {max(values):.{digits}f}" if values else "–"


def table(lines, tools):
    """The rows of the table, as lists of text. lines: results of job.run. tools: verdicts that are shown beside ours."""
    kinds = list(dict.fromkeys(line["truth"]["kind"] for line in lines))
    rows = [["kind", "runs", "right", "class", "live", "refused", "missed", "wrong", "certain", "onset s", "verdict s", "after deadline s"] + [f"{t}: right, wrong" for t in tools]]
    groups = [(kind, [line for line in lines if line["truth"]["kind"] == kind]) for kind in kinds]
    for family in ("hang", "slow", "control"):
        of = [line for line in lines if line["truth"]["family"] == family]
        groups += [(f"all: {family}", [line for line in of if line["truth"]["expect"] != "blind"]), (f"all: {family}, blind", [line for line in of if line["truth"]["expect"] == "blind"])]
    for name, group in groups:
        if not group:
            continue
        by = {}
        for tool in ["meridian", *tools]:
            by[tool] = Sum()
            for line in group:
                if tool in line["verdicts"]:
                    by[tool].add(line["truth"], line["verdicts"][tool])
        s, whole = by["meridian"], name.startswith("all: ")
        o, f = s.outcomes, group[0]["truth"]["family"]
        rows.append([name, str(s.n), share(o["right"], s.n) if whole else str(o["right"]),
                     "–" if not s.classed else share(s.classes, s.classed) if whole else str(s.classes), str(s.live) if f == "hang" else "–",
                     str(o["refused"]), str(o["missed"]), share(s.wrong, s.n) if whole else str(s.wrong), str(s.certain),
                     middle(s.onset, 2), middle(s.took), middle(s.after)]
                    + [f"{by[t].outcomes['right']}, {by[t].wrong}" if by[t].n else "–" for t in tools])
    return rows


def markdown(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    out = []
    for n, row in enumerate(rows):
        out.append("| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |")
        if n == 0:
            out.append("|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|")
    return "\n".join(out)


def mistakes(lines, tool="meridian"):
    """The runs whose verdict is not right, in a sentence each."""
    for line in lines:
        truth, v = line["truth"], line["verdicts"].get(tool)
        if v and ((outcome := judge(truth, v)) != "right" or blames_innocent(truth, v)):
            yield f"{truth['kind']}/{truth['seed']}: {outcome}: truth {truth['cls']} at {truth['ranks']} {truth['size']}, said {v['answer']} {v['ranks']} {v['cls']}: {v.get('said')}"
