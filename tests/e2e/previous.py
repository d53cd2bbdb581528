"""Builds the previous release from this repository's history, once, in a directory that remains
when the build tree is removed (MERIDIAN_PREVIOUS_DIR, else ~/.cache/meridian/previous). As a script
it builds. Tests use Release()."""
import fcntl
import os
import re
import shutil
import subprocess
import sys

from lib import SOURCE, finish, skip

WANTED = ("bin/meridian", "bin/meridian-agent", "bin/meridian-aggregator", "lib/libmeridian.so", "python/meridian.py")


def git(*args, **more):
    return subprocess.run(["git", "-C", SOURCE, *args], capture_output=True, **more)


def named():
    """The commit of tests/e2e/previous_release.txt, in full; skips where this repository does not have it."""
    with open(os.path.join(SOURCE, "tests/e2e/previous_release.txt")) as f:
        name = [line.strip() for line in f if line.strip() and not line.startswith("#")][0]
    if not shutil.which("git") or git("rev-parse", "--git-dir").returncode != 0:
        skip("this is no git repository (or git is not installed): the previous release cannot be built")
    found = git("rev-parse", "--verify", "--quiet", name + "^{commit}", text=True).stdout.strip()
    if not found:
        skip(f"the history here ends before the previous release, {name[:12]} (a shallow clone?): git fetch --unshallow")
    return found


class Release:
    def __init__(self, root, commit):
        self.root, self.commit = root, commit
        self.programs = os.path.join(root, "bin")
        # Its library and its Python module, for a workload.
        self.workload = {"MERIDIAN_LIBRARY": os.path.join(root, "lib/libmeridian.so"), "PYTHONPATH": os.path.join(root, "python")}


def cache():
    return os.environ.get("MERIDIAN_PREVIOUS_DIR") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "meridian/previous")


def build(commit, root):
    """Into root + ".part", renamed when all of it is there, so that an interrupted build is begun again."""
    part = root + ".part"
    shutil.rmtree(part, ignore_errors=True)
    source, tree = os.path.join(part, "source"), os.path.join(part, "build")
    os.makedirs(source)
    archive = git("archive", commit)
    subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    env = {k: v for k, v in os.environ.items() if k not in ("CFLAGS", "CXXFLAGS", "LDFLAGS", "CC", "CXX")}
    env["MERIDIAN_COMMIT"] = commit[:12]
    for step in (["cmake", "-S", source, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
                 ["nice", "cmake", "--build", tree, "-j", str(max(1, (os.cpu_count() or 1) // 2)), "--target", "meridian", "meridian_program",
                  "meridian-agent_program", "meridian-aggregator_program"]):
        p = subprocess.run(step, capture_output=True, text=True, env=env)
        missing = re.search("Package '(\\S+)'.* not found", p.stdout + p.stderr)
        if p.returncode != 0 and missing:
            skip(f"the previous release {commit[:12]} needs the package {missing[1]}: scripts/setup.sh test")
        if p.returncode != 0:
            print(p.stdout[-4000:], p.stderr[-2000:])
            sys.exit(f"the previous release {commit[:12]} does not build: {' '.join(step)}")
    for path in WANTED:
        from_ = source if path.startswith("python/") else tree
        os.makedirs(os.path.dirname(os.path.join(part, path)), exist_ok=True)
        shutil.copy(os.path.join(from_, path), os.path.join(part, path))
    shutil.rmtree(source)
    shutil.rmtree(tree)
    os.rename(part, root)


def previous():
    commit = named()
    root = os.path.join(cache(), commit)
    os.makedirs(cache(), exist_ok=True)
    with open(root + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(os.path.exists(os.path.join(root, path)) for path in WANTED):
            shutil.rmtree(root, ignore_errors=True)
            build(commit, root)
    return Release(root, commit)


if __name__ == "__main__":
    release = previous()
    for name in ("meridian", "meridian-agent", "meridian-aggregator"):
        said = subprocess.run([os.path.join(release.programs, name), "--version"], capture_output=True, text=True, timeout=60).stdout
        print(said.strip())
        if release.commit[:12] not in said:
            sys.exit(f"{name} --version does not name its commit {release.commit[:12]}: {said}")
    finish()
