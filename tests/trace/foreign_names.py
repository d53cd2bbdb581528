"""Files that frameworks and other profilers write and that Meridian does not read: each is named in the refusal. One that frameworks write beside
their traces does not make the others fail. Also dumps of Gloo's flight recorder.
Usage: foreign_names.py."""
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

MERIDIAN = os.path.join(os.environ.get("MERIDIAN_BUILD") or "build", "bin", "meridian")
DATA = os.path.join(os.environ.get("MERIDIAN_TEST_DATA") or os.path.join(os.environ.get("MERIDIAN_SOURCE") or ".", "..", "shared", "data"), "framework-cases")
TRACE = {"traceEvents": [{"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}
VALUE = b"\x0a\x04\x08\x01\x10\x02"
FOREIGN = {
    "speedscope.json": (b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}', "is a speedscope profile"),
    "session.json": (b'{"start_time": 1.5, "duration": 0.1, "sample_count": 60, "target_description": "x"}', "is a pyinstrument session"),
    "stats.json": (b'{"total_num_allocations": 163, "total_bytes_allocated": 315025}', "is a summary by memray"),
    "cpu.pprof": (gzip.compress(VALUE + VALUE + b"\x12\x02\x0a\x00"), "is a pprof profile"),
    "go.pprof": (gzip.compress(b"\x48\xbb\xd5\x01" + VALUE + VALUE + b"\x12\x02\x0a\x00"), "is a pprof profile"),
    "perf.data": (b"PERFILE2h" + bytes(200), "is a profile of Linux's perf"),
    "perf.txt": (b"[ perf record: Woken up 1 times to write data ]\n", "is what 'perf record' printed"),
    "script.txt": (b"python  6155  7382.626076:   10101010 cpu-clock:pppH: \n\t            3911 f+0x51 (/usr/lib/ld.so)\n", "is the output of 'perf script'"),
    "stacks.txt": (b"<module> (w.py:15);main (w.py:12) 2\nmain;step 25\n", "has stacks in collapsed form"),
    "go.trace": (b"go 1.26 trace\x00\x00\x00" + bytes(50), "is an execution trace of Go"),
    "et.json": (b'{"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": [{"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1}]}',
                "is an ExecutionTrace of PyTorch"),
    "memory.json": (b"[[1700000000, 1700000001], [[0, 12], [0, 24]]]", "is a memory timeline of PyTorch"),
}
BESIDE = ("et.json", "memory.json")
NOT_FOREIGN = {"numbers.txt": b"1 2\n3 4\n", "config.json": b'{"nodes": 3}', "text.txt": b"a line; of text\nand one\n", "list.json": b"[1, 2]"}
failures = []


def equal(got, want, what):
    if got != want:
        failures.append(what)
        print(f"FAILED {what}: got {got!r}, expected {want!r}")


def view(work, *paths):
    out = os.path.join(work, f"out{len(os.listdir(work))}")
    done = subprocess.run([MERIDIAN, "view", *paths, "-o", out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, " ".join(done.stdout.split())


def named(work):
    trace = os.path.join(work, "trace.json")
    with open(trace, "w", encoding="utf-8") as f:
        json.dump(TRACE, f)
    for name, (content, words) in FOREIGN.items():
        path = os.path.join(work, name)
        with open(path, "wb") as f:
            f.write(content)
        status, text = view(work, path)
        equal((status, f"'{path}' {words}" in text), (1, True), f"{name}: {text[:300]}")
        status, text = view(work, path, trace)
        equal((status, f"{words}" in text), (0 if name in BESIDE else 3, True), f"{name} beside a trace: {text[:300]}")
    for name, content in NOT_FOREIGN.items():
        path = os.path.join(work, name)
        with open(path, "wb") as f:
            f.write(content)
        status, text = view(work, path)
        equal((status, any(words in text for _, words in FOREIGN.values())), (1, False), f"{name}: {text[:300]}")


def real(work):
    """Real files, by the words of the drawn file that is nearest."""
    rows = {"go.pprof": "cpu.pprof", "jax_mem.pprof": "cpu.pprof", "go.trace": "go.trace", "memray_stats.json": "stats.json", "perf.data": "perf.data",
            "perf_message.txt": "perf.txt", "perf_script.txt": "script.txt", "pyinstrument.json": "session.json", "pyspy.raw.txt": "stacks.txt",
            "pyinstrument.speedscope.json": "speedscope.json", "pyspy.speedscope.json": "speedscope.json"}
    folder = os.path.join(DATA, "foreign-refusals")
    if not os.path.isdir(folder):
        print(f"skipped: {folder} is missing (MERIDIAN_TEST_DATA names the folder of test data)")
        return
    for name, like in rows.items():
        status, text = view(work, os.path.join(folder, name))
        equal((status, FOREIGN[like][1] in text), (1, True), f"{name}: {text[:300]}")


def skipped_inputs_are_counted(work):
    """A copy of an input is skipped, and is no incomplete input."""
    paths = [os.path.join(work, f"copy{i}.json") for i in range(2)]
    for path in paths:
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"traceEvents": [{"ph": "X", "name": f"f{i}", "pid": 1, "tid": 1, "ts": 10 * i, "dur": 2} for i in range(50)]}, f)
    _, text = view(work, *paths)
    equal("skipped: " in text and "more incomplete" not in text and "more skipped" not in text, True, f"a copy: {text[:600]}")


def gloo_dumps():
    """Gloo's entries never state that they are complete. The state of the group does: the last operation is open at rank 0 only."""
    paths = sorted(glob.glob(os.path.join(DATA, "torch-hang-rank3-missing", "fr", "*")))
    if not paths:
        print(f"skipped: no dumps in {DATA} (MERIDIAN_TEST_DATA names the folder of test data)")
        return
    done = subprocess.run([MERIDIAN, "report", *paths], stdout=subprocess.PIPE, text=True)
    text = " ".join(done.stdout.split())
    equal("rank 3 has no readable dump" in text, True, f"dumps: {text[:600]}")
    equal("1 of 3 ranks with a dump have open operations" in text, True, f"dumps: {text[:600]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder_of_test:
        named(folder_of_test)
        real(folder_of_test)
        skipped_inputs_are_counted(folder_of_test)
    gloo_dumps()
    print(f"{len(failures)} wrong")
    sys.exit(1 if failures else 0)
