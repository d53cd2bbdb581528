"""The lines that docs/howto/ tells people to add, as they stand there, in a program that trains on the simulated runtime: under `meridian inspect`, and
recorded by the session of a cluster. What the framework wrote is read, belongs to the process that executed, and its operations lie around the runtime's calls;
where it does not say when it was, that is said.
Usage: frameworks.py pytorch|jax."""
import collections
import os
import re
import subprocess
import sys
import textwrap

from lib import BUILD, SOURCE, Cluster, Program, check, equal, finish, load_json, need_preload, run, skip, tmp, until
from neffs import neff

PAGE = sys.argv[1]
STEPS = 6
# What the page's lines need around them. Each step is an operation of the framework and an execution inside a named range.
RUNTIME = """
import ctypes, os, sys
P = ctypes.c_void_p
nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
assert nrt.nrt_init(1, b"2.0", b"2.0") == 0
text, model, ins, outs = open(sys.argv[1], "rb").read(), P(), P(), P()
assert nrt.nrt_load(text, ctypes.c_size_t(len(text)), 0, -1, ctypes.byref(model)) == 0
nrt.nrt_allocate_tensor_set(ctypes.byref(ins)), nrt.nrt_allocate_tensor_set(ctypes.byref(outs))


def execute():
    assert nrt.nrt_execute(model, ins, outs) == 0
"""
AROUND = {
    "pytorch": ("import torch", f"""
rank = 0


def train():
    weights = torch.ones(100)
    for n in range({STEPS}):
        with torch.profiler.record_function("step_%d" % n):
            weights = weights * 2 + n
            execute()
"""),
    "jax": ("import jax, jax.numpy as jnp", f"""
batch = jnp.ones(100)
jax.block_until_ready(batch * 2 + 1)


def step(batch):
    for n in range({STEPS}):
        with jax.profiler.TraceAnnotation("step_%d" % n):
            jax.block_until_ready(batch * 2 + n)
            execute()
"""),
}

DATED = {  # whether it says when its profile was: Debian's PyTorch, which is built without Kineto, does not
    "pytorch": "import torch, sys; sys.exit(0 if torch.autograd.kineto_available() else 1)",
    "jax": "",
}
library = need_preload()
imports, around = AROUND[PAGE]
python = next((p for p in (os.environ.get("MERIDIAN_TEST_PYTHON"), sys.executable, "/usr/bin/python3")
               if p and subprocess.run([p, "-c", imports], capture_output=True).returncode == 0), None)
if python is None:
    skip(f"no Python with `{imports}` (MERIDIAN_TEST_PYTHON names one)")
dated = subprocess.run([python, "-c", DATED[PAGE]], capture_output=True).returncode == 0
with open(os.path.join(SOURCE, "docs", "howto", PAGE + ".md")) as f:
    lines = re.search(r"```python\n(.*?)```", f.read(), re.S)[1]
work = tmp()
program, model = os.path.join(work, "train.py"), os.path.join(work, "model.neff")
with open(program, "w") as f:
    f.write(imports + "\n" + RUNTIME + around + "\n\n" + textwrap.dedent(lines) + "\nnrt.nrt_close()\n")
with open(model, "wb") as f:
    f.write(neff("framework", 900))
quiet = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "simnrt")}


def joined(path, there=True):
    """The ranges of the steps are of the process that executed, each around its own call, and arrows lead to the calls."""
    events = load_json(os.path.join(path, "system_profile.json"))["trace_events"]
    steps = sorted((e for e in events if re.fullmatch(r"step_\d+", e["name"]) and e.get("kind", "span") == "span"), key=lambda e: int(e["timestamp"]))
    calls = sorted((e for e in events if (e["name"], e["trace_event_source"]) == ("nrt_execute", "nrt_api")), key=lambda e: int(e["timestamp"]))
    equal([e["name"] for e in steps], [f"step_{n}" for n in range(STEPS)] if there else [], "the named ranges, each once")
    equal(len(calls), STEPS, "the calls of the runtime")
    if not dated:
        return set(), set(), collections.Counter()
    equal(sum((e["name"], e["trace_event_source"]) == ("nc_exec_running", "neuron_hw") for e in events) // 2, STEPS, "executions on the device")
    for s, c in zip(steps, calls):
        at, end = int(s["timestamp"]), int(s["timestamp"]) + int(s["duration"])
        check(at - 50_000 <= int(c["timestamp"]) and int(c["timestamp"]) + int(c["duration"]) <= end + 50_000,
              f"a range lies around its call: {at} {end}, {c['timestamp']} {c['duration']}")
    return {(e["instance_id"], e["process_id"]) for e in steps}, {(e["instance_id"], e["process_id"]) for e in calls}, collections.Counter(e["name"] for e in events)


# ---- `meridian inspect -o out -- python train.py` ----
out = os.path.join(work, "out")
_, err = run("inspect", "-o", out, "--output-format", "json", "--", python, program, model, env=quiet)
steps, calls, names = joined(out)
if not dated:
    check("counts its time from another start" in err, f"that its times are not those of the recording is said: {err[-800:]}")
elif PAGE == "pytorch":  # an XSpace names no process: beside a recording it has rows of its own under the node, the page says
    equal(steps, calls, "the ranges are of the process that executed")
    check(names["aten::mul"] >= STEPS, f"and so are the framework's operations: {names}")
    check(names["calls nrt_execute"] == STEPS, f"an arrow from each range to its call: {names}")

# ---- Under an agent, which finds the folder by the variable ----
with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0, stable="200ms")
    until(c.connected, "the agent is connected")
    id = c.start("--require", "all")
    c.begun(id, 1)
    folder = c.folder("capture")
    p = c.keep(Program(c.path("train.log"), [python, program, model], env=dict(c.env, **quiet, LD_PRELOAD=library, MERIDIAN_ENABLE="1", MERIDIAN_RING_DIR=c.rings(0),
                                                                              NEURON_RT_INSPECT_OUTPUT_DIR=folder, SIMNRT_JOB=c.job("train")), stdout=-3))
    equal(p.p.wait(240), 0, f"the program ends: {p.text()[-600:]}")
    until(lambda: [a for a in c.session(id).get("artifacts", []) if a["complete"]], "its trace has arrived")
    c.stop(id)
    c.run("fetch", id, "-o", c.path("live"), "--format", "json", want=None)
    steps, calls, _ = joined(c.path("live"), there=dated)
    if dated:
        equal({pid for _, pid in calls}, {str(p.pid)}, "the calls of the program")
        equal(steps, calls, "and the ranges are its own")
    else:
        check("it does not say when that was" in c.agents[0].text(), "the agent says why no session has its events")
finish()
