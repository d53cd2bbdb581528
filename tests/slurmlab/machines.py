"""A head node and two compute nodes on this machine: three Debian 12 machines with systemd (systemd-nspawn), munge, slurmctld and slurmd by Debian's own
units, a shared folder /fsx, and /opt/slurm as ParallelCluster has it. All of it runs below one process namespace (tests/e2e/namespaces.py), so that
nothing outlives the test. What is real and what is not: docs/dev/laboratories.md."""
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import time

import namespaces
from lib import SOURCE, check, skip
from namespaces import make_cgroup, remove_cgroups, run
from wait import within

CACHE = os.environ.get("MERIDIAN_SLURMLAB") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "meridian-slurmlab")
INSIDE, CGROUP = "MERIDIAN_SLURMLAB_INSIDE", "meridian-slurmlab"
TOOLS = {"systemd-nspawn": "systemd-container", "mmdebstrap": "mmdebstrap", "ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "cc": "gcc", "make": "make"}
PACKAGES = ("systemd systemd-sysv dbus libpam-systemd slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2 procps curl ca-certificates python3 "
            "libnng1 libprotobuf-c1 libcurl4 libjansson4 libmicrohttpd12 libzstd1 libssl3 libgnutls30 libsqlite3-0").split()
USERS = {"alice": 2001, "bob": 2002}
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
HEAD, COMPUTE = "headnode", ["trn1-st-trn1-1", "trn1-st-trn1-2"]
CONF = """ClusterName=lab
SlurmctldHost=headnode(10.77.0.1)
SlurmUser=slurm
AuthType=auth/munge
# A job that is queued again begins when its first credential has expired: 2 minutes otherwise.
AuthInfo=cred_expire=5
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SchedulerParameters=nohold_on_prolog_fail
SlurmdTimeout=15
KillWait=3
Prolog=/opt/slurm/etc/scripts/prolog.d/*
Epilog=/opt/slurm/etc/scripts/epilog.d/*
# deploy/slurm/parallelcluster.yaml, CustomSlurmSettings:
TaskProlog=/opt/slurm/etc/scripts/meridian_task_prolog.sh
PrologFlags=Alloc
# A node has more places than this machine has processors: several jobs share it.
NodeName=trn1-st-trn1-[1-2] CPUs=8 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def enter():
    """Runs the calling test again below namespaces of its own; returns there. Skips with the reason where it cannot."""
    if not namespaces.inside(INSIDE):
        if os.geteuid() != 0:
            skip("the laboratory needs root: sudo make slurmlab")
        missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool, path=PATH)})
        if missing or not os.path.exists("/usr/include/slurm/spank.h"):
            skip("the laboratory needs packages of Debian 12: " + " ".join(missing or ["libslurm-dev"]) + " (scripts/setup.sh slurmlab)")
        if not os.path.isdir("/sys/fs/cgroup/systemd"):
            skip("the laboratory's machines were written for cgroup v1; there is no /sys/fs/cgroup/systemd")
        base()
    namespaces.enter(INSIDE, CGROUP, CACHE, ["br0", "v1", "v2", "v3"])


def base():
    """The files that all machines begin with: once, by mmdebstrap, into the cache."""
    want, at = " ".join(PACKAGES + [f"{k}={v}" for k, v in USERS.items()]), os.path.join(CACHE, "root")
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(at + ".made") as f:
                if f.read() == want:
                    return at
        except OSError:
            pass
        print("slurmlab: making the machines' files with mmdebstrap: some 2 minutes and 0.4 GB, once", flush=True)
        for path in (at, at + ".new"):
            shutil.rmtree(path, ignore_errors=True)
        users = [f"--customize-hook=chroot \"$1\" useradd -m -s /bin/bash -u {uid} {name}" for name, uid in USERS.items()]
        p = subprocess.run(["nice", "-n", "10", "mmdebstrap", "--mode=root", "--include=" + ",".join(PACKAGES), *users, "bookworm", at + ".new"], capture_output=True, text=True)
        if p.returncode != 0:
            skip(f"the machines' files could not be made: {p.stderr.splitlines()[-2:]}")
        os.rename(at + ".new", at)
        with open(at + ".made", "w") as f:
            f.write(want)
    return at


class Machine:
    def __init__(self, lab, name, number):
        self.lab, self.name, self.number, self.address = lab, name, number, f"10.77.0.{number}"
        self.dir = os.path.join(lab.dir, name)
        self.root, self.netns, self.cgroup, self.p = os.path.join(self.dir, "root"), f"/run/netns/{name}", f"{CGROUP}/{name}", None

    def make(self):
        for name in ("up", "work", "root"):
            os.makedirs(os.path.join(self.dir, name))
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={self.lab.base},upperdir={self.dir}/up,workdir={self.dir}/work", self.root)
        self.write("etc/hostname", self.name + "\n")
        self.write("etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{m.address} {m.name}\n" for m in self.lab.machines))
        self.write("etc/machine-id", "")  # else all have one
        shutil.rmtree(self.path("etc/slurm"), ignore_errors=True)
        os.symlink("/opt/slurm/etc", self.path("etc/slurm"))
        for unit in ("slurmd",) if self.name == HEAD else ("slurmctld",):
            link = self.path(f"etc/systemd/system/{unit}.service")
            if not os.path.lexists(link):
                os.symlink("/dev/null", link)
        for at in ("fsx", "opt/slurm"):
            os.makedirs(self.path(at))
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", f"v{self.number}", "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", f"v{self.number}", "master", "br0", "up")
        for words in (["link", "set", "lo", "up"], ["link", "set", "eth0", "up"], ["address", "add", self.address + "/24", "dev", "eth0"]):
            run("ip", "-n", self.name, *words)

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)

    def start(self):
        """Switches it on; up() waits for it."""
        remove_cgroups(self.cgroup)
        make_cgroup(self.cgroup)
        groups = " ".join(f"{h}/{self.cgroup}/cgroup.procs" for h in namespaces.cgroups())
        self.p = self.lab.run_beside(self.name, ["sh", "-c", f'for f in {groups}; do echo $$ >$f; done; exec "$@"', "sh",
            "systemd-nspawn", "-q", "-D", self.root, "-M", self.name, "--hostname=" + self.name, "--boot", "--register=no", "--keep-unit", "--resolv-conf=off",
            "--network-namespace-path=" + self.netns, f"--bind={self.lab.fsx}:/fsx", f"--bind={self.lab.slurm}:/opt/slurm", "--capability=CAP_SYS_PTRACE"])

    def first(self):
        """Its process 1, as seen here; None until it is there."""
        try:
            with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children") as f:
                for pid in f.read().split():
                    if "systemd-nspawn" not in os.readlink(f"/proc/{pid}/exe"):
                        return int(pid)
        except OSError:
            pass
        return None

    def up(self, seconds=180):
        state = lambda: self.first() and self.sh("systemctl is-system-running", want=None).stdout.strip() in ("running", "degraded")
        if not within(seconds, state, 0.3):
            raise RuntimeError(f"{self.name} does not come up: {self.lab.log(self.name)[-1500:]}")
        # nspawn invents a boot id, which a unit with ProtectKernelTunables does not see: on a real machine both see one.
        self.sh("umount /proc/sys/kernel/random/boot_id", want=None)

    def cut(self):
        """The power is gone: every process at once, and what was in memory."""
        os.kill(self.first(), signal.SIGKILL)
        self.p.wait()

    def words(self, *words, user=None):
        become = ["runuser", "-u", user, "--"] if user else []
        return ["nsenter", "-t", str(self.first()), "-m", "-u", "-i", "-n", "-p", "-C", "env", "-i", "PATH=" + PATH, "HOME=/root", "LC_ALL=C.UTF-8", *become, *words]

    def sh(self, text, user=None, want=0, timeout=300, **options):
        p = subprocess.run(self.words("sh", "-c", text, user=user), capture_output=True, text=True, timeout=timeout, cwd="/", stdin=options.pop("stdin", subprocess.DEVNULL), **options)
        check(want is None or p.returncode == want, f"{self.name}: {text}: exit status {p.returncode}: {p.stdout[-800:]}{p.stderr[-1200:]}")
        return p


class Builder:
    """A machine of the cluster's distribution with this source tree, on which an operator builds: this machine's own files below an overlay, with /fsx and
    /opt/slurm. What is written elsewhere is gone with it."""

    def __init__(self, lab):
        self.at = os.path.join(lab.dir, "builder")
        os.makedirs(self.at)
        run("mount", "-t", "tmpfs", "tmpfs", self.at)
        for name in ("up", "work", "root"):
            os.mkdir(os.path.join(self.at, name))
        self.root = os.path.join(self.at, "root")
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={self.at}/up,workdir={self.at}/work", self.root)
        for name, source in (("fsx", lab.fsx), ("opt/slurm", lab.slurm)):
            os.makedirs(os.path.join(self.root, name), exist_ok=True)
            run("mount", "--bind", source, os.path.join(self.root, name))
        dev = os.path.join(self.root, "dev")  # of its own, so that nothing of this machine can be removed by mistake
        run("mount", "-t", "tmpfs", "tmpfs", dev)
        for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
            os.mknod(os.path.join(dev, name), stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(os.path.join(dev, name), 0o666)
        run("mount", "-t", "proc", "proc", os.path.join(self.root, "proc"))

    def sh(self, text, timeout=3000):
        p = subprocess.run(["chroot", self.root, "nice", "-n", "10", "sh", "-ec", f"cd {SOURCE}; {text}"], capture_output=True, text=True, timeout=timeout,
                           stdin=subprocess.DEVNULL, env={"PATH": PATH + ":/usr/local/bin", "HOME": os.environ.get("HOME", "/root"), "LC_ALL": "C.UTF-8"})
        check(p.returncode == 0, f"{text}: exit status {p.returncode}: {p.stdout[-800:]}{p.stderr[-1500:]}")
        return p.stdout + p.stderr


class Lab(namespaces.Laboratory):
    """with Lab() as lab: three machines are up, with Slurm when lab.slurm_up() was called."""

    def __init__(self):
        super().__init__(CACHE, CGROUP)
        self.base = os.path.join(CACHE, "root")
        self.fsx, self.slurm = os.path.join(self.dir, "fsx"), os.path.join(self.dir, "opt-slurm")
        self.machines = [Machine(self, name, i + 1) for i, name in enumerate([HEAD, *COMPUTE])]
        self.head, self.compute = self.machines[0], self.machines[1:]

    def begin(self):
        begun = time.monotonic()
        os.makedirs(self.fsx)
        for name in ("jobs", "out"):
            os.makedirs(os.path.join(self.fsx, name))
            os.chmod(os.path.join(self.fsx, name), 0o1777)
        for name in ("scripts/prolog.d", "scripts/epilog.d"):
            os.makedirs(os.path.join(self.slurm, "etc", name))
        with open(os.path.join(self.slurm, "etc/slurm.conf"), "w") as f:
            f.write(CONF)
        os.symlink("/usr/include", os.path.join(self.slurm, "include"))  # Debian's Slurm stands elsewhere
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")  # nspawn's and ip's own files
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "address", "add", "10.77.0.254/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        for m in self.machines:
            m.make()
            m.start()
        for m in self.machines:
            m.up()
        print(f"slurmlab: three machines are up after {time.monotonic() - begun:.0f} s")

    def slurm_up(self):
        """Debian's units of munge and Slurm, begun anew: what they read was not there when the machines came up."""
        for m in self.machines:
            m.sh("systemctl restart munge " + ("slurmctld" if m is self.head else "slurmd"))
        if not within(90, lambda: self.states() == ["idle", "idle"], 0.3):
            raise RuntimeError(f"Slurm's nodes are not idle: {self.head.sh('sinfo -N; journalctl -u slurmctld | tail -20', want=None).stdout}")

    def states(self):
        """What Slurm calls the two nodes, without the mark of one that does not answer."""
        return [s.rstrip("*") for s in self.head.sh("sinfo -h -N -o %t", want=None).stdout.split()]

    def run_beside(self, name, words):
        with open(os.path.join(self.dir, name + ".log"), "ab") as log:
            p = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        self.processes.append(p)
        return p

    def log(self, name):
        with open(os.path.join(self.dir, name + ".log"), errors="replace") as f:
            return f.read()

    def unmount(self):
        for at in [m.root for m in self.machines] + [os.path.join(self.dir, "builder/root"), os.path.join(self.dir, "builder")]:
            subprocess.run(["umount", "-lR", at], capture_output=True)
        with open("/proc/self/mountinfo") as f:
            mounted = [line.split()[4] for line in f if line.split()[4].startswith(self.dir)]
        return check(not mounted, f"mounts are left: {mounted}")
