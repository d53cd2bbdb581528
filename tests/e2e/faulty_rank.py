"""A rank of a job on the simulated runtime: input, an execution and an all-gather in each step, with faults on request.

Each step prints a line: its number, the status of the runtime, when it began (wall clock, ns), how long it took, and for how long of that
the rank was outside of the execution and of the all-gather. Lines on stdin order a fault:

    sleep S [NAME]             does nothing for S seconds, in a span NAME if there is one
    work S                     burns CPU for S seconds
    read PATH                  reads a file
    barrier                    enters a barrier instead of the next execution
    size                       gathers another size from now on
    model N                    executes another model N times
    group                      executes the model of the small group once more
    load                       loads one more model
    exit, abort                ends
    pause N MS NAME [K]        from now on sleeps MS milliseconds in each Nth step (in step K of each N), in a span NAME
    burn N MS NAME [K]         the same, with the CPU
    reload N                   from now on loads and unloads a model in each Nth step

`at STEP` before a line delays it until that step, so that several ranks do the same in the same step. A line that is obeyed is printed as
`did`, with the time. With TENSOR_RANKS, each step begins with an execution of a group of so many neighbours (tensor parallel), and the other
executions are of all ranks (data parallel). With ENDS_ON_FAILURE in the environment it ends after a call that failed. Usage: faulty_rank.py RANK WORLD [EXEC_US [COLLECTIVES [TENSOR_RANKS]]]."""
import contextlib
import ctypes
import os
import select
import sys
import time

from wait import let_it_run

try:
    import meridian
except ImportError:  # spans are left out
    meridian = None

nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
rank, world, exec_us, collectives, tensor_ranks = (int(a) for a in (sys.argv[1:] + ["4000", "4", "1"][len(sys.argv) - 3:]))
P, U, Z = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t


def span(name):
    return meridian.scope(name) if meridian and name else contextlib.nullcontext()


def tensor(size):
    t = P()
    nrt.nrt_tensor_allocate(0, 0, Z(size), b"t", ctypes.byref(t))
    return t


def load(name, of=world):
    model = P()
    text = f"SIMNEFF 1\nname={name}\nexec_us={exec_us}\ncc={collectives}\ntensor_frees=0\ncopyins=0\n".encode()
    status = nrt.nrt_load_collectives(text, Z(len(text)), 0, 1, U(rank % of), U(of), ctypes.byref(model))
    return model, status


def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


class Rank:
    def __init__(self):
        self.ins, self.outs, self.size = P(), P(), 64
        self.received, self.waiting, self.lasting, self.step = "", [], [], 0
        nrt.nrt_init(1, b"rank", b"")
        nrt.nrt_build_global_comm(0, U(rank), U(world))
        self.train, status = load("train")
        self.other, _ = load("eval")
        self.small = load("tensor", tensor_ranks)[0] if tensor_ranks > 1 else None
        nrt.nrt_allocate_tensor_set(ctypes.byref(self.ins))
        nrt.nrt_allocate_tensor_set(ctypes.byref(self.outs))
        self.input = tensor(64)
        self.batch, self.mine, self.all_of = (ctypes.create_string_buffer(n) for n in (64, 64, 64 * world))
        print("loaded", status, flush=True)

    def execute(self, model):
        return nrt.nrt_execute(model, self.ins, self.outs)

    def reload(self):
        with span("compile"):
            let_it_run(0.05)
            nrt.nrt_unload(load("again")[0])

    def obey(self, line):
        verb, *args = line.split()
        print("did", line.strip(), time.time_ns(), flush=True)
        if verb == "sleep":
            with span(args[1] if len(args) > 1 else None):
                let_it_run(float(args[0]))
        elif verb == "work":
            burn(float(args[0]))
        elif verb == "read":
            with open(args[0], "rb") as f:
                f.read()
        elif verb == "barrier":
            nrt.nrt_barrier(0, U(rank), U(world))
        elif verb == "size":
            self.size = 32
        elif verb == "model":
            for _ in range(int(args[0])):
                self.execute(self.other)
        elif verb == "group":
            self.execute(self.small)
        elif verb == "load":
            load("more")
        elif verb == "abort":
            os.abort()
        elif verb == "exit":
            os._exit(0)
        else:
            self.lasting.append((verb, args))

    def listen(self):
        while select.select([0], [], [], 0)[0]:
            text = os.read(0, 65536).decode()
            self.received += text or "exit\n"
            if not text:
                break
        *lines, self.received = self.received.split("\n")
        for line in lines:
            at, line = (int(line.split()[1]), line.split(None, 2)[2]) if line.startswith("at ") else (self.step, line)
            self.waiting.append((at, line))
        due = [line for at, line in self.waiting if at <= self.step]
        self.waiting = [(at, line) for at, line in self.waiting if at > self.step]
        for line in due:
            self.obey(line)

    def last(self):
        for verb, args in self.lasting:
            if self.step % int(args[0]) != (int(args[3]) if len(args) > 3 else 0):
                continue
            if verb == "reload":
                self.reload()
                continue
            with span(args[2]):
                (burn if verb == "burn" else let_it_run)(float(args[1]) / 1000)

    def make_step(self):
        began = time.time_ns()
        self.listen()
        self.last()
        with span("load batch"):
            nrt.nrt_tensor_write(self.input, self.batch, Z(0), Z(64))
        at = time.time_ns()
        if self.small:
            self.execute(self.small)
        status = self.execute(self.train) or nrt.nrt_all_gather(0, U(rank), U(world), U(self.size), self.mine, self.all_of)
        end = time.time_ns()
        self.step += 1
        print(self.step, status, began, end - began, at - began, flush=True)
        if status and "ENDS_ON_FAILURE" in os.environ:
            sys.exit("a call failed")


job = Rank()
while True:
    with span("step"):
        job.make_step()
