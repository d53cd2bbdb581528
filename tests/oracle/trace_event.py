"""An independent reading of Trace Event JSON: what is in a file, where it ran, which spans its arrows join and where the
time of each device went. Plain Python, integer nanoseconds, the whole file in memory; shares no code and no table with the
importer, so that both are wrong together only where the format's description is misread twice."""
import bisect
import collections
import gzip
import itertools
import json
import re
from decimal import Decimal, InvalidOperation

OPEN = None  # duration of a span whose end was never seen
NO_START = "no start"
EPOCH = 10**18  # later than September 2001: times of the epoch


# ---- Text ----

class Number(str):
    """A number as it was written."""


def read_text(path):
    with open(path, "rb") as f:
        raw = f.read()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    if raw[:3] == b"\xef\xbb\xbf":
        raw = raw[3:]
    return raw.decode("utf-8", "replace").replace("\0", "\ufffd")


def clean(value):
    """Surrogates that pair with nothing stand for no character."""
    if isinstance(value, str) and not isinstance(value, Number):
        return re.sub("[\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, list):
        return [clean(v) for v in value]
    if isinstance(value, dict):
        return {clean(k): clean(v) for k, v in value.items()}
    return value


def decoder():
    return json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number, strict=False)


def records_until_damage(text, at):
    """The elements of the array that opens at `at`, as far as they can be read."""
    out, scan = [], decoder()
    at += 1
    while True:
        at = re.compile(r"[\s,]*").match(text, at).end()
        if at >= len(text) or text[at] == "]":
            return out
        try:
            value, at = scan.raw_decode(text, at)
        except ValueError:
            return out
        out.append(value)


KINETO = ("schemaVersion", "deviceProperties", "computeProperties", "distributedInfo")


def load(path):
    """(facts at the top, records)"""
    text = read_text(path)
    try:
        doc = decoder().decode(text.strip())
    except ValueError:
        start = text.lstrip()[:1]
        array = re.search(r'"traceEvents"\s*:\s*\[', text)
        base = re.search(r'"baseTimeNanoseconds"\s*:\s*(\d+)', text)
        top = {"baseTimeNanoseconds": Number(base.group(1))} if base else {}
        top.update((k, None) for k in KINETO if f'"{k}"' in text)
        if start == "[":
            return {}, clean(records_until_damage(text, text.index("[")))
        return top, clean(records_until_damage(text, array.end() - 1)) if array else []
    if "\\u" in text:
        doc = clean(doc)
    if isinstance(doc, list):
        return {}, doc
    return {k: v for k, v in doc.items() if k != "traceEvents"}, doc.get("traceEvents", [])


PLAIN = re.compile(r"(\d{1,15})(?:\.(\d{1,3}))?$")


def nanoseconds(value):
    """Decimal microseconds, also in quotes, rounded half away from zero; None when it is no time."""
    m = PLAIN.match(value) if isinstance(value, str) else None
    if m:
        return int(m.group(1)) * 1000 + int(((m.group(2) or "") + "000")[:3])
    try:
        ns = int((Decimal(value.strip()) * 1000).to_integral_value("ROUND_HALF_UP"))
    except (InvalidOperation, AttributeError, ValueError, OverflowError):
        return None
    return ns if -2**63 <= ns < 2**63 else None


def line_id(value):
    """A pid or tid: an integer (also in quotes), else a word."""
    if value is None:
        return 0
    try:
        return int(str(value))
    except ValueError:
        return str(value)


def flow_number(value):
    text = str(value)
    try:
        return int(text, 0) if not re.match(r"^-?0\d", text) else int(text)
    except ValueError:
        return text


# ---- Where it ran ----

DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "mtia_ccp_events", "hpu_op", "collective_comm"}
HOST_CATEGORIES = {"cpu_op", "user_annotation", "python_function", "cpu_instant_event", "Operator", "Runtime", "PythonFunction",
                   "UserAnnotation", "Trace", "mtia_workloadd", "mtia_insight"}
DRAWN_OVER = {"gpu_user_annotation", "cuda_profiler_range", "cuda_sync", "overhead", "gpu_pm_counter", "mtia_counters"}
DEVICE_NAME = re.compile(r"(?i)^(?:GPU|TPU|NPU|XPU|HPU|IPU|MLU|MTIA|DCU|GCU|HIP|CUDA|MUSA|ROCM|NC|PPU|VPU|AIU|NEURON|DEVICE)[ :/#_](\d{1,9})(?!\d)")
XLA_NAME = re.compile(r"device:((?:[A-Za-z_]){2,}):(\d{1,9})(?!\d)")
OVERLAY = ("steps", "xla modules", "xla traceme", "framework ops", "framework name scope", "source code", "launch stats",
           "tensorflow name scope", "tensorflow ops", "host offload")


def device_number(label):
    """The number in the label or name of a device, None for anything else."""
    m = DEVICE_NAME.match(label)
    if m:
        return int(m.group(1))
    m = XLA_NAME.search(label)
    return int(m.group(2)) if m and not m.group(1).upper().endswith("CPU") else None


def where(category):
    if category in DEVICE_CATEGORIES:
        return "device"
    if category in DRAWN_OVER:
        return "over"
    if category in HOST_CATEGORIES or category.endswith(("_runtime", "_driver")):
        return "host"
    return ""


def number_in(args, key):
    return isinstance(args.get(key), Number) and re.match(r"\d{1,18}$", args[key]) is not None


# ---- What a device did: docs/reference/classify.md, read as expressions over whole names ----

LIBRARY = re.compile(r"(?i)(?<![a-z])(?:[a-z]|one|ix|ms)ccl|hcom|bkcl|cncl|flagcx|shmem|deep_ep|hybrid_?ep|pplx|intra_?node|inter_?node|cross_device_reduce"
                     r"|quick_?reduce|custom_ar|lamport|multimem|mnnvl|symm_mem|userbuffers|on_stream_kernel")
OPERATION = re.compile(r"(?i)all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all|send[-_]?recv|collective|communication|\bppermute\b")
NOT_BETWEEN_DEVICES = re.compile(r"(?i)(?<![a-z])(?:at::native|cub::|cublas|cudnn|thrust|rocprim)|(?:block|warp|wave)_?(?:all_?)?reduce|gemm|matmul|triton_..._fused")
COPY = re.compile(r"(?i)memcpy|memset|dma_request|copy[-_](?:start|done)|dmem_buf_copy|nrt_tensor_(?:read|write|copy)")
COMMUNICATION_ARGUMENTS = {"Collective name", "Group size", "In msg nelems", "Comms Id", "comms_id"}


def without_types(name):
    """A name of C++ without template arguments and parameters."""
    name, before = name.replace("(anonymous namespace)", ""), None
    while name != before:
        name, before = re.sub(r"<[^<>]*>", "", name), name
    return name.split("(")[0]


def work(span, title):
    name = without_types(span.name)
    between = (LIBRARY.search(name) or OPERATION.search(name)) and not NOT_BETWEEN_DEVICES.search(name)
    if "Collective name" in span.args:
        return "collective"
    if "memcpy_details" in span.args:
        return "copy"
    if COMMUNICATION_ARGUMENTS & set(span.args):
        return "compute" if re.search("(?i)gemm|matmul", name) and OPERATION.search(name) else "collective"
    if span.cat in ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"):
        return "copy"
    if span.cat == "collective_comm" or re.search(r"(?i)\bhccl\b|\bcommunication\b(?! plane)", title):
        return "collective"
    if re.fullmatch(r"Stream #\d+\((?:Mem(?:cpy|set)\w*,?)+\)", title):
        return "copy"
    return "collective" if between else "copy" if COPY.match(name) else "compute"


# ---- A file ----

FIRST, LAST = -2**61, 2**62  # times between which every distance is a number of 64 bits


class Span:
    __slots__ = ("pid", "tid", "name", "cat", "ts", "dur", "args", "instant", "state", "order", "points", "line")

    def __init__(self, r, line):
        self.pid, self.tid, self.name, self.cat = r.pid, r.tid, r.name or "(no name)", r.cat
        self.ts, self.dur, self.args, self.order, self.line = r.ts, 0, r.args, r.order, line
        self.instant, self.state, self.points = False, "", []

    def end(self):
        return 2**63 if self.dur is OPEN else self.ts + self.dur

    def key(self):
        return (self.pid, self.name, self.cat, self.ts, self.dur, self.instant, self.state)


class Record:
    def __init__(self, e, order):
        self.e, self.order, self.ph = e, order, e.get("ph")
        self.pid, self.tid = line_id(e.get("pid")), line_id(e.get("tid"))
        self.name = "" if e.get("name") is None else str(e["name"])
        self.cat = "" if e.get("cat") is None else str(e["cat"])
        self.ts = nanoseconds(e["ts"]) if isinstance(e.get("ts"), str) else None
        self.dur = nanoseconds(e["dur"]) if isinstance(e.get("dur"), str) else None
        self.args = e["args"] if isinstance(e.get("args"), dict) else {}

    def bad(self):
        return (not isinstance(self.ph, str) or len(self.ph) != 1 or self.ts is None
                or ("dur" in self.e and self.dur is None) or (self.ph == "X" and self.dur is not None and self.dur < 0))


class File:
    def __init__(self, path):
        self.top, records = load(path)
        self.spans, self.counters, self.dropped = [], [], 0
        self.labels, self.names, self.lines = {}, {}, {}
        self.flows = collections.defaultdict(list)  # id -> [(direction, span, or name, category and time of a point on none)]
        timed = []
        for order, e in enumerate(records):
            if not isinstance(e, dict):
                self.dropped += 1
                continue
            r = Record(e, order)
            if r.ph == "M":
                self.metadata(r)
            elif r.bad() or r.ph not in "XBEiIRstfCbneSTpF":
                self.dropped += 1
            else:
                timed.append(r)
        base = int(self.top.get("baseTimeNanoseconds", 0))
        if base and 2 * sum(r.ts >= EPOCH for r in timed) <= len(timed):
            for r in timed:
                r.ts += base
        self.read(timed)
        self.dropped += sum(not FIRST <= ts <= LAST for _, _, ts, _ in self.counters)
        self.counters = [c for c in self.counters if FIRST <= c[2] <= LAST]

    def metadata(self, r):
        if r.name == "process_labels":
            self.labels[r.pid] = r.args.get("labels", "")
        elif r.name == "process_name":
            self.names[r.pid] = r.args.get("name", "")
        elif r.name == "thread_name":
            self.lines[(r.pid, r.tid)] = r.args.get("name", "")

    # -- spans --

    def read(self, timed):
        begun, running, points = collections.defaultdict(list), collections.defaultdict(list), []
        for r in sorted(timed, key=lambda r: r.ts):  # stable: equal times in the order of the file
            line = ("thread", r.pid, r.tid)
            if r.ph == "X":
                s = self.add(r, line, r.dur if "dur" in r.e else OPEN)
                self.bind_id(r, s)
            elif r.ph in "iIR":
                self.bind_id(r, self.add(r, line, 0, instant=True))
            elif r.ph == "B":
                s = self.add(r, line, OPEN)
                self.bind_id(r, s)
                begun[line].append(s)
            elif r.ph == "E":
                self.end(r, line, begun[line])
            elif r.ph == "C":
                self.counter(r)
            elif r.ph in "stf":
                if "id" in r.e or "id2" in r.e:
                    points.append((r, line))
                else:
                    self.dropped += 1
            else:
                self.asynchronous(r, running)
        kept = [s for s in self.spans if FIRST <= s.ts <= LAST and (s.dur is OPEN or s.end() <= LAST)]
        self.dropped += len(self.spans) - len(kept)
        self.spans = kept
        self.bind(points)

    def add(self, r, line, dur, instant=False):
        s = Span(r, line)
        s.dur, s.instant = dur, instant
        self.spans.append(s)
        return s

    def end(self, r, line, stack):
        """Closes the innermost open span that the record may mean."""
        for i in range(len(stack) - 1, -1, -1):
            if r.name in ("", stack[i].name):
                s = stack.pop(i)
                s.dur = r.ts - s.ts
                return
        s = self.add(r, line, 0)
        s.state = NO_START
        if not r.name:
            s.name = "(end without start)"

    def asynchronous(self, r, running):
        e = r.e
        scope, number = str(e.get("scope", "")), None
        if isinstance(e.get("id2"), dict) and e["id2"]:
            kind, number = list(e["id2"].items())[-1]
            owner = "all" if kind == "global" else r.pid
        elif "id" in e:
            number, owner = e["id"], r.pid
        if number is None:
            self.dropped += 1
            return
        stack = running[(r.cat, scope, owner if owner == "all" else ("of", owner), flow_number(number))]
        line = ("async", r.pid)
        if r.ph in "bS":
            s = self.add(r, line, OPEN)
            self.bind_id(r, s)
            stack.append(s)
        elif r.ph in "eF":
            self.end(r, line, stack)
        else:
            self.bind_id(r, self.add(r, line, 0, instant=True))

    def counter(self, r):
        if not r.args:
            self.dropped += 1
        for key, value in r.args.items():
            try:
                if not isinstance(value, (str, bool)) or (isinstance(value, str) and value.strip() != value):
                    raise ValueError
                number = float(value)
                if number != number or number in (float("inf"), float("-inf")):
                    raise ValueError
            except ValueError:
                self.dropped += 1
                continue
            name = r.name
            if "id" in r.e:
                name += f"[{flow_number(r.e['id'])}]"
            if key not in ("value", r.name):
                name += " " + key
            self.counters.append((r.pid, name, r.ts, number))

    # -- arrows --

    def bind_id(self, r, span):
        e = r.e
        if "bind_id" in e and (e.get("flow_in") is True or e.get("flow_out") is True):
            way = "t" if e.get("flow_in") is True and e.get("flow_out") is True else "f" if e.get("flow_in") is True else "s"
            self.flows[("bind", flow_number(e["bind_id"]))].append((way, span))

    def bind(self, points):
        self.drawn = {s.line for s in self.spans} | {line for _, line in points}
        on = collections.defaultdict(list)
        for s in self.spans:
            if s.line[0] == "thread":
                on[s.line].append(s)
        lines = {line: Line(spans) for line, spans in on.items()}
        for r, line in points:
            owner, number = "", r.e.get("id")
            if isinstance(r.e.get("id2"), dict) and r.e["id2"]:
                kind, number = list(r.e["id2"].items())[-1]
                owner = r.pid if kind == "local" else ""
            on_line = lines.get(line)
            found = None if on_line is None else on_line.following(r) if r.ph == "f" and r.e.get("bp") != "e" else on_line.enclosing(r)
            self.flows[(r.cat, r.name, owner, flow_number(number))].append((r.ph, found or (r.name or "(no name)", r.cat, r.ts)))

    # -- devices --

    @staticmethod
    def says(s):
        says = where(s.cat)
        return "device" if not says and number_in(s.args, "device") and number_in(s.args, "stream") else says

    def device_of(self):
        """Span -> number of the device it is work of; spans of the host and what is drawn over devices are left out."""
        by_line = collections.defaultdict(list)
        for s in self.spans:
            if s.line[0] == "thread" and not s.instant:
                by_line[s.line].append(s)
        streams = {pid for (pid, tid), name in self.lines.items() if name.startswith("Stream") and ("thread", pid, tid) in self.drawn}
        out = {}
        for (_, pid, tid), spans in by_line.items():
            label = self.labels.get(pid) or self.names.get(pid) or (pid if isinstance(pid, str) else "")
            labelled, title = device_number(label), self.lines.get((pid, tid), "")
            if any(where(s.cat) == "host" for s in spans) or title.lower().startswith(OVERLAY):
                labelled = None
            if pid in streams and not title.startswith("Stream"):
                labelled = None
            said = [s for s in spans if self.says(s) == "device"]
            named = [int(str(s.args["device"])) for s in sorted(said, key=lambda s: s.order) if number_in(s.args, "device")]
            number = named[0] if named else device_number(label)
            if number is None and isinstance(pid, int) and pid >= 0:
                number = pid
            if not said and labelled is None:
                continue
            for s in spans:  # what says nothing is as its line
                if self.says(s) in ("device", ""):
                    out[s] = number
        return out

    def breakdown(self):
        """A list of (device, window and parts in ns), sorted. Kineto's files are one process, in others each pid is one."""
        folded = any(k in self.top for k in KINETO)
        kinds = collections.defaultdict(lambda: collections.defaultdict(list))
        for s, number in self.device_of().items():
            if s.dur is not OPEN and not s.state and number is not None:
                kinds[(number, None if folded else s.pid)][work(s, self.lines.get((s.pid, s.tid), ""))].append((s.ts, s.ts + s.dur))
        out = [] if kinds else self.on_host(folded)
        for (number, _), spans in kinds.items():
            every = [i for v in spans.values() for i in v]
            compute, collective = spans["compute"], spans["collective"]
            busy, both = length(compute + collective), length(compute) + length(collective) - length(compute + collective)
            window = max(b for _, b in every) - min(a for a, _ in every)
            out.append((number, {"window": window, "compute": length(compute) - both, "both": both,
                                 "exposed": length(collective) - both, "copy": length(every) - busy, "idle": window - length(every)}))
        return sorted(out, key=repr)

    def on_host(self, folded):
        """Without devices, the collectives of Gloo and the like take the place of device spans, and operators between them compute."""
        kinds, out = collections.defaultdict(lambda: ([], [])), []
        for s in self.spans:
            if s.dur is OPEN or s.state:
                continue
            collective = s.name.startswith(("gloo:", "mpi:", "ucc:"))
            others = ("autograd::", "torch::", "c10d::", "c10d_functional::", "_c10d_functional::")
            if collective or (s.cat == "cpu_op" and "::" in s.name and not s.name.startswith(others)):
                kinds[None if folded else s.pid][collective].append((s.ts, s.ts + s.dur))
        for operators, collective in kinds.values():
            if not collective:
                continue
            first, last = min(a for a, _ in collective), max(b for _, b in collective)
            compute = [(max(a, first), min(b, last)) for a, b in operators if b > first and a < last]
            both = length(compute) + length(collective) - length(compute + collective)
            out.append((None, {"window": last - first, "compute": length(compute) - both, "both": both, "exposed": length(collective) - both, "copy": 0,
                               "idle": last - first - length(compute + collective)}))
        return out


class Line:
    """The spans and instants of one thread, to find the one that an arrow's point belongs to."""

    def __init__(self, spans):
        self.all = sorted(spans, key=lambda s: (s.ts, -s.end(), s.order))
        self.starts = [s.ts for s in self.all]
        self.furthest = list(itertools.accumulate((s.end() for s in self.all), max))

    def following(self, r):
        at = bisect.bisect_left(self.starts, r.ts)
        return next((s for s in self.all[at:] if not s.instant and not s.state), None)

    def enclosing(self, r):
        """What begins there; else the innermost that holds the time. A start at the very end of a span is the span's."""
        at, behind = bisect.bisect_left(self.starts, r.ts), bisect.bisect_right(self.starts, r.ts)
        exact, inside, ended = self.all[at:behind], None, None
        for i in range(at - 1, -1, -1):
            s = self.all[i]
            if self.furthest[i] < r.ts or (inside and ended):
                break
            if not s.instant and not s.state:
                inside = inside or (s if s.end() > r.ts else None)
                ended = ended or (s if s.end() == r.ts else None)
            if inside and not ended and r.ph != "s":
                break
        if r.ph == "s" and ended and not any(s.order < r.order for s in exact):
            return ended
        return exact[-1] if exact else inside or ended


def length(spans):
    """Of the union."""
    total, end = 0, None
    for a, b in sorted(spans):
        if end is None or a > end:
            total, end = total + b - a, b
        elif b > end:
            total, end = total + b - end, b
    return total
