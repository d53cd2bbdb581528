"""Tests that programs which know nothing of Meridian have the same output and exit status with
libmeridian preloaded as without it."""
import os
import shutil
import subprocess
import sys
import tempfile

from lib import equal, finish, need_preload, tmp

library = need_preload()

THREADS = """
import threading
done = []
for batch in range(100):
    threads = [threading.Thread(target=done.append, args=(1,)) for _ in range(100)]
    [t.start() for t in threads]
    [t.join() for t in threads]
print(len(done))
"""
SERVER = """
import http.server, threading, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path.encode())
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(sum(len(urllib.request.urlopen("http://127.0.0.1:%d/%d" % (server.server_port, i)).read()) for i in range(200)))
server.shutdown()
"""
FORKS = "import os, sys\nfor i in range(50):\n    pid = os.fork()\n    if pid == 0: os._exit(i % 7)\n    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == i % 7\nprint('forked')"
C = '#include <stdio.h>\nint main(void) { puts("compiled"); return 3; }\n'

work = tmp()
with open(os.path.join(work, "a.c"), "w") as f:
    f.write(C)
commands = {
    "python3": [sys.executable, "-c", "import json, ssl, ctypes; print(json.dumps([1, 2]))"],
    "10,000 short threads": [sys.executable, "-c", THREADS],
    "a threaded server": [sys.executable, "-c", SERVER],
    "fork without exec": [sys.executable, "-c", FORKS],
    "bash": ["bash", "-c", "for i in 1 2 3; do echo $i | cat; done; (exit 5)"],
    "git": ["git", "--version"],
    "gcc and its program": ["sh", "-c", f"gcc -o {work}/a {work}/a.c && {work}/a"],
    "a pipeline": ["sh", "-c", "seq 20000 | sort -n | tail -n 1"],
}
for name, command in commands.items():
    if shutil.which(command[0]) is None:
        print(f"skipped: {command[0]} is not installed")
        continue
    plain = subprocess.run(command, capture_output=True, text=True, timeout=120)
    rings = tempfile.mkdtemp(dir=work)
    env = dict(os.environ, LD_PRELOAD=library, MERIDIAN_ENABLE="1", MERIDIAN_RING_DIR=rings)
    under = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    equal((under.returncode, under.stdout, under.stderr), (plain.returncode, plain.stdout, plain.stderr), name)
finish()
