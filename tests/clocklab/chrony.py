#!/usr/bin/env python3
"""chronyd beside the clock laboratory: the same two namespaces, the same path and load, NTP with kernel stamps.

    chrony.py NS_CLIENT NS_SERVER SERVER_ADDRESS SECONDS

Both daemons run with -x: they never touch the machine's clock. The server answers from it, so a client that knew the time
would say that it is off by nothing: what it says is its error. (Our own rows are made harder: a simulated clock of
37 ppm and 0.3 ppm wander lies under the client's stamps, which no daemon can be given.) Exit 0 measured, 2 could not, 77 no chrony.
"""
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
from wait import pace

PACKAGE = "chrony"
CLIENTS = [(-1, "2 polls/s"), (-4, "16 polls/s")]  # log2 of the interval; we send two packets a second
PORT = 11123
SAMPLE_S = 0.1
SETTLING_S = 30.0  # as our live rows; less in a shorter run


def program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def daemon(chronyd, ns, folder, name, lines):
    """Starts one and returns its process and the socket that answers questions about it."""
    home = os.path.join(folder, name)
    os.mkdir(home, 0o700)
    sock = os.path.join(home, "sock")
    conf = os.path.join(home, "conf")
    with open(conf, "w") as f:
        f.write("\n".join(lines + [f"bindcmdaddress {sock}", "cmdport 0", f"pidfile {home}/pid"]) + "\n")
    with open(os.path.join(home, "log"), "w") as log:
        process = subprocess.Popen(["ip", "netns", "exec", ns, chronyd, "-x", "-d", "-u", "root", "-f", conf],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return process, sock


def off_us(chronyc, sock):
    """How far the client believes the machine's clock to be off, or None before it knows a server."""
    said = subprocess.run([chronyc, "-n", "-c", "-h", sock, "tracking"], capture_output=True, text=True, timeout=10)
    fields = said.stdout.strip().split(",")
    if said.returncode != 0 or len(fields) < 12 or fields[2] in ("0", "16"):
        return None
    return float(fields[4]) * 1e6


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def measure(chronyc, socks, seconds, alive):
    errors = [[] for _ in socks]
    begin = time.monotonic()
    settling = min(SETTLING_S, seconds / 2)
    while time.monotonic() - begin < seconds:
        for i, sock in enumerate(socks):
            got = off_us(chronyc, sock)
            if got is not None and time.monotonic() - begin >= settling:
                errors[i].append(abs(got))
        dead = [p.args for p in alive if p.poll() is not None]
        if dead:
            sys.exit(f"chrony.py: ended by itself: {dead[0]}")
        pace(SAMPLE_S)
    return errors


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    client_ns, server_ns, address, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
    chronyd, chronyc = program("chronyd"), program("chronyc")
    if chronyd is None or chronyc is None:
        print(f"  chronyd -x: skipped: install the package {PACKAGE} (scripts/setup.sh clocklab) to compare")
        sys.exit(77)
    processes = []
    with tempfile.TemporaryDirectory(prefix="mrd-chrony-") as folder:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            server, _ = daemon(chronyd, server_ns, folder, "server",
                               ["local stratum 1", "allow all", f"port {PORT}"])
            processes.append(server)
            socks = []
            for poll, name in CLIENTS:
                p, sock = daemon(chronyd, client_ns, folder, f"client{poll}", [
                    f"server {address} port {PORT} minpoll {poll} maxpoll {poll} iburst xleave", "port 0"])
                processes.append(p)
                socks.append(sock)
            errors = measure(chronyc, socks, seconds, processes)
        finally:
            for p in processes:
                p.terminate()
            for p in processes:
                p.wait()
    for (_, name), e in zip(CLIENTS, errors):
        if not e:
            print(f"  chronyd -x, {name:<10} never knew its server")
            continue
        print(f"  {'chronyd -x, ' + name:<22} error {statistics.median(e):10.3f} / {quantile(e, 0.99):10.3f} us"
              f"   ({len(e)} answers; its clock has no drift to find, ours has 37 ppm)")


if __name__ == "__main__":
    main()
