"""A small S3 for tests: checks Signature Version 4, the body's SHA-256 and its MD5 (as with Object Lock) itself, holds objects in memory, and fails on request: 503 for so many
requests, a connection cut inside the body, an object that another writer made first, a bucket of another region, credentials that expire."""
import base64
import datetime
import hashlib
import hmac
import http.server
import re
import sys
import threading
import time
import urllib.parse

KEY, SECRET, REGION = "AKIATESTTESTTESTTEST", "secret/of+the/test", "eu-test-1"
TOLD = "eu-north-9"  # the region that a bucket which moved is said to be in


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, keys=None, token=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.uploads, self.log = {}, {}, []  # key: (bytes, meta sha256)
        self.keys, self.token = keys or {KEY: SECRET}, token
        self.unavailable = 0      # so many of the next requests get 503
        self.cut = 0              # so many of the next PUTs lose their connection inside the body
        self.raced = {}           # key: bytes that appear between HEAD and PUT
        self.refused = []         # why requests were refused
        self.ends = []            # (status, what) of the next ends of uploads in parts, which are over by them: what is True: the object was made, bytes: another's was
        self.victim = None        # (process, n, "before" or "after"): killed around the n-th request from now on
        self.made, self.begun = [], 0  # keys of objects, each time one is made; uploads
        self.ahead = 0            # seconds that its clock is ahead of ours
        self.at = None            # its host begins so: who asks another one is told its region (301)
        self.expired = set()      # tokens that are not good any more
        self.conditions = True    # it knows If-None-Match; else 501
        self.moved = None         # (status, only its PUTs and POSTs): the bucket is in another region, which requests are told
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # the client was killed or gave up
            super().handle_error(request, client_address)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + self.server.ahead if timestamp is None else timestamp)

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code, message="", **headers):
        self.answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode(), **headers)
        self.close_connection = True  # the body may not have been read

    def signed(self, body):
        """Why the signature is not one of ours; None when it is."""
        m = re.match(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w+)", self.headers.get("Authorization", ""))
        if m is None:
            return "AccessDenied"
        key, date, region, names, signature = m.groups()
        if key not in self.server.keys:
            return "InvalidAccessKeyId"
        path, _, query = self.path.partition("?")
        names = names.split(";")
        for needed in ("host", "x-amz-content-sha256", "x-amz-date"):
            if needed not in names:
                return f"MissingSignedHeader {needed}"
        pairs = sorted(tuple((p + "=").split("=")[:2]) for p in query.split("&") if p)
        canonical = "\n".join([self.command, path, "&".join(f"{a}={b}" for a, b in pairs)] + [f"{n}:{' '.join(self.headers[n].split())}" for n in names] +
                              ["", ";".join(names), self.headers["x-amz-content-sha256"]])
        scope = f"{date}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
        k = _hmac(_hmac(_hmac(_hmac(("AWS4" + self.server.keys[key]).encode(), date), region), "s3"), "aws4_request")
        if _hmac(k, text).hex() != signature:
            return "SignatureDoesNotMatch"
        if region != REGION:
            return "AuthorizationHeaderMalformed"
        if self.headers.get("x-amz-security-token") in self.server.expired:
            return "ExpiredToken"
        if self.server.token and self.headers.get("x-amz-security-token") != self.server.token:
            return "InvalidToken"
        at = datetime.datetime.strptime(self.headers["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
        if abs(time.time() + self.server.ahead - at) > 900:
            return "RequestTimeTooSkewed"
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            return "XAmzContentSHA256Mismatch"
        if self.command == "PUT" and self.headers.get("Content-MD5") != base64.b64encode(hashlib.md5(body).digest()).decode():
            return "InvalidRequest"  # as of a bucket with Object Lock
        return None

    def handle_one(self):
        server = self.server
        size = int(self.headers.get("Content-Length") or 0)
        with server.lock:
            server.log.append((self.command, self.path))
            down, server.unavailable = server.unavailable > 0, max(0, server.unavailable - 1)
            cut = self.command == "PUT" and size > 1000 and server.cut > 0
            server.cut -= cut
        if cut:
            self.rfile.read(500)
            self.close_connection = True
            self.connection.close()
            return
        if server.moved and (not server.moved[1] or self.command in ("PUT", "POST")):
            self.rfile.read(size)
            return self.answer(server.moved[0], b"<Error><Code>PermanentRedirect</Code><Message>Use the right endpoint.</Message></Error>", x_amz_bucket_region=TOLD)
        if server.at and not self.headers["Host"].startswith(server.at):
            self.rfile.read(size)
            return self.answer(301, b"<Error><Code>PermanentRedirect</Code></Error>", x_amz_bucket_region=REGION)
        if down:
            return self.error(503, "SlowDown", "Please reduce your request rate.")
        if self.headers.get("Expect", "").lower() == "100-continue" and size:
            pass  # http.server has said 100 already
        body = self.rfile.read(size)
        if len(body) != size:
            return
        why = self.signed(body)
        if why:
            server.refused.append((self.command, self.path, why))
            status = 400 if why in ("AuthorizationHeaderMalformed", "ExpiredToken") else 403
            return self.error(status, why, **({"x_amz_bucket_region": REGION} if why == "AuthorizationHeaderMalformed" else {}))
        if "If-None-Match" in self.headers and not server.conditions:
            return self.error(501, "NotImplemented", "A header that you provided implies functionality that is not implemented")
        url = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(url.path).lstrip("/")
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with server.lock:
            if not self.strike("before"):
                self.act(key, query, body)
                self.strike("after")

    def strike(self, when):
        """Kills the client if it is to be killed here; true when it was."""
        process, n, at = self.server.victim or (None, 0, "")
        if process is None:
            return False
        self.server.victim = process, n - (when == "before"), at
        if n == (1 if when == "before" else 0) and at == when:
            self.server.victim = None
            process.kill()
            process.wait()
            self.close_connection = True
            return True
        return False

    def put_object(self, key, body, meta):
        server = self.server
        if key in server.raced:
            server.objects[key] = (server.raced.pop(key), None)
            server.objects[key] = (server.objects[key][0], hashlib.sha256(server.objects[key][0]).hexdigest())
        if self.headers.get("If-None-Match") == "*" and key in server.objects:
            return self.error(412, "PreconditionFailed")
        server.objects[key] = (body, meta)
        server.made.append(key)
        return None

    def act(self, key, query, body):
        server, meta = self.server, self.headers.get("x-amz-meta-sha256")
        if self.command == "GET" and "uploads" in query:
            left = [u for u, (at, _, _) in server.uploads.items() if at.startswith(key + query.get("prefix", ""))]
            return self.answer(200, b"<ListMultipartUploadsResult>" + b"".join(b"<Upload><Key>k</Key><UploadId>%s</UploadId></Upload>" % u.encode() for u in left) +
                               b"</ListMultipartUploadsResult>")
        if self.command in ("HEAD", "GET"):
            if key not in server.objects:
                return self.error(404, "NoSuchKey")
            data, sha = server.objects[key]
            return self.answer(200, data if self.command == "GET" else b"", Content_Length=str(len(data)), **({"x_amz_meta_sha256": sha} if sha else {}))
        if self.command == "POST" and "uploads" in query:
            upload = f"up+load/{server.begun}"
            server.begun += 1
            server.uploads[upload] = (key, meta, {})
            return self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode())
        if "uploadId" in query and query["uploadId"] not in server.uploads:
            return self.error(404, "NoSuchUpload")
        if self.command == "PUT" and "partNumber" in query:
            server.uploads[query["uploadId"]][2][int(query["partNumber"])] = body
            return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        if self.command == "POST" and "uploadId" in query:
            at, sha, parts = server.uploads[query["uploadId"]]
            if server.ends:
                status, what = server.ends.pop(0)
                if what:
                    server.objects[key] = (b"".join(parts[n] for n in sorted(parts)), sha) if what is True else (what, None)
                del server.uploads[query["uploadId"]]
                return self.error(status, "ConditionalRequestConflict" if status == 409 else "NoSuchUpload")
            listed = [int(n) for n in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
            etags = re.findall(rb'<ETag>"(\w+)"</ETag>', body)
            if at != key or listed != sorted(parts) or [hashlib.md5(parts[n]).hexdigest().encode() for n in listed] != etags:
                return self.error(400, "InvalidPart")
            refused = self.put_object(key, b"".join(parts[n] for n in listed), sha)
            if key in server.objects and not refused:
                del server.uploads[query["uploadId"]]
                return self.answer(200, b"<CompleteMultipartUploadResult/>")
            return None
        if self.command == "DELETE":
            server.uploads.pop(query.get("uploadId"), None)
            return self.answer(204)
        before = len(server.log)
        self.put_object(key, body, meta)
        if server.objects.get(key, (None,))[0] is body:
            self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        assert len(server.log) >= before
        return None

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one
