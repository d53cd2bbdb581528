"""`make kubelab` and `make slurmlab` where they cannot run: a message and status 0; where something failed, an error. The Makefile is the
real one, what it calls is planted. And `make help` lists every target that has a description."""
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SKIPS, FAILS, RUNS = (77, "skipped: planted reason"), (1, "planted failure"), (0, "planted run")
bad = []


def plant(top, path, outcome=(0, "")):
    path = os.path.join(top, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        if path.endswith(".py"):
            f.write(f"import sys\nprint({outcome[1]!r})\nsys.exit({outcome[0]})\n")
        else:
            f.write(f"#!/bin/sh\n[ -z '{outcome[1]}' ] || echo '{outcome[1]}'\nexit {outcome[0]}\n")
    os.chmod(path, 0o755)


def make(target, build, lab):
    with tempfile.TemporaryDirectory() as top:
        os.symlink(os.path.join(TOP, "Makefile"), os.path.join(top, "Makefile"))
        for program in ("bin/cmake", "bin/ctest", "scripts/setup.sh"):
            plant(top, program)
        plant(top, "tests/kubelab/build.sh", build)
        for name in ("kubelab", "slurmlab"):
            plant(top, f"tests/{name}/{name}.py", lab)
        env = {**os.environ, "PATH": os.path.join(top, "bin") + os.pathsep + os.environ["PATH"]}
        return subprocess.run(["make", "--no-print-directory", target], cwd=top, env=env, capture_output=True, text=True, timeout=60)


OK = (0, "")
for target, build, lab, good, said in (
        ("kubelab", OK, RUNS, True, RUNS), ("slurmlab", OK, RUNS, True, RUNS), ("kubelab", SKIPS, RUNS, True, SKIPS), ("kubelab", OK, SKIPS, True, SKIPS),
        ("slurmlab", OK, SKIPS, True, SKIPS), ("kubelab", FAILS, RUNS, False, FAILS), ("kubelab", OK, FAILS, False, FAILS), ("slurmlab", OK, FAILS, False, FAILS)):
    p = make(target, build, lab)
    if (p.returncode == 0) != good or p.stdout.strip() != said[1] or bool(p.stderr) == good:
        bad.append(f"make {target}, build.sh ends with {build[0]}, the laboratory with {lab[0]}: status {p.returncode}, {p.stdout!r}, {p.stderr!r}")
with open(os.path.join(TOP, "Makefile"), encoding="utf-8") as f:
    targets = re.findall(r"^([\w-]+):.*## ", f.read(), re.M)
listed = [line.split()[0] for line in make("help", OK, OK).stdout.splitlines()]
if listed != targets:
    bad.append(f"make help lists {listed}, of {targets}")
print("\n".join(bad) or "8 outcomes of the laboratories")
sys.exit(bool(bad))
