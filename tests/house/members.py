"""docs/reference/openapi.json names every member that the aggregator's answers can have: its schemas allow no others, so a program that checks answers by them
would refuse the rare ones (a full store, time that was not recorded) that no test of the API happens to see."""
import glob
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ("aggregator/core/*/*.c", "aggregator/api/http*.c", "aggregator/clock/clock_report.c")
OF_FILE = {"owner_keys"}  # in the file session.json, never in an answer
# Of objects whose schema allows any member: timex, phc, vmclock.
OPEN = {"freq_ppb", "maxerror_ns", "esterror_ns", "tai_s", "phc_ns", "error_ns"}
SET = re.compile(r'\bmrd_json_(?:set|put_hex)\(\s*[^,;]+,\s*"(\w+)"')
INSTANT = re.compile(r'\bmrd_json_put_instant\(\s*[^,;]+,\s*"(\w+)"')


def properties(node, into):
    if isinstance(node, dict):
        into |= set(node.get("properties", {}))
        for value in node.values():
            properties(value, into)
    elif isinstance(node, list):
        for value in node:
            properties(value, into)
    return into


with open(os.path.join(ROOT, "docs/reference/openapi.json"), encoding="utf-8") as f:
    schemas = properties(json.load(f)["components"]["schemas"], set())
written = {}
for pattern in SOURCES:
    for path in glob.glob(os.path.join(ROOT, pattern)):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for name in SET.findall(text):
            written.setdefault(name, os.path.relpath(path, ROOT))
        for name in INSTANT.findall(text):
            written.setdefault(name, os.path.relpath(path, ROOT))
            written.setdefault(name + "_ns", os.path.relpath(path, ROOT))
if len(written) < 100:
    sys.exit(f"FAILED only {len(written)} members were found in {', '.join(SOURCES)}: their writers are called otherwise now")
missing = sorted(set(written) - schemas - OF_FILE - OPEN)
for name in missing:
    print(f"FAILED {written[name]} writes \"{name}\", which no schema of docs/reference/openapi.json has")
print(f"{len(written)} members, {len(missing)} of them in no schema")
sys.exit(len(missing) > 0)
