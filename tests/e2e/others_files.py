"""Tests that only files of the workload's own user reach the aggregator, whatever directory the
workload names as its capture directory. Of its own directory only files of known kinds are sent,
and the file that it wrote by nrt_profile_stop. Needs root, to be several users."""
import hashlib
import os
import subprocess
import sys

from lib import BUILD, SOURCE, Cluster, Program, built_with, check, equal, finish, need_daemons, skip, until

OWNER, VICTIM, AGENT = 1001, 1002, 1005
LIBRARY = os.path.join(BUILD, "lib", "libmeridian.so")
need_daemons()
if os.getuid() != 0:
    skip("only root can be several users")
if built_with(LIBRARY, "asan", "tsan"):
    skip("a library built with a sanitizer cannot be preloaded into other programs")

BECOME = f"os.setgroups([]); os.setgid({OWNER}); os.setuid({OWNER})"
SAY = f"""
import ctypes, os, sys, meridian
{BECOME}
lib = meridian._lib
lib.mrd_instant_(ctypes.c_void_p(lib.mrd_domain_create(b"test")), b"hello", 0, None, 0)
print("ready", flush=True)
sys.stdin.read()
"""
PROFILE = f"""
import ctypes, os, sys
{BECOME}
ctypes.CDLL("libnrt.so.1", ctypes.RTLD_GLOBAL)
nrt, model, neff = ctypes.CDLL(None), ctypes.c_void_p(), b"SIMNEFF 1\\nname=own\\nexec_us=100\\n"
assert nrt.nrt_init(1, b"1.0", b"2.0") == 0
assert nrt.nrt_load(neff, ctypes.c_size_t(len(neff)), 0, -1, ctypes.byref(model)) == 0
print("ready", flush=True)
sys.stdin.readline()
assert nrt.nrt_profile_start(model, b"one.ntff") == 0
assert nrt.nrt_profile_stop(b"one.ntff") == 0
print("done", flush=True)
sys.stdin.read()
"""


def sha(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def scenario(prefix):
    """With the rights that the prefix leaves the agent."""
    with Cluster() as c:
        os.chmod(c.work, 0o755)
        if prefix:
            os.chown(c.folder("spool0"), AGENT, AGENT)

        def folder(name, uid, mode=0o700):
            path = c.folder(name)
            os.chown(path, uid, uid)
            os.chmod(path, mode)
            return path

        def file(path, uid, text):
            with open(path, "w") as f:
                f.write(text)
            os.chown(path, uid, uid)
            os.chmod(path, 0o600)
            return path

        def process(name, capture, prefix=(), code=SAY, **env):
            """A process of the owner that names the directory."""
            p = c.keep(Program(c.path(f"{name}.log"), [*prefix, sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               cwd=c.path("cwd"),
                               env=dict(c.env, PYTHONPATH=os.path.join(SOURCE, "python"), MERIDIAN_LIBRARY=LIBRARY, MERIDIAN_ENABLE="1",
                                        MERIDIAN_CAPTURE="annotations", MERIDIAN_RING_DIR=c.rings(0), NEURON_RT_INSPECT_OUTPUT_DIR=capture, **env)))
            check(p.p.stdout.readline() == "ready\n", f"{name} is ready: {p.text()}")
            return p

        c.aggregator()
        until(c.answers, "the aggregator answers")
        os.chmod(c.rings(0), 0o1777)
        c.agent(0, prefix=prefix, stable="200ms")
        until(lambda: c.connected() == ["i-test0"], "the agent is connected")
        id = c.start()
        c.begun(id, 1)  # files of before the session are not taken

        victim, own, cwd = folder("victim", VICTIM), folder("own", OWNER), folder("cwd", OWNER)
        secret = file(os.path.join(victim, "key.ntff"), VICTIM, "the secret of another user")
        file(os.path.join(cwd, "two.ntff"), OWNER, "nobody named it")
        good = {sha(file(os.path.join(own, "mine.ntff"), OWNER, "his own"))}
        file(os.path.join(own, "checkpoint.bin"), OWNER, "weights")
        file(os.path.join(own, "settings.json"), OWNER, '{"lr": 0.1}')
        file(os.path.join(own, "other.ntff"), VICTIM, "in his folder, not his")
        os.symlink(secret, os.path.join(own, "link.ntff"))
        os.symlink(victim, os.path.join(own, "folder"))
        os.link(secret, os.path.join(own, "hard.ntff"))
        os.mkfifo(os.path.join(own, "fifo.ntff"))
        processes = [process("own", own), process("victims-folder", victim), process("link", os.path.join(own, "folder")), process("root", "/"),
                     process("dots", os.path.join(own, "..", "victim")), process("relative", "../victim"),
                     process("others-root", f"/proc/{os.getpid()}/root{victim}")]

        # An absolute link leads into the agent's root unless it is resolved in the container's; a bind mount needs no link.
        inside = f"mount -t tmpfs tmpfs /mnt && ln -s {victim} /mnt/link && mkdir /mnt/bound && mount --bind {victim} /mnt/bound && exec \"$@\""
        spaces = ["unshare", "-m", "--propagation", "private", "sh", "-c", inside, "sh"]
        if subprocess.run([*spaces, "true"], capture_output=True).returncode == 0:
            processes += [process("container-link", "/mnt/link", prefix=spaces), process("container-bound", "/mnt/bound", prefix=spaces)]
        else:
            print("mount namespaces cannot be made here: the rest is tested")

        runtime = os.path.join(BUILD, "lib", "simnrt")
        profile = process("profile", "", code=PROFILE, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=runtime)
        everybody = len(processes) + 1  # the profile's process says that the runtime is open
        until(lambda: c.nodes()["i-test0"].get("processes") == everybody, f"the agent sees {everybody} processes")
        profile.p.stdin.write("\n")
        profile.p.stdin.flush()
        check(profile.p.stdout.readline() == "done\n", f"a profile is written: {profile.text()}")
        good.add(sha(os.path.join(cwd, "one.ntff")))
        until(lambda: c.metric("meridian_artifacts_stored_total") == len(good), "its own files have arrived")
        doc = c.stop(id)  # looks through all directories once more
        equal({a["sha256"] for a in doc["artifacts"]}, good, f"what has arrived: {[a['name'] for a in doc['artifacts']]}")
        check(sha(secret) not in os.listdir(c.path("store", "artifacts")), "the secret is not in the store")
        text = c.agents[0].text()
        check("AGT-FILES-REFUSED" in text and "AGT-FILES-IGNORED" in text and "AGT-WATCH" in text, "it is said what is not taken")
        equal(c.agents[0].end(), 0, "the agent ends")


scenario([])
CAPS = "+sys_ptrace,+dac_override,+fowner"  # those of the systemd unit
rights = ["setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups", f"--inh-caps=-all,{CAPS}", f"--ambient-caps=-all,{CAPS}", f"--bounding-set=-all,{CAPS}"]
if subprocess.run([*rights, "true"], capture_output=True).returncode == 0:
    scenario(rights)
else:
    print("three capabilities cannot be given here: the rest was tested")
finish()
