"""An aggregator may send texts that others wrote. The test runs every command that prints such
texts with an aggregator that has control characters in each text. None of them may reach the
terminal. Usage: hostile_text_test.py MERIDIAN"""
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

MERIDIAN = os.path.abspath(sys.argv[1])
ID = "20261123-101112-0a1b2c3d"
EVIL = "x\x1b]0;title\x07\x1b[31m\x7f\u009b31m\u202e\u2066"
OBEYED = [chr(c) for c in [*range(0x20), *range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f, *range(0x202a, 0x202f), *range(0x2066, 0x206a)] if chr(c) != "\n"]


def members(texts, **others):
    return {**{key: EVIL for key in texts.split()}, **others}


def session(state, mode, id):
    profile = members("message", state="refused", process_id=7, lnc_idx=1)
    node = members("instance_id message refused_file limited_by release commit", state=state, refused_files=2, window_ns=10**10, covered_ns=0, paused_ns=10**9,
                   missing_batches=3, unread=members("message"), uncounted=members("message"), device_profiles=[profile, members("state message")], connected=True,
                   certificate=members("end"), clock=members("state"), damaged_frames=2, damaged_events=2, damaged_batches=2,
                   counters={"dropped": 5, "clock_frames_lost": 2, "drops": [members("cause", count=5), {"cause": "spool-damaged", "count": 5}]})
    trigger = members("from to reason", id=id if id != ID else "1", answered=0, from_ns=1, to_ns=2, unacknowledged=[EVIL])
    return members("name message store_message empty go created from to trigger", id=id, state=state, mode=mode, created_ns=1, go_ns=1, stop_ns=10**9,
                   events=5, bytes=5, nodes=[node, node], triggers=[trigger], profile=members("state message", total=5, events=1),
                   conversions=[members("state message path run instance_id", process_id=1)], artifacts=[],
                   jobs=[members("job array_job array_task user job_name namespace pod")])


class Aggregator(http.server.BaseHTTPRequestHandler):
    shape = ()
    status = 200

    def log_message(self, *_):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        one = session(*self.shape)
        path = self.path.split("?")[0]
        text = "clocks" in path
        doc = {**one, "sessions": [one], "deleted": [EVIL], "left": [EVIL], "trigger": "1" if self.shape[2] == ID else EVIL, "invitation": EVIL,
               "loads": [members("instance_id name hash path job sha256 loaded unloaded", model=1, process_id=1, lnc_idx=0, loaded_ns=1)]}
        if self.status != 200:
            doc = members("title detail")
        body = (EVIL + "\n" + EVIL + "\x9b\n").encode() if text and self.status == 200 else json.dumps(doc, ensure_ascii=False).encode()
        self.send_response(self.status if self.status != 200 else 202 if self.command == "POST" else 200)
        self.send_header("Content-Type", "text/plain" if text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = answer


COMMANDS = [["status", ID], ["status"], ["stop", ID], ["stop", "--all"], ["sessions"], ["sessions", "--delete", ID], ["nodes"], ["nodes", "--forget", "i-a"], ["models"],
            ["models", ID], ["start"], ["start", "--wait-job", "7"], ["pause", ID], ["resume", ID], ["change", ID, "--core", "1"], ["trigger", "--last", "1s"],
            ["trigger", ID, "--last", "1s"], ["invite"], ["clocks", ID], ["convert", ID], ["fetch", ID], ["record", "--duration", "1s"], ["report", ID], ["diff", ID, ID]]
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Aggregator)
threading.Thread(target=server.serve_forever, daemon=True).start()
env = {k: v for k, v in os.environ.items() if not k.startswith("MERIDIAN_")}
env.update(MERIDIAN_SERVER=f"http://127.0.0.1:{server.server_address[1]}", no_proxy="127.0.0.1")
failed, printed = [], 0
with tempfile.TemporaryDirectory() as work:
    for Aggregator.status, Aggregator.shape in ((200, ("failed", "recorder", ID)), (200, ("complete", "stream", ID)), (200, (EVIL, EVIL, EVIL)), (409, ("failed", "stream", ID))):
        for words in COMMANDS:
            if Aggregator.shape[0] == EVIL and words[0] in ("record", "start", "stop", "fetch", "report", "diff"):  # they wait for a state
                continue
            for more in ([], ["--json"]):
                p = subprocess.run([MERIDIAN, *words, *more, "--timeout", "1s"], capture_output=True, env=env, cwd=work, timeout=60)
                if b"unknown option" in p.stderr and more:
                    continue
                said = (p.stdout + p.stderr).decode(errors="surrogateescape")
                found = sorted({c for c in said if c in OBEYED or "\udc80" <= c <= "\udcff"})
                printed += "x" in said and ("[31m" in said)
                if found:
                    failed.append(f"{' '.join([*words, *more])} ({Aggregator.status}, {Aggregator.shape[0]!r}): {found} in {said[:400]!r}")
for what in failed:
    print(what, file=sys.stderr)
print(f"{printed} runs printed text of the aggregator, {len(failed)} passed on what a terminal obeys")
sys.exit(bool(failed) or printed < 40)
