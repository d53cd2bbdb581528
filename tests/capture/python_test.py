#!/usr/bin/python3
"""python/meridian.py with the library, and without it. MERIDIAN_BUILD, MERIDIAN_SOURCE as for all tests."""
import ast
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings

SOURCE = os.environ["MERIDIAN_SOURCE"]
LIBRARY = os.path.join(os.environ["MERIDIAN_BUILD"], "lib", "libmeridian.so")
sys.path.insert(0, os.path.join(SOURCE, "python"))


def record_scopes(m, domain):
    """Scopes, in coroutines too; returns the name of the function that is traced."""
    with m.scope("outer", domain, step=1, ratio=0.5, ok=True, text="caf\u00e9 \"x\"") as outer:
        outer.set(late=-1, huge=1 << 63)
        for i in range(3):
            with m.scope("step %d" % i, "python"):
                pass
    try:
        with m.scope("raises"):
            raise KeyError("on purpose")
    except KeyError:
        pass

    @m.traced(domain="python")
    def work(n):
        return n + 1

    assert work(1) == 2 and work.__name__ == "work"

    def block(name):
        with m.scope(name, "python", me=name):
            yield

    first, second = block("first"), block("second")
    for step in (first, second, first, second):  # as coroutines do: the one that began first ends first
        next(step, None)

    class Turn:  # of the event loop
        def __await__(self):
            yield

    @m.traced(name="awaits")
    async def awaits():
        await Turn()
        m.instant("behind the await")

    asyncio.run(awaits())
    again = m.scope("in itself")
    with again, again:
        pass
    return work.__qualname__


def record_marks(m, domain):
    m.instant("now", scope=m.PROCESS, n=2)
    counter = domain.counter("queue", unit="count")
    counter += 5
    counter -= 2
    counter.sample(0.5)
    assert counter.value == 3
    for where in (m.PROCESS, "global", "process", "thread", "task", "marker"):
        domain.marker("mark").mark(where)
    m.instant("by name", scope="global")
    for call in (domain.marker("mark").mark, lambda where: m.instant("nowhere", scope=where)):
        for where in ("galaxy", 9, None):
            try:
                call(where)
                assert False, f"a mark for {where}"
            except m.MeridianError as error:
                assert error.code == 6 and "process, thread, task or marker expected" in str(error), error


def record_objects(m, domain):
    with domain.task("task"), domain.frame("frame") as frame, m.Event("event"):
        pass
    assert frame.count == 1
    task = domain.task("twice")
    try:
        task.stop()
        assert False, "a task that was not started was stopped"
    except m.MeridianError as error:
        assert error.code == 17 and "not started" in str(error), error
    s = m.span("async")
    other = threading.Thread(target=lambda: s.end(done=True))
    other.start()
    other.join()
    arrow = m.flow("arrow")
    with m.scope("from"):
        arrow.begin()
    with m.scope("to"):
        arrow.end()
    with m.scope("holds", "python"):
        m.memory_allocated(4096, 1000)
        m.memory_allocated(1 << 47, 24)
    m.memory_freed(4096)
    region = m.Region("region")
    with region:
        pass
    region.clear()
    with region, region:
        pass
    assert region.entries == 2 and str(region).startswith("[prof] region: total_time: "), str(region)
    with m.Models(m.Models.MEMORY) as models:
        pass
    assert models.records() == []


def check_statistics(m, traced):
    statistics = json.loads(m.dumps(format="json"))
    assert statistics["Time"]["python"]["outer"]["Count"] == 1, statistics
    assert statistics["Time"]["python"][traced]["Count"] == 1
    assert statistics["Scopes"] == [{"Name": "python/holds", "Place": "host", "Count": 2, "Current": 24, "Peak": 1024,
                                     "Allocated": 1024, "Freed": 1000}], statistics["Scopes"]
    assert m.dumps(reset=True).startswith("\nProfile Statistics")


def check_trace(path, traced):
    trace = json.load(open(path))["traceEvents"]
    names = [e["name"] for e in trace]
    for name in ("outer", "step 0", "step 2", "raises", "now", "queue", "mark", "task", "frame", "event",
                 "async", "arrow", "from", "to", "region", traced):
        assert name in names, (name, names)
    assert "before" not in names
    args = next(e for e in trace if e["name"] == "outer")["args"]
    assert args == {"step": 1, "ratio": 0.5, "ok": True, "text": "caf\u00e9 \"x\"", "late": -1,
                    "huge": 1 << 63}, args
    assert next(e for e in trace if e["name"] == "raises")["args"] == {"exception": "KeyError"}
    first, second, awaits, behind = (next(e for e in trace if e["name"] == name) for name in ("first", "second", "awaits", "behind the await"))
    assert first["args"] == {"me": "first"} and second["args"] == {"me": "second"}, (first, second)
    assert first["ts"] <= second["ts"] <= first["ts"] + first["dur"] <= second["ts"] + second["dur"], (first, second)
    assert awaits["ts"] <= behind["ts"] <= awaits["ts"] + awaits["dur"], (awaits, behind)
    assert names.count("in itself") == 2, names


def switched_on_by_other_names(env):
    """The switches of vAccel and MXNet turn recording on, unless our own says otherwise."""
    for added, on in (({}, False), ({"VACCEL_PROF_ENABLED": "enabled"}, True), ({"VACCEL_PROFILING_ENABLED": "1"}, True),
                      ({"MXNET_PROFILER_AUTOSTART": "1"}, True), ({"VACCEL_PROF_ENABLED": "disabled"}, False),
                      ({"VACCEL_PROF_ENABLED": "enabled", "MERIDIAN_ENABLE": "0"}, False),
                      ({"VACCEL_PROF_ENABLED": "enabled", "MERIDIAN_CAPTURE": "none"}, False)):
        run = subprocess.run([sys.executable, "-c", "import meridian; print(meridian.status())"], env=dict(env, PYTHONPATH=os.path.join(SOURCE, "python"), **added),
                             stdout=subprocess.PIPE, check=True, timeout=60)
        assert (run.stdout == b"recording\n") is on, (added, run.stdout)


def check_counters(m):
    with m.Counters(["mem.MemTotal_bytes"]) as session:
        assert session.poll()["mem.MemTotal_bytes"] > 1 << 20
        session.stop()
        assert session.poll()["mem.MemTotal_bytes"] > 1 << 20
    try:
        m.Counters(["no.such.counter"])
        assert False, "an unknown counter was accepted"
    except m.MeridianError as error:
        assert "no.such.counter" in str(error)


def with_library(folder):
    import meridian as m

    assert m.available() and m.require() and m.status() == "stopped", m.status()
    with m.scope("before"):
        pass
    path = os.path.join(folder, "profile.json")
    m.set_config(filename=path, aggregate_stats=True)
    with m.profiling():
        domain = m.Domain("python")
        traced = record_scopes(m, domain)
        record_marks(m, domain)
        record_objects(m, domain)
    assert m.status() == "stopped" and m.lost() == 0
    check_statistics(m, traced)
    m.dump()
    check_trace(path, traced)
    check_counters(m)


def as_mxnet_has_it(folder):
    """A program written for MXNet's profiler: its calls, and its order of arguments."""
    import meridian as profiler

    profiler.set_config(profile_all=True, filename=os.path.join(folder, "mxnet.json"), continuous_dump=True, aggregate_stats=True)
    profiler.set_state("run")
    domain = profiler.Domain("mx")
    for made in (profiler.Task(domain, "a task"), profiler.Frame(domain, "a frame"), profiler.Event("an event"), domain.new_task("b task"), domain.new_frame("b frame")):
        made.start()
        made.stop()
    counters = [profiler.Counter(domain, "a counter"), profiler.Counter(domain, "b counter", 5), domain.new_counter("c counter", 6)]
    assert [c.value for c in counters] == [0, 5, 6]
    counters[0] += 4
    for marker in (profiler.Marker(domain, "a marker"), domain.new_marker("b marker")):
        marker.mark("process")
    profiler.pause()
    profiler.resume()
    profiler.set_state("stop")
    told = profiler.dumps()
    for name in ("a task", "a frame", "an event", "b task", "b frame"):
        assert name in told, (name, told)
    profiler.dump()
    with open(os.path.join(folder, "mxnet.json")) as f:
        events = json.load(f)["traceEvents"]
    named = {e["name"]: e.get("cat") for e in events}
    for name in ("a task", "b task", "a frame", "b frame", "a marker", "b marker"):
        assert named[name] == "mx", (name, named)
    shown = {e["name"]: list(e["args"].values()) for e in events if e["ph"] == "C"}
    assert [shown[n] for n in sorted(shown)] == [[4], [5], [6]], shown
    # An object in the place of a name is a mistake, and no name.
    for wrong in (lambda: profiler.Event(domain), lambda: profiler.Task(domain), lambda: profiler.Marker(domain, domain), lambda: profiler.Region(domain),
                  lambda: profiler.Task("t", profiler.Event("e")), lambda: profiler.Counter(domain, 7)):
        try:
            wrong()
        except TypeError as error:
            assert "a name is text" in str(error), error
        else:
            raise AssertionError("a wrong name was taken")
    class Five:  # as the integers of numpy
        def __index__(self):
            return 5
    assert profiler.Counter(domain, "d counter", Five()).value == 5
    counters[0].set_value(Five())
    counters[0] += Five()
    assert counters[0].value == 10
    for wrong in (lambda: counters[0].set_value("x"), lambda: counters[0].increment(1.5), lambda: profiler.Counter("e", value="x")):
        try:
            wrong()
        except TypeError as error:
            assert "a whole number, not" in str(error), error
        else:
            raise AssertionError("a wrong value was taken")
    try:
        profiler.set_state("run", profile_process="server")
    except profiler.MeridianError as error:
        assert "meridian record" in str(error), error
    else:
        raise AssertionError("another process cannot be asked")


def without_library():
    import meridian as m

    assert not m.available() and m.version() is None and m.status().startswith("off: ")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not m.require() and not m.require()
    assert len(caught) == 1 and "do nothing" in str(caught[0].message)
    with m.profiling(aggregate_stats=True), m.scope("x", "d", a=1), m.Task("t"), m.Region("r") as region:
        m.instant("i")
        counter = m.Counter("c")
        counter += 1
        m.Marker("m").mark()
        m.flow("f").begin()
        m.span("s").end()
        m.push("p")
        m.pop()
    assert str(region) == "" and m.dumps() == "" and m.lost() == 0
    assert m.traced(lambda: 7)() == 7


def behind_the_runtime():
    """Imported into a program whose runtime is there already: nothing stands in front of it, and one is told."""
    import ctypes

    import meridian as m

    ctypes.CDLL(os.path.join(os.environ["MERIDIAN_BUILD"], "lib", "simnrt", "libnrt.so.1"))
    assert m.status() == "stopped"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m.run()
    assert len(caught) == 1 and "LD_PRELOAD" in str(caught[0].message), caught
    assert m.status().startswith("recording, but "), m.status()
    m.stop()


def in_front_of_the_runtime():
    """The same with the library preloaded: the runtime's calls pass it."""
    import ctypes

    import meridian as m

    ctypes.CDLL(os.path.join(os.environ["MERIDIAN_BUILD"], "lib", "simnrt", "libnrt.so.1"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m.run()
    assert not caught and m.status() == "recording", (caught, m.status())


def types_are_told():
    """What a program can call has the types of what it takes and gives, and says what it does, in both modules; they hold where mypy is there to look."""
    modules = [os.path.join(SOURCE, "python", name) for name in ("meridian.py", "meridian_data.py")]
    for path in modules:
        with open(path, encoding="utf-8") as f:
            tree = ast.parse(f.read())
        for owner in [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]:
            for f in (n for n in owner.body if isinstance(n, ast.FunctionDef) and (not n.name.startswith("_") or n.name == "__init__")):
                where = f"{os.path.basename(path)}:{f.lineno}: {f.name}"
                args = f.args.args[owner is not tree and not any(getattr(d, "id", "") == "staticmethod" for d in f.decorator_list):] + f.args.kwonlyargs
                assert f.returns is not None and all(a.annotation for a in args), f"{where} lacks types"
                assert owner is not tree or ast.get_docstring(f), f"{where} does not say what it does"
    if shutil.which("mypy"):
        subprocess.run(["mypy", "--ignore-missing-imports", "--no-incremental", "--cache-dir=/dev/null", *modules], check=True, timeout=100)


def main():
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            {"with": lambda: with_library(folder), "mxnet": lambda: as_mxnet_has_it(folder), "without": without_library, "behind": behind_the_runtime,
             "front": in_front_of_the_runtime}[sys.argv[1]]()
        return
    with tempfile.TemporaryDirectory(prefix="mrd-test-", dir="/dev/shm") as rings:
        for mode, library, preload in (("with", LIBRARY, ""), ("mxnet", LIBRARY, ""), ("without", "/nonexistent/libmeridian.so", ""), ("behind", LIBRARY, ""),
                                       ("front", LIBRARY, LIBRARY)):
            env = dict(os.environ, MERIDIAN_LIBRARY=library, MERIDIAN_RING_DIR=rings, LD_PRELOAD=preload, NEURON_RT_LOG_LEVEL="off")
            subprocess.run([sys.executable, __file__, mode], env=env, check=True, timeout=60)
        switched_on_by_other_names(dict(env, MERIDIAN_LIBRARY=LIBRARY, LD_PRELOAD=""))
    types_are_told()
    print("python: with and without the library")


main()
