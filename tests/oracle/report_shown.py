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
