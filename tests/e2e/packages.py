"""The Debian packages. `files`: each file that `make install` brings is in one package, and in one only (without building any).
`built`: scripts/deb.sh builds them (or MERIDIAN_DEBS names a folder that has them); lintian has nothing to say; a build in another
folder, under another umask, time zone and language, is equal in every byte; and in an overlay of this machine's files, with a
systemctl that only notes what it is asked, installing starts and enables nothing, an upgrade keeps what the administrator wrote and
restarts only what runs, and removing keeps the settings and the sessions."""
import fnmatch
import glob
import os
import shutil
import subprocess
import sys

from lib import BUILD, SOURCE, check, equal, files_of, finish, skip, tmp
from machine import Machine, do, own_mounts

PACKAGES = ("libmeridian-dev", "libmeridian0", "meridian", "meridian-agent", "meridian-aggregator", "python3-meridian")
MULTIARCH = "x86_64-linux-gnu"


# ---- Which package has which file ----

def patterns():
    found = {}
    for path in glob.glob(os.path.join(SOURCE, "deploy/debian/*.install")):
        with open(path) as f:
            found[os.path.basename(path)[:-len(".install")]] = f.read().split()
    return found


def files():
    stage = tmp()
    do("cmake", "--install", BUILD, "--prefix", "/usr", env={**os.environ, "DESTDIR": stage})
    with open(os.path.join(SOURCE, "deploy/debian/control")) as f:
        named = [line.split()[1] for line in f if line.startswith("Package:")]
    equal(tuple(sorted(named)), PACKAGES, "packages in control")
    owners = patterns()
    equal(tuple(sorted(owners)), PACKAGES, "packages with a list of files")
    used = set()
    for at, _, names in os.walk(stage):
        for name in names:
            # where the packages have what `make install` puts into lib
            path = os.path.relpath(os.path.join(at, name), stage).replace("usr/lib/systemd", "lib/systemd").replace(
                "usr/lib/meridian/python/", "usr/lib/python3/dist-packages/")
            if path.startswith(("usr/lib/libmeridian", "usr/lib/pkgconfig")):
                path = path.replace("usr/lib/", f"usr/lib/{MULTIARCH}/")
            if path == "usr/share/doc/meridian/LICENSE":  # copyright
                continue
            hits = [(p, pattern) for p, all_ in owners.items() for pattern in all_ if fnmatch.fnmatch(path, pattern) or path.startswith(pattern + "/")
                    or any(fnmatch.fnmatch(path[:len(path) - len(rest)], pattern) for rest in ["/" + path.rsplit("/", 1)[1]])]
            equal(len({p for p, _ in hits}), 1, f"packages that have {path} ({hits})")
            used |= set(hits)
    for p, all_ in owners.items():
        for pattern in all_:
            check((p, pattern) in used or pattern.startswith("etc/meridian/"), f"{p}.install: nothing is {pattern}")


# ---- Built ----

def debs(folder):
    return sorted((p for p in glob.glob(os.path.join(folder, "*.deb")) if "-dbgsym_" not in p), key=lambda p: os.path.basename(p).split("_")[0])


def build():
    if os.environ.get("MERIDIAN_DEBS"):
        return os.path.abspath(os.environ["MERIDIAN_DEBS"])
    out = os.path.join(tmp(), "out")
    do(os.path.join(SOURCE, "scripts/deb.sh"), out)
    return out


def lintian(folder):
    if not shutil.which("lintian"):
        print("skipped: lintian is not installed: what it says of the packages is not known")
        return
    said = do("lintian", "--fail-on", "error,warning", *debs(folder))
    equal([line for line in said.splitlines() if line[:2] in ("E:", "W:")], [], "lintian")


def again(folder):
    """Nothing of the place, time and person that built it is in a package."""
    if os.environ.get("MERIDIAN_DEBS"):
        print("skipped: the second build: MERIDIAN_DEBS names packages of another run")
        return
    other = os.path.join(tmp(), "somewhere", "else")
    p = subprocess.run(["sh", "-c", 'umask 077; exec "$0" "$1"', os.path.join(SOURCE, "scripts/deb.sh"), other], capture_output=True, text=True, timeout=1500,
                       env={**os.environ, "TZ": "Asia/Tokyo", "LANG": "C", "LC_ALL": "C", "USER": "other", "CCACHE_DISABLE": "1"})
    check(p.returncode == 0, f"the second build: {p.stderr[-1000:]}")
    sums = [{n: h for n, h in files_of(f).items() if n.endswith(".deb")} for f in (folder, other)]
    check(len(sums[0]) >= len(PACKAGES), f"packages: {sorted(sums[0])}")
    equal([n for n in sums[0] if sums[1].get(n) != sums[0][n]], [], "packages that differ in a second build")


# ---- Installed, in a copy of this machine's files ----

def dpkg(m, *command):
    """Runs dpkg; returns what systemctl was asked to do meanwhile."""
    m.asked()
    m.do("dpkg", *command)
    return m.asked()


def take(m, folder):
    """Copies packages into the machine; returns their paths there."""
    inside = "/run/" + os.path.basename(folder)
    shutil.copytree(folder, m.path(inside[1:]), ignore=lambda _, names: [n for n in names if not n.endswith(".deb") or "-dbgsym_" in n])
    return sorted(inside + "/" + n for n in os.listdir(m.path(inside[1:])))


def next_version(folder, other_settings):
    """The packages as a later release would have them, with other settings as shipped or the same."""
    out = tmp()
    for path in debs(folder):
        tree = os.path.join(out, "tree")
        do("dpkg-deb", "-R", path, tree)
        control = os.path.join(tree, "DEBIAN/control")
        with open(control) as f:
            text = f.read()
        version = [line for line in text.splitlines() if line.startswith("Version: ")][0].split()[1]
        later = version + ("+2" if other_settings else "+1")
        with open(control, "w") as f:
            f.write(text.replace("Version: " + version, "Version: " + later).replace(f"(= {version})", f"(= {later})"))
        for env in glob.glob(os.path.join(tree, "etc/meridian/*.env")) if other_settings else []:
            with open(env, "a") as f:
                f.write("#MERIDIAN_NEW_SETTING=1\n")
        do("dpkg-deb", "--root-owner-group", "-b", tree, os.path.join(out, os.path.basename(path)))
        shutil.rmtree(tree)
    return out


def lives(folder):
    m = Machine()
    try:
        asked = dpkg(m, "-i", *take(m, folder))
        equal([a for a in asked if "start" in a or "enable" in a], [], "what an installation starts or enables")
        status = m.do("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *PACKAGES).split()
        equal(status[1::2], ["installed"] * len(PACKAGES), f"{status}")
        equal(m.do("id", "-gn", "meridian").strip(), "meridian", "the daemons' user")
        for name in ("meridian", "meridian-agent", "meridian-aggregator"):
            check(" " in m.do("/usr/bin/" + name, "--version"), f"{name} runs")
        equal(m.do("/usr/bin/python3", "-c", "import meridian, meridian_data; print(meridian.available(), len(meridian_data._shipped('losses')) > 9)").strip(), "True True",
              "the Python modules find the library and the queries")
        check("library" in m.do("/usr/bin/meridian", "inspect", "--help"), "inspect")
        m.do("/usr/bin/meridian", "inspect", "-o", "/run/out", "--", "/usr/lib/meridian/train_loop", "--ranks", "1", "--cores", "2", "--steps", "3")
        check("nc_exec_running" in m.read("run/out/summary.txt"), "a recording by what is installed")
        # What the administrator wrote survives: the same settings as shipped, other settings, removal.
        mine = "MERIDIAN_AGGREGATOR=tls+tcp://mine:7770\n"
        m.write("etc/meridian/agent.env", mine)
        m.write("etc/meridian/aggregator.env", mine)
        m.write("run/active/meridian-agent.service", "")
        asked = dpkg(m, "-i", *take(m, next_version(folder, False)))
        equal([a for a in asked if "restart" in a and "meridian-agent.service" in a] != [], True, f"the agent, which runs, is restarted: {asked}")
        bad = [a for a in asked if "enable" in a.split() or ("start" in a.split()) or ("restart" in a.split() and "meridian-aggregator.service" in a)]
        equal(bad, [], "what does not run is not started")
        equal((m.read("etc/meridian/agent.env"), m.read("etc/meridian/aggregator.env")), (mine, mine), "settings after an upgrade")
        dpkg(m, "--force-confdef", "--force-confold", "-i", *take(m, next_version(folder, True)))
        equal((m.read("etc/meridian/agent.env"), m.read("etc/meridian/aggregator.env")), (mine, mine), "settings after an upgrade with other settings")
        check("NEW_SETTING" in m.read("etc/meridian/agent.env.dpkg-dist"), "the shipped settings stand beside them")
        os.makedirs(m.path("var/lib/meridian/sessions"))
        m.write("var/lib/meridian/sessions/one", "a session")
        asked = dpkg(m, "-r", *PACKAGES)
        check(any("stop" in a and "meridian-agent.service" in a for a in asked), f"a removal ends the agent: {asked}")
        equal(m.read("etc/meridian/agent.env"), mine, "settings after a removal")
        dpkg(m, "-P", "meridian-agent", "meridian-aggregator")
        check(not os.path.exists(m.path("etc/meridian/agent.env")), "a purge removes the settings")
        equal(m.read("var/lib/meridian/sessions/one"), "a session", "and no session")
    finally:
        m.close()


def built():
    for need in ("dpkg-buildpackage", "dh"):
        if not shutil.which(need):
            skip(f"{need} is not installed: apt-get install build-essential debhelper")
    folder = build()
    equal([os.path.basename(p).split("_")[0] for p in debs(folder)], list(PACKAGES), "packages")
    lintian(folder)
    again(folder)
    if os.geteuid() != 0:
        print("skipped: installing them: an overlay needs root")
        return
    lives(folder)


if sys.argv[1:] == ["files"]:
    files()
else:
    own_mounts()
    built()
finish()
