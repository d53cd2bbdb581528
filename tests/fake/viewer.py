#!/usr/bin/env python3
"""Stands in for the vendor's viewer (neuron-explorer, neuron-profile) in tests: takes its `view` command line, finds the NTFF and NEFF files of a
capture directory, and writes files with the vendor's names. What is in them is made up: the format of NTFF is not public. The first line of the
file <this program>.does says how it goes wrong; without that file it does what is asked."""
import os
import resource
import signal
import struct
import subprocess
import sys
import threading

ME = os.path.abspath(sys.argv[0])


def does():
    try:
        with open(ME + ".does") as f:
            return (f.readline().split() or ["good"])
    except OSError:
        return ["good"]


# ---- A Perfetto trace of one track, by hand ----

def varint(n):
    out = b""
    while True:
        out += bytes([(n & 0x7F) | (0x80 if n > 0x7F else 0)])
        n >>= 7
        if n == 0:
            return out


def number(field, n):
    return varint(field << 3) + varint(n)


def block(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def trace(name, slices):
    out = block(1, block(60, number(1, 7) + block(2, name.encode())) + number(10, 1))
    for start, length, what in slices:
        out += block(1, number(8, start) + block(11, number(9, 1) + number(11, 7) + block(23, what.encode())) + number(10, 1))
        out += block(1, number(8, start + length) + block(11, number(9, 2) + number(11, 7)) + number(10, 1))
    return out


# ---- What goes wrong ----

def pace(seconds):
    """The speed of a program that works."""
    threading.Event().wait(seconds)


def eat():
    held = []
    while True:
        held.append(bytearray(b"x" * (4 << 20)))
        pace(0.005)


WAYS = {}  # by name; each is called with the folder of results and the words behind its name


def way(f):
    WAYS[f.__name__[3:].replace("_", "-")] = f
    return f


@way
def do_kill(output, words):
    os.kill(os.getpid(), signal.SIGKILL)


@way
def do_kill_watcher(output, words):
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()


@way
def do_hang(output, words):
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    print("reading the profile", flush=True)
    while True:
        signal.pause()


@way
def do_memory(output, words):
    eat()


@way
def do_memory_in_children(output, words):
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                eat()
            os._exit(0)
    signal.pause()


@way
def do_allocate(output, words):  # all at once
    try:
        held = bytearray(int(words[0]) << 20)
    except MemoryError:
        sys.exit("cannot allocate memory")
    print(len(held))


@way
def do_write(output, words):
    with open("big", "wb") as f:
        while True:
            f.write(b"x" * (1 << 20))


@way
def do_write_deep(output, words):  # below as many folders as are given
    for _ in range(int(words[0])):
        os.mkdir("d")
        os.chdir("d")
    misbehave(["write-slowly", "8"], output)


@way
def do_write_closed(output, words):  # nobody else can look into its folder
    os.mkdir("closed")
    for i in range(8):
        with open(f"closed/file{i}", "wb") as f:
            f.write(b"x" * (5 << 20))
    os.chmod("closed", 0)
    pace(2)
    sys.exit("nobody minds")


@way
def do_write_nameless(output, words):  # files that nobody finds by a name
    held = []
    for i in range(int(words[0])):
        held.append(open(f"file{i}", "w+b", buffering=0))
        os.unlink(f"file{i}")
        held[-1].write(b"x" * (10 << 20))
    pace(2)
    sys.exit("nobody minds")


@way
def do_write_slowly(output, words):
    for i in range(int(words[0])):
        with open(f"file{i}", "wb") as f:
            f.write(b"x" * (10 << 20))
    pace(2)
    sys.exit("nobody minds")


@way
def do_share(output, words):  # children that have what their parent has
    held = bytearray(b"x" * (int(words[0]) << 20))
    for _ in range(4):
        if os.fork() == 0:
            pace(2)
            os._exit(len(held) == 0)
    for _ in range(4):
        os.wait()


@way
def do_colour(output, words):
    sys.stdout.buffer.write(b"one\x1b[31m two\x7f three\xc2\x9b31m four \xe2\x80\xae five\nsix \xc3\xa9")
    sys.exit(1)


@way
def do_write_many(output, words):
    for i in range(10 ** 9):
        with open(f"file{i}", "wb") as f:
            f.write(b"x" * 4096)


@way
def do_talk(output, words):
    while True:
        sys.stdout.write("working on it\n" * 1000)


@way
def do_bad(output, words):
    sys.exit(" ".join(words) or "cannot open NTFF version 115")


@way
def do_half(output, words):
    with open(os.path.join(output, "device_profile_model_1.pftrace"), "wb") as f:
        f.write(trace("half", [(1, 2, "op")])[:20])
    sys.exit("ended in the middle")


@way
def do_children(output, words):  # some in its group, some in a session of their own; all sleep under a name of the test's
    for own in (False, True, True):
        p = subprocess.Popen(["sleep", words[0]], start_new_session=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open("children.txt", "a") as f:
            f.write(f"{p.pid}\n")
    if words[1:]:
        misbehave(words[1:], output)


@way
def do_escape(output, words):  # writes where it may not
    for path in words:
        try:
            with open(path, "a") as f:
                f.write("x")
            print(f"wrote {path}", flush=True)
        except OSError as e:
            print(f"{path}: {e.strerror}", flush=True)


@way
def do_link(output, words):  # results that are not its own
    os.symlink(words[0], "device_profile_model_9.pftrace")


@way
def do_tell(output, words):
    fds = sorted(os.listdir("/proc/self/fd"), key=int)  # the last one is of this listing
    with open("told.txt", "w") as f:
        f.write(f"env {' '.join(sorted(os.environ))}\nfds {' '.join(fds[:-1])}\n"
                f"sid {os.getsid(0) == os.getpid()}\ncore {resource.getrlimit(resource.RLIMIT_CORE)[0]}\nnice {os.nice(0)}\n"
                f"cwd {os.getcwd()}\nhome {os.environ['HOME']}\ntmp {os.environ['TMPDIR']}\nargv {' '.join(sys.argv[1:])}\n")


@way
def do_wait(output, words):  # until a file is there
    print("waiting", flush=True)
    while not os.path.exists(words[0]):
        pace(0.02)


def misbehave(what, output):
    if what[:1] and what[0] in WAYS:
        WAYS[what[0]](output, what[1:])


# ---- What it is for ----

def field(path, key, default):
    with open(path, "rb") as f:
        for line in f.read(65536).split(b"\n"):
            if line.startswith(key.encode() + b"="):
                return line[len(key) + 1:].decode(errors="replace")
    return default


def main():
    args = sys.argv[1:]
    if args[:2] != ["view", "-d"] or "--output-format" not in args:
        sys.exit(f"bad usage: {' '.join(args)}")
    source, form = args[2], args[args.index("--output-format") + 1]
    output = args[args.index("--data-path") + 1] if "--data-path" in args else "."
    what = does()
    if len(what) > 1 and what[0] == "only":  # in one of the formats
        what = what[2:] if form == what[1] else ["good"]
    misbehave(what, output)
    files = sorted(os.path.join(at, f) for at, _, names in os.walk(source) for f in names)
    ntffs = [f for f in files if f.endswith(".ntff")]
    if not ntffs:
        sys.exit(f"no NTFF in {source}")
    if not any(f.endswith(".neff") for f in files):
        sys.exit(f"no NEFF in {source}")
    for i, ntff in enumerate(ntffs):
        model = field(ntff, "model_id", str(10001 + i))
        with open(ntff, "rb") as f:
            size = len(f.read())
        slices = [(1000 * k, 900, f"op{k}") for k in range(10)]
        if form == "perfetto":
            with open(f"device_profile_model_{model}.pftrace", "wb") as f:
                f.write(trace(f"SIMULATED {os.path.basename(ntff)}, {size} bytes", slices))
        elif form == "json":
            with open(f"device_profile_model_{model}.json", "w") as f:
                f.write('{"simulated": "tests/fake/viewer.py", "instruction": [{"timestamp": 0, "duration": 900, "opcode": "MatMul"}]}')
        elif form == "parquet":
            table = os.path.join(output, "profiles", "global", f"{os.path.basename(ntff)[:-5]}@latest")
            os.makedirs(table, exist_ok=True)
            for name in ("Summary", "Instruction"):
                with open(os.path.join(table, f"{name}.parquet"), "wb") as f:
                    f.write(b"PAR1" + struct.pack("<I", len(slices)) + f"SIMULATED {name} of {os.path.basename(ntff)}".encode() + b"PAR1")
        else:
            sys.exit(f"unknown format {form}")
    with open("viewer.log", "w") as f:
        f.write("for nobody\n")


main()
