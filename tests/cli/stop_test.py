"""Tests what `meridian stop` shows of a flight recorder. The percentage in the line of progress
must be of what will be stored, not of what the agents drop, and the rate must be of what arrived
since the line began. Then the nodes follow in the order of their names. Usage: stop_test.py
MERIDIAN"""
import http.server
import json
import os
import pty
import re
import subprocess
import sys
import threading

MERIDIAN = sys.argv[1]
ID = "20261123-101112-0a1b2c3d"
BEGUN, LET_GO, STORED, STEP, POLLS = 1_000_000, 900_000, 50_000, 1_000, 30
failed = []


class Aggregator(http.server.BaseHTTPRequestHandler):
    polls = 0

    def log_message(self, *_):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        cls = type(self)
        doc = {"id": ID, "name": "", "mode": "recorder", "state": "stopping", "created_ns": 1, "go_ns": 1, "begun": BEGUN, "dropped": LET_GO, "held": 0,
               "nodes": [{"instance_id": id, "state": "flushed", "counters": {"drops": [{"cause": "ring-full", "count": 7}]}} for id in ("i-b", "i-c", "i-a")],
               "triggers": [], "events": STORED + STEP * cls.polls, "bytes": 1, "profile": {"state": "none"}}
        if self.path.endswith(ID):
            cls.polls += 1
            if cls.polls > POLLS:
                doc["state"] = "complete"
        elif self.command == "GET":
            doc = {"sessions": [doc]}
        body = json.dumps(doc).encode()
        self.send_response(202 if self.command == "POST" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer


def on_terminal(words, env):
    """Exit status, and what was written to a terminal."""
    master, slave = pty.openpty()
    p = subprocess.Popen([MERIDIAN, *words], stdout=slave, stderr=slave, env=env)
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        said += part
    os.close(master)
    return p.wait(60), said.decode()


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Aggregator)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {k: v for k, v in os.environ.items() if not k.startswith("MERIDIAN_") or k == "MERIDIAN_BUILD"}
    code, said = on_terminal(["stop", ID, "--server", f"http://127.0.0.1:{server.server_address[1]}"], {**env, "no_proxy": "*", "HOME": "/nonexistent"})
    if code not in (0, 3):
        failed.append(f"status {code}")
    for pattern in (r"^(i-\w) ", r"^dropped on (i-\w): 7 events"):
        names = re.findall(pattern, said.replace("\r", "\n"), re.M)
        if names != ["i-a", "i-b", "i-c"]:
            failed.append(f"nodes as {pattern}: {names}")
    shown = re.findall(r"arrived (\d+) events, ([\d.]+)( M)? events/s(?:, +(\d+) %)?", said)
    if sum(percent != "" for *_, percent in shown) < 3:
        failed.append("the line shows no percent")
    for events, rate, million, percent in shown:
        if percent and abs(int(percent) - 100 * int(events) // (BEGUN - LET_GO)) > 1:
            failed.append(f"{events} of {BEGUN - LET_GO} events are not {percent} %")
        if million or float(rate) > STEP * 1000:  # a poll takes longer than a millisecond
            failed.append(f"{rate}{million} events/s: what was there before counts as arrived")
    for line in failed:
        print(line)
    if failed:
        print(repr(said))
    return 1 if failed else 0


sys.exit(main())
