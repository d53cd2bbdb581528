"""The rule `instants` finds each bare member that keeps a time, and nothing else: planted ones in a repository of its own."""
import os
import re
import subprocess
import sys
import tempfile

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules.py")
HEAD = ["#include <stdint.h>", "typedef struct {"]
REFUSED = {
    "timesync/a.h": ["    int64_t start_ns;", "    uint64_t ts;", "    int64_t begin, end;", "    _Atomic int64_t raw_ns;", "    const int64_t idle_since;",
                     "    int64_t seen_at;", "    struct {", "        long deadline;", "    } in;", "    int64_t *table; int64_t last_ns;", "    mrd_dur_ns said_at;",
                     "    int64_t times_ns[4];", "    _Atomic(int64_t) due;", "    volatile uint64_t newest_ns;", "    long long int first;"],
    "trace/analysis/f.h": ["    int64_t wait_ns;", "    uint64_t ts;"],
    "trace/model/event.h": ["    int64_t ts_ns;"],
    "timesync/b.c": ["    int64_t at; /* of the event */", "    union {", "        uint64_t wait_ns;", "    } u;"],
}
NOTHING = ("    struct {", "    union {", "    } in;", "    } u;")
ALLOWED = {
    "timesync/c.h": ["    mrd_local_ns start;", "    mrd_dur_ns wait_ns;", "    uint64_t first, last; /* offsets */", "    int64_t *end;", "    int64_t count; /* int64_t at_ns; */",
                     "    int64_t (*read_ns)(int64_t now_ns);", "    uint64_t pid_ns;", "    uint32_t radius_ns;",
                     "    long double first, last; /* in the file's unit */"],
    "trace/analysis/g.h": ["    uint64_t wait_ns;"],
    "tests/timesync/d.c": ["    int64_t at_ns;"],
    "sim/nrt/e.h": ["    int64_t last_ns;"],
}

with tempfile.TemporaryDirectory() as top:
    for path, lines in {**REFUSED, **ALLOWED}.items():
        os.makedirs(os.path.join(top, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(top, path), "w") as f:
            f.write("\n".join([*HEAD, *lines, "} planted;", "int64_t function(int64_t now_ns);"]) + "\n")
    subprocess.run(["git", "-C", top, "init", "-q"], check=True)
    subprocess.run(["git", "-C", top, "add", "-A"], check=True)
    p = subprocess.run([sys.executable, RULES, "instants"], env=dict(os.environ, MERIDIAN_SOURCE=top), capture_output=True, text=True)
got = set(re.findall(r"^FAILED (\S+:\d+): ", p.stdout, re.M))
want = {f"{path}:{n}" for path, lines in REFUSED.items() for n, line in enumerate(lines, len(HEAD) + 1) if line not in NOTHING}
print(f"{len(want)} planted members; missed: {sorted(want - got)}; refused though allowed: {sorted(got - want)}; exit status {p.returncode}")
sys.exit(got != want or p.returncode != 1)
