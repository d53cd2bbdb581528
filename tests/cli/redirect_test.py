"""Runs `meridian` with an address that answers with a redirection, like a proxy that requires
https, or with another unexpected status. No request may count as done and no answer may be
stored as a profile. The message must state where the server redirects to. Usage:
redirect_test.py MERIDIAN"""
import http.server
import os
import subprocess
import sys
import tempfile
import threading

MERIDIAN = sys.argv[1]
ID = "20261123-101112-0a1b2c3d"
TARGET = "https://meridian.example:7780/"
failed = []


class Elsewhere(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b"<html>The page has moved.</html>"
        self.send_response(self.server.status)
        if 300 <= self.server.status < 400:
            self.send_header("Location", TARGET)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = answer


def run(server, *words):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MERIDIAN_") or k == "MERIDIAN_BUILD"}
    p = subprocess.run([MERIDIAN, *words, "--server", f"http://127.0.0.1:{server.server_address[1]}"], capture_output=True, text=True, timeout=60,
                       env={**env, "no_proxy": "*", "HOME": "/nonexistent"})
    return p.returncode, p.stdout, p.stderr


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="redirect-") as work:
        for status in (301, 302, 307, 308):
            server.status = status
            for words in (("status",), ("pause", ID), ("clocks", ID), ("stop", ID), ("nodes",), ("fetch", ID, "-o", work), ("fetch", ID, "-o", work, "--format", "json")):
                code, out, err = run(server, *words)
                if code == 0 or TARGET not in err or "--server" not in err:
                    failed.append(f"{status}: meridian {' '.join(words)}: status {code}, {out!r}, {err!r}")
                if any(not name.startswith(".") and "part" not in name for name in os.listdir(work)):
                    failed.append(f"{status}: meridian {' '.join(words)} stored {os.listdir(work)}")
    for line in failed:
        print(line)
    return 1 if failed else 0


sys.exit(main())
