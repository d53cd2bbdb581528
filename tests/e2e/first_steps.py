"""Tests the first steps of a new user: scripts/setup.sh while another program holds the package
lock, and what `make demo` builds."""
import os
import re
import shutil
import stat
import subprocess

from lib import BUILD, MERIDIAN, SOURCE, check, equal, finish, tmp

work = tmp()
fakes, calls, held = (os.path.join(work, name) for name in ("bin", "calls", "held"))
os.mkdir(fakes)


def fake(name, text):
    path = os.path.join(fakes, name)
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


fake("dpkg-query", 'for last; do :; done\n[ "$last" = cmake ] || echo "install ok installed"\n')  # cmake is missing
fake("sleep", "exit 0\n")
fake("sudo", 'exec "$@"\n')
# Locked for as many calls as $held says: of the lists for update, of the archives for install.
fake("apt-get", f"""echo "$@" >>{calls}
n=$(cat {held}); echo $((n - 1)) >{held}
[ "$n" -gt 0 ] || exit 0
case "$*" in *update*) what=/var/lib/apt/lists ;; *) what=/var/cache/apt/archives ;; esac
[ -z "${{BROKEN:-}}" ] || {{ echo "E: Unable to fetch some archives"; exit 100; }}
echo "E: Could not get lock $what/lock. It is held by process 1234 (unattended-upgr)"
echo "E: Unable to lock directory $what/"
exit 100
""")


def setup(locked, **env):
    open(calls, "w").close()
    with open(held, "w") as f:
        f.write(str(locked))
    p = subprocess.run(["sh", os.path.join(SOURCE, "scripts/setup.sh"), "build"], capture_output=True, text=True, timeout=60,
                       env=dict(os.environ, PATH=fakes + ":" + os.environ["PATH"], **env))
    with open(calls) as f:
        return p.returncode, p.stdout + p.stderr, f.read().splitlines()


status, said, words = setup(3)
equal(status, 0, f"setup while the lists are locked: {said}")
equal(["update" in w for w in words], [True] * 4 + [False], "apt-get: update until it works, then install")
check(all(re.search(r"-o DPkg::Lock::Timeout=[1-9]\d*", w) for w in words), f"apt-get waits for dpkg's lock by itself: {words}")
check("install" in words[-1] and words[-1].endswith(" cmake"), f"what is installed: {words[-1]}")
equal(said.count("waiting"), 1, f"said once: {said}")
check("1234 (unattended-upgr)" in said, f"who holds it: {said}")
status, said, words = setup(1, MERIDIAN_SETUP_WAIT="0")
check(status == 1 and len(words) == 1 and "Could not get lock" in said, f"not longer than was asked: {status} {said}")
status, said, words = setup(1, BROKEN="1")
check(status == 1 and len(words) == 1 and "Unable to fetch" in said, f"another failure is not tried again: {status} {said} {words}")

# ---- What make demo builds ----
steps = subprocess.run(["make", "-n", "demo"], cwd=SOURCE, capture_output=True, text=True).stdout
check("--target demo_programs" in steps and "demo.sh" in steps, f"make demo: {steps}")
p = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", "demo_programs"], capture_output=True, text=True)
if p.returncode == 0:  # an older ninja, another generator
    inputs = p.stdout.split()
    objects = [i for i in inputs if i.endswith(".o")]
    everything = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", "all"], capture_output=True, text=True).stdout.split()
    whole = sum(i.endswith(".o") for i in everything)
    check(100 < len(objects) < 0.65 * whole, f"make demo builds {len(objects)} of {whole} objects")
    equal([i for i in inputs if i.startswith(("tests/", "bench/"))], [], "tests among them")
    for name in ("cli/CMakeFiles/meridian_program.dir", "agent/CMakeFiles/meridian-agent_program.dir", "examples/CMakeFiles/train_loop.dir",
                 "aggregator/CMakeFiles/meridian-aggregator_program.dir", "sim/nrt/CMakeFiles/simnrt_objects.dir", "sim/CMakeFiles/simclock_preload.dir", "capture/"):
        check(any(o.startswith(name) for o in objects), f"{name} is among what make demo builds")

# ---- Its one node: the report names the core that the title says is slow, on a busy machine too ----
with open(os.path.join(SOURCE, "scripts/demo.sh")) as f:
    script = f.read()
slow = re.search(r"\(SIMULATED runtime; NC (\d+) of rank (\d+) takes", script)
words = re.search(r'"\$bin/train_loop" (.*) --checkpoint-dir', script)[1].split()
env = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_", "SIMNRT_"))}
p = subprocess.run([MERIDIAN, "inspect", "-o", os.path.join(work, "one-node"), "--", os.path.join(BUILD, "bin", "train_loop"), *words, "--checkpoint-dir", work, "--quiet"],
                   capture_output=True, text=True, timeout=300, env=dict(env, LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "simnrt")))
check(p.returncode == 0 and re.search(rf"(?m)^Verdict +rank {slow[2]} NC {slow[1]} ", p.stderr), f"the core that is slow: {p.returncode} {p.stderr[-2500:]}")
shutil.rmtree(work, ignore_errors=True)
finish()
