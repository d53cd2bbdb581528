"""Tests `make install`: which files it installs, that the programs run from there and after the
directory was moved, and that the systemd units name the installed programs. The test installs the
present build into its own directories."""
import os
import re
import shutil
import subprocess
import sys

from lib import BUILD, SOURCE, built_with, check, equal, files_of, finish, need_daemons, tmp

DAEMONS = ("meridian-agent", "meridian-aggregator")
PROGRAMS = ("meridian", *DAEMONS, "meridian-webhook")


def out(*command, env=None, cwd="/", want=0):
    p = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, env={**os.environ, **(env or {})})
    check(p.returncode == want, f"{' '.join(command)}: exit status {p.returncode}: {p.stdout[-300:]}{p.stderr[-600:]}")
    return p.stdout


def install(prefix, destdir=""):
    out("cmake", "--install", BUILD, "--prefix", prefix, env={"DESTDIR": destdir})
    return destdir + prefix


def names_below(folder):
    return {os.path.relpath(os.path.join(at, n), folder) for at, _, names in os.walk(folder) for n in names}


def versions(root):
    text = out(os.path.join(root, "bin", "meridian"), "--version").split(" ", 1)
    check(re.match(r"\d+\.\d+\.\d+", text[1]), f"meridian --version: {text}")
    for name in PROGRAMS[1:]:
        equal(out(os.path.join(root, "bin", name), "--version").split(" ", 1)[1], text[1], f"{name} --version")


def complete(root):
    """Every kind of file is there, and none of the build tree's or the tests'."""
    there = names_below(root)
    command = [w for w in out(os.path.join(root, "bin", "meridian"), "--help=options").split() if not w.startswith("-")]
    pages = {f"share/man/man1/{n}.1" for n in [*PROGRAMS, *("meridian-" + c for c in command)]}
    equal({n for n in there if n.startswith("share/man")}, pages, "manual pages")
    equal({n for n in there if n.startswith("bin/")}, {"bin/" + n for n in PROGRAMS}, "programs")
    wanted = {"include/meridian.h", "lib/libmeridian.so", "lib/libmeridian.so.0", "lib/pkgconfig/meridian.pc", "lib/pkgconfig/meridian-nrt.pc",
              "lib/meridian/python/meridian.py", "lib/meridian/python/meridian_data.py",
              "lib/meridian/train_loop", "lib/meridian/simnrt/libnrt.so.1", "lib/meridian/simnrt/libsimclock.so",
              "share/doc/meridian/README.md", "share/doc/meridian/LICENSE", "share/doc/meridian/docs/dev/additions.md"}
    wanted |= {f"lib/systemd/system/{n}.service" for n in DAEMONS}
    wanted |= {f"share/bash-completion/completions/{n}" for n in PROGRAMS}
    equal(sorted(wanted - there), [], "files that are missing")
    for folder in ("deploy", "sql"):
        tracked = subprocess.run(["git", "-C", SOURCE, "ls-files", folder], capture_output=True, text=True).stdout.split()
        tracked = {n for n in tracked if not n.startswith("deploy/debian/")}
        if tracked:  # a source archive has no list
            equal(sorted(tracked - {n[len("share/meridian/"):] for n in there}), [], f"{folder}/ of the repository")
    check(os.access(os.path.join(root, "share/meridian/deploy/slurm/install.sh"), os.X_OK), "install.sh can be run")
    for path in sorted(there):
        with open(os.path.join(root, path), "rb") as f:
            text = f.read() if re.search(r"\.(pc|service|sh|md|yaml)$|share/man/", path) else b""
        check(BUILD.encode() not in text and SOURCE.encode() not in text, f"{path} names the folder it was built in")
    programs = [os.path.join(root, n) for n in there if re.search(r"^bin/|\.so(\.|$)|train_loop$", n)]
    names = re.findall(r"DW_AT_(?:comp_dir|name) .*: (/\S*)", out("readelf", "--debug-dump=info", *programs))
    equal(sorted(n for n in set(names) if not n.startswith("/usr/"))[:5], [], "folders of the build in debug information")


def units(root, prefix):
    for name in DAEMONS:
        with open(os.path.join(root, "lib/systemd/system", name + ".service")) as f:
            text = f.read()
        equal(re.findall(r"(?m)^ExecStart=(\S+)", text), [f"{prefix}/bin/{name}"], f"{name}: what the unit starts")
        if root == prefix and shutil.which("systemd-analyze"):  # here the program it names exists
            p = subprocess.run(["systemd-analyze", "verify", "--man=no", os.path.join(root, "lib/systemd/system", name + ".service")],
                               capture_output=True, text=True, timeout=60)
            mine = [line for line in p.stderr.splitlines() if name in line]
            equal(mine, [], f"{name}: what systemd-analyze says")


def annotated(root):
    """A program compiled by what pkg-config says of the installed library runs, and so does one in Python."""
    work = tmp()
    if shutil.which("pkg-config") and shutil.which("cc"):
        with open(os.path.join(work, "a.c"), "w") as f:
            f.write("#include <meridian.h>\n#include <stdio.h>\nint main(void) { puts(mrd_version()); return 0; }\n")
        flags = out("pkg-config", "--cflags", "--libs", "meridian", env={"PKG_CONFIG_PATH": os.path.join(root, "lib/pkgconfig")}).split()
        check(f"-L{root}/lib" in [os.path.normpath(f) if f.startswith("/") else f[:2] + os.path.normpath(f[2:]) for f in flags], f"flags: {flags}")
        out("cc", "-o", os.path.join(work, "a"), os.path.join(work, "a.c"), *flags)
        said = out(os.path.join(work, "a"), env={"LD_LIBRARY_PATH": os.path.join(root, "lib")}).strip()
        check(re.fullmatch(r"\d+\.\d+\.\d+", said), f"mrd_version(): {said!r}")
    env = {"PYTHONPATH": os.path.join(root, "lib/meridian/python"), "LD_LIBRARY_PATH": os.path.join(root, "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    said = out(sys.executable, "-c", "import meridian, meridian_data\n"
               "print(meridian.available(), len(meridian_data._shipped('losses')) > 100)", env=env, cwd=work)
    equal(said, "True True\n", "the Python modules find the library and the shipped queries")


def recorded(root):
    """`meridian inspect` and the simulated workload of the demonstration, both as installed."""
    work = tmp()
    out(os.path.join(root, "bin/meridian"), "inspect", "-o", os.path.join(work, "out"), "--", os.path.join(root, "lib/meridian/train_loop"),
        "--ranks", "1", "--cores", "2", "--steps", "3", cwd=work)
    with open(os.path.join(work, "out/summary.txt")) as f:
        text = f.read()
    check(re.search(r"nc_exec_running +6 ", text), f"what was recorded: {text[:1500]}")
    check(os.path.join(root, "lib/meridian/simnrt/libnrt.so.1") in re.sub(r"\s+", " ", text), "the runtime used is the installed one")


def completes(root):
    for name in ("meridian", *DAEMONS):
        path = os.path.join(root, "share/bash-completion/completions", name)
        got = out("bash", "-c", f"source {path}; complete -p {name}")
        check("_meridian" in got, f"{path}: {got}")


need_daemons()
if built_with(os.path.join(BUILD, "bin", "meridian"), "asan", "tsan"):
    print("skipped: a library built with a sanitizer is not installed")
    sys.exit(77)
stage = tmp()
root = install("/usr", stage)
complete(root)
units(root, "/usr")
equal(os.listdir(stage), ["usr"], "folders outside of the prefix")
first = install(os.path.join(tmp(), "first"))
versions(first)
complete(first)
units(first, first)
completes(first)
before = files_of(first)
install(first)
equal(files_of(first), before, "a second time changes nothing")
moved = os.path.join(os.path.dirname(first), "moved")
os.rename(first, moved)  # a shared folder may be mounted elsewhere
versions(moved)
annotated(moved)
recorded(moved)
finish()
