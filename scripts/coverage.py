#!/usr/bin/env python3
"""Prints how many lines of each folder the tests of a coverage build ran, from what gcov says of each object.
usage: coverage.py BUILD_FOLDER [--files FOLDER]: with --files also each file of that folder, least covered first."""
import collections
import concurrent.futures
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("base", "trace", "capture", "hw", "sim", "timesync", "pki", "proto", "httpd", "agent", "aggregator", "cli")


def notes_of(build):
    """The note files of our own sources; objects that no test linked count as not run."""
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(build, folder)):
            yield from (os.path.join(at, name) for name in names if name.endswith(".gcno"))


def lines_of(build, notes):
    """(path, {line: runs}) of each of our files that went into one object."""
    got = subprocess.run(["gcov", "--stdout", "--json-format", notes], cwd=build, capture_output=True, text=True)
    for text in got.stdout.splitlines():
        said = json.loads(text)
        for file in said["files"]:
            path = os.path.relpath(os.path.join(said["current_working_directory"], file["file"]), ROOT)
            if path.split(os.sep)[0] in FOLDERS:
                yield path, {line["line_number"]: line["count"] for line in file["lines"]}


def gather(build):
    """{path: {line: runs}}: an inline function is run where any object ran it."""
    found = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for parts in pool.map(lambda notes: list(lines_of(build, notes)), notes_of(build)):
            for path, lines in parts:
                for line, runs in lines.items():
                    found[path][line] = max(runs, found[path].get(line, 0))
    return found


def show(name, files):
    lines = sum(len(f) for f in files)
    ran = sum(1 for f in files for runs in f.values() if runs > 0)
    print(f"{name:<40} {ran:7} of {lines:7} lines {100 * ran / max(lines, 1):6.1f} %")


def main():
    build = os.path.abspath(sys.argv[1])
    found = gather(build)
    if not found:
        sys.exit(f"coverage: {build} holds no notes of gcov: build it with `cmake --preset coverage`")
    if "--files" in sys.argv:
        inside = [p for p in found if p.startswith(sys.argv[sys.argv.index("--files") + 1])]
        share = lambda p: sum(1 for runs in found[p].values() if runs > 0) / max(len(found[p]), 1)
        for path in sorted(inside, key=share):
            show(path, [found[path]])
    folders = collections.defaultdict(list)
    for path, lines in found.items():
        folders[os.path.dirname(path)].append(lines)
    for folder in sorted(folders):
        show(folder, folders[folder])
    show("all", list(found.values()))


main()
