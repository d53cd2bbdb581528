"""What vLLM's POST /start_profile and /stop_profile do on Neuron: a server of two workers, of which rank 0 is profiled, calls nrt_inspect_* with a
relative output folder (its default, ./neuron_profiles), and leaves NTFF, NEFF, neffs/graph_<hash>.neff and the .pb files, some of them seconds
after the stop. A session that records meanwhile has the calls and their notices, the files with their process, and both workers' executions; the
same folder can be read afterwards."""
import collections
import glob
import hashlib
import os
import subprocess
import sys
import urllib.request

from lib import BUILD, SOURCE, Cluster, Program, check, equal, finish, load_json, need_daemons, need_preload, run, until, without_none
from neffs import neff

# A worker as vllm-neuron's: POST /start_profile and /stop_profile; it executes all the time.
WORKER = """
import ctypes, http.server, os, sys, threading

P = ctypes.c_void_p
nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
rank, text, model, ins, outs = int(sys.argv[1]), open(sys.argv[2], "rb").read(), P(), P(), P()
assert nrt.nrt_init(2, b"2.0", b"2.0") == 0
assert nrt.nrt_load(text, ctypes.c_size_t(len(text)), rank, -1, ctypes.byref(model)) == 0
nrt.nrt_allocate_tensor_set(ctypes.byref(ins)), nrt.nrt_allocate_tensor_set(ctypes.byref(outs))
end = threading.Event()


def start():
    config = P()
    assert nrt.nrt_inspect_config_allocate(ctypes.byref(config)) == 0
    for name, *args in (("set_session_id", 1), ("set_output_dir", b"./neuron_profiles"), ("set_enable_inspect", ctypes.c_bool(True)),
                        ("set_activity", b"system_profile", ctypes.c_bool(True)), ("set_activity", b"device_profile", ctypes.c_bool(True))):
        assert getattr(nrt, "nrt_inspect_config_" + name)(config, *args) == 0, name
    status = nrt.nrt_inspect_begin_with_options(config)
    nrt.nrt_inspect_config_free(config)
    return status


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        status = {"/start_profile": start, "/stop_profile": lambda: nrt.nrt_inspect_stop()}[self.path]()
        self.send_response(200 if status == 0 else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def work():
    while not end.is_set():
        assert nrt.nrt_execute(model, ins, outs) == 0


server = http.server.HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=work, daemon=True).start()
print(server.server_port, flush=True)
server.serve_forever()
"""

need_daemons()
library = need_preload()


def worker(c, rank):
    """(program, its port): each in a folder of its own."""
    folder = c.folder(f"server{rank}")
    with open(os.path.join(folder, "worker.py"), "w") as f:
        f.write(WORKER)
    with open(os.path.join(folder, "model.neff"), "wb") as f:
        f.write(neff("decode", 2000))
    env = without_none(c.env, LD_PRELOAD=library, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), MERIDIAN_RING_DIR=c.rings(0), MERIDIAN_ENABLE="1",
                       MERIDIAN_INSTANCE_ID="i-test0", SIMNRT_INSTANCE_ID="i-test0", SIMNRT_JOB=c.job(f"vllm{rank}"))
    p = c.keep(Program(c.path(f"worker{rank}.log"), [sys.executable, "worker.py", str(rank), "model.neff"], text=True, stdout=subprocess.PIPE, env=env,
                       cwd=folder))
    return p, int(p.p.stdout.readline()), folder


def post(port, path):
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=b"", method="POST"), timeout=60) as reply:
        return reply.status


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0, watch_inspect=True, stable="200ms")
    until(c.connected, "the agent is connected")
    (first, port, folder), (second, _, other) = worker(c, 0), worker(c, 1)
    until(lambda: c.nodes()["i-test0"]["processes"] == 2, "both workers are seen")
    id = c.start("--require", "all")
    equal(post(port, "/start_profile"), 200, "start")
    until(lambda: c.within_session(id) is not None, "the session records")
    # The first execution under the profiler may still run when the answer to the start is long here.
    until(lambda: glob.glob(os.path.join(folder, "neuron_profiles", "**", "*.ntff"), recursive=True), "the runtime wrote a device profile")
    equal(post(port, "/stop_profile"), 200, "stop")
    # What the runtime wrote, and what vLLM copies beside it afterwards.
    written = [os.path.join(at, n) for at, _, names in os.walk(os.path.join(folder, "neuron_profiles")) for n in names]
    ntff = [p for p in written if p.endswith(".ntff")]
    late = os.path.join(os.path.dirname(ntff[0]), "neffs", "graph_5f0c2a.neff")
    os.mkdir(os.path.dirname(late))
    with open(late, "wb") as f:
        f.write(neff("graph", 1) + b"late")
    written.append(late)

    def arrived():
        return [a for a in c.session(id).get("artifacts", []) if a["complete"]]
    kinds = (".ntff", ".neff", ".pb")
    wanted = {hashlib.sha256(open(p, "rb").read()).hexdigest(): os.path.basename(p) for p in written if p.endswith(kinds)}
    until(lambda: {a["sha256"] for a in arrived()} >= set(wanted), f"all files arrive: {wanted}")
    doc = c.stop(id)
    equal({a["process_id"] for a in doc["artifacts"] if a["sha256"] in wanted}, {first.pid}, "each belongs to the worker that was profiled")
    check(not os.path.exists(os.path.join(other, "neuron_profiles")), "the other worker wrote nothing")
    c.run("fetch", id, "-o", c.path("live"), "--format", "json", want=None)
    rows = load_json(c.path("live", "system_profile.json"))["trace_events"]
    counts = collections.Counter((int(r["process_id"]), r["name"], r["trace_event_source"]) for r in rows)
    for pid in (first.pid, second.pid):
        check(counts[pid, "nc_exec_running", "neuron_hw"] > 0, f"executions of both workers: {counts}")
    for call in ("nrt_inspect_begin_with_options", "nrt_inspect_stop"):
        equal((counts[first.pid, call, "nrt_api"], counts[second.pid, call, "nrt_api"]), (1, 0), f"{call} is on the timeline of the worker that made it")

    # ---- Afterwards, from the files ----
    for d in (first, second):
        d.kill()
    n = collections.Counter(p.rsplit(".", 1)[1] for p in written)
    _, err = run("view", "-d", os.path.join(folder, "neuron_profiles"), "-o", c.path("files"), "--output-format", "summary-json", want=0)
    check(f"not decoded: {n['ntff']} NTFF with {n['neff']} NEFF and {n['pb']} .pb files" in err and "neuron-explorer view" in err,
          f"without the vendor's viewer it says what is there and what to do: {err[-600:]}, {n}")
finish()
