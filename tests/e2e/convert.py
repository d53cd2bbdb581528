"""Tests the conversion of device profiles by the aggregator. Its queue has limits, and its states
must survive a kill of the aggregator. Results are artifacts like others. tests/fake/viewer.py takes
the place of the vendor's viewer, because the formats of NTFF and of its results are not public."""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import urllib.error

from lib import SOURCE, Cluster, Importer, check, equal, finish, need_daemons, until

need_daemons()
PID, NODE = 41, "i-test0"


def nobody_sleeps(word):
    return subprocess.run(["pgrep", "-f", f"^sleep {word}$"], stdout=subprocess.DEVNULL).returncode != 0


class Lab:
    """An aggregator with a viewer that does what it is told, and one agent that watches a folder."""

    def __init__(self, c):
        self.c, self.runs = c, 0
        self.viewer = c.path("neuron-explorer")
        shutil.copy(os.path.join(SOURCE, "tests/fake/viewer.py"), self.viewer)
        os.chmod(self.viewer, 0o755)
        self.limits = dict(viewer=self.viewer, viewer_timeout="170s", viewer_memory="150M", viewer_size="40M")

    def does(self, *words):
        with open(self.viewer + ".does", "w") as f:
            f.write(" ".join(words))

    def begin(self, **options):
        self.c.aggregator(**{**self.limits, **options})
        until(self.c.answers, "the aggregator answers")
        until(lambda: self.c.connected() == [NODE], "the agent is connected")

    def record(self, pids=(PID,), model=True):
        """A session with an NTFF of each of these processes, and a NEFF; its id."""
        c, self.runs = self.c, self.runs + 1
        id = until(lambda: json.loads(c.run("start", "--json", "--require", "all", want=None)[0] or "{}").get("id"), "a session starts")
        c.begun(id)
        for pid in pids:
            folder = c.folder("capture", f"{NODE}_pid_{pid}", f"17000000000000{self.runs:05}")
            if model:
                with open(os.path.join(folder, "neff_1234_vnc_0.neff"), "w") as f:
                    f.write(f"model {self.runs} {pid}\n")
            with open(os.path.join(folder, "profile_nc_0_session_0.ntff"), "w") as f:
                f.write(f"model_id={10000 + pid}\nrun {self.runs}\n")
        n = len(pids) * (2 if model else 1)
        until(lambda: len([a for a in c.session(id).get("artifacts", []) if a["complete"] and a["kind"] in ("NTFF", "NEFF")]) == n, f"{n} files have arrived")
        c.stop(id)
        return id

    def of(self, id):
        return {v["process_id"]: v for v in self.c.session(id).get("conversions", [])}

    def reaches(self, id, state, pid=PID):
        until(lambda: self.of(id).get(pid, {}).get("state") == state, f"{state}: {self.of(id)}")
        return self.of(id)[pid]

    def written(self, id):
        """What the manifest on the disk says of the first conversion; {} before it says anything."""
        with open(self.c.path("store", "sessions", id, "session.json")) as f:
            return (json.load(f).get("conversions") or [{}])[0]

    def results(self, id):
        """{name: artifact} of what viewers made."""
        return {a["name"]: a for a in self.c.session(id)["artifacts"] if a["kind"].startswith("device-")}

    def nothing_left(self, id, what):
        """No results, no folders of runs."""
        equal(self.results(id), {}, f"{what}: no results are listed")
        equal(glob.glob(self.c.path("store", "converting", "*")), [], f"{what}: no folder of a run is left")
        equal(glob.glob(self.c.path("store", "sessions", id, "*_pid_*", "viewer")), [], f"{what}: none in the session's folder")


def fetched(c, id, name):
    c.run("fetch", id, "-o", c.path(name), "--artifacts", "--format", "summary-json")
    return {os.path.relpath(f, c.path(name)) for f in glob.glob(c.path(name, "*_pid_*", "**", "*"), recursive=True) if os.path.isfile(f)}


with Cluster(node_timeout="60s") as c:
    lab = Lab(c)
    c.folder("exported")
    c.env["PATH"] = c.path() + os.pathsep + os.environ["PATH"]  # the viewer is there, but not yet
    os.rename(lab.viewer, lab.viewer + ".away")
    c.aggregator(viewer="auto", **{k: v for k, v in lab.limits.items() if k != "viewer"}, export=c.path("exported"))
    until(c.answers, "the aggregator answers")
    c.agent(0, watch=c.folder("capture"), stable="200ms")
    until(lambda: c.connected() == [NODE], "the agent is connected")

    # ---- Not installed: the answer says what to run ----
    first = lab.record(pids=(PID, PID + 1))
    got = lab.reaches(first, "not-installed")
    check(f"meridian fetch {first} --artifacts" in got["run"] and f"neuron-explorer view -d DIR/{NODE}_pid_{PID} " in got["run"], f"what to run: {got}")
    out, err = c.run("convert", first, want=3)
    check("not-installed" in out and got["run"] in err, f"and by the command: {out} {err}")
    _, err = c.run("convert", first, "--again", want=1)
    check("has no viewer" in err, f"again: {err}")
    equal(c.metric('meridian_conversions{state="not-installed"}'), 2, "and in the metrics")

    # ---- Installed while the aggregator runs: they are converted, and exported with the rest ----
    os.rename(lab.viewer + ".away", lab.viewer)
    done = lab.reaches(first, "done"), lab.reaches(first, "done", PID + 1)
    equal([v["files"] for v in done], [3, 3], f"a Perfetto file and two tables of each: {done}")
    check(all(v["took_ns"] > 0 and v["memory_bytes"] > 0 for v in done), f"what it took: {done}")
    results = lab.results(first)
    equal(sorted({n for n in results}), ["viewer/device_profile_model_10041.pftrace", "viewer/device_profile_model_10042.pftrace",
                                         "viewer/tables/profile_nc_0_session_0/Instruction.parquet", "viewer/tables/profile_nc_0_session_0/Summary.parquet"], "names")
    check(all(a["complete"] for a in results.values()), "all whole")
    files = fetched(c, first, "fetched")
    tree = f"{NODE}_pid_{PID}"
    check({f"{tree}/viewer/device_profile_model_10041.pftrace", f"{tree}/viewer/tables/profile_nc_0_session_0/Summary.parquet"} <= files, f"fetched: {files}")
    equal({f.split("/")[0] for f in files}, {tree, f"{NODE}_pid_{PID + 1}"}, "the vendor's tree, no placeholder")
    bad, rows = Importer().query(c.path("fetched", tree, "viewer", "device_profile_model_10041.pftrace"), Importer.BAD, "select count(*) from slice")
    equal((bad, rows), ([], [["10"]] if rows and isinstance(rows[0][0], str) else [[10]]), "Perfetto reads it")
    _, err = c.run("view", "-d", c.path("fetched"), "-o", c.path("viewed"), "--vendor-tool", "none", "--output-format", "summary-json", want=None)
    check("viewer" not in err or "not read" in err, f"results do not disturb view: {err}")
    until(lambda: c.session(first).get("export", {}).get("state") == "done", "exported")
    exported = glob.glob(c.path("exported", "**", "device_profile_model_10041.pftrace"), recursive=True)
    equal(len(exported), 1, f"with the results: {exported}")
    out, _ = c.run("convert", first)
    check(out.count("done") == 2, f"the command's table: {out}")
    _, err = c.run("convert", first, "--again", want=1)
    check("no device profiles whose conversion failed" in err, f"nothing to do again: {err}")

    # ---- One of two commands fails: what the other made counts, and the message says what lacks ----
    lab.does("only", "parquet", "bad", "no", "schema")
    id = lab.record()
    got = lab.reaches(id, "done")
    check("no tables: " in got["message"] and "no schema" in got["message"], f"what lacks: {got}")
    equal(sorted(lab.results(id)), ["viewer/device_profile_model_10041.pftrace"], "the Perfetto file is there")
    lab.does("good")
    c.run("convert", id, "--again", "--wait")
    equal((len(lab.results(id)), lab.of(id)[PID].get("message")), (3, None), "what lacked is made when it is asked for again")

    # ---- What goes wrong is said, and leaves nothing ----
    for does, says in ((("bad", "cannot open NTFF version 115"), "exit status 1: cannot open NTFF version 115"), (("kill",), "ended by signal 9"), (("half",), "ended in the middle"),
                       (("memory",), "MiB of memory, more than the 150 MiB"), (("memory-in-children",), "MiB of memory, more than the 150 MiB"),
                       (("write",), "more than the 40 MiB"), (("write-many",), "8000 files"), (("link", "/etc/passwd"), None)):
        lab.does(*does)
        id = lab.record()
        if says is None:  # a link is no result; the rest is
            lab.reaches(id, "done")
            check("viewer/device_profile_model_9.pftrace" not in lab.results(id), "a link is no result")
            continue
        got = lab.reaches(id, "failed")
        check(says in got["message"], f"{does}: {got}")
        lab.nothing_left(id, does[0])
        out, _ = c.run("convert", id, want=3)
        check("failed" in out and says.split(",")[0][:20] in out, f"{does}: the command says so: {out}")
    lab.does("good")
    failed = lab.record(model=False)
    got = lab.reaches(failed, "failed")
    check("no NEFF" in got["message"], f"without its NEFF: {got}")

    # ---- Children are ended, and counted ----
    word = f"98763.{os.getpid()}"
    lab.does("children", word)
    id = lab.record()
    got = lab.reaches(id, "done")
    check("left 3 processes behind" in got["message"], f"children: {got}")
    until(lambda: nobody_sleeps(word), "and none of them is left")

    # ---- A session is deleted while the viewer runs ----
    lab.does("children", word, "hang")
    id = lab.record()
    lab.reaches(id, "running")
    until(lambda: not nobody_sleeps(word), "the viewer runs")
    equal(c.metric('meridian_conversions{state="running"}'), 1, "in the metrics")
    equal(c.delete(id), 202, "deleted")
    until(lambda: nobody_sleeps(word), "the viewer and its children are ended")
    until(lambda: not os.path.exists(c.path("store", "sessions", id)) and not glob.glob(c.path("store", "converting", "*")), "its folders are gone")
    equal(c.session(id), {}, "and the session")

    # ---- The aggregator is killed while the viewer runs: the viewer ends, and the conversion goes on after the start ----
    id = lab.record()
    lab.reaches(id, "running")
    until(lambda: not nobody_sleeps(word), "the viewer runs")
    until(lambda: lab.written(id).get("state") == "running", "it is written down")
    c.daemon.kill()
    until(lambda: nobody_sleeps(word), "the viewer ends with the aggregator")
    lab.does("good")
    lab.begin()
    lab.reaches(id, "done")
    equal(len(lab.results(id)), 3, "all results")
    equal(glob.glob(c.path("store", "converting", "*")), [], "nothing of the first run is left")
    for name, a in lab.results(id).items():
        with c.open(f"/api/v1/sessions/{id}/artifacts/{a['sha256']}") as r:
            equal(hashlib.sha256(r.read()).hexdigest(), a["sha256"], f"{name} is served whole")

    # ---- Killed again and again by what it runs: it gives up ----
    lab.does("children", word, "hang")
    id = lab.record()
    for _ in range(3):
        lab.reaches(id, "running")
        until(lambda: not nobody_sleeps(word), "the viewer runs")
        runs = lab.of(id)[PID]["runs"]
        until(lambda: lab.written(id).get("runs") == runs, "it is written down")
        c.daemon.kill()
        until(lambda: nobody_sleeps(word), "the viewer ends")
        lab.begin()
    got = lab.reaches(id, "failed")
    check("ended 3 times while the viewer ran" in got["message"], f"it gives up: {got}")

    # ---- Results that were in place, but not written down as done, are made again ----
    lab.does("good")
    c.run("convert", id, "--again", "--wait")
    equal(lab.of(id)[PID]["state"], "done", "again")
    before = {n: a["sha256"] for n, a in lab.results(id).items()}
    until(lambda: lab.written(id).get("state") == "done", "it is written down")
    c.daemon.kill()
    manifest = c.path("store", "sessions", id, "session.json")
    with open(manifest) as f:
        doc = json.load(f)
    doc["conversions"][0].update(state="running", runs=1)
    with open(manifest, "w") as f:
        json.dump(doc, f)
    go = c.path("go")
    lab.does("wait", go)
    lab.begin()
    lab.reaches(id, "running")
    equal(lab.results(id), {}, "what may be half of it is not listed")
    for sha in before.values():
        try:
            with c.open(f"/api/v1/sessions/{id}/artifacts/{sha}") as r:
                check(False, f"nor served: {r.status}")
        except urllib.error.HTTPError as e:
            equal(e.code, 404, "nor served")
    open(go, "w").close()
    lab.reaches(id, "done")
    equal({n: a["sha256"] for n, a in lab.results(id).items()}, before, "the same results")

    # ---- A time limit; an orderly end in the middle ----
    until(lambda: lab.written(id).get("state") == "done", "it is written down")  # else the successor runs it again
    c.daemon.kill()
    lab.does("hang")
    lab.begin(viewer_timeout="15s")  # in which a Python can begin
    id = lab.record()
    got = lab.reaches(id, "failed")
    check("did not finish within 15.0 s: reading the profile" in got["message"], f"time limit: {got}")
    until(lambda: lab.written(id).get("state") == "failed", "it is written down")
    c.daemon.kill()
    lab.does("children", word, "hang")
    lab.begin()
    id = lab.record()
    lab.reaches(id, "running")
    until(lambda: not nobody_sleeps(word), "the viewer runs")
    c.daemon.p.terminate()
    equal(c.daemon.end(), 0, "an orderly end")
    until(lambda: nobody_sleeps(word), "ends the viewer")
    equal(lab.written(id).get("state"), "waiting", "it waits, and is not counted as a run that failed")
    check("runs" not in lab.written(id), "no run")

    # ---- By the command line, of a folder ----
    local = c.path("fetched-raw")
    lab.does("good")
    shutil.copytree(c.path("fetched"), local)
    for at in glob.glob(os.path.join(local, "*_pid_*", "viewer")):
        shutil.rmtree(at)
    out, _ = c.run("convert", "-d", local, "--viewer", lab.viewer)
    check(f"{tree}/viewer/device_profile_model_10041.pftrace" in out and f"{tree}/viewer/tables/profile_nc_0_session_0/Summary.parquet" in out, f"local: {out}")
    equal(glob.glob(os.path.join(local, ".meridian-convert", "*")), [], "nothing left")
    _, err = c.run("convert", "-d", local, "--viewer", lab.viewer, want=1)
    check("--force replaces it" in err, f"results that are there stay: {err}")
    c.run("convert", "-d", local, "-o", c.path("elsewhere"), "--viewer", lab.viewer, "--viewer-tables", "none")
    equal(len(glob.glob(c.path("elsewhere", "**", "*.*"), recursive=True)), 2, "elsewhere, without tables")
    linked = c.folder("linked", f"{tree}")  # files of elsewhere, by relative links
    for at in glob.glob(os.path.join(local, tree, "**", "*.n?ff"), recursive=True):
        os.symlink(os.path.relpath(at, linked), os.path.join(linked, os.path.basename(at)))
    os.rename(linked, linked + "\x1b[31m")
    lab.does("bad", "linked")
    _, err = c.run("convert", "-d", c.path("linked"), "--viewer", lab.viewer, want=1)
    check(f"{tree}\\x1b[31m: " in err and "linked" in err, f"a name that a terminal would obey: {err!r}")
    lab.does("good")
    c.run("convert", "-d", c.path("linked"), "--viewer", lab.viewer, "--viewer-tables", "none")
    equal(len(glob.glob(c.path("linked", "*", "viewer", "*.pftrace"))), 1, "relative links")
    for does, options, says in ((("hang",), ["--viewer-timeout", "1s"], "did not finish"), (("memory",), ["--viewer-memory", "100M"], "of memory"),
                                (("write",), ["--viewer-size", "20M"], "wrote"), (("bad", "broken"), [], "broken"), (("kill",), [], "signal 9")):
        lab.does(*does)
        _, err = c.run("convert", "-d", local, "-o", c.path("bad"), "--viewer", lab.viewer, *options, want=1)
        check(says in err, f"{does}: {err}")
    equal(glob.glob(c.path("bad", "**", "*.*"), recursive=True), [], "no results of runs that failed")
    c.env["PATH"] = os.environ["PATH"]
    _, err = c.run("convert", "-d", local, "--viewer", "auto", want=1)
    check("no viewer is installed here" in err and f"neuron-explorer view -d {local}" in err, f"what to run: {err}")
    _, err = c.run("convert", "-d", c.folder("empty"), want=1)
    check("no folder <instance>_pid_<pid> with an NTFF" in err, f"nothing there: {err}")
finish()
