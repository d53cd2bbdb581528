"""deploy/slurm/install.sh in an overlay of this machine's files, with a systemctl and a systemd-run that only note what they are asked:
what an administrator wrote stays, the store and the spool may be elsewhere, an upgrade replaces files and never writes into them, the
doctor runs with the unit's properties, and what was installed can be removed. The aggregator is started with what its unit says."""
import http.client
import os
import re
import ssl
import subprocess

from lib import BUILD, SOURCE, built_with, check, equal, files_of, finish, free_port, need_daemons, skip
from machine import Machine, do, own_mounts
from wait import within

PREFIX = "/fsx/meridian"
URL = "tls+tcp://headnode:7770"
SYSTEMD_RUN = """#!/bin/sh
printf '%s\\n' "$@" >/run/systemd-run.log
"""


def install(m, *args, want=0, env=()):
    """Runs install.sh; returns what it said and what systemctl was asked."""
    m.asked()
    p = subprocess.run(["chroot", m.root, "env", "LC_ALL=C", *env, "/bin/sh", f"{PREFIX}/share/meridian/deploy/slurm/install.sh", *args], capture_output=True,
                       text=True, timeout=300, stdin=subprocess.DEVNULL)
    check(p.returncode == want, f"install.sh {' '.join(args)}: exit status {p.returncode}: {p.stdout[-500:]}{p.stderr[-1000:]}")
    return p.stdout + p.stderr, m.asked()


def settings(text):
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z_]+=", line))


def unit(m, name):
    """The lines of the [Service] section."""
    text = m.read(f"etc/systemd/system/{name}.service")
    return [line for line in text.split("\n[Service]\n")[1].split("\n[Install]\n")[0].splitlines() if re.match(r"\w+=", line)]


def as_unit(m, name):
    """The environment that systemd gives the unit's program: the unit's own, then the administrator's file."""
    own = [line.split("=", 1)[1].replace("%S", "/var/lib") for line in unit(m, name) if line.startswith("Environment=")]
    return {**settings("\n".join(own)), **settings(m.read(f"etc/meridian/{name.split('-')[1]}.env"))}


def serves(m):
    """The aggregator with what its unit says: it answers, and its sessions are where MERIDIAN_STORE says."""
    env = as_unit(m, "meridian-aggregator")
    p = subprocess.Popen(["chroot", m.root, "runuser", "-u", "meridian", "--", "env", "-i", *(f"{k}={v}" for k, v in env.items()), "/usr/bin/meridian-aggregator"],
                         stderr=subprocess.PIPE, text=True)
    tls = ssl.create_default_context(cafile=m.path("etc/meridian/ca.pem"))
    host, port = env["MERIDIAN_HTTP_LISTEN"].rsplit(":", 1)

    def healthy():
        try:
            c = http.client.HTTPSConnection(host, int(port), timeout=5, context=tls)
            c.request("GET", "/healthz")
            return c.getresponse().status == 200
        except OSError:
            return False

    try:
        up = within(60, lambda: healthy() or p.poll() is not None) and p.poll() is None
        if check(up, "the aggregator answers with the settings of its unit"):
            check(os.listdir(m.path(env["MERIDIAN_STORE"][1:])), "it keeps its state in MERIDIAN_STORE")
            check(not os.path.exists(m.path("var/lib/meridian")) or not os.listdir(m.path("var/lib/meridian")), "and not in the unit's own folder")
    finally:
        p.terminate()
        _, err = p.communicate(timeout=60)
        if not up:
            print(err[-2000:])


def aggregator(m):
    os.makedirs(m.path("opt/slurm/etc/scripts"))
    m.write(PREFIX[1:] + "/slurm.env", "MERIDIAN_OWNER_DIR=/fsx/owner\n")
    _, asked = install(m, "aggregator", PREFIX, env=["MERIDIAN_STORE=/fsx/store"])
    equal(m.read("etc/meridian/slurm.env"), "MERIDIAN_OWNER_DIR=/fsx/owner\n", "the hooks' settings are the site's")
    check('"/fsx/owner/{uid}"' in m.read("etc/meridian/client.json"), "and `meridian` finds the tokens there")
    equal(asked, ["enable meridian-aggregator.service", "restart meridian-aggregator.service"], "what systemctl is asked")
    got = settings(m.read("etc/meridian/aggregator.env"))
    equal((got.get("MERIDIAN_STORE"), got.get("MERIDIAN_TOKENS")), ("/fsx/store", "/etc/meridian/tokens.json"), "settings")
    equal(os.stat(m.path("etc/meridian/tokens.json")).st_mode & 0o777, 0o400, "mode of the tokens")
    st = os.stat(m.path("fsx/store"))
    equal((st.st_mode & 0o777, st.st_uid), (0o700, int(m.do("id", "-u", "meridian"))), "mode and owner of the store")
    check("\nReadWritePaths=/fsx/store\n" in m.read("etc/systemd/system/meridian-aggregator.service.d/10-folder.conf"), "the unit may write to the store")
    for hook in ("prolog.d/50_meridian.sh", "epilog.d/50_meridian.sh", "meridian_task_prolog.sh"):
        check(os.access(m.path("opt/slurm/etc/scripts/" + hook), os.X_OK), f"{hook} is there")
    # The administrator's settings: other ports, plain control, a line that is commented out, one of their own, a blank one.
    ports = [free_port() for _ in range(4)]
    text = m.read("etc/meridian/aggregator.env")
    for name, value in (("DATA_LISTEN", f"tls+tcp://127.0.0.1:{ports[0]}"), ("CONTROL_LISTEN", f"tls+tcp://127.0.0.1:{ports[1]}"), ("HTTP_LISTEN", f"127.0.0.1:{ports[2]}")):
        text = re.sub(rf"(?m)^MERIDIAN_{name}=.*", f"MERIDIAN_{name}={value}", text)
    text = re.sub(r"(?m)^(MERIDIAN_HTTP_KEY)", r"# not: \n#\1", text).replace("#MERIDIAN_HTTP_KEY", "# MERIDIAN_HTTP_KEY")
    text += f"\nMERIDIAN_HTTP_KEY=/etc/meridian/aggregator.key\nMERIDIAN_TIME_PORT={ports[3]}\n"
    m.write("etc/meridian/aggregator.env", text)
    client = '{"server": "https://127.0.0.1:%d"}\n' % ports[2]
    m.write("etc/meridian/client.json", client)
    m.write("etc/meridian/slurm.env", "MERIDIAN_OWNER_DIR=/fsx/mine\n")
    said, asked = install(m, "aggregator", PREFIX, "/fsx/elsewhere")
    equal(m.read("etc/meridian/slurm.env"), "MERIDIAN_OWNER_DIR=/fsx/mine\n", "settings of the hooks that are this node's stay")
    equal(m.read("etc/meridian/aggregator.env"), text, "settings after the second time, with another store")
    equal(m.read("etc/meridian/client.json"), client, "client.json, which was changed")
    check("client.json was changed" in said, f"and it says so: {said}")
    check("restart meridian-aggregator.service" in asked, f"it is restarted: {asked}")
    check("upgraded" not in said, "the same build is no upgrade")
    serves(m)
    m.write("etc/meridian/aggregator.env", text.replace("/fsx/store", "/home/me/store"))
    said, asked = install(m, "aggregator", PREFIX, want=1)
    check("ProtectHome" in said and asked == [], f"a store that the unit cannot see is refused: {said} {asked}")
    m.write("etc/meridian/aggregator.env", text)


def agent(m):
    said, asked = install(m, "agent", PREFIX, want=1)
    check("address is missing" in said and asked == [], f"without an address: {said}")
    _, asked = install(m, "agent", PREFIX, URL)
    equal(asked, ["enable meridian-agent.service", "restart meridian-agent.service"], "what systemctl is asked")
    env = m.read("etc/meridian/agent.env")
    equal(settings(env), {"MERIDIAN_AGGREGATOR": URL, "MERIDIAN_TLS_CA": "/etc/meridian/ca.pem", "MERIDIAN_TOKEN_FILE": "/etc/meridian/agent.token"}, "settings")
    check('"https://127.0.0.1' in m.read("etc/meridian/client.json"), "the changed client.json stays here, too")
    # doctor as the unit runs
    words = m.read("run/systemd-run.log").splitlines()
    given = [b for a, b in zip(words, words[1:]) if a == "-p"]
    skipped = re.compile(r"Exec|Type=|Restart|KillSignal=|TimeoutStopSec=")
    equal(given, [line.replace("%S", "/var/lib") for line in unit(m, "meridian-agent") if not skipped.match(line)], "properties of the doctor, and of the unit")
    check("EnvironmentFile=-/etc/meridian/agent.env" in given and any(g.startswith("AmbientCapabilities=CAP_SYS_PTRACE") for g in given), f"{given}")
    equal(words[-3:], ["/usr/bin/meridian", "doctor", "--quiet"], "what is run")
    # An upgrade: the address of the command line, the rest as the administrator left it.
    m.write("etc/meridian/agent.env", "# mine\n#MERIDIAN_TLS_CA=/etc/meridian/ca.pem\n" + env.replace("MERIDIAN_TLS_CA=", "MERIDIAN_SPOOL_SIZE=1G\nMERIDIAN_SPOOL_DIR=/fsx/spool #")
            .replace(" #/etc/meridian/ca.pem", ""))
    os.rename(m.path("usr/bin/meridian-agent"), m.path("usr/bin/old"))
    m.write("usr/bin/meridian-agent", "#!/bin/sh\necho meridian-agent 0.0.1\n")
    os.chmod(m.path("usr/bin/meridian-agent"), 0o755)
    with open(m.path("usr/lib/libmeridian.so"), "rb") as mapped:
        said, _ = install(m, "agent", PREFIX, "tls+tcp://other:7770")
        check(os.fstat(mapped.fileno()).st_nlink == 0, "a process that has the library mapped keeps the old file")
    check(f"was {URL} and is tls+tcp://other:7770 now" in said and "upgraded from meridian-agent 0.0.1 to" in said, f"it says so: {said}")
    text = m.read("etc/meridian/agent.env")
    equal(settings(text), {"MERIDIAN_AGGREGATOR": "tls+tcp://other:7770", "MERIDIAN_TOKEN_FILE": "/etc/meridian/agent.token", "MERIDIAN_SPOOL_SIZE": "1G",
                           "MERIDIAN_SPOOL_DIR": "/fsx/spool"}, "settings after the upgrade; what was commented out stays so")
    check(text.startswith("# mine\n#MERIDIAN_TLS_CA="), f"comments stay: {text}")
    check("ReadWritePaths=/fsx/spool" in m.read("etc/systemd/system/meridian-agent.service.d/10-folder.conf"), "the unit may write to the spool")
    check("ReadWritePaths=/fsx/spool" in m.read("run/systemd-run.log").splitlines(), "and so may the doctor")
    # An invitation of this node takes the place of the token in new settings.
    id = re.match(r"node (\S+) ", m.do(PREFIX + "/bin/meridian-agent", "--check")).group(1)
    m.write(PREFIX[1:] + f"/secrets/join-{id}.token", "0" * 64 + "\n")
    os.unlink(m.path("etc/meridian/agent.env"))
    install(m, "agent", PREFIX, URL)
    equal(settings(m.read("etc/meridian/agent.env")), {"MERIDIAN_AGGREGATOR": URL, "MERIDIAN_TLS_CA": "/etc/meridian/ca.pem", "MERIDIAN_JOIN_TOKEN_FILE": "/etc/meridian/join.token"}, "settings with an invitation")
    st = os.stat(m.path("etc/meridian/join.token"))
    equal((st.st_mode & 0o777, st.st_uid), (0o400, int(m.do("id", "-u", "meridian"))), "mode and owner of the invitation")
    os.unlink(m.path(PREFIX[1:] + f"/secrets/join-{id}.token"))
    m.write("etc/meridian/agent.env", text)


def refused(m):
    """What cannot run replaces nothing; what a package brought is the package's."""
    before = os.stat(m.path("usr/bin/meridian-agent")).st_ino
    os.rename(m.path(PREFIX[1:] + "/bin/meridian-agent"), m.path(PREFIX[1:] + "/bin/kept"))
    m.write(PREFIX[1:] + "/bin/meridian-agent", "#!/bin/sh\nexit 1\n")
    os.chmod(m.path(PREFIX[1:] + "/bin/meridian-agent"), 0o755)
    said, asked = install(m, "agent", PREFIX, URL, want=1)
    check("does not run" in said and asked == [], f"{said} {asked}")
    equal(os.stat(m.path("usr/bin/meridian-agent")).st_ino, before, "the program that was there is still there")
    os.rename(m.path(PREFIX[1:] + "/bin/kept"), m.path(PREFIX[1:] + "/bin/meridian-agent"))
    listing = "var/lib/dpkg/info/hostname.list"
    if os.path.exists(m.path(listing)):
        text = m.read(listing)
        m.write(listing, text + "/usr/bin/meridian\n")
        for args in (("agent", PREFIX, URL), ("uninstall",)):
            said, asked = install(m, *args, want=1)
            check("belongs to a package" in said and asked == [], f"{args}: {said}")
        m.write(listing, text)


def uninstall(m):
    m.write("fsx/store/kept", "a session")
    # On a compute node: the hooks, which all nodes share, stay.
    hooks = [m.path("opt/slurm/etc/scripts/" + n) for n in ("prolog.d/50_meridian.sh", "epilog.d/50_meridian.sh", "meridian_task_prolog.sh")]
    aggregator_unit = m.path("etc/systemd/system/meridian-aggregator.service")
    os.rename(aggregator_unit, m.path("etc/systemd/system/kept"))
    install(m, "uninstall")
    equal([os.path.exists(h) for h in hooks], [True] * 3, "the cluster's hooks after a compute node's removal")
    install(m, "agent", PREFIX, URL)
    os.rename(m.path("etc/systemd/system/kept"), aggregator_unit)
    m.write("usr/bin/of-others", "another program")
    said, asked = install(m, "uninstall")
    check("nothing is installed" not in said, f"the first removal: {said}")
    equal([os.path.exists(h) for h in hooks], [False, False, True], "the hooks after the head node's")
    # A TaskProlog that is named and not there fails every task.
    p = subprocess.run([hooks[2]], env={"MERIDIAN_CAPTURE": "all"}, capture_output=True, text=True, timeout=60)
    check((p.returncode, p.stdout) == (0, "") and "take TaskProlog out of slurm.conf" in said, f"the TaskProlog that stays: {p}: {said}")
    equal(asked, ["disable --now meridian-agent.service", "disable --now meridian-aggregator.service"], "what systemctl is asked")
    left = [n for n in ("usr/bin/meridian", "usr/bin/meridian-agent", "usr/bin/meridian-aggregator", "usr/lib/libmeridian.so", "etc/systemd/system/meridian-agent.service",
                        "etc/systemd/system/meridian-agent.service.d", "etc/systemd/system/meridian-aggregator.service.d")
            if os.path.lexists(m.path(n))]
    equal(left, [], "what is left")
    check("MERIDIAN_SPOOL_SIZE=1G" in m.read("etc/meridian/agent.env"), "settings stay")
    settings_left = files_of(m.path("etc/meridian"))
    said, asked = install(m, "uninstall")
    check("nothing is installed on this machine" in said, f"a second removal says so: {said}")
    equal((asked, files_of(m.path("etc/meridian"))), ([], settings_left), "a second removal asks systemctl for nothing and keeps the settings")
    equal(m.read("usr/bin/of-others"), "another program", "what others put beside it")
    os.makedirs(m.path("run/meridian/owner"))
    m.write("run/meridian/owner/1000", "0" * 64 + "\n")
    install(m, "uninstall", "purge")
    equal([os.path.exists(m.path(at)) for at in ("etc/meridian", "run/meridian")], [False, False], "and go with purge, as do the owners' tokens")
    equal(m.read("fsx/store/kept"), "a session", "sessions stay")
    install(m, "uninstall", "everything", want=1)


need_daemons()
if built_with(os.path.join(BUILD, "bin", "meridian"), "asan", "tsan"):
    skip("what is built with a sanitizer is not installed")
if not own_mounts():
    skip("an overlay of this machine's files needs root")
m = Machine()
try:
    do("cmake", "--install", BUILD, "--prefix", m.path(PREFIX[1:]))
    m.write("usr/bin/systemd-run", SYSTEMD_RUN)
    os.chmod(m.path("usr/bin/systemd-run"), 0o755)
    m.do(f"{PREFIX}/bin/meridian", "certs", "init", "-d", f"{PREFIX}/secrets", "--host", "headnode,127.0.0.1")
    aggregator(m)
    agent(m)
    refused(m)
    uninstall(m)
finally:
    m.close()
finish()
