"""Runs simulated machines in their own Linux namespaces. Nothing that they start, mount or
configure remains when the test ends, in whatever way. Only control groups may remain after SIGKILL,
and the next start removes them."""
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time

from lib import check, skip
from wait import within

HIERARCHIES = "/sys/fs/cgroup"


def run(*words, check_it=True, **options):
    """What a command prints. RuntimeError with what it says when it fails."""
    p = subprocess.run(words, capture_output=True, text=True, **options)
    if check_it and p.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {p.stderr.strip()[-2000:] or p.stdout.strip()[-2000:]}")
    return p.stdout


def inside(marker):
    """Whether this is the call below; only enter() comes back there."""
    return bool(os.environ.get(marker))


def traces(cgroup, folder, links):
    """What a laboratory may have left on this machine: mounts of its folder, control groups and their processes, network links, rules, and files of the
    programs that it runs."""
    found = set()
    with open("/proc/self/mountinfo") as f:
        found |= {"mount " + line.split()[4] for line in f if folder in line}
    found |= {"cgroup " + os.path.join(h, cgroup) for h in cgroups() if os.path.exists(os.path.join(h, cgroup))}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup") as f:
                found |= {f"process {pid}"} if "/" + cgroup in f.read() else set()
        except OSError:
            pass
    found |= {"link " + name for name in links if os.path.exists("/sys/class/net/" + name)}
    if shutil.which("iptables-save"):
        rules = run("iptables-save", check_it=False)
        found |= {"rule " + line for line in rules.splitlines() if line.startswith("-A")}
    for at in ("/run/netns", "/run/systemd/nspawn", "/run/containerd", "/run/flannel", "/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/log/pods", "/etc/cni", "/fsx", "/opt/slurm"):
        found |= {"file " + at} if os.path.exists(at) else set()
    return found


def other_agents():
    """The meridian-agents that run on this machine: {pid: command}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as command:
                if comm.read() == "meridian-agent\n":
                    found[int(pid)] = command.read().replace("\0", " ").strip()
        except OSError:  # it has ended
            pass
    return found


def say_other_agents(lab):
    """An agent outside that looks into containers reads the rings of the laboratory's programs, too: its cases then miss events."""
    for pid, command in sorted(other_agents().items()):
        words = command.split()
        print(f"{lab}: another meridian-agent runs on this machine, process {pid} ({command[:200]}): " +
              ("it does not look into containers" if "--no-containers" in words else "it reads rings of containers, and cases may miss events; end it, or give it --no-containers"), flush=True)


def enter(marker, cgroup, folder, links):
    """Runs the calling test again as first process of a process namespace, with mounts and a network of its own; returns there. Outside it waits, ends as
    the test does, and with 1 when something was left."""
    if inside(marker):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the first process of a namespace gets only what it handles
        return
    say_other_agents(cgroup.removeprefix("meridian-"))
    before = traces(cgroup, folder, links)
    p = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv],
                         env=dict(os.environ, **{marker: "1"}))

    def forward(number, _):
        with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
            for child in f.read().split():
                os.kill(int(child), number)
    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the test itself
    status = p.wait()
    left = sorted(traces(cgroup, folder, links) - before)
    if left:
        print(f"FAILED the laboratory has left {len(left)}: {left[:10]}")
    sys.exit(status if status != 0 or not left else 1)


def leave(processes):
    """Ends everything below this process, and waits for what it started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getpid() == 1:
        for pid in [int(p) for p in os.listdir("/proc") if p.isdigit() and p != "1"]:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    for p in processes:
        p.wait()


def cgroups():
    """The hierarchies of version 1, and an empty one of version 2 beside them."""
    found = [os.path.join(HIERARCHIES, name) for name in sorted(os.listdir(HIERARCHIES))]
    return [path for path in found if not os.path.islink(path) and os.path.exists(os.path.join(path, "cgroup.procs"))]


def make_cgroup(name):
    """A group of that name in every hierarchy, which may use every processor that the one above may; a/b makes a, too."""
    for hierarchy in cgroups():
        at = hierarchy
        for part in name.split("/"):
            above, at = at, os.path.join(at, part)
            os.makedirs(at, exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if os.path.exists(os.path.join(at, file)):
                    with open(os.path.join(above, file)) as f, open(os.path.join(at, file), "w") as o:
                        o.write(f.read())


def remove_cgroups(name):
    """Removes it, deepest first; returns what would not go (a process is in it)."""
    left = []
    for hierarchy in cgroups():
        for at, _, _ in os.walk(os.path.join(hierarchy, name), topdown=False):
            try:
                os.rmdir(at)
            except OSError:
                left.append(at)
    return left


class Laboratory:
    """What the machines of a laboratory have in common: one at a time, in the folder run of its cache, which goes with it (MERIDIAN_KEEP leaves it).
    begin() makes the machines; `processes` are what it started."""

    def __init__(self, cache, cgroup):
        self.cache, self.cgroup, self.dir, self.processes = cache, cgroup, os.path.join(cache, "run"), []

    def __enter__(self):
        self.lock = open(os.path.join(self.cache, "run.lock"), "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            skip(f"another laboratory runs in {self.cache}")
        try:
            shutil.rmtree(self.dir, ignore_errors=True)
            remove_cgroups(self.cgroup)
            self.begin()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *_):
        """Everything below this process goes with its namespaces; here what does not: cgroups and files."""
        leave(self.processes)
        if not within(30, lambda: [] == remove_cgroups(self.cgroup)):
            check(False, f"cgroups are left: {remove_cgroups(self.cgroup)[:3]}")
        if self.unmount() and not os.environ.get("MERIDIAN_KEEP"):
            within(20, lambda: shutil.rmtree(self.dir, ignore_errors=True) or not os.path.exists(self.dir))

    def unmount(self):
        """Whether nothing is mounted in its folder any more."""
        return True


def run_cases(title, cases, asked, state):
    """{name: what it does with the state}; of these the asked ones, or all. One that fails does not end the others."""
    for name, case in cases.items():
        if not asked or name in asked:
            begun = time.monotonic()
            try:
                case(state)
            except (RuntimeError, OSError, ValueError, KeyError, IndexError, TypeError) as e:
                check(False, f"{name}: {type(e).__name__}: {e}")
            print(f"{title}: case {name} took {time.monotonic() - begun:.0f} s", flush=True)


def asked_cases(title, cases):
    """The cases that the command line names."""
    asked = sys.argv[1:]
    unknown = [a for a in asked if a not in cases]
    if unknown:
        sys.exit(f"{title}: no case {', '.join(unknown)}; there are: {', '.join(cases)}")
    return asked
