"""A file system that fails, hangs and turns owners into others on request: what a folder holds, over the kernel's FUSE protocol (version 7.31), of
Linux alone and of root. Nothing is cached: every call arrives here.

    fs = Fuse(backing, mountpoint); fs.fail("write", errno.ENOSPC, after=3); fs.heal(); fs.hang("fsync"); fs.heal(); fs.close()

It runs in a process of its own, as the kernel waits for it while the test waits for the kernel."""
import ctypes
import errno
import json
import os
import signal
import stat
import struct
import subprocess
import sys

NAMES = {1: "lookup", 2: "forget", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write",
         17: "statfs", 18: "release", 20: "fsync", 25: "flush", 26: "init", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "fsyncdir", 34: "access",
         35: "create", 36: "interrupt", 38: "destroy", 42: "batch_forget", 45: "rename2"}
SILENT = ("forget", "batch_forget", "interrupt")
NOBODY = 65534


def available():
    """None, or why it cannot be used here."""
    if os.geteuid() != 0:
        return "mounting a FUSE file system needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as e:
        return f"there is no /dev/fuse that can be opened ({e.strerror})"
    return None


def mount(fd, at):
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"meridian-test", at.encode(), b"fuse.meridian-test", 2 | 4, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")


class Fuse:
    """The test's side."""

    def __init__(self, backing, at):
        self.at, self.rules = at, backing.rstrip("/") + ".rules"
        self.heal()
        self.server = subprocess.Popen([sys.executable, os.path.abspath(__file__), backing, at, self.rules], stdout=subprocess.PIPE, text=True)
        answer = self.server.stdout.readline().strip()
        if answer != "mounted":
            raise OSError(f"no FUSE file system: {answer or 'its server ended'}")

    def set(self, **rule):
        with open(self.rules + ".new", "w") as f:
            json.dump(rule, f)
        os.rename(self.rules + ".new", self.rules)

    def fail(self, op, code, after=0, times=None):
        """From the call number `after` of this operation on; so many times, or always."""
        self.set(op=op, code=code, after=after, until=None if times is None else after + times)

    def hang(self, op):
        """Calls of this operation are not answered, until heal() and one more call."""
        self.set(op=op, hang=True)

    def squash(self):
        """As a server that turns root into nobody: every file but the top is nobody's, and none can be given away."""
        self.set(squash=True)

    def seconds(self):
        """As Lustre keeps times: whole seconds."""
        self.set(seconds=True)

    def heal(self):
        self.set()

    def freeze(self):
        self.server.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.server.send_signal(signal.SIGCONT)

    def close(self):
        self.server.kill()  # the kernel ends all calls under way with ENOTCONN
        self.server.wait()
        ctypes.CDLL(None).umount2(self.at.encode(), 2)


class Server:
    def __init__(self, backing, at, rules):
        self.paths, self.rules, self.seen, self.stamp = {1: backing}, rules, {}, None
        self.rule, self.held, self.next = {}, [], 2
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        mount(self.fd, at)

    def look_at_rules(self):
        with open(self.rules) as f:
            stamp = os.fstat(f.fileno()).st_ino, os.fstat(f.fileno()).st_mtime_ns
            if stamp != self.stamp:
                self.stamp, self.rule, self.seen = stamp, json.load(f), {}
                held, self.held = self.held, []
                for request in held:
                    self.serve(*request)

    def run(self):
        while True:
            try:
                data = os.read(self.fd, 1 << 20)
            except OSError as e:
                if e.errno == errno.ENODEV:
                    return
                if e.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            size, op, unique, node, uid, gid, _, _ = struct.unpack_from("<IIQQIIII", data)
            self.look_at_rules()
            self.serve(NAMES.get(op, str(op)), unique, node, (uid, gid), data[40:size])

    def serve(self, op, unique, node, who, body):
        if op in SILENT:
            return
        self.seen[op] = self.seen.get(op, 0) + 1
        mine = self.rule.get("op") == op
        if mine and self.rule.get("hang"):
            self.held.append((op, unique, node, who, body))
            return
        try:
            if mine and "code" in self.rule and self.rule["after"] < self.seen[op] <= (self.rule["until"] or self.seen[op]):
                raise OSError(self.rule["code"], "asked for")
            method = getattr(self, "do_" + op, None)
            if method is None:
                raise OSError(errno.ENOSYS, op)
            code, answer = 0, method(node, body, who)
        except OSError as e:
            code, answer = -e.errno, b""
        try:
            os.write(self.fd, struct.pack("<IiQ", 16 + len(answer), code, unique) + answer)
        except OSError as e:
            if e.errno != errno.ENOENT:  # the caller was killed
                raise

    # ---- What it answers ----

    def attr(self, path):
        s = os.lstat(path)
        uid, gid = (NOBODY, NOBODY) if self.rule.get("squash") and path != self.paths[1] else (s.st_uid, s.st_gid)
        ns = [0 if self.rule.get("seconds") else int(t % 10**9) for t in (s.st_atime_ns, s.st_mtime_ns, s.st_ctime_ns)]
        return struct.pack("<QQQQQQIIIIIIIIII", s.st_ino, s.st_size, s.st_blocks, s.st_atime_ns // 10**9, s.st_mtime_ns // 10**9, s.st_ctime_ns // 10**9, *ns,
                           s.st_mode, s.st_nlink, uid, gid, 0, 4096, 0)

    def entry(self, path):
        attr = self.attr(path)
        node = next((n for n, p in self.paths.items() if p == path), None)
        if node is None:
            node, self.next = self.next, self.next + 1
            self.paths[node] = path
        return struct.pack("<QQQQII", node, node, 0, 0, 0, 0) + attr

    def below(self, node, name):
        return os.path.join(self.paths[node], name.rstrip(b"\0").decode(errors="surrogateescape"))

    def do_init(self, node, body, who):
        major, minor, ahead, flags = struct.unpack_from("<IIII", body)
        return struct.pack("<IIIIHHIIHHI28x", 7, 31, ahead, flags & 0x20, 16, 12, 1 << 17, 1, 0, 0, 0)  # FUSE_BIG_WRITES

    def do_lookup(self, node, body, who):
        return self.entry(self.below(node, body))

    def do_getattr(self, node, body, who):
        return struct.pack("<QII", 0, 0, 0) + self.attr(self.paths[node])

    def do_setattr(self, node, body, who):
        valid, _, _, size, _, atime, mtime, _, atimens, mtimens, _, mode, _, uid, gid, _ = struct.unpack_from("<IIQQQQQQIIIIIIII", body)
        path = self.paths[node]
        if valid & 6:
            if self.rule.get("squash"):
                raise OSError(errno.EPERM, "squashed")
            os.lchown(path, uid if valid & 2 else -1, gid if valid & 4 else -1)
        if valid & 1:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & 8:
            os.truncate(path, size)
        if valid & 0x30:
            s = os.lstat(path)
            os.utime(path, ns=(atime * 10**9 + atimens if valid & 0x10 else s.st_atime_ns, mtime * 10**9 + mtimens if valid & 0x20 else s.st_mtime_ns))
        return self.do_getattr(node, body, who)

    def own(self, path, who):
        os.lchown(path, *who)
        return self.entry(path)

    def do_mkdir(self, node, body, who):
        mode, umask = struct.unpack_from("<II", body)
        path = self.below(node, body[8:])
        os.mkdir(path)
        os.chmod(path, mode & ~umask & 0o7777)
        return self.own(path, who)

    def do_symlink(self, node, body, who):
        name, to = body.split(b"\0")[:2]
        path = self.below(node, name)
        os.symlink(to, path)
        return self.own(path, who)

    def do_readlink(self, node, body, who):
        return os.fsencode(os.readlink(self.paths[node]))

    def do_link(self, node, body, who):
        path = self.below(node, body[8:])
        os.link(self.paths[struct.unpack_from("<Q", body)[0]], path)
        return self.entry(path)

    def do_unlink(self, node, body, who):
        path = self.below(node, body)
        os.unlink(path)
        self.moved(path, None)
        return b""

    def do_rmdir(self, node, body, who):
        path = self.below(node, body)
        os.rmdir(path)
        self.moved(path, None)
        return b""

    def moved(self, old, new):
        """Descriptors of what is removed are written to no more: the exporter does not."""
        if new is not None:
            self.moved(new, None)
        for node, path in list(self.paths.items()):
            if path == old or path.startswith(old + "/"):
                self.paths[node] = f"{old} (removed {node})" if new is None else new + path[len(old):]

    def do_rename(self, node, body, who, at=8):
        to, = struct.unpack_from("<Q", body)
        old, new = body[at:].split(b"\0")[:2]
        old, new = self.below(node, old), self.below(to, new)
        os.rename(old, new)
        self.moved(old, new)
        return b""

    def do_rename2(self, node, body, who):
        if struct.unpack_from("<QI", body)[1] != 0:
            raise OSError(errno.EINVAL, "flags")
        return self.do_rename(node, body, who, 16)

    def do_create(self, node, body, who):
        flags, mode, umask = struct.unpack_from("<III", body)
        path = self.below(node, body[16:])
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | flags & os.O_EXCL | os.O_NOFOLLOW, 0o600))
        os.chmod(path, mode & ~umask & 0o7777)
        return self.own(path, who) + struct.pack("<QII", 0, 1, 0)  # FOPEN_DIRECT_IO: writes arrive as they are made

    def do_open(self, node, body, who):
        return struct.pack("<QII", 0, 1, 0)

    def do_opendir(self, node, body, who):
        return struct.pack("<QII", 0, 0, 0)

    def do_read(self, node, body, who):
        _, offset, size = struct.unpack_from("<QQI", body)
        with open(self.paths[node], "rb") as f:
            f.seek(offset)
            return f.read(size)

    def do_write(self, node, body, who):
        _, offset, size = struct.unpack_from("<QQI", body)
        with open(self.paths[node], "r+b") as f:
            f.seek(offset)
            f.write(body[40:40 + size])
        return struct.pack("<II", size, 0)

    def do_readdir(self, node, body, who):
        _, offset, size = struct.unpack_from("<QQI", body)
        answer = b""
        for i, name in enumerate([".", ".."] + sorted(os.listdir(self.paths[node]))):
            text = os.fsencode(name)
            one = struct.pack("<QQII", i + 1, i + 1, len(text), 0) + text
            one += b"\0" * (-len(one) % 8)
            if i >= offset and len(answer) + len(one) <= size:
                answer += one
            elif i >= offset:
                break
        return answer

    def do_statfs(self, node, body, who):
        return struct.pack("<QQQQQIIII24x", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0)

    def nothing(self, node, body, who):
        return b""

    do_release = do_releasedir = do_flush = do_fsync = do_fsyncdir = do_destroy = nothing


if __name__ == "__main__":
    try:
        server = Server(*sys.argv[1:4])
    except OSError as e:
        print(e, flush=True)
        sys.exit(1)
    print("mounted", flush=True)
    server.run()
