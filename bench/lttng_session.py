"""LTTng to compare with: daemons of its own under a home of its own, gone at the end."""
import glob
import os
import shutil
import socket
import subprocess
import tempfile
import time


class Missing(Exception):
    """Why there is no comparison; names the package where one is missing."""


def free_ports(n):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def children(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path) as f:
            found += map(int, f.read().split())
    return found


class Daemons:
    """A session daemon and, if wanted, a relay daemon on loopback ports (control, data: their addresses)."""

    def __init__(self, relay=False):
        for tool in ("lttng", "lttng-sessiond") + (("lttng-relayd",) if relay else ()):
            if shutil.which(tool) is None:
                raise Missing(f"{tool} is not installed (Debian package lttng-tools)")
        if subprocess.run(["pgrep", "-x", "lttng-sessiond"], capture_output=True).returncode == 0:
            raise Missing("another lttng-sessiond runs on this machine; stop it first")
        self.relay, self.running = relay, []

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="mrd-bench-")
        self.env = dict(os.environ, LTTNG_HOME=self.home, HOME=self.home)
        quiet = dict(env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if self.relay:
                self.control, self.data, live = (f"tcp://127.0.0.1:{port}" for port in free_ports(3))
                self.relayd = subprocess.Popen(["lttng-relayd", "-C", self.control, "-D", self.data, "-L", live,
                                                "-o", self.home + "/out"], **quiet)
                self.running.append(self.relayd)
            self.sessiond = subprocess.Popen(["lttng-sessiond", "--no-kernel"], **quiet)
            self.running.append(self.sessiond)
            for _ in range(100):
                if subprocess.run(["lttng", "list"], **quiet).returncode == 0:
                    return self
                time.sleep(0.1)
            raise Missing("LTTng's session daemon does not answer")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for daemon in reversed(self.running):
            daemon.terminate()
        for daemon in self.running:
            daemon.wait(timeout=60)
        shutil.rmtree(self.home, ignore_errors=True)

    def tool(self, *args):
        done = subprocess.run(["lttng", *args], env=self.env, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise Missing(f"lttng {args[0]} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        return done.stdout

    def consumer(self):
        """The consumer daemon of user space events; sessiond may have put a process between."""
        queue = children(self.sessiond.pid)
        for pid in queue:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().startswith("lttng-consumerd"):
                    return pid
            queue += children(pid)
        raise Missing("LTTng's session daemon started no consumer daemon")
