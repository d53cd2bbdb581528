"""Tests meridian doctor on a node without faults, and then with each fault that it knows. Each
fault must be found and reported with its remedy."""
import json
import os
import shutil
import socket
import subprocess
import time

from lib import BIN, BUILD, Cluster, check, equal, finish, free_port, need_daemons, run, tmp, until

need_daemons()
work = tmp()
certs = os.path.join(work, "certs")
QUIET = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_", "AWS_"))}


def path(*parts):
    return os.path.join(work, *parts)


def cert(name):
    return os.path.join(certs, name)


def doctor(*args, want=None, env=None):
    """Findings by check: [(level, message, fix)]."""
    p = subprocess.run([os.path.join(BIN, "meridian"), "doctor", "--json", "--no-imds", *args], capture_output=True, text=True,
                       timeout=120, env=dict(QUIET, **(env or {})))
    if want is not None:
        equal(p.returncode, want, f"doctor {args}: exit status: {p.stderr}{p.stdout[-800:]}")
    found = {}
    for f in json.loads(p.stdout or '{"findings": []}')["findings"]:
        found.setdefault(f["check"], []).append((f["level"], f["message"], f.get("fix", "")))
    return found


def says(found, name, level, text, fix=""):
    return check(any(f[0] == level and text in f[1] and fix in f[2] for f in found.get(name, [])),
                 f"{name}: no {level} with {text!r} and {fix!r} in {found.get(name)}")


def folder(name, mode=0o700):
    os.makedirs(path(name), exist_ok=True)
    os.chmod(path(name), mode)
    return path(name)


def secret(name, text, mode=0o600):
    with open(path(name), "w") as f:
        f.write(text)
    os.chmod(path(name), mode)
    return path(name)


run("certs", "init", "-d", certs, "--host", "aggregator.example")
run("certs", "agent", "i-1", "-d", certs)
cluster = Cluster(host="127.0.0.1")
plain = cluster.data
cluster.data, cluster.control = ("tls+" + u for u in (cluster.data, cluster.control))
cluster.aggregator(tls_cert=cert("aggregator.pem"), tls_key=cert("aggregator.key"), tls_ca=cert("ca.pem"), tokens=cert("tokens.json"))
GOOD = ["--aggregator", cluster.data, "--control", cluster.control, "--instance-id", "i-1", "--tls-ca", cert("ca.pem"),
        "--tls-cert", cert("agent-i-1.pem"), "--tls-key", cert("agent-i-1.key"), "--token-file", cert("agent-i-1.token"),
        "--spool-dir", folder("spool"), "--spool-size", "8M", "--no-containers"]


def good():
    def proven():
        found = doctor(*GOOD)
        return any(f[0] == "ok" and "has proven who it is" in f[1] for f in found["aggregator"]) and found
    found = until(proven, "the aggregator listens") or {}
    says(found, "aggregator", "ok", "has proven who it is")
    says(found, "aggregator", "ok", cluster.control + " can be reached")
    says(found, "identity", "ok", "the node is i-1 (from option)")
    says(found, "tls-files", "ok", "agent-i-1.pem (i-1) is valid for 36")
    says(found, "tls-files", "ok", "ca.pem (meridian CA) is valid for 36")
    says(found, "token", "ok", "is private")
    says(found, "spool", "ok", "at most 8.39 MB are used")
    says(found, "kernel-stamps", "ok", "leave and arrive")
    says(found, "runtime-library", "ok", "libmeridian.so for workloads is " + os.path.dirname(BIN))
    check(not any(f[0] == "failed" for c in found.values() for f in c), f"nothing failed: {found}")


def aged(name, begin, end, authority):
    """A certificate of i-1 for its key, from that day to that one, with half a day more at both ends; as an authority, of itself."""
    base = folder("aged")
    day = lambda days: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + days * 86400))
    for file, value in (("index.txt", ""), ("serial", "%016x\n" % time.time_ns()), ("ext", f"basicConstraints=critical,CA:{str(authority).upper()}\n"),
                        ("conf", f"[ca]\ndefault_ca=d\n[d]\ndatabase={base}/index.txt\nserial={base}/serial\nnew_certs_dir={base}\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")):
        with open(os.path.join(base, file), "w") as f:
            f.write(value)
    by = ["-selfsign", "-keyfile", "agent-i-1.key"] if authority else ["-cert", "ca.pem", "-keyfile", "ca.key"]
    for args in (["req", "-new", "-key", "agent-i-1.key", "-subj", "/CN=i-1", "-out", os.path.join(base, "csr")],
                 ["ca", "-batch", "-notext", "-config", os.path.join(base, "conf"), *by, "-in", os.path.join(base, "csr"), "-out", name,
                  "-startdate", day(begin - 0.5), "-enddate", day(end + (0.5 if end > 0 else -0.5)), "-extfile", os.path.join(base, "ext")]):
        p = subprocess.run(["openssl", *args], cwd=certs, capture_output=True, text=True)
        check(p.returncode == 0, f"openssl {args}: {p.stderr}")


def certificates():
    broken = lambda *args: doctor(*GOOD, *args, want=1)
    says(broken("--tls-ca", cert("absent.pem")), "tls-files", "failed", "absent.pem")
    says(broken("--tls-ca", cert("agent.token")), "tls-files", "failed", "agent.token")
    says(broken("--tls-key", cert("aggregator.key")), "tls-files", "failed", "is not the key of", "copy both")
    os.chmod(cert("agent-i-1.key"), 0o644)
    says(broken(), "tls-files", "failed", "chmod 600")
    os.chmod(cert("agent-i-1.key"), 0o600)
    found = doctor(*GOOD, "--instance-id", "i-2", want=3)
    says(found, "tls-files", "warning", "names i-1 and not this node, i-2", "meridian certs agent")
    run("certs", "agent", "i-3", "-d", certs, "--days", "2")
    found = doctor(*GOOD, "--instance-id", "i-3", "--tls-cert", cert("agent-i-3.pem"), "--tls-key", cert("agent-i-3.key"))
    says(found, "tls-files", "warning", "expires in ", "meridian certs renew")
    # Days that have passed, days that are left: less than a third of its life, less than 7 days, of an authority less than 30.
    for begin, end, authority, warned in ((-300, 100, False, True), (-300, 200, False, False), (-2, 8, False, False), (-1, 6, False, True), (-1, 8, False, False),
                                          (-400, 29, True, True), (-400, 31, True, False)):
        made = "ca-made.pem" if authority else "made.pem"
        aged(made, begin, end, authority)
        found = doctor(*GOOD, *(("--tls-ca", cert("ca-made.pem")) if authority else ("--tls-cert", cert("made.pem"))))
        says(found, "tls-files", "warning" if warned else "ok", f"{made} (i-1) " + ("expires in " if warned else "is valid for "))
    aged("ca-made.pem", -400, -1, True)
    says(broken("--tls-ca", cert("ca-made.pem")), "tls-files", "failed", "ca-made.pem (i-1) expired 1 day ago", "successor")
    with open(cert("both.pem"), "w") as both:
        for name in ("ca-made.pem", "ca.pem"):
            with open(cert(name)) as f:
                both.write(f.read())
    found = doctor(*GOOD, "--tls-ca", cert("both.pem"), want=3)
    says(found, "tls-files", "warning", "both.pem (i-1) expired 1 day ago", "successor")
    says(found, "tls-files", "ok", "both.pem (meridian CA) is valid for 36")
    with open(cert("both.pem"), "a") as both:
        both.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    says(broken("--tls-ca", cert("both.pem")), "tls-files", "failed", "both.pem: certificate 3 is damaged")
    subprocess.run("openssl req -new -key agent-i-1.key -subj /CN=i-1 | openssl x509 -req -CA ca.pem -CAkey ca.key "
                   "-CAcreateserial -days -1 -out old.pem", shell=True, cwd=certs, capture_output=True)
    if check(os.path.exists(cert("old.pem")), "openssl makes an expired certificate"):
        found = broken("--tls-cert", cert("old.pem"))
        says(found, "tls-files", "failed", "expired 1 day ago", "meridian certs renew")
        check(any(l == "failed" and ("it has expired" in s or "after the handshake" in s) for l, s, _ in found["aggregator"]),
              f"an aggregator that does not take the certificate: {found['aggregator']}")
    other = path("other")
    run("certs", "init", "-d", other)
    found = broken("--tls-ca", os.path.join(other, "ca.pem"))
    says(found, "aggregator", "failed", "is not signed by an authority in")
    says(found, "tls-files", "warning", "has signed")
    # Who joins has its certificate from the aggregator, which has an authority of its own for agents.
    found = broken("--tls-ca", os.path.join(other, "ca.pem"), "--join-token-file", secret("join.token", "x" * 40))
    equal([line for line in found["tls-files"] if "has signed" in line[1] or line[0] == "failed"], [], "the certificate of an agent that joins")
    says(found, "tls-files", "ok", "agent-i-1.pem (i-1) is valid for")
    says(broken("--tls-name", "elsewhere.example"), "aggregator", "failed", "and not the host that was asked for")


def addresses():
    equal(doctor("--aggregator", "tcp://192.0.2.1:7770", want=1)["aggregator"][0][0], "failed", "plain to another machine")
    closed = f"tcp://127.0.0.1:{free_port()}"
    found = doctor("--aggregator", closed, "--control", closed, want=1)
    says(found, "aggregator", "failed", "data port " + closed + ": no program listens there", "start meridian-aggregator")
    says(found, "aggregator", "failed", "control port " + closed + ": no program listens there")
    says(doctor("--aggregator", "tls+tcp://no.such.host.invalid:7770", "--tls-ca", cert("ca.pem"), want=1), "aggregator", "failed",
         "no.such.host.invalid", "resolver")
    says(doctor("--aggregator", plain, "--control", plain, want=1), "aggregator", "failed", "accepts the connection and does not answer",
         "tls+tcp://")
    with socket.socket() as s:  # takes connections and is silent
        s.bind(("127.0.0.1", 0))
        s.listen(8)
        mute = f"tls+tcp://127.0.0.1:{s.getsockname()[1]}"
        says(doctor(*GOOD, "--aggregator", mute, want=1), "aggregator", "failed", "accepts the connection and does not answer")
    says(doctor(), "aggregator", "warning", "no aggregator is given")


def of_the_agent():
    """The README's commands, then doctor without arguments: it checks the settings of the agent that runs. It runs alone, in a pid namespace."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
        print("left out: doctor beside one agent: no pid namespace can be made here")
        return
    folder("beside")
    script = (f"cd {path('beside')} && {{ {BIN}/meridian-agent --aggregator {plain} --spool-dir spool --no-imds --no-containers --ring-dir {folder('beside-rings')} 2>agent.log & "
              f"until grep -q meridian-agent /proc/$!/comm && [ -d spool ]; do kill -0 $! || exit 9; done; cd /; {BIN}/meridian doctor --json; kill $!; wait; }}")
    p = subprocess.run([*apart, "sh", "-c", script], capture_output=True, text=True, timeout=120, env=QUIET)
    found = {}
    for f in json.loads(p.stdout or '{"findings": []}')["findings"]:
        found.setdefault(f["check"], []).append((f["level"], f["message"], f.get("fix", "")))
    says(found, "agent", "ok", "its settings are checked") if os.geteuid() == 0 else None
    says(found, "spool", "ok", "spool")
    says(found, "ring-directory", "warning" if os.statvfs(work).f_fsid != os.statvfs("/dev/shm").f_fsid else "ok", "beside-rings")


def files():
    says(doctor(*GOOD, "--token-file", secret("short", "abc"), want=1), "token", "failed", "fewer than 16")
    says(doctor(*GOOD, "--token-file", secret("open", "a" * 32, 0o644), want=1), "token", "failed", "chmod 600")
    says(doctor(*GOOD, "--token-file", path("absent"), want=1), "token", "failed", "absent")
    says(doctor(*GOOD, "--spool-dir", folder("wide", 0o755)), "spool", "warning", "open to other users", "chmod 700")
    says(doctor(*GOOD, "--spool-size", "1000G"), "spool", "warning", "less than its bound of 1.07 TB")
    says(doctor(*GOOD, "--spool-dir", path("new", "deep")), "spool", "ok", "new/deep")
    check(not os.path.exists(path("new")), "the doctor makes no folder")
    says(doctor(*GOOD, "--spool-dir", secret("file", "x") + "/spool", want=1), "spool", "failed", "file")
    says(doctor(), "spool", "warning", "there is no spool")
    of_the_agent()
    says(doctor(*GOOD, "--ring-dir", path("no-rings"), want=1), "ring-directory", "failed", "No such file")
    if os.statvfs(work).f_fsid != os.statvfs("/dev/shm").f_fsid:
        says(doctor(*GOOD, "--ring-dir", folder("rings")), "ring-directory", "warning", "not in memory", "/dev/shm")
        first = path("a-proc", "1", "root") + path("rings")  # of a pod with the node's processes: /proc/1 has another folder there
        os.makedirs(os.path.dirname(first))
        os.symlink("/dev/shm", first)
        says(doctor(*GOOD[:-1], "--ring-dir", path("rings"), "--advanced.proc-root", path("a-proc")), "ring-directory", "ok", "of this container only")
    with open(os.path.join(folder("old-rings"), f"meridian.{'0' * 31}1.1.1.1.ring"), "w", encoding="utf-8"):
        says(doctor(*GOOD, "--ring-dir", path("old-rings")), "ring-directory", "warning", "of another boot", "remove them")
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen(1)
        says(doctor(*GOOD, "--metrics-port", str(s.getsockname()[1]), "--advanced.proc-root", folder("empty-proc"), want=1), "metrics-port",
             "failed", "cannot be used")
    equal(os.listdir(path("spool")), [], "nothing is left in the spool")


def runtimes():
    """Whether runtime and driver fit, and what of the runtime is not known."""
    # ---- runtime and driver, by the name of the library and the driver's version ----
    for runtime, driver, level, text in (("2.35.30.0", "2.31.7.0", "ok", "fit each other"), ("2.32.31.0", "2.26.1.0", "failed", "does not start on driver 2.26.1.0"),
                                         ("2.32.31.0", "2.29.0.0", "failed", "requires runtime 2.33"), ("2.35.30.0", "2.30.2.0", "warning", "require driver 2.31"),
                                         ("2.31.24.0", "2.27.4.0", "ok", "fit each other")):
        at, root = folder(f"runtime-{runtime}"), folder(f"sys-{driver}")
        shutil.copy(os.path.join(BUILD, "lib", "simnrt", "libnrt.so.1"), os.path.join(at, f"libnrt.so.{runtime}"))
        if not os.path.islink(os.path.join(at, "libnrt.so.1")):
            os.symlink(f"libnrt.so.{runtime}", os.path.join(at, "libnrt.so.1"))
        os.makedirs(os.path.join(root, "module", "neuron"), exist_ok=True)
        with open(os.path.join(root, "module", "neuron", "version"), "w") as f:
            f.write(driver + "\n")
        says(doctor(*GOOD, "--sys-root", root, env={"LD_LIBRARY_PATH": at}), "runtime-library", level, text)
    says(doctor(*GOOD, env={"LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "test-next")}), "runtime-library", "warning", "nrta_tensor_read@NRT_4.0.0", "not recorded")


def machine():
    """A /sys and a /proc of our own."""
    def tree(root, files):
        for name, text in files.items():
            at = path(root, name)
            os.makedirs(os.path.dirname(at), exist_ok=True)
            with open(at, "w") as f:
                f.write(text)
        return path(root)

    source = "devices/system/clocksource/clocksource0/"
    sys = tree("sys", {source + "current_clocksource": "hpet\n", source + "available_clocksource": "hpet acpi_pm\n",
                       "class/dmi/id/sys_vendor": "Amazon EC2\n", "class/dmi/id/product_name": "trn2.48xlarge\n",
                       "devices/virtual/neuron_device/neuron0/core_count": "2\n"})
    found = doctor(*GOOD, "--sys-root", sys, "--neuron-monitor", path("absent"))
    says(found, "clock-source", "warning", "reads time from hpet", "distrusts")
    says(found, "absolute-time", "ok", "no PTP clock for trn2.48xlarge", "precision-time placement group")
    says(found, "absolute-time", "ok", "ClockBound is not used")
    says(found, "neuron", "warning", "neuron-monitor is not on PATH", "aws-neuronx-tools")
    says(found, "neuron", "warning", "neuron-ls is not on PATH")
    listed, _ = run("doctor", "--counters", "--sys-root", sys, "--neuron-monitor", path("absent"))
    check("mem.MemTotal_bytes bytes\n" in listed and "cpu.all.user_ns ns, grows\n" in listed, f"counters of the node: {listed[:300]}")
    says(doctor(*GOOD, "--sys-root", path("nothing")), "clock-source", "warning", "cannot be read", "--sys-root")
    proc = tree("proc", {"4711/comm": "meridian-agent\n", "4711/status": "Name:\tmeridian-agent\nUid:\t991\t991\t991\t991\nCapEff:\t0000000000080000\n",
                         "self/attr/current": "docker-default (enforce)\n", "sys/kernel/yama/ptrace_scope": "3\n",
                         "cpuinfo": "processor\t: 0\nflags\t\t: fpu tsc msr\n"})
    found = doctor(*GOOD, "--advanced.proc-root", proc)
    says(found, "agent", "warning", "pid 4711, uid 991) has not CAP_DAC_OVERRIDE CAP_FOWNER", "deploy/systemd")
    says(found, "limits", "warning", "docker-default", "ptrace (read)")
    says(found, "limits", "ok", "ptrace_scope is 3, which does not matter")
    says(found, "clock-source", "warning", "changes its rate")
    tree("proc", {"4712/comm": "meridian-agent\n"})
    says(doctor(*GOOD, "--advanced.proc-root", proc), "agent", "warning", "2 agents run here: pids")
    says(doctor(*GOOD, "--advanced.proc-root", path("empty-proc")), "agent", "warning", "no meridian-agent runs", "systemctl start")


def settings():
    env = secret("agent.env", "# settings\nMERIDIAN_INSTANCE_ID=i-file\nMERIDIAN_SPOOL_DIR=\"" + path("spool") + "\"\n")
    says(doctor("--env-file", env), "identity", "ok", "i-file")
    says(doctor("--env-file", env, env={"MERIDIAN_INSTANCE_ID": "i-env"}), "identity", "ok", "i-env")
    says(doctor("--env-file", env, "--instance-id", "i-arg", env={"MERIDIAN_INSTANCE_ID": "i-env"}), "identity", "ok", "i-arg")
    conf = secret("agent.json", json.dumps({"instance-id": "i-conf", "spool-dir": path("spool")}))
    says(doctor("--config", conf), "identity", "ok", "i-conf")
    for args, text in ((["--env-file", path("absent")], "absent"), (["--agregator", "x"], "did you mean --aggregator"), (["node"], "unexpected argument"),
                       (["--spool-size", "1"], "spool-size"), (["--config", secret("bad.json", "{\"spol-dir\": 1}")], "spool-dir")):
        _, err = run("doctor", *args, want=2, env=QUIET)
        check(text in err, f"doctor {args}: {err}")
    out, _ = run("doctor", *GOOD, "--instance-id", "i-2", "-q", want=3, env=QUIET)
    check(not any(line.startswith("ok") for line in out.splitlines()) and "→ meridian certs agent" in out, f"quiet: {out}")
    out, _ = run("doctor", "--no-imds", want=3, env=QUIET)
    check("fine, " in out.splitlines()[-1] and "0 failed" in out.splitlines()[-1], f"the last line counts: {out[-200:]}")


try:
    good()
    certificates()
    addresses()
    files()
    runtimes()
    machine()
    settings()
finally:
    cluster.close()
    shutil.rmtree(work, ignore_errors=True)
finish()
