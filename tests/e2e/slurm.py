"""Tests a real Slurm on this machine (munge, slurmctld, one slurmd) with the SPANK plug-in, Prolog
and Epilog of deploy/slurm. Jobs that request a recording must have a session from their first event
to their end, however they end. The hooks must delay jobs by hardly any time. Needs root and
Debian's Slurm."""
import errno
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time

from lib import BUILD, SOURCE, Cluster, check, equal, finish, free_port, need_daemons, need_preload, skip, ticks_in, until
from small_disk import SmallDisk

need_daemons()
library = need_preload()
TOOLS = ["slurmctld", "slurmd", "munged", "srun", "sbatch", "scancel", "scontrol", "mungekey"]
missing = [t for t in TOOLS if not shutil.which(t, path="/usr/sbin:/usr/bin:/sbin:/bin")]
if os.geteuid() != 0 or missing:
    skip("needs root and Debian's slurmctld, slurmd, slurm-client, munge" + (f"; missing: {', '.join(missing)}" if missing else ""))
if not os.path.exists("/usr/include/slurm/spank.h"):
    skip("needs Slurm's headers (libslurm-dev) to build the plug-in")

SLURM = os.path.join(SOURCE, "deploy/slurm")
USER = "nobody"
CONF = """ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/run/munge.socket
CredType=cred/munge
SlurmctldPort={ctl}
SlurmdPort={node}
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/run/slurmctld.pid
SlurmdPidFile={dir}/run/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
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
PlugStackConfig={dir}/plugstack.conf
Prolog={dir}/hooks/prolog
Epilog={dir}/hooks/epilog
PrologFlags=Alloc
KillWait=2
OverTimeLimit=0
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


class Slurm:
    def __init__(self, c):
        self.c, self.dir = c, c.folder("slurm")
        os.chmod(c.work, 0o755)
        for name in ("run", "mlog", "etc", "state", "spool/n1", "hooks", "jobs", "owner", "out", "bin"):
            os.makedirs(os.path.join(self.dir, name), exist_ok=True)
        for name in ("run", "mlog", "etc"):
            shutil.chown(os.path.join(self.dir, name), "munge", "munge")
        os.chmod(os.path.join(self.dir, "out"), 0o777)
        self.conf = os.path.join(self.dir, "slurm.conf")
        with open(self.conf, "w") as f:
            f.write(CONF.format(dir=self.dir, host=socket.gethostname(), ctl=free_port(), node=free_port()))
        self.plugin = os.path.join(self.dir, "spank_meridian.so")
        subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-fPIC", "-shared", "-o", self.plugin, SLURM + "/spank_meridian.c"], check=True)
        with open(os.path.join(self.dir, "plugstack.conf"), "w") as f:
            f.write(f"optional {self.plugin} jobs={self.dir}/jobs library={library}\n")
        self.hooks()
        self.env = {**c.env, "SLURM_CONF": self.conf, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self.processes = []

    def hooks(self, systemctl="exit 0"):
        """The hooks as they are, but for the folders and for where systemctl is."""
        fake = os.path.join(self.dir, "bin", "systemctl")
        with open(fake, "w") as f:
            f.write(f"#!/bin/sh\n{systemctl}\n")
        os.chmod(fake, 0o755)
        for name in ("prolog", "epilog"):
            with open(f"{SLURM}/{name}.d/50_meridian.sh") as f:
                text = f.read()
            text = text.replace("PATH=/usr/sbin:", f"PATH={self.dir}/bin:/usr/sbin:", 1)
            text = text.replace("umask 022\n", f"umask 022\nMERIDIAN_JOB_DIR={self.dir}/jobs MERIDIAN_OWNER_DIR={self.dir}/owner\n", 1)
            path = os.path.join(self.dir, "hooks", name)
            with open(path + ".new", "w") as f:
                f.write(text)
            os.chmod(path + ".new", 0o755)
            os.rename(path + ".new", path)

    def start(self):
        key = os.path.join(self.dir, "etc/munge.key")
        subprocess.run(["mungekey", "-c", "-k", key], check=True)
        shutil.chown(key, "munge", "munge")
        os.chmod(key, 0o400)
        subprocess.run(["runuser", "-u", "munge", "--", "munged", "--force", f"--socket={self.dir}/run/munge.socket", f"--key-file={key}", f"--log-file={self.dir}/mlog/munged.log",
                        f"--pid-file={self.dir}/mlog/munged.pid", f"--seed-file={self.dir}/mlog/munged.seed"], check=True, capture_output=True)
        for words in (["slurmctld", "-D", "-c"], ["slurmd", "-D", "-N", "n1"]):
            log = open(os.path.join(self.dir, words[0] + ".out"), "w")
            self.processes.append(subprocess.Popen(words, env=self.env, stdout=log, stderr=log))
        until(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%t"), "Slurm's node is idle")

    def ask(self, *words):
        return subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60).stdout

    def logged(self, *words):
        with open(f"{self.dir}/slurmd.n1.log") as f:
            return any(all(w in line for w in words) for line in f)

    def stop(self):
        for p in reversed(self.processes):
            p.send_signal(signal.SIGTERM)
        for p in reversed(self.processes):
            try:
                p.wait(15)
            except subprocess.TimeoutExpired:
                p.kill()
        try:
            with open(f"{self.dir}/mlog/munged.pid") as f:
                os.kill(int(f.read()), signal.SIGTERM)
        except (OSError, ValueError):
            pass

    def sbatch(self, script, *options, wait=True):
        """The job's number; with wait when it has ended."""
        p = subprocess.run(["runuser", "-u", USER, "--", "env", f"SLURM_CONF={self.conf}", "sbatch", "--parsable", *(["--wait"] if wait else []), "-o", f"{self.dir}/out/%j", "-D", "/tmp",
                            *options], input="#!/bin/bash\n" + script, env=self.env, capture_output=True, text=True, timeout=120)
        check(p.stdout.strip(), f"sbatch {options}: {p.stderr}")
        return p.stdout.strip().split(";")[0]

    def srun(self, *words):
        begun = time.monotonic()
        p = subprocess.run(["srun", *words], env=self.env, capture_output=True, text=True, timeout=120)
        return p, time.monotonic() - begun


EMIT = (f"/usr/bin/env PYTHONPATH={SOURCE}/python MERIDIAN_LIBRARY={library} MERIDIAN_RING_DIR=%s MERIDIAN_CAPTURE=annotations /usr/bin/python3 -c '"
        "import ctypes, time, meridian\nlib = meridian._lib\nd = ctypes.c_void_p(lib.mrd_domain_create(b\"test\"))\nkv = (meridian._Kv * 1)(meridian._Kv(b\"i\", meridian._I64))\n"
        "for i in range(1, 501):\n    kv[0].v.i = i\n    lib.mrd_instant_(d, b\"tick\", 0, kv, 1)\ntime.sleep(%s)\n'")


def sessions(c, *options):
    return json.loads(c.run("sessions", "--json", *options)[0])["sessions"]


def complete(c, job, steps=1, what=""):
    """The one session of the job when it is over, which has all its ticks."""
    until(lambda: [s["state"] for s in sessions(c, "--job", job)] == ["complete"], f"the session of {what} job {job}", 40)
    found = sessions(c, "--job", job)
    ticks = c.ticks(found[0]["id"], f"profile{job}") if found else {}
    equal(sorted(sorted(v) for v in ticks.values()), [list(range(1, 501))] * steps, f"{what}: ticks of job {job}")
    return found[0] if found else {}


with Cluster(node_timeout="1s", lead="100ms") as c:
    slurm = Slurm(c)
    os.chmod(c.rings(0), 0o1777)
    c.aggregator()
    until(c.answers, "the aggregator answers")
    disk = SmallDisk(os.path.join(slurm.dir, "jobs"), 1)
    os.chmod(disk.path, 0o755)
    c.agent(0, job_dir=os.path.join(slurm.dir, "jobs"))
    until(lambda: len(c.connected()) == 1, "the agent is connected")
    emit = lambda seconds=0: EMIT % (c.rings(0), seconds)
    try:
        slurm.start()
        # ---- batch, with two steps; the option is inherited ----
        job = slurm.sbatch(f"srun {emit()}\nsrun {emit()}\n", "--meridian=stream", "-J", "train")
        line = complete(c, job, 2, "batch")
        who = line["jobs"][0]
        equal((who["user"], who["partition"], who["cluster"], who["job"]), (USER, "main", "lab", job), f"whose it is: {who}")
        token = os.path.join(slurm.dir, "owner", who["uid"])
        st = os.stat(token)
        equal((oct(st.st_mode & 0o777), str(st.st_uid)), ("0o400", who["uid"]), "the owner's token")
        # ---- no environment at all; asked by comment; by environment; not asked ----
        job = slurm.sbatch(f"srun --export=NONE {emit()}\n", "--meridian", "--export=NONE")
        complete(c, job, 1, "--export=NONE")
        job = slurm.sbatch(f"srun {emit()}\n", "--comment=meridian=stream")
        complete(c, job, 1, "--comment")
        job = slurm.sbatch(f"srun {emit()}\n", "--export=ALL,MERIDIAN_SESSION=stream")
        complete(c, job, 1, "environment")
        quiet = slurm.sbatch(f"srun {emit()}\n")
        off = slurm.sbatch(f"srun {emit()}\n", "--meridian=off", "--comment=meridian=off")
        # ---- names that are none: they do not become lines of the job's file, nor break the job ----
        for name in ("a\nrequest=off\nuid=0\nowner_key=" + "0" * 64, "ended=1", "; rm -rf $HOME `id` $(id) %s %n", "\u00e9\u4e2d" * 100 + "\x7f\x1b[2J", "=" * 300):
            job = slurm.sbatch(f"srun {emit()}\n", "--meridian", "-J", name)
            of = complete(c, job, 1, f"named {name[:20]!r}")["jobs"]  # as the hooks say, and as its process does
            equal({(who["user"], who["uid"], who["job"]) for who in of}, {(USER, str(pwd.getpwnam(USER).pw_uid), job)}, f"whose it is: {of}")
            check(any(who.get("job_name", "").startswith(name.split("\n")[0][:20]) for who in of), f"its name: {of}")
        # ---- an array; two jobs at one time on the node ----
        array = slurm.sbatch(f"srun {emit(1)}\n", "--meridian", "--array=1-2")
        for task in (1, 2):
            complete(c, f"{array}_{task}", 1, "array")
        equal(sessions(c, "--job", quiet) + sessions(c, "--job", off), [], "jobs that do not ask")
        # ---- however it ends: scancel, time limit, requeue ----
        job = slurm.sbatch(f"srun {emit(600)}\n", "--meridian", wait=False)
        until(lambda: [s["events"] > 0 for s in sessions(c, "--job", job)] == [True], "it records")
        slurm.ask("scancel", job)
        complete(c, job, 1, "scancel")
        job = slurm.sbatch(f"srun {emit(600)}\n", "--meridian", wait=False)
        until(lambda: [s["events"] > 0 for s in sessions(c, "--job", job)] == [True], "it records")
        slurm.ask("scontrol", "requeue", job)
        complete(c, job, 1, "requeue")
        slurm.ask("scancel", job)
        # ---- what it costs, and refusals ----
        idle = lambda: until(lambda: slurm.ask("sinfo", "-h", "-o", "%t").strip().rstrip("*") == "idle", "no hook drained the node")
        idle()
        p, usual = slurm.srun("--meridian", "true")
        equal(p.returncode, 0, f"srun --meridian: {p.stderr}")
        idle()
        # ---- no room for the job's file: the job runs, and slurmd's log says why it is not recorded; with room the next one is ----
        disk.fill()
        p, _ = slurm.srun("--meridian", "echo", "works")
        check((p.returncode, p.stdout) == (0, "works\n") and slurm.logged("is not recorded", os.strerror(errno.ENOSPC)), f"a full disk: {p}")
        idle()
        disk.empty()
        subprocess.run(["mount", "-o", "remount,ro", disk.path], check=True)
        p, _ = slurm.srun("--meridian", "echo", "works")
        check((p.returncode, p.stdout) == (0, "works\n") and slurm.logged("is not recorded", os.strerror(errno.EROFS)), f"a disk that is read only: {p}")
        idle()
        subprocess.run(["mount", "-o", "remount,rw", disk.path], check=True)
        equal([n for n in os.listdir(disk.path) if n.startswith(".")], [], "no part of a file is left")
        job = slurm.sbatch(f"srun {emit()}\n", "--meridian")
        complete(c, job, 1, "with room")
        slurm.hooks("sleep 60")
        p, hung = slurm.srun("--meridian", "true")
        check(p.returncode == 0 and hung < usual + 1, f"with a hung systemctl: {hung:.2f} s, usual {usual:.2f} s: {p.stderr}")
        idle()
        c.daemon.kill()
        p, down = slurm.srun("--meridian", "true")
        check(p.returncode == 0 and down < usual + 0.5, f"with the aggregator down: {down:.2f} s, usual {usual:.2f} s: {p.stderr}")
        many = ":".join(["libc.so.6"] * 500)  # more than the plug-in has room for
        p, _ = slurm.srun("--meridian", f"--export=ALL,LD_PRELOAD={many}", "sh", "-c", "echo $LD_PRELOAD")
        equal(p.stdout.strip(), many, "a job's own list of libraries stays whole")
        p, _ = slurm.srun("--meridian=a b", "true")
        check(p.returncode != 0 and "stream, recorder or off" in p.stderr, f"no request: {p.stderr}")
        idle()
    finally:
        slurm.stop()
        disk.close()
        if os.environ.get("MERIDIAN_KEEP"):
            print(slurm.dir)
finish()
