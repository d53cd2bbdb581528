#!/usr/bin/env python3
"""Tests that aggregator/core includes and calls nothing that does I/O, locks, starts threads or reads a clock.

The test checks the #include lines of its files and the symbols that its library imports. It also checks that every header of
the aggregator is short, and that the headers do not include each other in a circle.
"""
import os
import re
import subprocess
import sys

source = os.environ.get("MERIDIAN_SOURCE", ".")
core = os.path.join(source, "aggregator", "core")
library = sys.argv[1]
HEADER_MAX = 250
bad = []

# ---- Includes

PROJECT = re.compile(r"^(aggregator/core|base|proto|timesync)/")
BASE_BAD = {"base/sys/out.h", "base/sys/secret.h", "base/sys/user.h", "base/conf/conf.h", "base/sys/udpstamp.h"}
TRACE_GOOD = {"trace/model/catalog.h"}  # names of sources
PROTO_GOOD = {"proto/wire.h", "proto/frame.h", "proto/batch/gaps.h", "proto/selection.h", "proto/session_params.h", "proto/meridian.pb-c.h"}
SYSTEM_GOOD = {"stdio.h", "stdlib.h", "string.h", "stdint.h", "stdbool.h", "stddef.h", "stdarg.h", "inttypes.h", "math.h", "limits.h",
               "sys/timex.h"}  # constants of adjtimex


def includes(path):
    with open(path) as f:
        for line in f:
            m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)', line)
            if m:
                yield m.group(1), m.group(2)


for name in sorted(os.listdir(core)):
    if not name.endswith((".c", ".h")):
        continue
    for kind, what in includes(os.path.join(core, name)):
        if kind == "<":
            ok = what in SYSTEM_GOOD
        else:
            ok = what in TRACE_GOOD or bool(PROJECT.match(what)) and what not in BASE_BAD and (not what.startswith("proto/") or what in PROTO_GOOD)
        if not ok:
            bad.append(f"aggregator/core/{name} includes {what}")

# ---- Symbols

LIBC = {"abort", "calloc", "malloc", "realloc", "free", "qsort", "memcpy", "memmove", "memset", "memcmp", "memchr", "strcmp", "strncmp",
        "strlen", "strnlen", "strstr", "strchr", "strrchr", "strspn", "strcspn", "strtoll", "strtoull", "strtol", "strtoul", "snprintf",
        "vsnprintf", "fprintf", "fputs", "fwrite", "stderr", "strerror", "llabs"}  # fprintf to stderr: MRD_ASSERT, before abort
# By the C library under other names (fortified, C23) or by compiler and sanitizers.
COMPILER = re.compile(r"^(__(asan|ubsan|tsan|sanitizer|gcov|llvm)_|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__(mul|div|udiv|mod|umod)ti3|"
                      r"__(\w+)_chk$|__isoc\d+_|__sanitizer|__odr_asan|mcount|__fentry__)")
OURS = re.compile(r"^(mrd_(gaps|drop|buf|vec|str|strlist|utf8|json|map|num|hash64|why|err|wall_text|dur_text|fmt|follow|align|probe|epoch|coll|abs|"
                  r"version_commit|jobid|job_key|nearest|near|source_text|time_sane|types_(expand|set)|sat|agent_key|boot_key|instance_id|session_id|session_params?|select_(table|rows|fini|is_partial|takes_job)|frame_type)\w*|mrd__\w+)$")
OURS_BAD = re.compile(r"^mrd_(json_load|wall_now|local_now|random|log|out|write|make_dirs|sync_dir|server|link|journal|align_(save|load|file))")


def symbols(flag):
    out = subprocess.run(["nm", flag, library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.strip() and not line.rstrip().endswith(":")}


own = {s for s in symbols("--defined-only")}
for symbol in sorted(symbols("-u") - own):
    if symbol in LIBC or COMPILER.match(symbol):
        continue
    if OURS.match(symbol) and not OURS_BAD.match(symbol):
        continue
    bad.append(f"aggregator/core calls {symbol}")

# ---- Size and circles



def module(path):
    """A .c with its .h; what is inside of it (x_int.h) is of it."""
    return re.sub(r"_int$", "", path[:-2])


edges = {}
for top, _, names in os.walk(os.path.join(source, "aggregator")):
    for name in names:
        if not name.endswith((".c", ".h")):
            continue
        path = os.path.relpath(os.path.join(top, name), source)
        with open(os.path.join(source, path)) as f:
            n = sum(1 for _ in f)
        if name.endswith(".h") and n > HEADER_MAX:
            bad.append(f"{path} has {n} lines, more than {HEADER_MAX}")
        edges.setdefault(module(path), set()).update(
            module(what) for kind, what in includes(os.path.join(source, path)) if kind == '"' and what.startswith("aggregator/"))


def circle():
    """A path of files, each a .c with its .h, that leads back to its beginning; [] when there is none."""
    state = {}
    path = []

    def visit(at):
        state[at] = 1
        path.append(at)
        for to in sorted(edges.get(at, ())):
            if to == at:
                continue
            if state.get(to) == 1:
                return path[path.index(to):] + [to]
            if to not in state:
                found = visit(to)
                if found:
                    return found
        path.pop()
        state[at] = 2
        return []

    for start in sorted(edges):
        if start not in state:
            found = visit(start)
            if found:
                return found
    return []


found = circle()
if found:
    bad.append("a circle of files: " + " -> ".join(found))

for line in bad:
    print(line)
print(f"{len(own)} symbols, {len(edges)} files, {len(bad)} faults")
sys.exit(1 if bad else 0)
