"""Container images without a container engine: Debian 12 with the packages that deploy/image/Containerfile installs (once, into the cache), and
above it what `cmake --install` puts into Meridian's image, or a training program that has nothing of Meridian. Written as one docker-archive."""
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile

from lib import BUILD, SOURCE, skip


def packages():
    """What the Containerfile's last stage installs."""
    with open(os.path.join(SOURCE, "deploy/image/Containerfile")) as f:
        stage = f.read().rsplit("\nFROM ", 1)[1]
    return sorted(re.search(r"--no-install-recommends ((?:[^&\\]|\\\n)+)", stage).group(1).replace("\\\n", " ").split())


def base(cache):
    """The base layer's file: as debian:12-slim has it, without documentation and translations."""
    want, path = " ".join(packages()), os.path.join(cache, "base.tar")
    try:
        with open(path + ".packages") as f:
            if f.read() == want:
                return path
    except OSError:
        pass
    print("kubelab: building the image's base with mmdebstrap: some 2 minutes, once")
    slim = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale", "info")]
    p = subprocess.run(["nice", "-n", "19", "mmdebstrap", "--variant=minbase", "--mode=root", *slim, "--include=" + ",".join(packages()), "--format=tar", "bookworm", path + ".new"],
                       capture_output=True, text=True)
    if p.returncode != 0:
        skip(f"the image's base could not be built: {p.stderr.splitlines()[-1:]}")
    os.rename(path + ".new", path)
    with open(path + ".packages", "w") as f:
        f.write(want)
    return path


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


class Archive:
    """docker-archive: layers by their hash, and for each image its names and configuration."""

    def __init__(self, path):
        self.tar, self.layers, self.manifest = tarfile.open(path, "w"), {}, []

    def add_bytes(self, name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        self.tar.addfile(info, io.BytesIO(data))

    def layer(self, path):
        digest = sha256(path)
        if digest not in self.layers:
            self.layers[digest] = digest + ".tar"
            self.tar.add(path, arcname=digest + ".tar")
        return digest

    def image(self, names, layers, **config):
        digests = [self.layer(path) for path in layers]
        text = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], **config},
                           "rootfs": {"type": "layers", "diff_ids": ["sha256:" + d for d in digests]}, "history": [{"created_by": "kubelab"} for _ in digests]}).encode()
        name = hashlib.sha256(text).hexdigest() + ".json"
        self.add_bytes(name, text)
        self.manifest.append({"Config": name, "RepoTags": names, "Layers": [self.layers[d] for d in digests]})

    def close(self):
        self.add_bytes("manifest.json", json.dumps(self.manifest).encode())
        self.tar.close()


def tar_of(path, files):
    """A layer of {name in the image: file or folder here}, all owned by root."""
    def owned(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info
    with tarfile.open(path, "w") as tar:
        for name, source in files.items():
            tar.add(source, arcname=name, filter=owned)
    return path


def build(cache, work, pause):
    """All images of the laboratory in one file: meridian:0.1.0 and its successor 0.1.1, training:1, pause."""
    below, out = base(cache), os.path.join(work, "out")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr", "--strip"], env=dict(os.environ, DESTDIR=out), check=True, stdout=subprocess.DEVNULL)
    ours = tar_of(os.path.join(work, "meridian.tar"), {"usr": os.path.join(out, "usr")})
    train = tar_of(os.path.join(work, "training.tar"), {"opt/train_loop": os.path.join(BUILD, "bin/train_loop"), "opt/simnrt": os.path.join(BUILD, "lib/simnrt")})
    rest = tar_of(os.path.join(work, "pause.tar"), {"pause": pause})
    path = os.path.join(work, "images.tar")
    archive = Archive(path)
    archive.image(["meridian:0.1.0"], [below, ours], User="10001:10001", Cmd=["/usr/bin/meridian", "--help"])
    archive.image(["meridian:0.1.1"], [below, ours], User="10001:10001", Cmd=["/usr/bin/meridian", "--help"], Labels={"of": "the rolling update"})
    archive.image(["training:1"], [below, train], Cmd=["/opt/train_loop", "--help"])
    archive.image(["localhost/pause:1"], [rest], Entrypoint=["/pause"])
    archive.close()
    return path
