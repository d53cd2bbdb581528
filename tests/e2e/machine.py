"""Makes a copy of this machine's files into which tests can install, as root. It is an overlay with
its own /run, /dev and /proc, and with a systemctl that only records its arguments. Its mounts end
with the process, so call own_mounts() first."""
import os
import shutil
import stat
import subprocess
import sys

from lib import check, tmp


def do(*command, want=0, **more):
    p = subprocess.run(command, capture_output=True, text=True, timeout=1500, **more)
    check(want is None or p.returncode == want, f"{' '.join(command)}: exit status {p.returncode}: {p.stdout[-1500:]}{p.stderr[-1500:]}")
    return p.stdout


def own_mounts():
    """Runs this script again in a mount namespace of its own; returns False where that cannot be."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    if "MERIDIAN_OWN_MOUNTS" in os.environ:
        return True
    os.environ["MERIDIAN_OWN_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])


SYSTEMCTL = """#!/bin/sh
# Notes what it is asked. No unit is enabled; one runs when /run/active has a file of its name.
echo "$*" >>/run/systemctl.log
case "$*" in
*is-enabled*) echo disabled; exit 1 ;;
*is-active*) for unit; do :; done; [ -e "/run/active/$unit" ]; exit $? ;;
esac
"""


class Machine:
    def __init__(self):
        self.at = os.path.join(tmp(), "m")
        os.makedirs(self.at)
        do("mount", "-t", "tmpfs", "tmpfs", self.at)
        for name in ("up", "work", "root"):
            os.mkdir(os.path.join(self.at, name))
        self.root = os.path.join(self.at, "root")
        do("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={self.at}/up,workdir={self.at}/work", self.root)
        # Of its own and not those of this machine, so that nothing here can be removed by mistake.
        for name, kind in (("run", "tmpfs"), ("dev", "tmpfs"), ("proc", "proc")):
            do("mount", "-t", kind, kind, self.path(name))
        for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
            os.mknod(self.path("dev/" + name), stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(self.path("dev/" + name), 0o666)
        for folder in ("dev/shm", "run/systemd/system", "run/active"):
            os.makedirs(self.path(folder))
        if os.path.lexists(self.path("usr/sbin/policy-rc.d")):  # of machines where nothing is started
            os.unlink(self.path("usr/sbin/policy-rc.d"))
        systemctl = self.path("usr/bin/systemctl")
        if os.path.lexists(systemctl):
            os.unlink(systemctl)
        self.write("usr/bin/systemctl", SYSTEMCTL)
        os.chmod(systemctl, 0o755)

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def do(self, *command, want=0):
        return do("chroot", self.root, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", *command, want=want, stdin=subprocess.DEVNULL)

    def asked(self):
        """What systemctl was asked since the last call, but for questions."""
        log = self.path("run/systemctl.log")
        lines = self.read("run/systemctl.log").splitlines() if os.path.exists(log) else []
        self.write("run/systemctl.log", "")
        return [line for line in lines if "is-active" not in line and "is-enabled" not in line and "daemon-reload" not in line]

    def close(self):
        for mount in (self.path("run"), self.path("dev"), self.path("proc"), self.root, self.at):
            do("umount", "-l", mount, want=None)
