"""Runs S3 servers of other projects: Ceph's radosgw with an object store in memory, and s3rver.
Each has a client that signs its requests itself (Signature Version 4 as Amazon describes it), not
by libcurl like the exporter."""
import datetime
import hashlib
import hmac
import html
import http.client
import os
import re
import signal
import subprocess
import urllib.parse
import uuid

from wait import within

EMPTY = hashlib.sha256(b"").hexdigest()


class Client:
    """Requests of one user to one server, path style."""

    def __init__(self, port, key, secret, region="us-east-1"):
        self.port, self.key, self.secret, self.region = port, key, secret, region

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def environment(self):
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_REGION": self.region, "AWS_ENDPOINT_URL": self.url, "no_proxy": "*"}

    def ask(self, method, path, query=(), body=b""):
        """Status, header fields (lower case) and body of one request to /path (not encoded yet)."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        path = "/" + urllib.parse.quote(path, safe="/-._~")
        query = "&".join(f"{urllib.parse.quote(a, safe='-._~')}={urllib.parse.quote(b, safe='-._~')}" for a, b in sorted(query))
        host, sha = f"127.0.0.1:{self.port}", hashlib.sha256(body).hexdigest()
        names = "host;x-amz-content-sha256;x-amz-date"
        canonical = f"{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{sha}\nx-amz-date:{now}\n\n{names}\n{sha}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = ("AWS4" + self.secret).encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            c.request(method, path + ("?" + query if query else ""), body or None, {
                "Host": host, "x-amz-date": now, "x-amz-content-sha256": sha, "Content-Length": str(len(body)),
                "Authorization": f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"})
            reply = c.getresponse()
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()
        finally:
            c.close()

    def done(self, method, path, query=(), body=b""):
        status, _, answer = self.ask(method, path, query, body)
        if status not in (200, 204):
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]}")
        return answer

    def keys(self, bucket, prefix=""):
        """The keys of a bucket that begin with prefix."""
        found, after = [], ""
        while True:
            text = self.done("GET", bucket, [("list-type", "2"), ("prefix", prefix), ("encoding-type", "url"), ("start-after", after), ("max-keys", "100")]).decode()
            plain = urllib.parse.unquote_plus if "<EncodingType>url</EncodingType>" in text else html.unescape  # s3rver encodes nothing
            page = [plain(k) for k in re.findall(r"<Key>([^<]*)</Key>", text)]
            found += page
            if "<IsTruncated>true</IsTruncated>" not in text or not page:
                return found
            after = page[-1]

    def objects(self, bucket, prefix=""):
        """{key: SHA-256 of what GET returns}, each compared with the SHA-256 in its metadata."""
        found = {}
        for key in self.keys(bucket, prefix):
            status, fields, body = self.ask("GET", f"{bucket}/{key}")
            sha = hashlib.sha256(body).hexdigest()
            if status != 200 or fields.get("x-amz-meta-sha256") != sha:
                raise RuntimeError(f"{key}: {status}, metadata {fields.get('x-amz-meta-sha256')}, content {sha}")
            found[key] = sha
        return found

    def uploads(self, bucket):
        """Keys of uploads in parts that nobody completed."""
        return re.findall(r"<Upload>.*?<Key>([^<]*)</Key>", self.done("GET", bucket, [("uploads", "")]).decode(), re.S)


class Ceph(Client):
    """A monitor, one object store in memory and radosgw, in `folder`. PROGRAMS: what it needs."""
    PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
    strict = True

    def __init__(self, folder, port_of):
        super().__init__(port_of(), "AKIAMERIDIANLAB", "secret/of+the/laboratory")
        self.folder = folder
        v2, v1 = port_of(), port_of()
        self.monitor = f"[v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]"
        self.fsid = str(uuid.uuid4())
        os.makedirs(f"{folder}/osd/0")
        with open(f"{folder}/ceph.conf", "w") as f:
            f.write(f"""[global]
fsid = {self.fsid}
mon initial members = a
mon host = {self.monitor}
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {folder}/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 1073741824
mon allow pool size one = true
mon data avail crit = 1
mon data avail warn = 1
ms bind ipv6 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
run dir = {folder}
admin socket = {folder}/$name.asok
pid file = {folder}/$name.pid
log file = {folder}/$name.log
[mon.a]
mon data = {folder}/mon
[osd.0]
osd data = {folder}/osd/0
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{self.port}
rgw data = {folder}/rgw
rgw dns name = localhost
""")

    def run(self, program, *args):
        p = subprocess.run([program, *args], cwd=self.folder, capture_output=True, text=True, timeout=120)
        if p.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(args)}: {p.returncode}\n{p.stdout}{p.stderr}")
        return p.stdout

    def start(self, until):
        conf = ("-c", f"{self.folder}/ceph.conf")
        for n, (name, *caps) in enumerate((("mon.", "mon", "allow *"), ("client.admin", "mon", "allow *", "osd", "allow *", "mgr", "allow *"),
                                           ("osd.0", "mon", "allow profile osd", "osd", "allow *"), ("client.rgw", "mon", "allow rw", "osd", "allow rwx"))):
            given = [x for i in range(0, len(caps), 2) for x in ("--cap", *caps[i:i + 2])]
            self.run("ceph-authtool", *([] if n else ["-C"]), "keyring", "--gen-key", "-n", name, *given)
        self.run("monmaptool", "--create", "--clobber", "--fsid", self.fsid, "--addv", "a", self.monitor, "monmap")
        self.run("ceph-mon", *conf, "-i", "a", "--mkfs", "--monmap", "monmap", "--keyring", "keyring")
        self.run("ceph-mon", *conf, "-i", "a")
        for words in ("set-full-ratio .99", "set-backfillfull-ratio .98", "set-nearfull-ratio .97", "require-osd-release pacific"):
            self.run("ceph", *conf, "osd", *words.split())
        id = str(uuid.uuid4())
        self.run("ceph", *conf, "osd", "new", id)
        self.run("ceph-osd", *conf, "-i", "0", "--mkfs", "--osd-uuid", id)
        self.run("ceph-osd", *conf, "-i", "0")
        until(lambda: "1 up" in self.run("ceph", *conf, "osd", "stat"), "the object store is up", 120)
        self.run("ceph", *conf, "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=lab")
        self.run("radosgw-admin", *conf, "-n", "client.rgw", "user", "create", "--uid=lab", "--display-name=lab", f"--access-key={self.key}", f"--secret-key={self.secret}")
        self.run("radosgw", *conf, "-n", "client.rgw")
        until(self.answers, "radosgw answers", 120)

    def answers(self):
        try:
            return self.ask("GET", "")[0] == 200
        except OSError:
            return False

    def end(self):
        for name in ("client.rgw", "osd.0", "mon.a"):
            try:
                with open(f"{self.folder}/{name}.pid") as f:
                    pid = int(f.read())
                os.kill(pid, signal.SIGKILL)  # nothing in it is kept
            except (OSError, ValueError):
                continue
            within(10, lambda: not os.path.exists(f"/proc/{pid}"))

    def version(self):
        return self.run("radosgw", "--version").split()[2]


class S3rver(Client):
    """s3rver of npm: checks no signature and ignores conditions; for names, flow and repetitions."""
    strict = False

    def __init__(self, folder, port_of, program):
        super().__init__(port_of(), "S3RVER", "S3RVER")
        self.folder, self.program, self.child = folder, program, None

    def start(self, until):
        with open(os.path.join(self.folder, "log"), "w") as log:
            self.child = subprocess.Popen([self.program, "-d", os.path.join(self.folder, "data"), "-a", "127.0.0.1", "-p", str(self.port), "--silent"], stdout=log, stderr=log)
        until(self.answers, "s3rver answers", 60)

    answers = Ceph.answers

    def end(self):
        self.child.kill()
        self.child.wait()

    def uploads(self, bucket):
        return []  # it does not list them

    def version(self):
        return "3.7.1"
