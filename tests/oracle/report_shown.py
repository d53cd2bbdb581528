"""What the text and the page of a report must show, worked out from its JSON: which tables there are, how many rows each has and
how many it leaves out, and each number in the tables of workers, kernels and collectives, to the precision in which it is shown.
Shares no code with the report."""
import html.parser
import re

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
CELL = re.compile(r"(?<!\S)(?:-|[+-]?\d[\d.]*(?: (?:ns|us|ms|s|%|x|GB/s))?)(?!\S)")
PARTS = ("compute", "both", "exposed", "copy", "waiting", "host", "idle")
IDLE = ("loading", "launch", "short", "queued", "unknown")
TEXT_ROWS, TEXT_KERNELS, PAGE_WORKERS, PAGE_ROWS = 32, 12, 64, 20


def number(cell):
    """(value, half of the last digit shown) of a cell with or without a unit; None: '-'."""
    if cell == "-":
        return None
    m = re.fullmatch(r"([+-]?\d+(?:\.(\d+))?)(?: (ns|us|ms|s|%|x|GB/s))?", cell)
    if m is None:
        raise ValueError(f"no number: {cell!r}")
    unit = UNITS.get(m[3], 1)
    return float(m[1]) * unit, unit * 10.0**-len(m[2] or "")


def cells_wrong(cells, want):
    """Which cells do not show the numbers wanted."""
    wrong = []
    if len(cells) != len(want):
        return [f"{len(cells)} cells {cells}, expected {want}"]
    for cell, w in zip(cells, want):
        try:
            got = number(cell)
        except ValueError as e:
            wrong.append(str(e))
            continue
        if (got is None) != (w is None) or got is not None and abs(got[0] - w) > 1.01 * got[1]:
            wrong.append(f"{cell!r} instead of {w}")
    return wrong


def tables_of(text):
    """{heading: [lines of its table]}: a heading begins a line behind an empty one."""
    out, lines = {}, text.split("\n")
    for i, line in enumerate(lines):
        if line and line[0] != " " and (i == 0 or lines[i - 1] == "" or lines[i - 1][0] == " " and lines[i - 1].strip() and i > 1 and lines[i - 2] == ""):
            end = next((k for k in range(i + 1, len(lines)) if lines[k] == ""), len(lines))
            out[re.split(r" {2,}|, %| +count", line)[0]] = lines[i + 1:end]
    return out


def rows_of_workers(lines, workers):
    """[(worker, cells)] of the lines that begin with a worker."""
    names = {f"rank {w['rank']} device {w['device_idx']} pid {w['process_id']}": i for i, w in enumerate(workers)}
    out = []
    for line in lines:
        m = re.match(r"  (rank -?\d+ device -?\d+ pid \d+) +(.*)$", line)
        if m and m[1] in names:
            out.append((names[m[1]], CELL.findall(m[2])))
    return out


def share(part, whole):
    return None if part is None else 0 if whole == 0 else 100 * part / whole


def wants_of_workers(report):
    """{heading: {worker: numbers}}; a table without any worker is not shown."""
    workers, out = report["workers"], {}
    window = [w["window_ns"] for w in workers]
    if workers:
        out["Where the time goes"] = {i: [w["window_ns"]] + [share(w["parts_ns"][p], window[i]) for p in PARTS] for i, w in enumerate(workers)}
    if any(sum(w["exposed_ns"].values()) for w in workers):
        out["Exposed communication"] = {i: [sum(w["exposed_ns"].values())] + [share(w["exposed_ns"][k], window[i]) for k in ("waiting", "transfer", "unknown")]
                                        for i, w in enumerate(workers) if sum(w["exposed_ns"].values())}
    if any(w["idle_ns"][k] for w in workers for k in IDLE[:-1]):
        out["Why devices were idle"] = {i: [share(w["idle_ns"][k], window[i]) for k in IDLE] for i, w in enumerate(workers)}
    if any(w["queue"] for w in workers):
        out["Queue of each worker"] = {i: [q["launches"], 0 if window[i] == 0 else q["sum_ns"] / window[i], q["most"], share(q["empty_ns"], window[i])]
                                       for i, q in enumerate(w["queue"] for w in workers) if q}
    late = {i: w["collectives"] for i, w in enumerate(workers) if w["collectives"]["took_part"]}
    if late:
        out["Who was late"] = {i: [c["took_part"], c["last"], c["proven"], c["alone_ns"], c["caused_ns"], c["wait_ns"]] for i, c in late.items()}
    return out


def label_of(worker):
    return f"rank {worker['rank']} device {worker['device_idx']} pid {worker['process_id']}"


def whole_table(tables, heading, rows, most, what, wrong):
    """Rows with their numbers, [(begin of the line or None, numbers)], of which the first `most` are shown and the others counted."""
    if (heading in tables) != bool(rows):
        wrong.append(f"'{heading}' is {'there' if heading in tables else 'not there'}")
        return
    lines = tables.get(heading, [])
    left = re.findall(r"^  \.\.\. and (\d+) more " + what, "\n".join(lines), re.M)
    if list(map(int, left)) != ([len(rows) - most] if len(rows) > most else []):
        wrong.append(f"'{heading}': {left} more, of {len(rows)}")
    for line, (begin, want) in zip(lines + [""] * len(rows), rows[:most]):
        if begin is not None and not line.startswith("  " + begin):
            wrong.append(f"'{heading}': {line!r} does not begin with {begin!r}")
        wrong += [f"'{heading}': {line!r}: {w}" for w in cells_wrong(CELL.findall(line[len("  " + (begin or "")):])[-len(want):], want)]


def cut(name, columns):
    return name if len(name) <= columns else name[:columns - 3] + "..."


def blocks_together(blocks, workers):
    """Steps over time in at most 8 rows: [(name, mean, shares)]. Steps keep their names if all end with a number."""
    each, out, first = -(-len(blocks) // 8), [], 1
    named = each == 1 and all(b["steps"] == 1 and b["name"][-1:].isdigit() for b in blocks)
    shown = {p: any(w["parts_ns"][p] is not None for w in workers) for p in PARTS}
    for i in range(0, len(blocks), each or 1):
        some = blocks[i:i + each]
        steps = sum(b["steps"] for b in some)
        parts = {p: sum(b["parts_ns"][p] for b in some) for p in some[0]["parts_ns"]}
        name = cut(some[0]["name"], 32) + " " if named else f"step {first} " if steps == 1 else f"steps {first} to {first + steps - 1} "
        out.append((name, [sum(b["total_ns"] for b in some) // steps] + [share(parts[p], sum(parts.values())) if shown[p] and sum(parts.values()) else None for p in PARTS]))
        first += steps
    return out


def sentence(text, begin):
    """The paragraph that begins so, on one line."""
    m = re.search(r"^ *" + begin + r"(?:.*\n)(?: {11}.*\n)*", text, re.M)
    return " ".join(m[0].split()) if m else ""


def wrong_in_path(report, text):
    """Three workers at most, those with the largest share, and each part that there is."""
    path, workers, wrong = report["critical_path"], report["workers"], []
    got = re.search(r"^Critical path through (?:(\d+) steps? of|the recording).*\n((?: {11}.*\n)+)", text, re.M)
    if (got is not None) != (path is not None and path["total_ns"] > 0 and len(workers) > 1):
        return [f"the critical path is {'there' if got else 'not there'}"]
    if got is None:
        return []
    words = " ".join(got[2].split())
    parts = re.findall(r"(\w+) ([\d.]+ %)(?=[,.])", words.split(". It ran")[0] + ".")
    if int(got[1] or 0) != path["steps"] or {name for name, _ in parts} != {k for k, v in path["parts_ns"].items() if v > 0 and k != "not_recorded"}:
        wrong.append(f"path: {words}")
    for name, cell in parts:
        wrong += cells_wrong([cell], [share(path["parts_ns"].get(name), path["total_ns"])])
    wrong += cells_wrong([words.split(": ")[0]], [path["total_ns"]])
    through = sorted(workers, key=lambda w: -w["steps"]["critical_path_ns"])
    through = [w for w in through if w["steps"]["critical_path_ns"] > 0][:3]
    got = re.findall(r"(rank \d+ device \d+ pid \d+) for ([\d.]+ %)", words)
    if [g[0] for g in got] != [label_of(w) for w in through]:
        wrong.append(f"path: through {got}, expected {[label_of(w) for w in through]}")
    wrong += cells_wrong([g[1] for g in got], [share(w["steps"]["critical_path_ns"], path["total_ns"]) for w in through])
    moved = re.search(r"and moved (\d+) time(s?) from", words)
    if moved is None or int(moved[1]) != path["changes"] or (moved[2] == "") != (path["changes"] == 1):
        wrong.append(f"path: moved {moved and moved[1]} times, not {path['changes']}")
    return [f"path: {w}" for w in wrong + wrong_in_shortens(path, words)]


def wrong_in_shortens(path, words):
    """What the sentence says about waiting on the path: none, or how much may be."""
    maybe = re.search(r"Of it, (.*?) \((.*?)\) may be waiting for others: .* Only what shortens the rest or this waiting can shorten the (steps|recording)\.", words)
    none = re.search(r"It contains no waiting for others in collectives( \(the part called waiting is of barriers after the last had come\))?: "
                     r"only what shortens it can shorten the (steps|recording)\.", words)
    whole = "steps" if path["steps"] > 0 else "recording"
    if (maybe is None) == (none is None) or (maybe is not None) != (path["maybe_waiting_ns"] > 0) or (maybe[3] if maybe else none[2]) != whole:
        return [f"{path['maybe_waiting_ns']} ns may be waiting: {words}"]
    if maybe:
        return cells_wrong([maybe[1], maybe[2]], [path["maybe_waiting_ns"], share(path["maybe_waiting_ns"], path["total_ns"])])
    return [] if (none[1] is not None) == ((path["parts_ns"]["waiting"] or 0) > 0) else [f"barriers: {words}"]


def wrong_in_latest(report, text):
    """Who the others waited for: the most frequent, how many different ones, how often it changed."""
    over, workers = report["steps_over_time"], report["workers"]
    got = sentence(text, "latest ")
    if over is None or over["late_steps"] == 0:
        return [f"latest: {got}"] if got else []
    late = [w["steps"]["latest"] for w in workers]
    want = f"latest The others waited longest for {label_of(workers[late.index(max(late))])} in {max(late)} of {over['late_steps']} steps; "
    if sum(n > 0 for n in late) == 1:
        want += "it was always this worker."
    else:
        mostly = "mostly it is the same worker" if max(late) / over["late_steps"] >= 0.75 else "it is not always the same worker"
        want += f"in all, {sum(n > 0 for n in late)} workers were the latest in some step, and the latest changed {over['late_changed']} time{'' if over['late_changed'] == 1 else 's'} from one step to the next: {mostly}."
    return [] if got == want else [f"latest: {got!r}, expected {want!r}"]


def wrong_in_trend(report, text):
    over = report["steps_over_time"]
    got, t = sentence(text, "trend "), None if over is None else over["trend"]
    if t is None or t["blocks"] == 0:
        return [f"trend: {got}"] if got else []
    changes = ""
    if len(t["changes"]) == 1:
        c = t["changes"][0]
        by = 100 * (c["after_ns"] / c["before_ns"] - 1)
        changes = rf"steps take {abs(by):.1f} % {'longer' if by > 0 else 'less'} since step {c['step']} \(at [^)]*\): \S+ \S+ instead of \S+ \S+"
    elif t["changes"]:
        changes = rf"the duration of steps changed {len(t['changes'])} times( or more)?: " + ", ".join(
            rf"{re.escape(format(100 * (c['after_ns'] / c['before_ns'] - 1), '+.1f'))} % at step {c['step']} \([^)]*\)" for c in t["changes"])
    if changes and t["says"] in ("too few", "none"):
        return [] if re.fullmatch("trend " + changes, got) else [f"trend: {got!r}, expected {changes!r}"]
    if t["says"] == "too few":
        want = rf"trend too few steps to tell a trend: {t['blocks']} of the 8 that it takes"
    elif t["says"] == "none":
        want = rf"trend no trend beyond the spread of {t['blocks']} values \(p {re.escape('%.3g' % t['p'])}\)"
    else:
        mean = sum(b["total_ns"] / b["steps"] for b in over["blocks"] if b["steps"] >= over["width"]) / t["blocks"]
        m = re.fullmatch(rf"trend {changes + '; ' if changes else ''}" + r"steps become (longer|shorter): (.*) \(([-+][\d.]+ %)\) from the first of (\d+) values to the last \(p (.*)\)", got)
        if m is None or (m[1], m[4], m[5]) != ("longer" if t["says"] == "up" else "shorter", str(t["blocks"]), "%.2g" % t["p"]):
            return [f"trend: {got!r} of {t}"]
        return cells_wrong([m[2], m[3]], [abs(t["change_ns"]), 100 * t["change_ns"] / mean])
    return [] if re.fullmatch(want, got) else [f"trend: {got!r}, expected {want!r}"]


WORDS = {"compute": ("compute-bound", "computation"), "skew": ("skew-bound", "waiting in collectives for the last worker"),
         "transfer": ("transfer-bound", "transfer (collectives without computation beside them, copies)"),
         "communication": ("communication-bound", "collectives without computation beside them; the share of waiting is unknown, because "),
         "host": ("host-bound", "waiting for the host (late launches, runtime calls)"), "loading": ("data-loading-bound", "idle while data was loaded"),
         "idle": ("idle", "idle, for causes that the trace does not show"), "not_recorded": ("not recorded", "not recorded (events were lost, or the session was paused)")}


def bounds_of(w):
    """What bounded the time of one worker."""
    part, exposed, idle = ({k: v or 0 for k, v in w[name].items()} for name in ("parts_ns", "exposed_ns", "idle_ns"))
    return {"compute": part["compute"] + part["both"], "skew": part["waiting"] + exposed["waiting"], "transfer": exposed["transfer"] + part["copy"],
            "communication": exposed["unknown"], "host": part["host"] + idle["launch"], "loading": idle["loading"],
            "idle": idle["short"] + idle["queued"] + idle["unknown"], "not_recorded": part["not_recorded"]}


def wrong_in_bottleneck(report, text):
    """The bottleneck, then the two largest others, without those below a hundredth; of equals the first. Who has most of it, if that stands out."""
    got, bound, totals = sentence(text, "Bottleneck "), report["bound_by_ns"], report["totals"]
    whole = totals["window_ns"]
    if whole == 0:
        return [f"bottleneck: {got}"] if got else []
    loss = max((k for k in bound if k != "compute"), key=bound.get)
    first = loss if bound[loss] > bound["compute"] or bound[loss] * 5 >= whole else "compute"
    if report["bottleneck"] != first:
        return [f"bottleneck: {report['bottleneck']!r}, expected {first!r}"]
    lacks = totals["without_partner"] + totals["partial"] > 0 or totals["world_size"] is not None and totals["ranks"] < totals["world_size"]
    why = {(False, False): "parts of other workers are missing", (False, True): "parts of other workers are missing",
           (True, True): "parts of other workers are missing, or a worker need not wait for the others (single messages, broadcast)",
           (True, False): "a worker need not wait for the others in these operations (single messages, broadcast)"}[totals["loose"] > 0, lacks]
    what = {k: words + (why if k == "communication" else "") for k, (_, words) in WORDS.items()}
    most = [first] + [k for k in sorted(bound, key=lambda k: -bound[k]) if k != first and bound[k] * 100 >= whole][:2]
    want = "Bottleneck " + re.escape(WORDS[first][0]) + ": " + ", ".join(r"([\d.]+ %) \(([\d.]+ \w+)\) " + re.escape(what[k]) for k in most)
    shares = [share(bounds_of(w)[first], w["window_ns"]) for w in report["workers"]]
    middle = sorted(shares)[(len(shares) - 1) // 2]
    stands_out = first not in ("skew", "communication") and len(shares) > 1 and max(shares) >= 1.5 * middle and max(shares) >= middle + 5
    if stands_out:
        want += (rf"\. Most of it is at {re.escape(label_of(report['workers'][shares.index(max(shares))]))}: ([\d.]+ %) of its time; "
                 r"of the median worker's time ([\d.]+ %)")
    m = re.fullmatch(want, got)
    if m is None:
        return [f"bottleneck: {got!r}, expected {want!r}"]
    return cells_wrong(list(m.groups()), [x for k in most for x in (share(bound[k], whole), bound[k])] + ([max(shares), middle] if stands_out else []))


def since_text(report):
    """A pattern of the sentence that says since when the worker of the verdict is late."""
    since, moment = report["verdict"]["since"], r"\d[\d.]* \S+"
    at = [rf"(?:step {c['step']} \(at {moment}\)|{moment})" for c in since["changes"]]
    return {"too few": "", "no change": r" It is late during the whole recording\.", "since": r" It is late since {}\.", "until": r" It was late until {}\.",
            "between": r" It was late from {} to {}\.", "not between": r" It was late except from {} to {}\.",
            "several changes": r" Its lateness changed several times, first at {}\."}[since["kind"]].format(*at)


def wrong_in_verdict(report, text):
    v, totals, got = report["verdict"], report["totals"], sentence(text, "Verdict ")
    n = totals["collectives"]
    if v["worker"] is None:
        loose = totals["loose"] > 0 and totals["without_partner"] == 0
        want = {"none": f"no worker stands out in {n} collective{'' if n == 1 else 's'}"}.get(
            v["kind"], "the profile has no work of any core or device" if not report["workers"]
            else "workers cannot be compared: none has to wait for the others in their communication (single messages, broadcast)" if loose
            else "workers cannot be compared: no collective has spans of two workers")
        if not report["workers"] and got is not None and got.startswith("Verdict " + want):
            return []
        return [] if got == "Verdict " + want else [f"verdict: {got!r}, expected {want!r}"]
    w = report["workers"][v["worker"]]
    c = w["collectives"]
    if v["kind"] == "sometimes":
        often = " once" if c["last"] == 1 else " now and then" if c["last"] < c["took_part"] else ""
        why = (f"{100 * c['longest_wait_ns'] / c['own_wait_ns']:.0f} % of this was in one collective." if c["longest_wait_ns"] > c["own_wait_ns"] // 2
               else f"by chance some worker has as much with a probability of up to {100 * v['chance']:.1f} %." if v["chance"] > 0.002
               else "others were later in parts of the recording." if not v["lasts"] else "another worker caused more than half as much.")
        want = (f"Verdict {label_of(w)} was late{often}: it came last to {c['last']} of its {c['took_part']} collective{'' if c['took_part'] == 1 else 's'}, "
                f"and {100 * v['share']:.0f} % of all waiting in collectives was for it ({100 * v['impact']:.1f} % of the workers' time). "
                f"This does not show that it is the cause, because {why}")
        want = re.escape(want) + (since_text(report) if v["since"]["changes"] else "")
        return [] if re.fullmatch(want, got) else [f"verdict: {got!r}, expected {want!r}"]
    want = (f"Verdict {label_of(w)} came last to {c['last']} of its {c['took_part']} collective{'' if c['took_part'] == 1 else 's'} ({c['proven']} proven). "
            f"Of all waiting in collectives, {100 * v['share']:.0f} % was for it ({100 * c['proven_ns'] / totals['wait_ns']:.0f} % proven). "
            f"The waiting that only it caused is {100 * v['impact']:.1f} % of the workers' time ({'minor' if v['impact'] < 0.1 else 'worth a look' if v['impact'] < 0.2 else 'critical'}).")
    want = re.escape(want) + since_text(report)
    clocks, missing = totals["without_bound"] + totals["suspect_clock"] + totals["device_clock"], totals["partial"] + totals["mixed_groups"]
    if v["kind"] == "indistinguishable" and clocks > 0 and missing > 0:
        want += re.escape(" This is not proven: in some collectives the clocks leave open who came last, and in some the parts of other workers are not in this profile.")
    elif v["kind"] == "indistinguishable" and missing > 0:
        want += re.escape(" This is not proven: who else took part is not in this profile, and may have come later.")
    elif v["kind"] == "indistinguishable":
        want += re.escape(" The clocks do not prove this: within their bounds it is indistinguishable from other workers.")
    return [] if re.fullmatch(want, got) else [f"verdict: {got!r}, expected {want!r}"]


def wrong_in_doubts(report, text):
    """Why collectives prove nothing, with how many."""
    t, got, wrong = report["totals"], sentence(text, "Coverage "), []
    for key, why in (("without_bound", "because the bound of a clock is unknown"), ("suspect_clock", "because a clock is suspect, or observations contradict it"),
                     ("device_clock", "because the runtime maps the clocks of the cores too coarsely"), ("partial", "because the part of a worker of its group is missing, or may be"),
                     ("mixed_groups", "because several groups have the same name: more members took part than the group has")):
        n = t[key]
        want = f"In {n} collective{'' if n == 1 else 's'} the last worker is not proven, {why}."
        if (want in got) != (n > 0) or got.count(why) != (n > 0):
            wrong.append(f"coverage: {got!r}, {key} {n}")
    n, of = t["ranks"], t["world_size"]
    absent = sorted(set(range(of or 0)) - {w["rank"] for w in report["workers"]})
    names = ", ".join(map(str, absent[:-1])) + (" and " if len(absent) > 1 else "") + str(*absent[-1:])
    few = "" if len(absent) > 8 else f", but not rank{'' if len(absent) == 1 else 's'} {names}"
    want = (f"Of the job's {of} ranks, {n} {'has' if n == 1 else 'have'} device work in this profile{few}: "
            f"whether {'this one' if len(absent) == 1 else 'one of these'} came late, it cannot tell.")
    if (want in got) != (of is not None and n < of) or ("it cannot tell" in got) != (want in got):
        wrong.append(f"coverage: {got!r}, {n} ranks of {of}")
    n = t["without_partner"]
    if (f"{n} span{'' if n == 1 else 's'} of collectives could not be matched with another worker's." in got) != (n > 0):
        wrong.append(f"coverage: {got!r}, without a partner {n}")
    return wrong


def bytes_wrong(cell, want):
    m = re.fullmatch(r"([\d.]+) (B|bytes|KiB|MiB|GiB|TiB)", cell)
    if m is None:
        return [f"no amount of memory: {cell!r}"]
    unit = {"B": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[m[2]]
    return [] if abs(float(m[1]) * unit - want) <= 1.01 * unit * 10.0**-len(m[1].partition(".")[2]) else [f"{cell!r} instead of {want}"]


def growth_wrong(cell, m, steps, none):
    """What grows, over the recording or per step."""
    want = {"too few": none, "none": "none"}.get(m["trend"])
    if want is not None:
        return [] if cell == want else [f"growth {cell!r} of {m}"]
    sign, rest = cell[:1], cell[1:].removesuffix(" per step")
    if sign != ("-" if m["change_bytes"] < 0 else "+") or cell.endswith(" per step") != (steps > 0):
        return [f"growth {cell!r} of {m}"]
    return bytes_wrong(rest, abs(m["change_bytes"]) / (steps or 1))


def wrong_in_memory(report, text, first_ns):
    lines, wrong = tables_of(text).get("Memory by category", []), []
    rows = [m for m in (re.match(r"    (\S+) +([\d.]+ \w+) +(before|[\d.]+ \w+) +([\d.]+ \w+)  (.*)$", line) for line in lines) if m]
    if len(rows) != min(len(report["memory"]), 48):
        return [f"memory: {len(rows)} rows of {len(report['memory'])}"]
    for row, m in zip(rows, report["memory"]):
        if row[1] != cut(m["name"], 38):
            wrong.append(f"memory: {row[1]!r}, expected {m['name']!r}")
        at = int(m["peak_ns"]) - first_ns
        wrong += bytes_wrong(row[2], m["peak_bytes"]) + bytes_wrong(row[4], m["last_bytes"])
        wrong += ([] if row[3] == "before" else [f"{row[3]} of {at}"]) if at < 0 else cells_wrong([row[3]], [at])
        wrong += growth_wrong(row[5], m, sum(s["count"] for s in report["steps"] if s["process_id"] == m["process_id"]), "-")
    order, want, before = [line if line[2] != " " else line[4:42].rstrip() for line in lines if line.startswith(("  i-", "    "))], [], None
    for m in report["memory"][:48]:
        head = f"  {m['instance_id']} / pid {m['process_id']}" + ("" if m["rank"] is None else f" rank {m['rank']}")
        want, before = want + ([head] if head != before else []) + [cut(m["name"], 38)], head
    if order != want:
        wrong.append(f"processes and their rows {order}, expected {want}")
    return [f"memory: {w}" for w in wrong]


def wrong_in_lines(text):
    """No line is wider than a page of text, and no line of a paragraph could take the next one's first word with its unit."""
    wrong = [f"{len(line)} columns: {line!r}" for line in text.split("\n") if len(line) > 100]
    for a, b in zip(text.split("\n"), text.split("\n")[1:]):
        words = re.match(r"(  | {11})(?! )(\S+)( (?:ns|us|ms|s|min|h|%)(?![a-z%])\S*)?", b)
        note = re.match(r"  [a-z-]+: .*[a-z,]$| {11}\S.*[^.]$|(?:Bottleneck|Verdict|Coverage) .*[^.]$", a)
        if words and note and len(a) - len(a.lstrip()) in (0, len(words[1])) and len(a) + 1 + len(words[2] + (words[3] or "")) <= 100:
            wrong.append(f"{a!r} ends before {words[0]!r}")
    return wrong


REASONS = [("compute", "both"), ("exposed", "waiting"), ("idle",), ("host",), ("copy",), ("not_recorded",)]  # columns of "Why it came last"


def more_wrong_in_text(report, text, first_ns):
    """The tables that have no row of each worker, and sentences."""
    tables, workers, wrong = tables_of(text), report["workers"], []
    late = [(w, w["late"]) for w in workers if w["late"]["late_ns"] > 0]
    least = sum(one["late_ns"] for _, one in late) // 100
    weight = [sum(abs(sum(w["late"]["parts_ns"][p] for p in parts)) for w in workers) for parts in REASONS]
    columns = sorted(sorted(range(len(REASONS)), key=lambda k: -weight[k])[:4])
    shown = [(label_of(w), [one["late_ns"]] + [None if all(w["parts_ns"][p] is None for p in REASONS[k]) else sum(one["parts_ns"][p] for p in REASONS[k]) for k in columns]
              + [one["began_later_ns"]]) for w, one in late if one["late_ns"] >= least]
    if len(shown) == len(late) <= 64:
        whole_table(tables, "Why it came last, where it did", shown, 64, "workers", wrong)
    table = tables.get("Where the time goes", [])
    unknown = {p for p in PARTS if all(w["parts_ns"][p] is None for w in workers)}
    total = {p: None if p in unknown else sum(w["parts_ns"][p] or 0 for w in workers) for p in PARTS}
    every = [CELL.findall(line[6:]) for line in table if line.startswith("  all  ")]
    if workers and len(every) != 1:
        wrong.append(f"the sum of workers: {every}")
    for cells in every if workers else ():
        wrong += cells_wrong(cells, [report["totals"]["window_ns"]] + [share(total[p], report["totals"]["window_ns"]) for p in PARTS])
    hides = re.findall(r"^  computation hides ([\d.]+ %) of the time in collectives(?:, without Neuron)?$", text, re.M)
    told = [w for w in workers if w["parts_ns"]["waiting"] is None]  # Neuron's collectives run inside executions
    both, exposed = (sum(w["parts_ns"][p] or 0 for w in told) for p in ("both", "exposed"))
    wrong += cells_wrong(hides, [share(both, both + exposed)] if both + exposed else [])
    whole_table(tables, "Collectives", [
        (cut(c["name"] + ("" if c["size"] is None or c["size"] < 0 else f" {c['size']}"), 26),
         [c["count"], c["parts"] / c["count"], c["latency_p50_ns"], c["latency_p99_ns"], c["spread_p50_ns"], c["spread_p99_ns"], c["spread_max_ns"], c["proven"]])
        for c in report["collectives"]], 16, "collectives", wrong)
    sized = [(c["name"], c["bandwidth"]) for c in report["collectives"] if c["bandwidth"]["count"] > 0]
    whole_table(tables, "Bandwidth of collectives", [
        (cut(name, 36), [b["count"], b["bytes"] // b["count"], b["latency_ns"] // b["count"], b["algorithm_gb_per_s"], b["bus_gb_per_s"] or None])
        for name, b in sized], 16, "collectives", wrong)
    means = [s["total_ns"] / s["count"] for s in report["steps"]]
    whole_table(tables, "Steps", [
        (f"pid {s['process_id']} rank {s['rank']}", [s["count"], s["total_ns"] // s["count"], s["p50_ns"], s["p99_ns"], s["max_ns"], min(means) / (s["total_ns"] / s["count"])])
        for s in report["steps"]], 64, "processes", wrong)
    whole_table(tables, "Slowest steps", [
        (f"pid {s['process_id']} rank {s['rank']}".ljust(33) + cut(s["name"], 19), [int(s["start_ns"]) - first_ns, s["duration_ns"]]) for s in report["slowest_steps"][:6]], 6, "steps", wrong)
    over = report["steps_over_time"]
    whole_table(tables, "Steps over time", blocks_together(over["blocks"], report["workers"]) if over else [], 8, "steps", wrong)
    pauses = report["longest_pauses"][:6]
    if len(tables.get("Longest pauses of devices", [])) < len(pauses) or bool(pauses) != ("Longest pauses of devices" in tables):
        wrong.append("the longest pauses are there or not")
    for line, p in zip(tables.get("Longest pauses of devices", ()), pauses):
        m = re.match(r"  (rank \d+ device \d+ pid \d+) +([\d.]+ \w+) +([\d.]+ \w+) +(-|[\d.]+ %)  (.*)$", line)
        names = ", ".join(cut(p[k], 16) for k in ("after", "before"))
        if m is None or m[1] != label_of(workers[p["worker"]]) or (names.isprintable() and m[5] != names):
            wrong.append(f"pause {line!r} of {p}")
            continue
        wrong += cells_wrong(m.groups()[1:4], [int(p["start_ns"]) - first_ns, p["duration_ns"], share(p["host_ns"], p["duration_ns"])])
    for line, k in zip(tables.get("What devices ran", ()), report["kernels"][:TEXT_KERNELS]):
        slow = not k["collective"] and k["workers"] > 1 and k["median_ns"] > 0
        end = f"  {cut(label_of(workers[k['most_worker']]), 22):22} {k['most_ns'] / k['median_ns']:.2f} x" if slow else "  includes waiting for others" if k["collective"] else " %"
        if not line.endswith(end):
            wrong.append(f"kernel {line!r} does not end with {end!r}")
    lost = sum(w["queue"]["cut_ns"] for w in workers if w["queue"])
    wrong += cells_wrong(re.findall(r"([\d.]+ \w+) in flight are not counted, for queues were longer than is kept", " ".join(text.split())), [lost] if lost else [])
    begun = [(int(w["start_ns"]), int(w["start_ns"]) + w["window_ns"]) for w in workers]
    title = re.match(r"Report     (.*) of (\d+) worker(s?)\n", text)
    if title is None or int(title[2]) != len(workers) or (title[3] == "") != (len(workers) == 1):
        wrong.append(f"title {text[:60]!r}")
    elif workers:
        wrong += cells_wrong([title[1]], [max(e for _, e in begun) - min(b for b, _ in begun)])
    wrong += wrong_in_bottleneck(report, text) + wrong_in_verdict(report, text) + wrong_in_doubts(report, text)
    return wrong + wrong_in_path(report, text) + wrong_in_latest(report, text) + wrong_in_trend(report, text) + wrong_in_memory(report, text, first_ns) + wrong_in_lines(text)


def wrong_in_text(report, text):
    tables, wants, wrong = tables_of(text), wants_of_workers(report), []
    every = ("Where the time goes", "Exposed communication", "Why devices were idle", "Queue of each worker", "Who was late")
    for heading in every:
        if (heading in tables) != (heading in wants):
            wrong.append(f"'{heading}' is {'there' if heading in tables else 'not there'}")
            continue
        if heading not in wants:
            continue
        rows = rows_of_workers(tables[heading], report["workers"])
        if len({i for i, _ in rows}) != len(rows) or not {i for i, _ in rows} <= wants[heading].keys():
            wrong.append(f"'{heading}': rows of {[i for i, _ in rows]}")
            continue
        left = re.findall(r"(\d+) more workers", "\n".join(tables[heading]))
        if len(rows) + sum(map(int, left)) != len(wants[heading]) or (left and len(rows) < 2):
            wrong.append(f"'{heading}': {len(rows)} rows and {left} more, of {len(wants[heading])}")
        for i, cells in rows:
            wrong += [f"'{heading}', worker {i}: {w}" for w in cells_wrong(cells, wants[heading][i])]
    if ("What devices ran" in tables) != bool(report["kernels"]):
        wrong.append("'What devices ran' is there or not")
    for line, k in zip(tables.get("What devices ran", ()), report["kernels"][:TEXT_KERNELS]):
        m = re.search(r" (\d+) +([\d.]+ (?:ns|us|ms|s)) +([\d.]+ %)(?:  .*)?$", line)
        wrong += [f"kernel {k['name']}: {w}" for w in cells_wrong(m.groups() if m else [], [k["count"], k["total_ns"], share(k["total_ns"], report["totals"]["window_ns"])])]
        tail = re.search(r"([\d.]+ x)$", line)
        slow = None if k["collective"] or k["workers"] < 2 or k["median_ns"] == 0 else k["most_ns"] / k["median_ns"]
        if (tail is None) != (slow is None) or tail is not None and cells_wrong([tail[1]], [slow]):
            wrong.append(f"kernel {k['name']}: {line!r}, expected {slow}")
    return wrong


class Tables(html.parser.HTMLParser):
    """{heading: ([row: [text of each cell]], how many more are said)}"""

    def __init__(self, text):
        super().__init__()
        self.tables, self.heading, self.cell, self.head = {}, None, None, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "h2":
            self.heading, self.head = "", True
        if tag == "tr" and self.heading is not None and not self.head:
            self.tables[self.heading][0].append([])
        if tag in ("td", "th") and self.heading is not None:
            self.cell = ""

    def handle_endtag(self, tag):
        if tag == "h2":
            self.tables[self.heading], self.head = ([], []), False
        if tag in ("td", "th") and self.cell is not None:
            if self.tables[self.heading][0]:
                self.tables[self.heading][0][-1].append(self.cell.strip())
            self.cell = None
        if tag == "main":
            self.heading = None

    def handle_data(self, data):
        if self.head:
            self.heading += data
        elif self.cell is not None:
            self.cell += data
        elif self.heading is not None:
            self.tables[self.heading][1].extend(int(n) for n in re.findall(r"… and (\d+) more", data))


def wrong_in_page(report, text):
    workers, wrong = report["workers"], []
    tables = Tables(text).tables
    path = report["critical_path"]
    caused = any(w["collectives"]["caused_ns"] for w in workers)
    want = {"What each worker did": (len(workers), PAGE_WORKERS), "Whom the others waited for": (sum(w["collectives"]["took_part"] > 0 for w in workers) * caused, PAGE_WORKERS),
            "What devices ran": (len(report["kernels"]), PAGE_ROWS), "Collectives": (len(report["collectives"]), PAGE_ROWS),
            "Queues": (sum(w["queue"] is not None for w in workers), PAGE_WORKERS), "Memory": (len(report["memory"]), PAGE_WORKERS)}
    for heading, (n, most) in want.items():
        if (heading in tables) != (n > 0):
            wrong.append(f"page: '{heading}' is {'there' if heading in tables else 'not there'}")
            continue
        if n == 0:
            continue
        rows, left = tables[heading]
        if (len(rows) - 1, left) != (min(n, most), [n - most] if n > most else []):
            wrong.append(f"page: '{heading}' has {len(rows) - 1} rows and says {left} more, of {n}")
    for heading, there in (("Critical path", path is not None and path["total_ns"] > 0 and len(workers) > 1),
                           ("Steps over time", report["steps_over_time"] is not None and len(report["steps_over_time"]["blocks"]) > 1)):
        if (heading in tables) != there:
            wrong.append(f"page: '{heading}' is {'there' if heading in tables else 'not there'}")
    for row, k in zip(tables.get("What devices ran", ([],))[0][1:], report["kernels"]):
        slow = None if k["collective"] or k["workers"] < 2 or k["median_ns"] == 0 else k["most_ns"] / k["median_ns"]
        got = re.search(r"([\d.]+) ×$", row[4])
        wrong += [f"page: kernel {k['name']}: {w}" for w in
                  cells_wrong(row[1:4], [k["count"], k["total_ns"], share(k["total_ns"], report["totals"]["window_ns"])])]
        if (got is None) != (slow is None) or got is not None and cells_wrong([got[1]], [slow]):
            wrong.append(f"page: kernel {k['name']}: {row[4]!r}, expected {slow}")
    for row, c in zip(tables.get("Collectives", ([],))[0][1:], report["collectives"]):
        b, size = c["bandwidth"], None if c["size"] is None or c["size"] < 0 else c["size"]
        rates = [b["algorithm_gb_per_s"] or None, b["bus_gb_per_s"] or None]
        wrong += [f"page: collective {c['name']}: {w}" for w in
                  cells_wrong([x.replace("–", "-") for x in row[1:]], [size, c["count"], c["latency_p50_ns"], c["spread_p50_ns"], c["proven"]] + rates)]
    with_queue = [w for w in workers if w["queue"]]
    for row, w in zip(tables.get("Queues", ([],))[0][1:], with_queue):
        q, window = w["queue"], w["window_ns"]
        wrong += [f"page: queue of rank {w['rank']}: {x}" for x in
                  cells_wrong(row[1:], [q["launches"], 0 if window == 0 else q["sum_ns"] / window, q["most"], share(q["empty_ns"], window)])]
    return wrong


class Pictures(html.parser.HTMLParser):
    """[(label, [(group, class, x, y, width, height)])] of each picture of a page, the titles of its groups, and its paragraphs."""

    def __init__(self, text):
        super().__init__()
        self.pictures, self.titles, self.paragraphs, self.inside = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "svg" and "aria-label" in attrs:
            self.pictures.append((attrs["aria-label"], []))
        if tag == "rect" and "x" in attrs:
            self.pictures[-1][1].append((len(self.titles) - 1, attrs["class"]) + tuple(float(attrs.get(k, 0)) for k in ("x", "y", "width", "height")))
        if tag == "title" and self.inside and self.inside[-1] == "g":
            self.titles.append("")
        if tag == "p":
            self.paragraphs.append("")
        if tag not in ("meta", "rect"):
            self.inside.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag != "rect":
            self.inside.pop()

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if self.inside[-2:] == ["g", "title"]:
            self.titles[-1] += data
        if "p" in self.inside:
            self.paragraphs[-1] += data


def bars_wrong(what, pictures, want):
    """The bars of this name: parts of 1000, in their order, without those that are nothing."""
    got, wrong = [rects for label, rects in pictures if label == what], []
    if len(got) != len(want):
        return [f"page: {len(got)} bars '{what}', expected {len(want)}"]
    for rects, parts in zip(got, want):
        parts = [(kind, before, wide) for kind, before, wide in parts if wide > 0]
        if [r[1] for r in rects] != [kind for kind, _, _ in parts] or any(abs(r[2] - before) > 0.011 or abs(r[4] - wide) > 0.011 for r, (_, before, wide) in zip(rects, parts)):
            wrong.append(f"page: bar '{what}': {rects}, expected {parts}")
    return wrong


def columns_wrong(over, steps, page):
    """A column for each block: as high as it took against the longest, its parts from the bottom up."""
    rects = [r for label, all_rects in page.pictures if label == "lengths of steps over time" for r in all_rects]
    blocks, wrong = over["blocks"], []
    means = [b["total_ns"] // b["steps"] for b in blocks]
    if len(page.titles) != len(blocks):
        return [f"page: {len(page.titles)} columns of {len(blocks)} blocks"]
    for i, (b, mean, title) in enumerate(zip(blocks, means, page.titles)):
        m = re.fullmatch(r"steps (\d+) to (\d+): (.*) each", title)
        first = i * over["width"] + 1
        if m is None or (int(m[1]), int(m[2])) != (first, first + b["steps"] - 1) or cells_wrong([m[3]], [mean]):
            wrong.append(f"page: column {title!r} of {b}")
        whole, y, got = sum(b["parts_ns"].values()), 180.0, [r for r in rects if r[0] == i]
        parts = [(k, v) for k, v in b["parts_ns"].items() if v > 0]
        if [r[1] for r in got] != [k for k, _ in parts]:
            wrong.append(f"page: column {i} of {[r[1] for r in got]}, expected {parts}")
            continue
        bottom = got[0][3] + got[0][5] if got else 0
        for (_, _, x, y, wide, high), (k, v) in zip(got, parts):
            want = (mean / max(means) * v / whole, 1000 * (i + 0.05) / len(blocks), 900 / len(blocks))
            if abs(bottom - y - high) > 0.03 or abs(x - want[1]) > 0.011 or abs(wide - want[2]) > 0.011:
                wrong.append(f"page: {k} of column {i} at {x} {y}, {wide} wide, {high} high")
            bottom = y
    tall = {i: sum(r[5] for r in rects if r[0] == i) for i in range(len(blocks))}
    most = max(tall.values(), default=0)
    for i, mean in enumerate(means):
        if sum(blocks[i]["parts_ns"].values()) > 0 and max(means) > 0 and abs(tall[i] - most * mean / max(means)) > 0.1:
            wrong.append(f"page: column {i} is {tall[i]} high, expected {most * mean / max(means)}")
    width = over["width"]
    m = [re.fullmatch(r"(\d+) steps; each column is (the mean of )?(\d+) step(s?), the highest is (.*)\. The colours show .*", p) for p in page.paragraphs]
    m = [x for x in m if x]
    if len(m) != 1 or (int(m[0][1]), m[0][2] is not None, int(m[0][3]), m[0][4]) != (steps, width > 1, width, "" if width == 1 else "s") or cells_wrong([m[0][5]], [max(means)]):
        wrong.append(f"page: {[x[0] for x in m]} of {steps} steps, {width} in a column")
    if f"step 1step {steps}" not in page.paragraphs:
        wrong.append("page: the axis")
    return wrong


def keys_wrong(text, workers):
    """The key of each picture names the colours that the picture has and no others; of two kinds of waiting always both."""
    wrong = []
    for section in re.split(r"<h2>", text)[1:]:
        key, drawn = re.search(r'<ul class="key">(.*?)</ul>', section, re.S), section.partition("</ul>")[2]
        named, shown = (re.findall(r'<rect class="([^"]+)"', t) for t in (key[1] if key else "", drawn if key else section))
        title = section.partition("</h2>")[0]
        if title == "Whom the others waited for":
            shown += ["proven", "unproven"]
        if len(set(named)) != len(named) or not set(shown) <= set(named) or (workers <= PAGE_WORKERS and set(shown) != set(named)):
            wrong.append(f"page: '{title}' shows {sorted(set(shown))}, its key names {named}")
    return wrong


def more_wrong_in_page(report, text):
    page, workers, wrong = Pictures(text), report["workers"], keys_wrong(text, len(report["workers"]))
    most = max((w["collectives"]["caused_ns"] for w in workers), default=0)
    took = [w["collectives"] for w in workers if w["collectives"]["took_part"] > 0][:PAGE_WORKERS]
    want = [[("proven", 0, 1000 * c["proven_ns"] / most), ("unproven", 1000 * c["proven_ns"] / most, 1000 * (c["caused_ns"] - c["proven_ns"]) / most)] for c in took] if most else []
    wrong += bars_wrong("how long others waited for it", page.pictures, want)
    path = report["critical_path"]
    if path is not None and path["total_ns"] > 0 and len(workers) > 1:
        parts, before = [], 0
        for k, v in path["parts_ns"].items():
            parts.append((k, 1000 * before / path["total_ns"], 1000 * v / path["total_ns"]))
            before += v
        wrong += bars_wrong("parts of the critical path", page.pictures, [parts])
        through = [w["steps"]["critical_path_ns"] for w in workers[:PAGE_WORKERS]]
        wrong += bars_wrong("how long the path ran through it", page.pictures, [[("path", 0, 1000 * ns / path["total_ns"])] for ns in through if ns > 0])
        got = [re.search(r"^The critical path .* takes (.*), and moves (\d+) time(s?) from .* another\. (.*)$", p) for p in page.paragraphs]
        got = [m for m in got if m]
        if len(got) != 1 or int(got[0][2]) != path["changes"] or (got[0][3] == "") != (path["changes"] == 1) or cells_wrong([got[0][1]], [path["total_ns"]]):
            wrong.append(f"page: the path of {path['changes']} changes: {[m[0] for m in got]}")
        wrong += [f"page: {w}" for m in got for w in wrong_in_shortens(path, m[4])]
    over = report["steps_over_time"]
    if over is not None and len(over["blocks"]) > 1:
        wrong += columns_wrong(over, sum(b["steps"] for b in over["blocks"]), page)
        wrong += [w.replace("trend:", "page, trend:") for w in wrong_in_trend(report, "\n".join(p.replace("Trend: ", "trend ").removesuffix(".") for p in page.paragraphs if p.startswith("Trend: ")) + "\n")]
    tables = Tables(text).tables
    for row, m in zip(tables.get("Memory", ([],))[0][1:], report["memory"]):
        process = f"{m['instance_id']} / pid {m['process_id']}" + ("" if m["rank"] is None else f" rank {m['rank']}")
        if row[:2] != [m["name"], process]:
            wrong.append(f"page: memory {row[:2]}, expected {[m['name'], process]}")
        wrong += bytes_wrong(row[2], m["peak_bytes"]) + bytes_wrong(row[3], m["last_bytes"])
        wrong += growth_wrong(row[4], m, sum(s["count"] for s in report["steps"] if s["process_id"] == m["process_id"]), "\u2013")
    return wrong
