#!/usr/bin/env python3
"""Sources with code for one processor or one compiler pass clang as they pass gcc, so that the fuzz preset, which is clang's, builds:
each compiler knows builtins that the other does not. usage: clang.py COMPILE_COMMANDS"""
import json
import re
import shlex
import shutil
import subprocess
import sys

SPECIAL = re.compile(r"__builtin_cpu|__attribute__\(\(target|immintrin\.h|cpuid\.h|__asm__|\basm\b")


def command(entry):
    """The file's own options, with clang and without an output."""
    words, out = shlex.split(entry["command"]), []
    while "clang" not in words[0] and not re.search(r"(cc|gcc|c99)(-\d+)?$", words[0]):
        words.pop(0)  # a compiler cache
    for word in (w := iter(words[1:])):
        if word == "-o":
            next(w)
        elif word != "-c" and not word.startswith(("-fsanitize", "-fno-sanitize")):
            out.append(word)
    return ["clang", "-fsyntax-only", *out]


def main():
    if shutil.which("clang") is None:
        print("skipped: clang is not installed (scripts/setup.sh fuzz)")
        return 77
    seen, failed = set(), 0
    for entry in json.load(open(sys.argv[1])):
        path = entry["file"]
        if path in seen or not path.endswith(".c") or "/generated/" in path:
            continue
        seen.add(path)
        if not SPECIAL.search(open(path).read()):
            continue
        p = subprocess.run(command(entry), cwd=entry["directory"], capture_output=True, text=True)
        print("clang", path, "ok" if p.returncode == 0 else "FAILED")
        if p.returncode != 0:
            failed += 1
            print(p.stderr)
    return 1 if failed or not seen else 0


sys.exit(main())
