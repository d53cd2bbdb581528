"""A program on the Neuron runtime that does what it is told, a line on stdin at a time, and says `ok STATUS` after each: so that a test decides
which model is executed when, and which profile the program itself asks for.

    load NAME CORE [EXEC_US]   a model of that name; `unload NAME`
    exec NAME N                nrt_execute, N times; async NAME N: nrta_execute_schedule, and waits for each to end
    repeat NAME N              one nrt_execute_repeat of N executions
    step NAME N M              steps N to M of a training loop: nrt_execute in a span "step" with its number
    many THREADS N             in each of so many threads at one time N models, every second one unloaded before the next is loaded
    begin, end                 an inspect of the program's own, with options; continuous 0|1
    trace FILE NAME            the older trace around one execution
    recording                  1 while the library records, else 0
    flush                      what the runtime has written of its truth is in the file
    close                      nrt_close"""
import ctypes
import sys
import threading

from neffs import many_neffs, neff

nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
P = ctypes.c_void_p
models, keep = {}, []


def options(allocate, *more):
    o = P()
    getattr(nrt, allocate)(ctypes.byref(o))
    for name, *args in more:
        getattr(nrt, name)(o, *args)
    return o


def execute(model):
    return nrt.nrt_execute(model, ins, outs)


def async_execute(model):
    ret, seq, done = ctypes.c_int32(1100), ctypes.c_uint64(), ctypes.c_bool(False)
    keep.append((ret, seq))
    status = nrt.nrta_execute_schedule(model, ins, outs, 0, ctypes.byref(ret), ctypes.byref(seq))
    while status == 0 and not done.value:
        status = nrt.nrta_is_completed(seq, ctypes.byref(done))
    return status or ret.value


def many(threads, n):
    texts, worst, together = many_neffs(int(threads), int(n)), [], threading.Barrier(int(threads))

    def run(t):
        together.wait()
        for i in range(int(n)):
            text, model = texts[t, i][1], P()
            worst.append(nrt.nrt_load(text, ctypes.c_size_t(len(text)), t, -1, ctypes.byref(model)))
            if i % 2 == 0:
                worst.append(nrt.nrt_unload(model))
    all_of = [threading.Thread(target=run, args=(t,)) for t in range(int(threads))]
    for t in all_of:
        t.start()
    for t in all_of:
        t.join()
    keep.append(texts)
    return max(worst)


def load(name, core, us="1000"):
    text = neff(name, us)
    keep.append(text)
    models[name] = P()
    return nrt.nrt_load(text, ctypes.c_size_t(len(text)), int(core), -1, ctypes.byref(models[name]))


def steps(name, first, last):
    import meridian
    worst = 0
    for n in range(int(first), int(last) + 1):
        with meridian.scope("step", step=n):
            worst = execute(models[name]) or worst
    return worst


def recording():
    import meridian
    return int(meridian.status().startswith("recording"))


def trace(path, name):
    return nrt.nrt_trace_start(ctypes.c_bool(True)) or execute(models[name]) or nrt.nrt_trace_stop(path.encode())


def begin():
    o = options("nrt_inspect_config_allocate", ("nrt_inspect_config_set_output_dir", sys.argv[1].encode()),
                ("nrt_inspect_config_set_enable_inspect", ctypes.c_bool(True)))
    return nrt.nrt_inspect_begin_with_options(o)


def continuous(on):
    if on == "0":
        return nrt.nrt_profile_continuous_stop()
    return nrt.nrt_profile_continuous_start(options("nrt_profile_continuous_options_allocate", ("nrt_profile_continuous_options_set_output_dir", sys.argv[1].encode())))


VERBS = {
    "load": load,
    "many": many,
    "unload": lambda name: nrt.nrt_unload(models.pop(name)),
    "exec": lambda name, n: max(execute(models[name]) for _ in range(int(n))),
    "repeat": lambda name, n: nrt.nrt_execute_repeat(models[name], ins, outs, int(n)),
    "async": lambda name, n: max(async_execute(models[name]) for _ in range(int(n))),
    "step": steps,
    "begin": begin,
    "end": nrt.nrt_inspect_stop,
    "continuous": continuous,
    "trace": trace,
    "recording": recording,
    "flush": lambda: ctypes.CDLL(None).fflush(None),
    "close": lambda: nrt.nrt_close() and 0,
}
status = nrt.nrt_init(1, b"driver", b"")
ins, outs = P(), P()
nrt.nrt_allocate_tensor_set(ctypes.byref(ins))
nrt.nrt_allocate_tensor_set(ctypes.byref(outs))
print("ok", status, flush=True)
for line in sys.stdin:
    verb, *args = line.split()
    print("ok", VERBS[verb](*args) or 0, flush=True)
