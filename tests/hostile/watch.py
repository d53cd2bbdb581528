"""What both hostile tests need: how long a daemon takes to answer and how much memory it takes, and the environment of the hostile
programs."""
import os
import threading
import time

# NNG 1.5.2 leaks a dialler that is closed while it connects, which the hostile programs do all the time; the daemons are checked.
OWN = {**os.environ, "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))}
ANSWER_S = 10  # the longest that /healthz may take, on a machine with other work


class Watch(threading.Thread):
    """Calls `ask` all the time, which is True when there was an answer; the longest it took, how often there was none, and the most
    memory by `memory`."""

    def __init__(self, ask, memory):
        super().__init__(daemon=True)
        self.ask, self.memory, self.longest, self.silent, self.rss, self.over = ask, memory, 0.0, 0, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.2):
            begun = time.monotonic()
            self.silent += not self.ask()
            self.longest = max(self.longest, time.monotonic() - begun)
            self.rss = max(self.rss, self.memory())

    def stop(self):
        self.over.set()
        self.join()


def rss(program):
    try:
        with open(f"/proc/{program.pid}/status") as f:
            return next((int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS")), 0)
    except OSError:
        return 0
