"""Tests that manifests and hooks use only what the programs know: options and variables exist,
labels match, and hooks succeed whatever happens. An aggregator and an agent must start with the
settings of the manifests."""
import glob
import hashlib
import json
import mmap
import os
import re
import resource
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request

from lib import BUILD, SOURCE, check, equal, finish, free_port, run, tmp, until
from wait import within

sys.path.insert(0, os.path.join(SOURCE, "tests/fake"))
from apiserver import ApiServer

K8S = os.path.join(SOURCE, "deploy/k8s")
SLURM = os.path.join(SOURCE, "deploy/slurm")
PROGRAMS = ("meridian-agent", "meridian-aggregator", "meridian-webhook")


def program(name):
    return os.path.join(BUILD, "bin", name)


def words_of_help(name):
    text = subprocess.run([program(name), "--help"], capture_output=True, text=True, timeout=60).stdout
    return set(re.findall(r"--[a-z][a-z-]+", text)), set(re.findall(r"MERIDIAN_[A-Z_]+", text))


HELP = {name: words_of_help(name) for name in PROGRAMS}


def env_file_ok(name, variables, where):
    for v in variables:
        check(v in HELP[name][1], f"{where}: {name} knows no {v}")


# ---- Slurm ----

def hook(path, **env):
    p = subprocess.run(["/bin/sh", path], capture_output=True, text=True, timeout=60, env=env)
    equal(p.returncode, 0, f"{os.path.basename(path)}: exit status with {env}: {p.stderr}")
    return p.stdout


def slurm():
    scripts = glob.glob(SLURM + "/**/*.sh", recursive=True)
    equal(len(scripts), 4, "shell scripts of Slurm")
    for s in scripts:
        p = subprocess.run(["sh", "-n", s], capture_output=True, text=True)
        check(p.returncode == 0 and os.access(s, os.X_OK), f"{s}: sh -n: {p.stderr}")
    text = open(SLURM + "/install.sh").read()
    roles = re.split(r'(?m)^if \[ "\$role" = agent \]; then$|^else$', text)[-2:]  # of the last condition
    for role, body in zip(("agent", "aggregator"), roles):
        names = re.findall(r'put "\$env" (\w+)', body)
        check(len(names) > 2, f"settings that install.sh writes for the {role}: {names}")
        env_file_ok("meridian-" + role, names + re.findall(r'folder \S+ "\$env" (\w+)', body), "install.sh")
    task_prolog()
    epilog()
    hook(SLURM + "/prolog.d/50_meridian.sh", SLURM_JOB_ID="7")
    settings_that_are_broken()
    no_room()
    heterogeneous()
    owners_folder()


def task_prolog():
    path, library = SLURM + "/task_prolog.sh", os.path.join(BUILD, "lib/libmeridian.so")
    on = {"MERIDIAN_CAPTURE": "all", "MERIDIAN_LIBRARY": library}
    equal(hook(path, MERIDIAN_LIBRARY=library), "", "a job that does not ask is left alone")
    equal(hook(path, MERIDIAN_ENABLE="0", **on), "", "nor one that says no")
    equal(hook(path, **on), f"export LD_PRELOAD={library}\n", "the library is preloaded")
    equal(hook(path, LD_PRELOAD="libc.so.6", **on), f"export LD_PRELOAD={library}:libc.so.6\n", "before others")
    check("not on this node" in hook(path, MERIDIAN_CAPTURE="all", MERIDIAN_LIBRARY="/absent.so"), "absent library")
    for env in (on, {"MERIDIAN_CAPTURE": "all", "MERIDIAN_LIBRARY": "/a b\nexport X=1"}, dict(on, LD_PRELOAD="libc.so.6 x")):
        for line in hook(path, **env).splitlines():
            check(re.fullmatch(r"export [A-Z_]+=\S+|print .+", line), f"a line that slurmstepd takes: {line!r}")


def epilog():
    """Where no agent runs, rings of the job's user go whose process has ended, and nothing else, whatever others name their files."""
    rings, gone = tmp(), subprocess.Popen(["true"])
    gone.wait()
    name = "meridian.%s.%d.1.%d.ring"
    dead, live = (os.path.join(rings, name % ("0" * 32, pid, pid)) for pid in (gone.pid, os.getpid()))
    second, other = dead.replace(".ring", ".1.ring"), os.path.join(rings, "other.ring")
    container = os.path.join(rings, name % ("1" * 32, gone.pid, 1))  # of another pid namespace, and mapped
    victim = tmp()
    hostile = [name % ("0" * 32, gone.pid, 1) + "\n" + name % ("0" * 32, gone.pid, 2), "meridian.\n" + os.path.basename(dead), name % ("\n", gone.pid, 1),
               name % ("0" * 32, gone.pid, 1) + " " + name % ("0" * 32, gone.pid, 2), name % ("0" * 31 + "*", gone.pid, 1)]
    kept = [os.path.join(rings, n) for n in hostile] + [live, other, container, os.path.join(victim, name % ("0" * 32, gone.pid, 2))]
    env = {"MERIDIAN_RING_DIR": rings, "MERIDIAN_JOB_DIR": os.path.join(rings, "jobs")}
    notes = [dead.split(".ring")[0].rsplit(".", 1)[0] + end for end in (".lost", ".lost.1", ".lost.new")]
    for path in notes:
        os.symlink("1 7 1 2 28 0 0 0 \n", path)
    for path in kept + [dead, second]:
        with open(path, "wb") as f:
            f.write(bytes(56) + (b"\1" * 8 if path == container else bytes(8)))
    os.symlink(victim, os.path.join(rings, name % ("2" * 32, gone.pid, 1)))
    os.symlink(kept[-1], os.path.join(rings, name % ("3" * 32, gone.pid, 1)))
    with open(container, "r+b") as f:
        mapped = mmap.mmap(f.fileno(), 0)
    run_epilog = lambda uid: subprocess.run(["/bin/sh", SLURM + "/epilog.d/50_meridian.sh"], cwd=victim, timeout=60, check=True,
                                            env=dict(env, SLURM_JOB_UID=uid, SLURM_JOB_ID="7"))
    for uid in ("", "1 -o 1", str(os.getuid() + 1)):
        run_epilog(uid)
        check(os.path.exists(dead), f"nothing of another user goes: {uid!r}")
    run_epilog(str(os.getuid()))
    until(lambda: not any(map(os.path.lexists, [dead, second, *notes])), "rings and notes of the dead process go")  # behind the hook, which waits for nothing
    equal([p for p in kept if not os.path.exists(p)], [], "files that are gone and should not be")
    mapped.close()
    run_epilog(str(os.getuid()))
    until(lambda: not os.path.exists(container), "the ring of another pid namespace goes when nothing maps it")
    equal([p for p in kept if p != container and not os.path.exists(p)], [], "files that are gone and should not be, afterwards")


def job_env(dir, **more):
    return {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_COMMENT": "meridian=stream", "MERIDIAN_JOB_DIR": dir + "/jobs",
            "MERIDIAN_OWNER_DIR": dir + "/owner", "MERIDIAN_JOB_COMMENT": "no", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **more}


def job_file(dir):
    try:
        with open(dir + "/jobs/7") as f:
            return dict(line.split("=", 1) for line in f.read().splitlines())
    except FileNotFoundError:
        return {}


def settings_that_are_broken():
    """What is in slurm.env cannot make a hook fail, which would drain the node; the job is recorded all the same."""
    for text in ("MERIDIAN_JOB_COMMENT=(", 'MERIDIAN_JOB_COMMENT="no', "exit 3", "set -eu", ". /absent", "${ABSENT?}", "shift 9", "readonly PATH", "A = 1"):
        dir = tmp()
        for name in ("prolog.d/50_meridian.sh", "task_prolog.sh", "epilog.d/50_meridian.sh"):
            with open(os.path.join(SLURM, name)) as f:
                of = f.read()
            check("/etc/meridian/slurm.env" in of, f"{name} reads the settings")
            for path, body in (("slurm.env", text + "\n"), ("hook", of.replace("/etc/meridian/slurm.env", dir + "/slurm.env"))):
                with open(os.path.join(dir, path), "w") as f:
                    f.write(body)
            hook(os.path.join(dir, "hook"), **job_env(dir))
            if name.startswith("prolog"):
                equal(job_file(dir).get("request"), "stream", f"the job's request with the settings {text!r}")


def no_room():
    """A full file system: the prolog leaves no half file, and the epilog's job is over all the same."""
    full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    dir = tmp()
    for name, made in (("prolog", None), ("epilog", True)):
        if made:
            hook(SLURM + "/prolog.d/50_meridian.sh", **job_env(dir))
            equal(job_file(dir)["request"], "stream", "there is room")
        p = subprocess.run(["/bin/sh", f"{SLURM}/{name}.d/50_meridian.sh"], env=job_env(dir), preexec_fn=full, restore_signals=False, capture_output=True, timeout=60)
        equal((p.returncode, os.listdir(dir + "/jobs")), (0, []), f"{name} without room: exit status, and what it leaves")
        equal(os.listdir(dir + "/owner"), [str(os.getuid())] if made else [], f"{name} without room: tokens")


def heterogeneous():
    """Each component's file is of the job that its processes name: the number of the first component."""
    for whole, want in (("7", ("7", "7")), ("5", ("5", "7")), ("0", ("7", None)), ("", ("7", None)), ("5;x", ("7", None))):
        dir = tmp()
        hook(SLURM + "/prolog.d/50_meridian.sh", **job_env(dir, SLURM_HET_JOB_ID=whole))
        equal((job_file(dir).get("job"), job_file(dir).get("component")), want, f"job and component with SLURM_HET_JOB_ID={whole!r}")


def owners_folder():
    """A token that a crash has left empty is made anew; a folder that hangs, or cannot be, costs the job its owner only."""
    dir = tmp()
    token = os.path.join(dir, "owner", str(os.getuid()))
    os.makedirs(dir + "/owner")
    open(token, "w").close()
    hook(SLURM + "/prolog.d/50_meridian.sh", **job_env(dir))
    with open(token) as f:
        text = f.read()
    check(re.fullmatch(r"[0-9a-f]{64}\n", text) and os.stat(token).st_mode & 0o777 == 0o400, f"a token: {len(text)} bytes")
    equal(job_file(dir).get("owner_key"), hashlib.sha256(text.strip().encode()).hexdigest(), "the key of the token")
    hook(SLURM + "/prolog.d/50_meridian.sh", **job_env(dir))
    with open(token) as f:
        equal(f.read(), text, "the token of the next job")
    os.remove(token)
    os.symlink("/etc/hostname", token)
    hook(SLURM + "/prolog.d/50_meridian.sh", **job_env(dir))
    equal((os.readlink(token), job_file(dir).get("owner_key")), ("/etc/hostname", None), "a link in the place of the token is left alone and is no token")
    with open(SLURM + "/prolog.d/50_meridian.sh") as f:
        of = f.read()
    at = 'mkdir -p "$1" && token='
    check(at in of, "where the prolog first touches the folder")
    with open(dir + "/hook", "w") as f:
        f.write(of.replace(at, "sleep 600; " + at))
    begun = time.monotonic()
    hook(dir + "/hook", **job_env(dir))
    check(time.monotonic() - begun < 30, "a folder that hangs is not waited for")
    equal((job_file(dir).get("request"), job_file(dir).get("owner_key")), ("stream", None), "the job, whose owner's folder hangs")
    open(dir + "/file", "w").close()
    hook(SLURM + "/prolog.d/50_meridian.sh", **job_env(dir, MERIDIAN_OWNER_DIR=dir + "/file/owner"))
    equal((job_file(dir).get("request"), job_file(dir).get("owner_key")), ("stream", None), "the job, whose owner's folder cannot be made")


# ParallelCluster's public schema (aws/aws-parallelcluster, cluster_schema.py), of the sections that the fragment has: the keys of each,
# those it must have with a "!", what values must match.
ACTIONS = {"OnNodeStart": None, "OnNodeConfigured": {"Script!": r"(s3|https)://\S+", "Args": [r".+"]}, "OnNodeUpdated": None}
IAM = {"InstanceRole": None, "InstanceProfile": None, "AdditionalIamPolicies": None,
       "S3Access": [{"BucketName!": r"[*a-z0-9.-]+", "KeyName": r".+", "EnableWriteAccess": None}]}
FRAGMENT = {
    "HeadNode": {"Iam": IAM, "CustomActions": ACTIONS},
    "Scheduling": {"Scheduler!": r"slurm", "SlurmSettings": {"CustomSlurmSettings": [{"TaskProlog": r"/.+", "PrologFlags": r"Alloc"}]},
                   "SlurmQueues": [{"Name!": r"[a-z][a-z0-9-]{0,24}", "Iam": IAM, "CustomActions": ACTIONS}]},
    "SharedStorage": [{"MountDir!": r"/(?!NONE$)\S+", "Name!": r"(?!default$)\S{1,30}", "StorageType!": r"Ebs|Efs|FsxLustre|FsxOpenZfs|FsxOntap|FileCache",
                       "FsxLustreSettings": {"FileSystemId": r"fs-[0-9a-z]{17}"}, "EbsSettings": None, "EfsSettings": None}],
}


def fits(doc, schema, where):
    if isinstance(schema, dict):
        if check(isinstance(doc, dict), f"{where} is no mapping"):
            known = {key.rstrip("!"): value for key, value in schema.items()}
            equal(sorted(set(doc) - set(known)), [], f"{where}: keys that the schema does not have")
            equal([key for key in schema if key.endswith("!") and key[:-1] not in doc], [], f"{where}: keys it must have")
            for key in set(doc) & set(known):
                fits(doc[key], known[key], f"{where}.{key}")
    elif isinstance(schema, list):
        if check(isinstance(doc, list) and doc, f"{where} is no list"):
            for i, item in enumerate(doc):
                fits(item, schema[0], f"{where}[{i}]")
    elif schema is not None:
        check(re.fullmatch(schema, str(doc)), f"{where}: {doc!r} does not match {schema}")


def parallelcluster():
    """The fragment has the schema's form; what it names agrees with itself and with install.sh."""
    try:
        import yaml
    except ImportError:
        print("skipped: the fragment for ParallelCluster: this Python has no yaml module")
        return
    with open(SLURM + "/parallelcluster.yaml") as f:
        doc = yaml.safe_load(f)
    fits(doc, FRAGMENT, "parallelcluster.yaml")
    queue, mounted = doc["Scheduling"]["SlurmQueues"][0], doc["SharedStorage"][0]["MountDir"]
    for where, part, role in (("HeadNode", doc["HeadNode"], "aggregator"), ("SlurmQueues", queue, "agent")):
        action = part["CustomActions"]["OnNodeConfigured"]
        access = [f"s3://{a['BucketName']}/{a['KeyName']}" for a in part["Iam"]["S3Access"]]
        check(action["Script"] in access, f"{where}: the node may not read {action['Script']}: {access}")
        check(action["Args"][0] == role and action["Args"][1].startswith(mounted + "/"), f"{where}: {action['Args']} below {mounted}")
    check(len(queue["CustomActions"]["OnNodeConfigured"]["Args"]) == 3, "the agent has an address")


# ---- systemd ----

def units():
    """Each unit gives its daemon the least, starts it with options it knows, and agrees with docs/explanation/security.md."""
    with open(os.path.join(SOURCE, "docs/explanation/security.md")) as f:
        security = f.read()
    for path in glob.glob(os.path.join(SOURCE, "deploy/systemd/*.service")):
        name = os.path.basename(path)[:-len(".service")]
        with open(path) as f:
            text = f.read()
        unit = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w+=", line))
        env_file_ok(name, re.findall(r"(?m)^Environment=(\w+)", text), "the unit")
        equal(len(unit["ExecStart"].split()), 1, f"{name}: words it starts; an option would stand before what the administrator's file says")
        least = dict(NoNewPrivileges="yes", ProtectSystem="strict", LimitCORE="0", UMask="0077", StateDirectoryMode="0700", User="meridian",
                     SystemCallFilter="@system-service", MemoryDenyWriteExecute="yes", ProtectKernelTunables="yes", RestrictNamespaces="yes")
        for key, value in least.items():
            equal(unit.get(key), value, f"{name}: {key}")
        check("-HUP" in unit.get("ExecReload", ""), f"{name}: ExecReload")
        rights = sorted(unit["CapabilityBoundingSet"].split())
        equal(rights, ["CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SYS_PTRACE"] if name == "meridian-agent" else [], f"{name}: rights")
        equal(sorted(unit.get("AmbientCapabilities", "").split()), rights, f"{name}: rights it starts with")
        check(all(f"`{r}`" in security for r in rights), f"{name}: docs/explanation/security.md says why {rights}")
        for option in re.findall(r"--[a-z-]+", unit["ExecStart"]):
            check(option in HELP[name][0], f"{name}: no option {option}")
        if shutil.which("systemd-analyze"):
            p = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60)
            for line in p.stderr.splitlines():  # the programs are not installed here, which it says too
                check("Unknown" not in line and "Failed to parse" not in line, f"{name}: {line}")


# ---- The image ----

def image():
    """The image has the packages of the libraries that the programs name, and no others; its list of contents is valid and the same twice."""
    with open(os.path.join(SOURCE, "deploy/image/Containerfile")) as f:
        last = f.read().split("FROM ${BASE}")[1]
    installed = re.search(r"--no-install-recommends ([^&]*)", last).group(1).replace("\\", " ").split()
    if shutil.which("dpkg-query") and shutil.which("readelf"):
        needed = set()
        for name in ("meridian", *PROGRAMS, "../lib/libmeridian.so"):
            text = subprocess.run(["readelf", "-d", program(name)], capture_output=True, text=True).stdout
            needed |= set(re.findall(r"NEEDED.*\[(.*)\]", text))
        paths = dict(re.findall(r"(\S+) => (/\S+)", "".join(
            subprocess.run(["ldd", program(name)], capture_output=True, text=True).stdout for name in ("meridian", *PROGRAMS))))
        of = {subprocess.run(["dpkg-query", "-S", "*/" + os.path.basename(os.path.realpath(paths[n]))], capture_output=True, text=True).stdout.split(":")[0] for n in needed if n in paths}
        equal(sorted(set(installed) - {"ca-certificates"}), sorted(p for p in of if p and not p.startswith("libc6")), "packages of the image, and of the libraries that its programs name")
        made = [subprocess.run(["sh", os.path.join(SOURCE, "deploy/image/sbom.sh")], capture_output=True, text=True, timeout=120,
                               env={"PATH": os.environ["PATH"], "VERSION": "1.2.3", "MERIDIAN_COMMIT": "abc", "SOURCE_DATE_EPOCH": "86400"}) for _ in range(2)]
        equal((made[0].returncode, made[0].stdout == made[1].stdout), (0, True), f"sbom.sh: {made[0].stderr}")
        doc = json.loads(made[0].stdout)
        equal((doc["spdxVersion"], doc["creationInfo"]["created"]), ("SPDX-2.3", "1970-01-02T00:00:00Z"), "list of contents")
        ids = [p["SPDXID"] for p in doc["packages"]]
        here = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Version}\n"], capture_output=True, text=True).stdout.splitlines()
        equal(sorted(f"{p['name']}\t{p['versionInfo']}" for p in doc["packages"][1:]), sorted(here), "packages listed")
        equal((len(set(ids)), {r["relatedSpdxElement"] for r in doc["relationships"]}), (len(ids), set(ids)), "identifiers are unique and described")
    else:
        print("skipped: the image's packages: this machine has no dpkg-query or readelf")
    labels = re.findall(r"org\.opencontainers\.image\.([a-z.]+)=", last)
    equal(sorted(labels), sorted(["title", "description", "version", "revision", "licenses", "base.name"]), "labels")


# ---- Kubernetes ----

def documents(folder):
    """The built manifests as JSON: kubectl itself converts them, so that no YAML reader is needed."""
    built = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60)
    if not check(built.returncode == 0, f"kubectl kustomize {folder}: {built.stderr}"):
        return []
    made = subprocess.run(["kubectl", "annotate", "--local", "-o", "json", "-f", "-", "test=1"], input=built.stdout,
                          capture_output=True, text=True, timeout=60)
    check(made.returncode == 0, f"{folder}: {made.stderr}")
    docs, at, decoder = [], 0, json.JSONDecoder()
    while made.stdout[at:].strip():
        at += len(made.stdout[at:]) - len(made.stdout[at:].lstrip())
        doc, at = decoder.raw_decode(made.stdout, at)
        docs.append(doc)
    equal(len(docs), len(re.findall(r"(?m)^kind:", built.stdout)), f"{folder}: documents read back")
    return docs


def labels_match(selector, pods):
    return any(selector.items() <= p["metadata"].get("labels", {}).items() for p in pods)


def container_ok(where, pod, c, configs):
    sec = c.get("securityContext", {})
    check(sec.get("allowPrivilegeEscalation") is False and sec.get("readOnlyRootFilesystem") is True and
          sec.get("capabilities", {}).get("drop") == ["ALL"] and not sec.get("privileged"), f"{where}: securityContext {sec}")
    check(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", f"{where}: seccomp")
    root = sec.get("runAsUser") == 0
    check(root or pod["securityContext"].get("runAsNonRoot") is True, f"{where}: runs as root by accident")
    equal(sec["capabilities"].get("add", []), ["SYS_PTRACE", "DAC_OVERRIDE"] if root else [], f"{where}: capabilities")
    check(re.search(r":[^:/]+$", c["image"]) and not c["image"].endswith(":latest"), f"{where}: image {c['image']}")
    check("memory" in c["resources"]["limits"] and "cpu" in c["resources"]["requests"], f"{where}: resources")
    volumes = {v["name"] for v in pod.get("volumes", [])} | {"store"}
    check({m["name"] for m in c.get("volumeMounts", [])} <= volumes, f"{where}: volumes")
    ports = {p["name"] for p in c.get("ports", [])}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        check(probe not in c or c[probe]["httpGet"]["port"] in ports, f"{where}: port of {probe}")
    name = os.path.basename(c.get("command", [""])[0])
    if name in PROGRAMS:
        for a in c.get("args", []):
            check(a.split("=")[0] in HELP[name][0], f"{where}: {name} has no option {a}")
        env = [e["name"] for e in c.get("env", [])]
        for ref in c.get("envFrom", []):
            env += configs[ref["configMapRef"]["name"]]
        env_file_ok(name, env, where)


def overlay_ok(folder):
    docs = documents(os.path.join(K8S, folder))
    of = lambda *kinds: [d for d in docs if d["kind"] in kinds]
    configs = {d["metadata"]["name"]: d["data"] for d in of("ConfigMap")}
    sets = of("DaemonSet", "StatefulSet", "Deployment", "Job")
    pods = [s["spec"]["template"] for s in sets]
    for s, pod in zip(sets, pods):
        where = f"{folder} {s['kind']}/{s['metadata']['name']}"
        check("selector" not in s["spec"] or labels_match(s["spec"]["selector"]["matchLabels"], [pod]), f"{where}: selector")
        check(pod["spec"].get("automountServiceAccountToken") is False, f"{where}: token of the service account")
        for c in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
            container_ok(where, pod["spec"], c, configs)
        budgets = [d["spec"]["selector"]["matchLabels"] for d in of("PodDisruptionBudget")]
        check(s["kind"] not in ("StatefulSet", "Deployment") or any(labels_match(b, [pod]) for b in budgets), f"{where}: no PodDisruptionBudget")
        if any("emptyDir" in v for v in pod["spec"].get("volumes", [])) and s["kind"] == "StatefulSet":
            check(any("ephemeral-storage" in c["resources"]["limits"] for c in pod["spec"]["containers"]), f"{where}: an emptyDir without ephemeral-storage")
    for agent in (s["spec"]["template"]["spec"] for s in sets if s["kind"] == "DaemonSet"):
        tolerated = {t.get("key") for t in agent["tolerations"]}
        check(tolerated == {None} or {"aws.amazon.com/neuron", "sagemaker.amazonaws.com/node-health-status", "CriticalAddonsOnly"} <= tolerated, f"{folder}: tolerations {tolerated}")
        terms = agent.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
        chosen = {(e["key"], v) for t in terms for e in t["matchExpressions"] for v in e["values"]}
        wanted = {("node.kubernetes.io/instance-type", "ml.trn1.32xlarge"), ("aws.amazon.com/neuron.present", "true"), ("neuron.amazonaws.com/present", "true")}
        check("eks" not in folder or wanted <= chosen, f"{folder}: nodes of HyperPod and of Neuron's labels: {sorted(wanted - chosen)}")
    for d in of("NetworkPolicy"):
        for rule in d["spec"].get("ingress", []) if d["metadata"]["name"] != "meridian-webhook" else []:  # no selector describes the API server
            check(rule.get("from") and all("podSelector" in peer and peer["podSelector"] for peer in rule["from"]),
                  f"{folder} NetworkPolicy/{d['metadata']['name']}: opens a whole namespace, or everything: {rule}")
    names = {p for t in pods for c in t["spec"]["containers"] for p in [x["name"] for x in c.get("ports", [])]}
    for d in of("Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
        where, spec = f"{folder} {d['kind']}/{d['metadata']['name']}", d["spec"]
        selector = spec.get("podSelector", spec.get("selector"))
        check(labels_match(selector.get("matchLabels", selector), pods), f"{where}: selects no pod")
        for p in [p for rule in spec.get("ingress", []) for p in rule["ports"]] + spec.get("podMetricsEndpoints", []):
            check(p["port"] in names, f"{where}: no port {p['port']}")
    return docs


def get(url, tls=None, patience=60):
    def ask():
        try:
            with urllib.request.urlopen(url, timeout=5, context=tls) as r:
                return r.status, r.read().decode()
        except OSError:
            return None
    return within(patience, ask) or (0, "")


def starts(docs):
    """Both programs with the manifests' variables: only ports, folders and the host are of this test."""
    data = {d["metadata"]["name"].rsplit("-", 1)[0]: dict(d["data"]) for d in docs if d["kind"] == "ConfigMap"}
    dir, host = tmp(), "meridian-aggregator.meridian.svc"
    certs = os.path.join(dir, "certs")
    run("certs", "init", "-d", certs, "--host", host)
    run("certs", "init", "-d", os.path.join(dir, "agents"))
    for name in ("pem", "key"):
        shutil.copy(os.path.join(dir, "agents", "ca." + name), os.path.join(certs, "agents." + name))
    with open(os.path.join(certs, "metrics.token"), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write("metrics-token-0123456789\n")
    os.chmod(os.path.join(certs, "tokens.json"), 0o440)  # as the kubelet leaves a Secret with fsGroup
    ports = {"7770": free_port(), "7771": free_port(), "7772": free_port(), "7773": free_port(), "7780": free_port()}

    def moved(value):
        value = value.replace("/etc/meridian", certs).replace("/var/lib", dir).replace("/var/run", dir).replace(host, "127.0.0.1")
        return re.sub(r"77[78]\d$", lambda m: str(ports[m.group()]), value)

    children, api = [], ApiServer(dir)
    private = lambda path, text: os.makedirs(os.path.dirname(path), exist_ok=True) or open(path, "w", opener=lambda p, flags: os.open(p, flags, 0o600)).write(text)
    settings = json.loads(next(v for name, files in data.items() for f, v in files.items() if f == "review.json"))
    private(dir + "/own.token", "aggregators-own-token-0123456789")
    private(moved(data["meridian-aggregator"]["MERIDIAN_TOKEN_REVIEW"]), json.dumps({**settings, "server": api.url, "ca-file": api.cert, "bearer-file": dir + "/own.token"}))
    private(moved(data["meridian-agent"]["MERIDIAN_JOIN_TOKEN_FILE"]), api.token("meridian", "meridian-agent", pod="meridian-agent-x", node="ip-10-0-0-1.ec2.internal"))
    try:
        for name in ("meridian-aggregator", "meridian-agent"):
            env = {k: moved(v) for k, v in data[name].items()}
            if name == "meridian-agent":
                env.update(MERIDIAN_CONTROL=f"tls+tcp://127.0.0.1:{ports['7771']}", MERIDIAN_RING_DIR=dir,
                           MERIDIAN_INSTANCE_ID="ip-10-0-0-1.ec2.internal", MERIDIAN_CONTAINERS="0")
            log = open(os.path.join(dir, name + ".log"), "w")
            os.makedirs(os.path.join(dir, name.replace("-aggregator", "")), exist_ok=True)
            children.append(subprocess.Popen([program(name)], env=env, stdout=log, stderr=log))
        tls = ssl.create_default_context(cafile=os.path.join(certs, "ca.pem"))
        for path in ("healthz", "readyz"):
            status, _ = get(f"https://127.0.0.1:{ports['7780']}/{path}", tls)
            equal(status, 200, path + ": " + open(os.path.join(dir, "meridian-aggregator.log")).read()[-600:])
        equal(get(f"http://127.0.0.1:{ports['7773']}/healthz")[0], 200, "health of the agent")
        numbers = urllib.request.Request(f"http://127.0.0.1:{ports['7773']}/metrics", headers={"Authorization": "Bearer metrics-token-0123456789"})
        status, text = get(numbers)
        check(status == 200 and "resident_memory_bytes" in text, "metrics of the agent")
        token = open(os.path.join(certs, "read.token")).read()
        nodes = urllib.request.Request(f"https://127.0.0.1:{ports['7780']}/api/v1/nodes", headers={"Authorization": "Bearer " + token})
        seen = within(60, lambda: "ip-10-0-0-1.ec2.internal" in get(nodes, tls, 0)[1])
        check(seen, "the agent came to the aggregator under the node's name: " + open(os.path.join(dir, "meridian-agent.log")).read()[-600:])
        check("by=account" in open(os.path.join(dir, "meridian-aggregator.log")).read(), "it proved its node by its account")
    finally:
        for c in children:
            c.terminate()
        for c in children:
            equal(c.wait(60), 0, "end after SIGTERM")
        api.shutdown()


def review_ok(docs):
    """The component token-review: the one right, of the account that the pod runs as; the files where the program looks for them; its settings load."""
    one = lambda kind: next(d for d in docs if d["kind"] == kind and "review" in d["metadata"]["name"])
    role, bound = one("ClusterRole"), one("ClusterRoleBinding")
    equal(role["rules"], [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}], "the right")
    pod = next(d for d in docs if d["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    equal((bound["roleRef"]["name"], [(s["kind"], s["name"], s["namespace"]) for s in bound["subjects"]]),
          (role["metadata"]["name"], [("ServiceAccount", pod["serviceAccountName"], "meridian")]), "is the aggregator's")
    mounts = {m["mountPath"]: m["name"] for m in pod["containers"][0]["volumeMounts"]}
    own = next(v for v in pod["volumes"] if v["name"] == mounts["/var/run/secrets/kubernetes.io/serviceaccount"])["projected"]
    equal((own["defaultMode"], [s["serviceAccountToken"]["path"] for s in own["sources"] if "serviceAccountToken" in s],
           [i["path"] for s in own["sources"] for i in s.get("configMap", {}).get("items", [])]), (0o440, ["token"], ["ca.crt"]), "its own token")
    settings, options = one("ConfigMap"), next(d["data"] for d in docs if d["kind"] == "ConfigMap" and d["metadata"]["name"].startswith("meridian-aggregator"))
    folder, file = os.path.split(options["MERIDIAN_TOKEN_REVIEW"])
    equal(next(v for v in pod["volumes"] if v["name"] == mounts[folder])["configMap"]["name"], settings["metadata"]["name"], "the settings' ConfigMap")
    dir = tmp()
    with open(os.path.join(dir, "review.json"), "w") as f:
        f.write(settings["data"][file])
    with open(os.path.join(dir, "tokens.json"), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write('{"read": ["reading-token-0123456789"]}')
    port = free_port()
    with open(os.path.join(dir, "log"), "w") as log:
        p = subprocess.Popen([program("meridian-aggregator"), "--store", dir + "/store", "--data-listen", f"tcp://127.0.0.1:{free_port()}", "--time-port", str(free_port()),
                              "--control-listen", f"tcp://127.0.0.1:{free_port()}", "--http-listen", f"127.0.0.1:{port}", "--tokens", dir + "/tokens.json",
                              "--token-review", dir + "/review.json"], env={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}, stdout=log, stderr=log)
        try:
            equal(get(f"http://127.0.0.1:{port}/readyz")[0], 200, "the settings of the component: " + open(log.name).read()[-600:])
        finally:
            p.terminate()
            p.wait(60)


slurm()
parallelcluster()
units()
image()
if shutil.which("kubectl"):
    for folder in ("base", "overlays/plain", "example", "example-two-nodes"):
        overlay_ok(folder)
    docs = overlay_ok("overlays/eks")
    starts(docs)
    both = os.path.join(tmp(), "deploy")  # a component is built as part of something
    shutil.copytree(K8S, both)
    with open(os.path.join(both, "overlays/plain/kustomization.yaml")) as f:
        text = f.read()
    with open(os.path.join(both, "overlays/plain/kustomization.yaml"), "w") as f:
        f.write(text.replace("components:\n", "components:\n  - ../../components/podmonitor\n  - ../../components/webhook\n  - ../../components/ingress\n"))
    os.makedirs(os.path.join(both, "overlays/shared"))
    with open(os.path.join(both, "overlays/shared/kustomization.yaml"), "w") as f:
        f.write(text.replace("../../components/token-review", "../../components/shared-token").replace("  - ../../components/agent-certificates\n", ""))
    K8S = both
    shared = {k: v for d in overlay_ok("overlays/shared") if d["kind"] == "ConfigMap" for k, v in d["data"].items()}
    equal((shared.get("MERIDIAN_TOKEN_FILE"), [k for k in shared if "JOIN" in k or "AGENT_CA" in k]), ("/etc/meridian/agent.token", []), "one token for all agents instead")
    docs = overlay_ok("overlays/plain")
    equal(len([d for d in docs if d["kind"] == "PodMonitor"]), 3, "PodMonitors")
    review_ok(docs)
    ingress = next(d for d in docs if d["kind"] == "Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    opened = next(d for d in docs if d["kind"] == "NetworkPolicy" and d["metadata"]["name"] == "meridian-ingress")["spec"]["ingress"][0]
    equal((ingress["name"], [p["port"] for p in opened["ports"]], [sorted(peer) for peer in opened["from"]]), ("meridian-http", ["https"], [["namespaceSelector", "podSelector"]]),
          "what an Ingress may reach")
    hook = next(d for d in docs if d["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]
    equal([e["value"] for e in hook["env"] if e["name"] == "MERIDIAN_WEBHOOK_IMAGE"], [hook["image"]], "the image from which pods get the library")
else:
    print("skipped: the manifests: kubectl is not installed")
finish()
