"""Generates Trace Event files with every variant of the format, damaged ones included:
Generator(seed).text()."""
import json
import random

NAMES = ["aten::mm", "step", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "Memcpy HtoD", "fusion.1", "all-reduce.2", "dma_request",
         "\u6f22\u5b57", "a\"b\\c", "x" * 70, "", "void vllm::cross_device_reduce_1stage<half, 2>(T*)", "hcom_allGather__12_3_1",
         "void deep_ep::internode_ll::dispatch<true, 7168>(void*)", "void at::native::reduce_kernel<512, 1>(int)"]
CATEGORIES = ["kernel", "gpu_memcpy", "cpu_op", "python_function", "cuda_runtime", "mtia_runtime", "user_annotation",
              "gpu_user_annotation", "cuda_profiler_range", "mtia_ccp_events", None, "other"]


class Generator:
    """One file from a seed. tame: only what trace_processor reads the same way."""

    def __init__(self, seed, tame=False):
        self.r, self.tame, self.events = random.Random(seed), tame, []
        self.origin = self.r.choice([0, 1000, 10**6, 1712195495 * 10**6])
        self.labels = {}

    def time(self, ns):
        """Microseconds as a file may have them: integers, decimals, in quotes."""
        ns += self.origin * 1000
        whole, frac = divmod(abs(ns), 1000)
        text = str(whole) + (f".{frac:03d}" if frac else self.r.choice(["", "", ".0"]))
        text = "-" + text if ns < 0 else text
        return Raw(text) if self.tame or self.r.random() < 0.9 else text

    def event(self, ph, ts, **more):
        e = {"ph": ph, "ts": self.time(ts), "pid": self.pid(), "tid": self.r.choice([1, 2, 7])}
        e.update({k: v for k, v in more.items() if v is not None})
        if not self.tame and self.r.random() < 0.1:
            keys = list(e)
            self.r.shuffle(keys)
            e = {k: e[k] for k in keys}
        self.events.append(e)
        return e

    def pid(self):
        return self.r.choice([10, 20] if self.tame else [0, 1, 10, 20, "Spans"])

    def args(self):
        out = {}
        if self.r.random() < 0.4:
            out["device"] = self.r.choice([0, 2])
        if self.r.random() < 0.4:
            out["stream"] = 7
        if self.r.random() < 0.3:
            out["text"] = self.r.choice(NAMES)
        if self.r.random() < 0.2:
            key = self.r.choice(["Collective name", "Group size", "Comms Id", "comms_id", "memcpy_details"])
            out[key] = {"Collective name": "allreduce", "memcpy_details": "kind_src:device"}.get(key, 4)
        return out or None

    def when(self):
        return self.r.randrange(0, 3000) * self.r.choice([1, 10, 100])

    def complete(self):
        dur = self.r.choice([0, 1, 50, 1000, 20000])
        self.event("X", self.when(), dur=Raw(f"{dur // 1000}.{dur % 1000:03d}"), name=self.r.choice(NAMES),
                   cat=self.r.choice(CATEGORIES), args=self.args())

    def pair(self):
        start, name = self.when(), self.r.choice(NAMES[:8])
        where = {"pid": self.pid(), "tid": self.r.choice([1, 2])}
        if self.r.random() < 0.9:
            self.event("B", start, **where, name=name, cat="c", args=self.args())
        if self.r.random() < 0.9:
            self.event("E", start + self.r.randrange(1, 5000), **where, name=self.r.choice([name, name, None, "x"]), cat="c")

    def asynchronous(self):
        start, name = self.when(), self.r.choice(["req", "part"])
        number = self.r.randrange(3)
        who = self.r.choice([{"id": number}, {"id": hex(number)}, {"id2": {"local": number}}, {"id2": {"global": number}},
                             {"id": number, "scope": "s"}])
        begin, mark, end = self.r.choice(["bne", "bne", "STF"])
        for ph, at in ((begin, 0), (mark, 10), (end, 100)):
            if self.r.random() < 0.9:
                self.event(ph, start + at, name=name, cat="async", pid=self.r.choice([10, 10, 20]), **who)

    def flow(self):
        number, start = self.r.randrange(1, 6), self.when()
        for ph, at in (("s", 0), ("t", 500), ("f", 1000)):
            if self.r.random() < 0.8:
                self.event(ph, start + at * self.r.randrange(3), name="flow", cat="f", id=number,
                           bp="e" if ph == "f" and self.r.random() < 0.5 else None)

    def bound(self):
        """An arrow between spans that name it."""
        number = self.r.choice([7, "0x7"])
        self.event("X", self.when(), dur=5, name="out", bind_id=number, flow_out=True)
        self.event("X", self.when(), dur=5, name="in", bind_id=number, flow_in=True)

    def other(self):
        kind = self.r.randrange(4)
        if kind == 0:
            self.event(self.r.choice("iIR"), self.when(), name="mark", s=self.r.choice("gpt"))
        elif kind == 1:
            self.event("C", self.when(), name="mem", args=self.r.choice([{"value": 1}, {"a": 1.5, "b": "7"}, {"mem": True, "x": "y"},
                                                                         {"u": 2**64 - 1}]), id=self.r.choice([None, 3]))
        elif kind == 2:
            self.events.append(self.r.choice([{"ph": "X"}, {"ts": 1}, {"ph": "X", "ts": "no"}, {"ph": "X", "ts": 1, "dur": -1},
                                              {"ph": "D", "ts": 1}, 7, {"ph": "i", "ts": Raw("1e30")}, {"ph": "s", "ts": 1}]))
        else:
            self.event("X", self.when(), name="open")

    def rare(self):
        """What the format has and hardly anybody writes, and numbers at the edge of what a number may be."""
        kind = self.r.randrange(6)
        if kind == 0:  # samples, contexts, marks of navigation, dumps, clock syncs: read or dropped, the file goes on
            ph = self.r.choice(["P", "(", ")", "v", "V", "c", "a", "p", "q"])
            self.event(ph, self.when(), name="rare", id=self.r.choice([None, 1, "0x2"]), args=self.args())
        elif kind == 1:  # an object from creation to deletion
            number, start = self.r.randrange(3), self.when()
            for ph, at in (("N", 0), ("O", 10), ("D", 20)):
                if self.r.random() < 0.8:
                    self.event(ph, start + at, name="object", cat="o", id=hex(number), args={"snapshot": {"x": [1, {}]}} if ph == "O" else None)
        elif kind == 2:
            self.event("X", self.when(), dur=Raw(self.r.choice(["1e3", "2.5e1", "0.0004", "12.3456789", "1E0", "-0", "0e5"])), name="float")
        elif kind == 3:
            self.event("X", self.when(), dur=1, name="big", args={"n": Raw(self.r.choice([str(2**63), str(2**64), str(-2**63), "1" + "0" * 60, "1e400", "-1e-400"]))})
        elif kind == 4:
            e = self.event("X", self.when(), dur=1, name="who")
            e["pid"], e["tid"] = Raw(self.r.choice([str(2**31), str(2**53 + 1), str(2**63 - 1), "0"])), Raw(self.r.choice([str(2**63 - 1), "0", "4294967296"]))
        else:
            e = self.event("X", 0, dur=1, name="when")
            e["ts"] = Raw(self.r.choice(["1e400", str(2**63), str(10**40), "-1e30", "9223372036854774.5"]))

    def metadata(self):
        for pid, label in self.r.choice([{0: "GPU 0", 10: "CPU"}, {1: "MTIA 1"}, {}, {0: "GPU 0", 1: "GPU 1", 10: "CPU"}]).items():
            self.events.append({"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": label}})
        if self.r.random() < 0.3:
            self.events.append({"ph": "M", "name": "process_name", "pid": 20, "args": {"name": "/device:TPU:3"}})
            self.events.append({"ph": "M", "name": "thread_name", "pid": 20, "tid": 1, "args": {"name": "Steps"}})
        if self.r.random() < 0.3:
            line = self.r.choice(["Stream #8(MemcpyD2D)", "Stream #8(Compute)", "HCCL", "Group 0 Communication"])
            self.events.append({"ph": "M", "name": "thread_name", "pid": self.pid(), "tid": self.r.choice([1, 2, 7]), "args": {"name": line}})

    def text(self):
        for _ in range(self.r.randrange(5, 60)):
            self.r.choice([self.complete, self.complete, self.pair, self.asynchronous, self.flow, self.bound, self.other, self.rare])()
        if self.r.random() < 0.7:
            self.metadata()
        order = self.r.randrange(3)
        if order == 0:
            self.r.shuffle(self.events)
        elif order == 1:
            self.events.sort(key=lambda e: float(e["ts"]) if isinstance(e, dict) and isinstance(e.get("ts"), Raw) else -1)
        lines = ",\n".join(dump(e) for e in self.events)
        shape = self.r.randrange(5)
        if shape == 0:
            text = "[" + lines + self.r.choice(["]", "", ",", ",]"])
        else:
            head = self.r.choice(['"schemaVersion":1,', '"distributedInfo":{"rank":1,"world_size":2},', "",
                                  '"baseTimeNanoseconds":1700000000000000000,'])
            text = "{" + head + '"traceEvents":[' + lines + "]" + self.r.choice(["", ',"displayTimeUnit":"ns"']) + "}"
        raw = text.encode()
        if self.r.random() < 0.15:  # cut behind a record, so that both readings have the same records
            raw = raw[:raw.rfind(b",\n", 0, self.r.randrange(len(raw) // 2, len(raw))) + 1] or raw
        elif self.r.random() < 0.1:  # something behind the end
            raw += self.r.choice([b"x", b"\n]]}", b'{"traceEvents":[]}', b"\0\0\0", b"\n\n \t"])
        return self.damage(raw)

    def damage(self, raw):
        """Bytes that are no text, inside names."""
        if self.r.random() < 0.2:
            raw = raw.replace(b"aten::mm", self.r.choice([b"at\xffen", b"at\\ud83den", b"at\xe6\xbcen", b"a\ten", b"\\udc00"]))
        return b"\xef\xbb\xbf" + raw if self.r.random() < 0.1 else raw


class Raw(str):
    """Text that stands in the file as it is."""


def dump(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + dump(v) for k, v in value.items()) + "}"
    return json.dumps(value)
