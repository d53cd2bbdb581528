"""Tests the list of loaded models. A session must know models that were loaded long before it, even
if the agent of that time has ended. The list covers all nodes in the manifest, over HTTP and on the
command line."""
import glob
import hashlib
import json
import os
import time

from neffs import many_neffs
from lib import BUILD, Cluster, Program, check, equal, finish, need_daemons, until

need_daemons()
LOOP, LIBRARY = os.path.join(BUILD, "bin", "train_loop"), os.path.join(BUILD, "lib", "libmeridian.so")

THREADS, LOADS = 4, 24


def loop(c, i, name, **env):
    env = {"MERIDIAN_NEFFS": "64M", "MERIDIAN_DEVICE_PROFILES": c.folder("kept"), **env}
    return c.keep(Program(c.path(f"{name}.log"), [LOOP, "--rank", "0", "--steps", "100000000", "--cores", "2", "--exec-us", "2000", "--cc", "0", "--quiet", "--checkpoint-every", "0"],
                          env=dict(c.env, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt"), MERIDIAN_RING_DIR=c.rings(i),
                                   MERIDIAN_ENABLE="1", SIMNRT_JOB=c.job(name), SIMNRT_EVENT_SCALE="0", **env), stdout=-3))


def listed(c, *words):
    return json.loads(c.run("models", *words, "--json")[0])["models"]


def loads(models):
    return sorted((l["instance_id"], l["process_id"], l.get("lnc_idx")) for m in models for l in m["loads"])


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(2):
        c.agent(i)
    a, b = loop(c, 0, "a"), loop(c, 1, "b")
    both = sorted((f"i-test{i}", p.pid, core) for i, p in enumerate((a, b)) for core in range(2))
    until(lambda: loads(listed(c)) == both, f"what is loaded now, without any session: {listed(c)}")
    until(lambda: all("runtime_id" in l for l in listed(c)[0]["loads"]), f"the runtime's own events name them: {listed(c)}")
    model = listed(c)[0]
    equal(len(listed(c)), 1, "one model over both nodes")
    check(len(model["sha256"]) == 64 and model["size"] > 0 and model.get("name"), f"hash, size, the runtime's name: {model}")
    check(all(l["runtime_id"] > 0 and l["model_id"] > 0 and "unloaded" not in l for l in model["loads"]), f"numbers: {model}")

    # ---- An agent that is killed and another: the ring no longer has it ----
    c.agents[0].kill()
    until(lambda: c.connected() == ["i-test1"] and loads(listed(c)) == [x for x in both if x[1] == b.pid], f"nobody tells of its models: {listed(c)}")
    c.agent(0)
    until(lambda: len(c.connected()) == 2 and loads(listed(c)) == both, f"its successor knows them: {listed(c)}")
    id = c.start("--name", "later")
    until(lambda: len([m for n in c.session(id)["nodes"] for m in n.get("models", [])]) == 2, "both nodes tell the session")
    early = {l["loaded_local_ns"] for n in c.session(id)["nodes"] for m in n["models"] for l in m["loads"]}
    check(all(at < n["started_local_ns"] for n in c.session(id)["nodes"] for at in early), f"they were loaded before it began: {early}")

    # ---- One ends during the session: it stays listed, with its end ----
    b.kill()
    until(lambda: any("unloaded" in l for l in listed(c, id)[0]["loads"]), "its end is told")
    until(lambda: loads(listed(c)) == [x for x in both if x[1] == a.pid], f"and it is not loaded any more: {listed(c)}")
    doc = c.stop(id)
    equal(loads(listed(c, id)), both, "the session has all four loads")
    equal({l["process_id"] for m in listed(c, id) for l in m["loads"] if "unloaded_ns" in l}, {b.pid}, "two of them ended in it")
    equal(json.loads(c.run("models", id, "--json")[0])["left_out"], 0, "nothing was left out")
    text, _ = c.run("models", id)
    row = [line for line in text.splitlines() if model["sha256"][:12] in line]
    check(len(row) == 1 and row[0].split()[0] == model["name"] and "0-1" in row[0].split(), f"a line for people: {text}")
    equal(row[0].split()[4:8], ["4", "2", "2", "2"], f"loads, loaded, nodes, processes: {text}")

    check(all(not m["neff"] and all(l["kept"] for l in m["loads"]) for m in listed(c, id)), f"its bytes are kept, nobody asked for them: {listed(c, id)}")

    # ---- Two sessions that want them at one time: no file goes round and round between them ----
    two = [c.start("--name", f"two{i}", "--neffs") for i in range(2)]
    until(lambda: any(a["complete"] for id2 in two for a in c.session(id2)["artifacts"]), "one has it")
    began = time.monotonic()
    for id2 in two:
        c.stop(id2)
    check(time.monotonic() - began < 50, f"both end at once, not when the other is forgotten: {time.monotonic() - began:.0f} s")

    # ---- NEFFs on request: of a model loaded long before, once per hash, in each session that asks ----
    for turn in range(2):
        ship = c.start("--name", f"neffs{turn}", "--neffs")
        until(lambda: [a["sha256"] for a in c.session(ship)["artifacts"] if a["complete"]] == [model["sha256"]], f"shipped: {c.session(ship)['artifacts']}")
        artifact, = c.stop(ship)["artifacts"]
        equal((artifact["kind"], artifact["size"], artifact["name"]), ("NEFF", model["size"], f"neff_{model['sha256']}.neff"), "what it is")
        equal([m["neff"] for m in listed(c, ship)], [True], "the list says so")
        check("shipped" in c.run("models", ship)[0], "and the command line")
    c.run("fetch", ship, "-o", c.path("got"), "--artifacts", "--format", "summary-text")
    got, = glob.glob(c.path("got", "**", "*.neff"), recursive=True)
    equal(hashlib.sha256(open(got, "rb").read()).hexdigest(), model["sha256"], "the bytes that nrt_load was given")

    # ---- A session that selects one process has its models only; the manifest outlives the aggregator ----
    one = c.start("--name", "one", "--process-id", str(a.pid))
    until(lambda: loads(listed(c, one)) == [x for x in both if x[1] == a.pid], f"the selected process: {listed(c, one)}")
    c.stop(one)
    c.daemon.kill()
    c.aggregator()
    until(c.answers, "the aggregator answers again")
    equal(loads(listed(c, id)), both, "the manifest has them")
    until(lambda: len(c.connected()) == 2 and loads(listed(c)) == [x for x in both if x[1] == a.pid], "a new aggregator is told what is loaded")
    # ---- Many loads within a millisecond, by several threads: each has the name that its bytes have ----
    many = c.start("--name", "many")
    driver = c.driver(0, "again")
    equal(driver.tell(f"many {THREADS} {LOADS}"), 0, "all loaded")
    want = {hashlib.sha256(text).hexdigest(): name for name, text in many_neffs(THREADS, LOADS).values()}
    of_driver = lambda: [(m, l) for m in listed(c, many) for l in m["loads"] if l["process_id"] == driver.pid]
    until(lambda: len(of_driver()) == THREADS * LOADS and all("runtime_id" in l for _, l in of_driver()), f"all are told and named: {of_driver()}")
    equal({m["sha256"]: m.get("name") for m, _ in of_driver()}, want, "each by its own name")
    equal(len({l["runtime_id"] for _, l in of_driver()}), THREADS * LOADS, "and no number of the runtime twice")
    equal(sum("unloaded" in l for _, l in of_driver()), THREADS * LOADS // 2, "half were unloaded; their handles came again")
    near = sorted(l["loaded_local_ns"] for _, l in of_driver())
    check(sum(y - x < 10**6 for x, y in zip(near, near[1:])) > len(near) // 2, f"most within a millisecond of another: {near}")
    c.stop(many)

    a.kill()
    until(lambda: os.listdir(c.path("kept")) == [], f"nothing is left behind, though all were killed: {os.listdir(c.path('kept'))}")
finish()
