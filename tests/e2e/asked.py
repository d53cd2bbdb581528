"""Tests that a session captures what it requests from the runtime, from the command line to the
simulated runtime: an inspect of normal executions from start to stop, of the selected models and
execution, tagged with the session. The test checks that other users of the runtime's capture are
detected before, that the files come back as artifacts, and that the manifest has refusals by node
and process."""
import os
import re

from lib import BUILD, Cluster, check, equal, finish, need_daemons, need_speed, until

need_daemons()
need_speed()


def told(c, id, pid, core=None):
    """(state, written, message) of one process."""
    for node in c.session(id).get("nodes", []):
        for p in node.get("device_profiles", []):
            if p["process_id"] == pid and p.get("lnc_idx") == core:
                return p["state"], p["written"], p.get("message", "")
    return "", 0, ""


def armed(c, id, *drivers):
    for d in drivers:
        until(lambda: told(c, id, d.pid)[0] == "armed", f"armed: {told(c, id, d.pid)}")


def refused(c, id, d, what):
    until(lambda: told(c, id, d.pid)[0] == "refused", f"refused: {told(c, id, d.pid)}")
    check(what in told(c, id, d.pid)[2], f"why, not {what!r}: {told(c, id, d.pid)}")


def files(c, id, name):
    """{(process, file name without its folder): text} of all that was shipped."""
    out, _ = c.run("fetch", id, "-o", c.path(name), "--artifacts", "--format", "summary-text", want=None)
    found = {}
    for at, _, names in os.walk(c.path(name)):
        owner = re.search(r"_pid_(\d+)", at)
        for n in names:
            if owner:
                with open(os.path.join(at, n), errors="replace") as f:
                    found[int(owner.group(1)), n] = f.read()
    return found


def field(text, key):
    return re.search(rf"^{key}=(.*)$", text, re.M).group(1)


with Cluster() as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(2):
        c.agent(i)
    until(lambda: len(c.connected()) == 2, "the agents are connected")
    a, b = c.driver(0, "a"), c.driver(1, "b")
    for d in (a, b):
        for line in ("load alpha 0", "load beta 1", "load gamma 0"):
            equal(d.tell(line), 0, line)
            # the agent joins a load with the runtime's event of it, which bears the name, by their times
            until(lambda: any(l["process_id"] == d.pid and "runtime_id" in l for m in c.run_json("models")["models"] if m.get("name") == line.split()[1] for l in m["loads"]),
                  f"{line}: its name is known")
    until(lambda: sum(n["processes"] for n in c.nodes().values()) == 2, "agents see both")

    # ---- An inspect of normal executions, begun and ended by the session ----
    id = c.start("--name", "inspect", "--inspect", "system_profile,device_profile", "--core", "0", "--event-type", "nrt_execute,hardware", "--profile-warmup", "2",
                 "--inspect-events", "3")
    armed(c, id, a, b)
    for d in (a, b):
        d.tell("exec alpha 4")
        d.tell("exec beta 1")
    doc = c.stop(id)
    equal(doc["inspect"], ["system_profile", "device_profile"], "the manifest says what was asked for")
    got, tag = files(c, id, "inspect"), str(doc["runtime_session"])
    for d in (a, b):
        equal(told(c, id, d.pid), ("ended", 1, ""), "written, and ended")
        mine = {n: t for (pid, n), t in got.items() if pid == d.pid}
        pb = [t for n, t in mine.items() if n == "ntrace.pb"]
        equal(len(pb), 1, f"a system profile by the runtime: {sorted(mine)}")
        equal([field(t, "session") for t in pb], [tag], "tagged with the session")
        equal(field(pb[0], "events_max"), "3", "how many events of a core it keeps")
        check(int(field(pb[0], "cores_off")) > 0 and int(field(pb[0], "types_off")) > 10, f"cores and types are left out by the runtime: {pb[0]}")
        ntff = [t for n, t in mine.items() if n.endswith(".ntff")]
        equal([(field(t, "model"), field(t, "execution"), field(t, "session")) for t in ntff], [("alpha", "3", tag)], "behind the warm-up, and only what was executed so often")
        equal([n for n in mine if n in ("cpu_util.pb", "host_mem.pb")], [], "activities that nobody asked for are not there")
        equal(d.tell("exec alpha 1"), 0, "the program goes on")

    # ---- Which models, which execution ----
    id = c.start("--name", "by name", "--device-profiles", "model", "--profile-model", "al*,id:3", "--profile-execution", "3", "--profile-warmup", "2")
    armed(c, id, a, b)
    for d in (a, b):
        for line in ("exec alpha 4", "exec beta 9", "exec gamma 5", "exec alpha 3"):
            d.tell(line)
    until(lambda: told(c, id, a.pid, 0)[1] == 2, f"two models of core 0: {told(c, id, a.pid, 0)}")
    doc = c.stop(id)
    got = files(c, id, "chosen")
    for d in (a, b):
        equal(sorted(field(t, "model") for (pid, n), t in got.items() if pid == d.pid and n.endswith(".ntff")), ["alpha", "gamma"], "a name and a number, and no other")
    got = {m["sha256"]: m for m in c.run_json("models", id)["models"]}
    hash_of = {m["name"]: h for h, m in got.items()}
    id = c.start("--name", "by hash", "--device-profiles", "model", "--profile-model", hash_of["beta"][:12], "--profile-execution", "2", "--instance-id", "i-test0")
    armed(c, id, a)
    a.tell("exec alpha 5")
    a.tell("exec beta 1")
    equal(told(c, id, a.pid, 1)[1], 0, "not the first")
    a.tell("exec beta 1")
    until(lambda: told(c, id, a.pid, 1)[1] == 1, "the second")
    c.stop(id)
    id = c.start("--name", "too seldom", "--device-profiles", "model", "--profile-model", "id:2", "--profile-execution", "7", "--instance-id", "i-test0")
    armed(c, id, a)
    a.tell("exec beta 2")
    c.stop(id, want=3)
    refused(c, id, a, "executed it 2 times")
    check("executed it 2 times" in c.text_of(id), f"status says so: {c.text_of(id)}")
    # One that is loaded, and gets its name, while the session runs.
    id = c.start("--name", "later", "--device-profiles", "model", "--profile-model", "delta", "--instance-id", "i-test1")
    armed(c, id, b)
    b.tell("load delta 1")
    until(lambda: (b.tell("exec delta 1"), told(c, id, b.pid, 1)[1])[1] == 1, "a model that came later")
    c.stop(id)

    # ---- What does not go together is refused, by name ----
    for options, word in ((("--inspect", "all", "--device-profiles", "continuous"), "do not go together"), (("--profile-model", "alpha"), "profile_models goes with"),
                          (("--profile-execution", "2", "--device-profiles", "on-fail"), "profile_execution goes with"), (("--profile-warmup", "2"), "profile_warmup goes with"),
                          (("--inspect-events", "2", "--inspect", "cpu_util"), "inspect_events goes with"),
                          (("--profile-execution", "0"), "profile-execution")):
        _, err = c.run("start", *options, want=None)
        check(word in err, f"{options}: {err}")
    id = c.start("--name", "unknown", "--inspect", "system_profile,colours")
    for d in (a, b):
        refused(c, id, d, "no activity 'colours' of inspect; it has system_profile, device_profile")
    _, err = c.run("stop", id, want=3)
    check(all(f"i-test{i} pid {d.pid}" in err for i, d in enumerate((a, b))), f"each node's refusal is named: {err}")

    # ---- Two starters: the program's profiler goes before, and it is said ----
    id = c.start("--name", "yields", "--inspect", "all", "--instance-id", "i-test0")
    armed(c, id, a)
    a.tell("exec alpha 2")
    equal(a.tell("begin"), 0, "the program's own inspect begins as without us")
    refused(c, id, a, "the program called nrt_inspect_begin_with_options")
    doc = c.stop(id, want=3)
    check(any(n == "ntrace.pb" for _, n in files(c, id, "yields")), "what the session's capture had until then is kept")
    id = c.start("--name", "meets", "--inspect", "system_profile", "--instance-id", "i-test0")
    refused(c, id, a, "begun by the program or its framework's profiler")
    c.stop(id, want=3)
    equal(a.tell("end"), 0, "it ends its own")
    id = c.start("--name", "free again", "--inspect", "system_profile", "--instance-id", "i-test0")
    armed(c, id, a)
    equal(a.tell("end"), 0, "an end of nothing is what it would be without us")
    refused(c, id, a, "the program called nrt_inspect_stop")
    c.stop(id, want=3)
    env = c.driver(0, "environment", NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_OUTPUT_DIR=c.folder("env"))
    warm = c.driver(1, "warm", runtime="simnrt-2.28")
    until(lambda: [c.nodes()[f"i-test{i}"]["processes"] for i in range(2)] == [2, 2], "two more")
    id = c.start("--name", "environment", "--inspect", "device_profile", "--profile-warmup", "1")
    refused(c, id, env, "NEURON_RT_INSPECT_ENABLE")
    refused(c, id, warm, "older than the warm-up")
    armed(c, id, a, b)
    equal(b.tell("continuous 1"), 0, "continuous profiles of the program begin as without us")
    refused(c, id, b, "the program called nrt_profile_continuous_start")
    c.stop(id, want=3)
    id = c.start("--name", "both", "--inspect", "device_profile", "--instance-id", "i-test1")
    refused(c, id, b, "continuous device profiling of the program is on")
    second = c.start("--name", "second", "--inspect", "cpu_util", "--instance-id", "i-test1")
    until(lambda: told(c, second, warm.pid)[0] == "refused", "a second session")
    check("another session" in told(c, second, warm.pid)[2], f"why: {told(c, second, warm.pid)}")
    c.stop(second, want=3)
    c.stop(id, want=3)
finish()
