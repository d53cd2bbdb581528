"""Functions that the end-to-end tests share: running the programs, running Perfetto's importer, and
stating why a test is skipped."""
import atexit
import ctypes
import functools
import glob
import gzip
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from wait import within

SOURCE = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(SOURCE, "build")
DATA = os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(SOURCE, "..", "shared", "data")
BIN = os.path.join(BUILD, "bin")
MERIDIAN = os.path.join(BIN, "meridian")

failures = []


def check(ok, what):
    """Notes a failure and goes on, so that one run shows all of them."""
    if not ok:
        failures.append(what)
        print("FAILED", what)
    return ok


def equal(got, want, what):
    return check(got == want, f"{what}: got {got!r}, expected {want!r}")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def built_with(path, *sanitizers):
    """Whether a program or library is instrumented: "asan", "tsan"."""
    with open(path, "rb") as f:
        text = f.read()
    return any(f"__{name}_init".encode() in text for name in sanitizers)


def need_preload():
    """The library that is preloaded into other people's programs; skips where it cannot be."""
    library = os.path.join(BUILD, "lib", "libmeridian.so")
    if not os.path.exists(library):
        skip("libmeridian.so is not built")
    if built_with(library, "asan"):
        skip("a library built with a sanitizer cannot be preloaded into other programs")
    return library


def need_speed():
    """For tests that want every event of a fast workload: an instrumented agent drops some, counted."""
    if built_with(os.path.join(BIN, "meridian-agent"), "tsan"):
        skip("with ThreadSanitizer the agent is slower than this workload, and the test wants all of its events")


def finish():
    print("%d checks failed" % len(failures) if failures else "all checks passed")
    sys.exit(1 if failures else 0)


def data(*parts):
    """A file of real traces; skips the whole test when the collection is absent."""
    if not os.path.isdir(DATA):
        skip(f"no real traces at {DATA} (MERIDIAN_TEST_DATA names their folder)")
    return os.path.join(DATA, *parts)


def run(*args, want=0, env=None, timeout=300, empty=False):
    """Runs meridian; checks the exit status; returns (stdout, stderr). empty: a session of nothing, which ends with 3, is as meant."""
    full = dict(os.environ, **(env or {}))
    p = subprocess.run([MERIDIAN, *args], capture_output=True, text=True, timeout=timeout, env=full)
    if empty and p.returncode == 3 and [line for line in p.stderr.splitlines() if line.startswith("meridian ")] and all(
            "nothing was recorded: " in line for line in p.stderr.splitlines() if line.startswith("meridian ")):
        want = 3
    if want is not None:
        check(p.returncode == want, f"meridian {' '.join(args)}: exit status {p.returncode}, expected {want}: {p.stderr[-600:]}")
    return p.stdout, p.stderr


def tmp():
    """A folder that goes with this test (not with MERIDIAN_KEEP)."""
    folder = tempfile.mkdtemp(prefix="mrd-e2e-")
    if "MERIDIAN_KEEP" not in os.environ:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def files_of(folder):
    """{path: SHA-256} of the regular files below."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as f:
                found[os.path.relpath(os.path.join(at, name), folder)] = hashlib.sha256(f.read()).hexdigest()
    return found


def load_json(path):
    """A possibly compressed JSON file, decimals kept as text so that nothing passes through a double."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as f:
        text = f.read().decode("utf-8", "replace")
    return json.loads(text, parse_float=str, strict=False)


class Importer:
    """Perfetto's trace_processor. Importer().query(trace, sql...) gives one list of rows per statement."""

    def __init__(self):
        self.assets = os.path.join(BUILD, "tp")
        p = subprocess.run(["sh", os.path.join(SOURCE, "tests/e2e/fetch_trace_processor.sh"), self.assets],
                           capture_output=True, text=True)
        if p.returncode == 77:
            skip(p.stdout.strip().replace("skipped: ", ""))
        if p.returncode != 0:
            print(p.stdout, p.stderr)
            sys.exit(1)

    def query(self, trace, *sql):
        # The engine's machine code is used once, so the optimising compiler costs more than it saves: 2.0 s against 0.4 s for a small trace.
        p = subprocess.run(["node", "--liftoff-only", os.path.join(SOURCE, "tests/e2e/trace_processor.mjs")], text=True, capture_output=True,
                           input=json.dumps({"trace": trace, "sql": sql}) + "\n", env=dict(os.environ, TP_ASSETS=self.assets))
        if p.returncode != 0 or not p.stdout:
            raise RuntimeError(p.stderr[-2000:])
        reply = json.loads(p.stdout.splitlines()[-1])
        if "error" in reply:
            raise RuntimeError(f"{trace}: {reply['error']}")
        return reply["rows"]

    BAD = "select name, idx, severity, value from stats where value > 0 and severity in ('error', 'data_loss')"


# ---- A cluster of real daemons ----

reserved = []  # sockets whose names say that a port is ours


def ports():
    """Ports that the kernel gives nobody who does not name one: below its range for connections, when that is where it usually is."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        low = int(f.read().split()[0])
    return range(10000, low) if low >= 12000 else range(max(low, 1024), 65536)


def free_port():
    """A port that is free, for TCP and UDP, and given to no other test as long as this one runs, also while nobody listens on it: not yet, or
    between the death of a daemon and its successor. A name of an abstract socket says so, which ends with this process."""
    while True:
        port, name = random.SystemRandom().choice(ports()), socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0mrd-test-port-{port}")
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as s:
                    s.bind(("0.0.0.0", port))
        except OSError:
            name.close()
            continue
        reserved.append(name)
        return port


def until(what, message, seconds=180):
    """Waits for a condition; its value, or None, and a recorded failure."""
    value = within(seconds, what)
    check(value, f"after {seconds} s still not: {message}")
    return value or None


def need_daemons():
    """Skips where the daemons are not built, or the library cannot be loaded into Python."""
    for name in ("meridian-aggregator", "meridian-agent"):
        if not os.path.exists(os.path.join(BIN, name)):
            skip(f"{name} is not built")
    if built_with(os.path.join(BUILD, "lib", "libmeridian.so"), "asan", "tsan"):
        skip("libmeridian.so is instrumented: it cannot be loaded into Python")


class Program:
    """A child with a log file of its own; kill() is SIGKILL and waits, end() is SIGTERM and says how it ended."""

    def __init__(self, log, args, env=None, **options):
        self.log = log
        with open(log, "ab") as f:
            self.p = subprocess.Popen(args, stderr=f, env=env, start_new_session=True, **options)

    @property
    def pid(self):
        return self.p.pid

    def running(self):
        return self.p.poll() is None

    def kill(self):
        if self.running():
            os.killpg(self.p.pid, signal.SIGKILL)
        return self.p.wait()

    def end(self, seconds=60):
        if self.running():
            self.p.send_signal(signal.SIGTERM)
        try:
            return self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            check(False, f"{self.log}: it did not end on SIGTERM within {seconds} s")
            return self.kill()

    def text(self):
        with open(self.log, errors="replace") as f:
            return f.read()


class Workload(Program):
    """tests/e2e/emit.py: ticks with a number each. `begun` and `done` are what it says it emitted; while it lives, or when
    it was killed, the tick between the two may or may not have been recorded."""

    def __init__(self, log, rings, env, ring_size="8M", text=0, more=None, prefix=()):
        self.truth = tempfile.TemporaryFile()
        self.truth.truncate(mmap.PAGESIZE)
        self.map = mmap.mmap(self.truth.fileno(), mmap.PAGESIZE)
        self.numbers = (ctypes.c_uint64 * 2).from_buffer(self.map)
        fd = self.truth.fileno()
        self.rings = rings
        super().__init__(log, [*prefix, sys.executable, os.path.join(SOURCE, "tests", "e2e", "emit.py"), str(fd), str(text)], text=True, pass_fds=[fd],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         env={**env, "PYTHONPATH": os.path.join(SOURCE, "python"), "MERIDIAN_LIBRARY": os.path.join(BUILD, "lib", "libmeridian.so"),
                              "MERIDIAN_ENABLE": "1", "MERIDIAN_CAPTURE": "annotations", "MERIDIAN_RING_DIR": rings, "MERIDIAN_RING_SIZE": ring_size,
                              **(more or {})})
        self.p.stdout.readline()

    @property
    def begun(self):
        return self.numbers[0]

    @property
    def done(self):
        return self.numbers[1]

    @property
    def all(self):
        """All events: the ticks, and the one before them that made the ring."""
        return self.done + 1

    def tell(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def emit(self, n):
        """Emits n ticks and returns how many it says it did."""
        before = self.done
        self.tell(str(n))
        self.p.stdout.readline()
        return self.done - before

    def unread(self):
        """Bytes in its ring that no agent has taken yet: head and tail of docs/reference/ring.md."""
        total = 0
        for path in glob.glob(os.path.join(self.rings, f"meridian.*.{self.pid}.*.ring")):
            with open(path, "rb") as f:
                header = f.read(328)
            total += int.from_bytes(header[256:264], "little") - int.from_bytes(header[320:328], "little")
        return total

    def taken(self, left=1 << 20):
        """Waits until an agent has taken what is in its ring, but for so much: so that the ring never fills, however slow the agent is."""
        until(lambda: self.unread() <= left, f"{self.log}: the agent reads the ring")

    def slow_step(self):
        self.tell("slow")
        self.p.stdout.readline()

    def run(self, per_ms):
        """Emits about so many ticks per millisecond from now on, until pause() or the end."""
        self.tell(f"run {per_ms}")

    def pause(self):
        """Ends run(); returns all it emitted so far."""
        self.tell("0")
        self.p.stdout.readline()
        return self.done


def without_none(env, **more):
    return {key: value for key, value in dict(env, **more).items() if value is not None}


class Driver(Program):
    """tests/e2e/nrt_driver.py: a program on the simulated runtime that does what tell() says."""

    def __init__(self, log, rings, env, output, runtime="simnrt", **more):
        library = os.path.join(BUILD, "lib", "libmeridian.so")
        super().__init__(log, [sys.executable, os.path.join(SOURCE, "tests", "e2e", "nrt_driver.py"), output], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         env=without_none(env, **{"LD_PRELOAD": library, "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", runtime), "PYTHONPATH": os.path.join(SOURCE, "python"),
                                          "MERIDIAN_LIBRARY": library, "MERIDIAN_RING_DIR": rings, "MERIDIAN_ENABLE": "1", "SIMNRT_TIME_SCALE": "0.01",
                                          **more}))
        check(self.answer() == 0, f"{log}: nrt_init")

    def answer(self):
        line = self.p.stdout.readline().split()
        return int(line[1]) if len(line) == 2 else check(False, f"{self.log}: no answer: {self.text()[-1000:]}")

    def say(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def tell(self, line):
        """What the runtime's last status was."""
        self.say(line)
        return self.answer()


def local_now():
    """The clock that times of events are taken from."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


@functools.cache
def listed_options(program):
    """The options that --help of this program lists."""
    p = subprocess.run([program, "--help=options"], capture_output=True, text=True, timeout=60)
    return {word.strip("-=") for word in p.stdout.split()}


class Cluster:
    """An aggregator, agents with a ring folder each, and workloads. Everything is below .work and ends with close()."""

    def __init__(self, host="127.0.0.1", **aggregator_options):
        # Who is slow to answer, on a busy machine, has not refused, and who is silent for seconds is not gone.
        self.work, self.host, self.options = tmp(), host, {"disk_reserve": "1M", "arm_timeout": "20s", "node_timeout": "60s", **aggregator_options}
        self.started, self.agents, self.daemon = [], {}, None
        data, control, http, probes = (free_port() for _ in range(4))
        self.data, self.control = f"tcp://{host}:{data}", f"tcp://{host}:{control}"
        self.http, self.probes = f"{host}:{http}", probes
        # Settings of the person who runs the tests must not matter.
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_", "SLURM_"))}
        self.env.update(MERIDIAN_SERVER=f"http://{self.http}", no_proxy="127.0.0.1,localhost," + host, SIMNRT_JOB=self.job("loop"))

    def job(self, name):
        """A name that no other test uses: workloads of one name on this machine meet in collectives."""
        return f"{os.path.basename(self.work)}.{name}"

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def folder(self, *parts):
        os.makedirs(self.path(*parts), exist_ok=True)
        return self.path(*parts)

    @staticmethod
    def words(options, program="meridian-agent", programs=BIN):
        """{"spool_size": "8M", "insecure": True} as options of a program. Options that its help does not list are its advanced ones."""
        listed, words = listed_options(os.path.join(programs, program)), []
        for name, value in options.items():
            no, name = ("no-", name[3:]) if name.startswith("no_") else ("", name)
            name = name.replace("_", "-")
            words.append(f"--{no}{'' if name in listed else 'advanced.'}{name}" + ("" if value is True else f"={value}"))
        return words

    def keep(self, program):
        self.started.append(program)
        return program

    def aggregator(self, store="store", prefix=(), programs=BIN, **options):
        self.daemon = self.keep(Program(self.path("aggregator.log"), [
            *prefix, os.path.join(programs, "meridian-aggregator"), "--store", store if os.path.isabs(store) else self.path(store),
            "--data-listen", self.data, "--control-listen", self.control, "--http-listen", self.http, "--time-port", str(self.probes),
            *self.words({**self.options, **options}, "meridian-aggregator", programs)], env=self.env, stdout=subprocess.DEVNULL))
        return self.daemon

    def rings(self, i):
        return self.folder(f"rings{i}")

    def agent(self, i, prefix=(), spool=None, instance=None, log=None, more=None, programs=BIN, **options):
        """Starts agent i; the same rings and spool folder every time, unless another spool is named. programs: of another release."""
        program = self.keep(Program(self.path(log or f"agent{i}.log"), [
            *prefix, os.path.join(programs, "meridian-agent"), "--aggregator", self.data, "--control", self.control,
            "--instance-id", instance or f"i-test{i}", "--ring-dir", self.rings(i), "--spool-dir", self.path(spool or f"spool{i}"),
            "--no-imds", "--no-containers", "--sample=0", *self.words({"sample_processes": 0, **options}, programs=programs)],
            env={**self.env, **(more or {})}, stdout=subprocess.DEVNULL))
        self.agents[i] = program
        return program

    def workload(self, i, **options):
        return self.keep(Workload(self.path(f"workload{i}.log"), self.rings(i), self.env, **options))

    def driver(self, i, name="driver", **options):
        return self.keep(Driver(self.path(f"{name}.log"), self.rings(i), self.env, output=self.folder(f"own-{name}"), **{"SIMNRT_JOB": self.job(name), "MERIDIAN_DEVICE_PROFILES": self.folder(f"written{i}"), **options}))

    # What the aggregator says.

    def run(self, *args, want=0, timeout=300, empty=False):
        return run(*args, want=want, env=self.env, timeout=timeout, empty=empty)

    def run_json(self, *args, want=0):
        return json.loads(self.run(*args, "--json", want=want)[0])

    def text_of(self, id):
        """What `meridian status` says of the session."""
        return "".join(self.run("status", id, want=None))

    def open(self, path, port=None, method="GET"):
        """The answer to a request to the aggregator, or to that port of this machine. Errors: OSError."""
        handlers, headers = [urllib.request.ProxyHandler({})], {}
        server = f"http://127.0.0.1:{port}" if port else self.env["MERIDIAN_SERVER"]
        if server.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.env["MERIDIAN_CA_FILE"])))
            with open(self.env["MERIDIAN_TOKEN_FILE"]) as f:
                headers["Authorization"] = "Bearer " + f.read().strip()
        request = urllib.request.Request(server + path, headers=headers, method=method)
        return urllib.request.build_opener(*handlers).open(request, timeout=60)

    def get(self, path, port=None):
        """The body of a GET; None while nobody answers."""
        try:
            with self.open(path, port) as r:
                return r.read().decode()
        except OSError:
            return None

    def delete(self, id):
        """The status of the answer."""
        try:
            with self.open("/api/v1/sessions/" + id, method="DELETE") as r:
                return r.status
        except urllib.error.HTTPError as e:
            return e.code

    def answers(self):
        return self.get("/healthz") is not None

    def nodes(self):
        text = self.get("/api/v1/nodes")
        return {n["instance_id"]: n for n in json.loads(text)["nodes"]} if text else {}

    def connected(self):
        return sorted(id for id, n in self.nodes().items() if n["connected"])

    def session(self, id):
        """The manifest; {} while nobody answers."""
        return json.loads(self.get("/api/v1/sessions/" + id) or "{}")

    def start(self, *options):
        """The id of a new session that records, on each node that is ready: one that is slow now hears of the start later than the command ends."""
        out, err = self.run("start", "--json", *options, want=None)
        doc = json.loads(out) if out else {}
        check(doc.get("state") == "recording", f"start {options}: {doc.get('message')} {err}")
        within(30, lambda: not any(p["state"] == "armed" for p in self.session(doc.get("id", "")).get("nodes", [])))
        return doc.get("id", "")

    def metric(self, name):
        """A number of the aggregator's /metrics, None without it."""
        for line in (self.get("/metrics") or "").splitlines():
            if line.split(" ")[0] == name:
                return int(float(line.split(" ")[1]))
        return None

    def recording(self, id, nodes):
        return until(lambda: [p["state"] for p in self.session(id).get("nodes", [])] == ["recording"] * nodes,
                     f"{nodes} nodes record")

    def begun(self, id, nodes=None):
        """Waits until so many nodes (all that the manifest lists) record and the agreed start has passed on each, by as much as its clock
        may be wrong and the times of files, which go by the kernel's ticks, may be early."""
        def is_so():
            parts = self.session(id).get("nodes", [])
            return len(parts) >= (nodes or 1) and all(
                p["state"] == "recording" and p["started_local_ns"] and local_now() > p["started_local_ns"] + max(p["start_bound_ns"], 0) + 20_000_000
                for p in parts)
        return until(is_so, f"{nodes or 'all'} nodes record and their start has passed")

    def within_session(self, id):
        """A session ends at a time, which each node knows as well as its clock: waits until what was emitted up to now is older than any
        stop from now on can be."""
        at = local_now()
        def is_so():
            parts = self.session(id).get("nodes")
            return parts and all(0 <= p["clock"]["bound_ns"] < local_now() - at for p in parts if p["state"] == "recording")
        return until(is_so, "what was emitted is older than any stop")

    def record(self, name, enough, *options, want=0):
        """What `meridian record` says when it was ended by Ctrl-C, as soon as enough(part) is so of every part of its manifest."""
        known = {s["id"] for s in self.run_json("sessions")["sessions"]}
        p = self.keep(Program(self.path(name + ".err"), [MERIDIAN, "record", "--duration", "0", "-o", self.path(name), *options], stdout=subprocess.PIPE, text=True, env=self.env))
        new = until(lambda: [s["id"] for s in self.run_json("sessions")["sessions"] if s["id"] not in known] or not p.running(), f"{name}: a session begins")
        if isinstance(new, list):  # what is interrupted before the start is no recording
            until(lambda: " records on " in p.text() or not p.running(), f"{name}: the command knows that it records")
            until(lambda: (parts := self.session(new[0])["nodes"]) and all(map(enough, parts)) or not p.running(), f"{name}: enough is recorded")
        p.p.send_signal(signal.SIGINT)
        out, _ = p.p.communicate(timeout=120)
        equal(p.p.returncode, want, f"record {options}: {p.text()}")
        return out, p.text()

    def stop(self, id, want=0, timeout=300):
        """Stops; the manifest of the complete session, which may be one of nothing."""
        out, err = self.run("stop", id, "--json", want=want, timeout=timeout, empty=True)
        return json.loads(out) if check(out, f"stop {id}: {err}") else {}

    def ticks(self, id, name="profile", *options):
        """What the fetched profile holds: {(instance_id, process_id): [numbers in the order of the timeline]}."""
        out, err = self.run("fetch", id, "-o", self.path(name), "--format", "json", *options, want=None)
        path = self.path(name, "system_profile.json")
        return ticks_in(path) if check(os.path.exists(path), f"fetch {id}: {err}") else {}

    def show_logs(self, last=3000):
        for name in sorted(n for n in os.listdir(self.work) if n.endswith(".log")):
            with open(self.path(name), errors="replace") as f:
                print("----", name, "----\n" + f.read()[-last:])

    def close(self):
        """Kills what runs, shows the logs of a failed test, removes the files (not with MERIDIAN_KEEP)."""
        for program in self.started:
            program.kill()
        if failures:
            self.show_logs()
        if "MERIDIAN_KEEP" not in os.environ:
            shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if error[0] is not None:
            failures.append(str(error[1]))
        self.close()


def ticks_in(path):
    """Numbered ticks of a profile in JSON, by (instance_id, process_id), in the order of the file."""
    by = {}
    for e in load_json(path)["trace_events"]:
        if e["name"] == "tick":
            by.setdefault((e["instance_id"], int(e["process_id"])), []).append(int(e["args"]["i"]))
    return by


def check_ticks(got, want, what):
    """want: {(instance_id, process_id): Workload or number of ticks}. Every tick that its process says it emitted is there
    once; of a process that was killed the last one begun may be. Returns the ticks found."""
    equal(sorted(set(got) - set(want)), [], f"{what}: processes nobody started")
    total = 0
    for key, source in want.items():
        begun, done = (source.begun, source.done) if isinstance(source, Workload) else (source, source)
        numbers = got.get(key, [])
        seen = set(numbers)
        total += len(numbers)
        equal(len(numbers) - len(seen), 0, f"{what}: ticks of {key} that came twice")
        missing = set(range(1, done + 1)) - seen
        equal((len(missing), sorted(missing)[:5]), (0, []), f"{what}: ticks of {key} that are missing, of {done}")
        equal(sorted(n for n in seen if n < 1 or n > begun), [], f"{what}: ticks of {key} that were never emitted")
    return total


def equation(doc, what, dropped=0):
    """begun = delivered + dropped + held in every part of a complete session, and nothing is held; returns what was dropped."""
    lost = 0
    for part in doc.get("nodes", []):
        c, who = part["counters"], f"{what}: {part['instance_id']}"
        equal(c["begun"], c["delivered"] + c["dropped"] + c["held"], f"{who}: begun = delivered + dropped + held")
        if c["dropped"] == 0:  # what is stored has the records of losses too
            equal(part["events"], c["delivered"], f"{who}: stored, of delivered")
        equal((c["held"], part["missing_batches"]), (0, 0), f"{who}: held, missing batches")
        equal(c["dropped"], sum(d["count"] for d in c["drops"]), f"{who}: dropped = sum over causes")
        lost += c["dropped"]
    if dropped is not None:
        equal(lost, dropped, f"{what}: dropped")
    return lost
