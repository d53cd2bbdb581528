#!/usr/bin/python3
"""runc without what this laboratory has no right to: limits above the machine's own, and a negative oom_score_adj, take CAP_SYS_RESOURCE, which
containers that host a laboratory often lack. containerd calls it in runc's place; the rest of the bundle is as containerd wrote it."""
import json
import os
import sys


def rewrite(path, change):
    try:
        with open(path) as f:
            spec = json.load(f)
    except (OSError, ValueError):
        return
    change(spec)
    with open(path, "w") as f:
        json.dump(spec, f)


def process(p):
    p.pop("rlimits", None)
    if p.get("oomScoreAdj", 0) < 0:
        del p["oomScoreAdj"]


for i, word in enumerate(sys.argv[1:-1], 1):
    if word in ("--bundle", "-b"):
        rewrite(os.path.join(sys.argv[i + 1], "config.json"), lambda spec: process(spec["process"]))
    elif word in ("--process", "-p"):
        rewrite(sys.argv[i + 1], process)
os.execv("/usr/sbin/runc", ["/usr/sbin/runc", *sys.argv[1:]])
